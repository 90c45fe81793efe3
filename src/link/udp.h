/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The UDP link: unprivileged sockets on port 4791 that many processes of one
 * user share (group.h), a pool of sockets to send from, UDP_SEGMENT out,
 * UDP_GRO in, addresses and ECN by control messages.
 */
#ifndef UROCE_LINK_UDP_H
#define UROCE_LINK_UDP_H

#include <stdbool.h>
#include <stdint.h>

#include "link/link.h"

struct udp_config {
    bool no_gso; /* each of these switches a feature off, as kernels without it would */
    bool no_gro;
    bool no_bpf;
    uint32_t send_sockets;   /* 1 to 64 per family; 0: 16 */
    uint32_t receive_buffer; /* bytes to ask for; 0: as much as the kernel allows */
    bool no_guests;          /* other users neither share this one's port nor this process theirs */
    bool icrc_strict;        /* drop the first datagram of an identification jump */
    bool raw;                /* whole frames to and from other hosts; needs CAP_NET_RAW */
};

#define UDP_ERROR_LEN 256

/*
 * Joins (or makes) this user's group in this network namespace, or becomes a guest
 * of the user that holds the port; leases a slot and opens the link. *slot receives the slot: QPNs
 * of this process begin with it. Returns 0, or a negative errno with a sentence for a person in
 * error (UDP_ERROR_LEN bytes): -EADDRINUSE another program or the kernel holds port 4791,
 * -EPERM raw without CAP_NET_RAW, -EAGAIN no slot is free, -ETIMEDOUT the other processes do not
 * answer, -EBUSY this process has one already, others as the kernel gave them.
 */
int udp_link_open(const struct udp_config *config, struct link **out, uint8_t *slot, char *error);

/* The user whose guest this process is; false: it is none. */
bool udp_link_host(const struct link *link, unsigned *uid);

/* Of a link that udp_link_open opened: the receive buffer that the kernel granted, in bytes as it
 * accounts (SO_RCVBUF read back). */
uint32_t udp_link_receive_buffer(const struct link *link);

#endif
