/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sends the responder's answers (IBA 9.7.5): READ and atomic responses in
 * order, then the acknowledgement or NAK that is due. One acknowledgement
 * stands for all requests before it, however many asked for one. READ responses keep to the rate
 * of the path; acknowledgements are not held up for it.
 */
#include <assert.h>
#include <string.h>

#include "engine/engine_private.h"
#include "engine/memory.h"
#include "engine/responder_private.h"
#include "engine/xrc_private.h"
#include "wire/aeth.h"

/*
 * In a dialogue the application answers requests with requests of its own, so many in a row, each
 * soon. The acknowledgement of a request then waits to leave together with the reply: one packet
 * for the kernel, one wake-up for the peer. When the reply does not come, it leaves alone, and so
 * do the next.
 *
 * In a batch the shorter packet comes last, and that is the acknowledgement. A network takes the
 * batch apart, so that the peer's application could find the reply received while its own request
 * does not count as sent yet. Adapters acknowledge before any software can reply, and programs
 * rely on it: who gives a send queue one place, and sends again when the reply is there, finds it
 * taken. So what takes a receive request at the peer leaves behind the acknowledgement, unless the
 * batch is known to arrive whole.
 */
#define REPLY_NS 100000u
#define DIALOGUE_REPLIES 2u

/* A NAK that ends the connection, unlike those that ask for a repeat. */
static bool nak_is_final(const struct responder *r)
{
    return r->ack == ACK_NAK && aeth_kind(r->nak_syndrome) == AETH_NAK &&
           aeth_value(r->nak_syndrome) != NAK_PSN_SEQUENCE;
}

/* A QP that failed still says so, and answers what was asked before that. */
static bool may_answer(const struct qp *qp)
{
    if (!qp_is_reliable(qp))
        return false;
    if (qp->state == QP_ERR)
        return nak_is_final(&qp->responder) || qp->responder.answers_last;
    return qp->state == QP_RTR || qp->state == QP_RTS || qp->state == QP_SQD;
}

/* Receive requests that the peer may count on beyond the messages of the MSN (IBA 9.7.7.2). */
static uint8_t credits(const struct qp *qp)
{
    const struct responder *r = &qp->responder;

    if (qp_srq(qp) != NULL || qp_is_target(qp))
        return AETH_CREDITS_INVALID; /* other QPs take from it too (IBA 9.7.7.2; annex A14) */
    return credits_encode(r->rq.posted_count + (r->receive != NULL ? 1 : 0));
}

static struct headers response_headers(const struct qp *qp, enum operation_code operation,
                                       struct psn psn)
{
    return (struct headers){
        .bth =
            {
                .opcode = opcode_make(qp->service, operation),
                .mig_req = true,
                .pkey = qp->engine->config.pkey,
                .dest_qpn = qp->attr.dest_qpn,
                .psn = psn,
            },
        .aeth = {.syndrome = aeth_make(AETH_ACK, credits(qp)), .msn = qp->responder.msn},
    };
}

struct response_batch {
    struct datagram_batch *out;
    size_t total;
    size_t room; /* bytes that the rate lets leave */
    bool closed;
};

/* Room for a packet of this length, or NULL when it does not fit (struct datagram_batch). */
static uint8_t *reserve(const struct qp *qp, struct response_batch *b, size_t len)
{
    struct datagram_batch *out = b->out;
    uint8_t *to = out->buffer + b->total;

    if (b->total + len > out->capacity || out->count == out->count_max)
        return NULL;
    if (out->count > 0 && (b->closed || len > out->segment_len || b->total + len > b->room))
        return NULL;
    if (out->count == 0) {
        out->path = qp->attr.path;
        out->src_port = qp->src_port;
        out->dest_slot = (uint8_t)(qp->attr.dest_qpn >> 16);
        out->segment_len = len;
        out->payload_absent = 0;
    }
    return to;
}

static void take(struct qp *qp, struct response_batch *b, size_t len)
{
    b->closed = len < b->out->segment_len;
    b->total += len;
    b->out->last_len = len;
    b->out->count++;
    qp->engine->counters.sent_packets++;
}

static void put_nak(struct responder *r, struct psn psn, enum verdict v)
{
    enum nak_code code = v == VERDICT_BAD_ACCESS ? NAK_REMOTE_ACCESS : NAK_REMOTE_OPERATIONAL;

    r->ack = ACK_NAK;
    r->nak_syndrome = aeth_make(AETH_NAK, code);
    r->nak_psn = psn;
}

/*
 * The memory went away between request and answer: the answer is a NAK in its place.
 *
 * It was answered once already and is asked again: who asked may have had that answer, and then the
 * region was taken away by right while this duplicate was still on its way. So nothing fails
 * here. If its answer was lost, the NAK ends it where it was asked; else it is old news there.
 */
static void fail_read(struct qp *qp, struct psn psn, enum verdict v)
{
    struct responder *r = &qp->responder;

    qp_count(qp, read_broken, 1); /* the request itself was counted when it came */
    if (r->read_next == r->read_answered) {
        put_nak(r, psn, v);
        r->nak_sent = true;
        r->read_next = r->read_tail;
        responder_fail(qp, NULL, v);
        return;
    }
    if (r->ack == ACK_NONE) /* an acknowledgement that is due is news to everybody */
        put_nak(r, psn, v);
    answer_advance(r);
}

/* XRC: that of the SRQ that the request named; NULL, where nothing is found, when it is gone. */
static const struct pd *read_pd(const struct qp *qp, const struct read_resource *resource)
{
    const struct srq *srq;

    if (!qp_is_target(qp))
        return qp->pd;
    srq = xrc_find_srq(qp->xrcd, resource->srqn);
    return srq != NULL ? srq->pd : NULL;
}

static enum verdict read_payload(struct qp *qp, const struct read_resource *resource, uint8_t *to,
                                 uint32_t len)
{
    struct mr_query q = {.pd = read_pd(qp, resource),
                         .qp = qp,
                         .va = resource->va + (uint64_t)qp->responder.read_cursor * qp->attr.pmtu,
                         .len = len,
                         .key = resource->rkey,
                         .access = ACCESS_REMOTE_READ};
    uint8_t *memory;

    if (len > 0) {
        if (mr_resolve(qp->engine, &q, &memory) != MR_OK)
            return VERDICT_BAD_ACCESS;
        if (engine_copy(qp->engine, to, memory, len) != 0)
            return VERDICT_MEMORY_FAULT;
    }
    memset(to + len, 0, packet_pad(len));
    return VERDICT_ACCEPT;
}

static enum operation_code read_operation(const struct responder *r, uint32_t packet_count)
{
    bool first = r->read_cursor == r->read_first;
    bool last = r->read_cursor == packet_count - 1;

    if (first)
        return last ? OP_READ_RESP_ONLY : OP_READ_RESP_FIRST;
    return last ? OP_READ_RESP_LAST : OP_READ_RESP_MIDDLE;
}

/*
 * The next packet of the READ that is being answered; ATOMIC WRITE and FLUSH are answered as a READ
 * of nothing. False: it does not fit, or it has no answer. */
static bool append_read(struct qp *qp, struct response_batch *b,
                        const struct read_resource *resource)
{
    struct responder *r = &qp->responder;
    uint64_t offset = (uint64_t)r->read_cursor * qp->attr.pmtu;
    uint32_t len = resource->length - (uint32_t)offset;
    struct psn psn = psn_add(resource->psn_first, r->read_cursor);
    struct headers h = response_headers(qp, read_operation(r, resource->packet_count), psn);
    size_t headers_len = opcode_headers_len(h.bth.opcode);
    enum verdict v;
    uint8_t *to;

    if (len > qp->attr.pmtu)
        len = qp->attr.pmtu;
    to = reserve(qp, b, headers_len + len + packet_pad(len) + ICRC_LEN);
    if (to == NULL)
        return false;
    v = read_payload(qp, resource, to + headers_len, len);
    if (v != VERDICT_ACCEPT) {
        fail_read(qp, psn, v);
        return false;
    }
    h.bth.pad_count = packet_pad(len);
    h.aeth.msn = resource->msn;
    headers_write(&h, to);
    qp_count(qp, sent_payload_bytes, len);
    take(qp, b, headers_len + len + packet_pad(len) + ICRC_LEN);
    return true;
}

static bool append_atomic(struct qp *qp, struct response_batch *b,
                          const struct read_resource *resource)
{
    struct headers h = response_headers(qp, OP_ATOMIC_ACK, resource->psn_first);
    size_t len = opcode_headers_len(h.bth.opcode) + ICRC_LEN;
    uint8_t *to = reserve(qp, b, len);

    if (to == NULL)
        return false;
    h.aeth.msn = resource->msn;
    h.atomic_ack.original = resource->original;
    headers_write(&h, to);
    take(qp, b, len);
    return true;
}

static bool append_answer(struct qp *qp, struct response_batch *b)
{
    struct responder *r = &qp->responder;
    const struct read_resource *resource = read_resource_at(r, r->read_next);

    bool fetched = resource->kind == KIND_CMP_SWAP || resource->kind == KIND_FETCH_ADD;

    if (fetched ? !append_atomic(qp, b, resource) : !append_read(qp, b, resource))
        return false;
    r->read_cursor++;
    if (r->read_cursor == resource->packet_count)
        answer_advance(r);
    return true;
}

static void write_ack(const struct qp *qp, struct psn psn, uint8_t syndrome, uint8_t *to)
{
    struct headers h = response_headers(qp, OP_ACK, psn);

    assert(opcode_headers_len(h.bth.opcode) + ICRC_LEN == ACK_LEN);
    h.aeth.syndrome = syndrome;
    headers_write(&h, to);
}

/*
 * A READ or atomic is acknowledged by its own response alone. An ACK that named its PSN, because
 * a WRITE before it came twice, would make the peer ask again; and Linux rxe would complete the
 * READ without its data, since its completer does not look whether an ACK is what was asked for.
 */
void responder_write_ack(const struct qp *qp, uint8_t credit_code, uint8_t *to)
{
    write_ack(qp, qp->responder.ackable, aeth_make(AETH_ACK, credit_code), to);
}

static void append_ack(struct qp *qp, struct response_batch *b)
{
    struct responder *r = &qp->responder;
    uint8_t *to = reserve(qp, b, ACK_LEN);

    if (to == NULL)
        return;
    if (r->ack == ACK_NAK)
        write_ack(qp, r->nak_psn, r->nak_syndrome, to);
    else
        responder_write_ack(qp, credits(qp), to);
    take(qp, b, ACK_LEN);
    r->ack = ACK_NONE;
    if (r->ack_hold_ns != ENGINE_NEVER) {
        r->ack_hold_ns = ENGINE_NEVER;
        timer_set(qp, timer_due(qp));
    }
}

void responder_ack_due(struct qp *qp, uint64_t now)
{
    struct responder *r = &qp->responder;

    r->ack = ACK_ACK;
    if (!r->replied)
        r->replies = 0;
    r->replied = false;
    r->ack_ns = now;
}

bool responder_in_dialogue(const struct qp *qp)
{
    return qp->responder.replies >= DIALOGUE_REPLIES;
}

/* Whether the acknowledgement that is due waits for a request to go along with. */
static bool holds_ack(struct qp *qp, uint64_t now)
{
    const uint64_t hold_ns = qp->engine->config.ack_hold_ns;
    struct responder *r = &qp->responder;

    if (r->ack != ACK_ACK || !responder_in_dialogue(qp) || now - r->ack_ns >= hold_ns)
        return false;
    r->ack_hold_ns = r->ack_ns + hold_ns;
    timer_update(qp);
    return true;
}

bool responder_goes_first(const struct qp *qp)
{
    const struct engine_config *c = &qp->engine->config;
    const struct responder *r = &qp->responder;

    if (r->ack != ACK_ACK || r->read_next != r->read_tail || !may_answer(qp))
        return false;
    return c->arrives_whole == NULL ||
           !c->arrives_whole(c->context, &qp->attr.path, (uint8_t)(qp->attr.dest_qpn >> 16));
}

void responder_ride(struct qp *qp, uint64_t now, struct datagram_batch *out, size_t total,
                    bool closed)
{
    struct response_batch b = {.out = out, .total = total, .room = SIZE_MAX, .closed = closed};
    struct responder *r = &qp->responder;

    if (!r->replied && now - r->ack_ns < REPLY_NS) {
        r->replied = true;
        if (r->replies < DIALOGUE_REPLIES)
            r->replies++;
    }
    if (may_answer(qp) && r->ack == ACK_ACK && r->read_next == r->read_tail)
        append_ack(qp, &b);
}

void responder_expire(struct qp *qp, uint64_t now)
{
    struct responder *r = &qp->responder;

    if (r->ack_hold_ns > now)
        return;
    r->ack_hold_ns = ENGINE_NEVER;
    r->replies = 0;
    qp_make_ready(qp);
}

uint32_t responder_transmit(struct qp *qp, uint64_t now, struct datagram_batch *out)
{
    struct responder *r = &qp->responder;
    struct response_batch b = {.out = out};

    out->count = 0;
    if (!may_answer(qp))
        return 0;
    if (r->read_next != r->read_tail && rate_blocks(qp)) {
        rate_wait(qp);
        return 0;
    }
    b.room = rate_room(qp, &qp->attr.path);
    while (r->read_next != r->read_tail) {
        uint32_t at = r->read_next;

        if (!append_answer(qp, &b) && r->read_next == at)
            break;
    }
    rate_charge(qp, out);
    if (r->read_next == r->read_tail && r->ack != ACK_NONE && !holds_ack(qp, now))
        append_ack(qp, &b);
    return out->count;
}
