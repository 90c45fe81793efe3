/* SPDX-License-Identifier: BSD-2-Clause */
/* Posting chains of receive requests, to a QP or to an SRQ. */
#ifndef UROCE_VERBS_POST_H
#define UROCE_VERBS_POST_H

#include <infiniband/verbs.h>

#include "engine/srq.h"

/* qp_post_recv or srq_post. */
typedef int (*post_receive_fn)(void *queue, const struct recv_wr *wr);

/*
 * Posts the chain until the first that is refused, whose errno is returned
 * with *bad_wr set. A chain that is a loop ends with ENOMEM. The node's lock is held.
 */
int post_receives(post_receive_fn post, void *queue, struct ibv_recv_wr *wr,
                  struct ibv_recv_wr **bad_wr);

struct qp_handle;

/* Ends what posted sends: unlocks the node, with what may leave sent unless more may join it. */
void qp_handle_leave_posted(struct qp_handle *h);

#endif
