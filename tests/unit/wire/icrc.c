/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the ICRC covers and what it does not. Foreign frames are in
 * tests/golden; here one frame is changed field by field.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/bytes.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/packet.h"

#define PAYLOAD_LEN 40u /* BTH, 24 bytes, ICRC */
#define SRC_PORT 0xc123
#define IDENTIFICATION 0x4711

static const struct gid ipv4_src = {{[10] = 0xff, 0xff, 10, 0, 0, 1}};
static const struct gid ipv4_dst = {{[10] = 0xff, 0xff, 10, 0, 0, 2}};
static const struct gid ipv6_src = {{0xfd, [15] = 1}};
static const struct gid ipv6_dst = {{0xfd, [15] = 2}};

struct frame {
    uint8_t bytes[IPV6_LEN + UDP_LEN + PAYLOAD_LEN];
    size_t l3_len;
    size_t len;
};

static struct frame make_frame(bool ipv4)
{
    struct frame f = {0};
    struct ip_header ip = {
        .ipv4 = ipv4,
        .src = ipv4 ? ipv4_src : ipv6_src,
        .dst = ipv4 ? ipv4_dst : ipv6_dst,
        .hop_limit = 64,
        .protocol = IP_PROTOCOL_UDP,
        .identification = IDENTIFICATION,
        .dont_fragment = true,
        .payload_len = UDP_LEN + PAYLOAD_LEN,
    };
    struct udp_header udp = {
        .src_port = SRC_PORT,
        .dst_port = ROCE_UDP_PORT,
        .len = UDP_LEN + PAYLOAD_LEN,
    };
    uint8_t *payload;

    f.l3_len = ip_write(&ip, f.bytes);
    f.len = f.l3_len + UDP_LEN + PAYLOAD_LEN;
    udp_write(&udp, f.bytes + f.l3_len);
    payload = f.bytes + f.l3_len + UDP_LEN;
    for (uint8_t i = 0; i < PAYLOAD_LEN; i++)
        payload[i] = (uint8_t)(i * 37u + 1u);
    store_le32(f.bytes + f.len - ICRC_LEN,
               icrc_of_frame(f.bytes, f.len - ICRC_LEN, f.l3_len, true));
    return f;
}

static bool frame_is_good(const struct frame *f)
{
    return icrc_of_frame(f->bytes, f->len - ICRC_LEN, f->l3_len, true) ==
           load_le32(f->bytes + f->len - ICRC_LEN);
}

/* Bits that routers and checksum offload change (IBA 7.8.1, RoCEv2 annex A17). */
static bool may_change(const struct frame *f, size_t bit)
{
    const size_t byte = bit / 8;
    const size_t bth = f->l3_len + UDP_LEN;

    if (byte == bth + 4)
        return true; /* FECN, BECN, reserved */
    if (byte == f->l3_len + 6 || byte == f->l3_len + 7)
        return true; /* UDP checksum */
    if (f->l3_len == IPV4_LEN)
        return byte == 1 || byte == 8 || byte == 10 || byte == 11; /* TOS, TTL, checksum */
    return (byte == 0 && bit % 8 < 4) || (byte >= 1 && byte <= 3) || byte == 7;
}

static void expect_covered(struct frame f)
{
    assert_true(frame_is_good(&f));
    for (size_t bit = 0; bit < f.len * 8; bit++) {
        if (bit / 8 == 0 && bit % 8 >= 4)
            continue; /* the IP version says which header this is */
        f.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (frame_is_good(&f) != may_change(&f, bit))
            fail_msg("bit %zu of byte %zu", bit % 8, bit / 8);
        f.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void all_but_what_changes_on_the_way_is_covered_in_ipv4(void **state)
{
    (void)state;
    expect_covered(make_frame(true));
}

static void all_but_what_changes_on_the_way_is_covered_in_ipv6(void **state)
{
    (void)state;
    expect_covered(make_frame(false));
}

/* CRC-32 of Ethernet a bit at a time. */
static uint32_t crc_by_bits(const uint8_t *bytes, size_t len)
{
    uint32_t crc = 0xffffffff;

    for (size_t i = 0; i < len * 8; i++) {
        uint32_t bit = (crc ^ (uint32_t)bytes[i / 8] >> i % 8) & 1;

        crc = crc >> 1 ^ (bit != 0 ? 0xedb88320 : 0);
    }
    return ~crc;
}

/* Options stand between the masked header and the UDP header and are covered as they are. */
static void options_are_covered_as_they_are(void **state)
{
    enum { OPTIONS_LEN = 40 };
    static const size_t payload_lens[] = {BTH_LEN, BTH_LEN + 4, BTH_LEN + 500};
    uint8_t pseudo[8 + IPV4_LEN_MAX + UDP_LEN + BTH_LEN + 500];
    uint8_t *l3 = pseudo + 8;
    uint8_t *udp = l3 + IPV4_LEN_MAX;

    (void)state;
    for (size_t i = 0; i < sizeof(payload_lens) / sizeof(payload_lens[0]); i++) {
        size_t len = IPV4_LEN_MAX + UDP_LEN + payload_lens[i];
        uint32_t icrc;

        for (size_t k = 0; k < sizeof(pseudo); k++)
            pseudo[k] = (uint8_t)(k * 7);
        l3[0] = 0x40 | (IPV4_LEN + OPTIONS_LEN) / 4;
        icrc = icrc_of_frame(l3, len, IPV4_LEN + OPTIONS_LEN, true);
        memset(pseudo, 0xff, 8);
        l3[1] = l3[8] = l3[10] = l3[11] = 0xff;
        udp[6] = udp[7] = udp[UDP_LEN + 4] = 0xff;
        assert_int_equal(icrc, crc_by_bits(pseudo, 8 + len));
    }
}

static enum icrc_verdict verify(const struct frame *f, uint16_t hint, uint16_t *identification)
{
    const bool ipv4 = f->l3_len == IPV4_LEN;
    struct icrc_flow flow;

    icrc_flow_init(&flow, ipv4 ? &ipv4_src : &ipv6_src, ipv4 ? &ipv4_dst : &ipv6_dst);
    return icrc_verify(&flow, SRC_PORT, hint, f->bytes + f->l3_len + UDP_LEN,
                       f->len - f->l3_len - UDP_LEN, identification);
}

static void every_hint_leads_to_the_one_identification(void **state)
{
    const struct frame f = make_frame(true);

    (void)state;
    for (unsigned hint = 0; hint <= UINT16_MAX; hint++) {
        uint16_t identification = 0;

        assert_int_equal(verify(&f, (uint16_t)hint, &identification), ICRC_GOOD);
        assert_int_equal(identification, IDENTIFICATION);
    }
}

static void a_frame_that_may_be_fragmented_is_bad_without_its_header(void **state)
{
    static const uint16_t fragments[] = {0x0000, 0x2000, 0x6000, 0x4001, 0x5fff, 0x8000, 0xc000};
    uint16_t identification = 0x55;

    (void)state;
    for (size_t i = 0; i < sizeof(fragments) / sizeof(fragments[0]); i++) {
        struct frame f = make_frame(true);

        store_be16(f.bytes + 6, fragments[i]);
        store_le32(f.bytes + f.len - ICRC_LEN,
                   icrc_of_frame(f.bytes, f.len - ICRC_LEN, f.l3_len, true));
        assert_int_equal(verify(&f, IDENTIFICATION, &identification), ICRC_BAD);
        assert_int_equal(identification, 0x55);
    }
}

static void no_single_bit_of_a_payload_passes_when_damaged(void **state)
{
    struct frame f = make_frame(true);
    const size_t bth = f.l3_len + UDP_LEN;
    uint16_t identification;

    (void)state;
    for (size_t bit = bth * 8; bit < f.len * 8; bit++) {
        f.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(verify(&f, IDENTIFICATION, &identification),
                         may_change(&f, bit) ? ICRC_GOOD : ICRC_BAD);
        f.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void ipv6_has_no_identification(void **state)
{
    struct frame f = make_frame(false);
    uint16_t identification = 0x55;

    (void)state;
    assert_int_equal(verify(&f, 0x1234, &identification), ICRC_GOOD);
    assert_int_equal(identification, 0);
    f.bytes[f.len - 1] ^= 1;
    assert_int_equal(verify(&f, 0x1234, &identification), ICRC_BAD);
}

static void an_icrc_of_zero_is_bad(void **state)
{
    struct frame f = make_frame(true);
    uint16_t identification;

    (void)state;
    store_le32(f.bytes + f.len - ICRC_LEN, 0);
    assert_int_equal(verify(&f, IDENTIFICATION, &identification), ICRC_BAD);
}

static void a_length_that_no_packet_has_is_bad(void **state)
{
    static const uint8_t bytes[70000];
    static const size_t lens[] = {0, 1, 4, 12, 15, 17, 18, 19, 21, 4168, 65507, sizeof(bytes)};
    struct icrc_flow flow;
    uint16_t identification;

    (void)state;
    icrc_flow_init(&flow, &ipv4_src, &ipv4_dst);
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
        assert_int_equal(icrc_verify(&flow, SRC_PORT, 0, bytes, lens[i], &identification),
                         ICRC_BAD);
}

/* As behind a NAT: what the sender signed is not what the receiver sees. */
static void an_address_that_was_rewritten_is_found(void **state)
{
    struct frame f = make_frame(true);
    const uint8_t *payload = f.bytes + IPV4_LEN + UDP_LEN;
    const size_t len = f.len - IPV4_LEN - UDP_LEN;
    const struct gid inside = {.bytes = {[10] = 0xff, [11] = 0xff, 172, 17, 0, 2}};
    struct gid src, dst;
    struct icrc_flow flow;

    (void)state;
    icrc_flow_init(&flow, &inside, &ipv4_dst);
    store_le32(f.bytes + f.len - ICRC_LEN,
               icrc_compute(&flow, SRC_PORT, 0, payload, len - ICRC_LEN));
    icrc_flow_init(&flow, &ipv4_src, &ipv4_dst);
    assert_true(icrc_rewritten(&flow, SRC_PORT, payload, len, &src, &dst));
    assert_true(gid_equal(&src, &inside));

    icrc_flow_init(&flow, &ipv4_src, &inside);
    store_le32(f.bytes + f.len - ICRC_LEN,
               icrc_compute(&flow, SRC_PORT, 0, payload, len - ICRC_LEN));
    icrc_flow_init(&flow, &ipv4_src, &ipv4_dst);
    assert_true(icrc_rewritten(&flow, SRC_PORT, payload, len, &src, &dst));
    assert_true(gid_equal(&dst, &inside));

    icrc_flow_init(&flow, &ipv6_src, &ipv6_dst);
    assert_false(icrc_rewritten(&flow, SRC_PORT, payload, len, &src, &dst));
    icrc_flow_init(&flow, &ipv4_src, &ipv4_dst);
    assert_false(icrc_rewritten(&flow, SRC_PORT, payload, 15, &src, &dst));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_but_what_changes_on_the_way_is_covered_in_ipv4),
        cmocka_unit_test(all_but_what_changes_on_the_way_is_covered_in_ipv6),
        cmocka_unit_test(options_are_covered_as_they_are),
        cmocka_unit_test(every_hint_leads_to_the_one_identification),
        cmocka_unit_test(a_frame_that_may_be_fragmented_is_bad_without_its_header),
        cmocka_unit_test(no_single_bit_of_a_payload_passes_when_damaged),
        cmocka_unit_test(ipv6_has_no_identification),
        cmocka_unit_test(an_icrc_of_zero_is_bad),
        cmocka_unit_test(a_length_that_no_packet_has_is_bad),
        cmocka_unit_test(an_address_that_was_rewritten_is_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
