/* SPDX-License-Identifier: BSD-2-Clause */
/* How `uroce stat` shows processes: as text, or as JSON. */
#ifndef UROCE_CLI_STAT_SHOW_H
#define UROCE_CLI_STAT_SHOW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "node/stat_file.h"

/* What a port does now, a second. */
struct stat_rates {
    bool known; /* from the second look on */
    double sent_packets;
    double rcv_packets;
    double sent_bits;
    double rcv_bits;
};

struct stat_look {
    bool all;      /* queue pairs without a bound, counters that are 0 */
    bool counters; /* under the names of adapters */
    bool rates;
    struct stat_rates of_ports[STAT_PORTS_MAX];
};

void stat_print_text(const struct stat_snapshot *s, const struct stat_look *look);

/* The process as an object. The caller's reference; NULL without memory. */
json_t *stat_json(const struct stat_snapshot *s, const struct stat_look *look);

/* "RTS" and so on; "?" for a number that is none. */
const char *stat_state_name(uint32_t state);

#define STAT_ADDRESS_SIZE 46
void stat_address(const struct gid *gid, char out[STAT_ADDRESS_SIZE]);

/* A struct of counters and its names, for both. */
struct stat_counter {
    const char *name;
    const char *text;
};
struct stat_counters {
    const char *title;
    const struct stat_counter *names;
    const void *values;
    uint32_t count;
};
struct stat_counters stat_counters_of_qp(const struct qp_counters *c);
/* What belongs to no queue pair. */
struct stat_counters stat_counters_of_engine(const struct engine_counters *c);
struct stat_counters stat_counters_of_link(const struct link_counters *c);
struct stat_counters stat_counters_of_node(const struct node_counters *c);
uint64_t stat_counter_at(const struct stat_counters *c, uint32_t index);

#endif
