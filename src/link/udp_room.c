/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Room at receivers on this host. Whoever sends adds what its datagrams will take
 * of the receiver's kernel memory to a sum in the group's memory; the receiver
 * adds what it has read to another (udp_receive.c).
 */
#include "link/udp_private.h"

bool udp_counts_room(struct udp *u, const struct gid *dst, uint8_t slot)
{
    return slot >= SLOT_FIRST && slot <= SLOT_LAST &&
           atomic_load_explicit(&u->group.shared->slots[slot].budget, memory_order_relaxed) &&
           routes_is_local(&u->routes, dst, udp_now_ns());
}

uint32_t udp_local_buffer(struct link *link, const struct gid *dst, uint8_t slot)
{
    struct udp *u = udp_of(link);

    return udp_counts_room(u, dst, slot)
               ? atomic_load_explicit(&u->group.shared->slots[slot].budget, memory_order_relaxed)
               : 0;
}

bool udp_delivers_whole(struct link *link, const struct path *path, uint8_t slot)
{
    struct udp *u = udp_of(link);

    return !u->config.no_gso &&
           atomic_load_explicit(&u->group.shared->slots[slot].whole, memory_order_relaxed) &&
           udp_counts_room(u, &path->dst, slot) &&
           !peers_get(&u->peers, &path->src, &path->dst)->gso_refused;
}

/* A receiver that moved nothing since room ran out, a second ago, no longer holds anyone up. */
static bool is_stalled(struct udp *u, uint8_t slot, uint64_t consumed)
{
    uint64_t now_ns = udp_now_ns();

    if (!u->stalled_since_ns[slot] || u->stalled_at[slot] != consumed) {
        u->stalled_since_ns[slot] = now_ns;
        u->stalled_at[slot] = consumed;
    }
    return now_ns - u->stalled_since_ns[slot] >= LOCAL_STALL_NS;
}

uint32_t udp_local_room(struct link *link, const struct gid *dst, uint8_t slot)
{
    const uint32_t reserve = datagram_truesize(SEND_SEGMENTS_MAX, 0);
    struct udp *u = udp_of(link);
    struct shared_slot *r = &u->group.shared->slots[slot];
    uint64_t consumed = atomic_load_explicit(&r->consumed, memory_order_acquire);
    int64_t used = (int64_t)(atomic_load_explicit(&r->charged, memory_order_acquire) - consumed);
    int64_t room;

    if (!udp_counts_room(u, dst, slot))
        return UINT32_MAX;
    room = (int64_t)atomic_load_explicit(&r->budget, memory_order_relaxed) - reserve;
    if (used > 0)
        room -= used;
    else if (room < DATAGRAM_LEN_MAX)
        room = DATAGRAM_LEN_MAX;
    if (room < DATAGRAM_LEN_MAX)
        return is_stalled(u, slot, consumed) ? UINT32_MAX : 0;
    u->stalled_since_ns[slot] = 0;
    return (uint32_t)room;
}
