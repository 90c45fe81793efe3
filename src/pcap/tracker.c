/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sorts packets into flows, and hands requests to the stream of their own flow
 * and responses to that of the other direction. What concerns a packet alone,
 * or a flow as a whole, is looked at here.
 */
#include "pcap/tracker.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/random.h"
#include "pcap/management.h"
#include "wire/mad.h"

#define BTH_RESERVED_1 0x3fu /* byte 4: FECN, BECN, 6 reserved bits */
#define BTH_RESERVED_2 0x7fu /* byte 8: AckReq, 7 reserved bits */
#define AETH_RESERVED_BIT 0x80u
#define ECN_MASK 3u
#define ECN_CE 3u
#define ONE_DIRECTION_MIN 8u /* requests that asked for an answer and went on without */

void tracker_init(struct tracker *t, uint32_t flows_max, const uint64_t hash_key[2])
{
    memset(t, 0, sizeof(*t));
    summary_init(&t->summary, flows_max, hash_key);
    t->hash_key[0] = hash_key[0];
    t->hash_key[1] = hash_key[1];
    t->moment.requests_left = TRACKER_REQUESTS_MAX;
    t->moment.timeline_all = &t->timeline;
}

void tracker_fini(struct tracker *t)
{
    summary_fini(&t->summary);
    finding_list_fini(&t->findings);
}

void tracker_set_message(struct tracker *t,
                         void (*on_message)(void *context, const struct message *message),
                         void *context)
{
    t->moment.on_message = on_message;
    t->moment.context = context;
}

void tracker_note(struct tracker *t, enum finding_kind kind)
{
    moment_raise(&t->moment, &t->findings, kind);
}

uint64_t tracker_count(const struct tracker *t, enum finding_kind kind)
{
    const struct finding *finding = finding_find(&t->findings, kind);
    uint64_t count = finding != NULL ? finding->count : 0;

    for (const struct flow *flow = t->summary.flows.flows; flow != NULL; flow = flow->hh.next) {
        finding = finding_find(&flow->stream.findings, kind);
        count += finding != NULL ? finding->count : 0;
    }
    return count;
}

static uint64_t fold_gid(const struct tracker *t, uint64_t hash, const struct gid *gid)
{
    uint64_t words[2];

    static_assert(sizeof(words) == sizeof(*gid), "a GID is two words");
    memcpy(words, gid, sizeof(words));
    return random_hash(t->hash_key, random_hash(t->hash_key, hash ^ words[0]) ^ words[1]);
}

/* Where a REQ of this communication ID from src to dst is kept. */
static struct tracker_req *req_slot(struct tracker *t, const struct gid *src, const struct gid *dst,
                                    uint32_t comm_id)
{
    uint64_t hash = fold_gid(t, fold_gid(t, comm_id, src), dst);

    return &t->reqs[hash % TRACKER_CM_SLOTS];
}

static bool is_req_of(const struct tracker_req *req, const struct gid *src, const struct gid *dst,
                      uint32_t comm_id)
{
    return req->waits && req->comm_id == comm_id && gid_equal(&req->src, src) &&
           gid_equal(&req->dst, dst);
}

static void take_req(struct tracker *t, const struct datagram *d, const struct cm_message *cm)
{
    struct tracker_req *req = req_slot(t, &d->src, &d->dst, cm->local_comm_id);

    if (is_req_of(req, &d->src, &d->dst, cm->local_comm_id) &&
        req->transaction_id == cm->transaction_id)
        tracker_note(t, FINDING_CM_UNANSWERED);
    *req = (struct tracker_req){
        .src = d->src,
        .dst = d->dst,
        .transaction_id = cm->transaction_id,
        .comm_id = cm->local_comm_id,
        .qpn = cm->qpn,
        .psn = cm->starting_psn,
        .pmtu = (uint16_t)(cm->path_mtu >= 1 && cm->path_mtu <= 5 ? 128u << cm->path_mtu : 0u),
        .depth = cm->responder_resources,
        .waits = true,
    };
}

/* What goes to the queue pair that a REQ or a REP named. */
static void agree(struct tracker *t, struct flow *flow, uint32_t psn, uint16_t pmtu, uint8_t depth)
{
    struct stream *s = &flow->stream;

    t->moment.flow = flow;
    stream_restart(s, &t->moment);
    s->psn_agreed = true;
    s->psn_first = psn_make(psn);
    s->depth = depth;
    s->pmtu = pmtu;
    flow->peer_agreed = true;
}

/* IBA 12.6: each side tells its queue pair, and the PSN with which the other is to begin. */
static int take_rep(struct tracker *t, const struct datagram *d, const struct cm_message *cm)
{
    struct tracker_req *req = req_slot(t, &d->dst, &d->src, cm->remote_comm_id);
    struct flow_key there = {.src = d->dst, .dst = d->src, .dest_qpn = cm->qpn};
    struct flow_key back = {.src = d->src, .dst = d->dst, .dest_qpn = req->qpn};
    struct flow *to_passive;
    struct flow *to_active;
    int error;

    if (!is_req_of(req, &d->dst, &d->src, cm->remote_comm_id))
        return 0;
    req->waits = false;
    error = flow_table_get(&t->summary.flows, &there, &to_passive);
    if (error == 0)
        error = flow_table_get(&t->summary.flows, &back, &to_active);
    if (error != 0 || to_passive == NULL || to_active == NULL || to_passive == to_active)
        return error;
    agree(t, to_passive, cm->starting_psn, req->pmtu, cm->responder_resources);
    agree(t, to_active, req->psn, req->pmtu, req->depth);
    flow_join(to_passive, to_active);
    return 0;
}

static void take_dreq(struct tracker *t, const struct datagram *d, const struct cm_message *cm)
{
    struct flow_key key = {.src = d->src, .dst = d->dst, .dest_qpn = cm->qpn};
    struct flow *flow;

    if (flow_table_get(&t->summary.flows, &key, &flow) != 0 || flow == NULL)
        return;
    flow->stream.ended = true;
    if (flow->peer != NULL)
        flow->peer->stream.ended = true;
}

static int take_cm(struct tracker *t, const struct frame *f)
{
    struct cm_message cm;

    if (!frame_cm(f, &cm))
        return 0;
    switch (cm.kind) {
    case CM_REQ:
        take_req(t, &f->datagram, &cm);
        break;
    case CM_REP:
        return take_rep(t, &f->datagram, &cm);
    case CM_REJ:
        tracker_note(t, FINDING_CM_REJECTED);
        break;
    case CM_DREQ:
        take_dreq(t, &f->datagram, &cm);
        break;
    case CM_MRA:
    case CM_RTU:
    case CM_DREP:
    case CM_SIDR_REQ:
    case CM_SIDR_REP:
    case CM_LAP:
    case CM_APR:
    case CM_KIND_COUNT:
        break;
    }
    return 0;
}

/* Headers as the frame has them, for what parsing leaves out. */
static bool has_reserved_bits(const struct frame *f)
{
    const uint8_t *bth = f->datagram.bytes;
    unsigned headers = opcode_headers(f->packet.h.bth.opcode);

    if ((bth[4] & BTH_RESERVED_1) != 0 || (bth[8] & BTH_RESERVED_2) != 0)
        return true;
    if ((headers & HEADER_DETH) != 0 && bth[BTH_LEN + 4] != 0)
        return true;
    return (headers & HEADER_AETH) != 0 && (f->packet.h.aeth.syndrome & AETH_RESERVED_BIT) != 0;
}

static bool is_zero(const uint8_t *bytes, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++) {
        if (bytes[i] != 0)
            return false;
    }
    return true;
}

static void take_cnp(struct flow *flow, struct moment *m)
{
    const struct packet *p = &m->frame->packet;
    uint64_t gap_ns = m->now_ns - flow->cnp_last_ns;

    moment_raise(m, &flow->stream.findings, FINDING_CNP);
    if (m->frame->icrc != FRAME_ICRC_ABSENT && p->payload != NULL &&
        !is_zero(p->payload, p->payload_len))
        moment_raise(m, &flow->stream.findings, FINDING_CNP_PAYLOAD);
    timeline_at(flow->timeline, m->now_ns)->cnps++;
    if (flow->counts.cnps > 1) {
        flow->cnp_gap_sum_ns += gap_ns;
        if (flow->cnp_gap_min_ns == 0 || gap_ns < flow->cnp_gap_min_ns)
            flow->cnp_gap_min_ns = gap_ns;
    }
    flow->cnp_last_ns = m->now_ns;
}

/* Rules for a packet of any kind. */
static void check_packet(struct flow *flow, struct moment *m)
{
    const struct frame *f = m->frame;
    const struct bth *bth = &f->packet.h.bth;
    struct finding_list *findings = &flow->stream.findings;

    if (has_reserved_bits(f))
        moment_raise(m, findings, FINDING_RESERVED_BITS);
    if ((f->datagram.traffic_class & ECN_MASK) == ECN_CE) {
        moment_raise(m, findings, FINDING_MARKED);
        timeline_at(flow->timeline, m->now_ns)->marks++;
    }
    if (opcode_service(bth->opcode) == SERVICE_CNP)
        return;
    if (flow->counts.packets == 1 || flow->pkey == 0)
        flow->pkey = bth->pkey;
    else if (flow->pkey != bth->pkey && flow->service != SERVICE_UD)
        moment_raise(m, findings, FINDING_PKEY_CHANGED);
    if (opcode_service(bth->opcode) != flow->service)
        moment_raise(m, findings, FINDING_SERVICE_CHANGED);
    if (flow->service == SERVICE_UD && bth->dest_qpn == GSI_QPN &&
        f->packet.h.deth.qkey != GSI_QKEY)
        moment_raise(m, findings, FINDING_GSI_QKEY);
}

/* A datagram is a message by itself. */
static void take_datagram(struct flow *flow, struct moment *m)
{
    const struct frame *f = m->frame;
    struct request r = {
        .first = f->packet.h.bth.psn.value,
        .end = f->packet.h.bth.psn.value + 1,
        .kind = KIND_SEND,
        .bytes = f->packet.payload_len,
        .first_ns = m->now_ns,
        .first_frame = f->number,
    };

    moment_add_bytes(m, f->packet.payload_len);
    stream_complete_datagram(&flow->stream, m, &r);
}

static void take_connected(struct flow *flow, struct moment *m)
{
    if (!flow_is_response(m->frame->packet.operation->kind)) {
        stream_request(&flow->stream, m);
        return;
    }
    flow->responses++;
    if (flow->peer == NULL || !flow->peer->stream.started)
        return;
    /* Data of a response flows in this direction, its findings belong to the requests. */
    m->flow = flow->peer;
    if (!flow->answers && flow->responses > 1)
        stream_begin_responses(&flow->peer->stream, m);
    flow->answers = true;
    stream_response(&flow->peer->stream, m);
}

static int take_packet(struct tracker *t, struct flow *flow)
{
    struct moment *m = &t->moment;
    const struct frame *f = m->frame;
    enum service service = opcode_service(f->packet.h.bth.opcode);

    if (flow->timeline == NULL) {
        flow->timeline = calloc(1, sizeof(*flow->timeline));
        if (flow->timeline == NULL)
            return -ENOMEM;
        flow->first_ns = m->now_ns;
    }
    flow->last_ns = m->now_ns;
    m->flow = flow;
    m->timeline = flow->timeline;
    timeline_at(flow->timeline, m->now_ns)->packets++;
    check_packet(flow, m);
    if (service == SERVICE_CNP)
        take_cnp(flow, m);
    else if (service == SERVICE_UD)
        take_datagram(flow, m);
    else if (service == flow->service)
        take_connected(flow, m);
    return m->out_of_memory ? -ENOMEM : 0;
}

/* A frame that is no whole packet, or whose packet cannot be believed. True: go on with it. */
static bool judge_frame(struct tracker *t, const struct frame *f, const struct flow *flow)
{
    uint16_t pmtu = flow != NULL ? flow->stream.pmtu : 0;

    if (frame_kind(f->verdict) == FRAME_KIND_SNAPPED || f->icrc == FRAME_ICRC_ABSENT)
        tracker_note(t, FINDING_SNAPPED);
    if (f->verdict == FRAME_MALFORMED && f->drop == DROP_OVERSIZED)
        tracker_note(t, FINDING_GIANT_FRAME);
    else if (f->verdict == FRAME_FRAGMENT)
        tracker_note(t, FINDING_FRAGMENTED);
    else if (frame_kind(f->verdict) == FRAME_KIND_DAMAGED)
        tracker_note(t, FINDING_MALFORMED);
    if (f->verdict != FRAME_PACKET)
        return false;
    if (f->segment_count > 1 && f->segment_index == 0)
        tracker_note(t, FINDING_OFFLOADED);
    if (f->icrc == FRAME_ICRC_UNSET || (f->icrc == FRAME_ICRC_BAD && f->icrc_found == 0)) {
        t->icrc_zero++;
        tracker_note(t, FINDING_ICRC_UNSET);
        return true;
    }
    if (f->icrc == FRAME_ICRC_BAD && pmtu != 0 && f->packet.payload_len > pmtu) {
        tracker_note(t, FINDING_GIANT_FRAME);
        return false;
    }
    return true;
}

static void advance_time(struct tracker *t, const struct frame *f)
{
    uint64_t elapsed_ns = f->elapsed_ns > 0 ? (uint64_t)f->elapsed_ns : 0;

    if (elapsed_ns >= t->moment.now_ns)
        t->moment.now_ns = elapsed_ns;
    if (f->number > 1 && (f->elapsed_ns < 0 || elapsed_ns < t->time_last_ns))
        tracker_note(t, FINDING_TIME_WENT_BACK);
    t->time_last_ns = elapsed_ns;
}

/* The same frame's packet in the timeline of all. */
static void add_totals(struct tracker *t, const struct frame *f)
{
    struct timeline_bin *bin = timeline_at(&t->timeline, t->moment.now_ns);

    bin->packets++;
    bin->marks += (f->datagram.traffic_class & ECN_MASK) == ECN_CE;
    bin->cnps += f->packet.operation->kind == KIND_CNP;
}

int tracker_add(struct tracker *t, const struct frame *f)
{
    struct moment *m = &t->moment;
    struct flow *flow;
    int error;

    m->frame = f;
    m->raised_count = 0;
    if (frame_kind(f->verdict) != FRAME_KIND_FOREIGN)
        advance_time(t, f);
    error = summary_add(&t->summary, f, &flow);
    m->packet_flow = flow;
    m->repeated = false;
    if (error != 0 || frame_kind(f->verdict) == FRAME_KIND_FOREIGN)
        return error;
    if (!judge_frame(t, f, flow))
        return 0;
    if (flow == NULL) {
        tracker_note(t, FINDING_NOT_FOLLOWED);
        return 0;
    }
    if (f->icrc == FRAME_ICRC_BAD && f->icrc_found != 0) {
        moment_raise(m, &flow->stream.findings, FINDING_ICRC_BAD);
        return m->out_of_memory ? -ENOMEM : 0;
    }
    add_totals(t, f);
    error = take_packet(t, flow);
    if (error == 0 && opcode_service(f->packet.h.bth.opcode) == SERVICE_UD)
        error = take_cm(t, f);
    return error;
}

/* Requests that went on and on without an answer in the capture. */
static bool is_unanswered(const struct flow *flow)
{
    return flow->stream.started_count >= ONE_DIRECTION_MIN && flow->stream.recovery.timeouts == 0;
}

static bool is_alone(const struct flow *flow)
{
    bool reliable = flow->service == SERVICE_RC || flow->service == SERVICE_XRC;

    return reliable && flow->counts.packets > 0 &&
           (flow->peer == NULL || flow->peer->counts.packets == 0);
}

/* Lonely flows: of one direction only, or there are answers, but whose they are is not known. */
static void judge_directions(struct tracker *t)
{
    uint32_t asking = 0;
    uint32_t answering = 0;

    for (const struct flow *flow = t->summary.flows.flows; flow != NULL; flow = flow->hh.next) {
        asking += is_alone(flow) && is_unanswered(flow);
        answering += is_alone(flow) && flow->responses > 0;
    }
    for (struct flow *flow = t->summary.flows.flows; flow != NULL; flow = flow->hh.next) {
        bool answers_only = flow->stream.counts.packets == 0 && flow->responses > 0;

        if (is_alone(flow) && (answers_only || is_unanswered(flow)))
            moment_raise(&t->moment, &flow->stream.findings,
                         asking > 0 && answering > 0 ? FINDING_UNPAIRED : FINDING_ONE_DIRECTION);
    }
}

/* Taken on two interfaces: nearly each packet is there twice. */
static void judge_duplicates(struct flow *flow, struct moment *m)
{
    const struct finding *twice = finding_find(&flow->stream.findings, FINDING_DUPLICATE);

    if (twice != NULL && twice->count > 3 && twice->count * 9 / 4 >= flow->stream.counts.packets)
        moment_raise(m, &flow->stream.findings, FINDING_CAPTURED_TWICE);
}

int tracker_finish(struct tracker *t)
{
    struct moment *m = &t->moment;

    for (struct flow *flow = t->summary.flows.flows; flow != NULL; flow = flow->hh.next) {
        m->flow = flow;
        m->timeline = flow->timeline;
        stream_finish(&flow->stream, m);
        judge_duplicates(flow, m);
        if (flow->counts.ce_marks > 0 && (flow->peer == NULL || flow->peer->counts.cnps == 0))
            moment_raise(m, &flow->stream.findings, FINDING_MARKS_UNANSWERED);
    }
    judge_directions(t);
    return m->out_of_memory ? -ENOMEM : 0;
}
