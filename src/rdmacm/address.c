/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel is asked for a route as any program asks: a UDP socket that is connected sends
 * nothing, and then has the source address that its packets would have.
 */
#include "rdmacm/address.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "link/kernel_socket.h"

bool endpoint_read(const struct sockaddr *address, struct endpoint *out)
{
    *out = (struct endpoint){.family = address->sa_family};
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;

        out->gid = gid_from_ipv4(&in->sin_addr);
        out->port = ntohs(in->sin_port);
        return true;
    }
    if (address->sa_family == AF_INET6) {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;

        out->gid = gid_from_ipv6(&in6->sin6_addr);
        out->scope_id = in6->sin6_scope_id;
        out->port = ntohs(in6->sin6_port);
        return true;
    }
    return false;
}

int endpoint_unread(const struct sockaddr *address)
{
    return address->sa_family == AF_IB ? -EAFNOSUPPORT : -EINVAL;
}

/* RFC 4007: an address that means something only on one interface, a group's too. */
static bool has_scope(const struct gid *g)
{
    return gid_is_link_local(g) || (g->bytes[0] == 0xff && (g->bytes[1] & 0xf) <= 2);
}

void endpoint_write(const struct endpoint *e, struct sockaddr_storage *out)
{
    memset(out, 0, sizeof(*out));
    out->ss_family = (sa_family_t)e->family;
    if (e->family == AF_INET) {
        struct sockaddr_in *in = (struct sockaddr_in *)(void *)out;

        memcpy(&in->sin_addr, e->gid.bytes + 12, 4);
        in->sin_port = htons(e->port);
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)out;

        memcpy(&in6->sin6_addr, e->gid.bytes, sizeof(in6->sin6_addr));
        in6->sin6_scope_id = has_scope(&e->gid) ? e->scope_id : 0;
        in6->sin6_port = htons(e->port);
    }
}

bool endpoint_is_any(const struct endpoint *e)
{
    const struct gid any = gid_any(e->family == AF_INET);

    return gid_equal(&e->gid, &any);
}

bool endpoint_is_loopback(const struct endpoint *e)
{
    static const struct gid loopback = {{[15] = 1}};

    return e->family == AF_INET ? e->gid.bytes[12] == 127 : gid_equal(&e->gid, &loopback);
}

socklen_t address_len(int family)
{
    return family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
}

static int ask(int fd, const struct endpoint *src, const struct endpoint *dst, struct endpoint *out)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);
    struct endpoint from = *src;
    struct endpoint to = *dst;
    const int yes = 1;

    from.port = 0;
    /* A route is asked for, nothing is sent: Linux resolves broadcast addresses too. */
    if (setsockopt(fd, SOL_SOCKET, SO_BROADCAST, &yes, sizeof(yes)) != 0)
        return -errno;
    if (from.family == to.family && !endpoint_is_any(&from)) {
        endpoint_write(&from, &address);
        if (bind(fd, (const struct sockaddr *)&address, address_len(from.family)) != 0)
            return -errno;
    }
    if (to.port == 0)
        to.port = 1; /* any but none */
    endpoint_write(&to, &address);
    if (connect(fd, (const struct sockaddr *)&address, address_len(to.family)) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        return -errno;
    endpoint_read((const struct sockaddr *)&address, out);
    out->port = 0;
    return 0;
}

int route_source(const struct endpoint *src, const struct endpoint *dst, struct endpoint *out)
{
    int fd = kernel_socket(dst->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int result;

    if (fd < 0)
        return -errno;
    result = ask(fd, src, dst, out);
    close(fd);
    return result;
}
