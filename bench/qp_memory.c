/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How much memory does an idle RC queue pair take? Ten thousand of them with
 * small queues, connected and idle; what the allocator handed out, divided. The
 * goal is below 1 KiB beside the queues themselves.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/cq.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/qp.h"

#define QP_COUNT 10000u

static void must(int error, const char *what)
{
    if (error == 0)
        return;
    fprintf(stderr, "%s returns %d\n", what, error);
    exit(1);
}

static size_t allocated(void)
{
    struct mallinfo2 info = mallinfo2();

    return info.uordblks + info.hblkhd;
}

static void connect_qp(struct qp *qp)
{
    struct qp_attr attr = {
        .port = 1,
        .pmtu = 4096,
        .dest_qpn = 0x010002,
        .path = {.src = {{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}},
                 .dst = {{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}},
                 .hop_limit = 64},
        .dest_rd_atomic = 1,
        .rd_atomic = 1,
        .timeout = 14,
        .retry_count = 7,
        .rnr_retry = 7,
    };

    attr.state = QP_INIT;
    must(qp_modify(qp, &attr, QP_ATTR_STATE | QP_ATTR_PKEY_INDEX | QP_ATTR_PORT | QP_ATTR_ACCESS,
                   NULL),
         "to INIT");
    attr.state = QP_RTR;
    must(qp_modify(qp, &attr,
                   QP_ATTR_STATE | QP_ATTR_AV | QP_ATTR_PMTU | QP_ATTR_DEST_QPN | QP_ATTR_RQ_PSN |
                       QP_ATTR_DEST_RD_ATOMIC | QP_ATTR_MIN_RNR_TIMER,
                   NULL),
         "to RTR");
    attr.state = QP_RTS;
    must(qp_modify(qp, &attr,
                   QP_ATTR_STATE | QP_ATTR_TIMEOUT | QP_ATTR_RETRY_COUNT | QP_ATTR_RNR_RETRY |
                       QP_ATTR_SQ_PSN | QP_ATTR_RD_ATOMIC,
                   NULL),
         "to RTS");
}

/* Bytes of each QP with these queues. */
static double measure(struct pd *pd, struct cq *cq, const struct qp_cap *cap)
{
    static struct qp *qps[QP_COUNT];
    size_t before = allocated();
    size_t after;

    for (unsigned i = 0; i < QP_COUNT; i++) {
        struct qp_init init = {
            .service = SERVICE_RC, .pd = pd, .send_cq = cq, .recv_cq = cq, .cap = *cap};

        must(qp_new(pd->engine, &init, &qps[i]), "qp_new");
        connect_qp(qps[i]);
    }
    after = allocated();
    for (unsigned i = 0; i < QP_COUNT; i++)
        qp_free(qps[i]);
    return (double)(after - before) / QP_COUNT;
}

int main(void)
{
    static const struct qp_cap caps[] = {
        {.send_wr_max = 0, .recv_wr_max = 0},
        {.send_wr_max = 1, .recv_wr_max = 1, .send_sge_max = 1, .recv_sge_max = 1},
        {.send_wr_max = 16, .recv_wr_max = 16, .send_sge_max = 1, .recv_sge_max = 1},
        {.send_wr_max = 128, .recv_wr_max = 128, .send_sge_max = 4, .recv_sge_max = 4},
    };
    struct engine_config config = engine_config_default();
    struct engine *e;
    struct pd *pd;
    struct cq *cq;

    must(engine_new(&config, &e), "engine_new");
    must(pd_new(e, &pd), "pd_new");
    must(cq_new(e, 16, NULL, &cq), "cq_new");
    printf("bytes of an idle, connected RC queue pair, of %u\n", QP_COUNT);
    printf("%8s %8s %8s %8s\n", "sends", "receives", "SGEs", "bytes");
    for (unsigned i = 0; i < sizeof(caps) / sizeof(caps[0]); i++)
        printf("%8u %8u %8u %8.0f\n", caps[i].send_wr_max, caps[i].recv_wr_max,
               caps[i].send_sge_max, measure(pd, cq, &caps[i]));
    must(cq_free(cq), "cq_free");
    must(pd_free(pd), "pd_free");
    engine_free(e);
    return 0;
}
