/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asking for connections, accepting, refusing and ending them. With a queue pair of the ID the
 * library changes its states; without one the application does (rdma_init_qp_attr) and says when
 * it is done (rdma_establish).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/address.h"
#include "rdmacm/channel.h"
#include "rdmacm/id.h"
#include "rdmacm/process.h"
#include "verbs/export.h"

#define RETRIES_MAX 7u
#define ACK_TIMEOUT 17u /* 4.096 us times 2 to this, 0.5 s: a packet's life both ways, as Linux */
#define ACK_DELAY 15u   /* how long our answer may take, as Linux's soft-RoCE says */
#define REQ_DATA_MAX (92u - CM_IP_HEADER_LEN)
#define SIDR_REQ_DATA_MAX (216u - CM_IP_HEADER_LEN)

static const struct cm_bytes none;

/* Parameters that the application left to us. */
static const struct rdma_conn_param defaults = {
    .responder_resources = RDMA_MAX_RESP_RES,
    .initiator_depth = RDMA_MAX_INIT_DEPTH,
    .retry_count = RETRIES_MAX,
    .rnr_retry_count = RETRIES_MAX,
};

static struct cm_bytes data_of(const struct rdma_conn_param *p)
{
    return (struct cm_bytes){p->private_data, p->private_data != NULL ? p->private_data_len : 0};
}

static uint8_t least(uint32_t a, uint32_t b)
{
    return (uint8_t)(a < b ? a : b);
}

/* More READs at a time than the device does. 255 stands for all that it does. */
static bool too_many(const struct id_handle *h, const struct rdma_conn_param *p)
{
    const struct open_device *d = h->place.device;

    return (p->responder_resources != RDMA_MAX_RESP_RES &&
            p->responder_resources > d->responder_resources) ||
           (p->initiator_depth != RDMA_MAX_INIT_DEPTH && p->initiator_depth > d->initiator_depth);
}

static uint32_t qpn_of(const struct id_handle *h, const struct rdma_conn_param *p)
{
    return h->rdma.qp != NULL ? h->rdma.qp->qp_num : p->qp_num;
}

static uint8_t srq_of(const struct id_handle *h, const struct rdma_conn_param *p)
{
    return h->rdma.qp != NULL ? h->rdma.qp->srq != NULL : p->srq != 0;
}

/* --- asking --- */

/* The IP header and the application's data behind it. Returns their length, or -EINVAL. */
static int private_data(const struct id_handle *h, struct cm_bytes data, size_t max, uint8_t *out)
{
    struct endpoint src, dst;
    struct cm_ip_header header = {0};
    const size_t at = sizeof(header.src) - 4;

    if (data.len > max)
        return -EINVAL;
    endpoint_read(&h->rdma.route.addr.src_addr, &src);
    endpoint_read(&h->rdma.route.addr.dst_addr, &dst);
    header.ip_version = src.family == AF_INET ? 4 : 6;
    header.src_port = src.port;
    memcpy(header.src, src.gid.bytes, sizeof(header.src));
    memcpy(header.dst, dst.gid.bytes, sizeof(header.dst));
    if (header.ip_version == 4) {
        memset(header.src, 0, at);
        memset(header.dst, 0, at);
    }
    cm_ip_header_write(&header, out);
    if (data.len > 0)
        memcpy(out + CM_IP_HEADER_LEN, data.data, data.len);
    return (int)(CM_IP_HEADER_LEN + data.len);
}

static uint64_t service_of_peer(const struct id_handle *h)
{
    struct endpoint dst;

    endpoint_read(&h->rdma.route.addr.dst_addr, &dst);
    return cm_service_id((uint32_t)h->rdma.ps, dst.port);
}

static int ask_for_datagrams(struct id_handle *h, const struct rdma_conn_param *p)
{
    uint8_t data[CM_IP_HEADER_LEN + SIDR_REQ_DATA_MAX];
    const int len = private_data(h, data_of(p), SIDR_REQ_DATA_MAX, data);
    int result;

    if (len < 0)
        return len;
    process_lock();
    result = id_make_cm(h);
    if (result == 0)
        result = inside->cm_resolve(h->cm, &h->path, service_of_peer(h),
                                    (struct cm_bytes){data, (size_t)len}, inside->node_now());
    process_unlock();
    return result;
}

static uint8_t transport_of(const struct id_handle *h)
{
    if (h->rdma.qp_type == IBV_QPT_UC)
        return CM_TRANSPORT_UC;
    return h->rdma.qp_type == IBV_QPT_RC ? CM_TRANSPORT_RC : CM_TRANSPORT_EXTENDED;
}

static int ask_for_connection(struct id_handle *h, const struct rdma_conn_param *p)
{
    const struct open_device *d = h->place.device;
    uint8_t data[CM_IP_HEADER_LEN + REQ_DATA_MAX];
    const int len = private_data(h, data_of(p), REQ_DATA_MAX, data);
    struct cm_connect c = {
        .path = h->path,
        .service_id = service_of_peer(h),
        .ca_guid = d->guid,
        .qpn = qpn_of(h, p),
        .transport = transport_of(h),
        .extended_transport = transport_of(h) == CM_TRANSPORT_EXTENDED,
        .responder_resources = least(p->responder_resources, d->responder_resources),
        .initiator_depth = least(p->initiator_depth, d->initiator_depth),
        .flow_control = p->flow_control != 0,
        .retry_count = least(p->retry_count, RETRIES_MAX),
        .rnr_retry_count = least(p->rnr_retry_count, RETRIES_MAX),
        .srq = srq_of(h, p),
        .path_mtu = (uint8_t)device_mtu(d),
        .ack_timeout = h->has_ack_timeout ? h->ack_timeout : ACK_TIMEOUT,
        .private_data = {data, len > 0 ? (size_t)len : 0},
    };
    int result = len < 0 ? len : id_draw_psn(h);

    if (result != 0)
        return result;
    c.starting_psn = h->local_psn;
    h->agreed = (struct agreement){
        .path_mtu = (enum ibv_mtu)c.path_mtu,
        .retry_count = c.retry_count,
        .ack_timeout = c.ack_timeout,
    };
    process_lock();
    result = id_make_cm(h);
    if (result == 0)
        result = inside->cm_connect(h->cm, &c, inside->node_now());
    process_unlock();
    return result;
}

EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
    struct id_handle *h = id_of(id);
    struct rdma_conn_param p = conn_param != NULL ? *conn_param : defaults;
    int result;

    if (!id_alive(h))
        return id_result(-EIO);
    if (h->state != ID_ROUTE_RESOLVED)
        return id_result(-EINVAL);
    if (h->connect_len > 0 && data_of(&p).len == 0) {
        p.private_data = h->connect_data;
        p.private_data_len = (uint8_t)h->connect_len;
    }
    if (id_is_datagram(h))
        result = ask_for_datagrams(h, &p);
    else
        result = too_many(h, &p) ? -EINVAL : ask_for_connection(h, &p);
    if (result == 0)
        h->state = ID_CONNECT;
    return id_result(result == 0 ? id_complete(h) : result);
}

int id_establish(struct id_handle *h)
{
    int result = id_qp_ready(h);

    process_lock();
    if (result == 0)
        result = inside->cm_establish(h->cm, none, inside->node_now());
    else
        inside->cm_reject(h->cm, CM_REASON_NO_RESOURCES, none, none, inside->node_now());
    process_unlock();
    if (result != 0)
        id_qp_fail(h);
    return result;
}

EXPORT int rdma_establish(struct rdma_cm_id *id)
{
    struct id_handle *h = id_of(id);
    int result;

    if (!id_alive(h))
        return id_result(-EIO);
    if (id->qp != NULL || h->cm == NULL)
        return id_result(-EINVAL);
    process_lock();
    result = inside->cm_establish(h->cm, none, inside->node_now());
    process_unlock();
    return id_result(result);
}

/* --- answering --- */

static int accept_datagrams(struct id_handle *h, const struct rdma_conn_param *p)
{
    int result;

    process_lock();
    result = inside->cm_resolve_reply(h->cm, CM_SIDR_OK, qpn_of(h, p), RDMA_UDP_QKEY, data_of(p),
                                      inside->node_now());
    process_unlock();
    return result;
}

/* What is answered and asked at a time: what the application says, or all that both can. */
static void settle_depths(struct id_handle *h, const struct rdma_conn_param *p)
{
    struct agreement *a = &h->agreed;

    if (p->responder_resources == RDMA_MAX_RESP_RES)
        a->responder_resources =
            least(a->responder_resources, h->place.device->responder_resources);
    else
        a->responder_resources = p->responder_resources;
    if (p->initiator_depth == RDMA_MAX_INIT_DEPTH)
        a->initiator_depth = least(a->initiator_depth, h->place.device->initiator_depth);
    else
        a->initiator_depth = p->initiator_depth;
}

static int accept_connection(struct id_handle *h, const struct rdma_conn_param *p)
{
    struct cm_accept accept;
    int result;

    if (too_many(h, p))
        return -EINVAL;
    /* rdma_init_qp_attr may have told it already. */
    settle_depths(h, p);
    if (h->rdma.qp != NULL) {
        result = id_qp_ready(h);
        if (result != 0)
            return result;
    }
    accept = (struct cm_accept){
        .ca_guid = h->place.device->guid,
        .qpn = qpn_of(h, p),
        .starting_psn = h->local_psn,
        .responder_resources = h->agreed.responder_resources,
        .initiator_depth = h->agreed.initiator_depth,
        .target_ack_delay = ACK_DELAY,
        .flow_control = p->flow_control != 0,
        .rnr_retry_count = least(p->rnr_retry_count, RETRIES_MAX),
        .srq = srq_of(h, p),
        .private_data = data_of(p),
    };
    process_lock();
    result = inside->cm_accept(h->cm, &accept, inside->node_now());
    process_unlock();
    if (result != 0)
        id_qp_fail(h);
    return result == -EMSGSIZE ? -EINVAL : result;
}

EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *conn_param)
{
    struct id_handle *h = id_of(id);
    const struct rdma_conn_param p = conn_param != NULL ? *conn_param : defaults;
    int result;

    if (!id_alive(h))
        return id_result(-EIO);
    if (h->state != ID_CONNECT)
        return id_result(-EINVAL);
    if (id_is_datagram(h))
        return id_result(accept_datagrams(h, &p));
    result = accept_connection(h, &p);
    return id_result(result == 0 ? id_complete(h) : result);
}

static int reject(struct rdma_cm_id *id, enum cm_reason reason, struct cm_bytes data)
{
    struct id_handle *h = id_of(id);
    int result;

    if (!id_alive(h))
        return -EIO;
    if (h->cm == NULL)
        return -EINVAL;
    process_lock();
    if (id_is_datagram(h))
        result = inside->cm_resolve_reply(h->cm, CM_SIDR_REJECTED, 0, 0, data, inside->node_now());
    else
        result = inside->cm_reject(h->cm, reason, none, data, inside->node_now());
    process_unlock();
    return result == -EMSGSIZE ? -EINVAL : result;
}

EXPORT int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
    const struct cm_bytes data = {private_data, private_data != NULL ? private_data_len : 0};

    return id_result(reject(id, CM_REASON_CONSUMER, data));
}

EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data,
                           uint8_t private_data_len)
{
    const struct cm_bytes data = {private_data, private_data != NULL ? private_data_len : 0};

    return id_result(reject(id, CM_REASON_VENDOR_OPTION, data));
}

EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
    struct id_handle *h = id_of(listen);
    struct rdma_cm_event *event;
    int result = 0;

    if (!h->sync || id == NULL)
        return id_result(-EINVAL);
    if (listen->event != NULL)
        rdma_ack_cm_event(listen->event);
    listen->event = NULL;
    if (rdma_get_cm_event(listen->channel, &event) != 0)
        return -1;
    if (event->status != 0 || event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
        result = event->status != 0 ? -ECONNABORTED : -EINVAL;
    if (result == 0 && h->qp_init_attr != NULL) {
        struct ibv_qp_init_attr attr = *h->qp_init_attr;

        if (rdma_create_qp(event->id, listen->pd, &attr) != 0)
            result = -errno;
    }
    if (result != 0) {
        listen->event = event;
        return id_result(result);
    }
    *id = event->id;
    event->id->event = event;
    return 0;
}

/* --- afterwards --- */

EXPORT int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
    struct id_handle *h = id_of(id);
    int result;

    if (!id_alive(h))
        return id_result(-EIO);
    if (h->cm == NULL || event != IBV_EVENT_COMM_EST)
        return id_result(-EINVAL);
    process_lock();
    result = inside->cm_note_traffic(h->cm, inside->node_now());
    process_unlock();
    return id_result(result);
}

EXPORT int rdma_disconnect(struct rdma_cm_id *id)
{
    struct id_handle *h = id_of(id);

    if (!id_alive(h))
        return id_result(-EIO);
    if (h->cm == NULL || id->verbs == NULL)
        return id_result(-EINVAL);
    id_qp_fail(h);
    process_lock();
    /* -EINVAL: there is no connection, or the peer ended it; no error, as with Linux. */
    inside->cm_disconnect(h->cm, none, inside->node_now());
    process_unlock();
    return id_result(id_complete(h));
}
