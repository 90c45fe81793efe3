/* SPDX-License-Identifier: BSD-2-Clause */
/* Sets a simulation up, gives applications their turns, and ends it. */
#include "sim/app.h"

#include <stdio.h>
#include <stdlib.h>

#include "sim/census.h"
#include "support/expect.h"

/* A READ request asks for three eighths of the window, within these. */
#define READ_PART_MIN 65536u
#define READ_PART_MAX 192512u
#define READ_WINDOW_DEFAULT 65536u
#define CELL_STRIDE 32u

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

/* --- setting up --- */

static void init_cells(struct app *a, struct app_host *home)
{
    uint32_t i;

    book_init(&home->cell_book, "atomics", (size_t)HOST_CELLS * CELL_STRIDE, dice_u64(&a->dice));
    region_init(&home->cell_region, home->pd, &home->cell_book, BOOK_GUARD,
                (size_t)HOST_CELLS * CELL_STRIDE,
                ACCESS_LOCAL_WRITE | ACCESS_REMOTE_ATOMIC | ACCESS_MW_BIND, &a->dice);
    if (app_is_hostile(a)) /* who knows the key may aim anywhere */
        claim_open((struct piece){&home->cell_book, BOOK_GUARD, HOST_CELLS * CELL_STRIDE}, NULL);
    for (i = 0; i < HOST_CELLS; i++) {
        struct piece where = {
            .book = &home->cell_book, .offset = BOOK_GUARD + i * CELL_STRIDE + 8, .len = 8};

        cell_init(&home->cells[i], where);
        claim_open(where, NULL);
    }
}

void app_make_srq(struct app_host *home, struct app *a, uint32_t place, struct srq_attr attr)
{
    struct app_srq *s = &home->srqs[place];

    attr.wr_max = SRQ_LEAST;
    attr.sge_max = 3;
    s->queue.shared = true;
    s->queue.forged = app_is_hostile(a);
    s->queue.errors_allowed = app_expects_errors(a) ? STATUS_BIT(STATUS_WR_FLUSH_ERR) : 0;
    snprintf(s->queue.name, sizeof(s->queue.name), "SRQ %u of host %u", place, home->host->index);
    s->len = a->world.plan.size_max > 4200 ? a->world.plan.size_max : 4200;
    EXPECT(srq_new(home->pd, &attr, s, &s->srq) == 0, "srq_new fails");
    arena_init(&s->arena, home->pd, "shared receives", (SRQ_LEAST + 2ull) * s->len, &a->dice);
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
    if (dice_percent(&a->dice, 40))
        app_make_srq(home, a, SRQ_PLAIN, (struct srq_attr){0});
}

static void init_connection(struct app *a)
{
    struct connection *c = &a->connections[a->connection_count++];
    uint32_t hosts = a->world.plan.host_count;
    uint32_t from = (uint32_t)dice_below(&a->dice, hosts);
    uint32_t to = (uint32_t)dice_below(&a->dice, hosts);
    static const enum service services[] = {SERVICE_RC, SERVICE_UC, SERVICE_XRC};
    static const uint32_t weights[] = {70, 15, 15};
    enum service service = services[dice_weighted(&a->dice, weights, 3)];
    uint32_t i;

    if (from == to && dice_percent(&a->dice, 80))
        to = (from + 1) % hosts;
    if (a->world.plan.crowd) {
        from = (uint32_t)dice_between(&a->dice, 1, hosts - 1);
        to = 0;
    }
    c->ends[0] = endpoint_new(a, &a->hosts[from], service, false);
    c->ends[1] = endpoint_new(a, &a->hosts[to], service, service == SERVICE_XRC);
    for (i = 0; i < 2; i++)
        c->ends[i]->connection = c;
    endpoint_connect(c->ends[0], c->ends[1]);
}

void app_init(struct app *a, const struct plan *plan, struct ladder *ladder)
{
    struct plan p = *plan;
    uint32_t i;

    *a = (struct app){.dice = dice_make(plan->seed, 4)};
    a->limits = (struct flow_limits){
        .window_max = p.config.window_max ? p.config.window_max : WORLD_WINDOW_DEFAULT,
        .read_window = p.config.read_window ? p.config.read_window : READ_WINDOW_DEFAULT,
    };
    a->limits.read_part = a->limits.read_window / 8 * 3;
    if (a->limits.read_part < READ_PART_MIN)
        a->limits.read_part = READ_PART_MIN;
    if (a->limits.read_part > READ_PART_MAX)
        a->limits.read_part = READ_PART_MAX;
    world_init(&a->world, &p, app_watch(a, &p.config), ladder);
    for (i = 0; i < plan->host_count; i++)
        init_host(a, i);
    for (i = 0; i < plan->connection_count; i++)
        init_connection(a);
    for (i = 0; i < plan->datagram_count; i++)
        endpoint_start_datagrams(
            endpoint_new(a, &a->hosts[dice_below(&a->dice, plan->host_count)], SERVICE_UD, false));
    if (plan->crowd)
        census_add(TROUBLE_CROWD, 1);
    for (i = 0; i < plan->host_count; i++)
        world_schedule(&a->world, a->world.now, EVENT_APP, &a->world.hosts[i], NULL);
}

/* --- the end --- */

static void check_books(const struct app *a, const char *when)
{
    uint32_t i;

    for (i = 0; i < a->endpoint_count; i++) {
        book_check(&a->endpoints[i]->arena.book, when);
        if (a->endpoints[i]->receives == &a->endpoints[i]->own)
            book_check(&a->endpoints[i]->inbox.book, when);
        if (a->endpoints[i]->service != SERVICE_UD)
            book_check(&a->endpoints[i]->target_book, when);
    }
    for (i = 0; i < a->world.plan.host_count; i++) {
        book_check(&a->hosts[i].cell_book, when);
        for (uint32_t k = 0; k < HOST_SRQS; k++)
            if (a->hosts[i].srqs[k].srq)
                book_check(&a->hosts[i].srqs[k].arena.book, when);
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

            EXPECT(!opcode_takes_receive(m->opcode) ||
                       (m->members ? m->reached == m->members : m->deliveries == 1),
                   "%s: %s was lost without a loss", ep->channel.name, message_name(m));
        }
    }
}

/*
 * Every datagram is accounted for, once: it belongs to nobody, or it is a
 * request with a verdict, or a response with an effect.
 */
static void check_counters(const struct host *h)
{
    const struct engine_counters *c = engine_counters(h->engine);
    uint64_t strays = c->malformed + c->no_qp + c->wrong_service + c->wrong_state + c->wrong_pkey +
                      c->wrong_source + c->cnp_rcv + c->mcast_no_member + c->mcast_bad_address;
    uint64_t given = h->delivered - h->multicasts + c->mcast_rcv_packets;
    uint64_t verdicts = c->requests + c->out_of_sequence + c->duplicate_request +
                        c->bad_sequence_opcode + c->bad_length + c->remote_access_refused +
                        c->no_receive + c->receive_too_small + c->responder_memory_fault +
                        c->too_many_reads + c->wrong_qkey + c->wrong_xrc_srq;
    uint64_t effects = c->responses + c->stale_response + c->bad_response + c->packet_seq_err +
                       c->implied_nak_seq_err + c->rnr_nak_rcv + c->remote_err_nak_rcv;

    census_add(TROUBLE_CNP, c->cnp_handled);
    EXPECT(c->sent_packets == h->sent, "host %u: counts %lu packets sent of %lu", h->index,
           (unsigned long)c->sent_packets, (unsigned long)h->sent);
    EXPECT(c->rcv_packets == h->delivered, "host %u: counts %lu packets received of %lu", h->index,
           (unsigned long)c->rcv_packets, (unsigned long)h->delivered);
    EXPECT(strays + verdicts + effects == given,
           "host %u: %lu strays, %lu verdicts and %lu effects account for %lu packets", h->index,
           (unsigned long)strays, (unsigned long)verdicts, (unsigned long)effects,
           (unsigned long)given);
    EXPECT(c->mcast_rcv_packets + c->mcast_own == h->copies,
           "host %u: %lu copies for members and %lu back at their senders, %lu asked for them",
           h->index, (unsigned long)c->mcast_rcv_packets, (unsigned long)c->mcast_own,
           (unsigned long)h->copies);
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

        check_counters(home->host);
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
        app_work_of(a, &a->hosts[i]);
    check_end(a);
}

static void free_srq(struct app_srq *s)
{
    receive_queue_fini(&s->queue);
    if (!s->srq)
        return;
    arena_fini(&s->arena);
    EXPECT(srq_free(s->srq) == 0, "an SRQ cannot be freed");
}

void app_fini(struct app *a)
{
    uint32_t i;
    uint32_t k;

    for (i = 0; i < a->connection_count; i++)
        refusal_fini(&a->connections[i]);
    for (i = 0; i < a->endpoint_count; i++)
        endpoint_free(a->endpoints[i]);
    for (i = 0; i < a->world.plan.host_count; i++) {
        struct app_host *home = &a->hosts[i];

        for (k = 0; k < HOST_CELLS; k++)
            cell_fini(&home->cells[k]);
        region_fini(&home->cell_region);
        book_fini(&home->cell_book);
        for (k = 0; k < HOST_SRQS; k++)
            free_srq(&home->srqs[k]);
        if (home->xrcd)
            EXPECT(xrcd_free(home->xrcd) == 0, "an XRC domain cannot be freed");
        for (k = 0; k < home->cq_count; k++)
            EXPECT(cq_free(home->cqs[k].cq) == 0, "a CQ cannot be freed");
        EXPECT(pd_free(home->pd) == 0, "a PD cannot be freed");
        EXPECT(pd_free(home->foreign_pd) == 0, "a PD cannot be freed");
    }
    free(a->works);
    world_fini(&a->world);
}
