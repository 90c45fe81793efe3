/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who of a group's processes listens for connections on which service ID. Requests come to QP1,
 * whose sockets all processes read, so each must know whose a request is. The
 * entries are in the memory that all map; one whose process has ended is nobody's, however
 * it ended, and is taken over by the next who needs a place. Those of guests are entered for
 * them by a member (guest.h).
 */
#ifndef UROCE_LINK_SERVICES_H
#define UROCE_LINK_SERVICES_H

#include "link/group.h"
#include "wire/datagram.h"

/*
 * Notes that the process of slot, which is ours, listens on a service ID at a local address
 * (zeroes: at all, see gid_listen_rank). Returns 0, -EADDRINUSE when somebody does at the same,
 * -EADDRNOTAVAIL when either is a wildcard of the other's family, or -ENOSPC. Who listens at zeroes
 * and for IPv4 too takes the wildcard of IPv4 beside them.
 */
int services_add(struct group *g, uint8_t slot, uint64_t service_id, const struct gid *local);

/* Takes that back; does nothing if it is not noted. */
void services_remove(struct group *g, uint8_t slot, uint64_t service_id, const struct gid *local);

/* Takes back all of a slot. */
void services_forget(struct group *g, uint8_t slot);

/* How many there are of a slot, and of guests in all. */
uint32_t services_of_slot(const struct group *g, uint8_t slot);
uint32_t services_of_guests(const struct group *g);

/* The next one of a slot from *index on, which moves behind it. False: there is none. */
bool services_next(const struct group *g, uint8_t slot, uint32_t *index, uint64_t *service_id,
                   struct gid *local);

/* The slot of who listens there most closely (gid_listen_rank); 0: nobody. */
uint8_t services_find(const struct group *g, uint64_t service_id, const struct gid *local);

#endif
