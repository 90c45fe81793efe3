/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting chains of receive requests, to a QP or to an SRQ. */
#ifndef UROCE_VERBS_POST_H
#define UROCE_VERBS_POST_H

#include <infiniband/verbs.h>

#include "engine/srq.h"

/* qp_post_recv or srq_post. */
typedef int (*post_receive_fn)(void *queue, const struct recv_wr *wr);

struct receive_queue {
    post_receive_fn post;
    void *queue;
    uint32_t wr_max; /* of one chain: one that is longer, or a loop, ends with ENOMEM */
};

/*
 * Posts the chain until the first that is refused, whose errno is returned
 * with *bad_wr set. The node's lock is held.
 */
int post_receives(const struct receive_queue *q, struct ibv_recv_wr *wr,
                  struct ibv_recv_wr **bad_wr);

#endif
