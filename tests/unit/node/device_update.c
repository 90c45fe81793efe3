/* SPDX-License-Identifier: BSD-2-Clause */
/* Places of GIDs in a table that changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "node/device.h"

/* Each letter is an address, '-' is a hole. */
static struct device device_of(const char *letters)
{
    struct device d = {.up = true, .gid_count = (uint32_t)strlen(letters)};

    for (uint32_t i = 0; i < d.gid_count; i++)
        if (letters[i] != '-')
            d.gids[i].gid.bytes[15] = (uint8_t)letters[i];
    return d;
}

static void gids_that_stay_keep_their_places(void **state)
{
    static const struct {
        const char *before;
        const char *found;
        const char *after;
    } rows[] = {
        {"abc", "abc", "abc"},  {"abc", "cba", "abc"},  {"abc", "ac", "a-c"},
        {"a-c", "dac", "adc"},  {"abc", "ab", "ab"},    {"abc", "b", "-b"},
        {"-b", "cbd", "cbd"},   {"abc", "", ""},        {"", "ab", "ab"},
        {"abc", "dae", "ade"},  {"a--d", "dx", "x--d"}, {"a--d", "dxy", "xy-d"},
        {"ab", "abcd", "abcd"}, {"a-c", "ac", "a-c"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct device known = device_of(rows[i].before);
        struct device found = device_of(rows[i].found);
        struct device after = device_of(rows[i].after);
        uint32_t changes = device_update(&known, &found);
        bool same = strcmp(rows[i].before, rows[i].after) == 0;

        assert_int_equal(changes, same ? 0 : DEVICE_CHANGE_GIDS);
        assert_int_equal(known.gid_count, after.gid_count);
        assert_memory_equal(known.gids, after.gids, sizeof(known.gids));
    }
}

static void a_full_table_takes_no_more(void **state)
{
    struct device known = {.gid_count = 0};
    struct device found = {.gid_count = DEVICE_GIDS_MAX};

    (void)state;
    for (uint32_t i = 0; i < DEVICE_GIDS_MAX; i++)
        found.gids[i].gid.bytes[15] = (uint8_t)(i + 1);
    device_update(&known, &found);
    assert_int_equal(known.gid_count, DEVICE_GIDS_MAX);
    found.gids[0].gid.bytes[15] = 200; /* in the place of the one that goes */
    assert_int_equal(device_update(&known, &found), DEVICE_CHANGE_GIDS);
    assert_int_equal(known.gids[0].gid.bytes[15], 200);
    assert_int_equal(known.gid_count, DEVICE_GIDS_MAX);
}

static void the_port_follows_and_a_device_that_is_gone_is_down_and_empty(void **state)
{
    struct device known = device_of("ab");
    struct device found = device_of("ab");

    (void)state;
    found.up = false;
    assert_int_equal(device_update(&known, &found), DEVICE_CHANGE_PORT);
    assert_false(known.up);
    found.up = true;
    assert_int_equal(device_update(&known, &found), DEVICE_CHANGE_PORT);
    assert_int_equal(device_update(&known, NULL), DEVICE_CHANGE_PORT | DEVICE_CHANGE_GIDS);
    assert_int_equal(known.gid_count, 0);
    assert_int_equal(device_update(&known, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gids_that_stay_keep_their_places),
        cmocka_unit_test(a_full_table_takes_no_more),
        cmocka_unit_test(the_port_follows_and_a_device_that_is_gone_is_down_and_empty),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
