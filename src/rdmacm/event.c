/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From events of the connection manager to those of the interface: the thread that fetches one
 * makes of it what the application is to see. What a REQ and a REP offer is said from the
 * receiver's side: the READs that it will answer are the sender's initiator depth.
 */
#include <arpa/inet.h>
#include <errno.h>

#include "rdmacm/address.h"
#include "rdmacm/channel.h"
#include "rdmacm/id.h"
#include "rdmacm/multicast.h"
#include "rdmacm/process.h"

static struct rdma_conn_param conn_param(const struct cm_message *m, size_t header_len)
{
    return (struct rdma_conn_param){
        .private_data = m->private_data + header_len,
        .private_data_len = (uint8_t)(cm_private_len(m->kind) - header_len),
        .responder_resources = m->initiator_depth,
        .initiator_depth = m->responder_resources,
        .flow_control = m->flow_control,
        .retry_count = m->retry_count,
        .rnr_retry_count = m->rnr_retry_count,
        .srq = m->srq,
        .qp_num = m->qpn,
    };
}

static uint8_t least(uint8_t a, uint8_t b)
{
    return a < b ? a : b;
}

/*
 * A peer may offer and ask for more than our device does: perftest's servers answer with what their
 * device can, 128 on Linux's soft-RoCE, whatever the REQ said. (IBA 12.7 has it no larger.)
 */
static struct agreement agreement_of(const struct id_handle *h, const struct cm_message *m)
{
    const struct open_device *d = h->place.device;

    return (struct agreement){
        .known = true,
        .path_mtu = (enum ibv_mtu)m->path_mtu,
        .remote_qpn = m->qpn,
        .remote_psn = m->starting_psn,
        .responder_resources = least(m->initiator_depth, d->responder_resources),
        .initiator_depth = least(m->responder_resources, d->initiator_depth),
        .retry_count = m->retry_count,
        .rnr_retry_count = m->rnr_retry_count,
        .ack_timeout = m->primary.ack_timeout,
    };
}

/* --- requests --- */

static void refuse(struct event_handle *e, enum cm_reason reason)
{
    const struct cm_bytes none = {0};

    process_lock();
    if (e->cm.type == CM_EVENT_DATAGRAM_REQUEST)
        inside->cm_resolve_reply(e->cm.id, CM_SIDR_REJECTED, 0, 0, none, inside->node_now());
    else
        inside->cm_reject(e->cm.id, reason, none, none, inside->node_now());
    channel_withdraw(e->id);
    id_free_child(e->id);
    process_unlock();
}

/* An address of the IP header in the private data. */
static struct endpoint endpoint_of(const struct cm_ip_header *header, const uint8_t *address,
                                   uint32_t scope_id, uint16_t port)
{
    const bool is_ipv4 = header->ip_version == 4;

    return (struct endpoint){
        .family = is_ipv4 ? AF_INET : AF_INET6,
        .gid = is_ipv4 ? gid_from_ipv4(address + 12) : gid_from_ipv6(address),
        .scope_id = scope_id,
        .port = port,
    };
}

static void set_addresses(struct id_handle *h, struct id_handle *listener,
                          const struct cm_ip_header *header)
{
    struct rdma_addr *a = &h->rdma.route.addr;
    const uint16_t port = ntohs(rdma_get_src_port(&listener->rdma));
    const struct endpoint src = endpoint_of(header, header->dst, h->path.scope_id, port);
    const struct endpoint dst =
        endpoint_of(header, header->src, h->path.scope_id, header->src_port);

    endpoint_write(&src, &a->src_storage);
    endpoint_write(&dst, &a->dst_storage);
}

/* May this listener have a request that came to an address of this family? */
static bool takes_family(const struct id_handle *listener, const struct cm_ip_header *header)
{
    return header->ip_version == 6 || !listener->one_family ||
           listener->rdma.route.addr.src_addr.sa_family == AF_INET;
}

/* A listener has requests of its own kind of queue pair only, as with Linux. */
static bool takes_service(const struct id_handle *listener, const struct cm_message *m)
{
    switch (listener->rdma.qp_type) {
    case IBV_QPT_UD:
        return m->kind == CM_SIDR_REQ;
    case IBV_QPT_RC:
        return m->kind == CM_REQ && m->transport == CM_TRANSPORT_RC;
    case IBV_QPT_UC:
        return m->kind == CM_REQ && m->transport == CM_TRANSPORT_UC;
    default:
        return m->kind == CM_REQ && m->transport == CM_TRANSPORT_EXTENDED;
    }
}

/* A path MTU that our interface cannot carry; between addresses of this host any can be. */
static bool mtu_fits(const struct id_handle *h, const struct cm_message *m)
{
    struct place other;

    return m->kind != CM_REQ || m->path_mtu <= device_mtu(h->place.device) ||
           device_find(&h->path.dst, h->path.scope_id, &other) == 0;
}

static bool prepare_request(struct event_handle *e)
{
    const struct cm_message *m = &e->cm.message;
    struct id_handle *h = e->id;
    struct id_handle *listener = e->owner;
    struct cm_ip_header header;
    struct place place;

    process_lock();
    h->path = *inside->cm_id_path(e->cm.id);
    process_unlock();
    if (!takes_service(listener, m)) {
        refuse(e, CM_REASON_INVALID_TRANSPORT);
        return false;
    }
    if (!cm_ip_header_read(m->private_data, &header)) {
        refuse(e, CM_REASON_UNSUPPORTED_REQUEST);
        return false;
    }
    if (!takes_family(listener, &header)) {
        refuse(e, CM_REASON_INVALID_SERVICE_ID);
        return false;
    }
    if (device_find(&h->path.src, h->path.scope_id, &place) != 0) {
        refuse(e, CM_REASON_INVALID_GID);
        return false;
    }
    id_set_place(h, &place);
    if (!mtu_fits(h, m)) {
        refuse(e, CM_REASON_INVALID_MTU);
        return false;
    }
    set_addresses(h, listener, &header);
    id_describe_path(h);
    if (m->kind == CM_REQ) {
        h->agreed = agreement_of(h, m);
        e->rdma.param.conn = conn_param(m, CM_IP_HEADER_LEN);
    } else {
        e->rdma.param.ud.private_data = m->private_data + CM_IP_HEADER_LEN;
        e->rdma.param.ud.private_data_len = (uint8_t)(cm_private_len(m->kind) - CM_IP_HEADER_LEN);
    }
    if (id_draw_psn(h) != 0 || (listener->sync && rdma_migrate_id(&h->rdma, NULL) != 0)) {
        refuse(e, CM_REASON_NO_RESOURCES);
        return false;
    }
    e->rdma.listen_id = &listener->rdma;
    return true;
}

/* --- answers --- */

static void prepare_reply(struct event_handle *e)
{
    const struct cm_message *m = &e->cm.message;
    struct id_handle *h = e->id;
    struct agreement a = agreement_of(h, m);
    int result;

    e->rdma.param.conn = conn_param(m, 0);
    /* A REP does not say these again. */
    a.path_mtu = h->agreed.path_mtu;
    a.retry_count = h->agreed.retry_count;
    a.ack_timeout = h->agreed.ack_timeout;
    h->agreed = a;
    e->rdma.event = RDMA_CM_EVENT_CONNECT_RESPONSE;
    if (h->rdma.qp == NULL)
        return; /* the application establishes, with a queue pair that we do not know */
    result = id_establish(h);
    e->rdma.event = result == 0 ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_ERROR;
    e->rdma.status = result;
}

static void prepare_rejected(struct event_handle *e)
{
    const struct cm_message *m = &e->cm.message;

    id_qp_fail(e->id);
    e->rdma.event = RDMA_CM_EVENT_REJECTED;
    e->rdma.status = m->reason;
    e->rdma.param.conn.private_data = m->private_data;
    e->rdma.param.conn.private_data_len = (uint8_t)cm_private_len(m->kind);
}

static void prepare_datagram_reply(struct event_handle *e)
{
    const struct cm_message *m = &e->cm.message;

    if (m->status != CM_SIDR_OK) {
        e->rdma.event = RDMA_CM_EVENT_UNREACHABLE;
        e->rdma.status = m->status;
        return;
    }
    e->rdma.event = RDMA_CM_EVENT_ESTABLISHED;
    e->rdma.param.ud = (struct rdma_ud_param){
        .private_data = m->private_data,
        .private_data_len = (uint8_t)cm_private_len(m->kind),
        .ah_attr = id_address(e->id, &e->id->path),
        .qp_num = m->qpn,
        .qkey = m->qkey,
    };
}

bool event_prepare(struct event_handle *e)
{
    if (e->joined != NULL)
        membership_prepare(e->joined, &e->rdma);
    if (!e->from_cm)
        return true;
    e->rdma.id = &e->id->rdma;
    switch (e->cm.type) {
    case CM_EVENT_REQUEST:
    case CM_EVENT_DATAGRAM_REQUEST:
        e->rdma.event = RDMA_CM_EVENT_CONNECT_REQUEST;
        return prepare_request(e);
    case CM_EVENT_REPLY:
        prepare_reply(e);
        return true;
    case CM_EVENT_ESTABLISHED:
        e->rdma.event = RDMA_CM_EVENT_ESTABLISHED;
        return true;
    case CM_EVENT_REJECTED:
        prepare_rejected(e);
        return true;
    case CM_EVENT_UNREACHABLE:
        id_qp_fail(e->id);
        e->rdma.event = RDMA_CM_EVENT_UNREACHABLE;
        e->rdma.status = -ETIMEDOUT;
        return true;
    case CM_EVENT_DISCONNECTED:
        e->rdma.event = RDMA_CM_EVENT_DISCONNECTED;
        return true;
    case CM_EVENT_TIMEWAIT_OVER:
        e->rdma.event = RDMA_CM_EVENT_TIMEWAIT_EXIT;
        return true;
    case CM_EVENT_DATAGRAM_REPLY:
        prepare_datagram_reply(e);
        return true;
    }
    return false;
}
