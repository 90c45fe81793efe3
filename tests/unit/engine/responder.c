/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder of RC against packets made by hand: what each request changes
 * and what is answered (IBA 9.7.4, 9.7.5), and what Linux rxe was seen to do
 * where the specification leaves a choice. Every script runs twice, the second
 * time across the wrap of the PSN.
 */
#include "support/packet_peer.h"

#include <errno.h>
#include <string.h>

#include "support/pattern.h"

#define PMTU 256u
#define TARGET 0x10000u /* offset of what peers write and read */

static const uint32_t psn_starts[] = {0x1000, 0xfffffe};
static struct peer the_peer;

static int setup(void **state)
{
    const uint32_t *psn_start = *state;

    peer_open(&the_peer, endpoint_config_default(2), *psn_start);
    *state = &the_peer;
    return 0;
}

static int teardown(void **state)
{
    peer_close(*state);
    return 0;
}

static void reopen(struct peer *p, const struct endpoint_config *config)
{
    uint32_t psn_start = p->psn_start;

    peer_close(p);
    peer_open(p, *config, psn_start);
}

static void expect_receive(struct peer *p, uint64_t wr_id, uint32_t byte_len)
{
    struct completion c = expect_completion(p->ep.recv_cq, wr_id, STATUS_SUCCESS);

    assert_int_equal(c.opcode, COMPLETION_RECV);
    assert_int_equal(c.byte_len, byte_len);
    assert_int_equal(c.qpn, qp_qpn(p->ep.qp));
    assert_ptr_equal(c.qp, p->ep.qp);
}

/* The QP is in error, does not answer, and takes nothing any more. */
static void expect_dead(struct peer *p)
{
    expect_silence(p);
    assert_int_equal(qp_state(p->ep.qp), QP_ERR);
    for (uint32_t psn = 0; psn < 8; psn++)
        peer_sends(p, (struct script){.operation = OP_WRITE_ONLY,
                                      .psn = psn,
                                      .ack_req = true,
                                      .len = 8,
                                      .dma_len = 8,
                                      .remote = TARGET + 0x8000});
    expect_silence(p);
    expect_untouched(&p->ep, TARGET + 0x8000, 8);
}

/* --- SEND --- */

static void send_is_delivered_and_acknowledged(void **state)
{
    struct peer *p = *state;

    endpoint_post_recv(&p->ep, 1, 0, 500);
    peer_sends(p,
               (struct script){
                   .operation = OP_SEND_ONLY, .psn = 0, .ack_req = true, .len = 99, .message = 7});
    expect_ack(p, 0, 1);
    expect_silence(p);
    expect_receive(p, 1, 99);
    expect_placed(&p->ep, 0, 7, 0, 99);
    expect_untouched(&p->ep, 99, 500);
}

/* IBA 9.7.5.1.2; the MSN counts messages, not packets. */
static void send_of_three_packets_is_one_message(void **state)
{
    struct peer *p = *state;

    endpoint_post_recv(&p->ep, 1, 0, 1000);
    peer_sends(p, (struct script){.operation = OP_SEND_FIRST, .psn = 0, .len = PMTU, .message = 7});
    peer_sends(
        p, (struct script){
               .operation = OP_SEND_MIDDLE, .psn = 1, .len = PMTU, .message = 7, .first = PMTU});
    expect_silence(p);
    expect_no_completion(p->ep.recv_cq);
    peer_sends(p, (struct script){.operation = OP_SEND_LAST,
                                  .psn = 2,
                                  .ack_req = true,
                                  .len = 3,
                                  .message = 7,
                                  .first = 2 * PMTU});
    expect_ack(p, 2, 1);
    expect_receive(p, 1, 2 * PMTU + 3);
    expect_placed(&p->ep, 0, 7, 0, 2 * PMTU + 3);
}

static void ack_request_within_a_message_is_answered_with_the_msn_before_it(void **state)
{
    struct peer *p = *state;

    endpoint_post_recv(&p->ep, 1, 0, 1000);
    peer_sends(p,
               (struct script){.operation = OP_SEND_FIRST, .psn = 0, .ack_req = true, .len = PMTU});
    expect_ack(p, 0, 0);
}

static void one_acknowledgement_stands_for_all_before_it(void **state)
{
    struct peer *p = *state;

    for (uint32_t i = 0; i < 5; i++) {
        endpoint_post_recv(&p->ep, i, 0, 10);
        peer_sends_quietly(
            p, (struct script){.operation = OP_SEND_ONLY, .psn = i, .ack_req = true, .len = 1});
    }
    peer_listens(p);
    expect_ack(p, 4, 5);
    expect_silence(p);
}

static void no_acknowledgement_is_sent_that_was_not_asked_for(void **state)
{
    struct peer *p = *state;

    endpoint_post_recv(&p->ep, 1, 0, 10);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 0, .len = 1});
    expect_silence(p);
    expect_receive(p, 1, 1);
}

static void immediate_and_invalidate_come_with_the_completion(void **state)
{
    struct peer *p = *state;
    const struct mr_attr attr = {.base = p->ep.memory, .len = 16, .access = ACCESS_REMOTE_READ};
    struct completion c;
    struct mr *mr;

    assert_int_equal(mr_new(p->ep.pd, &attr, &mr), 0);
    const uint32_t key = mr->key;

    endpoint_post_recv(&p->ep, 1, 0, 100);
    endpoint_post_recv(&p->ep, 2, 0, 100);
    peer_sends(
        p, (struct script){.operation = OP_SEND_ONLY_IMM, .psn = 0, .len = 4, .imm = 0x12345678});
    c = expect_completion(p->ep.recv_cq, 1, STATUS_SUCCESS);
    assert_int_equal(c.flags, COMPLETION_IMM);
    assert_int_equal(c.imm, 0x12345678);
    peer_sends(
        p, (struct script){.operation = OP_SEND_ONLY_INV, .psn = 1, .ack_req = true, .ieth = key});
    expect_ack(p, 1, 2);
    c = expect_completion(p->ep.recv_cq, 2, STATUS_SUCCESS);
    assert_int_equal(c.flags, COMPLETION_INVALIDATED);
    assert_int_equal(c.imm, key);
    assert_int_equal(mr->key, 0);
    mr_free(mr);
}

/* F58: a key that was never given out, or of a region that no peer may use, is not a peer's to end.
 */
static void invalidate_of_a_key_that_is_not_the_peers_to_end_is_refused(void **state)
{
    struct peer *p = *state;

    endpoint_post_recv(&p->ep, 1, 0, 100);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY_INV,
                                  .psn = 0,
                                  .ack_req = true,
                                  .ieth = p->ep.mr->key ^ 1});
    expect_nak(p, NAK_REMOTE_ACCESS, 0, 0);
    expect_dead(p);
}

static void solicited_counts_only_at_the_end_of_a_message(void **state)
{
    struct peer *p = *state;

    for (uint32_t i = 0; i < 3; i++)
        endpoint_post_recv(&p->ep, i, 0, 1000);
    cq_arm(p->ep.recv_cq, true);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 0, .len = 1});
    peer_sends(
        p, (struct script){.operation = OP_SEND_FIRST, .psn = 1, .solicited = true, .len = PMTU});
    peer_sends(p, (struct script){.operation = OP_SEND_LAST, .psn = 2, .len = 1});
    expect_no_event(&p->ep);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 3, .solicited = true});
    expect_event(&p->ep, ENGINE_EVENT_COMPLETION);
    expect_no_event(&p->ep);
}

/* IBA 9.7.5.2.8: RNR NAK with the QP's timer code; the repeat is then taken. */
static void send_without_a_receive_is_told_to_wait(void **state)
{
    struct peer *p = *state;
    const struct script send = {
        .operation = OP_SEND_ONLY, .psn = 0, .ack_req = true, .len = 9, .message = 7};

    peer_sends(p, send);
    expect_rnr_nak(p, 12, 0, 0);
    peer_sends(p, send);
    expect_rnr_nak(p, 12, 0, 0);
    endpoint_post_recv(&p->ep, 1, 0, 100);
    peer_sends(p, send);
    expect_ack(p, 0, 1);
    expect_receive(p, 1, 9);
    expect_counter(&p->ep, no_receive, 2);
}

static void rest_of_a_message_that_must_wait_is_dropped_in_silence(void **state)
{
    struct peer *p = *state;

    peer_sends(p, (struct script){.operation = OP_SEND_FIRST, .psn = 0, .len = PMTU});
    expect_rnr_nak(p, 12, 0, 0);
    endpoint_post_recv(&p->ep, 1, 0, 1000);
    peer_sends(p, (struct script){.operation = OP_SEND_MIDDLE, .psn = 1, .len = PMTU});
    peer_sends(p, (struct script){.operation = OP_SEND_LAST, .psn = 2, .ack_req = true, .len = 1});
    expect_silence(p);
    peer_sends(p, (struct script){.operation = OP_SEND_FIRST, .psn = 0, .len = PMTU});
    peer_sends(p, (struct script){.operation = OP_SEND_LAST, .psn = 1, .ack_req = true, .len = 1});
    expect_ack(p, 1, 1);
    expect_receive(p, 1, PMTU + 1);
}

/* IBA 9.7.5.2.5: more than the receive request holds. Nothing is written behind it. */
static void send_longer_than_its_receive_is_refused(void **state)
{
    static const struct script rows[][2] = {
        {{.operation = OP_SEND_ONLY, .psn = 0, .len = 101}},
        {{.operation = OP_SEND_FIRST, .psn = 0, .len = PMTU}},
    };

    for (size_t i = 0; i < 2; i++) {
        struct peer *p = *state;
        const struct endpoint_config config = p->ep.config;

        reopen(p, &config);
        endpoint_post_recv(&p->ep, 1, 0, 100);
        endpoint_post_recv(&p->ep, 2, 0, 100);
        peer_sends(p, rows[i][0]);
        expect_nak(p, NAK_INVALID_REQUEST, 0, 0);
        expect_untouched(&p->ep, 100, 1000);
        expect_completion(p->ep.recv_cq, 1, STATUS_LOC_LEN_ERR);
        expect_completion(p->ep.recv_cq, 2, STATUS_WR_FLUSH_ERR);
        expect_dead(p);
    }
}

static void send_that_grows_too_long_in_the_middle_is_refused_there(void **state)
{
    struct peer *p = *state;

    endpoint_post_recv(&p->ep, 1, 0, PMTU + 10);
    peer_sends(p, (struct script){.operation = OP_SEND_FIRST, .psn = 0, .len = PMTU});
    peer_sends(p, (struct script){.operation = OP_SEND_MIDDLE, .psn = 1, .len = PMTU});
    expect_nak(p, NAK_INVALID_REQUEST, 1, 0);
    expect_untouched(&p->ep, PMTU + 10, 1000);
    expect_completion(p->ep.recv_cq, 1, STATUS_LOC_LEN_ERR);
    expect_dead(p);
}

static void receive_into_memory_that_is_not_the_programs_fails_on_both_sides(void **state)
{
    struct peer *p = *state;
    const struct sge sge = {.addr = at(0), .length = 100, .lkey = p->ep.mr->key ^ 1};

    assert_int_equal(
        qp_post_recv(p->ep.qp, &(struct recv_wr){.wr_id = 1, .sges = &sge, .sge_count = 1}), 0);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 0, .ack_req = true, .len = 9});
    expect_nak(p, NAK_REMOTE_OPERATIONAL, 0, 0);
    expect_completion(p->ep.recv_cq, 1, STATUS_LOC_PROT_ERR);
    expect_dead(p);
}

static void message_is_scattered_over_all_sges_of_its_receive(void **state)
{
    struct peer *p = *state;
    const uint32_t key = p->ep.mr->key;
    const struct sge sges[] = {
        {at(5000), 100, key}, {at(0), 0, 0}, {at(77), 1, key}, {at(9000), 400, key}};

    assert_int_equal(
        qp_post_recv(p->ep.qp, &(struct recv_wr){.wr_id = 1, .sges = sges, .sge_count = 4}), 0);
    peer_sends(p, (struct script){.operation = OP_SEND_FIRST, .psn = 0, .len = PMTU, .message = 7});
    peer_sends(p, (struct script){.operation = OP_SEND_LAST,
                                  .psn = 1,
                                  .ack_req = true,
                                  .len = 200,
                                  .message = 7,
                                  .first = PMTU});
    expect_ack(p, 1, 1);
    expect_receive(p, 1, PMTU + 200);
    expect_placed(&p->ep, 5000, 7, 0, 100);
    expect_placed(&p->ep, 77, 7, 100, 1);
    expect_placed(&p->ep, 9000, 7, 101, PMTU + 200 - 101);
    expect_untouched(&p->ep, 9000 + PMTU + 200 - 101, 100);
}

/* --- order --- */

/* IBA 9.7.5.1.2: one NAK for a gap, then silence until the expected packet comes. */
static void gap_is_told_once_and_heals(void **state)
{
    struct peer *p = *state;

    for (uint32_t i = 0; i < 4; i++)
        endpoint_post_recv(&p->ep, i, 0, 100);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 0, .ack_req = true});
    expect_ack(p, 0, 1);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 2, .ack_req = true});
    expect_nak(p, NAK_PSN_SEQUENCE, 1, 1);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 3, .ack_req = true});
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 2, .ack_req = true});
    expect_silence(p);
    for (uint32_t psn = 1; psn < 4; psn++) {
        peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = psn, .ack_req = true});
        expect_ack(p, psn, psn + 1);
    }
    expect_counter(&p->ep, out_of_sequence, 3);
    for (uint32_t i = 0; i < 4; i++)
        expect_receive(p, i, 0);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 5, .ack_req = true});
    expect_nak(p, NAK_PSN_SEQUENCE, 4, 4); /* the next gap is told again */
}

/* IBA 9.7.5.1.1 and rxe: the newest PSN and the present MSN; nothing is delivered twice. */
static void duplicate_is_acknowledged_with_the_newest_psn_and_not_delivered(void **state)
{
    struct peer *p = *state;

    for (uint32_t i = 0; i < 5; i++)
        endpoint_post_recv(&p->ep, i, i * 1000, 1000);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 0, .len = 5, .message = 1});
    peer_sends(p, (struct script){.operation = OP_WRITE_ONLY,
                                  .psn = 1,
                                  .len = 5,
                                  .dma_len = 5,
                                  .message = 2,
                                  .remote = TARGET});
    peer_sends(p, (struct script){.operation = OP_SEND_FIRST, .psn = 2, .len = PMTU});
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 0, .len = 5, .message = 8});
    expect_ack(p, 2, 2);
    peer_sends(p, (struct script){.operation = OP_WRITE_ONLY,
                                  .psn = 1,
                                  .len = 5,
                                  .dma_len = 5,
                                  .message = 9,
                                  .remote = TARGET});
    expect_ack(p, 2, 2);
    peer_sends(p, (struct script){.operation = OP_SEND_FIRST, .psn = 2, .len = PMTU});
    expect_ack(p, 2, 2);
    expect_silence(p);
    expect_receive(p, 0, 5);
    expect_no_completion(p->ep.recv_cq);
    expect_placed(&p->ep, 0, 1, 0, 5);
    expect_placed(&p->ep, TARGET, 2, 0, 5);
    peer_sends(p, (struct script){.operation = OP_SEND_LAST, .psn = 3, .ack_req = true, .len = 1});
    expect_ack(p, 3, 3);
}

/* IBA 9.7.2: half of the number space is behind, the other half ahead. */
static void half_of_the_psn_space_is_behind_and_half_ahead(void **state)
{
    struct peer *p = *state;

    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 1u << 23, .ack_req = true});
    expect_ack(p, PSN_MASK, 0);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = PSN_MASK, .ack_req = true});
    expect_ack(p, PSN_MASK, 0);
    peer_sends(p,
               (struct script){.operation = OP_SEND_ONLY, .psn = (1u << 23) - 1, .ack_req = true});
    expect_nak(p, NAK_PSN_SEQUENCE, 0, 0);
}

/* IBA 9.7.4.1.3, table of opcode sequences. */
static void opcode_that_does_not_continue_the_message_is_refused(void **state)
{
    static const struct {
        enum operation_code before; /* OP_ACK: none */
        enum operation_code then;
        bool good;
    } rows[] = {
        {OP_ACK, OP_SEND_MIDDLE, false},          {OP_ACK, OP_SEND_LAST, false},
        {OP_ACK, OP_WRITE_MIDDLE, false},         {OP_ACK, OP_WRITE_LAST_IMM, false},
        {OP_SEND_FIRST, OP_SEND_MIDDLE, true},    {OP_SEND_FIRST, OP_SEND_LAST, true},
        {OP_SEND_FIRST, OP_SEND_LAST_IMM, true},  {OP_SEND_FIRST, OP_SEND_FIRST, false},
        {OP_SEND_FIRST, OP_SEND_ONLY, false},     {OP_SEND_FIRST, OP_WRITE_MIDDLE, false},
        {OP_SEND_FIRST, OP_WRITE_LAST, false},    {OP_SEND_FIRST, OP_WRITE_ONLY, false},
        {OP_SEND_FIRST, OP_READ_REQUEST, false},  {OP_SEND_FIRST, OP_FETCH_ADD, false},
        {OP_WRITE_FIRST, OP_WRITE_MIDDLE, true},  {OP_WRITE_FIRST, OP_WRITE_LAST, true},
        {OP_WRITE_FIRST, OP_WRITE_FIRST, false},  {OP_WRITE_FIRST, OP_SEND_MIDDLE, false},
        {OP_WRITE_FIRST, OP_SEND_LAST, false},    {OP_WRITE_FIRST, OP_SEND_ONLY, false},
        {OP_WRITE_FIRST, OP_READ_REQUEST, false},
    };
    struct peer *p = *state;
    const struct endpoint_config config = p->ep.config;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const bool fresh = rows[i].before == OP_ACK;
        struct script then = {.operation = rows[i].then,
                              .psn = fresh ? 0 : 1,
                              .ack_req = true,
                              .len = PMTU,
                              .remote = TARGET,
                              .dma_len = PMTU};

        reopen(p, &config);
        endpoint_post_recv(&p->ep, 1, 0, 1000);
        if (rows[i].then == OP_READ_REQUEST || rows[i].then == OP_FETCH_ADD)
            then.len = 0;
        if (rows[i].then == OP_WRITE_FIRST)
            then.dma_len = 2 * PMTU;
        if (!fresh)
            peer_sends(
                p, (struct script){.operation = rows[i].before,
                                   .psn = 0,
                                   .len = PMTU,
                                   .remote = TARGET,
                                   .dma_len = rows[i].then == OP_WRITE_LAST ? 2 * PMTU : 3 * PMTU});
        peer_sends(p, then);
        if (rows[i].good) {
            expect_packet(p, OP_ACK, then.psn);
            assert_int_equal(qp_state(p->ep.qp), QP_RTS);
        } else {
            expect_nak(p, NAK_INVALID_REQUEST, then.psn, 0);
            expect_dead(p);
        }
    }
}

/* IBA 9.7.4.1.6: FIRST and MIDDLE are full, LAST has a byte, the sum is what the RETH says. */
static void length_that_does_not_fit_is_refused(void **state)
{
    static const struct script rows[][2] = {
        {{.operation = OP_SEND_FIRST, .len = PMTU - 1}},
        {{.operation = OP_SEND_FIRST, .len = PMTU + 4}},
        {{.operation = OP_SEND_FIRST, .len = 0}},
        {{.operation = OP_SEND_ONLY, .len = PMTU + 1}},
        {{.operation = OP_SEND_FIRST, .len = PMTU}, {.operation = OP_SEND_MIDDLE, .len = PMTU - 4}},
        {{.operation = OP_SEND_FIRST, .len = PMTU}, {.operation = OP_SEND_MIDDLE, .len = PMTU + 4}},
        {{.operation = OP_SEND_FIRST, .len = PMTU}, {.operation = OP_SEND_LAST, .len = 0}},
        {{.operation = OP_SEND_FIRST, .len = PMTU}, {.operation = OP_SEND_LAST, .len = PMTU + 1}},
        {{.operation = OP_WRITE_ONLY, .len = 10, .dma_len = 11}},
        {{.operation = OP_WRITE_ONLY, .len = 10, .dma_len = 9}},
        {{.operation = OP_WRITE_ONLY, .len = 0, .dma_len = 1}},
        {{.operation = OP_WRITE_ONLY, .len = PMTU + 1, .dma_len = PMTU + 1}},
        {{.operation = OP_WRITE_FIRST, .len = PMTU, .dma_len = PMTU}},
        {{.operation = OP_WRITE_FIRST, .len = PMTU - 1, .dma_len = 1000}},
        {{.operation = OP_WRITE_FIRST, .len = PMTU, .dma_len = 10}},
        {{.operation = OP_WRITE_FIRST, .len = PMTU, .dma_len = 0x80000001u}},
        {{.operation = OP_WRITE_FIRST, .len = PMTU, .dma_len = PMTU + 10},
         {.operation = OP_WRITE_LAST, .len = 9}},
        {{.operation = OP_WRITE_FIRST, .len = PMTU, .dma_len = PMTU + 10},
         {.operation = OP_WRITE_LAST, .len = 11}},
        {{.operation = OP_WRITE_FIRST, .len = PMTU, .dma_len = PMTU + 10},
         {.operation = OP_WRITE_MIDDLE, .len = PMTU}},
        {{.operation = OP_WRITE_FIRST, .len = PMTU, .dma_len = 2 * PMTU},
         {.operation = OP_WRITE_MIDDLE, .len = PMTU}},
        {{.operation = OP_READ_REQUEST, .dma_len = 0x80000001u}},
    };
    struct peer *p = *state;
    const struct endpoint_config config = p->ep.config;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const bool two = rows[i][1].operation != OP_SEND_FIRST;

        reopen(p, &config);
        endpoint_post_recv(&p->ep, 1, 0, 1000);
        for (uint32_t psn = 0; psn <= two; psn++) {
            struct script s = rows[i][psn];

            expect_silence(p);
            s.psn = psn;
            s.remote = TARGET;
            peer_sends(p, s);
        }
        expect_nak(p, NAK_INVALID_REQUEST, two, 0);
        expect_untouched(&p->ep, TARGET + (two ? PMTU : 0), 2 * PMTU);
        expect_untouched(&p->ep, two ? PMTU : 0, 2 * PMTU);
        expect_dead(p);
    }
}

/* --- WRITE --- */

static void write_is_placed_and_needs_no_receive(void **state)
{
    struct peer *p = *state;

    peer_sends(p, (struct script){.operation = OP_WRITE_FIRST,
                                  .psn = 0,
                                  .len = PMTU,
                                  .message = 3,
                                  .remote = TARGET + 1,
                                  .dma_len = 2 * PMTU + 1});
    peer_sends(
        p, (struct script){
               .operation = OP_WRITE_MIDDLE, .psn = 1, .len = PMTU, .message = 3, .first = PMTU});
    peer_sends(p, (struct script){.operation = OP_WRITE_LAST,
                                  .psn = 2,
                                  .ack_req = true,
                                  .len = 1,
                                  .message = 3,
                                  .first = 2 * PMTU});
    expect_ack(p, 2, 1);
    expect_placed(&p->ep, TARGET + 1, 3, 0, 2 * PMTU + 1);
    expect_untouched(&p->ep, TARGET, 1);
    expect_untouched(&p->ep, TARGET + 2 * PMTU + 2, 100);
    expect_no_completion(p->ep.recv_cq);
}

/* F30: the receive request is used up, its buffer is not touched, and it may have none. */
static void write_with_immediate_takes_a_receive_but_not_its_buffer(void **state)
{
    struct peer *p = *state;
    struct completion c;

    endpoint_post_recv(&p->ep, 1, 0, 0);
    endpoint_post_recv(&p->ep, 2, 0, 1000);
    for (uint32_t i = 0; i < 2; i++) {
        peer_sends(p, (struct script){.operation = OP_WRITE_ONLY_IMM,
                                      .psn = i,
                                      .ack_req = true,
                                      .len = 100,
                                      .message = 3,
                                      .remote = TARGET,
                                      .dma_len = 100,
                                      .imm = 77 + i});
        expect_ack(p, i, i + 1);
        c = expect_completion(p->ep.recv_cq, i + 1, STATUS_SUCCESS);
        assert_int_equal(c.opcode, COMPLETION_RECV_WRITE_IMM);
        assert_int_equal(c.flags, COMPLETION_IMM);
        assert_int_equal(c.imm, 77 + i);
        assert_int_equal(c.byte_len, 100);
    }
    expect_placed(&p->ep, TARGET, 3, 0, 100);
    expect_untouched(&p->ep, 0, 1000);
}

/* As rxe: the receive is missed at the LAST packet, and what was written stays. */
static void write_with_immediate_without_a_receive_waits_at_its_last_packet(void **state)
{
    struct peer *p = *state;
    const struct script last = {.operation = OP_WRITE_LAST_IMM,
                                .psn = 1,
                                .ack_req = true,
                                .len = 5,
                                .message = 3,
                                .first = PMTU};

    peer_sends(p, (struct script){.operation = OP_WRITE_FIRST,
                                  .psn = 0,
                                  .len = PMTU,
                                  .message = 3,
                                  .remote = TARGET,
                                  .dma_len = PMTU + 5});
    peer_sends(p, last);
    expect_rnr_nak(p, 12, 1, 0);
    expect_placed(&p->ep, TARGET, 3, 0, PMTU);
    endpoint_post_recv(&p->ep, 1, 0, 10);
    peer_sends(p, last);
    expect_ack(p, 1, 1);
    expect_placed(&p->ep, TARGET, 3, 0, PMTU + 5);
    expect_completion(p->ep.recv_cq, 1, STATUS_SUCCESS);
}

/* IBA 9.7.4.1.7, F21: a length of zero looks at no key. */
static void request_of_no_bytes_needs_no_key(void **state)
{
    struct peer *p = *state;

    peer_sends(
        p, (struct script){.operation = OP_WRITE_ONLY, .psn = 0, .ack_req = true, .rkey = 0x1234});
    expect_ack(p, 0, 1);
    peer_sends(p, (struct script){.operation = OP_READ_REQUEST, .psn = 1, .rkey = 0x1234});
    assert_int_equal(expect_packet(p, OP_READ_RESP_ONLY, 1)->p.payload_len, 0);
    endpoint_post_recv(&p->ep, 1, 0, 0);
    peer_sends(p, (struct script){
                      .operation = OP_WRITE_ONLY_IMM, .psn = 2, .ack_req = true, .rkey = 0x1234});
    expect_ack(p, 2, 3);
}

/* --- access --- */

enum key_choice {
    KEY_GOOD,
    KEY_WRONG,
    KEY_OTHER_PD,
    KEY_WRITE_ONLY,
    KEY_READ_ONLY,
};

struct forbidden {
    enum operation_code operation;
    enum key_choice key;
    uint64_t remote; /* offset; may be before the region: wraps */
    uint32_t len;
};

#define END ((uint64_t)ENDPOINT_MEMORY)
#define TO_TOP (0ull - ENDPOINT_IOVA) /* offset of address 2^64 */

static const struct forbidden forbidden_rows[] = {
    {OP_WRITE_ONLY, KEY_WRONG, TARGET, 8},
    {OP_WRITE_ONLY, KEY_OTHER_PD, TARGET, 8},
    {OP_WRITE_ONLY, KEY_READ_ONLY, TARGET, 8},
    {OP_WRITE_ONLY, KEY_GOOD, END, 8},
    {OP_WRITE_ONLY, KEY_GOOD, END - 7, 8},
    {OP_WRITE_ONLY, KEY_GOOD, 0ull - 1, 8},
    {OP_WRITE_ONLY, KEY_GOOD, TO_TOP - 8, 8},
    {OP_WRITE_ONLY, KEY_GOOD, TO_TOP - 4, 8},
    {OP_WRITE_FIRST, KEY_GOOD, END - PMTU, 2 * PMTU},
    {OP_WRITE_FIRST, KEY_GOOD, END - 0x40000000u, 0x80000000u},
    {OP_WRITE_FIRST, KEY_WRONG, TARGET, 0x80000000u},
    {OP_WRITE_ONLY_IMM, KEY_WRONG, TARGET, 8},
    {OP_READ_REQUEST, KEY_WRONG, TARGET, 8},
    {OP_READ_REQUEST, KEY_OTHER_PD, TARGET, 8},
    {OP_READ_REQUEST, KEY_WRITE_ONLY, TARGET, 8},
    {OP_READ_REQUEST, KEY_GOOD, END - 3000, 3001},
    {OP_READ_REQUEST, KEY_GOOD, TO_TOP - 0x400, 0x400},
    {OP_READ_REQUEST, KEY_GOOD, TO_TOP - 0x400, 0x401},
    {OP_READ_REQUEST, KEY_GOOD, 0, 0x80000000u},
    {OP_CMP_SWAP, KEY_WRONG, TARGET, 0},
    {OP_CMP_SWAP, KEY_OTHER_PD, TARGET, 0},
    {OP_CMP_SWAP, KEY_WRITE_ONLY, TARGET, 0},
    {OP_FETCH_ADD, KEY_READ_ONLY, TARGET, 0},
    {OP_FETCH_ADD, KEY_GOOD, END, 0},
    {OP_FETCH_ADD, KEY_GOOD, TO_TOP - 8, 0},
};

/* F19, F22, F34: NAK remote access error, nothing changes, the QP is in error. */
static void access_that_is_not_allowed_is_refused(void **state)
{
    struct peer *p = *state;
    const struct endpoint_config config = p->ep.config;

    for (size_t i = 0; i < sizeof(forbidden_rows) / sizeof(forbidden_rows[0]); i++) {
        const struct forbidden *row = &forbidden_rows[i];
        struct mr_attr attr = {.base = p->ep.memory, .len = ENDPOINT_MEMORY, .iova = ENDPOINT_IOVA};
        struct mr *mrs[3];
        struct pd *other;

        reopen(p, &config);
        endpoint_post_recv(&p->ep, 1, 0, 1000);
        assert_int_equal(pd_new(p->ep.engine, &other), 0);
        attr.access = ENDPOINT_RIGHTS;
        assert_int_equal(mr_new(other, &attr, &mrs[0]), 0);
        attr.access = ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE;
        assert_int_equal(mr_new(p->ep.pd, &attr, &mrs[1]), 0);
        attr.access = ACCESS_LOCAL_WRITE | ACCESS_REMOTE_READ;
        assert_int_equal(mr_new(p->ep.pd, &attr, &mrs[2]), 0);
        const uint32_t keys[] = {
            [KEY_GOOD] = 0,
            [KEY_WRONG] = p->ep.mr->key ^ 0x100,
            [KEY_OTHER_PD] = mrs[0]->key,
            [KEY_WRITE_ONLY] = mrs[1]->key,
            [KEY_READ_ONLY] = mrs[2]->key,
        };
        const bool carries = row->operation == OP_WRITE_ONLY || row->operation == OP_WRITE_FIRST ||
                             row->operation == OP_WRITE_ONLY_IMM;

        peer_sends(p, (struct script){.operation = row->operation,
                                      .psn = 0,
                                      .ack_req = true,
                                      .remote = row->remote,
                                      .rkey = keys[row->key],
                                      .dma_len = row->len,
                                      .len = !carries          ? 0
                                             : row->len < PMTU ? row->len
                                                               : PMTU,
                                      .message = 5,
                                      .swap_add = 1});
        expect_nak(p, NAK_REMOTE_ACCESS, 0, 0);
        expect_untouched(&p->ep, 0, ENDPOINT_MEMORY);
        expect_counter(&p->ep, remote_access_refused, 1);
        expect_event(&p->ep, ENGINE_EVENT_QP_ACCESS_ERR);
        expect_completion(p->ep.recv_cq, 1, STATUS_WR_FLUSH_ERR);
        expect_dead(p);
        for (int m = 0; m < 3; m++)
            mr_free(mrs[m]);
        pd_free(other);
    }
}

/* IBA 9.7.4.1.4: what the QP's own rights do not open is an invalid request. */
static void request_that_the_queue_pair_does_not_do_is_refused(void **state)
{
    static const struct {
        uint32_t access;
        enum operation_code operation;
        uint32_t len;
    } rows[] = {
        {ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC, OP_WRITE_ONLY, 8},
        {ACCESS_REMOTE_WRITE | ACCESS_REMOTE_ATOMIC, OP_READ_REQUEST, 0},
        {ACCESS_REMOTE_READ | ACCESS_REMOTE_WRITE, OP_CMP_SWAP, 0},
        {ACCESS_REMOTE_READ | ACCESS_REMOTE_WRITE, OP_FETCH_ADD, 0},
        {ENDPOINT_RIGHTS, OP_ATOMIC_WRITE, 8},
        {ENDPOINT_RIGHTS, OP_FLUSH, 0},
    };
    struct peer *p = *state;
    struct endpoint_config config = p->ep.config;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        config.access = rows[i].access;
        reopen(p, &config);
        peer_sends(p, (struct script){.operation = rows[i].operation,
                                      .psn = 0,
                                      .ack_req = true,
                                      .remote = TARGET,
                                      .len = rows[i].len,
                                      .dma_len = 8});
        expect_nak(p, NAK_INVALID_REQUEST, 0, 0);
        expect_untouched(&p->ep, TARGET, 16);
        expect_dead(p);
    }
}

static void region_that_goes_away_within_a_write_ends_it(void **state)
{
    struct peer *p = *state;
    const struct mr_attr attr = {
        .base = p->ep.memory + TARGET, .len = 1000, .iova = at(TARGET), .access = ENDPOINT_RIGHTS};
    struct mr *mr;

    assert_int_equal(mr_new(p->ep.pd, &attr, &mr), 0);
    peer_sends(p, (struct script){.operation = OP_WRITE_FIRST,
                                  .psn = 0,
                                  .len = PMTU,
                                  .remote = TARGET,
                                  .rkey = mr->key,
                                  .dma_len = 2 * PMTU});
    mr_free(mr);
    peer_sends(p,
               (struct script){.operation = OP_WRITE_LAST, .psn = 1, .ack_req = true, .len = PMTU});
    expect_nak(p, NAK_REMOTE_ACCESS, 1, 0);
    expect_untouched(&p->ep, TARGET + PMTU, PMTU);
    expect_dead(p);
}

static void region_that_goes_away_before_a_read_is_answered_ends_it(void **state)
{
    struct peer *p = *state;
    const struct mr_attr attr = {
        .base = p->ep.memory + TARGET, .len = 1000, .iova = at(TARGET), .access = ENDPOINT_RIGHTS};
    struct mr *mr;

    assert_int_equal(mr_new(p->ep.pd, &attr, &mr), 0);
    peer_sends_quietly(p, (struct script){.operation = OP_READ_REQUEST,
                                          .psn = 0,
                                          .remote = TARGET,
                                          .rkey = mr->key,
                                          .dma_len = 100});
    mr_free(mr);
    peer_listens(p);
    assert_int_equal(aeth_value(expect_packet(p, OP_ACK, 0)->p.h.aeth.syndrome), NAK_REMOTE_ACCESS);
    expect_dead(p);
}

/* What an operating system does to a program's memory under a region. */
static bool memory_is_gone;

static int guarded_copy(void *dst, const void *src, size_t len)
{
    if (memory_is_gone)
        return -EFAULT;
    memcpy(dst, src, len);
    return 0;
}

/* An adapter would meet a page fault: the peer hears of an operational error. */
static void memory_that_is_gone_under_a_region_fails_the_request(void **state)
{
    static const struct script rows[] = {
        {.operation = OP_SEND_ONLY, .len = 8},
        {.operation = OP_WRITE_ONLY, .len = 8, .dma_len = 8},
        {.operation = OP_READ_REQUEST, .dma_len = 8},
        {.operation = OP_FETCH_ADD, .swap_add = 1},
        {.operation = OP_CMP_SWAP},
    };
    struct peer *p = *state;
    struct endpoint_config config = p->ep.config;

    config.engine.copy = guarded_copy;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct script s = rows[i];
        const struct sent_packet *sent;

        memory_is_gone = false;
        reopen(p, &config);
        endpoint_post_recv(&p->ep, 1, 0, 100);
        memory_is_gone = true;
        s.remote = TARGET;
        peer_sends(p, s);
        sent = expect_packet(p, OP_ACK, 0);
        assert_int_equal(sent->p.h.aeth.syndrome, aeth_make(AETH_NAK, NAK_REMOTE_OPERATIONAL));
        expect_completion(p->ep.recv_cq, 1, i == 0 ? STATUS_LOC_PROT_ERR : STATUS_WR_FLUSH_ERR);
        expect_dead(p);
    }
    memory_is_gone = false;
}

/* --- READ --- */

static void read_is_answered_first_middle_last(void **state)
{
    struct peer *p = *state;
    const struct sent_packet *s;

    endpoint_fill(&p->ep, TARGET, 4, 0, 1000);
    endpoint_post_recv(&p->ep, 1, 0, 10);
    peer_sends(p, (struct script){
                      .operation = OP_READ_REQUEST, .psn = 0, .remote = TARGET, .dma_len = 700});
    s = expect_data(p, OP_READ_RESP_FIRST, 0, 4, 0, PMTU);
    assert_int_equal(s->p.h.aeth.msn.value, 1); /* includes the READ itself, as rxe */
    assert_int_equal(aeth_kind(s->p.h.aeth.syndrome), AETH_ACK);
    expect_data(p, OP_READ_RESP_MIDDLE, 1, 4, PMTU, PMTU);
    s = expect_data(p, OP_READ_RESP_LAST, 2, 4, 2 * PMTU, 700 - 2 * PMTU);
    assert_int_equal(s->p.h.aeth.msn.value, 1);
    assert_false(s->p.h.bth.ack_req);
    expect_silence(p);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 3, .ack_req = true});
    expect_ack(p, 3, 2); /* a READ takes as many PSNs as it has responses */
}

static void read_of_each_size_is_cut_at_the_pmtu(void **state)
{
    static const struct {
        uint32_t len;
        uint32_t packets;
    } rows[] = {{0, 1},        {1, 1},        {PMTU - 1, 1},    {PMTU, 1},
                {PMTU + 1, 2}, {2 * PMTU, 2}, {2 * PMTU + 1, 3}};
    struct peer *p = *state;
    uint32_t psn = 0;

    endpoint_fill(&p->ep, TARGET + 3, 4, 0, 1000);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        peer_sends(p, (struct script){.operation = OP_READ_REQUEST,
                                      .psn = psn,
                                      .remote = TARGET + 3,
                                      .dma_len = rows[i].len});
        for (uint32_t n = 0; n < rows[i].packets; n++) {
            const bool last = n == rows[i].packets - 1;
            const enum operation_code operation = n == 0 && last ? OP_READ_RESP_ONLY
                                                  : n == 0       ? OP_READ_RESP_FIRST
                                                  : last         ? OP_READ_RESP_LAST
                                                                 : OP_READ_RESP_MIDDLE;

            expect_data(p, operation, psn + n, 4, n * PMTU, last ? rows[i].len - n * PMTU : PMTU);
        }
        expect_silence(p);
        psn += rows[i].packets;
    }
}

static void reads_are_answered_in_order_before_the_acknowledgement_of_what_follows(void **state)
{
    struct peer *p = *state;

    endpoint_fill(&p->ep, TARGET, 4, 0, 1000);
    peer_sends_quietly(p, (struct script){.operation = OP_WRITE_ONLY,
                                          .psn = 0,
                                          .ack_req = true,
                                          .len = 8,
                                          .dma_len = 8,
                                          .remote = TARGET + 2000});
    peer_sends_quietly(
        p, (struct script){
               .operation = OP_READ_REQUEST, .psn = 1, .remote = TARGET, .dma_len = PMTU + 1});
    peer_sends_quietly(
        p, (struct script){.operation = OP_READ_REQUEST, .psn = 3, .remote = TARGET, .dma_len = 1});
    peer_sends_quietly(p, (struct script){.operation = OP_WRITE_ONLY,
                                          .psn = 4,
                                          .ack_req = true,
                                          .len = 8,
                                          .dma_len = 8,
                                          .remote = TARGET + 2000});
    peer_listens(p);
    if (p->sent[0].p.operation->kind == KIND_ACK)
        expect_ack(p, 0, 1); /* may be left out: the READ's answer stands for it */
    assert_int_equal(expect_packet(p, OP_READ_RESP_FIRST, 1)->p.h.aeth.msn.value, 2);
    expect_packet(p, OP_READ_RESP_LAST, 2);
    assert_int_equal(expect_packet(p, OP_READ_RESP_ONLY, 3)->p.h.aeth.msn.value, 3);
    expect_ack(p, 4, 4);
    expect_silence(p);
}

/* IBA 9.7.5.1.1: a duplicate READ is read again, also from a later packet on. */
static void duplicate_read_is_answered_again_from_where_it_asks(void **state)
{
    struct peer *p = *state;
    const struct script read = {
        .operation = OP_READ_REQUEST, .psn = 0, .remote = TARGET, .dma_len = 700};
    struct script rest = read;

    endpoint_fill(&p->ep, TARGET, 4, 0, 1000);
    peer_sends(p, read);
    for (uint32_t i = 0; i < 3; i++)
        p->sent_head++;
    endpoint_fill(&p->ep, TARGET, 5, 0, 1000); /* read again means read anew */
    peer_sends(p, read);
    expect_data(p, OP_READ_RESP_FIRST, 0, 5, 0, PMTU);
    expect_data(p, OP_READ_RESP_MIDDLE, 1, 5, PMTU, PMTU);
    expect_data(p, OP_READ_RESP_LAST, 2, 5, 2 * PMTU, 700 - 2 * PMTU);
    rest.psn = 1;
    rest.remote += PMTU;
    rest.dma_len -= PMTU;
    peer_sends(p, rest);
    expect_data(p, OP_READ_RESP_FIRST, 1, 5, PMTU, PMTU);
    expect_data(p, OP_READ_RESP_LAST, 2, 5, 2 * PMTU, 700 - 2 * PMTU);
    rest.psn = 2;
    rest.remote += PMTU;
    rest.dma_len -= PMTU;
    peer_sends(p, rest);
    expect_data(p, OP_READ_RESP_ONLY, 2, 5, 2 * PMTU, 700 - 2 * PMTU);
    expect_silence(p);
    peer_sends(
        p, (struct script){.operation = OP_READ_REQUEST, .psn = 3, .remote = TARGET, .dma_len = 1});
    assert_int_equal(expect_packet(p, OP_READ_RESP_ONLY, 3)->p.h.aeth.msn.value, 2);
}

/* F22: what a duplicate says of itself opens nothing that the first did not. */
static void duplicate_read_opens_no_other_memory(void **state)
{
    struct peer *p = *state;
    const struct mr_attr attr = {.base = p->ep.memory + TARGET,
                                 .len = 300,
                                 .iova = at(TARGET),
                                 .access = ACCESS_REMOTE_READ};
    struct mr *mr;
    struct script read = {.operation = OP_READ_REQUEST, .psn = 0, .remote = TARGET, .dma_len = 300};

    assert_int_equal(mr_new(p->ep.pd, &attr, &mr), 0);
    read.rkey = mr->key;
    endpoint_fill(&p->ep, TARGET, 4, 0, 300);
    endpoint_fill(&p->ep, TARGET + 300, 9, 0, 1000);
    peer_sends(p, read);
    p->sent_head = p->sent_tail;
    for (uint32_t i = 0; i < 4; i++) {
        struct script spoiled = read;

        spoiled.remote += i == 0 ? 8 : 0;
        spoiled.dma_len += i == 1 ? 1000 : 0;
        spoiled.rkey ^= i == 2 ? 1u : 0u;
        spoiled.remote -= i == 3 ? 0x20000 : 0;
        peer_sends(p, spoiled);
        while (p->sent_head < p->sent_tail) {
            const struct sent_packet *s = &p->sent[p->sent_head++];

            if (s->p.operation->kind != KIND_READ_RESPONSE)
                continue;
            assert_true(s->psn < 2);
            assert_int_equal(pattern_matches(4, s->psn * PMTU, s->p.payload, s->p.payload_len),
                             s->p.payload_len);
        }
    }
    mr_free(mr);
}

static void more_reads_than_agreed_are_refused(void **state)
{
    struct peer *p = *state;

    for (uint32_t psn = 0; psn < 5; psn++)
        peer_sends_quietly(
            p, (struct script){
                   .operation = OP_READ_REQUEST, .psn = psn, .remote = TARGET, .dma_len = 8});
    peer_listens(p);
    for (uint32_t psn = 0; psn < 4; psn++)
        expect_packet(p, OP_READ_RESP_ONLY, psn);
    expect_nak(p, NAK_INVALID_REQUEST, 4, 4);
    expect_dead(p);
}

static void reads_that_were_answered_make_room_for_others(void **state)
{
    struct peer *p = *state;

    for (uint32_t psn = 0; psn < 50; psn++) {
        peer_sends(p,
                   (struct script){
                       .operation = OP_READ_REQUEST, .psn = psn, .remote = TARGET, .dma_len = 8});
        expect_packet(p, OP_READ_RESP_ONLY, psn);
    }
    expect_silence(p);
}

/* --- atomics --- */

static uint64_t word_at_target(const struct peer *p)
{
    uint64_t word;

    memcpy(&word, p->ep.memory + TARGET, sizeof(word));
    return word;
}

static void set_word(struct peer *p, uint64_t word)
{
    memcpy(p->ep.memory + TARGET, &word, sizeof(word));
}

static void atomics_change_memory_and_return_what_was_there(void **state)
{
    static const struct {
        enum operation_code operation;
        uint64_t before;
        uint64_t compare;
        uint64_t swap_add;
        uint64_t after;
    } rows[] = {
        {OP_FETCH_ADD, 5, 0, 7, 12},
        {OP_FETCH_ADD, UINT64_MAX, 0, 2, 1},
        {OP_FETCH_ADD, 0x0102030405060708, 0, 0, 0x0102030405060708},
        {OP_CMP_SWAP, 5, 5, 0x1122334455667788, 0x1122334455667788},
        {OP_CMP_SWAP, 5, 6, 0x1122334455667788, 5},
    };
    struct peer *p = *state;

    for (uint32_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct sent_packet *s;

        set_word(p, rows[i].before);
        peer_sends(p, (struct script){.operation = rows[i].operation,
                                      .psn = i,
                                      .ack_req = true,
                                      .remote = TARGET,
                                      .compare = rows[i].compare,
                                      .swap_add = rows[i].swap_add});
        s = expect_packet(p, OP_ATOMIC_ACK, i);
        assert_true(s->p.h.atomic_ack.original == rows[i].before);
        assert_int_equal(s->p.h.aeth.msn.value, i + 1);
        assert_true(word_at_target(p) == rows[i].after);
        expect_silence(p);
    }
    expect_untouched(&p->ep, TARGET + 8, 8);
}

/* F24: the saved result, and memory changes once. */
static void duplicate_atomic_is_answered_with_what_it_found_the_first_time(void **state)
{
    struct peer *p = *state;
    struct script add = {.operation = OP_FETCH_ADD, .remote = TARGET, .swap_add = 10};

    for (add.psn = 0; add.psn < 6; add.psn++) {
        peer_sends(p, add);
        assert_true(expect_packet(p, OP_ATOMIC_ACK, add.psn)->p.h.atomic_ack.original ==
                    10 * add.psn);
    }
    for (add.psn = 5; add.psn >= 2; add.psn--) { /* dest_rd_atomic is 4: the last four are kept */
        peer_sends(p, add);
        assert_true(expect_packet(p, OP_ATOMIC_ACK, add.psn)->p.h.atomic_ack.original ==
                    10 * add.psn);
        p->sent_head = p->sent_tail;
    }
    assert_true(word_at_target(p) == 60);
}

static void duplicate_atomic_that_is_no_longer_kept_is_not_executed_again(void **state)
{
    struct peer *p = *state;
    struct script add = {.operation = OP_FETCH_ADD, .remote = TARGET, .swap_add = 10};

    for (add.psn = 0; add.psn < 6; add.psn++)
        peer_sends(p, add);
    p->sent_head = p->sent_tail;
    add.psn = 0;
    peer_sends(p, add);
    expect_silence(p);
    assert_true(word_at_target(p) == 60);
}

/* IBA 9.4.5: atomics work on naturally aligned words. */
static void unaligned_atomic_is_refused(void **state)
{
    struct peer *p = *state;
    const struct endpoint_config config = p->ep.config;

    for (uint64_t off = 1; off < 8; off++) {
        reopen(p, &config);
        peer_sends(p,
                   (struct script){
                       .operation = OP_FETCH_ADD, .psn = 0, .remote = TARGET + off, .swap_add = 1});
        expect_nak(p, NAK_INVALID_REQUEST, 0, 0);
        expect_untouched(&p->ep, TARGET, 16);
        expect_dead(p);
    }
}

/* --- what is not even looked at --- */

static void send_spoiled(struct peer *p, size_t byte, uint8_t keep, uint8_t set)
{
    uint8_t bytes[PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX];
    size_t len = peer_writes(
        p, (struct script){.operation = OP_SEND_ONLY, .psn = 0, .ack_req = true, .len = 8}, bytes);

    bytes[byte] = (uint8_t)((bytes[byte] & keep) | set);
    peer_sends_bytes(p, bytes, len);
    peer_listens(p);
}

static void header_that_is_not_for_us_is_dropped_in_silence(void **state)
{
    struct peer *p = *state;

    endpoint_post_recv(&p->ep, 1, 0, 100);
    send_spoiled(p, 2, 0, 0x12); /* P_Key 0x12ff */
    expect_counter(&p->ep, wrong_pkey, 1);
    send_spoiled(p, 1, 0xf0, 0x01); /* transport version 1 */
    expect_counter(&p->ep, malformed, 1);
    send_spoiled(p, 0, 0, 0x24); /* UC SEND ONLY */
    expect_counter(&p->ep, wrong_service, 1);
    send_spoiled(p, 7, 0, 0x01); /* another QPN */
    send_spoiled(p, 5, 0, 0x77); /* another slot */
    expect_counter(&p->ep, no_qp, 2);
    expect_silence(p);
    expect_no_completion(p->ep.recv_cq);
}

/* F07, F11: reserved bits and MigReq say nothing; a limited member's P_Key is good. */
static void header_bits_that_say_nothing_are_ignored(void **state)
{
    static const struct {
        size_t byte;
        uint8_t keep;
        uint8_t set;
    } rows[] = {
        {1, 0xff, 0x40}, /* MigReq */
        {4, 0x00, 0xff}, /* FECN, BECN, reserved */
        {8, 0xff, 0x7f}, /* reserved beside AckReq */
        {2, 0x7f, 0x7f}, /* P_Key 0x7fff */
    };
    struct peer *p = *state;
    const struct endpoint_config config = p->ep.config;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        reopen(p, &config);
        endpoint_post_recv(&p->ep, 1, 0, 100);
        send_spoiled(p, rows[i].byte, rows[i].keep, rows[i].set);
        expect_ack(p, 0, 1);
        expect_receive(p, 1, 8);
    }
}

static void packet_from_another_address_is_dropped(void **state)
{
    struct peer *p = *state;
    uint8_t bytes[PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX];
    const size_t len = peer_writes(
        p, (struct script){.operation = OP_SEND_ONLY, .psn = 0, .ack_req = true, .len = 8}, bytes);
    const struct datagram d = {.src = endpoint_gid(9),
                               .dst = endpoint_gid(2),
                               .src_port = 0xc123,
                               .bytes = bytes,
                               .len = len};

    endpoint_post_recv(&p->ep, 1, 0, 100);
    engine_receive(p->ep.engine, &d, p->ep.now);
    expect_silence(p);
    expect_counter(&p->ep, wrong_source, 1);
    expect_no_completion(p->ep.recv_cq);
}

/* F04, F05, F06: every opcode at every short length, with the PSN expected and past it. */
static void no_short_packet_of_any_opcode_does_harm(void **state)
{
    struct peer *p = *state;
    const struct endpoint_config config = p->ep.config;
    uint8_t bytes[96];

    for (unsigned opcode = 0; opcode < 256; opcode++) {
        for (uint8_t ahead = 0; ahead < 2; ahead++) {
            reopen(p, &config);
            for (size_t len = 0; len <= sizeof(bytes); len++) {
                const uint32_t qpn = qp_qpn(p->ep.qp);
                const struct psn psn = psn_add(psn_make(p->psn_start), ahead);

                memset(bytes, 0, sizeof(bytes));
                bytes[0] = (uint8_t)opcode;
                bytes[1] = (uint8_t)((len & 3) << 4);
                bytes[2] = 0xff;
                bytes[3] = 0xff;
                bytes[5] = (uint8_t)(qpn >> 16);
                bytes[6] = (uint8_t)(qpn >> 8);
                bytes[7] = (uint8_t)qpn;
                bytes[9] = (uint8_t)(psn.value >> 16);
                bytes[10] = (uint8_t)(psn.value >> 8);
                bytes[11] = (uint8_t)psn.value;
                peer_sends_bytes(p, bytes, len);
                peer_listens(p);
            }
            expect_untouched(&p->ep, 0, 4096);
        }
    }
}

/* --- the queue pair's end, and shared receive queues --- */

/* F46: in order, each once, and posts in the error state complete as flushed. */
static void error_flushes_the_receive_queue_in_order(void **state)
{
    struct peer *p = *state;

    for (uint32_t i = 0; i < 4; i++)
        endpoint_post_recv(&p->ep, i, 0, 1000);
    peer_sends(p, (struct script){.operation = OP_SEND_FIRST, .psn = 0, .len = PMTU});
    endpoint_modify_state(&p->ep, QP_ERR, 0, NULL);
    for (uint32_t i = 0; i < 4; i++)
        expect_completion(p->ep.recv_cq, i, STATUS_WR_FLUSH_ERR);
    expect_no_completion(p->ep.recv_cq);
    endpoint_post_recv(&p->ep, 9, 0, 10);
    expect_completion(p->ep.recv_cq, 9, STATUS_WR_FLUSH_ERR);
    expect_dead(p);
}

static void reset_forgets_work_and_completions(void **state)
{
    struct peer *p = *state;

    endpoint_post_recv(&p->ep, 1, 0, 1000);
    endpoint_post_recv(&p->ep, 2, 0, 1000);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 0, .len = 1});
    endpoint_modify_state(&p->ep, QP_RESET, 0, NULL);
    expect_no_completion(p->ep.recv_cq);
    endpoint_connect(&p->ep, PEER_QPN);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 0, .ack_req = true, .len = 1});
    expect_rnr_nak(p, 12, 0, 0);
}

static void shared_receive_queue_serves_and_outlives_the_queue_pair(void **state)
{
    struct peer *p = *state;
    struct endpoint_config config = p->ep.config;

    config.with_srq = true;
    reopen(p, &config);
    endpoint_post_recv(&p->ep, 1, 0, 100);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 0, .ack_req = true, .len = 8});
    assert_int_equal(expect_packet(p, OP_ACK, 0)->p.h.aeth.syndrome,
                     aeth_make(AETH_ACK, AETH_CREDITS_INVALID)); /* IBA 9.7.7.2: no credits */
    expect_receive(p, 1, 8);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 1, .ack_req = true, .len = 8});
    expect_rnr_nak(p, 12, 1, 1);
    endpoint_post_recv(&p->ep, 2, 0, 100);
    peer_sends(p, (struct script){.operation = OP_WRITE_ONLY,
                                  .psn = 1,
                                  .len = 8,
                                  .dma_len = 8,
                                  .remote = TARGET,
                                  .rkey = 1});
    expect_nak(p, NAK_REMOTE_ACCESS, 1, 1);
    expect_no_completion(p->ep.recv_cq); /* what is posted to the SRQ is others' too */
    expect_event(&p->ep, ENGINE_EVENT_QP_ACCESS_ERR);
    expect_event(&p->ep, ENGINE_EVENT_LAST_WQE); /* F64 */
    endpoint_modify_state(&p->ep, QP_ERR, 0, NULL);
    expect_no_event(&p->ep);
}

/* IBA 9.7.7.2: credits are the receives that are posted and not used. */
static void acknowledgement_carries_the_credits(void **state)
{
    struct peer *p = *state;

    for (uint32_t i = 0; i < 4; i++)
        endpoint_post_recv(&p->ep, i, 0, 100);
    for (uint32_t psn = 0; psn < 4; psn++) {
        uint8_t syndrome;

        peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = psn, .ack_req = true});
        syndrome = expect_packet(p, OP_ACK, psn)->p.h.aeth.syndrome;
        assert_int_equal(aeth_kind(syndrome), AETH_ACK);
        assert_int_equal(credits_decode(aeth_value(syndrome)), 3 - psn);
        assert_int_not_equal(aeth_value(syndrome), AETH_CREDITS_INVALID);
    }
}

/* IBA 10.3.1: RTR takes requests; the first one raises communication established. */
static void first_request_in_rtr_raises_communication_established(void **state)
{
    struct peer *p = *state;
    const struct qp_attr attr = {
        .port = 1,
        .access = ENDPOINT_RIGHTS,
        .path = {.src = endpoint_gid(2), .dst = endpoint_gid(3), .hop_limit = 64},
        .pmtu = PMTU,
        .dest_qpn = PEER_QPN,
        .rq_psn = psn_make(p->psn_start),
        .dest_rd_atomic = 4,
    };

    endpoint_modify_state(&p->ep, QP_RESET, 0, NULL);
    endpoint_modify_state(&p->ep, QP_INIT, QP_ATTR_PKEY_INDEX | QP_ATTR_PORT | QP_ATTR_ACCESS,
                          &attr);
    peer_sends(p, (struct script){.operation = OP_WRITE_ONLY, .psn = 0, .ack_req = true});
    expect_silence(p);
    expect_counter(&p->ep, wrong_state, 1);
    endpoint_modify_state(&p->ep, QP_RTR,
                          QP_ATTR_AV | QP_ATTR_PMTU | QP_ATTR_DEST_QPN | QP_ATTR_RQ_PSN |
                              QP_ATTR_DEST_RD_ATOMIC | QP_ATTR_MIN_RNR_TIMER,
                          &attr);
    for (uint32_t psn = 0; psn < 3; psn++) {
        peer_sends(p, (struct script){.operation = OP_WRITE_ONLY, .psn = psn, .ack_req = true});
        expect_ack(p, psn, psn + 1);
    }
    expect_event(&p->ep, ENGINE_EVENT_COMM_EST);
    expect_no_event(&p->ep);
}

#define TEST(name)                                                                                 \
    {#name, name, setup, teardown, (void *)(uintptr_t)&psn_starts[0]},                             \
    {                                                                                              \
#name " (PSN wraps)", name, setup, teardown, (void *)(uintptr_t)&psn_starts[1]             \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(send_is_delivered_and_acknowledged),
        TEST(send_of_three_packets_is_one_message),
        TEST(ack_request_within_a_message_is_answered_with_the_msn_before_it),
        TEST(one_acknowledgement_stands_for_all_before_it),
        TEST(no_acknowledgement_is_sent_that_was_not_asked_for),
        TEST(immediate_and_invalidate_come_with_the_completion),
        TEST(invalidate_of_a_key_that_is_not_the_peers_to_end_is_refused),
        TEST(solicited_counts_only_at_the_end_of_a_message),
        TEST(send_without_a_receive_is_told_to_wait),
        TEST(rest_of_a_message_that_must_wait_is_dropped_in_silence),
        TEST(send_longer_than_its_receive_is_refused),
        TEST(send_that_grows_too_long_in_the_middle_is_refused_there),
        TEST(receive_into_memory_that_is_not_the_programs_fails_on_both_sides),
        TEST(message_is_scattered_over_all_sges_of_its_receive),
        TEST(gap_is_told_once_and_heals),
        TEST(duplicate_is_acknowledged_with_the_newest_psn_and_not_delivered),
        TEST(half_of_the_psn_space_is_behind_and_half_ahead),
        TEST(opcode_that_does_not_continue_the_message_is_refused),
        TEST(length_that_does_not_fit_is_refused),
        TEST(write_is_placed_and_needs_no_receive),
        TEST(write_with_immediate_takes_a_receive_but_not_its_buffer),
        TEST(write_with_immediate_without_a_receive_waits_at_its_last_packet),
        TEST(request_of_no_bytes_needs_no_key),
        TEST(access_that_is_not_allowed_is_refused),
        TEST(request_that_the_queue_pair_does_not_do_is_refused),
        TEST(region_that_goes_away_within_a_write_ends_it),
        TEST(region_that_goes_away_before_a_read_is_answered_ends_it),
        TEST(memory_that_is_gone_under_a_region_fails_the_request),
        TEST(read_is_answered_first_middle_last),
        TEST(read_of_each_size_is_cut_at_the_pmtu),
        TEST(reads_are_answered_in_order_before_the_acknowledgement_of_what_follows),
        TEST(duplicate_read_is_answered_again_from_where_it_asks),
        TEST(duplicate_read_opens_no_other_memory),
        TEST(more_reads_than_agreed_are_refused),
        TEST(reads_that_were_answered_make_room_for_others),
        TEST(atomics_change_memory_and_return_what_was_there),
        TEST(duplicate_atomic_is_answered_with_what_it_found_the_first_time),
        TEST(duplicate_atomic_that_is_no_longer_kept_is_not_executed_again),
        TEST(unaligned_atomic_is_refused),
        TEST(header_that_is_not_for_us_is_dropped_in_silence),
        TEST(header_bits_that_say_nothing_are_ignored),
        TEST(packet_from_another_address_is_dropped),
        TEST(no_short_packet_of_any_opcode_does_harm),
        TEST(error_flushes_the_receive_queue_in_order),
        TEST(reset_forgets_work_and_completions),
        TEST(shared_receive_queue_serves_and_outlives_the_queue_pair),
        TEST(acknowledgement_carries_the_credits),
        TEST(first_request_in_rtr_raises_communication_established),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
