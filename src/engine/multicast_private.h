/* SPDX-License-Identifier: BSD-2-Clause */
/* Who is attached to which group, and which addresses this engine sends from. */
#ifndef UROCE_ENGINE_MULTICAST_PRIVATE_H
#define UROCE_ENGINE_MULTICAST_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "engine/multicast.h"

struct packet;

#define MULTICAST_BUCKETS 64u
#define MULTICAST_SOURCES 64u /* as many addresses as an interface has places for */

struct multicast_member {
    struct list link; /* on the group's members */
    struct qp *qp;
};

struct multicast_group {
    struct list link; /* on its bucket */
    struct multicast id;
    struct list members; /* in the order of attaching, never empty */
    uint32_t member_count;
};

struct multicast_table {
    struct list buckets[MULTICAST_BUCKETS];
    uint32_t group_count;
    /* Own addresses that multicasts left from; the oldest makes way. */
    struct gid sources[MULTICAST_SOURCES];
    uint32_t source_count; /* ever noted */
};

void multicast_table_init(struct multicast_table *t);

/* The group that a datagram with a multicast address or QPN is for; NULL: none, which is counted.
 */
struct multicast_group *multicast_find(struct engine *e, const struct packet *p,
                                       const struct datagram *d);

/* True when the QP itself has sent it. */
bool multicast_is_own(const struct qp *qp, const struct packet *p, const struct datagram *d);

/* A batch leaves: counts, and remembers the address, if it is for a group. */
void multicast_note_sent(struct qp *qp, const struct datagram_batch *b);

#endif
