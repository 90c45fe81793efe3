/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What may be in flight to one destination process. The buffer that overflows
 * is the receiving process's socket, so all QPs that go to one (address, slot)
 * share one window; it shrinks on loss and grows by one packet a round. A
 * second use: the READ responses that this engine lets be on their way to its
 * own socket.
 */
#ifndef UROCE_ENGINE_WINDOW_PRIVATE_H
#define UROCE_ENGINE_WINDOW_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "wire/datagram.h"

/* What a packet costs the receiver beside its payload, when it came in a batch. */
#define WINDOW_PACKET_COST TRUESIZE_SEGMENT

struct window {
    struct gid dst;
    uint8_t slot;
    uint32_t use_count; /* QPs that go there */
    uint32_t limit;     /* bytes */
    uint32_t limit_max;
    uint32_t in_flight;  /* bytes */
    uint32_t grown;      /* bytes acknowledged since the limit last grew and it was full */
    bool filled;         /* it was full since then */
    uint64_t shrunk_ns;  /* when it last shrank */
    uint64_t told_ns;    /* when the process there was last told of congestion here */
    struct list waiting; /* QPs that wait for room, oldest first */
    struct list link;    /* in window_table */
};

/*
 * A queue pair's share of what a window has in flight. A packet's price in a batch follows from
 * its length alone, and so is known again when it is acknowledged. What a batch costs more, or a
 * packet that left alone, is remembered as one sum and given back in proportion.
 */
struct flight {
    uint32_t bytes;
    uint32_t extra;
};

#define WINDOW_BUCKETS 64u

struct window_table {
    struct list buckets[WINDOW_BUCKETS];
};

struct engine;

void window_table_init(struct window_table *t);

/* Where the QPs of one destination process meet. pmtu sizes the first limit. NULL: no memory. */
struct window *window_get(struct engine *e, const struct gid *dst, uint8_t slot, uint32_t pmtu);
void window_put(struct window *w);

void window_init(struct window *w, uint32_t limit, uint32_t limit_max);

/* Room for one more packet, whatever its size: so that large packets are not starved by small ones.
 */
static inline bool window_has_room(const struct window *w)
{
    return w->in_flight < w->limit;
}

static inline void window_charge(struct window *w, uint32_t bytes)
{
    w->in_flight += bytes;
    w->filled |= !window_has_room(w);
}

/* Takes bytes out of flight and lets the next QP that waits try again. */
void window_release(struct window *w, uint32_t bytes);

/* The same for a queue pair's share: what left; what it costs more; what arrived; all of it. */
void flight_charge(struct flight *f, struct window *w, uint32_t bytes);
void flight_charge_extra(struct flight *f, struct window *w, uint32_t bytes);
void flight_release(struct flight *f, struct window *w, uint32_t bytes);
void flight_end(struct flight *f, struct window *w);

/* Lets the QP that waits longest try again, if there is room. It keeps its place till it sends. */
void window_wake(struct window *w);

/* Whether there is room and nobody has waited longer than the QP of this link. */
bool window_admits(const struct window *w, const struct list *link);

/* bytes were acknowledged: one more packet a round, if the window was full. */
void window_grow(struct window *w, uint32_t bytes, uint32_t pmtu);

/* A packet was lost: half, once a while. */
void window_shrink(struct window *w, uint64_t now);

#endif
