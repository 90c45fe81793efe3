/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading the kernel's table of UDP sockets: expectations are lines of
 * /proc/net/udp as Linux 6.1 prints them (proc(5)).
 */
#include "cli/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#define HEADING                                                                                    \
    "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout " \
    "inode ref pointer drops             \n"
#define DHCP_OF_ROOT                                                                               \
    "  323: 0100007F:0044 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 " \
    "21012 2 ffff88800b3f0000 0         \n"
#define ROCE_OF_1000                                                                               \
    " 1234: 00000000:12B7 00000000:0000 07 00000000:00000000 00:00000000 00000000  1000        0 " \
    "31337 2 ffff88800b3f1000 0         \n"
#define ROCE6_OF_1001                                                                              \
    "  600: 00000000000000000000000000000000:12B7 00000000000000000000000000000000:0000 07 "       \
    "00000000:00000000 00:00000000 00000000  1001        0 41414 2 ffff88800b3f2000 0\n"
#define FROM_ROCE_PORT_OF_OTHER                                                                    \
    "  700: 0100007F:C001 0100007F:12B7 01 00000000:00000000 00:00000000 00000000  1002        0 " \
    "51515 2 ffff88800b3f3000 0         \n"

#define UNIX_HEADING "Num       RefCount Protocol Flags    Type St Inode Path\n"
#define GROUP_OF_1000 "ffff88800b3f4000: 00000002 00000000 00010000 0005 01 51516 @uroce/1000/0\n"

static bool shares(const char *text, uid_t holder)
{
    FILE *table = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    bool found;

    assert_non_null(table);
    found = port_table_shares(table, holder);
    fclose(table);
    return found;
}

static void processes_that_share_the_port_are_told_from_other_programs(void **state)
{
    (void)state;
    assert_true(shares(UNIX_HEADING GROUP_OF_1000, 1000));
    assert_false(shares(UNIX_HEADING GROUP_OF_1000, 100));
    assert_false(shares(UNIX_HEADING, 1000));
}

static bool other_holder(const char *text, uid_t self, uid_t *holder)
{
    FILE *table = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
    bool found;

    assert_non_null(table);
    found = port_table_other_holder(table, 4791, self, holder);
    fclose(table);
    return found;
}

static void a_port_of_another_user_is_found_with_its_owner(void **state)
{
    uid_t holder = 0;

    (void)state;
    assert_true(other_holder(HEADING DHCP_OF_ROOT ROCE_OF_1000, 0, &holder));
    assert_int_equal(holder, 1000);
}

static void ones_own_port_is_no_obstacle(void **state)
{
    uid_t holder = 7;

    (void)state;
    assert_false(other_holder(HEADING DHCP_OF_ROOT ROCE_OF_1000, 1000, &holder));
    assert_int_equal(holder, 7);
}

static void a_port_held_over_ipv6_counts_as_well(void **state)
{
    uid_t holder = 0;

    (void)state;
    assert_true(other_holder(HEADING ROCE6_OF_1001, 1000, &holder));
    assert_int_equal(holder, 1001);
}

static void the_remote_port_does_not_count(void **state)
{
    uid_t holder = 0;

    (void)state;
    assert_false(other_holder(HEADING FROM_ROCE_PORT_OF_OTHER, 1000, &holder));
}

static void a_table_that_is_empty_or_garbled_holds_nobody(void **state)
{
    static const char heading[] = HEADING;
    static const char *const texts[] = {heading, "\n", "4791 1000\n", " 1: 0:12B7\n",
                                        " 1: zz:12B7 0:0 07 0 0 0 1000\n"};
    uid_t holder = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_false(other_holder(texts[i], 1, &holder));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(processes_that_share_the_port_are_told_from_other_programs),
        cmocka_unit_test(a_port_of_another_user_is_found_with_its_owner),
        cmocka_unit_test(ones_own_port_is_no_obstacle),
        cmocka_unit_test(a_port_held_over_ipv6_counts_as_well),
        cmocka_unit_test(the_remote_port_does_not_count),
        cmocka_unit_test(a_table_that_is_empty_or_garbled_holds_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
