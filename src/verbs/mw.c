/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows: allocate, and what their binds ask for. Binding is a work request. */
#include "verbs/mw.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs/context.h"
#include "verbs/pd.h"
#include "verbs/post.h"
#include "verbs/qp.h"

/* Local write is the region's affair; programs name it all the same. */
#define ACCESS_KNOWN                                                                               \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |                   \
     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED)

struct mw_handle {
    struct ibv_mw ibv;
    struct mw *mw;
};

static struct mw_handle *mw_of(struct ibv_mw *ibv)
{
    return (struct mw_handle *)((char *)ibv - offsetof(struct mw_handle, ibv));
}

struct ibv_mw *mw_handle_new(struct ibv_pd *ibv_pd, enum ibv_mw_type type)
{
    struct pd_handle *pd = pd_of(ibv_pd);
    struct context_handle *c = pd->context;
    struct mw_handle *h;
    int error = EIO;

    if (!context_alive(c))
        goto fail;
    error = ENOMEM;
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        goto fail;
    node_lock(c->node);
    error = -mw_new(pd->pd, (enum mw_type)type, &h->mw);
    node_unlock(c->node);
    if (error == 0) {
        h->ibv.context = &c->verbs.context;
        h->ibv.pd = ibv_pd;
        h->ibv.rkey = h->mw->view.key;
        h->ibv.handle = h->mw->view.key;
        h->ibv.type = type;
        return &h->ibv;
    }
    free(h);

fail:
    errno = error;
    return NULL;
}

int mw_handle_free(struct ibv_mw *mw)
{
    struct context_handle *c = context_of(mw->context);

    if (!context_alive(c))
        return EIO;
    node_lock(c->node);
    mw_free(mw_of(mw)->mw);
    node_unlock(c->node);
    free(mw_of(mw));
    return 0;
}

/* The part that both types have in common. info->mr may be NULL. */
static int translate(const struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info,
                     struct mw_bind *out)
{
    if ((info->mw_access_flags & ~(unsigned)(ACCESS_KNOWN | IBV_ACCESS_OPTIONAL_RANGE)) != 0)
        return -EINVAL;
    *out = (struct mw_bind){
        .window_key = mw->rkey,
        .region_key = info->mr != NULL ? info->mr->lkey : 0,
        .key = rkey,
        .addr = info->addr,
        .len = info->length,
        .access = info->mw_access_flags & (ACCESS_KNOWN & ~(unsigned)IBV_ACCESS_LOCAL_WRITE),
    };
    return 0;
}

int mw_bind_type_2(const struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info,
                   struct mw_bind *out)
{
    if (mw == NULL || mw->type != IBV_MW_TYPE_2 || info == NULL || info->mr == NULL)
        return -EINVAL;
    return translate(mw, rkey, info, out);
}

/* The header has seen to the type and to the region's domain. */
int mw_handle_bind(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *wanted)
{
    struct qp_handle *h = qp_of(qp);
    struct mw_bind bind;
    struct send_wr wr = {
        .wr_id = wanted->wr_id,
        .opcode = WR_BIND_MW,
        .flags = wanted->send_flags,
        .bind = &bind,
    };
    int error;

    if (!context_alive(h->context))
        return EIO;
    if ((wanted->send_flags & ~(unsigned)(IBV_SEND_FENCE | IBV_SEND_SIGNALED)) != 0)
        return EINVAL;
    node_enter(h->context->node); /* the key is counted on for who comes first */
    error = translate(mw, ibv_inc_rkey(mw->rkey), &wanted->bind_info, &bind);
    if (error == 0)
        error = qp_post_send(h->qp, &wr);
    if (error == 0)
        mw->rkey = bind.key;
    qp_handle_leave_posted(h);
    return -error;
}
