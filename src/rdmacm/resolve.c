/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses and routes. The kernel's routing table knows both at once, without waiting; only the
 * next hop may have to be looked for (neighbour.c). The answer is an event all the same.
 */
#include <arpa/inet.h>
#include <errno.h>

#include "rdmacm/address.h"
#include "rdmacm/channel.h"
#include "rdmacm/id.h"
#include "rdmacm/neighbour.h"
#include "rdmacm/port.h"
#include "rdmacm/process.h"
#include "verbs/export.h"

#define HOP_LIMIT 64u

/*
 * Where packets to dst would leave from. Routes of IPv6 lead to no address of IPv4, which a socket
 * would reach nevertheless. 0 or a negative errno.
 */
static int find_route(const struct endpoint *src, const struct endpoint *dst, struct endpoint *from)
{
    if (dst->family == AF_INET6 && gid_is_ipv4(&dst->gid))
        return -ENETUNREACH;
    return route_source(src, dst, from);
}

/*
 * Begins the search for dst. A destination without a route is told at once, a source without a
 * device and a neighbour that does not answer by an event, as Linux does. 0 or a negative errno.
 */
static int resolve(struct id_handle *h, const struct endpoint *dst, int timeout_ms)
{
    struct resolution *found = &h->found;
    struct endpoint src;
    int result;

    endpoint_read(&h->rdma.route.addr.src_addr, &src);
    result = find_route(&src, dst, &found->from);
    if (result != 0)
        return result;
    found->to = dst->gid;
    result = device_find(&found->from.gid, found->from.scope_id, &found->place);
    return result == 0 ? neighbour_await(h, dst, timeout_ms) : id_resolved(h, result);
}

static void take_resolution(struct id_handle *h)
{
    struct resolution *found = &h->found;

    found->from.scope_id = found->place.ifindex;
    port_set_address(h, &found->from);
    id_set_place(h, &found->place);
    h->path = (struct path){
        .src = found->from.gid,
        .dst = found->to,
        .scope_id = gid_is_link_local(&found->to) ? found->place.ifindex : 0,
        .traffic_class = h->tos,
        .hop_limit = HOP_LIMIT,
    };
}

int id_resolved(struct id_handle *h, int status)
{
    if (status == 0)
        take_resolution(h);
    h->state = status == 0 ? ID_ADDRESS_RESOLVED : ID_BOUND;
    return channel_raise(h, status == 0 ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ADDR_ERROR,
                         status);
}

/* Who asks for no address means this host, at its own address if it has one, as with Linux. */
static void mean_this_host(const struct id_handle *h, struct endpoint *dst)
{
    static const struct gid loopback = {{[15] = 1}};
    static const struct gid loopback_ipv4 = {{[10] = 0xff, 0xff, 127, 0, 0, 1}};
    struct endpoint own;

    endpoint_read(&h->rdma.route.addr.src_addr, &own);
    if (endpoint_is_any(&own))
        own.gid = dst->family == AF_INET ? loopback_ipv4 : loopback;
    dst->gid = own.gid;
    dst->scope_id = own.scope_id;
}

/* A source that is not given is the wildcard of the destination's family. 0 or a negative errno. */
static int bind_source(struct id_handle *h, const struct sockaddr *address,
                       const struct endpoint *dst)
{
    struct endpoint src = {.family = dst->family, .gid = gid_any(dst->family == AF_INET)};

    if (address != NULL && address->sa_family != AF_UNSPEC && !endpoint_read(address, &src))
        return endpoint_unread(address);
    return h->state == ID_IDLE ? port_bind(h, &src) : 0;
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr,
                             struct sockaddr *dst_addr, int timeout_ms)
{
    struct id_handle *h = id_of(id);
    struct endpoint dst;
    int result;

    if (!id_alive(h))
        return id_result(-EIO);
    if (dst_addr == NULL)
        return id_result(-EINVAL);
    if (!endpoint_read(dst_addr, &dst))
        return id_result(endpoint_unread(dst_addr));
    result = bind_source(h, src_addr, &dst);
    if (result != 0)
        return id_result(result);
    if (h->state != ID_BOUND || id->route.addr.src_addr.sa_family != dst.family)
        return id_result(-EINVAL);
    if (endpoint_is_any(&dst))
        mean_this_host(h, &dst);
    endpoint_write(&dst, &id->route.addr.dst_storage);
    h->state = ID_ADDRESS_QUERY;
    result = resolve(h, &dst, timeout_ms);
    if (result != 0)
        h->state = ID_BOUND;
    return id_result(result == 0 ? id_complete(h) : result);
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    struct id_handle *h = id_of(id);
    int result;

    (void)timeout_ms;
    if (!id_alive(h))
        return id_result(-EIO);
    if (h->state != ID_ADDRESS_RESOLVED)
        return id_result(-EINVAL);
    h->path.traffic_class = h->tos;
    id_describe_path(h);
    h->state = ID_ROUTE_RESOLVED;
    result = channel_raise(h, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    return id_result(result == 0 ? id_complete(h) : result);
}
