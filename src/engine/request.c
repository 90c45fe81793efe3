/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes request packets: gives a request its PSNs, chooses the opcode of the
 * packet at the send cursor and writes it behind the others of a batch
 * (IBA 9.3.3, 9.7.3.2). A packet's payload is copied once, here.
 */
#include <string.h>

#include "engine/engine_private.h"
#include "engine/limits.h"
#include "engine/memory.h"
#include "engine/requester_private.h"

/*
 * A receiver's default buffer holds about 200 KB; a quarter of the first
 * window is the longest run without a word from it.
 */
#define ACK_REQ_INTERVAL 16384u
/* BTH, AETH and ICRC of an answer. */
#define ANSWER_HEADERS 20u
#define QKEY_OF_QP 0x80000000u

/* Opcodes of a request by position. Kinds of one packet have ONLY alone. */
static const uint8_t operations[][4] = {
    /* clang-format off */
    /*               FIRST            MIDDLE           LAST              ONLY              */
    [WR_WRITE]     = {OP_WRITE_FIRST, OP_WRITE_MIDDLE, OP_WRITE_LAST,     OP_WRITE_ONLY},
    [WR_WRITE_IMM] = {OP_WRITE_FIRST, OP_WRITE_MIDDLE, OP_WRITE_LAST_IMM, OP_WRITE_ONLY_IMM},
    [WR_SEND]      = {OP_SEND_FIRST,  OP_SEND_MIDDLE,  OP_SEND_LAST,      OP_SEND_ONLY},
    [WR_SEND_IMM]  = {OP_SEND_FIRST,  OP_SEND_MIDDLE,  OP_SEND_LAST_IMM,  OP_SEND_ONLY_IMM},
    [WR_SEND_INV]  = {OP_SEND_FIRST,  OP_SEND_MIDDLE,  OP_SEND_LAST_INV,  OP_SEND_ONLY_INV},
    [WR_READ]      = {0,              0,               0,                 OP_READ_REQUEST},
    [WR_CMP_SWAP]  = {0,              0,               0,                 OP_CMP_SWAP},
    [WR_FETCH_ADD] = {0,              0,               0,                 OP_FETCH_ADD},
    [WR_FLUSH]     = {0,              0,               0,                 OP_FLUSH},
    [WR_ATOMIC_WRITE] = {0,           0,               0,                 OP_ATOMIC_WRITE},
    /* clang-format on */
};

/* A local error that can be seen before the first packet leaves (IBA 10.8, 11.6.2). */
static enum completion_status judge_local(struct qp *qp, const struct send_wqe *wqe)
{
    struct sge_list sges = wqe_sges(qp, qp->requester.sq.next);
    bool fetches = wr_fetches(wqe->opcode);
    uint32_t length_max = qp->service == SERVICE_UD ? qp->attr.pmtu : MESSAGE_LEN_MAX;

    if (wr_wants_response(wqe->opcode) && qp->attr.rd_atomic == 0)
        return STATUS_LOC_QP_OP_ERR;
    if (wqe->length > length_max)
        return STATUS_LOC_LEN_ERR;
    if ((wr_is_atomic(wqe->opcode) || wqe->opcode == WR_ATOMIC_WRITE) &&
        wqe->length != sizeof(uint64_t))
        return STATUS_LOC_LEN_ERR;
    if ((wqe->flags & WR_INLINE) != 0)
        return STATUS_SUCCESS;
    return sge_check(qp->engine, &sges, fetches ? ACCESS_LOCAL_WRITE : 0);
}

static uint32_t packets_of(uint32_t length, uint32_t pmtu)
{
    return length == 0 ? 1 : (uint32_t)(((uint64_t)length + pmtu - 1) / pmtu);
}

/* IBA 10.6.7.2, 10.6.5: what fails here is what verbs call a memory management operation error. */
static enum completion_status carry_out_local(struct qp *qp, const struct send_wqe *wqe)
{
    bool good = wqe->opcode == WR_BIND_MW ? mw_bind(qp, &wqe->bind) == 0
                                          : mw_invalidate(qp->engine, qp->pd, wqe->imm) == MR_OK;

    return good ? STATUS_SUCCESS : STATUS_MW_BIND_ERR;
}

/* It takes no PSN, so it is done when all before it are. */
static void start_local(struct qp *qp, struct send_wqe *wqe)
{
    struct requester *r = &qp->requester;

    wqe->status = carry_out_local(qp, wqe);
    if (wqe->status == STATUS_SUCCESS) {
        wqe->psn_first = r->psn_next;
        wqe->packet_count = 0;
        r->sq.started++;
        r->sq.next++;
        if (r->sq.next == r->sq.head + 1)
            requester_complete_head(qp, STATUS_SUCCESS);
    }
    requester_settle(qp);
}

bool request_start(struct qp *qp)
{
    struct requester *r = &qp->requester;
    struct send_wqe *wqe = send_queue_at(&r->sq, r->sq.next);
    uint32_t messages = 1;

    if (wr_is_local(wqe->opcode)) {
        start_local(qp, wqe);
        return false;
    }
    wqe->status = judge_local(qp, wqe);
    if (wqe->status != STATUS_SUCCESS) {
        requester_settle(qp);
        return false;
    }
    wqe->psn_first = r->psn_next;
    wqe->packet_count = wr_is_atomic(wqe->opcode) ? 1 : packets_of(wqe->length, qp->attr.pmtu);
    if (wqe->opcode == WR_READ)
        messages = (wqe->packet_count + qp->read_part_packets - 1) / qp->read_part_packets;
    r->psn_next = psn_add(r->psn_next, wqe->packet_count);
    wqe->ssn = psn_add(r->ssn_next, messages - 1);
    r->ssn_next = psn_add(r->ssn_next, messages);
    r->sq.started++;
    return true;
}

/* The packet at the cursor, before it is known whether it fits. */
struct request {
    struct send_wqe *wqe;
    enum position position;
    uint32_t packet_count; /* PSNs that it takes */
    uint64_t offset;       /* of its first byte in the message */
    uint32_t byte_count;   /* payload, or what the READ request asks for */
    uint32_t payload_len;
};

static enum position position_of(uint32_t packet, uint32_t count)
{
    if (count == 1)
        return POSITION_ONLY;
    if (packet == 0)
        return POSITION_FIRST;
    return packet == count - 1 ? POSITION_LAST : POSITION_MIDDLE;
}

static struct request request_at_cursor(const struct qp *qp)
{
    const struct requester *r = &qp->requester;
    struct send_wqe *wqe = send_queue_at(&r->sq, r->sq.next);
    struct request rq = {
        .wqe = wqe,
        .position = position_of(r->cursor, wqe->packet_count),
        .packet_count = 1,
        .offset = (uint64_t)r->cursor * qp->attr.pmtu,
    };

    if (wqe->opcode == WR_READ) {
        /* Parts begin at fixed places, so that a repeat ends where the first request ended. */
        uint32_t part_end = (r->cursor / qp->read_part_packets + 1) * qp->read_part_packets;

        if (part_end > wqe->packet_count)
            part_end = wqe->packet_count;
        rq.packet_count = part_end - r->cursor;
    }
    if (wr_wants_response(wqe->opcode))
        rq.position = POSITION_ONLY;
    rq.byte_count = wqe_bytes(wqe, qp->attr.pmtu, r->cursor, r->cursor + rq.packet_count);
    rq.payload_len = wr_carries_data(wqe->opcode) ? rq.byte_count : 0;
    return rq;
}

static void fill_extended(const struct qp *qp, const struct request *rq, struct headers *h)
{
    const struct send_wqe *wqe = rq->wqe;

    h->imm = wqe->imm;
    h->ieth = wqe->imm;
    if (qp->service == SERVICE_UD) {
        h->deth.src_qpn = qp->qpn;
        h->deth.qkey =
            (wqe->ud.remote_qkey & QKEY_OF_QP) != 0 ? qp->attr.qkey : wqe->ud.remote_qkey;
        return;
    }
    h->xrceth.srqn = wqe->rc.srqn;
    h->reth.va = wqe->rc.remote_addr;
    h->reth.rkey = wqe->rc.rkey;
    h->reth.dma_len = wqe->length;
    if (wqe->opcode == WR_READ) {
        h->reth.va += rq->offset;
        h->reth.dma_len = rq->byte_count;
    }
    if (wqe->opcode == WR_FLUSH) {
        h->reth.dma_len = wqe->rc.flush_len;
        h->feth.placement_type = wqe->rc.flush_placement;
        h->feth.selectivity = wqe->rc.flush_selectivity;
        return;
    }
    h->atomic.va = wqe->rc.remote_addr;
    h->atomic.rkey = wqe->rc.rkey;
    h->atomic.swap_add = wqe->opcode == WR_CMP_SWAP ? wqe->rc.swap : wqe->rc.compare;
    h->atomic.compare = wqe->opcode == WR_CMP_SWAP ? wqe->rc.compare : 0;
}

static struct headers headers_of(const struct qp *qp, const struct request *rq)
{
    const struct send_wqe *wqe = rq->wqe;
    struct headers h = {
        .bth =
            {
                .opcode = opcode_make(qp->service, operations[wqe->opcode][rq->position]),
                .solicited = (wqe->flags & WR_SOLICITED) != 0 && position_ends(rq->position) &&
                             wr_takes_receive(wqe->opcode),
                .mig_req = true,
                .pad_count = packet_pad(rq->payload_len),
                .pkey = qp->engine->config.pkey,
                .dest_qpn = qp->service == SERVICE_UD ? wqe->ud.remote_qpn : qp->attr.dest_qpn,
                .psn = requester_cursor_psn(&qp->requester),
                .ack_req = wr_wants_response(wqe->opcode),
            },
    };

    fill_extended(qp, rq, &h);
    return h;
}

/* Whether a packet of this length may follow those in the batch (struct datagram_batch). */
static bool fits(const struct qp *qp, const struct request_batch *b, const struct request *rq,
                 size_t len)
{
    const struct datagram_batch *out = b->out;
    const struct send_wqe *wqe = rq->wqe;

    if (b->total + len > out->capacity || b->total + len > b->room)
        return false;
    if (out->count == 0)
        return true;
    if (b->closed || len > out->segment_len || out->count == out->count_max)
        return false;
    return qp->service != SERVICE_UD || (out->dest_slot == (uint8_t)(wqe->ud.remote_qpn >> 16) &&
                                         path_equal(&out->path, &wqe->ud.path));
}

static enum completion_status copy_payload(struct qp *qp, const struct request *rq, uint8_t *to)
{
    struct requester *r = &qp->requester;
    struct sge_list sges = wqe_sges(qp, r->sq.next);
    uint32_t pad = packet_pad(rq->payload_len);
    enum completion_status status = STATUS_SUCCESS;

    if ((rq->wqe->flags & WR_INLINE) != 0)
        memcpy(to, send_queue_data(&r->sq, r->sq.next) + rq->offset, rq->payload_len);
    else
        status = sge_read(qp->engine, &sges, rq->offset, to, rq->payload_len);
    memset(to + rq->payload_len, 0, pad);
    return status;
}

/* The packet is in the batch: moves the cursor and counts what is in flight. */
static void advance(struct qp *qp, const struct request *rq)
{
    struct requester *r = &qp->requester;
    struct psn end = psn_add(requester_cursor_psn(r), rq->packet_count);
    uint32_t cost = rq->byte_count + rq->packet_count * WINDOW_PACKET_COST;

    qp->engine->counters.sent_packets++;
    qp_count(qp, sent_payload_bytes, rq->payload_len);
    if (psn_after(end, r->psn_sent))
        r->psn_sent = end;
    else
        qp_count(qp, retransmitted_packets, 1);
    if (qp_is_reliable(qp) && rq->wqe->opcode == WR_READ) {
        flight_charge(&r->read_flight, &qp->engine->read_window, cost);
        flight_charge_extra(&r->read_flight, &qp->engine->read_window,
                            datagram_truesize(rq->packet_count,
                                              rq->byte_count + rq->packet_count * ANSWER_HEADERS) -
                                cost);
    } else if (qp_is_reliable(qp)) {
        flight_charge(&r->flight, qp->window, cost);
    }
    if (wr_wants_response(rq->wqe->opcode))
        r->reads_outstanding++;
    r->cursor += rq->packet_count;
    if (r->cursor < rq->wqe->packet_count)
        return;
    requester_next(r);
    if (!qp_is_reliable(qp)) {
        /* Nothing answers: done when it has left (IBA 9.8.2, 9.8.3). */
        r->psn_una = end;
        requester_complete_head(qp, STATUS_SUCCESS);
        requester_settle(qp);
    }
}

void request_charge_batch(struct qp *qp, const struct request_batch *b, uint32_t bytes)
{
    uint32_t batch = datagram_truesize(b->out->count, (uint32_t)b->total);

    flight_charge_extra(&qp->requester.flight, qp->window,
                        batch - bytes + datagram_truesize(1, ANSWER_HEADERS));
}

static void enter_batch(struct qp *qp, struct request_batch *b, const struct request *rq,
                        size_t len)
{
    struct datagram_batch *out = b->out;

    if (out->count == 0) {
        bool ud = qp->service == SERVICE_UD;

        out->path = ud ? rq->wqe->ud.path : qp->attr.path;
        out->src_port = qp->src_port;
        out->dest_slot = (uint8_t)((ud ? rq->wqe->ud.remote_qpn : qp->attr.dest_qpn) >> 16);
        out->segment_len = len;
        out->payload_absent = 0;
    }
    b->closed = len < out->segment_len;
    b->last = out->buffer + b->total;
    b->total += len;
    out->last_len = len;
    out->count++;
}

bool request_append(struct qp *qp, struct request_batch *b)
{
    struct request rq = request_at_cursor(qp);
    struct headers h = headers_of(qp, &rq);
    size_t headers_len = opcode_headers_len(h.bth.opcode);
    size_t len = headers_len + rq.payload_len + packet_pad(rq.payload_len) + ICRC_LEN;
    uint8_t *to = b->out->buffer + b->total;

    if (!fits(qp, b, &rq, len))
        return false;
    b->unasked += rq.payload_len;
    if (qp_is_reliable(qp) && b->unasked >= ACK_REQ_INTERVAL)
        h.bth.ack_req = true;
    if (h.bth.ack_req)
        b->unasked = 0;
    headers_write(&h, to);
    rq.wqe->status = copy_payload(qp, &rq, to + headers_len);
    if (rq.wqe->status != STATUS_SUCCESS) {
        requester_settle(qp);
        return false;
    }
    enter_batch(qp, b, &rq, len);
    advance(qp, &rq);
    return true;
}
