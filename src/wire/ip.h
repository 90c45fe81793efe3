/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IPv4, IPv6 and UDP headers on the caller's bytes: as much of them as RoCE
 * needs (RFC 791, 8200, 768). A GRH is an IPv6 header with another protocol
 * number (IBA 8.3). IPv4 options are skipped; IPv6 extension headers are not
 * followed. Nothing here reads beyond the length that it was given.
 */
#ifndef UROCE_WIRE_IP_H
#define UROCE_WIRE_IP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/datagram.h"

#define IPV4_LEN 20u
#define IPV4_LEN_MAX 60u /* with options */
#define IPV6_LEN 40u
#define GRH_LEN IPV6_LEN
#define UDP_LEN 8u
#define IP_PROTOCOL_UDP 17u
#define IP_PROTOCOL_IBA 0x1bu /* next header of a RoCEv1 GRH */
#define HOP_LIMIT_DEFAULT 64u

struct ip_header {
    bool ipv4;
    struct gid src;
    struct gid dst;
    uint8_t traffic_class;
    uint8_t hop_limit;
    uint8_t protocol;
    uint32_t flow_label; /* IPv6 only, 20 bits */
    /* IPv4 only */
    uint16_t identification;
    bool dont_fragment;
    bool more_fragments;
    uint16_t fragment_offset; /* bytes */
    bool checksum_good;       /* set by ip_read; ip_write always writes a right one */
    uint8_t header_len;       /* set by ip_read: bytes, with options */
    uint16_t payload_len;     /* bytes behind the header, as the header says */
};

/* Why bytes are not a header: name, and a sentence for people. */
#define IP_FAULTS(F)                                                                               \
    F(NONE, "header is well formed")                                                               \
    F(TRUNCATED, "bytes end within the header")                                                    \
    F(VERSION, "version is neither 4 nor 6")                                                       \
    F(HEADER_LEN, "header length is below 20 bytes")                                               \
    F(LEN, "length field is smaller than the header")                                              \
    F(CUT, "bytes end before the payload does")

enum ip_fault {
#define IP_FAULT_ENUM(name, text) IP_FAULT_##name,
    IP_FAULTS(IP_FAULT_ENUM)
#undef IP_FAULT_ENUM
        IP_FAULT_COUNT,
};

/* "TRUNCATED" and the sentence; static storage. */
const char *ip_fault_name(enum ip_fault fault);
const char *ip_fault_text(enum ip_fault fault);

/*
 * Reads an IPv4 or IPv6 header, whichever the first four bits say. *out is
 * written when it returns IP_FAULT_NONE, and also for IP_FAULT_CUT, where the
 * header is whole. Bytes behind the payload (Ethernet padding) are no fault.
 */
enum ip_fault ip_read(const uint8_t *bytes, size_t len, struct ip_header *out);

/*
 * Writes an IPv4 header without options (20 bytes, checksum filled in) or an
 * IPv6 header (40 bytes) and returns its length. header_len and checksum_good are not used.
 */
size_t ip_write(const struct ip_header *h, uint8_t *out);

struct udp_header {
    uint16_t src_port;
    uint16_t dst_port;
    uint16_t len; /* header and payload */
    uint16_t checksum;
};

/* As ip_read: IP_FAULT_TRUNCATED, IP_FAULT_LEN or IP_FAULT_CUT. */
enum ip_fault udp_read(const uint8_t *bytes, size_t len, struct udp_header *out);

/* Writes UDP_LEN bytes. */
void udp_write(const struct udp_header *h, uint8_t *out);

/*
 * The checksum of a UDP header and its payload (len bytes at udp) under an IP
 * header of which the addresses count; the checksum field counts as 0. Never 0, which would mean
 * "none".
 */
uint16_t udp_checksum(const struct ip_header *ip, const uint8_t *udp, size_t len);

/*
 * The first GRH_LEN bytes of a UD receive buffer (RoCEv2 annex A17): the
 * IPv6 header, or 20 zero bytes and the IPv4 header. What a link cannot know is
 * 0: flow label, identification.
 */
void grh_write(const struct datagram *d, uint8_t out[GRH_LEN]);

/* Which of the two it is. */
bool grh_is_ipv4(const struct datagram *d);

#endif
