/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flows: what is counted where, and when two of them become a connection.
 * Hosts are numbers; a packet is a row of what matters here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "pcap/flow.h"
#include "wire/aeth.h"

static const uint64_t hash_key[2] = {1, 2};

struct sent {
    uint8_t from;
    uint8_t to;
    enum operation_code operation;
    uint32_t dest_qpn;
    uint32_t psn;
};

static int set_up(void **state)
{
    struct flow_table *t = calloc(1, sizeof(*t));

    flow_table_init(t, 16, hash_key);
    *state = t;
    return 0;
}

static int tear_down(void **state)
{
    flow_table_fini(*state);
    free(*state);
    return 0;
}

/* A good packet of 100 bytes that asks for a response, if it is a request. */
static struct frame frame_of(struct sent s)
{
    uint8_t opcode = opcode_make(SERVICE_RC, s.operation);
    struct frame f = {
        .verdict = FRAME_PACKET,
        .icrc = FRAME_ICRC_GOOD,
        .datagram = {.src.bytes[15] = s.from, .dst.bytes[15] = s.to},
        .packet = {.operation = opcode_operation(opcode), .payload_len = 100},
    };

    f.packet.h.bth = (struct bth){
        .opcode = opcode,
        .dest_qpn = s.dest_qpn,
        .psn = psn_make(s.psn),
        .ack_req = s.operation != OP_ACK,
    };
    return f;
}

static void see(struct flow_table *t, struct sent s)
{
    struct frame f = frame_of(s);
    struct flow *flow;

    assert_int_equal(flow_table_add(t, &f, &flow), 0);
}

static struct flow *flow_to(struct flow_table *t, uint32_t dest_qpn)
{
    struct flow *flow = t->flows;

    while (flow != NULL && flow->key.dest_qpn != dest_qpn)
        flow = flow->hh.next;
    assert_non_null(flow);
    return flow;
}

static void packets_are_counted_by_direction_and_queue_pair(void **state)
{
    struct flow_table *t = *state;

    see(t, (struct sent){1, 2, OP_SEND_ONLY, 0x22, 5});
    see(t, (struct sent){1, 2, OP_SEND_ONLY, 0x22, 6});
    see(t, (struct sent){1, 2, OP_SEND_ONLY, 0x23, 7});
    see(t, (struct sent){2, 1, OP_ACK, 0x11, 6});
    assert_int_equal(t->count, 3);
    assert_int_equal(flow_to(t, 0x22)->counts.packets, 2);
    assert_int_equal(flow_to(t, 0x22)->counts.payload_bytes, 200);
    assert_int_equal(flow_to(t, 0x23)->counts.packets, 1);
}

static void a_response_joins_the_flow_that_asked_for_its_psn(void **state)
{
    struct flow_table *t = *state;

    see(t, (struct sent){1, 2, OP_SEND_ONLY, 0x22, 5});
    see(t, (struct sent){1, 2, OP_SEND_ONLY, 0x33, 900});
    see(t, (struct sent){2, 1, OP_ACK, 0x44, 900});
    assert_ptr_equal(flow_to(t, 0x44)->peer, flow_to(t, 0x33));
    assert_ptr_equal(flow_to(t, 0x33)->peer, flow_to(t, 0x44));
    assert_null(flow_to(t, 0x22)->peer);
}

static void a_psn_that_two_flows_asked_for_joins_nothing(void **state)
{
    struct flow_table *t = *state;

    see(t, (struct sent){1, 2, OP_SEND_ONLY, 0x22, 5});
    see(t, (struct sent){1, 2, OP_SEND_ONLY, 0x33, 5});
    see(t, (struct sent){2, 1, OP_ACK, 0x44, 5});
    assert_null(flow_to(t, 0x44)->peer);
    see(t, (struct sent){1, 2, OP_SEND_ONLY, 0x33, 6});
    see(t, (struct sent){2, 1, OP_ACK, 0x44, 6});
    assert_ptr_equal(flow_to(t, 0x44)->peer, flow_to(t, 0x33));
}

static void other_hosts_and_stray_responses_join_nothing(void **state)
{
    struct flow_table *t = *state;

    see(t, (struct sent){1, 2, OP_SEND_ONLY, 0x22, 5});
    see(t, (struct sent){3, 1, OP_ACK, 0x44, 5});
    see(t, (struct sent){2, 1, OP_ACK, 0x55, 6});
    see(t, (struct sent){1, 2, OP_ACK, 0x66, 5});
    assert_null(flow_to(t, 0x22)->peer);
    assert_null(flow_to(t, 0x44)->peer);
    assert_null(flow_to(t, 0x55)->peer);
    assert_null(flow_to(t, 0x66)->peer);
}

static void requests_sent_again_are_repeats_also_across_the_wrap(void **state)
{
    struct flow_table *t = *state;

    see(t, (struct sent){1, 2, OP_WRITE_FIRST, 0x22, 0xfffffe});
    see(t, (struct sent){1, 2, OP_WRITE_MIDDLE, 0x22, 0xffffff});
    see(t, (struct sent){1, 2, OP_WRITE_LAST, 0x22, 0});
    assert_int_equal(flow_to(t, 0x22)->counts.repeats, 0);
    see(t, (struct sent){1, 2, OP_WRITE_MIDDLE, 0x22, 0xffffff});
    see(t, (struct sent){1, 2, OP_WRITE_LAST, 0x22, 0});
    see(t, (struct sent){1, 2, OP_WRITE_ONLY, 0x22, 1});
    assert_int_equal(flow_to(t, 0x22)->counts.repeats, 2);
}

static void naks_count_for_the_flow_that_carries_them(void **state)
{
    struct flow_table *t = *state;
    struct frame f = frame_of((struct sent){2, 1, OP_ACK, 0x11, 5});

    f.packet.h.aeth.syndrome = aeth_make(AETH_NAK, NAK_REMOTE_ACCESS);
    assert_int_equal(flow_table_add(t, &f, &(struct flow *){NULL}), 0);
    f.packet.h.aeth.syndrome = aeth_make(AETH_RNR_NAK, 14);
    assert_int_equal(flow_table_add(t, &f, &(struct flow *){NULL}), 0);
    f.packet.h.aeth.syndrome = aeth_make(AETH_ACK, 3);
    assert_int_equal(flow_table_add(t, &f, &(struct flow *){NULL}), 0);
    assert_int_equal(flow_to(t, 0x11)->counts.naks, 1);
    assert_int_equal(flow_to(t, 0x11)->counts.rnr_naks, 1);
}

static void a_packet_with_a_bad_icrc_is_counted_and_not_believed(void **state)
{
    struct flow_table *t = *state;
    struct frame f = frame_of((struct sent){1, 2, OP_SEND_ONLY, 0x22, 0x700000});

    see(t, (struct sent){1, 2, OP_SEND_ONLY, 0x22, 5});
    f.icrc = FRAME_ICRC_BAD;
    f.icrc_found = 0x12345678;
    assert_int_equal(flow_table_add(t, &f, &(struct flow *){NULL}), 0);
    see(t, (struct sent){1, 2, OP_SEND_ONLY, 0x22, 6});
    assert_int_equal(flow_to(t, 0x22)->counts.icrc_bad, 1);
    assert_int_equal(flow_to(t, 0x22)->counts.repeats, 0);
}

static void what_does_not_fit_is_counted_together(void **state)
{
    struct flow_table *t = *state;

    for (uint32_t qpn = 0; qpn < 20; qpn++)
        see(t, (struct sent){1, 2, OP_SEND_ONLY, qpn, 5});
    see(t, (struct sent){1, 2, OP_SEND_ONLY, 0, 6});
    assert_int_equal(t->count, 16);
    assert_int_equal(t->overflow.packets, 4);
    assert_int_equal(flow_to(t, 0)->counts.packets, 2);
}

#define FLOW_TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FLOW_TEST(packets_are_counted_by_direction_and_queue_pair),
        FLOW_TEST(a_response_joins_the_flow_that_asked_for_its_psn),
        FLOW_TEST(a_psn_that_two_flows_asked_for_joins_nothing),
        FLOW_TEST(other_hosts_and_stray_responses_join_nothing),
        FLOW_TEST(requests_sent_again_are_repeats_also_across_the_wrap),
        FLOW_TEST(naks_count_for_the_flow_that_carries_them),
        FLOW_TEST(a_packet_with_a_bad_icrc_is_counted_and_not_believed),
        FLOW_TEST(what_does_not_fit_is_counted_together),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
