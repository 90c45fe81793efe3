/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One engine with one queue pair and all that it needs, brought to where it
 * can send and receive, with verbs that say in a line what a test does to it
 * and what it expects. Registered memory has an address of its own (IOVA), so
 * that a mix-up of the two is seen; offsets into it are what tests speak of.
 * Whatever is not as expected fails the cmocka test that runs.
 */
#ifndef UROCE_TESTS_ENDPOINT_H
#define UROCE_TESTS_ENDPOINT_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/cq.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/qp.h"
#include "engine/srq.h"
#include "engine/xrc.h"

#define ENDPOINT_MEMORY 0x80000u
#define ENDPOINT_IOVA 0x5a0000001000ull
#define ENDPOINT_RIGHTS                                                                            \
    (ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC |        \
     ACCESS_FLUSH_GLOBAL)

/* What a test may choose; start from endpoint_config_default. */
struct endpoint_config {
    struct engine_config engine;
    enum service service;
    uint32_t pmtu;
    uint32_t rq_psn;
    uint32_t sq_psn;
    uint32_t access;
    uint32_t wr_max; /* of both queues and, when there is one, the SRQ */
    uint8_t rd_atomic;
    uint8_t dest_rd_atomic;
    uint8_t timeout;
    uint8_t retry_count;
    uint8_t rnr_retry;
    uint8_t min_rnr_timer;
    uint8_t address; /* last byte of its IPv4 address; the peer's is the other of 2 and 3 */
    bool with_srq;
    bool target; /* XRC: the receiving side, with a domain and an SRQ in it; else the sending one */
    uint32_t qkey;
};

struct endpoint_config endpoint_config_default(uint8_t address);

struct endpoint {
    struct endpoint_config config;
    struct engine *engine;
    struct pd *pd;
    struct cq *send_cq;
    struct cq *recv_cq;
    struct srq *srq;   /* or NULL */
    struct xrcd *xrcd; /* of an XRC target, or NULL */
    struct qp *qp;
    struct mr *mr; /* over all of memory, with all rights */
    uint64_t now;
    uint8_t memory[ENDPOINT_MEMORY];
};

/* The queue pair stands in RESET. */
void endpoint_open(struct endpoint *ep, const struct endpoint_config *config);
void endpoint_close(struct endpoint *ep);

/* RESET to RTS, towards a QPN of the peer. */
void endpoint_connect(struct endpoint *ep, uint32_t dest_qpn);
void endpoint_modify_state(struct endpoint *ep, enum qp_state to, uint32_t extra_mask,
                           const struct qp_attr *extra);

struct gid endpoint_gid(uint8_t address);

/* Where an offset is to be found by work requests and by peers. */
static inline uint64_t at(uint64_t offset)
{
    return ENDPOINT_IOVA + offset;
}

/* A send request in one line: offsets are of this endpoint's memory (local) and the peer's. */
struct work {
    uint64_t wr_id;
    enum wr_opcode opcode;
    uint32_t flags;  /* WR_SIGNALED is added */
    bool unsignaled; /* no, it is not */
    uint32_t local;
    uint32_t len;
    uint32_t lkey; /* 0: the endpoint's */
    uint64_t remote;
    uint32_t rkey;
    uint64_t compare;
    uint64_t swap;
    uint32_t flush_len;
    uint32_t placement;
    enum flush_selectivity selectivity;
    uint32_t imm;
    uint32_t srqn;
    const struct mw_bind *bind;
};

int endpoint_try_post(struct endpoint *ep, const struct work *w);
void endpoint_post(struct endpoint *ep, const struct work *w);
void endpoint_post_recv(struct endpoint *ep, uint64_t wr_id, uint32_t offset, uint32_t len);

/* Fills memory with message's bytes from first on (pattern.h); checks the same. */
void endpoint_fill(struct endpoint *ep, uint32_t offset, uint64_t message, uint32_t first,
                   uint32_t len);
void expect_placed(const struct endpoint *ep, uint32_t offset, uint64_t message, uint32_t first,
                   uint32_t len);
/* No byte from offset on differs from 0. */
void expect_untouched(const struct endpoint *ep, uint32_t offset, uint32_t len);

/* The oldest completion of a queue is this one; returned for a closer look. */
struct completion expect_completion(struct cq *cq, uint64_t wr_id, enum completion_status status);
void expect_no_completion(struct cq *cq);

void expect_event(struct endpoint *ep, enum engine_event_type type);
void expect_no_event(struct endpoint *ep);

/* A counter by its name in engine.h. */
#define expect_counter(ep, name, value) assert_int_equal(engine_counters((ep)->engine)->name, value)

#endif
