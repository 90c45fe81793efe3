/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every opcode: what was written is read back the same; the table of operations is
 * complete; and bytes of any length are refused or read, with nothing read
 * beyond them (each datagram lies in a block of just its size, for ASan).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "wire/packet.h"

#define ROUNDS 64
#define HOSTILE_LEN_MAX 64
#define FIELD_MASK_24 0xffffffu

static const uint8_t seed[16] = {3};

static uint32_t draw(struct random *r, uint64_t bound)
{
    return (uint32_t)random_below(r, bound);
}

static bool draw_bit(struct random *r)
{
    return draw(r, 2) == 1;
}

static struct bth draw_bth(struct random *r, uint8_t opcode)
{
    return (struct bth){
        .opcode = opcode,
        .solicited = draw_bit(r),
        .mig_req = draw_bit(r),
        .pkey = (uint16_t)random_u64(r),
        .fecn = draw_bit(r),
        .becn = draw_bit(r),
        .dest_qpn = draw(r, FIELD_MASK_24 + 1),
        .ack_req = draw_bit(r),
        .psn = psn_make((uint32_t)random_u64(r)),
    };
}

/* Random values in all headers, those that the opcode does not carry included. */
static struct headers draw_headers(struct random *r, uint8_t opcode)
{
    return (struct headers){
        .bth = draw_bth(r, opcode),
        .deth = {.qkey = (uint32_t)random_u64(r), .src_qpn = draw(r, FIELD_MASK_24 + 1)},
        .xrceth = {.srqn = draw(r, FIELD_MASK_24 + 1)},
        .feth = {.placement_type = (uint8_t)draw(r, 16), .selectivity = (uint8_t)draw(r, 4)},
        .reth = {.va = random_u64(r),
                 .rkey = (uint32_t)random_u64(r),
                 .dma_len = (uint32_t)random_u64(r)},
        .atomic = {.va = random_u64(r),
                   .rkey = (uint32_t)random_u64(r),
                   .swap_add = random_u64(r),
                   .compare = random_u64(r)},
        .aeth = {.syndrome = (uint8_t)random_u64(r), .msn = psn_make((uint32_t)random_u64(r))},
        .atomic_ack = {.original = random_u64(r)},
        .imm = (uint32_t)random_u64(r),
        .ieth = (uint32_t)random_u64(r),
    };
}

static void expect_same_bth(const struct bth *a, const struct bth *b)
{
    assert_int_equal(a->opcode, b->opcode);
    assert_int_equal(a->solicited, b->solicited);
    assert_int_equal(a->mig_req, b->mig_req);
    assert_int_equal(a->pad_count, b->pad_count);
    assert_int_equal(a->version, b->version);
    assert_int_equal(a->pkey, b->pkey);
    assert_int_equal(a->fecn, b->fecn);
    assert_int_equal(a->becn, b->becn);
    assert_int_equal(a->dest_qpn, b->dest_qpn);
    assert_int_equal(a->ack_req, b->ack_req);
    assert_true(psn_equal(a->psn, b->psn));
}

static void expect_same_requests(unsigned carried, const struct headers *a, const struct headers *b)
{
    if ((carried & HEADER_FETH) != 0) {
        assert_int_equal(a->feth.placement_type, b->feth.placement_type);
        assert_int_equal(a->feth.selectivity, b->feth.selectivity);
    }
    if ((carried & HEADER_RETH) != 0) {
        assert_true(a->reth.va == b->reth.va);
        assert_int_equal(a->reth.rkey, b->reth.rkey);
        assert_int_equal(a->reth.dma_len, b->reth.dma_len);
    }
    if ((carried & HEADER_ATOMIC) != 0) {
        assert_true(a->atomic.va == b->atomic.va);
        assert_int_equal(a->atomic.rkey, b->atomic.rkey);
        assert_true(a->atomic.swap_add == b->atomic.swap_add);
        assert_true(a->atomic.compare == b->atomic.compare);
    }
}

static void expect_same(const struct headers *a, const struct headers *b)
{
    unsigned carried = opcode_headers(a->bth.opcode);

    expect_same_bth(&a->bth, &b->bth);
    expect_same_requests(carried, a, b);
    if ((carried & HEADER_DETH) != 0) {
        assert_int_equal(a->deth.qkey, b->deth.qkey);
        assert_int_equal(a->deth.src_qpn, b->deth.src_qpn);
    }
    if ((carried & HEADER_XRCETH) != 0)
        assert_int_equal(a->xrceth.srqn, b->xrceth.srqn);
    if ((carried & HEADER_AETH) != 0) {
        assert_int_equal(a->aeth.syndrome, b->aeth.syndrome);
        assert_true(psn_equal(a->aeth.msn, b->aeth.msn));
    }
    if ((carried & HEADER_ATOMIC_ACK) != 0)
        assert_true(a->atomic_ack.original == b->atomic_ack.original);
    if ((carried & HEADER_IMM) != 0)
        assert_int_equal(a->imm, b->imm);
    if ((carried & HEADER_IETH) != 0)
        assert_int_equal(a->ieth, b->ieth);
}

static void round_trip(struct random *r, uint8_t opcode)
{
    const bool empty = opcode_operation(opcode)->payload == PAYLOAD_NONE;
    const uint32_t payload_len = empty ? 0 : draw(r, PACKET_PAYLOAD_MAX + 1);
    struct headers sent = draw_headers(r, opcode);
    struct packet packet = {0};
    uint8_t again[PACKET_HEADERS_MAX];
    uint8_t *bytes;
    size_t headers_len;
    size_t len;

    sent.bth.pad_count = packet_pad(payload_len);
    bytes = test_calloc(1, PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX + ICRC_LEN);
    headers_len = headers_write(&sent, bytes);
    assert_int_equal(headers_len, opcode_headers_len(opcode));
    len = headers_len + payload_len + sent.bth.pad_count + ICRC_LEN;
    assert_int_equal(packet_parse(bytes, len, &packet), DROP_NONE);
    expect_same(&sent, &packet.h);
    assert_ptr_equal(packet.operation, opcode_operation(opcode));
    assert_int_equal(packet.headers_len, headers_len);
    assert_int_equal(packet.payload_len, payload_len);
    assert_ptr_equal(packet.payload, payload_len > 0 ? bytes + headers_len : NULL);
    assert_int_equal(headers_write(&packet.h, again), headers_len);
    assert_memory_equal(again, bytes, headers_len);
    test_free(bytes);
}

static void what_was_written_is_read_back_the_same(void **state)
{
    struct random r;

    (void)state;
    random_init(&r, seed);
    for (unsigned opcode = 0; opcode < 256; opcode++)
        for (int i = 0; i < ROUNDS && opcode_operation((uint8_t)opcode) != NULL; i++)
            round_trip(&r, (uint8_t)opcode);
}

static void only_the_bytes_of_the_headers_are_written(void **state)
{
    struct random r;

    (void)state;
    random_init(&r, seed);
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        struct headers h = draw_headers(&r, (uint8_t)opcode);
        uint8_t *exact;

        if (opcode_operation((uint8_t)opcode) == NULL)
            continue;
        exact = malloc(opcode_headers_len((uint8_t)opcode));
        assert_non_null(exact);
        headers_write(&h, exact);
        free(exact);
    }
}

static bool lengths_are_consistent(const struct packet *p, size_t len)
{
    return p->headers_len + p->payload_len + p->h.bth.pad_count + ICRC_LEN == len &&
           p->payload_len <= PACKET_PAYLOAD_MAX && (p->payload != NULL) == (p->payload_len > 0);
}

static void any_opcode_at_any_length_is_refused_or_read_within_bounds(void **state)
{
    struct random r;

    (void)state;
    random_init(&r, seed);
    for (unsigned opcode = 0; opcode < 256; opcode++)
        for (size_t len = 0; len <= HOSTILE_LEN_MAX; len++)
            for (unsigned pad = 0; pad < 4; pad++) {
                uint8_t *exact = malloc(len);
                struct packet packet = {0};
                enum drop drop;

                assert_true(exact != NULL || len == 0);
                for (size_t i = 0; i < len; i++)
                    exact[i] = (uint8_t)random_u64(&r);
                if (len > 0)
                    exact[0] = (uint8_t)opcode;
                if (len > 1)
                    exact[1] = (uint8_t)(pad << 4);
                drop = packet_parse(exact, len, &packet);
                assert_true(drop < DROP_COUNT);
                if (drop == DROP_NONE)
                    assert_true(lengths_are_consistent(&packet, len));
                free(exact);
            }
}

/* What the responder and the builder conclude from a row must hold for all rows. */
static void the_table_of_operations_does_not_contradict_itself(void **state)
{
    (void)state;
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        const struct operation *o = opcode_operation((uint8_t)opcode);

        if (o == NULL)
            continue;
        assert_true((o->services & 1u << opcode_service((uint8_t)opcode)) != 0);
        assert_int_equal(opcode_headers((uint8_t)opcode) & o->headers, o->headers);
        assert_true(opcode_headers_len((uint8_t)opcode) <= PACKET_HEADERS_MAX);
        /* Only the last packet of a message may be short, and only a lone one empty. */
        if (!position_ends(o->position))
            assert_int_equal(o->payload, PAYLOAD_FULL);
        assert_int_equal(o->payload == PAYLOAD_TAIL, o->position == POSITION_LAST);
        /* A receive request is taken once, at the start of a SEND or with the immediate of a WRITE.
         */
        if (o->kind == KIND_SEND)
            assert_int_equal(o->receive,
                             position_starts(o->position) ? RECEIVE_TAKES : RECEIVE_HOLDS);
        else
            assert_int_equal(o->receive,
                             (o->headers & HEADER_IMM) != 0 ? RECEIVE_TAKES : RECEIVE_NONE);
        /* Immediates and keys to invalidate come at the end of a message only. */
        if ((o->headers & (HEADER_IMM | HEADER_IETH)) != 0)
            assert_true(position_ends(o->position));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_back_the_same),
        cmocka_unit_test(only_the_bytes_of_the_headers_are_written),
        cmocka_unit_test(any_opcode_at_any_length_is_refused_or_read_within_bounds),
        cmocka_unit_test(the_table_of_operations_does_not_contradict_itself),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
