/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses: what the interface calls an address vector (GID table index,
 * destination GID, traffic class ...) as the engine's path, and the handles
 * of datagram destinations.
 */
#ifndef UROCE_VERBS_AH_H
#define UROCE_VERBS_AH_H

#include <infiniband/verbs.h>
#include <stddef.h>

#include "engine/qp.h"

struct context_handle;

struct ah_handle {
    struct ibv_ah ibv;
    struct ah ah;
};

static inline struct ah_handle *ah_of(struct ibv_ah *ibv)
{
    return (struct ah_handle *)((char *)ibv - offsetof(struct ah_handle, ibv));
}

/*
 * 0 or a positive errno: EINVAL without a global route, for another port than
 * 1, a GID index without an entry, GIDs of two address families, or a static rate that is none.
 */
int path_from_ah_attr(struct context_handle *c, const struct ibv_ah_attr *attr, struct path *out);

#endif
