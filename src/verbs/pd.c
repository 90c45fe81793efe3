/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains: allocate, import, extend. An import holds the domain:
 * it ends when the last of those who hold it is gone, so that nobody is left
 * with one that is not there.
 */
#include "verbs/pd.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs/context.h"
#include "verbs/export.h"

struct td_handle {
    struct ibv_td ibv;
    struct context_handle *context;
    uint32_t use_count; /* parent domains; under the node's lock */
};

/* Under the node's lock. */
static struct list domains = {&domains, &domains};
static uint32_t last_number;

static struct pd_handle *new_handle(struct context_handle *c)
{
    struct pd_handle *h = calloc(1, sizeof(*h));

    if (h == NULL)
        return NULL;
    h->ibv.context = &c->verbs.context;
    h->context = c;
    list_init(&h->link);
    return h;
}

/* The node's lock is held. */
static void enlist(struct pd_handle *h, uint32_t number)
{
    h->ibv.handle = number;
    list_push_tail(&domains, &h->link);
    context_get(h->context);
}

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    struct context_handle *c = context_of(context);
    struct pd_handle *h;
    int error = EIO;

    if (!context_alive(c))
        goto fail;
    error = ENOMEM;
    h = new_handle(c);
    if (h == NULL)
        goto fail;
    node_lock(c->node);
    error = -pd_new(node_engine(c->node), &h->pd);
    if (error == 0)
        enlist(h, ++last_number);
    node_unlock(c->node);
    if (error == 0)
        return &h->ibv;
    free(h);

fail:
    errno = error;
    return NULL;
}

/* Gives back what a parent domain holds. The node's lock is held. */
static void release_parent(struct pd_handle *h)
{
    h->domain->use_count--;
    h->pd->use_count--;
    if (h->td != NULL)
        h->td->use_count--;
}

/* end: what becomes of the domain itself. */
static int leave(struct ibv_pd *pd, int (*end)(struct pd *pd))
{
    struct pd_handle *h = pd_of(pd);
    struct context_handle *c = h->context;
    int error = 0;

    if (!context_alive(c))
        return EIO;
    node_lock(c->node);
    if (h->use_count > 0)
        error = EBUSY;
    else if (h->domain != NULL)
        release_parent(h);
    else
        error = -end(h->pd);
    if (error == 0)
        list_remove(&h->link);
    node_unlock(c->node);
    if (error != 0)
        return error;
    free(h);
    context_put(c);
    return 0;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
    return leave(pd, pd_free);
}

/* --- import --- */

/* The domain of that number among those of the same open device. The node's lock is held. */
static struct pd_handle *find_domain(const struct context_handle *c, uint32_t number)
{
    for (struct list *l = domains.next; l != &domains; l = l->next) {
        struct pd_handle *h = LIST_ENTRY(l, struct pd_handle, link);

        if (h->ibv.handle == number && h->domain == NULL && context_alive(h->context) &&
            file_same(&h->context->file, &c->file))
            return h;
    }
    return NULL;
}

EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t pd_handle)
{
    struct context_handle *c = context_of(context);
    const struct pd_handle *found;
    struct pd_handle *h;
    int error = EIO;

    if (!context_alive(c))
        goto fail;
    error = ENOMEM;
    h = new_handle(c);
    if (h == NULL)
        goto fail;
    node_lock(c->node);
    found = find_domain(c, pd_handle);
    if (found != NULL) {
        h->pd = found->pd;
        pd_hold(h->pd);
        enlist(h, pd_handle);
    }
    node_unlock(c->node);
    if (found != NULL)
        return &h->ibv;
    error = ENOENT;
    free(h);

fail:
    errno = error;
    return NULL;
}

/* The last one that is still used stays, with the context that it needs. */
EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
    leave(pd, pd_let_go);
}

/* --- thread domains and parent domains --- */

struct ibv_td *td_handle_new(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    struct context_handle *c = context_of(context);
    struct td_handle *h;
    int error = EIO;

    if (!context_alive(c))
        goto fail;
    error = EINVAL;
    if (attr->comp_mask != 0)
        goto fail;
    error = ENOMEM;
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        goto fail;
    h->ibv.context = context;
    h->context = c;
    node_lock(c->node);
    context_get(c);
    node_unlock(c->node);
    return &h->ibv;

fail:
    errno = error;
    return NULL;
}

int td_handle_free(struct ibv_td *td)
{
    struct td_handle *h = (struct td_handle *)((char *)td - offsetof(struct td_handle, ibv));
    struct context_handle *c = h->context;
    uint32_t use_count;

    if (!context_alive(c))
        return EIO;
    node_lock(c->node);
    use_count = h->use_count;
    node_unlock(c->node);
    if (use_count > 0)
        return EBUSY;
    free(h);
    context_put(c);
    return 0;
}

static int check_parent(const struct context_handle *c,
                        const struct ibv_parent_domain_init_attr *attr)
{
    const uint32_t known =
        IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    bool allocators = (attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0;

    if (!context_alive(c))
        return EIO;
    if ((attr->comp_mask & ~known) != 0 || attr->pd == NULL)
        return EINVAL;
    if (attr->pd->context != &c->verbs.context || pd_of(attr->pd)->domain != NULL)
        return EINVAL;
    if (attr->td != NULL && attr->td->context != &c->verbs.context)
        return EINVAL;
    return allocators && (attr->alloc == NULL || attr->free == NULL) ? EINVAL : 0;
}

static void fill_parent(struct pd_handle *h, const struct ibv_parent_domain_init_attr *attr)
{
    h->domain = pd_of(attr->pd);
    h->pd = h->domain->pd;
    if (attr->td != NULL)
        h->td = (struct td_handle *)((char *)attr->td - offsetof(struct td_handle, ibv));
    if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT) != 0)
        h->pd_context = attr->pd_context;
    if ((attr->comp_mask & IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS) != 0) {
        h->alloc = attr->alloc;
        h->free = attr->free;
    }
}

struct ibv_pd *pd_handle_new_parent(struct ibv_context *context,
                                    struct ibv_parent_domain_init_attr *attr)
{
    struct context_handle *c = context_of(context);
    struct pd_handle *h;
    int error = check_parent(c, attr);

    if (error != 0)
        goto fail;
    error = ENOMEM;
    h = new_handle(c);
    if (h == NULL)
        goto fail;
    fill_parent(h, attr);
    node_lock(c->node);
    h->domain->use_count++;
    h->pd->use_count++;
    if (h->td != NULL)
        h->td->use_count++;
    enlist(h, h->domain->ibv.handle);
    node_unlock(c->node);
    return &h->ibv;

fail:
    errno = error;
    return NULL;
}
