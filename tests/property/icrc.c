/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two ways to the ICRC agree on every length a packet can have, and the
 * identification that a socket does not show is found at every length.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/bytes.h"
#include "base/random.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/packet.h"

#define DATAGRAM_LEN_MAX (PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX + ICRC_LEN)

static const uint8_t seed[16] = {2};

/* A frame, from the IP header on, in a buffer of just its size. */
struct frame {
    struct ip_header ip;
    uint16_t src_port;
    uint8_t *bytes;
    size_t len;
    uint8_t *payload;
    size_t payload_len;
};

static void draw_bytes(struct random *r, uint8_t *out, size_t len)
{
    for (size_t i = 0; i < len; i++)
        out[i] = (uint8_t)random_u64(r);
}

static struct gid draw_address(struct random *r, bool ipv4)
{
    struct gid gid = {.bytes = {[10] = 0xff, [11] = 0xff}};

    if (ipv4)
        draw_bytes(r, gid.bytes + 12, 4);
    else
        draw_bytes(r, gid.bytes, 16);
    return gid;
}

static struct frame draw_frame(struct random *r, bool ipv4, size_t payload_len)
{
    struct frame f = {
        .ip = {.ipv4 = ipv4,
               .src = draw_address(r, ipv4),
               .dst = draw_address(r, ipv4),
               .traffic_class = (uint8_t)random_u64(r),
               .hop_limit = (uint8_t)random_u64(r),
               .protocol = IP_PROTOCOL_UDP,
               .flow_label = (uint32_t)random_u64(r),
               .identification = ipv4 ? (uint16_t)random_u64(r) : 0,
               .dont_fragment = true,
               .payload_len = (uint16_t)(UDP_LEN + payload_len)},
        .src_port = (uint16_t)random_u64(r),
        .payload_len = payload_len,
    };
    struct udp_header udp = {
        .src_port = f.src_port,
        .dst_port = ROCE_UDP_PORT,
        .len = (uint16_t)(UDP_LEN + payload_len),
        .checksum = (uint16_t)random_u64(r),
    };
    size_t l3_len;

    f.bytes = test_malloc(IPV6_LEN + UDP_LEN + payload_len);
    l3_len = ip_write(&f.ip, f.bytes);
    udp_write(&udp, f.bytes + l3_len);
    f.payload = f.bytes + l3_len + UDP_LEN;
    f.len = l3_len + UDP_LEN + payload_len;
    draw_bytes(r, f.payload, payload_len);
    store_le32(f.bytes + f.len - ICRC_LEN, icrc_of_frame(f.bytes, f.len - ICRC_LEN, l3_len, true));
    return f;
}

static void expect_good(struct random *r, const struct frame *f)
{
    struct icrc_flow flow;
    uint16_t identification = 0;

    icrc_flow_init(&flow, &f->ip.src, &f->ip.dst);
    assert_int_equal(icrc_compute(&flow, f->src_port, f->ip.identification, f->payload,
                                  f->payload_len - ICRC_LEN),
                     load_le32(f->payload + f->payload_len - ICRC_LEN));
    assert_int_equal(icrc_verify(&flow, f->src_port, (uint16_t)random_u64(r), f->payload,
                                 f->payload_len, &identification),
                     ICRC_GOOD);
    assert_int_equal(identification, f->ip.identification);
}

static void both_ways_agree_at_every_length(void **state)
{
    struct random r;

    (void)state;
    random_init(&r, seed);
    for (size_t len = BTH_LEN + ICRC_LEN; len <= DATAGRAM_LEN_MAX; len += 4)
        for (int ipv4 = 0; ipv4 <= 1; ipv4++) {
            struct frame f = draw_frame(&r, ipv4 != 0, len);

            expect_good(&r, &f);
            test_free(f.bytes);
        }
}

/* One in 65536 random trailers has an identification that explains it. */
static void a_random_trailer_is_almost_never_good(void **state)
{
    enum { TRAILERS = 200000, GOOD_MAX = 15 };
    unsigned good = 0;
    struct icrc_flow flow;
    struct random r;
    struct frame f;

    (void)state;
    random_init(&r, seed);
    f = draw_frame(&r, true, 64);
    icrc_flow_init(&flow, &f.ip.src, &f.ip.dst);
    for (int i = 0; i < TRAILERS; i++) {
        uint16_t identification;

        store_le32(f.payload + f.payload_len - ICRC_LEN, (uint32_t)random_u64(&r));
        if (icrc_verify(&flow, f.src_port, 0, f.payload, f.payload_len, &identification) ==
            ICRC_GOOD)
            good++;
    }
    test_free(f.bytes);
    assert_true(good <= GOOD_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_ways_agree_at_every_length),
        cmocka_unit_test(a_random_trailer_is_almost_never_good),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
