/* SPDX-License-Identifier: BSD-2-Clause */
/* The header layouts as data: complete, of the right length, and read bit by bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "pcap/fields.h"
#include "wire/ip.h"
#include "wire/packet.h"

static void every_layout_is_covered_without_gap_or_overlap(void **state)
{
    (void)state;
    for (unsigned i = 0; i < LAYOUT_COUNT; i++) {
        const struct layout *layout = &layouts[i];
        unsigned next = 0;

        assert_non_null(layout->name);
        for (size_t k = 0; k < layout->field_count; k++) {
            assert_int_equal(layout->fields[k].bit, next);
            assert_true(layout->fields[k].bit_count > 0);
            next += layout->fields[k].bit_count;
        }
        assert_int_equal(next, layout->len * 8);
    }
}

static void every_layout_has_the_length_of_its_header(void **state)
{
    static const struct {
        enum layout_index index;
        unsigned len;
    } lengths[] = {
        {LAYOUT_IPV4, IPV4_LEN},
        {LAYOUT_IPV6, IPV6_LEN},
        {LAYOUT_GRH, GRH_LEN},
        {LAYOUT_UDP, UDP_LEN},
        {LAYOUT_BTH, BTH_LEN},
        {LAYOUT_RDETH, 4},
        {LAYOUT_DETH, DETH_LEN},
        {LAYOUT_XRCETH, XRCETH_LEN},
        {LAYOUT_FETH, FETH_LEN},
        {LAYOUT_RETH, RETH_LEN},
        {LAYOUT_ATOMIC, ATOMICETH_LEN},
        {LAYOUT_AETH, AETH_LEN},
        {LAYOUT_ATOMIC_ACK, ATOMICACKETH_LEN},
        {LAYOUT_IMM, IMM_LEN},
        {LAYOUT_IETH, IETH_LEN},
        {LAYOUT_ETHERNET, 14},
        {LAYOUT_VLAN, 4},
        {LAYOUT_COOKED_V1, 16},
        {LAYOUT_COOKED_V2, 20},
        {LAYOUT_NULL, 4},
    };

    (void)state;
    assert_int_equal(sizeof(lengths) / sizeof(lengths[0]), LAYOUT_COUNT);
    for (size_t i = 0; i < LAYOUT_COUNT; i++)
        assert_int_equal(layouts[lengths[i].index].len, lengths[i].len);
}

static void the_layouts_of_an_opcode_add_up_to_its_headers(void **state)
{
    (void)state;
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        unsigned headers = opcode_headers((uint8_t)opcode);
        unsigned len = BTH_LEN;

        if (opcode_headers_len((uint8_t)opcode) == 0)
            continue;
        for (unsigned header = HEADER_RDETH; header <= HEADER_IETH; header <<= 1) {
            if ((headers & header) != 0)
                len += layouts[layout_of_header(header)].len;
        }
        assert_int_equal(len, opcode_headers_len((uint8_t)opcode));
    }
}

static void a_field_is_read_from_its_bits_only(void **state)
{
    static const uint8_t bytes[] = {0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 0xff};
    static const struct {
        struct field field;
        uint64_t value;
    } rows[] = {
        {{"a nibble", 4, 4, FIELD_HEX}, 0x2},
        {{"across bytes", 4, 12, FIELD_HEX}, 0x234},
        {{"one bit", 3, 1, FIELD_HEX}, 1},
        {{"24 bits", 8, 24, FIELD_HEX}, 0x345678},
        {{"64 bits", 0, 64, FIELD_HEX}, 0x123456789abcdef0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(field_value(&rows[i].field, bytes), rows[i].value);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_layout_is_covered_without_gap_or_overlap),
        cmocka_unit_test(every_layout_has_the_length_of_its_header),
        cmocka_unit_test(the_layouts_of_an_opcode_add_up_to_its_headers),
        cmocka_unit_test(a_field_is_read_from_its_bits_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
