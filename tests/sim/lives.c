/* SPDX-License-Identifier: BSD-2-Clause */
/* The lives of a connection: how one ends, and how the next begins. */
#include "sim/app.h"
#include "sim/census.h"
#include "support/expect.h"

static bool is_under_way(const struct connection *c)
{
    return requests_open(&c->ends[0]->channel) + requests_open(&c->ends[1]->channel) > 0;
}

static void close_end(struct endpoint *ep)
{
    const struct world *w = &ep->app->world;

    ladder_note(w->ladder, w->now, ep->home->host->index, "%s closes", ep->channel.name);
    ep->channel.errors_allowed |= STATUS_BIT(STATUS_WR_FLUSH_ERR);
    ep->own.errors_allowed |= STATUS_BIT(STATUS_WR_FLUSH_ERR);
    ep->flow.left = qp_state(ep->qp) != QP_ERR; /* one that failed still answers */
    endpoint_modify(ep, QP_ERR, 0);
    if (dice_percent(&ep->app->dice, 30))
        sending_post_late(ep);
    if (ep->receives == &ep->own && ep->own.open < ep->receive_depth)
        receiving_post(ep, false);
    host_pump(ep->home->host);
}

void connection_close(struct connection *c)
{
    if (c->state != CONNECTION_RUNS && c->state != CONNECTION_BREAKS)
        return;
    if (c->ends[0]
            ->app->finished) /* a forged packet came when all was done; nobody looks any more */
        return;
    if (is_under_way(c))
        census_add(TROUBLE_CLOSED, 1);
    c->state = CONNECTION_CLOSES;
    for (uint32_t i = 0; i < 2; i++) {
        if (!c->ends[i]->cut)
            close_end(c->ends[i]);
    }
}

/* --- without the error state --- */

/* How many requests of a shared queue may go with the QP: the one that a message is filling, and
 * those whose completions were not polled. */
static uint32_t loss_of(const struct endpoint *ep)
{
    return ep->mute ? 1 : cq_queued(ep->recv_cq->cq) + 1;
}

static bool may_lose(const struct endpoint *ep)
{
    const struct app_srq *s = receiving_srq(ep);

    for (uint32_t i = 0; s && i < (ep->mute ? 2u : 1u); i++) {
        if (s[i].queue.lost + loss_of(ep) > SRQ_LOST_MAX)
            return false;
    }
    return true;
}

static void lose(const struct endpoint *ep)
{
    struct app_srq *s = receiving_srq(ep);

    for (uint32_t i = 0; s && i < (ep->mute ? 2u : 1u); i++)
        s[i].queue.lost += loss_of(ep);
}

/* The QP is about to lose its work and what was not polled of it. */
static void cut_end(struct endpoint *ep)
{
    lose(ep);
    ep->cut = true;
    ep->flow.left = true;
    requests_forget(&ep->channel);
    receiving_forget(ep);
    if (ep->peer && !ep->mute) /* what came from there is forgotten too; an SRQ of XRC keeps it */
        ep->peer->channel.delivered = ep->peer->channel.count;
}

static void destroy_queue_pair(struct endpoint *ep)
{
    ep->former_qpn = qp_qpn(ep->qp);
    ep->replaced_ns = ep->app->world.now;
    groups_leave(ep);
    EXPECT(qp_free(ep->qp) == 0, "%s cannot be freed", ep->channel.name);
    endpoint_new_queue_pair(ep);
}

void connection_abort(struct connection *c)
{
    struct world *w = &c->ends[0]->app->world;
    uint32_t i;

    for (i = 0; i < 2; i++) {
        /* The completions of an XRC target stay, those of its initiator go. */
        if (c->state != CONNECTION_RUNS || c->ends[i]->mute || !may_lose(c->ends[i]))
            return;
    }
    if (is_under_way(c))
        census_add(TROUBLE_RESET, 1);
    for (i = 0; i < 2; i++) {
        struct endpoint *ep = c->ends[i];

        ladder_note(w->ladder, w->now, ep->home->host->index, "%s is reset", ep->channel.name);
        cut_end(ep);
        endpoint_modify(ep, QP_RESET, 0);
        host_pump(ep->home->host);
    }
    c->state = CONNECTION_RESTS;
    c->rest_until_ns = w->now + w->plan.lifetime_ns;
}

void connection_destroy(struct connection *c)
{
    struct world *w = &c->ends[0]->app->world;
    struct dice *d = &c->ends[0]->app->dice;
    struct endpoint *ep = c->ends[dice_below(d, 2)];

    if (c->state != CONNECTION_RUNS || !may_lose(ep))
        return;
    if (is_under_way(c))
        census_add(TROUBLE_DESTROYED, 1);
    ladder_note(w->ladder, w->now, ep->home->host->index, "%s is destroyed", ep->channel.name);
    cut_end(ep);
    destroy_queue_pair(ep);
    host_pump(ep->home->host);
    ep->peer->channel.errors_allowed |= STATUS_BIT(STATUS_RETRY_EXC_ERR);
    c->state = CONNECTION_BREAKS;
    c->rest_until_ns = w->now + dice_below(d, 2 * w->plan.lifetime_ns);
}

void endpoint_replace(struct endpoint *ep)
{
    const struct world *w = &ep->app->world;

    if (w->plan.mode == MODE_lossless || app_is_hostile(ep->app) || ep->receives != &ep->own ||
        w->now < ep->replaced_ns + w->plan.lifetime_ns)
        return;
    if (requests_open(&ep->channel) > 0)
        census_add(TROUBLE_REPLACED, 1);
    ladder_note(w->ladder, w->now, ep->home->host->index, "%s is replaced", ep->channel.name);
    cut_end(ep);
    destroy_queue_pair(ep);
    sending_release(ep, true);
    ep->unsignalled = 0;
    ep->draining = false;
    ep->drained = false;
    /* What it sent to its groups before is now another's, so that it may get it itself. */
    for (uint32_t i = 0; i < ep->channel.count; i++) {
        if (ep->channel.messages[i]->members)
            ep->channel.messages[i]->members |= ep->member;
    }
    endpoint_start_datagrams(ep);
}

/* --- the end, and the next life --- */

/* Flushes are all in the completion queues by now; a reset would drop what is still there. */
static bool is_quiet(const struct endpoint *ep)
{
    if (ep->receives != &ep->own && cq_queued(ep->recv_cq->cq) > 0)
        return false;
    if (requests_only_silent(&ep->channel) && cq_queued(ep->send_cq->cq) == 0)
        return ep->own.open == 0;
    return requests_open(&ep->channel) == 0 && ep->own.open == 0;
}

static void bury(struct endpoint *ep)
{
    requests_end_life(&ep->channel);
    windows_end_life(ep);
    if (!app_is_hostile(ep->app))
        delivery_check_all(&ep->channel);
    sending_release(ep, true);
    if (!app_is_hostile(ep->app))
        cell_check(&ep->peer->home->cells[SHARED_CELLS + ep->index], ep->channel.name);
    EXPECT(ep->last_wqe_count == (ep->receives != &ep->own && !ep->mute) || ep->cut,
           "%s: %u events of the last receive request", ep->channel.name, ep->last_wqe_count);
    endpoint_modify(ep, QP_RESET, 0);
    if (dice_percent(&ep->app->dice, 30))
        destroy_queue_pair(ep);
}

void connection_turn(struct connection *c)
{
    struct endpoint *a = c->ends[0];
    struct endpoint *b = c->ends[1];
    struct world *w = &a->app->world;

    refusal_memory_turn(c);
    if (app_is_hostile(a->app) && (qp_state(a->qp) == QP_ERR || qp_state(b->qp) == QP_ERR))
        connection_close(c); /* no completion may tell of it, only an event */
    if (c->state == CONNECTION_BREAKS && w->now >= c->rest_until_ns)
        connection_close(c);
    if (c->state == CONNECTION_CLOSES && is_quiet(a) && is_quiet(b)) {
        c->state = CONNECTION_RESTS;
        c->rest_until_ns = w->now + w->plan.lifetime_ns;
    }
    if (c->state != CONNECTION_RESTS || w->now < c->rest_until_ns)
        return;
    bury(a);
    bury(b);
    refusal_check(c);
    ladder_note(w->ladder, w->now, a->home->host->index, "%s begins anew", a->channel.name);
    endpoint_connect(a, b);
    host_pump(a->home->host);
    host_pump(b->home->host);
}
