/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What reached this process and is another's, on its way there. Datagrams are packed into parcels,
 * one for all of a process that came together, since an inbox takes few messages of whatever size
 * (net.unix.max_dgram_qlen, usually 10). A parcel for which there is no room waits here and others
 * join it: a process that gets no core for a while loses nothing. All that is bounded: the oldest
 * parcel makes way for a new one, and none waits longer than a second.
 */
#include "link/udp_private.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static_assert(PARCELS_MAX * RECEIVE_STRIDE < (1u << 31), "all parcels have an offset");

/* Room for one datagram of any length and what stands in front of it. */
static_assert(RECEIVE_STRIDE >= RECEIVE_LEN_MAX + sizeof(struct arrival), "the longest fits");

int udp_parcels_prepare(struct udp *u)
{
    void *at = mmap(NULL, (size_t)PARCELS_MAX * RECEIVE_STRIDE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == MAP_FAILED)
        return -errno;
    u->parcels.bytes = at;
    for (uint32_t i = 0; i < PARCELS_MAX; i++)
        u->parcels.parcel[i].bytes = u->parcels.bytes + (size_t)i * RECEIVE_STRIDE;
    return 0;
}

void udp_parcels_release(struct udp *u)
{
    if (u->parcels.bytes)
        munmap(u->parcels.bytes, (size_t)PARCELS_MAX * RECEIVE_STRIDE);
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t udp_parcels_deadline(const struct link *link)
{
    const struct parcels *all = &((const struct udp *)(const void *)link)->parcels;

    return all->count ? all->retry_ns : UINT64_MAX;
}

/* The parcel is gone; the place that it had is the last one's that is free. */
static void remove_parcel(struct parcels *all, uint32_t index)
{
    struct parcel gone = all->parcel[index];

    all->count--;
    memmove(&all->parcel[index], &all->parcel[index + 1],
            (all->count - index) * sizeof(struct parcel));
    all->parcel[all->count] = (struct parcel){.bytes = gone.bytes};
}

static enum handed hand_over(struct udp *u, const struct parcel *p)
{
    return udp_host_serves(u, p->slot)
               ? udp_host_pass(u, p->slot, p->bytes, p->len)
               : inbox_hand_over(u->inbox, &u->group, p->slot, p->bytes, p->len);
}

static void count_parcel(struct udp *u, const struct parcel *p, enum handed how)
{
    struct link_counters *counters = &u->link.counters;
    bool guest = udp_host_serves(u, p->slot);

    switch (how) {
    case HANDED_OVER:
        *(guest ? &counters->guest_datagrams : &counters->wrong_slot_segments) += p->count;
        break;
    case HANDED_TO_NOBODY:
        counters->stray_dropped += p->count;
        break;
    case HANDED_FULL:
        *(guest ? &counters->guest_full : &counters->hand_over_full) += p->count;
        break;
    }
}

/* The newest parcel for a slot, when so much more fits; else a new one. */
static struct parcel *parcel_for(struct udp *u, uint8_t slot, size_t len)
{
    struct parcels *all = &u->parcels;
    struct parcel *p;

    for (uint32_t i = all->count; i > 0; i--) {
        p = &all->parcel[i - 1];
        if (p->slot != slot)
            continue;
        if (p->len + len <= RECEIVE_STRIDE)
            return p;
        break;
    }
    if (all->count == PARCELS_MAX)
        udp_parcels_send(u);
    if (all->count == PARCELS_MAX) {
        count_parcel(u, &all->parcel[0], HANDED_FULL);
        remove_parcel(all, 0);
    }
    p = &all->parcel[all->count++];
    p->slot = slot;
    p->since_ns = 0;
    return p;
}

void udp_parcel_add(struct udp *u, uint8_t slot, const struct arrival *a, const uint8_t *bytes,
                    uint32_t count)
{
    struct parcel *p = parcel_for(u, slot, sizeof(*a) + a->len);

    memcpy(p->bytes + p->len, a, sizeof(*a));
    memcpy(p->bytes + p->len + sizeof(*a), bytes, a->len);
    p->len += (uint32_t)sizeof(*a) + a->len;
    p->count += count;
    u->parcels.added = true;
}

/* It waits; soon it is tried again, and the longer it waits the later. */
static void keep(struct parcels *all, struct parcel *p, uint64_t now)
{
    uint64_t pause;

    if (!p->since_ns)
        p->since_ns = now;
    pause = (now - p->since_ns) / 4;
    if (pause < PARCEL_RETRY_MIN_NS)
        pause = PARCEL_RETRY_MIN_NS;
    if (pause > PARCEL_RETRY_MAX_NS)
        pause = PARCEL_RETRY_MAX_NS;
    if (now + pause < all->retry_ns)
        all->retry_ns = now + pause;
}

void udp_parcels_send(struct udp *u)
{
    struct parcels *all = &u->parcels;
    bool blocked[SLOT_COUNT] = {false};
    uint64_t now = 0;
    uint32_t i = 0;

    all->added = false;
    all->retry_ns = UINT64_MAX;
    while (i < all->count) {
        struct parcel *p = &all->parcel[i];
        enum handed how = blocked[p->slot] ? HANDED_FULL : hand_over(u, p);

        if (how == HANDED_FULL && !now)
            now = now_ns();
        if (how == HANDED_FULL && (!p->since_ns || now - p->since_ns < LOCAL_STALL_NS)) {
            blocked[p->slot] = true;
            keep(all, p, now);
            i++;
        } else {
            count_parcel(u, p, how);
            remove_parcel(all, i);
        }
    }
}

void udp_parcels_retry(struct udp *u)
{
    if (u->parcels.count && now_ns() >= u->parcels.retry_ns)
        udp_parcels_send(u);
}
