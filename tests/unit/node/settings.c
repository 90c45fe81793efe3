/* SPDX-License-Identifier: BSD-2-Clause */
/* Settings: each kind of value, each kind of mistake, and what wins over what. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/settings.h"

/* The environment of the test: one variable. */
static const char *variable;
static const char *value;

static uint32_t complaints;
static char complaint[1024];

static const char *environment(const char *name)
{
    return variable != NULL && strcmp(name, variable) == 0 ? value : NULL;
}

static void complain(const char *sentence)
{
    complaints++;
    snprintf(complaint, sizeof(complaint), "%s", sentence);
}

static struct settings read_from(const char *file, const char *name, const char *text)
{
    const struct settings_source source = {
        .environment = environment,
        .file = file,
        .file_wanted = true,
        .complain = complain,
    };
    struct settings s;

    variable = name;
    value = text;
    complaints = 0;
    complaint[0] = '\0';
    settings_read(&source, &s);
    return s;
}

static struct settings with(const char *name, const char *text)
{
    return read_from(NULL, name, text);
}

static void write_file(char path[64], const char *text)
{
    int fd;

    strcpy(path, "/tmp/uroce-settings-XXXXXX");
    fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

static struct settings with_file(const char *text, const char *name, const char *from_environment)
{
    char path[64];
    struct settings s;

    write_file(path, text);
    s = read_from(path, name, from_environment);
    unlink(path);
    return s;
}

static void without_anything_the_defaults_hold(void **state)
{
    struct settings s = with(NULL, NULL);

    (void)state;
    assert_string_equal(s.devices, "");
    assert_int_equal(s.log_level, LOG_LEVEL_SILENT);
    assert_true(s.gso);
    assert_true(s.gro);
    assert_true(s.bpf);
    assert_true(s.guests);
    assert_int_equal(s.send_sockets, 16);
    assert_true(s.receive_buffer == SETTING_AUTO);
    assert_true(s.window == SETTING_AUTO);
    assert_int_equal(s.timeout_floor_ms, 20);
    assert_true(s.datagram_rate_bps == SETTING_AUTO);
    assert_int_equal(s.rd_atomic, 16);
    assert_int_equal(s.vendor_part_id, 0);
    assert_int_equal(complaints, 0);
}

static void good_values_are_taken(void **state)
{
    (void)state;
    assert_false(with("UROCE_GSO", "off").gso);
    assert_false(with("UROCE_GRO", "No").gro);
    assert_false(with("UROCE_BPF", "0").bpf);
    assert_true(with("UROCE_RAW", "on").raw);
    assert_false(with("UROCE_GUESTS", "off").guests);
    assert_int_equal(with("UROCE_LOG", "debug").log_level, LOG_LEVEL_DEBUG);
    assert_int_equal(with("UROCE_SEND_SOCKETS", "64").send_sockets, 64);
    assert_int_equal(with("UROCE_RCVBUF", "16K").receive_buffer, 16384);
    assert_int_equal(with("UROCE_RCVBUF", "2m").receive_buffer, 2u << 20);
    assert_true(with("UROCE_WINDOW", "AUTO").window == SETTING_AUTO);
    assert_int_equal(with("UROCE_TIMEOUT_FLOOR_MS", "0").timeout_floor_ms, 0);
    assert_true(with("UROCE_DATAGRAM_RATE", "25G").datagram_rate_bps == 25000000000u);
    assert_int_equal(with("UROCE_DATAGRAM_RATE", "0").datagram_rate_bps, 0);
    assert_int_equal(with("UROCE_RD_ATOMIC", "128").rd_atomic, 128);
    assert_int_equal(with("UROCE_SPIN", "0").spin, 0);
    assert_int_equal(with("UROCE_VENDOR_PART_ID", "0x1017").vendor_part_id, 4119);
    assert_string_equal(with("UROCE_DEVICES", "eth0,lo").devices, "eth0,lo");
    assert_int_equal(complaints, 0);
}

static void a_wrong_value_is_said_and_the_default_stays(void **state)
{
    static const struct {
        const char *name;
        const char *text;
    } wrong[] = {
        {"UROCE_GSO", "perhaps"},
        {"UROCE_LOG", "loud"},
        {"UROCE_SEND_SOCKETS", "0"},
        {"UROCE_SEND_SOCKETS", "65"},
        {"UROCE_SEND_SOCKETS", "-1"},
        {"UROCE_SEND_SOCKETS", "+1"},
        {"UROCE_SEND_SOCKETS", " 1"},
        {"UROCE_SEND_SOCKETS", "8x"},
        {"UROCE_SEND_SOCKETS", "8K"},
        {"UROCE_SEND_SOCKETS", "auto"},
        {"UROCE_RCVBUF", "1"},
        {"UROCE_RCVBUF", "2G"},
        {"UROCE_RCVBUF", "99999999999999999999999"},
        {"UROCE_RCVBUF", "18446744073709551615G"},
        {"UROCE_RCVBUF", "16KB"},
        {"UROCE_WINDOW", "0x"},
        {"UROCE_WINDOW", "K"},
        {"UROCE_TIMEOUT_FLOOR_MS", "60001"},
        {"UROCE_DATAGRAM_RATE", "fast"},
        {"UROCE_RD_ATOMIC", "129"},
        {"UROCE_VENDOR_PART_ID", "4294967296"},
    };
    struct settings untouched = with(NULL, NULL);

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct settings s = with(wrong[i].name, wrong[i].text);

        assert_memory_equal(&s, &untouched, sizeof(s));
        assert_int_equal(complaints, 1);
        assert_non_null(strstr(complaint, wrong[i].name));
        assert_non_null(strstr(complaint, wrong[i].text));
        assert_non_null(strstr(complaint, "should be"));
    }
}

static void a_complaint_is_one_line_that_names_all(void **state)
{
    (void)state;
    with("UROCE_SEND_SOCKETS", "many");
    assert_string_equal(complaint, "UROCE_SEND_SOCKETS is 'many' and should be a number from 1 to "
                                   "64; it is ignored");
}

static void a_text_that_is_too_long_is_refused(void **state)
{
    char text[SETTING_TEXT_SIZE + 1];

    (void)state;
    memset(text, 'x', sizeof(text));
    text[SETTING_TEXT_SIZE] = '\0';
    assert_string_equal(with("UROCE_DEVICES", text).devices, "");
    assert_int_equal(complaints, 1);
    text[SETTING_TEXT_SIZE - 1] = '\0';
    assert_string_equal(with("UROCE_DEVICES", text).devices, text);
    assert_int_equal(complaints, 0);
}

static void faults_and_recordings_have_room_for_long_texts(void **state)
{
    char rules[SETTING_RULES_SIZE];
    char path[SETTING_PATH_SIZE];

    (void)state;
    memset(rules, 'x', sizeof(rules) - 1);
    rules[sizeof(rules) - 1] = '\0';
    memset(path, 'y', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_string_equal(with("UROCE_FAULT", rules).fault, rules);
    assert_string_equal(with("UROCE_RECORD", path).record, path);
    assert_int_equal(complaints, 0);
    assert_int_equal(with("UROCE_RECORD_LIMIT", "64M").record_limit, 64u << 20);
    assert_int_equal(with("UROCE_RECORD_FILES", "4").record_files, 4);
    assert_int_equal(with("UROCE_RECORD_FILES", "0").record_files, 1);
    assert_int_equal(complaints, 1);
}

static void an_empty_variable_is_as_none(void **state)
{
    (void)state;
    assert_int_equal(with("UROCE_SEND_SOCKETS", "").send_sockets, 16);
    assert_int_equal(complaints, 0);
}

static void a_file_takes_both_forms_of_a_name(void **state)
{
    struct settings s =
        with_file("; a comment\n[uroce]\nUROCE_GSO = off\nsend_sockets = 4\n", NULL, NULL);

    (void)state;
    assert_false(s.gso);
    assert_int_equal(s.send_sockets, 4);
    assert_int_equal(complaints, 0);
}

static void the_environment_wins_over_the_file(void **state)
{
    (void)state;
    assert_int_equal(with_file("send_sockets = 4\n", "UROCE_SEND_SOCKETS", "5").send_sockets, 5);
    assert_int_equal(with_file("send_sockets = 4\n", "UROCE_SEND_SOCKETS", "x").send_sockets, 4);
}

static void mistakes_in_a_file_name_the_file(void **state)
{
    (void)state;
    assert_int_equal(with_file("send_sockets = 400\n", NULL, NULL).send_sockets, 16);
    assert_int_equal(complaints, 1);
    assert_non_null(strstr(complaint, "/tmp/uroce-settings-"));
    with_file("sendsockets = 4\n", NULL, NULL);
    assert_int_equal(complaints, 1);
    assert_non_null(strstr(complaint, "'sendsockets' is not a setting"));
    with_file("gso = off\nnonsense\n", NULL, NULL);
    assert_int_equal(complaints, 1);
    assert_non_null(strstr(complaint, "line 2 "));
}

static void a_file_of_mistakes_is_said_in_a_few_lines(void **state)
{
    char text[4000] = "";
    struct settings s;

    (void)state;
    for (uint32_t i = 0; i < 500; i++)
        strcat(text, i % 2 ? "a = b\n" : "c\n");
    strcat(text, "send_sockets = 4\n");
    s = with_file(text, NULL, NULL);
    assert_in_range(complaints, 2, 20);
    assert_int_equal(s.send_sockets, 16);
}

static void what_is_no_file_or_too_long_is_not_read(void **state)
{
    const char *const paths[] = {"/dev/zero", "/dev/stdin", "/tmp"};
    char path[64];

    (void)state;
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        read_from(paths[i], NULL, NULL);
        assert_int_equal(complaints, 1);
        assert_non_null(strstr(complaint, paths[i]));
    }
    write_file(path, "");
    assert_int_equal(truncate(path, (off_t)1 << 40), 0);
    read_from(path, NULL, NULL);
    unlink(path);
    assert_int_equal(complaints, 1);
}

static void a_wanted_file_that_is_missing_is_said(void **state)
{
    (void)state;
    read_from("/tmp/uroce-no-such-file", NULL, NULL);
    assert_int_equal(complaints, 1);
    assert_non_null(strstr(complaint, "/tmp/uroce-no-such-file"));
}

static void every_default_is_a_good_value_of_its_setting(void **state)
{
    struct setting_description d;
    struct settings untouched = with(NULL, NULL);

    (void)state;
    for (uint32_t i = 0; settings_describe(i, &d); i++) {
        struct settings s = with(d.name, d.fallback);

        assert_int_equal(complaints, 0);
        assert_memory_equal(&s, &untouched, sizeof(s));
        assert_true(strlen(d.values) > 0);
        assert_true(strlen(d.meaning) > 0);
    }
}

/* Each row of the settings' own table with each of these, so that a new setting is covered too. */
static void each_setting_refuses_nonsense_in_one_clear_line(void **state)
{
    static char huge[6000];
    const char *const nonsense[] = {
        "nonsense",
        "nan",
        "inf",
        "-1",
        "+1",
        "1e3",
        "0x",
        "0xg",
        "1.5",
        "12 apples",
        "1KB",
        "1 K",
        "K",
        "10s",
        "99999999999999999999999",
        "18446744073709551616",
        "999999999G",
        " ",
        " 1",
        "1 ",
        "auto ",
        "on off",
        "1,2",
        "%s%n",
        "\xff\xfe",
        "\xc3\x28",
        /* not even in a text */
        "\n",
        "a\nb",
        "1\n",
        "on\r",
        "\x1b[31mred",
        "\x7f",
        "\a",
        huge,
    };
    const uint32_t texts = 26; /* those before are fine for a text */
    struct settings defaults = with(NULL, NULL);
    struct setting_description d;

    (void)state;
    memset(huge, 'x', sizeof(huge) - 1);
    for (uint32_t index = 0; settings_describe(index, &d); index++) {
        bool is_text;

        with(d.name, "nonsense");
        is_text = complaints == 0;
        for (uint32_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
            struct settings s = with(d.name, nonsense[i]);

            if (is_text && i < texts) {
                assert_int_equal(complaints, 0);
                continue;
            }
            if (complaints != 1)
                fail_msg("%s='%.40s' gives %u complaints", d.name, nonsense[i], complaints);
            assert_non_null(strstr(complaint, d.name));
            assert_non_null(strstr(complaint, d.values));
            assert_memory_equal(&s, &defaults, sizeof(s));
            for (const char *c = complaint; *c != '\0'; c++)
                assert_false((unsigned char)*c < ' ' || *c == 0x7f);
        }
    }
}

static void a_value_can_be_checked_for_whoever_gave_it(void **state)
{
    char sentence[SETTING_SENTENCE_SIZE] = "";

    (void)state;
    assert_int_equal(setting_check("UROCE_RECORD_LIMIT", "1M", "--record-limit", sentence), 0);
    assert_string_equal(sentence, "");
    assert_int_equal(setting_check("UROCE_RECORD_LIMIT", "1x\n", "--record-limit", sentence),
                     -EINVAL);
    assert_string_equal(
        sentence, "--record-limit is '1x?' and should be a number of bytes from 64K to 1024G");
    assert_int_equal(setting_check("UROCE_RECORD", "", "--record", sentence), -EINVAL);
    assert_int_equal(setting_check("UROCE_RECROD", "a", "it", sentence), -ENOENT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_anything_the_defaults_hold),
        cmocka_unit_test(good_values_are_taken),
        cmocka_unit_test(a_wrong_value_is_said_and_the_default_stays),
        cmocka_unit_test(a_complaint_is_one_line_that_names_all),
        cmocka_unit_test(a_value_can_be_checked_for_whoever_gave_it),
        cmocka_unit_test(a_text_that_is_too_long_is_refused),
        cmocka_unit_test(each_setting_refuses_nonsense_in_one_clear_line),
        cmocka_unit_test(faults_and_recordings_have_room_for_long_texts),
        cmocka_unit_test(an_empty_variable_is_as_none),
        cmocka_unit_test(a_file_takes_both_forms_of_a_name),
        cmocka_unit_test(the_environment_wins_over_the_file),
        cmocka_unit_test(mistakes_in_a_file_name_the_file),
        cmocka_unit_test(a_file_of_mistakes_is_said_in_a_few_lines),
        cmocka_unit_test(what_is_no_file_or_too_long_is_not_read),
        cmocka_unit_test(a_wanted_file_that_is_missing_is_said),
        cmocka_unit_test(every_default_is_a_good_value_of_its_setting),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
