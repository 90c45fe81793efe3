/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains and memory regions (IBA 10.6, 11.2), and what a key
 * lets through. The table of keys is key.c's, windows are memory_window.c's.
 */
#include "engine/memory.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/checked.h"
#include "engine/engine_private.h"
#include "engine/key_private.h"
#include "engine/limits.h"

#define ACCESS_ALL                                                                                 \
    (ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC |        \
     ACCESS_MW_BIND | ACCESS_ZERO_BASED | ACCESS_ON_DEMAND | ACCESS_FLUSH_GLOBAL)

/* --- protection domains --- */

int pd_new(struct engine *e, struct pd **out)
{
    struct pd *pd;

    if (e->pd_count >= PD_COUNT_MAX)
        return -ENOMEM;
    pd = calloc(1, sizeof(*pd));
    if (pd == NULL)
        return -ENOMEM;
    pd->engine = e;
    e->pd_count++;
    *out = pd;
    return 0;
}

void pd_hold(struct pd *pd)
{
    pd->extra_count++;
}

int pd_free(struct pd *pd)
{
    if (pd->use_count > 0)
        return -EBUSY;
    if (pd->extra_count > 0) {
        pd->extra_count--;
        return 0;
    }
    assert(pd->engine->pd_count > 0);
    pd->engine->pd_count--;
    free(pd);
    return 0;
}

int pd_let_go(struct pd *pd)
{
    if (pd->extra_count == 0)
        return pd_free(pd);
    pd->extra_count--;
    return 0;
}

/* --- regions --- */

/* IBA 11.2: a peer may not write where this process itself may not. */
static bool rights_valid(uint32_t access)
{
    const uint32_t remote_change = ACCESS_REMOTE_WRITE | ACCESS_REMOTE_ATOMIC;

    if ((access & ~(uint32_t)ACCESS_ALL) != 0)
        return false;
    return (access & remote_change) == 0 || (access & ACCESS_LOCAL_WRITE) != 0;
}

static uint64_t first_iova(const struct mr_attr *attr)
{
    return (attr->access & ACCESS_ZERO_BASED) != 0 ? 0 : attr->iova;
}

static bool attr_valid(const struct mr_attr *attr)
{
    const struct range memory = {.start = (uintptr_t)attr->base, .len = attr->len};
    const struct range named = {.start = first_iova(attr), .len = attr->len};

    return rights_valid(attr->access) && range_valid(memory) && range_valid(named);
}

static void set_attr(struct mr *mr, const struct mr_attr *attr)
{
    mr->base = attr->base;
    mr->iova = first_iova(attr);
    mr->len = attr->len;
    mr->access = attr->access;
}

int mr_new(struct pd *pd, const struct mr_attr *attr, struct mr **out)
{
    struct engine *e = pd->engine;
    struct mr *mr;
    int error;

    if (!attr_valid(attr))
        return -EINVAL;
    if (e->mr_count >= MR_COUNT_MAX)
        return -ENOMEM;
    error = key_reserve(e);
    if (error != 0)
        return error;
    mr = calloc(1, sizeof(*mr));
    if (mr == NULL)
        return -ENOMEM;
    mr->pd = pd;
    pd->use_count++;
    set_attr(mr, attr);
    key_enter(e, mr);
    e->mr_count++;
    *out = mr;
    return 0;
}

int mr_new_null(struct pd *pd, struct mr **out)
{
    const struct mr_attr everywhere = {.len = UINT64_MAX, .access = ACCESS_LOCAL_WRITE};
    int error = mr_new(pd, &everywhere, out);

    if (error == 0)
        (*out)->is_null = true;
    return error;
}

int mr_free(struct mr *mr)
{
    struct engine *e = mr->pd->engine;

    if (mr->window_count > 0)
        return -EBUSY;
    key_leave(e, mr);
    assert(mr->pd->use_count > 0);
    mr->pd->use_count--;
    e->mr_count--;
    free(mr);
    return 0;
}

struct mr *mr_find(const struct engine *e, uint32_t key)
{
    struct mr *mr = key_find(e, key);

    return mr != NULL && mr->window == NULL ? mr : NULL;
}

static void move_to_pd(struct mr *mr, struct pd *pd)
{
    assert(pd->engine == mr->pd->engine);
    mr->pd->use_count--;
    mr->pd = pd;
    mr->pd->use_count++;
}

int mr_change(struct mr *mr, struct pd *pd, const struct mr_attr *attr)
{
    struct engine *e = mr->pd->engine;

    if (mr->is_null || (attr != NULL && !attr_valid(attr)))
        return -EINVAL;
    if (mr->window_count > 0)
        return -EBUSY;
    key_leave(e, mr);
    if (pd != NULL)
        move_to_pd(mr, pd);
    if (attr != NULL)
        set_attr(mr, attr);
    key_enter(e, mr);
    return 0;
}

int mr_set_access(struct mr *mr, struct pd *pd, uint32_t access)
{
    /* A zero-based region cannot become another without a new range. */
    if (!rights_valid(access) || ((access ^ mr->access) & ACCESS_ZERO_BASED) != 0)
        return -EINVAL;
    if (mr->is_null)
        return -EINVAL;
    if (mr->window_count > 0)
        return -EBUSY;
    if (pd != NULL)
        move_to_pd(mr, pd);
    mr->access = access;
    return 0;
}

/* --- what a key lets through --- */

/* Windows are for peers alone, those of type 2 for the peer of one QP (IBA 10.6.7.2). */
static enum mr_verdict window_verdict(const struct mw *mw, const struct mr_query *q)
{
    if (mw->region == NULL)
        return MR_NO_KEY;
    if (q->qp == NULL)
        return MR_WINDOW;
    return mw->type == MW_TYPE_1 || mw->qp == q->qp ? MR_OK : MR_WRONG_QP;
}

/* All but the range. On MR_OK *out is what the key opens. */
static enum mr_verdict find(const struct engine *e, const struct mr_query *q, const struct mr **out)
{
    const struct mr *mr = key_find(e, q->key);

    if (mr == NULL)
        return MR_NO_KEY;
    if (mr->window != NULL) {
        enum mr_verdict v = window_verdict(mr->window, q);

        if (v != MR_OK)
            return v;
    }
    if (mr->pd != q->pd)
        return MR_WRONG_PD;
    *out = mr;
    return (q->access & ~mr->access) == 0 ? MR_OK : MR_NO_ACCESS;
}

enum mr_verdict mr_has_right(struct engine *e, const struct mr_query *q)
{
    const struct mr *mr;

    return find(e, q, &mr);
}

enum mr_verdict mr_resolve(struct engine *e, const struct mr_query *q, uint8_t **out)
{
    const struct mr *mr;
    enum mr_verdict v = find(e, q, &mr);

    if (v != MR_OK)
        return v;
    if (!range_within((struct range){.start = q->va, .len = q->len},
                      (struct range){.start = mr->iova, .len = mr->len}))
        return MR_OUT_OF_BOUNDS;
    if (mr->is_null)
        return q->qp == NULL ? MR_NOTHING : MR_NO_KEY;
    *out = mr->base + (q->va - mr->iova);
    return MR_OK;
}
