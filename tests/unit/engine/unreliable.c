/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UC and UD against packets made by hand (IBA 9.8.2, 9.8.3): nothing is
 * answered, nothing is half delivered, and no packet of a peer brings the
 * queue pair down (F28).
 */
#include "support/packet_peer.h"

#include <errno.h>
#include <string.h>

#include "wire/ip.h"

#define PMTU 256u
#define TARGET 0x10000u
#define QKEY 0x11111111u

static struct peer the_peer;

static int open_service(void **state, enum service service)
{
    struct endpoint_config config = endpoint_config_default(2);

    config.service = service;
    peer_open(&the_peer, config, 0xfffffe);
    *state = &the_peer;
    return 0;
}

static int setup_uc(void **state)
{
    return open_service(state, SERVICE_UC);
}

static int setup_ud(void **state)
{
    return open_service(state, SERVICE_UD);
}

static int teardown(void **state)
{
    struct peer *p = *state;

    peer_close(p);
    return 0;
}

/* Never an answer, whatever came; the queue pair is as it was. */
static void expect_unmoved(struct peer *p)
{
    expect_silence(p);
    assert_int_equal(qp_state(p->ep.qp), QP_RTS);
}

static void peer_sends_part(struct peer *p, enum operation_code operation, uint32_t psn,
                            uint64_t message, uint32_t first, uint32_t len)
{
    peer_sends(p, (struct script){.operation = operation,
                                  .psn = psn,
                                  .message = message,
                                  .first = first,
                                  .len = len,
                                  .remote = TARGET,
                                  .dma_len = 2 * PMTU + 1});
}

static void expect_receive(struct peer *p, uint64_t wr_id, uint32_t byte_len)
{
    struct completion c = expect_completion(p->ep.recv_cq, wr_id, STATUS_SUCCESS);

    assert_int_equal(c.byte_len, byte_len);
}

/* --- UC --- */

static void uc_messages_are_delivered_without_an_answer(void **state)
{
    struct peer *p = *state;
    struct completion c;

    endpoint_post_recv(&p->ep, 1, 0, 1000);
    endpoint_post_recv(&p->ep, 2, 1000, 1000);
    peer_sends_part(p, OP_SEND_FIRST, 0, 1, 0, PMTU);
    peer_sends_part(p, OP_SEND_MIDDLE, 1, 1, PMTU, PMTU);
    peer_sends_part(p, OP_SEND_LAST, 2, 1, 2 * PMTU, 1);
    expect_receive(p, 1, 2 * PMTU + 1);
    expect_placed(&p->ep, 0, 1, 0, 2 * PMTU + 1);
    peer_sends_part(p, OP_WRITE_FIRST, 3, 2, 0, PMTU);
    peer_sends_part(p, OP_WRITE_MIDDLE, 4, 2, PMTU, PMTU);
    peer_sends_part(p, OP_WRITE_LAST_IMM, 5, 2, 2 * PMTU, 1);
    c = expect_completion(p->ep.recv_cq, 2, STATUS_SUCCESS);
    assert_int_equal(c.opcode, COMPLETION_RECV_WRITE_IMM);
    expect_placed(&p->ep, TARGET, 2, 0, 2 * PMTU + 1);
    expect_unmoved(p);
}

/* IBA 9.8.2: a message with a hole is dropped whole, and its receive serves the next one. */
static void uc_message_with_a_hole_is_dropped_whole(void **state)
{
    static const struct {
        bool sent[3];
    } rows[] = {{{false, true, true}},
                {{true, false, true}},
                {{true, true, false}},
                {{false, false, true}},
                {{true, false, false}}};
    static const enum operation_code operations[] = {OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST};
    struct peer *p = *state;
    uint32_t psn = 0;

    for (uint64_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        endpoint_post_recv(&p->ep, i, 0, 1000);
        for (uint32_t n = 0; n < 3; n++, psn++) {
            if (rows[i].sent[n])
                peer_sends_part(p, operations[n], psn, 9, n * PMTU, n == 2 ? 1 : PMTU);
        }
        expect_no_completion(p->ep.recv_cq);
        for (uint32_t n = 0; n < 3; n++, psn++)
            peer_sends_part(p, operations[n], psn, i, n * PMTU, n == 2 ? 1 : PMTU);
        expect_receive(p, i, 2 * PMTU + 1);
        expect_placed(&p->ep, 0, i, 0, 2 * PMTU + 1);
        expect_no_completion(p->ep.recv_cq);
        expect_unmoved(p);
    }
}

static void uc_message_may_begin_at_any_psn(void **state)
{
    struct peer *p = *state;
    static const uint32_t psns[] = {5, 4, 1000000, 3, 3, PSN_MASK};

    for (uint64_t i = 0; i < sizeof(psns) / sizeof(psns[0]); i++) {
        endpoint_post_recv(&p->ep, i, 0, 100);
        peer_sends_part(p, OP_SEND_ONLY, psns[i], i, 0, 8);
        expect_receive(p, i, 8);
    }
    expect_unmoved(p);
}

static void uc_packets_that_do_not_fit_are_dropped_and_counted(void **state)
{
    static const struct script rows[] = {
        {.operation = OP_SEND_ONLY, .len = 101}, /* longer than the receive */
        {.operation = OP_SEND_ONLY, .len = PMTU + 1},
        {.operation = OP_SEND_FIRST, .len = PMTU - 1},
        {.operation = OP_SEND_MIDDLE, .len = PMTU},
        {.operation = OP_WRITE_ONLY, .len = 8, .dma_len = 9},
        {.operation = OP_WRITE_ONLY, .len = 8, .dma_len = 8, .rkey = 1},
        {.operation = OP_WRITE_ONLY_IMM, .len = 8, .dma_len = 8, .rkey = 1},
        {.operation = OP_WRITE_FIRST, .len = PMTU, .dma_len = 1u << 31},
    };
    struct peer *p = *state;

    endpoint_post_recv(&p->ep, 1, 0, 100);
    for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct script s = rows[i];

        s.psn = i;
        s.remote = TARGET;
        peer_sends(p, s);
        expect_untouched(&p->ep, 100, 1000);
        expect_untouched(&p->ep, TARGET, 1000);
        expect_no_completion(p->ep.recv_cq);
        expect_unmoved(p);
    }
    peer_sends_part(p, OP_SEND_ONLY, 100, 5, 0, 100);
    expect_receive(p, 1, 100);
}

static void uc_message_without_a_receive_is_dropped(void **state)
{
    struct peer *p = *state;

    peer_sends_part(p, OP_SEND_FIRST, 0, 9, 0, PMTU);
    endpoint_post_recv(&p->ep, 1, 0, 1000);
    peer_sends_part(p, OP_SEND_MIDDLE, 1, 9, PMTU, PMTU);
    peer_sends_part(p, OP_SEND_LAST, 2, 9, 2 * PMTU, 1);
    expect_no_completion(p->ep.recv_cq);
    expect_counter(&p->ep, no_receive, 1);
    peer_sends_part(p, OP_SEND_ONLY, 3, 1, 0, 8);
    expect_receive(p, 1, 8);
    expect_unmoved(p);
}

/* F08: no AckReq; complete when it has left; nothing is repeated. */
static void uc_request_is_done_when_it_has_left(void **state)
{
    struct peer *p = *state;
    const struct work works[] = {
        {.wr_id = 1, .opcode = WR_SEND, .len = 8},
        {.wr_id = 2, .opcode = WR_WRITE, .len = 2 * PMTU + 1},
        {.wr_id = 3, .opcode = WR_SEND_IMM, .len = 0, .imm = 7},
    };
    static const enum operation_code operations[] = {OP_SEND_ONLY, OP_WRITE_FIRST, OP_WRITE_MIDDLE,
                                                     OP_WRITE_LAST, OP_SEND_ONLY_IMM};

    for (uint32_t i = 0; i < 3; i++)
        endpoint_post(&p->ep, &works[i]);
    peer_listens(p);
    for (uint32_t psn = 0; psn < 5; psn++)
        assert_false(expect_packet(p, operations[psn], psn)->p.h.bth.ack_req);
    for (uint32_t i = 1; i <= 3; i++)
        expect_completion(p->ep.send_cq, i, STATUS_SUCCESS);
    assert_true(engine_deadline(p->ep.engine) == ENGINE_NEVER);
    time_passes(p, 10000000000ull);
    expect_unmoved(p);
}

static void uc_has_no_reads_atomics_and_invalidates(void **state)
{
    static const enum wr_opcode opcodes[] = {WR_READ, WR_CMP_SWAP, WR_FETCH_ADD, WR_SEND_INV};
    struct peer *p = *state;

    for (size_t i = 0; i < 4; i++)
        assert_int_equal(endpoint_try_post(&p->ep, &(struct work){.opcode = opcodes[i], .len = 8}),
                         -EINVAL);
}

/* IBA 10.3.1, SQE: a local error stops sending, not receiving; modify brings it back. */
static void uc_local_error_leads_to_sqe_and_back(void **state)
{
    struct peer *p = *state;

    endpoint_post(&p->ep, &(struct work){.wr_id = 1, .opcode = WR_SEND, .len = 8});
    endpoint_post(
        &p->ep, &(struct work){.wr_id = 2, .opcode = WR_SEND, .len = 8, .lkey = p->ep.mr->key ^ 1});
    endpoint_post(&p->ep, &(struct work){.wr_id = 3, .opcode = WR_SEND, .len = 8});
    peer_listens(p);
    expect_packet(p, OP_SEND_ONLY, 0);
    expect_completion(p->ep.send_cq, 1, STATUS_SUCCESS);
    expect_completion(p->ep.send_cq, 2, STATUS_LOC_PROT_ERR);
    expect_completion(p->ep.send_cq, 3, STATUS_WR_FLUSH_ERR);
    assert_int_equal(qp_state(p->ep.qp), QP_SQE);
    endpoint_post_recv(&p->ep, 7, 0, 100);
    peer_sends_part(p, OP_SEND_ONLY, 0, 5, 0, 8);
    expect_receive(p, 7, 8);
    endpoint_post(&p->ep, &(struct work){.wr_id = 4, .opcode = WR_SEND, .len = 8});
    expect_completion(p->ep.send_cq, 4, STATUS_WR_FLUSH_ERR);
    expect_silence(p);
    endpoint_modify_state(&p->ep, QP_RTS, 0, NULL);
    endpoint_post(&p->ep, &(struct work){.wr_id = 5, .opcode = WR_SEND, .len = 8});
    peer_listens(p);
    expect_packet(p, OP_SEND_ONLY, 1);
    expect_completion(p->ep.send_cq, 5, STATUS_SUCCESS);
}

/* --- UD --- */

static struct script datagram(uint32_t len)
{
    return (struct script){.operation = OP_SEND_ONLY,
                           .psn = 0,
                           .len = len,
                           .message = 5,
                           .qkey = QKEY,
                           .src_qpn = 0x77};
}

/* RoCEv2 annex A17.4.5.1: 40 bytes in front, for IPv4 the last 20 of them. */
static void ud_datagram_comes_with_its_ip_header(void **state)
{
    struct peer *p = *state;
    struct completion c;
    struct ip_header ip;

    endpoint_post_recv(&p->ep, 1, 0, 1000);
    peer_sends(p, datagram(100));
    c = expect_completion(p->ep.recv_cq, 1, STATUS_SUCCESS);
    assert_int_equal(c.byte_len, GRH_LEN + 100);
    assert_int_equal(c.src_qpn, 0x77);
    assert_int_equal(c.flags, COMPLETION_GRH);
    expect_untouched(&p->ep, 0, 20);
    assert_int_equal(ip_read(p->ep.memory + 20, 1000, &ip), IP_FAULT_NONE);
    const struct gid src = endpoint_gid(3);
    const struct gid dst = endpoint_gid(2);

    assert_true(gid_equal(&ip.src, &src));
    assert_true(gid_equal(&ip.dst, &dst));
    assert_int_equal(ip.hop_limit, 64);
    expect_placed(&p->ep, GRH_LEN, 5, 0, 100);
    expect_untouched(&p->ep, GRH_LEN + 100, 100);
    expect_unmoved(p);
}

static void ud_psn_and_source_do_not_matter(void **state)
{
    struct peer *p = *state;
    static const uint32_t psns[] = {5, 5, 0, PSN_MASK};

    for (uint32_t i = 0; i < 4; i++) {
        struct script s = datagram(8);

        s.psn = psns[i];
        s.src_qpn = i;
        endpoint_post_recv(&p->ep, i, 0, 100);
        peer_sends(p, s);
        assert_int_equal(expect_completion(p->ep.recv_cq, i, STATUS_SUCCESS).src_qpn, i);
    }
}

static void ud_datagram_that_is_not_right_is_dropped_and_counted(void **state)
{
    struct peer *p = *state;
    struct script s = datagram(8);

    peer_sends(p, s);
    expect_counter(&p->ep, no_receive, 1);
    endpoint_post_recv(&p->ep, 1, 0, GRH_LEN + 100);
    s.qkey ^= 1;
    peer_sends(p, s);
    expect_counter(&p->ep, wrong_qkey, 1);
    peer_sends(p, datagram(101));
    expect_counter(&p->ep, receive_too_small, 1);
    peer_sends(p, datagram(PMTU + 1));
    expect_counter(&p->ep, bad_length, 1);
    expect_no_completion(p->ep.recv_cq);
    expect_untouched(&p->ep, 0, 1000);
    expect_unmoved(p);
    peer_sends(p, datagram(100));
    expect_receive(p, 1, GRH_LEN + 100);
}

/* IBA 10.2.5: a Q_Key with its top bit set stands for the queue pair's own. */
static void ud_request_carries_the_q_key_that_is_meant(void **state)
{
    static const struct {
        uint32_t asked;
        uint32_t sent;
    } rows[] = {{0x22222222, 0x22222222}, {0x80000000, QKEY}, {0x80010000, QKEY}};
    struct peer *p = *state;
    const struct ah ah = {
        .pd = p->ep.pd, .path = {.src = endpoint_gid(2), .dst = endpoint_gid(3), .hop_limit = 64}};

    for (uint32_t i = 0; i < 3; i++) {
        const struct send_wr wr = {.wr_id = i,
                                   .opcode = WR_SEND,
                                   .flags = WR_SIGNALED,
                                   .ah = &ah,
                                   .remote_qpn = PEER_QPN,
                                   .remote_qkey = rows[i].asked};
        const struct sent_packet *s;

        assert_int_equal(qp_post_send(p->ep.qp, &wr), 0);
        peer_listens(p);
        s = expect_packet(p, OP_SEND_ONLY, i);
        assert_int_equal(s->p.h.deth.qkey, rows[i].sent);
        assert_int_equal(s->p.h.deth.src_qpn, qp_qpn(p->ep.qp));
        assert_int_equal(s->p.h.bth.dest_qpn, PEER_QPN);
        assert_false(s->p.h.bth.ack_req);
        expect_completion(p->ep.send_cq, i, STATUS_SUCCESS);
    }
}

static void ud_message_longer_than_the_mtu_is_a_local_error(void **state)
{
    struct peer *p = *state;

    endpoint_post(&p->ep, &(struct work){.wr_id = 1, .opcode = WR_SEND, .len = PMTU});
    endpoint_post(&p->ep, &(struct work){.wr_id = 2, .opcode = WR_SEND, .len = PMTU + 1});
    peer_listens(p);
    expect_packet(p, OP_SEND_ONLY, 0);
    expect_completion(p->ep.send_cq, 1, STATUS_SUCCESS);
    expect_completion(p->ep.send_cq, 2, STATUS_LOC_LEN_ERR);
    assert_int_equal(qp_state(p->ep.qp), QP_SQE);
    expect_silence(p);
}

static void ud_post_without_an_address_or_of_another_domain_is_refused(void **state)
{
    struct peer *p = *state;
    struct ah ah = {.path = {.src = endpoint_gid(2), .dst = endpoint_gid(3)}};
    struct send_wr wr = {.opcode = WR_SEND, .remote_qpn = PEER_QPN};

    assert_int_equal(qp_post_send(p->ep.qp, &wr), -EINVAL);
    wr.ah = &ah;
    assert_int_equal(qp_post_send(p->ep.qp, &wr), -EINVAL);
    ah.pd = p->ep.pd;
    assert_int_equal(qp_post_send(p->ep.qp, &wr), 0);
    wr.opcode = WR_WRITE;
    assert_int_equal(qp_post_send(p->ep.qp, &wr), -EINVAL);
}

#define UC(name) cmocka_unit_test_setup_teardown(name, setup_uc, teardown)
#define UD(name) cmocka_unit_test_setup_teardown(name, setup_ud, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        UC(uc_messages_are_delivered_without_an_answer),
        UC(uc_message_with_a_hole_is_dropped_whole),
        UC(uc_message_may_begin_at_any_psn),
        UC(uc_packets_that_do_not_fit_are_dropped_and_counted),
        UC(uc_message_without_a_receive_is_dropped),
        UC(uc_request_is_done_when_it_has_left),
        UC(uc_has_no_reads_atomics_and_invalidates),
        UC(uc_local_error_leads_to_sqe_and_back),
        UD(ud_datagram_comes_with_its_ip_header),
        UD(ud_psn_and_source_do_not_matter),
        UD(ud_datagram_that_is_not_right_is_dropped_and_counted),
        UD(ud_request_carries_the_q_key_that_is_meant),
        UD(ud_message_longer_than_the_mtu_is_a_local_error),
        UD(ud_post_without_an_address_or_of_another_domain_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
