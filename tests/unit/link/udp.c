/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams between processes over lo, with every feature of the kernel and
 * without, and what strangers send.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"
#include "link/inbox.h"
#include "link/limits.h"
#include "link/udp_private.h"
#include "member.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define MEMBERS 4
#define FOREIGN_UID 65534u
#define UNSENT 20000u /* bytes of kernel memory */

static struct member member[MEMBERS];
static const struct udp_config plain;

static void start(uint32_t count, const struct udp_config *config)
{
    for (uint32_t i = 0; i < count; i++)
        member_start(&member[i], config);
}

static int end_members(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (member[i].pid > 0)
            member_kill(&member[i]);
    }
    return 0;
}

/* Everyone sends a batch to everyone, itself included; each gets what is its own, and nothing is
 * lost. */
static void expect_all_to_all(const struct udp_config *config, struct path path)
{
    struct shipment s = {.path = path, .src_port = 0xc001, .count = 9, .len = 1040, .last_len = 20};
    struct link_counters c;
    uint64_t strays = 0;
    uint64_t handed = 0;

    for (uint32_t from = 0; from < MEMBERS; from++) {
        for (uint32_t to = 0; to < MEMBERS; to++) {
            uint32_t before = member[to].seen_count;

            s.slot = member[to].slot;
            s.mark = (uint8_t)(16 * from + to);
            assert_int_equal(member_send(&member[from], &s), 0);
            member_await(&member[to], before + s.count);
            for (uint32_t i = 0; i < s.count; i++) {
                const struct seen *seen = &member[to].seen[before + i];

                assert_int_equal(seen->slot, s.slot);
                assert_int_equal(seen->mark, s.mark);
                assert_int_equal(seen->len, i + 1 < s.count ? s.len : s.last_len);
                assert_in_range(seen->src_port, 0xc000, 0xffff);
                assert_true(gid_equal(&seen->src, &path.src));
                assert_true(gid_equal(&seen->dst, &path.dst));
            }
        }
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        c = member_counters(&member[i]);
        assert_int_equal(c.icrc_error, 0);
        assert_int_equal(c.icrc_id_jump, 0);
        assert_int_equal(c.stray_dropped, 0);
        assert_int_equal(c.hand_over_full, 0);
        assert_true(c.sent_datagrams >= (uint64_t)MEMBERS * s.count);
        assert_int_equal(c.gso_refused > 0, config->no_gso);
        strays += c.wrong_slot_segments;
        handed += c.handed_over;
    }
    assert_int_equal(strays, handed);
    assert_int_equal(strays > 0, config->no_bpf);
}

static void datagrams_arrive_whatever_the_kernel_can_do(void **state)
{
    static const struct udp_config configs[] = {
        {.no_gso = false},
        {.no_gso = true},
        {.no_gro = true},
        {.no_bpf = true},
        {.no_gso = true, .no_gro = true, .no_bpf = true},
        {.send_sockets = 1},
        {.send_sockets = 64},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
        start(MEMBERS, &configs[i]);
        expect_all_to_all(&configs[i], path_loopback4());
        expect_all_to_all(&configs[i], path_loopback6());
        end_members(NULL);
    }
}

static void a_full_batch_arrives(void **state)
{
    struct shipment s = {.path = path_loopback4(), .mark = 5, .count = 15, .len = 4124};

    (void)state;
    start(2, &plain);
    s.slot = member[1].slot;
    assert_int_equal(member_send(&member[0], &s), 0);
    member_await(&member[1], 15);
    s.path = path_loopback6();
    s.count = 64;
    s.len = 1000;
    assert_int_equal(member_send(&member[0], &s), 0);
    member_await(&member[1], 79);
    assert_int_equal(member_counters(&member[0]).sent_calls, 2);
    assert_int_equal(member_counters(&member[1]).icrc_error, 0);
}

static void traffic_class_and_hop_limit_travel(void **state)
{
    struct path paths[] = {path_loopback4(), path_loopback6()};

    (void)state;
    start(2, &plain);
    for (uint32_t i = 0; i < 2; i++) {
        struct shipment s = {.path = paths[i], .slot = member[1].slot, .count = 2, .len = 64};

        s.path.traffic_class = 0x6a;
        s.path.hop_limit = 33;
        assert_int_equal(member_send(&member[0], &s), 0);
        member_await(&member[1], 2 * i + 2);
        for (uint32_t k = 0; k < member[1].seen_count; k++) {
            assert_int_equal(member[1].seen[k].traffic_class, 0x6a);
            assert_int_equal(member[1].seen[k].hop_limit, 33);
        }
    }
}

/* Paths in turn, so many sends each: a socket that leads one way must not lead others astray. */
static void expect_paths(const struct path *paths, uint32_t count)
{
    static const uint32_t sends[] = {3 * SEND_ASTRAY_MAX, 1, 2, SEND_ASTRAY_MAX + 1, 1};

    for (uint32_t turn = 0; turn < sizeof(sends) / sizeof(sends[0]) * count; turn++) {
        struct shipment s = {
            .path = paths[turn % count], .slot = member[1].slot, .count = 1 + turn % 2, .len = 64};

        for (uint32_t i = 0; i < sends[turn / count]; i++) {
            uint32_t before = member[1].seen_count;
            const struct seen *seen = &member[1].seen[before];

            assert_int_equal(member_send(&member[0], &s), 0);
            member_await(&member[1], before + s.count);
            assert_true(gid_equal(&seen->src, &s.path.src));
            assert_true(gid_equal(&seen->dst, &s.path.dst));
            assert_int_equal(seen->traffic_class, s.path.traffic_class);
            assert_int_equal(seen->hop_limit, s.path.hop_limit ? s.path.hop_limit : 64);
        }
    }
    assert_int_equal(member_counters(&member[1]).icrc_error, 0);
}

static void a_socket_that_keeps_to_a_path_serves_others_too(void **state)
{
    const struct udp_config one_socket = {.send_sockets = 1};
    struct path paths[] = {path_loopback4(), path_loopback4(), path_loopback4()};
    struct path paths6[] = {path_loopback6(), path_loopback6()};

    (void)state;
    paths[1].traffic_class = paths6[1].traffic_class = 0x6a;
    paths[1].hop_limit = paths6[1].hop_limit = 33;
    paths[2].dst = gid_ipv4(0x7f000009); /* from a source that the kernel would not choose */
    start(2, &one_socket);
    expect_paths(paths, 3);
    expect_paths(paths6, 2);
}

static void a_source_port_is_stable_and_separates_slots(void **state)
{
    struct shipment s = {.path = path_loopback4(), .src_port = 0xc123, .count = 1, .len = 64};

    (void)state;
    start(3, &plain);
    for (uint32_t i = 0; i < 4; i++) {
        s.slot = member[1 + i % 2].slot;
        assert_int_equal(member_send(&member[0], &s), 0);
        member_await(&member[1 + i % 2], i / 2 + 1);
    }
    assert_int_equal(member[1].seen[0].src_port, member[1].seen[1].src_port);
    assert_int_equal(member[2].seen[0].src_port, member[2].seen[1].src_port);
    assert_int_not_equal(member[1].seen[0].src_port, member[2].seen[0].src_port);
}

/* Strangers. */

static void write_icrc(uint8_t *bytes, uint32_t len, uint16_t port, uint16_t id)
{
    struct path path = path_loopback4();
    struct icrc_flow flow;

    icrc_flow_init(&flow, &path.src, &path.dst);
    store_le32(bytes + len - ICRC_LEN, icrc_compute(&flow, port, id, bytes, len - ICRC_LEN));
}

static void throw(int fd, const uint8_t *bytes, size_t len)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_port = htons(ROCE_UDP_PORT),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };

    assert_int_equal(sendto(fd, bytes, len, 0, (struct sockaddr *)&to, sizeof(to)), len);
}

/* A good datagram behind what was thrown: when it has come, all before it has been dealt with. */
static void fence(struct member *m, int fd, uint16_t port)
{
    uint8_t bytes[64];

    fill_datagram(bytes, sizeof(bytes), m->slot, 0xfe);
    write_icrc(bytes, sizeof(bytes), port, 0);
    throw(fd, bytes, sizeof(bytes));
    member_await(m, m->seen_count + 1);
    assert_int_equal(m->seen[m->seen_count - 1].mark, 0xfe);
}

/* What goes to slot 0 comes by another socket, so the fence does not cover it. */
static struct link_counters await_received(struct member *m, uint64_t count)
{
    struct link_counters c = member_counters(m);

    for (uint32_t i = 0; i < 10000 && c.rcv_datagrams < count; i++) {
        usleep(1000);
        c = member_counters(m);
    }
    return c;
}

static void bad_datagrams_are_counted_and_dropped(void **state)
{
    uint8_t bytes[8192] = {0};
    struct link_counters c;
    uint16_t port;
    int fd = plain_socket(AF_INET, &port);

    (void)state;
    start(1, &plain);
    /* Every length up to the shortest possible; without byte 5 they go to slot 0, which we read as
     * well. */
    for (size_t len = 0; len <= BTH_LEN + ICRC_LEN; len++) {
        bytes[5] = member[0].slot;
        throw(fd, bytes, len);
    }
    fill_datagram(bytes, 100, member[0].slot, 1);
    write_icrc(bytes, 100, port, 0);
    bytes[50] ^= 1;
    throw(fd, bytes, 100);
    fill_datagram(bytes, 5000, member[0].slot, 1);
    throw(fd, bytes, 5000); /* no RoCE packet is so long */
    fence(&member[0], fd, port);
    c = await_received(&member[0], 20);
    assert_int_equal(c.rcv_datagrams, 20);
    assert_int_equal(c.too_short, BTH_LEN + ICRC_LEN);
    assert_int_equal(c.icrc_error, 3);
    assert_int_equal(member[0].seen_count, 1);
    close(fd);
}

/* The kernel gives one to each socket on the port; whose it is, all of them would be handed. */
static void broadcasts_reach_nobody_however_many_processes_there_are(void **state)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(ROCE_UDP_PORT),
                             .sin_addr.s_addr = htonl(0x7fffffff)};
    uint8_t bytes[64];
    uint16_t port;
    int fd = plain_socket(AF_INET, &port);
    int one = 1;

    (void)state;
    start(2, &plain);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &one, sizeof(one)), 0);
    fill_datagram(bytes, sizeof(bytes), member[0].slot, 1);
    assert_int_equal(sendto(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&to, sizeof(to)),
                     sizeof(bytes));
    fence(&member[0], fd, port);
    assert_int_equal(member[0].seen_count, 1); /* the fence */
    assert_true(member_counters(&member[0]).broadcast >= 1);
    for (int i = 0; i < 1000 && member_counters(&member[1]).broadcast == 0; i++)
        usleep(1000);
    assert_true(member_counters(&member[1]).broadcast >= 1);
    assert_int_equal(member_counters(&member[1]).wrong_slot_segments, 0);
    close(fd);
}

static void addresses_that_a_network_rewrites_are_noticed(void **state)
{
    struct gid inside = gid_ipv4(0xac110002);
    struct gid here = gid_ipv4(0x7f000001);
    struct icrc_flow flow;
    struct link_counters c;
    uint8_t bytes[64];
    uint16_t port;
    int fd = plain_socket(AF_INET, &port);

    (void)state;
    start(1, &plain);
    icrc_flow_init(&flow, &inside, &here);
    for (uint8_t mark = 0; mark < 5; mark++) {
        /* The last is the one before again, which proves nothing more. */
        fill_datagram(bytes, sizeof(bytes), member[0].slot, mark < 4 ? mark : 3);
        store_le32(bytes + sizeof(bytes) - ICRC_LEN,
                   icrc_compute(&flow, port, 0, bytes, sizeof(bytes) - ICRC_LEN));
        throw(fd, bytes, sizeof(bytes));
    }
    /* Damage is no NAT. */
    for (uint8_t mark = 0; mark < 5; mark++) {
        fill_datagram(bytes, sizeof(bytes), member[0].slot, mark);
        memset(bytes + sizeof(bytes) - ICRC_LEN, mark, ICRC_LEN);
        throw(fd, bytes, sizeof(bytes));
    }
    c = await_received(&member[0], 10);
    assert_int_equal(c.icrc_error, 10);
    assert_int_equal(c.address_rewritten, 3);
    close(fd);
}

/* UDP_GRO on the way may merge what one sender sent to several processes. */
static void a_merged_datagram_is_taken_apart(void **state)
{
    enum { COUNT = 15, LEN = 1040 };
    static uint8_t bytes[COUNT * LEN];
    int size = LEN;
    uint16_t port;
    int fd = plain_socket(AF_INET, &port);
    uint8_t slots[5];
    uint32_t qp1_count = 0;
    uint64_t strays = 0;

    (void)state;
    start(3, &plain);
    slots[0] = SLOT_QP1;
    slots[1] = member[1].slot;
    slots[2] = member[2].slot;
    slots[3] = member[2].slot;
    slots[4] = 77; /* nobody's */
    for (uint32_t i = 0; i < COUNT; i++) {
        fill_datagram(bytes + (size_t)i * LEN, LEN, slots[i % 5], (uint8_t)i);
        write_icrc(bytes + (size_t)i * LEN, LEN, port, (uint16_t)i);
    }
    assert_int_equal(setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size)), 0);
    throw(fd, bytes, sizeof(bytes));
    member_await(&member[1], 3);
    member_await(&member[2], 6);
    for (uint32_t i = 0; i < 3; i++) {
        struct link_counters c = member_counters(&member[i]);

        strays += c.stray_dropped;
        assert_int_equal(c.icrc_error, 0);
        for (uint32_t k = 0; k < member[i].seen_count; k++) {
            const struct seen *seen = &member[i].seen[k];

            assert_int_equal(seen->slot, slots[seen->mark % 5]);
            qp1_count += seen->slot == SLOT_QP1;
            assert_true(seen->slot == SLOT_QP1 || seen->slot == member[i].slot);
        }
    }
    assert_int_equal(qp1_count, 3);
    assert_int_equal(strays, 3);
    close(fd);
}

static void identifications_are_learned(void **state)
{
    static const struct {
        uint16_t id;
        uint64_t jumps;
    } steps[] = {{0, 0},   {127, 0}, {128, 0}, {130, 0}, {500, 1},
                 {564, 1}, {629, 2}, {100, 2}, {629, 3}};
    struct link_counters c;
    uint8_t bytes[64];
    uint16_t port;
    int fd = plain_socket(AF_INET, &port);

    (void)state;
    start(1, &plain);
    for (uint32_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        fill_datagram(bytes, sizeof(bytes), member[0].slot, 1);
        write_icrc(bytes, sizeof(bytes), port, steps[i].id);
        throw(fd, bytes, sizeof(bytes));
        member_await(&member[0], i + 1);
        c = member_counters(&member[0]);
        assert_int_equal(c.icrc_id_jump, steps[i].jumps);
    }
    close(fd);
}

static void the_strict_setting_drops_the_first_of_a_jump(void **state)
{
    static const struct udp_config strict = {.icrc_strict = true};
    uint8_t bytes[64];
    uint16_t port;
    int fd = plain_socket(AF_INET, &port);

    (void)state;
    start(1, &strict);
    for (uint16_t id = 5000; id < 5003; id++) {
        fill_datagram(bytes, sizeof(bytes), member[0].slot, (uint8_t)(id - 5000));
        write_icrc(bytes, sizeof(bytes), port, id);
        throw(fd, bytes, sizeof(bytes));
    }
    member_await(&member[0], 2);
    assert_int_equal(member[0].seen[0].mark, 1);
    assert_int_equal(member[0].seen[1].mark, 2);
    assert_int_equal(member_counters(&member[0]).icrc_id_jump, 1);
    close(fd);
}

/* What cannot be sent is lost as on the wire, and counted. */
static void what_cannot_be_sent_is_counted(void **state)
{
    struct shipment s = {.path = path_loopback4(), .count = 3, .len = 64};
    struct link_counters c;

    (void)state;
    start(1, &plain);
    s.slot = member[0].slot;
    s.path.src = gid_ipv4(0xc6336401); /* 198.51.100.1, not ours */
    assert_int_equal(member_send(&member[0], &s), 0);
    s.path.src = gid_ipv4(0x7f000001);
    s.path.dst = gid_ipv4(0xc6336402); /* there is no route */
    assert_int_equal(member_send(&member[0], &s), 0);
    c = member_counters(&member[0]);
    assert_int_equal(c.send_unreachable, 2);
    assert_int_equal(c.gso_refused, 0);
    assert_int_equal(c.sent_datagrams, 0);
    s.path = path_loopback4();
    assert_int_equal(member_send(&member[0], &s), 0);
    member_await(&member[0], 3);
    assert_int_equal(member_counters(&member[0]).sent_calls, 1); /* still at once */
}

static void datagrams_larger_than_the_mtu_are_counted(void **state)
{
    struct shipment s = {.path = path_loopback4(), .count = 2, .len = 2000};

    (void)state;
    start(1, &plain);
    s.slot = member[0].slot;
    namespace_set_mtu(1500);
    assert_int_equal(member_send(&member[0], &s), 0);
    s.count = 1;
    assert_int_equal(member_send(&member[0], &s), 0);
    s.len = 1400;
    assert_int_equal(member_send(&member[0], &s), 0);
    namespace_set_mtu(65536);
    member_await(&member[0], 1);
    assert_int_equal(member_counters(&member[0]).send_too_big, 2);
}

/* Room at a receiver that does not read. */

static void a_sender_that_heeds_the_room_loses_nothing(void **state)
{
    static const struct udp_config usual = {.receive_buffer = 212992};
    static const struct {
        uint32_t count;
        uint32_t len;
    } shapes[] = {{1, 20}, {1, 1040}, {1, 4112}, {8, 4112}, {15, 4124}, {16, 1040}, {64, 20}};
    struct path path = path_loopback4();
    uint32_t sent = 0;

    (void)state;
    start(2, &usual);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct shipment s = {
            .path = path,
            .slot = member[1].slot,
            .count = shapes[i].count,
            .len = shapes[i].len,
        };
        uint32_t batches = 0;

        member_sleep(&member[1]);
        while (member_room(&member[0], &path.dst, s.slot) >= s.count * s.len) {
            assert_int_equal(member_send(&member[0], &s), 0);
            batches++;
        }
        assert_true(batches > 0);
        sent += batches * s.count;
        member_wake(&member[1]);
        member_await(&member[1], sent);
        member[1].seen_count = 0;
        sent = 0;
    }
    assert_int_equal(member_counters(&member[1]).socket_overflow, 0);
}

static void room_comes_back_after_losses(void **state)
{
    static const struct udp_config small = {.receive_buffer = 65536};
    struct shipment s = {.path = path_loopback4(), .count = 15, .len = 4124};
    uint32_t room;

    (void)state;
    start(2, &small);
    s.slot = member[1].slot;
    room = member_room(&member[0], &s.path.dst, s.slot);
    assert_in_range(room, 4096, 131072);
    member_sleep(&member[1]);
    for (uint32_t i = 0; i < 10; i++) /* far more than it can hold */
        assert_int_equal(member_send(&member[0], &s), 0);
    assert_int_equal(member_room(&member[0], &s.path.dst, s.slot), 0);
    member_wake(&member[1]);
    member_await(&member[1], 15);
    for (uint32_t i = 0; i < 1000 && member_room(&member[0], &s.path.dst, s.slot) != room; i++)
        usleep(1000);
    assert_int_equal(member_room(&member[0], &s.path.dst, s.slot), room);
    s.count = 1;
    member_counters(&member[1]); /* What it has seen so far is told before. */
    assert_int_equal(member_send(&member[0], &s), 0);
    member_await(&member[1], member[1].seen_count + 1);
    assert_true(member_counters(&member[1]).socket_overflow > 0);
}

/* It has looked at its sockets and found nothing. */
static void look(struct member *m)
{
    member_counters(m);
    member_counters(m);
}

/* What member 0 can send to member 1 becomes this, in some seconds at most. */
static void expect_room(uint8_t slot, uint32_t room)
{
    const struct gid dst = gid_ipv4(INADDR_LOOPBACK);

    look(&member[1]);
    for (uint32_t i = 0; i < 1000 && member_room(&member[0], &dst, slot) != room; i++) {
        usleep(10000);
        look(&member[1]);
    }
    assert_int_equal(member_room(&member[0], &dst, slot), room);
}

static void room_of_what_is_not_sent_yet_stays_taken(void **state)
{
    struct shipment s = {.path = path_loopback4(), .count = 1, .len = 1040};
    uint32_t room;

    (void)state;
    start(2, &plain);
    s.slot = member[1].slot;
    room = member_room(&member[0], &s.path.dst, s.slot);
    member_charge(&member[0], s.slot, UNSENT);
    for (uint32_t i = 1; i <= 3; i++) {
        assert_int_equal(member_send(&member[0], &s), 0);
        member_await(&member[1], i);
        look(&member[1]);
        assert_int_equal(member_room(&member[0], &s.path.dst, s.slot), room - UNSENT);
    }
    member_sent(&member[0], s.slot, UNSENT);
    expect_room(s.slot, room);
}

static void room_of_a_sender_that_stopped_for_long_comes_back_once(void **state)
{
    const struct gid dst = gid_ipv4(INADDR_LOOPBACK);
    uint32_t room;
    uint8_t slot;

    (void)state;
    start(2, &plain);
    slot = member[1].slot;
    room = member_room(&member[0], &dst, slot);
    member_charge(&member[0], slot, UNSENT);
    expect_room(slot, room);
    member_sent(&member[0], slot, UNSENT); /* it is not dead after all */
    expect_room(slot, room);
    member_charge(&member[0], slot, UNSENT);
    look(&member[1]);
    assert_int_equal(member_room(&member[0], &dst, slot), room - UNSENT);
}

static void a_stopped_receiver_holds_a_sender_up_for_a_while_only(void **state)
{
    struct shipment s = {.path = path_loopback6(), .count = 15, .len = 4124};
    static const struct udp_config small = {.receive_buffer = 65536};
    uint32_t room = 0;

    (void)state;
    start(2, &small);
    s.slot = member[1].slot;
    member_sleep(&member[1]);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(member_send(&member[0], &s), 0);
    assert_int_equal(member_room(&member[0], &s.path.dst, s.slot), 0);
    for (uint32_t i = 0; i < 1000 && room != UINT32_MAX; i++) {
        usleep(10000);
        room = member_room(&member[0], &s.path.dst, s.slot);
    }
    assert_int_equal(room, UINT32_MAX);
}

static void room_is_unknown_where_nobody_counts(void **state)
{
    struct gid local = gid_ipv4(0x7f000005);
    struct gid remote = gid_ipv4(0xc6336402);

    (void)state;
    start(1, &plain);
    assert_int_not_equal(member_room(&member[0], &local, member[0].slot), UINT32_MAX);
    assert_int_equal(member_room(&member[0], &remote, member[0].slot), UINT32_MAX);
    assert_int_equal(member_room(&member[0], &local, 9), UINT32_MAX);
    assert_int_equal(member_room(&member[0], &local, SLOT_QP1), UINT32_MAX);
    assert_int_equal(member_room(&member[0], &local, SLOT_MULTICAST), UINT32_MAX);
}

static void a_buffer_is_known_where_room_is(void **state)
{
    struct gid local = gid_ipv4(0x7f000005);
    struct gid remote = gid_ipv4(0xc6336402);
    uint32_t room;

    (void)state;
    start(1, &plain);
    room = member_room(&member[0], &local, member[0].slot);
    assert_in_range(member_buffer(&member[0], &local, member[0].slot), room, 2 * room);
    assert_int_equal(member_buffer(&member[0], &remote, member[0].slot), 0);
    assert_int_equal(member_buffer(&member[0], &local, 9), 0);
    assert_int_equal(member_buffer(&member[0], &local, SLOT_QP1), 0);
}

/* What the sender says of it; and that this is true of a batch of two. */
static bool arrives_whole(const struct udp_config *from, const struct udp_config *to)
{
    struct shipment s = {.path = path_loopback4(), .src_port = 0xc000, .count = 2, .len = 36};
    bool promised;

    member_start(&member[0], to);
    member_start(&member[1], from);
    s.slot = member[0].slot;
    promised = member_delivers_whole(&member[1], &s.path, s.slot);
    assert_int_equal(member_send(&member[1], &s), 0);
    member_await(&member[0], 2);
    if (promised) {
        assert_int_equal(member_counters(&member[1]).sent_calls, 1);
        assert_int_equal(member_counters(&member[1]).gso_refused, 0);
        assert_int_equal(member_counters(&member[0]).rcv_calls, 1);
        assert_int_equal(member_counters(&member[0]).handed_over, 0);
    }
    member_close(&member[0]);
    member_close(&member[1]);
    return promised;
}

static void batches_are_said_to_arrive_whole_only_where_they_do(void **state)
{
    static const struct udp_config no_gso = {.no_gso = true};
    static const struct udp_config no_gro = {.no_gro = true};
    static const struct udp_config no_bpf = {.no_bpf = true};
    struct path remote = path_loopback4();

    (void)state;
    assert_true(arrives_whole(&plain, &plain));
    assert_true(arrives_whole(&plain, &no_gso));
    assert_true(arrives_whole(&no_gro, &plain));
    assert_false(arrives_whole(&no_gso, &plain));
    assert_false(arrives_whole(&plain, &no_gro));
    assert_false(arrives_whole(&plain, &no_bpf));
    start(1, &plain);
    remote.dst = gid_ipv4(0xc6336402);
    assert_false(member_delivers_whole(&member[0], &remote, member[0].slot));
    remote = path_loopback4();
    assert_true(member_delivers_whole(&member[0], &remote, member[0].slot));
    assert_false(member_delivers_whole(&member[0], &remote, 9));
    assert_false(member_delivers_whole(&member[0], &remote, SLOT_MULTICAST));
}

/* A message of another user, and malformed ones of our own; then a good one with two datagrams,
 * whose ICRCs are wrong. */
static void an_inbox_believes_only_its_own_user(void **state)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    const socklen_t to_len = offsetof(struct sockaddr_un, sun_path) + 6;
    const struct arrival good = {.len = 20};
    const struct arrival too_long = {.len = 21};
    const struct arrival empty = {.len = 0};
    uint8_t message[2 * (sizeof(good) + 20)] = {0};
    struct link_counters c;
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    int status;
    pid_t pid;

    (void)state;
    start(1, &plain);
    memcpy(to.sun_path + 1, &member[0].inbox, 5);
#define THROW(len) assert_true(sendto(fd, message, (len), 0, (struct sockaddr *)&to, to_len) >= 0)
    THROW(0);
    THROW(sizeof(good) - 1);
    memcpy(message, &empty, sizeof(empty));
    THROW(sizeof(good));
    memcpy(message, &good, sizeof(good));
    memcpy(message + sizeof(good) + 20, &too_long, sizeof(too_long));
    THROW(sizeof(message)); /* the first of the two is good */
    memcpy(message + sizeof(good) + 20, &good, sizeof(good));
    pid = fork();
    if (pid == 0) {
        if (setresuid(FOREIGN_UID, FOREIGN_UID, FOREIGN_UID) != 0)
            _exit(1); /* No other user to become. */
        THROW(sizeof(message));
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    THROW(sizeof(message));
#undef THROW
    close(fd);
    do {
        usleep(1000);
        c = member_counters(&member[0]);
    } while (c.icrc_error < 3);
    assert_int_equal(c.inbox_refused, WEXITSTATUS(status) == 0 ? 5 : 4);
    assert_int_equal(c.handed_over, 3);
    assert_int_equal(member[0].seen_count, 0);
}

/* A process that gets no core for a while: what reached another for it waits there. */

/* A socket whose datagrams to member 1 reach member 0: without the program the kernel chooses by
 * port. */
static int socket_that_misses(uint16_t *port)
{
    uint8_t bytes[64];

    for (;;) {
        int fd = plain_socket(AF_INET, port);
        uint32_t before = member[1].seen_count;

        fill_datagram(bytes, sizeof(bytes), member[1].slot, 0);
        write_icrc(bytes, sizeof(bytes), *port, 0);
        throw(fd, bytes, sizeof(bytes));
        member_await(&member[1], before + 1);
        if (member_counters(&member[1]).handed_over > 0)
            return fd;
        close(fd);
    }
}

/* Sends datagrams numbered from first on, and waits until member 0 has read them. */
static void throw_many(int fd, uint16_t port, uint32_t first, uint32_t count)
{
    uint8_t bytes[1040];
    uint64_t read = member_counters(&member[0]).rcv_datagrams;

    for (uint32_t i = 0; i < count; i++) {
        fill_datagram(bytes, sizeof(bytes), member[1].slot, (uint8_t)(first + i));
        write_icrc(bytes, sizeof(bytes), port, 0);
        throw(fd, bytes, sizeof(bytes));
        if (i % 32 == 31 || i + 1 == count)
            while (member_counters(&member[0]).rcv_datagrams < read + i + 1)
                usleep(100);
    }
}

static void what_is_handed_over_waits_for_a_process_that_sleeps(void **state)
{
    static const struct udp_config bare = {.no_gso = true, .no_gro = true, .no_bpf = true};
    uint32_t before;
    uint16_t port;
    int fd;

    (void)state;
    start(2, &bare);
    fd = socket_that_misses(&port);
    before = member[1].seen_count;
    member_sleep(&member[1]);
    throw_many(fd, port, 0, 200);
    member_wake(&member[1]);
    member_await(&member[1], before + 200);
    for (uint32_t i = 0; i < 200; i++)
        assert_int_equal(member[1].seen[before + i].mark, i);
    assert_int_equal(member_counters(&member[0]).hand_over_full, 0);
    close(fd);
}

static void what_waits_to_be_handed_over_is_bounded_and_the_newest_is_kept(void **state)
{
    static const struct udp_config bare = {.no_gso = true, .no_gro = true, .no_bpf = true};
    const uint32_t most = PARCELS_MAX * RECEIVE_STRIDE / 1040;
    uint32_t count = most + most / 2;
    uint64_t lost;
    uint16_t port;
    int fd;

    (void)state;
    start(2, &bare);
    fd = socket_that_misses(&port);
    member[1].seen_count = 0;
    member_sleep(&member[1]);
    throw_many(fd, port, 0, count);
    lost = member_counters(&member[0]).hand_over_full;
    assert_in_range(lost, 1, count - 1);
    member_wake(&member[1]);
    member_await(&member[1], 1);
    throw_many(fd, port, count, 1); /* and on it goes */
    for (uint32_t i = 0; i < 10000 && member[1].seen[member[1].seen_count - 1].mark != count % 256;
         i++) {
        usleep(1000);
        member_counters(&member[1]);
    }
    assert_int_equal(member[1].seen[member[1].seen_count - 1].mark, count % 256);
    assert_in_range(member_counters(&member[0]).hand_over_full, lost, count);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(datagrams_arrive_whatever_the_kernel_can_do, end_members),
        cmocka_unit_test_teardown(a_full_batch_arrives, end_members),
        cmocka_unit_test_teardown(traffic_class_and_hop_limit_travel, end_members),
        cmocka_unit_test_teardown(a_socket_that_keeps_to_a_path_serves_others_too, end_members),
        cmocka_unit_test_teardown(a_source_port_is_stable_and_separates_slots, end_members),
        cmocka_unit_test_teardown(bad_datagrams_are_counted_and_dropped, end_members),
        cmocka_unit_test_teardown(broadcasts_reach_nobody_however_many_processes_there_are,
                                  end_members),
        cmocka_unit_test_teardown(addresses_that_a_network_rewrites_are_noticed, end_members),
        cmocka_unit_test_teardown(a_merged_datagram_is_taken_apart, end_members),
        cmocka_unit_test_teardown(identifications_are_learned, end_members),
        cmocka_unit_test_teardown(the_strict_setting_drops_the_first_of_a_jump, end_members),
        cmocka_unit_test_teardown(what_cannot_be_sent_is_counted, end_members),
        cmocka_unit_test_teardown(datagrams_larger_than_the_mtu_are_counted, end_members),
        cmocka_unit_test_teardown(a_sender_that_heeds_the_room_loses_nothing, end_members),
        cmocka_unit_test_teardown(room_comes_back_after_losses, end_members),
        cmocka_unit_test_teardown(room_of_what_is_not_sent_yet_stays_taken, end_members),
        cmocka_unit_test_teardown(room_of_a_sender_that_stopped_for_long_comes_back_once,
                                  end_members),
        cmocka_unit_test_teardown(a_stopped_receiver_holds_a_sender_up_for_a_while_only,
                                  end_members),
        cmocka_unit_test_teardown(room_is_unknown_where_nobody_counts, end_members),
        cmocka_unit_test_teardown(a_buffer_is_known_where_room_is, end_members),
        cmocka_unit_test_teardown(batches_are_said_to_arrive_whole_only_where_they_do, end_members),
        cmocka_unit_test_teardown(an_inbox_believes_only_its_own_user, end_members),
        cmocka_unit_test_teardown(what_is_handed_over_waits_for_a_process_that_sleeps, end_members),
        cmocka_unit_test_teardown(what_waits_to_be_handed_over_is_bounded_and_the_newest_is_kept,
                                  end_members),
    };

    namespace_make();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
