/* SPDX-License-Identifier: BSD-2-Clause */
/* 24-bit serial numbers against counters of 64 bits that never wrap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/random.h"
#include "wire/psn.h"

#define ROUNDS 1000000

static const uint8_t seed[16] = {1};

/* A counter anywhere and one less than 2^23 away from it. */
struct pair {
    uint64_t a;
    uint64_t b;
};

static struct pair draw_pair(struct random *r)
{
    uint64_t a = PSN_MASK + random_below(r, UINT64_C(1) << 40);
    uint64_t distance = random_below(r, UINT64_C(1) << random_below(r, 24));
    bool up = random_below(r, 2) == 0;

    return (struct pair){.a = a, .b = up ? a + distance : a - distance};
}

static struct psn psn_of(uint64_t counter)
{
    return psn_make((uint32_t)(counter & 0xffffff));
}

static void comparisons_agree_with_64_bit_counters(void **state)
{
    struct random r;

    (void)state;
    random_init(&r, seed);
    for (int i = 0; i < ROUNDS; i++) {
        struct pair p = draw_pair(&r);
        struct psn a = psn_of(p.a);
        struct psn b = psn_of(p.b);

        assert_true(psn_diff(a, b) == (int64_t)(p.a - p.b));
        assert_true(psn_before(a, b) == (p.a < p.b));
        assert_true(psn_after(a, b) == (p.a > p.b));
        assert_true(psn_equal(a, b) == (p.a == p.b));
    }
}

static void sums_agree_with_64_bit_counters(void **state)
{
    struct random r;

    (void)state;
    random_init(&r, seed);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t counter = (UINT64_C(1) << 40) + random_below(&r, UINT64_C(1) << 40);
        uint32_t count = (uint32_t)random_u64(&r);

        assert_true(psn_equal(psn_add(psn_of(counter), count), psn_of(counter + count)));
        assert_true(psn_equal(psn_sub(psn_of(counter), count), psn_of(counter - count)));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comparisons_agree_with_64_bit_counters),
        cmocka_unit_test(sums_agree_with_64_bit_counters),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
