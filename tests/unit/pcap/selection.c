/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>

#include "pcap/selection.h"
#include "wire/aeth.h"

static int parse(struct selection *s, const char *text, char *rest)
{
    char error[256];

    *s = (struct selection){.qpn_count = 0};
    return selection_parse(s, text, rest, 200, error, sizeof(error));
}

static void our_terms_are_taken_out_and_the_rest_is_left(void **state)
{
    static const struct {
        const char *text;
        const char *rest;
    } rows[] = {
        {"", ""},
        {"nak", ""},
        {"host 10.0.0.1", "host 10.0.0.1"},
        {"host 10.0.0.1 and qp=0x11 and nak", "host 10.0.0.1"},
        {"qp=0x11 && port 5", "port 5"},
        {"(host a and qp=1) and nak", "(host a and qp=1)"},
        {"host a and nak and net 10", "host a and net 10"},
        {"host brand and ce", "host brand"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct selection s;
        char rest[200];

        assert_int_equal(parse(&s, rows[i].text, rest), 0);
        assert_string_equal(rest, rows[i].rest);
    }
}

static void values_that_make_no_sense_are_refused(void **state)
{
    static const char *const texts[] = {"qp=",
                                        "qp=x",
                                        "qp=0x1000000",
                                        "qp=-1",
                                        "qp=1+",
                                        "opcode=",
                                        "opcode=SEND", /* of no opcode: SEND_* */
                                        "opcode=0x11",
                                        "opcode=ACK+SENT_*",
                                        "psn=9-5",
                                        "psn=16777216",
                                        "time=x",
                                        "frame=-3",
                                        "qp=1+2+3+4+5+6+7+8+9"};

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct selection s;
        char rest[200];

        assert_int_equal(parse(&s, texts[i], rest), -EINVAL);
    }
}

static struct frame nak_frame(void)
{
    uint8_t opcode = opcode_make(SERVICE_RC, OP_ACK);
    struct frame f = {
        .number = 7,
        .elapsed_ns = 500000000,
        .verdict = FRAME_PACKET,
        .has_bth = true,
        .packet.operation = opcode_operation(opcode),
    };

    f.packet.h.bth = (struct bth){.opcode = opcode, .dest_qpn = 0x11, .psn = psn_make(100)};
    f.packet.h.aeth.syndrome = aeth_make(AETH_NAK, NAK_PSN_SEQUENCE);
    return f;
}

static void each_term_limits_what_is_shown(void **state)
{
    static const struct {
        const char *text;
        bool shown;
    } rows[] = {
        {"", true},
        {"nak", true},
        {"rnr", false},
        {"qp=0x11", true},
        {"qp=5+17", true},
        {"qp=5", false},
        {"opcode=ACK", true},
        {"opcode=rc_ack", true},
        {"opcode=WRITE_*+RC_A*", true},
        {"opcode=UC_*", false},
        {"psn=100", true},
        {"psn=90-110", true},
        {"psn=101-110", false},
        {"frame=1-6", false},
        {"time=0.4-0.6", true},
        {"time=0.6-1", false},
        {"ce", false},
        {"cnp", false},
        {"bad", false},
        {"repeat", false},
        {"nak and qp=0x11 and psn=100", true},
        {"nak and qp=0x12", false},
    };
    struct frame f = nak_frame();

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct selection s;
        char rest[200];

        assert_int_equal(parse(&s, rows[i].text, rest), 0);
        assert_int_equal(selection_has_frame(&s, &f, NULL, false), rows[i].shown);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_terms_are_taken_out_and_the_rest_is_left),
        cmocka_unit_test(values_that_make_no_sense_are_refused),
        cmocka_unit_test(each_term_limits_what_is_shown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
