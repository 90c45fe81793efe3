/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A rule sees a packet (fixed properties), counts it within its scope, and then
 * hits it or not (nth, every, count, chance).
 */
#include "link/fault_fate.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/aeth.h"
#include "wire/packet.h"

#define QPN_OFFSET 5u
#define QP1 1u
#define KEY_USED (1u << 31)
#define KEY_DIRECTION 24

/* Kinds of operations that a rule may see: bit per enum operation_kind. */
static uint32_t kinds_of(const struct fault_rule *r)
{
    uint32_t kinds = 0;

    for (unsigned opcode = 0; opcode <= UINT8_MAX; opcode++) {
        const struct operation *o = opcode_operation((uint8_t)opcode);

        if (o != NULL && (r->opcodes[opcode / 8] & 1u << opcode % 8) != 0)
            kinds |= 1u << o->kind;
    }
    return kinds;
}

void fault_judge_init(struct fault_judge *j, const struct fault_plan *plan, uint64_t seed)
{
    memset(j, 0, sizeof(*j));
    j->plan = plan;
    for (uint32_t i = 0; i < plan->rule_count; i++) {
        j->kinds[i] = kinds_of(&plan->rule[i]);
        for (uint32_t d = 0; d < FAULT_DIRECTION_COUNT; d++)
            j->stream[i][d] =
                (struct random){.key = {seed, (uint64_t)i * FAULT_DIRECTION_COUNT + d}};
    }
}

struct fault_packet fault_packet_read(enum fault_direction direction, const uint8_t *bytes,
                                      size_t len)
{
    const struct operation *o = opcode_operation(bytes[0]);

    assert(len >= BTH_LEN + ICRC_LEN);
    return (struct fault_packet){
        .direction = direction,
        .opcode = bytes[0],
        .qpn = load_be24(bytes + QPN_OFFSET),
        .syndrome = o != NULL && o->kind == KIND_ACK && len >= BTH_LEN + AETH_LEN + ICRC_LEN
                        ? bytes[BTH_LEN]
                        : 0,
    };
}

/* --- queue pairs --- */

/* The packet's flow, noted at its first packet. */
static struct fault_flow *find_flow(struct fault_judge *j, const struct fault_packet *p)
{
    const uint32_t key = KEY_USED | (uint32_t)p->direction << KEY_DIRECTION | p->qpn;
    uint32_t at = key * 0x9e3779b1u >> 22;
    struct fault_flow *f;

    static_assert(FAULT_FLOWS == 1u << 10, "the hash has ten bits");
    for (uint32_t i = 0; i < FAULT_FLOWS; i++, at = (at + 1) % FAULT_FLOWS) {
        f = &j->flow[at];
        if (f->key == key)
            return f;
        if (f->key == 0) {
            f->key = key;
            f->ordinal = p->qpn == QP1 ? 0 : ++j->flow_count[p->direction];
            return f;
        }
    }
    return &j->crowd;
}

/* --- one rule --- */

static bool sees(const struct fault_rule *r, const struct fault_packet *p,
                 const struct fault_flow *flow, uint64_t since_ns)
{
    const struct operation *o = opcode_operation(p->opcode);

    if ((r->directions & 1u << p->direction) == 0)
        return false;
    if ((r->opcodes[p->opcode / 8] & 1u << p->opcode % 8) == 0)
        return false;
    if (o != NULL && o->kind == KIND_ACK && (r->syndromes & 1u << aeth_kind(p->syndrome)) == 0)
        return false;
    if (r->qpn != FAULT_QPN_ANY && r->qpn != p->qpn)
        return false;
    if (r->qp_ordinal != 0 && r->qp_ordinal != flow->ordinal)
        return false;
    return since_ns >= r->from_ns && since_ns < r->to_ns;
}

/* The number of this packet, from 1, among those that the rule counts together. */
static uint32_t number_of(struct fault_judge *j, uint32_t rule, struct fault_flow *flow)
{
    return j->plan->rule[rule].per == FAULT_PER_RULE ? ++j->seen[rule] : ++flow->seen[rule];
}

static bool hits(const struct fault_rule *r, uint32_t number, uint64_t hit, struct random *stream)
{
    if (r->nth != 0 && number != r->nth)
        return false;
    if (r->every != 0 && number % r->every != 0)
        return false;
    if (r->count != 0 && hit >= r->count)
        return false;
    return random_below(stream, FAULT_CHANCE_ONE) < r->chance;
}

/*
 * A new message: rules that count by message begin again, but not for one of a kind that
 * they never see, such as an acknowledgement between two responses.
 */
static void begin_message(struct fault_judge *j, struct fault_flow *flow, enum operation_kind kind)
{
    for (uint32_t i = 0; i < j->plan->rule_count; i++) {
        if (j->plan->rule[i].per == FAULT_PER_MESSAGE && (j->kinds[i] & 1u << kind) != 0)
            flow->seen[i] = 0;
    }
}

static void apply(const struct fault_rule *r, struct random *stream, struct fault_fate *fate)
{
    switch (r->action) {
    case FAULT_DROP:
    case FAULT_CUT:
        fate->drop = true;
        break;
    case FAULT_DUP:
        fate->copies++;
        break;
    case FAULT_REORDER:
        if (r->by > fate->overtakers)
            fate->overtakers = (uint32_t)r->by;
        break;
    case FAULT_CORRUPT:
        fate->corrupt = true;
        break;
    case FAULT_DELAY:
        fate->delay_ns += r->delay_ns;
        if (r->jitter_ns != 0)
            fate->delay_ns += random_below(stream, r->jitter_ns + 1);
        break;
    case FAULT_MARK:
        fate->mark = true;
        break;
    }
}

struct fault_fate fault_judge(struct fault_judge *j, const struct fault_packet *p,
                              uint64_t since_ns)
{
    const struct operation *o = opcode_operation(p->opcode);
    struct fault_flow *flow = find_flow(j, p);
    struct fault_fate fate = {0};

    if (o != NULL && position_starts(o->position))
        begin_message(j, flow, o->kind);
    for (uint32_t i = 0; i < j->plan->rule_count && !fate.drop; i++) {
        const struct fault_rule *r = &j->plan->rule[i];
        struct random *stream = &j->stream[i][p->direction];

        if (!sees(r, p, flow, since_ns))
            continue;
        j->tally[i].seen++;
        if (!hits(r, number_of(j, i, flow), j->tally[i].hit, stream))
            continue;
        j->tally[i].hit++;
        apply(r, stream, &fate);
    }
    return fate;
}
