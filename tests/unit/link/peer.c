/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of peers and what it remembers of each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "link/peer.h"

static struct peers peers;

static struct gid address(uint32_t n)
{
    return (struct gid){.bytes = {[10] = 0xff,
                                  [11] = 0xff,
                                  [12] = 10,
                                  [13] = (uint8_t)(n >> 16),
                                  [14] = (uint8_t)(n >> 8),
                                  [15] = (uint8_t)n}};
}

static void a_pair_is_found_again(void **state)
{
    struct gid a = address(1);
    struct gid b = address(2);
    struct peer *p;

    (void)state;
    memset(&peers, 0, sizeof(peers));
    p = peers_get(&peers, &a, &b);
    p->gso_refused = true;
    assert_ptr_equal(peers_get(&peers, &a, &b), p);
    assert_ptr_not_equal(peers_get(&peers, &b, &a), p);
    assert_true(peers_get(&peers, &a, &b)->gso_refused);
}

static void neighbours_do_not_displace_each_other(void **state)
{
    enum { NEIGHBOURS = 128 }; /* a quarter of what the table holds */
    struct gid own = address(0x010100);
    uint32_t found = 0;

    (void)state;
    memset(&peers, 0, sizeof(peers));
    for (uint32_t i = 0; i < NEIGHBOURS; i++) {
        struct gid other = address(0x010101 + i);

        peers_get(&peers, &own, &other)->gso_refused = true;
    }
    for (uint32_t i = 0; i < NEIGHBOURS; i++) {
        struct gid other = address(0x010101 + i);

        found += peers_get(&peers, &own, &other)->gso_refused;
    }
    assert_in_range(found, NEIGHBOURS - 8, NEIGHBOURS);
}

static void any_number_of_addresses_takes_no_more_memory(void **state)
{
    struct gid own = address(0);

    (void)state;
    memset(&peers, 0, sizeof(peers));
    for (uint32_t i = 0; i < 100000; i++) {
        struct gid other = address(i);
        struct peer *p = peers_get(&peers, &own, &other);

        assert_in_range((uintptr_t)p, (uintptr_t)&peers, (uintptr_t)(&peers + 1) - sizeof(*p));
        assert_true(gid_equal(&p->other, &other));
        assert_int_equal(p->hints, 0);
    }
}

static void a_hint_is_due_once_for_each_peer(void **state)
{
    struct peer a = {.used = true};
    struct peer b = {.used = true};

    (void)state;
    assert_true(peer_hint_due(&a, PEER_HINT_REFUSED));
    assert_false(peer_hint_due(&a, PEER_HINT_REFUSED));
    assert_true(peer_hint_due(&a, PEER_HINT_GSO));
    assert_true(peer_hint_due(&b, PEER_HINT_REFUSED));
}

static void low_identifications_and_those_a_little_ahead_fit(void **state)
{
    static const struct {
        uint16_t id;
        bool fits;
        uint16_t expected_after;
    } steps[] = {
        {0, true, 0},
        {ID_OWN_MAX - 1, true, 0},
        {40000, false, 40001},
        {40000, true, 40001},
        {40000 + ID_AHEAD_MAX, true, 40001 + ID_AHEAD_MAX},
        {40000, false, 40001},
        {40000 + ID_AHEAD_MAX + 1, false, 40002 + ID_AHEAD_MAX},
        {65530, false, 65531},
        {200, false, 201},
    };
    struct peer p = {.used = true};

    (void)state;
    assert_int_equal(peer_id_expected(&p), 0);
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        assert_int_equal(peer_id_note(&p, steps[i].id), steps[i].fits);
        assert_int_equal(peer_id_expected(&p), steps[i].expected_after);
    }
}

static void identifications_wrap(void **state)
{
    struct peer p = {.used = true};

    (void)state;
    assert_false(peer_id_note(&p, 65530));
    assert_true(peer_id_note(&p, 65535));
    assert_int_equal(peer_id_expected(&p), 0);
    assert_true(peer_id_note(&p, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_pair_is_found_again),
        cmocka_unit_test(neighbours_do_not_displace_each_other),
        cmocka_unit_test(any_number_of_addresses_takes_no_more_memory),
        cmocka_unit_test(a_hint_is_due_once_for_each_peer),
        cmocka_unit_test(low_identifications_and_those_a_little_ahead_fit),
        cmocka_unit_test(identifications_wrap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
