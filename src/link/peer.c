/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small set-associative table; the oldest entry of a set makes way.
 */
#include "link/peer.h"

#include "link/gid_hash.h"

struct peer *peers_get(struct peers *t, const struct gid *own, const struct gid *other)
{
    uint64_t set = gid_hash(other, gid_hash(own, 0)) % PEERS_SETS;
    struct peer *p;

    for (p = t->entry[set]; p < t->entry[set] + PEERS_WAYS; p++) {
        if (p->used && gid_equal(&p->other, other) && gid_equal(&p->own, own))
            return p;
    }
    p = &t->entry[set][t->victim[set]];
    t->victim[set] = (uint8_t)((t->victim[set] + 1u) % PEERS_WAYS);
    *p = (struct peer){.own = *own, .other = *other, .used = true};
    icrc_flow_init(&p->out, own, other);
    icrc_flow_init(&p->in, other, own);
    return p;
}

bool peer_hint_due(struct peer *p, enum peer_hint hint)
{
    bool due = !(p->hints >> hint & 1);

    p->hints |= (uint8_t)(1u << hint);
    return due;
}

uint16_t peer_id_expected(const struct peer *p)
{
    return p->id_known && p->id_last >= ID_OWN_MAX ? (uint16_t)(p->id_last + 1) : 0;
}

bool peer_id_note(struct peer *p, uint16_t identification)
{
    bool fits = identification < ID_OWN_MAX ||
                (p->id_known && (uint16_t)(identification - p->id_last) <= ID_AHEAD_MAX);

    p->id_known = true;
    p->id_last = identification;
    return fits;
}
