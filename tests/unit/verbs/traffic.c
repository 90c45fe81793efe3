/* SPDX-License-Identifier: BSD-2-Clause */
/* Every operation of every service between two queue pairs of one process. */
#include "fixture.h"

#include <arpa/inet.h>
#include <string.h>

static void fill(uint8_t *to, size_t len, uint8_t seed)
{
    for (size_t i = 0; i < len; i++)
        to[i] = (uint8_t)(seed + i * 7);
}

static void sends_arrive(struct pair *p, uint32_t len)
{
    uint32_t area = p->ah != NULL ? 40 : 0;
    struct ibv_sge sge = sge_of(p, 0, 0, len);
    struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    struct ibv_wc wc;

    fill(buf_of(p, 0), len, (uint8_t)len);
    memset(buf_of(p, 1), 0, BUF_SIZE);
    post_receive(p, 2, len + area);
    post_request(p, &wr);
    wc = expect_success(p->recv_cq);
    assert_int_equal(wc.wr_id, 2);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.byte_len, len + area);
    assert_int_equal(wc.qp_num, p->qp[1]->qp_num);
    assert_int_equal(wc.wc_flags, area > 0 ? IBV_WC_GRH : 0);
    if (area > 0)
        assert_int_equal(wc.src_qp, p->qp[0]->qp_num);
    assert_memory_equal(buf_of(p, 1) + area, buf_of(p, 0), len);
    wc = expect_success(p->send_cq);
    assert_int_equal(wc.wr_id, 1);
    assert_int_equal(wc.opcode, IBV_WC_SEND);
}

static void rc_sends_messages_of_all_sizes(void **state)
{
    static const uint32_t sizes[] = {0, 1, 2, 3, 1023, 1024, 1025, 4096, 50000, BUF_SIZE};
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        sends_arrive(&p, sizes[i]);
    pair_close(&p);
}

static void uc_sends_messages_of_all_sizes(void **state)
{
    static const uint32_t sizes[] = {0, 1, 1024, 1025, 30000};
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_UC, 0);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        sends_arrive(&p, sizes[i]);
    pair_close(&p);
}

static void ud_sends_a_datagram_up_to_the_ports_mtu(void **state)
{
    static const uint32_t sizes[] = {0, 1, 1024, 4096};
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_UD, 0);
    for (size_t i = 0; i < COUNT_OF(sizes); i++)
        sends_arrive(&p, sizes[i]);
    pair_close(&p);
}

static void ipv6_carries_the_same(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p);
    p.ipv4 = false;
    pair_create_qps(&p, IBV_QPT_RC, 0);
    pair_connect(&p);
    sends_arrive(&p, 10000);
    pair_close(&p);
}

static void an_immediate_arrives_in_network_order(void **state)
{
    struct pair p;
    struct ibv_sge sge;
    struct ibv_send_wr wr;
    struct ibv_wc wc;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    sge = sge_of(&p, 0, 0, 8);
    wr = (struct ibv_send_wr){.sg_list = &sge,
                              .num_sge = 1,
                              .opcode = IBV_WR_SEND_WITH_IMM,
                              .imm_data = htonl(0x01020304)};
    post_receive(&p, 1, 8);
    post_request(&p, &wr);
    wc = expect_success(p.recv_cq);
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
    assert_int_equal(ntohl(wc.imm_data), 0x01020304);
    pair_close(&p);
}

static void a_write_is_silent_and_one_with_an_immediate_is_not(void **state)
{
    struct pair p;
    struct ibv_sge sge;
    struct ibv_send_wr wr;
    struct ibv_wc wc;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    fill(buf_of(&p, 0), 5000, 3);
    sge = sge_of(&p, 0, 0, 5000);
    wr = (struct ibv_send_wr){.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
    wr.wr.rdma.remote_addr = (uintptr_t)buf_of(&p, 1) + 16;
    wr.wr.rdma.rkey = p.mr->rkey;
    post_request(&p, &wr);
    wc = expect_success(p.send_cq);
    assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
    assert_memory_equal(buf_of(&p, 1) + 16, buf_of(&p, 0), 5000);
    assert_int_equal(ibv_poll_cq(p.recv_cq, 1, &wc), 0);

    post_receive(&p, 9, 0);
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.imm_data = htonl(77);
    post_request(&p, &wr);
    wc = expect_success(p.recv_cq);
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(wc.byte_len, 5000);
    assert_int_equal(ntohl(wc.imm_data), 77);
    assert_int_equal(wc.wr_id, 9);
    pair_close(&p);
}

static void a_read_scatters_what_it_brings(void **state)
{
    struct pair p;
    struct ibv_sge sges[2];
    struct ibv_send_wr wr;
    struct ibv_wc wc;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    fill(buf_of(&p, 1), 9000, 1);
    sges[0] = sge_of(&p, 0, 0, 1000);
    sges[1] = sge_of(&p, 0, 20000, 8000);
    wr = (struct ibv_send_wr){.sg_list = sges, .num_sge = 2, .opcode = IBV_WR_RDMA_READ};
    wr.wr.rdma.remote_addr = (uintptr_t)buf_of(&p, 1);
    wr.wr.rdma.rkey = p.mr->rkey;
    post_request(&p, &wr);
    wc = expect_success(p.send_cq);
    assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
    assert_int_equal(wc.byte_len, 9000);
    assert_memory_equal(buf_of(&p, 0), buf_of(&p, 1), 1000);
    assert_memory_equal(buf_of(&p, 0) + 20000, buf_of(&p, 1) + 1000, 8000);
    pair_close(&p);
}

/* Runs one atomic on *target of the peer and returns what it brought back. */
static uint64_t atomic(struct pair *p, struct ibv_send_wr *wr)
{
    struct ibv_sge sge = sge_of(p, 0, 0, 8);
    uint64_t before;

    wr->sg_list = &sge;
    wr->num_sge = 1;
    wr->wr.atomic.remote_addr = (uintptr_t)buf_of(p, 1);
    wr->wr.atomic.rkey = p->mr->rkey;
    post_request(p, wr);
    assert_int_equal(expect_success(p->send_cq).byte_len, 8);
    memcpy(&before, buf_of(p, 0), sizeof(before));
    return before;
}

static void atomics_bring_back_what_was_there(void **state)
{
    struct ibv_send_wr add = {.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD};
    struct ibv_send_wr swap = {.opcode = IBV_WR_ATOMIC_CMP_AND_SWP};
    uint64_t value = 0x1122334455667788;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    memcpy(buf_of(&p, 1), &value, sizeof(value));
    add.wr.atomic.compare_add = 5;
    assert_true(atomic(&p, &add) == value);
    swap.wr.atomic.compare_add = value; /* not what is there any more */
    swap.wr.atomic.swap = 1;
    assert_true(atomic(&p, &swap) == value + 5);
    swap.wr.atomic.compare_add = value + 5;
    assert_true(atomic(&p, &swap) == value + 5);
    memcpy(&value, buf_of(&p, 1), sizeof(value));
    assert_true(value == 1);
    pair_close(&p);
}

static void inline_data_may_be_overwritten_after_the_post(void **state)
{
    struct pair p;
    char text[64] = "sent before it was overwritten";
    struct ibv_sge sge = {.addr = (uintptr_t)text, .length = sizeof(text)}; /* no key */
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE};

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    post_receive(&p, 1, sizeof(text));
    post_request(&p, &wr);
    memset(text, 'x', sizeof(text));
    expect_success(p.recv_cq);
    assert_string_equal((char *)buf_of(&p, 1), "sent before it was overwritten");
    pair_close(&p);
}

static void a_wrong_remote_key_fails_both_ends(void **state)
{
    struct pair p;
    struct ibv_sge sge;
    struct ibv_send_wr wr;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    sge = sge_of(&p, 0, 0, 8);
    wr = (struct ibv_send_wr){.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
    wr.wr.rdma.remote_addr = (uintptr_t)buf_of(&p, 1);
    wr.wr.rdma.rkey = p.mr->rkey ^ 0x100;
    post_request(&p, &wr);
    assert_int_equal(poll_one(p.send_cq).status, IBV_WC_REM_ACCESS_ERR);
    post_request(&p, &wr); /* in the error state it is flushed */
    assert_int_equal(poll_one(p.send_cq).status, IBV_WC_WR_FLUSH_ERR);
    pair_close(&p);
}

static void a_shared_receive_queue_serves_a_qp(void **state)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = 8, .max_sge = 1}};
    struct pair p;

    (void)state;
    pair_open(&p);
    p.srq = ibv_create_srq(p.pd, &attr);
    assert_non_null(p.srq);
    pair_create_qps(&p, IBV_QPT_RC, 0);
    pair_connect(&p);
    sends_arrive(&p, 3000);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rc_sends_messages_of_all_sizes),
        cmocka_unit_test(uc_sends_messages_of_all_sizes),
        cmocka_unit_test(ud_sends_a_datagram_up_to_the_ports_mtu),
        cmocka_unit_test(ipv6_carries_the_same),
        cmocka_unit_test(an_immediate_arrives_in_network_order),
        cmocka_unit_test(a_write_is_silent_and_one_with_an_immediate_is_not),
        cmocka_unit_test(a_read_scatters_what_it_brings),
        cmocka_unit_test(atomics_bring_back_what_was_there),
        cmocka_unit_test(inline_data_may_be_overwritten_after_the_post),
        cmocka_unit_test(a_wrong_remote_key_fails_both_ends),
        cmocka_unit_test(a_shared_receive_queue_serves_a_qp),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
