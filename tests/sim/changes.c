/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an application may do while work is under way and must not be noticed by
 * that work: queues change their size, regions come and go, attributes change,
 * send queues are drained and go on, a QP becomes ready to send after its peer.
 */
#include "sim/app.h"
#include "sim/census.h"
#include "support/expect.h"

#define CQ_LEAST 1500u /* more than all that can be outstanding on a host */

static void resize_cq(struct app *a, struct app_host *home)
{
    struct app_cq *q = &home->cqs[dice_below(&a->dice, home->cq_count)];
    int error = cq_resize(q->cq, CQ_LEAST + (uint32_t)dice_below(&a->dice, 3000));

    EXPECT(error == 0, "cq_resize returns %d", error);
}

static void change_srq(struct app *a, struct app_host *home)
{
    uint32_t wr_max = SRQ_LEAST + (uint32_t)dice_below(&a->dice, 30);
    uint32_t limit = (uint32_t)dice_between(&a->dice, 0, SRQ_REQUESTS - 1);
    struct app_srq *s = &home->srqs[dice_below(&a->dice, HOST_SRQS)];
    int error;

    if (!s->srq)
        return;
    error = srq_resize(s->srq, wr_max);
    EXPECT(error == 0, "srq_resize to %u with %u open returns %d", wr_max, s->queue.open, error);
    census_add(TROUBLE_SRQ_RESIZED, 1);
    error = srq_set_limit(s->srq, limit);
    EXPECT(error == 0, "srq_set_limit returns %d", error);
    s->limit = limit;
}

/* --- draining --- */

static void start_draining(struct endpoint *ep)
{
    ep->draining = true;
    ep->drained = false;
    ep->attr.sqd_notify = true;
    ep->flow.draining = true;
    ep->flow.begun_draining = 0;
    ladder_note(ep->app->world.ladder, ep->app->world.now, ep->home->host->index, "%s drains",
                ep->channel.name);
    endpoint_modify(ep, QP_SQD, QP_ATTR_SQD_NOTIFY);
}

void changes_drained(struct endpoint *ep)
{
    EXPECT(ep->draining, "%s: drained and did not ask for it", ep->channel.name);
    EXPECT(!ep->drained, "%s: drained twice", ep->channel.name);
    EXPECT(ep->flow.una >= ep->flow.sent || !endpoint_is_reliable(ep) || app_is_hostile(ep->app),
           "%s: drained with requests that are not acknowledged", ep->channel.name);
    ep->drained = true;
}

static void change_when_drained(struct endpoint *ep)
{
    struct dice *d = &ep->app->dice;

    if (ep->service != SERVICE_RC || !dice_percent(d, 50))
        return;
    ep->attr.rd_atomic = (uint8_t)dice_between(d, 1, ep->peer->attr.dest_rd_atomic);
    ep->attr.min_rnr_timer = (uint8_t)dice_between(d, 1, 8);
    ep->flow.rd_atomic = ep->attr.rd_atomic;
    endpoint_modify(ep, QP_SQD, QP_ATTR_RD_ATOMIC | QP_ATTR_MIN_RNR_TIMER);
}

static void go_on(struct endpoint *ep)
{
    change_when_drained(ep);
    ep->draining = false;
    ep->flow.draining = false;
    census_add(TROUBLE_DRAINED, 1);
    ladder_note(ep->app->world.ladder, ep->app->world.now, ep->home->host->index, "%s goes on",
                ep->channel.name);
    endpoint_modify(ep, QP_RTS, 0);
}

/* --- of each QP --- */

/* A send queue in error is ready again when all is flushed; it goes on with the next PSN. */
static void recover(struct endpoint *ep)
{
    struct qp_attr attr;
    struct qp_cap cap;

    qp_query(ep->qp, &attr, &cap);
    endpoint_modify(ep, QP_RTS, 0);
    channel_begin(&ep->channel, attr.sq_psn.value);
    flow_begin(&ep->flow);
    ep->unsignalled = 0;
}

static void change_endpoint(struct endpoint *ep)
{
    struct dice *d = &ep->app->dice;
    bool runs = !ep->connection || ep->connection->state == CONNECTION_RUNS;

    if (!runs)
        return;
    if (qp_state(ep->qp) == QP_SQE && ep->service == SERVICE_UD && requests_open(&ep->channel) == 0)
        recover(ep);
    if (ep->service == SERVICE_UD && dice_chance(d, 20000))
        endpoint_replace(ep);
    if (ep->service == SERVICE_UD && dice_percent(d, 1))
        groups_change(ep);
    if (qp_state(ep->qp) == QP_RTR && (ep->comm_est_count > 0 || dice_percent(d, 3)))
        endpoint_to_rts(ep);
    else if (qp_state(ep->qp) == QP_SQD && ep->drained && dice_percent(d, 20))
        go_on(ep);
    else if (qp_state(ep->qp) == QP_RTS && !world_is_healed(&ep->app->world) &&
             ep->messages_left > 0 && dice_percent(d, 1))
        start_draining(ep);
    else if (qp_state(ep->qp) == QP_RTS && (ep->service == SERVICE_RC || ep->mute) &&
             dice_percent(d, 1)) {
        ep->attr.min_rnr_timer = (uint8_t)dice_between(d, 1, 8);
        endpoint_modify(ep, QP_RTS, QP_ATTR_MIN_RNR_TIMER);
    }
}

void changes_turn(struct app *a, struct app_host *home)
{
    if (dice_percent(&a->dice, 2))
        resize_cq(a, home);
    if (dice_percent(&a->dice, 2))
        change_srq(a, home);
    for (uint32_t i = 0; i < a->endpoint_count; i++) {
        if (a->endpoints[i]->home == home)
            change_endpoint(a->endpoints[i]);
    }
}
