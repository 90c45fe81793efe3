/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A sender that hands the kernel many packets at once (UDP_SEGMENT) shows in a
 * capture on its own host, or on lo and veth anywhere, as one long datagram in
 * which the packets stand back to back, each with the ICRC that it will have
 * once cut: its own lengths, and an IPv4 identification that counts up. Packets
 * that the receiving kernel merged look the same. Neither says where the cuts
 * are; the BTHs and the ICRC of the first packet tell.
 */
#include "pcap/frame_private.h"

#include "base/bytes.h"
#include "wire/icrc.h"

#include <string.h>

#define PACKET_LEN_MIN (BTH_LEN + ICRC_LEN)
#define PACKET_LEN_MAX (PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX + ICRC_LEN)

/* Do two BTHs belong to one run of packets: service, P_Key and destination QP are the same. */
static bool same_queue_pair(const uint8_t *a, const uint8_t *b)
{
    return opcode_service(a[0]) == opcode_service(b[0]) && memcmp(a + 2, b + 2, 2) == 0 &&
           memcmp(a + 5, b + 5, 3) == 0;
}

/* The ICRC of a cut packet is computed from what every packet of the run shares. */
static bool flow_of(const struct frame *f, struct icrc_flow *flow)
{
    uint32_t plain_len = f->network == FRAME_NETWORK_IPV4 ? 20 : 40;

    if (f->network != FRAME_NETWORK_IPV4 && f->network != FRAME_NETWORK_IPV6)
        return false;
    if (frame_network_len(f) != plain_len)
        return false;
    /* An IPv6 packet between IPv4-mapped addresses is not what icrc_flow takes it for. */
    if (gid_is_ipv4(&f->datagram.src) != (f->network == FRAME_NETWORK_IPV4))
        return false;
    if (gid_is_ipv4(&f->datagram.dst) != (f->network == FRAME_NETWORK_IPV4))
        return false;
    icrc_flow_init(flow, &f->datagram.src, &f->datagram.dst);
    return true;
}

/*
 * On the loopback device the kernel may have numbered a packet whose ICRC says 0: what leaves a
 * connected socket, as those of uroce are within a host. Nobody who receives it there minds.
 */
static bool is_looped(const struct frame *f)
{
    static const uint8_t no_addresses[12];

    return f->link == LINK_TYPE_ETHERNET && f->network == FRAME_NETWORK_IPV4 &&
           memcmp(f->bytes, no_addresses, sizeof(no_addresses)) == 0;
}

bool segment_says_zero(const struct frame *f)
{
    const struct datagram *d = &f->datagram;
    struct icrc_flow flow;

    return is_looped(f) && d->len <= PACKET_LEN_MAX && flow_of(f, &flow) &&
           load_le32(d->bytes + d->len - ICRC_LEN) ==
               icrc_compute(&flow, d->src_port, 0, d->bytes, d->len - ICRC_LEN);
}

uint32_t segment_find(const struct frame *f)
{
    const struct datagram *d = &f->datagram;
    const bool looped = is_looped(f);
    struct icrc_flow flow;

    if (!flow_of(f, &flow))
        return 0;
    for (uint32_t len = PACKET_LEN_MIN; len <= PACKET_LEN_MAX; len += 4) {
        const uint8_t *trailer = d->bytes + len - ICRC_LEN;

        if (len + PACKET_LEN_MIN > d->len || len + BTH_LEN > f->datagram_captured)
            return 0;
        if (d->len % len != 0 && d->len % len < PACKET_LEN_MIN)
            continue;
        if (!same_queue_pair(d->bytes, d->bytes + len))
            continue;
        if (load_le32(trailer) ==
            icrc_compute(&flow, d->src_port, f->identification, d->bytes, len - ICRC_LEN))
            return len;
        if (looped &&
            load_le32(trailer) == icrc_compute(&flow, d->src_port, 0, d->bytes, len - ICRC_LEN))
            return len;
    }
    return 0;
}

void segment_check_icrc(struct frame *f, uint16_t identification)
{
    const struct datagram *d = &f->datagram;
    struct icrc_flow flow;
    uint32_t expected;

    if (!flow_of(f, &flow))
        return;
    expected = icrc_compute(&flow, d->src_port, identification, d->bytes, d->len - ICRC_LEN);
    f->icrc_found = load_be32(d->bytes + d->len - ICRC_LEN);
    f->icrc_expected = __builtin_bswap32(expected);
    if (f->icrc_found == f->icrc_expected)
        f->icrc = FRAME_ICRC_GOOD;
    else if (icrc_verify(&flow, d->src_port, identification, d->bytes, d->len, &identification) ==
             ICRC_GOOD)
        f->icrc = FRAME_ICRC_GOOD; /* an adapter may count identifications in its own way */
    else
        f->icrc = f->icrc_found == 0 && f->icrc_unset_ok ? FRAME_ICRC_UNSET : FRAME_ICRC_BAD;
}
