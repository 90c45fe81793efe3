/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What becomes of a packet. The fates of a sequence of packets in one direction
 * follow from the plan, the seed and that sequence alone (and from the time, for
 * rules with from and to): each rule draws from a stream of its own for each
 * direction, so that neither the other direction nor another rule moves it.
 *
 * A packet meets the rules in the order in which they are written. The first
 * that drops it is the last that it meets; all others add up.
 */
#ifndef UROCE_LINK_FAULT_FATE_H
#define UROCE_LINK_FAULT_FATE_H

#include "base/random.h"
#include "link/fault_rule.h"

/* Queue pairs told apart in both directions together; those that come later are one. */
#define FAULT_FLOWS 1024u

/* What rules look at. */
struct fault_packet {
    enum fault_direction direction;
    uint8_t opcode;
    uint8_t syndrome; /* of an acknowledgement */
    uint32_t qpn;     /* destination */
};

struct fault_fate {
    bool drop;
    bool corrupt;
    bool mark;
    uint32_t copies;     /* besides itself */
    uint32_t overtakers; /* packets of its queue pair that pass first; 0: none */
    uint64_t delay_ns;
};

/* A queue pair in one direction. */
struct fault_flow {
    uint32_t key;     /* 0: free */
    uint32_t ordinal; /* order of appearance in its direction, from 1; 0: QP1 and those beyond the
                         table */
    uint32_t seen[FAULT_RULES_MAX];
};

struct fault_tally {
    uint64_t seen; /* packets that met all of the rule's conditions but nth, every, count, chance */
    uint64_t hit;
};

struct fault_judge {
    const struct fault_plan *plan;   /* borrowed as long as the judge lives */
    uint32_t kinds[FAULT_RULES_MAX]; /* of operations that a rule may see: bit per enum
                                        operation_kind */
    struct random stream[FAULT_RULES_MAX][FAULT_DIRECTION_COUNT];
    struct fault_tally tally[FAULT_RULES_MAX];
    uint32_t seen[FAULT_RULES_MAX]; /* of rules that count per rule */
    uint32_t flow_count[FAULT_DIRECTION_COUNT];
    struct fault_flow flow[FAULT_FLOWS];
    struct fault_flow crowd; /* who found no place in flow */
};

void fault_judge_init(struct fault_judge *j, const struct fault_plan *plan, uint64_t seed);

/* What there is to look at in a datagram of len bytes, BTH to ICRC, at least BTH_LEN + ICRC_LEN. */
struct fault_packet fault_packet_read(enum fault_direction direction, const uint8_t *bytes,
                                      size_t len);

/* since_ns: time since the link was opened. */
struct fault_fate fault_judge(struct fault_judge *j, const struct fault_packet *p,
                              uint64_t since_ns);

static inline bool fault_fate_is_plain(const struct fault_fate *f)
{
    return !f->drop && !f->corrupt && !f->mark && f->copies == 0 && f->overtakers == 0 &&
           f->delay_ns == 0;
}

#endif
