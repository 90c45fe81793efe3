/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs: create, move through their states, post work (IBA 10.2.4, 10.3,
 * 10.8.2, 11.2.5). What travels and what answers it are requester.h,
 * responder.h and completer.h.
 */
#ifndef UROCE_ENGINE_QP_H
#define UROCE_ENGINE_QP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/srq.h"
#include "wire/datagram.h"
#include "wire/opcode.h"
#include "wire/psn.h"

struct cq;
struct engine;
struct mw_bind;
struct pd;
struct qp;
struct xrcd;

/* The numbers of the enums in this file are those of the verbs interface; verbs/ asserts it. */
enum qp_state {
    QP_RESET = 0,
    QP_INIT = 1,
    QP_RTR = 2,
    QP_RTS = 3,
    QP_SQD = 4,
    QP_SQE = 5,
    QP_ERR = 6,
};
#define QP_STATE_COUNT 7

/* Attributes named in a modify. */
enum qp_attr_set {
    QP_ATTR_STATE = 1 << 0,
    QP_ATTR_CUR_STATE = 1 << 1,
    QP_ATTR_SQD_NOTIFY = 1 << 2,
    QP_ATTR_ACCESS = 1 << 3,
    QP_ATTR_PKEY_INDEX = 1 << 4,
    QP_ATTR_PORT = 1 << 5,
    QP_ATTR_QKEY = 1 << 6,
    QP_ATTR_AV = 1 << 7,
    QP_ATTR_PMTU = 1 << 8,
    QP_ATTR_TIMEOUT = 1 << 9,
    QP_ATTR_RETRY_COUNT = 1 << 10,
    QP_ATTR_RNR_RETRY = 1 << 11,
    QP_ATTR_RQ_PSN = 1 << 12,
    QP_ATTR_RD_ATOMIC = 1 << 13,
    QP_ATTR_ALT_PATH = 1 << 14,
    QP_ATTR_MIN_RNR_TIMER = 1 << 15,
    QP_ATTR_SQ_PSN = 1 << 16,
    QP_ATTR_DEST_RD_ATOMIC = 1 << 17,
    QP_ATTR_PATH_MIG_STATE = 1 << 18,
    QP_ATTR_CAP = 1 << 19,
    QP_ATTR_DEST_QPN = 1 << 20,
};

struct qp_cap {
    uint32_t send_wr_max;
    uint32_t recv_wr_max;
    uint32_t send_sge_max;
    uint32_t recv_sge_max;
    uint32_t inline_max; /* bytes */
};

struct qp_attr {
    enum qp_state state;
    enum qp_state cur_state;
    uint32_t pmtu; /* bytes: 256, 512, 1024, 2048, 4096 */
    uint32_t qkey;
    struct psn rq_psn;
    struct psn sq_psn;
    uint32_t dest_qpn;
    uint32_t access; /* enum access_set */
    uint16_t pkey_index;
    uint8_t port;
    struct path path;
    uint8_t rd_atomic;      /* outstanding READs and atomics as requester */
    uint8_t dest_rd_atomic; /* as responder */
    uint8_t min_rnr_timer;  /* RNR timer code, 0 to 31 */
    uint8_t timeout;        /* 4.096 us * 2^timeout; 0: never */
    uint8_t retry_count;    /* 0 to 7 */
    uint8_t rnr_retry;      /* 0 to 7; 7: for ever */
    bool sqd_notify;
    uint8_t path_mig_state;
};

struct qp_init {
    enum service service; /* RC, UC, UD or XRC */
    struct pd *pd;
    struct cq *send_cq;
    struct cq *recv_cq;
    struct srq *srq;   /* or NULL; none of a domain */
    struct xrcd *xrcd; /* XRC: makes it a target; NULL: an initiator */
    struct qp_cap cap;
    bool all_signaled;
    uint32_t pmtu; /* UD: largest payload, that of the port; 0: PMTU_MAX. RC and UC set theirs by
                      modify */
    void *context;
    uint32_t port_tag; /* the caller's number for the port that it is on */
};

/*
 * init->cap is rewritten with the real capabilities. An XRC initiator has no
 * receive side: recv_cq is not looked at. An XRC target has a domain and
 * nothing else: pd and CQs are those of the SRQs that requests name.
 * Returns 0; -EINVAL beyond the limits, for an unknown service or for parts
 * that do not go together; -ENOMEM.
 */
int qp_new(struct engine *e, struct qp_init *init, struct qp **out);

/*
 * Puts both queues, which must be empty, into memory of the caller: qp_rings_len bytes (0: the QP
 * has none), zeroed and aligned as malloc's, borrowed till the QP is freed.
 */
size_t qp_rings_len(const struct qp *qp);
void qp_set_rings(struct qp *qp, void *rings);

/*
 * Forgets the QP, its work and its completions that were not polled. Returns 0, or -EBUSY while it
 * is attached to a multicast group. As with qp_modify to RESET or
 * ERR, the newest ACK of an RC responder is said again by engine_transmit, lest a peer whose last
 * ACK was lost ask nobody.
 */
int qp_free(struct qp *qp);

/*
 * Applies the attributes named in mask (enum qp_attr_set) if the transition
 * table allows all of them together; else changes nothing and returns -EINVAL,
 * with *why (when not NULL) a sentence in static storage.
 */
int qp_modify(struct qp *qp, const struct qp_attr *attr, uint32_t mask, const char **why);
void qp_query(const struct qp *qp, struct qp_attr *attr, struct qp_cap *cap);

/*
 * How fast the QP may send, in kilobits a second of UDP payload; 0: as fast as can be. So many
 * bytes may leave back to back: burst_len; 0: a millisecond's worth. The static rate of a path
 * holds beside it. Returns 0, or -EINVAL for a QP that cannot send yet (RESET and INIT).
 */
int qp_set_rate(struct qp *qp, uint32_t rate_kbps, uint32_t burst_len);
uint32_t qp_rate_kbps(const struct qp *qp);

/* In SQD, and what was started is not done yet. */
bool qp_is_draining(const struct qp *qp);

uint32_t qp_qpn(const struct qp *qp);
enum qp_state qp_state(const struct qp *qp);
void *qp_context(const struct qp *qp);
void qp_set_context(struct qp *qp, void *context);

enum wr_opcode {
    WR_WRITE = 0,
    WR_WRITE_IMM = 1,
    WR_SEND = 2,
    WR_SEND_IMM = 3,
    WR_READ = 4,
    WR_CMP_SWAP = 5,
    WR_FETCH_ADD = 6,
    WR_LOCAL_INV = 7,
    WR_BIND_MW = 8,
    WR_SEND_INV = 9,
    WR_FLUSH = 14, /* the numbers of these two are those of later versions of the interface */
    WR_ATOMIC_WRITE = 15,
};

/* What a FLUSH asks for (IBA 1.5, FETH). */
enum flush_placement_set {
    FLUSH_GLOBAL = 1 << 0,     /* what was written is seen by all who can see the memory */
    FLUSH_PERSISTENT = 1 << 1, /* and survives a loss of power */
};

enum flush_selectivity {
    FLUSH_RANGE = 0,
    FLUSH_REGION = 1, /* all of the region that the key names */
};

enum wr_flag_set {
    WR_FENCE = 1 << 0,
    WR_SIGNALED = 1 << 1,
    WR_SOLICITED = 1 << 2,
    WR_INLINE = 1 << 3,
};

/* A destination of datagrams. */
struct ah {
    struct pd *pd;
    struct path path;
};

struct send_wr {
    uint64_t wr_id;
    enum wr_opcode opcode;
    uint32_t flags; /* enum wr_flag_set */
    /* Borrowed till the post returns. With WR_INLINE addr is a pointer to read now, lkey is not
     * looked at. */
    const struct sge *sges;
    uint32_t sge_count;
    uint32_t imm; /* immediate as a number in host order, or the R_Key to invalidate */
    uint64_t remote_addr;
    uint32_t rkey;
    uint64_t compare; /* or the number to add */
    uint64_t swap;
    uint32_t flush_len;       /* FLUSH of a range: bytes */
    uint32_t flush_placement; /* enum flush_placement_set */
    enum flush_selectivity flush_selectivity;
    uint32_t remote_srqn; /* XRC: SRQ that it is for */
    const struct ah *ah;  /* UD: borrowed till the post returns */
    uint32_t remote_qpn;
    uint32_t remote_qkey;       /* top bit set: the QP's own is sent (IBA 10.2.5) */
    const struct mw_bind *bind; /* borrowed till the post returns */
};

/*
 * Returns 0; -EINVAL for what can be judged at once (state, opcode for the
 * service, SGE count, inline length, message length, missing AH); -ENOMEM when the queue is full.
 * All else ends as a completion.
 */
int qp_post_send(struct qp *qp, const struct send_wr *wr);
int qp_post_recv(struct qp *qp, const struct recv_wr *wr);

/*
 * How many more requests the send queue takes now. A request counts until its completion is polled
 * (IBA 10.8.2), so that a completion queue as large as the queues that it serves never runs over.
 */
uint32_t qp_send_room(const struct qp *qp);

/*
 * True when what was posted loses nothing by waiting for more: packets of the
 * QP are on their way whose acknowledgement gives the next occasion to send, and
 * few requests wait. So that small messages posted one by one leave together.
 */
bool qp_may_gather(const struct qp *qp);

#endif
