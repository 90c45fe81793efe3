/* SPDX-License-Identifier: BSD-2-Clause */
/* Byte order: the bytes of a buffer are spelled out, and so are the numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/bytes.h"

static const uint8_t bytes[8] = {0x81, 0x92, 0xa3, 0xb4, 0xc5, 0xd6, 0xe7, 0xf8};

static void big_endian_numbers_are_loaded(void **state)
{
    (void)state;
    assert_int_equal(load_be16(bytes), 0x8192);
    assert_int_equal(load_be24(bytes), 0x8192a3);
    assert_int_equal(load_be32(bytes), 0x8192a3b4);
    assert_true(load_be64(bytes) == 0x8192a3b4c5d6e7f8);
}

static void little_endian_numbers_are_loaded(void **state)
{
    (void)state;
    assert_int_equal(load_le32(bytes), 0xb4a39281);
    assert_true(load_le64(bytes) == 0xf8e7d6c5b4a39281);
}

/* Stores with f and compares with the first len of the bytes; what is behind stays. */
#define expect_stored(f, value, len)                                                               \
    do {                                                                                           \
        uint8_t room[9];                                                                           \
                                                                                                   \
        memset(room, 0x5a, sizeof(room));                                                          \
        f(room, value);                                                                            \
        assert_memory_equal(room, bytes, len);                                                     \
        assert_int_equal(room[len], 0x5a);                                                         \
    } while (0)

static void numbers_are_stored_in_just_their_bytes(void **state)
{
    (void)state;
    expect_stored(store_be16, 0x8192, 2);
    expect_stored(store_be24, 0xff8192a3, 3);
    expect_stored(store_be32, 0x8192a3b4, 4);
    expect_stored(store_be64, 0x8192a3b4c5d6e7f8, 8);
    expect_stored(store_le32, 0xb4a39281, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(big_endian_numbers_are_loaded),
        cmocka_unit_test(little_endian_numbers_are_loaded),
        cmocka_unit_test(numbers_are_stored_in_just_their_bytes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
