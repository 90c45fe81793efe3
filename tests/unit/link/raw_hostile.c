/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Another host that sends a process with UROCE_RAW what nobody should, frame by frame. What
 * reaches a socket of that process, or would if the process did not look at whole frames, is
 * counted: once, by the counter that says why it was dropped.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "hosts.h"
#include "link/limits.h"
#include "member.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/packet.h"

#define L3_AT (sizeof(struct virtio_net_hdr) + ETH_HLEN)
#define MTU 65535u
#define FRAME_MAX (L3_AT + MTU)
#define PAYLOAD_LEN 64u
#define BATCH_SEGMENT_LEN 1000u
#define SRC_PORT 0xc123u
#define STORM 100000u

static struct member far;
static int wire;

/* Frames. */

struct frame {
    size_t len;
    bool ipv4;
    uint8_t bytes[FRAME_MAX];
};

static uint8_t *l3(struct frame *f)
{
    return f->bytes + L3_AT;
}

static size_t l3_len(const struct frame *f)
{
    return f->ipv4 ? IPV4_LEN : IPV6_LEN;
}

static uint8_t *l4(struct frame *f)
{
    return l3(f) + l3_len(f);
}

static void settle_ipv4(struct frame *f)
{
    const size_t len = (size_t)4 * (*l3(f) & 0xf);
    uint32_t sum = 0;

    if (!f->ipv4)
        return;
    store_be16(l3(f) + 10, 0);
    for (size_t i = 0; i < len; i += 2)
        sum += load_be16(l3(f) + i);
    sum = (sum & 0xffff) + (sum >> 16);
    store_be16(l3(f) + 10, (uint16_t) ~(sum + (sum >> 16)));
}

/* So much is left, as IP says too; UDP does not. */
static void end_ip_at(struct frame *f, size_t payload_len)
{
    f->len = L3_AT + l3_len(f) + payload_len;
    store_be16(l3(f) + (f->ipv4 ? 2 : 4), (uint16_t)(payload_len + (f->ipv4 ? IPV4_LEN : 0)));
    settle_ipv4(f);
}

static void make_good(struct frame *f, bool ipv4, size_t payload_len)
{
    static const uint8_t ethernet[] = {2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1};
    const struct path path = ipv4 ? path_ipv4() : path_ipv6();
    const struct ip_header ip = {
        .ipv4 = ipv4,
        .src = path.src,
        .dst = path.dst,
        .hop_limit = 64,
        .protocol = IP_PROTOCOL_UDP,
        .identification = 0x4711,
        .dont_fragment = true,
        .payload_len = (uint16_t)(UDP_LEN + payload_len),
    };
    const struct udp_header udp = {
        .src_port = SRC_PORT, .dst_port = ROCE_UDP_PORT, .len = (uint16_t)(UDP_LEN + payload_len)};
    struct icrc_flow flow;

    memset(f, 0, sizeof(*f));
    f->ipv4 = ipv4;
    memcpy(l3(f) - ETH_HLEN, ethernet, sizeof(ethernet));
    store_be16(l3(f) - 2, ipv4 ? ETH_P_IP : ETH_P_IPV6);
    ip_write(&ip, l3(f));
    udp_write(&udp, l4(f));
    f->len = L3_AT + l3_len(f) + UDP_LEN + payload_len;
    if (payload_len < BTH_LEN + ICRC_LEN)
        return;
    fill_datagram(l4(f) + UDP_LEN, (uint32_t)payload_len, far.slot, 0);
    icrc_flow_init(&flow, &path.src, &path.dst);
    if (payload_len <= PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX)
        store_le32(f->bytes + f->len - ICRC_LEN,
                   icrc_compute(&flow, SRC_PORT, 0x4711, l4(f) + UDP_LEN, payload_len - ICRC_LEN));
}

static void insert(struct frame *f, size_t at, const void *bytes, size_t len)
{
    memmove(f->bytes + at + len, f->bytes + at, f->len - at);
    memcpy(f->bytes + at, bytes, len);
    f->len += len;
}

/* False: Linux before 6.2 takes no batch from a packet socket. */
static bool transmit(const struct frame *f)
{
    const ssize_t len = send(wire, f->bytes, f->len, 0);

    if (len < 0 && errno == EINVAL && f->bytes[0] != 0)
        return false;
    assert_int_equal(len, f->len);
    return true;
}

/* What is wrong with a frame that was good. */

static void nothing(struct frame *f)
{
    (void)f;
}

static void ends_early(struct frame *f)
{
    f->len -= 20;
}

static void udp_ends_early(struct frame *f)
{
    end_ip_at(f, UDP_LEN + PAYLOAD_LEN - 8);
}

static void udp_is_longer(struct frame *f)
{
    store_be16(l4(f) + 4, UDP_LEN + PAYLOAD_LEN + 4);
}

static void says_no_slot(struct frame *f)
{
    end_ip_at(f, UDP_LEN + 5);
    store_be16(l4(f) + 4, UDP_LEN + 5);
}

static void has_no_icrc(struct frame *f)
{
    end_ip_at(f, UDP_LEN + BTH_LEN);
    store_be16(l4(f) + 4, UDP_LEN + BTH_LEN);
}

static void is_damaged(struct frame *f)
{
    f->bytes[f->len - 10] ^= 1;
}

static void checksum_is_wrong(struct frame *f)
{
    store_be16(l4(f) + 6, 0x0bad);
}

static void ipv4_checksum_is_wrong(struct frame *f)
{
    l3(f)[10] ^= 1;
}

static void hop_limit_is_0(struct frame *f)
{
    l3(f)[f->ipv4 ? 8 : 7] = 0;
    settle_ipv4(f);
}

static void may_be_fragmented(struct frame *f)
{
    store_be16(l3(f) + 6, 0);
    settle_ipv4(f);
}

static void has_options(struct frame *f)
{
    static const uint8_t options[4] = {1, 1, 1, 0};

    insert(f, L3_AT + IPV4_LEN, options, sizeof(options));
    *l3(f) = 0x46;
    store_be16(l3(f) + 2, (uint16_t)(f->len - L3_AT));
    settle_ipv4(f);
}

static void is_from_the_host_itself(struct frame *f)
{
    if (f->ipv4)
        memcpy(l3(f) + 12, l3(f) + 16, 4);
    else
        memcpy(l3(f) + 8, l3(f) + 24, 16);
    settle_ipv4(f);
}

static void is_from_nobody(struct frame *f)
{
    memset(l3(f) + (f->ipv4 ? 12 : 8), 0, f->ipv4 ? 4 : 16);
    settle_ipv4(f);
}

static void has_ipv4_in_ipv6(struct frame *f)
{
    memcpy(l3(f) + 8, path_ipv4().src.bytes, 16);
}

static void goes_to_all_of_the_ethernet(struct frame *f)
{
    memset(l3(f) - ETH_HLEN, 0xff, ETH_ALEN);
}

static void has_a_priority_tag(struct frame *f)
{
    static const uint8_t tag[4] = {0x81, 0x00, 0x60, 0x00};

    insert(f, L3_AT - 2, tag, sizeof(tag));
}

/* An IPv6 extension header of 8 bytes in front of UDP. */
static void extend(struct frame *f, uint8_t kind, const uint8_t header[8])
{
    insert(f, L3_AT + IPV6_LEN, header, 8);
    l3(f)[6] = kind;
    store_be16(l3(f) + 4, (uint16_t)(f->len - L3_AT - IPV6_LEN));
}

static void has_hop_by_hop_options(struct frame *f)
{
    extend(f, 0, (const uint8_t[8]){IP_PROTOCOL_UDP, 0, 1, 4});
}

static void has_destination_options(struct frame *f)
{
    extend(f, 60, (const uint8_t[8]){IP_PROTOCOL_UDP, 0, 1, 4});
}

static void has_all_options(struct frame *f)
{
    has_destination_options(f);
    extend(f, 0, (const uint8_t[8]){60, 0, 1, 4});
}

static void is_a_fragment_of_one(struct frame *f)
{
    extend(f, 44, (const uint8_t[8]){IP_PROTOCOL_UDP, [7] = 1});
}

/*
 * Both pieces, of which the first has the UDP header alone and the kernel makes a datagram. The
 * first of them is counted.
 */
static void comes_in_two_fragments(struct frame *f)
{
    struct frame *second = malloc(sizeof(*second));
    const size_t rest = PAYLOAD_LEN;

    assert_non_null(second);
    *second = *f;
    memmove(l4(second), l4(second) + UDP_LEN, rest);
    end_ip_at(f, UDP_LEN);
    end_ip_at(second, rest);
    if (f->ipv4) {
        store_be16(l3(f) + 6, 0x6000);
        store_be16(l3(second) + 6, 0x4001);
    } else {
        extend(f, 44, (const uint8_t[8]){IP_PROTOCOL_UDP, [3] = 1, [7] = 2});
        extend(second, 44, (const uint8_t[8]){IP_PROTOCOL_UDP, [3] = 8, [7] = 2});
    }
    settle_ipv4(f);
    settle_ipv4(second);
    transmit(second);
    free(second);
}

static void is_as_long_as_can_be(struct frame *f)
{
    make_good(f, f->ipv4, MTU - UDP_LEN - l3_len(f));
}

/* As many datagrams as Linux makes one frame of, of which none has an ICRC. */
static void is_a_batch_of_64(struct frame *f)
{
    struct virtio_net_hdr v = {
        .flags = VIRTIO_NET_HDR_F_NEEDS_CSUM,
        .gso_type = 5 /* VIRTIO_NET_HDR_GSO_UDP_L4 */,
        .gso_size = BATCH_SEGMENT_LEN,
        .csum_offset = 6,
    };

    make_good(f, f->ipv4, (size_t)SEND_SEGMENTS_MAX * BATCH_SEGMENT_LEN);
    for (size_t i = 0; i < SEND_SEGMENTS_MAX; i++)
        fill_datagram(l4(f) + UDP_LEN + i * BATCH_SEGMENT_LEN, BATCH_SEGMENT_LEN, far.slot, 1);
    v.hdr_len = (uint16_t)(ETH_HLEN + l3_len(f) + UDP_LEN);
    v.csum_start = (uint16_t)(ETH_HLEN + l3_len(f));
    memcpy(f->bytes, &v, sizeof(v));
}

#define COUNTER(name) offsetof(struct link_counters, name)
#define TAKEN SIZE_MAX

struct wrong {
    const char *name;
    void (*spoil)(struct frame *f);
    bool ipv4;
    bool ipv6;
    size_t counter; /* TAKEN: the frame is good */
    uint32_t count;
};

#define ROW(spoil, ipv4, ipv6, counter, count)                                                     \
    {                                                                                              \
#spoil, spoil, ipv4, ipv6, counter, count                                                  \
    }

/* clang-format off */
static const struct wrong rows[] = {
    /*  what                        IPv4   IPv6   counter                times */
    ROW(nothing,                    true,  true,  TAKEN,                 1),
    ROW(has_a_priority_tag,         true,  true,  TAKEN,                 1),
    ROW(ends_early,                 true,  true,  COUNTER(raw_length),   1),
    ROW(udp_ends_early,             true,  true,  COUNTER(raw_length),   1),
    ROW(udp_is_longer,              true,  true,  COUNTER(raw_length),   1),
    ROW(says_no_slot,               true,  true,  COUNTER(too_short),    1),
    ROW(has_no_icrc,                true,  true,  COUNTER(too_short),    1),
    ROW(is_damaged,                 true,  true,  COUNTER(icrc_error),   1),
    ROW(is_as_long_as_can_be,       true,  true,  COUNTER(icrc_error),   1),
    ROW(is_a_batch_of_64,           true,  true,  COUNTER(icrc_error),   64),
    ROW(checksum_is_wrong,          true,  true,  COUNTER(raw_checksum), 1),
    ROW(ipv4_checksum_is_wrong,     true,  false, COUNTER(raw_checksum), 1),
    ROW(hop_limit_is_0,             true,  true,  COUNTER(raw_hop_limit), 1),
    ROW(may_be_fragmented,          true,  false, COUNTER(raw_fragment), 1),
    ROW(comes_in_two_fragments,     true,  true,  COUNTER(raw_fragment), 1),
    ROW(is_a_fragment_of_one,       false, true,  COUNTER(raw_fragment), 1),
    ROW(has_options,                true,  false, COUNTER(raw_header),   1),
    ROW(has_hop_by_hop_options,     false, true,  COUNTER(raw_header),   1),
    ROW(has_destination_options,    false, true,  COUNTER(raw_header),   1),
    ROW(has_all_options,            false, true,  COUNTER(raw_header),   1),
    ROW(is_from_the_host_itself,    true,  true,  COUNTER(raw_address),  1),
    ROW(is_from_nobody,             true,  true,  COUNTER(raw_address),  1),
    ROW(has_ipv4_in_ipv6,           false, true,  COUNTER(raw_address),  1),
    ROW(goes_to_all_of_the_ethernet, true, true,  COUNTER(raw_address),  1),
};
/* clang-format on */

static void open_wire(void)
{
    const struct sockaddr_ll to = {.sll_family = AF_PACKET,
                                   .sll_ifindex = (int)if_nametoindex("near")};
    int one = 1;

    wire = socket(AF_PACKET, SOCK_RAW, 0);
    assert_true(wire >= 0);
    assert_int_equal(setsockopt(wire, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)), 0);
    assert_int_equal(bind(wire, (const struct sockaddr *)&to, sizeof(to)), 0);
}

static int begin(void **state)
{
    static const struct udp_config raw = {.raw = true};

    (void)state;
    setns(far_namespace, CLONE_NEWNET);
    member_start(&far, &raw);
    setns(near_namespace, CLONE_NEWNET);
    open_wire();
    return 0;
}

static int end(void **state)
{
    (void)state;
    close(wire);
    member_kill(&far);
    return 0;
}

/* But for how much came and in how many calls, which says nothing of fates. */
static struct link_counters fates(void)
{
    struct link_counters c = member_counters(&far);

    c.rcv_bytes = c.rcv_calls = 0;
    return c;
}

static void expect_fate(const struct wrong *w, bool ipv4)
{
    static struct frame f;
    struct link_counters c, expected = fates();
    const uint32_t seen_count = far.seen_count;

    expected.rcv_datagrams += w->count;
    if (w->counter != TAKEN)
        *(uint64_t *)(void *)((char *)&expected + w->counter) += w->count;
    make_good(&f, ipv4, PAYLOAD_LEN);
    w->spoil(&f);
    if (!transmit(&f))
        return;
    for (uint32_t i = 0;; i++) {
        c = fates();
        if (c.rcv_datagrams >= expected.rcv_datagrams)
            break;
        if (i == 1000)
            fail_msg("%s, IPv%c: nothing was counted", w->name, ipv4 ? '4' : '6');
        usleep(1000);
    }
    if (memcmp(&c, &expected, sizeof(c)) != 0)
        fail_msg("%s, IPv%c: counted otherwise", w->name, ipv4 ? '4' : '6');
    if (w->counter == TAKEN)
        member_await(&far, seen_count + 1);
    assert_int_equal(far.seen_count, seen_count + (w->counter == TAKEN));
}

static void each_frame_that_is_wrong_is_counted_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        if (rows[i].ipv4)
            expect_fate(&rows[i], true);
        if (rows[i].ipv6)
            expect_fate(&rows[i], false);
    }
}

/*
 * Faster than can be read. What did not fit is told with the next that does, so good frames follow
 * till all is accounted for.
 */
static void a_storm_of_junk_passes_and_is_counted(void **state)
{
    static void (*const junk[])(struct frame *) = {ends_early, udp_ends_early, udp_is_longer};
    static struct frame f;
    struct link_counters c = {0};
    uint64_t before = 0;
    uint32_t sent = STORM;

    (void)state;
    for (uint32_t i = 0; i < STORM; i++) {
        make_good(&f, i & 1, PAYLOAD_LEN);
        junk[i % 3](&f);
        transmit(&f);
    }
    for (uint32_t i = 0; sent == STORM || c.rcv_datagrams + c.socket_overflow < sent; i++) {
        assert_true(i < 600);
        usleep(100000);
        c = member_counters(&far);
        if (c.rcv_datagrams == before) {
            for (int ipv4 = 0; ipv4 < 2; ipv4++, sent++) {
                make_good(&f, ipv4, PAYLOAD_LEN);
                transmit(&f);
            }
        }
        before = c.rcv_datagrams;
    }
    assert_int_equal(c.rcv_datagrams + c.socket_overflow, sent);
    assert_int_equal(c.raw_length + far.seen_count, c.rcv_datagrams);
    assert_true(far.seen_count > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_frame_that_is_wrong_is_counted_once, begin, end),
        cmocka_unit_test_setup_teardown(a_storm_of_junk_passes_and_is_counted, begin, end),
    };

    hosts_make();
    hosts_set_mtu(MTU);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
