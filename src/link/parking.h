/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where the sockets of all slots wait without taking descriptors from anyone:
 * as messages in a socket pair that every process of the group holds, message n
 * with the sockets of slot n. Messages are only ever looked at (MSG_PEEK gives a
 * fresh descriptor each time), so they stay whoever comes and goes, and the
 * kernel closes them with the last process.
 */
#ifndef UROCE_LINK_PARKING_H
#define UROCE_LINK_PARKING_H

#include <stdint.h>

#include "link/slot_socket.h"

struct parking {
    int in;
    int out;
};

/* Returns 0 or a negative errno. */
int parking_open(struct parking *p);
void parking_close(struct parking *p);

/* Slots parked so far: 0 to this - 1. */
uint32_t parking_count(const struct parking *p);

/*
 * Parks the sockets as the next slot, which must be number slot; one process
 * at a time. The caller keeps its descriptors. -ETOOMANYREFS: the user has more descriptors in
 * flight than RLIMIT_NOFILE allows.
 */
int parking_put(struct parking *p, uint32_t slot, const struct slot_sockets *s);

/* Descriptors of a slot's sockets, for the caller to close. -ENOENT: not parked yet. Any process at
 * any time. */
int parking_take(const struct parking *p, uint32_t slot, struct slot_sockets *s);

#endif
