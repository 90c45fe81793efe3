/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The receive side of RC and UC (IBA 9.7.4, 9.7.5, 9.8.2): judges each request
 * in the specification's order, changes nothing while judging, then has it
 * carried out (execute.c) and answers. Answers leave in response.c.
 */
#include "engine/responder_private.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "engine/engine_private.h"
#include "engine/farewell_private.h"
#include "engine/limits.h"
#include "engine/memory.h"
#include "engine/xrc_private.h"
#include "wire/aeth.h"

/* A request with what judging needs of it. */
struct judged {
    const struct packet *packet;
    enum operation_kind kind;
    enum position position;
    struct srq *srq; /* that serves the QP; XRC: the named one, NULL if it may not be named */
    struct pd *pd;   /* where its memory is; NULL with an SRQ that may not be named */
};

/* IBA 9.7.4.1: expected, duplicate, or ahead. UC takes any PSN that starts a message (9.8.2).
 */
static enum verdict check_psn(const struct qp *qp, const struct judged *rq)
{
    int32_t distance = psn_diff(rq->packet->h.bth.psn, qp->responder.epsn);

    if (distance == 0)
        return VERDICT_ACCEPT;
    if (qp->service == SERVICE_UC)
        return position_starts(rq->position) ? VERDICT_ACCEPT : VERDICT_PSN_AHEAD;
    return distance < 0 ? VERDICT_DUPLICATE : VERDICT_PSN_AHEAD;
}

/* IBA 9.7.4.1: a message in progress is continued by its own kind alone, none in progress needs a
 * start. */
static enum verdict check_sequence(const struct qp *qp, const struct judged *rq)
{
    const struct responder *r = &qp->responder;

    if (qp->service == SERVICE_UC && position_starts(rq->position))
        return VERDICT_ACCEPT; /* what was in progress is dropped (IBA 9.8.2) */
    if (r->in_message == position_starts(rq->position))
        return VERDICT_BAD_SEQUENCE;
    if (r->in_message && rq->kind != r->kind)
        return VERDICT_BAD_SEQUENCE;
    return VERDICT_ACCEPT;
}

/* XRC: each request names an SRQ of the QP's domain, a message the same from end to end (annex A14,
 * XRCETH). */
static enum verdict check_srq(const struct qp *qp, const struct judged *rq)
{
    if (!qp_is_target(qp))
        return VERDICT_ACCEPT;
    if (rq->srq == NULL || (qp->responder.in_message && rq->srq != qp->responder.srq))
        return VERDICT_WRONG_SRQ;
    return VERDICT_ACCEPT;
}

/* IBA 9.7.4.1: whether this QP does such requests at all. */
static enum verdict check_operation(const struct qp *qp, const struct judged *rq)
{
    uint32_t needed = 0;

    switch (rq->kind) {
    case KIND_SEND:
        return VERDICT_ACCEPT;
    case KIND_WRITE:
    case KIND_ATOMIC_WRITE:
        needed = ACCESS_REMOTE_WRITE;
        break;
    case KIND_READ:
        needed = ACCESS_REMOTE_READ;
        break;
    case KIND_CMP_SWAP:
    case KIND_FETCH_ADD:
        needed = ACCESS_REMOTE_ATOMIC;
        break;
    case KIND_FLUSH:
        needed = flush_rights(&rq->packet->h);
        break;
    case KIND_RESYNC:
    case KIND_READ_RESPONSE:
    case KIND_ACK:
    case KIND_ATOMIC_ACK:
    case KIND_CNP:
        return VERDICT_UNSUPPORTED;
    }
    return (qp->attr.access & needed) == needed ? VERDICT_ACCEPT : VERDICT_NOT_ENABLED;
}

static enum verdict check_write_length(const struct responder *r, const struct judged *rq,
                                       uint32_t pmtu)
{
    const struct packet *p = rq->packet;
    uint32_t total = p->h.reth.dma_len;

    switch (rq->position) {
    case POSITION_FIRST:
        return total > pmtu && total <= MESSAGE_LEN_MAX ? VERDICT_ACCEPT : VERDICT_BAD_LENGTH;
    case POSITION_MIDDLE:
        return p->payload_len < r->write_left ? VERDICT_ACCEPT : VERDICT_BAD_LENGTH;
    case POSITION_LAST:
        return p->payload_len == r->write_left ? VERDICT_ACCEPT : VERDICT_BAD_LENGTH;
    case POSITION_ONLY:
        return p->payload_len == total ? VERDICT_ACCEPT : VERDICT_BAD_LENGTH;
    }
    return VERDICT_BAD_LENGTH;
}

/* IBA 9.7.4.1.6: payload against opcode, PMTU and message; alignment of atomics (9.4.5). */
static enum verdict check_length(const struct qp *qp, const struct judged *rq)
{
    const struct packet *p = rq->packet;
    uint32_t pmtu = qp->attr.pmtu;

    if (p->payload_len > pmtu)
        return VERDICT_BAD_LENGTH;
    if (p->operation->payload == PAYLOAD_FULL && p->payload_len != pmtu)
        return VERDICT_BAD_LENGTH;
    if (p->operation->payload == PAYLOAD_TAIL && p->payload_len == 0)
        return VERDICT_BAD_LENGTH;
    if (rq->kind == KIND_WRITE)
        return check_write_length(&qp->responder, rq, pmtu);
    if (rq->kind == KIND_READ && p->h.reth.dma_len > MESSAGE_LEN_MAX)
        return VERDICT_BAD_LENGTH;
    if ((rq->kind == KIND_CMP_SWAP || rq->kind == KIND_FETCH_ADD) && p->h.atomic.va % 8 != 0)
        return VERDICT_BAD_LENGTH;
    if (rq->kind == KIND_ATOMIC_WRITE &&
        (p->payload_len != 8 || p->h.reth.dma_len != 8 || p->h.reth.va % 8 != 0))
        return VERDICT_BAD_LENGTH;
    if (rq->kind == KIND_FLUSH &&
        (p->h.feth.selectivity > FLUSH_REGION || flush_rights(&p->h) == 0))
        return VERDICT_BAD_LENGTH;
    return VERDICT_ACCEPT;
}

/* IBA 9.7.4.1: a receive request, or room to remember a READ or atomic. */
static enum verdict check_resources(const struct qp *qp, const struct judged *rq)
{
    const struct responder *r = &qp->responder;
    const struct recv_queue *queue = rq->srq != NULL ? &rq->srq->queue : &r->rq;

    if (kind_is_remembered(rq->kind) && r->read_tail - r->read_answered >= qp->attr.dest_rd_atomic)
        return VERDICT_TOO_MANY_READS;
    if (rq->packet->operation->receive == RECEIVE_TAKES && queue->posted_count == 0)
        return VERDICT_NO_RECEIVE;
    return VERDICT_ACCEPT;
}

static enum verdict access_verdict(struct qp *qp, const struct mr_query *q)
{
    uint8_t *memory;

    if (q->len == 0)
        return VERDICT_ACCEPT; /* no key is looked at (IBA 9.7.4.1.5) */
    return mr_resolve(qp->engine, q, &memory) == MR_OK ? VERDICT_ACCEPT : VERDICT_BAD_ACCESS;
}

/* IBA 9.7.4.1.5: key, right and range of the whole message, before its first byte. */
static enum verdict check_access(struct qp *qp, const struct judged *rq)
{
    const struct headers *h = &rq->packet->h;
    struct mr_query q = {
        .pd = rq->pd, .qp = qp, .va = h->reth.va, .len = h->reth.dma_len, .key = h->reth.rkey};

    switch (rq->kind) {
    case KIND_WRITE:
        if (!position_starts(rq->position))
            return VERDICT_ACCEPT;
        q.access = ACCESS_REMOTE_WRITE;
        return access_verdict(qp, &q);
    case KIND_READ:
        q.access = ACCESS_REMOTE_READ;
        return access_verdict(qp, &q);
    case KIND_CMP_SWAP:
    case KIND_FETCH_ADD:
        q = (struct mr_query){.pd = rq->pd,
                              .qp = qp,
                              .va = h->atomic.va,
                              .len = 8,
                              .key = h->atomic.rkey,
                              .access = ACCESS_REMOTE_ATOMIC};
        return access_verdict(qp, &q);
    case KIND_SEND:
        if ((rq->packet->operation->headers & HEADER_IETH) == 0)
            return VERDICT_ACCEPT;
        return mw_may_invalidate(qp, rq->pd, h->ieth) == MR_OK ? VERDICT_ACCEPT
                                                               : VERDICT_BAD_INVALIDATE;
    case KIND_ATOMIC_WRITE:
        q.access = ACCESS_REMOTE_WRITE;
        return access_verdict(qp, &q);
    case KIND_FLUSH:
        q.access = flush_rights(h);
        if (h->feth.selectivity != FLUSH_REGION)
            return access_verdict(qp, &q);
        return mr_has_right(qp->engine, &q) == MR_OK ? VERDICT_ACCEPT : VERDICT_BAD_ACCESS;
    case KIND_RESYNC:
    case KIND_READ_RESPONSE:
    case KIND_ACK:
    case KIND_ATOMIC_ACK:
    case KIND_CNP:
        break;
    }
    return VERDICT_ACCEPT;
}

static enum verdict judge(struct qp *qp, const struct judged *rq)
{
    enum verdict v = check_psn(qp, rq);

    if (v == VERDICT_ACCEPT)
        v = check_sequence(qp, rq);
    if (v == VERDICT_ACCEPT)
        v = check_srq(qp, rq);
    if (v == VERDICT_ACCEPT)
        v = check_operation(qp, rq);
    if (v == VERDICT_ACCEPT)
        v = check_length(qp, rq);
    if (v == VERDICT_ACCEPT)
        v = check_resources(qp, rq);
    if (v == VERDICT_ACCEPT)
        v = check_access(qp, rq);
    return v;
}

struct consequence {
    const char *name;
    enum answer answer;
    enum qp_effect effect;
    enum completion_status receive_status;
    enum engine_event_type event;
    size_t counter; /* offset in struct qp_counters */
};

#define ENGINE_EVENT_NONE ENGINE_EVENT_COMPLETION /* a QP never raises that one */

static const struct consequence consequences[] = {
#define VERDICT_ROW(verdict, on_rc, qp, status, raises, count)                                     \
    [VERDICT_##verdict] = {.name = #verdict,                                                       \
                           .answer = on_rc,                                                        \
                           .effect = QP_EFFECT_##qp,                                               \
                           .receive_status = STATUS_##status,                                      \
                           .event = ENGINE_EVENT_##raises,                                         \
                           .counter = offsetof(struct qp_counters, count)},
    VERDICTS(VERDICT_ROW)
#undef VERDICT_ROW
};

const char *verdict_name(enum verdict verdict)
{
    return consequences[verdict].name;
}

static void count_at(void *counters, size_t offset)
{
    ++*(uint64_t *)(void *)((char *)counters + offset);
}

/* Offset in struct qp_counters of what counts messages of the kind; 0: they are not counted. */
static size_t kind_counter(enum operation_kind kind)
{
    switch (kind) {
    case KIND_SEND:
        return offsetof(struct qp_counters, rx_send_requests);
    case KIND_WRITE:
    case KIND_ATOMIC_WRITE:
        return offsetof(struct qp_counters, rx_write_requests);
    case KIND_READ:
        return offsetof(struct qp_counters, rx_read_requests);
    case KIND_CMP_SWAP:
    case KIND_FETCH_ADD:
        return offsetof(struct qp_counters, rx_atomic_requests);
    case KIND_READ_RESPONSE:
    case KIND_ACK:
    case KIND_ATOMIC_ACK:
    case KIND_FLUSH:
    case KIND_RESYNC:
    case KIND_CNP:
        break;
    }
    return 0;
}

static void count(struct qp *qp, enum verdict v, const struct judged *rq)
{
    size_t of_kind = kind_counter(rq->kind);

    static_assert(offsetof(struct engine_counters, malformed) == sizeof(struct qp_counters),
                  "what an engine counts begins as what a queue pair counts");
    count_at(&qp->engine->counters, consequences[v].counter);
    count_at(&qp->counters, consequences[v].counter);
    if (v == VERDICT_ACCEPT && of_kind != 0 && position_starts(rq->position)) {
        count_at(&qp->engine->counters, of_kind);
        count_at(&qp->counters, of_kind);
    }
}

/* A NAK goes out once; then silence until the expected packet arrives (IBA 9.7.5). */
static void nak(struct responder *r, uint8_t syndrome)
{
    if (r->nak_sent)
        return;
    r->nak_sent = true;
    r->ack = ACK_NAK;
    r->nak_syndrome = syndrome;
    r->nak_psn = r->epsn;
}

/* Of a fault of class J the peer hears nothing, and of what it asked before that for the last time.
 */
static void answer_last(struct qp *qp)
{
    struct responder *r = &qp->responder;

    r->answers_last = r->read_next != r->read_tail;
    if (!r->answers_last) {
        farewell_say(qp);
        return;
    }
    r->ack = responder_newest_is_ackable(r) ? ACK_ACK : ACK_NONE;
    r->replies = 0; /* the application replies no more */
}

static void answer(struct qp *qp, const struct packet *p, enum verdict v)
{
    struct responder *r = &qp->responder;

    switch (consequences[v].answer) {
    case ANSWER_NONE:
        answer_last(qp);
        break;
    case ANSWER_ACK:
        r->nak_sent = false;
        if (kind_is_remembered(p->operation->kind))
            r->ack = ACK_NONE; /* its own response acknowledges all before it */
        else if (r->ack != ACK_ACK && (p->h.bth.ack_req || r->ack == ACK_NAK))
            responder_ack_due(qp, qp->engine->now);
        break;
    case ANSWER_DUPLICATE:
        execute_duplicate(qp, p);
        break;
    case ANSWER_NAK_SEQUENCE:
        nak(r, aeth_make(AETH_NAK, NAK_PSN_SEQUENCE));
        break;
    case ANSWER_RNR_NAK:
        r->nak_sent = false; /* each try is answered */
        nak(r, aeth_make(AETH_RNR_NAK, qp->attr.min_rnr_timer));
        break;
    case ANSWER_NAK_INVALID:
        r->nak_sent = false;
        nak(r, aeth_make(AETH_NAK, NAK_INVALID_REQUEST));
        break;
    case ANSWER_NAK_ACCESS:
        r->nak_sent = false;
        nak(r, aeth_make(AETH_NAK, NAK_REMOTE_ACCESS));
        break;
    case ANSWER_NAK_OPERATIONAL:
        r->nak_sent = false;
        nak(r, aeth_make(AETH_NAK, NAK_REMOTE_OPERATIONAL));
        break;
    }
    qp_make_ready(qp);
}

void responder_fail(struct qp *qp, const struct packet *p, enum verdict v)
{
    struct responder *r = &qp->responder;
    struct receive_end end = {.status = consequences[v].receive_status,
                              .src_qpn = qp->attr.dest_qpn};

    if (r->receive == NULL && end.status != STATUS_WR_FLUSH_ERR)
        r->receive = qp_take_receive(qp);
    if (r->receive != NULL) {
        receive_complete(qp, r->receive, p, &end);
        r->receive = NULL;
    }
    if (consequences[v].event != ENGINE_EVENT_NONE)
        event_raise(qp->engine, &qp->events, consequences[v].event);
    qp_enter_error(qp);
}

/* UC: the message is dropped whole, its receive request is used again (IBA 9.8.2). */
static void drop_message(struct qp *qp)
{
    struct responder *r = &qp->responder;

    if (r->receive != NULL)
        qp_untake_receive(qp, r->receive);
    r->receive = NULL;
    r->in_message = false;
}

static void receive_uc(struct qp *qp, const struct judged *rq)
{
    struct responder *r = &qp->responder;
    const struct packet *p = rq->packet;
    bool begins_anew = position_starts(rq->position) && r->in_message;
    enum verdict v;

    if (begins_anew) {
        qp_count(qp, message_broken, 1);
        drop_message(qp);
    }
    v = judge(qp, rq);
    if (v == VERDICT_ACCEPT)
        v = execute(qp, p);
    r->epsn = psn_add(p->h.bth.psn, 1);
    count(qp, v, rq);
    if (v == VERDICT_ACCEPT)
        return;
    if (v == VERDICT_RECEIVE_BAD) { /* a local fault, not the peer's (IBA 9.9.3) */
        responder_fail(qp, p, v);
        return;
    }
    if (r->in_message)
        qp_count(qp, message_broken, 1);
    drop_message(qp);
}

static void receive_reliable(struct qp *qp, const struct judged *rq, uint64_t now)
{
    struct responder *r = &qp->responder;
    const struct packet *p = rq->packet;
    uint32_t taken = 1;
    enum verdict v = judge(qp, rq);

    if (v == VERDICT_ACCEPT) {
        r->srq = rq->srq;
        v = execute(qp, p);
    }
    count(qp, v, rq);
    answer(qp, p, v);
    if (v == VERDICT_ACCEPT) {
        if (rq->kind == KIND_READ && p->h.reth.dma_len > 0)
            taken = (uint32_t)(((uint64_t)p->h.reth.dma_len + qp->attr.pmtu - 1) / qp->attr.pmtu);
        if (!kind_is_remembered(rq->kind))
            r->ackable = r->epsn;
        r->accepted_ns = now;
        r->epsn = psn_add(r->epsn, taken);
    }
    if (consequences[v].effect == QP_EFFECT_FAILS)
        responder_fail(qp, p, v);
}

void responder_receive(struct qp *qp, const struct packet *p, const struct datagram *d,
                       uint64_t now)
{
    struct judged rq = {.packet = p,
                        .kind = p->operation->kind,
                        .position = p->operation->position,
                        .srq = qp->srq,
                        .pd = qp->pd};

    if (qp_is_target(qp)) {
        rq.srq = xrc_find_srq(qp->xrcd, p->h.xrceth.srqn);
        rq.pd = rq.srq != NULL ? rq.srq->pd : NULL;
    }
    if (qp->service == SERVICE_UD) {
        datagram_receive(qp, p, d);
        return;
    }
    if (qp->state == QP_RTR && !qp->comm_est_raised) {
        qp->comm_est_raised = true;
        event_raise(qp->engine, &qp->events, ENGINE_EVENT_COMM_EST);
    }
    if (qp->service == SERVICE_UC)
        receive_uc(qp, &rq);
    else
        receive_reliable(qp, &rq, now);
}

void responder_reset(struct qp *qp, struct psn rq_psn)
{
    struct responder *r = &qp->responder;

    assert(r->receive == NULL);
    *r = (struct responder){
        .rq = r->rq,
        .epsn = rq_psn,
        .ackable = psn_sub(rq_psn, 1),
        .accepted_ns = ENGINE_NEVER,
        .replied = true,
        .ack_hold_ns = ENGINE_NEVER,
        .reads = r->reads,
        .reads_size = r->reads_size,
    };
}

/* Grows in place of what is remembered; shrinks only to nothing, since answers may still be due. */
int responder_set_reads(struct qp *qp, uint32_t count)
{
    struct responder *r = &qp->responder;
    struct read_resource *reads;
    uint32_t size = 1;

    if (count == 0) {
        free(r->reads);
        r->reads = NULL;
        r->reads_size = 0;
        return 0;
    }
    while (size < count)
        size *= 2;
    if (size <= r->reads_size)
        return 0;
    reads = calloc(size, sizeof(*reads));
    if (reads == NULL)
        return -ENOMEM;
    for (uint32_t age = 1; age <= r->reads_size; age++)
        reads[(r->read_tail - age) & (size - 1)] = *read_resource_at(r, r->read_tail - age);
    free(r->reads);
    r->reads = reads;
    r->reads_size = size;
    return 0;
}
