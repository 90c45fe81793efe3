/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Acknowledgements and replies that leave together: when both sides send requests in turn, each
 * turn is one batch. Nobody else waits for an acknowledgement. Where a batch is taken apart on its
 * way, no reply that the peer's application could find received comes before it.
 */
#include "rc_script.h"

#define SOON_NS 2000u
#define HOLD_NS (engine_config_default().ack_hold_ns)

static bool yes(void *context, const struct path *path, uint8_t slot)
{
    const struct gid own = endpoint_gid(2);

    (void)context;
    assert_true(gid_equal(&path->src, &own));
    assert_int_equal(slot, PEER_QPN >> 16);
    return true;
}

/* The peer sends request number n, and the application answers it soon; both of few bytes. */
static void turn(struct peer *p, uint32_t n)
{
    endpoint_post_recv(&p->ep, n, 0, 10);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = n, .ack_req = true, .len = 1});
    time_passes(p, SOON_NS);
    post_send(p, n, 1);
}

/* Both sides have found out that they take turns; batches are taken apart on their way. */
static void begin_dialogue_apart(struct peer *p)
{
    for (uint32_t n = 0; n < 2; n++) {
        turn(p, n);
        expect_ack(p, n, n + 1);
        expect_packet(p, OP_SEND_ONLY, n);
        peer_acks(p, n, n + 1);
    }
}

/* The same where batches arrive whole. */
static void begin_dialogue(struct peer *p)
{
    struct endpoint_config config = p->ep.config;

    config.engine.arrives_whole = yes;
    reopen(p, &config);
    begin_dialogue_apart(p);
}

static void acknowledgement_goes_along_with_the_reply(void **state)
{
    struct peer *p = *state;

    begin_dialogue(p);
    const uint32_t before = p->batches;

    turn(p, 2);
    expect_packet(p, OP_SEND_ONLY, 2);
    expect_ack(p, 2, 3);
    expect_silence(p);
    assert_int_equal(p->batches, before + 1);
}

static void
reply_that_is_received_follows_the_acknowledgement_if_batches_are_taken_apart(void **state)
{
    struct peer *p = *state;

    begin_dialogue_apart(p);
    turn(p, 2);
    expect_ack(p, 2, 3);
    expect_packet(p, OP_SEND_ONLY, 2);
    expect_silence(p);
}

static void acknowledgement_follows_a_reply_that_no_application_receives(void **state)
{
    struct peer *p = *state;

    begin_dialogue_apart(p);
    const uint32_t before = p->batches;

    endpoint_post_recv(&p->ep, 2, 0, 10);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 2, .ack_req = true, .len = 1});
    time_passes(p, SOON_NS);
    post_write(p, 2, 1);
    expect_packet(p, OP_WRITE_ONLY, 2);
    expect_ack(p, 2, 3);
    expect_silence(p);
    assert_int_equal(p->batches, before + 1);
}

static void acknowledgement_stands_between_a_write_and_the_send_that_tells_of_it(void **state)
{
    struct peer *p = *state;

    begin_dialogue_apart(p);
    endpoint_post_recv(&p->ep, 2, 0, 10);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 2, .ack_req = true, .len = 1});
    time_passes(p, SOON_NS);
    post(p, (struct work){.wr_id = 2, .opcode = WR_WRITE, .len = 1, .remote = FAR});
    post(p, (struct work){.wr_id = 3, .opcode = WR_SEND, .len = 1});
    peer_listens(p);
    expect_packet(p, OP_WRITE_ONLY, 2);
    expect_ack(p, 2, 3);
    expect_packet(p, OP_SEND_ONLY, 3);
    expect_silence(p);
}

static void acknowledgement_of_a_request_without_reply_leaves_after_a_time(void **state)
{
    struct peer *p = *state;

    begin_dialogue(p);
    endpoint_post_recv(&p->ep, 2, 0, 10);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 2, .ack_req = true, .len = 1});
    time_passes(p, HOLD_NS - 1);
    expect_silence(p);
    time_passes(p, 1);
    expect_ack(p, 2, 3);
}

static void one_request_without_reply_ends_the_dialogue(void **state)
{
    struct peer *p = *state;

    acknowledgement_of_a_request_without_reply_leaves_after_a_time(state);
    endpoint_post_recv(&p->ep, 3, 0, 10);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 3, .ack_req = true, .len = 1});
    expect_ack(p, 3, 4);
}

static void request_that_is_repeated_is_acknowledged_at_once(void **state)
{
    const struct script request = {.operation = OP_SEND_ONLY, .psn = 2, .ack_req = true, .len = 1};
    struct peer *p = *state;

    begin_dialogue(p);
    endpoint_post_recv(&p->ep, 2, 0, 10);
    peer_sends(p, request);
    expect_silence(p);
    peer_sends(p, request);
    expect_ack(p, 2, 3);
}

static void stream_of_requests_is_acknowledged_at_once(void **state)
{
    struct peer *p = *state;

    for (uint32_t n = 0; n < 10; n++) {
        endpoint_post_recv(&p->ep, n, 0, 10);
        peer_sends(p,
                   (struct script){.operation = OP_SEND_ONLY, .psn = n, .ack_req = true, .len = 1});
        expect_ack(p, n, n + 1);
    }
}

/* A reply that has to wait for something else is none: here, for the end of a longer time. */
static void late_replies_make_no_dialogue(void **state)
{
    struct peer *p = *state;

    for (uint32_t n = 0; n < 5; n++) {
        endpoint_post_recv(&p->ep, n, 0, 10);
        peer_sends(p,
                   (struct script){.operation = OP_SEND_ONLY, .psn = n, .ack_req = true, .len = 1});
        expect_ack(p, n, n + 1);
        time_passes(p, 1000000);
        post_send(p, n, 1);
        expect_packet(p, OP_SEND_ONLY, n);
        peer_acks(p, n, n + 1);
    }
}

static void refusal_does_not_wait(void **state)
{
    struct peer *p = *state;

    begin_dialogue(p);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 3, .ack_req = true, .len = 1});
    expect_nak(p, NAK_PSN_SEQUENCE, 2, 2);
}

static void queue_pair_that_fails_says_what_it_held(void **state)
{
    struct peer *p = *state;

    begin_dialogue(p);
    endpoint_post_recv(&p->ep, 2, 0, 10);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 2, .ack_req = true, .len = 1});
    endpoint_modify_state(&p->ep, QP_ERR, 0, NULL);
    peer_listens(p);
    expect_packet(p, OP_ACK, 2);
    peer_forgets(p); /* it may be said more than once */
    time_passes(p, 10 * HOLD_NS);
    expect_silence(p);
    assert_true(engine_deadline(p->ep.engine) == ENGINE_NEVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RC_TEST(acknowledgement_goes_along_with_the_reply),
        RC_TEST(reply_that_is_received_follows_the_acknowledgement_if_batches_are_taken_apart),
        RC_TEST(acknowledgement_follows_a_reply_that_no_application_receives),
        RC_TEST(acknowledgement_stands_between_a_write_and_the_send_that_tells_of_it),
        RC_TEST(acknowledgement_of_a_request_without_reply_leaves_after_a_time),
        RC_TEST(one_request_without_reply_ends_the_dialogue),
        RC_TEST(request_that_is_repeated_is_acknowledged_at_once),
        RC_TEST(stream_of_requests_is_acknowledged_at_once),
        RC_TEST(late_replies_make_no_dialogue),
        RC_TEST(refusal_does_not_wait),
        RC_TEST(queue_pair_that_fails_says_what_it_held),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
