/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains as applications hold them. */
#ifndef UROCE_VERBS_PD_H
#define UROCE_VERBS_PD_H

#include <infiniband/verbs.h>
#include <stddef.h>

#include "engine/memory.h"

struct context_handle;

struct pd_handle {
    struct ibv_pd ibv;
    struct context_handle *context;
    struct pd *pd;
};

static inline struct pd_handle *pd_of(struct ibv_pd *ibv)
{
    return (struct pd_handle *)((char *)ibv - offsetof(struct pd_handle, ibv));
}

#endif
