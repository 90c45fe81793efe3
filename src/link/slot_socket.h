/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sockets on UDP port 4791. Those of one address family form a reuseport
 * group of the kernel, in which the order of bind calls is the slot and a small
 * program picks the socket by byte 5 of the payload, the high byte of the
 * destination QPN. They are never connected (a connected one leaves its
 * place) and never closed while a process of the group lives.
 */
#ifndef UROCE_LINK_SLOT_SOCKET_H
#define UROCE_LINK_SLOT_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/datagram.h"

enum family {
    FAMILY_IPV4,
    FAMILY_IPV6,
};
#define FAMILY_COUNT 2

/* The descriptors of a slot, -1 for a family that this kernel lacks. */
struct slot_sockets {
    int fd[FAMILY_COUNT];
};

void slot_sockets_close(struct slot_sockets *s);

/* AF_INET or AF_INET6. */
int family_domain(enum family f);

/*
 * A socket at the end of the family's group, with the smallest receive buffer.
 * Returns the descriptor or a negative errno.
 */
int slot_socket_make(enum family f);

/*
 * Makes the first two sockets of a group, and makes sure that they are the
 * first: -EADDRINUSE when anything has the port. -EAFNOSUPPORT when the kernel
 * lacks the family. by_slot, in: whether the program of above shall choose the
 * socket; out: whether it does. Else the kernel takes any by a hash of the addresses.
 */
int slot_socket_claim(enum family f, bool *by_slot, int fds[2]);

/* How a process wants a socket that it adopts. */
struct adoption {
    bool gro;
    bool keep;               /* what is in it, for whoever reads it */
    uint32_t receive_buffer; /* bytes to ask for; 0: as many as the kernel grants */
};

/*
 * Readies a socket for its new owner: the control messages that the link
 * needs, and, unless kept, what arrived for the last owner thrown away. *granted receives
 * the receive buffer that the kernel granted, *drops how many datagrams it has
 * dropped so far. Returns 0 or a negative errno.
 */
int slot_socket_adopt(int fd, enum family f, const struct adoption *how, uint32_t *granted,
                      uint32_t *drops);

/*
 * A socket of this process alone for what is sent to a group; the kernel gives each such
 * socket a copy of its own. It goes with the process. Returns the descriptor or a negative errno.
 */
int multicast_socket_make(const struct multicast *group, const struct adoption *how);

/* The reverse, so that nothing piles up in a socket that nobody reads. */
void slot_socket_disown(int fd);

/* Who holds port 4791, as /proc tells. */
enum port_holder {
    PORT_HOLDER_UNKNOWN,
    PORT_HOLDER_KERNEL, /* a socket without an inode: rdma_rxe */
    PORT_HOLDER_USER,   /* *uid */
};

enum port_holder port_holder_find(unsigned *uid);

#endif
