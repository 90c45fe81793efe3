/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs and connections: made, connected, freed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/app.h"
#include "sim/census.h"
#include "support/expect.h"

#define RC_ACCESS                                                                                  \
    (ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC |        \
     ACCESS_FLUSH_GLOBAL)

static uint32_t roll_pmtu(struct dice *d)
{
    return 256u << dice_below(d, 5);
}

static uint32_t roll_psn(struct dice *d)
{
    if (dice_percent(d, 60))
        return (uint32_t)(0x1000000 - dice_below(d, 300)) & 0xffffff;
    return (uint32_t)dice_below(d, 0x1000000);
}

void endpoint_modify(struct endpoint *ep, enum qp_state state, uint32_t mask)
{
    const char *why = "";
    int error;

    ep->attr.state = state;
    error = qp_modify(ep->qp, &ep->attr, mask | QP_ATTR_STATE, &why);
    EXPECT(error == 0, "%s: modify to state %d returns %d: %s", ep->channel.name, (int)state, error,
           why);
}

static void to_init(struct endpoint *ep)
{
    uint32_t mask = QP_ATTR_PKEY_INDEX | QP_ATTR_PORT;

    ep->attr.port = 1;
    ep->attr.pkey_index = 0;
    ep->attr.access = RC_ACCESS | ACCESS_FLUSH_PERSISTENT;
    ep->attr.qkey = SIM_QKEY;
    endpoint_modify(ep, QP_INIT,
                    mask | (ep->service == SERVICE_UD ? QP_ATTR_QKEY : QP_ATTR_ACCESS));
}

static void to_rtr(struct endpoint *ep)
{
    uint32_t mask = QP_ATTR_AV | QP_ATTR_PMTU | QP_ATTR_DEST_QPN | QP_ATTR_RQ_PSN;

    if (ep->service == SERVICE_UD)
        mask = 0;
    else if (ep->service == SERVICE_RC || ep->mute)
        mask |= QP_ATTR_DEST_RD_ATOMIC | QP_ATTR_MIN_RNR_TIMER;
    endpoint_modify(ep, QP_RTR, mask);
}

void endpoint_to_rts(struct endpoint *ep)
{
    uint32_t mask = QP_ATTR_SQ_PSN;

    if (ep->comm_est_count > 0)
        census_add(TROUBLE_LATE, 1);
    /* What came in order came while the QP was ready to receive only. */
    if (ep->flow.peer && ep->flow.expected > ep->flow.peer->psn_first)
        EXPECT(ep->comm_est_count == 1 || app_is_hostile(ep->app),
               "%s: packets came and communication was not established", ep->channel.name);

    if (ep->mute)
        mask |= QP_ATTR_TIMEOUT;
    else if (endpoint_is_reliable(ep))
        mask |= QP_ATTR_TIMEOUT | QP_ATTR_RETRY_COUNT | QP_ATTR_RNR_RETRY | QP_ATTR_RD_ATOMIC;
    endpoint_modify(ep, QP_RTS, mask);
}

/* The time-out code that suits the round trip: seldom short enough to expire without a loss. */
static uint8_t roll_timeout(const struct plan *p, struct dice *d)
{
    uint64_t wanted = p->rtt_ns * (p->mode == MODE_ordinary ? 1 : 4);
    uint8_t code = 1;

    while (code < 20 && 4096ull << code < wanted)
        code++;
    if (p->mode == MODE_ordinary)
        code = (uint8_t)(code + dice_below(d, 3));
    return code;
}

static void roll_attributes(struct endpoint *ep)
{
    struct app *a = ep->app;
    const struct plan *p = &a->world.plan;
    struct dice *d = &a->dice;
    bool patient = p->mode != MODE_exhaustion;

    ep->attr.sq_psn = psn_make(roll_psn(d));
    ep->attr.timeout = roll_timeout(p, d);
    ep->attr.retry_count = patient ? 7 : (uint8_t)dice_below(d, 8);
    ep->attr.rnr_retry = patient ? 7 : (uint8_t)dice_below(d, 8);
    ep->attr.min_rnr_timer = (uint8_t)dice_between(d, 1, dice_percent(d, 90) ? 8 : 14);
    ep->attr.dest_rd_atomic = (uint8_t)dice_between(d, 1, 16);
}

static struct path path_between(const struct host *from, const struct host *to, struct dice *d)
{
    return (struct path){.src = from->gid,
                         .dst = to->gid,
                         .flow_label = dice_percent(d, 50) ? 0 : (uint32_t)dice_below(d, 1 << 20),
                         .traffic_class = (uint8_t)(dice_below(d, 64) << 2),
                         .hop_limit = 64};
}

static void begin_flow(struct endpoint *ep)
{
    struct flow *f = &ep->flow;

    memcpy(f->name, ep->channel.name, sizeof(f->name));
    f->channel = &ep->channel;
    f->peer = ep->peer ? &ep->peer->channel : NULL;
    f->receives = ep->receives;
    f->qpn = qp_qpn(ep->qp);
    f->dest_qpn = ep->attr.dest_qpn;
    f->path = ep->attr.path;
    f->rd_atomic = ep->attr.rd_atomic;
    f->retry_count = ep->attr.retry_count;
    f->rnr_retry = ep->attr.rnr_retry;
    f->timeout_ns = ep->attr.timeout == 0 ? 0 : 4096ull << ep->attr.timeout;
    flow_begin(f);
}

static void aim(struct endpoint *ep, uint32_t pmtu)
{
    struct endpoint *peer = ep->peer;

    ep->attr.pmtu = pmtu;
    ep->attr.dest_qpn = qp_qpn(peer->qp);
    ep->attr.rq_psn = peer->attr.sq_psn;
    ep->attr.rd_atomic = (uint8_t)dice_between(&ep->app->dice, 1, peer->attr.dest_rd_atomic);
    ep->attr.path = path_between(ep->home->host, peer->home->host, &ep->app->dice);
    ep->channel.pmtu = pmtu;
    ep->channel.errors_allowed = 0;
    if (ep->app->world.plan.mode == MODE_exhaustion && !world_is_healed(&ep->app->world))
        ep->channel.errors_allowed =
            STATUS_BIT(STATUS_RETRY_EXC_ERR) | STATUS_BIT(STATUS_RNR_RETRY_EXC_ERR);
    channel_begin(&ep->channel, ep->attr.sq_psn.value);
    ep->own.errors_allowed = 0;
    ep->own.failed = false;
    ep->unsignalled = 0;
    ep->draining = false;
    ep->drained = false;
    ep->last_wqe_count = 0;
    ep->comm_est_count = 0;
    ep->error_events = 0;
    ep->cut = false;
}

void endpoint_connect(struct endpoint *a, struct endpoint *b)
{
    struct endpoint *const ends[] = {a, b};
    struct connection *c = a->connection;
    uint32_t pmtu = roll_pmtu(&a->app->dice);
    uint32_t i;

    a->peer = b;
    b->peer = a;
    for (i = 0; i < 2; i++) {
        ends[i]->attr = (struct qp_attr){0};
        roll_attributes(ends[i]);
    }
    for (i = 0; i < 2; i++)
        aim(ends[i], pmtu);
    for (i = 0; i < 2; i++) {
        begin_flow(ends[i]);
        to_init(ends[i]);
        to_rtr(ends[i]);
        if (i == 0 || dice_percent(&a->app->dice, 75))
            endpoint_to_rts(ends[i]);
    }
    c->state = CONNECTION_RUNS;
    c->born_ns = a->app->world.now;
    c->refusal = NULL;
    c->refused_message = NULL;
    c->goes_in = 0;
    c->going = (struct piece){0};
    c->gone = (struct piece){0};
    c->lives++;
}

void endpoint_start_datagrams(struct endpoint *ep)
{
    ep->attr = (struct qp_attr){.sq_psn = psn_make(roll_psn(&ep->app->dice))};
    ep->channel.pmtu = ep->init.pmtu;
    channel_begin(&ep->channel, ep->attr.sq_psn.value);
    begin_flow(ep);
    to_init(ep);
    to_rtr(ep);
    endpoint_to_rts(ep);
    groups_join(ep);
}

/* --- making and freeing --- */

static void roll_habits(struct endpoint *ep)
{
    static const enum wr_opcode rc[] = {WR_SEND,     WR_SEND_IMM,  WR_WRITE,    WR_WRITE_IMM,
                                        WR_BIND_MW,  WR_LOCAL_INV, WR_SEND_INV, WR_READ,
                                        WR_CMP_SWAP, WR_FETCH_ADD, WR_FLUSH,    WR_ATOMIC_WRITE};
    /* Those of UC and UD come first. */
    uint32_t count = endpoint_is_reliable(ep) ? 12 : ep->service == SERVICE_UC ? 6 : 2;
    struct dice *d = &ep->app->dice;
    uint32_t i;

    for (i = 0; i < count; i++)
        ep->weights[rc[i]] = dice_percent(d, 30) ? 0 : (uint32_t)dice_between(d, 1, 10);
    ep->weights[WR_SEND] += 1;
    ep->signal_percent = (uint32_t)dice_between(d, 10, 100);
    if (ep->mute)
        return;
    ep->messages_left = (uint32_t)dice_between(d, 1, ep->app->world.plan.message_count);
    ep->bytes_left = ep->app->world.plan.bytes_max;
}

void endpoint_new_queue_pair(struct endpoint *ep)
{
    static const char *const services[] = {
        [SERVICE_RC] = "RC", [SERVICE_UC] = "UC", [SERVICE_UD] = "UD", [SERVICE_XRC] = "XRC"};
    int error = qp_new(ep->home->host->engine, &ep->init, &ep->qp);

    EXPECT(error == 0, "qp_new returns %d", error);
    snprintf(ep->channel.name, sizeof(ep->channel.name), "%s %u:%06x", services[ep->service],
             ep->home->host->index, qp_qpn(ep->qp));
    memcpy(ep->own.name, ep->channel.name, sizeof(ep->own.name));
}

static struct app_cq *make_own_queue(struct endpoint *ep, uint32_t index, uint32_t capacity)
{
    struct app_cq *q = &ep->own_cqs[index];

    q->habit = (enum cq_habit)dice_below(&ep->app->dice, 3);
    q->notified = true;
    EXPECT(cq_new(ep->home->host->engine, capacity, q, &q->cq) == 0, "cq_new fails");
    return q;
}

/* Completion queues with an entry for each request that can be outstanding, and no more. */
static void make_rings_small(struct endpoint *ep, bool shared)
{
    struct dice *d = &ep->app->dice;

    ep->init.cap.send_wr_max = (uint32_t)dice_between(d, 1, 4);
    ep->send_cq = make_own_queue(ep, 0, ep->init.cap.send_wr_max);
    ep->init.send_cq = ep->send_cq->cq;
    census_add(TROUBLE_SMALL_RINGS, 1);
    if (shared) /* one QP may take all of the others' requests too */
        return;
    ep->receive_depth = (uint32_t)dice_between(d, 1, 4);
    ep->init.cap.recv_wr_max = ep->receive_depth;
    ep->recv_cq = make_own_queue(ep, 1, ep->receive_depth);
    ep->init.recv_cq = ep->recv_cq->cq;
}

/* The first target of a host brings the domain, its SRQs, and the CQ of both. */
static void make_domain(struct app *a, struct app_host *home)
{
    home->xrc_cq = &home->cqs[dice_below(&a->dice, home->cq_count)];
    EXPECT(xrcd_new(home->host->engine, &home->xrcd) == 0, "xrcd_new fails");
    for (uint32_t i = SRQ_XRC_FIRST; i <= SRQ_XRC_LAST; i++)
        app_make_srq(home, a, i, (struct srq_attr){.xrcd = home->xrcd, .cq = home->xrc_cq->cq});
}

/* An initiator has no receive side; a target has a domain and nothing else. */
static void make_side_of_xrc(struct endpoint *ep)
{
    struct app_host *home = ep->home;

    ep->receives = &ep->own;
    ep->receive_depth = 0;
    ep->init.srq = NULL;
    ep->init.recv_cq = NULL;
    if (!ep->mute)
        return;
    if (!home->xrcd)
        make_domain(ep->app, home);
    ep->init = (struct qp_init){.service = SERVICE_XRC, .xrcd = home->xrcd, .context = ep};
    ep->receives = &home->srqs[SRQ_XRC_FIRST].queue;
    ep->recv_cq = home->xrc_cq;
}

static void make_queue_pair(struct endpoint *ep)
{
    struct app_host *home = ep->home;
    struct dice *d = &ep->app->dice;
    bool shared = home->srqs[SRQ_PLAIN].srq && ep->service != SERVICE_UC && dice_percent(d, 50);

    /* Lost datagrams would make it unknown how many receive requests are left for the others. */
    if (ep->service == SERVICE_UD && ep->app->world.plan.mode == MODE_exhaustion)
        shared = false;

    ep->send_cq = &home->cqs[dice_below(d, home->cq_count)];
    ep->recv_cq = &home->cqs[dice_below(d, home->cq_count)];
    ep->receives = shared ? &home->srqs[SRQ_PLAIN].queue : &ep->own;
    ep->receive_depth = (uint32_t)dice_between(d, 1, 8);
    ep->init = (struct qp_init){
        .service = ep->service,
        .pd = home->pd,
        .send_cq = ep->send_cq->cq,
        .recv_cq = ep->recv_cq->cq,
        .srq = shared ? home->srqs[SRQ_PLAIN].srq : NULL,
        .cap = {.send_wr_max = (uint32_t)dice_between(d, 1, 20),
                .recv_wr_max = shared ? 0 : ep->receive_depth,
                .send_sge_max = (uint32_t)dice_between(d, 1, 8),
                .recv_sge_max = shared ? 0 : (uint32_t)dice_between(d, 1, 4),
                .inline_max = (uint32_t)dice_below(d, 400)},
        .all_signaled = dice_percent(d, 20),
        .context = ep,
        .pmtu = ep->service == SERVICE_UD ? roll_pmtu(d) : 0,
    };
    if (ep->service == SERVICE_XRC)
        make_side_of_xrc(ep);
    if (ep->app->world.plan.small_rings && !ep->mute)
        make_rings_small(ep, shared || ep->service == SERVICE_XRC);
    endpoint_new_queue_pair(ep);
}

static void make_memory(struct endpoint *ep)
{
    const struct plan *p = &ep->app->world.plan;
    struct dice *d = &ep->app->dice;
    uint64_t target_len = p->size_max + dice_below(d, 3ull * p->size_max) + 64;
    uint64_t arena_len = 4ull * p->size_max + 8192;
    char name[40];

    ep->receive_len = p->size_max + (uint32_t)dice_below(d, 100);
    if (ep->service == SERVICE_UD) {
        ep->receive_len = 40 + ep->init.pmtu + (uint32_t)dice_below(d, 100);
        if (p->mode != MODE_lossless && dice_percent(d, 20)) /* longer ones are dropped */
            ep->receive_len = 40 + (uint32_t)dice_below(d, ep->init.pmtu);
        arena_len = 20ull * ep->init.pmtu + 8192;
    }
    if (ep->receives == &ep->own) {
        snprintf(name, sizeof(name), "inbox of %s", ep->channel.name);
        arena_init(&ep->inbox, ep->home->pd, name,
                   (uint64_t)ep->receive_len * (ep->receive_depth + 1), d);
    }
    snprintf(name, sizeof(name), "memory of %s", ep->channel.name);
    arena_init(&ep->arena, ep->home->pd, name, arena_len, d);
    if (ep->service == SERVICE_UD)
        return;
    snprintf(name, sizeof(name), "target of %s", ep->channel.name);
    book_init(&ep->target_book, name, target_len, dice_u64(d));
    region_init(&ep->target, ep->home->pd, &ep->target_book, BOOK_GUARD, target_len,
                RC_ACCESS | ACCESS_MW_BIND, d);
    if (app_is_hostile(ep->app)) /* who knows the key may write what he likes */
        claim_open((struct piece){&ep->target_book, BOOK_GUARD, (uint32_t)target_len}, NULL);
}

struct endpoint *endpoint_new(struct app *a, struct app_host *home, enum service service, bool mute)
{
    struct endpoint *ep = calloc(1, sizeof(*ep));

    EXPECT(ep, "no memory for the test itself");
    ep->app = a;
    ep->home = home;
    ep->service = service;
    ep->mute = mute;
    ep->index = a->endpoint_count;
    a->endpoints[a->endpoint_count++] = ep;
    if (service == SERVICE_UD)
        ep->member = 1u << a->datagram_count++;
    ep->channel.service = service;
    ep->channel.forged = app_is_hostile(a);
    ep->own.forged = app_is_hostile(a);
    make_queue_pair(ep);
    roll_habits(ep);
    make_memory(ep);
    return ep;
}

void endpoint_free(struct endpoint *ep)
{
    uint32_t i;

    groups_leave(ep);
    EXPECT(qp_free(ep->qp) == 0, "%s cannot be freed", ep->channel.name);
    for (i = 0; i < 2; i++) {
        if (ep->own_cqs[i].cq)
            EXPECT(cq_free(ep->own_cqs[i].cq) == 0, "a CQ cannot be freed");
    }
    arena_fini(&ep->arena);
    if (ep->receives == &ep->own)
        arena_fini(&ep->inbox);
    windows_end_life(ep);
    if (ep->service != SERVICE_UD) {
        region_fini(&ep->target);
        book_fini(&ep->target_book);
    }
    channel_fini(&ep->channel);
    receive_queue_fini(&ep->own);
    free(ep);
}
