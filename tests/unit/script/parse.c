/* SPDX-License-Identifier: BSD-2-Clause */
/* What is no script is refused by one line that names place and remedy. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "script/script.h"

#define HEAD "title t\nrule r\n"
#define QP HEAD "qp rc mtu=256\nmemory buf size=64\n"

static struct script script;
static char error[SCRIPT_ERROR_SIZE];

/* The text lies in a block of just its size, so that a read beyond it is seen. */
static int parse(const char *text)
{
    size_t len = strlen(text);
    char *exact = malloc(len > 0 ? len : 1);
    int result;

    assert_non_null(exact);
    for (size_t i = 0; i < len; i++)
        exact[i] = text[i];
    result = script_parse("x.roce", exact, len, &script, error);
    free(exact);
    return result;
}

static const struct {
    const char *text;
    const char *error; /* the beginning of it */
} mistakes[] = {
    {"", "x.roce:1:1: a title line is missing"},
    {"title t\nqp rc\nsilence 1ms", "x.roce:3:1: a rule line is missing"},
    {HEAD "qp rc\n", "x.roce:3:1: the script does nothing"},
    {HEAD "qp\n", "x.roce:3:3: the service is missing"},
    {HEAD "qp rd\n", "x.roce:3:4: 'rd' is no service; there are rc, uc, ud"},
    {HEAD "qp rc mtu=300\n", "x.roce:3:7: an MTU is 256, 512"},
    {HEAD "qp rc mtu=2*mtu\n", "x.roce:3:7: an MTU is 256, 512"},
    {HEAD "qp rc speed=3\n", "x.roce:3:7: 'speed' is not known here; there are access, mtu"},
    {HEAD "qp rc\nqp rc\n", "x.roce:4:1: there is one queue pair"},
    {HEAD "> ACK psn=1\n", "x.roce:3:1: a qp line is to stand before"},
    {QP "foo bar\n", "x.roce:5:1: no line begins with 'foo'"},
    {QP "< SEND_ONLI psn=1\n", "x.roce:5:3: 'SEND_ONLI' is no opcode"},
    {QP "<\n", "x.roce:5:2: an opcode is missing"},
    {QP "< SEND_ONLY psn=\n", "x.roce:5:17: a number or a name is meant"},
    {QP "< SEND_ONLY psn\n", "x.roce:5:13: psn wants a value"},
    {QP "< SEND_ONLY psn=where\n", "x.roce:5:17: nothing is called 'where' here"},
    {QP "< SEND_ONLY psn=1*\n", "x.roce:5:19: a number or a name"},
    {QP "< SEND_ONLY psn=mtu*mtu\n", "x.roce:5:21: a name can be multiplied by numbers only"},
    {QP "< SEND_ONLY psn=1/2\n", "x.roce:5:18: '/' is not understood in a sum"},
    {QP "< SEND_ONLY psn=99999999999999999999\n", "x.roce:5:17: the number does not fit"},
    {QP "< SEND_ONLY psn=1+1+1+1+1\n", "x.roce:5:25: the sum is too long"},
    {QP "< SEND_ONLY psn=1 psn=2\n", "x.roce:5:19: psn was given already"},
    {QP "< SEND_ONLY rkey=1\n", "x.roce:5:13: a packet of this opcode has no rkey"},
    {QP "< SEND_ONLY len=8 bytes=00\n", "x.roce:5:13: bytes= says how many"},
    {QP "< SEND_ONLY bytes=0\n", "x.roce:5:19: 1 to 64 bytes"},
    {QP "< SEND_ONLY bytes=0g\n", "x.roce:5:19: '0g' is not a byte"},
    {QP "< SEND_ONLY data=7\n", "x.roce:5:19: len= is missing"},
    {QP "< SEND_ONLY ackreq=2\n", "x.roce:5:20: 0 or 1 is meant"},
    {QP "< SEND_ONLY psn=?p\n", "x.roce:5:17: only what the peer says"},
    {QP "> ACK nak=psn ack\n", "x.roce:5:1: choose one of ack, nak, rnr and syndrome"},
    {QP "< ACK nak\n", "x.roce:5:7: nak wants a value"},
    {QP "> ACK nak=bad\n", "x.roce:5:11: 'bad' is no NAK; there are psn, invalid"},
    {QP "> ACK psn=1 within 5\n", "x.roce:5:20: a time of at most 60s"},
    {QP "> ACK psn=1 within 5ms after 6ms\n", "x.roce:5:1: within should not be earlier"},
    {QP "silence\n", "x.roce:5:8: a time of at most 60s"},
    {QP "silence 61s\n", "x.roce:5:9: a time of at most 60s"},
    {QP "silence 1ms 2ms\n", "x.roce:5:13: '2ms' is too much"},
    {QP "post\n", "x.roce:5:5: what is posted is missing"},
    {QP "post recv at=buf\n", "x.roce:5:17: id= is missing"},
    {QP "post recv id=1 len=5\n", "x.roce:5:21: at= is missing"},
    {QP "completion id=1\n", "x.roce:5:16: status= is missing"},
    {QP "no\n", "x.roce:5:3: the thing"},
    {QP "no bread\n", "x.roce:5:4: 'bread' is no thing"},
    {QP "state RTS maybe\n", "x.roce:5:11: 'maybe' is too much"},
    {QP "state up\n", "x.roce:5:7: 'up' is no state; there are RESET"},
    {QP "fill buf\n", "x.roce:5:9: the bytes are missing"},
    {QP "fill buf zero\n", "x.roce:5:14: len= is missing"},
    {QP "holds buf len=8 zero data=1\n", "x.roce:5:1: the bytes are said twice"},
    {QP "let x\n", "x.roce:5:6: a name and its value"},
    {QP "let 1=2\n", "x.roce:5:5: '1' is no name"},
    {QP "memory buf size=1\n", "x.roce:5:8: something is called 'buf' already"},
    {QP "silence 1ms\nmemory b size=1\n", "x.roce:6:1: memory stands before"},
    {HEAD "memory b size=0\n", "x.roce:3:10: a size is a number"},
    {HEAD "memory b access=all size=1\n", "x.roce:3:17: 'all' is no right"},
    {HEAD "memory b\n", "x.roce:3:9: size= is missing"},
    {HEAD "qp rc\nsilence 1ms\001\n", "x.roce:4:12: a control character (0x01)"},
    {"title t\ntitle t\n", "x.roce:2:1: there is a title already"},
    {"title  \n", "x.roce:1:8: a sentence of 1 to"},
};

static void mistakes_are_named_with_their_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(mistakes) / sizeof(mistakes[0]); i++) {
        assert_int_equal(parse(mistakes[i].text), -EINVAL);
        if (strncmp(error, mistakes[i].error, strlen(mistakes[i].error)) != 0)
            fail_msg("row %zu: '%s', expected '%s'", i, error, mistakes[i].error);
    }
}

static void every_bound_is_said(void **state)
{
    static char text[SCRIPT_TEXT_MAX + 2];

    (void)state;
    memset(text, '#', sizeof(text) - 1);
    assert_int_equal(parse(text), -EINVAL);
    assert_string_equal(error, "x.roce:1:1: a script has at most 65536 bytes");
    memset(text, '\n', SCRIPT_LINES_MAX);
    text[SCRIPT_LINES_MAX] = '#';
    text[SCRIPT_LINES_MAX + 1] = '\0';
    assert_int_equal(parse(text), -EINVAL);
    assert_string_equal(error, "x.roce:2049:1: a script has at most 2048 lines");
}

static void numbers_names_and_times_are_read(void **state)
{
    const struct statement *st;

    (void)state;
    assert_int_equal(parse(QP
                           "# comment\n\n"
                           "> READ_REQUEST psn=2*mtu+0x10-1 va=?where after 1.5ms within 2s # c\n"
                           "let next=where+8\n"),
                     0);
    assert_int_equal(script.statement_count, 4);
    st = &script.statements[2];
    assert_int_equal(st->line, 7);
    assert_int_equal(st->after_ns, 1500000);
    assert_int_equal(st->within_ns, 2000000000);
    assert_int_equal(st->fields[0].value.number.count, 3);
    assert_int_equal(st->fields[0].value.number.terms[0].factor, 2);
    assert_int_equal(st->fields[0].value.number.terms[1].factor, 16);
    assert_true(st->fields[0].value.number.terms[2].negative);
    assert_string_equal(script.variables[st->fields[1].capture].name, "where");
    script_free(&script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_are_named_with_their_place),
        cmocka_unit_test(every_bound_is_said),
        cmocka_unit_test(numbers_names_and_times_are_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
