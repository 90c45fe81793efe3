/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys to who would guess them: chi-squared tests over what a peer may see. The
 * seeds are fixed, so each outcome is the same for ever; the bounds are those
 * that an even source crosses once in a million times.
 */
#include "bare_engine.h"

#include <errno.h>

#include "engine/limits.h"

#define KEYS (1u << 17)
#define SEEDS 4096u
#define BINS 256u
/* Chi-squared with 255 degrees of freedom: one in a million on either side. */
#define CHI_LOW 153.0
#define CHI_HIGH 378.0

static double chi_squared(const uint32_t *counts, uint32_t total)
{
    double expected = (double)total / BINS;
    double sum = 0;

    for (uint32_t i = 0; i < BINS; i++)
        sum += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
    return sum;
}

/* Each byte of the numbers is even. */
static void expect_even(const uint32_t *numbers, uint32_t total)
{
    for (uint32_t shift = 0; shift < 32; shift += 8) {
        uint32_t counts[BINS] = {0};
        double chi;

        for (uint32_t i = 0; i < total; i++)
            counts[numbers[i] >> shift & 0xff]++;
        chi = chi_squared(counts, total);
        if (chi < CHI_LOW || chi > CHI_HIGH)
            fail_msg("bits %u to %u: chi-squared is %.1f", shift, shift + 7, chi);
    }
}

static void draw_keys(struct bare_engine *b, uint32_t *keys, uint32_t count)
{
    static struct mr *mrs[KEYS];
    const struct mr_attr attr = {.len = 0};

    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(mr_new(b->pd, &attr, &mrs[i]), 0);
        keys[i] = mrs[i]->key;
    }
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(mr_free(mrs[i]), 0);
}

static void keys_of_one_process_are_even_and_so_are_their_distances(void **state)
{
    static uint32_t keys[KEYS];
    static uint32_t steps[KEYS];
    static uint32_t sums[KEYS];
    struct bare_engine b;

    (void)state;
    bare_engine_init(&b, 7);
    draw_keys(&b, keys, KEYS);
    expect_even(keys, KEYS);
    for (uint32_t i = 2; i < KEYS; i++) {
        steps[i] = keys[i] - keys[i - 1];
        sums[i] = keys[i] ^ keys[i - 2];
    }
    expect_even(steps + 2, KEYS - 2);
    expect_even(sums + 2, KEYS - 2);
    bare_engine_fini(&b);
}

/* Who sees the first keys of many processes learns nothing of the next process's. */
static void first_keys_of_many_processes_are_even(void **state)
{
    static uint32_t keys[3][SEEDS];

    (void)state;
    for (uint32_t i = 0; i < SEEDS; i++) {
        const uint8_t seed[16] = {(uint8_t)i, (uint8_t)(i >> 8)};
        struct bare_engine b = {0};
        uint32_t drawn[3];

        random_init(&b.engine.random, seed);
        assert_int_equal(key_table_new(&b.engine), 0);
        assert_int_equal(pd_new(&b.engine, &b.pd), 0);
        draw_keys(&b, drawn, 3);
        for (uint32_t j = 0; j < 3; j++)
            keys[j][i] = drawn[j];
        bare_engine_fini(&b);
    }
    for (uint32_t j = 0; j < 3; j++)
        expect_even(keys[j], SEEDS);
}

/* A window's first key is as good as a region's, though its index runs on. */
static void keys_of_windows_are_even(void **state)
{
    static uint32_t keys[KEYS];
    static struct mw *mws[KEYS];
    struct bare_engine b;

    (void)state;
    bare_engine_init(&b, 8);
    for (uint32_t i = 0; i < KEYS; i++) {
        assert_int_equal(mw_new(b.pd, MW_TYPE_2, &mws[i]), 0);
        keys[i] = mws[i]->view.key;
    }
    expect_even(keys, KEYS);
    for (uint32_t i = 0; i < KEYS; i++)
        mw_free(mws[i]);
    bare_engine_fini(&b);
}

/* Whoever tries numbers at random, or those near a key that it knows, finds nothing. */
static void guessing_beside_a_known_key_finds_nothing(void **state)
{
    const struct mr_attr attr = {.len = 1, .access = ACCESS_REMOTE_READ};
    struct bare_engine b;
    struct mr *mrs[64];

    (void)state;
    bare_engine_init(&b, 9);
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(mr_new(b.pd, &attr, &mrs[i]), 0);
    for (int32_t step = -100000; step <= 100000; step++) {
        const struct mr_query q = {.pd = b.pd, .len = 1, .key = mrs[31]->key + (uint32_t)step};
        uint8_t *memory;

        if (step != 0)
            assert_int_equal(mr_resolve(&b.engine, &q, &memory), MR_NO_KEY);
    }
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(mr_free(mrs[i]), 0);
    bare_engine_fini(&b);
}

static void limits_of_regions_and_windows_are_apart_and_kept(void **state)
{
    static struct mw *mws[MW_COUNT_MAX];
    const struct mr_attr attr = {.len = 0};
    struct bare_engine b;
    struct mw *one_more = NULL;
    struct mr *mr;

    (void)state;
    bare_engine_init(&b, 10);
    for (uint32_t i = 0; i < MW_COUNT_MAX; i++)
        assert_int_equal(mw_new(b.pd, MW_TYPE_1, &mws[i]), 0);
    assert_int_equal(mw_new(b.pd, MW_TYPE_1, &one_more), -ENOMEM);
    assert_null(one_more);
    assert_int_equal(mr_new(b.pd, &attr, &mr), 0);
    key_table_check(&b.engine);
    assert_int_equal(mr_free(mr), 0);
    for (uint32_t i = 0; i < MW_COUNT_MAX; i++)
        mw_free(mws[i]);
    bare_engine_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_one_process_are_even_and_so_are_their_distances),
        cmocka_unit_test(first_keys_of_many_processes_are_even),
        cmocka_unit_test(keys_of_windows_are_even),
        cmocka_unit_test(guessing_beside_a_known_key_finds_nothing),
        cmocka_unit_test(limits_of_regions_and_windows_are_apart_and_kept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
