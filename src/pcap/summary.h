/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a capture held, all in all: frames by what they turned out to be,
 * packets by opcode, and by flow.
 */
#ifndef UROCE_PCAP_SUMMARY_H
#define UROCE_PCAP_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "pcap/flow.h"
#include "pcap/frame.h"

struct summary {
    uint64_t frames;
    uint64_t verdicts[FRAME_VERDICT_COUNT]; /* of packets: a frame may hold several */
    uint64_t drops[DROP_COUNT];
    uint64_t icrcs[FRAME_ICRC_COUNT];
    struct {
        uint64_t packets;
        uint64_t payload_bytes;
    } opcodes[256];
    int64_t last_ns; /* latest elapsed time */
    struct flow_table flows;
};

/* See flow_table_init. */
void summary_init(struct summary *s, uint32_t flows_max, const uint64_t hash_key[2]);
void summary_fini(struct summary *s);

/*
 * Counts a decoded frame, or one segment of it. *out is the flow of a packet, NULL for others and
 * when there are too many flows. 0, or -ENOMEM.
 */
int summary_add(struct summary *s, const struct frame *f, struct flow **out);

/* Damaged frames and bad ICRCs so far. */
uint64_t summary_bad_count(const struct summary *s);

/* Tables for people. */
void summary_print(struct summary *s, FILE *out);

/* The same, as {"summary": {...}}: a new reference, NULL when memory is short. */
json_t *summary_to_json(struct summary *s);

#endif
