/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The invariant CRC of RoCE (IBA 7.8.1, RoCEv2 annex A17): CRC-32 of Ethernet
 * over eight bytes of ones and the packet with its variable fields masked, sent
 * least significant byte first. Two ways in: the whole frame is at hand
 * (captures, raw links), or only the UDP payload and what a socket tells.
 */
#ifndef UROCE_WIRE_ICRC_H
#define UROCE_WIRE_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/datagram.h"

/*
 * ICRC of a packet of which everything is at hand. l3 points to the IPv4 or
 * IPv6 header or to a GRH (of RoCEv1); l3_len is the length of that header with
 * options or extension headers, which are covered as they are; udp says whether
 * a UDP header follows. len counts from l3 to the byte before the ICRC and
 * reaches over the BTH (the caller checks).
 * Returns the number whose little-endian bytes are the trailer.
 */
uint32_t icrc_of_frame(const uint8_t *l3, size_t len, size_t l3_len, bool udp);

/*
 * ICRC of a native InfiniBand packet from its LRH up to the byte before the
 * ICRC, with or without a GRH as the LRH says (link next header 3 or 2). len is at
 * least that of the headers to the BTH.
 */
uint32_t icrc_of_ib(const uint8_t *lrh, size_t len);

/*
 * The part of the ICRC that all packets between two addresses share is
 * prepared once. What varies from packet to packet is the length, the source
 * port, the identification (IPv4) and the payload.
 */
struct icrc_flow {
    bool ipv4;
    /* Ones, masked IP header, masked UDP header; lengths and ports are filled in per packet. */
    uint8_t pseudo[8 + 40 + 8];
};

/* For packets from src to dst: IPv4 when both are IPv4 addresses, else IPv6. */
void icrc_flow_init(struct icrc_flow *f, const struct gid *src, const struct gid *dst);

/*
 * ICRC of a UDP payload that leaves with DF set and this identification (IPv4;
 * ignored for IPv6). payload_len counts it without the trailer, from BTH_LEN to
 * PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX.
 */
uint32_t icrc_compute(const struct icrc_flow *f, uint16_t src_port, uint16_t identification,
                      const uint8_t *payload, size_t payload_len);

enum icrc_verdict {
    ICRC_GOOD,
    ICRC_BAD,
};

/*
 * Verifies a UDP payload whose last four bytes are the trailer (payload_len
 * counts them, at least BTH_LEN + ICRC_LEN). On IPv4 the identification is not
 * known to a socket: exactly one value of the word at IP bytes 4 to 7 makes
 * the ICRC right; it must say DF and offset 0, and its upper half is the
 * identification, which *identification receives (0 for IPv6) when the verdict
 * is good. hint is tried first, which saves the solving. A length that no RoCE
 * packet has is bad, whatever the trailer says.
 */
enum icrc_verdict icrc_verify(const struct icrc_flow *f, uint16_t src_port, uint16_t hint,
                              const uint8_t *payload, size_t payload_len, uint16_t *identification);

/*
 * The addresses that would make a bad trailer right (IPv4, identification 0): *src, if only the
 * source address was another when the packet left, *dst, if only the destination was. There are
 * always both; that a network rewrites addresses is known when one of them comes again with
 * other packets. Lengths as icrc_verify takes them; false: IPv6, or a length that it does not.
 */
bool icrc_rewritten(const struct icrc_flow *f, uint16_t src_port, const uint8_t *payload,
                    size_t payload_len, struct gid *src, struct gid *dst);

#endif
