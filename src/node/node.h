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

#include "cm/cm.h"
#include "engine/engine.h"
#include "link/link.h"

struct node;

/*
 * The process's node, started if it is not yet. NULL with errno set and the
 * reason said on standard error (always: a device that cannot be opened must
 * say why) when it cannot start. Paired with node_put.
 *
 * In a child after fork the node is there but without engine and link until
 * the first node_get of the child starts both anew: objects of before must not
 * be used any more.
 */
struct node *node_get(void);

/* With the last one what links hold back on purpose leaves; the node itself stays. */
void node_put(struct node *n);

/* The lock is held; not NULL after node_get. */
struct engine *node_engine(struct node *n);

/*
 * Recursive locking is a bug. Disables thread cancellation while held; node_unlock as node_leave.
 */
void node_lock(struct node *n);
void node_unlock(struct node *n);

/*
 * The lock around a data path call: node_enter as node_lock. node_leave_posted, after posting:
 * sends what may leave, hands out events, sees to it that deadlines are kept, and unlocks.
 * node_leave, after a poll: the same, and the progress thread stands back while polls go on.
 */
void node_enter(struct node *n);
void node_leave_posted(struct node *n);
void node_leave(struct node *n);

/*
 * Moves what can move now: receives, runs timers, sends, hands out events; a bounded amount of
 * each. For an application that polls and finds nothing. The lock is held.
 */
void node_progress(struct node *n);

/*
 * Before a thread goes to sleep for a completion or event: makes sure that the progress thread
 * looks after it at once. The lock is not held.
 */
void node_before_sleep(struct node *n);

/*
 * A thread that waits for an event until a descriptor is readable may serve the node meanwhile, if
 * no other does: then node_wait_begin returns true, and node_wait_end must follow. Between them
 * node_wait sleeps until fd is readable (returns 1), or there is something for node_progress to do
 * (0) or for a signal's sake (-EINTR). deadline: node_deadline's. It is a cancellation point. The
 * lock is not held.
 */
bool node_wait_begin(struct node *n);
int node_wait(struct node *n, int fd, uint64_t deadline);
void node_wait_end(struct node *n);

/* When node_progress is next due, if nothing comes: 0 for at once, or ENGINE_NEVER. The lock is
 * held. */
uint64_t node_deadline(const struct node *n);

/*
 * After an empty poll, lock not held: lets waiting threads have the lock, and
 * yields the core when many empty polls in a row say that it is needed (UROCE_SPIN).
 */
void node_idle_hint(struct node *n, uint32_t empty_polls);

/*
 * The number by which a device is known to who watches this process (struct qp_init.port_tag);
 * the lock is held.
 */
uint32_t node_port_tag(struct node *n, const char *device, const char *netdev);

/* How often the port of that number has gone down, for who watches; the lock is held. */
void node_port_downed(struct node *n, uint32_t port_tag, uint64_t count);

/*
 * Attaches a queue pair to a multicast group, and detaches it, as multicast_attach and
 * multicast_detach; also -ENODEV when the interface is gone. The lock is held.
 */
int node_attach(struct node *n, struct qp *qp, const struct multicast *group);
int node_detach(struct node *n, struct qp *qp, const struct multicast *group);

/* Ends a queue pair as qp_free, after noting what it has counted. The lock is held. */
int node_qp_free(struct node *n, struct qp *qp);

/* Who gets the engine's events; called with the lock held, so it may only note and write
 * descriptors. Set once. */
typedef void (*node_event_fn)(const struct engine_event *event);
void node_set_event_handler(node_event_fn fn);

/* The connection manager; the lock is held. What it has to send leaves with node_unlock. */
struct cm *node_cm(struct node *n);

/* Who gets its events; as node_set_event_handler. */
typedef void (*node_cm_event_fn)(const struct cm_event *event);
void node_set_cm_handler(node_cm_event_fn fn);

/*
 * A service ID at a local address (gid_listen_rank) becomes this process's: requests for it reach
 * cm_listen here, whichever process of the host reads them. Returns 0; -EADDRINUSE when any
 * process has it, -EADDRNOTAVAIL when it or ours is at all addresses, as with Linux's RDMA CM; or
 * -ENOSPC when too many are taken. The lock is held.
 */
int node_take_service(struct node *n, uint64_t service_id, const struct gid *local);
void node_give_service(struct node *n, uint64_t service_id, const struct gid *local);

/*
 * Who is told that interfaces or addresses of this host may have changed; called by the progress
 * thread without the lock. Set once.
 */
typedef void (*node_change_fn)(struct node *n);
void node_set_change_handler(node_change_fn fn);

/*
 * Who is called at a time that was asked for, and once for it: by the progress thread without the
 * lock, so whatever the application's threads do; a little late when they poll. Set once. It must
 * not wait for what needs the thread.
 */
typedef void (*node_alarm_fn)(struct node *n);
void node_set_alarm_handler(node_alarm_fn fn);

/* Asks for that at at_ns (node_now) or before: the earliest counts. The lock is not held. */
void node_set_alarm(struct node *n, uint64_t at_ns);

/* name, sentence */
#define NODE_COUNTERS(C)                                                                           \
    C(wakeups, "times that the progress thread woke from its sleep")                               \
    C(served, "times that it moved datagrams or ran timers")                                       \
    C(stood_back, "times that it left the work to a polling application")                          \
    C(pokes, "times that it was woken for an earlier deadline or a thread that goes to sleep")     \
    C(changes, "times that the kernel told of changed interfaces or addresses")                    \
    C(send_retries, "batches that the link did not take at once")

struct node_counters {
#define NODE_COUNTER_FIELD(name, text) uint64_t name;
    NODE_COUNTERS(NODE_COUNTER_FIELD)
#undef NODE_COUNTER_FIELD
};

/* Copies of what node and link have counted. The lock is not held. */
struct node_counters node_counters(struct node *n);
struct link_counters node_link_counters(struct node *n);

uint64_t node_now(void); /* CLOCK_MONOTONIC in ns */

#endif
