/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses, GIDs, and which of this host's addresses leads to another. */
#ifndef UROCE_RDMACM_ADDRESS_H
#define UROCE_RDMACM_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "wire/datagram.h"

struct endpoint {
    int family; /* AF_INET or AF_INET6 */
    struct gid gid;
    uint32_t scope_id;
    uint16_t port; /* host order */
};

/* False for another family than IPv4 and IPv6. */
bool endpoint_read(const struct sockaddr *address, struct endpoint *out);

/* The error of an address that could not be read: AF_IB is not supported, others are nonsense. */
int endpoint_unread(const struct sockaddr *address);

void endpoint_write(const struct endpoint *e, struct sockaddr_storage *out);

/* Is it the wildcard address of its family? */
bool endpoint_is_any(const struct endpoint *e);

/* Does it lead to this host only: of 127.0.0.0/8, or ::1? */
bool endpoint_is_loopback(const struct endpoint *e);

socklen_t address_len(int family);

/*
 * The source that packets to dst have: src where that is an address, else as the kernel's routes
 * say. Returns 0 with *out (port 0), or a negative errno such as -ENETUNREACH.
 */
int route_source(const struct endpoint *src, const struct endpoint *dst, struct endpoint *out);

#endif
