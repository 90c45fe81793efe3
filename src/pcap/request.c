/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A request on its way: is it new, does it follow what came before, or is it
 * sent again, and then why. New ones make messages; repeats only move the going
 * back under way.
 */
#include "pcap/stream.h"
#include "pcap/stream_private.h"

#include "base/bytes.h"
#include "pcap/flow.h"

#define FIRST_PSN_SLACK                                                                            \
    64 /* so many packets may be lost at once before the first that was seen                       \
        */
#define CAPTURE_ORDER_NS 10000u /* several queues may be captured a little out of order */
#define MISSED_MAX 0x200000 /* packets that a capture may miss at once; more is a new beginning */
#define DMA_LEN_MAX 0x80000000u
#define PMTU_MIN 256u
#define PMTU_MAX 4096u

/* The request at hand. */
struct arrival {
    const struct packet *p;
    const struct operation *op;
    int64_t at;
    int64_t end;
    bool span_open;
};

static bool is_pmtu(uint32_t len)
{
    return len >= PMTU_MIN && len <= PMTU_MAX && (len & (len - 1)) == 0;
}

static bool is_atomic(enum operation_kind kind)
{
    return kind == KIND_CMP_SWAP || kind == KIND_FETCH_ADD;
}

static bool asks_for_response(const struct arrival *a)
{
    return a->p->h.bth.ack_req || a->op->kind == KIND_READ || is_atomic(a->op->kind);
}

/* What is right or wrong of a packet by itself. */
static void check_fields(struct stream *s, struct moment *m, const struct arrival *a)
{
    const struct headers *h = &a->p->h;
    bool may_solicit = position_ends(a->op->position) &&
                       (a->op->kind == KIND_SEND || (a->op->headers & HEADER_IMM) != 0);

    if (is_atomic(a->op->kind) && (h->atomic.va & 7u) != 0)
        moment_raise(m, &s->findings, FINDING_ATOMIC_UNALIGNED);
    if ((a->op->headers & HEADER_RETH) != 0 && h->reth.dma_len > DMA_LEN_MAX)
        moment_raise(m, &s->findings, FINDING_DMA_LENGTH_OVER);
    if (h->bth.solicited && !may_solicit)
        moment_raise(m, &s->findings, FINDING_SOLICITED_MISPLACED);
}

/* Payload against position and path MTU; the first full packet tells what the path MTU is. */
static void check_payload(struct stream *s, struct moment *m, const struct arrival *a)
{
    uint32_t len = a->p->payload_len;

    switch (a->op->payload) {
    case PAYLOAD_FULL:
        if (!is_pmtu(len) || (s->pmtu != 0 && len < s->pmtu))
            moment_raise(m, &s->findings, FINDING_PAYLOAD_NOT_MTU);
        else if (s->pmtu == 0)
            s->pmtu = (uint16_t)len;
        break;
    case PAYLOAD_TAIL:
        if (len == 0)
            moment_raise(m, &s->findings, FINDING_PAYLOAD_EMPTY);
        break;
    case PAYLOAD_NONE:
    case PAYLOAD_ANY:
    case PAYLOAD_EIGHT:
    case PAYLOAD_CNP:
        break;
    }
    if (s->pmtu != 0 && len > s->pmtu)
        moment_raise(m, &s->findings, FINDING_PAYLOAD_OVER_MTU);
}

static void message_begin(struct stream *s, struct moment *m, const struct arrival *a)
{
    s->started_count++;
    s->assembly = (struct assembly){
        .known = true,
        .open = true,
        .kind = a->op->kind,
        .first = a->at,
        .is_announced = a->op->kind == KIND_WRITE,
        .announced = a->op->kind == KIND_WRITE ? a->p->h.reth.dma_len : 0,
        .first_ns = m->now_ns,
        .first_frame = m->frame->number,
    };
}

static void keep_request(struct stream *s, struct moment *m, const struct arrival *a,
                         const struct assembly *from)
{
    struct request r = {
        .first = from->first,
        .end = a->end,
        .kind = a->op->kind,
        .asks = asks_for_response(a),
        .span_open = a->span_open,
        .bytes = a->op->kind == KIND_READ ? a->p->h.reth.dma_len
                 : from->is_announced     ? from->announced
                                          : from->bytes,
        .first_ns = from->first_ns,
        .first_frame = from->first_frame,
        .begins = from->first,
        .answered = from->first,
    };

    if (is_atomic(a->op->kind))
        r.bytes = 8;
    if (opcode_service(a->p->h.bth.opcode) == SERVICE_UC)
        stream_complete(s, m, &r, !from->holed);
    else
        stream_ring_add(s, m, &r);
}

static void message_end(struct stream *s, struct moment *m, const struct arrival *a)
{
    struct assembly *assembly = &s->assembly;

    assembly->open = false;
    if (assembly->is_announced && !assembly->holed && assembly->bytes != assembly->announced)
        moment_raise(m, &s->findings, FINDING_MESSAGE_LENGTH);
    keep_request(s, m, a, assembly);
}

/* The LAST packet of the message is in the gap: what it was is known but for its length. */
static void end_in_gap(struct stream *s, struct moment *m, const struct arrival *a, int64_t gap)
{
    struct assembly *assembly = &s->assembly;
    struct request r = {
        .first = assembly->first,
        .end = a->at,
        .kind = assembly->kind,
        .asks = true,
        .bytes = assembly->is_announced ? assembly->announced
                                        : assembly->bytes + (uint64_t)gap * s->pmtu,
        .first_ns = assembly->first_ns,
        .first_frame = assembly->first_frame,
    };

    assembly->open = false;
    if (opcode_service(a->p->h.bth.opcode) != SERVICE_UC)
        stream_ring_add(s, m, &r);
}

/* A packet behind a gap: what was lost is taken for a part of the same message, if it can be. */
static void bridge_gap(struct stream *s, struct moment *m, const struct arrival *a, int64_t gap)
{
    struct assembly *assembly = &s->assembly;
    bool starts = position_starts(a->op->position);

    if (starts || (assembly->open && assembly->kind != a->op->kind)) {
        if (assembly->open)
            end_in_gap(s, m, a, gap);
        assembly->known = starts;
        return;
    }
    if (!assembly->open) {
        s->started_count++;
        *assembly = (struct assembly){
            .open = true,
            .kind = a->op->kind,
            .first = a->at - gap,
            .first_ns = m->now_ns,
            .first_frame = m->frame->number,
        };
    }
    assembly->known = true;
    assembly->holed = true;
    assembly->bytes += (uint64_t)gap * s->pmtu;
}

/* Does it follow what was in order before it. IBA 9.7.4.1.3. */
static void assemble(struct stream *s, struct moment *m, const struct arrival *a)
{
    struct assembly *assembly = &s->assembly;
    bool starts = position_starts(a->op->position);
    bool follows = starts ? !assembly->open : assembly->open && assembly->kind == a->op->kind;

    if (assembly->known && !follows) {
        moment_raise(m, &s->findings, FINDING_OPCODE_SEQUENCE);
        assembly->known = false;
        assembly->open = false;
    }
    check_payload(s, m, a);
    if (starts)
        message_begin(s, m, a);
    else if (!assembly->known)
        return;
    assembly->bytes += a->p->payload_len;
    if (assembly->is_announced && assembly->bytes > assembly->announced && !assembly->holed &&
        !position_ends(a->op->position)) {
        moment_raise(m, &s->findings, FINDING_MESSAGE_LENGTH);
        assembly->holed = true;
    }
    if (position_ends(a->op->position))
        message_end(s, m, a);
}

/* A response to what was not sent: was it a prophet, or did the capture miss the request. */
static void judge_ahead(struct stream *s, struct moment *m, const struct arrival *a)
{
    if (s->ahead.at == 0)
        return;
    if (a->at <= s->ahead.at && m->now_ns - s->ahead.ns > CAPTURE_ORDER_NS)
        stream_raise_pending(s, m, &s->ahead);
    else
        s->ahead.at = 0;
}

static void take_new(struct stream *s, struct moment *m, const struct arrival *a)
{
    int64_t gap = a->at - s->next;

    judge_ahead(s, m, a);
    if (gap > 0) {
        s->counts.gaps++;
        s->counts.gap_packets += (uint64_t)gap;
        stream_gap_open(s, m, s->next, a->at);
        bridge_gap(s, m, a, gap);
    }
    assemble(s, m, a);
    s->next = a->end;
    s->sent_ns = m->now_ns;
    for (int64_t at = a->at; at < a->end && at < a->at + STREAM_RECENT; at++)
        s->sent_recent_ns[at % STREAM_RECENT] = m->now_ns;
    s->recovery.repeated_end = 0;
    if (s->recovery.cause != REPEAT_NONE && s->recovery.cursor >= s->recovery.target)
        stream_recovered(s, m, m->now_ns);
    moment_add_bytes(m, a->p->payload_len);
    stream_gap_settle(s, m, s->acked);
}

/* When was what is at a position sent for the first time, as well as that is known. */
static uint64_t sent_before_ns(const struct stream *s, int64_t at)
{
    if (at >= s->start && s->next - at <= STREAM_RECENT)
        return s->sent_recent_ns[at % STREAM_RECENT];
    for (uint32_t i = 0; i < s->ring_count; i++) {
        const struct request *r = stream_ring_at(s, i);

        if (at < r->end)
            return at >= r->first ? r->first_ns : s->sent_ns;
    }
    return s->assembly.open && at >= s->assembly.first ? s->assembly.first_ns : s->sent_ns;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static struct request *kept_request(const struct stream *s, int64_t at)
{
    for (uint32_t i = 0; i < s->ring_count; i++) {
        struct request *r = stream_ring_at(s, i);

        if (at >= r->first && at < r->end)
            return r;
    }
    return NULL;
}

/* Was the answer to this request, or its beginning, seen before. */
static bool was_answered(const struct stream *s, const struct arrival *a)
{
    const struct request *r = kept_request(s, a->at);

    if (a->op->kind == KIND_READ && r != NULL)
        return r->answered > a->at && !r->holed;
    return a->end <= s->acked;
}

/*
 * Nothing that was seen explains it: by how long nothing happened. Whoever asks again for a part
 * of a READ, or for what was answered, is no copy that the network made.
 */
static enum repeat_cause silent_cause(const struct stream *s, const struct moment *m,
                                      const struct arrival *a, uint64_t gap_ns)
{
    const struct recovery *r = &s->recovery;
    uint64_t since = later(s->acked_ns, gap_ns != 0 ? gap_ns - 1 : sent_before_ns(s, a->at));

    if (r->repeated_ns != 0)
        since = later(since, r->repeated_ns);
    if (m->now_ns - since >= TIMEOUT_MIN_NS)
        return REPEAT_TIMEOUT;
    if (gap_ns == 0 && (a->op->kind == KIND_READ || is_atomic(a->op->kind)) &&
        (was_answered(s, a) || kept_request(s, a->at) == NULL ||
         kept_request(s, a->at)->first != a->at))
        return REPEAT_IMPLIED;
    if (gap_ns == 0 && r->repeated_end == a->at)
        return REPEAT_UNEXPLAINED;
    return REPEAT_NONE;
}

static bool is_going_on(const struct recovery *r, const struct arrival *a)
{
    return r->cause != REPEAT_NONE && a->at >= r->cursor && a->at < r->target;
}

/* The NAK or hole that a requester acts on, when that is what it does. */
static enum repeat_cause triggered_cause(struct stream *s, struct moment *m,
                                         const struct arrival *a)
{
    struct recovery *r = &s->recovery;
    enum repeat_cause cause = r->trigger;
    uint64_t waited_ns = m->now_ns - r->trigger_ns;

    /* What goes on where it was left was on its way already. */
    if (a->at > r->trigger_at && is_going_on(r, a))
        return REPEAT_NONE;
    if (cause == REPEAT_RNR && waited_ns < r->rnr_wait_ns) {
        /* A copy that the network made comes at once, and is no answer to the NAK. */
        if (m->now_ns - sent_before_ns(s, a->at) < TIMEOUT_MIN_NS)
            return REPEAT_NONE;
        /* Once, the NAK may have been lost behind the place of the capture. */
        if (r->rnr_cut_short++ > 0)
            moment_raise(m, &s->findings, FINDING_RNR_WAIT_CUT_SHORT);
    } else if (cause == REPEAT_RNR) {
        r->rnr_cut_short = 0;
    }
    if (cause == REPEAT_IMPLIED && waited_ns > IMPLIED_MAX_NS)
        cause = REPEAT_TIMEOUT;
    r->trigger = REPEAT_NONE;
    return cause;
}

static enum finding_kind cause_finding(enum repeat_cause cause, bool answered)
{
    switch (cause) {
    case REPEAT_TIMEOUT:
        return answered ? FINDING_ANSWER_LOST : FINDING_RETRANSMIT_TIMEOUT;
    case REPEAT_NAK:
        return FINDING_RETRANSMIT_NAK;
    case REPEAT_RNR:
        return FINDING_RNR;
    case REPEAT_IMPLIED:
        return answered ? FINDING_ANSWER_LOST : FINDING_RETRANSMIT_IMPLIED;
    case REPEAT_NONE:
    case REPEAT_UNEXPLAINED:
    case REPEAT_COUNT:
        break;
    }
    return FINDING_RETRANSMIT_UNEXPLAINED;
}

/* since_ns: when it went wrong. */
static void begin_recovery(struct stream *s, struct moment *m, const struct arrival *a,
                           enum repeat_cause cause, uint64_t since_ns)
{
    struct recovery *r = &s->recovery;

    stream_recovered(s, m, since_ns);
    r->start_ns = later(since_ns, r->end_ns); /* no time is lost twice */
    if (cause == REPEAT_TIMEOUT) {
        r->timeouts = a->at <= r->timeout_at ? r->timeouts + 1 : 1;
        r->timeout_at = a->at;
    }
    r->cause = cause;
    r->finding = cause_finding(cause, was_answered(s, a));
    r->target = s->next;
    if (cause != REPEAT_RNR) /* where the NAK was the finding */
        moment_raise(m, &s->findings, r->finding);
}

/* A READ that is asked for again, whole or from the middle on: its responses begin anew there. */
static void ask_again(struct stream *s, const struct arrival *a)
{
    struct request *r = kept_request(s, a->at);

    if (s->missing.at != 0 && a->at >= s->missing.at && a->at < s->missing.end)
        s->missing.at = 0;
    if (r != NULL && (r->kind == KIND_READ || is_atomic(r->kind))) {
        r->begins = r->answered = a->at;
        r->again = true;
        r->holed = false;
    }
}

/* A message of one packet that was never seen before. */
static void take_late(struct stream *s, struct moment *m, const struct arrival *a)
{
    struct assembly late = {
        .first = a->at,
        .bytes = a->p->payload_len,
        .first_ns = m->now_ns,
        .first_frame = m->frame->number,
    };

    moment_add_bytes(m, a->p->payload_len);
    if (a->op->position != POSITION_ONLY)
        return;
    s->started_count++;
    keep_request(s, m, a, &late);
}

static void count_repeat(struct stream *s, struct moment *m)
{
    struct finding *finding = finding_of(&s->findings, s->recovery.finding);

    s->counts.repeats[s->recovery.cause]++;
    moment_add_repeat(m);
    if (finding != NULL)
        finding->packets++;
    else
        m->out_of_memory = true;
}

/* A request whose PSN was passed before. */
static void take_repeat(struct stream *s, struct moment *m, const struct arrival *a)
{
    struct recovery *r = &s->recovery;
    uint64_t gap_ns = stream_gap_fill(s, a->at, a->end);
    enum repeat_cause cause = REPEAT_NONE;
    uint64_t since_ns = r->trigger_ns;

    if (r->trigger != REPEAT_NONE) {
        cause = triggered_cause(s, m, a);
    } else if (!is_going_on(r, a)) {
        cause = silent_cause(s, m, a, gap_ns);
        since_ns = later(s->acked_ns, later(s->sent_ns, r->repeated_ns));
    }
    if (opcode_service(a->p->h.bth.opcode) == SERVICE_UC)
        cause = REPEAT_NONE;
    if (cause != REPEAT_NONE)
        begin_recovery(s, m, a, cause, since_ns);
    if (gap_ns != 0)
        take_late(s, m, a);
    else
        ask_again(s, a);
    if (cause != REPEAT_NONE || is_going_on(r, a)) {
        count_repeat(s, m);
        r->cursor = a->end;
        if (r->cursor >= r->target)
            stream_recovered(s, m, m->now_ns);
    } else {
        moment_raise(m, &s->findings, gap_ns != 0 ? FINDING_REORDERED : FINDING_DUPLICATE);
        s->counts.repeats[REPEAT_NONE]++;
    }
    r->repeated_end = a->end;
    r->repeated_ns = m->now_ns;
}

static void begin_stream(struct stream *s, struct moment *m, const struct arrival *a)
{
    int64_t first = (int64_t)PSN_MASK + 1 + a->p->h.bth.psn.value;

    s->started = true;
    s->start = s->next = s->acked = first;
    if (!s->psn_agreed || psn_equal(s->psn_first, a->p->h.bth.psn))
        return;
    if (psn_diff(a->p->h.bth.psn, s->psn_first) > 0 &&
        psn_diff(a->p->h.bth.psn, s->psn_first) <= FIRST_PSN_SLACK)
        s->start = s->next = s->acked = position_near(first, s->psn_first);
    else
        moment_raise(m, &s->findings, FINDING_FIRST_PSN);
}

/* Far from all others: either this one is wrong, or from here on it is so. True: look at it. */
static bool is_near(struct stream *s, struct moment *m, const struct packet *p)
{
    int64_t at = position_near(s->next, p->h.bth.psn);
    int64_t distance = at - s->next;

    if (distance <= STREAM_JUMP_MAX && distance >= -STREAM_JUMP_MAX - (s->next - s->acked)) {
        if (s->stray.at != 0)
            stream_raise_pending(s, m, &s->stray);
        return true;
    }
    if (s->stray.at != 0 && at >= s->stray.at && at - s->stray.at <= STREAM_JUMP_MAX) {
        bool missed = distance > 0 && distance <= MISSED_MAX;

        stream_restart(s, m);
        moment_raise(m, &s->findings, missed ? FINDING_PACKETS_MISSED : FINDING_PSN_RESTARTED);
        s->unsure = true;
        return true;
    }
    if (s->stray.at != 0)
        stream_raise_pending(s, m, &s->stray);
    s->stray = (struct pending){
        .at = at,
        .ns = m->now_ns,
        .frame = m->frame->number,
        .kind = FINDING_PSN_OUT_OF_WINDOW,
    };
    return false;
}

/* The end of a READ shows by the PSN of the request behind it, and so does the path MTU. */
static void close_span(struct stream *s, int64_t at)
{
    struct request *r = s->ring_count > 0 ? stream_ring_at(s, s->ring_count - 1) : NULL;

    if (r == NULL || !r->span_open || at <= r->first)
        return;
    for (uint32_t pmtu = PMTU_MIN; pmtu <= PMTU_MAX; pmtu *= 2) {
        if (stream_span(r->bytes, (uint16_t)pmtu) != at - r->first)
            continue;
        r->end = at;
        r->span_open = false;
        if (s->pmtu == 0 && at - r->first > 1)
            s->pmtu = (uint16_t)pmtu;
        s->next = at > s->next ? at : s->next;
        return;
    }
}

static int64_t span_of(struct stream *s, const struct arrival *a, bool *open)
{
    uint64_t bytes = a->op->kind == KIND_READ ? a->p->h.reth.dma_len : 0;

    *open = bytes > PMTU_MIN && s->pmtu == 0;
    return *open || bytes == 0 ? 1 : stream_span(bytes, s->pmtu != 0 ? s->pmtu : PMTU_MIN);
}

void stream_request(struct stream *s, struct moment *m)
{
    const struct packet *p = &m->frame->packet;
    struct arrival a = {.p = p, .op = p->operation};

    s->counts.packets++;
    if (!s->started) {
        begin_stream(s, m, &a);
    } else if (!is_near(s, m, p)) {
        return;
    }
    if (!s->started)
        begin_stream(s, m, &a);
    a.at = position_near(s->next, p->h.bth.psn);
    close_span(s, a.at);
    a.end = a.at + span_of(s, &a, &a.span_open);
    check_fields(s, m, &a);
    if (a.at >= s->next)
        take_new(s, m, &a);
    else
        take_repeat(s, m, &a);
}
