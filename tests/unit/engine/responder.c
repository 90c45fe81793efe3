/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The responder of RC against packets made by hand: which requests are taken
 * and what is answered (IBA 9.7.4, 9.7.5), and what Linux rxe was seen to do
 * where the specification leaves a choice.
 */
#include "rc_script.h"

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

/* IBA 9.7.5; the MSN counts messages, not packets. */
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

static void immediate_comes_with_the_completion(void **state)
{
    struct peer *p = *state;
    struct completion c;

    endpoint_post_recv(&p->ep, 1, 0, 100);
    peer_sends(
        p, (struct script){.operation = OP_SEND_ONLY_IMM, .psn = 0, .len = 4, .imm = 0x12345678});
    c = expect_completion(p->ep.recv_cq, 1, STATUS_SUCCESS);
    assert_int_equal(c.flags, COMPLETION_IMM);
    assert_int_equal(c.imm, 0x12345678);
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

/* IBA 9.7.5.2: RNR NAK with the QP's timer code; the repeat is then taken. */
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

/* IBA 9.7.5.2.4: more than the receive request holds. Nothing is written behind it. */
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

/* IBA 9.7.5: one NAK for a gap, then silence until the expected packet comes. */
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

/* IBA 9.7.5.1 and rxe: the newest PSN and the present MSN; nothing is delivered twice. */
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

/* IBA 9.7.4.1, table of opcode sequences. */
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
    peer_listens(p);
    expect_ack(p, 0, 0); /* farewell.c */
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
    peer_listens(p);
    peer_forgets(p); /* farewell.c */
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

/*
 * IBA 10.2.9.3, 11.2.5.4: what a QP had taken for a message goes with the QP, without a completion,
 * and its place in the SRQ is free again. To ERR it is flushed (10.3.1).
 */
static void
queue_pair_that_ends_in_the_middle_of_a_message_leaves_the_shared_queue_whole(void **state)
{
    struct peer *p = *state;
    struct endpoint_config config = p->ep.config;
    struct srq_attr attr;

    config.with_srq = true;
    reopen(p, &config);
    srq_query(p->ep.srq, &attr);
    for (uint32_t round = 0; round < 2; round++) {
        for (uint64_t i = 0; i < attr.wr_max; i++)
            endpoint_post_recv(&p->ep, i, 0, 1000);
        peer_sends(p, (struct script){.operation = OP_SEND_FIRST, .psn = 0, .len = PMTU});
        endpoint_modify_state(&p->ep, round == 0 ? QP_RESET : QP_ERR, 0, NULL);
        if (round == 1)
            expect_completion(p->ep.recv_cq, 0, STATUS_WR_FLUSH_ERR);
        expect_no_completion(p->ep.recv_cq);
        endpoint_post_recv(&p->ep, 99, 0, 1000); /* it is not lost to the queue */
        endpoint_modify_state(&p->ep, QP_RESET, 0, NULL);
        endpoint_connect(&p->ep, PEER_QPN);
        for (uint32_t i = 0; i < attr.wr_max; i++)
            peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = i, .len = 1});
        for (uint64_t i = 1; i < attr.wr_max; i++)
            expect_completion(p->ep.recv_cq, i, STATUS_SUCCESS);
        expect_completion(p->ep.recv_cq, 99, STATUS_SUCCESS);
        endpoint_modify_state(&p->ep, QP_RESET, 0, NULL);
        endpoint_connect(&p->ep, PEER_QPN);
    }
}

/* F78: the keys of shared receives are of the SRQ's domain, whatever the queue pair's is. */
static void shared_receive_uses_keys_of_its_own_domain(void **state)
{
    struct peer *p = *state;
    struct mr_attr mr_attr = {
        .base = p->ep.memory, .len = 100, .iova = at(0), .access = ACCESS_LOCAL_WRITE};

    for (uint32_t i = 0; i < 2; i++) {
        struct srq_attr srq_attr = {.wr_max = 1, .sge_max = 1};
        struct qp_init init = {.service = SERVICE_RC,
                               .pd = p->ep.pd,
                               .send_cq = p->ep.send_cq,
                               .recv_cq = p->ep.recv_cq};
        struct sge sge = {.addr = at(0), .length = 100, .lkey = p->ep.mr->key};
        struct qp *own = p->ep.qp;
        struct mr *mr;
        struct pd *pd;

        assert_int_equal(pd_new(p->ep.engine, &pd), 0);
        assert_int_equal(mr_new(pd, &mr_attr, &mr), 0);
        assert_int_equal(srq_new(pd, &srq_attr, NULL, &init.srq), 0);
        assert_int_equal(qp_new(p->ep.engine, &init, &p->ep.qp), 0);
        endpoint_connect(&p->ep, PEER_QPN);
        if (i == 0)
            sge.lkey = mr->key;
        assert_int_equal(
            srq_post(init.srq, &(struct recv_wr){.wr_id = 1, .sges = &sge, .sge_count = 1}), 0);
        peer_sends(p,
                   (struct script){.operation = OP_SEND_ONLY, .psn = 0, .ack_req = true, .len = 8});
        if (i == 0) {
            expect_ack(p, 0, 1);
            expect_receive(p, 1, 8);
        } else {
            expect_nak(p, NAK_REMOTE_OPERATIONAL, 0, 0);
            expect_completion(p->ep.recv_cq, 1, STATUS_LOC_PROT_ERR);
        }
        qp_free(p->ep.qp);
        peer_listens(p);
        peer_forgets(p); /* farewell.c */
        p->ep.qp = own;
        assert_int_equal(srq_free(init.srq), 0);
        mr_free(mr);
        pd_free(pd);
    }
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        RC_TEST(send_is_delivered_and_acknowledged),
        RC_TEST(send_of_three_packets_is_one_message),
        RC_TEST(ack_request_within_a_message_is_answered_with_the_msn_before_it),
        RC_TEST(one_acknowledgement_stands_for_all_before_it),
        RC_TEST(no_acknowledgement_is_sent_that_was_not_asked_for),
        RC_TEST(immediate_comes_with_the_completion),
        RC_TEST(solicited_counts_only_at_the_end_of_a_message),
        RC_TEST(send_without_a_receive_is_told_to_wait),
        RC_TEST(rest_of_a_message_that_must_wait_is_dropped_in_silence),
        RC_TEST(send_longer_than_its_receive_is_refused),
        RC_TEST(send_that_grows_too_long_in_the_middle_is_refused_there),
        RC_TEST(receive_into_memory_that_is_not_the_programs_fails_on_both_sides),
        RC_TEST(message_is_scattered_over_all_sges_of_its_receive),
        RC_TEST(gap_is_told_once_and_heals),
        RC_TEST(duplicate_is_acknowledged_with_the_newest_psn_and_not_delivered),
        RC_TEST(half_of_the_psn_space_is_behind_and_half_ahead),
        RC_TEST(opcode_that_does_not_continue_the_message_is_refused),
        RC_TEST(length_that_does_not_fit_is_refused),
        RC_TEST(header_that_is_not_for_us_is_dropped_in_silence),
        RC_TEST(header_bits_that_say_nothing_are_ignored),
        RC_TEST(packet_from_another_address_is_dropped),
        RC_TEST(no_short_packet_of_any_opcode_does_harm),
        RC_TEST(error_flushes_the_receive_queue_in_order),
        RC_TEST(reset_forgets_work_and_completions),
        RC_TEST(shared_receive_queue_serves_and_outlives_the_queue_pair),
        RC_TEST(queue_pair_that_ends_in_the_middle_of_a_message_leaves_the_shared_queue_whole),
        RC_TEST(shared_receive_uses_keys_of_its_own_domain),
        RC_TEST(acknowledgement_carries_the_credits),
        RC_TEST(first_request_in_rtr_raises_communication_established),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
