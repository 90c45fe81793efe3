/* SPDX-License-Identifier: BSD-2-Clause */
/* The grammar of faults: what each word means, and what is said about each mistake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "link/fault_rule.h"
#include "wire/aeth.h"
#include "wire/opcode.h"

#define BOTH (1u << FAULT_IN | 1u << FAULT_OUT)

static struct fault_plan plan;
static char error[FAULT_ERROR_SIZE];

static void accept(const char *text)
{
    if (fault_plan_parse(text, &plan, error) != 0)
        fail_msg("'%s': %s", text, error);
}

static bool has_opcode(const struct fault_rule *r, enum service service, enum operation_code code)
{
    uint8_t opcode = opcode_make(service, code);

    return (r->opcodes[opcode / 8] & 1u << opcode % 8) != 0;
}

static void each_action_may_have_its_own_value(void **state)
{
    (void)state;
    accept("drop=1%,dup=0.1%,reorder=12.5%,corrupt=100%,delay=100us,mark=0.0000001%,cut,seed=7");
    assert_int_equal(plan.rule_count, 7);
    assert_int_equal(plan.rule[0].action, FAULT_DROP);
    assert_int_equal(plan.rule[0].chance, FAULT_CHANCE_ONE / 100);
    assert_int_equal(plan.rule[0].directions, BOTH);
    assert_int_equal(plan.rule[1].action, FAULT_DUP);
    assert_int_equal(plan.rule[1].chance, FAULT_CHANCE_ONE / 1000);
    assert_int_equal(plan.rule[2].action, FAULT_REORDER);
    assert_int_equal(plan.rule[2].chance, FAULT_CHANCE_ONE / 8);
    assert_int_equal(plan.rule[2].by, 3);
    assert_int_equal(plan.rule[3].action, FAULT_CORRUPT);
    assert_int_equal(plan.rule[3].chance, FAULT_CHANCE_ONE);
    assert_int_equal(plan.rule[4].action, FAULT_DELAY);
    assert_int_equal(plan.rule[4].chance, FAULT_CHANCE_ONE);
    assert_int_equal(plan.rule[4].delay_ns, 100000);
    assert_int_equal(plan.rule[5].action, FAULT_MARK);
    assert_int_equal(plan.rule[5].chance, 1);
    assert_int_equal(plan.rule[5].directions, 1u << FAULT_IN);
    assert_int_equal(plan.rule[6].action, FAULT_CUT);
    assert_int_equal(plan.rule[6].chance, FAULT_CHANCE_ONE);
    assert_true(plan.has_seed);
    assert_int_equal(plan.seed, 7);
}

static void conditions_narrow_a_rule(void **state)
{
    const struct fault_rule *r = &plan.rule[0];

    (void)state;
    accept(
        " reorder : dir=OUT : qp=0x010011 : from=1s : to=1.5s : per=qp : nth=3 : every=5 : count=2 "
        ": chance=50% : by=7 ");
    assert_int_equal(plan.rule_count, 1);
    assert_int_equal(r->directions, 1u << FAULT_OUT);
    assert_int_equal(r->qpn, 0x010011);
    assert_int_equal(r->from_ns, 1000000000);
    assert_int_equal(r->to_ns, 1500000000);
    assert_int_equal(r->per, FAULT_PER_QP);
    assert_int_equal(r->nth, 3);
    assert_int_equal(r->every, 5);
    assert_int_equal(r->count, 2);
    assert_int_equal(r->chance, FAULT_CHANCE_ONE / 2);
    assert_int_equal(r->by, 7);
    assert_false(plan.has_seed);
    accept("delay=2ms:jitter=500ns:qp=#2:per=message:dir=in");
    assert_int_equal(r->delay_ns, 2000000);
    assert_int_equal(r->jitter_ns, 500);
    assert_int_equal(r->qpn, FAULT_QPN_ANY);
    assert_int_equal(r->qp_ordinal, 2);
    assert_int_equal(r->per, FAULT_PER_MESSAGE);
}

static void opcodes_go_by_the_names_that_captures_show(void **state)
{
    const struct fault_rule *r = &plan.rule[0];

    (void)state;
    accept("drop:op=READ_RESP_MIDDLE");
    assert_true(has_opcode(r, SERVICE_RC, OP_READ_RESP_MIDDLE));
    assert_true(has_opcode(r, SERVICE_XRC, OP_READ_RESP_MIDDLE));
    assert_false(has_opcode(r, SERVICE_RC, OP_READ_RESP_FIRST));
    accept("drop:op=rc_read_response_*");
    assert_true(has_opcode(r, SERVICE_RC, OP_READ_RESP_FIRST));
    assert_true(has_opcode(r, SERVICE_RC, OP_READ_RESP_ONLY));
    assert_false(has_opcode(r, SERVICE_XRC, OP_READ_RESP_ONLY));
    accept("drop:op=UD_*+WRITE_ONLY+CNP");
    assert_true(has_opcode(r, SERVICE_UD, OP_SEND_ONLY_IMM));
    assert_true(has_opcode(r, SERVICE_UC, OP_WRITE_ONLY));
    assert_true((r->opcodes[OPCODE_CNP / 8] & 1u << OPCODE_CNP % 8) != 0);
    assert_false(has_opcode(r, SERVICE_RC, OP_SEND_ONLY));
}

static void acknowledgements_are_told_apart_by_what_they_say(void **state)
{
    const struct fault_rule *r = &plan.rule[0];

    (void)state;
    accept("drop");
    assert_int_equal(r->syndromes, 0xf);
    accept("drop:op=ACK");
    assert_true(has_opcode(r, SERVICE_RC, OP_ACK));
    assert_false(has_opcode(r, SERVICE_RC, OP_ATOMIC_ACK));
    assert_int_equal(r->syndromes, 1u << AETH_ACK);
    accept("drop:op=NAK");
    assert_true(has_opcode(r, SERVICE_RC, OP_ACK));
    assert_int_equal(r->syndromes, 1u << AETH_NAK);
    accept("drop:op=NAK+rnr_nak");
    assert_int_equal(r->syndromes, 1u << AETH_NAK | 1u << AETH_RNR_NAK);
    accept("drop:op=*ACK");
    assert_true(has_opcode(r, SERVICE_RC, OP_ATOMIC_ACK));
    assert_int_equal(r->syndromes, 0xf);
}

static void every_mistake_is_named_with_its_place(void **state)
{
    static const struct {
        const char *text;
        const char *said; /* part of the sentence */
    } cases[] = {
        {"dorp=1%", "rule 1, 'dorp=1%', at character 1: 'dorp' is not an action; it should be one "
                    "of drop, cut, dup, reorder, corrupt, delay, mark, seed"},
        {"drop=1%,dup=1", "rule 2, 'dup=1', at character 13: '1' should be a percentage"},
        {"drop=101%", "'101%' should be a percentage"},
        {"drop=-1%", "'-1%' should be a percentage"},
        {"drop=0.00000001%", "should be a percentage"},
        {"drop=1%\n,dup=1%", "character 8 is a control character"},
        {"drop=", "at character 6: '' should be a percentage"},
        {"delay", "at character 6: delay needs a value: a time up to an hour with its unit"},
        {"delay=100", "'100' should be a time"},
        {"delay=2h", "'2h' should be a time"},
        {"delay=3601s", "'3601s' should be a time"},
        {"delay=0.1ns", "'0.1ns' should be a time"},
        {"cut=5s", "cut takes no value"},
        {"drop:odds=3", "at character 6: 'odds' is not a condition; it should be one of dir, op, "},
        {"drop:nth", "at character 9: nth needs a value: a number from 1 to 4294967295"},
        {"drop:nth=0", "at character 10: '0' should be a number from 1"},
        {"drop:nth=4294967296", "should be a number from 1"},
        {"drop:nth=99999999999999999999999", "should be a number from 1"},
        {"drop:nth=1x", "'1x' should be a number"},
        {"drop:nth=1:nth=2", "at character 12: nth stands twice"},
        {"drop:", "'' is not a condition"},
        {"drop:dir=up", "'up' should be in, out or both"},
        {"drop:op=SEND", "'SEND' should be opcodes"},
        {"drop:op=ACK+", "'ACK+' should be opcodes"},
        {"drop:qp=0x1000000", "'0x1000000' should be a QPN"},
        {"drop:qp=#0", "'#0' should be a QPN"},
        {"drop:qp=0x", "'0x' should be a QPN"},
        {"drop:per=packet", "'packet' should be rule, qp or message"},
        {"drop:by=2", "by goes with reorder only"},
        {"drop:jitter=1us", "jitter goes with delay only"},
        {"cut:from=2s:to=2s", "to should be later than from"},
        {"drop,seed=x", "'x' should be a number from 0"},
        {"drop,seed", "seed needs a value"},
        {"seed=1,drop,seed=2", "rule 3, 'seed=2', at character 13: seed stands twice"},
        {"drop,,dup", "rule 2, '', at character 6: '' is not an action"},
        {"seed=1", "nothing is asked for but a seed"},
        {"dup,dup,dup,dup,dup,dup,dup,dup,dup,dup,dup,dup,dup,dup,dup,dup,drop",
         "rule 17, 'drop', at character 65: at most 16 rules"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        assert_int_equal(fault_plan_parse(cases[i].text, &plan, error), -EINVAL);
        if (strstr(error, cases[i].said) == NULL)
            fail_msg("'%s': %s", cases[i].text, error);
    }
}

static void a_text_without_end_is_refused(void **state)
{
    char text[2 * FAULT_TEXT_SIZE];

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    assert_int_equal(fault_plan_parse(text, &plan, error), -EINVAL);
    assert_non_null(strstr(error, "2047 characters are too many, at most 1023"));
    text[FAULT_TEXT_SIZE - 1] = '\0';
    assert_int_equal(fault_plan_parse(text, &plan, error), -EINVAL);
    assert_non_null(strstr(error, "is not an action"));
    memcpy(text, "drop:op=", 8);
    assert_int_equal(fault_plan_parse(text, &plan, error), -EINVAL);
    assert_non_null(strstr(error, "should be opcodes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_action_may_have_its_own_value),
        cmocka_unit_test(conditions_narrow_a_rule),
        cmocka_unit_test(opcodes_go_by_the_names_that_captures_show),
        cmocka_unit_test(acknowledgements_are_told_apart_by_what_they_say),
        cmocka_unit_test(every_mistake_is_named_with_its_place),
        cmocka_unit_test(a_text_without_end_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
