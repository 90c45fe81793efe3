/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of queues out of the allocators of a parent domain (ibv_alloc_parent_domain(3)).
 * The application's functions are called without the node's lock: they may wait for a lock
 * of their own whose owner waits for ours.
 */
#ifndef UROCE_VERBS_RINGS_H
#define UROCE_VERBS_RINGS_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

struct pd_handle;

/* What the allocators are told: the low half of resource_type; the high one is 0, no driver's. */
enum rings_use {
    RINGS_QP = 1,
    RINGS_CQ = 2,
    RINGS_SRQ = 3,
};

struct rings {
    void *bytes; /* NULL: the library's own */
    struct pd_handle *parent;
    enum rings_use use;
};

/*
 * len zeroed bytes from the allocators of pd, which is held until rings_free. Nothing when it has
 * none, when they leave it to the library, or for a len of 0. Returns 0, ENOMEM, or EINVAL for
 * memory that is not aligned. The node's lock is not held.
 */
int rings_alloc(struct rings *r, struct pd_handle *pd, size_t len, enum rings_use use);
void rings_free(struct rings *r);

#endif
