/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues: a ring of fixed size and a way to be told of the next
 * entry (IBA 10.8, 11.4.2).
 */
#ifndef UROCE_ENGINE_CQ_H
#define UROCE_ENGINE_CQ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct engine;

/* The numbers of these three enums are those of the verbs interface; verbs/ asserts it. */
enum completion_status {
    STATUS_SUCCESS = 0,
    STATUS_LOC_LEN_ERR = 1,
    STATUS_LOC_QP_OP_ERR = 2,
    STATUS_LOC_PROT_ERR = 4,
    STATUS_WR_FLUSH_ERR = 5,
    STATUS_MW_BIND_ERR = 6,
    STATUS_BAD_RESP_ERR = 7,
    STATUS_LOC_ACCESS_ERR = 8,
    STATUS_REM_INV_REQ_ERR = 9,
    STATUS_REM_ACCESS_ERR = 10,
    STATUS_REM_OP_ERR = 11,
    STATUS_RETRY_EXC_ERR = 12,
    STATUS_RNR_RETRY_EXC_ERR = 13,
    STATUS_GENERAL_ERR = 21,
};

enum completion_opcode {
    COMPLETION_SEND = 0,
    COMPLETION_WRITE = 1,
    COMPLETION_READ = 2,
    COMPLETION_CMP_SWAP = 3,
    COMPLETION_FETCH_ADD = 4,
    COMPLETION_BIND_MW = 5,
    COMPLETION_LOCAL_INV = 6,
    COMPLETION_FLUSH = 8,
    COMPLETION_ATOMIC_WRITE = 9,
    COMPLETION_RECV = 128,
    COMPLETION_RECV_WRITE_IMM = 129,
};

enum completion_flag_set {
    COMPLETION_GRH = 1 << 0,
    COMPLETION_IMM = 1 << 1,
    COMPLETION_INVALIDATED = 1 << 3,
};

/*
 * What the service level of a received datagram says: RoCEv2 has no service level, and annex
 * A17.4.5.1 wants the completion to tell IPv4 from IPv6. Adapters use these values, and UCX finds
 * the GRH area's form by them.
 */
enum header_form { HEADER_FORM_UDP_IPV6 = 9, HEADER_FORM_UDP_IPV4 = 10 };

struct completion {
    uint64_t wr_id;
    enum completion_status status;
    enum completion_opcode opcode;
    uint32_t vendor_err;
    uint32_t byte_len;
    uint32_t imm; /* immediate as a number in host order, or the R_Key that was invalidated */
    uint32_t qpn;
    uint32_t src_qpn;
    uint32_t flags;        /* enum completion_flag_set */
    uint8_t service_level; /* of a datagram: the header that it came under, enum header_form */
    uint64_t timestamp_ns; /* engine time when it was queued */
    const void *owner; /* the QP, or the XRC SRQ that it came through; it is forgotten with it */
    struct qp *sender; /* of a send request, else NULL */
    uint32_t sq_end;   /* of a send request: its queue is free up to here once this is polled */
};

struct cq;

/* context is handed back in events. Returns 0; -EINVAL for a capacity of 0 or above
 * CQ_CAPACITY_MAX; -ENOMEM. */
int cq_new(struct engine *e, uint32_t capacity, void *context, struct cq **out);

/* Returns 0, or -EBUSY while a QP or SRQ uses it. Its events that were not taken are forgotten. */
int cq_free(struct cq *cq);

/*
 * Puts the ring into memory of the caller: cq_ring_len of its capacity bytes, aligned as malloc's,
 * borrowed till the CQ is freed or resized, which gives it a ring of its own.
 */
size_t cq_ring_len(uint32_t capacity);
void cq_set_ring(struct cq *cq, void *ring);

/* Keeps what is queued, in order. Returns 0; -EINVAL (also when more is queued than fits); -ENOMEM.
 */
int cq_resize(struct cq *cq, uint32_t capacity);

/*
 * Event moderation: an armed CQ raises its event when so many entries have come since it was
 * armed, or period_ns after the first of them. A count of 0 or 1: at the first; a
 * period of 0: no time limit. What waits already is judged anew.
 */
void cq_moderate(struct cq *cq, uint32_t count, uint64_t period_ns);

/* An entry that finds the ring full takes the place of the oldest, as in an adapter's ring, and
 * the CQ goes on. */
void cq_ignore_overrun(struct cq *cq);

uint32_t cq_capacity(const struct cq *cq);
uint32_t cq_queued(const struct cq *cq);
void *cq_context(const struct cq *cq);

/* Takes up to count entries in order. Returns how many; -EOVERFLOW once entries were lost and the
 * rest is taken. */
int cq_poll(struct cq *cq, uint32_t count, struct completion *out);

/*
 * The oldest entry in place, or NULL; cq_pop drops it. For callers that read
 * one entry at a time (extended polling).
 */
const struct completion *cq_peek(const struct cq *cq);
void cq_pop(struct cq *cq);

/*
 * Asks for one ENGINE_EVENT_COMPLETION at the next entry that is put in (with
 * solicited_only: the next solicited receive or error). A weaker request never
 * replaces a stronger one (IBA 11.4).
 */
void cq_arm(struct cq *cq, bool solicited_only);

#endif
