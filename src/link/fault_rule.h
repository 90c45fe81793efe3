/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a person asks to go wrong, as text and as a table of rules. A rule is an
 * action and the conditions under which it is done; rules stand behind each
 * other with commas between them:
 *
 *     ACTION[=VALUE][:CONDITION=VALUE]...[,ACTION...]
 *
 *     drop=1%,dup=0.1%,reorder=1%,delay=100us,mark=5%,seed=7
 *     drop:op=READ_RESP_MIDDLE:per=message:nth=3,cut:from=1s:to=2s
 *
 * docs/faults.md explains each word. The words themselves are in two tables of
 * fault_rule.c, from which also the error messages are made.
 */
#ifndef UROCE_LINK_FAULT_RULE_H
#define UROCE_LINK_FAULT_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FAULT_RULES_MAX 16u
#define FAULT_TEXT_SIZE 1024u /* of all rules, with the end */
#define FAULT_ERROR_SIZE 512u

enum fault_action {
    FAULT_DROP,
    FAULT_CUT, /* drop, by another name: for a stretch of time */
    FAULT_DUP,
    FAULT_REORDER,
    FAULT_CORRUPT,
    FAULT_DELAY,
    FAULT_MARK,
};
#define FAULT_ACTION_COUNT 7

enum fault_direction {
    FAULT_IN,
    FAULT_OUT,
};
#define FAULT_DIRECTION_COUNT 2

/* For what packets are counted together. */
enum fault_scope {
    FAULT_PER_RULE,
    FAULT_PER_QP,
    FAULT_PER_MESSAGE, /* of a queue pair: counting begins again with each message */
};

#define FAULT_CHANCE_ONE UINT64_C(1000000000) /* always */
#define FAULT_QPN_ANY UINT32_MAX
#define FAULT_NEVER_NS UINT64_MAX

struct fault_rule {
    enum fault_action action;

    /* Which packets the rule sees. */
    uint8_t directions;  /* bit per enum fault_direction */
    uint8_t opcodes[32]; /* bit per opcode */
    uint8_t syndromes;   /* of acknowledgements: bit per enum aeth_kind */
    uint32_t qpn;        /* destination; or FAULT_QPN_ANY */
    uint64_t qp_ordinal; /* the how manieth queue pair in order of appearance; 0: any */
    uint64_t from_ns;    /* since the link was opened */
    uint64_t to_ns;      /* or FAULT_NEVER_NS */

    /* Which of those it hits. */
    enum fault_scope per;
    uint64_t nth;    /* 0: any */
    uint64_t every;  /* 0: any */
    uint64_t count;  /* at most in all; 0: no limit */
    uint64_t chance; /* of FAULT_CHANCE_ONE */

    /* What it does. */
    uint64_t delay_ns;
    uint64_t jitter_ns; /* up to so much more */
    uint64_t by;        /* packets that overtake a reordered one */

    /* Where the rule stands in the text. */
    uint32_t text_at;
    uint32_t text_len;
};

struct fault_plan {
    char text[FAULT_TEXT_SIZE];
    struct fault_rule rule[FAULT_RULES_MAX];
    uint32_t rule_count;
    uint64_t seed;
    bool has_seed;
};

/*
 * Reads text into *out. Returns 0, or -EINVAL with a sentence in error (FAULT_ERROR_SIZE
 * bytes) that names the rule, the place in the text, what is wrong and what would be right;
 * then *out is not to be used.
 */
int fault_plan_parse(const char *text, struct fault_plan *out, char *error);

#endif
