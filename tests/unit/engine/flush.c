/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ATOMIC WRITE and FLUSH (IBA 1.5, annex A19), both sides against packets made
 * by hand. Both are answered by a READ response without data, count as READs
 * towards the limits, and are remembered for duplicates.
 */
#include "rc_script.h"

#include "support/pattern.h"

#define WRITE_8(psn_)                                                                              \
    {                                                                                              \
        .operation = OP_ATOMIC_WRITE, .psn = (psn_), .len = 8, .dma_len = 8, .message = 7,         \
        .remote = TARGET                                                                           \
    }

static void expect_empty_response(struct peer *p, uint32_t psn, uint32_t msn)
{
    const struct sent_packet *s = expect_packet(p, OP_READ_RESP_ONLY, psn);

    assert_int_equal(s->p.payload_len, 0);
    assert_int_equal(s->p.h.aeth.msn.value, msn);
    assert_int_equal(aeth_kind(s->p.h.aeth.syndrome), AETH_ACK);
}

static void peer_answers_emptily(struct peer *p, uint32_t psn)
{
    peer_answers_read(p, OP_READ_RESP_ONLY, psn, 0, 0, 0);
}

static void atomic_write_places_eight_bytes_and_is_answered_by_an_empty_response(void **state)
{
    struct peer *p = *state;

    peer_sends(p, (struct script)WRITE_8(0));
    expect_empty_response(p, 0, 1);
    expect_placed(&p->ep, TARGET, 7, 0, 8);
    expect_untouched(&p->ep, TARGET + 8, 64);
    expect_no_completion(p->ep.recv_cq);
}

static void duplicate_atomic_write_is_answered_and_not_done_again(void **state)
{
    struct peer *p = *state;

    peer_sends(p, (struct script)WRITE_8(0));
    expect_empty_response(p, 0, 1);
    memset(p->ep.memory + TARGET, 0, 8); /* the program has taken note and cleared it */
    peer_sends(p, (struct script)WRITE_8(0));
    expect_empty_response(p, 0, 1);
    expect_untouched(&p->ep, TARGET, 8);
}

/* F23. */
static void atomic_write_of_another_length_or_alignment_is_an_invalid_request(void **state)
{
    static const struct script rows[] = {
        {.operation = OP_ATOMIC_WRITE, .len = 0, .dma_len = 0, .remote = TARGET},
        {.operation = OP_ATOMIC_WRITE, .len = 4, .dma_len = 4, .remote = TARGET},
        {.operation = OP_ATOMIC_WRITE, .len = 16, .dma_len = 16, .remote = TARGET},
        {.operation = OP_ATOMIC_WRITE, .len = 8, .dma_len = 16, .remote = TARGET},
        {.operation = OP_ATOMIC_WRITE, .len = 8, .dma_len = 8, .remote = TARGET + 4},
    };
    struct peer *p = *state;
    const struct endpoint_config config = p->ep.config;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        reopen(p, &config);
        peer_sends(p, rows[i]);
        expect_nak(p, NAK_INVALID_REQUEST, 0, 0);
        expect_event(&p->ep, ENGINE_EVENT_QP_REQ_ERR);
        expect_untouched(&p->ep, TARGET, 64);
        expect_dead(p);
    }
}

static void atomic_write_and_flush_need_their_rights(void **state)
{
    static const struct script flush = {
        .operation = OP_FLUSH, .remote = TARGET, .dma_len = 8, .placement = FLUSH_GLOBAL};
    struct peer *p = *state;
    struct endpoint_config config = p->ep.config;

    config.access = ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC | ACCESS_FLUSH_GLOBAL;
    reopen(p, &config);
    peer_sends(p, (struct script)WRITE_8(0));
    expect_nak(p, NAK_INVALID_REQUEST, 0, 0);
    config.access = ACCESS_REMOTE_READ | ACCESS_REMOTE_WRITE;
    reopen(p, &config);
    peer_sends(p, flush);
    expect_nak(p, NAK_INVALID_REQUEST, 0, 0);
}

static void flush_is_answered_by_an_empty_response(void **state)
{
    struct peer *p = *state;

    for (unsigned selectivity = FLUSH_RANGE; selectivity <= FLUSH_REGION; selectivity++) {
        peer_sends(p, (struct script){.operation = OP_FLUSH,
                                      .psn = selectivity,
                                      .remote = TARGET,
                                      .dma_len = 64,
                                      .placement = FLUSH_GLOBAL,
                                      .selectivity = (uint8_t)selectivity});
        expect_empty_response(p, selectivity, selectivity + 1u);
    }
    peer_sends(
        p, (struct script){
               .operation = OP_FLUSH, .remote = TARGET, .dma_len = 64, .placement = FLUSH_GLOBAL});
    expect_empty_response(p, 0, 1);
}

struct bad_flush {
    uint64_t remote;
    uint32_t dma_len;
    uint32_t key_change;
    uint8_t placement;
    uint8_t selectivity;
    enum nak_code code;
};

static void flush_of_what_is_not_there_is_refused(void **state)
{
    static const struct bad_flush rows[] = {
        /* clang-format off */
        /* offset                length key    placement         selectivity   answer */
        {TARGET,                 64,    0x100, FLUSH_GLOBAL,     FLUSH_RANGE,  NAK_REMOTE_ACCESS},
        {TARGET,                 64,    0x100, FLUSH_GLOBAL,     FLUSH_REGION, NAK_REMOTE_ACCESS},
        {ENDPOINT_MEMORY - 1,    2,     0,     FLUSH_GLOBAL,     FLUSH_RANGE,  NAK_REMOTE_ACCESS},
        {0ull - ENDPOINT_IOVA,   64,    0,     FLUSH_GLOBAL,     FLUSH_RANGE,  NAK_REMOTE_ACCESS},
        {TARGET,                 64,    0,     0,                FLUSH_RANGE,  NAK_INVALID_REQUEST},
        {TARGET,                 64,    0,     FLUSH_GLOBAL,     2,            NAK_INVALID_REQUEST},
        {TARGET,                 64,    0,     FLUSH_PERSISTENT, FLUSH_RANGE,  NAK_INVALID_REQUEST},
        /* clang-format on */
    };
    struct peer *p = *state;
    const struct endpoint_config config = p->ep.config;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        reopen(p, &config);
        peer_sends(p, (struct script){.operation = OP_FLUSH,
                                      .remote = rows[i].remote,
                                      .dma_len = rows[i].dma_len,
                                      .rkey = p->ep.mr->key ^ rows[i].key_change,
                                      .placement = rows[i].placement,
                                      .selectivity = rows[i].selectivity});
        expect_nak(p, rows[i].code, 0, 0);
        expect_dead(p);
    }
}

/* No memory here survives a loss of power: the right cannot be had. */
static void no_region_is_persistent(void **state)
{
    struct peer *p = *state;
    const struct mr_attr attr = {
        .base = p->ep.memory, .len = 64, .access = ACCESS_LOCAL_WRITE | ACCESS_FLUSH_PERSISTENT};
    struct mr *mr;

    assert_int_equal(mr_new(p->ep.pd, &attr, &mr), -EINVAL);
}

static void both_leave_as_one_packet_and_complete_with_their_answer(void **state)
{
    struct peer *p = *state;
    const struct sent_packet *s;

    post(p, (struct work){.wr_id = 1, .opcode = WR_ATOMIC_WRITE, .len = 8, .remote = FAR});
    post(p, (struct work){.wr_id = 2,
                          .opcode = WR_FLUSH,
                          .remote = FAR,
                          .flush_len = 4096,
                          .placement = FLUSH_GLOBAL,
                          .selectivity = FLUSH_RANGE});
    peer_listens(p);
    s = expect_data(p, OP_ATOMIC_WRITE, 0, 1, 0, 8);
    assert_int_equal(s->p.h.reth.dma_len, 8);
    assert_true(s->p.h.bth.ack_req);
    s = expect_packet(p, OP_FLUSH, 1);
    assert_int_equal(s->p.payload_len, 0);
    assert_int_equal(s->p.h.reth.dma_len, 4096);
    assert_int_equal(s->p.h.reth.rkey, RKEY);
    assert_int_equal(s->p.h.feth.placement_type, FLUSH_GLOBAL);
    assert_false(s->p.h.bth.solicited); /* F09 */
    peer_answers_emptily(p, 0);
    assert_int_equal(expect_completion(p->ep.send_cq, 1, STATUS_SUCCESS).opcode,
                     COMPLETION_ATOMIC_WRITE);
    expect_no_completion(p->ep.send_cq);
    peer_answers_emptily(p, 1);
    assert_int_equal(expect_completion(p->ep.send_cq, 2, STATUS_SUCCESS).opcode, COMPLETION_FLUSH);
    expect_no_repeats(p);
    expect_counter(&p->ep, responses, 2); /* every packet is counted once as what it was */
}

/* As for READs: an acknowledgement behind it says that its answer was lost. */
static void an_acknowledgement_beyond_them_is_an_implied_nak(void **state)
{
    struct peer *p = *state;

    post(p, (struct work){
                .wr_id = 1, .opcode = WR_ATOMIC_WRITE, .local = 64, .len = 8, .remote = FAR});
    post_write(p, 2, 8);
    expect_data(p, OP_ATOMIC_WRITE, 0, 1, 0, 8);
    expect_data(p, OP_WRITE_ONLY, 1, 2, 0, 8);
    peer_acks(p, 1, 2);
    expect_data(p, OP_ATOMIC_WRITE, 0, 1, 0, 8);
    expect_data(p, OP_WRITE_ONLY, 1, 2, 0, 8);
    expect_no_completion(p->ep.send_cq);
    peer_answers_emptily(p, 0);
    peer_acks(p, 1, 2);
    expect_done(p, 1);
    expect_done(p, 2);
    expect_counter(&p->ep, implied_nak_seq_err, 1);
}

static void a_response_with_data_is_no_answer_to_them(void **state)
{
    struct peer *p = *state;

    post(p, (struct work){.wr_id = 1, .opcode = WR_ATOMIC_WRITE, .len = 8, .remote = FAR});
    peer_listens(p);
    expect_data(p, OP_ATOMIC_WRITE, 0, 1, 0, 8);
    peer_answers_read(p, OP_READ_RESP_ONLY, 0, 9, 0, 8);
    expect_completion(p->ep.send_cq, 1, STATUS_BAD_RESP_ERR);
    expect_dead(p);
}

static void atomic_write_of_other_than_eight_bytes_is_a_local_length_error(void **state)
{
    struct peer *p = *state;

    post(p, (struct work){.wr_id = 1, .opcode = WR_ATOMIC_WRITE, .len = 16, .remote = FAR});
    peer_listens(p);
    expect_completion(p->ep.send_cq, 1, STATUS_LOC_LEN_ERR);
    expect_dead(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RC_TEST(atomic_write_places_eight_bytes_and_is_answered_by_an_empty_response),
        RC_TEST(duplicate_atomic_write_is_answered_and_not_done_again),
        RC_TEST(atomic_write_of_another_length_or_alignment_is_an_invalid_request),
        RC_TEST(atomic_write_and_flush_need_their_rights),
        RC_TEST(flush_is_answered_by_an_empty_response),
        RC_TEST(flush_of_what_is_not_there_is_refused),
        RC_TEST(no_region_is_persistent),
        RC_TEST(both_leave_as_one_packet_and_complete_with_their_answer),
        RC_TEST(an_acknowledgement_beyond_them_is_an_implied_nak),
        RC_TEST(a_response_with_data_is_no_answer_to_them),
        RC_TEST(atomic_write_of_other_than_eight_bytes_is_a_local_length_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
