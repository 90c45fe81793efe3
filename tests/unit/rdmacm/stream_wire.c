/* SPDX-License-Identifier: BSD-2-Clause */
/* Expectations from the document "rsocket" of the distribution's librdmacm. */
#include "rdmacm/stream_wire.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* As a little-endian host says hello: version 1, flag of maps, 384 credits, 8 maps. */
static const uint8_t hello[STREAM_HELLO_LEN] = {
    1,    2,    0x01, 0x80, 0,    0,    0,    8,    /* */
    0x00, 0x00, 0x7f, 0x12, 0x34, 0x56, 0x70, 0x00, /* the window: address, */
    0x00, 0x00, 0x1a, 0x01, 0x00, 0x00, 0x00, 0x02, /* key, two ranges */
    0x00, 0x00, 0x7f, 0x12, 0x34, 0x60, 0x00, 0x00, /* the buffer: address, */
    0x00, 0x00, 0x1a, 0x02, 0x00, 0x01, 0x00, 0x00, /* key, 65536 bytes */
};

static void a_hello_is_read_and_written_in_network_order(void **state)
{
    struct stream_hello h;
    uint8_t out[STREAM_HELLO_LEN];

    (void)state;
    assert_true(stream_hello_read(hello, sizeof(hello), &h));
    assert_false(h.big_endian);
    assert_true(h.has_maps);
    assert_int_equal(h.credits, 384);
    assert_int_equal(h.maps, 8);
    assert_true(h.window.address == UINT64_C(0x00007f1234567000));
    assert_int_equal(h.window.key, 0x1a01);
    assert_int_equal(h.window.len, 2);
    assert_true(h.buffer.address == UINT64_C(0x00007f1234600000));
    assert_int_equal(h.buffer.len, 65536);
    stream_hello_write(&h, out);
    assert_memory_equal(out, hello, sizeof(hello));
}

static void what_is_no_hello_is_refused(void **state)
{
    struct stream_hello h;
    uint8_t bytes[STREAM_HELLO_LEN];

    (void)state;
    assert_false(stream_hello_read(NULL, 0, &h));
    assert_false(stream_hello_read(hello, sizeof(hello) - 1, &h));
    memcpy(bytes, hello, sizeof(bytes));
    bytes[0] = 2;
    assert_false(stream_hello_read(bytes, sizeof(bytes), &h));
    bytes[0] = 1;
    memset(bytes + 20, 0, 4); /* no range for what it is to be told */
    assert_false(stream_hello_read(bytes, sizeof(bytes), &h));
}

static void a_range_is_in_the_byte_order_of_who_reads_it(void **state)
{
    static const uint8_t little[] = {8, 7, 6, 5, 4, 3, 2, 1, 0xd, 0xc, 0xb, 0xa, 4, 3, 2, 1};
    static const uint8_t big[] = {1, 2, 3, 4, 5, 6, 7, 8, 0xa, 0xb, 0xc, 0xd, 1, 2, 3, 4};
    const struct stream_range range = {UINT64_C(0x0102030405060708), 0x0a0b0c0d, 0x01020304};
    struct stream_range back;
    uint8_t out[STREAM_RANGE_LEN];

    (void)state;
    stream_range_write(&range, false, out);
    assert_memory_equal(out, little, sizeof(little));
    stream_range_write(&range, true, out);
    assert_memory_equal(out, big, sizeof(big));
    stream_range_write(&range, stream_host_is_big_endian(), out);
    back = stream_range_read(out);
    assert_memory_equal(&back, &range, sizeof(range));
}

static void a_number_of_maps_fits_in_a_byte(void **state)
{
    static const struct {
        uint32_t asked, rounded;
    } rows[] = {{0, 0},     {1, 1},      {128, 128},     {255, 128},
                {256, 256}, {1000, 768}, {32512, 32512}, {65535, 32512}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(stream_maps_round(rows[i].asked), rows[i].rounded);
}

static void a_message_is_three_bits_and_a_number(void **state)
{
    (void)state;
    assert_int_equal(stream_immediate(STREAM_DATA, 65536), 0x00010000);
    assert_int_equal(stream_immediate(STREAM_CREDIT, 384), 0x80000180);
    assert_int_equal(stream_immediate(STREAM_MAP, 3), 0xc0000003);
    assert_int_equal(stream_immediate(STREAM_CONTROL, STREAM_SHUTDOWN), 0xe0000002);
    assert_int_equal(stream_immediate_message(0xe0000002), STREAM_CONTROL);
    assert_int_equal(stream_immediate_value(0xe0000002), STREAM_SHUTDOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hello_is_read_and_written_in_network_order),
        cmocka_unit_test(what_is_no_hello_is_refused),
        cmocka_unit_test(a_range_is_in_the_byte_order_of_who_reads_it),
        cmocka_unit_test(a_number_of_maps_fits_in_a_byte),
        cmocka_unit_test(a_message_is_three_bits_and_a_number),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
