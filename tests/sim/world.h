/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The simulated world: a clock, an event queue, hosts with an engine each, and
 * the wire between them. It knows nothing of messages: what applications do is
 * handed in.
 */
#ifndef UROCE_TESTS_SIM_WORLD_H
#define UROCE_TESTS_SIM_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "checkers/flow.h"
#include "engine/engine.h"
#include "sim/ladder.h"
#include "sim/plan.h"
#include "support/dice.h"

#define WORLD_WINDOW_DEFAULT 131072u /* of the engine, when its configuration names none */

struct world;
struct host;

enum event_kind {
    EVENT_ARRIVE,   /* a packet reaches a host */
    EVENT_SERVE,    /* a host hands its packets to the engine */
    EVENT_TIMER,    /* the engine's deadline */
    EVENT_TRANSMIT, /* the host's link is free again */
    EVENT_APP,      /* the application has a turn */
};

struct wire_packet {
    struct wire_packet *next; /* in a host's receive queue */
    struct datagram d;
    uint16_t identification;
    bool damaged;
    bool stray;          /* nobody's */
    uint64_t sent_bytes; /* of its direction, when it left */
    struct host *from;   /* or NULL: a second one, or of nobody */
    uint8_t bytes[];
};

struct event {
    uint64_t at_ns;
    uint64_t order; /* of events at one time */
    enum event_kind kind;
    struct host *host;
    struct wire_packet *packet;
};

struct host {
    struct world *world;
    uint32_t index;
    struct engine *engine;
    struct gid gid;
    uint8_t slot;
    /* packets that arrived and were not handed in */
    struct wire_packet *queue_first;
    struct wire_packet **queue_last;
    uint32_t queue_bytes;
    uint64_t stalled_until_ns; /* it takes no packets */
    uint64_t stopped_until_ns; /* it does nothing */
    uint64_t sent;             /* packets of its engine */
    uint64_t delivered;        /* packets that its engine got */
    uint64_t multicasts;       /* of these, for a group with members on it */
    uint64_t copies;           /* that they were to become */
    bool serve_scheduled;
    /* sending */
    uint8_t *buffer;
    uint64_t link_free_ns;
    bool transmit_scheduled;
    uint32_t room;     /* bytes of UC or UD that the engine was last told may leave */
    uint64_t timer_ns; /* for which a timer event is queued; ENGINE_NEVER: none */
};

/* One direction between two hosts. */
struct direction {
    uint64_t last_arrival_ns; /* packets stay in order */
    uint64_t cut_until_ns;    /* 0: not cut since packets passed */
    uint64_t sent_bytes;
    uint64_t arrived_bytes; /* sent_bytes of the newest packet that arrived */
    uint16_t identification;
};

struct wire_counters {
    uint64_t sent;
    uint64_t delivered;
    uint64_t batches;
    uint64_t long_batches; /* of several packets */
    uint64_t fates[FATE_COUNT];
    uint64_t overflowed;
    uint64_t icrc_dropped;
    uint64_t forged;
};

/* The application's part. */
struct world_ops {
    void (*turn)(struct host *h);
    /* Every event but that of a completion queue. */
    void (*event)(struct host *h, const struct engine_event *event);
    /* The flow of the QP that sent a packet from h to QPN dest of host to (UD: of source QPN src).
     */
    struct flow *(*sender)(struct host *h, const struct host *to, uint32_t dest, uint32_t src);
    struct flow *(*receiver)(const struct host *to, uint32_t dest);
    /* QPs of h that are attached to the group. */
    uint32_t (*members)(const struct host *h, const struct gid *group);
    void (*check_windows)(struct host *h, const struct flow *f);
    /* Nothing can be sent now; the engine asks to be called at deadline_ns. */
    void (*check_deadline)(struct host *h, uint64_t deadline_ns);
};

struct world {
    struct plan plan;
    const struct world_ops *ops;
    uint64_t now;
    uint64_t order;
    struct event *heap;
    uint32_t heap_count;
    uint32_t heap_capacity;
    uint64_t event_count;
    uint32_t in_flight; /* packets on their way or in a host's queue */
    struct host hosts[HOSTS_MAX];
    struct direction directions[HOSTS_MAX][HOSTS_MAX];
    struct dice dice_wire;
    struct dice dice_host;
    struct ladder *ladder;
    struct wire_counters counters;
    uint64_t hash; /* of all packets that were sent, with their times */
};

void world_init(struct world *w, const struct plan *plan, const struct world_ops *ops,
                struct ladder *ladder);
void world_fini(struct world *w);

void world_schedule(struct world *w, uint64_t at_ns, enum event_kind kind, struct host *h,
                    struct wire_packet *packet);

/* Carries out the next event. False when there is none. */
bool world_step(struct world *w);

/* After any call into h's engine: takes events, sends, sets the timer. */
void host_pump(struct host *h);

static inline bool world_is_healed(const struct world *w)
{
    return w->now >= w->plan.heal_ns;
}

/* --- network.c --- */

void network_send(struct host *h, const struct datagram_batch *b);
/* The packet reached h's link. True when it is good: then it is h's. */
bool network_arrive(struct host *h, struct wire_packet *packet);

#endif
