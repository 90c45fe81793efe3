/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive queues as the responder sees them. */
#ifndef UROCE_ENGINE_SRQ_PRIVATE_H
#define UROCE_ENGINE_SRQ_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "engine/event_private.h"
#include "engine/srq.h"

/* One receive request, in its slot from the post until recv_queue_release. */
struct recv_wqe {
    struct list link; /* on free or posted of its queue; on none while a QP holds it */
    uint64_t wr_id;
    uint64_t length; /* sum of the SGEs */
    uint32_t sge_count;
    struct sge sges[]; /* room for sge_max */
};

/* Bytes from one slot to the next. */
static inline size_t recv_wqe_stride(uint32_t sge_max)
{
    return sizeof(struct recv_wqe) + sge_max * sizeof(struct sge);
}

struct recv_slab; /* slots that were allocated together */

/*
 * Slots never move, since a QP may hold one: growth adds a slab, shrinking
 * only lowers wr_max, and no more than SRQ_WR_MAX or QP_WR_MAX slots are ever made.
 */
struct recv_queue {
    struct recv_slab *slabs; /* newest first */
    uint32_t slot_count;
    uint32_t wr_max; /* requests that it may have, posted or held by a QP */
    uint32_t sge_max;
    uint32_t posted_count;
    uint32_t held_count;
    struct list free;
    struct list posted; /* oldest first */
};

int recv_queue_init(struct recv_queue *q, uint32_t wr_max, uint32_t sge_max); /* -ENOMEM */
void recv_queue_fini(struct recv_queue *q);

/* As srq_ring_len, srq_set_ring. */
size_t recv_queue_len(const struct recv_queue *q);
void recv_queue_move(struct recv_queue *q, uint8_t *to);

/* Changes wr_max. Returns 0; -EINVAL below what it has; -ENOMEM. */
int recv_queue_resize(struct recv_queue *q, uint32_t wr_max);

/* Copies the request in. 0, -EINVAL for too many SGEs, -ENOMEM when full. */
int recv_queue_post(struct recv_queue *q, const struct recv_wr *wr);

/* The oldest request, which stays in its slot until it is released; NULL when none is posted. */
struct recv_wqe *recv_queue_take(struct recv_queue *q);
void recv_queue_release(struct recv_queue *q, struct recv_wqe *wqe);

/* Puts a request that was taken but not used back in front (UC: message broken). */
void recv_queue_untake(struct recv_queue *q, struct recv_wqe *wqe);

/* Asserts what always holds. */
void recv_queue_check(const struct recv_queue *q);

struct srq {
    struct pd *pd;
    struct xrcd *xrcd; /* XRC, else NULL */
    struct cq *cq;     /* XRC, else NULL: that of the QP */
    uint32_t number;   /* XRC */
    struct recv_queue queue;
    struct event_source events;
    uint32_t limit;     /* 0: not armed */
    uint32_t use_count; /* QPs */
    void *context;
};

/* As recv_queue_take; raises ENGINE_EVENT_SRQ_LIMIT when fewer than the armed limit are left. */
struct recv_wqe *srq_take(struct srq *srq);

#endif
