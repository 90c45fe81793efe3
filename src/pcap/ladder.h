/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connection as a ladder: its two queue pairs are the rails, each packet a
 * rung with an arrow, silence is a gap, and what was found stands beside the packet
 * that showed it.
 */
#ifndef UROCE_PCAP_LADDER_H
#define UROCE_PCAP_LADDER_H

#include <stdio.h>

#include "pcap/tracker.h"

/* Set qpn and out; the rest starts from zero. */
struct ladder {
    uint32_t qpn; /* one of the two, on the right */
    FILE *out;    /* borrowed */
    bool begun;
    int64_t last_ns;
    uint64_t rungs;
};

/* A frame that the tracker has just been given; one of other connections is left out. */
void ladder_frame(struct ladder *l, const struct tracker *t, const struct frame *f,
                  const struct flow *flow);

#endif
