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

/* Where packets to dst would leave from, as a place of ours. 0 or a negative errno. */
static int find_place(const struct endpoint *src, const struct endpoint *dst, struct place *place,
                      struct endpoint *from)
{
    int result = route_source(src, dst, from);

    return result == 0 ? device_find(&from->gid, from->scope_id, place) : result;
}

/* 0, or why the address cannot be reached. */
static int resolve(struct id_handle *h, const struct endpoint *dst)
{
    struct endpoint src, from;
    struct place place;
    int result;

    endpoint_read(&h->rdma.route.addr.src_addr, &src);
    result = find_place(&src, dst, &place, &from);
    if (result != 0)
        return result;
    from.scope_id = place.ifindex;
    port_set_address(h, &from);
    id_set_place(h, &place);
    h->path = (struct path){
        .src = from.gid,
        .dst = dst->gid,
        .scope_id = gid_is_link_local(&dst->gid) ? place.ifindex : 0,
        .traffic_class = h->tos,
        .hop_limit = HOP_LIMIT,
    };
    return 0;
}

/* Who asks for no address means this host, at its own address if it has one, as with Linux. */
static void mean_this_host(const struct id_handle *h, struct endpoint *dst)
{
    static const struct gid loopback = {{[15] = 1}};
    static const struct gid loopback_ipv4 = {{[10] = 0xff, 0xff, 127, 0, 0, 1}};
    struct endpoint own;

    endpoint_read(&h->rdma.route.addr.src_addr, &own);
    if (own.family != dst->family || endpoint_is_any(&own))
        own.gid = dst->family == AF_INET ? loopback_ipv4 : loopback;
    dst->gid = own.gid;
    dst->scope_id = own.scope_id;
}

EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr,
                             struct sockaddr *dst_addr, int timeout_ms)
{
    struct id_handle *h = id_of(id);
    struct endpoint dst, src;
    int result = 0;

    if (!id_alive(h))
        return id_result(-EIO);
    if (dst_addr == NULL || h->cm != NULL)
        return id_result(-EINVAL);
    if (!endpoint_read(dst_addr, &dst))
        return id_result(-EAFNOSUPPORT);
    src = (struct endpoint){.family = dst.family};
    if (dst.family == AF_INET)
        src.gid = (struct gid){{[10] = 0xff, [11] = 0xff}};
    if (src_addr != NULL && !endpoint_read(src_addr, &src))
        return id_result(-EAFNOSUPPORT);
    if (!h->bound)
        result = port_bind(h, &src);
    if (result != 0)
        return id_result(result);
    if (endpoint_is_any(&dst))
        mean_this_host(h, &dst);
    endpoint_write(&dst, &id->route.addr.dst_storage);
    result = resolve(h, &dst);
    if (result == 0)
        result = neighbour_await(h, &dst, timeout_ms);
    else
        result = channel_raise(h, RDMA_CM_EVENT_ADDR_ERROR, result);
    return id_result(result == 0 ? id_complete(h) : result);
}

EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    struct id_handle *h = id_of(id);
    int result;

    (void)timeout_ms;
    if (!id_alive(h))
        return id_result(-EIO);
    if (id->verbs == NULL || id->route.addr.dst_addr.sa_family == 0)
        return id_result(-EINVAL);
    h->path.traffic_class = h->tos;
    id_describe_path(h);
    result = channel_raise(h, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    return id_result(result == 0 ? id_complete(h) : result);
}
