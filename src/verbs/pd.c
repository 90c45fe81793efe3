/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains. Sharing them between processes (import) is not built. */
#include "verbs/pd.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs/context.h"
#include "verbs/export.h"

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct context_handle *c = context_of(context);
    struct pd_handle *h;
    int error = EIO;

    if (!context_alive(c))
        goto fail;
    error = ENOMEM;
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        goto fail;
    h->ibv.context = context;
    h->context = c;
    node_lock(c->node);
    error = -pd_new(node_engine(c->node), &h->pd);
    if (error == 0)
        context_get(c);
    node_unlock(c->node);
    if (error == 0)
        return &h->ibv;
    free(h);

fail:
    errno = error;
    return NULL;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
    struct pd_handle *h = pd_of(pd);
    struct context_handle *c = h->context;
    int error;

    if (!context_alive(c))
        return EIO;
    node_lock(c->node);
    error = -pd_free(h->pd);
    node_unlock(c->node);
    if (error != 0)
        return error;
    free(h);
    context_put(c);
    return 0;
}

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
    (void)context;
    (void)pd_handle;
    errno = EOPNOTSUPP;
    return NULL;
}

EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
    (void)pd;
}
