/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of the node, for the files of node/ only. */
#ifndef UROCE_NODE_NODE_PRIVATE_H
#define UROCE_NODE_NODE_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "node/node.h"
#include "node/pacing.h"
#include "node/settings.h"

#define NS_PER_S 1000000000u

/* What the progress thread is about. */
enum thread_state {
    THREAD_NONE,
    THREAD_SERVING,       /* has or wants the lock, and looks at everything before it sleeps */
    THREAD_WAITING,       /* sleeps until a descriptor, a poke or sleeps_until */
    THREAD_STANDING_BACK, /* sleeps a short time while the application polls or waits */
};

struct node {
    /* Any thread. */
    _Alignas(64) atomic_uint epoch; /* polls by the application: only the lock's owner adds to it */
    _Alignas(64) atomic_uint quiet_epoch; /* the epoch at which a thread last went to sleep */
    atomic_uint lock_waiters;
    _Atomic enum thread_state thread_state;
    atomic_uint pokes;
    atomic_bool waiter;        /* a thread of the application waits for an event, and serves */
    atomic_uint waits;         /* times that one began to */
    atomic_bool thread_aside;  /* the thread leaves the descriptors to it until poked */
    _Atomic uint64_t alarm_ns; /* only the lock's owner sets an earlier one; ENGINE_NEVER */
    pthread_mutex_t lock;

    /* Under the lock from here on. Set at start. */
    struct engine *engine; /* NULL: not started */
    struct cm *cm;
    struct cm *parents_cm;       /* after fork: left as it is, for an ID of before may name it */
    uint8_t slot;                /* of this process */
    struct link *link;           /* what the engine's datagrams go through */
    struct link *udp;            /* the link to the network, at its bottom */
    struct record *record;       /* or NULL */
    struct publisher *publisher; /* or NULL: nothing is shown to others */
    bool faults;                 /* the topmost link is a fault link */
    uint64_t fault_seed;
    pid_t pid;            /* of the process that started it */
    bool lone_core;       /* there is but one to run on */
    uint32_t use_count;   /* node_get without node_put */
    uint32_t yield_after; /* empty polls; 0: never */

    /* The progress thread. */
    pthread_t thread;
    int epoll_fd;
    int wake_fd;  /* eventfd: readable when the thread has been poked */
    int watch_fd; /* readable when interfaces or addresses changed; negative: that is not told */
    bool thread_stop;
    bool thread_joinable;
    uint64_t sleeps_until; /* when the waiting thread wakes by itself; ENGINE_NEVER */

    /* Moves with use. */
    int cancel_state;       /* of the owner, to be restored */
    uint32_t activity;      /* uses of the lock by the application, and datagrams that came */
    uint64_t now;           /* when the datagrams being received were looked at */
    uint64_t retry_ns;      /* when to offer the batch to the link again; ENGINE_NEVER */
    uint64_t retry_wait_ns; /* what was waited for the last offer; 0: it was taken */
    bool unfinished;        /* sending stopped for its bound, not for lack of work */
    uint64_t checked_ns;    /* when the signal handlers were last looked at */
    struct pacing pacing;
    struct datagram_batch batch; /* count > 0: not sent yet */
    uint8_t *buffer;             /* of the batch */
    struct node_counters counters;
};

/* --- progress.c; the lock is held --- */

/* One bounded turn of receiving, timers and sending. Returns true when it moved anything. */
bool progress_turn(struct node *n);

/*
 * Before the process ends: what came to QP1 and is for others is passed on, the farewell to a guest
 * of ours not least; nobody else may be there to read it. What is for us is dropped.
 */
void progress_pass_on(struct node *n);

/* Sends what may leave, a bounded amount. */
void progress_send(struct node *n, uint64_t now);

/* Whether progress_send may have something to send. */
bool progress_wants_send(const struct node *n);

/* When the node must be looked at again: 0 for at once, or ENGINE_NEVER. */
uint64_t progress_deadline(const struct node *n);

/* As struct engine_config.arrives_whole; context is the node. */
bool progress_arrives_whole(void *context, const struct path *path, uint8_t slot);

void progress_hand_out_events(struct node *n);

/* As struct engine_config.room; context is the node. */
uint32_t progress_room(void *context, const struct gid *dst, uint8_t slot, bool paced,
                       uint64_t now);

/* As struct engine_config.window; context is the node. */
uint32_t progress_window(void *context, const struct gid *dst, uint8_t slot);

/* --- connections.c; the lock is held --- */

/* Returns 0 or a negative errno. */
int connections_open(struct node *n, uint8_t slot);

/* Hands a datagram to QP1 to the process of this host that it is for; false when that is this one,
 * or nobody. */
bool connections_pass(struct node *n, const struct datagram *d);

/* Takes a datagram to QP1; false when it is for another queue pair. */
bool connections_take(struct node *n, const struct datagram *d);

void connections_hand_out_events(struct node *n);

/* --- links.c --- */

#define NODE_ERROR_SIZE 768u

/*
 * Opens the links that the settings ask for; *slot as udp_link_open. Returns 0, or a negative
 * errno with a sentence for a person in error, and all closed.
 */
int links_open(struct node *n, const struct settings *s, uint8_t *slot,
               char error[NODE_ERROR_SIZE]);

/* When the links or the recording must be looked at, or ENGINE_NEVER. */
uint64_t links_deadline(const struct node *n);

/* Does for the recording what is due. */
void links_advance(struct node *n, uint64_t now);

/* For a child after fork. */
void links_abandon(struct node *n);

/* Of a start that failed later. */
void links_close(struct node *n);

/* The process ends: what links hold leaves, and what they did is told. The lock is held. */
void links_finish(struct node *n);

/* --- report.c --- */

/* Logs all counters that are not 0. The lock is held. */
void report_counters(const struct node *n);

/* --- thread.c --- */

/* Returns 0 or a negative errno. */
int thread_start(struct node *n);

/* For exit: ends the thread and waits for it for a bounded time. The lock is not held. */
void thread_stop(struct node *n);

/* For a child after fork: the thread is not there; closes its descriptors. */
void thread_forget(struct node *n);

/* Wakes the thread from either sleep. */
void thread_poke(struct node *n);

/* The lock without cancellation or notes, for thread.c. */
void node_acquire(struct node *n);
void node_release(struct node *n);

#endif
