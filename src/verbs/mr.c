/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions. The memory is looked at once, when it is registered: what
 * is not there, or not writable as the rights ask, is refused as by an adapter
 * that pins it. What becomes of it later is the guarded copy's affair.
 */
#include <errno.h>
#include <stdlib.h>

#include "node/guarded_copy.h"
#include "verbs/context.h"
#include "verbs/export.h"
#include "verbs/pd.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

struct mr_handle {
    struct ibv_mr ibv;
    struct mr *mr;
};

static struct mr_handle *mr_of(struct ibv_mr *ibv)
{
    return (struct mr_handle *)((char *)ibv - offsetof(struct mr_handle, ibv));
}

static struct context_handle *context_of_mr(const struct ibv_mr *mr)
{
    return context_of(mr->context);
}

/*
 * The engine's rights: without hints, which change nothing here (huge pages,
 * and all of the optional range such as relaxed ordering).
 */
static uint32_t engine_access(unsigned access)
{
    return access & ~((unsigned)IBV_ACCESS_OPTIONAL_RANGE | (unsigned)IBV_ACCESS_HUGETLB);
}

static int check_memory(const struct mr_attr *attr)
{
    if ((attr->access & IBV_ACCESS_ON_DEMAND) != 0)
        return EOPNOTSUPP;
    if (attr->len == 0)
        return 0;
    if ((uintptr_t)attr->base + attr->len < attr->len)
        return EINVAL;
    return -guarded_probe(attr->base, attr->len, (attr->access & ACCESS_LOCAL_WRITE) != 0);
}

static void publish(struct mr_handle *h, struct pd_handle *pd, const struct mr_attr *attr)
{
    h->ibv.pd = &pd->ibv;
    h->ibv.addr = attr->base;
    h->ibv.length = attr->len;
    h->ibv.lkey = h->mr->key;
    h->ibv.rkey = h->mr->key;
    h->ibv.handle = h->mr->key;
}

static struct ibv_mr *register_memory(struct ibv_pd *ibv_pd, const struct mr_attr *attr)
{
    struct pd_handle *pd = pd_of(ibv_pd);
    struct context_handle *c = pd->context;
    struct mr_handle *h;
    int error = context_alive(c) ? check_memory(attr) : EIO;

    if (error != 0)
        goto fail;
    error = ENOMEM;
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        goto fail;
    h->ibv.context = &c->verbs.context;
    node_lock(c->node);
    /* Programs install their signal handlers before they register memory: see it at once. */
    guarded_copy_check();
    error = -mr_new(pd->pd, attr, &h->mr);
    node_unlock(c->node);
    if (error == 0) {
        publish(h, pd, attr);
        return &h->ibv;
    }
    free(h);

fail:
    errno = error;
    return NULL;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                       unsigned int access)
{
    const struct mr_attr attr = {
        .base = addr, .len = length, .iova = iova, .access = engine_access(access)};

    return register_memory(pd, &attr);
}

EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
                                      int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, iova, (unsigned)access);
}

EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, (uintptr_t)addr, (unsigned)access);
}

EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length,
                                        uint64_t iova, int fd, int access)
{
    (void)pd;
    (void)offset;
    (void)length;
    (void)iova;
    (void)fd;
    (void)access;
    errno = EOPNOTSUPP;
    return NULL;
}

/* The attributes that the region has after the change. The node's lock is held. */
static struct mr_attr attr_after(const struct mr_handle *h, int flags, const struct mr_attr *wanted)
{
    struct mr_attr attr = {
        .base = h->mr->base, .len = h->mr->len, .iova = h->mr->iova, .access = h->mr->access};

    if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
        attr.base = wanted->base;
        attr.len = wanted->len;
        attr.iova = wanted->iova;
    }
    if ((flags & IBV_REREG_MR_CHANGE_ACCESS) != 0)
        attr.access = wanted->access;
    return attr;
}

static int change(struct mr_handle *h, int flags, struct pd_handle *pd,
                  const struct mr_attr *wanted)
{
    struct context_handle *c = context_of_mr(&h->ibv);
    struct pd_handle *pd_after = pd != NULL ? pd : pd_of(h->ibv.pd);
    struct mr_attr attr;
    int error;

    node_lock(c->node);
    attr = attr_after(h, flags, wanted);
    node_unlock(c->node);
    error = check_memory(&attr);
    if (error != 0)
        return error;
    node_lock(c->node);
    /* Peers go on with the key that they have as long as it names the same memory. */
    if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0)
        error = -mr_change(h->mr, pd_after->pd, &attr);
    else
        error = -mr_set_access(h->mr, pd_after->pd, attr.access);
    node_unlock(c->node);
    if (error == 0)
        publish(h, pd_after, &attr);
    return error;
}

/* A change that is refused leaves the region as it was, which is what ERR_INPUT says. */
EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t length,
                        int access)
{
    const struct mr_attr wanted = {.base = addr,
                                   .len = length,
                                   .iova = (uintptr_t)addr,
                                   .access = engine_access((unsigned)access)};
    bool new_pd = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
    bool new_range = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
    int error = EINVAL;

    if (!context_alive(context_of_mr(mr)))
        error = EIO;
    else if (flags == 0 || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED) != 0)
        error = EINVAL;
    else if (new_pd && (pd == NULL || pd->context != mr->context))
        error = EINVAL;
    else if (new_range && (addr == NULL || length == 0))
        error = EINVAL;
    else
        error = change(mr_of(mr), flags, new_pd ? pd_of(pd) : NULL, &wanted);
    if (error == 0)
        return 0;
    errno = error;
    return IBV_REREG_MR_ERR_INPUT;
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
    struct mr_handle *h = mr_of(mr);
    struct context_handle *c = context_of_mr(mr);
    int error;

    if (!context_alive(c))
        return EIO;
    node_lock(c->node);
    error = -mr_free(h->mr);
    node_unlock(c->node);
    if (error == 0)
        free(h);
    return error;
}

/* Importing regions and device memory from other processes is not built. */

EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t mr_handle)
{
    (void)pd;
    (void)mr_handle;
    errno = EOPNOTSUPP;
    return NULL;
}

EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
    (void)mr;
}

EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
    (void)context;
    (void)dm_handle;
    errno = EOPNOTSUPP;
    return NULL;
}

EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
    (void)dm;
}
