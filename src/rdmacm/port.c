/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port that was asked for is the ID's from bind on; one that was drawn is so from listen on, so
 * that those who only connect do not fill the table that all processes share.
 */
#include "rdmacm/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <sys/random.h>

#include "rdmacm/channel.h"
#include "rdmacm/process.h"
#include "verbs/export.h"

#define PORT_DRAWN_FIRST 32768u
#define PORTS_DRAWN 28232u
#define DRAWS_MAX 64u
#define BACKLOG_MAX 1024

static uint64_t service_of(const struct id_handle *h, uint16_t port)
{
    return cm_service_id((uint32_t)h->rdma.ps, port);
}

/* The wildcard of IPv6 is that of IPv4 too, if the ID does not say otherwise. */
static bool is_of_both(const struct id_handle *h)
{
    const struct gid any = gid_any(false);

    return gid_equal(&h->service_local, &any) && !h->one_family;
}

static int take_service(const struct id_handle *h)
{
    const struct gid any_ipv4 = gid_any(true);
    struct node *node = process_node();
    int result = inside->node_take_service(node, h->service_id, &h->service_local);

    if (result != 0 || !is_of_both(h))
        return result;
    result = inside->node_take_service(node, h->service_id, &any_ipv4);
    if (result != 0)
        inside->node_give_service(node, h->service_id, &h->service_local);
    return result;
}

static int take(struct id_handle *h, const struct endpoint *at)
{
    int result;

    if (h->service_taken)
        return 0;
    process_lock();
    h->service_id = service_of(h, at->port);
    h->service_local = cm_listen_address(&at->gid, at->scope_id);
    result = take_service(h);
    h->service_taken = result == 0;
    process_unlock();
    return result;
}

void port_give_back(struct id_handle *h)
{
    const struct gid any_ipv4 = gid_any(true);

    if (h->service_taken)
        inside->node_give_service(process_node(), h->service_id, &h->service_local);
    if (h->service_taken && is_of_both(h))
        inside->node_give_service(process_node(), h->service_id, &any_ipv4);
    h->service_taken = false;
}

int port_set_one_family(struct id_handle *h, bool on)
{
    const bool was = h->one_family;
    int result;

    if (h->state != ID_IDLE && h->state != ID_BOUND)
        return -EINVAL;
    if (!h->service_taken) {
        h->one_family = on;
        return 0;
    }
    /* The wildcard of IPv6 has that of IPv4 beside it, or not. */
    process_lock();
    port_give_back(h);
    h->one_family = on;
    result = take_service(h);
    if (result != 0) {
        h->one_family = was;
        take_service(h);
    }
    h->service_taken = true;
    process_unlock();
    return result;
}

/* One that nobody has now. Consecutive ones, so that a process does not draw one twice soon. */
static uint16_t draw(struct id_handle *h, struct endpoint at)
{
    static atomic_uint next;
    unsigned none = 0;
    unsigned start = 0;
    int result;

    if (atomic_load(&next) == 0 && getrandom(&start, sizeof(start), 0) == sizeof(start))
        atomic_compare_exchange_strong(&next, &none, start % PORTS_DRAWN + 1);
    for (unsigned i = 0; i < DRAWS_MAX; i++) {
        at.port = (uint16_t)(PORT_DRAWN_FIRST + atomic_fetch_add(&next, 1) % PORTS_DRAWN);
        result = take(h, &at);
        if (result != -EADDRINUSE && result != -EADDRNOTAVAIL)
            break;
    }
    process_lock();
    port_give_back(h);
    process_unlock();
    return at.port;
}

void port_set_address(struct id_handle *h, const struct endpoint *at)
{
    struct rdma_cm_id *id = &h->rdma;
    struct endpoint e = *at;

    e.port = ntohs(rdma_get_src_port(id));
    endpoint_write(&e, &id->route.addr.src_storage);
}

/*
 * The place of an address that an ID binds to; place->device stays NULL where it is of no device,
 * as the wildcard is, and, as with Linux, the loopback address beside other devices: libfabric
 * looks for all devices by it. 0 or a negative errno.
 */
static int find_place(const struct endpoint *e, struct place *place)
{
    int result;

    *place = (struct place){0};
    if (endpoint_is_any(e))
        return 0;
    if (gid_is_link_local(&e->gid) && e->scope_id == 0)
        return -EINVAL; /* of which link? */
    if (e->family == AF_INET6 && gid_is_ipv4(&e->gid))
        return -ENODEV; /* no interface has an address of IPv4 as one of IPv6 */
    result = device_find(&e->gid, e->scope_id, place);
    if (!endpoint_is_loopback(e) || (result == 0 && device_is_alone(place->device)))
        return result;
    *place = (struct place){0};
    return 0;
}

int port_bind(struct id_handle *h, const struct endpoint *at)
{
    struct endpoint e = *at;
    struct place place;
    int result;

    if (h->state != ID_IDLE)
        return -EINVAL;
    result = find_place(&e, &place);
    if (result != 0)
        return result;
    if (e.port == 0)
        e.port = draw(h, e);
    else if (!h->reuse_address)
        result = take(h, &e);
    if (result != 0)
        return result;
    if (place.device != NULL) {
        e.scope_id = place.ifindex;
        id_set_place(h, &place);
    }
    endpoint_write(&e, &h->rdma.route.addr.src_storage);
    h->state = ID_BOUND;
    return 0;
}

EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    struct id_handle *h = id_of(id);
    struct endpoint at;

    if (!id_alive(h))
        return id_result(-EIO);
    if (addr == NULL)
        return id_result(-EINVAL);
    if (!endpoint_read(addr, &at))
        return id_result(endpoint_unread(addr));
    return id_result(port_bind(h, &at));
}

static int listen_there(struct id_handle *h, int backlog)
{
    struct endpoint at;
    int result;

    endpoint_read(&h->rdma.route.addr.src_addr, &at);
    result = take(h, &at);
    if (result != 0)
        return result;
    process_lock();
    result = id_make_cm(h);
    if (result == 0)
        result = inside->cm_listen(h->cm, h->service_id, &h->service_local, (uint32_t)backlog);
    process_unlock();
    return result;
}

EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    const struct endpoint anywhere = {.family = AF_INET, .gid = gid_any(true)};
    struct id_handle *h = id_of(id);
    int result = 0;

    if (!id_alive(h))
        return id_result(-EIO);
    if (h->state == ID_IDLE)
        result = port_bind(h, &anywhere);
    if (result == 0 && h->state != ID_BOUND)
        result = -EINVAL;
    if (backlog <= 0 || backlog > BACKLOG_MAX)
        backlog = BACKLOG_MAX;
    if (result == 0)
        result = listen_there(h, backlog);
    if (result == 0)
        h->state = ID_LISTEN;
    return id_result(result);
}

EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    struct endpoint e;

    return endpoint_read(&id->route.addr.src_addr, &e) ? htons(e.port) : 0;
}

EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
    struct endpoint e;

    return endpoint_read(&id->route.addr.dst_addr, &e) ? htons(e.port) : 0;
}
