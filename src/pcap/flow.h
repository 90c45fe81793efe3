/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who talks to which queue pair. A flow is one direction: from an address to a
 * queue pair at another address. Packets of connected services name only the
 * queue pair that they go to, so the flow of the other direction is inferred: a response carries
 * the PSN of a request that went the other way.
 *
 * The table has a bound. What would not fit is counted together.
 */
#ifndef UROCE_PCAP_FLOW_H
#define UROCE_PCAP_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include <uthash.h>

#include "pcap/frame.h"
#include "pcap/stream.h"

#define FLOWS_MAX_DEFAULT 65536u /* at 8 kB each, half a gigabyte at the very most */
#define FLOW_ASKED_SLOTS 4096u   /* requests that await a response, for the inference */
#define FLOW_RECENT_SLOTS 64u

/* No padding: compared as bytes. */
struct flow_key {
    struct gid src;
    struct gid dst;
    uint32_t dest_qpn;
    uint32_t src_qpn; /* of datagrams; 0 for connected services, which do not tell */
};
_Static_assert(sizeof(struct flow_key) == 40, "a key has no padding");

struct flow_counts {
    uint64_t packets;
    uint64_t payload_bytes;
    uint64_t naks; /* other than RNR */
    uint64_t rnr_naks;
    uint64_t icrc_bad;
    uint64_t
        repeats; /* requests with a PSN that the flow had already passed: sent again, or late */
    uint64_t ce_marks; /* congestion experienced, in the IP header */
    uint64_t cnps;
};

struct flow {
    struct flow_key key;
    enum service service; /* of the first packet that was no CNP */
    struct flow_counts counts;
    bool psn_known;
    struct psn psn_highest; /* of requests */
    struct flow *peer;      /* the other direction, NULL while not known */
    bool peer_agreed;       /* by the connection manager, not inferred */
    bool printed;           /* scratch of those who print */
    uint16_t pkey;          /* of the first packet */
    uint64_t first_ns;      /* since the start of the capture */
    uint64_t last_ns;
    uint64_t responses; /* to the peer's requests */
    bool answers;       /* whose requests is known */
    uint64_t cnp_last_ns;
    uint64_t cnp_gap_min_ns;
    uint64_t cnp_gap_sum_ns;
    struct stream stream;      /* of the requests */
    struct timeline *timeline; /* owned; NULL till there is something */
    UT_hash_handle hh;
};

/* A request that asked for a response. */
struct flow_asked {
    struct flow *flow;  /* NULL: none */
    struct flow *other; /* between the same addresses, with this PSN too */
    struct psn psn;
    bool crowded; /* there are more */
};

struct flow_table {
    struct flow *flows; /* uthash; in order of appearance */
    uint32_t count;
    uint32_t count_max;
    struct flow_counts overflow; /* of packets whose flow had no place */
    uint64_t hash_key[2];
    struct flow *recent[FLOW_RECENT_SLOTS]; /* saves hashing */
    struct flow_asked asked[FLOW_ASKED_SLOTS];
};

/* count_max is at least 1. hash_key keeps a hostile capture from choosing collisions. */
void flow_table_init(struct flow_table *t, uint32_t count_max, const uint64_t hash_key[2]);
void flow_table_fini(struct flow_table *t);

/*
 * Counts a frame whose verdict is FRAME_PACKET. *out is its flow, NULL when the table is full.
 * 0, or -ENOMEM with nothing counted.
 */
int flow_table_add(struct flow_table *t, const struct frame *f, struct flow **out);

/* The flow of a key, made when there is none; *out is NULL when the table is full. 0 or -ENOMEM. */
int flow_table_get(struct flow_table *t, const struct flow_key *key, struct flow **out);

/* These two are the directions of one connection; what was inferred before is forgotten. */
void flow_join(struct flow *a, struct flow *b);

/* The queue pair that sends: datagrams tell, others when the other direction is known. */
bool flow_source(const struct flow *flow, uint32_t *qpn);

/* Is it a response, which the other direction asked for. */
bool flow_is_response(enum operation_kind kind);

#endif
