/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of the drop-in library share. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define START_PSN 0xfffff0u /* wraps early */

/* --- device --- */

struct ibv_context *open_loopback(void)
{
    struct ibv_context *context = NULL;
    struct ibv_device **list = ibv_get_device_list(NULL);

    assert_non_null(list);
    for (int i = 0; list[i] != NULL && context == NULL; i++)
        if (strcmp(ibv_get_device_name(list[i]), "uroce_lo") == 0)
            context = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    assert_non_null(context);
    return context;
}

int gid_index(struct ibv_context *context, bool ipv4)
{
    struct ibv_gid_entry entry;

    for (uint32_t i = 0; ibv_query_gid_ex(context, 1, i, &entry, 0) == 0; i++)
        if ((entry.gid.raw[10] == 0xff) == ipv4)
            return (int)i;
    fail_msg("no such GID");
    return -1;
}

/* --- pairs --- */

void pair_open(struct pair *p)
{
    *p = (struct pair){.ipv4 = true};
    p->context = open_loopback();
    p->pd = ibv_alloc_pd(p->context);
    p->channel = ibv_create_comp_channel(p->context);
    p->send_cq = ibv_create_cq(p->context, 64, NULL, NULL, 0);
    p->recv_cq = ibv_create_cq(p->context, 64, p, p->channel, 0);
    p->buf = calloc(2, BUF_SIZE);
    assert_non_null(p->buf);
    p->mr = ibv_reg_mr(p->pd, p->buf, (size_t)2 * BUF_SIZE,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                           IBV_ACCESS_REMOTE_ATOMIC);
    assert_non_null(p->pd);
    assert_non_null(p->channel);
    assert_non_null(p->send_cq);
    assert_non_null(p->recv_cq);
    assert_non_null(p->mr);
}

void pair_create_qps(struct pair *p, enum ibv_qp_type type, uint64_t operations)
{
    for (int i = 0; i < 2; i++) {
        struct ibv_qp_init_attr_ex attr = {
            .send_cq = p->send_cq,
            .recv_cq = p->recv_cq,
            .srq = p->srq,
            .cap = {.max_send_wr = 16,
                    .max_recv_wr = 16,
                    .max_send_sge = 4,
                    .max_recv_sge = 4,
                    .max_inline_data = 256},
            .qp_type = type,
            .comp_mask = IBV_QP_INIT_ATTR_PD,
            .pd = p->pd,
            .send_ops_flags = operations,
        };

        if (operations != 0)
            attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
        p->qp[i] = ibv_create_qp_ex(p->context, &attr);
        assert_non_null(p->qp[i]);
    }
}

static struct ibv_ah_attr loopback_address(const struct pair *p)
{
    struct ibv_ah_attr attr = {
        .is_global = 1, .port_num = 1, .static_rate = (uint8_t)p->static_rate};
    int index = gid_index(p->context, p->ipv4);

    attr.grh.sgid_index = (uint8_t)index;
    attr.grh.hop_limit = 64;
    assert_int_equal(ibv_query_gid(p->context, 1, index, &attr.grh.dgid), 0);
    return attr;
}

/* The sides of XRC too: as the kernel, the library ignores what is not of the side. */
static bool is_reliable(const struct ibv_qp *qp)
{
    return qp->qp_type != IBV_QPT_UC && qp->qp_type != IBV_QPT_UD;
}

void to_init(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT,
        .port_num = 1,
        .qkey = QKEY,
        .qp_access_flags =
            IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
    };
    int mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX;

    mask |= qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS;
    assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
}

void to_rtr(struct pair *p, struct ibv_qp *qp, uint32_t peer_qpn)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = p->path_mtu != 0 ? p->path_mtu : IBV_MTU_1024,
        .dest_qp_num = peer_qpn,
        .rq_psn = START_PSN,
        .max_dest_rd_atomic = 4,
        .min_rnr_timer = 1,
        .ah_attr = loopback_address(p),
    };
    int mask = IBV_QP_STATE;

    if (qp->qp_type != IBV_QPT_UD)
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (is_reliable(qp))
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
}

void to_rts(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTS,
        .sq_psn = START_PSN,
        .timeout = 14,
        .retry_cnt = 7,
        .rnr_retry = 7,
        .max_rd_atomic = 4,
    };
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

    if (is_reliable(qp))
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
}

int to_state(struct ibv_qp *qp, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};

    return ibv_modify_qp(qp, &attr, IBV_QP_STATE);
}

void pair_connect(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        to_init(p->qp[i]);
        to_rtr(p, p->qp[i], p->qp[1 - i]->qp_num);
    }
    for (int i = 0; i < 2; i++)
        to_rts(p->qp[i]);
    if (p->qp[0]->qp_type == IBV_QPT_UD) {
        struct ibv_ah_attr attr = loopback_address(p);

        p->ah = ibv_create_ah(p->pd, &attr);
        assert_non_null(p->ah);
    }
}

void pair_setup(struct pair *p, enum ibv_qp_type type, uint64_t operations)
{
    pair_open(p);
    pair_create_qps(p, type, operations);
    pair_connect(p);
}

void pair_close(struct pair *p)
{
    for (int i = 0; i < 2; i++)
        if (p->qp[i] != NULL)
            assert_int_equal(ibv_destroy_qp(p->qp[i]), 0);
    if (p->srq != NULL)
        assert_int_equal(ibv_destroy_srq(p->srq), 0);
    if (p->ah != NULL)
        assert_int_equal(ibv_destroy_ah(p->ah), 0);
    assert_int_equal(ibv_destroy_cq(p->send_cq), 0);
    assert_int_equal(ibv_destroy_cq(p->recv_cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(p->channel), 0);
    assert_int_equal(ibv_dereg_mr(p->mr), 0);
    assert_int_equal(ibv_dealloc_pd(p->pd), 0);
    assert_int_equal(ibv_close_device(p->context), 0);
    free(p->buf);
}

/* --- work --- */

uint8_t *buf_of(const struct pair *p, int n)
{
    return p->buf + (size_t)n * BUF_SIZE;
}

struct ibv_sge sge_of(const struct pair *p, int n, uint32_t offset, uint32_t len)
{
    return (struct ibv_sge){
        .addr = (uintptr_t)buf_of(p, n) + offset, .length = len, .lkey = p->mr->lkey};
}

void post_receive(struct pair *p, uint64_t wr_id, uint32_t len)
{
    struct ibv_sge sge = sge_of(p, 1, 0, len);
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = len > 0 ? 1 : 0};
    struct ibv_recv_wr *bad;
    int error =
        p->srq != NULL ? ibv_post_srq_recv(p->srq, &wr, &bad) : ibv_post_recv(p->qp[1], &wr, &bad);

    assert_int_equal(error, 0);
}

void post_request(struct pair *p, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;

    wr->send_flags |= IBV_SEND_SIGNALED;
    if (p->ah != NULL) {
        wr->wr.ud.ah = p->ah;
        wr->wr.ud.remote_qpn = p->qp[1]->qp_num;
        wr->wr.ud.remote_qkey = QKEY;
    }
    assert_int_equal(ibv_post_send(p->qp[0], wr, &bad), 0);
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

struct ibv_wc poll_one(struct ibv_cq *cq)
{
    int64_t end = now_ms() + WAIT_MS;
    struct ibv_wc wc;
    int got = 0;

    while (got == 0 && now_ms() < end)
        got = ibv_poll_cq(cq, 1, &wc);
    assert_int_equal(got, 1);
    return wc;
}

struct ibv_wc expect_success(struct ibv_cq *cq)
{
    struct ibv_wc wc = poll_one(cq);

    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    return wc;
}

bool readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    return poll(&p, 1, ms) == 1;
}
