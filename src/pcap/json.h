/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames as JSON for programs: an object a packet, one line each. The keys do
 * not change; new ones may be added. Numbers are JSON numbers, but those of 64
 * bits (addresses, operands of atomics), which no JSON reader can be trusted with, and the ICRC
 * are strings of hexadecimal digits beginning with 0x.
 */
#ifndef UROCE_PCAP_JSON_H
#define UROCE_PCAP_JSON_H

#include <stdio.h>

#include <jansson.h>

#include "pcap/frame.h"

/* A new reference, or NULL when memory is short. */
json_t *frame_to_json(const struct frame *f);

/* Takes the reference and writes it as a line. 0, or -ENOMEM for NULL; ferror(out) tells of the
 * rest. */
int json_print_line(FILE *out, json_t *value);

#endif
