/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues as applications hold them. Every one is extended inside,
 * so that the two ways to poll work on both kinds.
 */
#ifndef UROCE_VERBS_CQ_H
#define UROCE_VERBS_CQ_H

#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "engine/cq.h"
#include "verbs/event.h"
#include "verbs/rings.h"

struct channel_handle;
struct context_handle;

struct cq_handle {
    struct ibv_cq_ex ibv; /* begins as struct ibv_cq does */
    /* set at creation */
    struct context_handle *context;
    struct channel_handle *channel; /* or NULL */
    struct cq *cq;
    struct pd_handle *domain; /* parent domain that it was made with, or NULL */
    struct rings rings;       /* out of the application's allocators */
    /* under the node's lock */
    struct list comp_link;  /* on channel.ready while comp_pending is not 0 */
    uint32_t comp_pending;  /* completion events not fetched yet */
    uint32_t comp_reported; /* completion events fetched */
    struct async_source async;
    uint32_t empty_polls; /* in a row */
    /* extended polling; between start_poll and end_poll, under the lock if there is one */
    bool single_threaded;
    pthread_mutex_t poll_lock;
    bool polling;
    struct completion current;
};

static inline struct cq_handle *cq_of(struct ibv_cq *ibv)
{
    return (struct cq_handle *)((char *)ibv - offsetof(struct cq_handle, ibv));
}

static inline struct cq_handle *cq_of_ex(struct ibv_cq_ex *ibv)
{
    return (struct cq_handle *)((char *)ibv - offsetof(struct cq_handle, ibv));
}

/*
 * Takes up to count entries; when there is none, makes progress and looks
 * again. Returns how many, or a negative errno.
 */
int cq_handle_take(struct cq_handle *h, uint32_t count, struct completion *out);

/* ibv_context_ops: entries or a negative errno; 0 or an errno. */
int cq_handle_poll(struct ibv_cq *cq, int num_entries, struct ibv_wc *wc);
int cq_handle_arm(struct ibv_cq *cq, int solicited_only);

/* ibv_create_cq_ex. */
struct ibv_cq_ex *cq_handle_new_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);

/* ibv_modify_cq: moderation of events (engine/cq.h). 0 or an errno. */
int cq_handle_modify(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);

/* Puts the functions of extended polling into the object (cq_ex.c). */
void cq_ex_fill(struct cq_handle *h);

/* The flags of an entry, as the application sees them. */
unsigned completion_wc_flags(const struct completion *c);
/* The immediate in network order, or the invalidated key. */
uint32_t completion_imm(const struct completion *c);

#endif
