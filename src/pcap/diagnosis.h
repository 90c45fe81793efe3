/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Everything that was found, worst first: findings of one kind together, with the
 * connection that has most of them, in plain words on one screen or as JSON.
 */
#ifndef UROCE_PCAP_DIAGNOSIS_H
#define UROCE_PCAP_DIAGNOSIS_H

#include <stdio.h>

#include <jansson.h>

#include "pcap/selection.h"
#include "pcap/tracker.h"

/* All findings of a kind. */
struct diagnosis_row {
    enum finding_kind kind;
    uint64_t count;
    uint64_t packets;
    uint64_t lost_ns;
    uint64_t connections;
    const struct flow *worst;    /* NULL: of no connection */
    const struct finding *first; /* of the worst */
};

struct diagnosis {
    struct diagnosis_row rows[FINDING_COUNT];
    uint32_t row_count;
    uint64_t connections; /* pairs of queue pairs, and flows of datagrams */
    uint64_t messages;
    uint64_t bytes; /* that arrived and were new */
};

/* After tracker_finish. */
void diagnosis_make(struct diagnosis *d, const struct tracker *t, const struct selection *s);

/* Is anything wrong on the wire. */
bool diagnosis_has_alarm(const struct diagnosis *d);

/* name: of the capture. */
void diagnosis_print(const struct diagnosis *d, const struct tracker *t, const struct selection *s,
                     const char *name, FILE *out);

/* {"diagnosis": {...}}: a new reference, NULL when memory is short. */
json_t *diagnosis_to_json(const struct diagnosis *d, const struct tracker *t);

/* The first of a connection's two directions that was seen, and a datagram's only one. */
bool flow_leads(const struct flow *flow);

#endif
