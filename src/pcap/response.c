/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A response on its way back: what it answers, whether it may be, and what it
 * lets the requester do.
 */
#include "pcap/stream.h"
#include "pcap/stream_private.h"

#include "pcap/flow.h"
#include "wire/aeth.h"

static void trigger(struct stream *s, struct moment *m, enum repeat_cause cause, int64_t at)
{
    struct recovery *r = &s->recovery;

    /* What follows an RNR NAK is asked for in order, too; the wait stands (Linux rxe). */
    if (cause == REPEAT_NAK && r->trigger == REPEAT_RNR && r->trigger_at == at)
        return;
    r->trigger = cause;
    r->trigger_at = at;
    r->trigger_ns = m->now_ns;
}

/* All before a position has arrived. */
static void acknowledge(struct stream *s, struct moment *m, int64_t end)
{
    struct recovery *r = &s->recovery;

    stream_retire(s, m, end);
    if (end <= s->acked)
        return;
    s->acked = end;
    s->acked_ns = m->now_ns;
    r->timeouts = 0;
    if (r->trigger != REPEAT_NONE && end > r->trigger_at)
        r->trigger = REPEAT_NONE;
    if (r->cause != REPEAT_NONE && end >= r->target)
        stream_recovered(s, m, m->now_ns);
    stream_gap_settle(s, m, end);
}

/* It answers what was not seen yet: judged by the requests that follow. */
static void note_ahead(struct stream *s, struct moment *m, int64_t at, enum finding_kind kind)
{
    if (s->ahead.at != 0)
        return;
    s->ahead = (struct pending){
        .at = at,
        .ns = m->now_ns,
        .frame = m->frame->number,
        .kind = kind,
    };
}

/* IBA 9.7.7: the MSN counts what the responder completed, modulo 2^24. */
static void check_msn(struct stream *s, struct moment *m, int64_t at, struct psn msn)
{
    if (!s->msn_known) {
        s->msn_known = true;
        s->msn_base = msn;
        s->msn_started_base = s->ended_count;
    } else if (at > s->msn_at && psn_before(msn, s->msn)) {
        moment_raise(m, &s->findings, FINDING_MSN_WENT_BACK);
        return;
    } else if (!s->unsure &&
               psn_diff(msn, s->msn_base) > (int64_t)(s->started_count - s->msn_started_base)) {
        moment_raise(m, &s->findings, FINDING_MSN_AHEAD);
        return;
    }
    if (at >= s->msn_at) {
        s->msn_at = at;
        s->msn = msn;
    }
}

static void take_credits(struct stream *s, struct moment *m, uint8_t code)
{
    uint32_t credits = credits_decode(code);

    if (code == AETH_CREDITS_INVALID)
        return;
    if (!s->counts.credits_told || credits < s->counts.credits_min)
        s->counts.credits_min = credits;
    s->counts.credits_told = true;
    if (credits != 0)
        return;
    s->counts.credits_zero++;
    if (s->assembly.kind == KIND_SEND)
        moment_raise(m, &s->findings, FINDING_CREDITS_ZERO);
}

static void take_ack(struct stream *s, struct moment *m, int64_t at)
{
    s->counts.acks++;
    if (at >= s->next) {
        note_ahead(s, m, at, FINDING_ACK_OF_UNSENT);
        return;
    }
    if (at < s->acked)
        s->counts.acks_repeated++;
    acknowledge(s, m, at + 1);
}

static void take_rnr_nak(struct stream *s, struct moment *m, int64_t at, uint8_t timer)
{
    if (at >= s->next) {
        note_ahead(s, m, at, FINDING_NAK_OF_UNSENT);
        return;
    }
    moment_raise(m, &s->findings, FINDING_RNR);
    s->counts.rnr_naks++;
    s->counts.rnr_wait_ns += rnr_timer_ns(timer);
    acknowledge(s, m, at);
    s->recovery.rnr_wait_ns = rnr_timer_ns(timer);
    trigger(s, m, REPEAT_RNR, at);
}

/* After these the responder's queue pair answers no more. */
static void take_fatal_nak(struct stream *s, struct moment *m, int64_t at, enum finding_kind kind)
{
    moment_raise(m, &s->findings, kind);
    acknowledge(s, m, at);
    s->ended = true;
}

static void take_nak(struct stream *s, struct moment *m, int64_t at, uint8_t code)
{
    s->counts.naks[code]++;
    if (at >= s->next && code != NAK_PSN_SEQUENCE) {
        note_ahead(s, m, at, FINDING_NAK_OF_UNSENT);
        return;
    }
    switch (code) {
    case NAK_PSN_SEQUENCE:
        if (at > s->next) {
            note_ahead(s, m, at, FINDING_NAK_OF_UNSENT);
            return;
        }
        acknowledge(s, m, at);
        trigger(s, m, REPEAT_NAK, at);
        break;
    case NAK_INVALID_REQUEST:
        take_fatal_nak(s, m, at, FINDING_NAK_INVALID_REQUEST);
        break;
    case NAK_REMOTE_ACCESS:
        take_fatal_nak(s, m, at, FINDING_NAK_REMOTE_ACCESS);
        break;
    case NAK_REMOTE_OPERATIONAL:
        take_fatal_nak(s, m, at, FINDING_NAK_REMOTE_OPERATIONAL);
        break;
    default: /* NAK_INVALID_RD_REQUEST too: no such service here */
        moment_raise(m, &s->findings, FINDING_RESERVED_SYNDROME);
        break;
    }
}

/* The READ or atomic that a response belongs to, or NULL; all before it is answered. */
static struct request *asked_for(struct stream *s, struct moment *m, int64_t at, bool read)
{
    struct request *r;

    if (at >= s->next && !(s->ring_count > 0 && stream_ring_at(s, s->ring_count - 1)->span_open)) {
        note_ahead(s, m, at, FINDING_RESPONSE_UNASKED);
        return NULL;
    }
    stream_retire(s, m, at);
    r = s->ring_count > 0 ? stream_ring_at(s, 0) : NULL;
    if (r == NULL || at < r->first) {
        /* Answered before, or asked for before the capture began. */
        if (at >= s->acked && !s->unsure && !(s->assembly.open && at >= s->assembly.first))
            moment_raise(m, &s->findings, FINDING_RESPONSE_UNASKED);
        return NULL;
    }
    if (read ? r->kind != KIND_READ : r->kind == KIND_READ || message_group(r->kind) < GROUP_READ) {
        if (!s->unsure)
            moment_raise(m, &s->findings, FINDING_RESPONSE_UNASKED);
        return NULL;
    }
    return r;
}

/* The first full response tells what path MTU the READ was counted with. */
static void learn_span(struct stream *s, struct request *r, const struct packet *p)
{
    enum position position = p->operation->position;

    if (!r->span_open)
        return;
    if (position == POSITION_ONLY) {
        r->span_open = false;
    } else if (position == POSITION_FIRST && p->payload_len != 0 && p->payload_len <= 4096) {
        s->pmtu = s->pmtu == 0 ? (uint16_t)p->payload_len : s->pmtu;
        r->end = r->first + stream_span(r->bytes, (uint16_t)p->payload_len);
        r->span_open = false;
        if (s->ring_count == 1 && r->end > s->next)
            s->next = r->end;
        /* Of a length that does not fit what was sent behind it, the latter is believed. */
        if (s->ring_count > 1 && r->end > stream_ring_at(s, 1)->first)
            r->end = stream_ring_at(s, 1)->first;
        if (r->end > s->next)
            r->end = s->next;
    }
}

/* What a response at its place among those of its READ should be. IBA 9.7.5. */
static void check_read_response(struct stream *s, struct moment *m, const struct request *r,
                                int64_t at)
{
    const struct packet *p = &m->frame->packet;
    enum position position = p->operation->position;
    bool last = at + 1 == r->end;
    uint64_t left = r->bytes - (uint64_t)(at - r->first) * s->pmtu;

    if (r->span_open || s->unsure)
        return;
    if (last != position_ends(position) ||
        (position_starts(position) ? at != r->begins : at == r->begins && !r->again))
        moment_raise(m, &s->findings, FINDING_RESPONSE_SEQUENCE);
    else if (p->payload_len != (last ? left : s->pmtu) && (s->pmtu != 0 || last))
        moment_raise(m, &s->findings, FINDING_RESPONSE_LENGTH);
}

static void take_read_response(struct stream *s, struct moment *m, int64_t at)
{
    const struct packet *p = &m->frame->packet;
    struct request *r = asked_for(s, m, at, true);

    if (r == NULL)
        return;
    learn_span(s, r, p);
    if (at < r->answered) {
        s->counts.acks_repeated++;
        return;
    }
    if (at > r->answered) {
        r->holed = true;
        trigger(s, m, REPEAT_IMPLIED, r->answered);
    }
    check_read_response(s, m, r, at);
    s->counts.response_bytes += p->payload_len;
    r->answered = at + 1;
    s->acked_ns = m->now_ns;
    s->recovery.timeouts = 0;
    moment_add_bytes(m, p->payload_len);
    if (r->answered >= r->end && !r->span_open && !r->holed)
        acknowledge(s, m, r->end);
}

static void take_atomic_ack(struct stream *s, struct moment *m, int64_t at)
{
    struct request *r = asked_for(s, m, at, false);

    if (r == NULL)
        return;
    r->answered = r->end;
    s->counts.response_bytes += 8;
    acknowledge(s, m, r->end);
}

static void take_aeth(struct stream *s, struct moment *m, int64_t at)
{
    const struct headers *h = &m->frame->packet.h;
    uint8_t value = aeth_value(h->aeth.syndrome);

    switch (aeth_kind(h->aeth.syndrome)) {
    case AETH_ACK:
        take_credits(s, m, value);
        take_ack(s, m, at);
        break;
    case AETH_RNR_NAK:
        take_rnr_nak(s, m, at, value);
        break;
    case AETH_NAK:
        take_nak(s, m, at, value);
        break;
    case AETH_RESERVED:
        moment_raise(m, &s->findings, FINDING_RESERVED_SYNDROME);
        break;
    }
}

void stream_begin_responses(struct stream *s, struct moment *m)
{
    int64_t at = position_near(s->next, m->frame->packet.h.bth.psn);

    while (s->ring_count > 0 && stream_ring_at(s, 0)->end <= at) {
        stream_ring_at(s, 0)->holed = false;
        stream_ring_at(s, 0)->span_open = true; /* so that its responses are not missed */
        stream_ring_at(s, 0)->untimed = true;
        stream_retire(s, m, stream_ring_at(s, 0)->end);
    }
}

void stream_response(struct stream *s, struct moment *m)
{
    const struct packet *p = &m->frame->packet;
    int64_t at = position_near(s->next, p->h.bth.psn);
    bool has_aeth = (p->operation->headers & HEADER_AETH) != 0;

    if (has_aeth && at < s->next && at >= s->start)
        check_msn(s, m, at, p->h.aeth.msn);
    switch (p->operation->kind) {
    case KIND_READ_RESPONSE:
        take_read_response(s, m, at);
        break;
    case KIND_ATOMIC_ACK:
        take_atomic_ack(s, m, at);
        break;
    case KIND_ACK:
        take_aeth(s, m, at);
        break;
    case KIND_SEND:
    case KIND_WRITE:
    case KIND_READ:
    case KIND_CMP_SWAP:
    case KIND_FETCH_ADD:
    case KIND_FLUSH:
    case KIND_ATOMIC_WRITE:
    case KIND_RESYNC:
    case KIND_CNP:
        break;
    }
}
