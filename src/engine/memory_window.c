/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory windows (IBA 10.6.7): a key that opens part of a region, given and
 * taken away by work requests. A window is a region's view to the table of
 * keys, so that access through it costs and checks what access to a region
 * does; its range lies within the region's for as long as it is bound, since
 * a region with windows can be neither changed nor freed.
 *
 * Type 2 is 2B: bound to the QP that carried the bind out.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/checked.h"
#include "engine/engine_private.h"
#include "engine/key_private.h"
#include "engine/limits.h"
#include "engine/memory.h"
#include "engine/qp_private.h"

int mw_new(struct pd *pd, enum mw_type type, struct mw **out)
{
    struct engine *e = pd->engine;
    struct mw *mw;
    int error;

    if (type != MW_TYPE_1 && type != MW_TYPE_2)
        return -EINVAL;
    if (e->mw_count >= MW_COUNT_MAX)
        return -ENOMEM;
    error = key_reserve(e);
    if (error != 0)
        return error;
    mw = calloc(1, sizeof(*mw));
    if (mw == NULL)
        return -ENOMEM;
    mw->type = type;
    mw->view.window = mw;
    mw->view.pd = pd;
    pd->use_count++;
    list_init(&mw->qp_link);
    key_enter(e, &mw->view);
    e->mw_count++;
    *out = mw;
    return 0;
}

static void unbind(struct mw *mw)
{
    if (mw->region == NULL)
        return;
    assert(mw->region->window_count > 0);
    mw->region->window_count--;
    mw->region = NULL;
    mw->qp = NULL;
    list_remove(&mw->qp_link);
    mw->view.base = NULL;
    mw->view.iova = 0;
    mw->view.len = 0;
    mw->view.access = 0;
}

void mw_free(struct mw *mw)
{
    struct engine *e = mw->view.pd->engine;

    unbind(mw);
    key_leave(e, &mw->view);
    assert(mw->view.pd->use_count > 0);
    mw->view.pd->use_count--;
    e->mw_count--;
    free(mw);
}

/* The address in the region that the window begins at, and its length. */
static bool range_fits(const struct mr *region, const struct mw_bind *bind)
{
    return range_within((struct range){.start = bind->addr, .len = bind->len},
                        (struct range){.start = region->iova, .len = region->len});
}

/* IBA 10.6.7.2, F56: what the region must be, for these rights. */
static bool region_allows(const struct mr *region, const struct mw_bind *bind)
{
    const uint32_t change = ACCESS_REMOTE_WRITE | ACCESS_REMOTE_ATOMIC;

    if ((region->access & ACCESS_MW_BIND) == 0 || (region->access & ACCESS_ZERO_BASED) != 0)
        return false;
    if ((bind->access & change) != 0 && (region->access & ACCESS_LOCAL_WRITE) == 0)
        return false;
    return range_fits(region, bind);
}

/*
 * Whether the bind may be carried out. *region: what it binds to, or NULL when
 * it only takes the old binding away (type 1, no length).
 */
static bool bind_is_good(struct qp *qp, const struct mw *mw, const struct mw_bind *bind,
                         struct mr **region)
{
    struct mr *mr;

    *region = NULL;
    if (mw->view.pd != qp->pd || !key_same_slot(mw->view.key, bind->key))
        return false;
    if (bind->len == 0)
        return mw->type == MW_TYPE_1;
    if (mw->type == MW_TYPE_2 && mw->region != NULL)
        return false; /* it has to be invalidated first */
    mr = key_find(qp->engine, bind->region_key);
    if (mr == NULL || mr->window != NULL || mr->pd != qp->pd || !region_allows(mr, bind))
        return false;
    *region = mr;
    return true;
}

int mw_bind(struct qp *qp, const struct mw_bind *bind)
{
    struct mr *view = key_find_slot(qp->engine, bind->window_key);
    struct mw *mw = view != NULL ? view->window : NULL;
    struct mr *region;

    if (mw == NULL || !bind_is_good(qp, mw, bind, &region))
        return -EINVAL;
    unbind(mw);
    mw->view.key = bind->key;
    if (region == NULL)
        return 0;
    mw->region = region;
    region->window_count++;
    if (mw->type == MW_TYPE_2) {
        mw->qp = qp;
        list_push_tail(&qp->windows, &mw->qp_link);
    }
    mw->view.base = region->base + (bind->addr - region->iova);
    mw->view.iova = (bind->access & ACCESS_ZERO_BASED) != 0 ? 0 : bind->addr;
    mw->view.len = bind->len;
    mw->view.access = bind->access;
    return 0;
}

void mw_leave_qp(struct qp *qp)
{
    struct list *link;

    while ((link = list_pop_head(&qp->windows)) != NULL)
        LIST_ENTRY(link, struct mw, qp_link)->qp = NULL;
}

/*
 * Only windows of type 2 are there to be invalidated: regions would have to be
 * made for fast registration (IBA 10.6.5), which no interface of user space has.
 */
static enum mr_verdict judge_invalidate(const struct engine *e, const struct pd *pd, uint32_t key,
                                        struct mw **out)
{
    const struct mr *view = key_find(e, key);

    if (view == NULL || (view->window != NULL && view->window->region == NULL))
        return MR_NO_KEY;
    if (view->pd != pd)
        return MR_WRONG_PD;
    if (view->window == NULL || view->window->type != MW_TYPE_2)
        return MR_NO_ACCESS;
    *out = view->window;
    return MR_OK;
}

enum mr_verdict mw_may_invalidate(const struct qp *qp, const struct pd *pd, uint32_t key)
{
    struct mw *mw;
    enum mr_verdict v = judge_invalidate(qp->engine, pd, key, &mw);

    if (v != MR_OK)
        return v;
    return mw->qp == qp ? MR_OK : MR_WRONG_QP;
}

enum mr_verdict mw_invalidate(struct engine *e, const struct pd *pd, uint32_t key)
{
    struct mw *mw;
    enum mr_verdict v = judge_invalidate(e, pd, key, &mw);

    if (v == MR_OK)
        unbind(mw);
    return v;
}
