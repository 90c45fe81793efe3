/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups of several processes, and users, on one port: each that is in a
 * group gets one copy of what is sent to it, whoever sends, and nobody else any. On lo and,
 * for IPv6, which has no multicast there, on interfaces of virtual Ethernet.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "member.h"
#include "link/limits.h"

#define HOST 65534u
#define GUEST 65533u
#define PLACES 4u
#define COUNT 8u
#define ATTEMPTS 2000
#define LO 1u

static struct member place[PLACES];
static const struct udp_config plain;
static const struct multicast ipv4 = {.gid = {.bytes = {[10] = 0xff, 0xff, 239, 7, 7, 7}},
                                      .scope_id = LO};

static int end_all(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PLACES; i++)
        if (place[i].pid > 0)
            member_kill(&place[i]);
    return 0;
}

static void run(const char *command)
{
    if (system(command)) {
        fprintf(stderr, "%s: failed\n", command);
        exit(77);
    }
}

/* An interface comes up in its own time, and what is sent before is lost. */
static void await_way(const char *interface)
{
    struct ipv6_mreq group = {.ipv6mr_interface = if_nametoindex(interface)};
    struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_port = htons(4792)};
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    char byte = 0;

    if (bind(fd, (struct sockaddr *)&to, sizeof(to)))
        exit(77);
    to.sin6_addr = (struct in6_addr){.s6_addr = {0xff, 0x05, [15] = 1}};
    to.sin6_scope_id = group.ipv6mr_interface;
    group.ipv6mr_multiaddr = to.sin6_addr;
    setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &group, sizeof(group));
    setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &group.ipv6mr_interface, sizeof(int));
    for (int i = 0; i < ATTEMPTS && recv(fd, &byte, 1, 0) < 0; i++) {
        sendto(fd, &byte, 1, 0, (struct sockaddr *)&to, sizeof(to));
        usleep(5000);
    }
    close(fd);
}

static void make_interfaces(void)
{
    namespace_make();
    run("ip link add near type veth peer name near_end");
    run("ip link add far type veth peer name far_end");
    run("ip address add 2001:db8::1/64 dev near nodad");
    run("ip address add 2001:db8:1::1/64 dev far nodad");
    run("ip link set near up");
    run("ip link set near_end up");
    run("ip link set far up");
    run("ip link set far_end up");
    await_way("near");
    await_way("far");
}

static struct multicast ipv6_on(const char *interface)
{
    return (struct multicast){.gid = {.bytes = {0xff, 0x05, [15] = 7}},
                              .scope_id = if_nametoindex(interface)};
}

static struct shipment shipment_to(const struct multicast *group, uint8_t mark)
{
    struct shipment s = {
        .path = gid_is_ipv4(&group->gid) ? path_loopback4() : path_loopback6(),
        .slot = SLOT_MULTICAST,
        .mark = mark,
        .src_port = 0xc000,
        .count = COUNT,
        .len = 1040,
        .last_len = 64,
    };

    s.path.dst = group->gid;
    s.path.scope_id = group->scope_id;
    if (!gid_is_ipv4(&group->gid))
        s.path.src = (struct gid){.bytes = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}};
    return s;
}

static void send_to_group(struct member *from, const struct multicast *group, uint8_t mark)
{
    struct shipment s = shipment_to(group, mark);

    assert_int_equal(member_send(from, &s), 0);
}

/* One batch, whole, once. */
static void expect_copy(struct member *m, const struct multicast *group, uint8_t mark)
{
    struct link_counters c;

    member_await(m, COUNT);
    c = member_counters(m);
    assert_int_equal(m->seen_count, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(m->seen[i].mark, mark);
        assert_true(gid_equal(&m->seen[i].dst, &group->gid));
        assert_int_equal(m->seen[i].slot, SLOT_MULTICAST);
    }
    assert_int_equal(c.icrc_error, 0);
    assert_int_equal(c.icrc_id_jump, 0);
    m->seen_count = 0;
}

static void expect_nothing(struct member *m)
{
    member_counters(m);
    assert_int_equal(m->seen_count, 0);
}

static void members_talk(const struct udp_config *config, const struct multicast *group)
{
    for (uint32_t i = 0; i < PLACES; i++)
        member_start(&place[i], config);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(member_join(&place[i], group), 0);
    for (uint32_t from = 0; from < PLACES; from++) {
        send_to_group(&place[from], group, (uint8_t)from);
        for (uint32_t i = 0; i < 3; i++)
            expect_copy(&place[i], group, (uint8_t)from);
        expect_nothing(&place[3]);
    }
    member_leave(&place[1], group);
    send_to_group(&place[1], group, 9);
    expect_copy(&place[0], group, 9);
    expect_copy(&place[2], group, 9);
    expect_nothing(&place[1]);
}

static void each_process_in_a_group_gets_one_copy_and_no_other_any(void **state)
{
    (void)state;
    members_talk(&plain, &ipv4);
}

static void so_over_ipv6(void **state)
{
    const struct multicast group = ipv6_on("near");

    (void)state;
    members_talk(&plain, &group);
}

static void so_without_batches_and_without_slots_in_the_kernel(void **state)
{
    static const struct udp_config poor = {.no_gso = true, .no_gro = true, .no_bpf = true};

    (void)state;
    members_talk(&poor, &ipv4);
}

static void joining_twice_is_joining_once(void **state)
{
    (void)state;
    member_start(&place[0], &plain);
    assert_int_equal(member_join(&place[0], &ipv4), 0);
    assert_int_equal(member_join(&place[0], &ipv4), 0);
    send_to_group(&place[0], &ipv4, 1);
    expect_copy(&place[0], &ipv4, 1);
    member_leave(&place[0], &ipv4);
    send_to_group(&place[0], &ipv4, 2);
    expect_nothing(&place[0]);
    member_leave(&place[0], &ipv4);
}

static void membership_ends_with_its_process(void **state)
{
    uint8_t slot;

    (void)state;
    member_start(&place[0], &plain);
    member_start(&place[1], &plain);
    slot = place[1].slot;
    assert_int_equal(member_join(&place[1], &ipv4), 0);
    member_kill(&place[1]);
    member_start(&place[1], &plain);
    assert_int_equal(place[1].slot, slot);
    send_to_group(&place[0], &ipv4, 1);
    expect_nothing(&place[1]);
}

static void same_group_of_another_interface_is_another_group(void **state)
{
    const struct multicast near = ipv6_on("near");
    const struct multicast far = ipv6_on("far");
    const struct multicast nowhere = {.gid = ipv4.gid, .scope_id = 4711};

    (void)state;
    member_start(&place[0], &plain);
    member_start(&place[1], &plain);
    assert_int_equal(member_join(&place[0], &near), 0);
    assert_int_equal(member_join(&place[1], &far), 0);
    send_to_group(&place[1], &near, 1);
    expect_copy(&place[0], &near, 1);
    expect_nothing(&place[1]);
    assert_int_equal(member_join(&place[0], &nowhere), -ENODEV);
}

static void groups_are_as_many_as_the_limit_says(void **state)
{
    struct multicast group = ipv4;
    uint32_t joined = 0;
    int err = 0;

    (void)state;
    member_start(&place[0], &plain);
    for (; joined <= MULTICAST_SOCKETS_MAX && !err; joined += !err) {
        group.gid.bytes[14] = (uint8_t)(joined >> 8);
        group.gid.bytes[15] = (uint8_t)joined;
        err = member_join(&place[0], &group);
    }
    assert_int_equal(err, -ENOMEM);
    assert_in_range(joined, MULTICAST_SOCKETS_MAX / 2, MULTICAST_SOCKETS_MAX);
}

/* --- guests --- */

static struct member *enter(uint32_t i, unsigned uid)
{
    member_begin(&place[i], &plain, uid);
    member_opened(&place[i]);
    if (place[i].err)
        fail_msg("process %u of user %u: %s", i, uid, place[i].sentence);
    return &place[i];
}

/* A guest's membership takes effect when its host has heard of it: sends till it has. */
static void expect_copies_soon(struct member *from, struct member *to)
{
    struct shipment s = shipment_to(&ipv4, 1);

    to->seen_count = 0;
    s.count = 1;
    for (uint32_t i = 0; i < ATTEMPTS && to->seen_count == 0; i++) {
        assert_int_equal(member_send(from, &s), 0);
        usleep(1000);
        member_counters(to);
    }
    assert_true(to->seen_count > 0);
    usleep(20000); /* and none is on its way any more */
    for (uint32_t i = 0; i < PLACES; i++) {
        if (place[i].pid > 0)
            member_counters(&place[i]);
        place[i].seen_count = 0;
    }
}

static bool can_change_user(void)
{
    int status = 1;
    pid_t pid = fork();

    if (pid == 0)
        _exit(setresuid(GUEST, GUEST, GUEST) ? 1 : 0);
    waitpid(pid, &status, 0);
    return status == 0;
}

static void guest_and_host_are_in_one_group(void **state)
{
    struct member *host, *other, *guest;

    (void)state;
    if (!can_change_user())
        skip();
    host = enter(0, HOST);
    guest = enter(1, GUEST);
    other = enter(2, HOST);
    assert_int_equal(member_join(guest, &ipv4), 0);
    expect_copies_soon(other, guest);
    /* The host's socket for its guest is none of the host's own. */
    send_to_group(other, &ipv4, 2);
    expect_copy(guest, &ipv4, 2);
    expect_nothing(host);
    assert_int_equal(member_join(host, &ipv4), 0);
    send_to_group(guest, &ipv4, 3);
    expect_copy(guest, &ipv4, 3);
    expect_copy(host, &ipv4, 3);
    expect_nothing(other);
}

static void guest_stays_in_its_group_whoever_serves_it(void **state)
{
    struct member *guest;

    (void)state;
    if (!can_change_user())
        skip();
    enter(0, HOST);
    guest = enter(1, GUEST);
    enter(2, HOST);
    assert_int_equal(member_join(guest, &ipv4), 0);
    expect_copies_soon(&place[2], guest);
    member_kill(&place[0]);
    expect_copies_soon(&place[2], guest);
    member_kill(&place[2]); /* and then it has the port itself */
    expect_copies_soon(guest, guest);
    assert_int_equal(member_counters(guest).mcast_lost, 0);
}

static void guest_is_in_as_many_groups_as_it_may(void **state)
{
    struct multicast group = ipv4;
    struct member *host, *guest;

    (void)state;
    if (!can_change_user())
        skip();
    host = enter(0, HOST);
    guest = enter(1, GUEST);
    for (uint32_t i = 0; i <= MULTICAST_OF_GUEST_MAX; i++) {
        group.gid.bytes[15] = (uint8_t)i;
        assert_int_equal(member_join(guest, &group), 0);
    }
    assert_int_equal(member_join(guest, &(struct multicast){.gid = gid_ipv4(0x7f000001)}), 0);
    group.gid.bytes[15] = MULTICAST_OF_GUEST_MAX - 1;
    for (uint32_t i = 0; i < ATTEMPTS && guest->seen_count == 0; i++) {
        send_to_group(host, &group, 1);
        usleep(1000);
        member_counters(guest);
    }
    assert_true(guest->seen_count > 0);
    usleep(20000);
    member_counters(guest);
    guest->seen_count = 0;
    group.gid.bytes[15] = MULTICAST_OF_GUEST_MAX;
    send_to_group(host, &group, 2);
    usleep(20000);
    expect_nothing(guest);
    assert_int_equal(member_counters(host).guests, 1); /* and it is one still */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(each_process_in_a_group_gets_one_copy_and_no_other_any, end_all),
        cmocka_unit_test_teardown(so_over_ipv6, end_all),
        cmocka_unit_test_teardown(so_without_batches_and_without_slots_in_the_kernel, end_all),
        cmocka_unit_test_teardown(joining_twice_is_joining_once, end_all),
        cmocka_unit_test_teardown(membership_ends_with_its_process, end_all),
        cmocka_unit_test_teardown(same_group_of_another_interface_is_another_group, end_all),
        cmocka_unit_test_teardown(groups_are_as_many_as_the_limit_says, end_all),
        cmocka_unit_test_teardown(guest_and_host_are_in_one_group, end_all),
        cmocka_unit_test_teardown(guest_stays_in_its_group_whoever_serves_it, end_all),
        cmocka_unit_test_teardown(guest_is_in_as_many_groups_as_it_may, end_all),
    };

    make_interfaces();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
