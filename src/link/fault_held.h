/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets that are held back, those of one direction in the order in which they go on: at
 * their time, or when so many others of their queue pair have passed. Memory is set aside
 * once; what finds no room is lost, as in a full queue of a switch.
 */
#ifndef UROCE_LINK_FAULT_HELD_H
#define UROCE_LINK_FAULT_HELD_H

#include "base/list.h"
#include "link/limits.h"
#include "wire/datagram.h"

struct fault_held {
    struct list link;
    uint64_t due_ns;
    uint32_t qpn;        /* destination */
    uint32_t overtakers; /* that are still to pass; 0: only the time counts */
    uint32_t copies;     /* besides itself */
    bool corrupt;
    /* Of a packet on its way out. */
    struct path path;
    uint16_t src_port;
    uint8_t dest_slot;
    /* Of one that came; bytes are those below. */
    struct datagram datagram;
    uint32_t len;
    uint8_t bytes[DATAGRAM_LEN_MAX];
};

struct fault_queue {
    struct list waiting; /* by due_ns, then in order of arrival */
    struct list spare;   /* used before */
    struct fault_held *all;
    uint32_t used;        /* of all; the rest was never touched */
    uint32_t bytes;       /* of those that wait */
    uint32_t to_overtake; /* packets that wait for others to pass */
};

/* Returns 0 or -ENOMEM. */
int fault_queue_open(struct fault_queue *q);
void fault_queue_close(struct fault_queue *q);

/* Room for a packet, to be filled and handed to fault_queue_put; NULL: there is none. */
struct fault_held *fault_queue_take_spare(struct fault_queue *q);
void fault_queue_put(struct fault_queue *q, struct fault_held *h);

/* A packet to this queue pair went by: those that wait for it are due now if it was the last. */
void fault_queue_pass(struct fault_queue *q, uint32_t qpn);

/* The next packet that goes on, or NULL. */
struct fault_held *fault_queue_first(const struct fault_queue *q);

/* It is gone. */
void fault_queue_remove(struct fault_queue *q, struct fault_held *h);

#endif
