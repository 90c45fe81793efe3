/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/histogram.h"

static void nothing_has_no_quantiles(void **state)
{
    struct histogram h = {0};

    (void)state;
    assert_int_equal(histogram_quantile(&h, 500), 0);
    assert_int_equal(histogram_mean(&h), 0);
}

static void small_values_are_exact(void **state)
{
    struct histogram h = {0};

    (void)state;
    for (uint64_t value = 1; value <= 8; value++)
        histogram_add(&h, value);
    assert_int_equal(histogram_quantile(&h, 500), 4);
    assert_int_equal(histogram_quantile(&h, 1000), 8);
    assert_int_equal(histogram_mean(&h), 4);
}

static void a_quantile_is_never_below_and_at_most_an_eighth_above(void **state)
{
    (void)state;
    for (unsigned bit = 3; bit < HISTOGRAM_BITS - 1; bit++) {
        for (uint64_t step = 0; step < 16; step++) {
            uint64_t value = (UINT64_C(1) << bit) + (step << bit >> 4);
            struct histogram h = {0};

            histogram_add(&h, value);
            histogram_add(&h, UINT64_MAX);
            assert_true(histogram_quantile(&h, 500) >= value);
            assert_true(histogram_quantile(&h, 500) <= value + value / 8);
        }
    }
}

static void the_largest_value_is_exact(void **state)
{
    struct histogram h = {0};

    (void)state;
    histogram_add(&h, 1);
    histogram_add(&h, 1000001);
    assert_int_equal(histogram_quantile(&h, 1000), 1000001);
    assert_int_equal(h.max, 1000001);
}

static void ninety_nine_of_a_hundred_leave_out_the_worst(void **state)
{
    struct histogram h = {0};

    (void)state;
    for (unsigned i = 0; i < 99; i++)
        histogram_add(&h, 5);
    histogram_add(&h, 5000);
    assert_int_equal(histogram_quantile(&h, 990), 5);
    assert_true(histogram_quantile(&h, 991) >= 5000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_has_no_quantiles),
        cmocka_unit_test(small_values_are_exact),
        cmocka_unit_test(a_quantile_is_never_below_and_at_most_an_eighth_above),
        cmocka_unit_test(the_largest_value_is_exact),
        cmocka_unit_test(ninety_nine_of_a_hundred_leave_out_the_worst),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
