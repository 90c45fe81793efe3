/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bad requests, one in each life of a connection, and what each must lead to
 * (IBA 9.7.4.1, 9.9.2, 9.9.3; tables 58 and 61): the status of the request, of
 * the receive request that it took, and the event of the responder. The memory
 * that they aim at is watched: nothing is claimed, so nothing may change.
 */
#include <errno.h>
#include <stdlib.h>

#include "sim/app.h"
#include "support/expect.h"

#define EVENT_NONE ENGINE_EVENT_COMPLETION

/* What is wrong, and with which kinds of request it can be. */
enum fault {
    FAULT_WRONG_KEY,
    FAULT_PAST_THE_END,
    FAULT_BEFORE_THE_START,
    FAULT_WRAPS,
    FAULT_NO_RIGHT,   /* a region of the peer without remote rights */
    FAULT_FOREIGN_PD, /* a region of another protection domain */
    FAULT_FREED_KEY,
    FAULT_UNALIGNED,
    FAULT_QP_FORBIDS, /* the peer's QP does not do this */
    FAULT_TOO_LONG,   /* longer than the receive request */
    FAULT_INVALID_KEY_TO_INVALIDATE,
    FAULT_BAD_RECEIVE, /* the receive request has a key that is not good */
    FAULT_LOCAL_KEY,
    FAULT_LOCAL_READ_ONLY,
};

#define KIND(opcode) (1u << (opcode))
#define WRITES (KIND(WR_WRITE) | KIND(WR_WRITE_IMM))
#define READS KIND(WR_READ)
#define ATOMICS (KIND(WR_CMP_SWAP) | KIND(WR_FETCH_ADD))
#define SENDS (KIND(WR_SEND) | KIND(WR_SEND_IMM))
#define REMOTE (WRITES | READS | ATOMICS)

struct refusal {
    const char *name;
    enum fault fault;
    uint32_t kinds;
    enum completion_status status;
    enum engine_event_type event; /* of the responder; EVENT_NONE: it does not fail */
};

/* clang-format off */
static const struct refusal refusals[] = {
    /* what is wrong                fault                   with              ends as                 the responder's event */
    {"wrong key",                   FAULT_WRONG_KEY,        REMOTE,           STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"past the end",                FAULT_PAST_THE_END,     REMOTE,           STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"before the start",            FAULT_BEFORE_THE_START, REMOTE,           STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"around the address space",    FAULT_WRAPS,            WRITES | READS,   STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"no right",                    FAULT_NO_RIGHT,         REMOTE,           STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"another domain",              FAULT_FOREIGN_PD,       REMOTE,           STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"key of a freed region",       FAULT_FREED_KEY,        REMOTE,           STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"unaligned atomic",            FAULT_UNALIGNED,        ATOMICS,          STATUS_REM_INV_REQ_ERR, ENGINE_EVENT_QP_REQ_ERR},
    {"not enabled on the QP",       FAULT_QP_FORBIDS,       REMOTE,           STATUS_REM_INV_REQ_ERR, ENGINE_EVENT_QP_REQ_ERR},
    {"longer than its receive",     FAULT_TOO_LONG,         SENDS,            STATUS_REM_INV_REQ_ERR, ENGINE_EVENT_QP_REQ_ERR},
    {"invalidates no key",          FAULT_INVALID_KEY_TO_INVALIDATE, KIND(WR_SEND_INV), STATUS_REM_ACCESS_ERR, ENGINE_EVENT_QP_ACCESS_ERR},
    {"receive with a wrong key",    FAULT_BAD_RECEIVE,      SENDS,            STATUS_REM_OP_ERR,      EVENT_NONE},
    {"wrong local key",             FAULT_LOCAL_KEY,        REMOTE | SENDS,   STATUS_LOC_PROT_ERR,    EVENT_NONE},
    {"answer to read-only memory",  FAULT_LOCAL_READ_ONLY,  READS | ATOMICS,  STATUS_LOC_PROT_ERR,    EVENT_NONE},
};
/* clang-format on */

static enum wr_opcode roll_kind(const struct refusal *r, struct dice *d)
{
    uint32_t opcode;

    do {
        opcode = (uint32_t)dice_below(d, 10);
    } while (!(r->kinds & KIND(opcode)));
    return (enum wr_opcode)opcode;
}

static struct mr *make_region(struct connection *c, struct pd *pd, struct book *b, uint32_t access,
                              struct dice *d)
{
    struct mr_attr attr = {.base = b->bytes + BOOK_GUARD,
                           .len = b->len - 2 * BOOK_GUARD,
                           .iova = (dice_u64(d) >> 4) & ~7ull,
                           .access = access};

    EXPECT(c->refusal_mr == NULL, "test: one region for each refusal");
    EXPECT(mr_new(pd, &attr, &c->refusal_mr) == 0, "mr_new fails");
    return c->refusal_mr;
}

static void aim_at(struct message *m, const struct mr *mr)
{
    m->remote_addr = mr->iova;
    m->rkey = mr->key;
}

/* Where the request goes, before anything is wrong with it: the peer's target, aligned. */
static void aim_well(struct endpoint *ep, struct message *m)
{
    m->remote_addr = (ep->peer->target.iova + 7) & ~7ull;
    m->rkey = ep->peer->target.mr->key;
}

static void spoil_target(struct endpoint *ep, struct message *m, enum fault fault)
{
    const struct region *target = &ep->peer->target;
    struct app_host *home = ep->peer->home;
    struct dice *d = &ep->app->dice;
    struct connection *c = ep->connection;
    uint32_t all =
        ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC;

    switch (fault) {
    case FAULT_WRONG_KEY:
        m->rkey ^= 1u << dice_below(d, 32);
        break;
    case FAULT_PAST_THE_END:
        m->remote_addr = target->iova + target->len - m->length + dice_between(d, 1, 64);
        m->remote_addr = (m->remote_addr + 7) & ~7ull;
        break;
    case FAULT_BEFORE_THE_START:
        m->remote_addr = (target->iova - dice_between(d, 1, 64)) & ~7ull;
        break;
    case FAULT_WRAPS:
        m->remote_addr = -(uint64_t)m->length;
        break;
    case FAULT_NO_RIGHT:
        aim_at(m, make_region(c, home->pd, &ep->peer->target_book, ACCESS_LOCAL_WRITE, d));
        break;
    case FAULT_FOREIGN_PD:
        aim_at(m, make_region(c, home->foreign_pd, &ep->peer->target_book, all, d));
        break;
    case FAULT_FREED_KEY:
        aim_at(m, make_region(c, home->pd, &ep->peer->target_book, all, d));
        EXPECT(mr_free(c->refusal_mr) == 0, "mr_free fails");
        c->refusal_mr = NULL;
        break;
    case FAULT_UNALIGNED:
        m->remote_addr += dice_between(d, 1, 7);
        break;
    case FAULT_INVALID_KEY_TO_INVALIDATE:
        m->imm = ep->peer->arena.regions[0].mr->key; /* no remote right (F58) */
        break;
    case FAULT_QP_FORBIDS:
    case FAULT_TOO_LONG:
    case FAULT_BAD_RECEIVE:
    case FAULT_LOCAL_KEY:
    case FAULT_LOCAL_READ_ONLY:
        break;
    }
}

static void spoil_sges(struct endpoint *ep, struct draft *d, enum fault fault)
{
    struct sge *last = &d->sges[d->sge_count - 1];

    if (fault == FAULT_LOCAL_KEY)
        last->lkey ^= 0x5a;
    if (fault == FAULT_LOCAL_READ_ONLY) {
        const struct mr *mr =
            make_region(ep->connection, ep->home->pd, &ep->arena.book, 0, &ep->app->dice);

        last->addr = mr->iova + d->m->pieces[d->sge_count - 1].offset - BOOK_GUARD;
        last->lkey = mr->key;
    }
}

/* The peer's QP stops taking requests of this kind. */
static void forbid(struct endpoint *peer)
{
    struct qp_attr attr = {.access = ACCESS_LOCAL_WRITE};
    int error = qp_modify(peer->qp, &attr, QP_ATTR_ACCESS, NULL);

    EXPECT(error == 0, "%s: changing access returns %d", peer->channel.name, error);
}

static bool peer_waits_for_nothing(const struct endpoint *ep)
{
    return ep->peer->receives == &ep->peer->own && ep->peer->own.open == 0;
}

/* Some faults need that nothing else is under way. */
static bool is_time_for(const struct endpoint *ep, const struct refusal *r)
{
    const struct channel *c = &ep->channel;
    bool delivered = c->delivered == c->count || requests_open(c) == 0;

    switch (r->fault) {
    case FAULT_QP_FORBIDS:
        return requests_open(c) == 0 && qp_state(ep->peer->qp) == QP_RTS;
    case FAULT_BAD_RECEIVE:
        return requests_open(c) == 0 && delivered && peer_waits_for_nothing(ep);
    case FAULT_WRONG_KEY:
    case FAULT_PAST_THE_END:
    case FAULT_BEFORE_THE_START:
    case FAULT_WRAPS:
    case FAULT_NO_RIGHT:
    case FAULT_FOREIGN_PD:
    case FAULT_FREED_KEY:
    case FAULT_UNALIGNED:
    case FAULT_TOO_LONG:
    case FAULT_INVALID_KEY_TO_INVALIDATE:
    case FAULT_LOCAL_KEY:
    case FAULT_LOCAL_READ_ONLY:
        break;
    }
    return true;
}

static uint32_t length_for(const struct endpoint *ep, const struct refusal *r, enum wr_opcode kind)
{
    struct dice *d = &ep->app->dice;
    const struct endpoint *peer = ep->peer;
    uint32_t held = peer->receives == &peer->own ? peer->receive_len : peer->home->shared_len;
    uint32_t len;

    if (opcode_is_atomic(kind))
        return 8;
    if (r->fault == FAULT_TOO_LONG)
        return held + (uint32_t)dice_between(d, 1, 100);
    /* Of several packets as well: all is judged before the first byte is placed. */
    len = (uint32_t)dice_between(d, 1, dice_percent(d, 50) ? 400 : 3ull * ep->channel.pmtu);
    return len < held ? len : held;
}

static void prepare_peer(struct endpoint *ep, const struct refusal *r)
{
    if (r->fault == FAULT_QP_FORBIDS)
        forbid(ep->peer);
    if (r->fault == FAULT_BAD_RECEIVE)
        EXPECT(receiving_post(ep->peer, true), "test: no memory for a receive request");
    if (r->fault == FAULT_TOO_LONG)
        ep->peer->receives->errors_allowed |= STATUS_BIT(STATUS_LOC_LEN_ERR);
}

/* When the NAK is lost nobody answers any more. */
static bool nak_may_be_lost(const struct world *w)
{
    return !world_is_healed(w) && (w->plan.faults.lose || w->plan.faults.corrupt ||
                                   w->plan.faults.refuse || w->plan.receive_buffer);
}

static bool post_refusal(struct endpoint *ep, const struct refusal *r)
{
    enum wr_opcode kind = roll_kind(r, &ep->app->dice);
    struct draft d = {.m = sending_message(ep, kind, length_for(ep, r, kind))};

    if (dice_percent(&ep->app->dice, 50) || ep->init.all_signaled)
        d.m->flags |= WR_SIGNALED;
    d.m->refused = true;
    d.m->errors_allowed = STATUS_BIT(r->status);
    d.m->compare = dice_u64(&ep->app->dice);
    d.m->swap = dice_u64(&ep->app->dice);
    if (!sending_take_memory(ep, &d, 1)) {
        free(d.m);
        return false;
    }
    if (!opcode_is_answered(kind))
        sending_write_message(d.m);
    aim_well(ep, d.m);
    spoil_target(ep, d.m, r->fault);
    spoil_sges(ep, &d, r->fault);
    prepare_peer(ep, r);
    ladder_note(ep->app->world.ladder, ep->app->world.now, ep->home->host->index,
                "the next request is bad: %s", r->name);
    ep->connection->refusal = r;
    ep->connection->refused = ep;
    if (r->event != EVENT_NONE || r->fault == FAULT_BAD_RECEIVE)
        ep->peer->channel.errors_allowed |= STATUS_BIT(STATUS_WR_FLUSH_ERR);
    if (r->event == EVENT_NONE) /* nobody tells the peer */
        ep->peer->channel.errors_allowed |= STATUS_BIT(STATUS_RETRY_EXC_ERR);
    if (nak_may_be_lost(&ep->app->world))
        ep->channel.errors_allowed |= STATUS_BIT(STATUS_RETRY_EXC_ERR);
    sending_post(ep, &d);
    return true;
}

bool refusal_turn(struct endpoint *ep)
{
    struct dice *d = &ep->app->dice;
    const struct refusal *r = &refusals[dice_below(d, sizeof(refusals) / sizeof(refusals[0]))];

    if (ep->app->world.plan.mode != MODE_refusal || ep->service != SERVICE_RC)
        return false;
    if (ep->connection->refusal || !dice_percent(d, 10) || !is_time_for(ep, r))
        return false;
    return post_refusal(ep, r);
}

void refusal_check(struct connection *c)
{
    const struct refusal *r = c->refusal;
    const struct endpoint *peer;

    if (c->refusal_mr)
        EXPECT(mr_free(c->refusal_mr) == 0, "mr_free fails");
    c->refusal_mr = NULL;
    if (!r)
        return;
    peer = c->refused->peer;
    if (r->event != EVENT_NONE)
        EXPECT(peer->error_events & (1u << r->event), "%s: no event %d after: %s",
               peer->channel.name, (int)r->event, r->name);
}

void refusal_memory_turn(struct connection *c)
{
    (void)c;
}
