/* SPDX-License-Identifier: BSD-2-Clause */
/* Buckets kept as the time at which they will be full again. */
#include "node/pacing.h"

#define NS_PER_S 1000000000u

/* About what a sleeping receiver's socket holds with the kernel's default buffer (measured),
 * halved. */
#define BURST_LEN 49152u

void pacing_init(struct pacing *p, uint64_t rate_bps)
{
    *p = (struct pacing){.rate_bps = rate_bps, .burst_len = BURST_LEN};
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
