/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fates carried out. A batch that leaves is judged as a whole when it is first
 * offered and then goes on in pieces: as many untouched datagrams in a row as there are, or
 * one that is treated in some way. When the inner link blocks, the next call goes on with the
 * same piece.
 */
#include "link/fault.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link/fault_fate.h"
#include "link/fault_held.h"
#include "wire/packet.h"

#define BATCH_COUNT_MAX 64u
#define ECN_CE 3u

/* What the inner link has not taken, and so must be offered next. */
enum blocked {
    BLOCKED_NOT,
    BLOCKED_HELD,  /* the first of the queue */
    BLOCKED_BATCH, /* a piece of the caller's batch */
};

struct fault {
    struct link link;

    /* set at creation */
    struct link *inner;
    uint64_t (*now)(void);
    uint64_t opened_ns;
    struct fault_plan plan;

    /* moves with packets */
    struct fault_judge judge;
    struct fault_queue queue[FAULT_DIRECTION_COUNT];
    uint64_t damaged; /* of those that came */
    uint64_t lost;    /* for want of room to hold them */
    uint64_t retry_ns;
    enum blocked blocked;
    bool judged;     /* the batch that is being sent */
    uint32_t next;   /* its datagram that is next */
    uint32_t copies; /* of that one which have left */
    struct fault_fate fate[BATCH_COUNT_MAX];

    /* one call of receive */
    link_receive_fn fn;
    void *context;
    uint64_t received_ns;
};

static struct fault *fault_of(struct link *link)
{
    return (struct fault *)(void *)link;
}

static const struct fault *fault_of_const(const struct link *link)
{
    return (const struct fault *)(const void *)link;
}

/* Passes on what the inner link tells by its fields. */
static void follow_inner(struct fault *f)
{
    f->link.counters = f->inner->counters;
    f->link.counters.icrc_error += f->damaged;
    f->link.write_descriptor = f->inner->write_descriptor;
}

static struct fault_held *hold(struct fault *f, enum fault_direction direction, uint64_t now,
                               const struct fault_fate *fate, const uint8_t *bytes, size_t len)
{
    struct fault_held *h =
        len <= DATAGRAM_LEN_MAX ? fault_queue_take_spare(&f->queue[direction]) : NULL;

    if (h == NULL) {
        f->lost++;
        return NULL;
    }
    h->due_ns = now + fate->delay_ns + (fate->overtakers > 0 ? FAULT_REORDER_WAIT_NS : 0);
    h->qpn = fault_packet_read(direction, bytes, len).qpn;
    h->overtakers = fate->overtakers;
    h->copies = fate->copies;
    h->corrupt = fate->corrupt;
    h->len = (uint32_t)len;
    memcpy(h->bytes, bytes, len);
    return h;
}

/* --- out --- */

static uint8_t *datagram_at(const struct datagram_batch *b, uint32_t i, size_t *len)
{
    *len = i + 1 < b->count ? b->segment_len : b->last_len;
    return b->buffer + i * b->segment_len;
}

/* The datagrams from first on as a batch of their own. */
static struct datagram_batch piece_of(const struct datagram_batch *b, uint32_t first,
                                      uint32_t count)
{
    struct datagram_batch piece = *b;
    size_t len;

    piece.buffer = datagram_at(b, first, &len);
    piece.capacity = b->capacity - first * b->segment_len;
    piece.count = count;
    datagram_at(b, first + count - 1, &piece.last_len);
    if (count == 1)
        piece.segment_len = piece.last_len;
    return piece;
}

/*
 * Sends a datagram and its copies, each alone, so that their frames are the same to the last byte.
 * *sent counts them. Returns 0 or -EAGAIN.
 */
static int send_copies(struct fault *f, struct datagram_batch *single, uint32_t copies,
                       uint32_t *sent)
{
    for (; *sent <= copies; ++*sent) {
        int err = link_send(f->inner, single);

        if (err != 0)
            return err;
    }
    *sent = 0;
    return 0;
}

/* Sends held packets that are due. Returns how many; blocked says whether it stopped early. */
static uint32_t release_out(struct fault *f, uint64_t now)
{
    struct fault_queue *q = &f->queue[FAULT_OUT];
    struct fault_held *h;
    uint32_t count = 0;

    if (f->blocked == BLOCKED_BATCH || (f->blocked == BLOCKED_HELD && now < f->retry_ns))
        return 0;
    while ((h = fault_queue_first(q)) != NULL && (h->due_ns <= now || f->blocked == BLOCKED_HELD)) {
        struct datagram_batch single = {
            .buffer = h->bytes,
            .capacity = sizeof(h->bytes),
            .count_max = 1,
            .path = h->path,
            .src_port = h->src_port,
            .dest_slot = h->dest_slot,
            .count = 1,
            .segment_len = h->len,
            .last_len = h->len,
            .damaged = h->corrupt,
        };

        f->blocked = BLOCKED_NOT;
        if (send_copies(f, &single, h->copies, &f->copies) != 0) {
            f->blocked = BLOCKED_HELD;
            f->retry_ns = now + FAULT_RETRY_NS;
            break;
        }
        fault_queue_remove(q, h);
        count++;
    }
    return count;
}

static void hold_out(struct fault *f, const struct datagram_batch *b, uint32_t i, uint64_t now)
{
    size_t len;
    const uint8_t *bytes = datagram_at(b, i, &len);
    struct fault_held *h = hold(f, FAULT_OUT, now, &f->fate[i], bytes, len);

    if (h == NULL)
        return;
    h->path = b->path;
    h->path.traffic_class |= f->fate[i].mark ? ECN_CE : 0;
    h->src_port = b->src_port;
    h->dest_slot = b->dest_slot;
    fault_queue_put(&f->queue[FAULT_OUT], h);
}

/* How many datagrams from first on are left as they are; one at a time while others wait for
 * them to pass. */
static uint32_t count_plain(const struct fault *f, const struct datagram_batch *b, uint32_t first)
{
    uint32_t count = 0;

    while (first + count < b->count && fault_fate_is_plain(&f->fate[first + count])) {
        count++;
        if (f->queue[FAULT_OUT].to_overtake > 0)
            break;
    }
    return count;
}

/* Carries out the fate of the next datagram, or of all plain ones. Returns 0 or -EAGAIN. */
static int send_piece(struct fault *f, const struct datagram_batch *b, uint64_t now)
{
    const struct fault_fate *fate = &f->fate[f->next];
    uint32_t count = count_plain(f, b, f->next);
    struct datagram_batch piece;
    int err = 0;

    if (fate->drop || fate->overtakers > 0 || fate->delay_ns > 0) {
        if (!fate->drop)
            hold_out(f, b, f->next, now);
        f->next++;
        return 0;
    }
    piece = piece_of(b, f->next, count > 0 ? count : 1);
    piece.path.traffic_class |= fate->mark ? ECN_CE : 0;
    piece.damaged = fate->corrupt;
    err = send_copies(f, &piece, fate->copies, &f->copies);
    f->blocked = err != 0 ? BLOCKED_BATCH : BLOCKED_NOT;
    if (err != 0)
        return err;
    fault_queue_pass(&f->queue[FAULT_OUT],
                     fault_packet_read(FAULT_OUT, piece.buffer, piece.last_len).qpn);
    f->next += piece.count;
    return 0;
}

static void judge_batch(struct fault *f, const struct datagram_batch *b, uint64_t now)
{
    assert(b->count <= BATCH_COUNT_MAX);
    for (uint32_t i = 0; i < b->count; i++) {
        size_t len;
        const uint8_t *bytes = datagram_at(b, i, &len);
        struct fault_packet p = fault_packet_read(FAULT_OUT, bytes, len);

        f->fate[i] = fault_judge(&f->judge, &p, now - f->opened_ns);
    }
    f->judged = true;
    f->next = 0;
}

static int fault_send(struct link *link, struct datagram_batch *b)
{
    struct fault *f = fault_of(link);
    uint64_t now = f->now();
    int err = 0;

    if (!f->judged)
        judge_batch(f, b, now);
    while (err == 0) {
        release_out(f, now);
        if (f->blocked == BLOCKED_HELD)
            err = -EAGAIN;
        else if (f->next < b->count)
            err = send_piece(f, b, now);
        else
            break;
    }
    f->judged = err != 0;
    follow_inner(f);
    return err;
}

/* --- in --- */

static void deliver(struct fault *f, const struct datagram *d, uint32_t copies)
{
    for (uint32_t i = 0; i <= copies; i++)
        f->fn(f->context, d);
}

static uint32_t release_in(struct fault *f, uint64_t now, uint32_t budget)
{
    struct fault_queue *q = &f->queue[FAULT_IN];
    struct fault_held *h;
    uint32_t count = 0;

    while (count < budget && (h = fault_queue_first(q)) != NULL && h->due_ns <= now) {
        deliver(f, &h->datagram, h->copies);
        fault_queue_remove(q, h);
        count++;
    }
    return count;
}

static void take(void *context, const struct datagram *d)
{
    struct fault *f = context;
    struct fault_packet p = fault_packet_read(FAULT_IN, d->bytes, d->len);
    struct fault_fate fate = fault_judge(&f->judge, &p, f->received_ns - f->opened_ns);
    struct datagram marked = *d;
    struct fault_held *h;

    if (fate.drop)
        return;
    if (fate.corrupt) {
        f->damaged++;
        return;
    }
    marked.traffic_class |= fate.mark ? ECN_CE : 0;
    if (fate.overtakers == 0 && fate.delay_ns == 0) {
        deliver(f, &marked, fate.copies);
        fault_queue_pass(&f->queue[FAULT_IN], p.qpn);
        release_in(f, 0, UINT32_MAX);
        return;
    }
    h = hold(f, FAULT_IN, f->received_ns, &fate, d->bytes, d->len);
    if (h == NULL)
        return;
    h->datagram = marked;
    h->datagram.bytes = h->bytes;
    fault_queue_put(&f->queue[FAULT_IN], h);
}

static uint32_t fault_receive(struct link *link, uint32_t budget, link_receive_fn fn, void *context)
{
    struct fault *f = fault_of(link);
    uint32_t count;

    f->fn = fn;
    f->context = context;
    f->received_ns = f->now();
    count = release_out(f, f->received_ns);
    count += release_in(f, f->received_ns, budget);
    count += link_receive(f->inner, budget, take, f);
    follow_inner(f);
    return count;
}

/* --- the rest of a link --- */

static uint32_t fault_local_room(struct link *link, const struct gid *dst, uint8_t slot)
{
    struct fault *f = fault_of(link);
    uint32_t room = link_local_room(f->inner, dst, slot);
    uint32_t taken = 2 * f->queue[FAULT_OUT].bytes;

    if (room == UINT32_MAX)
        return room;
    return room > taken ? room - taken : 0;
}

static int fault_listen(struct link *link, uint64_t service_id, const struct gid *local)
{
    return link_listen(fault_of(link)->inner, service_id, local);
}

static void fault_unlisten(struct link *link, uint64_t service_id, const struct gid *local)
{
    link_unlisten(fault_of(link)->inner, service_id, local);
}

static uint8_t fault_listener(struct link *link, uint64_t service_id, const struct gid *local)
{
    return link_listener(fault_of(link)->inner, service_id, local);
}

static bool fault_pass(struct link *link, uint8_t slot, const struct datagram *d)
{
    return link_pass(fault_of(link)->inner, slot, d);
}

static int fault_join(struct link *link, const struct multicast *group)
{
    return link_join(fault_of(link)->inner, group);
}

static void fault_leave(struct link *link, const struct multicast *group)
{
    link_leave(fault_of(link)->inner, group);
}

static uint32_t fault_local_buffer(struct link *link, const struct gid *dst, uint8_t slot)
{
    return link_local_buffer(fault_of(link)->inner, dst, slot);
}

static uint64_t fault_deadline(const struct link *link)
{
    const struct fault *f = fault_of_const(link);
    const struct fault_held *in = fault_queue_first(&f->queue[FAULT_IN]);
    const struct fault_held *out = fault_queue_first(&f->queue[FAULT_OUT]);
    uint64_t deadline = link_deadline(f->inner);

    if (in != NULL && in->due_ns < deadline)
        deadline = in->due_ns;
    if (out == NULL || f->blocked == BLOCKED_BATCH)
        return deadline;
    if (f->blocked == BLOCKED_HELD)
        return f->retry_ns < deadline ? f->retry_ns : deadline;
    return out->due_ns < deadline ? out->due_ns : deadline;
}

/* What is on its way arrives also when its sender is gone. */
static void fault_flush(struct link *link)
{
    struct fault *f = fault_of(link);

    f->retry_ns = 0;
    release_out(f, UINT64_MAX);
    follow_inner(f);
    link_flush(f->inner);
}

static void fault_finish(struct link *link)
{
    struct fault *f = fault_of(link);

    fault_flush(link);
    link_finish(f->inner);
}

static void release(struct fault *f)
{
    fault_queue_close(&f->queue[FAULT_IN]);
    fault_queue_close(&f->queue[FAULT_OUT]);
    free(f);
}

static void fault_close(struct link *link)
{
    struct fault *f = fault_of(link);

    link_close(f->inner);
    release(f);
}

static void fault_abandon(struct link *link)
{
    struct fault *f = fault_of(link);

    link_abandon(f->inner);
    release(f);
}

static const struct link_ops fault_ops = {
    .send = fault_send,
    .receive = fault_receive,
    .local_room = fault_local_room,
    .listen = fault_listen,
    .unlisten = fault_unlisten,
    .listener = fault_listener,
    .pass = fault_pass,
    .join = fault_join,
    .leave = fault_leave,
    .local_buffer = fault_local_buffer,
    .deadline = fault_deadline,
    .flush = fault_flush,
    .finish = fault_finish,
    .abandon = fault_abandon,
    .close = fault_close,
};

int fault_link_open(const struct fault_config *config, struct link *inner, struct link **out)
{
    struct fault *f = calloc(1, sizeof(*f));

    if (f == NULL)
        return -ENOMEM;
    if (fault_queue_open(&f->queue[FAULT_IN]) != 0 || fault_queue_open(&f->queue[FAULT_OUT]) != 0) {
        release(f);
        return -ENOMEM;
    }
    f->link = *inner;
    f->link.ops = &fault_ops;
    f->inner = inner;
    f->now = config->now;
    f->opened_ns = config->now();
    f->plan = *config->plan;
    fault_judge_init(&f->judge, &f->plan, config->seed);
    *out = &f->link;
    return 0;
}

void fault_link_report(const struct link *link, const char *prefix, char *out, size_t len)
{
    const struct fault *f = fault_of_const(link);
    size_t at = 0;

    assert(link->ops == &fault_ops);
    for (uint32_t i = 0; i < f->plan.rule_count && at < len; i++) {
        const struct fault_rule *r = &f->plan.rule[i];

        at += (size_t)snprintf(out + at, len - at, "%s%-28.*s %llu packets seen, %llu hit\n",
                               prefix, (int)r->text_len, f->plan.text + r->text_at,
                               (unsigned long long)f->judge.tally[i].seen,
                               (unsigned long long)f->judge.tally[i].hit);
    }
    if (f->lost > 0 && at < len)
        snprintf(out + at, len - at, "%s%llu packets lost for want of room to hold them back\n",
                 prefix, (unsigned long long)f->lost);
}
