/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which addresses are this host's, in a network namespace whose addresses the test sets.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "link/limits.h"
#include "link/route.h"
#include "member.h"

static struct routes routes;

static struct gid documentation6(uint8_t n)
{
    return (struct gid){.bytes = {0x20, 0x01, 0x0d, 0xb8, [15] = n}};
}

static void own_addresses_are_local_and_others_are_not(void **state)
{
    struct gid local[] = {gid_ipv4(0x7f000001), gid_ipv4(0x7f123456), gid_ipv6_loopback()};
    struct gid remote[] = {gid_ipv4(0x08080808), gid_ipv4(0xc0000201), documentation6(1)};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        assert_true(routes_is_local(&routes, &local[i], 1));
        assert_false(routes_is_local(&routes, &remote[i], 1));
    }
}

static void an_answer_is_kept_for_a_while_and_then_asked_again(void **state)
{
    static const char *const commands[] = {
        "ip address add 192.0.2.1/24 dev one",
        "ip address add 192.0.2.2/24 dev one", /* a secondary address */
        /* The kernel makes an IPv6 address usable a little later. */
        ("ip address add 2001:db8::1/64 dev one nodad && "
         "timeout 5 sh -c 'until ip -6 route get 2001:db8::1 | grep -q ^local; do sleep .01; "
         "done'"),
    };
    struct gid own[] = {gid_ipv4(0xc0000201), gid_ipv4(0xc0000202), documentation6(1)};
    uint64_t now_ns = 10 * ROUTE_ANSWER_NS; /* long after the other test's questions */

    (void)state;
    if (system("ip link add one type veth peer name two && ip link set two up && "
               "ip link set one up"))
        skip();
    for (size_t i = 0; i < 3; i++) {
        /* 192.0.2.2 is in the subnet by now, but not ours. */
        assert_false(routes_is_local(&routes, &own[i], now_ns));
        if (system(commands[i]))
            skip();
        assert_false(routes_is_local(&routes, &own[i], now_ns + ROUTE_ANSWER_NS - 1));
        assert_true(routes_is_local(&routes, &own[i], now_ns + ROUTE_ANSWER_NS));
    }
}

static void without_the_kernels_answer_nothing_is_local(void **state)
{
    static struct routes deaf = {.socket = -1};
    struct gid loopback = gid_ipv6_loopback();

    (void)state;
    assert_false(routes_is_local(&deaf, &loopback, 1));
}

static int open_routes(void **state)
{
    (void)state;
    routes_open(&routes);
    return routes.socket < 0;
}

static int close_routes(void **state)
{
    (void)state;
    routes_close(&routes);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_addresses_are_local_and_others_are_not),
        cmocka_unit_test(an_answer_is_kept_for_a_while_and_then_asked_again),
        cmocka_unit_test(without_the_kernels_answer_nothing_is_local),
    };

    namespace_make();
    return cmocka_run_group_tests(tests, open_routes, close_routes);
}
