/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The tracker, packet by packet: host 1 asks queue pair 0x22 of host 2, whose
 * answers go to queue pair 0x11. Times are in microseconds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "pcap/tracker.h"
#include "wire/aeth.h"

#define PMTU 1024u

static const uint64_t hash_key[2] = {1, 2};

static uint64_t message_count;
static struct message last_message;

static void note_message(void *context, const struct message *message)
{
    (void)context;
    message_count++;
    last_message = *message;
}

static int set_up(void **state)
{
    struct tracker *t = calloc(1, sizeof(*t));

    tracker_init(t, 16, hash_key);
    tracker_set_message(t, note_message, NULL);
    message_count = 0;
    *state = t;
    return 0;
}

static int tear_down(void **state)
{
    tracker_fini(*state);
    free(*state);
    return 0;
}

struct sent {
    uint64_t at_us;
    enum operation_code operation;
    uint32_t psn;
    uint32_t len;     /* of the payload */
    uint32_t dma_len; /* of a RETH */
    uint8_t syndrome;
    uint32_t msn;
};

/* A good packet between the two, by its opcode in the one direction or the other. */
static void see(struct tracker *t, struct sent s)
{
    static const uint8_t zeroes[64];
    uint8_t opcode = opcode_make(SERVICE_RC, s.operation);
    const struct operation *operation = opcode_operation(opcode);
    bool back = flow_is_response(operation->kind);
    struct frame f = {
        .number = t->summary.frames + 1,
        .elapsed_ns = (int64_t)s.at_us * 1000,
        .verdict = FRAME_PACKET,
        .icrc = FRAME_ICRC_GOOD,
        .has_bth = true,
        .segment_count = 1,
        .datagram = {.src.bytes[15] = back ? 2 : 1, .dst.bytes[15] = back ? 1 : 2, .bytes = zeroes},
        .packet = {.operation = operation, .payload_len = s.len},
    };

    f.packet.h.bth = (struct bth){
        .opcode = opcode,
        .pkey = 0xffff,
        .dest_qpn = back ? 0x11 : 0x22,
        .psn = psn_make(s.psn),
        .ack_req = !back && position_ends(operation->position),
    };
    f.packet.h.reth.dma_len = s.dma_len;
    f.packet.h.aeth.syndrome = s.syndrome;
    f.packet.h.aeth.msn = psn_make(s.msn);
    assert_int_equal(tracker_add(t, &f), 0);
}

static void see_send(struct tracker *t, uint64_t at_us, uint32_t psn)
{
    see(t, (struct sent){.at_us = at_us, .operation = OP_SEND_ONLY, .psn = psn, .len = 100});
}

static void see_ack(struct tracker *t, uint64_t at_us, uint32_t psn, uint32_t msn)
{
    see(t, (struct sent){.at_us = at_us,
                         .operation = OP_ACK,
                         .psn = psn,
                         .msn = msn,
                         .syndrome = aeth_make(AETH_ACK, AETH_CREDITS_INVALID)});
}

static void see_nak(struct tracker *t, uint64_t at_us, uint32_t psn, enum nak_code code)
{
    see(t, (struct sent){.at_us = at_us,
                         .operation = OP_ACK,
                         .psn = psn,
                         .syndrome = aeth_make(AETH_NAK, code)});
}

static void see_response(struct tracker *t, uint64_t at_us, enum operation_code operation,
                         uint32_t psn, uint32_t len)
{
    see(t, (struct sent){.at_us = at_us,
                         .operation = operation,
                         .psn = psn,
                         .len = len,
                         .msn = 1,
                         .syndrome = aeth_make(AETH_ACK, AETH_CREDITS_INVALID)});
}

static struct stream *requests(struct tracker *t)
{
    struct flow *flow = t->summary.flows.flows;

    while (flow != NULL && flow->key.dest_qpn != 0x22)
        flow = flow->hh.next;
    assert_non_null(flow);
    return &flow->stream;
}

/* Exactly these kinds were found, and no others. */
static void expect_findings(struct tracker *t, uint32_t count, const enum finding_kind *kinds)
{
    uint32_t found = 0;

    assert_int_equal(tracker_finish(t), 0);
    for (uint32_t kind = 0; kind < FINDING_COUNT; kind++)
        found += tracker_count(t, (enum finding_kind)kind) != 0;
    for (uint32_t i = 0; i < count; i++)
        assert_int_not_equal(tracker_count(t, kinds[i]), 0);
    assert_int_equal(found, count);
}
#define EXPECT(t, ...)                                                                             \
    expect_findings(t, sizeof((enum finding_kind[]){__VA_ARGS__}) / sizeof(enum finding_kind),     \
                    (const enum finding_kind[]){__VA_ARGS__})

static void messages_take_the_time_from_first_packet_to_answer(void **state)
{
    struct tracker *t = *state;

    see(t, (struct sent){
               .at_us = 0, .operation = OP_WRITE_FIRST, .psn = 5, .len = PMTU, .dma_len = 2500});
    see(t, (struct sent){.at_us = 10, .operation = OP_WRITE_MIDDLE, .psn = 6, .len = PMTU});
    see(t, (struct sent){.at_us = 20, .operation = OP_WRITE_LAST, .psn = 7, .len = 452});
    assert_int_equal(message_count, 0);
    see_ack(t, 70, 7, 1);
    assert_int_equal(message_count, 1);
    assert_int_equal(last_message.latency_ns, 70000);
    assert_int_equal(last_message.bytes, 2500);
    assert_int_equal(last_message.packets, 3);
    assert_int_equal(requests(t)->pmtu, PMTU);
    expect_findings(t, 0, NULL);
}

static void one_ack_completes_all_before_it(void **state)
{
    struct tracker *t = *state;

    for (uint32_t i = 0; i < 5; i++)
        see_send(t, i, 0xfffffd + i);
    see_ack(t, 10, 1, 5);
    assert_int_equal(message_count, 5);
    assert_int_equal(requests(t)->latency->max, 10000);
    expect_findings(t, 0, NULL);
}

static void a_nak_explains_what_is_sent_again_and_what_it_cost(void **state)
{
    struct tracker *t = *state;

    for (uint32_t i = 0; i < 4; i++)
        see_send(t, i, 10 + i);
    see_nak(t, 20, 11, NAK_PSN_SEQUENCE);
    for (uint32_t i = 1; i < 4; i++)
        see_send(t, 50 + i, 10 + i);
    see_ack(t, 80, 13, 4);
    assert_int_equal(requests(t)->counts.repeats[REPEAT_NAK], 3);
    assert_int_equal(requests(t)->counts.lost_ns[REPEAT_NAK], 33000);
    assert_int_equal(message_count, 4);
    EXPECT(t, FINDING_RETRANSMIT_NAK);
}

static void silence_before_a_repeat_is_a_time_out(void **state)
{
    struct tracker *t = *state;

    see_send(t, 0, 10);
    see_send(t, 67000, 10);
    see_ack(t, 67100, 10, 1);
    assert_int_equal(requests(t)->counts.lost_ns[REPEAT_TIMEOUT], 67000000);
    EXPECT(t, FINDING_RETRANSMIT_TIMEOUT);
}

static void a_repeat_of_what_was_acknowledged_means_a_lost_ack(void **state)
{
    struct tracker *t = *state;

    see_send(t, 0, 10);
    see_ack(t, 50, 10, 1);
    see_send(t, 67000, 10);
    see_ack(t, 67050, 10, 1);
    see_send(t, 67100, 11);
    see_ack(t, 67150, 11, 2);
    EXPECT(t, FINDING_ANSWER_LOST);
}

static void retries_to_the_end_are_a_broken_connection(void **state)
{
    struct tracker *t = *state;

    for (uint32_t i = 0; i < 4; i++)
        see_send(t, UINT64_C(67000) * i, 10);
    EXPECT(t, FINDING_RETRANSMIT_TIMEOUT, FINDING_RETRIES_EXHAUSTED);
}

static void a_missing_read_response_is_an_implied_nak(void **state)
{
    struct tracker *t = *state;

    see(t, (struct sent){.at_us = 0, .operation = OP_READ_REQUEST, .psn = 10, .dma_len = 3000});
    see_response(t, 20, OP_READ_RESP_FIRST, 10, PMTU);
    see_response(t, 22, OP_READ_RESP_LAST, 12, 952);
    see(t, (struct sent){.at_us = 40, .operation = OP_READ_REQUEST, .psn = 11, .dma_len = 1976});
    see_response(t, 60, OP_READ_RESP_FIRST, 11, PMTU);
    see_response(t, 62, OP_READ_RESP_LAST, 12, 952);
    assert_int_equal(message_count, 1);
    assert_int_equal(last_message.latency_ns, 62000);
    EXPECT(t, FINDING_RETRANSMIT_IMPLIED);
}

static void a_read_that_goes_on_without_its_responses_was_not_captured_whole(void **state)
{
    struct tracker *t = *state;

    see(t, (struct sent){.at_us = 0, .operation = OP_READ_REQUEST, .psn = 10, .dma_len = 3000});
    see_response(t, 20, OP_READ_RESP_FIRST, 10, PMTU);
    see_response(t, 22, OP_READ_RESP_LAST, 12, 952);
    see_send(t, 30, 13);
    see_ack(t, 40, 13, 2);
    EXPECT(t, FINDING_RESPONSES_MISSED);
}

static void what_was_acknowledged_but_not_seen_is_the_captures_fault(void **state)
{
    struct tracker *t = *state;

    for (uint32_t i = 0; i < 5; i++) {
        if (i != 2)
            see_send(t, i, 10 + i);
    }
    see_ack(t, 20, 14, 5);
    assert_int_equal(tracker_count(t, FINDING_PACKETS_MISSED), 1);
    EXPECT(t, FINDING_PACKETS_MISSED);
}

static void a_packet_that_comes_late_overtook_nothing_in_the_end(void **state)
{
    struct tracker *t = *state;

    see_send(t, 0, 10);
    see_send(t, 1, 12);
    see_send(t, 2, 11);
    see_ack(t, 20, 12, 3);
    assert_int_equal(message_count, 3);
    EXPECT(t, FINDING_REORDERED);
}

static void a_copy_at_once_is_a_duplicate_and_no_time_out(void **state)
{
    struct tracker *t = *state;

    see_send(t, 0, 10);
    see_send(t, 1, 10);
    see_send(t, 2, 11);
    see_ack(t, 20, 11, 2);
    EXPECT(t, FINDING_DUPLICATE);
}

static void an_ack_of_what_is_sent_later_is_a_violation(void **state)
{
    struct tracker *t = *state;

    see_send(t, 0, 10);
    see_ack(t, 20, 10, 1);
    see_ack(t, 30, 12, 1);
    see_send(t, 100, 11);
    see_send(t, 101, 12);
    see_ack(t, 120, 12, 3);
    EXPECT(t, FINDING_ACK_OF_UNSENT);
}

static void one_psn_far_off_is_a_stray_and_many_are_a_new_beginning(void **state)
{
    struct tracker *t = *state;

    see_send(t, 0, 10);
    see_send(t, 1, 0x700000);
    see_send(t, 2, 11);
    see_ack(t, 20, 11, 2);
    assert_int_equal(tracker_count(t, FINDING_PSN_OUT_OF_WINDOW), 1);
    for (uint32_t i = 0; i < 4; i++)
        see_send(t, 100 + i, 0x600000 + i);
    see_ack(t, 150, 0x600003, 6);
    EXPECT(t, FINDING_PSN_OUT_OF_WINDOW, FINDING_PSN_RESTARTED);
}

static void messages_in_flight_are_kept_up_to_a_bound(void **state)
{
    struct tracker *t = *state;

    for (uint32_t i = 0; i < STREAM_REQUESTS_MAX + 10; i++)
        see_send(t, i, i);
    assert_int_equal(tracker_count(t, FINDING_UNTIMED), 10);
    assert_int_equal(requests(t)->ring_count, STREAM_REQUESTS_MAX);
    see_ack(t, STREAM_REQUESTS_MAX + 20, STREAM_REQUESTS_MAX + 9, STREAM_REQUESTS_MAX + 10);
    assert_int_equal(message_count, STREAM_REQUESTS_MAX);
    EXPECT(t, FINDING_UNTIMED);
}

static void requests_and_nothing_else_are_one_direction(void **state)
{
    struct tracker *t = *state;

    for (uint32_t i = 0; i < 20; i++)
        see_send(t, UINT64_C(100) * i, 10 + i);
    EXPECT(t, FINDING_ONE_DIRECTION);
}

#define TRACKER_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRACKER_TEST(messages_take_the_time_from_first_packet_to_answer),
        TRACKER_TEST(one_ack_completes_all_before_it),
        TRACKER_TEST(a_nak_explains_what_is_sent_again_and_what_it_cost),
        TRACKER_TEST(silence_before_a_repeat_is_a_time_out),
        TRACKER_TEST(a_repeat_of_what_was_acknowledged_means_a_lost_ack),
        TRACKER_TEST(retries_to_the_end_are_a_broken_connection),
        TRACKER_TEST(a_missing_read_response_is_an_implied_nak),
        TRACKER_TEST(a_read_that_goes_on_without_its_responses_was_not_captured_whole),
        TRACKER_TEST(what_was_acknowledged_but_not_seen_is_the_captures_fault),
        TRACKER_TEST(a_packet_that_comes_late_overtook_nothing_in_the_end),
        TRACKER_TEST(a_copy_at_once_is_a_duplicate_and_no_time_out),
        TRACKER_TEST(an_ack_of_what_is_sent_later_is_a_violation),
        TRACKER_TEST(one_psn_far_off_is_a_stray_and_many_are_a_new_beginning),
        TRACKER_TEST(messages_in_flight_are_kept_up_to_a_bound),
        TRACKER_TEST(requests_and_nothing_else_are_one_direction),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
