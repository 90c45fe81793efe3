/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every packet that an engine sends is legal. A flow is what one queue pair
 * puts on the wire: its requests, which must be those that its channel lists,
 * PSN by PSN, and its answers to the requests of its peer. What the engine may
 * know is bounded by the packets that were delivered to it.
 */
#ifndef UROCE_TESTS_FLOW_H
#define UROCE_TESTS_FLOW_H

#include "checkers/delivery.h"
#include "checkers/ledger.h"
#include "engine/limits.h"
#include "wire/datagram.h"
#include "wire/packet.h"

#define FLOW_STARTS 64u

/* A READ request or atomic that waits for its answer. */
struct asked {
    uint64_t first; /* PSNs first .. end - 1 */
    uint64_t end;
    uint64_t bytes;
};

struct flow {
    /* of the present life */
    char name[24];
    struct channel *channel; /* the QP's requests */
    struct channel *peer;    /* the requests that it answers; NULL for UD */
    const struct receive_queue *receives;
    uint32_t qpn;
    uint32_t dest_qpn; /* UD: of each message */
    struct path path;  /* UD: of each message */
    uint32_t rd_atomic;
    uint64_t timeout_ns; /* 0: never */
    uint32_t retry_count;
    uint32_t rnr_retry; /* 7: for ever */

    /* as requester */
    uint64_t sent;   /* past the newest PSN that was sent */
    uint64_t cursor; /* past the PSN that was sent last */
    uint64_t una;    /* the most that the answers can have acknowledged */
    struct asked asked[QP_RD_ATOMIC_MAX + 1];
    uint32_t asked_count;
    uint64_t quiet_until_ns; /* after an RNR NAK */
    uint64_t quiet_psn;
    bool left;     /* the application took it out of service: only ACKs may leave */
    bool draining; /* in SQD: no new message begins but one that may have been prepared */
    uint32_t begun_draining;
    uint64_t retransmitted;
    bool went_before;      /* ... and progress since then, so that it may not count any more */
    uint32_t retries;      /* since the last progress or RNR NAK */
    uint32_t rnr_naks;     /* since the last progress */
    bool may_go_back;      /* a NAK or a hole in the answers came since it last went back */
    uint64_t activity_ns;  /* of the last progress */
    uint64_t sent_ns;      /* of the last request */
    uint64_t begun;        /* request messages that were begun */
    uint64_t credit_limit; /* messages that the peer has receive requests for, the most it said */
    bool credits_known;
    uint16_t src_port; /* 0: nothing was sent */
    bool marked;       /* a packet came marked since the last CNP */

    /* as responder, in the peer's PSNs */
    uint64_t expected;      /* the most that the engine can expect */
    uint64_t ended;         /* request messages before it */
    uint64_t msn;           /* the newest that it sent */
    uint64_t response_next; /* past the READ or atomic response that was sent last */
    uint64_t response_max;  /* past the newest one */
    bool in_response;
    uint64_t starts[FLOW_STARTS]; /* PSNs of READ requests that came lately */
    uint32_t start_count;
};

bool packet_is_response(const struct packet *p);

/* What one engine sends: limits over all its flows. */
struct flow_limits {
    uint64_t window_max;
    uint64_t read_window;
    uint64_t read_part; /* most that one READ request asks for */
};

/* A new life of the QP; the fields of the first group are set by the caller. */
void flow_begin(struct flow *f);

/* One datagram of the batch that b's first fields describe, from f's QP. */
void flow_sent(struct flow *f, const struct datagram_batch *b, const uint8_t *bytes, size_t len,
               uint64_t now);

/* A datagram that f's engine is about to be given. */
void flow_delivered(struct flow *f, const struct packet *p, uint64_t now);

/* Bytes in flight of all flows to the destination of f, which just sent. */
void flow_check_windows(struct flow *const *flows, uint32_t count, const struct flow *f,
                        const struct flow_limits *limits, uint64_t now);

/* The latest time at which the engine must look after the flow on its own; UINT64_MAX: never. */
uint64_t flow_deadline(const struct flow *f, uint64_t now);

/* --- between the two files of the checker --- */

void flow_request_sent(struct flow *f, const struct packet *p, uint64_t now);
void flow_response_sent(struct flow *f, const struct packet *p);
void flow_response_delivered(struct flow *f, const struct packet *p, uint64_t now);

#endif
