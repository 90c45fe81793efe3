/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues: basic ones and those of XRC. No tag matching. */
#include "verbs/srq.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/export.h"
#include "verbs/pd.h"
#include "verbs/post.h"
#include "verbs/xrcd.h"

static void fill(struct srq_handle *h, struct pd_handle *pd, void *srq_context)
{
    h->context = pd->context;
    h->ibv.context = pd->ibv.context;
    h->ibv.srq_context = srq_context;
    h->ibv.pd = &pd->ibv;
    async_source_init(&h->async, ASYNC_SRQ);
    pthread_mutex_init(&h->ibv.mutex, NULL);
    pthread_cond_init(&h->ibv.cond, NULL);
}

static void free_handle(struct srq_handle *h)
{
    pthread_cond_destroy(&h->ibv.cond);
    pthread_mutex_destroy(&h->ibv.mutex);
    free(h);
}

/* Puts the queue where the application wants it; else ends it. 0 or an errno. */
static int place_ring(struct srq_handle *h, struct pd_handle *p)
{
    int error = rings_alloc(&h->rings, p, srq_ring_len(h->srq), RINGS_SRQ);

    node_lock(p->context->node);
    if (error == 0 && h->rings.bytes != NULL)
        srq_set_ring(h->srq, h->rings.bytes);
    if (error != 0)
        srq_free(h->srq);
    if (error != 0 && h->xrcd != NULL)
        h->xrcd->use_count--;
    node_unlock(p->context->node);
    return error;
}

/* xrcd and cq: of XRC, else NULL. */
static struct ibv_srq *new_srq(struct pd_handle *p, struct ibv_srq_init_attr *attr,
                               struct xrcd_handle *xrcd, struct cq *cq)
{
    struct node *node = p->context->node;
    struct srq_attr wanted = {.wr_max = attr->attr.max_wr,
                              .sge_max = attr->attr.max_sge,
                              .xrcd = xrcd != NULL ? xrcd->xrcd : NULL,
                              .cq = cq};
    struct srq_handle *h;
    int error = EIO;

    if (!context_alive(p->context))
        goto fail;
    error = ENOMEM;
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        goto fail;
    fill(h, p, attr->srq_context);
    node_lock(node);
    error = -srq_new(p->pd, &wanted, h, &h->srq);
    if (error == 0 && xrcd != NULL) {
        h->xrcd = xrcd;
        xrcd->use_count++;
    }
    node_unlock(node);
    if (error == 0)
        error = place_ring(h, p);
    if (error == 0) {
        attr->attr.max_wr = wanted.wr_max;
        attr->attr.max_sge = wanted.sge_max;
        return &h->ibv;
    }
    free_handle(h);

fail:
    errno = error;
    return NULL;
}

/* attr may be the beginning of a struct ibv_srq_init_attr_ex: only the common members are touched.
 */
EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    return new_srq(pd_of(pd), attr, NULL, NULL);
}

static int check_extended(struct ibv_context *context, const struct ibv_srq_init_attr_ex *attr)
{
    const uint32_t of_xrc = IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    uint32_t needed = IBV_SRQ_INIT_ATTR_PD;

    if ((attr->comp_mask & ~(needed | of_xrc | IBV_SRQ_INIT_ATTR_TYPE)) != 0)
        return EOPNOTSUPP;
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && attr->srq_type != IBV_SRQT_BASIC) {
        if (attr->srq_type != IBV_SRQT_XRC)
            return EOPNOTSUPP;
        needed |= of_xrc;
    }
    if ((attr->comp_mask & ~(uint32_t)IBV_SRQ_INIT_ATTR_TYPE) != needed)
        return EINVAL;
    if (attr->pd->context != context)
        return EINVAL;
    if (needed == IBV_SRQ_INIT_ATTR_PD)
        return 0;
    return attr->xrcd->context == context && attr->cq->context == context ? 0 : EINVAL;
}

struct ibv_srq *srq_handle_new_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
    struct ibv_srq_init_attr *common = (struct ibv_srq_init_attr *)attr;
    int error = check_extended(context, attr);

    if (error != 0) {
        errno = error;
        return NULL;
    }
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) == 0)
        return ibv_create_srq(attr->pd, common);
    return new_srq(pd_of(attr->pd), common, xrcd_of(attr->xrcd), cq_of(attr->cq)->cq);
}

/* Only requests of XRC name an SRQ; others have no number. */
int srq_handle_number(struct ibv_srq *srq, uint32_t *number)
{
    struct srq_handle *h = srq_of(srq);

    if (!context_alive(h->context))
        return EIO;
    if (h->xrcd == NULL)
        return EINVAL;
    *number = srq_number(h->srq);
    return 0;
}

/* Both changes or none. The node's lock is held. */
static int modify(struct srq *srq, const struct ibv_srq_attr *attr, int mask)
{
    bool resize = (mask & IBV_SRQ_MAX_WR) != 0;
    bool limit = (mask & IBV_SRQ_LIMIT) != 0;
    struct srq_attr before;
    int error = 0;

    srq_query(srq, &before);
    if (resize)
        error = srq_resize(srq, attr->max_wr);
    if (error != 0 || !limit)
        return error;
    error = srq_set_limit(srq, attr->srq_limit);
    if (error != 0 && resize)
        srq_resize(srq, before.wr_max);
    return error;
}

EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    struct srq_handle *h = srq_of(srq);
    int error;

    if (!context_alive(h->context))
        return EIO;
    if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0)
        return EINVAL;
    node_lock(h->context->node);
    error = modify(h->srq, attr, mask);
    node_unlock(h->context->node);
    return -error;
}

EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *out)
{
    struct srq_handle *h = srq_of(srq);
    struct srq_attr attr;

    if (!context_alive(h->context))
        return EIO;
    node_lock(h->context->node);
    srq_query(h->srq, &attr);
    node_unlock(h->context->node);
    out->max_wr = attr.wr_max;
    out->max_sge = attr.sge_max;
    out->srq_limit = attr.limit;
    return 0;
}

EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
    struct srq_handle *h = srq_of(srq);
    struct context_handle *c = h->context;
    int error;

    if (!context_alive(c))
        return EIO;
    node_lock(c->node);
    error = -srq_free(h->srq);
    if (error == 0) {
        async_withdraw(c, &h->async);
        if (h->xrcd != NULL)
            h->xrcd->use_count--;
    }
    node_unlock(c->node);
    if (error != 0)
        return error;
    ack_wait(&srq->mutex, &srq->cond, &srq->events_completed, h->async.reported);
    rings_free(&h->rings);
    free_handle(h);
    return 0;
}

static int post_one(void *queue, const struct recv_wr *wr)
{
    return srq_post(queue, wr);
}

int srq_handle_post(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    struct srq_handle *h = srq_of(srq);
    int error;

    *bad_wr = wr;
    if (!context_alive(h->context))
        return EIO;
    node_enter(h->context->node);
    error = post_receives(post_one, h->srq, wr, bad_wr);
    node_leave(h->context->node);
    return error;
}
