/* SPDX-License-Identifier: BSD-2-Clause */
/* The last ACK of a queue pair that is taken out of service, and what an ACK may speak of. */
#include "rc_script.h"

#include "engine/limits.h"
#include "support/packet_peer.h"

static void write_comes(struct peer *p, uint32_t psn)
{
    peer_sends_quietly(p, (struct script){.operation = OP_WRITE_ONLY,
                                          .psn = psn,
                                          .ack_req = true,
                                          .message = psn,
                                          .len = 16,
                                          .dma_len = 16,
                                          .remote = TARGET});
}

static void read_comes(struct peer *p, uint32_t psn)
{
    peer_sends_quietly(
        p,
        (struct script){.operation = OP_READ_REQUEST, .psn = psn, .dma_len = 16, .remote = TARGET});
}

static void expect_read_response(struct peer *p, uint32_t psn)
{
    expect_packet(p, OP_READ_RESP_ONLY, psn);
}

/* One WRITE came and was acknowledged. */
static void serve_one(struct peer *p)
{
    write_comes(p, 0);
    peer_listens(p);
    expect_ack(p, 0, 1);
    expect_silence(p);
}

static void new_queue_pair(struct peer *p)
{
    struct qp_init init = {
        .service = SERVICE_RC, .pd = p->ep.pd, .send_cq = p->ep.send_cq, .recv_cq = p->ep.recv_cq};

    assert_int_equal(qp_new(p->ep.engine, &init, &p->ep.qp), 0);
}

static void destroy(struct peer *p)
{
    assert_int_equal(qp_free(p->ep.qp), 0);
    new_queue_pair(p);
}

static void reset(struct peer *p)
{
    endpoint_modify_state(&p->ep, QP_RESET, 0, NULL);
}

static void to_error(struct peer *p)
{
    endpoint_modify_state(&p->ep, QP_ERR, 0, NULL);
}

static void leave(struct peer *p)
{
    while (engine_leave(p->ep.engine))
        peer_listens(p);
}

static void (*const endings[])(struct peer *p) = {destroy, reset, to_error, leave};
#define ENDINGS (sizeof(endings) / sizeof(endings[0]))

/* Each ending on a connection of its own. */
static void begin(struct peer *p)
{
    const struct endpoint_config config = p->ep.config;

    reopen(p, &config);
}

static void a_queue_pair_that_goes_says_its_last_ack_again(void **state)
{
    struct peer *p = *state;

    for (size_t i = 0; i < ENDINGS; i++) {
        begin(p);
        serve_one(p);
        endings[i](p);
        peer_listens(p);
        /* It promises no receive requests: they are gone. */
        assert_int_equal(expect_packet(p, OP_ACK, 0)->p.h.aeth.syndrome,
                         aeth_make(AETH_ACK, AETH_CREDITS_INVALID));
        expect_silence(p);
        expect_counter(&p->ep, farewells, 1);
        expect_counter(&p->ep, sent_packets, 2);
    }
}

static void what_was_said_is_not_said_again_by_a_later_ending(void **state)
{
    struct peer *p = *state;

    serve_one(p);
    leave(p);
    expect_ack(p, 0, 1);
    to_error(p);
    reset(p);
    destroy(p);
    leave(p);
    peer_listens(p);
    expect_silence(p);
}

static void an_ack_that_is_owed_leaves_besides(void **state)
{
    struct peer *p = *state;

    for (size_t i = 0; i < ENDINGS; i++) {
        begin(p);
        write_comes(p, 0);
        write_comes(p, 1);
        endings[i](p);
        peer_listens(p);
        expect_ack(p, 1, 2);
        expect_ack(p, 1, 2);
        expect_silence(p);
    }
}

static void on_a_path_that_lost_something_it_is_said_three_times(void **state)
{
    struct peer *p = *state;

    for (size_t i = 0; i < ENDINGS; i++) {
        begin(p);
        serve_one(p);
        write_comes(p, 2);
        peer_listens(p);
        expect_nak(p, NAK_PSN_SEQUENCE, 1, 1);
        endings[i](p);
        peer_listens(p);
        for (int copy = 0; copy < 3; copy++)
            expect_ack(p, 0, 1);
        expect_silence(p);
    }
}

static void one_lossy_connection_is_reason_enough_for_all(void **state)
{
    struct peer *p = *state;
    struct qp *lossy = p->ep.qp;

    serve_one(p);
    write_comes(p, 0); /* again: the ACK was lost */
    peer_listens(p);
    expect_ack(p, 0, 1);
    new_queue_pair(p);
    endpoint_connect(&p->ep, PEER_QPN);
    serve_one(p);
    destroy(p);
    peer_listens(p);
    for (int copy = 0; copy < 3; copy++)
        expect_ack(p, 0, 1);
    expect_silence(p);
    assert_int_equal(qp_free(lossy), 0);
}

static void who_accepted_nothing_says_nothing(void **state)
{
    struct peer *p = *state;

    for (size_t i = 0; i < ENDINGS; i++) {
        begin(p);
        write_comes(p, 1);
        peer_listens(p);
        expect_nak(p, NAK_PSN_SEQUENCE, 0, 0);
        endings[i](p);
        peer_listens(p);
        expect_silence(p);
    }
}

static void after_a_long_silence_nothing_is_said(void **state)
{
    struct peer *p = *state;

    for (uint64_t late = 0; late < 2; late++) {
        begin(p);
        serve_one(p);
        p->ep.now += FAREWELL_NS + late;
        to_error(p);
        peer_listens(p);
        if (late == 0)
            expect_ack(p, 0, 1);
        expect_silence(p);
    }
}

/* An ACK of a READ would be an answer without data. */
static void who_answered_a_read_last_says_nothing(void **state)
{
    struct peer *p = *state;

    for (size_t i = 0; i < ENDINGS; i++) {
        begin(p);
        serve_one(p);
        read_comes(p, 1);
        peer_listens(p);
        expect_read_response(p, 1);
        endings[i](p);
        peer_listens(p);
        expect_silence(p);
    }
}

static void who_did_not_answer_a_read_yet_says_nothing(void **state)
{
    struct peer *p = *state;

    read_comes(p, 0);
    write_comes(p, 1);
    to_error(p);
    peer_listens(p);
    expect_silence(p);
}

/* Invalidates what is no key, a fault of which the peer is not told (IBA 9.9.3, class J). */
static void fault_comes(struct peer *p, uint32_t psn)
{
    endpoint_post_recv(&p->ep, 1, 0, 100);
    peer_sends_quietly(
        p, (struct script){.operation = OP_SEND_ONLY_INV, .psn = psn, .len = 8, .ieth = 0x1234});
}

static void who_fails_without_a_nak_answers_what_came_before(void **state)
{
    struct peer *p = *state;

    for (int last = 0; last < 3; last++) {
        uint32_t psn = 0;

        begin(p);
        write_comes(p, psn++);
        read_comes(p, psn++);
        read_comes(p, psn++);
        if (last == 1)
            write_comes(p, psn++);
        if (last == 2)
            peer_sends_quietly(
                p, (struct script){.operation = OP_WRITE_ONLY, .psn = psn++, .remote = TARGET});
        fault_comes(p, psn);
        assert_int_equal(qp_state(p->ep.qp), QP_ERR);
        peer_listens(p);
        expect_read_response(p, 1);
        expect_read_response(p, 2);
        if (last > 0)
            expect_ack(p, 3, 4);
        expect_silence(p);
        read_comes(p, psn);
        read_comes(p, 1);
        peer_listens(p);
        expect_silence(p);
        expect_completion(p->ep.recv_cq, 1, STATUS_MW_BIND_ERR);
    }
}

/* The application has left; what it does with its memory afterwards is its own affair. */
static void who_fails_without_a_nak_and_is_reset_answers_nothing(void **state)
{
    struct peer *p = *state;

    read_comes(p, 0);
    fault_comes(p, 1);
    reset(p);
    peer_listens(p);
    expect_silence(p);
}

static void a_duplicate_before_a_read_is_not_answered_with_an_ack_of_the_read(void **state)
{
    struct peer *p = *state;

    serve_one(p);
    read_comes(p, 1);
    read_comes(p, 2);
    peer_listens(p);
    expect_read_response(p, 1);
    expect_read_response(p, 2);
    write_comes(p, 0);
    peer_listens(p);
    expect_ack(p, 0, 3);
    expect_silence(p);
}

static void what_finds_no_room_is_counted(void **state)
{
    struct peer *p = *state;

    for (uint32_t i = 0; i < FAREWELLS_MAX + 2; i++) {
        reset(p);
        endpoint_connect(&p->ep, PEER_QPN);
        write_comes(p, 0);
    }
    expect_counter(&p->ep, farewells_lost, 1);
    leave(p); /* that of the newest life: as much as there is room for, again and again */
    for (uint32_t i = 0; i < 2 * (FAREWELLS_MAX + 1); i++)
        expect_ack(p, 0, 1);
    expect_silence(p);
    expect_counter(&p->ep, farewells_lost, 1);
}

static void a_batch_takes_as_many_as_it_has_room_for(void **state)
{
    struct peer *p = *state;
    uint8_t buffer[64];
    struct datagram_batch b = {.buffer = buffer, .capacity = 50, .count_max = 64};

    write_comes(p, 0);
    write_comes(p, 0);
    to_error(p); /* one owed, three times more */
    assert_int_equal(engine_transmit(p->ep.engine, p->ep.now, &b), 2);
    assert_memory_equal(buffer, buffer + b.segment_len, b.segment_len - ICRC_LEN);
    b.capacity = sizeof(buffer);
    b.count_max = 1;
    assert_int_equal(engine_transmit(p->ep.engine, p->ep.now, &b), 1);
    assert_true(engine_wants_transmit(p->ep.engine));
    assert_int_equal(engine_transmit(p->ep.engine, p->ep.now, &b), 1);
    assert_int_equal(engine_transmit(p->ep.engine, p->ep.now, &b), 0);
    assert_false(engine_wants_transmit(p->ep.engine));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RC_TEST(a_queue_pair_that_goes_says_its_last_ack_again),
        RC_TEST(what_was_said_is_not_said_again_by_a_later_ending),
        RC_TEST(an_ack_that_is_owed_leaves_besides),
        RC_TEST(on_a_path_that_lost_something_it_is_said_three_times),
        RC_TEST(one_lossy_connection_is_reason_enough_for_all),
        RC_TEST(who_accepted_nothing_says_nothing),
        RC_TEST(after_a_long_silence_nothing_is_said),
        RC_TEST(who_answered_a_read_last_says_nothing),
        RC_TEST(who_did_not_answer_a_read_yet_says_nothing),
        RC_TEST(who_fails_without_a_nak_answers_what_came_before),
        RC_TEST(who_fails_without_a_nak_and_is_reset_answers_nothing),
        RC_TEST(a_duplicate_before_a_read_is_not_answered_with_an_ack_of_the_read),
        RC_TEST(what_finds_no_room_is_counted),
        RC_TEST(a_batch_takes_as_many_as_it_has_room_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
