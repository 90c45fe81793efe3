/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rate limits (ibv_modify_qp_rate_limit) and static rates of paths (IBA 9.11.1): what leaves in a
 * second of the engine's time.
 */
#include "rc_script.h"

#define SECOND_NS 1000000000ull
#define STEP_NS 100000ull
#define HEADERS 16u     /* of a middle packet: BTH and ICRC */
#define BURST_MAX 8192u /* the largest packet or a millisecond's worth, and one more */

static uint64_t sent(struct peer *p)
{
    peer_listens(p);
    return engine_counters(p->ep.engine)->sent_payload_bytes;
}

/* Payload bytes that leave while time passes in steps, everything being acknowledged at once. */
static uint64_t bytes_in(struct peer *p, uint64_t ns)
{
    uint64_t before = engine_counters(p->ep.engine)->sent_payload_bytes;
    uint64_t end = p->ep.now + ns;

    while (p->ep.now < end) {
        time_passes(p, STEP_NS);
        while (p->sent_head != p->sent_tail) {
            uint32_t psn = p->sent[p->sent_head++].psn;

            if (p->sent_head == p->sent_tail)
                peer_acks(p, psn, 0);
        }
        peer_forgets(p);
    }
    return engine_counters(p->ep.engine)->sent_payload_bytes - before;
}

static void post_much(struct peer *p)
{
    for (uint64_t id = 0; id < 8; id++)
        endpoint_post(&p->ep, &(struct work){.wr_id = id,
                                             .opcode = WR_WRITE,
                                             .len = ENDPOINT_MEMORY,
                                             .remote = 0,
                                             .rkey = RKEY,
                                             .unsignaled = true});
}

static void expect_about(uint64_t bytes, uint64_t right)
{
    assert_true(bytes <= right + BURST_MAX);
    assert_true(bytes + right / 10 + BURST_MAX >= right);
}

static void without_a_limit_everything_leaves_at_once(void **state)
{
    struct peer *p = *state;

    post_much(p);
    assert_true(sent(p) > BURST_MAX);
}

/* Payload is what is counted here; headers count towards the rate. */
static void a_queue_pair_keeps_to_its_limit(void **state)
{
    static const uint32_t rates[] = {800, 8000};
    struct peer *p = *state;
    const struct endpoint_config config = p->ep.config;

    for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
        reopen(p, &config);
        assert_int_equal(qp_set_rate(p->ep.qp, rates[i], 0), 0);
        assert_int_equal(qp_rate_kbps(p->ep.qp), rates[i]);
        post_much(p);
        expect_about(bytes_in(p, SECOND_NS), rates[i] * 125ull * PMTU / (PMTU + HEADERS));
    }
}

static void a_limit_can_be_changed_and_lifted(void **state)
{
    struct peer *p = *state;

    assert_int_equal(qp_set_rate(p->ep.qp, 80, 0), 0);
    post_much(p);
    assert_true(bytes_in(p, SECOND_NS / 10) <= 1000 + BURST_MAX);
    assert_int_equal(qp_set_rate(p->ep.qp, 0, 0), 0);
    assert_true(sent(p) > BURST_MAX);
}

static void a_burst_may_be_longer(void **state)
{
    struct peer *p = *state;

    assert_int_equal(qp_set_rate(p->ep.qp, 800, 12000), 0);
    time_passes(p, SECOND_NS);
    post_much(p);
    assert_in_range(sent(p), 10000, 12000 + PMTU);
}

static void resetting_takes_the_limit_away(void **state)
{
    struct peer *p = *state;

    assert_int_equal(qp_set_rate(p->ep.qp, 80, 0), 0);
    endpoint_modify_state(&p->ep, QP_RESET, 0, &(struct qp_attr){0});
    assert_int_equal(qp_rate_kbps(p->ep.qp), 0);
    assert_int_equal(qp_set_rate(p->ep.qp, 80, 0), -EINVAL);
}

/* A wait for the rate is no wait for the peer: nothing times out, nothing is sent twice. */
static void waiting_costs_no_retry(void **state)
{
    struct peer *p = *state;

    assert_int_equal(qp_set_rate(p->ep.qp, 8, 0), 0);
    post_much(p);
    bytes_in(p, 10 * SECOND_NS);
    expect_counter(&p->ep, retransmitted_packets, 0);
    assert_int_equal(qp_state(p->ep.qp), QP_RTS);
}

/* The static rate of the responder's path holds for what a READ brings; acknowledgements go on. */
static void read_responses_keep_to_the_rate_of_their_path(void **state)
{
    struct peer *p = *state;
    const struct qp_attr slow = {
        .state = QP_SQD,
        .path = {
            .src = endpoint_gid(2), .dst = endpoint_gid(3), .hop_limit = 64, .rate_kbps = 800}};

    endpoint_modify_state(&p->ep, QP_SQD, 0, &(struct qp_attr){0});
    endpoint_modify_state(&p->ep, QP_SQD, QP_ATTR_AV, &slow);
    endpoint_modify_state(&p->ep, QP_RTS, 0, &(struct qp_attr){0});
    peer_sends_quietly(
        p, (struct script){.operation = OP_READ_REQUEST, .psn = 0, .dma_len = ENDPOINT_MEMORY});
    expect_about(bytes_in(p, SECOND_NS), 100000ull * PMTU / (PMTU + HEADERS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RC_TEST(without_a_limit_everything_leaves_at_once),
        RC_TEST(a_queue_pair_keeps_to_its_limit),
        RC_TEST(a_limit_can_be_changed_and_lifted),
        RC_TEST(a_burst_may_be_longer),
        RC_TEST(resetting_takes_the_limit_away),
        RC_TEST(waiting_costs_no_retry),
        RC_TEST(read_responses_keep_to_the_rate_of_their_path),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
