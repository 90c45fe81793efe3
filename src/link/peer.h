/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the link remembers of a pair of addresses, its own and another: prepared
 * ICRCs of both directions, the identifications seen, what went wrong before. A
 * cache of fixed size; forgetting an entry costs a little speed or repeats a hint, so it does
 * not matter that anyone can fill it with addresses.
 */
#ifndef UROCE_LINK_PEER_H
#define UROCE_LINK_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "link/limits.h"
#include "wire/icrc.h"

/* Said once for each peer. */
enum peer_hint {
    PEER_HINT_REFUSED,
    PEER_HINT_UNREACHABLE,
    PEER_HINT_TOO_BIG,
    PEER_HINT_FAILED,
    PEER_HINT_GSO,
    PEER_HINT_NAT,
};

struct peer {
    struct gid own;
    struct gid other;
    struct icrc_flow out;
    struct icrc_flow in;
    bool used;
    bool gso_refused; /* batches to it must leave one by one */
    uint8_t hints;    /* bit per enum peer_hint */
    uint16_t id_next; /* from which the identification of what we send raw is made */
    bool id_known;
    uint16_t id_last; /* identification of the last datagram accepted from it */
    /* The last datagram with a bad ICRC: its trailer, and the addresses that would explain it. */
    uint32_t bad_icrc;
    struct gid bad_src;
    struct gid bad_dst;
};

struct peers {
    struct peer entry[PEERS_SETS][PEERS_WAYS];
    uint8_t victim[PEERS_SETS];
};

/* The entry of a pair, made if need be; good till the next call. */
struct peer *peers_get(struct peers *t, const struct gid *own, const struct gid *other);

/* True the first time for each hint. */
bool peer_hint_due(struct peer *p, enum peer_hint hint);

/*
 * The identification that the next datagram from this peer probably has: for
 * a segment of a super-packet the one after its predecessor's, else by history.
 */
uint16_t peer_id_expected(const struct peer *p);

/*
 * Notes the identification of a datagram with a good ICRC. False if it fits no
 * history: neither low, as of a sender that numbers the segments of each send, nor
 * a little ahead of the last one.
 */
bool peer_id_note(struct peer *p, uint16_t identification);

#endif
