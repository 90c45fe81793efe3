/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connects so many RC queue pairs to each other, in pairs within this process, says so, and keeps
 * them until standard input ends: what is open and idle should cost nothing.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void check(int ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

static void connect_to(struct ibv_qp *qp, uint32_t remote_qpn, const union ibv_gid *gid)
{
    struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = remote_qpn,
        .max_dest_rd_atomic = 1,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 64}},
    };
    struct ibv_qp_attr rts = {
        .qp_state = IBV_QPS_RTS,
        .timeout = 14,
        .retry_cnt = 7,
        .rnr_retry = 7,
        .max_rd_atomic = 1,
    };

    check(!ibv_modify_qp(qp, &init,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
          "INIT");
    check(!ibv_modify_qp(qp, &rtr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
          "RTR");
    check(!ibv_modify_qp(qp, &rts,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                             IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
          "RTS");
}

static void send_one(struct ibv_qp *qp)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;

    check(!ibv_post_send(qp, &wr, &bad), "ibv_post_send");
}

/* Each has sent a message, so that there is something to forget. */
static void exchange(struct ibv_qp **qps, int count, struct ibv_cq *cq)
{
    struct ibv_wc wc;

    for (int i = 0; i < count; i++) {
        struct ibv_recv_wr wr = {.wr_id = 0};
        struct ibv_recv_wr *bad;

        check(!ibv_post_recv(qps[i ^ 1], &wr, &bad), "ibv_post_recv");
        send_one(qps[i]);
        for (int completions = 0; completions < 2;) {
            int got = ibv_poll_cq(cq, 1, &wc);

            check(got >= 0 && (got == 0 || wc.status == IBV_WC_SUCCESS), "completion");
            completions += got;
        }
    }
}

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) & ~1 : 1000;
    struct ibv_device **devices = ibv_get_device_list(NULL);
    struct ibv_qp **qps = calloc((size_t)count + 1, sizeof(struct ibv_qp *));
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    union ibv_gid gid;

    check(qps != NULL && devices != NULL && devices[0] != NULL, "a device");
    context = ibv_open_device(devices[0]);
    check(context != NULL, "ibv_open_device");
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    check(pd != NULL && cq != NULL && !ibv_query_gid(context, 1, 0, &gid), "PD, CQ and GID");
    for (int i = 0; i < count; i++) {
        struct ibv_qp_init_attr attr = {
            .send_cq = cq,
            .recv_cq = cq,
            .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
            .qp_type = IBV_QPT_RC,
        };

        qps[i] = ibv_create_qp(pd, &attr);
        check(qps[i] != NULL, "ibv_create_qp");
    }
    for (int i = 0; i < count; i++)
        connect_to(qps[i], qps[i ^ 1]->qp_num, &gid);
    exchange(qps, count, cq);
    printf("connected\n");
    fflush(stdout);
    check(getchar() == EOF, "end of input");
    return 0;
}
