/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting work (IBA 10.8.2, 11.4.1): what can be judged at once is, the rest
 * is copied into the queue and ends as a completion.
 */
#include <errno.h>
#include <string.h>

#include "engine/engine_private.h"
#include "engine/limits.h"
#include "engine/qp_private.h"
#include "engine/requester_private.h"

/* Requests that wait for an acknowledgement to leave together: a quarter of what one send takes. */
#define GATHER_MAX 16u

/* Which opcodes a service has: one bit per enum service (IBA table 87). */
#define ON(service) (1u << SERVICE_##service)
static const uint8_t services_of[] = {
    [WR_WRITE] = ON(RC) | ON(XRC) | ON(UC),
    [WR_WRITE_IMM] = ON(RC) | ON(XRC) | ON(UC),
    [WR_SEND] = ON(RC) | ON(XRC) | ON(UC) | ON(UD),
    [WR_SEND_IMM] = ON(RC) | ON(XRC) | ON(UC) | ON(UD),
    [WR_READ] = ON(RC) | ON(XRC),
    [WR_CMP_SWAP] = ON(RC) | ON(XRC),
    [WR_FETCH_ADD] = ON(RC) | ON(XRC),
    [WR_LOCAL_INV] = ON(RC) | ON(XRC) | ON(UC),
    [WR_BIND_MW] = ON(RC) | ON(XRC) | ON(UC),
    [WR_SEND_INV] = ON(RC) | ON(XRC),
    [WR_FLUSH] = ON(RC) | ON(XRC),
    [WR_ATOMIC_WRITE] = ON(RC) | ON(XRC),
};
#undef ON

static int judge_opcode(const struct qp *qp, const struct send_wr *wr)
{
    if ((unsigned)wr->opcode >= sizeof(services_of))
        return -EINVAL;
    if (qp_is_target(qp))
        return -EINVAL; /* it has no send side */
    return (services_of[wr->opcode] & (1u << qp->service)) != 0 ? 0 : -EINVAL;
}

uint32_t qp_send_room(const struct qp *qp)
{
    const struct send_queue *sq = &qp->requester.sq;

    return sq->wr_max - (sq->tail - sq->freed);
}

bool qp_may_gather(const struct qp *qp)
{
    const struct requester *r = &qp->requester;

    return qp_is_reliable(qp) && r->retransmit_ns != ENGINE_NEVER &&
           r->sq.tail - r->sq.next < GATHER_MAX && !responder_in_dialogue(qp);
}

static uint64_t length_of(const struct sge *sges, uint32_t count)
{
    uint64_t length = 0;

    for (uint32_t i = 0; i < count; i++)
        length += sges[i].length;
    return length;
}

static int judge_send(const struct qp *qp, const struct send_wr *wr)
{
    const struct send_queue *sq = &qp->requester.sq;
    bool is_inline = (wr->flags & WR_INLINE) != 0;
    int error = judge_opcode(qp, wr);

    if (error != 0)
        return error;
    if (qp->state == QP_RESET || qp->state == QP_INIT || qp->state == QP_RTR)
        return -EINVAL;
    if (qp_send_room(qp) == 0)
        return -ENOMEM;
    if (is_inline) {
        if (!wr_carries_data(wr->opcode) || length_of(wr->sges, wr->sge_count) > sq->inline_max)
            return -EINVAL;
    } else if (wr->sge_count > sq->sge_max) {
        return -EINVAL;
    }
    if (length_of(wr->sges, wr->sge_count) > UINT32_MAX)
        return -EINVAL;
    if (wr->opcode == WR_BIND_MW && wr->bind == NULL)
        return -EINVAL;
    if (qp->service == SERVICE_UD && (wr->ah == NULL || wr->ah->pd != qp->pd))
        return -EINVAL;
    return 0;
}

static void copy_data(const struct send_wr *wr, uint8_t *to)
{
    if ((wr->flags & WR_INLINE) == 0) {
        if (wr->sge_count > 0)
            memcpy(to, wr->sges, wr->sge_count * sizeof(struct sge));
        return;
    }
    for (uint32_t i = 0; i < wr->sge_count; i++) {
        if (wr->sges[i].length > 0)
            memcpy(to, (const void *)(uintptr_t)wr->sges[i].addr, wr->sges[i].length);
        to += wr->sges[i].length;
    }
}

static void set_operands(struct send_wqe *wqe, const struct send_wr *wr)
{
    if (wr->opcode == WR_FLUSH) {
        wqe->rc.flush_len = wr->flush_len;
        wqe->rc.flush_placement = (uint8_t)wr->flush_placement;
        wqe->rc.flush_selectivity = (uint8_t)wr->flush_selectivity;
        return;
    }
    wqe->rc.compare = wr->compare;
    wqe->rc.swap = wr->swap;
}

int qp_post_send(struct qp *qp, const struct send_wr *wr)
{
    struct send_queue *sq = &qp->requester.sq;
    int error = judge_send(qp, wr);
    struct send_wqe *wqe;

    if (error != 0)
        return error;
    wqe = send_queue_at(sq, sq->tail);
    *wqe = (struct send_wqe){
        .wr_id = wr->wr_id,
        .opcode = wr->opcode,
        .flags = wr->flags | (qp->all_signaled ? WR_SIGNALED : 0u),
        .imm = wr->imm,
        .status = STATUS_SUCCESS,
    };
    if (wr->opcode == WR_BIND_MW) {
        wqe->bind = *wr->bind;
    } else if (qp->service == SERVICE_UD) {
        wqe->ud.path = wr->ah->path;
        wqe->ud.remote_qpn = wr->remote_qpn;
        wqe->ud.remote_qkey = wr->remote_qkey;
    } else {
        wqe->rc.remote_addr = wr->remote_addr;
        wqe->rc.rkey = wr->rkey;
        wqe->rc.srqn = wr->remote_srqn;
        set_operands(wqe, wr);
    }
    if (!wr_is_local(wr->opcode)) {
        wqe->length = (uint32_t)length_of(wr->sges, wr->sge_count);
        wqe->sge_count = wr->sge_count;
        copy_data(wr, send_queue_data(sq, sq->tail));
    }
    sq->tail++;
    if (qp->state == QP_ERR || qp->state == QP_SQE)
        qp_flush_send(qp);
    else
        qp_make_ready(qp);
    qp_fail_lost(qp); /* a flush of SQE may have found its CQ full */
    return 0;
}

int qp_post_recv(struct qp *qp, const struct recv_wr *wr)
{
    int error;

    if (qp->srq != NULL || qp->service == SERVICE_XRC || qp->state == QP_RESET)
        return -EINVAL;
    error = recv_queue_post(&qp->responder.rq, wr);
    if (error == 0 && qp->state == QP_ERR)
        qp_flush_receive(qp);
    return error;
}
