/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The CRC is ISA-L's; here is what is fed to it. One pass takes the headers
 * from a small copy with the variable fields set to ones, the rest from where
 * it lies.
 *
 * An identification that a receiver cannot see is solved for. A CRC is linear:
 * when two packets differ only in one 32-bit word that has n words behind it,
 * their CRCs differ by that difference times x^(32 (n + 1)) modulo the polynomial. So the
 * difference between the ICRC with a guessed word and the ICRC that came,
 * divided by that power, is how far the guess was off.
 */
#include "wire/icrc.h"

#include <assert.h>
#include <isa-l/crc.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/ip.h"
#include "wire/packet.h"

#define LRH_LEN 8u             /* of native InfiniBand; ones in all other packets (IBA 7.8.1) */
#define POLYNOMIAL 0xedb88320u /* of Ethernet; the top bit is the coefficient of x^0 */
#define SHORT_REST 64u         /* bytes that are cheaper to copy than to call for */
#define HEAD_LEN_MAX (LRH_LEN + IPV6_LEN + UDP_LEN + BTH_LEN)
#define BTH_RESERVED 4u /* offset of the byte with FECN and BECN */
#define DATAGRAM_LEN_MAX (PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX + ICRC_LEN)

/* Words from the one that holds the identification to the end, that one included. */
#define IDENTIFICATION_OFFSET 4u
#define SRC_OFFSET 12u
#define DST_OFFSET 16u
#define WORDS_FROM(offset, payload_len) ((IPV4_LEN - (offset) + UDP_LEN + (payload_len)) / 4u)
#define WORDS_FROM_IDENTIFICATION(payload_len) WORDS_FROM(IDENTIFICATION_OFFSET, payload_len)

/* x^(-32 i) and x^(-1024 i): the power for any number of words is a product of one of each. */
static const uint32_t inverse_low[32] = {
    0x80000000, 0x5b358fd3, 0x2e9bb40b, 0x36511375, 0x12a59a49, 0x278d6e4e, 0x21280f27, 0x24ac08d5,
    0x8df9403d, 0xd50cbcf7, 0xebd369b3, 0x3c790f42, 0x9d764201, 0x4cc54c19, 0xe364fe50, 0x6fef6bf6,
    0x5139de12, 0xbb26d682, 0x1a28419b, 0xb34f4a13, 0x17958e0b, 0x9887f8d0, 0xa3b110ee, 0xa06cd294,
    0xdb1c4863, 0x18760b90, 0xf11d96dd, 0x23744737, 0xc31ec6b9, 0x1332af98, 0x6d1a2ff6, 0x16438de9,
};
static const uint32_t inverse_high[] = {
    0x80000000, 0xba340226, 0x29c45641, 0x2c87538c, 0x12fbc105, 0x948e59af, 0x8b712bc1,
    0x3c4f050e, 0xecd30c55, 0xb856ae08, 0x930588dc, 0x93e27f2f, 0x3c4c471a, 0xbc2e9b14,
    0x25cd5760, 0x401ef0db, 0x3755ebd8, 0xbb5b9e1e, 0xe264a9e0, 0xe28939fa, 0xc3a68b42,
    0xee3102b3, 0x219c9d64, 0xab9ef0a3, 0x75cc86fa, 0x2bde52b6, 0xebcce135, 0x761d3ac8,
    0x84773a36, 0x48d9880a, 0x4e1b970f, 0xddf1f7e9, 0x24ee460c,
};
static_assert(WORDS_FROM_IDENTIFICATION(DATAGRAM_LEN_MAX - ICRC_LEN) / 32 <
                  sizeof(inverse_high) / sizeof(inverse_high[0]),
              "the longest packet has its power");

/* a times b modulo the polynomial. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;

    for (int i = 0; i < 32; i++) {
        product ^= b & -(a >> 31);
        a <<= 1;
        b = b >> 1 ^ (POLYNOMIAL & -(b & 1));
    }
    return product;
}

static void ones(uint8_t *bytes, size_t len)
{
    memset(bytes, 0xff, len);
}

static void mask_ipv4(uint8_t *ip)
{
    ip[1] = 0xff;     /* TOS */
    ip[8] = 0xff;     /* TTL */
    ones(ip + 10, 2); /* checksum */
}

/* Or a GRH. */
static void mask_ipv6(uint8_t *ip)
{
    ip[0] |= 0x0f; /* traffic class and flow label */
    ones(ip + 1, 3);
    ip[7] = 0xff; /* hop limit */
}

/*
 * The CRC of head and of rest behind it. A call costs as much as a hundred bytes, so a short
 * rest (an acknowledgement's) is appended to head, which has room for it.
 */
static uint32_t crc_of_two(uint8_t *head, size_t head_len, const uint8_t *rest, size_t rest_len)
{
    if (rest_len > SHORT_REST)
        return crc32_gzip_refl(crc32_gzip_refl(0, head, head_len), rest, rest_len);
    memcpy(head + head_len, rest, rest_len);
    return crc32_gzip_refl(0, head, head_len + rest_len);
}

uint32_t icrc_of_frame(const uint8_t *l3, size_t len, size_t l3_len, bool udp)
{
    const bool ipv4 = l3[0] >> 4 == 4;
    const size_t fixed_len = ipv4 ? IPV4_LEN : IPV6_LEN;
    const size_t udp_len = udp ? UDP_LEN : 0;
    const uint8_t *transport = l3 + l3_len;
    const uint8_t *rest = transport + udp_len + BTH_LEN;
    uint8_t head[HEAD_LEN_MAX + SHORT_REST];
    uint8_t *copy = head + LRH_LEN + fixed_len;
    uint32_t crc = 0;

    assert(l3_len >= fixed_len);
    assert(len >= l3_len + udp_len + BTH_LEN);
    ones(head, LRH_LEN);
    memcpy(head + LRH_LEN, l3, fixed_len);
    if (ipv4)
        mask_ipv4(head + LRH_LEN);
    else
        mask_ipv6(head + LRH_LEN);
    if (l3_len > fixed_len) { /* options or extension headers: as they are */
        crc = crc_of_two(head, LRH_LEN + fixed_len, l3 + fixed_len, l3_len - fixed_len);
        copy = head;
    }
    memcpy(copy, transport, udp_len + BTH_LEN);
    if (udp)
        ones(copy + 6, 2); /* checksum */
    copy[udp_len + BTH_RESERVED] = 0xff;
    crc = crc32_gzip_refl(crc, head, (size_t)(copy - head) + udp_len + BTH_LEN);
    return crc32_gzip_refl(crc, rest, (size_t)(l3 + len - rest));
}

uint32_t icrc_of_ib(const uint8_t *lrh, size_t len)
{
    const size_t copied = LRH_LEN + BTH_LEN;
    const bool grh = (lrh[1] & 3) == 3;
    uint8_t head[HEAD_LEN_MAX + SHORT_REST];

    assert(len >= copied + (grh ? GRH_LEN : 0));
    if (grh)
        return icrc_of_frame(lrh + LRH_LEN, len - LRH_LEN, GRH_LEN, false);
    memcpy(head, lrh, copied);
    head[0] |= 0xf0; /* virtual lane */
    head[LRH_LEN + BTH_RESERVED] = 0xff;
    return crc_of_two(head, copied, lrh + copied, len - copied);
}

void icrc_flow_init(struct icrc_flow *f, const struct gid *src, const struct gid *dst)
{
    const struct ip_header ip = {
        .ipv4 = gid_is_ipv4(src) && gid_is_ipv4(dst),
        .src = *src,
        .dst = *dst,
        .protocol = IP_PROTOCOL_UDP,
        .dont_fragment = true,
    };
    const struct udp_header udp = {.dst_port = ROCE_UDP_PORT, .checksum = 0xffff};
    uint8_t *l3 = f->pseudo + LRH_LEN;
    size_t l3_len;

    *f = (struct icrc_flow){.ipv4 = ip.ipv4};
    ones(f->pseudo, LRH_LEN);
    l3_len = ip_write(&ip, l3);
    udp_write(&udp, l3 + l3_len);
    if (ip.ipv4)
        mask_ipv4(l3);
    else
        mask_ipv6(l3);
}

uint32_t icrc_compute(const struct icrc_flow *f, uint16_t src_port, uint16_t identification,
                      const uint8_t *payload, size_t payload_len)
{
    const size_t l3_len = f->ipv4 ? IPV4_LEN : IPV6_LEN;
    const uint16_t udp_len = (uint16_t)(UDP_LEN + payload_len + ICRC_LEN);
    uint8_t head[HEAD_LEN_MAX + SHORT_REST];
    uint8_t *l3 = head + LRH_LEN;
    uint8_t *udp = l3 + l3_len;
    uint8_t *bth = udp + UDP_LEN;

    assert(payload_len >= BTH_LEN);
    assert(payload_len <= DATAGRAM_LEN_MAX - ICRC_LEN);
    memcpy(head, f->pseudo, sizeof(f->pseudo));
    if (f->ipv4) {
        store_be16(l3 + 2, (uint16_t)(IPV4_LEN + udp_len));
        store_be16(l3 + IDENTIFICATION_OFFSET, identification);
    } else {
        store_be16(l3 + 4, udp_len);
    }
    store_be16(udp, src_port);
    store_be16(udp + 4, udp_len);
    memcpy(bth, payload, BTH_LEN);
    bth[BTH_RESERVED] = 0xff;
    return crc_of_two(head, LRH_LEN + l3_len + UDP_LEN + BTH_LEN, payload + BTH_LEN,
                      payload_len - BTH_LEN);
}

/*
 * How a word so many words from the end, that one included, was off, as a little-endian number, if
 * it alone explains a difference of ICRCs.
 */
static uint32_t word_difference(uint32_t icrc_difference, size_t words)
{
    uint32_t inverse = multiply(inverse_low[words % 32], inverse_high[words / 32]);

    return multiply(icrc_difference, inverse);
}

static bool is_length(size_t payload_len)
{
    return payload_len >= BTH_LEN + ICRC_LEN && payload_len <= DATAGRAM_LEN_MAX &&
           payload_len % 4 == 0;
}

enum icrc_verdict icrc_verify(const struct icrc_flow *f, uint16_t src_port, uint16_t hint,
                              const uint8_t *payload, size_t payload_len, uint16_t *identification)
{
    const uint16_t guess = f->ipv4 ? hint : 0;
    size_t covered_len;
    uint32_t difference;
    uint8_t word[4];

    if (!is_length(payload_len))
        return ICRC_BAD;
    covered_len = payload_len - ICRC_LEN;
    difference =
        icrc_compute(f, src_port, guess, payload, covered_len) ^ load_le32(payload + covered_len);
    if (difference != 0 && !f->ipv4)
        return ICRC_BAD;
    if (difference == 0) {
        *identification = guess;
        return ICRC_GOOD;
    }
    store_le32(word, word_difference(difference, WORDS_FROM_IDENTIFICATION(covered_len)));
    if (load_be16(word + 2) != 0) /* flags and offset other than DF and 0 */
        return ICRC_BAD;
    *identification = guess ^ load_be16(word);
    return ICRC_GOOD;
}

/* The IPv4 address at an offset of the pseudo header, changed by a word. */
static struct gid address_off_by(const struct icrc_flow *f, size_t offset, uint32_t word)
{
    const uint8_t *address = f->pseudo + LRH_LEN + offset;
    struct gid g = {.bytes = {[10] = 0xff, [11] = 0xff}};

    store_le32(g.bytes + 12, load_le32(address) ^ word);
    return g;
}

bool icrc_rewritten(const struct icrc_flow *f, uint16_t src_port, const uint8_t *payload,
                    size_t payload_len, struct gid *src, struct gid *dst)
{
    size_t covered_len = payload_len - ICRC_LEN;
    uint32_t difference;

    if (!f->ipv4 || !is_length(payload_len))
        return false;
    difference =
        icrc_compute(f, src_port, 0, payload, covered_len) ^ load_le32(payload + covered_len);
    *src = address_off_by(f, SRC_OFFSET,
                          word_difference(difference, WORDS_FROM(SRC_OFFSET, covered_len)));
    *dst = address_off_by(f, DST_OFFSET,
                          word_difference(difference, WORDS_FROM(DST_OFFSET, covered_len)));
    return true;
}
