/* SPDX-License-Identifier: BSD-2-Clause */
/* Headers at their places, and every reason to refuse a datagram. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "wire/packet.h"

static void the_bits_of_a_bth_are_where_they_belong(void **state)
{
    const uint8_t bytes[BTH_LEN] = {0x0a, 0xe0, 0x80, 0x01, 0x80, 0x12,
                                    0x34, 0x56, 0x80, 0xab, 0xcd, 0xef};
    struct bth bth;

    (void)state;
    bth_read(bytes, &bth);
    assert_int_equal(bth.opcode, 0x0a);
    assert_true(bth.solicited);
    assert_true(bth.mig_req);
    assert_int_equal(bth.pad_count, 2);
    assert_int_equal(bth.version, 0);
    assert_int_equal(bth.pkey, 0x8001);
    assert_true(bth.fecn);
    assert_false(bth.becn);
    assert_int_equal(bth.dest_qpn, 0x123456);
    assert_true(bth.ack_req);
    assert_int_equal(bth.psn.value, 0xabcdef);
}

#define BTH_BYTES(opcode) (opcode), 0x40, 0xff, 0xff, 0, 0, 0, 0x11, 0, 0, 0, 7
#define BTH_FIELDS(opcode_)                                                                        \
    .bth = {.opcode = (opcode_), .mig_req = true, .pkey = 0xffff, .dest_qpn = 0x11, .psn = {7}}

/* clang-format off */
static const struct {
    struct headers headers;
    size_t len;
    uint8_t bytes[PACKET_HEADERS_MAX];
} written[] = {
    {{BTH_FIELDS(0x65), .deth = {.qkey = 0x80010000, .src_qpn = 0x123456}, .imm = 0xdeadbeef}, 24,
     {BTH_BYTES(0x65), 0x80, 1, 0, 0, 0, 0x12, 0x34, 0x56, 0xde, 0xad, 0xbe, 0xef}},
    {{BTH_FIELDS(0xab), .xrceth = {.srqn = 0xabcdef}, .imm = 5,
      .reth = {.va = 0x0102030405060708, .rkey = 0x090a0b0c, .dma_len = 0x80000000}}, 36,
     {BTH_BYTES(0xab), 0, 0xab, 0xcd, 0xef, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 0x80, 0, 0, 0,
      0, 0, 0, 5}},
    {{BTH_FIELDS(0x13), .atomic = {.va = 0x1122334455667788, .rkey = 0x99aabbcc,
                                   .swap_add = 0x0102030405060708, .compare = 0xf1f2f3f4f5f6f7f8}}, 40,
     {BTH_BYTES(0x13), 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc,
      1, 2, 3, 4, 5, 6, 7, 8, 0xf1, 0xf2, 0xf3, 0xf4, 0xf5, 0xf6, 0xf7, 0xf8}},
    {{BTH_FIELDS(0x12), .aeth = {.syndrome = 0x1f, .msn = {0x010203}},
      .atomic_ack = {.original = 0x0807060504030201}}, 24,
     {BTH_BYTES(0x12), 0x1f, 1, 2, 3, 8, 7, 6, 5, 4, 3, 2, 1}},
    {{BTH_FIELDS(0x17), .ieth = 0x00001a2b}, 16, {BTH_BYTES(0x17), 0, 0, 0x1a, 0x2b}},
    /* FETH: placement type in bits 3..0, selectivity in bits 5..4. */
    {{BTH_FIELDS(0x1c), .feth = {.placement_type = 2, .selectivity = 1},
      .reth = {.va = 1, .rkey = 2, .dma_len = 3}}, 32,
     {BTH_BYTES(0x1c), 0, 0, 0, 0x12, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3}},
};
/* clang-format on */

static void headers_are_written_where_they_belong(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(written) / sizeof(written[0]); i++) {
        uint8_t out[PACKET_HEADERS_MAX];

        memset(out, 0xee, sizeof(out));
        assert_int_equal(headers_write(&written[i].headers, out), written[i].len);
        assert_memory_equal(out, written[i].bytes, written[i].len);
    }
}

/* A datagram of this opcode, with as many bytes behind the BTH as wanted. */
struct datagram_case {
    const char *what;
    uint8_t opcode;
    uint8_t flags; /* second byte of the BTH: pad count and version */
    size_t len;
    enum drop drop;
    uint32_t payload_len;
};

/* clang-format off */
static const struct datagram_case cases[] = {
    {"nothing",                       0x04, 0x00,    0, DROP_TRUNCATED_BTH, 0},
    {"one byte short of an ICRC",     0x04, 0x00,   15, DROP_TRUNCATED_BTH, 0},
    {"no payload",                    0x04, 0x00,   16, DROP_NONE, 0},
    {"unknown operation",             0x15, 0x00,   64, DROP_UNKNOWN_OPCODE, 0},
    {"unknown service",               0xff, 0x00,   48, DROP_UNKNOWN_OPCODE, 0},
    {"UC has no READ",                0x2c, 0x00,   64, DROP_UNKNOWN_OPCODE, 0},
    {"UD has no WRITE",               0x6a, 0x00,   64, DROP_UNKNOWN_OPCODE, 0},
    {"unknown comes before version",  0xff, 0x01,   48, DROP_UNKNOWN_OPCODE, 0},
    {"RD",                            0x44, 0x00,   64, DROP_RD_UNSUPPORTED, 0},
    {"version 1",                     0x04, 0x01,   64, DROP_BAD_VERSION, 0},
    {"half a RETH",                   0x0a, 0x00,   24, DROP_TRUNCATED_HEADERS, 0},
    {"RETH but no ICRC",              0x0a, 0x00,   31, DROP_TRUNCATED_HEADERS, 0},
    {"RETH alone",                    0x0a, 0x00,   32, DROP_NONE, 0},
    {"pad without payload",           0x04, 0x10,   16, DROP_BAD_PAD, 0},
    {"three bytes of pad, one of payload", 0x04, 0x30, 20, DROP_NONE, 1},
    {"payload not aligned",           0x04, 0x00,   21, DROP_UNALIGNED_LEN, 0},
    {"pad does not excuse it",        0x04, 0x30,   21, DROP_UNALIGNED_LEN, 0},
    {"ACK with payload",              0x11, 0x00,   24, DROP_UNEXPECTED_PAYLOAD, 0},
    {"READ request with payload",     0x0c, 0x00,   36, DROP_UNEXPECTED_PAYLOAD, 0},
    {"CNP",                           0x81, 0x00,   32, DROP_NONE, 16},
    {"4096 bytes",                    0x04, 0x00, 4112, DROP_NONE, 4096},
    {"4093 bytes",                    0x04, 0x30, 4112, DROP_NONE, 4093},
    {"4097 bytes",                    0x04, 0x30, 4116, DROP_OVERSIZED, 0},
    {"a jumbo datagram",              0x04, 0x00, 8192, DROP_OVERSIZED, 0},
};
/* clang-format on */

static void each_malformed_datagram_is_refused_for_its_reason(void **state)
{
    static uint8_t bytes[8192];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct datagram_case *c = &cases[i];
        struct packet packet = {0};
        enum drop drop;

        bytes[0] = c->opcode;
        bytes[1] = c->flags;
        drop = packet_parse(bytes, c->len, &packet);
        if (drop != c->drop)
            fail_msg("%s: %s", c->what, drop_name(drop));
        assert_int_equal(packet.payload_len, c->payload_len);
        assert_ptr_equal(packet.payload, c->payload_len > 0 ? bytes + packet.headers_len : NULL);
        assert_int_equal(packet.operation != NULL, c->drop == DROP_NONE);
    }
}

static void a_refused_datagram_still_tells_its_bth(void **state)
{
    const uint8_t bytes[BTH_LEN] = {BTH_BYTES(0xff)};
    struct packet packet = {0};

    (void)state;
    assert_int_equal(packet_parse(bytes, sizeof(bytes), &packet), DROP_TRUNCATED_BTH);
    assert_int_equal(packet.h.bth.opcode, 0xff);
    assert_int_equal(packet.h.bth.dest_qpn, 0x11);
}

static void each_drop_has_a_name_and_a_sentence(void **state)
{
    (void)state;
    assert_string_equal(drop_name(DROP_BAD_PAD), "BAD_PAD");
    for (int drop = 0; drop < DROP_COUNT; drop++) {
        assert_non_null(drop_name((enum drop)drop));
        assert_non_null(drop_text((enum drop)drop));
    }
}

static void pad_brings_a_payload_to_a_multiple_of_four(void **state)
{
    (void)state;
    assert_int_equal(packet_pad(0), 0);
    assert_int_equal(packet_pad(1), 3);
    assert_int_equal(packet_pad(2), 2);
    assert_int_equal(packet_pad(3), 1);
    assert_int_equal(packet_pad(4096), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_bits_of_a_bth_are_where_they_belong),
        cmocka_unit_test(headers_are_written_where_they_belong),
        cmocka_unit_test(each_malformed_datagram_is_refused_for_its_reason),
        cmocka_unit_test(a_refused_datagram_still_tells_its_bth),
        cmocka_unit_test(each_drop_has_a_name_and_a_sentence),
        cmocka_unit_test(pad_brings_a_payload_to_a_multiple_of_four),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
