/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Joining and leaving multicast groups. On RoCE v2 a group is an IP group and nobody has to be
 * asked, so the answer is certain at once and an event all the same. Membership in the network is
 * the node's, and lasts while some queue pair is attached: the ID's is by the thread that fetches
 * the event, as in rdma-core; an application with a queue pair of its own attaches it itself.
 */
#include "rdmacm/multicast.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/channel.h"
#include "rdmacm/id.h"
#include "verbs/export.h"
#include "wire/packet.h"

#define HOP_LIMIT 64u

static union ibv_gid mgid_of(const struct membership *m)
{
    union ibv_gid mgid;

    memcpy(mgid.raw, m->group.gid.bytes, sizeof(mgid.raw));
    return mgid;
}

static bool attaches(const struct membership *m)
{
    return m->id->rdma.qp != NULL && !m->send_only;
}

/* 0 or a negative errno. */
static int attach(const struct membership *m)
{
    const union ibv_gid mgid = mgid_of(m);

    if (!gid_is_multicast(&m->group.gid))
        return -EINVAL;
    return attaches(m) ? -ibv_attach_mcast(m->id->rdma.qp, &mgid, 0) : 0;
}

void membership_prepare(struct membership *m, struct rdma_cm_event *event)
{
    const struct path path = {
        .dst = m->group.gid, .traffic_class = m->id->tos, .hop_limit = HOP_LIMIT};

    event->status = attach(m);
    event->event =
        event->status == 0 ? RDMA_CM_EVENT_MULTICAST_JOIN : RDMA_CM_EVENT_MULTICAST_ERROR;
    event->param.ud = (struct rdma_ud_param){
        .private_data = m->context,
        .ah_attr = id_address(m->id, &path),
        .qp_num = QPN_MULTICAST,
        .qkey = RDMA_UDP_QKEY,
    };
}

static void end(struct membership *m)
{
    list_remove(&m->link);
    free(m);
}

void memberships_free(struct id_handle *h)
{
    struct list *link;

    while ((link = list_pop_head(&h->memberships)) != NULL)
        free(LIST_ENTRY(link, struct membership, link));
}

/* --- joining --- */

static int join(struct id_handle *h, const struct sockaddr *address, bool send_only, void *context)
{
    struct membership *m;
    struct endpoint group;
    int result;

    if (!id_alive(h))
        return -EIO;
    if (address == NULL || !endpoint_read(address, &group) || endpoint_is_any(&group))
        return -EINVAL;
    if (!id_is_datagram(h) || h->place.device == NULL ||
        (h->state != ID_BOUND && h->state != ID_ADDRESS_RESOLVED))
        return -EINVAL;
    m = calloc(1, sizeof(*m));
    if (m == NULL)
        return -ENOMEM;
    *m = (struct membership){.id = h, .group = group, .send_only = send_only, .context = context};
    list_push_tail(&h->memberships, &m->link);
    result = channel_raise_joined(m);
    if (result != 0) {
        end(m);
        return result;
    }
    return id_complete(h);
}

EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
    return id_result(join(id_of(id), addr, false, context));
}

EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id,
                                  struct rdma_cm_join_mc_attr_ex *mc_join_attr, void *context)
{
    const uint32_t required = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;

    if (mc_join_attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED)
        return id_result(-ENOTSUP);
    if (mc_join_attr->comp_mask != required ||
        mc_join_attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
        return id_result(-EINVAL);
    return id_result(join(id_of(id), mc_join_attr->addr,
                          mc_join_attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
                          context));
}

/* --- leaving --- */

/* The one that was joined last, as rdma-core's; NULL: none. Ports do not count. */
static struct membership *find(const struct id_handle *h, const struct endpoint *group)
{
    for (struct list *l = h->memberships.prev; l != &h->memberships; l = l->prev) {
        struct membership *m = LIST_ENTRY(l, struct membership, link);

        if (gid_equal(&m->group.gid, &group->gid))
            return m;
    }
    return NULL;
}

EXPORT int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
    struct id_handle *h = id_of(id);
    struct membership *m;
    struct endpoint group;
    union ibv_gid mgid;

    if (!id_alive(h))
        return id_result(-EIO);
    if (addr == NULL || !endpoint_read(addr, &group))
        return id_result(-EINVAL);
    m = find(h, &group);
    if (m == NULL)
        return id_result(-EADDRNOTAVAIL);
    channel_end_membership(m);
    mgid = mgid_of(m);
    if (attaches(m))
        ibv_detach_mcast(id->qp, &mgid, 0); /* it may never have been: its event was not fetched */
    end(m);
    return 0;
}
