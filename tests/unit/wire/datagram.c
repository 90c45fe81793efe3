/* SPDX-License-Identifier: BSD-2-Clause */
/* Source ports that Linux was seen to use (tests/golden/captures), and addresses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "wire/datagram.h"

static void source_port_of_a_connection_is_that_of_linux(void **state)
{
    (void)state;
    assert_int_equal(roce_src_port(0, 0x49, 0x46), 54262);
    assert_int_equal(roce_src_port(0x12345, 0x49, 0x46), 58177);
    assert_int_equal(roce_src_port(0x5bd09, 0x11, 0x12), 64799);
}

static void both_ends_choose_the_same_source_port(void **state)
{
    (void)state;
    for (uint32_t a = 1; a < 0x1000000; a += 99991)
        for (uint32_t b = 2; b < 0x1000000; b += 777777) {
            uint16_t port = roce_src_port(0, a, b);

            assert_int_equal(port, roce_src_port(0, b, a));
            assert_true(port >= 0xc000);
        }
}

static void only_20_bits_of_a_flow_label_count(void **state)
{
    (void)state;
    assert_int_equal(roce_src_port(0xfff12345, 1, 2), 58177);
    assert_int_equal(roce_src_port(0xfff00000, 0x49, 0x46), 54262);
}

static void source_port_of_qp1_is_that_of_linux(void **state)
{
    (void)state;
    assert_int_equal(roce_src_port_ud(1), 55410);
}

static void an_ipv4_address_is_known_in_a_gid(void **state)
{
    const struct gid mapped = {{[10] = 0xff, [11] = 0xff, [12] = 10}};
    const struct gid compatible = {{[12] = 10}};
    const struct gid link_local = {{0xfe, 0x80, [15] = 1}};

    (void)state;
    assert_true(gid_is_ipv4(&mapped));
    assert_false(gid_is_ipv4(&compatible));
    assert_true(gid_is_link_local(&link_local));
    assert_false(gid_is_link_local(&mapped));
    assert_true(gid_equal(&mapped, &mapped));
    assert_false(gid_equal(&mapped, &compatible));
}

/* As the kernel accounts them on Linux 6.18: measured with SO_MEMINFO. */
static void a_datagram_alone_costs_its_receiver_far_more_than_in_a_batch(void **state)
{
    (void)state;
    assert_int_equal(datagram_truesize(1, 20), 832);
    assert_int_equal(datagram_truesize(1, 1064), 2368);
    assert_int_equal(datagram_truesize(1, 4136), 8512);
    assert_int_equal(datagram_truesize(10, 10 * 1064), 10 * (1064 + 300) + 1024);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(source_port_of_a_connection_is_that_of_linux),
        cmocka_unit_test(both_ends_choose_the_same_source_port),
        cmocka_unit_test(only_20_bits_of_a_flow_label_count),
        cmocka_unit_test(source_port_of_qp1_is_that_of_linux),
        cmocka_unit_test(a_datagram_alone_costs_its_receiver_far_more_than_in_a_batch),
        cmocka_unit_test(an_ipv4_address_is_known_in_a_gid),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
