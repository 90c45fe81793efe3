/* SPDX-License-Identifier: BSD-2-Clause */
/* What requester.c, request.c and completer.c share about requests on their way. */
#ifndef UROCE_ENGINE_REQUESTER_PRIVATE_H
#define UROCE_ENGINE_REQUESTER_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/qp_private.h"
#include "engine/sge_private.h"

/* Why nothing may be sent now; computed afresh each time. */
#define SEND_BLOCKS(B)                                                                             \
    B(NONE, "something may be sent")                                                               \
    B(STATE, "the queue pair's state does not send")                                               \
    B(EMPTY, "nothing is posted")                                                                  \
    B(DRAINING, "SQD: no new request is started")                                                  \
    B(LOCAL_ERROR, "a request has a local error and waits for those before it")                    \
    B(RNR_WAIT, "the peer asked to wait for a receive request")                                    \
    B(FENCE, "a fenced request waits for READs and atomics before it, an invalidate for all")      \
    B(READ_LIMIT, "as many READs and atomics are outstanding as were agreed")                      \
    B(READ_WINDOW, "as many READ responses are on their way as the socket can hold")               \
    B(CREDITS, "the peer has announced no more receive requests")                                  \
    B(PSN_WINDOW, "2^23 packets are outstanding")                                                  \
    B(WINDOW, "the destination process has as much in flight as it can hold")                      \
    B(RATE, "packets that left have used up the rate limit")                                       \
    B(ROOM, "the receiver's socket has no room")                                                   \
    B(ACK, "an acknowledgement of this side leaves first")

enum send_block {
#define SEND_BLOCK_ENUM(name, text) SEND_BLOCK_##name,
    SEND_BLOCKS(SEND_BLOCK_ENUM)
#undef SEND_BLOCK_ENUM
};

static inline bool wr_is_atomic(enum wr_opcode opcode)
{
    return opcode == WR_CMP_SWAP || opcode == WR_FETCH_ADD;
}

/* Answered by a response of its own: an acknowledgement alone does not complete it. */
static inline bool wr_wants_response(enum wr_opcode opcode)
{
    return opcode == WR_READ || wr_is_atomic(opcode) || opcode == WR_ATOMIC_WRITE ||
           opcode == WR_FLUSH;
}

/* The response brings data for the request's SGEs. */
static inline bool wr_fetches(enum wr_opcode opcode)
{
    return opcode == WR_READ || wr_is_atomic(opcode);
}

/* Nothing leaves for it: it is carried out here, in its place among the others. */
static inline bool wr_is_local(enum wr_opcode opcode)
{
    return opcode == WR_BIND_MW || opcode == WR_LOCAL_INV;
}

/* The bytes of the request's SGEs leave with it. */
static inline bool wr_carries_data(enum wr_opcode opcode)
{
    return !wr_fetches(opcode) && !wr_is_local(opcode) && opcode != WR_FLUSH;
}

static inline bool wr_takes_receive(enum wr_opcode opcode)
{
    return opcode == WR_SEND || opcode == WR_SEND_IMM || opcode == WR_SEND_INV ||
           opcode == WR_WRITE_IMM;
}

/* Free-running counters: whether a comes before b. */
static inline bool counter_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

static inline struct sge_list wqe_sges(const struct qp *qp, uint32_t counter)
{
    const struct send_queue *sq = &qp->requester.sq;

    return (struct sge_list){.sges = (const struct sge *)(const void *)send_queue_data(sq, counter),
                             .count = send_queue_at(sq, counter)->sge_count,
                             .pd = qp->pd};
}

/* Payload bytes in the packets [from, to) of a message. */
static inline uint32_t wqe_bytes(const struct send_wqe *w, uint32_t pmtu, uint32_t from,
                                 uint32_t to)
{
    uint64_t first = (uint64_t)from * pmtu;
    uint64_t last = (uint64_t)to * pmtu;

    first = first < w->length ? first : w->length;
    last = last < w->length ? last : w->length;
    return (uint32_t)(last - first);
}

/* What the packets [from, to), or their READ responses, cost who receives them. */
static inline uint32_t wqe_cost(const struct send_wqe *w, uint32_t pmtu, uint32_t from, uint32_t to)
{
    return wqe_bytes(w, pmtu, from, to) + (to - from) * WINDOW_PACKET_COST;
}

/* Packets of a request that were sent since the requester last went back. */
static inline uint32_t wqe_sent(const struct requester *r, uint32_t counter)
{
    if (counter_before(counter, r->sq.next))
        return send_queue_at(&r->sq, counter)->packet_count;
    return counter == r->sq.next ? r->cursor : 0;
}

/* True while a packet is out that may still be answered. */
static inline bool requester_outstanding(const struct requester *r)
{
    return r->sq.next != r->sq.head || r->cursor != r->head_acked;
}

/* Why nothing may be sent now. */
enum send_block requester_block(const struct qp *qp);
const char *send_block_name(enum send_block block);

/* PSN of the next packet. */
struct psn requester_cursor_psn(const struct requester *r);

/*
 * Gives the request at sq.next its PSNs. False when there is nothing to send
 * for it: its local error was found, or it is local and was carried out.
 */
bool request_start(struct qp *qp);

/* A batch while it is filled. */
struct request_batch {
    struct datagram_batch *out;
    size_t total;     /* bytes so far */
    size_t room;      /* bytes that may leave */
    uint32_t unasked; /* bytes since the last packet that asks for an acknowledgement */
    uint8_t *last;    /* BTH of the last packet */
    bool closed;      /* a short packet is in: nothing may follow */
};

/* Appends the packet at the cursor and moves the cursor. False: it does not fit, or it has a local
 * error. */
bool request_append(struct qp *qp, struct request_batch *b);

/*
 * The batch is complete, and its packets have put bytes into the flight of the QP: adds what it
 * costs the receiver more because of how it leaves, and what its acknowledgement costs us, since
 * whoever sends as much to us shares our buffer with that.
 */
void request_charge_batch(struct qp *qp, const struct request_batch *b, uint32_t bytes);

/* The send cursor goes back to the oldest packet that is not acknowledged. */
void requester_go_back(struct qp *qp);

/* A retry after loss (time-out, NAK, implied NAK): goes back, or fails when retries are used up. */
void requester_retry(struct qp *qp, uint64_t now);

/* Starts the retransmission timer anew, or stops it when nothing is outstanding. */
void requester_restart_timer(struct qp *qp, uint64_t now);

/* The send cursor is at the end of a request: to the next, over local ones that were carried out.
 */
void requester_next(struct requester *r);

/*
 * Completes the oldest request, and local ones behind it that were carried
 * out; so the oldest is never one of these. fail: the QP goes to ERR (RC) or SQE.
 */
void requester_complete_head(struct qp *qp, enum completion_status status);
void requester_fail_head(struct qp *qp, enum completion_status status);

/* After requests were retired: what waited for that (a local error, SQD). */
void requester_settle(struct qp *qp);

#endif
