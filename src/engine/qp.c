/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs as objects (IBA 10.2.4, 10.3): numbers, creation, the error
 * state with its flush, and what both sides share. States and attributes are
 * qp_modify.c's; posting is post.c's.
 */
#include "engine/qp.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "engine/engine_private.h"
#include "engine/limits.h"
#include "engine/memory.h"
#include "engine/qp_private.h"
#include "engine/requester_private.h"
#include "engine/xrc_private.h"

/* Slot 0, where QPN 1 is special, is nobody's. */
#define QPN_FIRST (QPN_SPACE - QP_COUNT_MAX)
#define QPN_INDEX_MASK (QPN_SPACE - 1u)
/*
 * A READ is asked for in parts, so that its answers fit the receive buffer of who asked; of up to
 * three eighths of the READ window. The most is what fills its batches best: a first response is
 * longer than the next, so its batch holds two; with 4 KiB, three of 15 follow, else three of 62.
 */
#define READ_PART_MIN 65536u
#define READ_PART_MAX (47u * 4096u)

struct qp *qp_find(struct engine *e, uint32_t qpn)
{
    if ((qpn & ~QPN_INDEX_MASK) != e->config.qpn_base)
        return NULL;
    return e->qps[qpn & QPN_INDEX_MASK];
}

uint32_t qp_qpn(const struct qp *qp)
{
    return qp->qpn;
}

enum qp_state qp_state(const struct qp *qp)
{
    return qp->state;
}

void *qp_context(const struct qp *qp)
{
    return qp->context;
}

void qp_set_context(struct qp *qp, void *context)
{
    qp->context = context;
}

void qp_make_ready(struct qp *qp)
{
    if (list_empty(&qp->ready_link))
        list_push_tail(&qp->engine->ready, &qp->ready_link);
}

/* A number that is free, not one that was given back lately. */
static int take_number(struct engine *e, struct qp *qp)
{
    if (e->qp_count >= QP_COUNT_MAX)
        return -ENOMEM;
    for (;;) {
        uint32_t index = QPN_FIRST + e->qpn_next++ % QP_COUNT_MAX;

        if (e->qps[index] != NULL)
            continue;
        e->qps[index] = qp;
        e->qp_count++;
        qp->qpn = e->config.qpn_base | index;
        return 0;
    }
}

static int reserve_timer(struct engine *e)
{
    uint32_t capacity = e->timer_capacity == 0 ? 16 : 2 * e->timer_capacity;
    struct qp **timers;

    if (e->qp_count < e->timer_capacity)
        return 0;
    timers = realloc(e->timers, capacity * sizeof(struct qp *));
    if (timers == NULL)
        return -ENOMEM;
    e->timers = timers;
    e->timer_capacity = capacity;
    return 0;
}

static bool cap_is_possible(const struct qp_init *init)
{
    const struct qp_cap *cap = &init->cap;

    return cap->send_wr_max <= QP_WR_MAX && cap->recv_wr_max <= QP_WR_MAX &&
           cap->send_sge_max <= QP_SGE_MAX && cap->recv_sge_max <= QP_SGE_MAX &&
           cap->inline_max <= QP_INLINE_MAX;
}

/* Which parts the kinds of QP have (IBA 10.2.4; XRC: annex A14). */
static bool parts_fit(const struct qp_init *init)
{
    bool sends = init->pd != NULL && init->send_cq != NULL;

    switch (init->service) {
    case SERVICE_RC:
    case SERVICE_UC:
    case SERVICE_UD:
        return sends && init->recv_cq != NULL && init->xrcd == NULL &&
               (init->srq == NULL || init->srq->xrcd == NULL);
    case SERVICE_XRC:
        if (init->srq != NULL)
            return false;
        if (init->xrcd == NULL)
            return sends;
        return init->pd == NULL && init->send_cq == NULL && init->recv_cq == NULL;
    case SERVICE_RD:
    case SERVICE_CNP:
        break;
    }
    return false;
}

/* What is given is at least what was asked for; some clients need two SGEs in any case. */
static void round_cap(struct qp_init *init)
{
    struct qp_cap *cap = &init->cap;

    if (cap->send_wr_max > 0 && cap->send_sge_max < 2)
        cap->send_sge_max = 2;
    if (init->xrcd != NULL)
        *cap = (struct qp_cap){0};
    if (init->srq != NULL || init->service == SERVICE_XRC) {
        cap->recv_wr_max = 0;
        cap->recv_sge_max = 0;
    } else if (cap->recv_wr_max > 0 && cap->recv_sge_max == 0) {
        cap->recv_sge_max = 1;
    }
    /* The space for SGEs holds inline bytes as well. */
    if (cap->inline_max < cap->send_sge_max * sizeof(struct sge))
        cap->inline_max = cap->send_sge_max * (uint32_t)sizeof(struct sge);
}

static struct qp *qp_make(struct engine *e, const struct qp_init *init)
{
    struct qp *qp = calloc(1, sizeof(*qp));

    if (qp == NULL)
        return NULL;
    qp->engine = e;
    qp->service = init->service;
    qp->pd = init->pd;
    qp->send_cq = init->send_cq;
    qp->recv_cq = init->service != SERVICE_XRC ? init->recv_cq : NULL;
    qp->srq = init->srq;
    qp->xrcd = init->xrcd;
    qp->cap = init->cap;
    qp->all_signaled = init->all_signaled;
    qp->context = init->context;
    qp->port_tag = init->port_tag;
    qp->state = QP_RESET;
    qp->pmtu_created = init->pmtu != 0 ? init->pmtu : PMTU_MAX;
    qp->attr.pmtu = qp->pmtu_created;
    qp->timer_index = QP_NO_TIMER;
    qp->deadline_ns = ENGINE_NEVER;
    qp->rate_wait_ns = ENGINE_NEVER;
    list_init(&qp->ready_link);
    list_init(&qp->touched_link);
    list_init(&qp->window_link);
    list_init(&qp->target_link);
    list_init(&qp->windows);
    event_source_init(&qp->events, EVENT_OWNER_QP);
    return qp;
}

static void use_parts(struct qp *qp)
{
    if (qp_is_target(qp)) {
        qp->xrcd->use_count++;
        list_push_tail(&qp->xrcd->targets, &qp->target_link);
        return;
    }
    qp->pd->use_count++;
    cq_get(qp->send_cq);
    if (qp->recv_cq != NULL)
        cq_get(qp->recv_cq);
    if (qp->srq != NULL)
        qp->srq->use_count++;
}

static void leave_parts(struct qp *qp)
{
    if (qp_is_target(qp)) {
        qp->xrcd->use_count--;
        list_remove(&qp->target_link);
        return;
    }
    qp->pd->use_count--;
    cq_put(qp->send_cq);
    if (qp->recv_cq != NULL)
        cq_put(qp->recv_cq);
    if (qp->srq != NULL)
        qp->srq->use_count--;
}

int qp_new(struct engine *e, struct qp_init *init, struct qp **out)
{
    struct qp *qp;
    int error = -ENOMEM;

    if (!parts_fit(init) || !cap_is_possible(init))
        return -EINVAL;
    round_cap(init);
    qp = qp_make(e, init);
    if (qp == NULL)
        return -ENOMEM;
    if (send_queue_init(&qp->requester.sq, &init->cap) != 0)
        goto free_qp;
    if (recv_queue_init(&qp->responder.rq, init->cap.recv_wr_max, init->cap.recv_sge_max) != 0)
        goto fini_send;
    if (reserve_timer(e) != 0 || take_number(e, qp) != 0)
        goto fini_receive;
    requester_reset(qp, psn_make(0));
    qp->src_port = roce_src_port_ud(qp->qpn);
    use_parts(qp);
    qp_touch(qp);
    *out = qp;
    return 0;

fini_receive:
    recv_queue_fini(&qp->responder.rq);
fini_send:
    send_queue_fini(&qp->requester.sq);
free_qp:
    free(qp);
    return error;
}

/* The queues are emptied without a completion. */
static void forget_work(struct qp *qp)
{
    struct send_queue *sq = &qp->requester.sq;
    struct recv_wqe *wqe;

    sq->head = sq->tail;
    sq->freed = sq->tail;
    sq->unpolled = 0;
    if (qp->responder.receive != NULL)
        qp_release_receive(qp, qp->responder.receive);
    qp->responder.receive = NULL;
    while ((wqe = recv_queue_take(&qp->responder.rq)) != NULL)
        recv_queue_release(&qp->responder.rq, wqe);
}

static void disconnect(struct qp *qp)
{
    requester_release(qp);
    if (qp->window != NULL)
        window_put(qp->window);
    qp->window = NULL;
    qp->cnp_due = false;
    qp->rate_wait_ns = ENGINE_NEVER;
    list_remove(&qp->ready_link);
    timer_set(qp, ENGINE_NEVER);
}

void qp_reset(struct qp *qp)
{
    farewell_say(qp);
    disconnect(qp);
    forget_work(qp);
    requester_reset(qp, psn_make(0));
    responder_reset(qp, psn_make(0));
    responder_set_reads(qp, 0); /* to nothing: cannot fail */
    if (qp->send_cq != NULL)
        cq_forget(qp->send_cq, qp);
    if (qp->recv_cq != NULL)
        cq_forget(qp->recv_cq, qp);
    event_forget(&qp->events);
    qp->comm_est_raised = false;
    qp->completion_lost = false;
    qp->rate_kbps = 0;
    qp->burst_len = 0;
    qp->rate_free_ns = 0;
}

size_t qp_rings_len(const struct qp *qp)
{
    return send_queue_len(&qp->requester.sq) + recv_queue_len(&qp->responder.rq);
}

void qp_set_rings(struct qp *qp, void *rings)
{
    size_t send_len = send_queue_len(&qp->requester.sq);

    assert(qp->requester.sq.head == qp->requester.sq.tail);
    send_queue_move(&qp->requester.sq, rings);
    recv_queue_move(&qp->responder.rq, (uint8_t *)rings + send_len);
}

int qp_free(struct qp *qp)
{
    struct engine *e = qp->engine;

    if (qp->multicast_count > 0)
        return -EBUSY;
    qp_reset(qp);
    mw_leave_qp(qp);
    leave_parts(qp);
    list_remove(&qp->touched_link);
    e->qps[qp->qpn & QPN_INDEX_MASK] = NULL;
    e->qp_count--;
    recv_queue_fini(&qp->responder.rq);
    send_queue_fini(&qp->requester.sq);
    free(qp);
    return 0;
}

static uint32_t read_part(const struct engine *e)
{
    uint32_t part = e->read_window.limit / 8 * 3;

    if (part < READ_PART_MIN)
        return READ_PART_MIN;
    return part < READ_PART_MAX ? part : READ_PART_MAX;
}

int qp_connect(struct qp *qp)
{
    const struct qp_attr *attr = &qp->attr;
    struct window *window =
        window_get(qp->engine, &attr->path.dst, (uint8_t)(attr->dest_qpn >> 16), attr->pmtu);

    if (window == NULL)
        return -ENOMEM;
    requester_release(qp); /* SQD: a new path, with nothing outstanding on the old one */
    if (qp->window != NULL)
        window_put(qp->window);
    qp->window = window;
    qp->src_port = roce_src_port(attr->path.flow_label, qp->qpn, attr->dest_qpn);
    qp->read_part_packets = read_part(qp->engine) / attr->pmtu;
    return 0;
}

void qp_drain(struct qp *qp)
{
    if (!qp->attr.sqd_notify || qp_is_draining(qp))
        return;
    qp->attr.sqd_notify = false;
    event_raise(qp->engine, &qp->events, ENGINE_EVENT_SQ_DRAINED);
}

void qp_flush_send(struct qp *qp)
{
    struct send_queue *sq = &qp->requester.sq;

    requester_release(qp);
    while (sq->head != sq->tail)
        requester_complete_head(qp, STATUS_WR_FLUSH_ERR);
    qp->requester.cursor = 0;
    qp->requester.retransmit_ns = ENGINE_NEVER;
    qp->requester.rnr_wait_ns = ENGINE_NEVER;
    qp->requester.room_wait_ns = ENGINE_NEVER;
    qp->rate_wait_ns = ENGINE_NEVER;
    timer_set(qp, ENGINE_NEVER);
}

static void flush_one_receive(struct qp *qp, struct recv_wqe *wqe)
{
    struct completion c = {
        .wr_id = wqe->wr_id,
        .status = STATUS_WR_FLUSH_ERR,
        .opcode = COMPLETION_RECV,
        .qpn = qp->qpn,
        .owner = qp_receive_owner(qp),
    };
    struct cq *cq = qp_receive_cq(qp);

    qp_release_receive(qp, wqe);
    cq_push(cq, &c, false);
}

void qp_flush_receive(struct qp *qp)
{
    struct recv_wqe *wqe;

    if (qp->responder.receive != NULL)
        flush_one_receive(qp, qp->responder.receive);
    qp->responder.receive = NULL;
    while ((wqe = recv_queue_take(&qp->responder.rq)) != NULL)
        flush_one_receive(qp, wqe);
}

void qp_enter_error(struct qp *qp)
{
    if (qp->state == QP_RESET || qp->state == QP_ERR)
        return;
    qp->state = QP_ERR;
    qp->cnp_due = false;
    qp->responder.ack_hold_ns = ENGINE_NEVER;
    qp_flush_send(qp);
    qp_flush_receive(qp);
    qp->responder.in_message = false;
    if (qp->srq != NULL)
        event_raise(qp->engine, &qp->events, ENGINE_EVENT_LAST_WQE);
    qp_make_ready(qp); /* a NAK may still have to leave */
    qp_touch(qp);
}

/* One that was in error already lost flushes: that it failed is known. */
void qp_fail_lost(struct qp *qp)
{
    if (!qp->completion_lost || qp->state == QP_RESET || qp->state == QP_ERR)
        return;
    event_raise(qp->engine, &qp->events, ENGINE_EVENT_QP_FATAL);
    qp_enter_error(qp);
}

struct recv_wqe *qp_take_receive(struct qp *qp)
{
    struct srq *srq = qp_srq(qp);

    return srq != NULL ? srq_take(srq) : recv_queue_take(&qp->responder.rq);
}

static struct recv_queue *receive_queue(struct qp *qp)
{
    struct srq *srq = qp_srq(qp);

    return srq != NULL ? &srq->queue : &qp->responder.rq;
}

void qp_release_receive(struct qp *qp, struct recv_wqe *wqe)
{
    recv_queue_release(receive_queue(qp), wqe);
}

void qp_untake_receive(struct qp *qp, struct recv_wqe *wqe)
{
    recv_queue_untake(receive_queue(qp), wqe);
}
