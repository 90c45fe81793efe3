/* SPDX-License-Identifier: BSD-2-Clause */
/* Serial numbers around their wrap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "wire/psn.h"

static void numbers_wrap_at_24_bits(void **state)
{
    (void)state;
    assert_int_equal(psn_add(psn_make(0xffffff), 1).value, 0);
    assert_int_equal(psn_sub(psn_make(0), 1).value, 0xffffff);
    assert_int_equal(psn_make(0x1000005).value, 5);
    assert_int_equal(psn_add(psn_make(3), 0xffffffff).value, 2);
}

static void order_goes_on_over_the_wrap(void **state)
{
    struct psn last = psn_make(0xfffffe);
    struct psn next = psn_make(3);

    (void)state;
    assert_int_equal(psn_diff(next, last), 5);
    assert_int_equal(psn_diff(last, next), -5);
    assert_true(psn_before(last, next));
    assert_true(psn_after(next, last));
    assert_false(psn_before(next, next));
    assert_false(psn_after(next, next));
    assert_true(psn_equal(next, psn_add(last, 5)));
}

static void distance_reaches_half_of_the_space(void **state)
{
    (void)state;
    assert_int_equal(psn_diff(psn_make(PSN_WINDOW_MAX), psn_make(0)), 0x7fffff);
    assert_int_equal(psn_diff(psn_make(PSN_WINDOW_MAX + 1), psn_make(0)), -0x800000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_wrap_at_24_bits),
        cmocka_unit_test(order_goes_on_over_the_wrap),
        cmocka_unit_test(distance_reaches_half_of_the_space),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
