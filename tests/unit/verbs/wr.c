/* SPDX-License-Identifier: BSD-2-Clause */
/* The work request builder: all of a list is posted, or nothing. */
#include "fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define RC_OPERATIONS                                                                              \
    (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |              \
     IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                               \
     IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |                     \
     IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_ATOMIC_WRITE)

static struct ibv_qp_ex *builder(struct pair *p)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(p->qp[0]);

    assert_non_null(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
    return qp;
}

static void setup(struct pair *p)
{
    pair_setup(p, IBV_QPT_RC, RC_OPERATIONS);
}

static void add_send(struct pair *p, struct ibv_qp_ex *qp, uint64_t wr_id)
{
    qp->wr_id = wr_id;
    ibv_wr_send(qp);
    ibv_wr_set_sge(qp, p->mr->lkey, (uintptr_t)buf_of(p, 0), 1);
}

static void expect_nothing(struct pair *p)
{
    struct ibv_wc wc;

    for (int i = 0; i < 100; i++)
        assert_int_equal(ibv_poll_cq(p->send_cq, 1, &wc), 0);
}

static void every_operation_does_what_it_says(void **state)
{
    uint64_t value = 10;
    struct ibv_qp_ex *qp;
    struct ibv_wc wc;
    struct pair p;
    uint64_t remote;

    (void)state;
    setup(&p);
    qp = builder(&p);
    remote = (uintptr_t)buf_of(&p, 1);
    memset(buf_of(&p, 0), 0x5a, 64);
    post_receive(&p, 1, 64);

    ibv_wr_start(qp);
    qp->wr_id = 1;
    ibv_wr_rdma_write(qp, p.mr->rkey, remote + 1024);
    ibv_wr_set_sge(qp, p.mr->lkey, (uintptr_t)buf_of(&p, 0), 64);
    qp->wr_id = 2;
    ibv_wr_rdma_write_imm(qp, p.mr->rkey, remote + 2048, htonl(22));
    ibv_wr_set_sge(qp, p.mr->lkey, (uintptr_t)buf_of(&p, 0), 64);
    qp->wr_id = 3;
    ibv_wr_rdma_read(qp, p.mr->rkey, remote + 1024);
    ibv_wr_set_sge(qp, p.mr->lkey, (uintptr_t)buf_of(&p, 0) + 4096, 64);
    assert_int_equal(ibv_wr_complete(qp), 0);
    for (uint64_t id = 1; id <= 3; id++)
        assert_int_equal(expect_success(p.send_cq).wr_id, id);
    assert_memory_equal(buf_of(&p, 1) + 2048, buf_of(&p, 0), 64);
    assert_memory_equal(buf_of(&p, 0) + 4096, buf_of(&p, 0), 64);
    wc = expect_success(p.recv_cq);
    assert_int_equal(ntohl(wc.imm_data), 22);

    memcpy(buf_of(&p, 1), &value, sizeof(value));
    ibv_wr_start(qp);
    ibv_wr_atomic_fetch_add(qp, p.mr->rkey, remote, 5);
    ibv_wr_set_sge(qp, p.mr->lkey, (uintptr_t)buf_of(&p, 0), 8);
    ibv_wr_atomic_cmp_swp(qp, p.mr->rkey, remote, 15, 99);
    ibv_wr_set_sge(qp, p.mr->lkey, (uintptr_t)buf_of(&p, 0) + 8, 8);
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(expect_success(p.send_cq).opcode, IBV_WC_FETCH_ADD);
    assert_int_equal(expect_success(p.send_cq).opcode, IBV_WC_COMP_SWAP);
    memcpy(&value, buf_of(&p, 1), sizeof(value));
    assert_int_equal(value, 99);
    memcpy(&value, buf_of(&p, 0) + 8, sizeof(value));
    assert_int_equal(value, 15);
    pair_close(&p);
}

static void an_atomic_write_takes_its_eight_bytes_at_once(void **state)
{
    uint64_t value = 0x0123456789abcdef;
    const uint64_t wanted = value;
    struct ibv_qp_ex *qp;
    struct pair p;

    (void)state;
    setup(&p);
    qp = builder(&p);
    ibv_wr_start(qp);
    qp->wr_id = 7;
    ibv_wr_atomic_write(qp, p.mr->rkey, (uintptr_t)buf_of(&p, 1) + 8, &value);
    value = 0;
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(expect_success(p.send_cq).opcode, IBV_WC_ATOMIC_WRITE);
    assert_memory_equal(buf_of(&p, 1) + 8, &wanted, sizeof(wanted));
    assert_memory_equal(buf_of(&p, 1), &value, sizeof(value));
    pair_close(&p);
}

static void nothing_is_posted_before_complete_nor_after_abort(void **state)
{
    struct ibv_qp_ex *qp;
    struct pair p;

    (void)state;
    setup(&p);
    qp = builder(&p);
    post_receive(&p, 1, 1);
    ibv_wr_start(qp);
    add_send(&p, qp, 1);
    expect_nothing(&p);
    ibv_wr_abort(qp);
    expect_nothing(&p);
    ibv_wr_start(qp);
    add_send(&p, qp, 2);
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(expect_success(p.send_cq).wr_id, 2);
    pair_close(&p);
}

static void an_empty_list_is_good(void **state)
{
    struct pair p;

    (void)state;
    setup(&p);
    ibv_wr_start(builder(&p));
    assert_int_equal(ibv_wr_complete(builder(&p)), 0);
    expect_nothing(&p);
    pair_close(&p);
}

/* Adds a bad request; the list around it is good. */
typedef void (*bad_fn)(struct pair *p, struct ibv_qp_ex *qp);

static void too_many_sges(struct pair *p, struct ibv_qp_ex *qp)
{
    struct ibv_sge sges[40];

    for (size_t i = 0; i < COUNT_OF(sges); i++)
        sges[i] = sge_of(p, 0, 0, 1);
    ibv_wr_send(qp);
    ibv_wr_set_sge_list(qp, COUNT_OF(sges), sges);
}

static void too_much_inline(struct pair *p, struct ibv_qp_ex *qp)
{
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, buf_of(p, 0), BUF_SIZE);
}

static void inline_read(struct pair *p, struct ibv_qp_ex *qp)
{
    ibv_wr_rdma_read(qp, p->mr->rkey, (uintptr_t)buf_of(p, 1));
    ibv_wr_set_inline_data(qp, buf_of(p, 0), 8);
}

static void window_bind(struct pair *p, struct ibv_qp_ex *qp)
{
    (void)p;
    ibv_wr_bind_mw(qp, NULL, 0, NULL);
}

static void invalidation(struct pair *p, struct ibv_qp_ex *qp)
{
    ibv_wr_local_inv(qp, p->mr->rkey);
}

static void segmentation(struct pair *p, struct ibv_qp_ex *qp)
{
    ibv_wr_send_tso(qp, buf_of(p, 0), 8, 512);
}

static void strange_flags(struct pair *p, struct ibv_qp_ex *qp)
{
    (void)p;
    qp->wr_flags = IBV_SEND_IP_CSUM;
    ibv_wr_send(qp);
    qp->wr_flags = IBV_SEND_SIGNALED;
}

static void one_bad_request_refuses_the_whole_list(void **state)
{
    static const struct {
        bad_fn add;
        int error;
    } rows[] = {
        {too_many_sges, EINVAL},    {too_much_inline, EINVAL}, {inline_read, EINVAL},
        {strange_flags, EINVAL},    {window_bind, EOPNOTSUPP}, {invalidation, EOPNOTSUPP},
        {segmentation, EOPNOTSUPP},
    };
    struct ibv_qp_ex *qp;
    struct pair p;

    (void)state;
    setup(&p);
    qp = builder(&p);
    post_receive(&p, 1, 1);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        ibv_wr_start(qp);
        add_send(&p, qp, 1);
        rows[i].add(&p, qp);
        add_send(&p, qp, 2);
        assert_int_equal(ibv_wr_complete(qp), rows[i].error);
    }
    expect_nothing(&p);
    ibv_wr_start(qp);
    add_send(&p, qp, 3);
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(expect_success(p.send_cq).wr_id, 3);
    pair_close(&p);
}

static void a_list_longer_than_the_queue_is_refused_whole(void **state)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct ibv_qp_ex *qp;
    struct pair p;

    (void)state;
    setup(&p);
    qp = builder(&p);
    assert_int_equal(ibv_query_qp(p.qp[0], &attr, IBV_QP_CAP, &init), 0);
    ibv_wr_start(qp);
    for (uint32_t i = 0; i <= attr.cap.max_send_wr; i++)
        add_send(&p, qp, i);
    assert_int_equal(ibv_wr_complete(qp), ENOMEM);
    expect_nothing(&p);
    pair_close(&p);
}

static void a_list_that_does_not_fit_now_is_refused_whole(void **state)
{
    struct ibv_qp_ex *qp;
    struct pair p;

    (void)state;
    setup(&p); /* no receives: what is posted stays */
    qp = builder(&p);
    ibv_wr_start(qp);
    for (uint64_t i = 0; i < 10; i++)
        add_send(&p, qp, i);
    assert_int_equal(ibv_wr_complete(qp), 0);
    ibv_wr_start(qp);
    for (uint64_t i = 10; i < 20; i++)
        add_send(&p, qp, i);
    assert_int_equal(ibv_wr_complete(qp), ENOMEM);
    for (uint64_t i = 0; i < 16; i++)
        post_receive(&p, i, 1);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(expect_success(p.send_cq).wr_id, i);
    expect_nothing(&p);
    pair_close(&p);
}

static void operations_not_asked_for_are_refused(void **state)
{
    struct ibv_qp_ex *qp;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
    qp = builder(&p);
    ibv_wr_start(qp);
    ibv_wr_rdma_write(qp, p.mr->rkey, (uintptr_t)buf_of(&p, 1));
    assert_int_equal(ibv_wr_complete(qp), EOPNOTSUPP);
    pair_close(&p);
}

static void a_qp_in_the_wrong_state_refuses_the_list(void **state)
{
    struct ibv_qp_ex *qp;
    struct pair p;

    (void)state;
    pair_open(&p);
    pair_create_qps(&p, IBV_QPT_RC, RC_OPERATIONS);
    qp = builder(&p);
    ibv_wr_start(qp);
    add_send(&p, qp, 1);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    pair_close(&p);
}

static void several_sges_of_unequal_length_are_gathered(void **state)
{
    struct ibv_sge sges[3];
    struct ibv_qp_ex *qp;
    struct pair p;

    (void)state;
    setup(&p);
    qp = builder(&p);
    memcpy(buf_of(&p, 0), "abcdefghijklmnop", 16);
    sges[0] = sge_of(&p, 0, 0, 1);
    sges[1] = sge_of(&p, 0, 4, 5);
    sges[2] = sge_of(&p, 0, 14, 2);
    post_receive(&p, 1, 100);
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_set_sge_list(qp, 3, sges);
    memset(sges, 0, sizeof(sges)); /* the list was copied */
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(expect_success(p.recv_cq).byte_len, 8);
    assert_memory_equal(buf_of(&p, 1), "aefghiop", 8);
    pair_close(&p);
}

static void inline_data_is_copied_at_the_call(void **state)
{
    char first[] = "first ";
    char second[] = "second";
    const struct ibv_data_buf bufs[] = {{first, 6}, {second, 7}};
    struct ibv_qp_ex *qp;
    struct pair p;

    (void)state;
    setup(&p);
    qp = builder(&p);
    post_receive(&p, 1, 100);
    post_receive(&p, 2, 100);
    qp->wr_flags |= IBV_SEND_INLINE; /* perftest says it here too */
    ibv_wr_start(qp);
    ibv_wr_send_imm(qp, htonl(1));
    ibv_wr_set_inline_data_list(qp, 2, bufs);
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, first, 0);
    memset(first, 'x', sizeof(first));
    memset(second, 'x', sizeof(second));
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(expect_success(p.recv_cq).byte_len, 13);
    assert_string_equal((char *)buf_of(&p, 1), "first second");
    assert_int_equal(expect_success(p.recv_cq).byte_len, 0);
    pair_close(&p);
}

static void datagrams_need_their_address_in_each_request(void **state)
{
    struct ibv_qp_ex *qp;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_UD, IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM);
    qp = builder(&p);
    post_receive(&p, 1, 100);
    ibv_wr_start(qp);
    add_send(&p, qp, 1);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    ibv_wr_start(qp);
    add_send(&p, qp, 2);
    ibv_wr_set_ud_addr(qp, p.ah, p.qp[1]->qp_num, QKEY);
    assert_int_equal(ibv_wr_complete(qp), 0);
    assert_int_equal(expect_success(p.recv_cq).byte_len, 41);
    assert_int_equal(expect_success(p.send_cq).wr_id, 2);
    pair_close(&p);
}

static void misuse_does_no_harm(void **state)
{
    struct ibv_qp_ex *qp;
    struct pair p;

    (void)state;
    setup(&p);
    qp = builder(&p);
    ibv_wr_send(qp); /* no start */
    ibv_wr_set_sge(qp, 0, 0, 0);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    ibv_wr_abort(qp);
    ibv_wr_start(qp);
    ibv_wr_set_sge(qp, 0, 0, 0); /* no request to set it in */
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    ibv_wr_start(qp);
    assert_int_equal(ibv_wr_complete(qp), 0);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_does_what_it_says),
        cmocka_unit_test(an_atomic_write_takes_its_eight_bytes_at_once),
        cmocka_unit_test(nothing_is_posted_before_complete_nor_after_abort),
        cmocka_unit_test(an_empty_list_is_good),
        cmocka_unit_test(one_bad_request_refuses_the_whole_list),
        cmocka_unit_test(a_list_longer_than_the_queue_is_refused_whole),
        cmocka_unit_test(a_list_that_does_not_fit_now_is_refused_whole),
        cmocka_unit_test(operations_not_asked_for_are_refused),
        cmocka_unit_test(a_qp_in_the_wrong_state_refuses_the_list),
        cmocka_unit_test(several_sges_of_unequal_length_are_gathered),
        cmocka_unit_test(inline_data_is_copied_at_the_call),
        cmocka_unit_test(datagrams_need_their_address_in_each_request),
        cmocka_unit_test(misuse_does_no_harm),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
