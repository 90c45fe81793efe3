/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inside of a queue pair. Each part says who writes it: qp.c and
 * qp_modify.c the attributes, requester.c and completer.c the send side,
 * responder.c the receive side.
 */
#ifndef UROCE_ENGINE_QP_PRIVATE_H
#define UROCE_ENGINE_QP_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "engine/cq_private.h"
#include "engine/counters.h"
#include "engine/event_private.h"
#include "engine/memory.h"
#include "engine/qp.h"
#include "engine/srq_private.h"
#include "engine/window_private.h"
#include "wire/packet.h"

/* One send request, from the post until it is retired. Its SGEs or inline bytes are in
 * send_queue.data. */
struct send_wqe {
    uint64_t wr_id;
    enum wr_opcode opcode;
    uint32_t flags;  /* enum wr_flag_set; WR_SIGNALED is set for all_signaled too */
    uint32_t length; /* bytes of the message */
    uint32_t sge_count;
    uint32_t imm;
    enum completion_status status; /* a local error that was found, or success */
    /* set when its first packet is made */
    struct psn psn_first;
    uint32_t packet_count; /* PSNs that it takes */
    struct psn ssn;
    union {
        struct {
            uint64_t remote_addr;
            union {
                struct {
                    uint64_t compare;
                    uint64_t swap;
                };
                struct {
                    uint32_t flush_len;
                    uint8_t flush_placement;
                    uint8_t flush_selectivity;
                };
            };
            uint32_t rkey;
            uint32_t srqn; /* XRC */
        } rc;
        struct {
            struct path path;
            uint32_t remote_qpn;
            uint32_t remote_qkey;
        } ud;
        struct mw_bind bind;
    };
};

/* Counters run free; a slot is counter & slot_mask. freed <= head <= next <= started <= tail; next
 * < started once a packet of next was made. */
struct send_queue {
    struct send_wqe *wqes;
    uint8_t *data; /* per slot: sge_max SGEs, or inline_max bytes */
    bool borrowed; /* wqes and data: the caller's memory */
    uint32_t data_stride;
    uint32_t slot_mask; /* slots are a power of two, so that they divide the counters' range */
    uint32_t wr_max;    /* requests that may be queued */
    uint32_t sge_max;
    uint32_t inline_max;
    uint32_t freed;    /* those before it do not count any more: their completions were polled */
    uint32_t unpolled; /* completions that were told and not polled yet */
    uint32_t head;     /* oldest not retired */
    uint32_t next;     /* the one that the send cursor is in */
    uint32_t started;  /* first that has no PSN yet */
    uint32_t tail;     /* where the next post goes */
};

struct requester {
    struct send_queue sq;
    uint32_t cursor;     /* packets of sq.next that were sent in this pass */
    uint32_t head_acked; /* packets of sq.head that were acknowledged */
    struct psn psn_una;  /* oldest not acknowledged */
    struct psn psn_next; /* of the first request that has no PSN yet */
    struct psn psn_sent; /* past the newest that was ever sent */
    struct psn ssn_next;
    struct psn ssn_limit;       /* newest SSN that the responder's credits allow */
    bool credits_known;         /* a response carried credits */
    struct flight flight;       /* share of window: psn_una up to the cursor */
    struct flight read_flight;  /* share of engine.read_window */
    uint32_t reads_outstanding; /* READ parts and atomics sent and not answered, up to the cursor */
    uint8_t retries_left;
    uint8_t rnr_retries_left;
    bool nak_taken; /* went back to psn_una already; no second time before progress or time-out */
    uint64_t retransmit_ns; /* ENGINE_NEVER: nothing outstanding */
    uint64_t rnr_wait_ns;   /* ENGINE_NEVER: not waiting */
    uint64_t room_wait_ns;  /* when to ask again for room; ENGINE_NEVER: not waiting */
};

/* A READ, atomic, ATOMIC WRITE or FLUSH that the responder carries out or remembers. */
struct read_resource {
    enum operation_kind kind;
    struct psn psn_first;
    uint32_t packet_count;
    struct psn msn;
    uint64_t va;
    uint32_t rkey;
    uint32_t length;
    uint32_t srqn;       /* XRC: SRQ whose domain the memory is in */
    uint64_t original;   /* result of the atomic */
    bool asked_again;    /* a duplicate came whose answer is to come yet */
    uint32_t again_from; /* then: the response packet that it begins with */
};

enum ack_kind {
    ACK_NONE,
    ACK_ACK,
    ACK_NAK,
};

struct responder {
    struct recv_queue rq; /* unused with an SRQ */
    struct srq *srq;      /* XRC: the one that the latest accepted request named; NULL: gone */
    struct psn epsn;      /* expected */
    struct psn msn;
    struct psn ackable;   /* newest accepted request without a response of its own, or before all */
    uint64_t accepted_ns; /* when the newest request was accepted; ENGINE_NEVER: none was */
    /* the message in progress */
    bool in_message;
    enum operation_kind kind;
    struct recv_wqe *receive; /* held by the message, or NULL */
    uint32_t placed;          /* bytes placed so far */
    uint64_t va;              /* WRITE: where the next byte goes */
    uint32_t rkey;
    uint32_t write_left; /* WRITE: bytes that are still to come */
    /* answers */
    enum ack_kind ack;    /* one that is to be sent after the READ responses */
    uint8_t nak_syndrome; /* with ACK_NAK */
    uint8_t
        replies;  /* acknowledgements in a row that the application soon followed with a request */
    bool replied; /* the newest is one of them */
    uint64_t ack_ns;      /* when the newest acknowledgement fell due */
    uint64_t ack_hold_ns; /* till when it may wait for a request to go along with; ENGINE_NEVER:
                             does not */
    struct psn nak_psn;
    bool nak_sent;               /* a NAK for epsn is out or pending; silent until epsn arrives */
    bool answers_last;           /* failed without a NAK; what came before is still answered */
    struct read_resource *reads; /* ring, counters run free */
    uint32_t reads_size;         /* power of two, at least dest_rd_atomic; 0: none */
    uint32_t read_tail;          /* where the next goes */
    uint32_t read_next;          /* the one being answered; == read_tail: none */
    uint32_t read_first;         /* response packet of read_next with which this answer begins */
    uint32_t read_cursor;        /* response packet of read_next that is next */
    uint32_t read_answered;      /* those before it were answered at least once */
};

struct qp {
    /* set at creation */
    struct engine *engine;
    uint32_t qpn;
    enum service service;
    struct pd *pd;
    struct cq *send_cq;
    struct cq *recv_cq;
    struct srq *srq;
    struct xrcd *xrcd; /* XRC target; then pd, CQs and srq are NULL */
    struct qp_cap cap;
    bool all_signaled;
    uint32_t pmtu_created; /* UD: the port's; attr.pmtu after every RESET */
    void *context;
    uint32_t port_tag;        /* what qp_view tells; the caller's */
    uint32_t published;       /* the caller's, see qp_published */
    uint32_t multicast_count; /* groups that it is attached to */

    /* set by modify */
    enum qp_state state;
    struct qp_attr attr;
    struct window *window; /* of the peer's process; NULL before RTR and for UD */
    uint16_t src_port;
    uint32_t
        read_part_packets; /* response packets of one READ request: READs are asked for in parts */
    uint32_t rate_kbps;    /* 0: no limit but the path's */
    uint32_t burst_len;    /* 0: a millisecond's worth */

    /* moves with packets */
    struct requester requester;
    struct responder responder;
    uint64_t rate_free_ns; /* until then what has left uses the rate up */
    uint64_t rate_wait_ns; /* ENGINE_NEVER, or rate_free_ns when something waits for it */
    bool responder_turn;   /* the responder fills the next batch if both sides have something */
    bool cnp_due;          /* a congestion notification packet */
    bool comm_est_raised;
    bool completion_lost; /* its CQ was full; looked at when nobody is in the middle of its work */
    struct event_source events;
    struct qp_counters counters;
    struct list touched_link; /* on engine.touched */
    struct list ready_link;   /* on engine.ready */
    struct list window_link;  /* on the waiting list of a window */
    struct list target_link;  /* on xrcd.targets */
    struct list windows;      /* struct mw of type 2 that are bound to it */
    uint64_t deadline_ns;     /* earliest of its timers, as the heap has it */
    uint32_t timer_index;     /* in engine.timers; QP_NO_TIMER: not in it */
};

#define QP_NO_TIMER UINT32_MAX

/* Counts for the QP and for its engine; name is a row of QP_COUNTERS. */
#define qp_count(qp, name, amount)                                                                 \
    ((qp)->engine->counters.name += (amount), (qp)->counters.name += (amount))

/* Something of it has changed that qp_view shows. */
void qp_touch(struct qp *qp);

/* --- qp.c --- */

/* Looks up by the full QPN; NULL if none. */
struct qp *qp_find(struct engine *e, uint32_t qpn);

/* Forgets all work and all completions that were not polled; state and attributes are the caller's.
 */
void qp_reset(struct qp *qp);

/* RC and UC at RTR: takes the window of the peer's process and the source port. 0 or -ENOMEM. */
int qp_connect(struct qp *qp);

/* Entered SQD: raises SQ_DRAINED (if attr.sqd_notify) once what was started is done. */
void qp_drain(struct qp *qp);

/* Puts it on the engine's ready list unless it is there. */
void qp_make_ready(struct qp *qp);

/*
 * To the error state: all work in the queues is completed as flushed, in
 * order; responses stop; timers and windows are given back; LAST_WQE is raised
 * when it has an SRQ. Does nothing in RESET and ERR.
 */
void qp_enter_error(struct qp *qp);

/* A QP that lost a completion since it was last asked goes to error and raises QP_FATAL. */
void qp_fail_lost(struct qp *qp);

/* Completes all send (receive) requests as flushed, in order. */
void qp_flush_send(struct qp *qp);
void qp_flush_receive(struct qp *qp);

/* Requests are acknowledged (IBA 9.7; XRC: annex A14). */
static inline bool qp_is_reliable(const struct qp *qp)
{
    return qp->service == SERVICE_RC || qp->service == SERVICE_XRC;
}

/* The side of XRC that receives; the other one sends. */
static inline bool qp_is_target(const struct qp *qp)
{
    return qp->xrcd != NULL;
}

/* The SRQ that serves the QP; NULL: its own receive queue does, or none that is there any more. */
static inline struct srq *qp_srq(const struct qp *qp)
{
    return qp_is_target(qp) ? qp->responder.srq : qp->srq;
}

/* Where requests find memory, and where receives complete. XRC: only after a request was accepted.
 */
static inline struct pd *qp_receive_pd(const struct qp *qp)
{
    return qp_is_target(qp) ? qp->responder.srq->pd : qp->pd;
}

/* With whom a receive completion is forgotten: XRC targets come and go, their SRQs' completions
 * stay. */
static inline const void *qp_receive_owner(const struct qp *qp)
{
    return qp_is_target(qp) ? (const void *)qp->responder.srq : qp;
}

static inline struct cq *qp_receive_cq(const struct qp *qp)
{
    return qp_is_target(qp) ? qp->responder.srq->cq : qp->recv_cq;
}

/* The receive queue that serves the QP: its own or the SRQ's. */
struct recv_wqe *qp_take_receive(struct qp *qp);
void qp_release_receive(struct qp *qp, struct recv_wqe *wqe);
void qp_untake_receive(struct qp *qp, struct recv_wqe *wqe);

/* --- send_queue.c --- */

static inline struct send_wqe *send_queue_at(const struct send_queue *sq, uint32_t counter)
{
    return &sq->wqes[counter & sq->slot_mask];
}

static inline uint8_t *send_queue_data(const struct send_queue *sq, uint32_t counter)
{
    return sq->data + (size_t)(counter & sq->slot_mask) * sq->data_stride;
}

int send_queue_init(struct send_queue *sq, const struct qp_cap *cap); /* -ENOMEM */
void send_queue_fini(struct send_queue *sq);
/* As qp_rings_len, qp_set_rings, for this half. */
size_t send_queue_len(const struct send_queue *sq);
void send_queue_move(struct send_queue *sq, uint8_t *to);

/* --- timer.c --- */

/* Sets or moves the QP's deadline; ENGINE_NEVER takes it out. */
void timer_set(struct qp *qp, uint64_t deadline_ns);
/* The earliest of the QP's timers. */
uint64_t timer_due(const struct qp *qp);
/* Makes sure that the QP is looked at when its earliest timer is due. */
void timer_update(struct qp *qp);

/* --- rate.c --- */

/* Nothing that is paced may leave now. */
bool rate_blocks(const struct qp *qp);
/* Bytes that may leave in one batch on this path; SIZE_MAX: no limit. */
size_t rate_room(const struct qp *qp, const struct path *path);
/* A batch leaves. */
void rate_charge(struct qp *qp, const struct datagram_batch *b);
/* The QP gets a turn when the rate allows the next packet. */
void rate_wait(struct qp *qp);

/* --- requester.c and completer.c --- */

/* To the state of a fresh QP with sq_psn (RESET, and at RTR to RTS). Gives windows back. */
void requester_reset(struct qp *qp, struct psn sq_psn);
/* Gives back what is in flight and takes the QP off waiting lists. */
void requester_release(struct qp *qp);
/* Fills b; 0 if nothing may leave. */
uint32_t requester_transmit(struct qp *qp, uint64_t now, struct datagram_batch *b);
/* A timer of the QP has expired. */
void requester_expire(struct qp *qp, uint64_t now);
/* A response packet of the peer: ACK, NAK, READ response, atomic response. */
void completer_receive(struct qp *qp, const struct packet *p, uint64_t now);

/* --- congestion.c --- */

/* A switch has marked it. */
bool congestion_is_marked(const struct datagram *d);
/* A packet has come for the QP: if it shows congestion, a CNP falls due. */
void congestion_note(struct qp *qp, const struct datagram *d);
/* The CNP that is due, if any: returns 1 or 0. */
uint32_t congestion_transmit(struct qp *qp, struct datagram_batch *out);
/* A CNP has come. qp: the one that it names, or NULL. */
void congestion_receive(struct engine *e, struct qp *qp, const struct datagram *d);

/* --- responder.c and response.c --- */

void responder_reset(struct qp *qp, struct psn rq_psn);
/* Sizes the ring for READs and atomics (set by modify): 0 or -ENOMEM. */
int responder_set_reads(struct qp *qp, uint32_t count);
void responder_receive(struct qp *qp, const struct packet *p, const struct datagram *d,
                       uint64_t now);
uint32_t responder_transmit(struct qp *qp, uint64_t now, struct datagram_batch *b);
/* Writes ACK_LEN bytes: the ACK of all that an ACK may speak of, with these credits. */
void responder_write_ack(const struct qp *qp, uint8_t credit_code, uint8_t *to);
/* Is the newest request one that an ACK may speak of? True also when none has come. */
static inline bool responder_newest_is_ackable(const struct responder *r)
{
    return psn_equal(psn_add(r->ackable, 1), r->epsn);
}
/* An acknowledgement falls due. */
void responder_ack_due(struct qp *qp, uint64_t now);
/*
 * True when the application has answered the peer's last requests with requests of its own, each
 * within a few microseconds: then acknowledgements wait a little, to go along with the next.
 */
bool responder_in_dialogue(const struct qp *qp);
/*
 * A batch of total bytes with new requests is about to leave: adds the acknowledgement that is due,
 * if it fits. closed: a short packet is in, and nothing may follow.
 */
void responder_ride(struct qp *qp, uint64_t now, struct datagram_batch *out, size_t total,
                    bool closed);
/*
 * True when an acknowledgement is due that must reach the peer's application before any message
 * that takes a receive request there, and would not if it left behind it in one batch.
 */
bool responder_goes_first(const struct qp *qp);
/* A timer of the QP has expired. */
void responder_expire(struct qp *qp, uint64_t now);

#endif
