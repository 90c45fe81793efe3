/* SPDX-License-Identifier: BSD-2-Clause */
/* Sets a simulation up, gives applications their turns, and ends it. */
#include "sim/app.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"

#define READ_PART_BYTES 65536u
#define WINDOW_MAX_DEFAULT 131072u
#define READ_WINDOW_DEFAULT 65536u
#define PACKET_COST_MAX 4096u
#define CELL_STRIDE 32u

static struct app *current; /* for the engine's copy, which has no context */

uint64_t app_work(struct app *a, const struct work *w)
{
    if (a->work_count == a->work_capacity) {
        a->work_capacity = a->work_capacity ? 2 * a->work_capacity : 256;
        a->works = realloc(a->works, a->work_capacity * sizeof(struct work));
        EXPECT(a->works, "no memory for the test itself");
    }
    a->works[a->work_count] = *w;
    return a->work_count++;
}

/* --- completions and events --- */

/* silent: no event came since the queue was armed for solicited completions and emptied. */
static void completed(struct app *a, const struct app_host *home, const struct completion *wc,
                      bool silent)
{
    bool solicited = wc->status != STATUS_SUCCESS;
    const struct work *w = &a->works[wc->wr_id];
    struct world *world = &a->world;

    EXPECT(wc->wr_id < a->work_count, "a completion with wr_id 0x%lx", (unsigned long)wc->wr_id);
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

static void on_event(struct host *h, const struct engine_event *event)
{
    struct world *w = h->world;
    struct endpoint *ep = event->qp ? qp_context(event->qp) : NULL;

    if (event->type == ENGINE_EVENT_COMPLETION) {
        ((struct app_cq *)cq_context(event->cq))->notified = true;
        return;
    }
    ladder_note(w->ladder, w->now, h->index, "event %d%s%s", (int)event->type, ep ? " of " : "",
                ep ? ep->channel.name : "");
    EXPECT(event->type != ENGINE_EVENT_CQ_ERR, "host %u: a completion queue overflows", h->index);
    if (!ep)
        return;
    ep->error_events |= 1u << event->type;
    if (event->type == ENGINE_EVENT_COMM_EST)
        ep->comm_est_count++;
    else if (event->type == ENGINE_EVENT_LAST_WQE)
        ep->last_wqe_count++;
    else if (app_expects_errors(ep->app) && ep->connection)
        ep->channel.errors_allowed |= STATUS_BIT(STATUS_WR_FLUSH_ERR);
    else
        EXPECT(false, "%s: event %d", ep->channel.name, (int)event->type);
    EXPECT(ep->comm_est_count <= 1, "%s: communication is established twice", ep->channel.name);
}

/* --- turns --- */

/* Once in a while the wire between two hosts is cut, or an application gives a connection up. */
static void make_trouble(struct app *a)
{
    struct world *w = &a->world;
    uint32_t i = (uint32_t)dice_below(&a->dice, w->plan.host_count);
    uint32_t k = (uint32_t)dice_below(&a->dice, w->plan.host_count);
    uint64_t until = w->now + dice_below(&a->dice, w->plan.cut_ns + 1);

    if (w->plan.cut_ns == 0 || world_is_healed(w) || w->now < a->next_cut_ns)
        return;
    a->next_cut_ns = w->now + dice_below(&a->dice, 2 * w->plan.cut_ns);
    if (dice_percent(&a->dice, 30)) {
        connection_close(&a->connections[dice_below(&a->dice, a->connection_count)]);
        return;
    }
    until = until < w->plan.heal_ns ? until : w->plan.heal_ns;
    w->directions[i][k].cut_until_ns = until;
    if (dice_percent(&a->dice, 70))
        w->directions[k][i].cut_until_ns = until;
    ladder_note(w->ladder, w->now, i, "cut to host %u until %.3f us", k, (double)until / 1000);
}

static bool endpoint_is_done(const struct endpoint *ep)
{
    const struct channel *c = &ep->channel;
    uint32_t i;

    if (ep->messages_left > 0 || requests_open(c) > 0)
        return false;
    if (ep->connection && ep->connection->state != CONNECTION_RUNS)
        return false;
    for (i = c->delivered; ep->service == SERVICE_RC && !app_is_hostile(ep->app) && i < c->count;
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

/* An error of the responder is seen at once; one of the requester by its completion. */
static void allow_flushes(struct app *a)
{
    uint32_t i;

    for (i = 0; i < a->endpoint_count; i++) {
        struct endpoint *ep = a->endpoints[i];

        if (app_expects_errors(a) && ep->connection && qp_state(ep->qp) == QP_ERR)
            ep->own.errors_allowed |= STATUS_BIT(STATUS_WR_FLUSH_ERR);
    }
}

static uint32_t work(struct app *a, struct app_host *home)
{
    uint32_t count = 0;
    uint32_t i;

    allow_flushes(a);
    for (i = 0; i < home->cq_count; i++)
        count += poll(a, home, &home->cqs[i]);
    receiving_shared_turn(a, home);
    for (i = 0; i < a->endpoint_count; i++) {
        struct endpoint *ep = a->endpoints[i];

        if (ep->home != home)
            continue;
        receiving_turn(ep);
        count += sending_turn(ep);
        if (ep->connection && ep == ep->connection->ends[0])
            connection_turn(ep->connection);
    }
    return count;
}

static void turn(struct host *h)
{
    struct app *a = current;
    struct world *w = &a->world;
    struct app_host *home = &a->hosts[h->index];
    uint64_t gap = w->plan.app_gap_ns;

    make_trouble(a);
    home->idle_turns = work(a, home) > 0 ? 0 : home->idle_turns + 1;
    host_pump(h);
    if (a->finished || all_done(a)) {
        a->finished = true;
        return;
    }
    if (w->now > w->plan.limit_ns)
        say_who_is_late(a);
    gap <<= home->idle_turns < 6 ? home->idle_turns : 6;
    world_schedule(w, w->now + 1 + dice_below(&a->dice, gap), EVENT_APP, h, NULL);
}

/* --- what the wire asks --- */

static struct endpoint *endpoint_at(const struct host *h, uint32_t qpn)
{
    struct app *a = current;
    uint32_t i;

    for (i = 0; i < a->endpoint_count; i++) {
        struct endpoint *ep = a->endpoints[i];

        if (ep->home->host == h && qp_qpn(ep->qp) == qpn)
            return ep;
    }
    return NULL;
}

static struct flow *sender(struct host *h, const struct host *to, uint32_t dest, uint32_t src)
{
    struct endpoint *ep = endpoint_at(to, dest);

    ep = ep && ep->service != SERVICE_UD ? ep->peer : endpoint_at(h, src);
    if (!ep || ep->home->host != h)
        return NULL;
    return &ep->flow;
}

static struct flow *receiver(const struct host *to, uint32_t dest)
{
    const struct app *a = current;
    struct endpoint *ep = endpoint_at(to, dest);

    return ep && !app_is_hostile(a) ? &ep->flow : NULL;
}

static void check_windows(struct host *h, const struct flow *f)
{
    struct app *a = current;
    struct flow *flows[ENDPOINTS_MAX];
    uint32_t count = 0;
    uint32_t i;

    for (i = 0; i < a->endpoint_count; i++) {
        /* One in error gave its window back. */
        if (a->endpoints[i]->home->host == h && qp_state(a->endpoints[i]->qp) != QP_ERR)
            flows[count++] = &a->endpoints[i]->flow;
    }
    flow_check_windows(flows, count, f, &a->limits, a->world.now);
}

static void check_deadline(struct host *h, uint64_t deadline_ns)
{
    struct app *a = current;
    uint32_t i;

    for (i = 0; i < a->endpoint_count; i++) {
        const struct endpoint *ep = a->endpoints[i];
        uint64_t due = flow_deadline(&ep->flow, a->world.now);

        if (ep->home->host == h && qp_state(ep->qp) == QP_RTS && !app_is_hostile(a))
            EXPECT(deadline_ns <= due,
                   "%s: the engine sleeps until %lu, %lu at the latest is right", ep->channel.name,
                   (unsigned long)deadline_ns, (unsigned long)due);
    }
}

static const struct world_ops ops = {
    .turn = turn,
    .event = on_event,
    .sender = sender,
    .receiver = receiver,
    .check_windows = check_windows,
    .check_deadline = check_deadline,
};

/* The engine's copy: nothing may be written to where nobody asked for it. */
static int watched_copy(void *dst, const void *src, size_t len)
{
    const uint8_t *to = dst;
    struct app *a = current;
    uint32_t i;

    for (i = 0; i < a->endpoint_count; i++) {
        const struct endpoint *ep = a->endpoints[i];
        const struct book *books[] = {&ep->arena.book, &ep->target_book};

        for (uint32_t k = 0; k < 2; k++) {
            const struct book *b = books[k];

            if (b->bytes && to >= b->bytes && to < b->bytes + b->len)
                EXPECT(book_may_write(b, (size_t)(to - b->bytes), len),
                       "the engine writes %zu bytes at %zu of %s, which nobody asked for", len,
                       (size_t)(to - b->bytes) - BOOK_GUARD, b->name);
        }
    }
    memcpy(dst, src, len);
    return 0;
}

/* --- setting up --- */

static void init_cells(struct app *a, struct app_host *home)
{
    uint32_t i;

    book_init(&home->cell_book, "atomics", HOST_CELLS * CELL_STRIDE, dice_u64(&a->dice));
    region_init(&home->cell_region, home->pd, &home->cell_book, BOOK_GUARD,
                HOST_CELLS * CELL_STRIDE, ACCESS_LOCAL_WRITE | ACCESS_REMOTE_ATOMIC, &a->dice);
    for (i = 0; i < HOST_CELLS; i++) {
        struct piece where = {
            .book = &home->cell_book, .offset = BOOK_GUARD + i * CELL_STRIDE + 8, .len = 8};

        cell_init(&home->cells[i], where);
        claim_open(where, NULL);
    }
}

static void init_shared(struct app *a, struct app_host *home)
{
    struct srq_attr attr = {.wr_max = 16, .sge_max = 3};

    home->shared.shared = true;
    home->shared.forged = app_is_hostile(a);
    snprintf(home->shared.name, sizeof(home->shared.name), "SRQ of host %u", home->host->index);
    if (!dice_percent(&a->dice, 40))
        return;
    home->shared_len = a->world.plan.size_max > 4200 ? a->world.plan.size_max : 4200;
    home->shared.errors_allowed = app_expects_errors(a) ? STATUS_BIT(STATUS_WR_FLUSH_ERR) : 0;
    EXPECT(srq_new(home->pd, &attr, home, &home->srq) == 0, "srq_new fails");
    arena_init(&home->shared_arena, home->pd, "shared receives", 14ull * home->shared_len,
               &a->dice);
}

static void init_host(struct app *a, uint32_t index)
{
    struct app_host *home = &a->hosts[index];
    uint32_t i;

    home->host = &a->world.hosts[index];
    EXPECT(pd_new(home->host->engine, &home->pd) == 0, "pd_new fails");
    EXPECT(pd_new(home->host->engine, &home->foreign_pd) == 0, "pd_new fails");
    home->cq_count = (uint32_t)dice_between(&a->dice, 1, HOST_CQS_MAX);
    for (i = 0; i < home->cq_count; i++) {
        struct app_cq *q = &home->cqs[i];

        q->habit = (enum cq_habit)dice_below(&a->dice, 3);
        EXPECT(cq_new(home->host->engine, 2000, q, &q->cq) == 0, "cq_new fails");
        q->notified = true; /* so that it is armed and polled first */
    }
    init_cells(a, home);
    init_shared(a, home);
}

static void init_connection(struct app *a)
{
    struct connection *c = &a->connections[a->connection_count++];
    uint32_t hosts = a->world.plan.host_count;
    uint32_t from = (uint32_t)dice_below(&a->dice, hosts);
    uint32_t to = (uint32_t)dice_below(&a->dice, hosts);
    enum service service = dice_percent(&a->dice, 80) ? SERVICE_RC : SERVICE_UC;
    uint32_t i;

    if (from == to && dice_percent(&a->dice, 80))
        to = (from + 1) % hosts;
    c->ends[0] = endpoint_new(a, &a->hosts[from], service);
    c->ends[1] = endpoint_new(a, &a->hosts[to], service);
    for (i = 0; i < 2; i++)
        c->ends[i]->connection = c;
    endpoint_connect(c->ends[0], c->ends[1]);
}

void app_init(struct app *a, const struct plan *plan, struct ladder *ladder)
{
    struct plan p = *plan;
    uint32_t i;

    *a = (struct app){.dice = dice_make(plan->seed, 4)};
    current = a;
    p.config.copy = watched_copy;
    a->limits = (struct flow_limits){
        .window_max = p.config.window_max ? p.config.window_max : WINDOW_MAX_DEFAULT,
        .read_window = p.config.read_window ? p.config.read_window : READ_WINDOW_DEFAULT,
        .read_part = READ_PART_BYTES,
    };
    world_init(&a->world, &p, &ops, ladder);
    for (i = 0; i < plan->host_count; i++)
        init_host(a, i);
    for (i = 0; i < plan->connection_count; i++)
        init_connection(a);
    for (i = 0; i < plan->datagram_count; i++)
        endpoint_start_datagrams(
            endpoint_new(a, &a->hosts[dice_below(&a->dice, plan->host_count)], SERVICE_UD));
    for (i = 0; i < plan->host_count; i++)
        world_schedule(&a->world, a->world.now, EVENT_APP, &a->world.hosts[i], NULL);
}

/* --- the end --- */

static void check_books(const struct app *a, const char *when)
{
    uint32_t i;

    for (i = 0; i < a->endpoint_count; i++) {
        book_check(&a->endpoints[i]->arena.book, when);
        if (a->endpoints[i]->service != SERVICE_UD)
            book_check(&a->endpoints[i]->target_book, when);
    }
    for (i = 0; i < a->world.plan.host_count; i++) {
        book_check(&a->hosts[i].cell_book, when);
        if (a->hosts[i].srq)
            book_check(&a->hosts[i].shared_arena.book, when);
    }
}

static void check_lossless(const struct app *a, const struct app_host *home)
{
    const struct engine_counters *c = engine_counters(home->host->engine);

    EXPECT(c->retransmitted_packets == 0, "host %u repeated %lu packets without a loss",
           home->host->index, (unsigned long)c->retransmitted_packets);
    EXPECT(c->local_ack_timeout_err == 0, "host %u: %lu time-outs without a loss",
           home->host->index, (unsigned long)c->local_ack_timeout_err);
    EXPECT(c->out_of_sequence == 0 && c->duplicate_request == 0 && c->stale_response == 0,
           "host %u: %lu requests ahead, %lu duplicate, %lu stale responses without a loss",
           home->host->index, (unsigned long)c->out_of_sequence,
           (unsigned long)c->duplicate_request, (unsigned long)c->stale_response);
    for (uint32_t i = 0; i < a->endpoint_count; i++) {
        const struct endpoint *ep = a->endpoints[i];

        for (uint32_t k = 0; k < ep->channel.count; k++) {
            const struct message *m = ep->channel.messages[k];

            EXPECT(!opcode_takes_receive(m->opcode) || m->deliveries == 1,
                   "%s: %s was lost without a loss", ep->channel.name, message_name(m));
        }
    }
}

static void check_end(struct app *a)
{
    uint32_t i;
    uint32_t k;

    EXPECT(a->finished, "the world stops before all is done");
    for (i = 0; i < a->endpoint_count; i++) {
        if (!app_is_hostile(a))
            delivery_check_all(&a->endpoints[i]->channel);
        requests_end_life(&a->endpoints[i]->channel);
    }
    check_books(a, "at the end");
    for (i = 0; i < a->world.plan.host_count; i++) {
        struct app_host *home = &a->hosts[i];
        struct engine *e = home->host->engine;

        EXPECT(engine_deadline(e) == ENGINE_NEVER, "host %u: a timer runs when all is done", i);
        EXPECT(!engine_wants_transmit(e), "host %u: wants to send when all is done", i);
        for (k = 0; k < HOST_CELLS && !app_is_hostile(a); k++)
            cell_check(&home->cells[k], "atomics");
        if (a->world.plan.mode == MODE_lossless)
            check_lossless(a, home);
    }
}

void app_run(struct app *a)
{
    uint64_t steps = 0;
    uint32_t i;

    while (world_step(&a->world)) {
        if (++steps % 4096 == 0)
            check_books(a, "on the way");
    }
    EXPECT(a->world.in_flight == 0, "test: %u packets are still on their way", a->world.in_flight);
    for (i = 0; i < a->world.plan.host_count; i++)
        work(a, &a->hosts[i]);
    check_end(a);
}

void app_fini(struct app *a)
{
    uint32_t i;
    uint32_t k;

    for (i = 0; i < a->endpoint_count; i++)
        endpoint_free(a->endpoints[i]);
    for (i = 0; i < a->world.plan.host_count; i++) {
        struct app_host *home = &a->hosts[i];

        for (k = 0; k < HOST_CELLS; k++)
            cell_fini(&home->cells[k]);
        region_fini(&home->cell_region);
        book_fini(&home->cell_book);
        if (home->srq) {
            arena_fini(&home->shared_arena);
            EXPECT(srq_free(home->srq) == 0, "an SRQ cannot be freed");
        }
        receive_queue_fini(&home->shared);
        for (k = 0; k < home->cq_count; k++)
            EXPECT(cq_free(home->cqs[k].cq) == 0, "a CQ cannot be freed");
        EXPECT(pd_free(home->pd) == 0, "a PD cannot be freed");
        EXPECT(pd_free(home->foreign_pd) == 0, "a PD cannot be freed");
    }
    free(a->works);
    world_fini(&a->world);
}
