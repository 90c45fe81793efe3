/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The runner itself: what does not hold fails the script, at its line, with
 * what was expected and what came; and a change of any expectation is seen.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "script/script.h"
#include "script/subject.h"

#define HEAD "title t\nrule r\nqp rc mtu=256 timeout=10 retry=1\nmemory buf size=64\n"
#define SEND "post recv id=1 at=buf len=64\n< SEND_ONLY psn=rpsn ackreq len=16 data=7\n"
#define ACKED "> ACK psn=rpsn ack msn=1\n"
#define TAKEN "completion id=1 status=success\n"

static struct subject *subject;
static char *told;
static size_t told_len;

static enum script_verdict play_at(const char *text, uint32_t psn, uint32_t mutation)
{
    struct script_options options = {.psn = psn};
    char error[SCRIPT_ERROR_SIZE];
    struct script s;
    enum script_verdict v;
    uint32_t line;

    free(told);
    told = NULL;
    if (script_parse("x.roce", text, strlen(text), &s, error) != 0)
        fail_msg("%s", error);
    if (mutation != SCRIPT_NONE)
        script_mutate(&s, mutation, &line);
    options.out = open_memstream(&told, &told_len);
    assert_non_null(options.out);
    v = script_run(&s, subject, &options);
    fclose(options.out);
    script_free(&s);
    return v;
}

static enum script_verdict play(const char *text)
{
    return play_at(text, 1000, SCRIPT_NONE);
}

static void what_holds_passes_in_silence(void **state)
{
    (void)state;
    assert_int_equal(play(HEAD SEND ACKED TAKEN "holds buf len=16 data=7\nstate RTS\n"),
                     SCRIPT_PASSED);
    assert_string_equal(told, "");
}

static void what_does_not_hold_fails_at_its_line(void **state)
{
    static const struct {
        const char *text;
        const char *said;
    } rows[] = {
        {HEAD SEND "> ACK psn=rpsn+1 ack msn=1\n", "x.roce:7: another packet came"},
        {HEAD SEND "> ACK psn=rpsn ack msn=2\n", "* msn          2 "},
        {HEAD SEND "> ACK psn=rpsn nak=psn msn=1\n", "* syndrome     nak=psn "},
        {HEAD SEND "> ATOMIC_ACK psn=rpsn\n", "* opcode       RC_ATOMIC_ACK "},
        {HEAD SEND "> ACK psn=rpsn pkey=1\n", "* pkey         0x1 "},
        {HEAD SEND "> ACK psn=rpsn dqpn=1\n", "* dqpn         0x1 "},
        {HEAD SEND ACKED "> ACK psn=rpsn ack msn=1\n", "x.roce:8: nothing came"},
        {HEAD SEND ACKED "completion id=2 status=success\n", "* id           2 "},
        {HEAD SEND ACKED "completion id=1 status=flushed\n", "* status       flushed "},
        {HEAD SEND ACKED "completion id=1 status=success len=15\n", "* len          15 "},
        {HEAD SEND ACKED TAKEN TAKEN, "x.roce:9: the application sees no completion"},
        {HEAD SEND ACKED TAKEN "holds buf len=16 data=8\n", "x.roce:9: memory holds other bytes"},
        {HEAD SEND ACKED TAKEN "holds buf+15 len=16 zero\n", "* memory       byte 0: 00 "},
        {HEAD SEND ACKED TAKEN "state ERR\n", "x.roce:9: the queue pair is in RTS, expected ERR"},
        {HEAD SEND ACKED TAKEN "event sq_drained\n", "sees no event, expected sq_drained"},
        {HEAD SEND "silence 1ms\n", "x.roce:7: a packet came that nobody expected"},
        {HEAD SEND TAKEN "state RTS\n", "x.roce:8: a packet came that nobody expected at the end"},
        {HEAD SEND ACKED "state RTS\n", "a completion of request 1 with status success"},
        {HEAD SEND ACKED "no completion\n", "x.roce:8: a completion of request 1"},
        {HEAD "post send id=1 at=buf len=8 refused\n", "x.roce:5: the work request was taken"},
        {HEAD "post send id=1 at=buf len=8\n> SEND_ONLY psn=spsn\n"
              "> SEND_ONLY psn=spsn after 5ms within 20ms\n",
         "it came after 4.1943 ms, expected not before 5 ms"},
        {HEAD "post send id=1 at=buf len=8\n> SEND_ONLY psn=spsn\n"
              "> SEND_ONLY psn=spsn within 4ms\n",
         "x.roce:7: nothing came in 4 ms"},
        {HEAD "fill buf len=8 data=3\npost send id=1 at=buf len=8\n"
              "> SEND_ONLY psn=spsn len=8 data=4\n",
         "* payload      byte 0: "},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(play(rows[i].text), SCRIPT_FAILED);
        if (strstr(told, rows[i].said) == NULL)
            fail_msg("row %zu: '%s' is not in: %s", i, rows[i].said, told);
    }
}

static void what_cannot_be_carried_out_is_no_failure_of_the_peer(void **state)
{
    static const struct {
        const char *text;
        const char *said;
    } rows[] = {
        {HEAD "< SEND_ONLY psn=rpsn pkey=0x10000\n", "pkey is 0x10000, which does not fit"},
        {HEAD "< SEND_ONLY psn=rpsn len=9000\n", "len is 9000, at most"},
        {HEAD "< SEND_ONLY psn=rpsn cut=16\n", "cut is 16, and the packet has 16 bytes only"},
        {HEAD "fill buf+60 len=5 data=1\n", "5 bytes at 0x5a000000103c are not in one memory"},
        {"title t\nrule r\nqp rc mtu=256\nmemory b size=1048576\n"
         "< READ_REQUEST psn=rpsn va=b rkey=b.rkey dmalen=1048576\nsilence 1ms\n",
         "x.roce:6: engine: it sent more packets than can wait for a line"},
        {HEAD "post send id=1 at=buf len=8 inline\npost bind id=2 window=7\n", "no window"},
        {"title t\nrule r\nqp rc\nmemory buf size=8 access=remote_write\nstate RTS\n",
         "x.roce:1: engine: memory with these rights"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(play(rows[i].text), SCRIPT_BROKEN);
        if (strstr(told, rows[i].said) == NULL)
            fail_msg("row %zu: '%s' is not in: %s", i, rows[i].said, told);
    }
}

static void the_packets_so_far_are_shown(void **state)
{
    (void)state;
    assert_int_equal(play(HEAD SEND ACKED "state ERR\n"), SCRIPT_FAILED);
    assert_non_null(strstr(told, "rule: r"));
    assert_non_null(strstr(told, "<  RC_SEND_ONLY         psn 1000 AckReq len 16"));
    assert_non_null(strstr(told, ">  RC_ACK               psn 1000 len 0 ACK"));
}

static void what_came_is_taken_into_names(void **state)
{
    (void)state;
    assert_int_equal(play(HEAD SEND "> ACK psn=?p ack=?credits msn=?m\n" TAKEN
                                    "< SEND_ONLY psn=p ackreq len=16\n"
                                    "> ACK psn=p ack=credits msn=m\n"),
                     SCRIPT_PASSED);
}

static void every_change_of_an_expectation_is_seen(void **state)
{
    static const char text[] =
        HEAD SEND "> ACK psn=rpsn ack=0 msn=1\n"
                  "completion id=1 status=success op=recv len=16\n"
                  "holds buf len=16 data=7\nholds buf+16 len=4 zero\nstate RTS\n";
    struct script s;
    char error[SCRIPT_ERROR_SIZE];
    uint32_t count;

    (void)state;
    assert_int_equal(script_parse("x", text, strlen(text), &s, error), 0);
    count = script_mutation_count(&s);
    script_free(&s);
    assert_int_equal(count, 4 + 4 + 1 + 1 + 1);
    for (uint32_t n = 0; n < count; n++)
        assert_int_equal(play_at(text, 0xffffff, n), SCRIPT_FAILED);
}

static void a_change_that_nothing_depends_on_is_not_seen(void **state)
{
    /* The payload of no bytes may be of any message. */
    static const char text[] = HEAD "post send id=1\n> SEND_ONLY psn=spsn len=0 data=7\n"
                                    "< ACK psn=spsn ack msn=1\n" TAKEN;

    (void)state;
    assert_int_equal(play_at(text, 1000, 1), SCRIPT_FAILED);
    assert_int_equal(play_at(text, 1000, 3), SCRIPT_PASSED);
}

static int open_engine(void **state)
{
    (void)state;
    subject = engine_subject_new();
    return subject == NULL;
}

static int close_engine(void **state)
{
    (void)state;
    engine_subject_free(subject);
    free(told);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_holds_passes_in_silence),
        cmocka_unit_test(what_does_not_hold_fails_at_its_line),
        cmocka_unit_test(what_cannot_be_carried_out_is_no_failure_of_the_peer),
        cmocka_unit_test(the_packets_so_far_are_shown),
        cmocka_unit_test(what_came_is_taken_into_names),
        cmocka_unit_test(every_change_of_an_expectation_is_seen),
        cmocka_unit_test(a_change_that_nothing_depends_on_is_not_seen),
    };

    return cmocka_run_group_tests(tests, open_engine, close_engine);
}
