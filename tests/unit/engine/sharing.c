/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several queue pairs between two engines share one window (and one budget of
 * READ responses): each gets its part, also beside one with much more to do,
 * and none is forgotten when others fail, wait or go away.
 */
#include "support/engine_pair.h"

#include <string.h>

#include "engine/qp_private.h"

#define QPS 8u
#define ROUNDS 12u
#define LEN 20000u

static struct engine_pair the_pair;
static struct qp *qps[2][QPS]; /* of both ends; the first is the endpoint's own */

static struct qp *another_qp(struct endpoint *ep)
{
    struct qp_init init = {
        .service = SERVICE_RC,
        .pd = ep->pd,
        .send_cq = ep->send_cq,
        .recv_cq = ep->recv_cq,
        .cap = {.send_wr_max = 64, .recv_wr_max = 4, .send_sge_max = 1, .recv_sge_max = 1},
    };
    struct qp *qp = NULL;

    assert_int_equal(qp_new(ep->engine, &init, &qp), 0);
    return qp;
}

static int setup(void **state)
{
    struct endpoint_config config = endpoint_config_default(2);
    struct endpoint *ends = the_pair.ends;

    config.wr_max = 512;
    pair_open(&the_pair, &config);
    for (uint32_t i = 0; i < QPS; i++) {
        for (uint32_t end = 0; end < 2; end++)
            qps[end][i] = i == 0 ? ends[end].qp : another_qp(&ends[end]);
        for (uint32_t end = 0; end < 2 && i > 0; end++) {
            struct qp *own = ends[end].qp;

            ends[end].qp = qps[end][i];
            endpoint_connect(&ends[end], qp_qpn(qps[1 - end][i]));
            ends[end].qp = own;
        }
    }
    *state = &the_pair;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (uint32_t i = 1; i < QPS; i++)
        for (uint32_t end = 0; end < 2; end++)
            if (qps[end][i] != NULL)
                qp_free(qps[end][i]);
    pair_close(&the_pair);
    return 0;
}

static void post_on(struct engine_pair *p, uint32_t index, enum wr_opcode opcode, uint32_t len)
{
    struct endpoint *a = &p->ends[0];
    struct qp *own = a->qp;

    a->qp = qps[0][index];
    endpoint_post(a, &(struct work){
                         .wr_id = index, .opcode = opcode, .len = len, .rkey = p->ends[1].mr->key});
    a->qp = own;
}

/* Takes all completions in their order; at each time, how far the foremost is ahead of the last. */
static uint32_t largest_lead(struct engine_pair *p, uint32_t first, uint32_t total)
{
    uint32_t done[QPS] = {0};
    uint32_t lead = 0;
    struct completion c;

    for (uint32_t taken = 0; taken < total; taken++) {
        uint32_t least = ROUNDS;
        uint32_t most = 0;

        assert_int_equal(cq_poll(p->ends[0].send_cq, 1, &c), 1);
        assert_int_equal(c.status, STATUS_SUCCESS);
        done[c.wr_id]++;
        for (uint32_t i = first; i < QPS; i++) {
            least = done[i] < least ? done[i] : least;
            most = done[i] > most ? done[i] : most;
        }
        lead = most - least > lead ? most - least : lead;
    }
    expect_no_completion(p->ends[0].send_cq);
    return lead;
}

static void all_advance_together(struct engine_pair *p, enum wr_opcode opcode)
{
    for (uint32_t round = 0; round < ROUNDS; round++)
        for (uint32_t i = 0; i < QPS; i++)
            post_on(p, i, opcode, LEN);
    pair_run(p);
    assert_true(largest_lead(p, 0, QPS * ROUNDS) <= 3);
    expect_counter(&p->ends[0], retransmitted_packets, 0);
}

static void writes_of_all_queue_pairs_advance_together(void **state)
{
    all_advance_together(*state, WR_WRITE);
}

static void reads_of_all_queue_pairs_advance_together(void **state)
{
    all_advance_together(*state, WR_READ);
}

static void small_work_is_not_held_up_by_a_large_one(void **state)
{
    struct engine_pair *p = *state;
    struct completion c;

    post_on(p, 0, WR_WRITE, 400000);
    for (uint32_t i = 1; i < QPS; i++)
        post_on(p, i, WR_WRITE, 1000);
    pair_run(p);
    for (uint32_t i = 1; i < QPS; i++) {
        assert_int_equal(cq_poll(p->ends[0].send_cq, 1, &c), 1);
        assert_int_not_equal(c.wr_id, 0);
    }
    expect_completion(p->ends[0].send_cq, 0, STATUS_SUCCESS);
}

/* Atomics are small, and as many of them as of anything else overrun a receiver. */
static void atomics_stay_within_the_window(void **state)
{
    struct engine_pair *p = *state;
    struct datagram_batch b = {.count_max = 64};
    static uint8_t buffer[65507];
    uint32_t out = 0;

    b.buffer = buffer;
    b.capacity = sizeof(buffer);
    for (uint32_t round = 0; round < ROUNDS; round++)
        for (uint32_t i = 0; i < QPS; i++)
            post_on(p, i, WR_FETCH_ADD, sizeof(uint64_t));
    qps[0][0]->window->limit = 10 * WINDOW_PACKET_COST;
    while (engine_transmit(p->ends[0].engine, p->now, &b) > 0)
        out += b.count;
    assert_in_range(out, 1, 10); /* alone or in a batch of a few, each costs no less */
    pair_run(p);
    for (uint32_t taken = 0; taken < QPS * ROUNDS; taken++) {
        struct completion c;

        assert_int_equal(cq_poll(p->ends[0].send_cq, 1, &c), 1);
        assert_int_equal(c.status, STATUS_SUCCESS);
    }
}

/* The window has room for one packet: whoever goes away must hand its turn on. */
static void nobody_is_forgotten_when_others_fail_or_go_away(void **state)
{
    struct engine_pair *p = *state;
    struct endpoint *a = &p->ends[0];
    struct qp *own = a->qp;
    struct datagram_batch b = {.count_max = 64};
    static uint8_t buffer[65507];
    struct completion c;

    b.buffer = buffer;
    b.capacity = sizeof(buffer);
    for (uint32_t i = 0; i < QPS; i++)
        post_on(p, i, WR_WRITE, 100000);
    while (engine_transmit(a->engine, p->now, &b) > 0) /* lost: the window is full, all wait */
        ;
    a->qp = qps[0][1];
    endpoint_modify_state(a, QP_ERR, 0, NULL);
    a->qp = qps[0][2];
    endpoint_modify_state(a, QP_RESET, 0, NULL);
    a->qp = own;
    for (uint32_t end = 0; end < 2; end++) {
        qp_free(qps[end][3]);
        qps[end][3] = NULL;
    }
    pair_run(p);
    for (uint32_t taken = 0; taken < QPS - 2; taken++) {
        assert_int_equal(cq_poll(a->send_cq, 1, &c), 1);
        assert_int_equal(c.status, c.wr_id == 1 ? STATUS_WR_FLUSH_ERR : STATUS_SUCCESS);
    }
    expect_no_completion(a->send_cq);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(writes_of_all_queue_pairs_advance_together),
        TEST(reads_of_all_queue_pairs_advance_together),
        TEST(small_work_is_not_held_up_by_a_large_one),
        TEST(atomics_stay_within_the_window),
        TEST(nobody_is_forgotten_when_others_fail_or_go_away),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
