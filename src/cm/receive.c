/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Management datagrams in. A message finds its ID by the receiver's own
 * communication ID in it, a request its listener by service ID; a request
 * that came before is known by its sender's ID. What each message does in each
 * state is in its handler, and what does not fit is counted.
 */
#include <errno.h>
#include <string.h>

#include "cm/cm_private.h"
#include "wire/packet.h"

#define XRC 1u            /* extended_transport */
#define PATH_MTU_LEAST 1u /* 256 */
#define PATH_MTU_MOST 5u  /* 4096 */

static struct path path_back(const struct datagram *d)
{
    return (struct path){
        .src = d->dst,
        .dst = d->src,
        .scope_id = gid_is_link_local(&d->src) ? d->scope_id : 0,
        .traffic_class = d->traffic_class & 0xfcu,
        .hop_limit = 64,
    };
}

static void refuse(struct cm *cm, const struct datagram *d, const struct cm_message *m,
                   enum cm_refused refused, enum cm_reason reason)
{
    const struct cm_message rej = {
        .kind = CM_REJ,
        .transaction_id = m->transaction_id,
        .remote_comm_id = m->local_comm_id,
        .refused = (uint8_t)refused,
        .reason = (uint16_t)reason,
    };
    const struct path path = path_back(d);

    cm_reply(cm, &path, &rej);
}

/*
 * Whether the peer's queue pair is in another connection, which it then knows nothing of. That one
 * is ended, and the message is to be refused; the peer may ask again (IBA 12.9.8.3.1).
 */
static bool is_stale(struct cm *cm, const struct datagram *d, const struct cm_message *m,
                     uint64_t now)
{
    const struct cm_qp_key key = {.gid = d->src, .qpn = m->qpn};
    const struct cm_bytes none = {0};
    struct cm_id *id = cm_find_qp(cm, &key);

    if (id == NULL)
        return false;
    cm->counters.stale++;
    if (id->state == CM_STATE_REP_SENT) {
        cm_stop(id);
        id->state = CM_STATE_ESTABLISHED; /* at least the peer may think so */
        cm_raise(id, CM_EVENT_ESTABLISHED, NULL, NULL);
    }
    if (id->state == CM_STATE_ESTABLISHED)
        cm_disconnect(id, none, now);
    return true;
}

/* A new ID for a request, known to its peer, or NULL with the reason counted. */
static struct cm_id *take_request(struct cm *cm, const struct datagram *d,
                                  const struct cm_message *m, struct cm_id *listener)
{
    struct cm_id *id;

    if (listener->waiting >= listener->backlog) {
        cm->counters.backlog_full++;
        return NULL;
    }
    if (cm_id_new(cm, listener->user, &id) != 0) {
        cm->counters.ids_exhausted++;
        return NULL;
    }
    id->path = path_back(d);
    id->service_id = m->service_id;
    id->transaction_id = m->transaction_id;
    cm_set_peer(id, &d->src, m->local_comm_id, m->kind == CM_SIDR_REQ);
    id->listener = listener;
    listener->waiting++;
    return id;
}

/* A message that has come before is answered as then. */
static void repeat_answer(struct cm_id *id)
{
    id->cm->counters.duplicates++;
    if (id->state == CM_STATE_REP_SENT || id->state == CM_STATE_ANSWERED)
        cm_send_again(id);
    else if (id->state == CM_STATE_REQ_RECEIVED)
        cm_send_mra(id);
}

/* 0, or why no application is to see this request. */
static unsigned fault_of(const struct cm_message *req)
{
    const bool extended = req->transport == CM_TRANSPORT_EXTENDED;

    if (req->transport == CM_TRANSPORT_RD || (extended && req->extended_transport != XRC))
        return CM_REASON_INVALID_TRANSPORT;
    if (req->path_mtu < PATH_MTU_LEAST || req->path_mtu > PATH_MTU_MOST)
        return CM_REASON_INVALID_MTU;
    return 0;
}

/* How long the peer goes on waiting for answers, within reason. */
static void take_patience(struct cm_id *id, const struct cm_message *req)
{
    uint8_t code = req->local_response_timeout;

    if (code < CM_RESPONSE_TIMEOUT_LEAST)
        code = CM_RESPONSE_TIMEOUT_LEAST;
    if (code > CM_RESPONSE_TIMEOUT_MOST)
        code = CM_RESPONSE_TIMEOUT_MOST;
    id->answer_ns = cm_code_ns(code);
    id->retries = req->max_cm_retries;
}

static struct cm_id *listener_of(struct cm *cm, uint64_t service_id, const struct datagram *d)
{
    const struct gid local = cm_listen_address(&d->dst, d->scope_id);

    return cm_find_listener(cm, service_id, &local);
}

static void receive_req(struct cm *cm, const struct datagram *d, const struct cm_message *m,
                        uint64_t now)
{
    const struct cm_peer_key key = {.gid = d->src, .comm_id = m->local_comm_id};
    struct cm_id *id = cm_find_peer(cm, &key);
    struct cm_id *listener;
    unsigned fault;

    if (id != NULL) {
        repeat_answer(id);
        return;
    }
    listener = listener_of(cm, m->service_id, d);
    if (listener == NULL) {
        cm->counters.no_listener++;
        refuse(cm, d, m, CM_REFUSED_REQ, CM_REASON_INVALID_SERVICE_ID);
        return;
    }
    fault = fault_of(m);
    if (fault != 0) {
        cm->counters.unsupported++;
        refuse(cm, d, m, CM_REFUSED_REQ, (enum cm_reason)fault);
        return;
    }
    if (is_stale(cm, d, m, now)) {
        refuse(cm, d, m, CM_REFUSED_REQ, CM_REASON_STALE_CONNECTION);
        return;
    }
    id = take_request(cm, d, m, listener);
    if (id == NULL)
        return;
    take_patience(id, m);
    cm_set_qp(id, &d->src, m->qpn);
    id->path.flow_label = m->primary.flow_label;
    id->path.traffic_class = m->primary.traffic_class & 0xfcu;
    id->state = CM_STATE_REQ_RECEIVED;
    if (!cm_raise(id, CM_EVENT_REQUEST, m, listener))
        cm_id_release(id);
}

static void receive_sidr_req(struct cm *cm, const struct datagram *d, const struct cm_message *m,
                             uint64_t now)
{
    const struct cm_peer_key key = {.gid = d->src, .comm_id = m->local_comm_id, .sidr = true};
    struct cm_id *id = cm_find_peer(cm, &key);
    struct cm_id *listener;
    struct path path;

    (void)now;
    if (id != NULL) {
        repeat_answer(id);
        return;
    }
    listener = listener_of(cm, m->service_id, d);
    if (listener == NULL) {
        const struct cm_message no = {
            .kind = CM_SIDR_REP,
            .transaction_id = m->transaction_id,
            .local_comm_id = m->local_comm_id,
            .status = CM_SIDR_NO_SERVICE,
            .service_id = m->service_id,
        };

        cm->counters.no_listener++;
        path = path_back(d);
        cm_reply(cm, &path, &no);
        return;
    }
    id = take_request(cm, d, m, listener);
    if (id == NULL)
        return;
    id->state = CM_STATE_SIDR_RECEIVED;
    if (!cm_raise(id, CM_EVENT_DATAGRAM_REQUEST, m, listener))
        cm_id_release(id);
}

/* The first REP. The peer's ID is known by it. */
static void take_rep(struct cm_id *id, const struct datagram *d, const struct cm_message *m,
                     uint64_t now)
{
    const struct cm_message rej = {.kind = CM_REJ, .reason = CM_REASON_STALE_CONNECTION};
    const struct cm_bytes none = {0};

    cm_set_peer(id, &id->path.dst, m->local_comm_id, false);
    if (!id->has_peer) {
        id->cm->counters.wrong_state++; /* or no memory: it comes again */
        return;
    }
    if (is_stale(id->cm, d, m, now)) {
        id->state = CM_STATE_REP_RECEIVED;
        cm_refuse(id, CM_REASON_STALE_CONNECTION, none, none, now);
        cm_raise(id, CM_EVENT_REJECTED, &rej, NULL);
        return;
    }
    if (!cm_raise(id, CM_EVENT_REPLY, m, NULL))
        return;
    cm_stop(id);
    cm_set_qp(id, &d->src, m->qpn);
    id->state = CM_STATE_REP_RECEIVED;
}

static void receive_rep(struct cm_id *id, const struct datagram *d, const struct cm_message *m,
                        uint64_t now)
{
    switch (id->state) {
    case CM_STATE_REQ_SENT:
        take_rep(id, d, m, now);
        return;
    case CM_STATE_ESTABLISHED: /* its RTU got lost */
    case CM_STATE_ANSWERED:    /* or our REJ */
        id->cm->counters.duplicates++;
        cm_send_again(id);
        return;
    case CM_STATE_REP_RECEIVED:
        id->cm->counters.duplicates++;
        cm_send_mra(id);
        return;
    case CM_STATE_DREQ_SENT:
    case CM_STATE_TIMEWAIT:
        id->cm->counters.duplicates++;
        return;
    default:
        id->cm->counters.wrong_state++;
        return;
    }
}

static void receive_rtu(struct cm_id *id, const struct cm_message *m, uint64_t now)
{
    if (id->state == CM_STATE_REP_SENT) {
        if (!cm_raise(id, CM_EVENT_ESTABLISHED, m, NULL))
            return;
        cm_enter_established(id, now);
    } else if (id->state == CM_STATE_ESTABLISHED) {
        id->cm->counters.duplicates++;
    } else if (id->state == CM_STATE_ANSWERED) { /* it crossed our REJ, or that got lost */
        cm_send_again(id);
    } else {
        id->cm->counters.wrong_state++;
    }
}

static void receive_rej(struct cm_id *id, const struct cm_message *m, uint64_t now)
{
    if (m->refused == CM_REFUSED_REQ && id->state != CM_STATE_REQ_SENT) {
        id->cm->counters.duplicates++; /* of one copy of the REQ; another was answered by a REP */
        return;
    }
    switch (id->state) {
    case CM_STATE_REQ_SENT:
        if ((m->reason == CM_REASON_INVALID_SERVICE_ID ||
             m->reason == CM_REASON_STALE_CONNECTION) &&
            cm_ask_again(id, now))
            return;
        /* fall through */
    case CM_STATE_REP_SENT:
    case CM_STATE_REP_RECEIVED:
    case CM_STATE_REQ_RECEIVED: /* the peer gave up waiting */
        cm_id_answered(id);
        cm_raise(id, CM_EVENT_REJECTED, m, NULL);
        cm_enter_over(id);
        return;
    case CM_STATE_ESTABLISHED: /* the peer gave up waiting for the RTU, or knows nothing of it */
        cm_raise(id, CM_EVENT_DISCONNECTED, m, NULL);
        cm_enter_timewait(id, now);
        return;
    case CM_STATE_DREQ_SENT:
        cm_raise(id, CM_EVENT_DISCONNECTED, m, NULL);
        cm_enter_timewait(id, now);
        return;
    default:
        id->cm->counters.wrong_state++;
        return;
    }
}

/* The peer needs longer: it said for how long (IBA 12.9.8.2). */
static void receive_mra(struct cm_id *id, const struct cm_message *m, uint64_t now)
{
    const uint64_t wait_ns = cm_code_ns(m->service_timeout);

    if (!(id->state == CM_STATE_REQ_SENT && m->refused == CM_REFUSED_REQ) &&
        !(id->state == CM_STATE_REP_SENT && m->refused == CM_REFUSED_REP)) {
        id->cm->counters.wrong_state++;
        return;
    }
    if (id->acknowledgements == CM_ACKNOWLEDGEMENTS) {
        id->cm->counters.duplicates++;
        return;
    }
    id->acknowledgements++;
    id->give_up_ns = now + wait_ns + id->retries * id->answer_ns;
    id->repeat_ns = CM_REPEAT_FIRST_NS;
    cm_wait(id, now + wait_ns);
}

static void receive_dreq(struct cm_id *id, const struct cm_message *m, uint64_t now)
{
    switch (id->state) {
    case CM_STATE_ESTABLISHED:
    case CM_STATE_REP_SENT: /* its RTU got lost */
    case CM_STATE_DREQ_SENT:
        if (m->qpn != id->qpn)
            break;
        if (id->state == CM_STATE_REP_SENT)
            cm_raise(id, CM_EVENT_ESTABLISHED, NULL, NULL);
        cm_raise(id, CM_EVENT_DISCONNECTED, m, NULL);
        cm_end_with_drep(id, m, now);
        return;
    case CM_STATE_TIMEWAIT:
        id->cm->counters.duplicates++;
        if (id->said_drep)
            cm_send_again(id);
        else
            cm_send_drep(id->cm, &id->path, m);
        return;
    default:
        break;
    }
    id->cm->counters.wrong_state++;
}

static void receive_drep(struct cm_id *id, const struct cm_message *m, uint64_t now)
{
    if (id->state != CM_STATE_DREQ_SENT) {
        id->cm->counters.wrong_state++;
        return;
    }
    cm_raise(id, CM_EVENT_DISCONNECTED, m, NULL);
    cm_enter_timewait(id, now);
}

static void receive_sidr_rep(struct cm_id *id, const struct cm_message *m, uint64_t now)
{
    if (id->state != CM_STATE_SIDR_SENT) {
        id->cm->counters.wrong_state++;
        return;
    }
    if (m->status == CM_SIDR_NO_SERVICE && cm_ask_again(id, now))
        return;
    id->remote.qpn = m->qpn;
    cm_raise(id, CM_EVENT_DATAGRAM_REPLY, m, NULL);
    cm_enter_over(id);
}

/* Alternate paths do not exist on RoCE without automatic path migration: AP status 2, not
 * supported. */
static void receive_lap(struct cm_id *id, const struct cm_message *m, uint64_t now)
{
    const struct cm_message apr = {
        .kind = CM_APR,
        .transaction_id = m->transaction_id,
        .local_comm_id = id->comm_id,
        .remote_comm_id = m->local_comm_id,
        .status = 2,
    };

    (void)now;
    if (id->state == CM_STATE_ESTABLISHED)
        cm_reply(id->cm, &id->path, &apr);
    else
        id->cm->counters.wrong_state++;
}

static void receive_apr(struct cm_id *id, const struct cm_message *m, uint64_t now)
{
    (void)m;
    (void)now;
    id->cm->counters.wrong_state++; /* no LAP was ever sent */
}

static void (*const of_id[CM_KIND_COUNT])(struct cm_id *id, const struct cm_message *m,
                                          uint64_t now) = {
    [CM_MRA] = receive_mra,   [CM_REJ] = receive_rej,           [CM_RTU] = receive_rtu,
    [CM_DREQ] = receive_dreq, [CM_DREP] = receive_drep,         [CM_LAP] = receive_lap,
    [CM_APR] = receive_apr,   [CM_SIDR_REP] = receive_sidr_rep,
};

/* An answer to nothing that exists: say so where the peer would wait otherwise. */
static void receive_lost(struct cm *cm, const struct datagram *d, const struct cm_message *m)
{
    const struct path path = path_back(d);

    cm->counters.unknown_id++;
    if (m->kind == CM_DREQ)
        cm_send_drep(cm, &path, m);
    else if (m->kind == CM_REP || m->kind == CM_RTU)
        refuse(cm, d, m, m->kind == CM_REP ? CM_REFUSED_REP : CM_REFUSED_NONE,
               CM_REASON_INVALID_COMM_ID);
}

static uint32_t own_comm_id(const struct cm_message *m)
{
    return m->kind == CM_SIDR_REP ? m->local_comm_id : m->remote_comm_id;
}

/* A REJ of a REQ whose answer it never saw names only our ID; so does a REJ by timeout. */
static struct cm_id *find_id(struct cm *cm, const struct datagram *d, const struct cm_message *m)
{
    const struct cm_peer_key key = {.gid = d->src, .comm_id = m->local_comm_id};
    struct cm_id *id = cm_find(cm, own_comm_id(m));

    if (id == NULL && m->kind == CM_REJ && m->remote_comm_id == 0)
        id = cm_find_peer(cm, &key);
    return id;
}

/* Is this the communication that the ID is in, or another of a peer that began anew? */
static bool same_communication(const struct cm_id *id, const struct cm_message *m)
{
    if (!id->has_peer || m->kind == CM_SIDR_REP || id->peer.comm_id == m->local_comm_id)
        return true;
    return m->kind == CM_REJ && m->local_comm_id == 0;
}

static void receive_answer(struct cm *cm, const struct datagram *d, const struct cm_message *m,
                           uint64_t now)
{
    struct cm_id *id = find_id(cm, d, m);

    if (id != NULL && !gid_equal(&d->src, &id->path.dst)) {
        cm->counters.wrong_source++;
    } else if (id == NULL || id->state == CM_STATE_OVER || !same_communication(id, m)) {
        receive_lost(cm, d, m);
    } else if (m->kind == CM_REP) {
        receive_rep(id, d, m, now);
    } else {
        of_id[m->kind](id, m, now);
    }
}

static void receive_message(struct cm *cm, const struct datagram *d, const struct cm_message *m,
                            uint64_t now)
{
    if (m->kind == CM_REQ)
        receive_req(cm, d, m, now);
    else if (m->kind == CM_SIDR_REQ)
        receive_sidr_req(cm, d, m, now);
    else
        receive_answer(cm, d, m, now);
}

/* What asks us for something that we do not have is told so, as Linux does. */
static void receive_other(struct cm *cm, const struct datagram *d, const struct packet *p)
{
    const struct path path = path_back(d);
    uint8_t mad[MAD_LEN];
    struct mad_header h;

    cm->counters.unknown_class++;
    if (!mad_read(p->payload, p->payload_len, &h) || h.base_version != MAD_BASE_VERSION ||
        p->h.deth.src_qpn != GSI_QPN || (h.method != MAD_METHOD_GET && h.method != MAD_METHOD_SET))
        return;
    h.method = MAD_METHOD_GET_RESPONSE;
    h.status = MAD_STATUS_UNSUPPORTED_ATTRIBUTE;
    memcpy(mad, p->payload, MAD_LEN);
    mad_write(&h, mad);
    cm_reply_mad(cm, &path, mad);
}

/* The packet around a MAD; false when it is none. */
static bool read_packet(const struct datagram *d, struct packet *p)
{
    if (packet_parse(d->bytes, d->len, p) != DROP_NONE)
        return false;
    return p->operation->kind == KIND_SEND && opcode_service(p->h.bth.opcode) == SERVICE_UD &&
           p->h.bth.dest_qpn == GSI_QPN && p->payload != NULL;
}

void cm_receive(struct cm *cm, const struct datagram *d, uint64_t now)
{
    struct cm_counters *counters = &cm->counters;
    struct cm_message m;
    struct packet p;

    counters->received++;
    if (!read_packet(d, &p)) {
        counters->malformed++;
        return;
    }
    if (p.h.deth.qkey != GSI_QKEY || (p.h.bth.pkey & 0x7fffu) != 0x7fffu) {
        counters->wrong_key++;
        return;
    }
    switch (cm_read(p.payload, p.payload_len, &m)) {
    case 0:
        receive_message(cm, d, &m, now);
        return;
    case -EPROTONOSUPPORT:
        receive_other(cm, d, &p);
        return;
    case -ENOMSG:
        counters->unknown_message++;
        return;
    default:
        counters->malformed++;
        return;
    }
}

bool cm_slot_of(const struct datagram *d, uint8_t *slot, uint64_t *service_id)
{
    struct cm_message m;
    struct packet p;

    *service_id = 0;
    if (!read_packet(d, &p) || cm_read(p.payload, p.payload_len, &m) != 0)
        return false;
    if (m.kind == CM_REQ || m.kind == CM_SIDR_REQ) {
        *service_id = m.service_id;
        return false;
    }
    *slot = (uint8_t)(own_comm_id(&m) >> 24);
    return *slot != 0;
}
