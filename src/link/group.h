/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The processes of one user in one network namespace that share UDP port 4791.
 * There is no daemon: the first process makes the sockets of many slots at
 * once, a piece of shared memory and a listening socket under an abstract name, which
 * is the lock. Any member answers newcomers and hands them copies of it
 * all. A slot is leased by a POSIX lock, which the kernel frees however its
 * process ends.
 *
 * Where the kernel cannot choose the socket by slot, nothing is parked: each
 * process binds sockets of its own, any of them may get any datagram, and it hands
 * what is not its own to the owner (inbox.h).
 *
 *   abstract name --> listener (shared by all) --> newcomer receives
 *                        listener, memory, parking in, parking out
 *
 * Processes of other users are guests: a member leases slots for them and passes
 * on their datagrams (udp_host.c); of what the group shares they get nothing.
 *
 * A process is in at most one group, once: POSIX locks belong to processes,
 * and all drop when any descriptor of the file is closed.
 */
#ifndef UROCE_LINK_GROUP_H
#define UROCE_LINK_GROUP_H

#include <stdbool.h>
#include <stdint.h>

#include "link/parking.h"
#include "link/shared.h"
#include "link/slot_socket.h"

struct group {
    int listener; /* readable when a newcomer waits for group_serve */
    int memory;
    int spare; /* makes way for a newcomer when this process may open no more; -1: in use, or none
                */
    struct parking parking;
    struct shared *shared;
    struct slot_sockets
        own; /* of the creator, where the kernel does not choose by slot; until leased */
    unsigned uid;
    bool held[SLOT_COUNT]; /* leases of this process: its own locks are none to it */
};

/*
 * Joins this user's group or makes it (by_slot: let the kernel choose sockets by slot).
 * Waits for other processes at most patience_ms; 0: one attempt. Returns 0, or a negative errno
 * with a sentence in error: -EUSERS another user holds the port, -EADDRINUSE something else or all
 * names, -ETIMEDOUT the members do not answer.
 */
int group_join(struct group *g, bool by_slot, uint64_t patience_ms, char *error);

/* A group of nobody: memory of one's own, so that room is counted nowhere. 0 or a negative errno.
 */
int group_alone(struct group *g);

/* Somebody of another user has connected; fd is the callee's to close, and soon if it is the last
 * that this process may open. */
typedef void (*group_visitor_fn)(void *context, int fd, unsigned uid, bool last);

/*
 * Answers newcomers that wait; visitors go to fn. Returns how many of all were answered though this
 * process may open no more descriptors.
 */
uint32_t group_serve(struct group *g, group_visitor_fn fn, void *context);

/*
 * Connects to a process of that user's group, whoever it is. Returns the descriptor or a negative
 * errno: -ECONNREFUSED none is there, -EAGAIN they are busy.
 */
int group_connect(unsigned uid);

/* What slot is asked for. */
struct lease {
    uint8_t slot;   /* 0: any */
    uint64_t guest; /* for a guest, as in struct shared_slot; 0: for this process */
};

/*
 * Leases a free slot and takes its sockets (the caller's to close); *slot receives it. A slot
 * whose guest lost the member that served it is free for that guest only, for ORPHAN_MS.
 * Returns 0, or a negative errno with a sentence: -EAGAIN no slot is free, -EBUSY the one asked
 * for is not.
 */
int group_lease(struct group *g, const struct lease *wanted, uint8_t *slot, struct slot_sockets *s,
                char *error);

/* Ends the lease of a slot that this process held for a guest. */
void group_release(struct group *g, uint8_t slot);

/* The sockets of QP1, which belong to all members, if there are any; the caller's to close. */
int group_take_qp1(struct group *g, struct slot_sockets *s);

/* True when another process holds the lease of this slot. */
bool group_slot_held(const struct group *g, uint8_t slot);

/* Leaves: closes everything, which frees the lease. Also for a child after fork, whose parent keeps
 * its own. */
void group_leave(struct group *g);

#endif
