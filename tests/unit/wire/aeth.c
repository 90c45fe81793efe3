/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of IBA 9.7.5, row by row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "wire/aeth.h"

/* IBA table 45, in hundredths of a millisecond. */
static const unsigned rnr_timers[32] = {
    65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,    32,
    48,    64,   96,   128,  192,  256,   384,   512,   768,   1024,  1536,
    2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};

/* IBA table 46. */
static const unsigned credits[31] = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
};

static void rnr_timer_codes_mean_what_the_table_says(void **state)
{
    (void)state;
    for (uint8_t code = 0; code < 32; code++)
        assert_true(rnr_timer_ns(code) == rnr_timers[code] * UINT64_C(10000));
}

static void credit_codes_mean_what_the_table_says(void **state)
{
    (void)state;
    for (uint8_t code = 0; code < 31; code++)
        assert_int_equal(credits_decode(code), credits[code]);
    assert_int_equal(credits_decode(AETH_CREDITS_INVALID), 0);
}

static void credits_are_never_promised_that_are_not_there(void **state)
{
    (void)state;
    for (uint32_t count = 0; count <= 40000; count++) {
        uint8_t code = credits_encode(count);

        assert_true(code < AETH_CREDITS_INVALID);
        assert_true(credits[code] <= count);
        assert_true(code == 30 || credits[code + 1] > count);
    }
    assert_int_equal(credits_encode(UINT32_MAX), 30);
}

static void each_syndrome_has_a_name(void **state)
{
    (void)state;
    assert_string_equal(aeth_name(0x00), "ACK");
    assert_string_equal(aeth_name(0x1f), "ACK");
    assert_string_equal(aeth_name(0x20), "RNR NAK");
    assert_string_equal(aeth_name(0x3f), "RNR NAK");
    assert_string_equal(aeth_name(0x40), "reserved");
    assert_string_equal(aeth_name(0x60), "NAK PSN sequence");
    assert_string_equal(aeth_name(0x61), "NAK invalid request");
    assert_string_equal(aeth_name(0x62), "NAK remote access");
    assert_string_equal(aeth_name(0x63), "NAK remote operational");
    assert_string_equal(aeth_name(0x64), "NAK invalid RD request");
    assert_string_equal(aeth_name(0x65), "NAK reserved");
    for (unsigned syndrome = 0; syndrome < 256; syndrome++)
        assert_non_null(aeth_name((uint8_t)syndrome));
}

static void a_syndrome_is_made_of_its_kind_and_value(void **state)
{
    (void)state;
    assert_int_equal(aeth_make(AETH_ACK, AETH_CREDITS_INVALID), 0x1f);
    assert_int_equal(aeth_make(AETH_RNR_NAK, 12), 0x2c);
    assert_int_equal(aeth_make(AETH_NAK, NAK_REMOTE_ACCESS), 0x62);
    assert_int_equal(aeth_kind(0x2c), AETH_RNR_NAK);
    assert_int_equal(aeth_value(0x2c), 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rnr_timer_codes_mean_what_the_table_says),
        cmocka_unit_test(credit_codes_mean_what_the_table_says),
        cmocka_unit_test(credits_are_never_promised_that_are_not_there),
        cmocka_unit_test(each_syndrome_has_a_name),
        cmocka_unit_test(a_syndrome_is_made_of_its_kind_and_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
