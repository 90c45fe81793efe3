/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How two processes that want to transfer find each other: a TCP connection, over which they
 * exchange what each must know of the other, and which tells each when the other is done or dead.
 */
#ifndef UROCE_TESTS_APPS_MEETING_H
#define UROCE_TESTS_APPS_MEETING_H

#include <stddef.h>
#include <stdint.h>

/* A socket that listens on this port, for IPv4 and IPv6. Ends the program when there is none. */
int meeting_listen(const char *port);

/* The next who connects. Ends the program (EXIT_PEER_GONE) when nobody comes for so long. */
int meeting_accept(int listener, uint32_t patience_s);

/* A connection to host (a name or an address, with a scope if need be); keeps trying for a while.
 */
int meeting_connect(const char *host, const char *port, uint32_t patience_s);

/* Sends ours and receives as much of theirs. Ends the program (EXIT_PEER_GONE) when they are gone.
 */
void meeting_swap(int fd, const void *ours, void *theirs, size_t len);

#endif
