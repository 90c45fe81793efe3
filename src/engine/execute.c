/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Carries requests out that the responder accepted: bytes into memory, receive
 * completions, atomics, and the memory of READs and atomics that duplicates
 * are answered from (IBA 9.4, 9.7.5.1).
 */
#include <assert.h>

#include "base/bytes.h"
#include "engine/engine_private.h"
#include "engine/memory.h"
#include "engine/responder_private.h"

void receive_complete(struct qp *qp, struct recv_wqe *wqe, const struct packet *p,
                      const struct receive_end *end)
{
    struct completion c = {
        .wr_id = wqe->wr_id,
        .status = end->status,
        .opcode = end->write ? COMPLETION_RECV_WRITE_IMM : COMPLETION_RECV,
        .byte_len = end->byte_len,
        .qpn = qp->qpn,
        .src_qpn = end->src_qpn,
        .flags = end->flags,
        .service_level = end->service_level,
        .owner = qp_receive_owner(qp),
    };
    struct cq *cq = qp_receive_cq(qp);
    bool solicited = false;

    if (end->status == STATUS_SUCCESS) {
        solicited = p->h.bth.solicited;
        if ((p->operation->headers & HEADER_IMM) != 0) {
            c.flags |= COMPLETION_IMM;
            c.imm = p->h.imm;
        }
        if ((p->operation->headers & HEADER_IETH) != 0) {
            c.flags |= COMPLETION_INVALIDATED;
            c.imm = p->h.ieth;
        }
    }
    qp_release_receive(qp, wqe);
    cq_push(cq, &c, solicited);
}

/* The message is whole. */
static void finish_message(struct qp *qp, const struct packet *p)
{
    struct responder *r = &qp->responder;
    struct receive_end end = {
        .status = STATUS_SUCCESS,
        .byte_len = r->placed,
        .src_qpn = qp->attr.dest_qpn,
        .write = r->kind == KIND_WRITE,
    };
    struct recv_wqe *receive = r->receive;

    r->in_message = false;
    r->receive = NULL;
    r->msn = psn_add(r->msn, 1);
    if (receive != NULL)
        receive_complete(qp, receive, p, &end);
}

static void begin_message(struct qp *qp, const struct packet *p)
{
    struct responder *r = &qp->responder;

    r->in_message = true;
    r->kind = p->operation->kind;
    r->placed = 0;
    r->va = p->h.reth.va;
    r->rkey = p->h.reth.rkey;
    r->write_left = p->h.reth.dma_len;
}

static enum verdict execute_send(struct qp *qp, const struct packet *p)
{
    struct responder *r = &qp->responder;
    struct sge_list sges;

    if (position_starts(p->operation->position)) {
        begin_message(qp, p);
        r->receive = qp_take_receive(qp);
    }
    assert(r->receive != NULL);
    if (r->placed + (uint64_t)p->payload_len > r->receive->length)
        return VERDICT_RECEIVE_TOO_SMALL;
    sges = receive_sges(qp, r->receive);
    if (sge_write(qp->engine, &sges, r->placed, p->payload, p->payload_len) != STATUS_SUCCESS)
        return VERDICT_RECEIVE_BAD;
    r->placed += p->payload_len;
    if ((p->operation->headers & HEADER_IETH) != 0) /* check_access has seen to it */
        mw_invalidate(qp->engine, qp_receive_pd(qp), p->h.ieth);
    if (position_ends(p->operation->position))
        finish_message(qp, p);
    return VERDICT_ACCEPT;
}

static enum verdict execute_write(struct qp *qp, const struct packet *p)
{
    struct responder *r = &qp->responder;
    struct mr_query q = {
        .pd = qp_receive_pd(qp), .qp = qp, .len = p->payload_len, .access = ACCESS_REMOTE_WRITE};
    uint8_t *memory;

    if (position_starts(p->operation->position))
        begin_message(qp, p);
    q.va = r->va;
    q.key = r->rkey;
    if (p->payload_len > 0) {
        if (mr_resolve(qp->engine, &q, &memory) != MR_OK)
            return VERDICT_BAD_ACCESS; /* the region went away within the message */
        if (engine_copy(qp->engine, memory, p->payload, p->payload_len) != 0)
            return VERDICT_MEMORY_FAULT;
    }
    r->va += p->payload_len;
    r->write_left -= p->payload_len;
    r->placed += p->payload_len;
    if (p->operation->receive == RECEIVE_TAKES)
        r->receive = qp_take_receive(qp);
    if (position_ends(p->operation->position))
        finish_message(qp, p);
    return VERDICT_ACCEPT;
}

/* Remembers a READ or atomic; check_resources has seen to the room. */
static struct read_resource *remember(struct qp *qp, const struct packet *p)
{
    struct responder *r = &qp->responder;
    struct read_resource *resource = read_resource_at(r, r->read_tail);

    if (r->read_tail - r->read_next == r->reads_size) {
        /* The oldest is being answered a second time, and its room is needed: its requester has
         * moved on. */
        assert(r->read_next != r->read_answered);
        answer_advance(r);
    }
    r->read_tail++;
    r->msn = psn_add(r->msn, 1);
    *resource = (struct read_resource){
        .kind = p->operation->kind,
        .psn_first = p->h.bth.psn,
        .packet_count = 1,
        .msn = r->msn,
        .srqn = p->h.xrceth.srqn,
    };
    return resource;
}

static void execute_read(struct qp *qp, const struct packet *p)
{
    struct read_resource *resource = remember(qp, p);
    uint32_t length = p->h.reth.dma_len;

    resource->va = p->h.reth.va;
    resource->rkey = p->h.reth.rkey;
    resource->length = length;
    if (length > 0)
        resource->packet_count = (uint32_t)(((uint64_t)length + qp->attr.pmtu - 1) / qp->attr.pmtu);
}

/* Atomic among the QPs of this engine (what adapters report as ATOMIC_HCA). */
static enum verdict execute_atomic(struct qp *qp, const struct packet *p)
{
    struct mr_query q = {.pd = qp_receive_pd(qp),
                         .qp = qp,
                         .va = p->h.atomic.va,
                         .len = sizeof(uint64_t),
                         .key = p->h.atomic.rkey,
                         .access = ACCESS_REMOTE_ATOMIC};
    struct read_resource *resource;
    uint64_t original;
    uint64_t result;
    uint8_t *memory;

    if (mr_resolve(qp->engine, &q, &memory) != MR_OK)
        return VERDICT_BAD_ACCESS;
    if (engine_copy(qp->engine, &original, memory, sizeof(original)) != 0)
        return VERDICT_MEMORY_FAULT;
    if (p->operation->kind == KIND_FETCH_ADD)
        result = original + p->h.atomic.swap_add;
    else
        result = original == p->h.atomic.compare ? p->h.atomic.swap_add : original;
    if (result != original && engine_copy(qp->engine, memory, &result, sizeof(result)) != 0)
        return VERDICT_MEMORY_FAULT;
    resource = remember(qp, p);
    resource->original = original;
    return VERDICT_ACCEPT;
}

/* One store, which nobody sees half done (IBA 1.5, annex A19). */
static enum verdict execute_atomic_write(struct qp *qp, const struct packet *p)
{
    struct mr_query q = {.pd = qp_receive_pd(qp),
                         .qp = qp,
                         .va = p->h.reth.va,
                         .len = sizeof(uint64_t),
                         .key = p->h.reth.rkey,
                         .access = ACCESS_REMOTE_WRITE};
    uint8_t *memory;

    if (mr_resolve(qp->engine, &q, &memory) != MR_OK)
        return VERDICT_BAD_ACCESS;
    if (engine_copy(qp->engine, memory, p->payload, sizeof(uint64_t)) != 0)
        return VERDICT_MEMORY_FAULT;
    remember(qp, p);
    return VERDICT_ACCEPT;
}

enum verdict execute(struct qp *qp, const struct packet *p)
{
    qp_count(qp, rcv_payload_bytes, p->payload_len);
    switch (p->operation->kind) {
    case KIND_SEND:
        return execute_send(qp, p);
    case KIND_WRITE:
        return execute_write(qp, p);
    case KIND_READ:
        execute_read(qp, p);
        return VERDICT_ACCEPT;
    case KIND_CMP_SWAP:
    case KIND_FETCH_ADD:
        return execute_atomic(qp, p);
    case KIND_ATOMIC_WRITE:
        return execute_atomic_write(qp, p);
    case KIND_FLUSH:
        remember(qp, p); /* what was placed is in memory that everybody sees */
        return VERDICT_ACCEPT;
    case KIND_RESYNC:
    case KIND_READ_RESPONSE:
    case KIND_ACK:
    case KIND_ATOMIC_ACK:
    case KIND_CNP:
        break;
    }
    return VERDICT_UNSUPPORTED;
}

/* Whether response packet number packet of the request at counter at is going to leave anyway. */
static bool answer_is_due(const struct responder *r, uint32_t at, uint32_t packet)
{
    if (at == r->read_next && at != r->read_tail)
        return packet >= r->read_cursor;
    return at - r->read_answered < r->read_tail - r->read_answered;
}

/*
 * The answer to a remembered READ or atomic is given again, from the PSN that
 * was asked for on; those after it when they are asked for again, too.
 * What is asked must be what was executed: a duplicate opens no other memory.
 */
static void answer_again(struct qp *qp, const struct packet *p)
{
    struct responder *r = &qp->responder;

    for (uint32_t age = 1; age <= r->reads_size; age++) {
        uint32_t at = r->read_tail - age;
        struct read_resource *resource = read_resource_at(r, at);
        int32_t packet = psn_diff(p->h.bth.psn, resource->psn_first);

        if (packet < 0 || packet >= (int32_t)resource->packet_count)
            continue;
        if (resource->kind != p->operation->kind)
            return;
        if (resource->kind == KIND_READ &&
            (p->h.reth.va != resource->va + (uint64_t)packet * qp->attr.pmtu ||
             p->h.reth.rkey != resource->rkey))
            return;
        if (answer_is_due(r, at, (uint32_t)packet))
            return;
        if (!resource->asked_again || (uint32_t)packet < resource->again_from)
            resource->again_from = (uint32_t)packet;
        resource->asked_again = true;
        if ((int32_t)(at - r->read_next) <= 0)
            answer_begin(r, at);
        return;
    }
}

void execute_duplicate(struct qp *qp, const struct packet *p)
{
    struct responder *r = &qp->responder;

    if (p->operation->kind == KIND_SEND || p->operation->kind == KIND_WRITE) {
        r->replies = 0; /* its acknowledgement may have waited for too long */
        if (r->ack == ACK_NONE)
            r->ack = ACK_ACK;
        return;
    }
    answer_again(qp, p);
}
