/* SPDX-License-Identifier: BSD-2-Clause */
/* SipHash against its authors' vector, and what makes the numbers useful. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "base/random.h"

static const uint8_t seed[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/* Key 00..0f, message 00..07: the ninth of the vectors published with SipHash-2-4. */
static void the_hash_is_siphash_2_4(void **state)
{
    const uint64_t key[2] = {load_le64(seed), load_le64(seed + 8)};

    (void)state;
    assert_true(random_hash(key, load_le64(seed)) == 0x93f5f5799a932462);
}

static void the_same_seed_gives_the_same_numbers(void **state)
{
    struct random a;
    struct random b;

    (void)state;
    random_init(&a, seed);
    random_init(&b, seed);
    for (int i = 0; i < 100; i++)
        assert_true(random_u64(&a) == random_u64(&b));
}

static void another_seed_gives_other_numbers(void **state)
{
    const uint8_t other[16] = {1};
    struct random a;
    struct random b;

    (void)state;
    random_init(&a, seed);
    random_init(&b, other);
    assert_false(random_u64(&a) == random_u64(&b));
}

static void every_number_below_a_bound_turns_up_about_as_often(void **state)
{
    enum { BOUND = 7, DRAWS = 70000 };
    unsigned counts[BOUND] = {0};
    struct random r;

    (void)state;
    random_init(&r, seed);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t n = random_below(&r, BOUND);

        assert_true(n < BOUND);
        counts[n]++;
    }
    for (int i = 0; i < BOUND; i++)
        assert_in_range(counts[i], DRAWS / BOUND * 95 / 100, DRAWS / BOUND * 105 / 100);
}

static void a_bound_may_be_as_small_or_large_as_it_likes(void **state)
{
    struct random r;

    (void)state;
    random_init(&r, seed);
    assert_int_equal(random_below(&r, 1), 0);
    for (int i = 0; i < 100; i++)
        assert_true(random_below(&r, UINT64_MAX / 2 + 2) < UINT64_MAX / 2 + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_hash_is_siphash_2_4),
        cmocka_unit_test(the_same_seed_gives_the_same_numbers),
        cmocka_unit_test(another_seed_gives_other_numbers),
        cmocka_unit_test(every_number_below_a_bound_turns_up_about_as_often),
        cmocka_unit_test(a_bound_may_be_as_small_or_large_as_it_likes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
