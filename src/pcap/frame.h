/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A captured frame taken apart: link layer, VLAN tags, IPv4, IPv6 or the GRH of
 * RoCEv1, UDP, and the packet that src/wire/ reads. Nothing here knows files or
 * libpcap; whatever the bytes are, the decoder says what they turned out to be
 * and never reads past what was captured. A frame that an adapter has yet to
 * cut (UDP_SEGMENT, or merged on receipt) yields one packet after another.
 */
#ifndef UROCE_PCAP_FRAME_H
#define UROCE_PCAP_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/datagram.h"
#include "wire/ip.h"
#include "wire/packet.h"

/* What a frame begins with. */
enum link_type {
    LINK_TYPE_ETHERNET,
    LINK_TYPE_COOKED_V1, /* Linux "any" device, 16 bytes */
    LINK_TYPE_COOKED_V2, /* the same, 20 bytes */
    LINK_TYPE_RAW,       /* IP at once; the version nibble tells which */
    LINK_TYPE_IPV4,
    LINK_TYPE_IPV6,
    LINK_TYPE_NULL, /* BSD loopback: 4 bytes of address family in either order */
    LINK_TYPE_COUNT,
};

/* What the reader of a capture should make of a frame. */
enum frame_kind {
    FRAME_KIND_ROCE,    /* a RoCE packet, decoded whole */
    FRAME_KIND_SNAPPED, /* the capture kept too little of it to tell */
    FRAME_KIND_DAMAGED, /* it means to be RoCE, or cannot be anything */
    FRAME_KIND_FOREIGN, /* other traffic */
};

/* clang-format off */
/*    name            kind     sentence                                                          */
#define FRAME_VERDICTS(V)                                                                        \
    V(PACKET,         ROCE,    "RoCE packet")                                                    \
    V(SNAPPED,        SNAPPED, "capture ends within the headers")                                \
    V(MALFORMED,      DAMAGED, "transport headers are wrong") /* frame.drop says how */          \
    V(CUT_SHORT,      DAMAGED, "frame ends within its headers")                                  \
    V(IP_VERSION,     DAMAGED, "IP version is not the one that the link layer says")             \
    V(IP_HEADER,      DAMAGED, "IP header length or total length is less than the header")       \
    V(IP_CUT,         DAMAGED, "IP packet is longer than its frame")                             \
    V(UDP_LEN,        DAMAGED, "UDP length does not fit the IP packet")                          \
    V(FRAGMENT,       DAMAGED, "IP fragment, which RoCEv2 forbids")                              \
    V(GRH_NEXT,       DAMAGED, "GRH is not followed by a BTH")                                   \
    V(NOT_IP,         FOREIGN, "neither IP nor RoCEv1")                                          \
    V(NOT_UDP,        FOREIGN, "IP but not UDP")                                                 \
    V(OTHER_PORT,     FOREIGN, "UDP, but not to port 4791")                                      \
    V(LATER_FRAGMENT, FOREIGN, "later IP fragment, its port is not known")
/* clang-format on */

enum frame_verdict {
#define FRAME_VERDICT_ENUM(name, kind, text) FRAME_##name,
    FRAME_VERDICTS(FRAME_VERDICT_ENUM)
#undef FRAME_VERDICT_ENUM
        FRAME_VERDICT_COUNT,
};

/* clang-format off */
/*    name    word for people                                                */
#define FRAME_ICRCS(I)                                                       \
    I(NONE,   "none")         /* the frame has no place for one */           \
    I(GOOD,   "ok")                                                          \
    I(BAD,    "BAD")                                                         \
    I(UNSET,  "unset")        /* zero, and the caller said that it may be */ \
    I(ABSENT, "not captured")
/* clang-format on */

enum frame_icrc {
#define FRAME_ICRC_ENUM(name, text) FRAME_ICRC_##name,
    FRAME_ICRCS(FRAME_ICRC_ENUM)
#undef FRAME_ICRC_ENUM
        FRAME_ICRC_COUNT,
};

/* The network layer that was found. */
enum frame_network {
    FRAME_NETWORK_NONE,
    FRAME_NETWORK_IPV4,
    FRAME_NETWORK_IPV6,
    FRAME_NETWORK_GRH, /* RoCEv1 */
};

#define FRAME_VLANS_MAX 4u /* tags that are kept; more are skipped */

/* All offsets count from bytes; 0 (but for the network header) means "not reached". */
struct frame {
    /* set by the caller */
    uint64_t number;    /* within the capture, from 1 */
    uint64_t time_ns;   /* since 1970 */
    int64_t elapsed_ns; /* since the first frame of the capture */
    enum link_type link;
    const uint8_t *bytes;  /* borrowed for as long as the frame is used */
    uint32_t captured_len; /* of bytes */
    uint32_t wire_len;     /* what the frame had on the wire; less than captured_len is ignored */
    bool icrc_unset_ok;    /* taken before an adapter filled in the ICRC: zero is not bad */

    /* set by frame_decode and frame_next_segment */
    enum frame_verdict verdict;
    enum drop drop; /* of FRAME_MALFORMED */
    uint16_t ethertype;
    uint32_t vlan_count; /* all tags; the first FRAME_VLANS_MAX are in vlans */
    uint16_t vlans[FRAME_VLANS_MAX];
    enum frame_network network;
    uint32_t network_offset;
    uint32_t network_end; /* end of the IP packet or of the GRH's payload, as its header says */
    uint32_t udp_offset;  /* 0 for RoCEv1 */
    uint32_t bth_offset;  /* of this segment */

    struct ip_header ip;        /* also a GRH; valid if there is a network */
    struct datagram datagram;   /* of this segment; bytes and len if bth_offset is set */
    uint32_t datagram_captured; /* how much of datagram.len the capture has */
    uint16_t identification;    /* IPv4, of this segment */
    bool more_fragments;        /* of either IP */
    bool has_bth;
    struct packet packet; /* whole if FRAME_PACKET; h.bth if has_bth */

    enum frame_icrc icrc;
    uint32_t icrc_found; /* GOOD, BAD, UNSET: the trailer's bytes read big-endian, as analysers */
    uint32_t icrc_expected; /* print it, and what it should have been */

    uint32_t segment_count; /* packets in the frame: 1 but for one that awaits segmentation */
    uint32_t segment_index;
    uint32_t segment_len; /* of all but the last */
};

/*
 * Decodes bytes and sets every field below "set by frame_decode". Of a frame
 * with several packets the first is shown.
 */
void frame_decode(struct frame *f);

/* Goes on to the next packet of the same frame; false, and f untouched, after the last. */
bool frame_next_segment(struct frame *f);

enum frame_kind frame_kind(enum frame_verdict verdict);

/* "MALFORMED"; static storage. */
const char *frame_verdict_name(enum frame_verdict verdict);

/* The sentence that says what is the matter, the drop's own for FRAME_MALFORMED; static storage. */
const char *frame_text(const struct frame *f);

/* "GOOD" for programs, "ok" for people; static storage. */
const char *frame_icrc_name(enum frame_icrc icrc);
const char *frame_icrc_text(enum frame_icrc icrc);

/* Length of the IP header with its options and extension headers, or of the GRH. */
uint32_t frame_network_len(const struct frame *f);

#endif
