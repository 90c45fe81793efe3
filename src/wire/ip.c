/* SPDX-License-Identifier: BSD-2-Clause */
/* IPv4, IPv6 and UDP headers between bytes and structs. */
#include "wire/ip.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"

#define DONT_FRAGMENT 0x4000u
#define MORE_FRAGMENTS 0x2000u
#define FRAGMENT_UNITS 0x1fffu /* of 8 bytes */
#define FLOW_LABEL_MASK 0xfffffu

static const struct {
    const char *name;
    const char *text;
} faults[IP_FAULT_COUNT] = {
#define FAULT_ROW(name_, text_) [IP_FAULT_##name_] = {.name = #name_, .text = (text_)},
    IP_FAULTS(FAULT_ROW)
#undef FAULT_ROW
};

const char *ip_fault_name(enum ip_fault fault)
{
    return faults[fault].name;
}

const char *ip_fault_text(enum ip_fault fault)
{
    return faults[fault].text;
}

/* Adds bytes to a sum of 16-bit words; an odd last byte is an upper half (RFC 1071). */
static uint64_t sum_words(uint64_t sum, const uint8_t *bytes, size_t len)
{
    for (; len >= 2; bytes += 2, len -= 2)
        sum += load_be16(bytes);
    return len != 0 ? sum + ((uint64_t)bytes[0] << 8) : sum;
}

static uint16_t fold(uint64_t sum)
{
    while (sum > 0xffff)
        sum = (sum & 0xffff) + (sum >> 16);
    return (uint16_t)sum;
}

static enum ip_fault ipv4_read(const uint8_t *bytes, size_t len, struct ip_header *out)
{
    size_t header_len = (size_t)4 * (bytes[0] & 0xfu);
    size_t total_len;
    uint16_t fragment;

    if (header_len < IPV4_LEN)
        return IP_FAULT_HEADER_LEN;
    if (len < header_len)
        return IP_FAULT_TRUNCATED;
    total_len = load_be16(bytes + 2);
    if (total_len < header_len)
        return IP_FAULT_LEN;
    fragment = load_be16(bytes + 6);
    *out = (struct ip_header){
        .ipv4 = true,
        .src = gid_from_ipv4(bytes + 12),
        .dst = gid_from_ipv4(bytes + 16),
        .traffic_class = bytes[1],
        .hop_limit = bytes[8],
        .protocol = bytes[9],
        .identification = load_be16(bytes + 4),
        .dont_fragment = (fragment & DONT_FRAGMENT) != 0,
        .more_fragments = (fragment & MORE_FRAGMENTS) != 0,
        .fragment_offset = (uint16_t)((fragment & FRAGMENT_UNITS) * 8),
        .checksum_good = fold(sum_words(0, bytes, header_len)) == 0xffff,
        .header_len = (uint8_t)header_len,
        .payload_len = (uint16_t)(total_len - header_len),
    };
    return len < total_len ? IP_FAULT_CUT : IP_FAULT_NONE;
}

static enum ip_fault ipv6_read(const uint8_t *bytes, size_t len, struct ip_header *out)
{
    uint32_t first;

    if (len < IPV6_LEN)
        return IP_FAULT_TRUNCATED;
    first = load_be32(bytes);
    *out = (struct ip_header){
        .src = gid_from_ipv6(bytes + 8),
        .dst = gid_from_ipv6(bytes + 24),
        .traffic_class = (uint8_t)(first >> 20),
        .hop_limit = bytes[7],
        .protocol = bytes[6],
        .flow_label = first & FLOW_LABEL_MASK,
        .checksum_good = true,
        .header_len = IPV6_LEN,
        .payload_len = load_be16(bytes + 4),
    };
    return len - IPV6_LEN < out->payload_len ? IP_FAULT_CUT : IP_FAULT_NONE;
}

enum ip_fault ip_read(const uint8_t *bytes, size_t len, struct ip_header *out)
{
    if (len < IPV4_LEN)
        return IP_FAULT_TRUNCATED;
    switch (bytes[0] >> 4) {
    case 4:
        return ipv4_read(bytes, len, out);
    case 6:
        return ipv6_read(bytes, len, out);
    default:
        return IP_FAULT_VERSION;
    }
}

static size_t ipv4_write(const struct ip_header *h, uint8_t *out)
{
    unsigned flags =
        (h->dont_fragment ? DONT_FRAGMENT : 0u) | (h->more_fragments ? MORE_FRAGMENTS : 0u);

    assert(gid_is_ipv4(&h->src));
    assert(gid_is_ipv4(&h->dst));
    assert(h->payload_len <= UINT16_MAX - IPV4_LEN);
    out[0] = 0x45;
    out[1] = h->traffic_class;
    store_be16(out + 2, (uint16_t)(IPV4_LEN + h->payload_len));
    store_be16(out + 4, h->identification);
    store_be16(out + 6, (uint16_t)(flags | h->fragment_offset / 8u));
    out[8] = h->hop_limit;
    out[9] = h->protocol;
    store_be16(out + 10, 0);
    memcpy(out + 12, h->src.bytes + 12, 4);
    memcpy(out + 16, h->dst.bytes + 12, 4);
    store_be16(out + 10, (uint16_t)~fold(sum_words(0, out, IPV4_LEN)));
    return IPV4_LEN;
}

static size_t ipv6_write(const struct ip_header *h, uint8_t *out)
{
    store_be32(out,
               6u << 28 | (uint32_t)h->traffic_class << 20 | (h->flow_label & FLOW_LABEL_MASK));
    store_be16(out + 4, h->payload_len);
    out[6] = h->protocol;
    out[7] = h->hop_limit;
    memcpy(out + 8, h->src.bytes, 16);
    memcpy(out + 24, h->dst.bytes, 16);
    return IPV6_LEN;
}

size_t ip_write(const struct ip_header *h, uint8_t *out)
{
    return h->ipv4 ? ipv4_write(h, out) : ipv6_write(h, out);
}

enum ip_fault udp_read(const uint8_t *bytes, size_t len, struct udp_header *out)
{
    if (len < UDP_LEN)
        return IP_FAULT_TRUNCATED;
    if (load_be16(bytes + 4) < UDP_LEN)
        return IP_FAULT_LEN;
    *out = (struct udp_header){
        .src_port = load_be16(bytes),
        .dst_port = load_be16(bytes + 2),
        .len = load_be16(bytes + 4),
        .checksum = load_be16(bytes + 6),
    };
    return len < out->len ? IP_FAULT_CUT : IP_FAULT_NONE;
}

void udp_write(const struct udp_header *h, uint8_t *out)
{
    store_be16(out, h->src_port);
    store_be16(out + 2, h->dst_port);
    store_be16(out + 4, h->len);
    store_be16(out + 6, h->checksum);
}

uint16_t udp_checksum(const struct ip_header *ip, const uint8_t *udp, size_t len)
{
    const size_t skipped = ip->ipv4 ? 12 : 0; /* of the address bytes in a GID */
    uint64_t sum = IP_PROTOCOL_UDP + len;
    uint16_t folded;

    assert(len >= UDP_LEN);
    sum = sum_words(sum, ip->src.bytes + skipped, sizeof(ip->src.bytes) - skipped);
    sum = sum_words(sum, ip->dst.bytes + skipped, sizeof(ip->dst.bytes) - skipped);
    sum = sum_words(sum, udp, 6);
    sum = sum_words(sum, udp + UDP_LEN, len - UDP_LEN);
    folded = (uint16_t)~fold(sum);
    return folded != 0 ? folded : 0xffff;
}

bool grh_is_ipv4(const struct datagram *d)
{
    return gid_is_ipv4(&d->src) && gid_is_ipv4(&d->dst);
}

void grh_write(const struct datagram *d, uint8_t out[GRH_LEN])
{
    const bool ipv4 = grh_is_ipv4(d);
    const struct ip_header h = {
        .ipv4 = ipv4,
        .src = d->src,
        .dst = d->dst,
        .traffic_class = d->traffic_class,
        .hop_limit = d->hop_limit,
        .protocol = IP_PROTOCOL_UDP,
        .flow_label = d->flow_label,
        .dont_fragment = true,
        .payload_len = (uint16_t)(UDP_LEN + d->len + d->payload_absent),
    };

    memset(out, 0, GRH_LEN);
    ip_write(&h, ipv4 ? out + (GRH_LEN - IPV4_LEN) : out);
}
