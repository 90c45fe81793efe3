/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Between two hosts (hosts.h). What lo never does: cut batches into packets, answer with ICMP.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/if_ether.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "hosts.h"
#include "link/limits.h"
#include "member.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/packet.h"

static struct member near;
static struct member far;
static struct member other;
static const struct udp_config plain;
static const struct udp_config raw = {.raw = true};

static void start_with(struct member *m, int namespace, const struct udp_config *config)
{
    setns(namespace, CLONE_NEWNET);
    member_start(m, config);
    setns(near_namespace, CLONE_NEWNET);
}

static void start(struct member *m, int namespace)
{
    start_with(m, namespace, &plain);
}

static int end_members(void **state)
{
    (void)state;
    if (near.pid > 0)
        member_kill(&near);
    if (far.pid > 0)
        member_kill(&far);
    if (other.pid > 0)
        member_kill(&other);
    return 0;
}

static struct path path_link_local(void)
{
    return (struct path){
        .src = {.bytes = {0xfe, 0x80, [15] = 1}},
        .dst = {.bytes = {0xfe, 0x80, [15] = 2}},
        .scope_id = if_nametoindex("near"),
    };
}

static void expect_arrival(struct path path)
{
    struct shipment s = {.path = path, .slot = far.slot, .count = 16, .len = 1040};
    uint32_t before = far.seen_count;
    struct link_counters c;

    assert_int_equal(member_send(&near, &s), 0);
    member_await(&far, before + s.count);
    for (uint32_t i = before; i < far.seen_count; i++) {
        assert_int_equal(far.seen[i].len, s.len);
        assert_true(gid_equal(&far.seen[i].src, &path.src));
        assert_true(gid_equal(&far.seen[i].dst, &path.dst));
    }
    c = member_counters(&far);
    assert_int_equal(c.icrc_error, 0);
    assert_int_equal(c.icrc_id_jump, 0);
}

static void batches_arrive_over_both_families_and_link_local(void **state)
{
    (void)state;
    start(&near, near_namespace);
    start(&far, far_namespace);
    expect_arrival(path_ipv4());
    expect_arrival(path_ipv6());
    expect_arrival(path_link_local());
}

static void set_transmit_checksums(bool on)
{
    struct ethtool_value value = {.cmd = ETHTOOL_STXCSUM, .data = on};
    struct ifreq request = {.ifr_name = "near", .ifr_data = (char *)&value};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    assert_int_equal(ioctl(fd, SIOCETHTOOL, &request), 0);
    close(fd);
}

/*
 * Without checksums by the device the kernel cuts batches itself and numbers
 * the packets, or refuses them, depending on its age: either way all arrive.
 */
static void batches_arrive_where_the_kernel_cuts_them(void **state)
{
    (void)state;
    start(&near, near_namespace);
    start(&far, far_namespace);
    set_transmit_checksums(false);
    expect_arrival(path_ipv4());
    expect_arrival(path_ipv6());
    assert_true(member_counters(&far).rcv_datagrams == 32);
    set_transmit_checksums(true);
}

/* Sees the frames that come to the far host, with their headers. */
static int open_capture(void)
{
    const int size = 4 << 20;
    int fd;

    setns(far_namespace, CLONE_NEWNET);
    fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK, htons(ETH_P_IP));
    setns(near_namespace, CLONE_NEWNET);
    if (fd < 0)
        exit(77);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    return fd;
}

/* How many captured packets to port 4791 there are, the ICRC of each right as it is on the wire. */
static uint32_t check_captured(int capture)
{
    uint8_t frame[2048];
    uint32_t count = 0;
    ssize_t len;

    while ((len = recv(capture, frame, sizeof(frame), 0)) > 0) {
        struct ip_header ip;
        size_t end;

        if (ip_read(frame, (size_t)len, &ip) != IP_FAULT_NONE || ip.protocol != IP_PROTOCOL_UDP ||
            load_be16(frame + ip.header_len + 2) != ROCE_UDP_PORT)
            continue;
        end = ip.header_len + ip.payload_len - ICRC_LEN;
        assert_true(ip.dont_fragment);
        assert_int_equal(load_le32(frame + end), icrc_of_frame(frame, end, ip.header_len, true));
        count++;
    }
    return count;
}

/*
 * The receiver solves for the identification that an ICRC covers, so what a real stack would
 * refuse is seen on the wire alone. More sends than a socket needs to be connected where its sends
 * go; then batches that the kernel cuts.
 */
static void the_icrc_covers_the_identification_on_the_wire(void **state)
{
    struct shipment s = {.path = path_ipv4(), .count = 1, .len = 64};
    int capture = open_capture();

    (void)state;
    start(&near, near_namespace);
    start(&far, far_namespace);
    s.slot = far.slot;
    for (uint32_t i = 1; i <= 3 * SEND_ASTRAY_MAX; i++) {
        assert_int_equal(member_send(&near, &s), 0);
        member_await(&far, i);
    }
    assert_int_equal(check_captured(capture), 3 * SEND_ASTRAY_MAX);
    set_transmit_checksums(false);
    expect_arrival(path_ipv4());
    assert_int_equal(check_captured(capture), 16);
    set_transmit_checksums(true);
    close(capture);
}

static void nobody_listening_is_noticed_and_harms_nobody(void **state)
{
    struct shipment s = {.path = path_ipv4(), .slot = 1, .count = 2, .len = 64};
    struct link_counters c;
    uint32_t i;

    (void)state;
    start(&near, near_namespace);
    for (i = 0; i < 1000 && member_counters(&near).send_refused == 0; i++) {
        assert_int_equal(member_send(&near, &s), 0);
        usleep(1000);
    }
    c = member_counters(&near);
    assert_true(c.send_refused > 0);
    assert_int_equal(c.sent_datagrams, 2 * i); /* the error was another's: each call was repeated */
    start(&far, far_namespace);
    s.slot = far.slot;
    assert_int_equal(member_send(&near, &s), 0);
    member_await(&far, 2);
}

/* With forwarding by a host of another MTU there would be ICMP; with our own, the kernel says so at
 * once. */
static void a_smaller_mtu_is_counted(void **state)
{
    struct shipment s = {.path = path_ipv4(), .slot = 1, .count = 4, .len = 2096};

    (void)state;
    start(&near, near_namespace);
    assert_int_equal(member_send(&near, &s), 0);
    assert_int_equal(member_counters(&near).send_too_big, 1);
    assert_int_equal(member_counters(&near).sent_datagrams, 0);
}

/* Whole frames on either side or both; what a plain sender gives a device to cut comes as one. */
static void raw_frames_and_udp_payloads_understand_each_other(void **state)
{
    static const struct udp_config *const pairs[][2] = {
        {&raw, &raw}, {&raw, &plain}, {&plain, &raw}};

    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        start_with(&near, near_namespace, pairs[i][0]);
        start_with(&far, far_namespace, pairs[i][1]);
        expect_arrival(path_ipv4());
        expect_arrival(path_ipv6());
        expect_arrival(path_link_local());
        assert_int_equal(member_counters(&far).rcv_datagrams, 48); /* none of them twice */
        assert_int_equal(member_counters(&near).sent_datagrams, 48);
        assert_int_equal(member_counters(&near).gso_refused, 0);
        end_members(state);
    }
}

/* What leaves raw is what the wire has: no identification of the kernel's, and the port of the
 * queue pair. */
static void raw_packets_leave_as_they_were_made(void **state)
{
    struct shipment s = {.path = path_ipv4(), .count = 3, .len = 64, .src_port = 0xfedc};
    int capture = open_capture();
    uint8_t frame[2048];

    (void)state;
    start_with(&near, near_namespace, &raw);
    start_with(&far, far_namespace, &raw);
    s.slot = far.slot;
    s.path.traffic_class = 0x6a;
    s.path.hop_limit = 7;
    assert_int_equal(member_send(&near, &s), 0);
    member_await(&far, 3);
    for (uint16_t i = 0; i < 3; i++) {
        struct ip_header ip;
        ssize_t len = recv(capture, frame, sizeof(frame), 0);

        assert_true(len > 0);
        assert_int_equal(ip_read(frame, (size_t)len, &ip), IP_FAULT_NONE);
        assert_true(ip.checksum_good);
        assert_true(ip.dont_fragment);
        assert_int_equal(ip.identification, 1 + i);
        assert_int_equal(ip.traffic_class, 0x6a);
        assert_int_equal(ip.hop_limit, 7);
        assert_int_equal(load_be16(frame + IPV4_LEN), 0xfedc);
        assert_int_equal(load_le32(frame + len - ICRC_LEN),
                         icrc_of_frame(frame, (size_t)len - ICRC_LEN, IPV4_LEN, true));
        assert_int_equal(far.seen[i].src_port, 0xfedc);
        assert_int_equal(far.seen[i].traffic_class, 0x6a);
        assert_int_equal(far.seen[i].hop_limit, 7);
    }
    close(capture);
}

/* A packet to the far member, as a raw IP socket sends it; signed: for another identification. */
static void send_forged(const struct gid *src, uint16_t identification, uint16_t signed_for)
{
    struct path path = path_ipv4();
    struct sockaddr_in to = {.sin_family = AF_INET};
    struct icrc_flow flow;
    const struct ip_header ip = {
        .ipv4 = true,
        .src = *src,
        .dst = path.dst,
        .hop_limit = 64,
        .protocol = IP_PROTOCOL_UDP,
        .identification = identification,
        .dont_fragment = true,
        .payload_len = UDP_LEN + 64,
    };
    const struct udp_header udp = {
        .src_port = 0xc000, .dst_port = ROCE_UDP_PORT, .len = UDP_LEN + 64};
    uint8_t packet[IPV4_LEN + UDP_LEN + 64];
    uint8_t *payload = packet + IPV4_LEN + UDP_LEN;
    int fd = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);

    ip_write(&ip, packet);
    udp_write(&udp, packet + IPV4_LEN);
    fill_datagram(payload, 64, far.slot, 0);
    icrc_flow_init(&flow, src, &path.dst);
    store_le32(payload + 64 - ICRC_LEN,
               icrc_compute(&flow, 0xc000, signed_for, payload, 64 - ICRC_LEN));
    memcpy(&to.sin_addr, path.dst.bytes + 12, 4);
    assert_int_equal(sendto(fd, packet, sizeof(packet), 0, (struct sockaddr *)&to, sizeof(to)),
                     sizeof(packet));
    close(fd);
}

/* The identification that a UDP socket does not show counts; so do addresses that cannot be. */
static void what_only_whole_frames_show_is_checked(void **state)
{
    struct path path = path_ipv4();
    struct gid group = gid_ipv4(0xe0000001);
    struct link_counters c;

    (void)state;
    start_with(&far, far_namespace, &raw);
    send_forged(&path.src, 17, 18);
    send_forged(&path.dst, 17, 17); /* its own address */
    send_forged(&group, 17, 17);
    send_forged(&path.src, 17, 17);
    member_await(&far, 1);
    c = member_counters(&far);
    assert_int_equal(c.icrc_error, 1);
    assert_int_equal(c.raw_address, 2);
    assert_int_equal(c.rcv_datagrams, 4);
    assert_int_equal(far.seen_count, 1);
}

/* One datagram from each of count source ports, between which the kernel chooses sockets. */
static void send_from_ports(struct member *from, struct path path, uint8_t slot, uint16_t count)
{
    struct shipment s = {.path = path, .slot = slot, .count = 1, .len = 64};

    for (s.src_port = 0xc000; s.src_port < 0xc000 + count; s.src_port++)
        assert_int_equal(member_send(from, &s), 0);
}

/*
 * A kernel that does not choose sockets by slot gives some of what a raw process has seen to
 * another, which hands it over.
 */
static void what_is_handed_over_to_a_raw_process_is_not_taken_twice(void **state)
{
    static const struct udp_config plain_by_chance = {.no_bpf = true, .send_sockets = 64};
    static const struct udp_config raw_by_chance = {.no_bpf = true, .raw = true};
    const struct path here4 = {.src = path_ipv4().dst, .dst = path_ipv4().dst};
    const struct path here6 = {.src = path_ipv6().dst, .dst = path_ipv6().dst};
    struct link_counters c, of_other;
    const uint16_t count = 64;

    (void)state;
    start_with(&other, far_namespace, &plain_by_chance); /* makes the group */
    start_with(&far, far_namespace, &raw_by_chance);
    start_with(&near, near_namespace, &raw);
    send_from_ports(&near, path_ipv4(), far.slot, count);
    send_from_ports(&near, path_ipv6(), far.slot, count);
    member_await(&far, 2u * count);
    for (uint32_t i = 0;; i++) {
        of_other = member_counters(&other);
        c = member_counters(&far);
        if (c.raw_twice > 0 && c.raw_twice == of_other.wrong_slot_segments)
            break;
        assert_true(i < 1000);
        usleep(10000);
    }
    assert_int_equal(c.handed_over, c.raw_twice);
    assert_int_equal(far.seen_count, 2 * count);
    assert_int_equal(other.seen_count, 0);

    /* What is for the other, and what this host sends, has come once only. */
    send_from_ports(&near, path_ipv4(), other.slot, count);
    send_from_ports(&other, here4, far.slot, count);
    send_from_ports(&other, here6, far.slot, count);
    member_await(&other, count);
    member_await(&far, 4u * count);
    assert_int_equal(member_counters(&far).icrc_error, 0);
}

/* Its host, who has the port, knows nothing of whole frames and passes on all. */
static void a_raw_guest_takes_nothing_twice(void **state)
{
    const struct path here4 = {.src = path_ipv4().dst, .dst = path_ipv4().dst};
    const struct path here6 = {.src = path_ipv6().dst, .dst = path_ipv6().dst};
    const uint16_t count = 16;
    struct link_counters c;

    (void)state;
    setns(far_namespace, CLONE_NEWNET);
    member_begin(&other, &plain, 65534);
    member_opened(&other);
    setns(near_namespace, CLONE_NEWNET);
    if (other.err == -EPERM)
        skip(); /* No other user to become. */
    start_with(&far, far_namespace, &raw);
    start_with(&near, near_namespace, &plain);
    send_from_ports(&near, path_ipv4(), far.slot, count);
    send_from_ports(&near, path_ipv6(), far.slot, count);
    send_from_ports(&other, here4, far.slot, count);
    send_from_ports(&other, here6, far.slot, count);
    member_await(&far, (size_t)4 * count);
    for (uint32_t i = 0; c = member_counters(&far), c.raw_twice < (size_t)2 * count; i++) {
        assert_true(i < 1000);
        usleep(10000);
    }
    assert_int_equal(c.raw_twice, 2 * count);
    assert_int_equal(c.handed_over, 4 * count);
    assert_int_equal(far.seen_count, 4 * count);
}

/* The next process that has the slot is not deaf for it. */
static void a_slot_hears_again_after_a_raw_process(void **state)
{
    struct shipment s = {.path = path_ipv4(), .count = 1, .len = 64};
    uint8_t slot;

    (void)state;
    start(&near, near_namespace);
    start_with(&far, far_namespace, &raw);
    slot = far.slot;
    start_with(&other, far_namespace, &plain); /* keeps the group */
    member_kill(&far);
    start(&far, far_namespace);
    assert_int_equal(far.slot, slot);
    s.slot = slot;
    assert_int_equal(member_send(&near, &s), 0);
    member_await(&far, 1);
}

static void without_the_capability_it_says_so(void **state)
{
    (void)state;
    setns(far_namespace, CLONE_NEWNET);
    member_begin(&far, &raw, 65534);
    member_opened(&far);
    setns(near_namespace, CLONE_NEWNET);
    assert_int_equal(far.err, -EPERM);
    if (far.sentence[0] == 0)
        skip(); /* No other user to become. */
    assert_string_equal(far.sentence, "UROCE_RAW: sockets for whole packets need CAP_NET_RAW, "
                                      "which this process does not have");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(batches_arrive_over_both_families_and_link_local, end_members),
        cmocka_unit_test_teardown(batches_arrive_where_the_kernel_cuts_them, end_members),
        cmocka_unit_test_teardown(the_icrc_covers_the_identification_on_the_wire, end_members),
        cmocka_unit_test_teardown(nobody_listening_is_noticed_and_harms_nobody, end_members),
        cmocka_unit_test_teardown(a_smaller_mtu_is_counted, end_members),
        cmocka_unit_test_teardown(raw_frames_and_udp_payloads_understand_each_other, end_members),
        cmocka_unit_test_teardown(raw_packets_leave_as_they_were_made, end_members),
        cmocka_unit_test_teardown(what_only_whole_frames_show_is_checked, end_members),
        cmocka_unit_test_teardown(what_is_handed_over_to_a_raw_process_is_not_taken_twice,
                                  end_members),
        cmocka_unit_test_teardown(a_raw_guest_takes_nothing_twice, end_members),
        cmocka_unit_test_teardown(a_slot_hears_again_after_a_raw_process, end_members),
        cmocka_unit_test_teardown(without_the_capability_it_says_so, end_members),
    };

    hosts_make();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
