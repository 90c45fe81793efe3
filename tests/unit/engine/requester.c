/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requester of RC against a peer made by hand: what leaves for each
 * request, in which order, and how it ends (IBA 9.7.3, 9.9.2, 10.3.1).
 */
#include "rc_script.h"

#include "support/pattern.h"

/* --- what leaves --- */

/* F50: the borders of ONLY, FIRST and LAST, for each path MTU. */
static void message_of_each_size_is_cut_at_the_pmtu(void **state)
{
    static const uint32_t pmtus[] = {256, 512, 1024, 2048, 4096};
    static const struct cut send = {OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST, OP_SEND_ONLY};
    static const struct cut write = {OP_WRITE_FIRST, OP_WRITE_MIDDLE, OP_WRITE_LAST, OP_WRITE_ONLY};
    struct peer *p = *state;
    struct endpoint_config config = p->ep.config;

    for (size_t m = 0; m < 5; m++) {
        const uint32_t pmtu = pmtus[m];
        const uint32_t lens[] = {0, 1, pmtu - 1, pmtu, pmtu + 1, 2 * pmtu, 2 * pmtu + 3};
        uint32_t psn = 0;

        config.pmtu = pmtu;
        reopen(p, &config);
        for (uint32_t i = 0; i < 14; i += 2) {
            post_send(p, i, lens[i / 2]);
            psn += expect_message(p, &send, psn, i, lens[i / 2]);
            post_write(p, i + 1, lens[i / 2]);
            psn += expect_message(p, &write, psn, i + 1, lens[i / 2]);
            assert_true(p->sent[p->sent_tail - 1].p.h.bth.ack_req);
            peer_acks(p, psn - 1, i + 2);
            expect_done(p, i);
            expect_done(p, i + 1);
        }
    }
}

static void write_says_where_it_goes_in_its_first_packet(void **state)
{
    static const uint32_t lens[] = {0, 8, 3 * PMTU};
    struct peer *p = *state;

    for (uint32_t i = 0; i < 3; i++) {
        const struct sent_packet *s = &p->sent[p->sent_tail];

        post_write(p, i, lens[i]);
        assert_true(s->p.h.reth.va == at(FAR));
        assert_int_equal(s->p.h.reth.rkey, RKEY);
        assert_int_equal(s->p.h.reth.dma_len, lens[i]);
    }
}

/* F01, F07, F09, F11: pad is zero and counted, reserved bits are zero, MigReq is set. */
static void header_bits_are_as_they_should_be(void **state)
{
    struct peer *p = *state;

    for (uint32_t i = 0; i < 4; i++) {
        const struct sent_packet *s;

        post(p, (struct work){
                    .wr_id = i, .opcode = WR_SEND, .flags = WR_SOLICITED, .len = PMTU + 1 + i});
        peer_listens(p);
        s = expect_packet(p, OP_SEND_FIRST, 2 * i);
        assert_false(s->p.h.bth.solicited);
        s = expect_packet(p, OP_SEND_LAST, 2 * i + 1);
        assert_true(s->p.h.bth.solicited);
        assert_true(s->p.h.bth.mig_req);
        assert_false(s->p.h.bth.fecn);
        assert_false(s->p.h.bth.becn);
        assert_int_equal(s->p.h.bth.pkey, 0xffff);
        assert_int_equal(s->p.h.bth.dest_qpn, PEER_QPN);
        assert_int_equal(s->p.h.bth.pad_count, 3 - i);
        assert_int_equal(s->bytes[4], 0);
        assert_int_equal(s->bytes[8], 0x80);
        for (uint32_t pad = 0; pad < 3 - i; pad++)
            assert_int_equal(s->bytes[s->len - ICRC_LEN - 1 - pad], 0);
        peer_acks(p, 2 * i + 1, i + 1);
    }
}

static void immediate_and_invalidate_ride_on_the_last_packet(void **state)
{
    static const struct {
        enum wr_opcode opcode;
        enum operation_code only;
        enum operation_code last;
    } rows[] = {
        {WR_SEND_IMM, OP_SEND_ONLY_IMM, OP_SEND_LAST_IMM},
        {WR_SEND_INV, OP_SEND_ONLY_INV, OP_SEND_LAST_INV},
        {WR_WRITE_IMM, OP_WRITE_ONLY_IMM, OP_WRITE_LAST_IMM},
    };
    struct peer *p = *state;

    for (uint32_t i = 0; i < 3; i++) {
        const struct sent_packet *s;

        post(p,
             (struct work){
                 .wr_id = 1, .opcode = rows[i].opcode, .len = 5, .imm = 0x11223344, .remote = FAR});
        peer_listens(p);
        s = expect_packet(p, rows[i].only, 3 * i);
        assert_int_equal(rows[i].opcode == WR_SEND_INV ? s->p.h.ieth : s->p.h.imm, 0x11223344);
        post(p, (struct work){.wr_id = 1,
                              .opcode = rows[i].opcode,
                              .len = PMTU + 5,
                              .imm = 0x55667788,
                              .remote = FAR});
        peer_listens(p);
        p->sent_head++;
        s = expect_packet(p, rows[i].last, 3 * i + 2);
        assert_int_equal(rows[i].opcode == WR_SEND_INV ? s->p.h.ieth : s->p.h.imm, 0x55667788);
    }
}

static void inline_bytes_are_those_at_the_time_of_the_post(void **state)
{
    struct peer *p = *state;

    post(p, (struct work){.wr_id = 1, .opcode = WR_SEND, .flags = WR_INLINE, .len = 220});
    endpoint_fill(&p->ep, 0, 99, 0, 220);
    peer_listens(p);
    expect_data(p, OP_SEND_ONLY, 0, 1, 0, 220);
}

static void several_sges_are_gathered_with_their_own_lengths(void **state)
{
    struct peer *p = *state;
    const uint32_t key = p->ep.mr->key;
    const struct sge sges[] = {
        {at(3), 100, key}, {at(1000), 0, 0}, {at(2000), 157, key}, {at(4096), 43, key}};
    const struct send_wr wr = {
        .wr_id = 1, .opcode = WR_SEND, .flags = WR_SIGNALED, .sges = sges, .sge_count = 4};

    endpoint_fill(&p->ep, 3, 5, 0, 100);
    endpoint_fill(&p->ep, 2000, 5, 100, 157);
    endpoint_fill(&p->ep, 4096, 5, 257, 43);
    assert_int_equal(qp_post_send(p->ep.qp, &wr), 0);
    peer_listens(p);
    expect_data(p, OP_SEND_FIRST, 0, 5, 0, PMTU);
    expect_data(p, OP_SEND_LAST, 1, 5, PMTU, 300 - PMTU);
}

static void requests_of_one_batch_ask_for_one_acknowledgement(void **state)
{
    struct peer *p = *state;

    for (uint32_t i = 0; i < 5; i++)
        post(p, (struct work){.wr_id = i, .opcode = WR_SEND, .len = 8, .unsignaled = i != 4});
    peer_listens(p);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(expect_packet(p, OP_SEND_ONLY, i)->p.h.bth.ack_req, i == 4);
    peer_acks(p, 4, 5);
    expect_done(p, 4);
    expect_no_completion(p->ep.send_cq);
}

/* What is on its way brings an acknowledgement, and with it the next occasion to send. */
static void posts_may_gather_only_while_an_acknowledgement_is_to_come(void **state)
{
    struct peer *p = *state;

    post(p, (struct work){.wr_id = 0, .opcode = WR_SEND, .len = 8, .unsignaled = true});
    assert_false(qp_may_gather(p->ep.qp)); /* nothing is on its way yet */
    peer_listens(p);
    for (uint32_t i = 1; i <= 15; i++) {
        post(p, (struct work){.wr_id = i, .opcode = WR_SEND, .len = 8, .unsignaled = true});
        assert_true(qp_may_gather(p->ep.qp));
    }
    post(p, (struct work){.wr_id = 16, .opcode = WR_SEND, .len = 8, .unsignaled = true});
    assert_false(qp_may_gather(p->ep.qp)); /* enough for a batch */
    peer_acks(p, 0, 1);
    assert_int_equal(p->sent_tail, 17); /* the acknowledgement let them go */
    peer_acks(p, 16, 17);
    assert_false(qp_may_gather(p->ep.qp));
}

static void large_write_stays_within_the_window_and_arrives_whole(void **state)
{
    struct peer *p = *state;
    const uint32_t len = 300000;
    const uint32_t count = (len + PMTU - 1) / PMTU;
    uint32_t acked = 0;

    post_write(p, 1, len);
    while (acked < count) {
        const uint32_t from = acked;
        const struct sent_packet *s = NULL;

        assert_true(p->sent_head < p->sent_tail);
        for (; p->sent_head < p->sent_tail; acked++) {
            const bool last = acked == count - 1;

            s = expect_data(p,
                            acked == 0 ? OP_WRITE_FIRST
                            : last     ? OP_WRITE_LAST
                                       : OP_WRITE_MIDDLE,
                            acked, 1, acked * PMTU, last ? len - acked * PMTU : PMTU);
        }
        assert_true(s->p.h.bth.ack_req); /* what blocks must ask for what unblocks */
        assert_true((acked - from) * PMTU <= 131072);
        peer_acks(p, acked - 1, acked == count);
    }
    expect_done(p, 1);
    expect_no_repeats(p);
}

/* --- order among requests --- */

/* F43: the fence waits for READs and atomics, for nothing else. */
static void fence_waits_for_reads_and_atomics_only(void **state)
{
    struct peer *p = *state;

    post_write(p, 1, 8);
    post(p, (struct work){.wr_id = 2, .opcode = WR_SEND, .flags = WR_FENCE, .len = 8});
    peer_listens(p);
    expect_packet(p, OP_WRITE_ONLY, 0);
    expect_packet(p, OP_SEND_ONLY, 1);
    post_read(p, 3, 1000, 8);
    expect_read_request(p, 2, FAR, 8);
    post(p,
         (struct work){.wr_id = 4, .opcode = WR_WRITE, .flags = WR_FENCE, .len = 8, .remote = FAR});
    peer_listens(p);
    expect_silence(p);
    peer_acks(p, 1, 2);
    expect_silence(p);
    peer_answers_read(p, OP_READ_RESP_ONLY, 2, 7, 0, 8);
    expect_packet(p, OP_WRITE_ONLY, 3);
    expect_silence(p);
}

/* IBA 9.7.7.2: what needs a receive waits for credits; with nothing outstanding one may probe. */
static void credits_hold_back_what_needs_a_receive(void **state)
{
    struct peer *p = *state;
    const struct script no_credits = {
        .operation = OP_ACK, .psn = 0, .msn = 1, .syndrome = aeth_make(AETH_ACK, 0)};
    struct script one_credit = {
        .operation = OP_ACK, .psn = 1, .msn = 2, .syndrome = aeth_make(AETH_ACK, 1)};

    post_send(p, 1, 8);
    expect_packet(p, OP_SEND_ONLY, 0);
    peer_sends(p, no_credits);
    for (uint32_t i = 0; i < 4; i++)
        post(p, (struct work){.wr_id = 2 + i, .opcode = WR_SEND, .len = 8});
    peer_listens(p);
    expect_packet(p, OP_SEND_ONLY, 1); /* the probe */
    expect_silence(p);
    peer_sends(p, one_credit);
    expect_packet(p, OP_SEND_ONLY, 2);
    expect_silence(p);
    one_credit.psn = 2;
    one_credit.msn = 3;
    one_credit.syndrome = aeth_make(AETH_ACK, 2);
    peer_sends(p, one_credit);
    expect_packet(p, OP_SEND_ONLY, 3);
    expect_packet(p, OP_SEND_ONLY, 4);
    expect_silence(p);
}

static void credits_do_not_hold_back_writes_and_reads(void **state)
{
    struct peer *p = *state;

    post_send(p, 1, 8);
    peer_sends(p, (struct script){
                      .operation = OP_ACK, .psn = 0, .msn = 1, .syndrome = aeth_make(AETH_ACK, 0)});
    p->sent_head = p->sent_tail;
    for (uint32_t i = 0; i < 3; i++)
        post_write(p, 2 + i, 8);
    post_read(p, 5, 1000, 8);
    for (uint32_t psn = 1; psn < 4; psn++)
        expect_packet(p, OP_WRITE_ONLY, psn);
    expect_read_request(p, 4, FAR, 8);
}

/* --- errors --- */

/* IBA 9.9.2.4.2: the error at its PSN, success before it, flushed behind it; each once. */
static void nak_fails_the_request_at_its_psn_and_flushes_the_rest(void **state)
{
    static const struct {
        enum nak_code code;
        enum completion_status status;
    } rows[] = {
        {NAK_INVALID_REQUEST, STATUS_REM_INV_REQ_ERR},
        {NAK_REMOTE_ACCESS, STATUS_REM_ACCESS_ERR},
        {NAK_REMOTE_OPERATIONAL, STATUS_REM_OP_ERR},
    };
    struct peer *p = *state;
    const struct endpoint_config config = p->ep.config;

    for (size_t i = 0; i < 3; i++) {
        reopen(p, &config);
        endpoint_post_recv(&p->ep, 77, 0, 10);
        post_write(p, 1, 8);
        post_write(p, 2, 2 * PMTU);
        post(p, (struct work){.wr_id = 3, .opcode = WR_SEND, .len = 8, .unsignaled = true});
        post_send(p, 4, 8);
        p->sent_head = p->sent_tail;
        peer_naks(p, rows[i].code, 2);
        expect_done(p, 1);
        expect_completion(p->ep.send_cq, 2, rows[i].status);
        expect_completion(p->ep.send_cq, 3, STATUS_WR_FLUSH_ERR);
        expect_completion(p->ep.send_cq, 4, STATUS_WR_FLUSH_ERR);
        expect_completion(p->ep.recv_cq, 77, STATUS_WR_FLUSH_ERR);
        assert_int_equal(qp_state(p->ep.qp), QP_ERR);
        peer_acks(p, 4, 4); /* F48 */
        post_send(p, 5, 8);
        expect_completion(p->ep.send_cq, 5, STATUS_WR_FLUSH_ERR);
        expect_no_completion(p->ep.send_cq);
        time_passes(p, 10 * TIMEOUT_NS);
        expect_silence(p);
    }
}

static void answer_that_contradicts_the_request_is_an_error(void **state)
{
    static const struct {
        enum wr_opcode opcode;
        struct script answer;
    } rows[] = {
        {WR_READ, {.operation = OP_READ_RESP_ONLY, .len = 7}},
        {WR_READ, {.operation = OP_READ_RESP_ONLY, .len = 9}},
        {WR_READ, {.operation = OP_ATOMIC_ACK}},
        {WR_FETCH_ADD, {.operation = OP_READ_RESP_ONLY, .len = 8}},
        {WR_WRITE, {.operation = OP_READ_RESP_ONLY, .len = 8}},
        {WR_WRITE, {.operation = OP_ATOMIC_ACK}},
    };
    struct peer *p = *state;
    const struct endpoint_config config = p->ep.config;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        reopen(p, &config);
        post(p, (struct work){
                    .wr_id = 1, .opcode = rows[i].opcode, .local = 64, .len = 8, .remote = FAR});
        peer_listens(p);
        p->sent_head = p->sent_tail;
        peer_sends(p, rows[i].answer);
        expect_completion(p->ep.send_cq, 1, STATUS_BAD_RESP_ERR);
        assert_int_equal(qp_state(p->ep.qp), QP_ERR);
        expect_untouched(&p->ep, 72, 64);
    }
}

/* F45, F47: found before it leaves; those before it are finished first, those behind it flushed. */
static void local_error_ends_a_request_in_its_turn(void **state)
{
    static const struct {
        enum wr_opcode opcode;
        uint32_t len;
        bool wrong_key;
        enum completion_status status;
    } rows[] = {
        {WR_SEND, 8, true, STATUS_LOC_PROT_ERR},
        {WR_WRITE, 3 * PMTU, true, STATUS_LOC_PROT_ERR},
        {WR_READ, 8, true, STATUS_LOC_PROT_ERR},
        {WR_FETCH_ADD, 8, true, STATUS_LOC_PROT_ERR},
        {WR_FETCH_ADD, 4, false, STATUS_LOC_LEN_ERR},
        {WR_CMP_SWAP, 16, false, STATUS_LOC_LEN_ERR},
    };
    struct peer *p = *state;
    const struct endpoint_config config = p->ep.config;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        reopen(p, &config);
        post(p, (struct work){.wr_id = 1, .opcode = WR_SEND, .len = 8});
        post(p, (struct work){.wr_id = 2,
                              .opcode = rows[i].opcode,
                              .local = 64,
                              .len = rows[i].len,
                              .lkey = rows[i].wrong_key ? p->ep.mr->key ^ 1 : 0,
                              .remote = FAR,
                              .unsignaled = true});
        post(p, (struct work){.wr_id = 3, .opcode = WR_SEND, .len = 8});
        peer_listens(p);
        expect_packet(p, OP_SEND_ONLY, 0);
        expect_silence(p);
        expect_no_completion(p->ep.send_cq);
        peer_acks(p, 0, 1);
        expect_done(p, 1);
        expect_completion(p->ep.send_cq, 2, rows[i].status);
        expect_completion(p->ep.send_cq, 3, STATUS_WR_FLUSH_ERR);
        expect_silence(p);
        assert_int_equal(qp_state(p->ep.qp), QP_ERR);
    }
}

static void read_into_memory_without_write_permission_is_a_local_error(void **state)
{
    struct peer *p = *state;
    const struct mr_attr attr = {
        .base = p->ep.memory, .len = 100, .iova = at(0), .access = ACCESS_REMOTE_READ};
    struct mr *mr;

    assert_int_equal(mr_new(p->ep.pd, &attr, &mr), 0);
    post(p, (struct work){.wr_id = 1, .opcode = WR_READ, .len = 8, .lkey = mr->key, .remote = FAR});
    peer_listens(p);
    expect_completion(p->ep.send_cq, 1, STATUS_LOC_PROT_ERR);
    expect_silence(p);
    mr_free(mr);
}

static void memory_that_is_gone_is_a_local_error_and_nothing_leaves(void **state)
{
    static const enum wr_opcode opcodes[] = {WR_SEND, WR_WRITE, WR_READ, WR_FETCH_ADD};
    struct peer *p = *state;
    struct endpoint_config config = p->ep.config;

    config.engine.copy = guarded_copy;
    for (size_t i = 0; i < 4; i++) {
        memory_is_gone = false;
        reopen(p, &config);
        post(p, (struct work){.wr_id = 1, .opcode = opcodes[i], .len = 8, .remote = FAR});
        memory_is_gone = true;
        peer_listens(p);
        if (opcodes[i] == WR_READ) {
            expect_read_request(p, 0, FAR, 8);
            peer_answers_read(p, OP_READ_RESP_ONLY, 0, 7, 0, 8);
        } else if (opcodes[i] == WR_FETCH_ADD) {
            expect_packet(p, OP_FETCH_ADD, 0);
            peer_sends(p, (struct script){.operation = OP_ATOMIC_ACK,
                                          .psn = 0,
                                          .syndrome = aeth_make(AETH_ACK, AETH_CREDITS_INVALID)});
        }
        expect_completion(p->ep.send_cq, 1, STATUS_LOC_PROT_ERR);
        expect_silence(p);
        assert_int_equal(qp_state(p->ep.qp), QP_ERR);
    }
    memory_is_gone = false;
}

/* A repeat needs the memory once more. */
static void region_that_goes_away_before_a_repeat_is_a_local_error(void **state)
{
    struct peer *p = *state;
    const struct mr_attr attr = {.base = p->ep.memory, .len = 1000, .iova = at(0)};
    struct mr *mr;

    assert_int_equal(mr_new(p->ep.pd, &attr, &mr), 0);
    post_write(p, 1, 8);
    post(p, (struct work){.wr_id = 2, .opcode = WR_SEND, .len = 8, .lkey = mr->key});
    post(p, (struct work){.wr_id = 3, .opcode = WR_SEND, .len = 8});
    peer_listens(p);
    p->sent_head = p->sent_tail;
    mr_free(mr);
    peer_naks(p, NAK_PSN_SEQUENCE, 0);
    expect_packet(p, OP_WRITE_ONLY, 0);
    expect_silence(p);
    expect_no_completion(p->ep.send_cq);
    peer_acks(p, 0, 1);
    expect_done(p, 1);
    expect_completion(p->ep.send_cq, 2, STATUS_LOC_PROT_ERR);
    expect_completion(p->ep.send_cq, 3, STATUS_WR_FLUSH_ERR);
    expect_silence(p);
}

static void read_on_a_queue_pair_without_reads_is_a_local_error(void **state)
{
    struct peer *p = *state;
    struct endpoint_config config = p->ep.config;

    config.rd_atomic = 0;
    reopen(p, &config);
    post_read(p, 1, 0, 8);
    expect_completion(p->ep.send_cq, 1, STATUS_LOC_QP_OP_ERR);
    expect_silence(p);
}

/* F44: bad request, poll, recycle, for ever. */
static void errors_and_recycling_never_lose_a_completion(void **state)
{
    struct peer *p = *state;

    for (uint32_t round = 0; round < 50; round++) {
        post_write(p, 1, 8);
        post_write(p, 2, 8);
        peer_naks(p, NAK_REMOTE_ACCESS, 0);
        expect_completion(p->ep.send_cq, 1, STATUS_REM_ACCESS_ERR);
        expect_completion(p->ep.send_cq, 2, STATUS_WR_FLUSH_ERR);
        expect_no_completion(p->ep.send_cq);
        endpoint_modify_state(&p->ep, QP_RESET, 0, NULL);
        endpoint_connect(&p->ep, PEER_QPN);
    }
}

static void posts_that_cannot_be_meant_are_refused_at_once(void **state)
{
    struct peer *p = *state;
    struct work full = {.wr_id = 1, .opcode = WR_SEND, .len = 8};

    assert_int_equal(endpoint_try_post(&p->ep, &(struct work){.opcode = (enum wr_opcode)99}),
                     -EINVAL);
    assert_int_equal(endpoint_try_post(&p->ep, &(struct work){.opcode = WR_BIND_MW}), -EINVAL);
    assert_int_equal(
        endpoint_try_post(&p->ep, &(struct work){.opcode = WR_LOCAL_INV, .flags = WR_INLINE}),
        -EINVAL);
    assert_int_equal(endpoint_try_post(
                         &p->ep, &(struct work){.opcode = WR_SEND, .flags = WR_INLINE, .len = 257}),
                     -EINVAL);
    assert_int_equal(
        endpoint_try_post(&p->ep, &(struct work){.opcode = WR_READ, .flags = WR_INLINE, .len = 8}),
        -EINVAL);
    for (uint32_t i = 0; i < p->ep.config.wr_max; i++)
        assert_int_equal(endpoint_try_post(&p->ep, &full), 0);
    assert_int_equal(endpoint_try_post(&p->ep, &full), -ENOMEM);
    endpoint_modify_state(&p->ep, QP_RESET, 0, NULL);
    assert_int_equal(endpoint_try_post(&p->ep, &full), -EINVAL);
}

/* IBA 10.8.2: so a completion queue as large as its send queues never runs over. */
static void request_counts_until_its_completion_is_polled(void **state)
{
    struct peer *p = *state;
    const uint32_t max = p->ep.config.wr_max;
    struct work w = {.wr_id = 1, .opcode = WR_SEND, .len = 8};

    for (uint32_t i = 0; i < max; i++)
        assert_int_equal(endpoint_try_post(&p->ep, &w), 0);
    peer_listens(p);
    peer_acks(p, max - 1, max);
    assert_int_equal(endpoint_try_post(&p->ep, &w), -ENOMEM);
    expect_done(p, 1);
    assert_int_equal(endpoint_try_post(&p->ep, &w), 0);
    assert_int_equal(endpoint_try_post(&p->ep, &w), -ENOMEM);
}

static void unsignalled_request_counts_until_those_before_it_are_polled(void **state)
{
    struct peer *p = *state;
    const uint32_t max = p->ep.config.wr_max;
    struct work quiet = {.wr_id = 1, .opcode = WR_SEND, .len = 8, .unsignaled = true};
    struct work loud = {.wr_id = 2, .opcode = WR_SEND, .len = 8};

    for (uint32_t i = 0; i < max; i++)
        assert_int_equal(endpoint_try_post(&p->ep, &quiet), 0);
    assert_int_equal(qp_send_room(p->ep.qp), 0);
    peer_listens(p);
    peer_acks(p, max - 1, max);
    assert_int_equal(qp_send_room(p->ep.qp), max); /* nobody can poll for them */
    endpoint_post(&p->ep, &loud);
    endpoint_post(&p->ep, &quiet);
    peer_listens(p);
    peer_acks(p, max + 1, max + 2);
    assert_int_equal(qp_send_room(p->ep.qp), max - 2);
    expect_done(p, 2);
    assert_int_equal(qp_send_room(p->ep.qp), max);
}

/* --- states --- */

/* F46, F48. */
static void modify_to_error_flushes_everything_in_order(void **state)
{
    struct peer *p = *state;

    for (uint32_t i = 0; i < 4; i++)
        post_send(p, i, 8);
    peer_acks(p, 0, 1);
    endpoint_modify_state(&p->ep, QP_ERR, 0, NULL);
    p->sent_head = p->sent_tail;
    peer_acks(p, 3, 4);
    expect_done(p, 0);
    for (uint32_t i = 1; i < 4; i++)
        expect_completion(p->ep.send_cq, i, STATUS_WR_FLUSH_ERR);
    expect_no_completion(p->ep.send_cq);
    time_passes(p, 10 * TIMEOUT_NS);
    expect_silence(p);
}

/* F65: what was started is finished, with repeats if need be; nothing new starts before RTS. */
static void drained_queue_finishes_what_it_began_and_starts_nothing(void **state)
{
    struct peer *p = *state;
    const struct qp_attr notify = {.sqd_notify = true};

    post_write(p, 1, 2 * PMTU);
    endpoint_modify_state(&p->ep, QP_SQD, QP_ATTR_SQD_NOTIFY, &notify);
    post_send(p, 2, 8);
    expect_packet(p, OP_WRITE_FIRST, 0);
    expect_packet(p, OP_WRITE_LAST, 1);
    expect_silence(p);
    expect_no_event(&p->ep);
    time_passes(p, TIMEOUT_NS);
    expect_packet(p, OP_WRITE_FIRST, 0);
    expect_packet(p, OP_WRITE_LAST, 1);
    peer_acks(p, 1, 1);
    expect_done(p, 1);
    expect_event(&p->ep, ENGINE_EVENT_SQ_DRAINED);
    expect_no_event(&p->ep);
    expect_silence(p);
    endpoint_modify_state(&p->ep, QP_RTS, 0, NULL);
    peer_listens(p);
    expect_packet(p, OP_SEND_ONLY, 2);
    peer_acks(p, 2, 2);
    expect_done(p, 2);
}

static void drain_without_notification_raises_no_event(void **state)
{
    struct peer *p = *state;

    post_write(p, 1, 8);
    endpoint_modify_state(&p->ep, QP_SQD, 0, NULL);
    peer_acks(p, 0, 1);
    expect_done(p, 1);
    expect_no_event(&p->ep);
}

static void drain_of_an_idle_queue_is_told_at_once(void **state)
{
    struct peer *p = *state;
    const struct qp_attr notify = {.sqd_notify = true};

    endpoint_modify_state(&p->ep, QP_SQD, QP_ATTR_SQD_NOTIFY, &notify);
    expect_event(&p->ep, ENGINE_EVENT_SQ_DRAINED);
    expect_no_event(&p->ep);
}

static void path_can_be_changed_once_the_queue_is_drained(void **state)
{
    struct peer *p = *state;
    const struct qp_attr attr = {
        .path = {.src = endpoint_gid(2), .dst = endpoint_gid(3), .hop_limit = 9, .flow_label = 5}};

    post_write(p, 1, 8);
    peer_acks(p, 0, 1);
    endpoint_modify_state(&p->ep, QP_SQD, 0, NULL);
    endpoint_modify_state(&p->ep, QP_SQD, QP_ATTR_AV, &attr);
    endpoint_modify_state(&p->ep, QP_RTS, 0, NULL);
    p->sent_head = p->sent_tail;
    post_write(p, 2, 8);
    expect_packet(p, OP_WRITE_ONLY, 1);
    peer_acks(p, 1, 2);
    expect_done(p, 1);
    expect_done(p, 2);
}

/* F25: more and fewer resources while READs of both directions go on. */
static void read_limits_can_be_changed_once_the_queue_is_drained(void **state)
{
    static const uint8_t limits[] = {1, 16, 4, 2};
    struct peer *p = *state;
    uint32_t psn = 0;

    for (uint32_t i = 0; i < 4; i++) {
        const struct qp_attr attr = {.rd_atomic = limits[i], .dest_rd_atomic = limits[i]};

        endpoint_modify_state(&p->ep, QP_SQD, 0, NULL);
        endpoint_modify_state(&p->ep, QP_SQD, QP_ATTR_RD_ATOMIC | QP_ATTR_DEST_RD_ATOMIC, &attr);
        endpoint_modify_state(&p->ep, QP_RTS, 0, NULL);
        for (uint32_t n = 0; n < 3; n++) {
            peer_sends(p, (struct script){.operation = OP_FETCH_ADD, .psn = psn, .swap_add = 1});
            assert_true(expect_packet(p, OP_ATOMIC_ACK, psn)->p.h.atomic_ack.original == psn);
            peer_sends(p, (struct script){.operation = OP_FETCH_ADD, .psn = psn, .swap_add = 1});
            assert_true(expect_packet(p, OP_ATOMIC_ACK, psn)->p.h.atomic_ack.original == psn);
            p->sent_head = p->sent_tail;
            psn++;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RC_TEST(message_of_each_size_is_cut_at_the_pmtu),
        RC_TEST(write_says_where_it_goes_in_its_first_packet),
        RC_TEST(header_bits_are_as_they_should_be),
        RC_TEST(immediate_and_invalidate_ride_on_the_last_packet),
        RC_TEST(inline_bytes_are_those_at_the_time_of_the_post),
        RC_TEST(several_sges_are_gathered_with_their_own_lengths),
        RC_TEST(requests_of_one_batch_ask_for_one_acknowledgement),
        RC_TEST(posts_may_gather_only_while_an_acknowledgement_is_to_come),
        RC_TEST(large_write_stays_within_the_window_and_arrives_whole),
        RC_TEST(fence_waits_for_reads_and_atomics_only),
        RC_TEST(credits_hold_back_what_needs_a_receive),
        RC_TEST(credits_do_not_hold_back_writes_and_reads),
        RC_TEST(nak_fails_the_request_at_its_psn_and_flushes_the_rest),
        RC_TEST(answer_that_contradicts_the_request_is_an_error),
        RC_TEST(local_error_ends_a_request_in_its_turn),
        RC_TEST(read_into_memory_without_write_permission_is_a_local_error),
        RC_TEST(memory_that_is_gone_is_a_local_error_and_nothing_leaves),
        RC_TEST(region_that_goes_away_before_a_repeat_is_a_local_error),
        RC_TEST(read_on_a_queue_pair_without_reads_is_a_local_error),
        RC_TEST(errors_and_recycling_never_lose_a_completion),
        RC_TEST(posts_that_cannot_be_meant_are_refused_at_once),
        RC_TEST(request_counts_until_its_completion_is_polled),
        RC_TEST(unsignalled_request_counts_until_those_before_it_are_polled),
        RC_TEST(modify_to_error_flushes_everything_in_order),
        RC_TEST(drained_queue_finishes_what_it_began_and_starts_nothing),
        RC_TEST(drain_without_notification_raises_no_event),
        RC_TEST(drain_of_an_idle_queue_is_told_at_once),
        RC_TEST(path_can_be_changed_once_the_queue_is_drained),
        RC_TEST(read_limits_can_be_changed_once_the_queue_is_drained),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
