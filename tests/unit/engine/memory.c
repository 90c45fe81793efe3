/* SPDX-License-Identifier: BSD-2-Clause */
/* Keys: what they let through and what not, and that none comes back soon. */
#include "bare_engine.h"

#include <errno.h>
#include <stdlib.h>

#include "engine/limits.h"

#define LEN 4096u
#define IOVA 0x7f0000001003ull /* unaligned, and not the address of the memory */
#define RIGHTS_ALL                                                                                 \
    (ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC)

struct fixture {
    struct bare_engine bare;
    uint8_t memory[LEN];
};

static int setup(void **state)
{
    static struct fixture f;

    bare_engine_init(&f.bare, 4);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    key_table_check(&f->bare.engine);
    bare_engine_fini(&f->bare);
    return 0;
}

static struct mr *register_at(struct fixture *f, uint64_t iova, uint64_t len, uint32_t access)
{
    const struct mr_attr attr = {.base = f->memory, .len = len, .iova = iova, .access = access};
    struct mr *mr = NULL;

    assert_int_equal(mr_new(f->bare.pd, &attr, &mr), 0);
    assert_int_not_equal(mr->key, 0);
    return mr;
}

static enum mr_verdict resolve(struct fixture *f, const struct mr_query *q, uint8_t **out)
{
    *out = NULL;
    return mr_resolve(&f->bare.engine, q, out);
}

/* --- what is let through --- */

static void range_within_a_region_is_found_at_its_place(void **state)
{
    static const struct {
        uint64_t offset;
        uint64_t len;
    } rows[] = {{0, LEN}, {0, 1}, {LEN - 1, 1}, {17, 1000}, {LEN, 0}};
    struct fixture *f = *state;
    struct mr *mr = register_at(f, IOVA, LEN, RIGHTS_ALL);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct mr_query q = {.pd = f->bare.pd,
                                   .va = IOVA + rows[i].offset,
                                   .len = rows[i].len,
                                   .key = mr->key,
                                   .access = ACCESS_REMOTE_WRITE};
        uint8_t *found;

        assert_int_equal(resolve(f, &q, &found), MR_OK);
        assert_ptr_equal(found, f->memory + rows[i].offset);
    }
    mr_free(mr);
}

static void zero_based_region_begins_at_address_zero(void **state)
{
    struct fixture *f = *state;
    struct mr *mr = register_at(f, IOVA, LEN, ACCESS_ZERO_BASED | ACCESS_REMOTE_READ);
    struct mr_query q = {
        .pd = f->bare.pd, .va = 5, .len = 10, .key = mr->key, .access = ACCESS_REMOTE_READ};
    uint8_t *found;

    assert_int_equal(mr->iova, 0);
    assert_int_equal(resolve(f, &q, &found), MR_OK);
    assert_ptr_equal(found, f->memory + 5);
    q.va = IOVA;
    assert_int_equal(resolve(f, &q, &found), MR_OUT_OF_BOUNDS);
    mr_free(mr);
}

/* --- what is refused --- */

static void range_that_leaves_the_region_or_wraps_is_out_of_bounds(void **state)
{
    static const struct {
        uint64_t va;
        uint64_t len;
    } rows[] = {
        {IOVA - 1, 1},
        {IOVA - 1, 2},
        {IOVA, LEN + 1},
        {IOVA + LEN, 1},
        {IOVA + LEN - 1, 2},
        {IOVA + 1, UINT64_MAX}, /* ends at IOVA again */
        {IOVA + 1, UINT64_MAX - 1},
        {IOVA, UINT64_MAX},
        {0xfffffffffffffc00ull, 0x400},  /* ends at exactly 2^64 */
        {0xfffffffffffffc00ull, 0x1000}, /* wraps to 0xc00 */
        {UINT64_MAX, IOVA + 2},
        {UINT64_MAX, 1},
        {0, UINT64_MAX},
        {0, 1},
    };
    struct fixture *f = *state;
    struct mr *mr = register_at(f, IOVA, LEN, RIGHTS_ALL);

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct mr_query q = {.pd = f->bare.pd,
                                   .va = rows[i].va,
                                   .len = rows[i].len,
                                   .key = mr->key,
                                   .access = ACCESS_REMOTE_WRITE};
        uint8_t *found;

        assert_int_equal(resolve(f, &q, &found), MR_OUT_OF_BOUNDS);
        assert_null(found);
    }
    mr_free(mr);
}

static void wrap_is_refused_also_at_the_very_end_of_the_address_space(void **state)
{
    const uint64_t iova = UINT64_MAX - LEN + 1; /* the last byte is byte 2^64 - 1 */
    struct fixture *f = *state;
    struct mr *mr = register_at(f, iova, LEN, RIGHTS_ALL);
    struct mr_query q = {.pd = f->bare.pd, .va = iova, .len = LEN, .key = mr->key};
    uint8_t *found;

    assert_int_equal(resolve(f, &q, &found), MR_OK);
    q.len = LEN + 1;
    assert_int_equal(resolve(f, &q, &found), MR_OUT_OF_BOUNDS);
    q.va = UINT64_MAX;
    q.len = 1;
    assert_int_equal(resolve(f, &q, &found), MR_OK);
    q.len = 2;
    assert_int_equal(resolve(f, &q, &found), MR_OUT_OF_BOUNDS);
    mr_free(mr);
}

static void all_rights_that_are_asked_for_must_be_there(void **state)
{
    struct fixture *f = *state;

    for (uint32_t has = 0; has <= RIGHTS_ALL; has++) {
        bool changes = (has & (ACCESS_REMOTE_WRITE | ACCESS_REMOTE_ATOMIC)) != 0;
        struct mr *mr;

        if (changes && (has & ACCESS_LOCAL_WRITE) == 0)
            continue;
        mr = register_at(f, IOVA, LEN, has);
        for (uint32_t asked = 0; asked <= RIGHTS_ALL; asked++) {
            const struct mr_query q = {
                .pd = f->bare.pd, .va = IOVA, .len = 1, .key = mr->key, .access = asked};
            uint8_t *found;

            assert_int_equal(resolve(f, &q, &found), (asked & has) == asked ? MR_OK : MR_NO_ACCESS);
        }
        mr_free(mr);
    }
}

static void key_of_another_domain_is_refused(void **state)
{
    struct fixture *f = *state;
    struct mr *mr = register_at(f, IOVA, LEN, RIGHTS_ALL);
    struct mr_query q = {.va = IOVA, .len = 1, .key = mr->key};
    struct pd *other;
    uint8_t *found;

    assert_int_equal(pd_new(&f->bare.engine, &other), 0);
    q.pd = other;
    assert_int_equal(resolve(f, &q, &found), MR_WRONG_PD);
    mr_free(mr);
    pd_free(other);
}

static void only_the_whole_key_opens(void **state)
{
    struct fixture *f = *state;
    struct mr *mr = register_at(f, IOVA, LEN, RIGHTS_ALL);
    uint8_t *found;

    for (uint32_t bit = 0; bit < 32; bit++) {
        const struct mr_query q = {
            .pd = f->bare.pd, .va = IOVA, .len = 1, .key = mr->key ^ (1u << bit)};

        assert_int_equal(resolve(f, &q, &found), MR_NO_KEY);
    }
    assert_int_equal(resolve(f, &(struct mr_query){.pd = f->bare.pd, .va = IOVA}, &found),
                     MR_NO_KEY);
    mr_free(mr);
}

static void registration_that_makes_no_sense_is_refused(void **state)
{
    struct fixture *f = *state;
    const struct mr_attr rows[] = {
        {.base = f->memory, .len = LEN, .access = ACCESS_REMOTE_WRITE},
        {.base = f->memory, .len = LEN, .access = ACCESS_REMOTE_ATOMIC | ACCESS_REMOTE_READ},
        {.base = f->memory, .len = LEN, .access = 1u << 7},
        {.base = f->memory, .len = LEN, .access = 1u << 31},
        {.base = f->memory, .len = LEN, .iova = UINT64_MAX - LEN + 2},
        {.base = (void *)(UINTPTR_MAX - LEN + 2), .len = LEN},
    };
    struct mr *mr = NULL;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(mr_new(f->bare.pd, &rows[i], &mr), -EINVAL);
    assert_null(mr);
    assert_int_equal(f->bare.pd->use_count, 0);
}

/* --- the life of a key --- */

static void freed_region_is_not_found_any_more(void **state)
{
    struct fixture *f = *state;
    struct mr *mr = register_at(f, IOVA, LEN, RIGHTS_ALL);
    const struct mr_query q = {.pd = f->bare.pd, .va = IOVA, .len = 1, .key = mr->key};
    uint8_t *found;

    mr_free(mr);
    assert_int_equal(resolve(f, &q, &found), MR_NO_KEY);
}

static int compare_keys(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a;
    const uint32_t y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

#define CYCLES (3u << 17)
#define OLD_KEYS 1000u

/* Also beside regions that stay, which leave fewer slots to take turns. */
static void registering_for_ever_brings_no_recent_key_back(void **state)
{
    static const uint32_t staying_counts[] = {0, 1, 127, 1000};
    static uint32_t old[OLD_KEYS];
    static struct mr *staying[1000];
    struct fixture *f = *state;

    for (size_t row = 0; row < sizeof(staying_counts) / sizeof(staying_counts[0]); row++) {
        for (uint32_t i = 0; i < staying_counts[row]; i++)
            staying[i] = register_at(f, IOVA, LEN, 0);
        for (uint32_t i = 0; i < CYCLES; i++) {
            struct mr *mr = register_at(f, IOVA, LEN, RIGHTS_ALL);
            const uint32_t key = mr->key;
            struct mr_query q = {.pd = f->bare.pd, .va = IOVA, .key = key};
            uint8_t *found;

            assert_int_equal(resolve(f, &q, &found), MR_OK);
            q.key = old[i % OLD_KEYS];
            assert_int_equal(resolve(f, &q, &found), MR_NO_KEY);
            mr_free(mr);
            old[i % OLD_KEYS] = key;
        }
        for (uint32_t i = 0; i < staying_counts[row]; i++)
            mr_free(staying[i]);
    }
}

#define MANY 20000u

static void many_regions_have_keys_of_their_own(void **state)
{
    static struct mr *mrs[MANY];
    static uint32_t keys[MANY];
    struct fixture *f = *state;

    for (uint32_t i = 0; i < MANY; i++) {
        mrs[i] = register_at(f, IOVA + i, 1, 0);
        keys[i] = mrs[i]->key;
    }
    key_table_check(&f->bare.engine);
    for (uint32_t i = 0; i < MANY; i++) {
        const struct mr_query q = {.pd = f->bare.pd, .va = IOVA + i, .len = 1, .key = keys[i]};
        uint8_t *found;

        assert_int_equal(resolve(f, &q, &found), MR_OK);
    }
    qsort(keys, MANY, sizeof(keys[0]), compare_keys);
    for (uint32_t i = 1; i < MANY; i++)
        assert_true(keys[i - 1] >> 8 != keys[i] >> 8);
    for (uint32_t i = 0; i < MANY; i++)
        mr_free(mrs[i]);
}

/* An observer of some keys learns nothing of the next: keys neither run nor repeat across seeds. */
static void keys_do_not_run_and_differ_from_seed_to_seed(void **state)
{
    struct bare_engine other;
    struct fixture *f = *state;
    uint32_t close = 0;
    uint32_t before = 0;

    bare_engine_init(&other, 99);
    for (uint32_t i = 0; i < 1000; i++) {
        struct mr *mr = register_at(f, IOVA, LEN, 0);
        struct mr *theirs;

        assert_int_equal(mr_new(other.pd, &(struct mr_attr){.base = f->memory, .len = 1}, &theirs),
                         0);
        assert_int_not_equal(mr->key, theirs->key);
        close += (mr->key >> 8) - before < 1000; /* by chance: 1000 in 2^24 */
        before = mr->key >> 8;
        mr_free(mr);
        mr_free(theirs);
    }
    assert_true(close < 5);
    bare_engine_fini(&other);
}

static void limit_on_regions_is_kept_and_leaves_all_keys_good(void **state)
{
    static struct mr *mrs[MR_COUNT_MAX];
    const struct mr_attr attr = {.len = 0};
    struct fixture *f = *state;
    struct mr *one_more = NULL;
    uint8_t *found;

    for (uint32_t i = 0; i < MR_COUNT_MAX; i++)
        assert_int_equal(mr_new(f->bare.pd, &attr, &mrs[i]), 0);
    assert_int_equal(mr_new(f->bare.pd, &attr, &one_more), -ENOMEM);
    assert_null(one_more);
    assert_int_equal(mr_change(mrs[7], NULL, NULL), 0);
    for (uint32_t i = 0; i < MR_COUNT_MAX; i += 1009) {
        const struct mr_query q = {.pd = f->bare.pd, .key = mrs[i]->key};

        assert_int_equal(resolve(f, &q, &found), MR_OK);
    }
    for (uint32_t i = 0; i < MR_COUNT_MAX; i++)
        mr_free(mrs[i]);
}

/* --- changing and invalidating --- */

static void change_gives_a_new_key_and_ends_the_old(void **state)
{
    const struct mr_attr attr = {.base = NULL, .len = 16, .iova = 64, .access = ACCESS_REMOTE_READ};
    struct fixture *f = *state;
    struct mr *mr = register_at(f, IOVA, LEN, 0);
    struct mr_query q = {.va = 64, .len = 16, .key = mr->key, .access = ACCESS_REMOTE_READ};
    struct pd *other;
    uint8_t *found;

    assert_int_equal(pd_new(&f->bare.engine, &other), 0);
    assert_int_equal(mr_change(mr, other, &attr), 0);
    q.pd = other;
    assert_int_equal(resolve(f, &q, &found), MR_NO_KEY);
    q.key = mr->key;
    assert_int_equal(resolve(f, &q, &found), MR_OK);
    assert_int_equal(f->bare.pd->use_count, 0);
    assert_int_equal(pd_free(other), -EBUSY);
    mr_free(mr);
    assert_int_equal(pd_free(other), 0);
}

static void changing_only_rights_and_domain_keeps_the_key(void **state)
{
    struct fixture *f = *state;
    struct mr *mr = register_at(f, IOVA, LEN, ACCESS_REMOTE_READ);
    struct mr_query q = {.va = IOVA, .len = LEN, .key = mr->key, .access = ACCESS_LOCAL_WRITE};
    struct pd *other;
    uint8_t *found;

    assert_int_equal(pd_new(&f->bare.engine, &other), 0);
    assert_int_equal(mr_set_access(mr, other, ACCESS_REMOTE_WRITE), -EINVAL);
    assert_int_equal(mr_set_access(mr, other, ACCESS_LOCAL_WRITE), 0);
    q.pd = other;
    assert_int_equal(resolve(f, &q, &found), MR_OK);
    q.access = ACCESS_REMOTE_READ;
    assert_int_equal(resolve(f, &q, &found), MR_NO_ACCESS);
    assert_int_equal(pd_free(other), -EBUSY);
    mr_free(mr);
    assert_int_equal(pd_free(other), 0);
}

static void change_that_is_refused_changes_nothing(void **state)
{
    const struct mr_attr bad = {.base = NULL, .len = 16, .access = ACCESS_REMOTE_WRITE};
    struct fixture *f = *state;
    struct mr *mr = register_at(f, IOVA, LEN, ACCESS_REMOTE_READ);
    const struct mr before = *mr;

    assert_int_equal(mr_change(mr, NULL, &bad), -EINVAL);
    assert_memory_equal(mr, &before, sizeof(before));
    mr_free(mr);
}

static void domain_in_use_cannot_be_freed(void **state)
{
    struct fixture *f = *state;
    struct mr *mr = register_at(f, IOVA, LEN, 0);

    assert_int_equal(pd_free(f->bare.pd), -EBUSY);
    mr_free(mr);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(range_within_a_region_is_found_at_its_place),
        TEST(zero_based_region_begins_at_address_zero),
        TEST(range_that_leaves_the_region_or_wraps_is_out_of_bounds),
        TEST(wrap_is_refused_also_at_the_very_end_of_the_address_space),
        TEST(all_rights_that_are_asked_for_must_be_there),
        TEST(key_of_another_domain_is_refused),
        TEST(only_the_whole_key_opens),
        TEST(registration_that_makes_no_sense_is_refused),
        TEST(freed_region_is_not_found_any_more),
        TEST(registering_for_ever_brings_no_recent_key_back),
        TEST(many_regions_have_keys_of_their_own),
        TEST(keys_do_not_run_and_differ_from_seed_to_seed),
        TEST(limit_on_regions_is_kept_and_leaves_all_keys_good),
        TEST(change_gives_a_new_key_and_ends_the_old),
        TEST(changing_only_rights_and_domain_keeps_the_key),
        TEST(change_that_is_refused_changes_nothing),
        TEST(domain_in_use_cannot_be_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
