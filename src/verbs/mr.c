/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory regions. The memory is looked at once, when it is registered: what
 * is not there, or not writable as the rights ask, is refused as by an adapter
 * that pins it. What becomes of it later is the guarded copy's affair. With
 * on-demand paging nothing is looked at before it is used.
 */
#include "verbs/mr.h"

#include <errno.h>
#include <stdlib.h>

#include "node/guarded_copy.h"
#include "verbs/context.h"
#include "verbs/dm.h"
#include "verbs/export.h"
#include "verbs/pd.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* The region, shared by those who imported it. Under the node's lock. */
struct shared_mr {
    struct mr *mr;        /* NULL once one of them has deregistered it */
    struct dm_memory *dm; /* whose bytes they are, or NULL */
    struct context_file file;
    uint32_t holder_count;
};

struct mr_handle {
    struct ibv_mr ibv;
    struct shared_mr *shared;
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

/* The man page's "all memory that there is": no address, and no end. */
static bool is_implicit(const struct mr_attr *attr)
{
    return attr->base == NULL && attr->len == SIZE_MAX;
}

static int check_memory(const struct mr_attr *attr)
{
    bool on_demand = (attr->access & ACCESS_ON_DEMAND) != 0;

    if (is_implicit(attr))
        return on_demand && (attr->access & ACCESS_ZERO_BASED) == 0 ? 0 : EINVAL;
    if (attr->len == 0)
        return 0;
    if ((uintptr_t)attr->base + attr->len < attr->len)
        return EINVAL;
    if (on_demand)
        return 0;
    return -guarded_probe(attr->base, attr->len, (attr->access & ACCESS_LOCAL_WRITE) != 0);
}

static void publish(struct mr_handle *h, struct pd_handle *pd, const struct mr_attr *attr)
{
    h->ibv.pd = &pd->ibv;
    h->ibv.addr = attr->base;
    h->ibv.length = attr->len;
    h->ibv.lkey = h->shared->mr->key;
    h->ibv.rkey = h->shared->mr->key;
    h->ibv.handle = h->shared->mr->key;
}

/* --- register --- */

static struct mr_handle *new_handle(struct context_handle *c)
{
    struct mr_handle *h = calloc(1, sizeof(*h));

    if (h == NULL)
        return NULL;
    h->ibv.context = &c->verbs.context;
    h->shared = calloc(1, sizeof(*h->shared));
    if (h->shared == NULL) {
        free(h);
        return NULL;
    }
    h->shared->file = c->file;
    h->shared->holder_count = 1;
    return h;
}

static void free_handle(struct mr_handle *h)
{
    free(h->shared);
    free(h);
}

/* Makes the region of the handle; attr NULL: a null region. 0 or an errno. */
static int create(struct mr_handle *h, struct pd_handle *pd, const struct mr_attr *attr)
{
    struct node *node = pd->context->node;
    struct mr **out = &h->shared->mr;
    int error;

    node_lock(node);
    /* Programs install their signal handlers before they register memory: see it at once. */
    guarded_copy_check();
    error = attr != NULL ? -mr_new(pd->pd, attr, out) : -mr_new_null(pd->pd, out);
    if (error == 0)
        h->shared->mr->context = h->shared;
    node_unlock(node);
    return error;
}

/* attr NULL: a null region; base: what applications see as its address. */
static struct mr_handle *register_memory(struct pd_handle *pd, const struct mr_attr *attr)
{
    struct mr_handle *h = new_handle(pd->context);
    int error = ENOMEM;

    if (h == NULL)
        goto fail;
    error = create(h, pd, attr);
    if (error == 0)
        return h;
    free_handle(h);

fail:
    errno = error;
    return NULL;
}

EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *ibv_pd, void *addr, size_t length,
                                       uint64_t iova, unsigned int access)
{
    struct pd_handle *pd = pd_of(ibv_pd);
    const struct mr_attr attr = {
        .base = addr, .len = length, .iova = iova, .access = engine_access(access)};
    struct mr_handle *h;
    int error;

    guarded_copy_install();
    error = context_alive(pd->context) ? check_memory(&attr) : EIO;
    if (error != 0) {
        errno = error;
        return NULL;
    }
    h = register_memory(pd, &attr);
    if (h == NULL)
        return NULL;
    publish(h, pd, &attr);
    return &h->ibv;
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

/* Memory of other devices is out of reach of a process. */
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

/* The man page: of maximum length, and not exposed as an R_Key. */
struct ibv_mr *mr_handle_new_null(struct ibv_pd *ibv_pd)
{
    const struct mr_attr seen = {.base = NULL, .len = SIZE_MAX};
    struct pd_handle *pd = pd_of(ibv_pd);
    struct mr_handle *h;

    if (!context_alive(pd->context)) {
        errno = EIO;
        return NULL;
    }
    h = register_memory(pd, NULL);
    if (h == NULL)
        return NULL;
    publish(h, pd, &seen);
    h->ibv.rkey = 0;
    return &h->ibv;
}

struct ibv_mr *mr_handle_new_dm(struct ibv_pd *ibv_pd, struct ibv_dm *dm, uint64_t dm_offset,
                                size_t length, unsigned int access)
{
    const struct mr_attr seen = {.base = NULL, .len = length};
    struct pd_handle *pd = pd_of(ibv_pd);
    struct mr_attr attr = {.len = length, .access = engine_access(access)};
    struct dm_memory *memory = NULL;
    struct mr_handle *h;

    errno = EIO;
    if (!context_alive(pd->context))
        return NULL;
    errno = EINVAL;
    if ((access & IBV_ACCESS_ZERO_BASED) == 0 || (access & IBV_ACCESS_ON_DEMAND) != 0)
        return NULL;
    attr.base = dm_use(dm, dm_offset, length, &memory);
    if (attr.base == NULL)
        return NULL;
    h = register_memory(pd, &attr);
    if (h == NULL) {
        dm_unuse(memory);
        return NULL;
    }
    h->shared->dm = memory;
    publish(h, pd, &seen);
    return &h->ibv;
}

/* --- change --- */

/* The attributes that the region has after the change. The node's lock is held. */
static struct mr_attr attr_after(const struct mr *mr, int flags, const struct mr_attr *wanted)
{
    struct mr_attr attr = {
        .base = mr->base, .len = mr->len, .iova = mr->iova, .access = mr->access};

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
    struct mr *mr;
    struct mr_attr attr;
    int error;

    node_lock(c->node);
    mr = h->shared->mr;
    if (mr != NULL)
        attr = attr_after(mr, flags, wanted);
    node_unlock(c->node);
    if (mr == NULL || mr->is_null || h->shared->dm != NULL)
        return EINVAL;
    error = check_memory(&attr);
    if (error != 0)
        return error;
    node_lock(c->node);
    /* Peers go on with the key that they have as long as it names the same memory. */
    if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0)
        error = -mr_change(mr, pd_after->pd, &attr);
    else
        error = -mr_set_access(mr, pd_after->pd, attr.access);
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

/* One who holds it less. What they share stays while the region does, which names it. The node's
 * lock is held. */
static void let_go(struct mr_handle *h)
{
    if (--h->shared->holder_count == 0 && h->shared->mr == NULL)
        free(h->shared);
}

EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
    struct mr_handle *h = mr_of(mr);
    struct context_handle *c = context_of_mr(mr);
    struct dm_memory *dm = NULL;
    int error = 0;

    if (!context_alive(c))
        return EIO;
    node_lock(c->node);
    if (h->shared->mr != NULL) {
        error = -mr_free(h->shared->mr);
        dm = h->shared->dm;
    }
    if (error == 0) {
        h->shared->mr = NULL;
        let_go(h);
    }
    node_unlock(c->node);
    if (error != 0)
        return error;
    if (dm != NULL)
        dm_unuse(dm);
    free(h);
    return 0;
}

/* --- advice --- */

/* What the man page calls each reason for which a range cannot be advised on. */
static int advise_errno(enum mr_verdict v, const struct mr *mr)
{
    switch (v) {
    case MR_OK:
        return 0;
    case MR_WINDOW:
        return EINVAL;
    case MR_WRONG_PD:
        return EPERM;
    case MR_NO_ACCESS:
        return (mr->access & ACCESS_ON_DEMAND) != 0 ? EPERM : ENOENT;
    case MR_NO_KEY:
    case MR_OUT_OF_BOUNDS:
    case MR_WRONG_QP:
    case MR_NOTHING:
        break;
    }
    return EFAULT;
}

/* Finds one range. 0 or an errno. */
static int find_range(struct pd_handle *pd, const struct ibv_sge *sge, bool write, uint8_t **out)
{
    struct node *node = pd->context->node;
    const struct mr_query q = {.pd = pd->pd,
                               .va = sge->addr,
                               .len = sge->length,
                               .key = sge->lkey,
                               .access =
                                   ACCESS_ON_DEMAND | (write ? (uint32_t)ACCESS_LOCAL_WRITE : 0)};
    int error;

    node_lock(node);
    error =
        advise_errno(mr_resolve(node_engine(node), &q, out), mr_find(node_engine(node), sge->lkey));
    node_unlock(node);
    return error;
}

/* Pages are brought in before it returns, so that the flag to flush asks for nothing more. */
int mr_handle_advise(struct ibv_pd *ibv_pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                     struct ibv_sge *sg_list, uint32_t num_sge)
{
    struct pd_handle *pd = pd_of(ibv_pd);
    bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
    bool fault = advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;

    if (!context_alive(pd->context))
        return EIO;
    if (!write && fault && advice != IBV_ADVISE_MR_ADVICE_PREFETCH)
        return EOPNOTSUPP;
    if ((flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH) != 0 || sg_list == NULL || num_sge == 0)
        return EINVAL;
    for (uint32_t i = 0; i < num_sge; i++) {
        uint8_t *memory = NULL;
        int error = find_range(pd, &sg_list[i], write, &memory);

        if (error == 0 && fault)
            error = -guarded_probe(memory, sg_list[i].length, write);
        if (error != 0)
            return error;
    }
    return 0;
}

/* --- import --- */

EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *ibv_pd, uint32_t mr_handle)
{
    struct pd_handle *pd = pd_of(ibv_pd);
    struct context_handle *c = pd->context;
    struct mr_handle *h;
    const struct mr *mr;
    struct shared_mr *shared = NULL;

    errno = EIO;
    if (!context_alive(c))
        return NULL;
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        return NULL;
    node_lock(c->node);
    mr = mr_find(node_engine(c->node), mr_handle);
    if (mr != NULL)
        shared = mr->context;
    if (shared != NULL && file_same(&shared->file, &c->file)) {
        const struct mr_attr seen = {.base = NULL, .len = mr->len};

        shared->holder_count++;
        h->shared = shared;
        h->ibv.context = &c->verbs.context;
        publish(h, pd, &seen); /* an address is not applicable, as the man page says */
    }
    node_unlock(c->node);
    if (h->shared != NULL)
        return &h->ibv;
    free(h);
    errno = ENOENT;
    return NULL;
}

EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
    struct mr_handle *h = mr_of(mr);
    struct context_handle *c = context_of_mr(mr);

    if (!context_alive(c))
        return;
    node_lock(c->node);
    let_go(h);
    node_unlock(c->node);
    free(h);
}
