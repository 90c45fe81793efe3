/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks of a pcapng file (draft-ietf-opsawg-pcapng): a section, its one
 * interface of raw IP packets, and packets with nanoseconds and a direction.
 * Packets are whole IP packets with right lengths and checksums. Everything is written
 * into the caller's buffer, and nothing else happens here.
 */
#ifndef UROCE_LINK_PCAPNG_H
#define UROCE_LINK_PCAPNG_H

#include <stddef.h>
#include <stdint.h>

#include "link/link.h"
#include "link/limits.h"

/* Bytes that one block takes at most. */
#define PCAPNG_HEAD_MAX 1024u
#define PCAPNG_PACKET_MAX (DATAGRAM_LEN_MAX + 128u)

/*
 * Writes section header and interface description at out, which has room for PCAPNG_HEAD_MAX.
 * comment (cut at 255 bytes) says whose packets these are. Returns the bytes written.
 */
size_t pcapng_write_head(const char *comment, uint8_t *out);

/*
 * Writes a packet seen at time_ns since 1970 at out, which has room for PCAPNG_PACKET_MAX;
 * frame->datagram.len is at most DATAGRAM_LEN_MAX. Returns the bytes written.
 */
size_t pcapng_write_packet(const struct link_frame *frame, uint64_t time_ns, uint8_t *out);

#endif
