/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections one by one: what each direction moved, how long its messages
 * took, what was sent again and why, what waiting cost; and messages one a line.
 */
#ifndef UROCE_PCAP_CONNECTIONS_H
#define UROCE_PCAP_CONNECTIONS_H

#include <stdio.h>

#include <jansson.h>

#include "pcap/selection.h"
#include "pcap/tracker.h"

/* A table of those that moved most bytes. */
void connections_print_busiest(const struct tracker *t, const struct selection *s, uint32_t max,
                               FILE *out);

/* Everything about each, in order of appearance. */
void connections_print(const struct tracker *t, const struct selection *s, FILE *out);

/* One line a direction: {"connection": {...}}. 0 or a negative errno. */
int connections_print_json(const struct tracker *t, const struct selection *s, FILE *out);

/* A complete message as a line, or as JSON. */
void message_print(const struct message *m, FILE *out);
json_t *message_to_json(const struct message *m);

/*
 * The directions of all connections in an array, those that moved most bytes first; *count of
 * them. The caller frees it; NULL when there are none or memory is short.
 */
const struct flow **connections_sorted(const struct tracker *t, const struct selection *s,
                                       uint32_t *count);

/* Payload that a direction's requests moved: what they sent, and what they asked for. */
uint64_t flow_message_bytes(const struct flow *flow);

#endif
