/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One process's runtime: the engine, the link under it, and the thread that
 * keeps both going when the application does not. A process has one node,
 * which starts at the first use and ends with the process.
 *
 * The engine and all its objects belong to whoever holds the node's lock.
 */
#ifndef UROCE_NODE_NODE_H
#define UROCE_NODE_NODE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"
#include "link/link.h"

struct node;

/*
 * The process's node, started if it is not yet (in a child after fork: a new
 * one). NULL with errno set and the reason said on standard error (always: a
 * device that cannot be opened must say why) when it cannot start. Counted: node_put.
 */
struct node *node_get(void);
void node_put(struct node *n);

struct engine *node_engine(struct node *n);

/* Recursive locking is a bug. Disables thread cancellation while held. */
void node_lock(struct node *n);
void node_unlock(struct node *n);

/*
 * The lock with what surrounds a data path call. node_enter notes that the
 * application is active and takes the lock. node_leave_posted: work was posted;
 * sends what may leave and unlocks. node_leave just unlocks.
 */
void node_enter(struct node *n);
void node_leave_posted(struct node *n);
void node_leave(struct node *n);

/*
 * Moves everything that can move now: receives, runs timers, sends, hands out
 * events. For an application that polls and finds nothing. The lock is held.
 */
void node_progress(struct node *n);

/* Before a thread goes to sleep for a completion or event: makes sure that the progress thread looks after it. */
void node_before_sleep(struct node *n);

/* After an empty poll, lock not held: yields the core when many empty polls in a row say that it is needed. */
void node_idle_hint(struct node *n, uint32_t empty_polls);

/* Who gets the engine's events; called with the lock held, so it may only note and write descriptors. Set once. */
typedef void (*node_event_fn)(const struct engine_event *event);
void node_set_event_handler(node_event_fn fn);

uint64_t node_now(void); /* CLOCK_MONOTONIC in ns */

#endif
