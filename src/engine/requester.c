/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The send side of a queue pair (IBA 9.7.3, 9.8.2): decides whether the packet
 * at the send cursor may leave, fills batches, goes back after loss, and
 * completes requests. request.c makes the packets; completer.c reads the
 * answers.
 */
#include "engine/requester_private.h"

#include <assert.h>

#include "engine/engine_private.h"

/* Nanoseconds of the local ACK time-out 2^t * 4.096 us (IBA 9.7.6.1). */
#define TIMEOUT_UNIT_NS 4096u
/* RNR retry count that means "for ever" (IBA 9.7.5.2). */
#define RNR_RETRY_FOREVER 7u
/* How soon UC and UD ask again for room: about what a receiver needs to empty its socket. */
#define ROOM_RETRY_NS 20000u
/* And RC, when no acknowledgement comes that would have it ask at once. */
#define ROOM_RETRY_RC_NS 100000u

const char *send_block_name(enum send_block block)
{
    static const char *const names[] = {
#define SEND_BLOCK_NAME(name, text) #name,
        SEND_BLOCKS(SEND_BLOCK_NAME)
#undef SEND_BLOCK_NAME
    };

    return names[block];
}

static bool next_is_started(const struct requester *r)
{
    return r->sq.next != r->sq.started;
}

struct psn requester_cursor_psn(const struct requester *r)
{
    if (!next_is_started(r))
        return r->psn_next;
    return psn_add(send_queue_at(&r->sq, r->sq.next)->psn_first, r->cursor);
}

static bool out_of_credits(const struct requester *r, const struct send_wqe *wqe)
{
    struct psn ssn = next_is_started(r) ? wqe->ssn : r->ssn_next;

    if (!r->credits_known || !wr_takes_receive(wqe->opcode))
        return false;
    /* With nothing outstanding one packet may probe for new credits (IBA 9.7.7.2). */
    return psn_after(ssn, r->ssn_limit) && requester_outstanding(r);
}

static enum send_block block_of_reliable(const struct qp *qp, const struct send_wqe *wqe)
{
    const struct requester *r = &qp->requester;

    if (r->rnr_wait_ns != ENGINE_NEVER)
        return SEND_BLOCK_RNR_WAIT;
    if ((wqe->flags & WR_FENCE) != 0 && r->reads_outstanding > 0)
        return SEND_BLOCK_FENCE;
    if (wr_is_local(wqe->opcode))
        return wqe->opcode == WR_LOCAL_INV && requester_outstanding(r) ? SEND_BLOCK_FENCE
                                                                       : SEND_BLOCK_NONE;
    if (psn_diff(requester_cursor_psn(r), r->psn_una) >=
        (int32_t)(PSN_WINDOW_MAX - qp->read_part_packets))
        return SEND_BLOCK_PSN_WINDOW;
    if (wr_wants_response(wqe->opcode) && r->reads_outstanding >= qp->attr.rd_atomic &&
        qp->attr.rd_atomic > 0)
        return SEND_BLOCK_READ_LIMIT;
    if (wqe->opcode == WR_READ)
        return window_has_room(&qp->engine->read_window) ? SEND_BLOCK_NONE : SEND_BLOCK_READ_WINDOW;
    if (out_of_credits(r, wqe))
        return SEND_BLOCK_CREDITS;
    if (!window_has_room(qp->window))
        return SEND_BLOCK_WINDOW;
    return wr_takes_receive(wqe->opcode) && responder_goes_first(qp) ? SEND_BLOCK_ACK
                                                                     : SEND_BLOCK_NONE;
}

enum send_block requester_block(const struct qp *qp)
{
    const struct requester *r = &qp->requester;
    const struct send_wqe *wqe;

    if (qp->state != QP_RTS && qp->state != QP_SQD)
        return SEND_BLOCK_STATE;
    if (r->sq.next == r->sq.tail)
        return SEND_BLOCK_EMPTY;
    if (qp->state == QP_SQD && !next_is_started(r))
        return SEND_BLOCK_DRAINING;
    wqe = send_queue_at(&r->sq, r->sq.next);
    if (wqe->status != STATUS_SUCCESS)
        return SEND_BLOCK_LOCAL_ERROR;
    if (rate_blocks(qp))
        return SEND_BLOCK_RATE;
    return qp_is_reliable(qp) ? block_of_reliable(qp, wqe) : SEND_BLOCK_NONE;
}

/* Bytes that may leave to where the request at the cursor goes: by its rate, and by what the
 * receiver can hold. */
static size_t room_of(const struct qp *qp, uint64_t now)
{
    const struct engine *e = qp->engine;
    const struct send_wqe *wqe = send_queue_at(&qp->requester.sq, qp->requester.sq.next);
    bool ud = qp->service == SERVICE_UD;
    const struct path *path = ud ? &wqe->ud.path : &qp->attr.path;
    uint32_t qpn = ud ? wqe->ud.remote_qpn : qp->attr.dest_qpn;
    size_t paced = rate_room(qp, path);
    size_t room;

    if (e->config.room == NULL)
        return paced;
    room = e->config.room(e->config.context, &path->dst, (uint8_t)(qpn >> 16), !qp_is_reliable(qp),
                          now);
    return room < paced ? room : paced;
}

/* Puts the QP where it is found again when what blocks it is gone. All else is woken by an event.
 */
static void park(struct qp *qp, enum send_block block, uint64_t now)
{
    struct engine *e = qp->engine;

    if (block == SEND_BLOCK_WINDOW) {
        qp_count(qp, window_blocked, 1);
        list_push_tail(&qp->window->waiting, &qp->window_link);
    } else if (block == SEND_BLOCK_READ_WINDOW) {
        qp_count(qp, window_blocked, 1);
        list_push_tail(&e->read_window.waiting, &qp->window_link);
    } else if (block == SEND_BLOCK_RATE) {
        rate_wait(qp);
    } else if (block == SEND_BLOCK_ROOM) {
        qp->requester.room_wait_ns = now + (qp_is_reliable(qp) ? ROOM_RETRY_RC_NS : ROOM_RETRY_NS);
        timer_update(qp);
    }
}

/* Waits for a window, and it is not its turn: its place in the line is kept. */
static bool must_wait(const struct qp *qp)
{
    if (list_empty(&qp->window_link))
        return false;
    return !window_admits(&qp->engine->read_window, &qp->window_link) &&
           !window_admits(qp->window, &qp->window_link);
}

uint32_t requester_transmit(struct qp *qp, uint64_t now, struct datagram_batch *out)
{
    struct request_batch b = {.out = out};
    uint32_t flight_before = qp->requester.flight.bytes;
    struct psn sent_before = qp->requester.psn_sent;
    enum send_block block;

    out->count = 0;
    if (must_wait(qp))
        return 0;
    list_remove(&qp->window_link);
    qp->requester.room_wait_ns = ENGINE_NEVER;
    while ((block = requester_block(qp)) == SEND_BLOCK_NONE) {
        if (out->count == 0)
            b.room = room_of(qp, now);
        if (!next_is_started(&qp->requester) && !request_start(qp))
            continue;
        if (!request_append(qp, &b)) {
            if (out->count == 0 && requester_block(qp) == SEND_BLOCK_NONE)
                block = SEND_BLOCK_ROOM;
            break;
        }
    }
    rate_charge(qp, out);
    if (out->count == 0 && block == SEND_BLOCK_ACK) {
        responder_ride(qp, now, out, 0, false);
    } else if (out->count == 0) {
        park(qp, block, now);
    } else if (qp_is_reliable(qp)) {
        b.last[BTH_ACK_REQ_OFFSET] |= BTH_ACK_REQ;
        if (qp->requester.flight.bytes > flight_before)
            request_charge_batch(qp, &b, qp->requester.flight.bytes - flight_before);
        if (psn_after(qp->requester.psn_sent, sent_before))
            responder_ride(qp, now, out, b.total, b.closed);
        if (qp->requester.retransmit_ns == ENGINE_NEVER)
            requester_restart_timer(qp, now);
    }
    if (qp->window != NULL)
        window_wake(qp->window);
    window_wake(&qp->engine->read_window);
    return out->count;
}

void requester_restart_timer(struct qp *qp, uint64_t now)
{
    struct requester *r = &qp->requester;
    uint64_t timeout = (uint64_t)TIMEOUT_UNIT_NS << qp->attr.timeout;

    if (timeout < qp->engine->config.timeout_floor_ns)
        timeout = qp->engine->config.timeout_floor_ns;
    r->retransmit_ns =
        qp->attr.timeout == 0 || !requester_outstanding(r) ? ENGINE_NEVER : now + timeout;
    timer_update(qp);
}

void requester_release(struct qp *qp)
{
    struct requester *r = &qp->requester;

    r->reads_outstanding = 0;
    list_remove(&qp->window_link);
    flight_end(&r->flight, qp->window);
    flight_end(&r->read_flight, &qp->engine->read_window);
}

void requester_reset(struct qp *qp, struct psn sq_psn)
{
    struct requester *r = &qp->requester;
    struct send_queue sq = r->sq;

    requester_release(qp);
    sq.next = sq.head;
    sq.started = sq.head;
    *r = (struct requester){
        .sq = sq,
        .psn_una = sq_psn,
        .psn_next = sq_psn,
        .psn_sent = sq_psn,
        .ssn_next = psn_make(1),
        .retries_left = qp->attr.retry_count,
        .rnr_retries_left = qp->attr.rnr_retry,
        .retransmit_ns = ENGINE_NEVER,
        .rnr_wait_ns = ENGINE_NEVER,
        .room_wait_ns = ENGINE_NEVER,
    };
}

void requester_next(struct requester *r)
{
    do
        r->sq.next++;
    while (next_is_started(r) && wr_is_local(send_queue_at(&r->sq, r->sq.next)->opcode));
    r->cursor = 0;
}

void requester_go_back(struct qp *qp)
{
    struct requester *r = &qp->requester;

    requester_release(qp);
    r->sq.next = r->sq.head;
    r->cursor = r->head_acked;
    r->retransmit_ns = ENGINE_NEVER;
    qp_make_ready(qp);
}

void requester_retry(struct qp *qp, uint64_t now)
{
    struct requester *r = &qp->requester;

    if (r->retries_left == 0) {
        qp_count(qp, retry_exceeded, 1);
        requester_fail_head(qp, STATUS_RETRY_EXC_ERR);
        return;
    }
    r->retries_left--;
    window_shrink(qp->window, now);
    requester_go_back(qp);
}

void requester_expire(struct qp *qp, uint64_t now)
{
    struct requester *r = &qp->requester;

    if (r->room_wait_ns <= now) {
        r->room_wait_ns = ENGINE_NEVER;
        qp_make_ready(qp);
    }
    if (qp->rate_wait_ns <= now) {
        qp->rate_wait_ns = ENGINE_NEVER;
        qp_make_ready(qp);
    }
    if (r->rnr_wait_ns <= now) {
        r->rnr_wait_ns = ENGINE_NEVER;
        qp_make_ready(qp);
    }
    if (r->retransmit_ns <= now) {
        qp_count(qp, local_ack_timeout_err, 1);
        r->retransmit_ns = ENGINE_NEVER;
        r->nak_taken = false;
        requester_retry(qp, now);
    }
}

static enum completion_opcode completion_opcode_of(enum wr_opcode opcode)
{
    static const enum completion_opcode opcodes[] = {
        [WR_WRITE] = COMPLETION_WRITE,         [WR_WRITE_IMM] = COMPLETION_WRITE,
        [WR_SEND] = COMPLETION_SEND,           [WR_SEND_IMM] = COMPLETION_SEND,
        [WR_READ] = COMPLETION_READ,           [WR_CMP_SWAP] = COMPLETION_CMP_SWAP,
        [WR_FETCH_ADD] = COMPLETION_FETCH_ADD, [WR_SEND_INV] = COMPLETION_SEND,
        [WR_FLUSH] = COMPLETION_FLUSH,         [WR_ATOMIC_WRITE] = COMPLETION_ATOMIC_WRITE,
        [WR_BIND_MW] = COMPLETION_BIND_MW,     [WR_LOCAL_INV] = COMPLETION_LOCAL_INV,
    };

    return opcodes[opcode];
}

static void tell(struct qp *qp, const struct completion *c)
{
    qp->requester.sq.unpolled++;
    cq_push(qp->send_cq, c, false);
}

static void complete_one(struct qp *qp, enum completion_status status)
{
    struct requester *r = &qp->requester;
    const struct send_wqe *wqe = send_queue_at(&r->sq, r->sq.head);
    struct completion c = {
        .wr_id = wqe->wr_id,
        .status = status,
        .opcode = completion_opcode_of(wqe->opcode),
        .byte_len = wqe->length,
        .qpn = qp->qpn,
        .owner = qp,
        .sender = qp,
    };

    assert(r->sq.head != r->sq.tail);
    r->sq.head++;
    r->head_acked = 0;
    if (counter_before(r->sq.next, r->sq.head)) {
        r->sq.next = r->sq.head;
        r->cursor = 0;
    }
    if (counter_before(r->sq.started, r->sq.head))
        r->sq.started = r->sq.head;
    c.sq_end = r->sq.head;
    if (status != STATUS_SUCCESS || (wqe->flags & WR_SIGNALED) != 0)
        tell(qp, &c);
    else if (r->sq.unpolled == 0)
        r->sq.freed = r->sq.head; /* no completion stands before it */
}

void requester_complete_head(struct qp *qp, enum completion_status status)
{
    const struct send_queue *sq = &qp->requester.sq;

    complete_one(qp, status);
    while (status == STATUS_SUCCESS && sq->head != sq->started &&
           wr_is_local(send_queue_at(sq, sq->head)->opcode))
        complete_one(qp, STATUS_SUCCESS);
}

void requester_fail_head(struct qp *qp, enum completion_status status)
{
    requester_release(qp);
    requester_complete_head(qp, status);
    if (qp_is_reliable(qp)) {
        qp_enter_error(qp);
        return;
    }
    qp->state = QP_SQE; /* IBA 10.3.1: UC and UD go on receiving */
    qp_flush_send(qp);
}

void requester_settle(struct qp *qp)
{
    struct requester *r = &qp->requester;
    enum completion_status status;

    if (r->sq.head != r->sq.tail && r->sq.head == r->sq.next) {
        status = send_queue_at(&r->sq, r->sq.head)->status;
        if (status != STATUS_SUCCESS) {
            requester_fail_head(qp, status);
            return;
        }
    }
    if (qp->state == QP_SQD && r->sq.head == r->sq.started)
        qp_drain(qp);
}
