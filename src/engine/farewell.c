/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The last acknowledgement of a queue pair, said again when the application takes it out of
 * service. Who has got all its messages leaves; if the ACK of the last one was lost, the
 * peer repeats that message to nobody, until its retries are used up and a message that did arrive
 * ends with an error. Each ACK more makes that as much less likely as packets are seldom lost.
 *
 * They are true: they speak only of what was carried out. They are harmless: a requester drops an
 * ACK of what is acknowledged already, a duplicate or ghost, silently (IBA 9.7.6.1; Linux rxe:
 * check_psn in rxe_comp.c).
 */
#include "engine/farewell_private.h"

#include <string.h>

#include "engine/engine_private.h"
#include "engine/qp_private.h"
#include "wire/aeth.h"

/* With the ACK itself four in a row must be lost: at 2 %, one connection in six million. */
#define COPIES_AFTER_LOSS 3u

/*
 * Has this process seen signs of loss? One lossy path is reason enough for all: most often they
 * share the wire that does it, and three packets cost little.
 */
static bool saw_loss(const struct engine *e)
{
    const struct engine_counters *c = &e->counters;

    return (c->duplicate_request | c->out_of_sequence | c->packet_seq_err | c->implied_nak_seq_err |
            c->local_ack_timeout_err) != 0;
}

static bool has_something_to_say(const struct qp *qp)
{
    const struct responder *r = &qp->responder;

    if (qp->state != QP_RTR && qp->state != QP_RTS && qp->state != QP_SQD)
        return false;
    if (r->accepted_ns == ENGINE_NEVER) /* always so on UC, UD and an XRC initiator */
        return false;
    /* The newest is a READ or atomic: only its response could tell, and that may be large. */
    return responder_newest_is_ackable(r) && r->read_next == r->read_tail;
}

void farewell_say(struct qp *qp)
{
    struct engine *e = qp->engine;
    struct farewells *all = &e->farewells;
    struct farewell *f = &all->said[all->tail % FAREWELLS_MAX];

    if (!has_something_to_say(qp))
        return;
    if (all->tail - all->head == FAREWELLS_MAX) {
        e->counters.farewells_lost++;
        return;
    }
    *f = (struct farewell){
        .path = qp->attr.path,
        .accepted_ns = qp->responder.accepted_ns,
        .src_port = qp->src_port,
        .dest_slot = (uint8_t)(qp->attr.dest_qpn >> 16),
        .left = (uint8_t)((saw_loss(e) ? COPIES_AFTER_LOSS : 1) +
                          (qp->responder.ack != ACK_NONE ? 1 : 0)),
    };
    responder_write_ack(qp, AETH_CREDITS_INVALID, f->packet); /* receive requests are gone */
    all->tail++;
    qp->responder.ack = ACK_NONE;
    qp->responder.accepted_ns = ENGINE_NEVER;
}

static uint32_t fill(struct farewell *f, struct datagram_batch *b)
{
    uint32_t count = 0;

    for (size_t at = 0; count < f->left && count < b->count_max && at + ACK_LEN <= b->capacity;
         at += ACK_LEN, count++)
        memcpy(b->buffer + at, f->packet, ACK_LEN);
    b->path = f->path;
    b->src_port = f->src_port;
    b->dest_slot = f->dest_slot;
    b->count = count;
    b->segment_len = ACK_LEN;
    b->last_len = ACK_LEN;
    b->payload_absent = 0;
    f->left = (uint8_t)(f->left - count);
    return count;
}

uint32_t farewell_transmit(struct engine *e, struct datagram_batch *b)
{
    struct farewells *all = &e->farewells;
    uint32_t count = 0;

    while (count == 0 && farewell_waits(all)) {
        struct farewell *f = &all->said[all->head % FAREWELLS_MAX];

        if (e->now - f->accepted_ns <= FAREWELL_NS)
            count = fill(f, b);
        if (count == 0 || f->left == 0)
            all->head++;
    }
    e->counters.farewells += count;
    e->counters.sent_packets += count;
    e->counters.sent_bytes += (uint64_t)count * ACK_LEN;
    return count;
}

bool engine_leave(struct engine *e)
{
    struct farewells *all = &e->farewells;

    for (; all->leaving < QPN_SPACE; all->leaving++) {
        if (all->tail - all->head == FAREWELLS_MAX)
            return true;
        if (e->qps[all->leaving] != NULL)
            farewell_say(e->qps[all->leaving]);
    }
    return farewell_waits(all);
}
