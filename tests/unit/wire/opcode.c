/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The opcode table against IBA table 38 (XRC: annex A14; FLUSH and ATOMIC
 * WRITE: IBA 1.5), written out here byte by byte with the header bytes of each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "wire/opcode.h"

/* clang-format off */
static const struct {
    uint8_t opcode;
    const char *name;
    unsigned headers_len;
} known[] = {
    {0x00, "RC_SEND_FIRST", 12},
    {0x01, "RC_SEND_MIDDLE", 12},
    {0x02, "RC_SEND_LAST", 12},
    {0x03, "RC_SEND_LAST_IMM", 16},
    {0x04, "RC_SEND_ONLY", 12},
    {0x05, "RC_SEND_ONLY_IMM", 16},
    {0x06, "RC_WRITE_FIRST", 28},
    {0x07, "RC_WRITE_MIDDLE", 12},
    {0x08, "RC_WRITE_LAST", 12},
    {0x09, "RC_WRITE_LAST_IMM", 16},
    {0x0a, "RC_WRITE_ONLY", 28},
    {0x0b, "RC_WRITE_ONLY_IMM", 32},
    {0x0c, "RC_READ_REQUEST", 28},
    {0x0d, "RC_READ_RESP_FIRST", 16},
    {0x0e, "RC_READ_RESP_MIDDLE", 12},
    {0x0f, "RC_READ_RESP_LAST", 16},
    {0x10, "RC_READ_RESP_ONLY", 16},
    {0x11, "RC_ACK", 16},
    {0x12, "RC_ATOMIC_ACK", 24},
    {0x13, "RC_CMP_SWAP", 40},
    {0x14, "RC_FETCH_ADD", 40},
    {0x16, "RC_SEND_LAST_INV", 16},
    {0x17, "RC_SEND_ONLY_INV", 16},
    {0x1c, "RC_FLUSH", 32},
    {0x1d, "RC_ATOMIC_WRITE", 28},
    {0x20, "UC_SEND_FIRST", 12},
    {0x21, "UC_SEND_MIDDLE", 12},
    {0x22, "UC_SEND_LAST", 12},
    {0x23, "UC_SEND_LAST_IMM", 16},
    {0x24, "UC_SEND_ONLY", 12},
    {0x25, "UC_SEND_ONLY_IMM", 16},
    {0x26, "UC_WRITE_FIRST", 28},
    {0x27, "UC_WRITE_MIDDLE", 12},
    {0x28, "UC_WRITE_LAST", 12},
    {0x29, "UC_WRITE_LAST_IMM", 16},
    {0x2a, "UC_WRITE_ONLY", 28},
    {0x2b, "UC_WRITE_ONLY_IMM", 32},
    {0x40, "RD_SEND_FIRST", 24},
    {0x41, "RD_SEND_MIDDLE", 24},
    {0x42, "RD_SEND_LAST", 24},
    {0x43, "RD_SEND_LAST_IMM", 28},
    {0x44, "RD_SEND_ONLY", 24},
    {0x45, "RD_SEND_ONLY_IMM", 28},
    {0x46, "RD_WRITE_FIRST", 40},
    {0x47, "RD_WRITE_MIDDLE", 24},
    {0x48, "RD_WRITE_LAST", 24},
    {0x49, "RD_WRITE_LAST_IMM", 28},
    {0x4a, "RD_WRITE_ONLY", 40},
    {0x4b, "RD_WRITE_ONLY_IMM", 44},
    {0x4c, "RD_READ_REQUEST", 40},
    {0x4d, "RD_READ_RESP_FIRST", 20},
    {0x4e, "RD_READ_RESP_MIDDLE", 16},
    {0x4f, "RD_READ_RESP_LAST", 20},
    {0x50, "RD_READ_RESP_ONLY", 20},
    {0x51, "RD_ACK", 20},
    {0x52, "RD_ATOMIC_ACK", 28},
    {0x53, "RD_CMP_SWAP", 52},
    {0x54, "RD_FETCH_ADD", 52},
    {0x55, "RD_RESYNC", 24},
    {0x5c, "RD_FLUSH", 44},
    {0x5d, "RD_ATOMIC_WRITE", 40},
    {0x64, "UD_SEND_ONLY", 20},
    {0x65, "UD_SEND_ONLY_IMM", 24},
    {0x81, "CNP", 12},
    {0xa0, "XRC_SEND_FIRST", 16},
    {0xa1, "XRC_SEND_MIDDLE", 16},
    {0xa2, "XRC_SEND_LAST", 16},
    {0xa3, "XRC_SEND_LAST_IMM", 20},
    {0xa4, "XRC_SEND_ONLY", 16},
    {0xa5, "XRC_SEND_ONLY_IMM", 20},
    {0xa6, "XRC_WRITE_FIRST", 32},
    {0xa7, "XRC_WRITE_MIDDLE", 16},
    {0xa8, "XRC_WRITE_LAST", 16},
    {0xa9, "XRC_WRITE_LAST_IMM", 20},
    {0xaa, "XRC_WRITE_ONLY", 32},
    {0xab, "XRC_WRITE_ONLY_IMM", 36},
    {0xac, "XRC_READ_REQUEST", 32},
    {0xad, "XRC_READ_RESP_FIRST", 16},
    {0xae, "XRC_READ_RESP_MIDDLE", 12},
    {0xaf, "XRC_READ_RESP_LAST", 16},
    {0xb0, "XRC_READ_RESP_ONLY", 16},
    {0xb1, "XRC_ACK", 16},
    {0xb2, "XRC_ATOMIC_ACK", 24},
    {0xb3, "XRC_CMP_SWAP", 44},
    {0xb4, "XRC_FETCH_ADD", 44},
    {0xb6, "XRC_SEND_LAST_INV", 20},
    {0xb7, "XRC_SEND_ONLY_INV", 20},
    {0xbc, "XRC_FLUSH", 36},
    {0xbd, "XRC_ATOMIC_WRITE", 32},
};
/* clang-format on */
#define KNOWN_COUNT (sizeof(known) / sizeof(known[0]))

static void each_opcode_has_its_name_and_header_length(void **state)
{
    (void)state;
    for (size_t i = 0; i < KNOWN_COUNT; i++) {
        assert_string_equal(opcode_name(known[i].opcode), known[i].name);
        if (opcode_headers_len(known[i].opcode) != known[i].headers_len)
            fail_msg("%s", known[i].name);
    }
}

static void all_other_opcodes_are_unknown(void **state)
{
    unsigned unknown = 0;

    (void)state;
    for (unsigned opcode = 0; opcode < 256; opcode++)
        if (strcmp(opcode_name((uint8_t)opcode), "UNKNOWN") == 0) {
            unknown++;
            assert_null(opcode_operation((uint8_t)opcode));
            assert_int_equal(opcode_headers((uint8_t)opcode), 0);
            assert_int_equal(opcode_headers_len((uint8_t)opcode), 0);
        }
    assert_int_equal(unknown, 256 - KNOWN_COUNT);
}

static void reliable_datagram_has_names_and_no_operations(void **state)
{
    (void)state;
    for (unsigned opcode = 0x40; opcode < 0x60; opcode++)
        assert_null(opcode_operation((uint8_t)opcode));
}

static void only_sends_and_immediates_use_receive_requests(void **state)
{
    (void)state;
    assert_int_equal(opcode_operation(0x00)->receive, RECEIVE_TAKES);
    assert_int_equal(opcode_operation(0x01)->receive, RECEIVE_HOLDS);
    assert_int_equal(opcode_operation(0x03)->receive, RECEIVE_HOLDS);
    assert_int_equal(opcode_operation(0x04)->receive, RECEIVE_TAKES);
    assert_int_equal(opcode_operation(0x08)->receive, RECEIVE_NONE);
    assert_int_equal(opcode_operation(0x09)->receive, RECEIVE_TAKES);
    assert_int_equal(opcode_operation(0x0b)->receive, RECEIVE_TAKES);
    assert_int_equal(opcode_operation(0x0c)->receive, RECEIVE_NONE);
    assert_int_equal(opcode_operation(0x16)->receive, RECEIVE_HOLDS);
    assert_int_equal(opcode_operation(0x17)->receive, RECEIVE_TAKES);
}

static void an_opcode_is_made_of_service_and_operation(void **state)
{
    (void)state;
    assert_int_equal(opcode_make(SERVICE_XRC, OP_WRITE_ONLY_IMM), 0xab);
    assert_int_equal(opcode_make(SERVICE_UD, OP_SEND_ONLY), 0x64);
    assert_int_equal(opcode_service(0xab), SERVICE_XRC);
    assert_int_equal(opcode_service(OPCODE_CNP), SERVICE_CNP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_opcode_has_its_name_and_header_length),
        cmocka_unit_test(all_other_opcodes_are_unknown),
        cmocka_unit_test(reliable_datagram_has_names_and_no_operations),
        cmocka_unit_test(only_sends_and_immediates_use_receive_requests),
        cmocka_unit_test(an_opcode_is_made_of_service_and_operation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
