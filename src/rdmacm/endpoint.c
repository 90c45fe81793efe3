/* SPDX-License-Identifier: BSD-2-Clause */
/* Names to addresses, and identifiers made of the answer in one call (rdma_create_ep). */
#include <errno.h>
#include <netdb.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/address.h"
#include "rdmacm/id.h"
#include "verbs/export.h"

#define RESOLVE_MS 2000

/* --- rdma_getaddrinfo --- */

/* A copy, or NULL with errno. */
static void *copy_of(const void *from, size_t len)
{
    void *copy = malloc(len);

    if (copy != NULL)
        memcpy(copy, from, len);
    return copy;
}

static int set_address(struct sockaddr **address, socklen_t *address_len_out, char **name,
                       const struct addrinfo *found)
{
    *address = copy_of(found->ai_addr, found->ai_addrlen);
    if (*address == NULL)
        return EAI_MEMORY;
    *address_len_out = found->ai_addrlen;
    if (found->ai_canonname != NULL)
        *name = strdup(found->ai_canonname);
    return 0;
}

static bool is_of_datagrams(int port_space)
{
    return port_space == RDMA_PS_UDP || port_space == RDMA_PS_IPOIB;
}

/* 0: any. */
static int socket_type(const struct rdma_addrinfo *hints)
{
    switch (hints->ai_qp_type) {
    case 0:
        return is_of_datagrams(hints->ai_port_space) ? SOCK_DGRAM : SOCK_STREAM;
    case IBV_QPT_UD:
        return SOCK_DGRAM;
    case IBV_QPT_RC:
    case IBV_QPT_UC:
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV:
        return SOCK_STREAM;
    default:
        return 0;
    }
}

/* With the protocol, getaddrinfo itself refuses a queue pair that its port space has not. */
static int protocol(int port_space)
{
    if (port_space == RDMA_PS_TCP)
        return IPPROTO_TCP;
    return is_of_datagrams(port_space) ? IPPROTO_UDP : 0;
}

static struct addrinfo as_hints(const struct rdma_addrinfo *hints)
{
    static const struct rdma_addrinfo none;
    const struct rdma_addrinfo *h = hints != NULL ? hints : &none;

    return (struct addrinfo){
        .ai_flags = (h->ai_flags & RAI_PASSIVE ? AI_PASSIVE : 0) |
                    (h->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0),
        .ai_family = h->ai_family == AF_IB ? AF_UNSPEC : h->ai_family,
        .ai_socktype = socket_type(h),
        .ai_protocol = protocol(h->ai_port_space),
    };
}

/* 0 or a code of getaddrinfo. */
static int look_up(const char *node, const char *service, const struct rdma_addrinfo *hints,
                   struct rdma_addrinfo *out)
{
    const struct addrinfo want = as_hints(hints);
    struct addrinfo *found;
    int error;

    /* A GID as a name: there is no AF_IB here (docs/protocol-support.md). */
    if (hints != NULL && hints->ai_family == AF_IB && (hints->ai_flags & RAI_FAMILY) != 0 &&
        node != NULL)
        return EAI_FAMILY;
    error = getaddrinfo(node, service, &want, &found);
    if (error != 0)
        return error;
    if ((out->ai_flags & RAI_PASSIVE) != 0)
        error = set_address(&out->ai_src_addr, &out->ai_src_len, &out->ai_src_canonname, found);
    else
        error = set_address(&out->ai_dst_addr, &out->ai_dst_len, &out->ai_dst_canonname, found);
    out->ai_family = found->ai_family;
    freeaddrinfo(found);
    if (out->ai_port_space == 0)
        out->ai_port_space = out->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
    if (out->ai_qp_type == 0)
        out->ai_qp_type = is_of_datagrams(out->ai_port_space) ? IBV_QPT_UD : IBV_QPT_RC;
    return error;
}

/* An address that the hints bring along. 0 or EAI_MEMORY. */
static int bring(struct sockaddr **address, socklen_t *address_len_out, const struct sockaddr *from,
                 socklen_t len)
{
    if (len == 0)
        return 0;
    *address = copy_of(from, len);
    *address_len_out = len;
    return *address != NULL ? 0 : EAI_MEMORY;
}

EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
    while (res != NULL) {
        struct rdma_addrinfo *next = res->ai_next;

        free(res->ai_src_addr);
        free(res->ai_dst_addr);
        free(res->ai_src_canonname);
        free(res->ai_dst_canonname);
        free(res->ai_route);
        free(res->ai_connect);
        free(res);
        res = next;
    }
}

EXPORT int rdma_getaddrinfo(const char *node, const char *service,
                            const struct rdma_addrinfo *hints, struct rdma_addrinfo **res)
{
    const bool named = node != NULL || service != NULL;
    struct rdma_addrinfo *out;
    int error = 0;

    if ((!named && hints == NULL) || res == NULL)
        return id_result(-EINVAL);
    out = calloc(1, sizeof(*out));
    if (out == NULL)
        return id_result(-ENOMEM);
    if (hints != NULL) {
        out->ai_flags = named ? hints->ai_flags & RAI_PASSIVE : hints->ai_flags;
        out->ai_family = hints->ai_family;
        out->ai_qp_type = hints->ai_qp_type;
        out->ai_port_space = hints->ai_port_space;
    }
    if (named)
        error = look_up(node, service, hints, out);
    /* Nothing is asked for by hints alone, and they are the answer. */
    if (error == 0 && hints != NULL && out->ai_src_addr == NULL)
        error = bring(&out->ai_src_addr, &out->ai_src_len, hints->ai_src_addr, hints->ai_src_len);
    if (error == 0 && hints != NULL && !named)
        error = bring(&out->ai_dst_addr, &out->ai_dst_len, hints->ai_dst_addr, hints->ai_dst_len);
    if (error != 0) {
        rdma_freeaddrinfo(out);
        return error;
    }
    *res = out;
    return 0;
}

/* --- rdma_create_ep --- */

/* 0 or a negative errno. */
static int make_passive(struct rdma_cm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
                        const struct ibv_qp_init_attr *attr)
{
    struct id_handle *h = id_of(id);

    if (rdma_bind_addr(id, res->ai_src_addr) != 0)
        return -errno;
    if (pd != NULL)
        id->pd = pd;
    if (attr == NULL)
        return 0;
    h->qp_init_attr = copy_of(attr, sizeof(*attr));
    if (h->qp_init_attr == NULL)
        return -ENOMEM;
    h->qp_init_attr->qp_type = id->qp_type;
    return 0;
}

static int make_active(struct rdma_cm_id *id, const struct rdma_addrinfo *res, struct ibv_pd *pd,
                       struct ibv_qp_init_attr *attr)
{
    struct id_handle *h = id_of(id);

    if (rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, RESOLVE_MS) != 0 ||
        rdma_resolve_route(id, RESOLVE_MS) != 0)
        return -errno;
    if (attr != NULL) {
        attr->qp_type = id->qp_type;
        if (rdma_create_qp(id, pd, attr) != 0)
            return -errno;
    }
    if (res->ai_connect_len == 0)
        return 0;
    h->connect_data = copy_of(res->ai_connect, res->ai_connect_len);
    h->connect_len = res->ai_connect_len;
    return h->connect_data != NULL ? 0 : -ENOMEM;
}

EXPORT int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
                          struct ibv_qp_init_attr *qp_init_attr)
{
    struct rdma_cm_id *made;
    int result;

    if (rdma_create_id(NULL, &made, NULL, (enum rdma_port_space)res->ai_port_space) != 0)
        return -1;
    if (res->ai_qp_type != 0)
        made->qp_type = (enum ibv_qp_type)res->ai_qp_type;
    if ((res->ai_flags & RAI_PASSIVE) != 0)
        result = make_passive(made, res, pd, qp_init_attr);
    else
        result = make_active(made, res, pd, qp_init_attr);
    if (result == 0)
        *id = made;
    else
        rdma_destroy_ep(made);
    return id_result(result);
}

EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
    if (id->qp != NULL)
        rdma_destroy_qp(id);
    if (id->srq != NULL)
        rdma_destroy_srq(id);
    rdma_destroy_id(id);
}
