/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How fast UC and UD may leave to a process on another host, whose socket
 * nobody here sees: a bucket of bytes for each (address, slot) that fills at a
 * given rate. A small table: destinations that meet in one place share it.
 */
#ifndef UROCE_NODE_PACING_H
#define UROCE_NODE_PACING_H

#include <stdint.h>

#include "wire/datagram.h"

#define PACING_PLACES 64u
#define PACING_AUTO UINT64_MAX

struct pacing {
    uint64_t rate_bps; /* 0: unlimited */
    uint64_t burst_len;
    uint64_t paid_ns[PACING_PLACES]; /* until when the bytes that left have used the rate up */
};

/* rate_bps 0: unlimited; PACING_AUTO: by our own receive buffer (bytes as the kernel accounts). */
void pacing_init(struct pacing *p, uint64_t rate_bps, uint32_t receive_buffer);

/* Bytes that may leave now. */
uint32_t pacing_room(const struct pacing *p, const struct gid *dst, uint8_t slot, uint64_t now);

/* So many bytes leave. */
void pacing_charge(struct pacing *p, const struct datagram_batch *b, uint64_t len, uint64_t now);

#endif
