/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive requests and the queues that hold them: a QP's own receive queue and
 * the shared receive queue (IBA 10.2.9) are one thing, taken from in order and
 * given back in any order, since a QP keeps a request in place while its
 * message arrives.
 */
#ifndef UROCE_ENGINE_SRQ_H
#define UROCE_ENGINE_SRQ_H

#include <stddef.h>
#include <stdint.h>

struct cq;
struct engine;
struct pd;
struct srq;
struct xrcd;

struct sge {
    uint64_t addr;
    uint32_t length;
    uint32_t lkey;
};

struct recv_wr {
    uint64_t wr_id;
    const struct sge *sges; /* borrowed till the post returns */
    uint32_t sge_count;
};

struct srq_attr {
    uint32_t wr_max;
    uint32_t sge_max;
    uint32_t limit; /* 0: not armed */
    /* XRC: set at creation; else NULL */
    struct xrcd *xrcd;
    struct cq *cq; /* where what it receives completes */
};

/* attr is rewritten with the real capabilities. Returns 0; -EINVAL beyond the limits, or for a
 * domain without a CQ or the reverse; -ENOMEM. */
int srq_new(struct pd *pd, struct srq_attr *attr, void *context, struct srq **out);

/*
 * Returns 0, or -EBUSY while a QP was created with it. An XRC SRQ goes at any
 * time, with its completions that were not polled: requests that name it are
 * refused from then on.
 */
int srq_free(struct srq *srq);

/*
 * Puts the queue, which must be empty, into memory of the caller: srq_ring_len bytes, zeroed and
 * aligned as malloc's, borrowed till the SRQ is freed. What it grows by later is its own.
 */
size_t srq_ring_len(const struct srq *srq);
void srq_set_ring(struct srq *srq, void *ring);

/* XRC: the number by which requests name it; 0 for all others. */
uint32_t srq_number(const struct srq *srq);

/*
 * Arms the limit event: once, when fewer than limit requests are queued, which
 * may be now; 0 disarms. -EINVAL above wr_max.
 */
int srq_set_limit(struct srq *srq, uint32_t limit);

/*
 * Changes the number of requests it holds. -EINVAL below what is queued or
 * below the armed limit, or above SRQ_WR_MAX.
 */
int srq_resize(struct srq *srq, uint32_t wr_max);
void srq_query(const struct srq *srq, struct srq_attr *out);
void *srq_context(const struct srq *srq);

/* Returns 0; -EINVAL for too many SGEs; -ENOMEM when full. */
int srq_post(struct srq *srq, const struct recv_wr *wr);

#endif
