/* SPDX-License-Identifier: BSD-2-Clause */
/* Ranges at the borders of the 64-bit space, where careless sums wrap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/checked.h"

#define TOP UINT64_MAX

static const struct {
    struct range inner;
    struct range outer;
    bool within;
} cases[] = {
    {{0x1000, 0x100}, {0x1000, 0x100}, true},
    {{0x1001, 0x100}, {0x1000, 0x100}, false},
    {{0x0fff, 0x100}, {0x1000, 0x100}, false},
    {{0x10ff, 1}, {0x1000, 0x100}, true},
    {{0x1100, 1}, {0x1000, 0x100}, false},
    {{0x1100, 0}, {0x1000, 0x100}, true},
    {{0x1101, 0}, {0x1000, 0x100}, false},
    {{0x1000, TOP}, {0x1000, 0x100}, false},
    {{0, 0x1100}, {0x1000, 0x100}, false},
    /* The end of the space, exactly and one beyond. */
    {{TOP - 0x3ff, 0x400}, {TOP - 0x3ff, 0x400}, true},
    {{TOP - 0x3ff, 0x401}, {TOP - 0x3ff, 0x400}, false},
    {{TOP - 0x3ff, 0x400}, {0x1000, 0x100}, false},
    {{TOP, 1}, {TOP - 0x3ff, 0x400}, true},
    {{TOP, 2}, {0, TOP}, false},
    {{0x1000, 1}, {TOP, 0x2000}, false}, /* the outer one would wrap over it */
    {{0, TOP}, {0, TOP}, true},
    {{1, TOP}, {0, TOP}, false},
    {{1, TOP}, {1, TOP}, true},
};

static void ranges_are_within_others_only_without_wrapping(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        if (range_within(cases[i].inner, cases[i].outer) != cases[i].within)
            fail_msg("case %zu", i);
}

static void a_range_is_valid_up_to_the_last_address(void **state)
{
    (void)state;
    assert_true(range_valid((struct range){TOP, 0}));
    assert_true(range_valid((struct range){TOP, 1}));
    assert_false(range_valid((struct range){TOP, 2}));
    assert_true(range_valid((struct range){0, TOP}));
    assert_true(range_valid((struct range){1, TOP}));
    assert_false(range_valid((struct range){2, TOP}));
}

static void a_sum_that_does_not_fit_is_refused(void **state)
{
    uint64_t sum = 7;

    (void)state;
    assert_false(checked_add(TOP, 1, &sum));
    assert_int_equal(sum, 7);
    assert_true(checked_add(TOP - 1, 1, &sum));
    assert_true(sum == TOP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_are_within_others_only_without_wrapping),
        cmocka_unit_test(a_range_is_valid_up_to_the_last_address),
        cmocka_unit_test(a_sum_that_does_not_fit_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
