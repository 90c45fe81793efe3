/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two processes, each with its own node, one connected RC queue pair and one
 * registered region, on the loopback address: what the tests of nodes need.
 * What must hold in them is said with must(); a process in which something
 * does not hold says so and ends, and the test fails.
 */
#ifndef UROCE_TESTS_UNIT_NODE_PAIR_H
#define UROCE_TESTS_UNIT_NODE_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/cq.h"
#include "engine/memory.h"
#include "engine/qp.h"
#include "node/node.h"

#define SIDE_MEMORY_LEN (1u << 20)

/* What one side tells the other. */
struct hello {
    uint32_t qpn;
    uint32_t psn;
    uint32_t rkey;
    uint32_t len;
    uint64_t addr;
};

struct side {
    struct node *node;
    int channel; /* to the other process */
    int events;  /* eventfd: readable when an armed CQ got something */
    struct pd *pd;
    struct cq *cq;
    struct mr *mr;
    struct qp *qp;
    uint8_t *memory; /* SIDE_MEMORY_LEN bytes, page aligned, all registered */
    struct hello mine;
    struct hello theirs;
};

/*
 * For the group: a network namespace of our own, where nobody else has the port. Where that is
 * not allowed the tests run beside whoever is there.
 */
int pair_namespace(void **state);

typedef void (*side_fn)(struct side *s);

void must_at(bool holds, const char *what, const char *file, int line);
#define must(condition) must_at(condition, #condition, __FILE__, __LINE__)

/* Runs the two in two processes and fails the test unless both end well and go on meanwhile. */
void pair_run(side_fn first, side_fn second);
/* The same, but each opens and connects itself. */
void pair_run_unconnected(side_fn first, side_fn second);

/*
 * A step forward, which every completion and meeting is; a side that takes none for 30 seconds is
 * ended. All of a test has no limit of its own: on a machine that gives it a hundredth of a core it
 * waits a thousand times for its turn and is right nonetheless.
 */
void side_goes_on(void);

/* Runs one in a process of its own: it has a channel to nowhere and nothing is opened yet. */
void side_run_alone(side_fn body);

/* Starts the node and makes the objects; side_connect tells the other side and connects. */
void side_open(struct side *s);
void side_connect(struct side *s);

/* Returns when the other side has come to the same point. Sleeps meanwhile. */
void side_meet(struct side *s);

void side_post_recv(struct side *s, uint64_t offset, uint32_t len);
/* SEND, WRITE or READ of len bytes between the same offset of both memories. */
void side_post(struct side *s, enum wr_opcode opcode, uint64_t offset, uint32_t len);

/* The next completion: by polling without a pause, or sleeping until an event says it is there. */
struct completion side_wait_polling(struct side *s);
struct completion side_wait_sleeping(struct side *s);

#endif
