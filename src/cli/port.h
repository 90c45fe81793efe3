/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who holds a UDP port of this network namespace: the kernel lists every
 * socket with its owner in /proc/net/udp and udp6 (proc(5)).
 */
#ifndef UROCE_CLI_PORT_H
#define UROCE_CLI_PORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

/*
 * Looks through a table in the form of /proc/net/udp for a socket on port that
 * belongs to somebody other than self. Returns true with the owner in *holder.
 */
bool port_table_other_holder(FILE *table, uint16_t port, uid_t self, uid_t *holder);

/* The same for the kernel's tables of IPv4 and IPv6. A table that cannot be read has nobody. */
bool port_other_holder(uint16_t port, uid_t self, uid_t *holder);

/*
 * Whether a table in the form of /proc/net/unix has a name under which the processes of user
 * holder share the port with others.
 */
bool port_table_shares(FILE *table, uid_t holder);

/* The same for the kernel's table. */
bool port_shares(uid_t holder);

#endif
