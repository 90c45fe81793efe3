/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bad requests, one in each life of a connection, and what each must lead to
 * (IBA 9.7.4.1, 9.9.2, 9.9.3; tables 58 and 61): the status of the request, of
 * the receive request that it took, and the event of the responder. The memory
 * that they aim at is watched: nothing is claimed, so nothing may change.
 */
#include <errno.h>
#include <stdio.h>
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
    FAULT_CHANGED_KEY,
    FAULT_RIGHT_TAKEN,
    FAULT_UNALIGNED,
    FAULT_QP_FORBIDS, /* the peer's QP does not do this */
    FAULT_TOO_LONG,   /* longer than the receive request */
    FAULT_INVALID_KEY_TO_INVALIDATE,
    FAULT_BAD_RECEIVE, /* the receive request has a key that is not good */
    FAULT_WRONG_SRQ,   /* none that the peer's domain has */
    FAULT_PERSISTENCE, /* no memory is persistent */
    /* the key is a window's */
    FAULT_UNBOUND_WINDOW,
    FAULT_ENDED_WINDOW,
    FAULT_READ_ONLY_WINDOW,
    FAULT_PAST_THE_WINDOW,
    FAULT_WINDOW_OF_ANOTHER, /* type 2, bound to another QP */
    /* local requests */
    FAULT_BIND_TO_NOTHING,
    FAULT_BIND_PAST_THE_END,
    FAULT_BIND_NOT_ALLOWED, /* the region is not to be bound to */
    FAULT_BIND_TWICE,       /* type 2 */
    FAULT_INVALIDATE_NOTHING,
    FAULT_INVALIDATE_REGION,
    FAULT_LOCAL_KEY,
    FAULT_LOCAL_READ_ONLY,
    /* what goes away while the request is under way, or not before it is done */
    FAULT_REGION_GOES,
    FAULT_WINDOW_GOES,
    FAULT_MEMORY_GOES,
    FAULT_LOCAL_REGION_GOES,
    FAULT_LOCAL_MEMORY_GOES,
    /* datagrams */
    FAULT_WRONG_QKEY,
    FAULT_NO_SUCH_QP,
};

#define KIND(opcode) (1u << (opcode))
#define WRITES (KIND(WR_WRITE) | KIND(WR_WRITE_IMM))
#define READS KIND(WR_READ)
#define ATOMICS (KIND(WR_CMP_SWAP) | KIND(WR_FETCH_ADD))
#define SENDS (KIND(WR_SEND) | KIND(WR_SEND_IMM))
#define AWRITE KIND(WR_ATOMIC_WRITE)
#define FLUSHES KIND(WR_FLUSH)
#define BINDS KIND(WR_BIND_MW)
#define INVS KIND(WR_LOCAL_INV)
#define WITH_MEMORY (WRITES | READS | ATOMICS | AWRITE)
#define REMOTE (WITH_MEMORY | FLUSHES)

#define RC (1u << SERVICE_RC | XRC)
#define ONLY_RC (1u << SERVICE_RC)
#define XRC (1u << SERVICE_XRC)
#define UC (1u << SERVICE_UC)
#define UD (1u << SERVICE_UD)

struct refusal {
    const char *name;
    enum fault fault;
    uint32_t services;
    uint32_t kinds;
    enum completion_status status; /* on RC, and for local faults everywhere */
    enum engine_event_type event;  /* of the responder on RC; EVENT_NONE: it does not fail */
};

/* clang-format off */
static const struct refusal refusals[] = {
    /* what is wrong              fault                    on            with             ends as                 the responder's event */
    {"wrong key",                 FAULT_WRONG_KEY,         RC | UC,      REMOTE,          STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"past the end",              FAULT_PAST_THE_END,      RC | UC,      REMOTE,          STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"before the start",          FAULT_BEFORE_THE_START,  RC | UC,      REMOTE,          STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"around the address space",  FAULT_WRAPS,             RC | UC,      WRITES | READS,  STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"no right",                  FAULT_NO_RIGHT,          RC | UC,      REMOTE,          STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"another domain",            FAULT_FOREIGN_PD,        RC | UC,      REMOTE,          STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"key of a freed region",     FAULT_FREED_KEY,         RC | UC,      REMOTE,          STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"key before a change",       FAULT_CHANGED_KEY,       RC | UC,      REMOTE,          STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"a right was taken",         FAULT_RIGHT_TAKEN,       RC | UC,      REMOTE,          STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"window that is not bound",  FAULT_UNBOUND_WINDOW,    ONLY_RC | UC, REMOTE,          STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"window that was ended",     FAULT_ENDED_WINDOW,      ONLY_RC | UC, REMOTE,          STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"window to read",            FAULT_READ_ONLY_WINDOW,  ONLY_RC | UC, WRITES | AWRITE | ATOMICS | FLUSHES, STATUS_REM_ACCESS_ERR, ENGINE_EVENT_QP_ACCESS_ERR},
    {"past the window",           FAULT_PAST_THE_WINDOW,   ONLY_RC | UC, REMOTE,          STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"window of another QP",      FAULT_WINDOW_OF_ANOTHER, ONLY_RC | UC, REMOTE,          STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"binds to nothing",          FAULT_BIND_TO_NOTHING,   RC | UC,      BINDS,           STATUS_MW_BIND_ERR,     EVENT_NONE},
    {"binds past the end",        FAULT_BIND_PAST_THE_END, RC | UC,      BINDS,           STATUS_MW_BIND_ERR,     EVENT_NONE},
    {"binds what must not be",    FAULT_BIND_NOT_ALLOWED,  RC | UC,      BINDS,           STATUS_MW_BIND_ERR,     EVENT_NONE},
    {"binds what is bound",       FAULT_BIND_TWICE,        RC | UC,      BINDS,           STATUS_MW_BIND_ERR,     EVENT_NONE},
    {"invalidates nothing",       FAULT_INVALIDATE_NOTHING, RC | UC,     INVS,            STATUS_MW_BIND_ERR,     EVENT_NONE},
    {"invalidates a region",      FAULT_INVALIDATE_REGION, RC | UC,      INVS,            STATUS_MW_BIND_ERR,     EVENT_NONE},
    {"unaligned atomic",          FAULT_UNALIGNED,         RC,           ATOMICS | AWRITE, STATUS_REM_INV_REQ_ERR, ENGINE_EVENT_QP_REQ_ERR},
    {"not enabled on the QP",     FAULT_QP_FORBIDS,        RC | UC,      REMOTE,          STATUS_REM_INV_REQ_ERR, ENGINE_EVENT_QP_REQ_ERR},
    {"longer than its receive",   FAULT_TOO_LONG,          RC | UC,      SENDS,           STATUS_REM_INV_REQ_ERR, ENGINE_EVENT_QP_REQ_ERR},
    {"invalidates no key",        FAULT_INVALID_KEY_TO_INVALIDATE, RC,   KIND(WR_SEND_INV), STATUS_RETRY_EXC_ERR, EVENT_NONE},
    {"receive with a wrong key",  FAULT_BAD_RECEIVE,       RC,           SENDS,           STATUS_REM_OP_ERR,      EVENT_NONE},
    {"names no SRQ",              FAULT_WRONG_SRQ,         XRC,          REMOTE | SENDS,  STATUS_REM_INV_REQ_ERR, ENGINE_EVENT_QP_ACCESS_ERR},
    {"flushes to persistence",    FAULT_PERSISTENCE,       RC,           FLUSHES,         STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"wrong local key",           FAULT_LOCAL_KEY,         RC | UC | UD, WITH_MEMORY | SENDS,  STATUS_LOC_PROT_ERR,    EVENT_NONE},
    {"answer to read-only memory", FAULT_LOCAL_READ_ONLY,  RC,           READS | ATOMICS, STATUS_LOC_PROT_ERR,    EVENT_NONE},
    {"its region goes",           FAULT_REGION_GOES,       RC,           WRITES | READS,  STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"its window goes",           FAULT_WINDOW_GOES,       ONLY_RC,      WRITES | READS,  STATUS_REM_ACCESS_ERR,  ENGINE_EVENT_QP_ACCESS_ERR},
    {"its memory goes",           FAULT_MEMORY_GOES,       RC,           WRITES | READS,  STATUS_REM_OP_ERR,      ENGINE_EVENT_QP_ACCESS_ERR},
    {"its local region goes",     FAULT_LOCAL_REGION_GOES, RC | UC,      WRITES | READS | SENDS, STATUS_LOC_PROT_ERR, EVENT_NONE},
    {"its local memory goes",     FAULT_LOCAL_MEMORY_GOES, RC | UC,      WRITES | READS | SENDS, STATUS_LOC_PROT_ERR, EVENT_NONE},
    {"wrong Q_Key",               FAULT_WRONG_QKEY,        UD,           SENDS,           STATUS_SUCCESS,         EVENT_NONE},
    {"no such QP",                FAULT_NO_SUCH_QP,        UD,           SENDS,           STATUS_SUCCESS,         EVENT_NONE},
};
/* clang-format on */

#define REFUSAL_COUNT (sizeof(refusals) / sizeof(refusals[0]))

static uint64_t counts[REFUSAL_COUNT]; /* how often each was posted, over all seeds */

uint32_t refusals_missing(bool print_all)
{
    uint32_t missing = 0;

    for (size_t i = 0; i < REFUSAL_COUNT; i++) {
        if (print_all)
            printf("%12lu bad requests: %s\n", (unsigned long)counts[i], refusals[i].name);
        if (counts[i] > 0)
            continue;
        printf("never happened: bad request: %s\n", refusals[i].name);
        missing++;
    }
    return missing;
}

/* It may be too late to hurt. */
static bool may_succeed(const struct refusal *r)
{
    return r->fault >= FAULT_REGION_GOES && r->fault <= FAULT_LOCAL_MEMORY_GOES;
}

static enum wr_opcode roll_kind(const struct endpoint *ep, const struct refusal *r)
{
    struct dice *d = &ep->app->dice;
    uint32_t kinds = r->kinds;
    uint32_t opcode;

    if (ep->service == SERVICE_UC)
        kinds &= WRITES | SENDS | BINDS | INVS;
    else if (ep->service == SERVICE_UD)
        kinds &= SENDS;
    do {
        opcode = (uint32_t)dice_below(d, WR_OPCODE_COUNT);
    } while (!(kinds & KIND(opcode)));
    return (enum wr_opcode)opcode;
}

static struct mr *make_region(struct connection *c, struct pd *pd, struct book *b, uint32_t access,
                              struct dice *d)
{
    struct mr_attr attr = {.base = b->bytes + BOOK_GUARD,
                           .len = b->len - (size_t)2 * BOOK_GUARD,
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

static const uint32_t all_rights = ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ |
                                   ACCESS_REMOTE_ATOMIC | ACCESS_FLUSH_GLOBAL | ACCESS_MW_BIND;

static void spoil_address(struct endpoint *ep, struct message *m, enum fault fault)
{
    const struct region *target = &ep->peer->target;
    struct dice *d = &ep->app->dice;

    if (fault == FAULT_WRONG_KEY) {
        m->rkey ^= 1u << dice_below(d, 32);
    } else if (fault == FAULT_PAST_THE_END) {
        m->remote_addr = target->iova + target->len - m->length + dice_between(d, 1, 64);
        m->remote_addr = (m->remote_addr + 7) & ~7ull;
    } else if (fault == FAULT_BEFORE_THE_START) {
        m->remote_addr = (target->iova - dice_between(d, 1, 64)) & ~7ull;
    } else if (fault == FAULT_WRAPS) {
        m->remote_addr = -(uint64_t)m->length;
    } else if (fault == FAULT_UNALIGNED) {
        m->remote_addr += dice_between(d, 1, 7);
    } else if (fault == FAULT_WRONG_SRQ) {
        m->srqn ^= 1u << dice_between(d, 8, 23);
    } else if (fault == FAULT_PERSISTENCE) {
        m->flush_placement = FLUSH_PERSISTENT | (dice_percent(d, 50) ? FLUSH_GLOBAL : 0u);
    } else if (fault == FAULT_INVALID_KEY_TO_INVALIDATE) {
        m->imm = ep->peer->arena.regions[0].mr->key; /* no remote right (F58) */
    }
}

/* Aims at a region that is made for it. */
static void spoil_region(struct endpoint *ep, struct message *m, enum fault fault)
{
    struct app_host *home = ep->peer->home;
    struct dice *d = &ep->app->dice;
    struct connection *c = ep->connection;
    struct book *target = &ep->peer->target_book;

    if (fault == FAULT_NO_RIGHT) {
        aim_at(m, make_region(c, home->pd, target, ACCESS_LOCAL_WRITE, d));
    } else if (fault == FAULT_FOREIGN_PD) {
        aim_at(m, make_region(c, home->foreign_pd, target, all_rights, d));
    } else if (fault == FAULT_FREED_KEY) {
        aim_at(m, make_region(c, home->pd, target, all_rights, d));
        EXPECT(mr_free(c->refusal_mr) == 0, "mr_free fails");
        c->refusal_mr = NULL;
    } else if (fault == FAULT_CHANGED_KEY) {
        aim_at(m, make_region(c, home->pd, target, all_rights, d));
        EXPECT(mr_change(c->refusal_mr, NULL, NULL) == 0, "mr_change fails");
    } else if (fault == FAULT_RIGHT_TAKEN) {
        aim_at(m, make_region(c, home->pd, target, all_rights, d));
        EXPECT(mr_set_access(c->refusal_mr, NULL, ACCESS_LOCAL_WRITE) == 0, "mr_set_access fails");
    } else if (fault == FAULT_REGION_GOES) {
        aim_at(m, make_region(c, home->pd, target, all_rights, d));
        c->goes_in = (uint32_t)dice_between(d, 1, 4);
    }
}

/* A window of whose over all of a region that is made for it. */
static struct mw *make_window(struct connection *c, const struct endpoint *whose, enum mw_type type,
                              uint32_t access)
{
    struct dice *d = &whose->app->dice;
    const struct mr *mr =
        make_region(c, whose->home->pd, &c->refused->peer->target_book, all_rights, d);
    struct mw_bind bind = {
        .region_key = mr->key, .addr = mr->iova, .len = mr->len, .access = access};

    EXPECT(mw_new(whose->home->pd, type, &c->refusal_mw) == 0, "mw_new fails");
    bind.window_key = c->refusal_mw->view.key;
    bind.key = bind.window_key ^ (uint32_t)dice_below(d, 256);
    EXPECT(mw_bind(whose->qp, &bind) == 0, "a window cannot be bound");
    return c->refusal_mw;
}

static const struct endpoint *another_on(const struct endpoint *ep)
{
    const struct app *a = ep->app;

    for (uint32_t i = 0; i < a->endpoint_count; i++) {
        const struct endpoint *other = a->endpoints[i];

        if (other != ep && other->home == ep->home && !other->mute)
            return other;
    }
    return NULL;
}

static void spoil_window(struct endpoint *ep, struct message *m, enum fault fault)
{
    const uint32_t rights = all_rights & ~(uint32_t)(ACCESS_LOCAL_WRITE | ACCESS_MW_BIND);
    enum mw_type type = dice_percent(&ep->app->dice, 50) ? MW_TYPE_1 : MW_TYPE_2;
    struct connection *c = ep->connection;
    const struct endpoint *peer = ep->peer;

    if (fault == FAULT_UNBOUND_WINDOW) {
        EXPECT(mw_new(peer->home->pd, type, &c->refusal_mw) == 0, "mw_new fails");
        m->rkey = c->refusal_mw->view.key;
    } else if (fault == FAULT_ENDED_WINDOW) {
        aim_at(m, &make_window(c, peer, MW_TYPE_2, rights)->view);
        EXPECT(mw_invalidate(peer->home->host->engine, peer->home->pd, m->rkey) == MR_OK,
               "mw_invalidate fails");
    } else if (fault == FAULT_READ_ONLY_WINDOW) {
        aim_at(m, &make_window(c, peer, type, ACCESS_REMOTE_READ)->view);
    } else if (fault == FAULT_PAST_THE_WINDOW) {
        aim_at(m, &make_window(c, peer, type, rights)->view);
        m->remote_addr = (m->remote_addr + c->refusal_mw->view.len + 7) & ~7ull;
    } else if (fault == FAULT_WINDOW_OF_ANOTHER) {
        aim_at(m, &make_window(c, another_on(peer), MW_TYPE_2, rights)->view);
    } else if (fault == FAULT_WINDOW_GOES) {
        aim_at(m, &make_window(c, peer, type, rights)->view);
        c->goes_in = (uint32_t)dice_between(&ep->app->dice, 1, 4);
    }
}

/* Local requests: what they name is not what they need. */
static void spoil_local(struct endpoint *ep, struct draft *d, enum fault fault)
{
    struct connection *c = ep->connection;
    enum mw_type type = fault == FAULT_BIND_TWICE ? MW_TYPE_2 : MW_TYPE_1;
    struct mr *mr;

    if (fault == FAULT_INVALIDATE_REGION)
        d->m->imm = ep->arena.regions[0].mr->key;
    else if (fault == FAULT_INVALIDATE_NOTHING)
        d->m->imm = ep->arena.regions[0].mr->key ^ 0x5a00;
    if (fault < FAULT_BIND_TO_NOTHING || fault > FAULT_BIND_TWICE)
        return;
    mr = make_region(c, ep->home->pd, &ep->arena.book,
                     all_rights & ~(fault == FAULT_BIND_NOT_ALLOWED ? (uint32_t)ACCESS_MW_BIND : 0),
                     &ep->app->dice);
    EXPECT(mw_new(ep->home->pd, type, &c->refusal_mw) == 0, "mw_new fails");
    d->bind = (struct mw_bind){.window_key = c->refusal_mw->view.key,
                               .region_key = mr->key,
                               .key = c->refusal_mw->view.key,
                               .addr = mr->iova,
                               .len = mr->len,
                               .access = ACCESS_REMOTE_WRITE};
    if (fault == FAULT_BIND_TO_NOTHING)
        d->bind.region_key ^= 0x5a00;
    else if (fault == FAULT_BIND_PAST_THE_END)
        d->bind.len++;
    else if (fault == FAULT_BIND_TWICE)
        EXPECT(mw_bind(ep->qp, &d->bind) == 0, "a window cannot be bound");
}

/* The last piece lies in a region of its own. */
static void use_own_region(struct endpoint *ep, struct draft *d, uint32_t access)
{
    struct sge *last = &d->sges[d->sge_count - 1];
    const struct mr *mr =
        make_region(ep->connection, ep->home->pd, &ep->arena.book, access, &ep->app->dice);

    last->addr = mr->iova + d->m->pieces[d->sge_count - 1].offset - BOOK_GUARD;
    last->lkey = mr->key;
}

static void spoil_memory(struct endpoint *ep, struct draft *d, enum fault fault)
{
    struct connection *c = ep->connection;

    if (fault == FAULT_LOCAL_KEY) {
        d->sges[d->sge_count - 1].lkey ^= 0x5a;
    } else if (fault == FAULT_LOCAL_READ_ONLY) {
        use_own_region(ep, d, 0);
    } else if (fault == FAULT_LOCAL_REGION_GOES) {
        use_own_region(ep, d, ACCESS_LOCAL_WRITE);
        c->goes_in = (uint32_t)dice_between(&ep->app->dice, 1, 4);
    } else if (fault == FAULT_LOCAL_MEMORY_GOES) {
        c->going = d->m->pieces[d->sge_count - 1];
        c->goes_in = (uint32_t)dice_between(&ep->app->dice, 1, 4);
    } else if (fault == FAULT_MEMORY_GOES) {
        c->going = d->m->where;
        c->goes_in = (uint32_t)dice_between(&ep->app->dice, 1, 4);
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
    bool idle = requests_open(c) == 0;

    if (r->fault == FAULT_QP_FORBIDS)
        return idle && qp_state(ep->peer->qp) == QP_RTS;
    if (r->fault == FAULT_WINDOW_OF_ANOTHER)
        return another_on(ep->peer) != NULL;
    if (r->fault == FAULT_BAD_RECEIVE)
        return idle && peer_waits_for_nothing(ep);
    return true;
}

static uint32_t receive_len(const struct endpoint *ep)
{
    if (ep->receives == &ep->own)
        return ep->receive_len;
    return ep->home->srqs[ep->mute ? SRQ_XRC_FIRST : SRQ_PLAIN].len;
}

static uint32_t length_for(const struct endpoint *ep, const struct refusal *r, enum wr_opcode kind)
{
    struct dice *d = &ep->app->dice;
    uint32_t len;

    if (opcode_is_atomic(kind) || kind == WR_ATOMIC_WRITE)
        return 8;
    if (opcode_is_local(kind) || kind == WR_FLUSH)
        return 0;
    if (ep->service == SERVICE_UD)
        return (uint32_t)dice_between(d, 1, ep->init.pmtu);
    if (may_succeed(r))
        return (uint32_t)dice_between(d, 1, ep->app->world.plan.size_max);
    if (r->fault == FAULT_TOO_LONG)
        return receive_len(ep->peer) + (uint32_t)dice_between(d, 1, 100);
    /* Of several packets as well: all is judged before the first byte is placed. */
    len = (uint32_t)dice_between(d, 1, dice_percent(d, 50) ? 400 : 3ull * ep->channel.pmtu);
    return len < receive_len(ep->peer) ? len : receive_len(ep->peer);
}

/* Requests of the SRQ that a message of XRC names, or of the peer's only queue. */
static void allow_receive_to_end(struct endpoint *peer, enum completion_status status)
{
    for (uint32_t i = SRQ_XRC_FIRST; peer->mute && i <= SRQ_XRC_LAST; i++)
        peer->home->srqs[i].queue.errors_allowed |= STATUS_BIT(status);
    peer->receives->errors_allowed |= STATUS_BIT(status);
}

static void prepare_peer(struct endpoint *ep, const struct refusal *r)
{
    if (r->fault == FAULT_QP_FORBIDS)
        forbid(ep->peer);
    if (r->fault == FAULT_BAD_RECEIVE)
        EXPECT(receiving_post(ep->peer, true), "test: no memory for a receive request");
    if (r->fault == FAULT_TOO_LONG)
        allow_receive_to_end(ep->peer, STATUS_LOC_LEN_ERR);
    if (r->fault == FAULT_INVALID_KEY_TO_INVALIDATE)
        allow_receive_to_end(ep->peer, STATUS_MW_BIND_ERR);
}

/*
 * When the NAK is lost nobody answers any more. One that comes before the answer to an earlier READ
 * or atomic is as good as lost: it says that the answer is missing.
 */
static bool nak_may_be_lost(const struct world *w)
{
    const struct faults *f = &w->plan.faults;

    return !world_is_healed(w) && (f->lose || f->corrupt || f->refuse || f->shorten || f->reorder ||
                                   f->duplicate || f->overtake || w->plan.receive_buffer);
}

/* Aims at the peer and makes the request what it is to be. */
static void spoil(struct endpoint *ep, struct draft *d, const struct refusal *r)
{
    struct message *m = d->m;

    aim_well(ep, m);
    spoil_address(ep, m, r->fault);
    spoil_region(ep, m, r->fault);
    spoil_window(ep, m, r->fault);
    spoil_local(ep, d, r->fault);
    if (may_succeed(r)) {
        uint64_t offset = m->remote_addr - ep->peer->target.iova; /* of the aligned start */

        if (r->fault == FAULT_REGION_GOES || r->fault == FAULT_WINDOW_GOES)
            offset = 0; /* the region begins where the target does */
        m->where = (struct piece){&ep->peer->target_book, BOOK_GUARD + offset, m->length};
        sending_claim(ep, m);
    }
    spoil_memory(ep, d, r->fault);
}

/* What may come of it beside its own status. */
static void allow_consequences(struct endpoint *ep, struct message *m, const struct refusal *r)
{
    bool local = r->status == STATUS_LOC_PROT_ERR || r->status == STATUS_MW_BIND_ERR;

    m->refused = !may_succeed(r);
    if (endpoint_is_reliable(ep) || local)
        m->errors_allowed = STATUS_BIT(r->status);
    if (!endpoint_is_reliable(ep))
        return;
    if (r->fault == FAULT_MEMORY_GOES) /* others may aim there too */
        ep->channel.errors_allowed |= STATUS_BIT(r->status);
    if (r->event != EVENT_NONE || r->fault == FAULT_BAD_RECEIVE ||
        r->fault == FAULT_INVALID_KEY_TO_INVALIDATE)
        ep->peer->channel.errors_allowed |= STATUS_BIT(STATUS_WR_FLUSH_ERR);
    if (r->event == EVENT_NONE) /* nobody tells the peer */
        ep->peer->channel.errors_allowed |= STATUS_BIT(STATUS_RETRY_EXC_ERR);
    if (nak_may_be_lost(&ep->app->world))
        ep->channel.errors_allowed |= STATUS_BIT(STATUS_RETRY_EXC_ERR);
}

static bool draft_refusal(struct endpoint *ep, struct draft *d, const struct refusal *r)
{
    enum wr_opcode kind = roll_kind(ep, r);
    uint32_t length = length_for(ep, r, kind);

    if (may_succeed(r) && length + 8 > ep->peer->target.len)
        return false;
    d->m = sending_message(ep, kind, length);
    if (dice_percent(&ep->app->dice, 50) || sending_must_signal(ep))
        d->m->flags |= WR_SIGNALED;
    d->m->compare = dice_u64(&ep->app->dice);
    d->m->swap = dice_u64(&ep->app->dice);
    d->m->flush_len = 8;
    if ((opcode_carries_data(kind) || opcode_fetches(kind)) && !sending_take_memory(ep, d, 1)) {
        free(d->m);
        return false;
    }
    if (opcode_carries_data(kind))
        sending_write_message(d->m);
    ladder_note(ep->app->world.ladder, ep->app->world.now, ep->home->host->index,
                "the next request is bad: %s", r->name);
    return true;
}

static bool post_refusal(struct endpoint *ep, const struct refusal *r)
{
    struct draft d = {0};

    if (!draft_refusal(ep, &d, r))
        return false;
    ep->connection->refused = ep;
    spoil(ep, &d, r);
    prepare_peer(ep, r);
    ep->connection->refusal = r;
    counts[r - refusals]++;
    ep->connection->refused_message = d.m;
    allow_consequences(ep, d.m, r);
    sending_post(ep, &d);
    return true;
}

/* Datagrams: what is wrong with the address is nobody's error; a local one stops the send queue. */
static bool post_bad_datagram(struct endpoint *ep, const struct refusal *r)
{
    struct draft d = {0};
    const struct endpoint *to = sending_destination(ep);

    if (!draft_refusal(ep, &d, r))
        return false;
    sending_aim_datagram(ep, &d, to);
    d.m->destination = NULL;
    d.m->refused = true;
    if (r->fault == FAULT_WRONG_QKEY)
        d.m->remote_qkey ^= 1u << dice_below(&ep->app->dice, 31);
    else if (r->fault == FAULT_NO_SUCH_QP)
        d.m->remote_qpn ^= 0x8000;
    else
        d.sges[0].lkey ^= 0x5a;
    if (r->fault == FAULT_LOCAL_KEY)
        d.m->errors_allowed = STATUS_BIT(r->status);
    counts[r - refusals]++;
    sending_post(ep, &d);
    return true;
}

/* One that is seldom possible is taken more often when it is. */
static const struct refusal *roll_refusal(const struct endpoint *ep)
{
    struct dice *d = &ep->app->dice;
    const struct refusal *r = &refusals[dice_below(d, REFUSAL_COUNT)];

    for (size_t i = 0; i < REFUSAL_COUNT && ep->service == SERVICE_RC; i++) {
        if (refusals[i].fault == FAULT_BAD_RECEIVE && is_time_for(ep, &refusals[i]) &&
            dice_percent(d, 20))
            return &refusals[i];
    }
    return r;
}

bool refusal_turn(struct endpoint *ep)
{
    struct dice *d = &ep->app->dice;
    const struct refusal *r;

    if (ep->app->world.plan.mode != MODE_refusal || !dice_percent(d, 10))
        return false;
    r = roll_refusal(ep);
    if (!(r->services & (1u << ep->service)))
        return false;
    if (ep->service == SERVICE_UD)
        return post_bad_datagram(ep, r);
    if (ep->connection->refusal || ep->connection->lives > REFUSED_LIVES_MAX || !is_time_for(ep, r))
        return false;
    return post_refusal(ep, r);
}

/* True when the request ended with an error of the responder. */
static bool was_refused(const struct connection *c)
{
    return c->refused_message->completed && c->refused_message->status == c->refusal->status;
}

void refusal_fini(struct connection *c)
{
    if (c->refusal_mw)
        mw_free(c->refusal_mw);
    c->refusal_mw = NULL;
    if (c->refusal_mr)
        EXPECT(mr_free(c->refusal_mr) == 0, "mr_free fails");
    c->refusal_mr = NULL;
}

void refusal_check(struct connection *c)
{
    const struct refusal *r = c->refusal;
    const struct endpoint *peer;

    refusal_fini(c);
    if (!r || !endpoint_is_reliable(c->refused))
        return;
    peer = c->refused->peer;
    /* A READ that is asked for again may find nothing there any more, which is no event. */
    if (r->event != EVENT_NONE && was_refused(c) && c->refused_message->opcode != WR_READ)
        EXPECT(peer->error_events & (1u << r->event), "%s: no event %d after: %s",
               peer->channel.name, (int)r->event, r->name);
}

static void take_away(struct connection *c)
{
    if (c->refusal_mw || !c->refusal_mr)
        refusal_fini(c);
    else if (c->lives % 3 == 0)
        EXPECT(mr_change(c->refusal_mr, NULL, NULL) == 0, "mr_change fails");
    else if (c->lives % 3 == 1)
        EXPECT(mr_set_access(c->refusal_mr, NULL, 0) == 0, "mr_set_access fails");
    else
        refusal_fini(c);
}

void refusal_memory_turn(struct connection *c)
{
    if (c->goes_in == 0 || --c->goes_in > 0)
        return;
    take_away(c);
    c->gone = c->going;
}
