/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What requests of RC do to memory, against packets made by hand: WRITE, READ,
 * atomics, and all that is not allowed (IBA 9.4, 9.7.4).
 */
#include "rc_script.h"

#include "support/pattern.h"

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

/* IBA 9.7.4.1.5, F21: a length of zero looks at no key. */
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

/* IBA 9.7.4.1: what the QP's own rights do not open is an invalid request. */
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
        {ENDPOINT_RIGHTS & ~ACCESS_REMOTE_WRITE, OP_ATOMIC_WRITE, 8},
        {ENDPOINT_RIGHTS & ~ACCESS_FLUSH_GLOBAL, OP_FLUSH, 0},
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
        /* A READ is found out while it is answered. */
        expect_counter(&p->ep, responder_memory_fault, s.operation != OP_READ_REQUEST);
        expect_counter(&p->ep, read_broken, s.operation == OP_READ_REQUEST);
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
    static const uint32_t lens[] = {0, 1, PMTU - 1, PMTU, PMTU + 1, 2 * PMTU, 2 * PMTU + 1};
    static const struct cut read = {OP_READ_RESP_FIRST, OP_READ_RESP_MIDDLE, OP_READ_RESP_LAST,
                                    OP_READ_RESP_ONLY};
    struct peer *p = *state;
    uint32_t psn = 0;

    endpoint_fill(&p->ep, TARGET + 3, 4, 0, 1000);
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        peer_sends(p, (struct script){.operation = OP_READ_REQUEST,
                                      .psn = psn,
                                      .remote = TARGET + 3,
                                      .dma_len = lens[i]});
        psn += expect_message(p, &read, psn, 4, lens[i]);
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

/* IBA 9.7.5.1: a duplicate READ is read again, also from a later packet on. */
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

/* Its first answer may have come: then the region goes by right while the duplicate is on its way,
 * and whoever is still waiting hears of it by the NAK. */
static void duplicate_read_of_what_is_gone_is_refused_and_ends_nothing(void **state)
{
    struct peer *p = *state;
    const struct mr_attr attr = {
        .base = p->ep.memory + TARGET, .len = 1000, .iova = at(TARGET), .access = ENDPOINT_RIGHTS};
    struct script read = {
        .operation = OP_READ_REQUEST, .psn = 0, .remote = TARGET, .dma_len = 2 * PMTU};
    struct mr *mr;

    assert_int_equal(mr_new(p->ep.pd, &attr, &mr), 0);
    read.rkey = mr->key;
    peer_sends(p, read);
    expect_packet(p, OP_READ_RESP_FIRST, 0);
    expect_packet(p, OP_READ_RESP_LAST, 1);
    mr_free(mr);
    peer_sends(p, read);
    assert_int_equal(expect_packet(p, OP_ACK, 0)->p.h.aeth.syndrome,
                     aeth_make(AETH_NAK, NAK_REMOTE_ACCESS));
    expect_counter(&p->ep, read_broken, 1);
    expect_no_event(&p->ep);
    peer_sends(p, (struct script){.operation = OP_FETCH_ADD, .psn = 2, .remote = TARGET});
    expect_packet(p, OP_ATOMIC_ACK, 2);
    expect_silence(p);
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
            assert_int_equal(
                pattern_matches(4, (uint64_t)s->psn * PMTU, s->p.payload, s->p.payload_len),
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
                    10ull * add.psn);
    }
    for (add.psn = 5; add.psn >= 2; add.psn--) { /* dest_rd_atomic is 4: the last four are kept */
        peer_sends(p, add);
        assert_true(expect_packet(p, OP_ATOMIC_ACK, add.psn)->p.h.atomic_ack.original ==
                    10ull * add.psn);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        RC_TEST(write_is_placed_and_needs_no_receive),
        RC_TEST(write_with_immediate_takes_a_receive_but_not_its_buffer),
        RC_TEST(write_with_immediate_without_a_receive_waits_at_its_last_packet),
        RC_TEST(request_of_no_bytes_needs_no_key),
        RC_TEST(access_that_is_not_allowed_is_refused),
        RC_TEST(request_that_the_queue_pair_does_not_do_is_refused),
        RC_TEST(region_that_goes_away_within_a_write_ends_it),
        RC_TEST(region_that_goes_away_before_a_read_is_answered_ends_it),
        RC_TEST(memory_that_is_gone_under_a_region_fails_the_request),
        RC_TEST(read_is_answered_first_middle_last),
        RC_TEST(read_of_each_size_is_cut_at_the_pmtu),
        RC_TEST(reads_are_answered_in_order_before_the_acknowledgement_of_what_follows),
        RC_TEST(duplicate_read_is_answered_again_from_where_it_asks),
        RC_TEST(duplicate_read_of_what_is_gone_is_refused_and_ends_nothing),
        RC_TEST(duplicate_read_opens_no_other_memory),
        RC_TEST(more_reads_than_agreed_are_refused),
        RC_TEST(reads_that_were_answered_make_room_for_others),
        RC_TEST(atomics_change_memory_and_return_what_was_there),
        RC_TEST(duplicate_atomic_is_answered_with_what_it_found_the_first_time),
        RC_TEST(duplicate_atomic_that_is_no_longer_kept_is_not_executed_again),
        RC_TEST(unaligned_atomic_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
