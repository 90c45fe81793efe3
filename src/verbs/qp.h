/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs as applications hold them. Every one is extended inside; those
 * that were created with send operations have a builder (wr.h) for the
 * ibv_wr_* calls.
 */
#ifndef UROCE_VERBS_QP_H
#define UROCE_VERBS_QP_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/qp.h"
#include "verbs/event.h"
#include "verbs/rings.h"

struct context_handle;
struct wr_builder;
struct xrcd_handle;

struct qp_handle {
    struct ibv_qp_ex ibv; /* begins with struct ibv_qp */
    /* set at creation */
    struct context_handle *context;
    struct qp *qp;
    struct qp_cap cap;
    bool all_signaled;
    uint32_t ifindex;           /* of the device: multicast groups are those of an interface */
    struct wr_builder *builder; /* NULL without send operations */
    struct xrcd_handle *xrcd;   /* XRC target, else NULL */
    struct rings rings;         /* out of the application's allocators */
    /* set by modify */
    struct ibv_ah_attr ah_attr; /* as it was given: the engine keeps only the path */
    /* under the node's lock */
    struct async_source async;
    struct list sharers; /* ring of the handles of one XRC target; each hears of its events */
};

static inline struct qp_handle *qp_of(struct ibv_qp *ibv)
{
    return (struct qp_handle *)((char *)ibv - offsetof(struct qp_handle, ibv.qp_base));
}

static inline struct qp_handle *qp_of_ex(struct ibv_qp_ex *ibv)
{
    return (struct qp_handle *)((char *)ibv - offsetof(struct qp_handle, ibv));
}

/* ibv_create_qp_ex, when more is asked for than a PD. */
struct ibv_qp *qp_handle_new_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);

/* ibv_modify_qp_rate_limit: 0 or an errno. */
int qp_handle_modify_rate(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);

/* ibv_open_qp: another handle for an XRC target. */
struct ibv_qp *qp_handle_open(struct ibv_context *context, struct ibv_qp_open_attr *attr);

/* ibv_context_ops (post.c): 0 or an errno, with *bad_wr the first that was not posted. */
int qp_handle_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
int qp_handle_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

#endif
