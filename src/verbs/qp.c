/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: create and destroy. */
#include "verbs/qp.h"

#include <errno.h>
#include <stdlib.h>

#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/export.h"
#include "verbs/pd.h"
#include "verbs/srq.h"
#include "verbs/wr.h"

/* False for a type that is not built, or is none. */
static bool service_of(enum ibv_qp_type type, enum service *out)
{
    switch (type) {
    case IBV_QPT_RC:
        *out = SERVICE_RC;
        return true;
    case IBV_QPT_UC:
        *out = SERVICE_UC;
        return true;
    case IBV_QPT_UD:
        *out = SERVICE_UD;
        return true;
    case IBV_QPT_RAW_PACKET:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
    case IBV_QPT_DRIVER:
        break;
    }
    return false;
}

/* What both ways to create have in common. The two structs begin alike. */
static int check_common(struct pd_handle *pd, const struct ibv_qp_init_attr *attr)
{
    const struct ibv_context *ibv = pd->ibv.context;
    enum service service;

    if (!context_alive(pd->context))
        return EIO;
    if (!service_of(attr->qp_type, &service))
        return EOPNOTSUPP;
    if (attr->send_cq == NULL || attr->recv_cq == NULL)
        return EINVAL;
    if (attr->send_cq->context != ibv || attr->recv_cq->context != ibv)
        return EINVAL;
    if (attr->srq != NULL && attr->srq->context != ibv)
        return EINVAL;
    return 0;
}

static struct qp_init translate(struct qp_handle *h, struct pd_handle *pd,
                                const struct ibv_qp_init_attr *attr)
{
    struct device state;
    struct qp_init init = {
        .pd = pd->pd,
        .send_cq = cq_of(attr->send_cq)->cq,
        .recv_cq = cq_of(attr->recv_cq)->cq,
        .srq = attr->srq != NULL ? srq_of(attr->srq)->srq : NULL,
        .cap =
            {
                .send_wr_max = attr->cap.max_send_wr,
                .recv_wr_max = attr->cap.max_recv_wr,
                .send_sge_max = attr->cap.max_send_sge,
                .recv_sge_max = attr->cap.max_recv_sge,
                .inline_max = attr->cap.max_inline_data,
            },
        .all_signaled = attr->sq_sig_all != 0,
        .context = h,
    };

    device_snapshot(h->context->device, &state);
    init.pmtu = state.active_mtu;
    service_of(attr->qp_type, &init.service);
    return init;
}

static void fill(struct qp_handle *h, struct pd_handle *pd, const struct ibv_qp_init_attr *attr)
{
    struct ibv_qp *ibv = &h->ibv.qp_base;

    h->context = pd->context;
    ibv->context = pd->ibv.context;
    ibv->qp_context = attr->qp_context;
    ibv->pd = &pd->ibv;
    ibv->send_cq = attr->send_cq;
    ibv->recv_cq = attr->recv_cq;
    ibv->srq = attr->srq;
    ibv->state = IBV_QPS_RESET;
    ibv->qp_type = attr->qp_type;
    async_source_init(&h->async, ASYNC_QP);
    pthread_mutex_init(&ibv->mutex, NULL);
    pthread_cond_init(&ibv->cond, NULL);
}

static void free_handle(struct qp_handle *h)
{
    wr_builder_free(h->builder);
    pthread_cond_destroy(&h->ibv.qp_base.cond);
    pthread_mutex_destroy(&h->ibv.qp_base.mutex);
    free(h);
}

static struct ibv_qp_cap cap_to_ibv(const struct qp_cap *cap)
{
    return (struct ibv_qp_cap){
        .max_send_wr = cap->send_wr_max,
        .max_recv_wr = cap->recv_wr_max,
        .max_send_sge = cap->send_sge_max,
        .max_recv_sge = cap->recv_sge_max,
        .max_inline_data = cap->inline_max,
    };
}

/* Makes the engine's part. 0 or an errno. */
static int create(struct qp_handle *h, struct pd_handle *pd, struct ibv_qp_init_attr *attr)
{
    struct node *node = h->context->node;
    struct qp_init init = translate(h, pd, attr);
    int error;

    node_lock(node);
    error = -qp_new(node_engine(node), &init, &h->qp);
    node_unlock(node);
    if (error != 0)
        return error;
    h->cap = init.cap;
    h->all_signaled = init.all_signaled;
    h->ibv.qp_base.qp_num = qp_qpn(h->qp);
    h->ibv.qp_base.handle = h->ibv.qp_base.qp_num;
    attr->cap = cap_to_ibv(&init.cap);
    return 0;
}

/* operations: of the builder; NULL: no builder. */
static struct ibv_qp *new_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr,
                             const uint64_t *operations)
{
    struct pd_handle *p = pd_of(pd);
    struct qp_handle *h;
    int error = check_common(p, attr);

    if (error != 0)
        goto fail;
    error = ENOMEM;
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        goto fail;
    fill(h, p, attr);
    error = operations != NULL ? wr_builder_attach(h, *operations) : 0;
    if (error == 0)
        error = create(h, p, attr);
    if (error == 0)
        return &h->ibv.qp_base;
    free_handle(h);

fail:
    errno = error;
    return NULL;
}

/* attr may be the beginning of a struct ibv_qp_init_attr_ex: only the common members are touched.
 */
EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    return new_qp(pd, attr, NULL);
}

static int check_extended(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
    const uint32_t known =
        IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;

    if ((attr->comp_mask & ~known) != 0)
        return EOPNOTSUPP;
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr->pd->context != context)
        return EINVAL;
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr->create_flags != 0)
        return EOPNOTSUPP;
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 &&
        (attr->send_ops_flags & ~wr_operations_of(attr->qp_type)) != 0)
        return EOPNOTSUPP;
    return 0;
}

struct ibv_qp *qp_handle_new_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    bool with_ops = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    int error = check_extended(context, attr);

    if (error != 0) {
        errno = error;
        return NULL;
    }
    return new_qp(attr->pd, (struct ibv_qp_init_attr *)attr,
                  with_ops ? &attr->send_ops_flags : NULL);
}

EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    struct qp_handle *h = qp_of(qp);

    return h->builder != NULL ? &h->ibv : NULL;
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
    struct qp_handle *h = qp_of(qp);
    struct context_handle *c = h->context;
    int error;

    if (!context_alive(c))
        return EIO;
    node_lock(c->node);
    error = -qp_free(h->qp);
    if (error == 0)
        async_withdraw(c, &h->async);
    node_leave_posted(c->node); /* its last words leave now: the process may end next */
    if (error != 0)
        return error;
    ack_wait(&qp->mutex, &qp->cond, &qp->events_completed, h->async.reported);
    free_handle(h);
    return 0;
}

/* --- what is not built --- */

EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp;
    (void)gid;
    (void)lid;
    return EOPNOTSUPP;
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)qp;
    (void)gid;
    (void)lid;
    return EOPNOTSUPP;
}

/* Enhanced connection establishment is between adapters of one vendor; this device has no options.
 */
EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp;
    (void)ece;
    return EOPNOTSUPP;
}

EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
    (void)qp;
    *ece = (struct ibv_ece){0};
    return EOPNOTSUPP;
}

/* A message's bytes are copied in pieces whose inside has no order that anyone promises. */
EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    (void)qp;
    (void)op;
    (void)flags;
    return 0;
}
