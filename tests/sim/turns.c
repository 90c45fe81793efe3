/* SPDX-License-Identifier: BSD-2-Clause */
/* The turns of applications: they poll, post, and see to their connections. */
#include "sim/app.h"
#include "sim/census.h"
#include "support/expect.h"

#define IDLE_GAP_MAX_NS                                                                            \
    200000ull /* between two turns of an application that finds nothing to do                      \
               */

/* silent: no event came since the queue was armed for solicited completions and emptied. */
static void completed(struct app *a, const struct app_host *home, const struct completion *wc,
                      bool silent)
{
    bool solicited = wc->status != STATUS_SUCCESS;
    struct world *world = &a->world;
    const struct work *w;

    EXPECT(wc->wr_id < a->work_count, "a completion with wr_id 0x%lx", (unsigned long)wc->wr_id);
    w = &a->works[wc->wr_id];
    EXPECT(w->home == home, "a completion of another host");
    ladder_note(world->ladder, world->now, home->host->index, "QP %06x completes %s %u: %s",
                wc->qpn, w->message ? "request" : "receive",
                w->message ? w->message->index : w->receive->index, status_name(wc->status));
    EXPECT(wc->timestamp_ns <= world->now, "a completion from the future");
    if (w->message)
        sending_completed(w->ep, w->message, wc);
    else
        solicited |= receiving_completed(a, w, wc);
    EXPECT(!silent || !solicited, "QP %06x: no event for a solicited completion", wc->qpn);
}

static bool is_due(struct app *a, struct app_cq *q)
{
    q->turns++;
    if (a->finished)
        return true;
    switch (q->habit) {
    case CQ_POLLED:
        return dice_percent(&a->dice, 60);
    case CQ_EVENTS:
        return q->notified;
    case CQ_SOLICITED:
        return q->notified || q->turns > 10;
    }
    return true;
}

/* An error of the responder is seen at once; one of the requester by its completion.
 * It may have happened within this turn: closing a connection lets its host send. */
static void allow_flushes(struct app *a)
{
    uint32_t i;

    for (i = 0; i < a->endpoint_count; i++) {
        struct endpoint *ep = a->endpoints[i];

        if (app_expects_errors(a) && ep->connection && qp_state(ep->qp) == QP_ERR)
            ep->own.errors_allowed |= STATUS_BIT(STATUS_WR_FLUSH_ERR);
    }
}

static uint32_t poll(struct app *a, struct app_host *home, struct app_cq *q)
{
    bool all = q->habit != CQ_POLLED || a->finished;
    bool silent = q->habit == CQ_SOLICITED && !q->notified;
    struct completion wcs[16];
    uint32_t total = 0;
    int count;
    int i;

    if (!is_due(a, q))
        return 0;
    if (q->notified || q->habit != CQ_POLLED)
        cq_arm(q->cq, q->habit == CQ_SOLICITED);
    q->notified = false;
    q->turns = 0;
    allow_flushes(a);
    do {
        uint32_t ask = all ? 16 : (uint32_t)dice_between(&a->dice, 1, 16);

        count = cq_poll(q->cq, ask, wcs);
        EXPECT(count >= 0, "cq_poll returns %d", count);
        for (i = 0; i < count; i++)
            completed(a, home, &wcs[i], silent);
        total += (uint32_t)count;
    } while (all && count > 0);
    return total;
}

static uint32_t poll_own(struct app *a, struct endpoint *ep)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < 2; i++) {
        struct app_cq *q = &ep->own_cqs[i];

        if (!q->cq)
            continue;
        if (cq_queued(q->cq) == cq_capacity(q->cq))
            census_add(TROUBLE_RINGS_FULL, 1);
        count += poll(a, ep->home, q);
    }
    return count;
}

static const char *event_name(enum engine_event_type type)
{
    switch (type) {
    case ENGINE_EVENT_CQ_ERR:
        return "CQ_ERR";
    case ENGINE_EVENT_QP_FATAL:
        return "QP_FATAL";
    case ENGINE_EVENT_QP_REQ_ERR:
        return "QP_REQ_ERR";
    case ENGINE_EVENT_QP_ACCESS_ERR:
        return "QP_ACCESS_ERR";
    case ENGINE_EVENT_COMM_EST:
        return "COMM_EST";
    case ENGINE_EVENT_SQ_DRAINED:
        return "SQ_DRAINED";
    case ENGINE_EVENT_SRQ_ERR:
        return "SRQ_ERR";
    case ENGINE_EVENT_SRQ_LIMIT:
        return "SRQ_LIMIT";
    case ENGINE_EVENT_LAST_WQE:
        return "LAST_WQE";
    case ENGINE_EVENT_COMPLETION:
        return "COMPLETION";
    }
    return "?";
}

void app_event(struct host *h, const struct engine_event *event)
{
    struct world *w = h->world;
    struct endpoint *ep = event->qp ? qp_context(event->qp) : NULL;

    if (event->type == ENGINE_EVENT_COMPLETION) {
        ((struct app_cq *)cq_context(event->cq))->notified = true;
        return;
    }
    ladder_note(w->ladder, w->now, h->index, "event %s%s%s", event_name(event->type),
                ep ? " of " : "", ep ? ep->channel.name : "");
    EXPECT(event->type != ENGINE_EVENT_CQ_ERR, "host %u: a completion queue overflows", h->index);
    if (event->type == ENGINE_EVENT_SRQ_LIMIT)
        receiving_limit_reached(srq_context(event->srq));
    if (!ep)
        return;
    ep->error_events |= 1u << event->type;
    if (event->type == ENGINE_EVENT_COMM_EST)
        ep->comm_est_count++;
    else if (event->type == ENGINE_EVENT_LAST_WQE)
        ep->last_wqe_count++;
    else if (event->type == ENGINE_EVENT_SQ_DRAINED)
        changes_drained(ep);
    else if (app_expects_errors(ep->app) && ep->connection)
        ep->channel.errors_allowed |= STATUS_BIT(STATUS_WR_FLUSH_ERR);
    else
        EXPECT(false, "%s: event %s", ep->channel.name, event_name(event->type));
    EXPECT(ep->comm_est_count <= 1, "%s: communication is established twice", ep->channel.name);
}

/* --- turns --- */

static bool endpoint_is_done(const struct endpoint *ep)
{
    const struct channel *c = &ep->channel;
    uint32_t i;

    if (ep->messages_left > 0 || requests_open(c) > 0)
        return false;
    if (ep->connection && ep->connection->state != CONNECTION_RUNS)
        return false;
    if (qp_state(ep->qp) != QP_RTS)
        return false;
    for (i = c->delivered; endpoint_is_reliable(ep) && !app_is_hostile(ep->app) && i < c->count;
         i++) {
        if (opcode_takes_receive(c->messages[i]->opcode))
            return false;
    }
    return true;
}

static bool all_done(const struct app *a)
{
    uint32_t i;

    for (i = 0; i < a->endpoint_count; i++) {
        if (!endpoint_is_done(a->endpoints[i]))
            return false;
    }
    return true;
}

static void say_who_is_late(const struct app *a)
{
    uint32_t i;

    for (i = 0; i < a->endpoint_count; i++) {
        const struct endpoint *ep = a->endpoints[i];

        EXPECT(endpoint_is_done(ep),
               "%s is not done %lu ms after the wire healed: state %d, %u to post, %u open, "
               "%u received of %u, %u and %u queued",
               ep->channel.name, (unsigned long)((a->world.now - a->world.plan.heal_ns) / 1000000),
               (int)qp_state(ep->qp), ep->messages_left, requests_open(&ep->channel),
               ep->channel.delivered, ep->channel.count, cq_queued(ep->send_cq->cq),
               cq_queued(ep->recv_cq->cq));
    }
}

uint32_t app_work_of(struct app *a, struct app_host *home)
{
    uint32_t count = 0;
    uint32_t i;

    for (i = 0; i < home->cq_count; i++)
        count += poll(a, home, &home->cqs[i]);
    receiving_shared_turn(a, home);
    if (!a->finished)
        changes_turn(a, home);
    if (!a->finished)
        regions_turn(a, home);
    for (i = 0; i < a->endpoint_count; i++) {
        struct endpoint *ep = a->endpoints[i];

        if (ep->home != home)
            continue;
        count += poll_own(a, ep);
        receiving_turn(ep);
        if (ep->connection && ep->connection->state == CONNECTION_RUNS)
            windows_turn(ep);
        count += sending_turn(ep);
        if (ep->connection && ep == ep->connection->ends[0])
            connection_turn(ep->connection);
    }
    return count;
}

void app_turn(struct host *h)
{
    struct app *a = app_of(h);
    struct world *w = &a->world;
    struct app_host *home = &a->hosts[h->index];
    uint64_t gap = w->plan.app_gap_ns;

    trouble_turn(a);
    home->idle_turns = app_work_of(a, home) > 0 ? 0 : home->idle_turns + 1;
    host_pump(h);
    if (a->finished || all_done(a)) {
        a->finished = true;
        return;
    }
    if (w->now > w->plan.limit_ns)
        say_who_is_late(a);
    gap <<= home->idle_turns < 20 ? home->idle_turns : 20;
    if (gap > IDLE_GAP_MAX_NS)
        gap = IDLE_GAP_MAX_NS;
    world_schedule(w, w->now + 1 + dice_below(&a->dice, gap), EVENT_APP, h, NULL);
}
