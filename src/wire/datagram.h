/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What travels between the engine and a link: UDP payloads with the addresses
 * around them. A payload begins at the BTH and ends with the ICRC, which the
 * link writes and verifies.
 */
#ifndef UROCE_WIRE_DATAGRAM_H
#define UROCE_WIRE_DATAGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* An address as a GID holds it: IPv6, or IPv4 mapped as ::ffff:a.b.c.d. */
struct gid {
    uint8_t bytes[16];
};

/* From 4 bytes in network order. */
static inline struct gid gid_from_ipv4(const void *address)
{
    struct gid gid = {.bytes = {[10] = 0xff, [11] = 0xff}};

    memcpy(gid.bytes + 12, address, 4);
    return gid;
}

/* From 16 bytes in network order. */
static inline struct gid gid_from_ipv6(const void *address)
{
    struct gid gid;

    memcpy(gid.bytes, address, sizeof(gid.bytes));
    return gid;
}

/* The wildcard of a family: ::ffff:0.0.0.0 or ::. */
static inline struct gid gid_any(bool ipv4)
{
    return ipv4 ? (struct gid){.bytes = {[10] = 0xff, [11] = 0xff}} : (struct gid){.bytes = {0}};
}

static inline bool gid_equal(const struct gid *a, const struct gid *b)
{
    return memcmp(a->bytes, b->bytes, sizeof(a->bytes)) == 0;
}

static inline bool gid_is_ipv4(const struct gid *g)
{
    static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

    return memcmp(g->bytes, prefix, sizeof(prefix)) == 0;
}

static inline bool gid_is_link_local(const struct gid *g)
{
    return g->bytes[0] == 0xfe && (g->bytes[1] & 0xc0) == 0x80;
}

/* An address of a multicast group: of IPv6 ff00::/8, of IPv4 224.0.0.0/4. */
static inline bool gid_is_multicast(const struct gid *g)
{
    return g->bytes[0] == 0xff || (gid_is_ipv4(g) && (g->bytes[12] & 0xf0) == 0xe0);
}

/* A multicast group, which is another one on each interface. */
struct multicast {
    struct gid gid;
    uint32_t scope_id; /* the interface; 0 where there are none */
};

static inline bool multicast_equal(const struct multicast *a, const struct multicast *b)
{
    return gid_equal(&a->gid, &b->gid) && a->scope_id == b->scope_id;
}

/* Does who listens at listening answer for address, and how closely: 0, no; 1, at all addresses
 * (zeroes); 2, at all IPv4 addresses (::ffff:0.0.0.0); 3, at this one.
 */
static inline unsigned gid_listen_rank(const struct gid *listening, const struct gid *address)
{
    const struct gid any = gid_any(false);
    const struct gid any_ipv4 = gid_any(true);

    if (gid_equal(listening, address))
        return 3;
    if (gid_equal(listening, &any_ipv4) && gid_is_ipv4(address))
        return 2;
    return gid_equal(listening, &any) ? 1 : 0;
}

/* How a packet leaves. */
struct path {
    struct gid src; /* both of one family */
    struct gid dst;
    uint32_t scope_id; /* interface of link-local and multicast addresses, else 0 */
    uint32_t flow_label;
    uint8_t traffic_class; /* DSCP and ECN, as the IP header has them */
    uint8_t hop_limit;
    uint32_t rate_kbps; /* how fast packets may leave on it (IBA 9.11.1); 0: as fast as can be */
};

static inline bool path_equal(const struct path *a, const struct path *b)
{
    return gid_equal(&a->src, &b->src) && gid_equal(&a->dst, &b->dst) &&
           a->scope_id == b->scope_id && a->flow_label == b->flow_label &&
           a->traffic_class == b->traffic_class && a->hop_limit == b->hop_limit &&
           a->rate_kbps == b->rate_kbps;
}

/* A datagram that arrived. */
struct datagram {
    struct gid src;
    struct gid dst;
    uint32_t scope_id;     /* the interface that it came in by; 0 when the link cannot know */
    uint32_t flow_label;   /* 0 when the link cannot know */
    uint8_t traffic_class; /* as received: ECN in the low two bits */
    uint8_t hop_limit;     /* 64 when the link cannot know */
    bool crowded;          /* from another host, and the receiver's buffer is filling up */
    uint16_t src_port;
    const uint8_t *bytes;    /* UDP payload: BTH to ICRC; borrowed till the receiver returns */
    size_t len;              /* of bytes, ICRC included */
    uint32_t payload_absent; /* payload bytes that are counted but not there: simulator only */
};

/*
 * Datagrams that leave together: all of one QP, so of one path and one
 * destination QPN slot, and all of one length but the last, which may be
 * shorter. They stand back to back in buffer, each with ICRC_LEN bytes at its
 * end for the link to fill. That is what UDP_SEGMENT wants.
 */
struct datagram_batch {
    /* set by the caller */
    uint8_t *buffer;
    size_t capacity;    /* at most 65507: what one UDP_SEGMENT send takes */
    uint32_t count_max; /* segments, at most 64 */
    /* set by the engine */
    struct path path;
    uint16_t src_port;  /* 0xc000..0xffff, stable for the QP */
    uint8_t dest_slot;  /* high byte of the destination QPN */
    uint32_t count;     /* 0: nothing to send */
    size_t segment_len; /* of all but the last */
    size_t last_len;
    uint32_t payload_absent; /* as in struct datagram, of the only segment */
    /* set by the fault link */
    bool damaged; /* all are to leave with wrong ICRCs */
};

/*
 * Kernel memory that count datagrams, bytes in all, take in a receiver's socket when they are sent
 * at once, in bytes. What a receive buffer holds is counted in it.
 */
uint32_t datagram_truesize(uint32_t count, uint32_t bytes);

/* What each datagram of a batch takes beside its bytes. */
#define TRUESIZE_SEGMENT 300u

/*
 * The UDP source port of a connected QP, from its flow label or, when that is
 * 0, from both QPNs; as Linux computes it, so that both ends agree.
 */
uint16_t roce_src_port(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn);

/* The UDP source port of a UD QP and of QP1 (Linux rxe: a hash of the QPN). */
uint16_t roce_src_port_ud(uint32_t local_qpn);

#endif
