/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads what comes back for requests: acknowledgements, NAKs, READ and atomic
 * responses (IBA 9.7.5, 9.9.2). A response is first classified into an effect,
 * then the effect is applied.
 */
#include <assert.h>

#include "base/bytes.h"
#include "engine/engine_private.h"
#include "engine/requester_private.h"
#include "wire/aeth.h"

/* What a response means. */
#define EFFECTS(E)                                                                                 \
    E(STALE, "acknowledges nothing that is outstanding")                                           \
    E(ACKNOWLEDGES, "everything up to its PSN is done")                                            \
    E(READ_DATA, "carries bytes of a READ")                                                        \
    E(ATOMIC_DATA, "carries the result of an atomic")                                              \
    E(GO_BACK, "a request was lost: send again from its PSN")                                      \
    E(WAIT, "no receive request was there: wait, then send again")                                 \
    E(FAIL, "the request at its PSN failed at the responder")                                      \
    E(BAD, "contradicts what was asked")

enum effect {
#define EFFECT_ENUM(name, text) EFFECT_##name,
    EFFECTS(EFFECT_ENUM)
#undef EFFECT_ENUM
};

/* A response speaks of PSNs from the oldest outstanding one to the newest ever sent. */
static bool psn_is_outstanding(const struct requester *r, struct psn psn)
{
    return !psn_before(psn, r->psn_una) && psn_before(psn, r->psn_sent);
}

/* Also the newest acknowledged one: a repeated ACK may bring new credits (IBA 9.7.7.2). */
static bool is_recent(const struct requester *r, struct psn psn)
{
    return !psn_before(psn, psn_sub(r->psn_una, 1)) && psn_before(psn, r->psn_sent);
}

static enum effect classify_ack(const struct packet *p)
{
    uint8_t syndrome = p->h.aeth.syndrome;

    switch (aeth_kind(syndrome)) {
    case AETH_ACK:
        return EFFECT_ACKNOWLEDGES;
    case AETH_RNR_NAK:
        return EFFECT_WAIT;
    case AETH_RESERVED:
        return EFFECT_BAD;
    case AETH_NAK:
        break;
    }
    if (aeth_value(syndrome) == NAK_PSN_SEQUENCE)
        return EFFECT_GO_BACK;
    return aeth_value(syndrome) <= NAK_REMOTE_OPERATIONAL ? EFFECT_FAIL : EFFECT_BAD;
}

static enum effect classify(const struct qp *qp, const struct packet *p)
{
    bool has_aeth = (p->operation->headers & HEADER_AETH) != 0;

    if (!psn_is_outstanding(&qp->requester, p->h.bth.psn))
        return EFFECT_STALE;
    if (p->operation->kind == KIND_ACK)
        return classify_ack(p);
    if (has_aeth && aeth_kind(p->h.aeth.syndrome) != AETH_ACK)
        return EFFECT_BAD;
    return p->operation->kind == KIND_ATOMIC_ACK ? EFFECT_ATOMIC_DATA : EFFECT_READ_DATA;
}

/* How many of the read_part boundaries lie in (from, to]; the end of the request is one. */
static uint32_t parts_ended(const struct qp *qp, const struct send_wqe *wqe, uint32_t from,
                            uint32_t to)
{
    uint32_t size = wqe->opcode == WR_READ ? qp->read_part_packets : 1;
    uint32_t ended = to / size - from / size;

    return to == wqe->packet_count && to % size != 0 ? ended + 1 : ended;
}

/* count more packets of the oldest request are done, count not beyond its end. */
static void acknowledge_packets(struct qp *qp, uint32_t count, uint64_t now)
{
    struct requester *r = &qp->requester;
    struct send_wqe *wqe = send_queue_at(&r->sq, r->sq.head);
    uint32_t from = r->head_acked;
    uint32_t to = from + count;
    uint32_t sent = wqe_sent(r, r->sq.head);
    uint32_t counted = to < sent ? to : sent; /* those of this pass are in flight */

    assert(to <= wqe->packet_count);
    if (counted > from) {
        uint32_t cost = wqe_cost(wqe, qp->attr.pmtu, from, counted);

        if (wqe->opcode == WR_READ) {
            flight_release(&r->read_flight, &qp->engine->read_window, cost);
        } else {
            flight_release(&r->flight, qp->window, cost);
            window_grow(qp->window, cost, qp->attr.pmtu);
        }
        if (wr_wants_response(wqe->opcode))
            r->reads_outstanding -= parts_ended(qp, wqe, from, counted);
    }
    r->head_acked = to;
    r->psn_una = psn_add(r->psn_una, count);
    if (r->sq.next == r->sq.head && r->cursor < to)
        r->cursor = to;
    r->retries_left = qp->attr.retry_count;
    r->rnr_retries_left = qp->attr.rnr_retry;
    r->nak_taken = false;
    r->rnr_wait_ns = ENGINE_NEVER; /* what was to wait was taken after all */
    if (r->room_wait_ns != ENGINE_NEVER)
        qp_make_ready(qp);
    if (to == wqe->packet_count)
        requester_complete_head(qp, STATUS_SUCCESS);
    requester_restart_timer(qp, now);
}

/*
 * Everything before psn is done, up to the first READ or atomic whose data did
 * not come. Returns false when there is one: its response was lost, which the
 * later answer tells as a NAK would (implied NAK, IBA 9.9.2, F36).
 */
static bool acknowledge_before(struct qp *qp, struct psn psn, uint64_t now)
{
    struct requester *r = &qp->requester;

    while (psn_before(r->psn_una, psn)) {
        const struct send_wqe *wqe = send_queue_at(&r->sq, r->sq.head);
        uint32_t left = wqe->packet_count - r->head_acked;
        uint32_t wanted = (uint32_t)psn_diff(psn, r->psn_una);

        if (wr_wants_response(wqe->opcode))
            return false;
        acknowledge_packets(qp, wanted < left ? wanted : left, now);
    }
    return true;
}

/* At most one repeat for one loss: later signs of it wait for progress or the timer (F37). */
static void go_back_once(struct qp *qp, uint64_t now)
{
    struct requester *r = &qp->requester;

    if (r->nak_taken || r->rnr_wait_ns != ENGINE_NEVER)
        return;
    r->nak_taken = true;
    requester_retry(qp, now);
}

static void implied_nak(struct qp *qp, uint64_t now)
{
    qp_count(qp, implied_nak_seq_err, 1);
    go_back_once(qp, now);
}

static void apply_wait(struct qp *qp, const struct packet *p, uint64_t now)
{
    struct requester *r = &qp->requester;

    qp_count(qp, rnr_nak_rcv, 1);
    if (r->rnr_wait_ns != ENGINE_NEVER && r->rnr_wait_ns > now)
        return;
    r->retries_left = qp->attr.retry_count; /* the peer is there, and nothing was lost */
    if (r->rnr_retries_left == 0) {
        qp_count(qp, rnr_retry_exceeded, 1);
        requester_fail_head(qp, STATUS_RNR_RETRY_EXC_ERR);
        return;
    }
    if (r->rnr_retries_left < 7) /* 7: for ever (IBA 9.7.5.2) */
        r->rnr_retries_left--;
    requester_go_back(qp);
    r->rnr_wait_ns = now + rnr_timer_ns(aeth_value(p->h.aeth.syndrome));
    timer_update(qp);
}

static void apply_fail(struct qp *qp, const struct packet *p)
{
    static const enum completion_status statuses[] = {
        [NAK_INVALID_REQUEST] = STATUS_REM_INV_REQ_ERR,
        [NAK_REMOTE_ACCESS] = STATUS_REM_ACCESS_ERR,
        [NAK_REMOTE_OPERATIONAL] = STATUS_REM_OP_ERR,
    };

    qp_count(qp, remote_err_nak_rcv, 1);
    requester_fail_head(qp, statuses[aeth_value(p->h.aeth.syndrome)]);
}

static void apply_bad(struct qp *qp)
{
    qp_count(qp, bad_response, 1);
    requester_fail_head(qp, STATUS_BAD_RESP_ERR);
}

static void place(struct qp *qp, uint64_t offset, const uint8_t *data, uint32_t len, uint64_t now)
{
    struct requester *r = &qp->requester;
    struct sge_list sges = wqe_sges(qp, r->sq.head);
    enum completion_status status = sge_write(qp->engine, &sges, offset, data, len);

    if (status != STATUS_SUCCESS) {
        requester_fail_head(qp, status);
        return;
    }
    qp_count(qp, rcv_payload_bytes, len);
    acknowledge_packets(qp, 1, now);
}

/* By a READ response without data (IBA 1.5, annex A19). */
static bool is_answered_emptily(enum wr_opcode opcode)
{
    return opcode == WR_ATOMIC_WRITE || opcode == WR_FLUSH;
}

/*
 * A response to a repeated READ may come as FIRST, MIDDLE, LAST or ONLY: Linux
 * rxe goes on in the style of the first answer. So only what is in it counts.
 */
static void apply_read_data(struct qp *qp, const struct packet *p, uint64_t now)
{
    struct requester *r = &qp->requester;
    const struct send_wqe *wqe = send_queue_at(&r->sq, r->sq.head);
    uint64_t offset = (uint64_t)r->head_acked * qp->attr.pmtu;

    if (is_answered_emptily(wqe->opcode) && p->payload_len == 0) {
        qp_count(qp, responses, 1);
        acknowledge_packets(qp, 1, now);
        return;
    }
    if (wqe->opcode != WR_READ ||
        p->payload_len != wqe_bytes(wqe, qp->attr.pmtu, r->head_acked, r->head_acked + 1)) {
        apply_bad(qp);
        return;
    }
    qp_count(qp, responses, 1);
    place(qp, offset, p->payload, p->payload_len, now);
}

static void apply_atomic_data(struct qp *qp, const struct packet *p, uint64_t now)
{
    struct requester *r = &qp->requester;
    uint64_t original = p->h.atomic_ack.original;

    if (!wr_is_atomic(send_queue_at(&r->sq, r->sq.head)->opcode)) {
        apply_bad(qp);
        return;
    }
    qp_count(qp, responses, 1);
    place(qp, 0, (const uint8_t *)&original, sizeof(original), now);
}

/* Credits count from the MSN of the response (IBA 9.7.7.2); only newer ones count. */
static void take_credits(struct requester *r, const struct packet *p)
{
    uint8_t code = aeth_value(p->h.aeth.syndrome);
    struct psn limit;

    if (aeth_kind(p->h.aeth.syndrome) != AETH_ACK || code == AETH_CREDITS_INVALID)
        return;
    limit = psn_add(p->h.aeth.msn, credits_decode(code));
    if (!r->credits_known || psn_after(limit, r->ssn_limit))
        r->ssn_limit = limit;
    r->credits_known = true;
}

static void apply(struct qp *qp, const struct packet *p, enum effect effect, uint64_t now)
{
    switch (effect) {
    case EFFECT_STALE:
        qp_count(qp, stale_response, 1);
        break;
    case EFFECT_ACKNOWLEDGES:
        qp_count(qp, responses, 1);
        break;
    case EFFECT_READ_DATA:
        apply_read_data(qp, p, now);
        break;
    case EFFECT_ATOMIC_DATA:
        apply_atomic_data(qp, p, now);
        break;
    case EFFECT_GO_BACK:
        qp_count(qp, packet_seq_err, 1);
        go_back_once(qp, now);
        break;
    case EFFECT_WAIT:
        apply_wait(qp, p, now);
        break;
    case EFFECT_FAIL:
        apply_fail(qp, p);
        break;
    case EFFECT_BAD:
        apply_bad(qp);
        break;
    }
}

void completer_receive(struct qp *qp, const struct packet *p, uint64_t now)
{
    struct requester *r = &qp->requester;
    enum effect effect = classify(qp, p);
    struct psn done = p->h.bth.psn;

    if (qp->state != QP_RTS && qp->state != QP_SQD) {
        qp_count(qp, wrong_state, 1);
        return;
    }
    if ((p->operation->headers & HEADER_AETH) != 0 && is_recent(r, p->h.bth.psn))
        take_credits(r, p);
    if (effect == EFFECT_ACKNOWLEDGES)
        done = psn_add(done, 1);
    if (effect != EFFECT_STALE && effect != EFFECT_BAD && !acknowledge_before(qp, done, now))
        implied_nak(qp, now);
    else
        apply(qp, p, effect, now);
    if (qp->state == QP_RTS || qp->state == QP_SQD) {
        requester_settle(qp);
        qp_make_ready(qp);
    }
}
