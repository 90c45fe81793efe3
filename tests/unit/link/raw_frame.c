/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A good frame of each family, and what becomes of it when one field lies. Each row says which
 * counter tells.
 */
#include "link/raw_frame.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <linux/if_ether.h>
#include <linux/virtio_net.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/ip.h"
#include "wire/packet.h"

#define L3_AT (sizeof(struct virtio_net_hdr) + ETH_HLEN)
#define PAYLOAD_LEN 64u
#define FRAME_MAX 256u

struct frame {
    uint8_t bytes[FRAME_MAX];
    size_t len;
    size_t l4_at;
};

/* Writes the IPv4 checksum again, for rows that are about what it covers. */
static void settle(struct frame *f)
{
    uint8_t *ip = f->bytes + L3_AT;
    uint32_t sum = 0;

    store_be16(ip + 10, 0);
    for (uint32_t i = 0; i < IPV4_LEN; i += 2)
        sum += load_be16(ip + i);
    sum = (sum & 0xffff) + (sum >> 16);
    store_be16(ip + 10, (uint16_t) ~(sum + (sum >> 16)));
}

static struct frame good(bool ipv4)
{
    struct frame f = {.len = 0};
    const struct ip_header ip = {
        .ipv4 = ipv4,
        .src = ipv4 ? (struct gid){{[10] = 0xff, 0xff, 192, 0, 2, 1}}
                    : (struct gid){{0x20, 0x01, 0x0d, 0xb8, [15] = 1}},
        .dst = ipv4 ? (struct gid){{[10] = 0xff, 0xff, 192, 0, 2, 2}}
                    : (struct gid){{0x20, 0x01, 0x0d, 0xb8, [15] = 2}},
        .traffic_class = 0x6a,
        .hop_limit = 64,
        .protocol = IP_PROTOCOL_UDP,
        .flow_label = 0x12345,
        .identification = 0x4711,
        .dont_fragment = true,
        .payload_len = UDP_LEN + PAYLOAD_LEN,
    };
    const struct udp_header udp = {
        .src_port = 0xc123, .dst_port = ROCE_UDP_PORT, .len = UDP_LEN + PAYLOAD_LEN};

    store_be16(f.bytes + L3_AT - 2, ipv4 ? ETH_P_IP : ETH_P_IPV6);
    f.l4_at = L3_AT + ip_write(&ip, f.bytes + L3_AT);
    udp_write(&udp, f.bytes + f.l4_at);
    memset(f.bytes + f.l4_at + UDP_LEN, 0x5a, PAYLOAD_LEN);
    f.len = f.l4_at + UDP_LEN + PAYLOAD_LEN;
    return f;
}

/* Reads a copy that ends where its memory does. */
static bool read_frame(const struct frame *f, struct link_counters *c, struct raw_frame *out)
{
    uint8_t *copy = malloc(f->len ? f->len : 1);
    bool result;

    assert_non_null(copy);
    memcpy(copy, f->bytes, f->len);
    memset(c, 0, sizeof(*c));
    result = raw_frame_read(copy, f->len, c, out);
    free(copy);
    return result;
}

static void a_good_frame_shows_every_field(void **state)
{
    (void)state;
    for (int ipv4 = 0; ipv4 < 2; ipv4++) {
        static const struct link_counters none;
        struct frame f = good(ipv4);
        struct link_counters c;
        struct raw_frame r;

        assert_true(read_frame(&f, &c, &r));
        assert_memory_equal(&c, &none, sizeof(c));
        assert_int_equal(r.arrival.len, PAYLOAD_LEN);
        assert_int_equal(r.arrival.segment_len, 0);
        assert_int_equal(r.arrival.src_port, 0xc123);
        assert_int_equal(r.arrival.traffic_class, 0x6a);
        assert_int_equal(r.arrival.hop_limit, 64);
        assert_int_equal(r.arrival.src.bytes[15], 1);
        assert_int_equal(r.arrival.dst.bytes[15], 2);
        assert_int_equal(r.identification, ipv4 ? 0x4711 : 0);
        assert_int_equal(r.flow_label, ipv4 ? 0 : 0x12345);
    }
}

#define COUNTER(name) offsetof(struct link_counters, name)
#define L4 1000 /* and above: an offset from the UDP header */

static void one_field_that_lies_is_one_counter(void **state)
{
    static const struct {
        bool ipv4;
        int at; /* from the IP header; L4 and above from the UDP header */
        uint16_t value;
        bool settled; /* with a right IPv4 checksum */
        size_t counter;
    } rows[] = {
        {true, -2, ETH_P_IPV6, false, COUNTER(raw_header)}, /* the Ethernet header */
        {true, 0, 0x5500, true, COUNTER(raw_header)},       /* version 5 */
        {true, 0, 0x4400, true, COUNTER(raw_header)},       /* header of 16 bytes */
        {true, 0, 0x4600, true, COUNTER(raw_header)},       /* options */
        {true, 2, 0xffff, true, COUNTER(raw_length)},       /* total length: more than came */
        {true, 2, 19, true, COUNTER(raw_length)},           /* less than the header */
        {true, 2, 27, true, COUNTER(raw_length)},           /* no room for UDP */
        {true, 2, 28 + PAYLOAD_LEN - 1, true, COUNTER(raw_length)}, /* less than UDP says */
        {true, 4, 0x4712, false, COUNTER(raw_checksum)},            /* identification changed */
        {true, 6, 0x0000, true, COUNTER(raw_fragment)},             /* DF clear */
        {true, 6, 0x6000, true, COUNTER(raw_fragment)},             /* more fragments */
        {true, 6, 0x4001, true, COUNTER(raw_fragment)},             /* an offset */
        {true, 6, 0xc000, true, COUNTER(raw_header)},               /* the reserved flag */
        {true, 8, 0x0011, true, COUNTER(raw_hop_limit)},
        {true, 8, 0x4006, true, COUNTER(raw_header)},     /* TCP */
        {true, L4 + 2, 4792, false, COUNTER(raw_header)}, /* port */
        {true, L4 + 4, 7, false, COUNTER(raw_length)},
        {true, L4 + 4, UDP_LEN + PAYLOAD_LEN + 1, false, COUNTER(raw_length)},
        {true, L4 + 6, 0x0bad, false, COUNTER(raw_checksum)},
        {false, 0, 0x4a61, false, COUNTER(raw_header)}, /* version 4 */
        {false, 4, 0xffff, false, COUNTER(raw_length)},
        {false, 4, 7, false, COUNTER(raw_length)},
        {false, 6, 0x2c40, false, COUNTER(raw_fragment)}, /* fragment header */
        {false, 6, 0x0040, false, COUNTER(raw_header)},   /* hop-by-hop options */
        {false, 6, 0x1100, false, COUNTER(raw_hop_limit)},
        {false, L4 + 2, 4792, false, COUNTER(raw_header)},
        {false, L4 + 4, UDP_LEN, false, COUNTER(raw_length)},
        {false, L4 + 6, 0x0bad, false, COUNTER(raw_checksum)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct frame f = good(rows[i].ipv4);
        struct link_counters c, expected = {0};
        struct raw_frame r;
        uint8_t *at =
            f.bytes + (rows[i].at >= L4 ? (int)f.l4_at + rows[i].at - L4 : (int)L3_AT + rows[i].at);

        store_be16(at, rows[i].value);
        if (rows[i].settled)
            settle(&f);
        *(uint64_t *)(void *)((char *)&expected + rows[i].counter) = 1;
        if (read_frame(&f, &c, &r) || memcmp(&c, &expected, sizeof(c)) != 0)
            fail_msg("row %zu", i);
    }
}

/* Addresses of senders that there are not, and of IPv4 in IPv6, which other hosts cannot have. */
static void an_address_that_no_other_host_has_is_refused(void **state)
{
    static const struct {
        bool ipv4;
        size_t at; /* from the IP header */
        struct gid address;
        bool taken;
    } rows[] = {
        {true, 12, {{192, 0, 2, 1}}, true},
        {true, 12, {{223, 255, 255, 254}}, true},
        {true, 12, {{0, 0, 0, 0}}, false},
        {true, 12, {{127, 0, 0, 1}}, false},
        {true, 12, {{224, 0, 0, 1}}, false},
        {true, 12, {{240, 0, 0, 1}}, false},
        {true, 12, {{255, 255, 255, 255}}, false},
        {false, 8, {{0x20, 0x01, 0x0d, 0xb8, [15] = 1}}, true},
        {false, 8, {{0xfe, 0x80, [15] = 1}}, true},
        {false, 8, {{0}}, false},
        {false, 8, {{[15] = 1}}, false},
        {false, 8, {{0xff, 0x02, [15] = 1}}, false},
        {false, 8, {{[10] = 0xff, 0xff, 192, 0, 2, 1}}, false},
        {false, 24, {{[10] = 0xff, 0xff, 192, 0, 2, 2}}, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct frame f = good(rows[i].ipv4);
        struct link_counters c;
        struct raw_frame r;

        memcpy(f.bytes + L3_AT + rows[i].at, rows[i].address.bytes, rows[i].ipv4 ? 4 : 16);
        if (rows[i].ipv4)
            settle(&f);
        if (read_frame(&f, &c, &r) != rows[i].taken || c.raw_address != !rows[i].taken)
            fail_msg("row %zu", i);
    }
}

static void a_frame_that_ends_anywhere_is_dropped(void **state)
{
    (void)state;
    for (int ipv4 = 0; ipv4 < 2; ipv4++) {
        struct frame f = good(ipv4);
        struct link_counters c;
        struct raw_frame r;

        while (f.len-- > 0) {
            assert_false(read_frame(&f, &c, &r));
            assert_int_equal(c.raw_length + c.raw_header, 1);
        }
    }
}

static void padding_behind_the_packet_is_no_part_of_it(void **state)
{
    struct frame f = good(true);
    struct link_counters c;
    struct raw_frame r;

    (void)state;
    f.len += 6;
    assert_true(read_frame(&f, &c, &r));
    assert_int_equal(r.arrival.len, PAYLOAD_LEN);
}

static void a_batch_is_cut_as_the_kernel_says_or_not_taken(void **state)
{
    static const struct {
        uint8_t type;
        uint16_t size;
        bool taken;
    } rows[] = {
        {VIRTIO_NET_HDR_GSO_NONE, 0, true},
        {5 /* VIRTIO_NET_HDR_GSO_UDP_L4 */, 32, true},
        {5, 0, false},
        {VIRTIO_NET_HDR_GSO_UDP, 32, false}, /* fragments */
        {VIRTIO_NET_HDR_GSO_TCPV4, 32, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct virtio_net_hdr v = {.gso_type = rows[i].type, .gso_size = rows[i].size};
        struct frame f = good(true);
        struct link_counters c;
        struct raw_frame r;

        memcpy(f.bytes, &v, sizeof(v));
        assert_int_equal(read_frame(&f, &c, &r), rows[i].taken);
        assert_int_equal(c.raw_giant, !rows[i].taken);
        if (rows[i].taken)
            assert_int_equal(r.arrival.segment_len, rows[i].size);
    }
}

static void a_checksum_is_verified_unless_a_device_was_to_write_it(void **state)
{
    struct virtio_net_hdr v = {.flags = VIRTIO_NET_HDR_F_NEEDS_CSUM};

    (void)state;
    for (int ipv4 = 0; ipv4 < 2; ipv4++) {
        struct frame f = good(ipv4);
        struct ip_header ip;
        struct link_counters c;
        struct raw_frame r;

        assert_int_equal(ip_read(f.bytes + L3_AT, f.len - L3_AT, &ip), IP_FAULT_NONE);
        store_be16(f.bytes + f.l4_at + 6,
                   udp_checksum(&ip, f.bytes + f.l4_at, UDP_LEN + PAYLOAD_LEN));
        assert_true(read_frame(&f, &c, &r));
        f.bytes[f.len - 1] ^= 1;
        assert_false(read_frame(&f, &c, &r));
        assert_int_equal(c.raw_checksum, 1);
        memcpy(f.bytes, &v, sizeof(v));
        assert_true(read_frame(&f, &c, &r));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_frame_shows_every_field),
        cmocka_unit_test(one_field_that_lies_is_one_counter),
        cmocka_unit_test(an_address_that_no_other_host_has_is_refused),
        cmocka_unit_test(a_frame_that_ends_anywhere_is_dropped),
        cmocka_unit_test(padding_behind_the_packet_is_no_part_of_it),
        cmocka_unit_test(a_batch_is_cut_as_the_kernel_says_or_not_taken),
        cmocka_unit_test(a_checksum_is_verified_unless_a_device_was_to_write_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
