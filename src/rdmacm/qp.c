/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs, completion queues and shared receive queues of IDs, and their attributes. */
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <string.h>

#include "rdmacm/id.h"
#include "verbs/export.h"

#define RNR_TIMER 12u /* 0.64 ms: a receiver that is late is soon asked again */
#define ACCESS_ALL                                                                                 \
    ((unsigned)IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* --- attributes --- */

struct ibv_ah_attr id_address(const struct id_handle *h, const struct path *path)
{
    struct ibv_ah_attr attr = {
        .is_global = 1,
        .port_num = PORT_NUMBER,
        .grh.sgid_index = (uint8_t)h->place.gid_index,
        .grh.flow_label = path->flow_label,
        .grh.traffic_class = path->traffic_class,
        .grh.hop_limit = path->hop_limit,
    };

    memcpy(attr.grh.dgid.raw, path->dst.bytes, sizeof(path->dst.bytes));
    return attr;
}

static bool answers_reads(const struct id_handle *h)
{
    return h->rdma.qp_type == IBV_QPT_RC || h->rdma.qp_type == IBV_QPT_XRC_RECV;
}

static bool asks(const struct id_handle *h)
{
    return h->rdma.qp_type == IBV_QPT_RC || h->rdma.qp_type == IBV_QPT_XRC_SEND;
}

static int init_attr(const struct id_handle *h, struct ibv_qp_attr *attr, int *mask)
{
    attr->pkey_index = 0;
    attr->port_num = PORT_NUMBER;
    *mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    if (id_is_datagram(h)) {
        attr->qkey = RDMA_UDP_QKEY;
        *mask |= IBV_QP_QKEY;
    } else {
        attr->qp_access_flags = h->agreed.known ? ACCESS_ALL : 0;
        *mask |= IBV_QP_ACCESS_FLAGS;
    }
    return 0;
}

static int rtr_attr(const struct id_handle *h, struct ibv_qp_attr *attr, int *mask)
{
    *mask = IBV_QP_STATE;
    if (id_is_datagram(h))
        return 0;
    if (!h->agreed.known)
        return -EINVAL;
    attr->ah_attr = id_address(h, &h->path);
    attr->path_mtu = h->agreed.path_mtu;
    attr->dest_qp_num = h->agreed.remote_qpn;
    attr->rq_psn = h->local_psn;
    *mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (answers_reads(h)) {
        attr->max_dest_rd_atomic = h->agreed.responder_resources;
        attr->min_rnr_timer = RNR_TIMER;
        *mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    }
    return 0;
}

static int rts_attr(const struct id_handle *h, struct ibv_qp_attr *attr, int *mask)
{
    *mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    attr->sq_psn = 0;
    if (id_is_datagram(h))
        return 0;
    if (!h->agreed.known)
        return -EINVAL;
    attr->sq_psn = h->agreed.remote_psn;
    if (answers_reads(h) || asks(h)) {
        attr->timeout = h->has_ack_timeout ? h->ack_timeout : h->agreed.ack_timeout;
        *mask |= IBV_QP_TIMEOUT;
    }
    if (asks(h)) {
        attr->retry_cnt = h->agreed.retry_count;
        attr->rnr_retry = h->agreed.rnr_retry_count;
        attr->max_rd_atomic = h->agreed.initiator_depth;
        *mask |= IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    }
    return 0;
}

static int attr_for(const struct id_handle *h, struct ibv_qp_attr *attr, int *mask)
{
    if (h->rdma.verbs == NULL)
        return -EINVAL;
    if (attr->qp_state == IBV_QPS_INIT)
        return init_attr(h, attr, mask);
    if (attr->qp_state == IBV_QPS_RTR)
        return rtr_attr(h, attr, mask);
    return attr->qp_state == IBV_QPS_RTS ? rts_attr(h, attr, mask) : -EINVAL;
}

EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *qp_attr, int *qp_attr_mask)
{
    if (id == NULL || qp_attr == NULL || qp_attr_mask == NULL)
        return id_result(-EINVAL);
    return id_result(attr_for(id_of(id), qp_attr, qp_attr_mask));
}

/* --- states --- */

static int to_state(const struct id_handle *h, struct ibv_qp *qp, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask;
    int result = attr_for(h, &attr, &mask);

    return result == 0 ? -ibv_modify_qp(qp, &attr, mask) : result;
}

static int to_rts(const struct id_handle *h, struct ibv_qp *qp)
{
    int result = to_state(h, qp, IBV_QPS_INIT);

    if (result == 0)
        result = to_state(h, qp, IBV_QPS_RTR);
    return result == 0 ? to_state(h, qp, IBV_QPS_RTS) : result;
}

/* Through INIT once more: what the peer may do is known only now. */
int id_qp_ready(struct id_handle *h)
{
    return to_rts(h, h->rdma.qp);
}

void id_qp_fail(struct id_handle *h)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

    if (h->rdma.qp != NULL && !id_is_datagram(h))
        ibv_modify_qp(h->rdma.qp, &attr, IBV_QP_STATE);
}

/* A datagram queue pair needs nobody: it is ready at once. */
static int prepare_qp(const struct id_handle *h, struct ibv_qp *qp)
{
    return id_is_datagram(h) ? to_rts(h, qp) : to_state(h, qp, IBV_QPS_INIT);
}

/* --- completion queues of ours --- */

static void destroy_cq(struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
    if (*cq != NULL)
        ibv_destroy_cq(*cq);
    if (*channel != NULL)
        ibv_destroy_comp_channel(*channel);
    *cq = NULL;
    *channel = NULL;
}

/* 0 or a negative errno. */
static int create_cq(struct rdma_cm_id *id, uint32_t size, struct ibv_cq **cq,
                     struct ibv_comp_channel **channel)
{
    int result;

    if (size == 0)
        return 0;
    *channel = ibv_create_comp_channel(id->verbs);
    if (*channel != NULL)
        *cq = ibv_create_cq(id->verbs, (int)size, id, *channel, 0);
    if (*cq != NULL)
        return 0;
    result = -errno;
    destroy_cq(cq, channel);
    return result;
}

static void destroy_cqs(struct rdma_cm_id *id)
{
    destroy_cq(&id->recv_cq, &id->recv_cq_channel);
    destroy_cq(&id->send_cq, &id->send_cq_channel);
}

/* Those that the application did not bring. 0 or a negative errno. */
static int create_cqs(struct rdma_cm_id *id, bool send, uint32_t send_size, bool recv,
                      uint32_t recv_size)
{
    int result = 0;

    if (send && id->send_cq == NULL)
        result = create_cq(id, send_size, &id->send_cq, &id->send_cq_channel);
    if (result == 0 && recv && id->recv_cq == NULL)
        result = create_cq(id, recv_size, &id->recv_cq, &id->recv_cq_channel);
    return result;
}

/* --- queue pairs --- */

static int check_qp(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    if (id->qp != NULL || id->verbs == NULL)
        return -EINVAL;
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr->pd == NULL)
        attr->pd = id->pd;
    attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
    if (attr->pd == NULL || attr->pd->context != id->verbs)
        return -EINVAL;
    if ((id->send_cq != NULL && attr->send_cq != NULL && id->send_cq != attr->send_cq) ||
        (id->recv_cq != NULL && attr->recv_cq != NULL && id->recv_cq != attr->recv_cq))
        return -EINVAL;
    return 0;
}

/* A target of XRC has a domain, and no completion queue: its SRQs have. 0 or a negative errno. */
static int prepare_queues(struct id_handle *h, struct ibv_qp_init_attr_ex *attr)
{
    if (attr->qp_type != IBV_QPT_XRC_RECV)
        return create_cqs(&h->rdma, attr->send_cq == NULL, attr->cap.max_send_wr,
                          attr->recv_cq == NULL && attr->qp_type != IBV_QPT_XRC_SEND,
                          attr->cap.max_recv_wr);
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0 || attr->xrcd == NULL)
        attr->xrcd = device_xrcd(h->place.device);
    attr->comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_PD; /* the one instead of the other */
    attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
    return attr->xrcd == NULL ? -errno : 0;
}

static int create_qp(struct id_handle *h, struct ibv_qp_init_attr_ex *attr)
{
    struct rdma_cm_id *id = &h->rdma;
    struct ibv_qp *qp;
    int result = check_qp(id, attr);

    if (result == 0)
        result = prepare_queues(h, attr);
    if (result != 0)
        return result;
    if (attr->send_cq == NULL)
        attr->send_cq = id->send_cq;
    if (attr->recv_cq == NULL)
        attr->recv_cq = id->recv_cq;
    if (attr->srq == NULL)
        attr->srq = id->srq;
    qp = ibv_create_qp_ex(id->verbs, attr);
    if (qp == NULL)
        return -errno;
    result = prepare_qp(h, qp);
    if (result != 0) {
        ibv_destroy_qp(qp);
        return result;
    }
    id->qp = qp;
    id->pd = attr->pd;
    return 0;
}

EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    int result = create_qp(id_of(id), attr);

    if (result != 0)
        destroy_cqs(id);
    return id_result(result);
}

EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex ex = {
        .qp_context = attr->qp_context,
        .send_cq = attr->send_cq,
        .recv_cq = attr->recv_cq,
        .srq = attr->srq,
        .cap = attr->cap,
        .qp_type = attr->qp_type,
        .sq_sig_all = attr->sq_sig_all,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = pd,
    };
    int result = rdma_create_qp_ex(id, &ex);

    if (result == 0)
        attr->cap = ex.cap;
    return result;
}

EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
    if (id->qp != NULL)
        ibv_destroy_qp(id->qp);
    id->qp = NULL;
    destroy_cqs(id);
}

/* --- shared receive queues --- */

/* What one of XRC needs and the application did not bring. 0 or a negative errno. */
static int prepare_xrc_srq(struct id_handle *h, struct ibv_srq_init_attr_ex *attr)
{
    int result = 0;

    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_XRCD) == 0 || attr->xrcd == NULL)
        attr->xrcd = device_xrcd(h->place.device);
    if (attr->xrcd == NULL)
        return -errno;
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_CQ) == 0 || attr->cq == NULL) {
        result = create_cqs(&h->rdma, false, 0, true, attr->attr.max_wr);
        attr->cq = h->rdma.recv_cq;
    }
    attr->comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    return result;
}

EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
    int result = 0;

    if (id->srq != NULL || id->verbs == NULL)
        return id_result(-EINVAL);
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == NULL)
        attr->pd = id->pd;
    attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && attr->srq_type == IBV_SRQT_XRC)
        result = prepare_xrc_srq(id_of(id), attr);
    if (result == 0) {
        id->srq = ibv_create_srq_ex(id->verbs, attr);
        result = id->srq == NULL ? -errno : 0;
    }
    if (result != 0)
        destroy_cqs(id);
    else if (id->pd == NULL)
        id->pd = attr->pd;
    return id_result(result);
}

EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct ibv_srq_init_attr_ex ex = {
        .srq_context = attr->srq_context,
        .attr = attr->attr,
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
        .srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC,
        .pd = pd,
    };
    int result = rdma_create_srq_ex(id, &ex);

    if (result == 0)
        attr->attr = ex.attr;
    return result;
}

EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
    if (id->srq != NULL)
        ibv_destroy_srq(id->srq);
    id->srq = NULL;
    if (id->qp == NULL)
        destroy_cqs(id);
}
