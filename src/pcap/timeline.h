/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What happened when, in a fixed number of bins: when time runs past the last
 * one, neighbours are merged and each bin stands for twice the time.
 */
#ifndef UROCE_PCAP_TIMELINE_H
#define UROCE_PCAP_TIMELINE_H

#include <stdint.h>

#define TIMELINE_BINS 128u
#define TIMELINE_WIDTH_MIN_NS 1024u /* of a bin, at the start; always a power of two */

struct timeline_bin {
    uint64_t bytes;          /* payload that was new */
    uint64_t latency_max_ns; /* of messages that were completed */
    uint32_t packets;
    uint32_t repeats;
    uint32_t marks;
    uint32_t cnps;
};

struct timeline {
    uint64_t width_ns;    /* of a bin; 0: nothing was added */
    uint32_t width_shift; /* its logarithm: there is no time to divide for each packet */
    struct timeline_bin bins[TIMELINE_BINS];
};

/* The bin for a time since the start of the capture; valid until the next call. Start from zero. */
struct timeline_bin *timeline_at(struct timeline *t, uint64_t elapsed_ns);

/* Bins up to the last one with anything in it; 0 also of NULL. */
uint32_t timeline_len(const struct timeline *t);

#endif
