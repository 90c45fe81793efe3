/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Management datagrams of captured packets: which packet carries a message of
 * the connection manager, and the message as text, as fields and as JSON.
 */
#ifndef UROCE_PCAP_MANAGEMENT_H
#define UROCE_PCAP_MANAGEMENT_H

#include <jansson.h>
#include <stdio.h>

#include "pcap/frame.h"
#include "wire/cm.h"

/* Is this a message of the connection manager, captured whole? Then it is read into *out. */
bool frame_cm(const struct frame *f, struct cm_message *out);

/* " CM REQ id 0x... ...": what a reader of one line wants to know of it. */
void print_cm(FILE *out, const struct cm_message *message);

/* All fields, one a line with offset in the frame (the MAD begins at offset), name and value. */
void print_cm_fields(FILE *out, const struct cm_message *message, uint32_t offset);

/* All fields; private data without the zeroes at its end. New reference, or NULL. */
json_t *cm_to_json(const struct cm_message *message);

#endif
