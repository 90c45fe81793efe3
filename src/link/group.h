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
    struct parking parking;
    struct shared *shared;
    struct slot_sockets
        own; /* of the creator, where the kernel does not choose by slot; until leased */
    unsigned uid;
};

/*
 * Joins this user's group or makes it (by_slot: let the kernel choose sockets by slot).
 * Waits for other processes at most JOIN_TIMEOUT_MS. Returns 0, or a negative errno with a
 * sentence in error: -EADDRINUSE someone else holds the port or all names, -ETIMEDOUT the
 * members do not answer.
 */
int group_join(struct group *g, bool by_slot, char *error);

/* Answers newcomers that wait. */
void group_serve(struct group *g);

/*
 * Leases a free slot and takes its sockets (the caller's to close). Returns 0, or
 * a negative errno with a sentence: -EAGAIN no slot is free.
 */
int group_lease(struct group *g, uint8_t *slot, struct slot_sockets *s, char *error);

/* The sockets of QP1, which belong to all members, if there are any; the caller's to close. */
int group_take_qp1(struct group *g, struct slot_sockets *s);

/* True when another process holds the lease of this slot. */
bool group_slot_held(const struct group *g, uint8_t slot);

/* Leaves: closes everything, which frees the lease. Also for a child after fork, whose parent keeps
 * its own. */
void group_leave(struct group *g);

#endif
