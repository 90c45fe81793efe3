/* SPDX-License-Identifier: BSD-2-Clause */
/* What the caller asks for: each call checks the state, makes the message and moves on. */
#include <errno.h>
#include <string.h>

#include "cm/cm_private.h"

#define PKEY 0xffffu
#define LID 0xffffu /* RoCE has none; Linux says this */

static bool fits(enum cm_kind kind, struct cm_bytes bytes)
{
    return bytes.len <= cm_private_len(kind);
}

static struct cm_message message_of(const struct cm_id *id, enum cm_kind kind,
                                    struct cm_bytes private_data)
{
    struct cm_message m = {
        .kind = kind,
        .transaction_id = id->transaction_id,
        .local_comm_id = id->comm_id,
        .remote_comm_id = id->peer.comm_id,
    };

    if (private_data.len > 0)
        memcpy(m.private_data, private_data.data, private_data.len);
    return m;
}

static void begin(struct cm_id *id, const struct path *path, uint64_t service_id, uint64_t now)
{
    id->patient_until_ns = now + id->patience_ns;
    id->path = *path;
    id->service_id = service_id;
    id->transaction_id = random_u64(&id->cm->random) >> 32 << 32 | id->comm_id;
}

static struct cm_path path_message(const struct cm_connect *c)
{
    struct cm_path path = {
        .local_lid = LID,
        .remote_lid = LID,
        .flow_label = c->path.flow_label,
        .traffic_class = c->path.traffic_class,
        .hop_limit = c->path.hop_limit,
        .ack_timeout = c->ack_timeout,
    };

    memcpy(path.local_gid, c->path.src.bytes, sizeof(path.local_gid));
    memcpy(path.remote_gid, c->path.dst.bytes, sizeof(path.remote_gid));
    return path;
}

int cm_connect(struct cm_id *id, const struct cm_connect *c, uint64_t now)
{
    struct cm_message m;

    if (id->state != CM_STATE_IDLE)
        return -EINVAL;
    if (!fits(CM_REQ, c->private_data))
        return -EMSGSIZE;
    begin(id, &c->path, c->service_id, now);
    id->qpn = c->qpn;
    m = message_of(id, CM_REQ, c->private_data);
    m.service_id = c->service_id;
    m.ca_guid = c->ca_guid;
    m.qpn = c->qpn;
    m.starting_psn = c->starting_psn;
    m.responder_resources = c->responder_resources;
    m.initiator_depth = c->initiator_depth;
    m.transport = (uint8_t)c->transport;
    m.extended_transport = c->extended_transport;
    m.flow_control = c->flow_control;
    m.remote_response_timeout = CM_RESPONSE_TIMEOUT;
    m.local_response_timeout = CM_RESPONSE_TIMEOUT;
    m.max_cm_retries = CM_RETRIES;
    m.retry_count = c->retry_count;
    m.rnr_retry_count = c->rnr_retry_count;
    m.srq = c->srq;
    m.pkey = PKEY;
    m.path_mtu = c->path_mtu;
    m.primary = path_message(c);
    id->state = CM_STATE_REQ_SENT;
    cm_send(id, &m, now);
    return 0;
}

int cm_accept(struct cm_id *id, const struct cm_accept *a, uint64_t now)
{
    struct cm_message m;

    if (id->state != CM_STATE_REQ_RECEIVED)
        return -EINVAL;
    if (!fits(CM_REP, a->private_data))
        return -EMSGSIZE;
    cm_id_answered(id);
    id->qpn = a->qpn;
    m = message_of(id, CM_REP, a->private_data);
    m.qkey = a->qkey;
    m.qpn = a->qpn;
    m.starting_psn = a->starting_psn;
    m.responder_resources = a->responder_resources;
    m.initiator_depth = a->initiator_depth;
    m.target_ack_delay = a->target_ack_delay;
    m.flow_control = a->flow_control;
    m.rnr_retry_count = a->rnr_retry_count;
    m.srq = a->srq;
    m.ca_guid = a->ca_guid;
    id->state = CM_STATE_REP_SENT;
    cm_send(id, &m, now);
    return 0;
}

/* A REJ of the ID, to what it had from its peer. */
static struct cm_message reject_message(const struct cm_id *id, enum cm_reason reason,
                                        struct cm_bytes info, struct cm_bytes private_data)
{
    struct cm_message m = message_of(id, CM_REJ, private_data);

    m.refused = CM_REFUSED_NONE;
    if (id->state == CM_STATE_REQ_RECEIVED)
        m.refused = CM_REFUSED_REQ;
    if (id->state == CM_STATE_REP_RECEIVED)
        m.refused = CM_REFUSED_REP;
    m.reason = (uint16_t)reason;
    m.info_len = (uint8_t)info.len;
    if (info.len > 0)
        memcpy(m.info, info.data, info.len);
    return m;
}

void cm_refuse(struct cm_id *id, enum cm_reason reason, struct cm_bytes info,
               struct cm_bytes private_data, uint64_t now)
{
    const struct cm_message m = reject_message(id, reason, info, private_data);

    cm_id_answered(id);
    cm_answer(id, &m, now);
}

void cm_send_reject(struct cm_id *id, enum cm_reason reason)
{
    const struct cm_bytes none = {0};
    const struct cm_message m = reject_message(id, reason, none, none);

    cm_reply(id->cm, &id->path, &m);
}

/* Until the connection is established (IBA 12.9.7), also by who asked or has answered, as Linux. */
static bool may_reject(enum cm_state state)
{
    return state == CM_STATE_REQ_RECEIVED || state == CM_STATE_REP_RECEIVED ||
           state == CM_STATE_REQ_SENT || state == CM_STATE_REP_SENT;
}

int cm_reject(struct cm_id *id, enum cm_reason reason, struct cm_bytes info,
              struct cm_bytes private_data, uint64_t now)
{
    if (!may_reject(id->state))
        return -EINVAL;
    if (!fits(CM_REJ, private_data) || info.len > CM_INFO_MAX)
        return -EMSGSIZE;
    cm_refuse(id, reason, info, private_data, now);
    return 0;
}

int cm_establish(struct cm_id *id, struct cm_bytes private_data, uint64_t now)
{
    struct cm_message m;

    if (id->state != CM_STATE_REP_RECEIVED)
        return -EINVAL;
    if (!fits(CM_RTU, private_data))
        return -EMSGSIZE;
    m = message_of(id, CM_RTU, private_data);
    cm_write(&m, id->mad); /* said again if the REP comes again */
    cm_enter_established(id, now);
    cm_send_again(id);
    return 0;
}

int cm_note_traffic(struct cm_id *id, uint64_t now)
{
    if (id->state == CM_STATE_ESTABLISHED)
        return -EISCONN;
    if (id->state != CM_STATE_REP_SENT)
        return -EINVAL;
    cm_enter_established(id, now);
    cm_raise(id, CM_EVENT_ESTABLISHED, NULL, NULL);
    return 0;
}

int cm_disconnect(struct cm_id *id, struct cm_bytes private_data, uint64_t now)
{
    struct cm_message m;

    if (id->state != CM_STATE_ESTABLISHED)
        return -EINVAL;
    if (!fits(CM_DREQ, private_data))
        return -EMSGSIZE;
    m = message_of(id, CM_DREQ, private_data);
    m.qpn = id->remote.qpn;
    cm_forget_qp(id); /* it may connect anew from now on */
    id->state = CM_STATE_DREQ_SENT;
    cm_send(id, &m, now);
    return 0;
}

void cm_send_mra(struct cm_id *id)
{
    const struct cm_bytes none = {0};
    struct cm_message m = message_of(id, CM_MRA, none);

    m.refused = id->state == CM_STATE_REQ_RECEIVED ? CM_REFUSED_REQ : CM_REFUSED_REP;
    m.service_timeout = CM_SERVICE_TIMEOUT;
    id->peer_waits = true;
    cm_reply(id->cm, &id->path, &m);
}

static struct cm_message drep_to(const struct cm_message *dreq)
{
    return (struct cm_message){
        .kind = CM_DREP,
        .transaction_id = dreq->transaction_id,
        .local_comm_id = dreq->remote_comm_id,
        .remote_comm_id = dreq->local_comm_id,
    };
}

void cm_end_with_drep(struct cm_id *id, const struct cm_message *dreq, uint64_t now)
{
    const struct cm_message m = drep_to(dreq);

    cm_enter_timewait(id, now);
    cm_write(&m, id->mad);
    id->said_drep = true;
    cm_send_again(id);
}

void cm_send_drep(struct cm *cm, const struct path *path, const struct cm_message *dreq)
{
    const struct cm_message m = drep_to(dreq);

    cm_reply(cm, path, &m);
}

int cm_resolve(struct cm_id *id, const struct path *path, uint64_t service_id,
               struct cm_bytes private_data, uint64_t now)
{
    struct cm_message m;

    if (id->state != CM_STATE_IDLE)
        return -EINVAL;
    if (!fits(CM_SIDR_REQ, private_data))
        return -EMSGSIZE;
    begin(id, path, service_id, now);
    m = message_of(id, CM_SIDR_REQ, private_data);
    m.pkey = PKEY;
    m.service_id = service_id;
    id->state = CM_STATE_SIDR_SENT;
    cm_send(id, &m, now);
    return 0;
}

int cm_resolve_reply(struct cm_id *id, enum cm_sidr_status status, uint32_t qpn, uint32_t qkey,
                     struct cm_bytes private_data, uint64_t now)
{
    struct cm_message m;

    if (id->state != CM_STATE_SIDR_RECEIVED)
        return -EINVAL;
    if (!fits(CM_SIDR_REP, private_data))
        return -EMSGSIZE;
    cm_id_answered(id);
    m = message_of(id, CM_SIDR_REP, private_data);
    m.local_comm_id = id->peer.comm_id; /* the request's ID is the only one */
    m.status = (uint8_t)status;
    m.service_id = id->service_id;
    m.qpn = status == CM_SIDR_OK ? qpn : 0;
    m.qkey = status == CM_SIDR_OK ? qkey : 0;
    cm_answer(id, &m, now);
    return 0;
}
