/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this process shows of itself (stat_file.h). The data path counts in memory of its own; a
 * copy is made ten times a second while something moves, by whoever makes progress then. The
 * node's lock is held in all of it.
 */
#ifndef UROCE_NODE_PUBLISH_H
#define UROCE_NODE_PUBLISH_H

#include <stdint.h>

struct node;
struct qp;

/* Begins to publish; where that cannot be (no /dev/shm, no room), the log says why. */
void publish_open(struct node *n);

/* When publish_advance wants to be called: ENGINE_NEVER when nothing has changed. */
uint64_t publish_deadline(const struct node *n);

/* Publishes if it is time. */
void publish_advance(struct node *n, uint64_t now);

/* Before qp_free: what it has counted goes on to count for its port. */
void publish_qp_gone(struct node *n, struct qp *qp);

/* The process ends, and the file with it. */
void publish_close(struct node *n);

/* For a child after fork: the file is the parent's. */
void publish_abandon(struct node *n);

#endif
