/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains as applications hold them. All contexts of a device in one
 * process that name the same inode share one domain. Another process has
 * domains of its own, also for the same inode: queues and memory live in the
 * process that made them, so a peer's request cannot reach past it.
 */
#ifndef UROCE_VERBS_XRCD_H
#define UROCE_VERBS_XRCD_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/xrc.h"

struct context_handle;
struct domain;

struct xrcd_handle {
    struct ibv_xrcd ibv;
    /* set at creation */
    struct context_handle *context;
    struct domain *domain;
    struct xrcd *xrcd; /* of the domain */
    /* under the node's lock */
    uint32_t use_count; /* SRQs and QPs that were made or opened through it */
};

static inline struct xrcd_handle *xrcd_of(struct ibv_xrcd *ibv)
{
    return (struct xrcd_handle *)((char *)ibv - offsetof(struct xrcd_handle, ibv));
}

/* verbs_context: the domain, or NULL with errno; 0 or an errno. */
struct ibv_xrcd *xrcd_handle_open(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int xrcd_handle_close(struct ibv_xrcd *ibv);

#endif
