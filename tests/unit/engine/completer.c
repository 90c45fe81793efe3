/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What comes back for requests, against a peer made by hand: acknowledgements,
 * NAKs, READ and atomic responses, and silence (IBA 9.7.5, 9.7.6, 9.9.2).
 */
#include "rc_script.h"

#define RNR_12_NS 640000ull    /* IBA table 45: code 12 is 0.64 ms */
#define RNR_31_NS 491520000ull /* code 31 is 491.52 ms */

/* --- acknowledgements --- */

static void acknowledgement_completes_all_before_it_in_order(void **state)
{
    struct peer *p = *state;

    for (uint32_t i = 0; i < 5; i++)
        post_send(p, i, 8);
    peer_acks(p, 2, 3);
    for (uint32_t i = 0; i < 3; i++)
        expect_done(p, i);
    expect_no_completion(p->ep.send_cq);
    peer_acks(p, 2, 3);
    expect_no_completion(p->ep.send_cq);
    peer_acks(p, 4, 5);
    expect_done(p, 3);
    expect_done(p, 4);
    expect_no_completion(p->ep.send_cq);
}

static void acknowledgement_of_what_was_never_sent_is_ignored(void **state)
{
    struct peer *p = *state;

    peer_acks(p, 0, 1);
    post_send(p, 1, 8);
    peer_acks(p, 1, 1);
    peer_acks(p, 5, 1);
    peer_acks(p, PSN_MASK, 0);
    peer_acks(p, 1u << 23, 0);
    expect_no_completion(p->ep.send_cq);
    expect_counter(&p->ep, stale_response, 5);
    peer_acks(p, 0, 1);
    expect_done(p, 1);
}

static void unsignalled_request_completes_in_silence(void **state)
{
    struct peer *p = *state;

    post(p, (struct work){.wr_id = 1, .opcode = WR_SEND, .len = 8, .unsignaled = true});
    post(p, (struct work){.wr_id = 2, .opcode = WR_SEND, .len = 8});
    peer_listens(p);
    peer_acks(p, 1, 2);
    expect_done(p, 2);
    expect_no_completion(p->ep.send_cq);
}

/* F40: progress of any kind restarts the timer. */
static void nothing_is_repeated_while_there_is_progress(void **state)
{
    struct peer *p = *state;

    post_send(p, 0, 8);
    for (uint32_t i = 0; i < 100; i++) {
        time_passes(p, TIMEOUT_NS / 2);
        post_send(p, i + 1, 8);
        time_passes(p, TIMEOUT_NS / 2 - 1000);
        p->sent_head = p->sent_tail;
        peer_acks(p, i, i + 1);
        expect_done(p, i);
    }
    expect_no_repeats(p);
}

static void responses_of_a_read_count_as_progress(void **state)
{
    struct peer *p = *state;

    post_read(p, 1, 0, 4 * PMTU);
    expect_read_request(p, 0, FAR, 4 * PMTU);
    for (uint32_t n = 0; n < 4; n++) {
        time_passes(p, TIMEOUT_NS - 1000);
        peer_answers_read(p,
                          n == 0   ? OP_READ_RESP_FIRST
                          : n == 3 ? OP_READ_RESP_LAST
                                   : OP_READ_RESP_MIDDLE,
                          n, 7, n * PMTU, PMTU);
    }
    expect_no_repeats(p);
    expect_done(p, 1);
    expect_placed(&p->ep, 0, 7, 0, 4 * PMTU);
}

/* --- loss --- */

/* IBA 9.7.6.1: exactly after the time-out, exactly as often as retry_count says. */
static void silence_is_answered_by_repeats_and_in_the_end_by_an_error(void **state)
{
    static const uint8_t retry_counts[] = {0, 1, 3, 7};
    struct peer *p = *state;
    struct endpoint_config config = p->ep.config;

    for (size_t i = 0; i < 4; i++) {
        config.retry_count = retry_counts[i];
        reopen(p, &config);
        post_write(p, 1, PMTU + 1);
        post(p, (struct work){.wr_id = 2, .opcode = WR_SEND, .local = 1000, .len = 8});
        peer_listens(p);
        for (uint32_t again = 0; again <= retry_counts[i]; again++) {
            expect_data(p, OP_WRITE_FIRST, 0, 1, 0, PMTU);
            expect_packet(p, OP_WRITE_LAST, 1);
            expect_packet(p, OP_SEND_ONLY, 2);
            time_passes(p, TIMEOUT_NS - 1);
            expect_silence(p);
            expect_no_completion(p->ep.send_cq);
            time_passes(p, 1);
        }
        expect_completion(p->ep.send_cq, 1, STATUS_RETRY_EXC_ERR);
        expect_completion(p->ep.send_cq, 2, STATUS_WR_FLUSH_ERR);
        expect_no_completion(p->ep.send_cq);
        expect_silence(p);
        assert_int_equal(qp_state(p->ep.qp), QP_ERR);
        assert_true(engine_deadline(p->ep.engine) == ENGINE_NEVER);
    }
}

static void timeout_of_zero_waits_for_ever(void **state)
{
    struct peer *p = *state;
    struct endpoint_config config = p->ep.config;

    config.timeout = 0;
    reopen(p, &config);
    post_send(p, 1, 8);
    expect_packet(p, OP_SEND_ONLY, 0);
    assert_true(engine_deadline(p->ep.engine) == ENGINE_NEVER);
    time_passes(p, 100000000000ull);
    expect_silence(p);
    peer_acks(p, 0, 1);
    expect_done(p, 1);
}

static void progress_gives_all_retries_back(void **state)
{
    struct peer *p = *state;
    struct endpoint_config config = p->ep.config;

    config.retry_count = 1;
    reopen(p, &config);
    for (uint32_t i = 0; i < 10; i++) {
        post_send(p, i, 8);
        expect_packet(p, OP_SEND_ONLY, i);
        time_passes(p, TIMEOUT_NS);
        expect_packet(p, OP_SEND_ONLY, i);
        peer_acks(p, i, i + 1);
        expect_done(p, i);
    }
}

/* As rxe: from the oldest packet that is not acknowledged, also within a message. */
static void repeat_begins_where_the_acknowledgements_end(void **state)
{
    struct peer *p = *state;

    post_write(p, 1, 3 * PMTU + 9);
    for (uint32_t n = 0; n < 4; n++)
        p->sent_head++;
    peer_acks(p, 1, 0);
    time_passes(p, TIMEOUT_NS);
    expect_data(p, OP_WRITE_MIDDLE, 2, 1, 2 * PMTU, PMTU);
    assert_true(expect_data(p, OP_WRITE_LAST, 3, 1, 3 * PMTU, 9)->p.h.bth.ack_req);
    peer_acks(p, 3, 1);
    expect_done(p, 1);
    expect_silence(p);
}

static void nak_sends_the_rest_again_at_once_but_only_once(void **state)
{
    struct peer *p = *state;

    post_write(p, 1, 2 * PMTU + 9);
    post_send(p, 2, 8);
    p->sent_head = p->sent_tail;
    peer_naks(p, NAK_PSN_SEQUENCE, 1);
    expect_data(p, OP_WRITE_MIDDLE, 1, 1, PMTU, PMTU);
    expect_packet(p, OP_WRITE_LAST, 2);
    expect_packet(p, OP_SEND_ONLY, 3);
    for (int i = 0; i < 5; i++)
        peer_naks(p, NAK_PSN_SEQUENCE, 1); /* F37 */
    expect_silence(p);
    time_passes(p, TIMEOUT_NS);
    expect_packet(p, OP_WRITE_MIDDLE, 1);
    expect_packet(p, OP_WRITE_LAST, 2);
    expect_packet(p, OP_SEND_ONLY, 3);
    peer_acks(p, 3, 2);
    expect_done(p, 1);
    expect_done(p, 2);
    expect_silence(p);
}

static void nak_acknowledges_what_is_before_it(void **state)
{
    struct peer *p = *state;

    for (uint32_t i = 0; i < 4; i++)
        post_send(p, i, 8);
    p->sent_head = p->sent_tail;
    peer_naks(p, NAK_PSN_SEQUENCE, 2);
    expect_done(p, 0);
    expect_done(p, 1);
    expect_no_completion(p->ep.send_cq);
    expect_packet(p, OP_SEND_ONLY, 2);
    expect_packet(p, OP_SEND_ONLY, 3);
    peer_naks(p, NAK_PSN_SEQUENCE, 3); /* progress: a new loss may be repeated at once */
    expect_done(p, 2);
    expect_packet(p, OP_SEND_ONLY, 3);
    expect_silence(p);
}

/* What was acknowledged while it waited to be sent again is not sent again. */
static void acknowledgement_that_overtakes_the_repeat_spares_it(void **state)
{
    struct peer *p = *state;

    post_write(p, 1, 3 * PMTU);
    post_send(p, 2, 8);
    p->sent_head = p->sent_tail;
    peer_sends_quietly(p, (struct script){.operation = OP_ACK,
                                          .psn = 0,
                                          .syndrome = aeth_make(AETH_NAK, NAK_PSN_SEQUENCE)});
    peer_acks(p, 2, 1);
    expect_done(p, 1);
    expect_packet(p, OP_SEND_ONLY, 3);
    expect_silence(p);
    peer_acks(p, 3, 2);
    expect_done(p, 2);
}

static void part_that_was_acknowledged_meanwhile_is_not_sent_again(void **state)
{
    struct peer *p = *state;

    post_write(p, 1, 3 * PMTU + 9);
    p->sent_head = p->sent_tail;
    peer_sends_quietly(p, (struct script){.operation = OP_ACK,
                                          .psn = 0,
                                          .syndrome = aeth_make(AETH_NAK, NAK_PSN_SEQUENCE)});
    peer_acks(p, 1, 0);
    expect_data(p, OP_WRITE_MIDDLE, 2, 1, 2 * PMTU, PMTU);
    expect_data(p, OP_WRITE_LAST, 3, 1, 3 * PMTU, 9);
    expect_silence(p);
}

static void nak_is_heeded_again_after_the_timeout(void **state)
{
    struct peer *p = *state;

    post_send(p, 1, 8);
    expect_packet(p, OP_SEND_ONLY, 0);
    peer_naks(p, NAK_PSN_SEQUENCE, 0);
    expect_packet(p, OP_SEND_ONLY, 0);
    time_passes(p, TIMEOUT_NS);
    expect_packet(p, OP_SEND_ONLY, 0);
    peer_naks(p, NAK_PSN_SEQUENCE, 0);
    expect_packet(p, OP_SEND_ONLY, 0);
    expect_silence(p);
}

/* F48, and a peer that answers each copy: nothing completes twice. */
static void late_acknowledgements_of_repeats_do_no_harm(void **state)
{
    struct peer *p = *state;

    post_write(p, 1, 3 * PMTU);
    time_passes(p, TIMEOUT_NS);
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t psn = 0; psn < 3; psn++)
            peer_acks(p, psn, psn == 2);
    expect_done(p, 1);
    expect_no_completion(p->ep.send_cq);
    post_send(p, 2, 8);
    peer_acks(p, 2, 1);
    expect_no_completion(p->ep.send_cq);
    peer_acks(p, 3, 2);
    expect_done(p, 2);
}

/* --- RNR --- */

/* IBA 9.7.5.2, F38: not a word before the peer's time is over, and then at once. */
static void rnr_nak_is_waited_out_exactly(void **state)
{
    static const struct {
        uint8_t code;
        uint64_t ns;
    } rows[] = {{1, 10000}, {12, RNR_12_NS}, {31, RNR_31_NS}, {0, 655360000}};
    struct peer *p = *state;
    struct endpoint_config config = p->ep.config;

    config.retry_count = 0; /* waiting is not a retry, and neither is what rxe sends behind */
    reopen(p, &config);
    post_send(p, 1, PMTU + 1);
    post_write(p, 2, 8);
    p->sent_head = p->sent_tail;
    for (size_t i = 0; i < 3; i++) {
        peer_rnr_naks(p, rows[i].code, 0);
        peer_naks(p, NAK_PSN_SEQUENCE, 0); /* as rxe sends behind it: the wait goes on */
        time_passes(p, rows[i].ns - 1);
        expect_silence(p);
        time_passes(p, 1);
        expect_packet(p, OP_SEND_FIRST, 0);
        expect_packet(p, OP_SEND_LAST, 1);
        expect_packet(p, OP_WRITE_ONLY, 2);
    }
    expect_counter(&p->ep, local_ack_timeout_err, 0);
    peer_acks(p, 2, 2);
    expect_done(p, 1);
    expect_done(p, 2);
}

/* F39: 0 to 6 repeats, then the error. */
static void rnr_retries_are_counted(void **state)
{
    struct peer *p = *state;
    struct endpoint_config config = p->ep.config;

    for (uint8_t rnr_retry = 0; rnr_retry < 7; rnr_retry++) {
        config.rnr_retry = rnr_retry;
        reopen(p, &config);
        post_send(p, 1, 8);
        post_send(p, 2, 8);
        p->sent_head = p->sent_tail;
        for (uint8_t i = 0; i < rnr_retry; i++) {
            peer_rnr_naks(p, 12, 0);
            time_passes(p, RNR_12_NS);
            expect_packet(p, OP_SEND_ONLY, 0);
            expect_packet(p, OP_SEND_ONLY, 1);
            expect_no_completion(p->ep.send_cq);
        }
        peer_rnr_naks(p, 12, 0);
        expect_completion(p->ep.send_cq, 1, STATUS_RNR_RETRY_EXC_ERR);
        expect_completion(p->ep.send_cq, 2, STATUS_WR_FLUSH_ERR);
        expect_silence(p);
    }
}

static void progress_gives_all_rnr_retries_back(void **state)
{
    struct peer *p = *state;
    struct endpoint_config config = p->ep.config;

    config.rnr_retry = 1;
    reopen(p, &config);
    for (uint32_t i = 0; i < 10; i++) {
        post_send(p, i, 8);
        peer_rnr_naks(p, 12, i);
        time_passes(p, RNR_12_NS);
        peer_acks(p, i, i + 1);
        expect_done(p, i);
    }
}

static void rnr_retry_of_seven_is_for_ever(void **state)
{
    struct peer *p = *state;
    struct endpoint_config config = p->ep.config;

    config.rnr_retry = 7;
    reopen(p, &config);
    post_send(p, 1, 8);
    p->sent_head = p->sent_tail;
    for (uint32_t i = 0; i < 200; i++) {
        peer_rnr_naks(p, 12, 0);
        time_passes(p, RNR_12_NS);
        expect_packet(p, OP_SEND_ONLY, 0);
    }
    peer_acks(p, 0, 1);
    expect_done(p, 1);
}

static void work_posted_while_waiting_waits_too(void **state)
{
    struct peer *p = *state;

    post_send(p, 1, 8);
    p->sent_head = p->sent_tail;
    peer_rnr_naks(p, 12, 0);
    post_write(p, 2, 8);
    expect_silence(p);
    time_passes(p, RNR_12_NS);
    expect_packet(p, OP_SEND_ONLY, 0);
    expect_packet(p, OP_WRITE_ONLY, 1);
}

/* --- READ --- */

static void read_asks_once_and_places_what_comes(void **state)
{
    struct peer *p = *state;
    struct completion c;

    post_read(p, 1, 100, 700);
    expect_read_request(p, 0, FAR, 700);
    post_send(p, 2, 8); /* a READ takes as many PSNs as it has answers, and is not waited for */
    expect_packet(p, OP_SEND_ONLY, 3);
    peer_answers_read(p, OP_READ_RESP_FIRST, 0, 7, 0, PMTU);
    peer_answers_read(p, OP_READ_RESP_MIDDLE, 1, 7, PMTU, PMTU);
    expect_no_completion(p->ep.send_cq);
    peer_answers_read(p, OP_READ_RESP_LAST, 2, 7, 2 * PMTU, 700 - 2 * PMTU);
    c = expect_completion(p->ep.send_cq, 1, STATUS_SUCCESS);
    assert_int_equal(c.opcode, COMPLETION_READ);
    assert_int_equal(c.byte_len, 700);
    expect_placed(&p->ep, 100, 7, 0, 700);
    expect_untouched(&p->ep, 800, 100);
    peer_acks(p, 3, 2);
    expect_done(p, 2);
    expect_no_repeats(p);
}

/* F36: an acknowledgement past a READ says that its answer was lost; what is before it is done. */
static void acknowledgement_past_a_read_asks_for_it_again(void **state)
{
    struct peer *p = *state;

    post_write(p, 1, 8);
    post_read(p, 2, 1000, 8);
    post_write(p, 3, 8);
    p->sent_head = p->sent_tail;
    peer_acks(p, 2, 3);
    expect_done(p, 1);
    expect_no_completion(p->ep.send_cq);
    expect_read_request(p, 1, FAR, 8);
    expect_packet(p, OP_WRITE_ONLY, 2);
    expect_counter(&p->ep, implied_nak_seq_err, 1);
    peer_answers_read(p, OP_READ_RESP_ONLY, 1, 7, 0, 8);
    expect_done(p, 2);
    peer_acks(p, 2, 3);
    expect_done(p, 3);
    expect_placed(&p->ep, 1000, 7, 0, 8);
    expect_silence(p);
}

/* The rest may come in the style of a fresh answer or, as rxe does it, of the first one. */
static void lost_read_answer_is_asked_again_from_the_first_missing_byte(void **state)
{
    static const enum operation_code styles[][2] = {
        {OP_READ_RESP_FIRST, OP_READ_RESP_LAST},
        {OP_READ_RESP_MIDDLE, OP_READ_RESP_LAST},
    };
    struct peer *p = *state;
    const struct endpoint_config config = p->ep.config;

    for (size_t i = 0; i < 2; i++) {
        reopen(p, &config);
        post_read(p, 1, 0, 700);
        expect_read_request(p, 0, FAR, 700);
        peer_answers_read(p, OP_READ_RESP_FIRST, 0, 7, 0, PMTU);
        peer_answers_read(p, OP_READ_RESP_LAST, 2, 7, 2 * PMTU, 700 - 2 * PMTU);
        expect_read_request(p, 1, FAR + PMTU, 700 - PMTU);
        peer_answers_read(p, styles[i][0], 1, 7, PMTU, PMTU);
        peer_answers_read(p, styles[i][1], 2, 7, 2 * PMTU, 700 - 2 * PMTU);
        expect_done(p, 1);
        expect_placed(&p->ep, 0, 7, 0, 700);
        expect_silence(p);
    }
}

static void last_read_answer_lost_is_asked_again_after_the_timeout(void **state)
{
    static const enum operation_code styles[] = {OP_READ_RESP_ONLY, OP_READ_RESP_LAST};
    struct peer *p = *state;
    const struct endpoint_config config = p->ep.config;

    for (size_t i = 0; i < 2; i++) {
        reopen(p, &config);
        post_read(p, 1, 0, 700);
        p->sent_head++;
        peer_answers_read(p, OP_READ_RESP_FIRST, 0, 7, 0, PMTU);
        peer_answers_read(p, OP_READ_RESP_MIDDLE, 1, 7, PMTU, PMTU);
        expect_silence(p);
        time_passes(p, TIMEOUT_NS);
        expect_read_request(p, 2, FAR + 2 * PMTU, 700 - 2 * PMTU);
        peer_answers_read(p, styles[i], 2, 7, 2 * PMTU, 700 - 2 * PMTU);
        expect_done(p, 1);
        expect_placed(&p->ep, 0, 7, 0, 700);
        expect_silence(p);
    }
}

static void late_and_double_read_answers_do_no_harm(void **state)
{
    struct peer *p = *state;

    post_read(p, 1, 0, 700);
    p->sent_head++;
    peer_answers_read(p, OP_READ_RESP_FIRST, 0, 7, 0, PMTU);
    peer_answers_read(p, OP_READ_RESP_LAST, 2, 7, 2 * PMTU, 700 - 2 * PMTU); /* overtook */
    expect_read_request(p, 1, FAR + PMTU, 700 - PMTU);
    peer_answers_read(p, OP_READ_RESP_MIDDLE, 1, 7, PMTU, PMTU);
    peer_answers_read(p, OP_READ_RESP_FIRST, 1, 7, PMTU, PMTU);
    peer_answers_read(p, OP_READ_RESP_LAST, 2, 7, 2 * PMTU, 700 - 2 * PMTU);
    peer_answers_read(p, OP_READ_RESP_LAST, 2, 7, 2 * PMTU, 700 - 2 * PMTU);
    expect_done(p, 1);
    expect_no_completion(p->ep.send_cq);
    expect_placed(&p->ep, 0, 7, 0, 700);
    expect_silence(p);
}

static void read_answer_acknowledges_what_is_before_it(void **state)
{
    struct peer *p = *state;

    post_send(p, 1, 8);
    post_read(p, 2, 1000, 8);
    peer_answers_read(p, OP_READ_RESP_ONLY, 1, 7, 0, 8);
    expect_done(p, 1);
    expect_done(p, 2);
}

static void no_more_reads_are_outstanding_than_agreed(void **state)
{
    struct peer *p = *state;

    for (uint32_t i = 0; i < 7; i++)
        post(p, (struct work){.wr_id = i,
                              .opcode = i % 2 == 0 ? WR_READ : WR_FETCH_ADD,
                              .local = 1000 + 8 * i,
                              .len = 8,
                              .remote = FAR});
    peer_listens(p);
    for (uint32_t i = 0; i < 7; i++) {
        for (; p->sent_head < p->sent_tail; p->sent_head++)
            assert_true(p->sent[p->sent_head].psn < i + 4);
        assert_int_equal(p->sent_tail, i + 4 < 7 ? i + 4 : 7);
        peer_sends(p, (struct script){.operation = i % 2 == 0 ? OP_READ_RESP_ONLY : OP_ATOMIC_ACK,
                                      .psn = i,
                                      .len = i % 2 == 0 ? 8 : 0,
                                      .syndrome = aeth_make(AETH_ACK, AETH_CREDITS_INVALID)});
        expect_done(p, i);
    }
    expect_no_repeats(p);
}

static void read_longer_than_the_socket_is_asked_for_in_parts(void **state)
{
    struct peer *p = *state;
    const uint32_t len = 3 * 65536 + 5;
    const uint32_t count = len / PMTU + 1;
    uint32_t asked = 0;

    post_read(p, 1, 0, len);
    for (uint32_t n = 0; n < count; n++) {
        const bool last = n == count - 1;

        for (; p->sent_head < p->sent_tail; p->sent_head++) {
            const struct sent_packet *s = &p->sent[p->sent_head];

            assert_int_equal(s->psn, asked / PMTU);
            assert_true(s->p.h.reth.va == at(FAR + asked));
            assert_true(s->p.h.reth.dma_len <= 65536);
            asked += s->p.h.reth.dma_len;
        }
        assert_true(asked > n * PMTU);
        assert_true(asked - n * PMTU <= 2 * 65536);
        peer_answers_read(p, OP_READ_RESP_MIDDLE, n, 7, n * PMTU, last ? 5 : PMTU);
    }
    assert_int_equal(asked, len);
    expect_done(p, 1);
    expect_placed(&p->ep, 0, 7, 0, len);
    expect_no_repeats(p);
}

/* --- atomics --- */

static void atomics_carry_their_operands_and_return_the_original(void **state)
{
    struct peer *p = *state;
    const struct sent_packet *s;
    const uint64_t original = 0x0102030405060708;
    uint64_t result;

    post(p, (struct work){.wr_id = 1,
                          .opcode = WR_FETCH_ADD,
                          .local = 64,
                          .len = 8,
                          .remote = FAR,
                          .compare = 0x1111111122222222});
    post(p, (struct work){.wr_id = 2,
                          .opcode = WR_CMP_SWAP,
                          .local = 72,
                          .len = 8,
                          .remote = FAR + 8,
                          .compare = 0x3333333344444444,
                          .swap = 0x5555555566666666});
    peer_listens(p);
    s = expect_packet(p, OP_FETCH_ADD, 0);
    assert_true(s->p.h.atomic.swap_add == 0x1111111122222222);
    assert_true(s->p.h.atomic.va == at(FAR));
    assert_int_equal(s->p.h.atomic.rkey, RKEY);
    s = expect_packet(p, OP_CMP_SWAP, 1);
    assert_true(s->p.h.atomic.compare == 0x3333333344444444);
    assert_true(s->p.h.atomic.swap_add == 0x5555555566666666);
    assert_true(s->p.h.bth.ack_req);
    for (uint32_t psn = 0; psn < 2; psn++) {
        struct completion c;

        peer_sends(p, (struct script){.operation = OP_ATOMIC_ACK,
                                      .psn = psn,
                                      .original = original + psn,
                                      .syndrome = aeth_make(AETH_ACK, AETH_CREDITS_INVALID)});
        c = expect_completion(p->ep.send_cq, psn + 1, STATUS_SUCCESS);
        assert_int_equal(c.opcode, psn == 0 ? COMPLETION_FETCH_ADD : COMPLETION_CMP_SWAP);
        memcpy(&result, p->ep.memory + 64 + 8ull * psn, sizeof(result));
        assert_true(result == original + psn); /* F82: host order in memory */
    }
    expect_no_repeats(p);
}

static void lost_atomic_answer_is_asked_again_with_the_same_psn(void **state)
{
    struct peer *p = *state;

    post(p, (struct work){.wr_id = 1, .opcode = WR_FETCH_ADD, .len = 8, .remote = FAR});
    post(p, (struct work){.wr_id = 2, .opcode = WR_FETCH_ADD, .local = 8, .len = 8, .remote = FAR});
    peer_listens(p);
    p->sent_head = p->sent_tail;
    peer_sends(p, (struct script){.operation = OP_ATOMIC_ACK,
                                  .psn = 1,
                                  .syndrome = aeth_make(AETH_ACK, AETH_CREDITS_INVALID)});
    expect_no_completion(p->ep.send_cq);
    expect_packet(p, OP_FETCH_ADD, 0);
    expect_packet(p, OP_FETCH_ADD, 1);
    for (uint32_t psn = 0; psn < 2; psn++)
        peer_sends(p, (struct script){.operation = OP_ATOMIC_ACK,
                                      .psn = psn,
                                      .syndrome = aeth_make(AETH_ACK, AETH_CREDITS_INVALID)});
    expect_done(p, 1);
    expect_done(p, 2);
    expect_silence(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RC_TEST(acknowledgement_completes_all_before_it_in_order),
        RC_TEST(acknowledgement_of_what_was_never_sent_is_ignored),
        RC_TEST(unsignalled_request_completes_in_silence),
        RC_TEST(nothing_is_repeated_while_there_is_progress),
        RC_TEST(responses_of_a_read_count_as_progress),
        RC_TEST(silence_is_answered_by_repeats_and_in_the_end_by_an_error),
        RC_TEST(timeout_of_zero_waits_for_ever),
        RC_TEST(progress_gives_all_retries_back),
        RC_TEST(repeat_begins_where_the_acknowledgements_end),
        RC_TEST(nak_sends_the_rest_again_at_once_but_only_once),
        RC_TEST(nak_acknowledges_what_is_before_it),
        RC_TEST(acknowledgement_that_overtakes_the_repeat_spares_it),
        RC_TEST(part_that_was_acknowledged_meanwhile_is_not_sent_again),
        RC_TEST(nak_is_heeded_again_after_the_timeout),
        RC_TEST(late_acknowledgements_of_repeats_do_no_harm),
        RC_TEST(rnr_nak_is_waited_out_exactly),
        RC_TEST(rnr_retries_are_counted),
        RC_TEST(progress_gives_all_rnr_retries_back),
        RC_TEST(rnr_retry_of_seven_is_for_ever),
        RC_TEST(work_posted_while_waiting_waits_too),
        RC_TEST(read_asks_once_and_places_what_comes),
        RC_TEST(acknowledgement_past_a_read_asks_for_it_again),
        RC_TEST(lost_read_answer_is_asked_again_from_the_first_missing_byte),
        RC_TEST(last_read_answer_lost_is_asked_again_after_the_timeout),
        RC_TEST(late_and_double_read_answers_do_no_harm),
        RC_TEST(read_answer_acknowledges_what_is_before_it),
        RC_TEST(no_more_reads_are_outstanding_than_agreed),
        RC_TEST(read_longer_than_the_socket_is_asked_for_in_parts),
        RC_TEST(atomics_carry_their_operands_and_return_the_original),
        RC_TEST(lost_atomic_answer_is_asked_again_with_the_same_psn),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
