/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion channels: where completion queues say that an entry came. Each
 * event has a token in the channel's descriptor.
 */
#ifndef UROCE_VERBS_CHANNEL_H
#define UROCE_VERBS_CHANNEL_H

#include <infiniband/verbs.h>
#include <stddef.h>

#include "base/list.h"

struct context_handle;
struct cq_handle;

struct channel_handle {
    struct ibv_comp_channel ibv; /* refcnt counts CQs, under the node's lock */
    struct context_handle *context;
    struct list ready; /* CQs with events, under the node's lock */
    bool quiet;        /* the thread that makes progress will take an event itself: no token */
    uint32_t untold;   /* events without a token, while quiet */
};

static inline struct channel_handle *channel_of(struct ibv_comp_channel *ibv)
{
    return (struct channel_handle *)((char *)ibv - offsetof(struct channel_handle, ibv));
}

/* An armed CQ got an entry. The node's lock is held, as in all of these. */
void channel_notify(struct cq_handle *cq);

/* The CQ goes away: its events that were not fetched are forgotten. */
void channel_withdraw(struct cq_handle *cq);

#endif
