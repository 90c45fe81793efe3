/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The device list in a network namespace that the test makes and furnishes
 * with ip(8). Where that is not allowed, only the calculations are tested.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "node/device.h"
#include "node/device_files.h"

static bool furnished;
static struct device devices[DEVICE_COUNT_MAX];

/* Without being root there, programs that we start would lose what they may do in the namespace. */
static bool become_root(uid_t uid)
{
    FILE *map = fopen("/proc/self/uid_map", "w");

    if (map == NULL)
        return false;
    fprintf(map, "0 %u 1\n", uid);
    return fclose(map) == 0;
}

/* A namespace of our own: as root, or as root of a user namespace of our own. */
static int make_namespace(void **state)
{
    const uid_t uid = geteuid();

    (void)state;
    furnished = unshare(CLONE_NEWNET) == 0 ||
                (unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && become_root(uid));
    if (furnished && system("ip link set lo up 2>/dev/null") != 0)
        furnished = false;
    return 0;
}

static void ip(const char *arguments)
{
    char command[256];

    snprintf(command, sizeof(command), "ip %s", arguments);
    assert_int_equal(system(command), 0);
}

/* Two connected interfaces, up, without any address; va is made first. */
static void connect_interfaces(void)
{
    if (!furnished)
        skip();
    ip("link add name va type veth peer name vb");
    ip("link set va addrgenmode none up");
    ip("link set vb addrgenmode none up");
}

static void remove_interfaces(void)
{
    ip("link del va");
}

static int list(const char *chosen)
{
    memset(devices, 0x5a, sizeof(devices));
    return device_list_chosen(devices, DEVICE_COUNT_MAX, chosen);
}

/* The GIDs of a device as text, with blanks between them. */
static const char *gids_of(const struct device *d)
{
    static char text[4096];
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < d->gid_count; i++) {
        char address[INET6_ADDRSTRLEN];

        inet_ntop(AF_INET6, d->gids[i].gid.bytes, address, sizeof(address));
        used +=
            (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i > 0 ? " " : "", address);
    }
    return text;
}

static void path_mtu_is_the_largest_that_fits_with_headers(void **state)
{
    static const struct {
        uint32_t netdev;
        uint32_t active;
    } cases[] = {
        {65536, 4096}, {9000, 4096}, {4200, 4096}, {4176, 4096}, {4175, 2048},
        {2128, 2048},  {2127, 1024}, {1500, 1024}, {1400, 1024}, {1104, 1024},
        {1103, 512},   {591, 256},   {576, 256},   {68, 256},    {0, 256},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(device_active_mtu(cases[i].netdev), cases[i].active);
}

static void guid_of(const uint8_t *mac, uint32_t mac_len, const char *netdev, uint8_t guid[8])
{
    device_guid(
        &(struct device_hardware){.mac = mac, .mac_len = mac_len, .netdev = netdev, .host = "host"},
        guid);
}

/* MAC and GUID of the kernel's rxe in the captures. */
static void guid_is_the_interface_identifier_of_the_mac(void **state)
{
    static const uint8_t mac[6] = {0x52, 0x54, 0x00, 0x77, 0x00, 0x02};
    static const uint8_t expected[8] = {0x50, 0x54, 0x00, 0xff, 0xfe, 0x77, 0x00, 0x02};
    uint8_t guid[8];

    (void)state;
    guid_of(mac, sizeof(mac), "a", guid);
    assert_memory_equal(guid, expected, sizeof(guid));
}

static void without_a_mac_the_guid_is_of_the_name(void **state)
{
    static const uint8_t none[6];
    uint8_t first[8], again[8], other[8];

    (void)state;
    guid_of(none, sizeof(none), "lo", first);
    guid_of(NULL, 0, "lo", again);
    guid_of(none, sizeof(none), "tun0", other);
    assert_memory_equal(first, again, sizeof(first));
    assert_memory_not_equal(first, other, sizeof(first));
    assert_int_equal(first[0] & 0x03, 0);
}

static void loopback_alone_is_a_device(void **state)
{
    (void)state;
    if (!furnished)
        skip();
    assert_int_equal(list(NULL), 1);
    assert_string_equal(devices[0].name, "uroce_lo");
    assert_string_equal(devices[0].netdev, "lo");
    assert_true(devices[0].loopback);
    assert_true(devices[0].up);
    assert_int_equal(devices[0].netdev_mtu, 65536);
    assert_int_equal(devices[0].active_mtu, 4096);
    assert_string_equal(gids_of(&devices[0]), "::1 ::ffff:127.0.0.1");
    assert_int_equal(devices[0].gids[0].scope_id, 0);
}

static void interfaces_without_an_address_are_none(void **state)
{
    (void)state;
    connect_interfaces();
    assert_int_equal(list(NULL), 1);
    ip("addr add 10.1.0.1/24 dev va");
    assert_int_equal(list(NULL), 2);
    ip("link set va down");
    assert_int_equal(list(NULL), 1);
    remove_interfaces();
}

static void gids_are_link_local_then_global_then_ipv4(void **state)
{
    (void)state;
    connect_interfaces();
    ip("addr add 10.1.0.1/24 dev va");
    ip("addr add 10.1.0.2/24 dev va");
    ip("addr add fd00::2/64 dev va nodad");
    ip("addr add fd00::1/64 dev va nodad");
    ip("addr add fe80::5/64 dev va nodad");
    assert_int_equal(list(NULL), 2);
    assert_string_equal(devices[0].name, "uroce_va");
    assert_false(devices[0].loopback);
    assert_int_equal(devices[0].active_mtu, 1024);
    assert_int_equal(devices[0].gid_count, 5);
    assert_int_equal(strncmp(gids_of(&devices[0]), "fe80::5 fd00::", 14), 0);
    assert_non_null(strstr(gids_of(&devices[0]), " ::ffff:10.1.0.1 ::ffff:10.1.0.2"));
    assert_int_equal(devices[0].gids[0].scope_id, devices[0].ifindex);
    assert_int_equal(devices[0].gids[1].scope_id, 0);
    remove_interfaces();
}

/* As interfaces of VLANs are named; their GIDs stand in no other device's table. */
static void an_interface_upon_another_is_a_device_whose_gids_name_it(void **state)
{
    char value[DEVICE_FILE_SIZE];

    (void)state;
    connect_interfaces();
    ip("link set vb down");
    ip("link set vb name va.100 up");
    ip("addr add 10.1.0.1/24 dev va");
    ip("addr add 10.1.100.1/24 dev va.100");
    assert_int_equal(list("va,va.100"), 2);
    assert_string_equal(devices[1].name, "uroce_va.100");
    assert_string_equal(gids_of(&devices[0]), "::ffff:10.1.0.1");
    assert_string_equal(gids_of(&devices[1]), "::ffff:10.1.100.1");
    assert_true(device_file_read(&devices[1], "ports/1/gid_attrs/ndevs/0", value));
    assert_string_equal(value, "va.100");
    remove_interfaces();
}

static void addresses_that_are_not_to_be_used_are_left_out(void **state)
{
    (void)state;
    connect_interfaces();
    ip("addr add fd00::1/64 dev va nodad");
    ip("addr add fd00::2/64 dev va nodad preferred_lft 0");
    ip("addr add fd00::3/64 dev va"); /* tentative for a second or two */
    assert_int_equal(list(NULL), 2);
    assert_string_equal(gids_of(&devices[0]), "fd00::1");
    remove_interfaces();
}

static void an_address_with_two_prefixes_is_one_gid(void **state)
{
    (void)state;
    connect_interfaces();
    ip("addr add 10.1.0.1/24 dev va");
    ip("addr add 10.1.0.1/16 dev va");
    assert_int_equal(list(NULL), 2);
    assert_string_equal(gids_of(&devices[0]), "::ffff:10.1.0.1");
    remove_interfaces();
}

static void the_gid_table_has_an_end(void **state)
{
    (void)state;
    connect_interfaces();
    for (int i = 1; i <= DEVICE_GIDS_MAX + 3; i++) {
        char arguments[64];

        snprintf(arguments, sizeof(arguments), "addr add 10.1.0.%d/24 dev va", i);
        ip(arguments);
    }
    assert_int_equal(list(NULL), 2);
    assert_int_equal(devices[0].gid_count, DEVICE_GIDS_MAX);
    remove_interfaces();
}

static void the_peer_of_a_point_to_point_address_is_not_ours(void **state)
{
    (void)state;
    connect_interfaces();
    ip("addr add 10.1.0.1 peer 10.9.0.9 dev va");
    assert_int_equal(list(NULL), 2);
    assert_string_equal(gids_of(&devices[0]), "::ffff:10.1.0.1");
    remove_interfaces();
}

static void the_default_route_is_first_and_loopback_last(void **state)
{
    static const char *const first[] = {"uroce_vb", "uroce_va"};

    (void)state;
    connect_interfaces();
    ip("addr add 10.1.0.1/24 dev va");
    ip("addr add 10.2.0.1/24 dev vb");
    ip("addr add fd00::1/64 dev va nodad");
    ip("-6 route add default via fd00::99 dev va");
    assert_int_equal(list(NULL), 3);
    assert_string_equal(devices[0].name, "uroce_va");
    for (int i = 0; i < 2; i++) {
        ip(i == 0 ? "route add default via 10.2.0.9" : "route replace default via 10.1.0.9");
        assert_int_equal(list(NULL), 3);
        assert_string_equal(devices[0].name, first[i]);
        assert_string_equal(devices[2].name, "uroce_lo");
    }
    remove_interfaces();
}

/* The kernel tells of a carrier when it gets round to it. */
static void wait_for_first(bool up)
{
    const struct timespec pause = {.tv_nsec = 10000000};

    for (int i = 0; i < 500; i++) {
        assert_int_equal(list(NULL), 2);
        assert_string_equal(devices[0].name, "uroce_va");
        if (devices[0].up == up)
            return;
        nanosleep(&pause, NULL);
    }
    fail_msg("the carrier does not change");
}

static void an_interface_without_carrier_is_not_up(void **state)
{
    (void)state;
    connect_interfaces();
    ip("addr add 10.1.0.1/24 dev va");
    wait_for_first(true);
    ip("link set vb down");
    wait_for_first(false);
    remove_interfaces();
}

static void a_choice_says_which_and_in_which_order(void **state)
{
    (void)state;
    connect_interfaces();
    ip("addr add 10.1.0.1/24 dev va");
    assert_int_equal(list("lo, uroce_va,lo,absent,vb"), 2);
    assert_string_equal(devices[0].name, "uroce_lo");
    assert_string_equal(devices[1].name, "uroce_va");
    assert_int_equal(list("absent"), 0);
    assert_int_equal(list(",,"), 0);
    assert_int_equal(list(""), 2);
    remove_interfaces();
}

static void a_short_array_gets_the_first(void **state)
{
    (void)state;
    connect_interfaces();
    ip("addr add 10.1.0.1/24 dev va");
    assert_int_equal(device_list_chosen(devices, 1, NULL), 1);
    assert_string_equal(devices[0].name, "uroce_va");
    assert_int_equal(device_list_chosen(devices, 0, NULL), 0);
    remove_interfaces();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(path_mtu_is_the_largest_that_fits_with_headers),
        cmocka_unit_test(guid_is_the_interface_identifier_of_the_mac),
        cmocka_unit_test(without_a_mac_the_guid_is_of_the_name),
        cmocka_unit_test(loopback_alone_is_a_device),
        cmocka_unit_test(interfaces_without_an_address_are_none),
        cmocka_unit_test(gids_are_link_local_then_global_then_ipv4),
        cmocka_unit_test(an_interface_upon_another_is_a_device_whose_gids_name_it),
        cmocka_unit_test(addresses_that_are_not_to_be_used_are_left_out),
        cmocka_unit_test(an_address_with_two_prefixes_is_one_gid),
        cmocka_unit_test(the_gid_table_has_an_end),
        cmocka_unit_test(the_peer_of_a_point_to_point_address_is_not_ours),
        cmocka_unit_test(the_default_route_is_first_and_loopback_last),
        cmocka_unit_test(an_interface_without_carrier_is_not_up),
        cmocka_unit_test(a_choice_says_which_and_in_which_order),
        cmocka_unit_test(a_short_array_gets_the_first),
    };

    return cmocka_run_group_tests(tests, make_namespace, NULL);
}
