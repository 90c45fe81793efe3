/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a reader wants to see: the terms of --filter that speak RoCE. Terms of
 * libpcap stand beside them ("host 10.0.0.1 and qp=0x11 and nak") and choose what is read at all;
 * these choose what is shown, so that the diagnosis of what is shown still knows everything.
 */
#ifndef UROCE_PCAP_SELECTION_H
#define UROCE_PCAP_SELECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pcap/flow.h"
#include "pcap/frame.h"

#define SELECTION_VALUES_MAX 8u
#define SELECTION_PATTERN_SIZE 32u

/* Each term limits further; within one, values are alternatives. Start from zero: everything. */
struct selection {
    uint32_t qpns[SELECTION_VALUES_MAX];
    uint32_t qpn_count;
    char opcodes[SELECTION_VALUES_MAX][SELECTION_PATTERN_SIZE];
    uint32_t opcode_count;
    bool has_psn;
    uint32_t psn_first;
    uint32_t psn_last;
    bool has_frame;
    uint64_t frame_first;
    uint64_t frame_last;
    bool has_time;
    double time_first; /* seconds since the start */
    double time_last;
    bool nak; /* any NAK, RNR too */
    bool rnr;
    bool ce;
    bool cnp;
    bool bad;    /* ICRC, or headers */
    bool repeat; /* sent again, or come twice */
};

/*
 * Takes the terms that are ours out of text. rest (size bytes, at least the length of text and 1)
 * is what is left for libpcap, "" if nothing. Returns 0, or -EINVAL with a sentence in error.
 */
int selection_parse(struct selection *s, const char *text, char *rest, size_t size, char *error,
                    size_t error_size);

/* Is a connection wanted that this flow is a direction of. */
bool selection_has_flow(const struct selection *s, const struct flow *flow);

/* Is a packet wanted; flow is NULL if it has none, repeat says whether the tracker knew its PSN. */
bool selection_has_frame(const struct selection *s, const struct frame *f, const struct flow *flow,
                         bool repeat);

#endif
