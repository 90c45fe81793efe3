/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows: bound by posted work requests, used by the peer, and ended by
 * a bind of nothing (type 1), a local invalidate or the peer's SEND with
 * invalidate (type 2). Whether a window is open follows from the messages that
 * bind and end it. It is ended only when nobody uses it any more, and then its
 * key must be dead.
 */
#include "sim/app.h"
#include "sim/census.h"
#include "support/expect.h"

#define ALL_RIGHTS                                                                                 \
    (ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC | ACCESS_FLUSH_GLOBAL)

static bool is_done(const struct message *m)
{
    return m->completed && m->status == STATUS_SUCCESS;
}

static bool is_open(const struct app_window *w)
{
    return w->bound_by && is_done(w->bound_by) && !w->ended_by;
}

static enum mw_type type_of(const struct app_window *w)
{
    return w->mw->type;
}

/* Who can still be asking through the window is asked: the peer. */
static bool is_used(const struct endpoint *ep, const struct app_window *w)
{
    const struct channel *c = &ep->peer->channel;
    bool reliable = endpoint_is_reliable(ep);

    if (!reliable && ep->app->world.plan.mode != MODE_lossless)
        return false; /* what comes late is lost */
    for (uint32_t i = reliable ? c->completed : c->life_first; i < c->count; i++) {
        if (c->messages[i]->through == w)
            return true;
    }
    return false;
}

/* A bind may name it: nothing of it is under way. */
static bool may_bind(const struct endpoint *ep, const struct app_window *w)
{
    if (!w->bound_by)
        return true;
    return type_of(w) == MW_TYPE_1 && is_open(w) && !is_used(ep, w);
}

static bool may_end(const struct endpoint *ep, const struct app_window *w)
{
    return w->bound_by && type_of(w) == MW_TYPE_2 && is_open(w) && !is_used(ep, w);
}

/* The peer's SEND comes behind all that it asked before; what it asked to read must have come. */
static bool may_be_ended_by_peer(const struct endpoint *ep, const struct app_window *w)
{
    (void)ep;
    return w->bound_by && type_of(w) == MW_TYPE_2 && is_open(w);
}

typedef bool test(const struct endpoint *ep, const struct app_window *w);

/* One of those that pass the test, or NULL. */
static struct app_window *draw(struct endpoint *ep, test *passes)
{
    uint32_t first = (uint32_t)dice_below(&ep->app->dice, WINDOWS_MAX);

    for (uint32_t i = 0; i < WINDOWS_MAX; i++) {
        struct app_window *w = &ep->windows[(first + i) % WINDOWS_MAX];

        if (passes(ep, w))
            return w;
    }
    return NULL;
}

bool windows_can(struct endpoint *ep, enum wr_opcode opcode)
{
    if (opcode == WR_BIND_MW)
        return draw(ep, may_bind) != NULL;
    if (opcode == WR_LOCAL_INV)
        return draw(ep, may_end) != NULL;
    return opcode != WR_SEND_INV || draw(ep->peer, may_be_ended_by_peer) != NULL;
}

/* --- by the owner --- */

static void make(struct endpoint *ep, struct app_window *w)
{
    enum mw_type type = w < &ep->windows[WINDOWS_MAX / 2] ? MW_TYPE_1 : MW_TYPE_2;
    int error;

    if (w->mw)
        return;
    error = mw_new(ep->home->pd, type, &w->mw);
    EXPECT(error == 0, "mw_new returns %d", error);
    w->key = w->mw->view.key;
}

/* Part of the target or of the memory for atomics. */
static void choose_range(struct endpoint *ep, struct app_window *w, const struct region *r,
                         struct book *book)
{
    uint64_t from = dice_percent(&ep->app->dice, 30) ? 0 : dice_below(&ep->app->dice, r->len);

    if (book == &ep->home->cell_book)
        from &= ~7ull; /* cells stay aligned when it begins at address 0 */
    w->where = (struct piece){.book = book,
                              .offset = r->offset + from,
                              .len = (uint32_t)dice_between(&ep->app->dice, 1, r->len - from)};
    if (dice_percent(&ep->app->dice, 30))
        w->where.len = (uint32_t)(r->len - from);
}

void windows_bind(struct endpoint *ep, struct draft *d)
{
    struct dice *dice = &ep->app->dice;
    struct app_window *w = draw(ep, may_bind);
    bool at_cells = dice_percent(dice, 25);
    const struct region *r = at_cells ? &ep->home->cell_region : &ep->target;
    bool ends = w->bound_by && dice_percent(dice, 40);

    make(ep, w);
    d->bind = (struct mw_bind){.window_key = w->key, .region_key = r->mr->key};
    d->bind.key = (w->key & ~0xffu) | ((w->key + (uint32_t)dice_between(dice, 1, 200)) & 0xffu);
    w->dead_key = w->key;
    w->key = d->bind.key;
    if (ends) {
        w->ended_by = d->m;
        return;
    }
    choose_range(ep, w, r, at_cells ? &ep->home->cell_book : &ep->target_book);
    w->access = ((uint32_t)dice_u64(dice) & ALL_RIGHTS) | ACCESS_REMOTE_READ;
    if (at_cells)
        w->access = ACCESS_REMOTE_ATOMIC;
    w->addr = region_address(r, w->where.offset);
    d->bind.addr = w->addr;
    d->bind.len = w->where.len;
    d->bind.access = w->access;
    if (type_of(w) == MW_TYPE_2 && dice_percent(dice, 30)) {
        d->bind.access |= ACCESS_ZERO_BASED;
        w->addr = 0;
    }
    w->bound_by = d->m;
}

void windows_invalidate(struct endpoint *ep, struct message *m)
{
    struct app_window *w = draw(ep, may_end);

    m->imm = w->key;
    w->dead_key = w->key;
    w->ended_by = m;
}

/* --- by the peer --- */

void windows_send_invalidate(struct endpoint *ep, struct message *m)
{
    struct app_window *w = draw(ep->peer, may_be_ended_by_peer);

    m->imm = w->key;
    w->dead_key = w->key;
    w->ended_by = m;
    if (is_used(ep->peer, w))
        m->flags |= WR_FENCE;
}

static bool covers(const struct piece *where, const struct entry *e)
{
    if (e->anywhere)
        return where->len >= e->what.len;
    return where->offset <= e->what.offset &&
           where->offset + where->len >= e->what.offset + e->what.len;
}

static bool leads_to(const struct app_window *w, const struct entry *e)
{
    return is_open(w) && w->where.book == e->what.book && (w->access & e->right) == e->right &&
           covers(&w->where, e);
}

struct door windows_door(struct endpoint *owner, const struct entry *e)
{
    struct dice *d = &owner->app->dice;
    uint32_t first = (uint32_t)dice_below(d, WINDOWS_MAX);

    for (uint32_t i = 0; i < WINDOWS_MAX && dice_percent(d, 80); i++) {
        const struct app_window *w = &owner->windows[(first + i) % WINDOWS_MAX];

        if (leads_to(w, e))
            return (struct door){.addr = w->addr,
                                 .offset = w->where.offset,
                                 .len = w->where.len,
                                 .key = w->key,
                                 .through = w};
    }
    return (struct door){.addr = e->region->iova,
                         .offset = e->region->offset,
                         .len = e->region->len,
                         .key = e->region->mr->key};
}

/* --- what must have come of it --- */

static void check_dead(const struct endpoint *ep, uint32_t key)
{
    struct mr_query q = {.pd = ep->home->pd, .qp = ep->qp, .len = 1, .key = key};
    uint8_t *out;

    EXPECT(mr_resolve(ep->home->host->engine, &q, &out) == MR_NO_KEY,
           "%s: key 0x%08x lives after its window was bound anew or ended", ep->channel.name, key);
}

static void check_alive(const struct endpoint *ep, const struct app_window *w)
{
    struct mr_query q = {.pd = ep->home->pd,
                         .qp = ep->qp,
                         .va = w->addr,
                         .len = w->where.len,
                         .key = w->key,
                         .access = w->access};
    uint8_t *out = NULL;
    enum mr_verdict v = mr_resolve(ep->home->host->engine, &q, &out);

    EXPECT(v == MR_OK, "%s: a window that was bound does not open: verdict %d", ep->channel.name,
           (int)v);
    EXPECT(out == w->where.book->bytes + w->where.offset, "%s: a window opens to other memory",
           ep->channel.name);
}

static void see_bound(struct endpoint *ep, struct app_window *w)
{
    census_add(type_of(w) == MW_TYPE_1 ? TROUBLE_BOUND_1 : TROUBLE_BOUND_2, 1);
    check_dead(ep, w->dead_key);
    w->dead_key = 0;
    if (!w->ended_by)
        check_alive(ep, w);
}

static void see_ended(struct endpoint *ep, struct app_window *w)
{
    enum wr_opcode by = w->ended_by->opcode;

    census_add(by == WR_SEND_INV    ? TROUBLE_SEND_INVALIDATED
               : by == WR_LOCAL_INV ? TROUBLE_INVALIDATED
                                    : TROUBLE_UNBOUND,
               1);
    check_dead(ep, w->dead_key);
    check_dead(ep, w->key);
    w->dead_key = 0;
    w->bound_by = NULL;
    w->ended_by = NULL;
}

void windows_turn(struct endpoint *ep)
{
    for (uint32_t i = 0; i < WINDOWS_MAX && !app_is_hostile(ep->app); i++) {
        struct app_window *w = &ep->windows[i];

        if (!w->bound_by || w->dead_key == 0)
            continue;
        if (w->ended_by && is_done(w->ended_by))
            see_ended(ep, w);
        else if (!w->ended_by && is_done(w->bound_by))
            see_bound(ep, w);
    }
}

void windows_end_life(struct endpoint *ep)
{
    for (uint32_t i = 0; i < WINDOWS_MAX; i++) {
        if (ep->windows[i].mw)
            mw_free(ep->windows[i].mw);
        ep->windows[i] = (struct app_window){0};
    }
}
