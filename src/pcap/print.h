/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames as text for people and for grep: one line a packet, and below it, on
 * demand, every field of every header with its offset and bytes.
 */
#ifndef UROCE_PCAP_PRINT_H
#define UROCE_PCAP_PRINT_H

#include <arpa/inet.h>
#include <stdio.h>

#include "pcap/flow.h"
#include "pcap/frame.h"

/* Columns grow with the addresses seen, and never shrink. Start from zero. */
struct printer {
    FILE *out; /* borrowed */
    int src_width;
    int dst_width;
};

struct gid_text {
    char text[INET6_ADDRSTRLEN];
};

/* "10.77.0.2" of a mapped address, else IPv6 notation. */
struct gid_text gid_text(const struct gid *gid);

struct flow_text {
    char text[2 * INET6_ADDRSTRLEN + 40];
};

/* "10.77.0.2 qp 0x00007c > 10.77.0.3 qp 0x000020", as far as the queue pairs are known. */
struct flow_text flow_text(const struct flow *flow);

/* "-", "ect1", "ect0" or "CE" (RFC 3168) of a traffic class; static storage. */
const char *ecn_text(uint8_t traffic_class);

/* The line. A foreign frame has one too; whether it is wanted is the caller's choice. */
void print_frame(struct printer *p, const struct frame *f);

/* The headers field by field, as far as they were captured; of a later segment, its own only. */
void print_fields(FILE *out, const struct frame *f);

#endif
