/* SPDX-License-Identifier: BSD-2-Clause */
/* Completions of receive requests: see delivery.h. */
#include "checkers/delivery.h"

#include <stdlib.h>
#include <string.h>

#include "support/expect.h"
#include "support/pattern.h"

#define GRH_LEN 40u

void delivery_posted(struct receive_queue *q, struct receive *r)
{
    uint32_t i;

    if (q->count == q->capacity) {
        q->capacity = q->capacity ? 2 * q->capacity : 64;
        q->receives = realloc(q->receives, q->capacity * sizeof(struct receive *));
        EXPECT(q->receives, "no memory for the test itself");
    }
    r->queue = q;
    r->index = q->count;
    r->capacity = 0;
    for (i = 0; i < r->piece_count; i++) {
        r->claims[i] = claim_open(r->pieces[i], NULL);
        r->capacity += r->pieces[i].len;
    }
    q->receives[q->count++] = r;
    q->open++;
}

/*
 * Bytes from skip on of what the receive request holds that are those of the
 * message; all the rest of the request must be as it was.
 */
static bool holds_message(const struct receive *r, const struct message *m, uint32_t skip)
{
    uint32_t at = 0; /* in the receive request */
    uint32_t i;

    for (i = 0; i < r->piece_count; i++) {
        const struct piece *p = &r->pieces[i];
        uint32_t from = at < skip ? skip - at : 0;
        uint32_t done = at + from - skip; /* in the message, once from is in range */
        uint32_t len;

        at += p->len;
        if (from >= p->len || done >= m->length)
            continue;
        len = p->len - from < m->length - done ? p->len - from : m->length - done;
        if (pattern_matches(m->id, done, p->book->bytes + p->offset + from, len) < len)
            return false;
    }
    return true;
}

static void check_rest(const struct receive *r, uint32_t used, const char *who)
{
    uint32_t at = 0;
    uint32_t i;

    for (i = 0; i < r->piece_count; i++) {
        const struct piece *p = &r->pieces[i];
        uint32_t from = used <= at ? 0 : used - at;

        at += p->len;
        if (from >= p->len)
            continue;
        EXPECT(memcmp(p->book->bytes + p->offset + from, p->book->settled + p->offset + from,
                      p->len - from) == 0,
               "%s: receive %u changed behind the %u bytes of its message", who, r->index, used);
    }
}

/* Why the completion is not that of m, or NULL when it is. */
static const char *mismatch(const struct message *m, const struct completion *wc)
{
    bool imm = m->opcode == WR_SEND_IMM || m->opcode == WR_WRITE_IMM;
    enum completion_opcode opcode =
        m->opcode == WR_WRITE_IMM ? COMPLETION_RECV_WRITE_IMM : COMPLETION_RECV;

    if (wc->opcode != opcode)
        return "opcode";
    if (imm != !!(wc->flags & COMPLETION_IMM))
        return "immediate flag";
    if ((m->opcode == WR_SEND_INV) != !!(wc->flags & COMPLETION_INVALIDATED))
        return "invalidated flag";
    if ((imm || m->opcode == WR_SEND_INV) && wc->imm != m->imm)
        return "immediate data";
    return NULL;
}

static struct message *match_reliable(struct channel *from, const struct receive *r,
                                      const struct completion *wc)
{
    struct message *m = NULL;
    const char *why;

    while (from->delivered < from->count) {
        m = from->messages[from->delivered++];
        if (opcode_takes_receive(m->opcode))
            break;
        m = NULL;
    }
    EXPECT(m, "%s: a message arrived that was not sent", from->name);
    EXPECT(!m->refused, "%s: %s arrived and must not", from->name, message_name(m));
    why = mismatch(m, wc);
    EXPECT(!why, "%s: %s arrives with a wrong %s", from->name, message_name(m), why);
    EXPECT(wc->byte_len == m->length, "%s: %s arrives with byte_len %u", from->name,
           message_name(m), wc->byte_len);
    if (m->opcode != WR_WRITE_IMM)
        EXPECT(holds_message(r, m, 0), "%s: %s arrives with wrong bytes", from->name,
               message_name(m));
    return m;
}

static bool is_that(const struct receive *r, const struct completion *wc, const struct message *m,
                    uint32_t skip)
{
    return opcode_takes_receive(m->opcode) && !m->refused && !mismatch(m, wc) &&
           wc->byte_len == m->length + skip &&
           (m->opcode == WR_WRITE_IMM || holds_message(r, m, skip));
}

/*
 * A packet that starts a message is taken whatever its PSN (IBA 9.8.2), so
 * that a wire which repeats and reorders does the same to short messages.
 */
static struct message *match_unreliable(struct channel *from, const struct receive *r,
                                        const struct completion *wc, const struct receiver *to)
{
    uint32_t i;

    for (i = to->duplicates ? from->life_first : from->delivered; i < from->count; i++) {
        if (is_that(r, wc, from->messages[i], 0)) {
            from->delivered = i + 1;
            return from->messages[i];
        }
    }
    EXPECT(false, "%s: receive %u holds %u bytes that are no message after request %u", from->name,
           r->index, wc->byte_len, from->delivered);
    return NULL;
}

static void check_grh(const struct receive *r, const struct message *m)
{
    const uint8_t *grh = r->pieces[0].book->bytes + r->pieces[0].offset;
    const struct path *path = &m->path;

    if (r->pieces[0].len < GRH_LEN)
        return; /* spread over several pieces: looked at when it is in one */
    if (gid_is_ipv4(&path->dst)) {
        EXPECT(grh[20] == 0x45, "%s: no IPv4 header in the GRH", message_name(m));
        EXPECT(grh[29] == 17, "%s: protocol %u in the GRH", message_name(m), grh[29]);
        EXPECT(memcmp(grh + 32, path->src.bytes + 12, 4) == 0, "%s: source in the GRH",
               message_name(m));
        EXPECT(memcmp(grh + 36, path->dst.bytes + 12, 4) == 0, "%s: destination in the GRH",
               message_name(m));
        return;
    }
    EXPECT(grh[0] >> 4 == 6, "%s: no IPv6 header in the GRH", message_name(m));
    EXPECT(memcmp(grh + 8, path->src.bytes, 16) == 0, "%s: source in the GRH", message_name(m));
    EXPECT(memcmp(grh + 24, path->dst.bytes, 16) == 0, "%s: destination in the GRH",
           message_name(m));
}

static bool is_for(const struct message *m, const struct receiver *to)
{
    return m->members ? m->members & to->member : m->destination == to->destination;
}

/* By the destination in the GRH, where that is in one piece: messages without bytes look the same
 * otherwise, whether they are for a group or not. */
static bool was_sent_there(const struct message *m, const struct receive *r)
{
    const uint8_t *grh = r->pieces[0].book->bytes + r->pieces[0].offset;

    if (r->pieces[0].len < GRH_LEN)
        return true;
    if (gid_is_ipv4(&m->path.dst))
        return memcmp(grh + 36, m->path.dst.bytes + 12, 4) == 0;
    return memcmp(grh + 24, m->path.dst.bytes, 16) == 0;
}

/* This receiver has it. */
static bool was_delivered(const struct message *m, const struct receiver *to)
{
    return m->members ? m->reached & to->member : m->deliveries > 0;
}

static struct message *match_datagram(struct channel *from, const struct receive *r,
                                      const struct completion *wc, const struct receiver *to)
{
    struct message *again = NULL;
    struct message *m;
    uint32_t i;

    EXPECT(wc->flags & COMPLETION_GRH, "%s: a datagram arrives without GRH", from->name);
    for (i = 0; i < from->count; i++) {
        m = from->messages[i];
        if (!is_for(m, to) || !was_sent_there(m, r) || !is_that(r, wc, m, GRH_LEN))
            continue;
        if (!was_delivered(m, to))
            break;
        again = m;
    }
    m = i < from->count ? from->messages[i] : again;
    EXPECT(m, "%s: receive %u holds %u bytes that are no datagram", from->name, r->index,
           wc->byte_len);
    EXPECT(!was_delivered(m, to) || to->duplicates, "%s: %s arrives a second time", from->name,
           message_name(m));
    m->reached |= to->member;
    check_grh(r, m);
    return m;
}

static void end_receive(struct receive *r)
{
    uint32_t i;

    for (i = 0; i < r->piece_count; i++)
        claim_done(r->claims[i], "receive");
    r->completed = true;
    r->queue->open--;
}

static void check_order(struct receive *r)
{
    struct receive_queue *q = r->queue;

    EXPECT(!r->completed, "%s: receive %u completes a second time", q->name, r->index);
    if (q->shared)
        return;
    EXPECT(r->index == q->completed, "%s: receive %u completes before receive %u", q->name,
           r->index, q->completed);
    q->completed++;
}

static void check_error(struct receive *r, const struct completion *wc)
{
    struct receive_queue *q = r->queue;
    uint32_t allowed = q->errors_allowed | r->errors_allowed;

    EXPECT(q->forged || (allowed & STATUS_BIT(wc->status)), "%s: receive %u ends with %s", q->name,
           r->index, status_name(wc->status));
    EXPECT(!q->failed || wc->status == STATUS_WR_FLUSH_ERR || q->shared,
           "%s: receive %u ends with %s after an error", q->name, r->index,
           status_name(wc->status));
    q->failed = true;
}

struct message *delivery_completed(struct channel *from, struct receive *r,
                                   const struct completion *wc, const struct receiver *to)
{
    struct message *m;

    check_order(r);
    if (wc->status != STATUS_SUCCESS) {
        check_error(r, wc);
        end_receive(r);
        return NULL;
    }
    EXPECT(r->queue->shared || !r->queue->failed, "%s: receive %u succeeds after an error",
           r->queue->name, r->index);
    if (r->queue->forged) {
        end_receive(r);
        return NULL;
    }
    EXPECT(from, "%s: receive %u got something from an unknown sender", r->queue->name, r->index);
    if (channel_is_reliable(from))
        m = match_reliable(from, r, wc);
    else if (from->service == SERVICE_UC)
        m = match_unreliable(from, r, wc, to);
    else
        m = match_datagram(from, r, wc, to);
    EXPECT(!m->queue || m->queue == r->queue, "%s: %s arrives in another SRQ", from->name,
           message_name(m));
    m->deliveries++;
    if (m->target && !(from->service == SERVICE_UC && to->duplicates))
        claim_verify(m->target, message_name(m));
    if (from->service != SERVICE_UC) /* a message that broke off may have left bytes */
        check_rest(r, m->opcode == WR_WRITE_IMM ? 0 : wc->byte_len, r->queue->name);
    end_receive(r);
    return m;
}

void delivery_forget(struct receive_queue *q)
{
    for (; q->completed < q->count; q->completed++)
        end_receive(q->receives[q->completed]);
}

void delivery_check_all(struct channel *from)
{
    uint32_t i;

    for (i = from->delivered; channel_is_reliable(from) && i < from->count; i++) {
        const struct message *m = from->messages[i];

        EXPECT(!opcode_takes_receive(m->opcode) || m->status != STATUS_SUCCESS || !m->completed,
               "%s: %s completed with success and was not received", from->name, message_name(m));
    }
}

void receive_queue_fini(struct receive_queue *q)
{
    uint32_t i;

    for (i = 0; i < q->count; i++)
        free(q->receives[i]);
    free(q->receives);
}
