/* SPDX-License-Identifier: BSD-2-Clause */
/* What arrives on standard error, each case in a child with its own environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"

#define OUTPUT_MAX 4096

/* Runs say in a child under UROCE_LOG=level and returns what it printed. */
static const char *output_of(const char *level, void (*say)(void))
{
    static char output[OUTPUT_MAX + 1];
    size_t len = 0;
    ssize_t got;
    int ends[2];
    int status;
    pid_t child;

    assert_int_equal(pipe(ends), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (level != NULL)
            setenv("UROCE_LOG", level, 1);
        else
            unsetenv("UROCE_LOG");
        dup2(ends[1], STDERR_FILENO);
        say();
        _exit(0);
    }
    close(ends[1]);
    while ((got = read(ends[0], output + len, OUTPUT_MAX - len)) > 0)
        len += (size_t)got;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    output[len] = '\0';
    return output;
}

static void say_all(void)
{
    log_error("qp 0x%06x", 0x11);
    log_warn("two");
    log_info("three");
    log_debug("four");
}

static void say_by_set_level(void)
{
    log_level_set(LOG_LEVEL_WARN);
    say_all();
}

static void say_much(void)
{
    char text[3000];

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    log_error("%s", text);
    log_error("after");
}

static void say_and_keep_errno(void)
{
    errno = ENOENT;
    log_error("%m");
    if (errno != ENOENT)
        _exit(1);
    close(STDERR_FILENO);
    log_error("to nobody");
    if (errno != ENOENT)
        _exit(1);
}

static void nothing_is_printed_unless_asked_for(void **state)
{
    (void)state;
    assert_string_equal(output_of(NULL, say_all), "");
    assert_string_equal(output_of("", say_all), "");
    assert_string_equal(output_of("loud", say_all), "");
}

static void messages_up_to_the_level_are_printed(void **state)
{
    (void)state;
    assert_string_equal(output_of("error", say_all), "uroce: qp 0x000011\n");
    assert_string_equal(output_of("info", say_all),
                        "uroce: qp 0x000011\nuroce: two\nuroce: three\n");
    assert_string_equal(output_of("debug", say_all),
                        "uroce: qp 0x000011\nuroce: two\nuroce: three\nuroce: four\n");
}

static void a_level_that_was_set_replaces_the_environment(void **state)
{
    (void)state;
    assert_string_equal(output_of("debug", say_by_set_level), "uroce: qp 0x000011\nuroce: two\n");
}

static void a_long_message_is_cut_but_stays_a_line(void **state)
{
    const char *output = output_of("error", say_much);
    const char *end = strchr(output, '\n');

    (void)state;
    assert_non_null(end);
    assert_string_equal(end, "\nuroce: after\n");
    assert_in_range(end - output, 512, 1024);
}

static void errno_survives_a_message(void **state)
{
    (void)state;
    assert_string_equal(output_of("error", say_and_keep_errno),
                        "uroce: No such file or directory\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_printed_unless_asked_for),
        cmocka_unit_test(messages_up_to_the_level_are_printed),
        cmocka_unit_test(a_level_that_was_set_replaces_the_environment),
        cmocka_unit_test(a_long_message_is_cut_but_stays_a_line),
        cmocka_unit_test(errno_survives_a_message),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
