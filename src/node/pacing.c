/* SPDX-License-Identifier: BSD-2-Clause */
/* Buckets kept as the time at which they will be full again. */
#include "node/pacing.h"

#define NS_PER_S 1000000000u

/*
 * With no rate given: the receiver's buffer is taken to be as large as ours. Half of it is what
 * payload fits in (the rest is the kernel's own cost), and half of that may arrive in a
 * millisecond, about as long as a receiver sleeps before its core is its own again.
 */
#define AUTO_RATE_MAX_BPS 10000000000u
#define AUTO_BURST_MIN 16384u
#define AUTO_BURST_MAX 262144u

static uint64_t clamp(uint64_t value, uint64_t min, uint64_t max)
{
    return value < min ? min : value > max ? max : value;
}

void pacing_init(struct pacing *p, uint64_t rate_bps, uint32_t receive_buffer)
{
    *p = (struct pacing){
        .rate_bps = rate_bps,
        .burst_len = clamp(receive_buffer / 8, AUTO_BURST_MIN, AUTO_BURST_MAX),
    };
    if (rate_bps == PACING_AUTO)
        p->rate_bps = clamp((uint64_t)receive_buffer / 4 * 8 * 1000, 1, AUTO_RATE_MAX_BPS);
}

static uint32_t place_of(const struct gid *dst, uint8_t slot)
{
    uint32_t hash = slot;

    for (uint32_t i = 0; i < sizeof(dst->bytes); i++)
        hash = hash * 31u + dst->bytes[i];
    return hash % PACING_PLACES;
}

uint32_t pacing_room(const struct pacing *p, const struct gid *dst, uint8_t slot, uint64_t now)
{
    uint64_t paid_ns = p->paid_ns[place_of(dst, slot)];
    uint64_t used_len;

    if (p->rate_bps == 0)
        return UINT32_MAX;
    if (paid_ns <= now)
        return (uint32_t)p->burst_len;
    used_len = (uint64_t)((double)(paid_ns - now) * (double)p->rate_bps / (8.0 * NS_PER_S));
    return used_len < p->burst_len ? (uint32_t)(p->burst_len - used_len) : 0;
}

void pacing_charge(struct pacing *p, const struct datagram_batch *b, uint64_t len, uint64_t now)
{
    uint64_t *paid_ns = &p->paid_ns[place_of(&b->path.dst, b->dest_slot)];

    if (p->rate_bps == 0)
        return;
    if (*paid_ns < now)
        *paid_ns = now;
    *paid_ns += len * 8u * NS_PER_S / p->rate_bps;
}
