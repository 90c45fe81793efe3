/* SPDX-License-Identifier: BSD-2-Clause */
/* Congestion notification (RoCEv2 annex A17.9): who says it when, and what it does to whom. */
#include "rc_script.h"

#include "engine/qp_private.h"
#include "engine/window_private.h"

#define CE 3u
#define LONG_NS 1000000u

/* A WRITE of the peer, as marked as the datagram that carries it says. */
static void peer_writes_marked(struct peer *p, uint32_t psn, struct datagram d)
{
    uint8_t bytes[128];

    d.src = endpoint_gid((uint8_t)(5 - p->ep.config.address));
    d.dst = endpoint_gid(p->ep.config.address);
    d.bytes = bytes;
    d.len = peer_writes(
        p,
        (struct script){
            .operation = OP_WRITE_ONLY, .psn = psn, .len = 8, .dma_len = 8, .remote = TARGET},
        bytes);
    engine_receive(p->ep.engine, &d, p->ep.now);
    peer_listens(p);
}

static void expect_cnp(struct peer *p)
{
    const struct sent_packet *s = &p->sent[p->sent_head++];

    assert_true(p->sent_head <= p->sent_tail);
    assert_int_equal(s->p.h.bth.opcode, OPCODE_CNP);
    assert_int_equal(s->p.h.bth.dest_qpn, PEER_QPN);
    assert_true(s->p.h.bth.becn);
    assert_int_equal(s->len, 32);
}

static void packet_marked_by_a_switch_is_told_to_its_sender_once_a_while(void **state)
{
    struct peer *p = *state;

    peer_writes_marked(p, 0, (struct datagram){.traffic_class = CE});
    expect_cnp(p);
    peer_writes_marked(p, 1, (struct datagram){.traffic_class = CE});
    expect_silence(p);
    time_passes(p, LONG_NS);
    peer_writes_marked(p, 2, (struct datagram){.traffic_class = CE});
    expect_cnp(p);
    expect_silence(p);
    expect_counter(&p->ep, cnp_sent, 2);
    expect_counter(&p->ep, ecn_marked, 3);
}

static void packet_that_crowds_the_buffer_is_told_too(void **state)
{
    struct peer *p = *state;

    peer_writes_marked(p, 0, (struct datagram){.crowded = true});
    expect_cnp(p);
    expect_counter(&p->ep, ecn_marked, 0);
}

static void packet_that_is_not_marked_is_not_told(void **state)
{
    struct peer *p = *state;

    for (uint8_t ecn = 0; ecn < CE; ecn++)
        peer_writes_marked(p, ecn, (struct datagram){.traffic_class = ecn});
    expect_silence(p);
}

/* The packet that shows congestion is also one that the QP fails of. */
static void queue_pair_in_error_tells_nobody(void **state)
{
    struct peer *p = *state;
    struct datagram d = {.traffic_class = CE,
                         .src = endpoint_gid((uint8_t)(5 - p->ep.config.address)),
                         .dst = endpoint_gid(p->ep.config.address)};
    uint8_t bytes[128];

    d.bytes = bytes;
    d.len = peer_writes(p, (struct script){.operation = OP_SEND_ONLY_INV, .len = 8, .ieth = 0x1234},
                        bytes);
    endpoint_post_recv(&p->ep, 1, 0, 100);
    engine_receive(p->ep.engine, &d, p->ep.now);
    peer_listens(p);
    expect_completion(p->ep.recv_cq, 1, STATUS_MW_BIND_ERR);
    expect_silence(p);
    expect_counter(&p->ep, cnp_sent, 0);
}

/* The limit of the window after a CNP from there. */
static uint32_t limit_after_cnp(struct peer *p, struct gid src)
{
    const struct headers h = {
        .bth = {.opcode = OPCODE_CNP, .becn = true, .pkey = 0xffff, .dest_qpn = qp_qpn(p->ep.qp)}};
    uint8_t bytes[32] = {0};
    const struct datagram d = {.src = src,
                               .dst = endpoint_gid(p->ep.config.address),
                               .bytes = bytes,
                               .len = sizeof(bytes)};

    headers_write(&h, bytes);
    engine_receive(p->ep.engine, &d, p->ep.now);
    peer_listens(p);
    expect_silence(p);
    return p->ep.qp->window->limit;
}

static void who_is_told_lets_half_as_much_be_on_its_way(void **state)
{
    struct peer *p = *state;
    uint32_t limit = p->ep.qp->window->limit;

    assert_int_equal(limit_after_cnp(p, endpoint_gid(3)), limit / 2);
    assert_int_equal(limit_after_cnp(p, endpoint_gid(3)), limit / 2); /* of the same burst */
    expect_counter(&p->ep, cnp_rcv, 2);
    expect_counter(&p->ep, cnp_handled, 2);
}

static void stranger_cannot_slow_a_connection_down(void **state)
{
    struct peer *p = *state;
    uint32_t limit = p->ep.qp->window->limit;

    assert_int_equal(limit_after_cnp(p, endpoint_gid(9)), limit);
    expect_counter(&p->ep, cnp_rcv, 1);
    expect_counter(&p->ep, cnp_handled, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RC_TEST(packet_marked_by_a_switch_is_told_to_its_sender_once_a_while),
        RC_TEST(packet_that_crowds_the_buffer_is_told_too),
        RC_TEST(packet_that_is_not_marked_is_not_told),
        RC_TEST(queue_pair_in_error_tells_nobody),
        RC_TEST(who_is_told_lets_half_as_much_be_on_its_way),
        RC_TEST(stranger_cannot_slow_a_connection_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
