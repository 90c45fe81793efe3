/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The engine as a whole: finds the queue pair of a datagram, gives queue pairs
 * their turns to send, lets time pass.
 */
#include "engine/engine.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "engine/engine_private.h"
#include "engine/limits.h"
#include "engine/key_private.h"
#include "engine/qp_private.h"

/*
 * READ responses on their way to one process: what its default receive buffer
 * holds, less what others send it meanwhile.
 */
#define READ_WINDOW_DEFAULT 65536u

struct engine_config engine_config_default(void)
{
    return (struct engine_config){
        .qpn_base = 1u << 16,
        .pkey = 0xffff,
        .rd_atomic_max = QP_RD_ATOMIC_DEFAULT,
        .read_window = READ_WINDOW_DEFAULT,
        .ack_hold_ns = 50000,
        .timeout_floor_ns = 20000000, /* shorter ones expire on a busy host without any loss */
    };
}

int engine_new(const struct engine_config *config, struct engine **out)
{
    struct engine *e;
    int error = -ENOMEM;

    if (config->rd_atomic_max == 0 || config->rd_atomic_max > QP_RD_ATOMIC_MAX ||
        (config->qpn_base & ~0xff0000u) != 0)
        return -EINVAL;
    e = calloc(1, sizeof(*e));
    if (e == NULL)
        return -ENOMEM;
    e->config = *config;
    e->qps = calloc(QPN_SPACE, sizeof(struct qp *));
    if (e->qps == NULL)
        goto free_engine;
    random_init(&e->random, config->seed);
    error = key_table_new(e);
    if (error != 0)
        goto free_qps;
    list_init(&e->ready);
    list_init(&e->events);
    list_init(&e->touched);
    list_init(&e->moderated);
    multicast_table_init(&e->multicasts);
    window_table_init(&e->windows);
    window_init(&e->read_window,
                config->read_window != 0 ? config->read_window : READ_WINDOW_DEFAULT, 0);
    e->qpn_next = (uint32_t)random_below(&e->random, QP_COUNT_MAX);
    e->srqn_next = (uint32_t)random_below(&e->random, XRC_SRQN_SPACE);
    *out = e;
    return 0;

free_qps:
    free(e->qps);
free_engine:
    free(e);
    return error;
}

void engine_free(struct engine *e)
{
    assert(e->qp_count == 0);
    assert(e->cq_count == 0);
    assert(e->srq_count == 0);
    assert(e->pd_count == 0);
    assert(e->xrcd_count == 0);
    key_table_free(e);
    free(e->xrc_srqs);
    free(e->timers);
    free(e->qps);
    free(e);
}

const struct engine_counters *engine_counters(const struct engine *e)
{
    return &e->counters;
}

/* IBA 10.9.1.2: the low 15 bits agree and at least one side is a full member. */
static bool pkey_matches(uint16_t a, uint16_t b)
{
    return ((a ^ b) & 0x7fff) == 0 && ((a | b) & 0x8000) != 0;
}

static bool is_response(const struct packet *p)
{
    return p->operation->kind == KIND_ACK || p->operation->kind == KIND_READ_RESPONSE ||
           p->operation->kind == KIND_ATOMIC_ACK;
}

/* Requests are taken from RTR on; a send queue in error does not keep UC and UD from receiving. */
static bool takes_requests(const struct qp *qp)
{
    return qp->state == QP_RTR || qp->state == QP_RTS || qp->state == QP_SQD || qp->state == QP_SQE;
}

/* XRC: an initiator takes answers only, a target only requests. */
static bool plays_part(const struct qp *qp, const struct packet *p)
{
    return qp->service != SERVICE_XRC || qp_is_target(qp) != is_response(p);
}

static void take_packet(struct qp *qp, const struct packet *p, const struct datagram *d,
                        uint64_t now)
{
    congestion_note(qp, d);
    if (is_response(p))
        completer_receive(qp, p, now);
    else
        responder_receive(qp, p, d, now);
}

static void receive_for(struct engine *e, struct qp *qp, const struct packet *p,
                        const struct datagram *d)
{
    bool connected = qp->service != SERVICE_UD;

    qp->counters.rcv_packets++;
    qp_count(qp, rcv_bytes, d->len);
    if (opcode_service(p->h.bth.opcode) != qp->service || !plays_part(qp, p))
        qp_count(qp, wrong_service, 1);
    else if (!pkey_matches(p->h.bth.pkey, e->config.pkey))
        qp_count(qp, wrong_pkey, 1);
    else if (!takes_requests(qp))
        qp_count(qp, wrong_state, 1);
    else if (connected &&
             (!gid_equal(&d->src, &qp->attr.path.dst) || !gid_equal(&d->dst, &qp->attr.path.src)))
        qp_count(qp, wrong_source, 1);
    else
        take_packet(qp, p, d, e->now);
    qp_fail_lost(qp);
    qp_touch(qp);
}

/* A copy to each queue pair that is attached, but the one that sent it. */
static void receive_for_group(struct engine *e, const struct packet *p, const struct datagram *d)
{
    struct multicast_group *g = multicast_find(e, p, d);

    if (g == NULL)
        return;
    for (struct list *l = g->members.next; l != &g->members; l = l->next) {
        struct qp *qp = LIST_ENTRY(l, struct multicast_member, link)->qp;

        if (multicast_is_own(qp, p, d)) {
            e->counters.mcast_own++;
            continue;
        }
        qp_count(qp, mcast_rcv_packets, 1);
        receive_for(e, qp, p, d);
    }
}

static void pass_time(struct engine *e, uint64_t now)
{
    if (now > e->now)
        e->now = now;
}

void engine_receive(struct engine *e, const struct datagram *d, uint64_t now)
{
    struct packet p;
    struct qp *qp;

    pass_time(e, now);
    e->counters.rcv_packets++;
    if (congestion_is_marked(d))
        e->counters.ecn_marked++;
    if (packet_parse(d->bytes, d->len, &p) != DROP_NONE) {
        e->counters.malformed++;
        return;
    }
    if (p.operation->kind == KIND_CNP) {
        congestion_receive(e, qp_find(e, p.h.bth.dest_qpn), d);
        return;
    }
    if (p.h.bth.dest_qpn == QPN_MULTICAST || gid_is_multicast(&d->dst)) {
        receive_for_group(e, &p, d);
        return;
    }
    qp = qp_find(e, p.h.bth.dest_qpn);
    if (qp == NULL) {
        e->counters.no_qp++;
        return;
    }
    receive_for(e, qp, &p, d);
}

/* Both sides of a QP in turn, so that neither starves the other. */
static uint32_t transmit_turn(struct qp *qp, uint64_t now, struct datagram_batch *b)
{
    uint32_t count;

    qp->responder_turn = !qp->responder_turn;
    if (qp->responder_turn) {
        count = responder_transmit(qp, now, b);
        if (count == 0)
            count = requester_transmit(qp, now, b);
    } else {
        count = requester_transmit(qp, now, b);
        if (count == 0)
            count = responder_transmit(qp, now, b);
    }
    return count;
}

static uint32_t transmit_for(struct qp *qp, uint64_t now, struct datagram_batch *b)
{
    uint32_t count = congestion_transmit(qp, b);

    if (count == 0)
        count = transmit_turn(qp, now, b);
    if (count > 0) {
        qp->counters.sent_packets += count;
        qp_count(qp, sent_bytes, (count - 1) * (uint64_t)b->segment_len + b->last_len);
        multicast_note_sent(qp, b);
    }
    qp_fail_lost(qp);
    qp_touch(qp);
    return count;
}

uint32_t engine_transmit(struct engine *e, uint64_t now, struct datagram_batch *b)
{
    struct list *first;

    pass_time(e, now);
    if (farewell_transmit(e, b) > 0)
        return b->count;
    while ((first = list_pop_head(&e->ready)) != NULL) {
        struct qp *qp = LIST_ENTRY(first, struct qp, ready_link);

        if (transmit_for(qp, e->now, b) > 0) {
            qp_make_ready(qp);
            return b->count;
        }
    }
    b->count = 0;
    return 0;
}

bool engine_wants_transmit(const struct engine *e)
{
    return !list_empty(&e->ready) || farewell_waits(&e->farewells);
}

uint64_t engine_deadline(const struct engine *e)
{
    uint64_t of_cqs = cq_deadline(e);
    uint64_t of_qps = e->timer_count == 0 ? ENGINE_NEVER : e->timers[0]->deadline_ns;

    return of_cqs < of_qps ? of_cqs : of_qps;
}

void engine_advance(struct engine *e, uint64_t now)
{
    pass_time(e, now);
    while (e->timer_count > 0 && e->timers[0]->deadline_ns <= e->now) {
        struct qp *qp = e->timers[0];

        timer_set(qp, ENGINE_NEVER);
        requester_expire(qp, e->now);
        responder_expire(qp, e->now);
        timer_update(qp);
        qp_fail_lost(qp);
        qp_touch(qp);
    }
    cq_advance(e);
}
