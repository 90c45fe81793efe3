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
#define WINDOW_PACKET_COST 300u

struct window {
    struct gid dst;
    uint8_t slot;
    uint32_t use_count;       /* QPs that go there */
    uint32_t limit;           /* bytes */
    uint32_t limit_max;
    uint32_t in_flight;       /* bytes */
    uint32_t grown;           /* bytes acknowledged since the limit last grew */
    uint64_t shrunk_ns;       /* when it last shrank */
    uint64_t pace_ns;         /* when the next UC or UD packet may leave */
    struct list waiting;      /* QPs that wait for room, oldest first */
    struct list link;         /* in window_table */
};

#define WINDOW_BUCKETS 64u

struct window_table {
    struct list buckets[WINDOW_BUCKETS];
};

#endif
