/* SPDX-License-Identifier: BSD-2-Clause */
/* Pacing: what a bucket lets pass in a time, and that destinations do not share one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "node/pacing.h"

#define NS_PER_S 1000000000u

static const struct gid peer = {{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}};

/* A sender that always wants to send; returns the bytes that leave in a second. */
static uint64_t sent_in_a_second(uint64_t rate_bps)
{
    struct datagram_batch b = {.path.dst = peer, .dest_slot = 1};
    struct pacing p;
    uint64_t sent = 0;

    pacing_init(&p, rate_bps, 425984);
    for (uint64_t now = NS_PER_S; now < UINT64_C(2) * NS_PER_S; now += 20000) {
        while (pacing_room(&p, &peer, 1, now) >= 4112) {
            pacing_charge(&p, &b, 4112, now);
            sent += 4112;
        }
    }
    return sent;
}

static void a_greedy_sender_gets_the_rate(void **state)
{
    (void)state;
    assert_in_range(sent_in_a_second(100000000), 12000000, 12600000);
    assert_in_range(sent_in_a_second(4000000000u), 490000000, 501000000);
}

/* As the man page of sockets has it, half of the buffer is the kernel's own. */
static void without_a_rate_given_half_a_buffer_leaves_in_a_millisecond(void **state)
{
    (void)state;
    assert_in_range(sent_in_a_second(PACING_AUTO), 425984 / 2 / 2 * 990, 425984 / 2 / 2 * 1010);
}

static void a_rate_of_nothing_is_no_limit(void **state)
{
    struct datagram_batch b = {.path.dst = peer, .dest_slot = 1};
    struct pacing p;

    (void)state;
    pacing_init(&p, 0, 425984);
    pacing_charge(&p, &b, 1u << 30, 0);
    assert_true(pacing_room(&p, &peer, 1, 0) == UINT32_MAX);
}

static void other_processes_are_not_slowed_down(void **state)
{
    struct datagram_batch b = {.path.dst = peer, .dest_slot = 1};
    struct pacing p;

    (void)state;
    pacing_init(&p, 1000000, 425984);
    pacing_charge(&p, &b, 1u << 20, 0);
    assert_int_equal(pacing_room(&p, &peer, 1, 0), 0);
    assert_true(pacing_room(&p, &peer, 2, 0) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_greedy_sender_gets_the_rate),
        cmocka_unit_test(without_a_rate_given_half_a_buffer_leaves_in_a_millisecond),
        cmocka_unit_test(a_rate_of_nothing_is_no_limit),
        cmocka_unit_test(other_processes_are_not_slowed_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
