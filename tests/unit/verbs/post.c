/* SPDX-License-Identifier: BSD-2-Clause */
/* Classic posting: what is refused at once, and what a chain then has posted. */
#include "fixture.h"

#include <errno.h>
#include <string.h>

static struct ibv_send_wr send_of(struct ibv_sge *sge, uint64_t wr_id)
{
    return (struct ibv_send_wr){.wr_id = wr_id,
                                .sg_list = sge,
                                .num_sge = 1,
                                .opcode = IBV_WR_SEND,
                                .send_flags = IBV_SEND_SIGNALED};
}

/* The post is refused with this errno and points at the request. */
static void expect_refused(struct pair *p, struct ibv_send_wr *wr, int error)
{
    struct ibv_send_wr *bad = NULL;

    assert_int_equal(ibv_post_send(p->qp[0], wr, &bad), error);
    assert_ptr_equal(bad, wr);
}

static void sending_before_rts_is_refused(void **state)
{
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    struct pair p;

    (void)state;
    pair_open(&p);
    pair_create_qps(&p, IBV_QPT_RC, 0);
    sge = sge_of(&p, 0, 0, 1);
    wr = send_of(&sge, 1);
    expect_refused(&p, &wr, EINVAL);
    to_init(p.qp[0]);
    expect_refused(&p, &wr, EINVAL);
    to_rtr(&p, p.qp[0], p.qp[1]->qp_num);
    expect_refused(&p, &wr, EINVAL);
    pair_close(&p);
}

static void receiving_in_reset_is_refused_and_in_init_is_not(void **state)
{
    struct ibv_recv_wr wr = {.wr_id = 1};
    struct ibv_recv_wr *bad = NULL;
    struct pair p;

    (void)state;
    pair_open(&p);
    pair_create_qps(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_post_recv(p.qp[0], &wr, &bad), EINVAL);
    assert_ptr_equal(bad, &wr);
    to_init(p.qp[0]);
    assert_int_equal(ibv_post_recv(p.qp[0], &wr, &bad), 0);
    pair_close(&p);
}

static void a_chain_stands_up_to_the_request_that_is_refused(void **state)
{
    struct ibv_send_wr wrs[3];
    struct ibv_send_wr *bad = NULL;
    struct ibv_sge sge;
    struct ibv_wc wc;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    sge = sge_of(&p, 0, 0, 1);
    for (int i = 0; i < 3; i++) {
        wrs[i] = send_of(&sge, (uint64_t)i);
        wrs[i].next = i < 2 ? &wrs[i + 1] : NULL;
        post_receive(&p, 0, 1);
    }
    wrs[1].num_sge = 1000;
    assert_int_equal(ibv_post_send(p.qp[0], wrs, &bad), EINVAL);
    assert_ptr_equal(bad, &wrs[1]);
    assert_int_equal(expect_success(p.send_cq).wr_id, 0);
    assert_int_equal(ibv_poll_cq(p.send_cq, 1, &wc), 0);
    pair_close(&p);
}

static void what_the_service_cannot_do_is_refused(void **state)
{
    static const struct {
        enum ibv_wr_opcode opcode;
        unsigned flags;
        int num_sge;
        int error;
    } rows[] = {
        {IBV_WR_LOCAL_INV, IBV_SEND_INLINE, 0, EINVAL},
        {IBV_WR_BIND_MW, 0, 0, EINVAL},
        {IBV_WR_TSO, 0, 1, EOPNOTSUPP},
        {(enum ibv_wr_opcode)99, 0, 1, EINVAL},
        {(enum ibv_wr_opcode) - 1, 0, 1, EINVAL},
        {IBV_WR_SEND, IBV_SEND_IP_CSUM, 1, EINVAL},
        {IBV_WR_SEND, 0, -1, EINVAL},
        {IBV_WR_SEND, 0, 33, EINVAL},
        {IBV_WR_RDMA_READ, IBV_SEND_INLINE, 1, EINVAL},
    };
    struct ibv_sge sges[40];
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    for (size_t i = 0; i < COUNT_OF(sges); i++)
        sges[i] = sge_of(&p, 0, 0, 1);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ibv_send_wr wr = {.sg_list = sges,
                                 .num_sge = rows[i].num_sge,
                                 .opcode = rows[i].opcode,
                                 .send_flags = rows[i].flags};

        expect_refused(&p, &wr, rows[i].error);
    }
    pair_close(&p);
}

static void datagrams_need_an_address_of_the_same_pd(void **state)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
    struct ibv_pd *other_pd;
    struct ibv_ah *other;
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_UD, 0);
    sge = sge_of(&p, 0, 0, 1);
    wr = send_of(&sge, 1);
    expect_refused(&p, &wr, EINVAL);
    attr.grh.sgid_index = (uint8_t)gid_index(p.context, true);
    assert_int_equal(ibv_query_gid(p.context, 1, attr.grh.sgid_index, &attr.grh.dgid), 0);
    other_pd = ibv_alloc_pd(p.context);
    other = ibv_create_ah(other_pd, &attr);
    assert_non_null(other);
    wr.wr.ud.ah = other;
    expect_refused(&p, &wr, EINVAL);
    assert_int_equal(ibv_dealloc_pd(other_pd), EBUSY);
    assert_int_equal(ibv_destroy_ah(other), 0);
    assert_int_equal(ibv_dealloc_pd(other_pd), 0);
    pair_close(&p);
}

static void a_full_queue_refuses_with_enomem_and_goes_on_later(void **state)
{
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    int posted = 0;
    int error;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0); /* the peer has no receives: nothing completes */
    sge = sge_of(&p, 0, 0, 1);
    wr = send_of(&sge, 1);
    while ((error = ibv_post_send(p.qp[0], &wr, &bad)) == 0 && posted < 1000)
        posted++;
    assert_int_equal(error, ENOMEM);
    assert_ptr_equal(bad, &wr);
    assert_true(posted >= 16);
    post_receive(&p, 1, 1);
    expect_success(p.send_cq);
    assert_int_equal(ibv_post_send(p.qp[0], &wr, &bad), 0);
    pair_close(&p);
}

static void a_full_receive_queue_refuses_with_enomem(void **state)
{
    struct ibv_recv_wr wr = {.wr_id = 1};
    struct ibv_recv_wr *bad = NULL;
    int posted = 0;
    int error;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    while ((error = ibv_post_recv(p.qp[1], &wr, &bad)) == 0 && posted < 1000)
        posted++;
    assert_int_equal(error, ENOMEM);
    assert_ptr_equal(bad, &wr);
    assert_true(posted >= 16);
    pair_close(&p);
}

/* Also where nothing fills up: in the error state each request completes at once. */
static void a_chain_that_is_a_loop_ends(void **state)
{
    struct ibv_recv_wr recv = {.wr_id = 1};
    struct ibv_recv_wr *bad_recv = NULL;
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    sge = sge_of(&p, 0, 0, 1);
    wr = send_of(&sge, 1);
    wr.next = &wr;
    recv.next = &recv;
    assert_int_equal(to_state(p.qp[0], IBV_QPS_ERR), 0);
    assert_int_equal(ibv_post_send(p.qp[0], &wr, &bad), ENOMEM);
    assert_ptr_equal(bad, &wr);
    assert_int_equal(ibv_post_recv(p.qp[0], &recv, &bad_recv), ENOMEM);
    assert_ptr_equal(bad_recv, &recv);
    pair_close(&p);
}

static void work_in_the_error_state_is_flushed_in_order(void **state)
{
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    assert_int_equal(to_state(p.qp[0], IBV_QPS_ERR), 0);
    sge = sge_of(&p, 0, 0, 1);
    for (uint64_t i = 0; i < 3; i++) {
        wr = send_of(&sge, i);
        assert_int_equal(ibv_post_send(p.qp[0], &wr, &bad), 0);
    }
    for (uint64_t i = 0; i < 3; i++) {
        struct ibv_wc wc = poll_one(p.send_cq);

        assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wc.wr_id, i);
    }
    pair_close(&p);
}

static void unsignalled_work_completes_in_silence(void **state)
{
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    struct ibv_wc wc;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    post_receive(&p, 1, 1);
    post_receive(&p, 2, 1);
    sge = sge_of(&p, 0, 0, 1);
    wr = send_of(&sge, 1);
    wr.send_flags = 0;
    assert_int_equal(ibv_post_send(p.qp[0], &wr, &bad), 0);
    wr = send_of(&sge, 2);
    assert_int_equal(ibv_post_send(p.qp[0], &wr, &bad), 0);
    assert_int_equal(expect_success(p.send_cq).wr_id, 2);
    assert_int_equal(ibv_poll_cq(p.send_cq, 1, &wc), 0);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sending_before_rts_is_refused),
        cmocka_unit_test(receiving_in_reset_is_refused_and_in_init_is_not),
        cmocka_unit_test(a_chain_stands_up_to_the_request_that_is_refused),
        cmocka_unit_test(what_the_service_cannot_do_is_refused),
        cmocka_unit_test(datagrams_need_an_address_of_the_same_pd),
        cmocka_unit_test(a_full_queue_refuses_with_enomem_and_goes_on_later),
        cmocka_unit_test(a_full_receive_queue_refuses_with_enomem),
        cmocka_unit_test(a_chain_that_is_a_loop_ends),
        cmocka_unit_test(work_in_the_error_state_is_flushed_in_order),
        cmocka_unit_test(unsignalled_work_completes_in_silence),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
