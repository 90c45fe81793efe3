/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames as a packet socket shows them (packet(7), with PACKET_VNET_HDR): what a UDP socket would
 * have checked, and what it does not tell. Bytes only; nothing here calls the kernel.
 */
#ifndef UROCE_LINK_RAW_FRAME_H
#define UROCE_LINK_RAW_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link/inbox.h"
#include "link/link.h"

struct raw_frame {
    struct arrival arrival;  /* scope_id is the caller's to fill */
    uint16_t identification; /* IPv4: of the first datagram, others count on; IPv6: 0 */
    uint32_t flow_label;     /* IPv6 */
    const uint8_t *bytes;    /* arrival.len of them, borrowed from the frame */
};

/*
 * Reads len bytes: a struct virtio_net_hdr, an Ethernet header, IP, UDP. A batch that no device has
 * cut yet is one frame here. Returns false, with a counter of its own increased, unless all fields
 * are as RoCEv2 has them (annex A17) and as those within say.
 */
bool raw_frame_read(const uint8_t *bytes, size_t len, struct link_counters *counters,
                    struct raw_frame *out);

#endif
