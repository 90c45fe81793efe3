/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs: what can be created, what the capabilities say, states and attributes. */
#include "fixture.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static struct ibv_qp_init_attr classic(const struct pair *p, enum ibv_qp_type type)
{
    return (struct ibv_qp_init_attr){
        .send_cq = p->send_cq,
        .recv_cq = p->recv_cq,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = type,
    };
}

static struct ibv_qp_init_attr_ex extended(const struct pair *p, enum ibv_qp_type type)
{
    return (struct ibv_qp_init_attr_ex){
        .send_cq = p->send_cq,
        .recv_cq = p->recv_cq,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = type,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = p->pd,
    };
}

static void expect_no_qp(struct pair *p, struct ibv_qp_init_attr *attr, int error)
{
    errno = 0;
    assert_null(ibv_create_qp(p->pd, attr));
    assert_int_equal(errno, error);
}

static void real_capabilities_are_written_back(void **state)
{
    struct ibv_qp_init_attr attr;
    struct ibv_qp_init_attr queried;
    struct ibv_qp_attr qp_attr;
    struct ibv_qp *qp;
    struct pair p;

    (void)state;
    pair_open(&p);
    attr = classic(&p, IBV_QPT_RC);
    attr.cap.max_inline_data = 220;
    qp = ibv_create_qp(p.pd, &attr);
    assert_non_null(qp);
    assert_true(attr.cap.max_send_wr >= 4);
    assert_true(attr.cap.max_send_sge >= 2); /* UCX asserts it */
    assert_true(attr.cap.max_recv_wr >= 4);
    assert_true(attr.cap.max_recv_sge >= 1);
    assert_true(attr.cap.max_inline_data >= 220);
    assert_int_equal(ibv_query_qp(qp, &qp_attr, IBV_QP_CAP, &queried), 0);
    assert_memory_equal(&queried.cap, &attr.cap, sizeof(attr.cap));
    assert_memory_equal(&qp_attr.cap, &attr.cap, sizeof(attr.cap));
    assert_int_equal(queried.qp_type, IBV_QPT_RC);
    assert_ptr_equal(queried.send_cq, p.send_cq);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    pair_close(&p);
}

static void a_new_qp_is_in_reset_and_has_a_number_of_its_own(void **state)
{
    struct ibv_qp_init_attr attr;
    struct ibv_qp *first;
    struct ibv_qp *second;
    struct pair p;

    (void)state;
    pair_open(&p);
    attr = classic(&p, IBV_QPT_UD);
    attr.qp_context = &p;
    first = ibv_create_qp(p.pd, &attr);
    second = ibv_create_qp(p.pd, &attr);
    assert_int_equal(first->state, IBV_QPS_RESET);
    assert_int_equal(first->qp_type, IBV_QPT_UD);
    assert_ptr_equal(first->qp_context, &p);
    assert_ptr_equal(first->pd, p.pd);
    assert_true(first->qp_num > 1 && first->qp_num < 1u << 24);
    assert_int_not_equal(first->qp_num, second->qp_num);
    assert_null(ibv_qp_to_qp_ex(first));
    assert_int_equal(ibv_destroy_qp(first), 0);
    assert_int_equal(ibv_destroy_qp(second), 0);
    pair_close(&p);
}

/* libfabric doubles the inline size until a creation fails. */
static void more_than_the_limits_is_refused(void **state)
{
    struct ibv_device_attr device;
    struct ibv_qp_init_attr attr;
    struct pair p;

    (void)state;
    pair_open(&p);
    assert_int_equal(ibv_query_device(p.context, &device), 0);
    attr = classic(&p, IBV_QPT_RC);
    attr.cap.max_inline_data = 1u << 20;
    expect_no_qp(&p, &attr, EINVAL);
    attr = classic(&p, IBV_QPT_RC);
    attr.cap.max_send_wr = (uint32_t)device.max_qp_wr + 1;
    expect_no_qp(&p, &attr, EINVAL);
    attr = classic(&p, IBV_QPT_RC);
    attr.cap.max_recv_wr = (uint32_t)device.max_qp_wr + 1;
    expect_no_qp(&p, &attr, EINVAL);
    attr = classic(&p, IBV_QPT_RC);
    attr.cap.max_send_sge = (uint32_t)device.max_sge + 1;
    expect_no_qp(&p, &attr, EINVAL);
    attr = classic(&p, IBV_QPT_RC);
    attr.cap.max_recv_sge = (uint32_t)device.max_sge + 1;
    expect_no_qp(&p, &attr, EINVAL);
    pair_close(&p);
}

static void the_advertised_limits_are_possible(void **state)
{
    struct ibv_device_attr device;
    struct ibv_qp_init_attr attr;
    struct ibv_qp *qp;
    struct pair p;

    (void)state;
    pair_open(&p);
    assert_int_equal(ibv_query_device(p.context, &device), 0);
    attr = classic(&p, IBV_QPT_RC);
    attr.cap.max_send_wr = (uint32_t)device.max_qp_wr;
    attr.cap.max_recv_wr = (uint32_t)device.max_qp_wr;
    qp = ibv_create_qp(p.pd, &attr);
    assert_non_null(qp);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    attr = classic(&p, IBV_QPT_RC);
    attr.cap.max_send_sge = (uint32_t)device.max_sge;
    attr.cap.max_recv_sge = (uint32_t)device.max_sge;
    qp = ibv_create_qp(p.pd, &attr);
    assert_non_null(qp);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    pair_close(&p);
}

static void types_that_are_not_built_and_missing_parts_are_refused(void **state)
{
    static const enum ibv_qp_type types[] = {IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER,
                                             (enum ibv_qp_type)77};
    struct ibv_qp_init_attr attr;
    struct pair p;

    (void)state;
    pair_open(&p);
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        attr = classic(&p, types[i]);
        expect_no_qp(&p, &attr, EOPNOTSUPP);
    }
    attr = classic(&p, IBV_QPT_RC);
    attr.send_cq = NULL;
    expect_no_qp(&p, &attr, EINVAL);
    attr = classic(&p, IBV_QPT_RC);
    attr.recv_cq = NULL;
    expect_no_qp(&p, &attr, EINVAL);
    pair_close(&p);
}

static void extended_creation_refuses_what_is_not_built(void **state)
{
    struct ibv_qp_init_attr_ex attr;
    struct pair p;

    (void)state;
    pair_open(&p);
    attr = extended(&p, IBV_QPT_RC);
    attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
    attr.create_flags = IBV_QP_CREATE_SCATTER_FCS;
    assert_null(ibv_create_qp_ex(p.context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    attr = extended(&p, IBV_QPT_UD);
    attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    attr.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ; /* not with datagrams */
    assert_null(ibv_create_qp_ex(p.context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    attr = extended(&p, IBV_QPT_RC);
    attr.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS; /* no PD */
    assert_null(ibv_create_qp_ex(p.context, &attr));
    assert_int_equal(errno, EINVAL);
    pair_close(&p);
}

static void states_are_kept_in_the_object(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p);
    pair_create_qps(&p, IBV_QPT_RC, 0);
    to_init(p.qp[0]);
    assert_int_equal(p.qp[0]->state, IBV_QPS_INIT);
    to_rtr(&p, p.qp[0], p.qp[1]->qp_num);
    assert_int_equal(p.qp[0]->state, IBV_QPS_RTR);
    to_rts(p.qp[0]);
    assert_int_equal(p.qp[0]->state, IBV_QPS_RTS);
    assert_int_equal(to_state(p.qp[0], IBV_QPS_INIT), EINVAL); /* no way back but over RESET */
    assert_int_equal(p.qp[0]->state, IBV_QPS_RTS);
    assert_int_equal(to_state(p.qp[0], IBV_QPS_ERR), 0);
    assert_int_equal(to_state(p.qp[0], IBV_QPS_RESET), 0);
    assert_int_equal(p.qp[0]->state, IBV_QPS_RESET);
    pair_close(&p);
}

static void attributes_come_back_as_they_were_given(void **state)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    union ibv_gid gid;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_query_qp(p.qp[0], &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(ibv_query_gid(p.context, 1, gid_index(p.context, true), &gid), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_RTS);
    assert_int_equal(attr.cur_qp_state, IBV_QPS_RTS);
    assert_int_equal(attr.path_mtu, IBV_MTU_1024);
    assert_int_equal(attr.dest_qp_num, p.qp[1]->qp_num);
    assert_int_equal(attr.rq_psn, 0xfffff0);
    assert_int_equal(attr.sq_psn, 0xfffff0);
    assert_int_equal(attr.qp_access_flags,
                     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
    assert_int_equal(attr.max_rd_atomic, 4);
    assert_int_equal(attr.max_dest_rd_atomic, 4);
    assert_int_equal(attr.min_rnr_timer, 1);
    assert_int_equal(attr.timeout, 14);
    assert_int_equal(attr.retry_cnt, 7);
    assert_int_equal(attr.rnr_retry, 7);
    assert_int_equal(attr.port_num, 1);
    assert_int_equal(attr.ah_attr.is_global, 1);
    assert_int_equal(attr.ah_attr.grh.hop_limit, 64);
    assert_memory_equal(&attr.ah_attr.grh.dgid, &gid, sizeof(gid));
    pair_close(&p);
}

/* INIT to RTR with one thing changed. */
static int rtr_with(struct pair *p, void (*change)(struct ibv_qp_attr *attr))
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_1024,
        .dest_qp_num = p->qp[1]->qp_num,
        .max_dest_rd_atomic = 1,
        .ah_attr = {.is_global = 1, .port_num = 1},
    };
    int index = gid_index(p->context, true);

    attr.ah_attr.grh.sgid_index = (uint8_t)index;
    assert_int_equal(ibv_query_gid(p->context, 1, index, &attr.ah_attr.grh.dgid), 0);
    change(&attr);
    return ibv_modify_qp(p->qp[0], &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static void without_route(struct ibv_qp_attr *attr)
{
    attr->ah_attr.is_global = 0;
}

static void with_port_2(struct ibv_qp_attr *attr)
{
    attr->ah_attr.port_num = 2;
}

static void with_empty_gid(struct ibv_qp_attr *attr)
{
    attr->ah_attr.grh.sgid_index = 60;
}

static void with_gid_of_the_other_family(struct ibv_qp_attr *attr)
{
    memset(&attr->ah_attr.grh.dgid, 0, sizeof(attr->ah_attr.grh.dgid));
    attr->ah_attr.grh.dgid.raw[15] = 1;
}

static void with_mtu_0(struct ibv_qp_attr *attr)
{
    attr->path_mtu = 0;
}

static void with_mtu_6(struct ibv_qp_attr *attr)
{
    attr->path_mtu = IBV_MTU_4096 + 1;
}

static void with_too_many_reads(struct ibv_qp_attr *attr)
{
    attr->max_dest_rd_atomic = 255;
}

static void with_a_rate_that_is_none(struct ibv_qp_attr *attr)
{
    attr->ah_attr.static_rate = 99;
}

static void unchanged(struct ibv_qp_attr *attr)
{
    (void)attr;
}

static void addresses_that_cannot_be_used_are_refused(void **state)
{
    static void (*const changes[])(struct ibv_qp_attr *) = {
        without_route, with_port_2, with_empty_gid,      with_gid_of_the_other_family,
        with_mtu_0,    with_mtu_6,  with_too_many_reads, with_a_rate_that_is_none};
    struct pair p;

    (void)state;
    pair_open(&p);
    pair_create_qps(&p, IBV_QPT_RC, 0);
    to_init(p.qp[0]);
    for (size_t i = 0; i < COUNT_OF(changes); i++) {
        assert_int_equal(rtr_with(&p, changes[i]), EINVAL);
        assert_int_equal(p.qp[0]->state, IBV_QPS_INIT);
    }
    assert_int_equal(rtr_with(&p, unchanged), 0);
    pair_close(&p);
}

static void attributes_that_do_not_exist_are_refused(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
    struct pair p;

    (void)state;
    pair_open(&p);
    pair_create_qps(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_modify_qp(p.qp[0], &attr, IBV_QP_STATE | 1 << 22), EINVAL);
    attr.qp_state = (enum ibv_qp_state)99;
    assert_int_equal(ibv_modify_qp(p.qp[0], &attr, IBV_QP_STATE), EINVAL);
    pair_close(&p);
}

static void a_rate_limit_is_kept_and_lifted(void **state)
{
    struct ibv_qp_rate_limit_attr limit = {.rate_limit = 8000}; /* kb/s: 1 MB a second */
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1};
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct timespec start;
    struct timespec end;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    sge = sge_of(&p, 0, 0, 50000);
    wr.wr.rdma.rkey = p.mr->rkey;
    wr.wr.rdma.remote_addr = (uintptr_t)buf_of(&p, 1);
    assert_int_equal(ibv_modify_qp_rate_limit(p.qp[0], &limit), 0);
    assert_int_equal(ibv_query_qp(p.qp[0], &attr, IBV_QP_RATE_LIMIT, &init), 0);
    assert_int_equal(attr.rate_limit, 8000);
    clock_gettime(CLOCK_MONOTONIC, &start);
    post_request(&p, &wr);
    expect_success(p.send_cq);
    clock_gettime(CLOCK_MONOTONIC, &end);
    /* 50 ms, less a packet or two; a busy machine can only make it longer. */
    assert_true((end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000 >= 40);
    limit.rate_limit = 0;
    assert_int_equal(ibv_modify_qp_rate_limit(p.qp[0], &limit), 0);
    post_request(&p, &wr);
    expect_success(p.send_cq);
    pair_close(&p);
}

#define LARGE (UINT32_C(16) << 20)

/* 64 MiB at 2.5 Gb/s take 215 ms; a busy machine can only make it longer. */
static void the_static_rate_of_an_address_is_kept(void **state)
{
    uint8_t *memory = calloc(1, LARGE);
    struct timespec start, end;
    struct ibv_mr *mr;
    struct pair p;

    (void)state;
    assert_non_null(memory);
    pair_open(&p);
    p.static_rate = IBV_RATE_2_5_GBPS;
    p.path_mtu = IBV_MTU_4096;
    pair_create_qps(&p, IBV_QPT_RC, 0);
    pair_connect(&p);
    mr = ibv_reg_mr(p.pd, memory, LARGE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(mr);
    clock_gettime(CLOCK_MONOTONIC, &start);
    for (int i = 0; i < 4; i++) {
        struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = LARGE, .lkey = mr->lkey};
        struct ibv_send_wr wr = {
            .opcode = IBV_WR_RDMA_WRITE,
            .sg_list = &sge,
            .num_sge = 1,
            .wr.rdma = {.remote_addr = (uintptr_t)memory, .rkey = mr->rkey},
        };

        post_request(&p, &wr);
        expect_success(p.send_cq);
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    assert_true((end.tv_sec - start.tv_sec) * 1000 + (end.tv_nsec - start.tv_nsec) / 1000000 >=
                200);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&p);
    free(memory);
}

static uint32_t rate_of(struct ibv_qp *qp)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_RATE_LIMIT, &init), 0);
    return attr.rate_limit;
}

/* ibv_modify_qp(3): an attribute like others, where the queue pair can send. */
static void rate_limit_is_an_attribute_of_rts(void **state)
{
    struct ibv_qp_attr rts = {.qp_state = IBV_QPS_RTS,
                              .timeout = 14,
                              .retry_cnt = 7,
                              .rnr_retry = 7,
                              .max_rd_atomic = 4,
                              .rate_limit = 5000};
    const int to_rts_mask = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                            IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    struct ibv_device_attr_ex device;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .rate_limit = 5000};
    struct pair p;

    (void)state;
    pair_open(&p);
    pair_create_qps(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_query_device_ex(p.context, NULL, &device), 0);
    assert_int_equal(ibv_modify_qp(p.qp[0], &attr,
                                   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                       IBV_QP_ACCESS_FLAGS | IBV_QP_RATE_LIMIT),
                     EINVAL);
    assert_int_equal(p.qp[0]->state, IBV_QPS_RESET);
    to_init(p.qp[0]);
    to_rtr(&p, p.qp[0], p.qp[1]->qp_num);
    assert_int_equal(ibv_modify_qp(p.qp[0], &attr, IBV_QP_RATE_LIMIT), EINVAL);
    rts.rate_limit = device.packet_pacing_caps.qp_rate_limit_max + 1;
    assert_int_equal(ibv_modify_qp(p.qp[0], &rts, to_rts_mask | IBV_QP_RATE_LIMIT), EINVAL);
    assert_int_equal(p.qp[0]->state, IBV_QPS_RTR);
    rts.rate_limit = 5000;
    assert_int_equal(ibv_modify_qp(p.qp[0], &rts, to_rts_mask | IBV_QP_RATE_LIMIT), 0);
    assert_int_equal(rate_of(p.qp[0]), 5000);
    attr.rate_limit = 7000;
    assert_int_equal(ibv_modify_qp(p.qp[0], &attr, IBV_QP_RATE_LIMIT), 0);
    assert_int_equal(rate_of(p.qp[0]), 7000);
    /* What is refused as a whole leaves the rate, too. */
    attr.rate_limit = 9000;
    assert_int_equal(ibv_modify_qp(p.qp[0], &attr, IBV_QP_RATE_LIMIT | IBV_QP_PORT), EINVAL);
    assert_int_equal(rate_of(p.qp[0]), 7000);
    attr.rate_limit = 0;
    assert_int_equal(ibv_modify_qp(p.qp[0], &attr, IBV_QP_RATE_LIMIT), 0);
    assert_int_equal(rate_of(p.qp[0]), 0);
    pair_close(&p);
}

static void rate_limits_that_cannot_be_are_refused(void **state)
{
    struct ibv_qp_rate_limit_attr limit = {.rate_limit = 8000};
    struct ibv_device_attr_ex device;
    struct pair p;

    (void)state;
    pair_open(&p);
    pair_create_qps(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_modify_qp_rate_limit(p.qp[0], &limit), EINVAL); /* RESET */
    pair_connect(&p);
    assert_int_equal(ibv_query_device_ex(p.context, NULL, &device), 0);
    assert_true(device.packet_pacing_caps.supported_qpts & 1u << IBV_QPT_RC);
    limit.rate_limit = device.packet_pacing_caps.qp_rate_limit_max;
    assert_int_equal(ibv_modify_qp_rate_limit(p.qp[0], &limit), 0);
    limit.rate_limit++;
    assert_int_equal(ibv_modify_qp_rate_limit(p.qp[0], &limit), EINVAL);
    limit = (struct ibv_qp_rate_limit_attr){.rate_limit = 1, .comp_mask = 1};
    assert_int_equal(ibv_modify_qp_rate_limit(p.qp[0], &limit), EINVAL);
    pair_close(&p);
}

static void sqd_tells_when_it_is_drained_and_goes_on(void **state)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
    struct ibv_async_event event;
    struct ibv_qp_init_attr init;
    struct ibv_wc wc;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    sge = sge_of(&p, 0, 0, 10);
    post_request(&p, &wr); /* the receiver is not ready: stays on its way */
    assert_int_equal(ibv_modify_qp(p.qp[0], &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    assert_int_equal(p.qp[0]->state, IBV_QPS_SQD);
    assert_int_equal(ibv_query_qp(p.qp[0], &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.sq_draining, 1);
    assert_false(readable(p.context->async_fd, 20));
    post_request(&p, &wr); /* waits for RTS */
    post_receive(&p, 1, 100);
    post_receive(&p, 2, 100);
    expect_success(p.send_cq);
    assert_int_equal(ibv_get_async_event(p.context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_SQ_DRAINED);
    assert_ptr_equal(event.element.qp, p.qp[0]);
    ibv_ack_async_event(&event);
    assert_int_equal(ibv_query_qp(p.qp[0], &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.sq_draining, 0);
    assert_int_equal(attr.qp_state, IBV_QPS_SQD);
    assert_int_equal(ibv_poll_cq(p.send_cq, 1, &wc), 0);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_RTS};
    assert_int_equal(ibv_modify_qp(p.qp[0], &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
    attr.cur_qp_state = IBV_QPS_SQD;
    assert_int_equal(ibv_modify_qp(p.qp[0], &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
    expect_success(p.send_cq);
    assert_false(readable(p.context->async_fd, 20)); /* once, and only when asked for */
    pair_close(&p);
}

/* IBA 10.3.1: what was posted is flushed, receiving goes on, and RTS is the way back. */
static void a_send_queue_in_error_comes_back(void **state)
{
    static const enum ibv_qp_type types[] = {IBV_QPT_UC, IBV_QPT_UD};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE};
        struct ibv_sge sge;
        struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
        struct ibv_qp_init_attr init;
        struct pair p;

        pair_setup(&p, types[i], 0);
        sge = sge_of(&p, 0, 0, 10);
        sge.lkey ^= 0x100;
        post_request(&p, &wr);
        assert_int_equal(poll_one(p.send_cq).status, IBV_WC_LOC_PROT_ERR);
        assert_int_equal(ibv_query_qp(p.qp[0], &attr, IBV_QP_STATE, &init), 0);
        assert_int_equal(attr.qp_state, IBV_QPS_SQE);
        sge.lkey ^= 0x100;
        post_request(&p, &wr);
        assert_int_equal(poll_one(p.send_cq).status, IBV_WC_WR_FLUSH_ERR);
        attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE};
        assert_int_equal(ibv_modify_qp(p.qp[0], &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), 0);
        post_receive(&p, 1, 100);
        post_request(&p, &wr);
        expect_success(p.send_cq);
        expect_success(p.recv_cq);
        pair_close(&p);
    }
}

static void a_pd_in_use_is_not_freed(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p);
    assert_int_equal(ibv_dealloc_pd(p.pd), EBUSY);
    pair_close(&p);
}

static void vendor_options_do_not_exist(void **state)
{
    struct ibv_ece ece = {0};
    struct pair p;

    (void)state;
    pair_open(&p);
    pair_create_qps(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_set_ece(p.qp[0], &ece), EOPNOTSUPP);
    assert_int_equal(ibv_query_ece(p.qp[0], &ece), EOPNOTSUPP);
    assert_int_equal(ibv_query_qp_data_in_order(p.qp[0], IBV_WR_RDMA_WRITE, 0), 0);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(real_capabilities_are_written_back),
        cmocka_unit_test(a_new_qp_is_in_reset_and_has_a_number_of_its_own),
        cmocka_unit_test(more_than_the_limits_is_refused),
        cmocka_unit_test(the_advertised_limits_are_possible),
        cmocka_unit_test(types_that_are_not_built_and_missing_parts_are_refused),
        cmocka_unit_test(extended_creation_refuses_what_is_not_built),
        cmocka_unit_test(states_are_kept_in_the_object),
        cmocka_unit_test(attributes_come_back_as_they_were_given),
        cmocka_unit_test(addresses_that_cannot_be_used_are_refused),
        cmocka_unit_test(attributes_that_do_not_exist_are_refused),
        cmocka_unit_test(a_rate_limit_is_kept_and_lifted),
        cmocka_unit_test(the_static_rate_of_an_address_is_kept),
        cmocka_unit_test(rate_limit_is_an_attribute_of_rts),
        cmocka_unit_test(rate_limits_that_cannot_be_are_refused),
        cmocka_unit_test(sqd_tells_when_it_is_drained_and_goes_on),
        cmocka_unit_test(a_send_queue_in_error_comes_back),
        cmocka_unit_test(a_pd_in_use_is_not_freed),
        cmocka_unit_test(vendor_options_do_not_exist),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
