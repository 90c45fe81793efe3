/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Classic posting: chains of work requests, each translated on the stack. The
 * chain stops at the first request that is refused; those before it stand.
 */
#include "verbs/post.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "engine/limits.h"
#include "verbs/ah.h"
#include "verbs/context.h"
#include "verbs/mw.h"
#include "verbs/qp.h"

/* No queue takes more at once. In the error state queues never fill up, and a loop has to end. */
#define CHAIN_MAX (QP_WR_MAX > SRQ_WR_MAX ? QP_WR_MAX : SRQ_WR_MAX)

#define SEND_FLAGS_KNOWN (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | IBV_SEND_INLINE)

static_assert(sizeof(struct sge) == sizeof(struct ibv_sge) &&
                  offsetof(struct sge, addr) == offsetof(struct ibv_sge, addr) &&
                  offsetof(struct sge, length) == offsetof(struct ibv_sge, length) &&
                  offsetof(struct sge, lkey) == offsetof(struct ibv_sge, lkey),
              "SGEs are copied as bytes");

/* 0 or -EINVAL for more than any queue takes. */
static int copy_sges(struct sge *to, const struct ibv_sge *from, int count)
{
    if (count < 0 || count > (int)QP_SGE_MAX)
        return -EINVAL;
    if (count > 0)
        memcpy(to, from, (size_t)count * sizeof(*to));
    return 0;
}

/* What the opcode says of the unions; bind is room for what a bind says. 0; -EOPNOTSUPP for what is
 * not built; -EINVAL for what is none. */
static int translate_operation(const struct ibv_send_wr *wr, struct mw_bind *bind,
                               struct send_wr *out)
{
    switch (wr->opcode) {
    case IBV_WR_SEND:
        return 0;
    case IBV_WR_SEND_WITH_IMM:
        out->imm = ntohl(wr->imm_data);
        return 0;
    case IBV_WR_SEND_WITH_INV:
        out->imm = wr->invalidate_rkey;
        return 0;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        out->imm = ntohl(wr->imm_data);
        /* fall through */
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_WRITE:
        out->remote_addr = wr->wr.rdma.remote_addr;
        out->rkey = wr->wr.rdma.rkey;
        return 0;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        out->remote_addr = wr->wr.atomic.remote_addr;
        out->rkey = wr->wr.atomic.rkey;
        out->compare = wr->wr.atomic.compare_add;
        out->swap = wr->wr.atomic.swap;
        return 0;
    case IBV_WR_LOCAL_INV:
        out->imm = wr->invalidate_rkey;
        return 0;
    case IBV_WR_BIND_MW:
        out->bind = bind;
        return mw_bind_type_2(wr->bind_mw.mw, wr->bind_mw.rkey, &wr->bind_mw.bind_info, bind);
    case IBV_WR_TSO:
    case IBV_WR_DRIVER1:
        return -EOPNOTSUPP;
    }
    return -EINVAL;
}

static void translate_destination(const struct ibv_send_wr *wr, struct send_wr *out)
{
    out->ah = wr->wr.ud.ah != NULL ? &ah_of(wr->wr.ud.ah)->ah : NULL;
    out->remote_qpn = wr->wr.ud.remote_qpn;
    out->remote_qkey = wr->wr.ud.remote_qkey;
}

static int post_send_one(struct qp_handle *h, const struct ibv_send_wr *wr)
{
    struct sge sges[QP_SGE_MAX];
    struct mw_bind bind;
    struct send_wr request = {
        .wr_id = wr->wr_id,
        .opcode = (enum wr_opcode)wr->opcode,
        .flags = wr->send_flags,
        .sges = sges,
        .sge_count = (uint32_t)wr->num_sge,
    };
    int error = copy_sges(sges, wr->sg_list, wr->num_sge);

    if (error == 0 && (wr->send_flags & ~(unsigned)SEND_FLAGS_KNOWN) != 0)
        error = -EINVAL;
    if (error == 0)
        error = translate_operation(wr, &bind, &request);
    if (error != 0)
        return error;
    if (h->ibv.qp_base.qp_type == IBV_QPT_UD)
        translate_destination(wr, &request);
    else if (h->ibv.qp_base.qp_type == IBV_QPT_XRC_SEND)
        request.remote_srqn = wr->qp_type.xrc.remote_srqn;
    return qp_post_send(h->qp, &request);
}

void qp_handle_leave_posted(struct qp_handle *h)
{
    if (qp_may_gather(h->qp))
        node_unlock(h->context->node);
    else
        node_leave_posted(h->context->node);
}

int qp_handle_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
    struct qp_handle *h = qp_of(qp);
    uint32_t count = 0;
    int error = 0;

    *bad_wr = wr;
    if (!context_alive(h->context))
        return EIO;
    node_enter(h->context->node);
    for (; wr != NULL && error == 0; wr = wr->next) {
        *bad_wr = wr;
        error = count++ < CHAIN_MAX ? post_send_one(h, wr) : -ENOMEM;
    }
    qp_handle_leave_posted(h);
    return -error;
}

int post_receives(post_receive_fn post, void *queue, struct ibv_recv_wr *wr,
                  struct ibv_recv_wr **bad_wr)
{
    uint32_t count = 0;
    int error = 0;

    for (; wr != NULL && error == 0; wr = wr->next) {
        struct sge sges[QP_SGE_MAX];
        const struct recv_wr request = {
            .wr_id = wr->wr_id, .sges = sges, .sge_count = (uint32_t)wr->num_sge};

        *bad_wr = wr;
        error = copy_sges(sges, wr->sg_list, wr->num_sge);
        if (error == 0)
            error = count++ < CHAIN_MAX ? post(queue, &request) : -ENOMEM;
    }
    return -error;
}

static int post_receive_one(void *queue, const struct recv_wr *wr)
{
    return qp_post_recv(queue, wr);
}

int qp_handle_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr)
{
    struct qp_handle *h = qp_of(qp);
    int error;

    *bad_wr = wr;
    if (!context_alive(h->context))
        return EIO;
    node_enter(h->context->node);
    error = post_receives(post_receive_one, h->qp, wr, bad_wr);
    node_leave_posted(h->context->node);
    return error;
}
