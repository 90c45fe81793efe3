/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues as applications hold them. */
#ifndef UROCE_VERBS_SRQ_H
#define UROCE_VERBS_SRQ_H

#include <infiniband/verbs.h>
#include <stddef.h>

#include "engine/srq.h"
#include "verbs/event.h"
#include "verbs/rings.h"

struct context_handle;
struct xrcd_handle;

struct srq_handle {
    struct ibv_srq ibv;
    struct context_handle *context;
    struct srq *srq;
    struct xrcd_handle *xrcd; /* XRC, else NULL */
    struct rings rings;       /* out of the application's allocators */
    struct async_source async;
};

static inline struct srq_handle *srq_of(struct ibv_srq *ibv)
{
    return (struct srq_handle *)((char *)ibv - offsetof(struct srq_handle, ibv));
}

/* ibv_create_srq_ex, when it is not a plain one. */
struct ibv_srq *srq_handle_new_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);

/* ibv_get_srq_num: 0 or an errno. */
int srq_handle_number(struct ibv_srq *srq, uint32_t *number);

/* ibv_context_ops: 0 or an errno, with *bad_wr the first that was not posted. */
int srq_handle_post(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

#endif
