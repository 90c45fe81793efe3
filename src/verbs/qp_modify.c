/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_modify_qp and ibv_query_qp: attributes in the interface's form and in
 * the engine's. Which are required and allowed is the engine's affair; here is
 * only what the engine does not know: GID table, port and interface MTU.
 */
#include <errno.h>

#include "base/log.h"
#include "engine/limits.h"
#include "verbs/ah.h"
#include "verbs/context.h"
#include "verbs/export.h"
#include "verbs/port.h"
#include "verbs/qp.h"

/* Programs give a QP the flags of their regions; these say nothing about a QP. */
#define ACCESS_OF_REGIONS                                                                          \
    ((unsigned)IBV_ACCESS_OPTIONAL_RANGE | (unsigned)IBV_ACCESS_ON_DEMAND |                        \
     (unsigned)IBV_ACCESS_HUGETLB)

#define ATTR_MASK_ALL ((uint32_t)IBV_QP_DEST_QPN * 2 - 1)

/* The path MTU must fit the interface: larger packets would never leave it. */
static int translate_mtu(struct context_handle *c, enum ibv_mtu mtu, uint32_t *out)
{
    struct device state;

    device_snapshot(c->device, &state);
    *out = mtu_from_ibv(mtu);
    if (*out != 0 && *out <= state.active_mtu)
        return 0;
    log_info("path mtu %u does not fit %s, whose active mtu is %u", *out, state.name,
             state.active_mtu);
    return EINVAL;
}

/* Attributes not named in mask hold garbage, and are not looked at by the engine. */
static int translate(struct qp_handle *h, const struct ibv_qp_attr *a, uint32_t mask,
                     struct qp_attr *out)
{
    int error = 0;

    *out = (struct qp_attr){
        .state = (enum qp_state)a->qp_state,
        .cur_state = (enum qp_state)a->cur_qp_state,
        .qkey = a->qkey,
        .rq_psn = psn_make(a->rq_psn),
        .sq_psn = psn_make(a->sq_psn),
        .dest_qpn = a->dest_qp_num,
        .access = a->qp_access_flags & ~ACCESS_OF_REGIONS,
        .pkey_index = a->pkey_index,
        .port = a->port_num,
        .rd_atomic = a->max_rd_atomic,
        .dest_rd_atomic = a->max_dest_rd_atomic,
        .min_rnr_timer = a->min_rnr_timer,
        .timeout = a->timeout,
        .retry_count = a->retry_cnt,
        .rnr_retry = a->rnr_retry,
        .sqd_notify = a->en_sqd_async_notify != 0,
        .path_mig_state = (uint8_t)a->path_mig_state,
    };
    if ((mask & IBV_QP_PATH_MTU) != 0)
        error = translate_mtu(h->context, a->path_mtu, &out->pmtu);
    if (error == 0 && (mask & IBV_QP_AV) != 0)
        error = path_from_ah_attr(h->context, &a->ah_attr, &out->path);
    return error;
}

/* Programs treat both sides of XRC as RC; the kernel ignores what the side does not have, too. */
static uint32_t attributes_of(enum ibv_qp_type type, uint32_t mask)
{
    if (type == IBV_QPT_XRC_SEND)
        return mask & ~(uint32_t)(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    if (type == IBV_QPT_XRC_RECV)
        return mask & ~(uint32_t)(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
    return mask;
}

/* All handles of the QP tell it. */
static void keep_address(struct qp_handle *h, const struct ibv_ah_attr *attr)
{
    struct list *l = &h->sharers;

    do {
        LIST_ENTRY(l, struct qp_handle, sharers)->ah_attr = *attr;
        l = l->next;
    } while (l != &h->sharers);
}

/* Of transitions, as Linux has it, those that end in RTS; and packets must be able to leave. */
static bool rate_fits(const struct qp_handle *h, const struct ibv_qp_attr *attr, uint32_t mask)
{
    enum ibv_qp_state to = (enum ibv_qp_state)qp_state(h->qp);

    if ((mask & IBV_QP_STATE) != 0)
        to = attr->qp_state;
    return to == IBV_QPS_RTS && h->ibv.qp_base.qp_type != IBV_QPT_XRC_RECV &&
           attr->rate_limit <= RATE_KBPS_MAX;
}

/* All of it or nothing. The node's lock is held. 0 or an errno. */
static int modify(struct qp_handle *h, const struct ibv_qp_attr *attr, const struct qp_attr *wanted,
                  uint32_t mask, const char **why)
{
    bool rate = (mask & IBV_QP_RATE_LIMIT) != 0;
    int error;

    if (rate && !rate_fits(h, attr, mask)) {
        *why = "a rate limit goes with RTS, and is not more than the device says";
        return EINVAL;
    }
    error = -qp_modify(h->qp, wanted, mask & ATTR_MASK_ALL, why);
    return error == 0 && rate ? -qp_set_rate(h->qp, attr->rate_limit, 0) : error;
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask)
{
    struct qp_handle *h = qp_of(qp);
    uint32_t mask = attributes_of(qp->qp_type, (uint32_t)attr_mask);
    const char *why = "path mtu, address vector or an unknown attribute does not fit the device";
    struct qp_attr wanted;
    int error;

    if (!context_alive(h->context))
        return EIO;
    if ((mask & ~(ATTR_MASK_ALL | IBV_QP_RATE_LIMIT)) != 0)
        return EINVAL;
    error = translate(h, attr, mask, &wanted);
    if (error != 0)
        goto refused;
    node_enter(h->context->node);
    error = modify(h, attr, &wanted, mask, &why);
    qp->state = (enum ibv_qp_state)qp_state(h->qp);
    if (error == 0 && qp->state == IBV_QPS_RESET)
        keep_address(h, &(struct ibv_ah_attr){0});
    if (error == 0 && (mask & IBV_QP_AV) != 0)
        keep_address(h, &attr->ah_attr);
    node_leave_posted(h->context->node);
    if (error == 0)
        return 0;

refused:
    log_info("qp 0x%06x: %s", qp->qp_num, why);
    return error;
}

/* The usual packet length needs no telling: bytes are counted, not packets. */
int qp_handle_modify_rate(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
    struct qp_handle *h = qp_of(qp);
    int error;

    if (!context_alive(h->context))
        return EIO;
    if (attr->comp_mask != 0 || attr->rate_limit > RATE_KBPS_MAX)
        return EINVAL;
    node_enter(h->context->node);
    error = qp_set_rate(h->qp, attr->rate_limit, attr->max_burst_sz);
    node_leave_posted(h->context->node);
    return -error;
}

static void describe(const struct qp_handle *h, const struct qp_attr *a, struct ibv_qp_attr *out)
{
    *out = (struct ibv_qp_attr){
        .qp_state = (enum ibv_qp_state)a->state,
        .cur_qp_state = (enum ibv_qp_state)a->cur_state,
        .path_mtu = a->pmtu != 0 ? mtu_to_ibv(a->pmtu) : 0,
        .path_mig_state = (enum ibv_mig_state)a->path_mig_state,
        .qkey = a->qkey,
        .rq_psn = a->rq_psn.value,
        .sq_psn = a->sq_psn.value,
        .dest_qp_num = a->dest_qpn,
        .qp_access_flags = a->access,
        .ah_attr = h->ah_attr,
        .pkey_index = a->pkey_index,
        .en_sqd_async_notify = a->sqd_notify,
        .max_rd_atomic = a->rd_atomic,
        .max_dest_rd_atomic = a->dest_rd_atomic,
        .min_rnr_timer = a->min_rnr_timer,
        .port_num = a->port,
        .timeout = a->timeout,
        .retry_cnt = a->retry_count,
        .rnr_retry = a->rnr_retry,
    };
}

static void describe_cap(const struct qp_cap *cap, struct ibv_qp_cap *out)
{
    *out = (struct ibv_qp_cap){
        .max_send_wr = cap->send_wr_max,
        .max_recv_wr = cap->recv_wr_max,
        .max_send_sge = cap->send_sge_max,
        .max_recv_sge = cap->recv_sge_max,
        .max_inline_data = cap->inline_max,
    };
}

/* All attributes are given, whatever the mask names. */
EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int attr_mask,
                        struct ibv_qp_init_attr *init_attr)
{
    struct qp_handle *h = qp_of(qp);
    struct qp_attr state;
    struct qp_cap cap;

    (void)attr_mask;
    if (!context_alive(h->context))
        return EIO;
    node_lock(h->context->node);
    qp_query(h->qp, &state, &cap);
    describe(h, &state, attr);
    attr->sq_draining = qp_is_draining(h->qp);
    attr->rate_limit = qp_rate_kbps(h->qp);
    qp->state = attr->qp_state;
    node_unlock(h->context->node);
    describe_cap(&cap, &attr->cap);
    *init_attr = (struct ibv_qp_init_attr){
        .qp_context = qp->qp_context,
        .send_cq = qp->send_cq,
        .recv_cq = qp->recv_cq,
        .srq = qp->srq,
        .cap = attr->cap,
        .qp_type = qp->qp_type,
        .sq_sig_all = h->all_signaled,
    };
    return 0;
}
