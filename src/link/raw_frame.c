/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The order of the checks is that of the headers. Each field is believed only as far as the bytes
 * around it bear it out.
 */
#include "link/raw_frame.h"

#include <linux/if_ether.h>
#include <linux/virtio_net.h>
#include <netinet/in.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/ip.h"
#include "wire/packet.h"

#ifndef VIRTIO_NET_HDR_GSO_UDP_L4
#define VIRTIO_NET_HDR_GSO_UDP_L4 5
#endif

#define IPV4_RESERVED_FLAG 0x80u /* of byte 6; must be 0 (RFC 791) */

/* Counts the frame as dropped. */
static bool refuse_frame(uint64_t *counter)
{
    (*counter)++;
    return false;
}

/*
 * Whether another host can have it: not a group, nobody, this host itself, nor what is for later
 * (RFC 1122, 3.2.1.3; RFC 4291, 2.5). IPv6 with an IPv4 address in it is what no IPv6 sender
 * writes: to us it would be IPv4.
 */
static bool is_source(const struct ip_header *ip)
{
    static const struct gid nobody_ipv6;
    static const struct gid loopback_ipv6 = {.bytes = {[15] = 1}};
    const uint8_t *ipv4 = ip->src.bytes + 12;

    if (ip->ipv4)
        return ipv4[0] != 0 && ipv4[0] != 127 && ipv4[0] < 224;
    return !gid_is_ipv4(&ip->src) && !gid_is_multicast(&ip->src) &&
           !gid_equal(&ip->src, &nobody_ipv6) && !gid_equal(&ip->src, &loopback_ipv6);
}

/* Whether the header is one that RoCEv2 has: no options, no fragment nor what may become some. */
static bool read_ip(const uint8_t *l3, size_t len, uint16_t ethertype, struct link_counters *c,
                    struct ip_header *ip)
{
    enum ip_fault fault = ip_read(l3, len, ip);

    if (len > 0 && l3[0] >> 4 != (ethertype == ETH_P_IP ? 4 : 6))
        return refuse_frame(&c->raw_header);
    if (fault == IP_FAULT_CUT || fault == IP_FAULT_LEN)
        return refuse_frame(&c->raw_length);
    if (fault == IP_FAULT_NONE && !ip->ipv4 && ip->protocol == IPPROTO_FRAGMENT)
        return refuse_frame(&c->raw_fragment);
    if (fault != IP_FAULT_NONE || ip->protocol != IP_PROTOCOL_UDP ||
        (ip->ipv4 && (ip->header_len != IPV4_LEN || (l3[6] & IPV4_RESERVED_FLAG) != 0)))
        return refuse_frame(&c->raw_header);
    if (ip->ipv4 && !ip->checksum_good)
        return refuse_frame(&c->raw_checksum);
    if (ip->ipv4 && (!ip->dont_fragment || ip->more_fragments || ip->fragment_offset))
        return refuse_frame(&c->raw_fragment);
    if (ip->hop_limit == 0)
        return refuse_frame(&c->raw_hop_limit);
    if (!is_source(ip) || gid_is_ipv4(&ip->dst) != ip->ipv4)
        return refuse_frame(&c->raw_address);
    return true;
}

/* A checksum of 0 is what RoCE has; one that a device was to fill in yet tells nothing. */
static bool udp_is_intact(const struct virtio_net_hdr *v, const struct ip_header *ip,
                          const uint8_t *udp, const struct udp_header *u)
{
    return u->checksum == 0 || (v->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM) ||
           udp_checksum(ip, udp, u->len) == u->checksum;
}

static bool read_udp(const struct virtio_net_hdr *v, const struct ip_header *ip, const uint8_t *l4,
                     struct link_counters *c, struct udp_header *udp)
{
    if (udp_read(l4, ip->payload_len, udp) != IP_FAULT_NONE || udp->len != ip->payload_len)
        return refuse_frame(&c->raw_length);
    if (udp->dst_port != ROCE_UDP_PORT)
        return refuse_frame(&c->raw_header);
    if (!udp_is_intact(v, ip, l4, udp))
        return refuse_frame(&c->raw_checksum);
    return true;
}

bool raw_frame_read(const uint8_t *bytes, size_t len, struct link_counters *counters,
                    struct raw_frame *out)
{
    struct virtio_net_hdr v;
    const size_t l3_at = sizeof(v) + ETH_HLEN;
    struct ip_header ip;
    struct udp_header udp;
    size_t l3_len;

    if (len < l3_at)
        return refuse_frame(&counters->raw_length);
    memcpy(&v, bytes, sizeof(v));
    if (!read_ip(bytes + l3_at, len - l3_at, load_be16(bytes + l3_at - 2), counters, &ip))
        return false;
    l3_len = ip.ipv4 ? IPV4_LEN : IPV6_LEN;
    if (!read_udp(&v, &ip, bytes + l3_at + l3_len, counters, &udp))
        return false;
    if (v.gso_type != VIRTIO_NET_HDR_GSO_NONE &&
        (v.gso_type != VIRTIO_NET_HDR_GSO_UDP_L4 || v.gso_size == 0))
        return refuse_frame(&counters->raw_giant);
    *out = (struct raw_frame){
        .arrival = {.src = ip.src,
                    .dst = ip.dst,
                    .len = udp.len - UDP_LEN,
                    .segment_len = v.gso_type == VIRTIO_NET_HDR_GSO_NONE ? 0 : v.gso_size,
                    .src_port = udp.src_port,
                    .traffic_class = ip.traffic_class,
                    .hop_limit = ip.hop_limit},
        .identification = ip.ipv4 ? ip.identification : 0,
        .flow_label = ip.ipv4 ? 0 : ip.flow_label,
        .bytes = bytes + l3_at + l3_len + UDP_LEN,
    };
    return true;
}
