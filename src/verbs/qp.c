/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: create, open once more, destroy. */
#include "verbs/qp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/export.h"
#include "verbs/pd.h"
#include "verbs/srq.h"
#include "verbs/wr.h"
#include "verbs/xrcd.h"

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
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
        *out = SERVICE_XRC;
        return true;
    case IBV_QPT_RAW_PACKET:
    case IBV_QPT_DRIVER:
        break;
    }
    return false;
}

/* What a QP is made in: a PD, or the domain of an XRC target. */
struct origin {
    struct context_handle *context;
    struct pd_handle *pd;
    struct xrcd_handle *xrcd;
};

static bool cq_is_of(const struct ibv_cq *cq, const struct ibv_context *context)
{
    return cq != NULL && cq->context == context;
}

/* What both ways to create have in common. The two structs begin alike. */
static int check_common(const struct origin *o, const struct ibv_qp_init_attr *attr)
{
    const struct ibv_context *ibv = &o->context->verbs.context;
    enum service service;

    if (!context_alive(o->context))
        return EIO;
    if (!service_of(attr->qp_type, &service))
        return EOPNOTSUPP;
    if ((attr->qp_type == IBV_QPT_XRC_RECV) != (o->xrcd != NULL))
        return EINVAL;
    if (o->xrcd != NULL)
        return 0; /* all else is the affair of the SRQs */
    if (!cq_is_of(attr->send_cq, ibv))
        return EINVAL;
    if (attr->qp_type == IBV_QPT_XRC_SEND)
        return attr->srq == NULL ? 0 : EINVAL; /* it receives nothing */
    if (!cq_is_of(attr->recv_cq, ibv))
        return EINVAL;
    if (attr->srq != NULL && attr->srq->context != ibv)
        return EINVAL;
    return 0;
}

static void translate_parts(const struct origin *o, const struct ibv_qp_init_attr *attr,
                            struct qp_init *init)
{
    if (o->xrcd != NULL) {
        init->xrcd = o->xrcd->xrcd;
        return;
    }
    init->pd = o->pd->pd;
    init->send_cq = cq_of(attr->send_cq)->cq;
    if (attr->qp_type == IBV_QPT_XRC_SEND)
        return;
    init->recv_cq = cq_of(attr->recv_cq)->cq;
    init->srq = attr->srq != NULL ? srq_of(attr->srq)->srq : NULL;
}

static struct qp_init translate(struct qp_handle *h, const struct origin *o,
                                const struct ibv_qp_init_attr *attr)
{
    struct device state;
    struct qp_init init = {
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
        .port_tag = h->context->port_tag,
    };

    device_snapshot(h->context->device, &state);
    init.pmtu = state.active_mtu;
    h->ifindex = state.ifindex;
    translate_parts(o, attr, &init);
    service_of(attr->qp_type, &init.service);
    return init;
}

static void fill(struct qp_handle *h, const struct origin *o, const struct ibv_qp_init_attr *attr)
{
    struct ibv_qp *ibv = &h->ibv.qp_base;

    h->context = o->context;
    h->xrcd = o->xrcd;
    list_init(&h->sharers);
    ibv->context = &o->context->verbs.context;
    ibv->qp_context = attr->qp_context;
    if (o->xrcd == NULL) {
        ibv->pd = &o->pd->ibv;
        ibv->send_cq = attr->send_cq;
        ibv->recv_cq = attr->recv_cq;
        ibv->srq = attr->srq;
    }
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

/* Puts the queues where the application wants them; else ends the QP. 0 or an errno. */
static int place_rings(struct qp_handle *h, struct pd_handle *pd)
{
    int error = rings_alloc(&h->rings, pd, qp_rings_len(h->qp), RINGS_QP);

    node_lock(h->context->node);
    if (error == 0 && h->rings.bytes != NULL)
        qp_set_rings(h->qp, h->rings.bytes);
    if (error != 0)
        node_qp_free(h->context->node, h->qp);
    node_unlock(h->context->node);
    return error;
}

/* Makes the engine's part. 0 or an errno. */
static int create(struct qp_handle *h, const struct origin *o, struct ibv_qp_init_attr *attr)
{
    struct node *node = h->context->node;
    struct qp_init init = translate(h, o, attr);
    int error;

    node_lock(node);
    error = -qp_new(node_engine(node), &init, &h->qp);
    if (error == 0 && h->xrcd != NULL)
        h->xrcd->use_count++;
    node_unlock(node);
    if (error == 0 && o->pd != NULL)
        error = place_rings(h, o->pd);
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
static struct ibv_qp *new_qp(const struct origin *o, struct ibv_qp_init_attr *attr,
                             const uint64_t *operations)
{
    struct qp_handle *h;
    int error = check_common(o, attr);

    if (error != 0)
        goto fail;
    error = ENOMEM;
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        goto fail;
    fill(h, o, attr);
    error = operations != NULL ? wr_builder_attach(h, *operations) : 0;
    if (error == 0)
        error = create(h, o, attr);
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
    const struct origin o = {.context = pd_of(pd)->context, .pd = pd_of(pd)};

    return new_qp(&o, attr, NULL);
}

static int check_extended(struct ibv_context *context, const struct ibv_qp_init_attr_ex *attr)
{
    const uint32_t known = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                           IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    bool target = attr->qp_type == IBV_QPT_XRC_RECV;
    uint32_t origin = target ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD;

    if ((attr->comp_mask & ~known) != 0)
        return EOPNOTSUPP;
    if ((attr->comp_mask & (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD)) != origin)
        return EINVAL;
    if ((target ? attr->xrcd->context : attr->pd->context) != context)
        return EINVAL;
    /* No QP ever hears its own multicasts, so asking for that is asking for nothing. */
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr->create_flags != 0 &&
        (attr->create_flags != IBV_QP_CREATE_BLOCK_SELF_MCAST_LB || attr->qp_type != IBV_QPT_UD))
        return EOPNOTSUPP;
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0 &&
        (attr->send_ops_flags & ~wr_operations_of(attr->qp_type)) != 0)
        return EOPNOTSUPP;
    return 0;
}

struct ibv_qp *qp_handle_new_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    bool with_ops = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    struct origin o = {.context = context_of(context)};
    int error = check_extended(context, attr);

    if (error != 0) {
        errno = error;
        return NULL;
    }
    if (attr->qp_type == IBV_QPT_XRC_RECV)
        o.xrcd = xrcd_of(attr->xrcd);
    else
        o.pd = pd_of(attr->pd);
    return new_qp(&o, (struct ibv_qp_init_attr *)attr, with_ops ? &attr->send_ops_flags : NULL);
}

/* --- XRC targets: one QP, as many handles as were opened --- */

static int check_open(struct ibv_context *context, const struct ibv_qp_open_attr *attr)
{
    const uint32_t needed = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;

    if (!context_alive(context_of(context)))
        return EIO;
    if ((attr->comp_mask & ~(needed | IBV_QP_OPEN_ATTR_CONTEXT)) != 0)
        return EOPNOTSUPP;
    if ((attr->comp_mask & needed) != needed || attr->xrcd->context != context ||
        attr->qp_type != IBV_QPT_XRC_RECV)
        return EINVAL;
    return 0;
}

/* Joins the handles of the QP with this number. 0 or EINVAL. */
static int join(struct qp_handle *h, uint32_t qpn)
{
    struct node *node = h->context->node;
    struct qp_handle *first;

    node_lock(node);
    h->qp = xrcd_find_target(h->xrcd->xrcd, qpn);
    if (h->qp != NULL) {
        first = qp_context(h->qp);
        list_push_tail(&first->sharers, &h->sharers);
        h->ah_attr = first->ah_attr;
        h->ibv.qp_base.state = (enum ibv_qp_state)qp_state(h->qp);
        h->xrcd->use_count++;
    }
    node_unlock(node);
    h->ibv.qp_base.qp_num = qpn;
    h->ibv.qp_base.handle = qpn;
    return h->qp != NULL ? 0 : EINVAL;
}

struct ibv_qp *qp_handle_open(struct ibv_context *context, struct ibv_qp_open_attr *attr)
{
    struct ibv_qp_init_attr init = {.qp_type = attr->qp_type};
    struct origin o = {.context = context_of(context)};
    struct qp_handle *h;
    int error = check_open(context, attr);

    if (error != 0)
        goto fail;
    if ((attr->comp_mask & IBV_QP_OPEN_ATTR_CONTEXT) != 0)
        init.qp_context = attr->qp_context;
    o.xrcd = xrcd_of(attr->xrcd);
    error = ENOMEM;
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        goto fail;
    fill(h, &o, &init);
    error = join(h, attr->qp_num);
    if (error == 0)
        return &h->ibv.qp_base;
    free_handle(h);

fail:
    errno = error;
    return NULL;
}

/* The last handle takes the QP with it. The node's lock is held. */
static int leave(struct qp_handle *h)
{
    int error = 0;

    if (list_empty(&h->sharers))
        error = -node_qp_free(h->context->node, h->qp);
    else if (qp_context(h->qp) == h)
        qp_set_context(h->qp, LIST_ENTRY(h->sharers.next, struct qp_handle, sharers));
    if (error != 0)
        return error;
    list_remove(&h->sharers);
    if (h->xrcd != NULL)
        h->xrcd->use_count--;
    return 0;
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
    error = leave(h);
    if (error == 0)
        async_withdraw(c, &h->async);
    node_leave_posted(c->node); /* its last words leave now: the process may end next */
    if (error != 0)
        return error;
    ack_wait(&qp->mutex, &qp->cond, &qp->events_completed, h->async.reported);
    rings_free(&h->rings);
    free_handle(h);
    return 0;
}

/* --- multicast: of a LID RoCE knows nothing --- */

static struct multicast group_of(const struct qp_handle *h, const union ibv_gid *gid)
{
    struct multicast group = {.scope_id = h->ifindex};

    memcpy(group.gid.bytes, gid->raw, sizeof(group.gid.bytes));
    return group;
}

static int change_membership(struct ibv_qp *qp, const union ibv_gid *gid,
                             int (*change)(struct node *, struct qp *, const struct multicast *))
{
    struct qp_handle *h = qp_of(qp);
    struct multicast group = group_of(h, gid);
    int error;

    if (!context_alive(h->context))
        return EIO;
    node_lock(h->context->node);
    error = -change(h->context->node, h->qp, &group);
    node_unlock(h->context->node);
    return error;
}

EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)lid;
    return change_membership(qp, gid, node_attach);
}

EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    (void)lid;
    return change_membership(qp, gid, node_detach);
}

/* --- what is not built --- */

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
