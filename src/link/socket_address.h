/* SPDX-License-Identifier: BSD-2-Clause */
/* Socket addresses as GIDs. */
#ifndef UROCE_LINK_SOCKET_ADDRESS_H
#define UROCE_LINK_SOCKET_ADDRESS_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "wire/datagram.h"

/* False, and *out is as it was, for another family than IPv4 and IPv6. */
static inline bool gid_from_socket_address(const struct sockaddr *address, struct gid *out)
{
    switch (address->sa_family) {
    case AF_INET:
        *out = gid_from_ipv4(&((const struct sockaddr_in *)(const void *)address)->sin_addr);
        return true;
    case AF_INET6:
        *out = gid_from_ipv6(&((const struct sockaddr_in6 *)(const void *)address)->sin6_addr);
        return true;
    default:
        return false;
    }
}

#endif
