/* SPDX-License-Identifier: BSD-2-Clause */
/* Scatter and gather: any part of any list of SGEs is the bytes that it names, or an error. */
#include "bare_engine.h"

#include <errno.h>
#include <string.h>

#include "engine/sge_private.h"

#define LEN 1000u

struct fixture {
    struct bare_engine bare;
    struct mr *mr;
    uint8_t memory[LEN];
};

static int setup(void **state)
{
    static struct fixture f;
    struct mr_attr attr = {
        .base = f.memory, .len = LEN, .iova = 0x10000, .access = ACCESS_LOCAL_WRITE};

    bare_engine_init(&f.bare, 7);
    for (uint32_t i = 0; i < LEN; i++)
        f.memory[i] = (uint8_t)(i * 7);
    assert_int_equal(mr_new(f.bare.pd, &attr, &f.mr), 0);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    mr_free(f->mr);
    bare_engine_fini(&f->bare);
    return 0;
}

/* Pieces that overlap nowhere, stand in no order, and some are empty. */
static struct sge_list list_of(const struct fixture *f, struct sge sges[5])
{
    const struct sge pieces[] = {{0x10000 + 900, 50, f->mr->key},
                                 {0xdead, 0, 0xbad}, /* empty: nothing of it is looked at */
                                 {0x10000 + 0, 1, f->mr->key},
                                 {0x10000 + 300, 200, f->mr->key},
                                 {0x10000 + 100, 33, f->mr->key}};

    memcpy(sges, pieces, sizeof(pieces));
    return (struct sge_list){.sges = sges, .count = 5, .pd = f->bare.pd};
}

#define TOTAL (50u + 0 + 1 + 200 + 33)

/* Where byte n of the list is in memory. */
static uint32_t place_of(uint32_t n)
{
    if (n < 50)
        return 900 + n;
    if (n < 51)
        return 0;
    if (n < 251)
        return 300 + n - 51;
    return 100 + n - 251;
}

static void every_part_is_gathered_from_its_pieces(void **state)
{
    struct fixture *f = *state;
    struct sge sges[5];
    const struct sge_list l = list_of(f, sges);

    for (uint32_t from = 0; from <= TOTAL; from += 3) {
        for (uint32_t len = 0; from + len <= TOTAL; len += 7) {
            uint8_t got[TOTAL];

            assert_int_equal(sge_read(&f->bare.engine, &l, from, got, len), STATUS_SUCCESS);
            for (uint32_t i = 0; i < len; i++)
                assert_int_equal(got[i], f->memory[place_of(from + i)]);
        }
    }
}

static void every_part_is_scattered_to_its_pieces_and_nowhere_else(void **state)
{
    struct fixture *f = *state;
    struct sge sges[5];
    const struct sge_list l = list_of(f, sges);
    uint8_t in[TOTAL];

    for (uint32_t i = 0; i < TOTAL; i++)
        in[i] = (uint8_t)(i ^ 0x5a);
    for (uint32_t from = 0; from <= TOTAL; from += 5) {
        for (uint32_t len = 0; from + len <= TOTAL; len += 11) {
            uint8_t want[LEN];

            memcpy(want, f->memory, LEN);
            for (uint32_t i = 0; i < len; i++)
                want[place_of(from + i)] = in[i];
            assert_int_equal(sge_write(&f->bare.engine, &l, from, in, len), STATUS_SUCCESS);
            assert_memory_equal(f->memory, want, LEN);
        }
    }
}

static void each_piece_needs_its_key_its_rights_and_its_range(void **state)
{
    struct fixture *f = *state;
    struct mr *read_only;
    const struct mr_attr attr = {.base = f->memory, .len = LEN, .iova = 0x10000};
    uint8_t bytes[8] = {0};

    assert_int_equal(mr_new(f->bare.pd, &attr, &read_only), 0);
    const struct {
        struct sge sge;
        bool readable;
        bool writable;
    } rows[] = {
        {{0x10000, 8, f->mr->key}, true, true},
        {{0x10000, 8, read_only->key}, true, false},
        {{0x10000, 8, f->mr->key ^ 1}, false, false},
        {{0x10000 - 1, 8, f->mr->key}, false, false},
        {{0x10000 + LEN - 7, 8, f->mr->key}, false, false},
        {{UINT64_MAX - 3, 8, f->mr->key}, false, false},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct sge_list l = {.sges = &rows[i].sge, .count = 1, .pd = f->bare.pd};
        struct engine *e = &f->bare.engine;
        const enum completion_status read = rows[i].readable ? STATUS_SUCCESS : STATUS_LOC_PROT_ERR;
        const enum completion_status write =
            rows[i].writable ? STATUS_SUCCESS : STATUS_LOC_PROT_ERR;

        assert_int_equal(sge_check(e, &l, 0), read);
        assert_int_equal(sge_read(e, &l, 0, bytes, 8), read);
        assert_int_equal(sge_check(e, &l, ACCESS_LOCAL_WRITE), write);
        assert_int_equal(sge_write(e, &l, 0, bytes, 8), write);
    }
    mr_free(read_only);
}

static void another_domains_key_does_not_open(void **state)
{
    struct fixture *f = *state;
    struct sge sge = {0x10000, 8, f->mr->key};
    struct sge_list l = {.sges = &sge, .count = 1};
    struct pd *other;

    assert_int_equal(pd_new(&f->bare.engine, &other), 0);
    l.pd = other;
    assert_int_equal(sge_check(&f->bare.engine, &l, 0), STATUS_LOC_PROT_ERR);
    pd_free(other);
}

static int copy_that_fails(void *dst, const void *src, size_t len)
{
    (void)dst;
    (void)src;
    (void)len;
    return -EFAULT;
}

static void memory_that_is_gone_is_an_error(void **state)
{
    struct fixture *f = *state;
    struct sge sges[5];
    const struct sge_list l = list_of(f, sges);
    uint8_t bytes[8] = {0};

    f->bare.engine.config.copy = copy_that_fails;
    assert_int_equal(sge_read(&f->bare.engine, &l, 0, bytes, 8), STATUS_LOC_PROT_ERR);
    assert_int_equal(sge_write(&f->bare.engine, &l, 0, bytes, 8), STATUS_LOC_PROT_ERR);
    assert_int_equal(engine_copy(&f->bare.engine, bytes, f->memory, 8), -EFAULT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_part_is_gathered_from_its_pieces),
        TEST(every_part_is_scattered_to_its_pieces_and_nowhere_else),
        TEST(each_piece_needs_its_key_its_rights_and_its_range),
        TEST(another_domains_key_does_not_open),
        TEST(memory_that_is_gone_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
