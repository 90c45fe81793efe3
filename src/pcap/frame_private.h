/* SPDX-License-Identifier: BSD-2-Clause */
/* Shared by frame.c and segment.c, which together decode a frame. */
#ifndef UROCE_PCAP_FRAME_PRIVATE_H
#define UROCE_PCAP_FRAME_PRIVATE_H

#include "pcap/frame.h"

/*
 * The length of the packets in a datagram that was to be cut on its way out or
 * was merged on its way in, or 0 when it is not such a one. The frame is
 * decoded up to its datagram, which is not a good packet by itself.
 */
uint32_t segment_find(const struct frame *f);

/*
 * Sets icrc, icrc_found, icrc_expected and identification of the segment that
 * f->datagram is; its IP header was never on a wire. The datagram is captured
 * whole and holds at least a BTH and an ICRC.
 */
void segment_check_icrc(struct frame *f, uint16_t identification);

/*
 * Whether a packet that was captured on the loopback device has an ICRC for identification 0,
 * whatever its header says. It is whole, and has room for one.
 */
bool segment_says_zero(const struct frame *f);

#endif
