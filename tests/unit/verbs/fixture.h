/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the tests of the drop-in library share: a network namespace of their
 * own, the loopback device in it, and pairs of queue pairs joined over it.
 * A program asserts through cmocka; every wait has an end.
 */
#ifndef UROCE_TESTS_UNIT_VERBS_FIXTURE_H
#define UROCE_TESTS_UNIT_VERBS_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <infiniband/verbs.h>
#include <stdbool.h>

#define EXIT_SKIP 77 /* what meson takes for "skipped" */
#define BUF_SIZE 65536u
#define QKEY 0x11111111u
#define WAIT_MS 5000

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/*
 * First thing in main: moves the process to a fresh network namespace with the
 * loopback interface up. Ends it as skipped where the system does not allow that.
 */
void enter_namespace(void);

/* The loopback device, open. */
struct ibv_context *open_loopback(void);

/* Index of the entry of the GID table that is IPv4 (127.0.0.1) or IPv6 (::1). */
int gid_index(struct ibv_context *context, bool ipv4);

/* Everything that two queue pairs of one process need. */
struct pair {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel; /* of recv_cq */
    struct ibv_cq *send_cq;           /* of both */
    struct ibv_cq *recv_cq;
    struct ibv_srq *srq;  /* NULL unless the test made it before pair_create_qps */
    struct ibv_qp *qp[2]; /* 0 asks, 1 answers */
    uint8_t *buf;         /* BUF_SIZE of the one, BUF_SIZE of the other */
    struct ibv_mr *mr;
    struct ibv_ah *ah; /* UD: to the loopback address */
    bool ipv4;
    enum ibv_rate static_rate; /* of the way to each other */
    enum ibv_mtu path_mtu;     /* 0: 1024 */
};

/* Opens all but the queue pairs. */
void pair_open(struct pair *p);
/* Creates both; operations: 0, or IBV_QP_EX_WITH_... for the builder. */
void pair_create_qps(struct pair *p, enum ibv_qp_type type, uint64_t operations);
/* Both to RTS, each with the other as its peer. */
void pair_connect(struct pair *p);
/* All three. */
void pair_setup(struct pair *p, enum ibv_qp_type type, uint64_t operations);
void pair_close(struct pair *p);

/* What a test asks of a QP: one line each way. */
void to_init(struct ibv_qp *qp);
void to_rtr(struct pair *p, struct ibv_qp *qp, uint32_t peer_qpn);
void to_rts(struct ibv_qp *qp);
int to_state(struct ibv_qp *qp, enum ibv_qp_state state);

/* An SGE over buffer n (0 or 1) of the pair. */
struct ibv_sge sge_of(const struct pair *p, int n, uint32_t offset, uint32_t len);
uint8_t *buf_of(const struct pair *p, int n);

void post_receive(struct pair *p, uint64_t wr_id, uint32_t len);
/* Posts one signalled request on qp[0]; UD: to qp[1]. */
void post_request(struct pair *p, struct ibv_send_wr *wr);

/* Waits for one entry, which has to be there before WAIT_MS. */
struct ibv_wc poll_one(struct ibv_cq *cq);
/* Waits for one successful entry. */
struct ibv_wc expect_success(struct ibv_cq *cq);

/* True when the descriptor is readable within ms. */
bool readable(int fd, int ms);

#endif
