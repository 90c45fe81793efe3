/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared receive queues: creation, limits, changes. */
#include "fixture.h"

#include <errno.h>

static struct ibv_srq *create(struct pair *p, uint32_t max_wr)
{
    struct ibv_srq_init_attr attr = {.srq_context = p, .attr = {.max_wr = max_wr, .max_sge = 1}};

    return ibv_create_srq(p->pd, &attr);
}

static void capabilities_are_written_back_and_queried(void **state)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = 10, .max_sge = 3}};
    struct ibv_srq_attr queried;
    struct pair p;

    (void)state;
    pair_open(&p);
    attr.srq_context = &p;
    p.srq = ibv_create_srq(p.pd, &attr);
    assert_non_null(p.srq);
    assert_true(attr.attr.max_wr >= 10);
    assert_true(attr.attr.max_sge >= 3);
    assert_ptr_equal(p.srq->srq_context, &p);
    assert_ptr_equal(p.srq->pd, p.pd);
    assert_int_equal(ibv_query_srq(p.srq, &queried), 0);
    assert_int_equal(queried.max_wr, attr.attr.max_wr);
    assert_int_equal(queried.max_sge, attr.attr.max_sge);
    assert_int_equal(queried.srq_limit, 0);
    pair_close(&p);
}

static void sizes_beyond_the_limits_are_refused(void **state)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1000}};
    struct ibv_device_attr device;
    struct pair p;

    (void)state;
    pair_open(&p);
    assert_int_equal(ibv_query_device(p.context, &device), 0);
    assert_null(create(&p, 0));
    assert_int_equal(errno, EINVAL);
    assert_null(create(&p, (uint32_t)device.max_srq_wr + 1));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_create_srq(p.pd, &attr));
    assert_int_equal(errno, EINVAL);
    p.srq = create(&p, (uint32_t)device.max_srq_wr);
    assert_non_null(p.srq);
    pair_close(&p);
}

static void the_basic_type_needs_a_pd_and_has_no_number(void **state)
{
    struct ibv_srq_init_attr_ex attr = {
        .attr = {.max_wr = 4, .max_sge = 1},
        .comp_mask = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE,
        .srq_type = IBV_SRQT_TM, /* tag matching is not built */
    };
    struct pair p;
    uint32_t number;

    (void)state;
    pair_open(&p);
    attr.pd = p.pd;
    assert_null(ibv_create_srq_ex(p.context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    attr.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
    attr.srq_type = IBV_SRQT_BASIC;
    assert_null(ibv_create_srq_ex(p.context, &attr));
    assert_int_equal(errno, EINVAL);
    attr.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    p.srq = ibv_create_srq_ex(p.context, &attr);
    assert_non_null(p.srq);
    assert_int_equal(ibv_get_srq_num(p.srq, &number), EINVAL);
    pair_close(&p);
}

static void a_full_queue_refuses_and_names_the_request(void **state)
{
    struct ibv_recv_wr wrs[3] = {{.wr_id = 1}, {.wr_id = 2}, {.wr_id = 3}};
    struct ibv_recv_wr *bad = NULL;
    struct pair p;

    (void)state;
    pair_open(&p);
    p.srq = create(&p, 2);
    wrs[0].next = &wrs[1];
    wrs[1].next = &wrs[2];
    assert_int_equal(ibv_post_srq_recv(p.srq, wrs, &bad), ENOMEM);
    assert_ptr_equal(bad, &wrs[2]);
    pair_close(&p);
}

static void resizing_and_limit_change_together_or_not_at_all(void **state)
{
    struct ibv_srq_attr attr = {.max_wr = 20, .srq_limit = 25};
    struct ibv_srq_attr queried;
    struct pair p;

    (void)state;
    pair_open(&p);
    p.srq = create(&p, 10);
    for (uint64_t i = 0; i < 6; i++) /* so that a limit of 5 is not met yet */
        post_receive(&p, i, 1);
    assert_int_equal(ibv_modify_srq(p.srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EINVAL);
    assert_int_equal(ibv_query_srq(p.srq, &queried), 0);
    assert_int_equal(queried.max_wr, 10);
    assert_int_equal(queried.srq_limit, 0);
    attr.srq_limit = 5;
    assert_int_equal(ibv_modify_srq(p.srq, &attr, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), 0);
    assert_int_equal(ibv_query_srq(p.srq, &queried), 0);
    assert_int_equal(queried.max_wr, 20);
    assert_int_equal(queried.srq_limit, 5);
    assert_int_equal(ibv_modify_srq(p.srq, &attr, 1 << 5), EINVAL);
    pair_close(&p);
}

static void a_queue_in_use_is_not_destroyed(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p);
    p.srq = create(&p, 10);
    pair_create_qps(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_destroy_srq(p.srq), EBUSY);
    pair_close(&p);
}

static void a_qp_with_a_shared_queue_has_none_of_its_own(void **state)
{
    struct ibv_recv_wr wr = {.wr_id = 1};
    struct ibv_recv_wr *bad = NULL;
    struct pair p;

    (void)state;
    pair_open(&p);
    p.srq = create(&p, 10);
    pair_create_qps(&p, IBV_QPT_RC, 0);
    to_init(p.qp[0]);
    assert_int_equal(ibv_post_recv(p.qp[0], &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
    pair_close(&p);
}

/* IBA 9.7.5.2: the sender waits and asks again, for ever with seven RNR retries. */
static void a_sender_waits_while_the_shared_queue_is_empty(void **state)
{
    struct ibv_send_wr wr = {.wr_id = 5, .opcode = IBV_WR_SEND};
    struct ibv_wc wc;
    struct pair p;

    (void)state;
    pair_open(&p);
    p.srq = create(&p, 10);
    pair_create_qps(&p, IBV_QPT_RC, 0);
    pair_connect(&p);
    post_request(&p, &wr);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(ibv_poll_cq(p.send_cq, 1, &wc), 0);
    post_receive(&p, 6, 1);
    assert_int_equal(expect_success(p.recv_cq).wr_id, 6);
    assert_int_equal(expect_success(p.send_cq).wr_id, 5);
    pair_close(&p);
}

#define PAIRS 6

/* Each request is taken once, whoever it is for, and tells by whose queue pair it was taken. */
static void one_queue_serves_many_qps_while_it_is_resized(void **state)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    struct ibv_qp *qps[PAIRS][2];
    struct ibv_srq_attr attr = {.max_wr = 4};
    bool seen[10 * PAIRS] = {false};
    struct pair p;

    (void)state;
    pair_open(&p);
    p.srq = create(&p, 4);
    for (int i = 0; i < PAIRS; i++) {
        pair_create_qps(&p, IBV_QPT_RC, 0);
        pair_connect(&p);
        qps[i][0] = p.qp[0];
        qps[i][1] = p.qp[1];
    }
    for (uint64_t n = 0; n < COUNT_OF(seen); n++) {
        struct ibv_wc wc;

        p.qp[0] = qps[n % PAIRS][0];
        attr.max_wr = 4 + (uint32_t)(n % 7) * 3;
        assert_int_equal(ibv_modify_srq(p.srq, &attr, IBV_SRQ_MAX_WR), 0);
        post_receive(&p, n, 1);
        post_request(&p, &wr);
        wc = expect_success(p.recv_cq);
        assert_int_equal(wc.qp_num, qps[n % PAIRS][1]->qp_num);
        assert_false(seen[wc.wr_id]);
        seen[wc.wr_id] = true;
        expect_success(p.send_cq);
    }
    for (int i = 1; i < PAIRS; i++)
        for (int side = 0; side < 2; side++)
            assert_int_equal(ibv_destroy_qp(qps[i][side]), 0);
    p.qp[0] = qps[0][0];
    p.qp[1] = qps[0][1];
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(capabilities_are_written_back_and_queried),
        cmocka_unit_test(sizes_beyond_the_limits_are_refused),
        cmocka_unit_test(the_basic_type_needs_a_pd_and_has_no_number),
        cmocka_unit_test(a_full_queue_refuses_and_names_the_request),
        cmocka_unit_test(resizing_and_limit_change_together_or_not_at_all),
        cmocka_unit_test(a_queue_in_use_is_not_destroyed),
        cmocka_unit_test(a_qp_with_a_shared_queue_has_none_of_its_own),
        cmocka_unit_test(a_sender_waits_while_the_shared_queue_is_empty),
        cmocka_unit_test(one_queue_serves_many_qps_while_it_is_resized),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
