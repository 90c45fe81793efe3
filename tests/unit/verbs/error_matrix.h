/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The rows of the error matrix (error_rows.c), the two sides of a connection on which they are
 * tried (error_sides.c), and a cell: one row with one kind of request (error_matrix.c).
 */
#ifndef UROCE_TESTS_UNIT_VERBS_ERROR_MATRIX_H
#define UROCE_TESTS_UNIT_VERBS_ERROR_MATRIX_H

#include "fixture.h"

#define ROWS_MAX 128u
#define PAGE_LEN ((size_t)4096)
#define MEMORY_LEN (8 * PAGE_LEN)
#define RECEIVE_OFFSET (4 * PAGE_LEN) /* of receives in a side's memory */
#define MESSAGE_LEN 600u              /* three packets of 256 bytes; one on UD */

/* What is wrong. */
enum fault {
    FAULT_NONE,
    FAULT_REMOTE_KEY,
    FAULT_REMOTE_DEREGISTERED,
    FAULT_REMOTE_OTHER_PD,
    FAULT_REMOTE_NO_RIGHT,
    FAULT_REMOTE_END,
    FAULT_REMOTE_START,
    FAULT_REMOTE_WRAPS,
    FAULT_REMOTE_MEMORY_GONE,
    FAULT_WINDOW_UNBOUND, /* from here on: keys of windows */
    FAULT_WINDOW_GOOD,
    FAULT_WINDOW_INVALIDATED,
    FAULT_WINDOW_OTHER_QP, /* bound, but not for the queue pair that is asked */
    FAULT_WINDOW_END,
    FAULT_WINDOW_NO_RIGHT,
    FAULT_NO_REMOTE_KEY_NEEDED, /* no bytes: no key is looked at */
    FAULT_QP_FORBIDS,
    FAULT_UNALIGNED,
    FAULT_LOCAL_KEY,
    FAULT_LOCAL_DEREGISTERED,
    FAULT_LOCAL_OTHER_PD,
    FAULT_LOCAL_READ_ONLY,
    FAULT_LOCAL_BOUNDS,
    FAULT_LOCAL_MEMORY_GONE,
    FAULT_TOO_LONG,
    FAULT_ATOMIC_LENGTH,
    FAULT_NO_READS_HERE,
    FAULT_NO_READS_THERE,
    FAULT_RECEIVE_TOO_SHORT,
    FAULT_RECEIVE_KEY,
    FAULT_RECEIVE_OTHER_PD,
    FAULT_RECEIVE_READ_ONLY,
    FAULT_RECEIVE_MEMORY_GONE,
    FAULT_NO_RECEIVE,
    FAULT_PEER_RESET,
    FAULT_PEER_INIT,
    FAULT_PEER_RTR,
    FAULT_PEER_SQD,
    FAULT_PEER_SQE,
    FAULT_PEER_ERR,
    FAULT_PEER_GONE,
    FAULT_PEER_DEAD, /* no process is there that could know of the queue pair */
    FAULT_OWN_SQD,
    FAULT_OWN_SQE,
    FAULT_OWN_ERR,
    FAULT_WRONG_QKEY,
    FAULT_WRONG_SRQ,
};

/* Beside the statuses of completions: it stays posted, or there is none. */
#define REQUEST_STAYS (-1)
#define RECEIVE_STAYS (-1)
#define EVENT_NONE (-1)
/* Beside the states: the queue pair is not there any more. */
#define GONE ((enum ibv_qp_state)100)

struct row {
    const char *name;
    enum fault fault;
    enum ibv_qp_type type; /* of the requester */
    uint32_t operations;   /* bit n: enum ibv_wr_opcode n */
    int status;            /* enum ibv_wc_status, or REQUEST_STAYS */
    int receive;           /* enum ibv_wc_status, or RECEIVE_STAYS */
    int event;             /* enum ibv_event_type of the peer, or EVENT_NONE */
    enum ibv_qp_state own_state;
    enum ibv_qp_state peer_state;
    const char *reason; /* the clause */
};

extern const struct row rows[];
extern const unsigned row_count;

struct operation_row {
    enum ibv_wr_opcode opcode;
    const char *name;
};

extern const struct operation_row operations[];
extern const unsigned operation_count;

static inline bool operation_is_atomic(enum ibv_wr_opcode opcode)
{
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

const char *operation_name(enum ibv_wr_opcode opcode);
void print_table(void);

enum region {
    REGION_GOOD,
    REGION_OTHER_PD,
    REGION_NO_RIGHTS,
    REGION_FOR_WINDOWS,
    REGION_GONE, /* deregistered: only its key is left */
    REGION_COUNT,
};

enum { SENDS, RECEIVES };

struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_pd *other_pd;
    struct ibv_cq *cq[2]; /* SENDS, RECEIVES */
    uint8_t *memory;
    struct ibv_mr *mr[REGION_COUNT];
    uint32_t key[REGION_COUNT];
    struct ibv_mw *window; /* of type 2 */
    struct ibv_qp *qp;     /* NULL: not there (any more) */
    struct ibv_qp *other_qp;
    struct ibv_xrcd *xrcd; /* of an XRC target: the domain, and an SRQ in it */
    struct ibv_srq *srq;
    uint32_t srqn;
    struct ibv_ah *ah;
};

/* All of a side but its queue pair, which comes and goes with the case. */
void side_open(struct side *s);
void side_close(struct side *s);
/* An XRC target comes with its domain and SRQ. */
struct ibv_qp *side_create_qp(struct side *s, enum ibv_qp_type type);
struct ibv_ah_attr loopback_address(const struct side *s);

/* Time-outs and retries as short as they can be. */
void qp_init(struct ibv_qp *qp, unsigned access);
void qp_rtr(const struct side *s, struct ibv_qp *qp, uint32_t peer_qpn, uint8_t dest_reads);
void qp_rts(struct ibv_qp *qp, uint8_t reads);
enum ibv_qp_state state_of(const struct side *s);

/* One request with one fault: a asks, b is the peer. */
struct cell {
    const struct row *row;
    struct side a;
    struct side b;
    uint32_t b_qpn; /* when b's queue pair is gone */
    uint32_t window_key;
};

#endif
