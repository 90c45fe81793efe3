/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains as applications hold them: a domain itself, the same one
 * imported into another context, and parent domains, which are a domain with a
 * thread domain and allocators beside it (rings.h).
 */
#ifndef UROCE_VERBS_PD_H
#define UROCE_VERBS_PD_H

#include <infiniband/verbs.h>
#include <stddef.h>

#include "base/list.h"
#include "engine/memory.h"

struct context_handle;
struct td_handle;

struct pd_handle {
    struct ibv_pd ibv;
    struct context_handle *context;
    struct pd *pd; /* one for the domain, its imports and its parent domains */
    struct list link;
    /* a parent domain */
    struct pd_handle *domain; /* what it extends; NULL: it is none */
    struct td_handle *td;     /* or NULL */
    void *(*alloc)(struct ibv_pd *pd, void *pd_context, size_t size, size_t alignment,
                   uint64_t resource_type); /* or NULL, and free too */
    void (*free)(struct ibv_pd *pd, void *pd_context, void *ptr, uint64_t resource_type);
    void *pd_context;
    /* under the node's lock */
    uint32_t use_count; /* parent domains upon it, and rings out of its allocators */
};

static inline struct pd_handle *pd_of(struct ibv_pd *ibv)
{
    return (struct pd_handle *)((char *)ibv - offsetof(struct pd_handle, ibv));
}

/* Extended slots of the context. */
struct ibv_td *td_handle_new(struct ibv_context *context, struct ibv_td_init_attr *attr);
int td_handle_free(struct ibv_td *td);
struct ibv_pd *pd_handle_new_parent(struct ibv_context *context,
                                    struct ibv_parent_domain_init_attr *attr);

#endif
