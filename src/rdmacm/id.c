/* SPDX-License-Identifier: BSD-2-Clause */
/* Identifiers: their life, their source address and port, and their options. */
#include "rdmacm/id.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "rdmacm/address.h"
#include "rdmacm/channel.h"
#include "rdmacm/multicast.h"
#include "rdmacm/neighbour.h"
#include "rdmacm/port.h"
#include "rdmacm/process.h"
#include "verbs/export.h"

#define PSN_MASK 0xffffffu
/*
 * Where address resolution takes its time, a client that is told to connect at the moment when its
 * server goes to listen comes late enough (perftest -R relies upon that). Ours takes none.
 */
#define PATIENCE_NS 60000000u
#define PKEY 0xffffu
#define PACKET_LIFE_TIME 16u /* 4.096 us times 2 to this: 268 ms */
#define SELECTOR_EXACTLY 2u

bool id_alive(const struct id_handle *h)
{
    return h->generation == process_generation;
}

int id_result(int result)
{
    if (result >= 0)
        return 0;
    errno = -result;
    return -1;
}

int id_complete(struct id_handle *h)
{
    struct rdma_cm_id *id = &h->rdma;

    if (!h->sync)
        return 0;
    if (id->event != NULL)
        rdma_ack_cm_event(id->event);
    id->event = NULL;
    if (rdma_get_cm_event(id->channel, &id->event) != 0)
        return -errno;
    if (id->event->status == 0)
        return 0;
    if (id->event->event == RDMA_CM_EVENT_REJECTED)
        return -ECONNREFUSED;
    /* Those of SIDR are positive and no errno. */
    return id->event->status < 0 ? id->event->status : -ECONNREFUSED;
}

int id_make_cm(struct id_handle *h)
{
    int result;

    if (h->cm != NULL)
        return 0;
    result = inside->cm_id_new(inside->node_cm(process_node()), h, &h->cm);
    if (result == 0)
        inside->cm_id_set_patience(h->cm, PATIENCE_NS);
    return result;
}

int id_draw_psn(struct id_handle *h)
{
    uint32_t psn;

    if (getrandom(&psn, sizeof(psn), 0) != (ssize_t)sizeof(psn))
        return -EIO;
    h->local_psn = psn & PSN_MASK;
    return 0;
}

/* --- life --- */

static bool is_port_space(enum rdma_port_space ps)
{
    return ps == RDMA_PS_TCP || ps == RDMA_PS_UDP || ps == RDMA_PS_IB || ps == RDMA_PS_IPOIB;
}

static struct id_handle *new_handle(struct rdma_event_channel *channel, void *context,
                                    enum rdma_port_space ps, enum ibv_qp_type qp_type)
{
    struct id_handle *h = calloc(1, sizeof(*h));

    if (h == NULL)
        return NULL;
    h->rdma.channel = channel;
    h->rdma.context = context;
    h->rdma.ps = ps;
    h->rdma.qp_type = qp_type;
    h->generation = process_generation;
    list_init(&h->memberships);
    return h;
}

EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                          enum rdma_port_space ps)
{
    const bool datagram = ps == RDMA_PS_UDP || ps == RDMA_PS_IPOIB;
    struct id_handle *h;
    int result;

    if (!is_port_space(ps))
        return id_result(-EINVAL);
    result = process_start();
    if (result != 0)
        return id_result(result);
    h = new_handle(channel, context, ps, datagram ? IBV_QPT_UD : IBV_QPT_RC);
    if (h == NULL)
        return id_result(-ENOMEM);
    if (channel == NULL) {
        h->sync = true;
        h->rdma.channel = rdma_create_event_channel();
    }
    if (h->rdma.channel == NULL) {
        free(h);
        return id_result(-ENOMEM);
    }
    *id = &h->rdma;
    return 0;
}

struct id_handle *id_new_child(const struct id_handle *listener, struct cm_id *cm)
{
    const struct rdma_cm_id *l = &listener->rdma;
    struct id_handle *h = new_handle(l->channel, l->context, l->ps, l->qp_type);

    if (h == NULL)
        return NULL;
    h->tos = listener->tos;
    h->has_ack_timeout = listener->has_ack_timeout;
    h->ack_timeout = listener->ack_timeout;
    h->cm = cm;
    h->state = ID_CONNECT;
    inside->cm_id_set_user(cm, h);
    return h;
}

void id_free_child(struct id_handle *h)
{
    inside->cm_id_set_user(h->cm, NULL);
    inside->cm_id_free(h->cm, inside->node_now());
    free(h);
}

/* Ends the connection, or the listening, and all events of it. */
static void end_connection(struct id_handle *h)
{
    neighbour_forget(h);
    process_lock();
    if (h->cm != NULL) {
        inside->cm_id_set_user(h->cm, NULL);
        channel_withdraw(h);
        inside->cm_id_free(h->cm, inside->node_now());
        h->cm = NULL;
    } else {
        channel_withdraw(h);
    }
    port_give_back(h);
    process_unlock();
}

EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
    struct id_handle *h = id_of(id);

    if (id_alive(h)) {
        end_connection(h);
        if (h->sync && id->event != NULL)
            rdma_ack_cm_event(id->event);
        channel_wait_acked(h);
    }
    if (h->sync)
        rdma_destroy_event_channel(id->channel);
    free(h->qp_init_attr);
    free(h->connect_data);
    memberships_free(h);
    free(h);
    return 0;
}

EXPORT int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    struct id_handle *h = id_of(id);
    struct rdma_event_channel *old = id->channel;
    struct rdma_event_channel *to = channel != NULL ? channel : rdma_create_event_channel();
    const bool was_sync = h->sync;

    if (to == NULL)
        return id_result(-ENOMEM);
    if (was_sync && id->event != NULL)
        rdma_ack_cm_event(id->event);
    if (was_sync)
        id->event = NULL;
    channel_move(h, to);
    h->sync = channel == NULL;
    channel_wait_acked(h);
    if (was_sync)
        rdma_destroy_event_channel(old);
    return 0;
}

/* --- where it is --- */

void id_set_place(struct id_handle *h, const struct place *place)
{
    struct rdma_cm_id *id = &h->rdma;

    h->place = *place;
    id->verbs = place->device->context;
    id->port_num = PORT_NUMBER;
    if (id->pd == NULL)
        id->pd = place->device->pd;
    memcpy(id->route.addr.addr.ibaddr.sgid.raw, place->gid.bytes, sizeof(place->gid.bytes));
    id->route.addr.addr.ibaddr.pkey = htons(PKEY);
}

void id_describe_path(struct id_handle *h)
{
    struct rdma_route *route = &h->rdma.route;
    struct ibv_sa_path_rec *r = &h->path_rec;

    memcpy(route->addr.addr.ibaddr.dgid.raw, h->path.dst.bytes, sizeof(h->path.dst.bytes));
    *r = (struct ibv_sa_path_rec){
        .dgid = route->addr.addr.ibaddr.dgid,
        .sgid = route->addr.addr.ibaddr.sgid,
        .hop_limit = h->path.hop_limit,
        .traffic_class = h->path.traffic_class,
        .reversible = 1,
        .pkey = htons(PKEY),
        .mtu_selector = SELECTOR_EXACTLY,
        .mtu = (uint8_t)device_mtu(h->place.device),
        .rate_selector = SELECTOR_EXACTLY,
        .rate = IBV_RATE_10_GBPS,
        .packet_life_time_selector = SELECTOR_EXACTLY,
        .packet_life_time = PACKET_LIFE_TIME,
    };
    route->path_rec = r;
    route->num_paths = 1;
}

/* --- options --- */

/* Does it send again what is not acknowledged? */
static bool is_acknowledged(const struct id_handle *h)
{
    return h->rdma.qp_type == IBV_QPT_RC || h->rdma.qp_type == IBV_QPT_XRC_SEND;
}

/* Who listens does not share his port any more, and who is bound does not take his word back. */
static int set_reuse_address(struct id_handle *h, bool on)
{
    if (h->state != ID_IDLE && (!on || h->state == ID_LISTEN))
        return -EINVAL;
    h->reuse_address = on;
    return 0;
}

static int set_id_option(struct id_handle *h, int name, const void *value, size_t len)
{
    int flag = 0;

    switch (name) {
    case RDMA_OPTION_ID_TOS:
        if (len != sizeof(h->tos))
            return -EINVAL;
        memcpy(&h->tos, value, len);
        return 0;
    case RDMA_OPTION_ID_ACK_TIMEOUT:
        if (len != sizeof(h->ack_timeout) || *(const uint8_t *)value > 31 || !is_acknowledged(h))
            return -EINVAL;
        memcpy(&h->ack_timeout, value, len);
        h->has_ack_timeout = true;
        return 0;
    case RDMA_OPTION_ID_REUSEADDR:
    case RDMA_OPTION_ID_AFONLY:
        if (len != sizeof(flag))
            return -EINVAL;
        memcpy(&flag, value, len);
        return name == RDMA_OPTION_ID_AFONLY ? port_set_one_family(h, flag != 0)
                                             : set_reuse_address(h, flag != 0);
    default:
        return -ENOSYS;
    }
}

EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval,
                           size_t optlen)
{
    if (level == RDMA_OPTION_ID)
        return id_result(set_id_option(id_of(id), optname, optval, optlen));
    /* The path is what the kernel's routes say. */
    return id_result(level == RDMA_OPTION_IB && optname == RDMA_OPTION_IB_PATH ? 0 : -ENOSYS);
}

/* Extended connection establishment is a dialogue between adapters of one vendor: we have none. */

EXPORT int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    return id_result(id == NULL || ece == NULL ? -EINVAL : 0);
}

EXPORT int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    if (id == NULL || ece == NULL)
        return id_result(-EINVAL);
    *ece = (struct ibv_ece){0};
    return 0;
}
