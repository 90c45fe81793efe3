/* SPDX-License-Identifier: BSD-2-Clause */
/* The lives of a connection: how one ends, and how the next begins. */
#include "sim/app.h"
#include "support/expect.h"

void connection_close(struct connection *c)
{
    struct world *w = &c->ends[0]->app->world;
    uint32_t i;

    if (c->state != CONNECTION_RUNS)
        return;
    c->state = CONNECTION_CLOSES;
    for (i = 0; i < 2; i++) {
        struct endpoint *ep = c->ends[i];

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
}

void connection_abort(struct connection *c)
{
    struct world *w = &c->ends[0]->app->world;
    uint32_t i;

    for (i = 0; i < 2; i++) {
        /* A receive request that was taken from a shared queue would be lost. */
        if (c->state != CONNECTION_RUNS || c->ends[i]->receives != &c->ends[i]->own)
            return;
    }
    for (i = 0; i < 2; i++) {
        struct endpoint *ep = c->ends[i];

        ladder_note(w->ladder, w->now, ep->home->host->index, "%s is reset", ep->channel.name);
        endpoint_modify(ep, QP_RESET, 0);
        ep->flow.left = true;
        requests_forget(&ep->channel);
        receiving_forget(ep);
        host_pump(ep->home->host);
    }
    c->state = CONNECTION_RESTS;
    c->rest_until_ns = w->now + w->plan.lifetime_ns;
}

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
    EXPECT(ep->last_wqe_count == (ep->receives != &ep->own && !ep->mute),
           "%s: %u events of the last receive request", ep->channel.name, ep->last_wqe_count);
    endpoint_modify(ep, QP_RESET, 0);
    if (dice_percent(&ep->app->dice, 30)) {
        EXPECT(qp_free(ep->qp) == 0, "%s cannot be freed", ep->channel.name);
        endpoint_new_queue_pair(ep);
    }
}

void connection_turn(struct connection *c)
{
    struct endpoint *a = c->ends[0];
    struct endpoint *b = c->ends[1];
    struct world *w = &a->app->world;

    refusal_memory_turn(c);
    if (app_is_hostile(a->app) && (qp_state(a->qp) == QP_ERR || qp_state(b->qp) == QP_ERR))
        connection_close(c); /* no completion may tell of it, only an event */
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
