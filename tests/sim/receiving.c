/* SPDX-License-Identifier: BSD-2-Clause */
/* Posts receive requests, some in time and some late, and hands their completions to the checker.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/app.h"
#include "sim/census.h"
#include "support/expect.h"

static void give_back(struct arena *arena, struct receive *r)
{
    uint32_t i;

    for (i = 0; i < r->piece_count; i++)
        arena_give(arena, &r->pieces[i]);
}

/* Memory for a receive request of len bytes in at most sge_max pieces; NULL: no room. */
static struct receive *draw(struct arena *arena, uint32_t len, uint32_t sge_max, struct dice *d)
{
    struct receive *r = calloc(1, sizeof(*r));
    uint32_t count = (uint32_t)dice_between(d, 1, sge_max);
    uint32_t left = len;

    EXPECT(r, "no memory for the test itself");
    while (r->piece_count < count) {
        uint32_t part = r->piece_count + 1 == count ? left : (uint32_t)dice_below(d, left + 1);

        if (dice_percent(d, 10) && r->piece_count + 1 < count)
            part = 0;
        if (!arena_take(arena, part, d, &r->pieces[r->piece_count])) {
            give_back(arena, r);
            free(r);
            return NULL;
        }
        r->piece_count++;
        left -= part;
    }
    return r;
}

struct receive_wr {
    struct sge sges[PIECES_MAX];
    struct recv_wr wr;
};

static void fill(struct receive_wr *w, const struct arena *arena, const struct receive *r,
                 struct dice *d)
{
    uint32_t i;

    for (i = 0; i < r->piece_count; i++)
        w->sges[i] = arena_sge(arena, &r->pieces[i], d);
    w->wr = (struct recv_wr){.wr_id = r->wr_id, .sges = w->sges, .sge_count = r->piece_count};
}

bool receiving_post(struct endpoint *ep, bool bad)
{
    struct dice *d = &ep->app->dice;
    struct receive *r = draw(&ep->inbox, ep->receive_len, ep->init.cap.recv_sge_max, d);
    struct receive_wr w;
    int error;

    if (!r)
        return false;
    r->wr_id = app_work(ep->app, &(struct work){.ep = ep, .receive = r, .home = ep->home});
    fill(&w, &ep->inbox, r, d);
    for (uint32_t i = 0; bad && i < r->piece_count; i++)
        w.sges[i].lkey ^= 0x5a;
    if (bad)
        r->errors_allowed = STATUS_BIT(STATUS_LOC_PROT_ERR);
    delivery_posted(&ep->own, r);
    error = qp_post_recv(ep->qp, &w.wr);
    EXPECT(error == 0, "%s: qp_post_recv returns %d", ep->channel.name, error);
    return true;
}

void receiving_forget(struct endpoint *ep)
{
    for (uint32_t i = ep->own.completed; i < ep->own.count; i++)
        give_back(&ep->inbox, ep->own.receives[i]);
    delivery_forget(&ep->own);
}

void receiving_turn(struct endpoint *ep)
{
    struct dice *d = &ep->app->dice;
    bool prompt = world_is_healed(&ep->app->world) || ep->app->world.plan.mode == MODE_lossless;

    if (ep->receives != &ep->own || (ep->connection && ep->connection->state != CONNECTION_RUNS))
        return;
    if (qp_state(ep->qp) == QP_ERR || trouble_starves(ep->home))
        return;
    while (ep->own.open < ep->receive_depth && (prompt || dice_percent(d, 30))) {
        if (!receiving_post(ep, false))
            break;
    }
}

void receiving_limit_reached(struct app_srq *s)
{
    EXPECT(s->limit > 0, "%s: an event of a limit that is not armed", s->queue.name);
    s->limit = 0;
    census_add(TROUBLE_SRQ_LIMIT, 1);
}

/* The event of the limit has come if it was due: all that was raised is taken by now. */
static void check_limit(const struct app_srq *s)
{
    struct srq_attr attr;

    srq_query(s->srq, &attr);
    EXPECT(attr.limit == s->limit, "%s: its limit is %u and should be %u", s->queue.name,
           attr.limit, s->limit);
    EXPECT(s->queue.open >= s->limit, "%s: no event of the limit %u, %u requests are left",
           s->queue.name, s->limit, s->queue.open);
    if (s->limit > 1)
        EXPECT(srq_resize(s->srq, s->limit - 1) == -EINVAL, "%s: it shrinks below its limit",
               s->queue.name);
}

static void refill(struct app *a, struct app_host *home, struct app_srq *s)
{
    struct dice *d = &a->dice;
    bool prompt = world_is_healed(&a->world) || a->world.plan.mode == MODE_lossless;

    if (!s->srq)
        return;
    check_limit(s);
    while (s->queue.open < SRQ_REQUESTS + s->queue.lost && (prompt || dice_percent(d, 40))) {
        struct receive *r = draw(&s->arena, s->len, 3, d);
        struct receive_wr w;
        int error;

        if (!r)
            return;
        r->wr_id = app_work(a, &(struct work){.receive = r, .home = home});
        fill(&w, &s->arena, r, d);
        delivery_posted(&s->queue, r);
        error = srq_post(s->srq, &w.wr);
        EXPECT(error == 0, "host %u: srq_post returns %d", home->host->index, error);
    }
}

void receiving_shared_turn(struct app *a, struct app_host *home)
{
    if (trouble_starves(home))
        return;
    for (uint32_t i = 0; i < HOST_SRQS; i++)
        refill(a, home, &home->srqs[i]);
}

struct app_srq *receiving_srq(const struct endpoint *ep)
{
    if (ep->receives == &ep->own)
        return NULL;
    return &ep->home->srqs[ep->mute ? SRQ_XRC_FIRST : SRQ_PLAIN];
}

/* The shared queue that the request is of; NULL: the QP's own. */
static struct app_srq *srq_of(const struct endpoint *ep, const struct receive *r)
{
    for (uint32_t i = 0; i < HOST_SRQS; i++) {
        if (r->queue == &ep->home->srqs[i].queue)
            return &ep->home->srqs[i];
    }
    return NULL;
}

/* XRC: any SRQ of the domain; delivery.c sees to it that it is the one that the message names. */
static bool may_take_from(const struct endpoint *ep, const struct app_srq *s,
                          const struct receive *r)
{
    return ep->mute ? s && s != &ep->home->srqs[SRQ_PLAIN] : r->queue == ep->receives;
}

static struct endpoint *find_endpoint(const struct app *a, uint32_t qpn)
{
    for (uint32_t i = 0; i < a->endpoint_count; i++) {
        if (qp_qpn(a->endpoints[i]->qp) == qpn || a->endpoints[i]->former_qpn == qpn)
            return a->endpoints[i];
    }
    return NULL;
}

static void check_lent(struct endpoint *ep, const struct message *m)
{
    uint8_t *out;
    struct mr_query q = {.pd = ep->home->pd, .qp = ep->qp, .len = 1, .key = m->imm};

    EXPECT(mr_resolve(ep->home->host->engine, &q, &out) == MR_NO_KEY,
           "%s: key 0x%08x lives after it was invalidated", ep->channel.name, m->imm);
}

bool receiving_completed(struct app *a, const struct work *w, const struct completion *wc)
{
    struct endpoint *ep = find_endpoint(a, wc->qpn);
    struct endpoint *from;
    struct message *m;
    struct receiver to;
    struct app_srq *s;

    EXPECT(ep, "a receive completion for QPN 0x%06x", wc->qpn);
    s = srq_of(ep, w->receive);
    EXPECT(wc->owner == (ep->mute ? (const void *)s->srq : ep->qp),
           "%s: a receive completion that is another's", ep->channel.name);
    EXPECT(!w->ep || w->ep == ep, "%s: completes a receive request of another QP",
           ep->channel.name);
    EXPECT(may_take_from(ep, s, w->receive), "%s: completes a receive request of another queue",
           ep->channel.name);
    from = ep->peer ? ep->peer : find_endpoint(a, wc->src_qpn);
    to = (struct receiver){
        .destination = ep, .member = ep->member, .duplicates = plan_disorders(&a->world.plan)};
    m = delivery_completed(from ? &from->channel : NULL, w->receive, wc, &to);
    if (m && m->opcode == WR_SEND_INV && !ep->cut)
        check_lent(ep, m);
    if (m && m->members)
        census_add(TROUBLE_TO_MEMBER, 1);
    if (m && ep->mute)
        census_add(TROUBLE_TO_XRC, 1);
    give_back(s ? &s->arena : &ep->inbox, w->receive);
    if (wc->status != STATUS_SUCCESS && ep->connection)
        connection_close(ep->connection);
    /* Two messages without bytes look the same, so that only RC knows which one came. */
    return m && endpoint_is_reliable(ep) && (m->flags & WR_SOLICITED);
}
