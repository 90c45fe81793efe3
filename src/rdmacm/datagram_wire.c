/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/datagram_wire.h"

#include <string.h>

#include "base/bytes.h"

#define TAG 0x55555555u
#define QPN_MASK 0xffffffu
#define IPV4_AT 12u /* in a GID that is mapped from IPv4 */
#define HEADER_IPV4 8u
#define UDP_HEADER_IPV4 16u

static struct endpoint ipv4(const uint8_t *address)
{
    return (struct endpoint){.family = AF_INET, .gid = gid_from_ipv4(address)};
}

static struct endpoint ipv6(const uint8_t *address)
{
    return (struct endpoint){.family = AF_INET6, .gid = gid_from_ipv6(address)};
}

size_t datagram_header_write(const struct endpoint *source, uint8_t out[DATAGRAM_HEADER_MAX])
{
    const bool is_ipv4 = source->family == AF_INET;
    const size_t len = is_ipv4 ? HEADER_IPV4 : DATAGRAM_HEADER_MAX;

    memset(out, 0, DATAGRAM_HEADER_MAX);
    out[0] = is_ipv4 ? 4 : 6;
    out[1] = (uint8_t)len;
    store_be16(out + 2, source->port);
    if (is_ipv4)
        memcpy(out + 4, source->gid.bytes + IPV4_AT, 4);
    else
        memcpy(out + 8, source->gid.bytes, sizeof(source->gid.bytes));
    return len;
}

size_t datagram_header_read(const uint8_t *bytes, size_t len, struct endpoint *source)
{
    if (len >= HEADER_IPV4 && bytes[0] == 4 && bytes[1] == HEADER_IPV4)
        *source = ipv4(bytes + 4);
    else if (len >= DATAGRAM_HEADER_MAX && bytes[0] == 6 && bytes[1] == DATAGRAM_HEADER_MAX)
        *source = ipv6(bytes + 8);
    else
        return 0;
    source->port = load_be16(bytes + 2);
    return bytes[1];
}

size_t datagram_udp_header_write(const struct datagram_udp_header *h,
                                 uint8_t out[DATAGRAM_UDP_HEADER_MAX])
{
    const bool is_ipv4 = h->local.family == AF_INET;
    const size_t len = is_ipv4 ? UDP_HEADER_IPV4 : DATAGRAM_UDP_HEADER_MAX;

    memset(out, 0, DATAGRAM_UDP_HEADER_MAX);
    store_be32(out, TAG);
    out[4] = is_ipv4 ? 4 : 6;
    out[5] = (uint8_t)h->op;
    out[6] = (uint8_t)len;
    store_be32(out + 8, h->qpn & QPN_MASK);
    if (is_ipv4)
        memcpy(out + 12, h->local.gid.bytes + IPV4_AT, 4);
    else
        memcpy(out + 12, h->local.gid.bytes, sizeof(h->local.gid.bytes));
    return len;
}

size_t datagram_udp_header_read(const uint8_t *bytes, size_t len, struct datagram_udp_header *out)
{
    struct datagram_udp_header h = {0};

    if (len < UDP_HEADER_IPV4 || load_be32(bytes) != TAG)
        return 0;
    if (bytes[4] == 4 && bytes[6] == UDP_HEADER_IPV4)
        h.local = ipv4(bytes + 12);
    else if (bytes[4] == 6 && bytes[6] == DATAGRAM_UDP_HEADER_MAX && len >= DATAGRAM_UDP_HEADER_MAX)
        h.local = ipv6(bytes + 12);
    else
        return 0;
    if (bytes[5] != DATAGRAM_DATA && bytes[5] != DATAGRAM_TELLS)
        return 0;
    h.op = (enum datagram_op)bytes[5];
    h.qpn = load_be32(bytes + 8) & QPN_MASK;
    *out = h;
    return bytes[6];
}
