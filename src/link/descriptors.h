/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages that carry descriptors from one process to another of the same user.
 */
#ifndef UROCE_LINK_DESCRIPTORS_H
#define UROCE_LINK_DESCRIPTORS_H

#include <stddef.h>
#include <stdint.h>

#define DESCRIPTORS_MAX 8

/* What travels: bytes (borrowed), and copies of descriptors. */
struct parcel {
    void *bytes;
    size_t len;
    int fds[DESCRIPTORS_MAX];
    size_t fd_count;
};

/* Sends one message without waiting. Returns 0 or a negative errno. */
int parcel_send(int socket, const struct parcel *p);

/*
 * Receives one message without waiting, flags as for recvmsg. p->len is the
 * room in p->bytes; len, fds and fd_count are written on success, the
 * descriptors are the caller's. -EPIPE at the end; -EMFILE when this process
 * has no room for the descriptors.
 */
int parcel_receive(int socket, int flags, struct parcel *p);

#endif
