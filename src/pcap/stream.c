/* SPDX-License-Identifier: BSD-2-Clause */
/* What a stream remembers: its ring of messages, its gaps, and what waits to be judged. */
#include "pcap/stream.h"
#include "pcap/stream_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pcap/flow.h"

#define RING_SIZE_MIN 8u
#define RETRIES_MIN                                                                                \
    2u /* time-outs in a row, and nothing behind: the requester gave up, or soon will */

enum message_group message_group(enum operation_kind kind)
{
    switch (kind) {
    case KIND_SEND:
        return GROUP_SEND;
    case KIND_WRITE:
        return GROUP_WRITE;
    case KIND_READ:
        return GROUP_READ;
    case KIND_CMP_SWAP:
    case KIND_FETCH_ADD:
        return GROUP_ATOMIC;
    case KIND_FLUSH:
    case KIND_ATOMIC_WRITE:
    case KIND_READ_RESPONSE:
    case KIND_ACK:
    case KIND_ATOMIC_ACK:
    case KIND_RESYNC:
    case KIND_CNP:
        break;
    }
    return GROUP_OTHER;
}

const char *message_group_text(enum message_group group)
{
    static const char *const texts[GROUP_COUNT] = {"SEND", "WRITE", "READ", "ATOMIC", "OTHER"};

    assert(group < GROUP_COUNT);
    return texts[group];
}

const char *repeat_cause_name(enum repeat_cause cause)
{
    static const char *const names[REPEAT_COUNT] = {"none", "timeout", "nak",
                                                    "rnr",  "implied", "unexplained"};

    assert(cause < REPEAT_COUNT);
    return names[cause];
}

struct finding *moment_raise(struct moment *m, struct finding_list *list, enum finding_kind kind)
{
    struct finding *finding = finding_of(list, kind);

    if (finding == NULL) {
        m->out_of_memory = true;
        return NULL;
    }
    if (finding->count == 0) {
        finding->first_ns = m->now_ns;
        finding->first_frame = m->frame != NULL ? m->frame->number : 0;
        if (m->frame != NULL)
            finding->psn = m->frame->packet.h.bth.psn;
    }
    finding->count++;
    if (m->frame != NULL)
        finding->last_frame = m->frame->number;
    if (m->raised_count < MOMENT_RAISED_MAX)
        m->raised[m->raised_count++] = kind;
    return finding;
}

void moment_add_bytes(struct moment *m, uint64_t bytes)
{
    if (m->timeline != NULL)
        timeline_at(m->timeline, m->now_ns)->bytes += bytes;
    if (m->timeline_all != NULL)
        timeline_at(m->timeline_all, m->now_ns)->bytes += bytes;
}

void moment_add_repeat(struct moment *m)
{
    m->repeated = true;
    if (m->timeline != NULL)
        timeline_at(m->timeline, m->now_ns)->repeats++;
    if (m->timeline_all != NULL)
        timeline_at(m->timeline_all, m->now_ns)->repeats++;
}

static void raise_latency(struct timeline *t, uint64_t now_ns, uint64_t latency_ns)
{
    struct timeline_bin *bin;

    if (t == NULL)
        return;
    bin = timeline_at(t, now_ns);
    if (latency_ns > bin->latency_max_ns)
        bin->latency_max_ns = latency_ns;
}

void moment_add_latency(struct moment *m, uint64_t latency_ns)
{
    raise_latency(m->timeline, m->now_ns, latency_ns);
    raise_latency(m->timeline_all, m->now_ns, latency_ns);
}

void stream_raise_pending(struct stream *s, struct moment *m, struct pending *pending)
{
    struct finding *finding = finding_of(&s->findings, pending->kind);

    if (finding == NULL) {
        m->out_of_memory = true;
    } else {
        if (finding->count == 0) {
            finding->first_ns = pending->ns;
            finding->first_frame = pending->frame;
            finding->psn = position_psn(pending->at);
        }
        finding->count++;
        finding->last_frame = pending->frame;
    }
    *pending = (struct pending){.at = 0};
}

void stream_init(struct stream *s)
{
    *s = (struct stream){.depth = -1};
}

static void free_ring(struct stream *s, struct moment *m)
{
    m->requests_left += s->ring_size;
    free(s->ring);
    s->ring = NULL;
    s->ring_size = s->ring_head = s->ring_count = 0;
    s->reads_outstanding = 0;
}

void stream_fini(struct stream *s, struct moment *m)
{
    free_ring(s, m);
    free(s->latency);
    s->latency = NULL;
    finding_list_fini(&s->findings);
}

struct request *stream_ring_at(const struct stream *s, uint32_t index)
{
    assert(index < s->ring_count);
    return &s->ring[(s->ring_head + index) & (s->ring_size - 1)];
}

static bool is_read_or_atomic(enum operation_kind kind)
{
    return kind == KIND_READ || message_group(kind) == GROUP_ATOMIC || kind == KIND_ATOMIC_WRITE ||
           kind == KIND_FLUSH;
}

static bool ring_grow(struct stream *s, struct moment *m)
{
    uint32_t size = s->ring_size == 0 ? RING_SIZE_MIN : s->ring_size * 2;
    struct request *ring;

    if (size > STREAM_REQUESTS_MAX || size > m->requests_left)
        return false;
    ring = malloc(size * sizeof(*ring));
    if (ring == NULL)
        return false;
    for (uint32_t i = 0; i < s->ring_count; i++)
        ring[i] = *stream_ring_at(s, i);
    m->requests_left -= size - s->ring_size;
    free(s->ring);
    s->ring = ring;
    s->ring_size = size;
    s->ring_head = 0;
    return true;
}

void stream_ring_add(struct stream *s, struct moment *m, const struct request *request)
{
    uint32_t i;

    if (s->ring_count == s->ring_size && !ring_grow(s, m)) {
        s->counts.untimed++;
        s->unsure = true;
        moment_raise(m, &s->findings, FINDING_UNTIMED);
        return;
    }
    if (is_read_or_atomic(request->kind)) {
        s->reads_outstanding++;
        if (s->depth >= 0 && s->reads_outstanding > (uint32_t)s->depth && !s->unsure)
            moment_raise(m, &s->findings, FINDING_READS_OVER_DEPTH);
    }
    s->ring_count++;
    for (i = s->ring_count - 1; i > 0 && stream_ring_at(s, i - 1)->first > request->first; i--)
        *stream_ring_at(s, i) = *stream_ring_at(s, i - 1);
    *stream_ring_at(s, i) = *request;
}

static uint32_t size_bin(uint64_t bytes)
{
    uint32_t bin = bytes == 0 ? 0 : 64u - (uint32_t)__builtin_clzll(bytes);

    return bin < STREAM_SIZES ? bin : STREAM_SIZES - 1;
}

static void note_latency(struct stream *s, struct moment *m, uint64_t latency_ns)
{
    if (s->latency == NULL)
        s->latency = calloc(1, sizeof(*s->latency));
    if (s->latency == NULL) {
        m->out_of_memory = true;
        return;
    }
    histogram_add(s->latency, latency_ns);
    moment_add_latency(m, latency_ns);
}

void stream_complete(struct stream *s, struct moment *m, const struct request *r, bool timed)
{
    uint64_t latency_ns = m->now_ns - r->first_ns;
    enum message_group group = message_group(r->kind);

    s->ended_count++;
    s->counts.messages[group]++;
    s->counts.message_bytes[group] += r->bytes;
    s->counts.sizes[size_bin(r->bytes)]++;
    if (timed)
        note_latency(s, m, latency_ns);
    else
        s->counts.untimed++;
    if (m->on_message != NULL) {
        struct message message = {
            .flow = m->flow,
            .kind = r->kind,
            .psn = position_psn(r->first),
            .packets = (uint32_t)(r->end - r->first),
            .bytes = r->bytes,
            .first_frame = r->first_frame,
            .last_frame = m->frame != NULL ? m->frame->number : 0,
            .first_ns = r->first_ns,
            .latency_ns = timed ? latency_ns : 0,
            .timed = timed,
        };

        m->on_message(m->context, &message);
    }
}

void stream_complete_datagram(struct stream *s, struct moment *m, const struct request *r)
{
    s->counts.packets++;
    stream_complete(s, m, r, false);
    s->counts.untimed--;
}

/* Responses of this one were passed over: lost, when it is asked for again; else not captured. */
static void note_missing(struct stream *s, struct moment *m, const struct request *r)
{
    if (s->missing.at != 0)
        stream_raise_pending(s, m, &s->missing);
    s->missing = (struct pending){
        .at = r->first,
        .end = r->end,
        .ns = m->now_ns,
        .frame = m->frame != NULL ? m->frame->number : 0,
        .kind = FINDING_RESPONSES_MISSED,
    };
}

void stream_retire(struct stream *s, struct moment *m, int64_t end)
{
    while (s->ring_count > 0 && stream_ring_at(s, 0)->end <= end) {
        struct request r = *stream_ring_at(s, 0);
        bool whole = true;

        s->ring_head = (s->ring_head + 1) & (s->ring_size - 1);
        s->ring_count--;
        if (is_read_or_atomic(r.kind)) {
            s->reads_outstanding--;
            whole = r.answered == r.end && !r.holed;
            if (!whole && !r.span_open)
                note_missing(s, m, &r);
        }
        stream_complete(s, m, &r, whole && !r.untimed);
    }
}

static void settle_gap(struct stream *s, struct moment *m, struct gap *gap)
{
    bool unreliable = m->flow != NULL && m->flow->service == SERVICE_UC;
    struct finding *finding =
        finding_of(&s->findings, unreliable ? FINDING_UC_LOST : FINDING_PACKETS_MISSED);

    if (finding == NULL) {
        m->out_of_memory = true;
    } else {
        if (finding->count == 0) {
            finding->first_ns = gap->seen_ns;
            finding->first_frame = gap->frame;
            finding->psn = position_psn(gap->first);
        }
        finding->count += (uint64_t)(gap->end - gap->first);
        finding->last_frame = gap->frame;
    }
    s->unsure = true;
    gap->end = gap->first;
}

void stream_gap_open(struct stream *s, struct moment *m, int64_t first, int64_t end)
{
    struct gap *oldest = &s->gaps[0];

    for (uint32_t i = 0; i < STREAM_GAPS_MAX; i++) {
        struct gap *gap = &s->gaps[i];

        if (gap->first == gap->end) {
            oldest = gap;
            break;
        }
        if (gap->seen_ns < oldest->seen_ns)
            oldest = gap;
    }
    if (oldest->first != oldest->end)
        settle_gap(s, m, oldest);
    s->has_gaps = true;
    *oldest = (struct gap){
        .first = first,
        .end = end,
        .seen_ns = m->now_ns,
        .frame = m->frame != NULL ? m->frame->number : 0,
    };
}

uint64_t stream_gap_fill(struct stream *s, int64_t first, int64_t end)
{
    for (uint32_t i = 0; i < STREAM_GAPS_MAX; i++) {
        struct gap *gap = &s->gaps[i];
        struct gap right = *gap;

        if (first < gap->first || first >= gap->end)
            continue;
        gap->end = first;
        right.first = end;
        if (right.first < right.end) {
            for (uint32_t j = 0; j < STREAM_GAPS_MAX; j++) {
                if (s->gaps[j].first == s->gaps[j].end) {
                    s->gaps[j] = right;
                    break;
                }
            }
        }
        /* Zero means that there was none. */
        return right.seen_ns + 1;
    }
    return 0;
}

void stream_gap_settle(struct stream *s, struct moment *m, int64_t end)
{
    bool open = false;

    if (!s->has_gaps)
        return;
    for (uint32_t i = 0; i < STREAM_GAPS_MAX; i++) {
        if (s->gaps[i].first != s->gaps[i].end && s->gaps[i].end <= end)
            settle_gap(s, m, &s->gaps[i]);
        open |= s->gaps[i].first != s->gaps[i].end;
    }
    s->has_gaps = open;
}

void stream_recovered(struct stream *s, struct moment *m, uint64_t now_ns)
{
    struct recovery *r = &s->recovery;
    uint64_t lost_ns = now_ns > r->start_ns ? now_ns - r->start_ns : 0;
    struct finding *finding;

    if (r->cause == REPEAT_NONE)
        return;
    s->counts.lost_ns[r->cause] += lost_ns;
    finding = finding_of(&s->findings, r->finding);
    if (finding != NULL)
        finding->lost_ns += lost_ns;
    else
        m->out_of_memory = true;
    r->cause = REPEAT_NONE;
    r->end_ns = now_ns > r->start_ns ? now_ns : r->start_ns;
}

void stream_restart(struct stream *s, struct moment *m)
{
    struct stream old;

    stream_recovered(s, m, m->now_ns);
    free_ring(s, m);
    old = *s;
    stream_init(s);
    s->counts = old.counts;
    s->latency = old.latency;
    s->findings = old.findings;
    s->pmtu = old.pmtu;
}

/* Are there requests that ask for an answer, and have none. */
static const struct request *oldest_unanswered(const struct stream *s)
{
    for (uint32_t i = 0; i < s->ring_count; i++) {
        if (stream_ring_at(s, i)->asks)
            return stream_ring_at(s, i);
    }
    return NULL;
}

void stream_finish(struct stream *s, struct moment *m)
{
    const struct request *open = oldest_unanswered(s);

    m->frame = NULL;
    m->raised_count = 0;
    if (s->ahead.at != 0 && !s->unsure)
        stream_raise_pending(s, m, &s->ahead);
    if (s->stray.at != 0)
        stream_raise_pending(s, m, &s->stray);
    if (s->missing.at != 0)
        stream_raise_pending(s, m, &s->missing);
    for (uint32_t i = 0; i < STREAM_GAPS_MAX; i++) {
        if (s->gaps[i].first != s->gaps[i].end &&
            (s->gaps[i].end <= s->acked || m->flow->service == SERVICE_UC))
            settle_gap(s, m, &s->gaps[i]);
    }
    stream_recovered(s, m,
                     s->recovery.repeated_ns > s->recovery.start_ns ? s->recovery.repeated_ns
                                                                    : s->recovery.start_ns);
    if (s->ended || s->recovery.trigger == REPEAT_RNR) {
        if (s->recovery.trigger == REPEAT_RNR && s->acked < s->next)
            moment_raise(m, &s->findings, FINDING_RNR_UNRESOLVED);
        return;
    }
    if (s->recovery.timeouts >= RETRIES_MIN && s->recovery.repeated_ns > s->sent_ns)
        moment_raise(m, &s->findings, FINDING_RETRIES_EXHAUSTED);
    else if (open != NULL && m->flow->peer != NULL)
        moment_raise(m, &s->findings, FINDING_UNANSWERED);
}
