/* SPDX-License-Identifier: BSD-2-Clause */
/* Fates of packets: the same for the same seed, and as the rules say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "link/fault_fate.h"
#include "wire/aeth.h"
#include "wire/packet.h"

#define SEQUENCE 2000u

static struct fault_plan plan;
static struct fault_judge judge;

static void begin(const char *text, uint64_t seed)
{
    char error[FAULT_ERROR_SIZE];

    if (fault_plan_parse(text, &plan, error) != 0)
        fail_msg("%s", error);
    fault_judge_init(&judge, &plan, seed);
}

static struct fault_fate fate_of(enum fault_direction direction, enum operation_code code,
                                 uint32_t qpn)
{
    struct fault_packet p = {
        .direction = direction, .opcode = opcode_make(SERVICE_RC, code), .qpn = qpn};

    return fault_judge(&judge, &p, 0);
}

/* Whether the packets that come to a queue pair are dropped, as a string of 'x' and '.'. */
static void expect_drops(uint32_t qpn, const char *operations, const char *expected)
{
    /* First, middle, last; request and acknowledgement. */
    static const char letters[] = "fmlra";
    static const enum operation_code codes[] = {OP_READ_RESP_FIRST, OP_READ_RESP_MIDDLE,
                                                OP_READ_RESP_LAST, OP_READ_REQUEST, OP_ACK};
    char found[64] = "";

    for (size_t i = 0; operations[i] != '\0'; i++) {
        enum operation_code code = codes[strchr(letters, operations[i]) - letters];

        found[i] = fate_of(FAULT_IN, code, qpn).drop ? 'x' : '.';
    }
    assert_string_equal(found, expected);
}

static void record_fates(uint64_t seed, bool with_others, struct fault_fate *out)
{
    begin("drop=10%,dup=10%,reorder=10%,corrupt=10%,delay=1us:jitter=1us,mark=10%", seed);
    for (uint32_t i = 0; i < SEQUENCE; i++) {
        if (with_others && i % 3 == 0)
            fate_of(FAULT_OUT, OP_ACK, 0x020001);
        out[i] = fate_of(FAULT_IN, OP_SEND_ONLY, 0x010001 + i % 2);
    }
}

static bool fates_equal(const struct fault_fate *a, const struct fault_fate *b)
{
    return a->drop == b->drop && a->corrupt == b->corrupt && a->mark == b->mark &&
           a->copies == b->copies && a->overtakers == b->overtakers && a->delay_ns == b->delay_ns;
}

static uint32_t count_different(const struct fault_fate *a, const struct fault_fate *b)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < SEQUENCE; i++)
        count += !fates_equal(&a[i], &b[i]);
    return count;
}

static void the_same_seed_gives_the_same_fates(void **state)
{
    static struct fault_fate first[SEQUENCE];
    static struct fault_fate second[SEQUENCE];

    (void)state;
    record_fates(7, false, first);
    record_fates(7, false, second);
    assert_int_equal(count_different(first, second), 0);
    /* What goes the other way meanwhile does not matter. */
    record_fates(7, true, second);
    assert_int_equal(count_different(first, second), 0);
    record_fates(8, false, second);
    assert_true(count_different(first, second) > SEQUENCE / 4);
}

static void a_rule_behind_does_not_change_the_rules_before(void **state)
{
    bool drops[SEQUENCE];

    (void)state;
    begin("drop=5%", 3);
    for (uint32_t i = 0; i < SEQUENCE; i++)
        drops[i] = fate_of(FAULT_OUT, OP_SEND_ONLY, 0x010001).drop;
    begin("drop=5%,dup=50%", 3);
    for (uint32_t i = 0; i < SEQUENCE; i++)
        assert_int_equal(fate_of(FAULT_OUT, OP_SEND_ONLY, 0x010001).drop, drops[i]);
}

static void a_chance_is_kept_in_the_long_run(void **state)
{
    (void)state;
    begin("drop=2%", 1);
    for (uint32_t i = 0; i < 100000; i++)
        fate_of(FAULT_IN, OP_SEND_ONLY, 0x010001);
    assert_int_equal(judge.tally[0].seen, 100000);
    /* Five standard deviations of 44. */
    assert_in_range(judge.tally[0].hit, 1780, 2220);
}

static void nth_hits_one_packet_and_every_hits_each_so_many(void **state)
{
    (void)state;
    begin("drop:nth=3", 0);
    expect_drops(0x010001, "rrrrrrr", "..x....");
    begin("drop:every=3", 0);
    expect_drops(0x010001, "rrrrrrr", "..x..x.");
    begin("drop:count=2", 0);
    expect_drops(0x010001, "rrrr", "xx..");
    begin("drop:every=2:count=1", 0);
    expect_drops(0x010001, "rrrr", ".x..");
}

static void counting_goes_by_queue_pair_when_asked(void **state)
{
    (void)state;
    begin("drop:nth=2", 0);
    expect_drops(0x010001, "r", ".");
    expect_drops(0x010002, "rr", "x.");
    begin("drop:per=qp:nth=2", 0);
    expect_drops(0x010001, "r", ".");
    expect_drops(0x010002, "rrr", ".x.");
    expect_drops(0x010001, "rr", "x.");
}

static void counting_begins_again_with_each_message_when_asked(void **state)
{
    (void)state;
    begin("drop:op=READ_RESP_*:per=message:nth=3", 0);
    expect_drops(0x010001, "fmmmlfmmmlfl", "..x....x....");
    /* An acknowledgement in between is no new message of this kind. */
    expect_drops(0x010001, "fmamml", "...x..");
}

static void a_queue_pair_can_be_named_by_its_turn(void **state)
{
    (void)state;
    begin("drop:qp=#2", 0);
    expect_drops(1, "r", "."); /* QP1 is not counted */
    expect_drops(0x010005, "r", ".");
    expect_drops(0x010003, "rr", "xx");
    expect_drops(0x010005, "r", ".");
    expect_drops(0x010009, "r", ".");
    begin("drop:qp=0x010003", 0);
    expect_drops(0x010005, "r", ".");
    expect_drops(0x010003, "r", "x");
}

static void acknowledgements_are_told_apart(void **state)
{
    static const struct {
        uint8_t syndrome;
        bool dropped;
    } cases[] = {
        {0x00, false}, {0x1f, false}, {0x20, false}, {0x60, true}, {0x63, true},
    };

    (void)state;
    begin("drop:op=NAK", 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint8_t bytes[BTH_LEN + AETH_LEN + ICRC_LEN] = {[0] = 0x11, [5] = 1, [7] = 2};
        struct fault_packet p;

        bytes[BTH_LEN] = cases[i].syndrome;
        p = fault_packet_read(FAULT_IN, bytes, sizeof(bytes));
        assert_int_equal(p.qpn, 0x010002);
        assert_int_equal(fault_judge(&judge, &p, 0).drop, cases[i].dropped);
    }
}

static void directions_and_times_bound_a_rule(void **state)
{
    struct fault_packet p = {.direction = FAULT_OUT, .opcode = OP_SEND_ONLY, .qpn = 0x010001};

    (void)state;
    begin("cut:dir=out:from=1ms:to=2ms", 0);
    assert_false(fault_judge(&judge, &p, 999999).drop);
    assert_true(fault_judge(&judge, &p, 1000000).drop);
    assert_true(fault_judge(&judge, &p, 1999999).drop);
    assert_false(fault_judge(&judge, &p, 2000000).drop);
    p.direction = FAULT_IN;
    assert_false(fault_judge(&judge, &p, 1000000).drop);
}

static void effects_add_up_until_a_packet_is_dropped(void **state)
{
    struct fault_fate fate;

    (void)state;
    begin("dup,dup,delay=5us,delay=6us,mark:dir=both,reorder:by=2,corrupt,drop:nth=2,dup", 0);
    fate = fate_of(FAULT_OUT, OP_SEND_ONLY, 0x010001);
    assert_false(fate.drop);
    assert_true(fate.corrupt);
    assert_true(fate.mark);
    assert_int_equal(fate.copies, 3);
    assert_int_equal(fate.overtakers, 2);
    assert_int_equal(fate.delay_ns, 11000);
    fate = fate_of(FAULT_OUT, OP_SEND_ONLY, 0x010001);
    assert_true(fate.drop);
    assert_int_equal(judge.tally[8].seen, 1);
}

static void more_queue_pairs_than_the_table_holds_share_one_place(void **state)
{
    (void)state;
    begin("drop:per=qp:nth=1", 0);
    for (uint32_t i = 0; i < FAULT_FLOWS; i++)
        expect_drops(0x010002 + i, "r", "x");
    expect_drops(0x020000, "r", "x");
    expect_drops(0x020001, "r", ".");
    expect_drops(0x010002, "r", ".");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_seed_gives_the_same_fates),
        cmocka_unit_test(a_rule_behind_does_not_change_the_rules_before),
        cmocka_unit_test(a_chance_is_kept_in_the_long_run),
        cmocka_unit_test(nth_hits_one_packet_and_every_hits_each_so_many),
        cmocka_unit_test(counting_goes_by_queue_pair_when_asked),
        cmocka_unit_test(counting_begins_again_with_each_message_when_asked),
        cmocka_unit_test(a_queue_pair_can_be_named_by_its_turn),
        cmocka_unit_test(acknowledgements_are_told_apart),
        cmocka_unit_test(directions_and_times_bound_a_rule),
        cmocka_unit_test(effects_add_up_until_a_packet_is_dropped),
        cmocka_unit_test(more_queue_pairs_than_the_table_holds_share_one_place),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
