/* SPDX-License-Identifier: BSD-2-Clause */
/* UD queue pairs of datagram sockets, with memory in slots. */
#include "rdmacm/datagram.h"

#include <assert.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define GRH_LEN 40u
#define PAGE 4096u
#define RECEIVE_SLOT (GRH_LEN + DATAGRAM_LEN_MAX)
#define SLOTS_MIN 16u
#define SLOTS_MAX 4096u
#define HOP_LIMIT 64u
#define TRAFFIC_CLASS 0u

/* --- life --- */

static uint32_t slots(uint32_t queue, uint32_t size)
{
    const uint32_t fit = size / DATAGRAM_LEN_MAX;
    const uint32_t count = queue < fit ? queue : fit;

    if (count < SLOTS_MIN)
        return SLOTS_MIN;
    return count < SLOTS_MAX ? count : SLOTS_MAX;
}

static size_t receive_at(const struct datagram_qp *q, uint64_t slot)
{
    return (size_t)q->send_slots * DATAGRAM_LEN_MAX + (size_t)slot * RECEIVE_SLOT;
}

static int post_receive(struct datagram_qp *q, uint64_t slot)
{
    struct ibv_sge sge = {(uintptr_t)(q->memory + receive_at(q, slot)), RECEIVE_SLOT,
                          q->region->lkey};
    struct ibv_recv_wr wr = {.wr_id = slot, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;

    return -ibv_post_recv(q->qp, &wr, &bad);
}

/* 0 or a negative errno. */
static int create_queues(struct datagram_qp *q)
{
    struct ibv_context *context = q->place.device->context;
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = q->send_slots,
                .max_recv_wr = q->receive_slots,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = IBV_QPT_UD,
        .sq_sig_all = 1,
    };

    q->channel = ibv_create_comp_channel(context);
    if (q->channel == NULL)
        return -errno;
    q->send_cq = ibv_create_cq(context, (int)q->send_slots, q, q->channel, 0);
    q->recv_cq = ibv_create_cq(context, (int)q->receive_slots, q, q->channel, 0);
    if (q->send_cq == NULL || q->recv_cq == NULL)
        return -errno;
    attr.send_cq = q->send_cq;
    attr.recv_cq = q->recv_cq;
    q->qp = ibv_create_qp(q->place.device->pd, &attr);
    return q->qp != NULL ? socket_hide(&q->channel->fd) : -errno;
}

static int allocate(struct datagram_qp *q)
{
    const size_t len = receive_at(q, q->receive_slots);
    const size_t rounded = (len + PAGE - 1) / PAGE * PAGE;

    q->memory = aligned_alloc(PAGE, rounded);
    if (q->memory == NULL)
        return -ENOMEM;
    memset(q->memory, 0, rounded);
    q->region = ibv_reg_mr(q->place.device->pd, q->memory, len, IBV_ACCESS_LOCAL_WRITE);
    return q->region != NULL ? 0 : -errno;
}

/* To RTS, as RDMA CM has its datagram queue pairs. 0 or a negative errno. */
static int bring_up(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .port_num = PORT_NUMBER,
        .qkey = RDMA_UDP_QKEY,
    };
    int error =
        ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

    attr.qp_state = IBV_QPS_RTR;
    if (error == 0)
        error = ibv_modify_qp(qp, &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_RTS;
    if (error == 0)
        error = ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
    return -error;
}

static int build(struct datagram_socket *d, struct datagram_qp *q)
{
    int result = create_queues(q);

    if (result == 0)
        result = allocate(q);
    if (result == 0)
        result = bring_up(q->qp);
    for (uint32_t i = 0; result == 0 && i < q->receive_slots; i++)
        result = post_receive(q, i);
    return result == 0 ? socket_watch(&d->socket, q->channel->fd) : result;
}

static void destroy(struct datagram_qp *q)
{
    if (q->qp != NULL)
        ibv_destroy_qp(q->qp);
    if (q->send_cq != NULL)
        ibv_destroy_cq(q->send_cq);
    if (q->recv_cq != NULL)
        ibv_destroy_cq(q->recv_cq);
    if (q->channel != NULL)
        ibv_destroy_comp_channel(q->channel);
    if (q->region != NULL)
        ibv_dereg_mr(q->region);
    free(q->memory);
    free(q);
}

void datagram_qp_free(struct datagram_socket *d, struct datagram_qp *q)
{
    list_remove(&q->link);
    d->qp_count--;
    destroy(q);
}

/* 0 or a negative errno. */
static int create(struct datagram_socket *d, const struct endpoint *local, struct datagram_qp **out)
{
    struct place place;
    struct datagram_qp *q;
    int result = device_find(&local->gid, local->scope_id, &place);

    if (result != 0)
        return result;
    if (d->qp_count == DATAGRAM_QPS_MAX)
        return -ENOBUFS;
    q = calloc(1, sizeof(*q));
    if (q == NULL)
        return -ENOMEM;
    q->place = place;
    q->local = *local;
    q->len_max = 128u << device_mtu(place.device);
    q->send_slots = slots(d->send_queue, d->send_size);
    q->receive_slots = slots(d->receive_queue, d->receive_size);
    result = build(d, q);
    if (result != 0) {
        destroy(q);
        return result;
    }
    list_push_head(&d->qps, &q->link);
    d->qp_count++;
    *out = q;
    return 0;
}

int datagram_qp_find(struct datagram_socket *d, const struct endpoint *local,
                     struct datagram_qp **out)
{
    for (struct list *l = d->qps.next; l != &d->qps; l = l->next) {
        struct datagram_qp *q = LIST_ENTRY(l, struct datagram_qp, link);

        if (gid_equal(&q->local.gid, &local->gid) && q->local.port == local->port) {
            *out = q;
            return 0;
        }
    }
    return create(d, local, out);
}

/* --- being told --- */

void datagram_qp_arm(struct datagram_qp *q)
{
    struct ibv_cq *cq;
    void *context;

    while (ibv_get_cq_event(q->channel, &cq, &context) == 0)
        ibv_ack_cq_events(cq, 1);
    ibv_req_notify_cq(q->send_cq, 0);
    ibv_req_notify_cq(q->recv_cq, 0);
}

/* --- sending --- */

/* They complete in order. One that failed is lost, as datagrams may be. */
static void look_at_sent(struct datagram_qp *q)
{
    struct ibv_wc wc[16];
    int count;

    do {
        count = ibv_poll_cq(q->send_cq, 16, wc);
        q->sent += count > 0 ? (unsigned)count : 0;
    } while (count == 16);
}

bool datagram_qp_can_send(struct datagram_qp *q)
{
    if (q->posted - q->sent == q->send_slots)
        look_at_sent(q);
    return q->posted - q->sent < q->send_slots;
}

bool datagram_qp_all_sent(struct datagram_qp *q)
{
    look_at_sent(q);
    return q->posted == q->sent;
}

uint8_t *datagram_qp_slot(const struct datagram_qp *q)
{
    return q->memory + (q->posted % q->send_slots) * DATAGRAM_LEN_MAX;
}

int datagram_qp_post(struct datagram_qp *q, const struct datagram_peer *to, uint32_t len)
{
    struct ibv_sge sge = {(uintptr_t)datagram_qp_slot(q), len, q->region->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .wr.ud = {.ah = to->ah, .remote_qpn = to->qpn, .remote_qkey = RDMA_UDP_QKEY},
    };
    struct ibv_send_wr *bad;
    int error;

    assert(len <= DATAGRAM_LEN_MAX);
    error = ibv_post_send(q->qp, &wr, &bad);
    q->posted += error == 0;
    return -error;
}

struct ibv_ah *datagram_qp_address(const struct datagram_qp *q, const struct endpoint *to)
{
    struct ibv_ah_attr attr = {
        .is_global = 1,
        .port_num = PORT_NUMBER,
        .grh = {.sgid_index = (uint8_t)q->place.gid_index, .hop_limit = HOP_LIMIT},
    };

    memcpy(attr.grh.dgid.raw, to->gid.bytes, sizeof(to->gid.bytes));
    return ibv_create_ah(q->place.device->pd, &attr);
}

/* --- receiving --- */

void datagram_qp_give_back(struct datagram_qp *q, uint64_t slot)
{
    if (post_receive(q, slot) != 0)
        log_warn("rsocket: a slot of queue pair 0x%06x cannot be posted again", q->qp->qp_num);
}

bool datagram_qp_receive(struct datagram_qp *q, struct datagram_in *out, uint64_t *slot)
{
    struct ibv_wc wc;

    while (ibv_poll_cq(q->recv_cq, 1, &wc) == 1) {
        const uint8_t *bytes = q->memory + receive_at(q, wc.wr_id) + GRH_LEN;
        size_t header = 0;

        if (wc.status == IBV_WC_SUCCESS && wc.byte_len >= GRH_LEN)
            header = datagram_header_read(bytes, wc.byte_len - GRH_LEN, &out->source);
        if (header > 0) {
            out->bytes = bytes + header;
            out->len = wc.byte_len - GRH_LEN - header;
            *slot = wc.wr_id;
            return true;
        }
        if (wc.status == IBV_WC_SUCCESS)
            log_info("rsocket: a datagram of queue pair 0x%06x without a header is dropped",
                     wc.src_qp);
        datagram_qp_give_back(q, wc.wr_id);
    }
    return false;
}
