/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What happened, from packets: frames with their times go in, one after the
 * other; connections, messages and findings come out. It knows no file, clock or
 * thread, so a recording, a capture in progress and a simulator can feed it.
 * Memory is bounded by the number of connections.
 */
#ifndef UROCE_PCAP_TRACKER_H
#define UROCE_PCAP_TRACKER_H

#include <stdbool.h>
#include <stdint.h>

#include "pcap/finding.h"
#include "pcap/flow.h"
#include "pcap/frame.h"
#include "pcap/stream.h"
#include "pcap/summary.h"
#include "pcap/timeline.h"
#include "wire/cm.h"

#define TRACKER_REQUESTS_MAX 1000000u /* unanswered at a time, of all connections: 100 MB */
#define TRACKER_CM_SLOTS 1024u        /* connection requests that await their reply */

/* A REQ that awaits its REP. */
struct tracker_req {
    struct gid src;
    struct gid dst;
    uint64_t transaction_id;
    uint32_t comm_id;
    uint32_t qpn;
    uint32_t psn;
    uint16_t pmtu;
    uint8_t depth;
    bool waits; /* false: none, or answered */
};

struct tracker {
    struct summary summary;       /* holds the flows, which are the connections' directions */
    struct moment moment;         /* what the last frame led to: raised, raised_count */
    struct finding_list findings; /* of no connection */
    struct timeline timeline;     /* of all together */
    uint64_t hash_key[2];
    uint64_t icrc_zero; /* packets whose ICRC is wrong, and zero */
    uint64_t time_last_ns;
    struct tracker_req reqs[TRACKER_CM_SLOTS];
};

/* flows_max is at least 2; hash_key as for flow_table_init. */
void tracker_init(struct tracker *t, uint32_t flows_max, const uint64_t hash_key[2]);
void tracker_fini(struct tracker *t);

/* Who is told of each complete message; before the first frame. */
void tracker_set_message(struct tracker *t,
                         void (*on_message)(void *context, const struct message *message),
                         void *context);

/*
 * A decoded frame (frame_decode), or one segment of it. 0, or -ENOMEM. Afterwards
 * moment.raised says what was found in this very frame.
 */
int tracker_add(struct tracker *t, const struct frame *f);

/* After the last frame: what was pending is judged. Once. 0, or -ENOMEM. */
int tracker_finish(struct tracker *t);

/* A finding that no frame tells, such as a file that is cut. */
void tracker_note(struct tracker *t, enum finding_kind kind);

/* Findings of a kind, all in all. */
uint64_t tracker_count(const struct tracker *t, enum finding_kind kind);

#endif
