/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a request is found to be, and what that leads to: shared by responder.c
 * (which judges), execute.c (which carries out) and datagram.c (UD).
 */
#ifndef UROCE_ENGINE_RESPONDER_PRIVATE_H
#define UROCE_ENGINE_RESPONDER_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/memory.h"
#include "engine/qp_private.h"
#include "engine/sge_private.h"

/* What a verdict does to the queue pair. */
enum qp_effect {
    QP_EFFECT_STAYS, /* goes on */
    QP_EFFECT_FAILS, /* to the error state */
};

/* What RC answers. */
enum answer {
    ANSWER_NONE, /* faults of class J (IBA 9.9.3): the receiver's program alone is told */
    ANSWER_ACK,
    ANSWER_DUPLICATE, /* as the request's kind says */
    ANSWER_NAK_SEQUENCE,
    ANSWER_RNR_NAK,
    ANSWER_NAK_INVALID,
    ANSWER_NAK_ACCESS,
    ANSWER_NAK_OPERATIONAL,
};

/*
 * Every verdict on a request with its consequences (IBA 9.7.4, 9.7.5.2, 9.8.2, 9.9.3).
 * "receive" is the status with which a receive request that the message
 * holds or would take ends; on UC all but ACCEPT drop the message.
 */
/* clang-format off */
#define VERDICTS(V)                                                                                \
    /* verdict            on RC                   queue pair  receive ends as    event             counter */ \
    V(ACCEPT,             ANSWER_ACK,             STAYS,      SUCCESS,           NONE,             requests)               \
    V(DUPLICATE,          ANSWER_DUPLICATE,       STAYS,      SUCCESS,           NONE,             duplicate_request)      \
    V(PSN_AHEAD,          ANSWER_NAK_SEQUENCE,    STAYS,      SUCCESS,           NONE,             out_of_sequence)        \
    V(NO_RECEIVE,         ANSWER_RNR_NAK,         STAYS,      SUCCESS,           NONE,             no_receive)             \
    V(BAD_SEQUENCE,       ANSWER_NAK_INVALID,     FAILS,      WR_FLUSH_ERR,      QP_REQ_ERR,       bad_sequence_opcode)    \
    V(UNSUPPORTED,        ANSWER_NAK_INVALID,     FAILS,      WR_FLUSH_ERR,      QP_REQ_ERR,       bad_sequence_opcode)    \
    V(WRONG_SRQ,          ANSWER_NAK_INVALID,     FAILS,      WR_FLUSH_ERR,      QP_ACCESS_ERR,    wrong_xrc_srq)          \
    V(NOT_ENABLED,        ANSWER_NAK_INVALID,     FAILS,      WR_FLUSH_ERR,      QP_REQ_ERR,       remote_access_refused)  \
    V(BAD_LENGTH,         ANSWER_NAK_INVALID,     FAILS,      WR_FLUSH_ERR,      QP_REQ_ERR,       bad_length)             \
    V(TOO_MANY_READS,     ANSWER_NAK_INVALID,     FAILS,      WR_FLUSH_ERR,      QP_REQ_ERR,       too_many_reads)         \
    V(RECEIVE_TOO_SMALL,  ANSWER_NAK_INVALID,     FAILS,      LOC_LEN_ERR,       QP_REQ_ERR,       receive_too_small)      \
    V(RECEIVE_BAD,        ANSWER_NAK_OPERATIONAL, FAILS,      LOC_PROT_ERR,      NONE,             responder_memory_fault) \
    V(BAD_ACCESS,         ANSWER_NAK_ACCESS,      FAILS,      WR_FLUSH_ERR,      QP_ACCESS_ERR,    remote_access_refused)  \
    V(BAD_INVALIDATE,     ANSWER_NONE,            FAILS,      MW_BIND_ERR,       NONE,             remote_access_refused)  \
    V(MEMORY_FAULT,       ANSWER_NAK_OPERATIONAL, FAILS,      WR_FLUSH_ERR,      QP_ACCESS_ERR,    responder_memory_fault)
/* clang-format on */

enum verdict {
#define VERDICT_ENUM(name, answer, effect, status, event, counter) VERDICT_##name,
    VERDICTS(VERDICT_ENUM)
#undef VERDICT_ENUM
};

const char *verdict_name(enum verdict verdict);

/* Carries an accepted request of RC or UC out; what fails while doing it is the verdict. */
enum verdict execute(struct qp *qp, const struct packet *p);

/*
 * The QP fails. The receive request that the message holds (or, where the
 * verdict gives a status of its own, would have taken) ends with it. p: the
 * packet, or NULL when the fault was met while answering.
 */
void responder_fail(struct qp *qp, const struct packet *p, enum verdict v);

/* A duplicate READ or atomic: its answer is sent again. Others: the newest ACK. */
void execute_duplicate(struct qp *qp, const struct packet *p);

/* A UD datagram for the QP. */
void datagram_receive(struct qp *qp, const struct packet *p, const struct datagram *d);

/* Completes the receive request that the QP took. p is looked at for a success only. */
struct receive_end {
    enum completion_status status;
    uint32_t byte_len;
    uint32_t flags;
    uint32_t src_qpn;
    uint8_t service_level;
    bool write; /* WRITE with immediate */
};
void receive_complete(struct qp *qp, struct recv_wqe *wqe, const struct packet *p,
                      const struct receive_end *end);

/* Answered by a response of its own, which duplicates get again. */
static inline bool kind_is_remembered(enum operation_kind kind)
{
    return kind == KIND_READ || kind == KIND_CMP_SWAP || kind == KIND_FETCH_ADD ||
           kind == KIND_ATOMIC_WRITE || kind == KIND_FLUSH;
}

/* The rights that a FLUSH needs. */
static inline uint32_t flush_rights(const struct headers *h)
{
    return ((h->feth.placement_type & FLUSH_GLOBAL) != 0 ? ACCESS_FLUSH_GLOBAL : 0u) |
           ((h->feth.placement_type & FLUSH_PERSISTENT) != 0 ? ACCESS_FLUSH_PERSISTENT : 0u);
}

static inline struct read_resource *read_resource_at(const struct responder *r, uint32_t counter)
{
    return &r->reads[counter & (r->reads_size - 1)];
}

/* The request at counter at is answered next: from its start, or from where it is asked again. */
static inline void answer_begin(struct responder *r, uint32_t at)
{
    const struct read_resource *resource = read_resource_at(r, at);

    r->read_next = at;
    r->read_first = at != r->read_tail && resource->asked_again ? resource->again_from : 0;
    r->read_cursor = r->read_first;
}

/*
 * The one that was being answered is done with. After it comes what is asked
 * again, in the order of PSNs and no other, and then what was never answered.
 */
static inline void answer_advance(struct responder *r)
{
    uint32_t at = r->read_next + 1;

    read_resource_at(r, r->read_next)->asked_again = false;
    if ((int32_t)(at - r->read_answered) > 0)
        r->read_answered = at;
    while (at != r->read_answered && !read_resource_at(r, at)->asked_again)
        at++;
    answer_begin(r, at);
}

static inline struct sge_list receive_sges(const struct qp *qp, const struct recv_wqe *wqe)
{
    const struct srq *srq = qp_srq(qp);

    return (struct sge_list){
        .sges = wqe->sges, .count = wqe->sge_count, .pd = srq != NULL ? srq->pd : qp->pd};
}

#endif
