/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A responder that is none: whatever it says or does not say ends the script
 * with one line, and is not taken for the answer of a later question. In a network
 * namespace of its own, where port 4791 is free.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <cmocka.h>

#include "script/subject.h"
#include "../verbs/fixture.h"

#define SCRIPT "title t\nrule r\nqp rc\nmemory buf size=64\nholds buf bytes=00000000\nstate RTS\n"
#define OPENED "ok 11 1000 5 5\n"

static char port[8];
static int listener;

/* Answers each line of one connection by the next of the answers; then hangs up. */
static void answer(int fd, const char *const *answers)
{
    char byte;

    for (; *answers != NULL; answers++) {
        do {
            if (read(fd, &byte, 1) != 1)
                return;
        } while (byte != '\n');
        if (write(fd, *answers, strlen(*answers)) < 0)
            return;
    }
}

/* Plays a script against who gives these answers. Returns what was said. */
static enum script_verdict play(const char *const *answers, char *said, size_t size)
{
    char error[SCRIPT_ERROR_SIZE];
    struct script_options options = {.psn = 1000};
    struct subject *subject;
    enum script_verdict v;
    struct script s;
    pid_t child = fork();

    if (child == 0) {
        answer(accept(listener, NULL, NULL), answers);
        _exit(0);
    }
    assert_true(child > 0);
    subject = remote_subject_new("127.0.0.1", port, error);
    if (subject == NULL)
        fail_msg("%s", error);
    assert_int_equal(script_parse("x.roce", SCRIPT, strlen(SCRIPT), &s, error), 0);
    options.out = fmemopen(said, size, "w");
    assert_non_null(options.out);
    v = script_run(&s, subject, &options);
    fclose(options.out);
    script_free(&s);
    remote_subject_free(subject);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    return v;
}

static char endless[9000];

static void answers_that_are_none_end_the_script(void **state)
{
    static const struct {
        const char *answers[6];
        enum script_verdict verdict;
        const char *said;
    } rows[] = {
        {{NULL}, SCRIPT_BROKEN, "Connection reset by peer"},
        {{"\n", NULL}, SCRIPT_BROKEN, "Protocol error"},
        {{"yes\n", NULL}, SCRIPT_BROKEN, "Protocol error"},
        {{"error 5f no such thing\n", NULL}, SCRIPT_SKIPPED, "no such thing"},
        {{"error ffffffffffffffff x\n", NULL}, SCRIPT_BROKEN, " x"},
        {{endless, NULL}, SCRIPT_BROKEN, "Protocol error"},
        {{OPENED, "ok \n", NULL}, SCRIPT_BROKEN, "Protocol error"},
        {{OPENED, "ok 000000\n", NULL}, SCRIPT_BROKEN, "Protocol error"},
        {{OPENED, "ok 0000000g\n", NULL}, SCRIPT_BROKEN, "Protocol error"},
        {{OPENED, "ok 00000000\n", NULL}, SCRIPT_BROKEN, "Connection reset by peer"},
        {{OPENED, "ok 00000000\n", "ok 3\n", "ok 0\n", "ok 0\n", NULL}, SCRIPT_PASSED, ""},
    };

    (void)state;
    memset(endless, 'k', sizeof(endless) - 1);
    endless[0] = 'o';
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char said[4096] = "";

        if (play(rows[i].answers, said, sizeof(said)) != rows[i].verdict ||
            strstr(said, rows[i].said) == NULL)
            fail_msg("row %zu: %s", i, said);
    }
}

static int listen_here(void **state)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(any);

    (void)state;
    enter_namespace();
    signal(SIGPIPE, SIG_IGN);
    listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&any, len) != 0 ||
        listen(listener, 4) != 0 || getsockname(listener, (struct sockaddr *)&any, &len) != 0)
        return -1;
    snprintf(port, sizeof(port), "%u", ntohs(any.sin_port));
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_that_are_none_end_the_script),
    };

    return cmocka_run_group_tests(tests, listen_here, NULL);
}
