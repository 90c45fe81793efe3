/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * All queue pairs between this process and one other, and the operations on them, in both
 * directions at once. Whoever receives a SEND or a WRITE looks at every byte of it and answers with
 * an empty message; only then does its sender use the same memory again, so that no receive request
 * is ever missing. READ data and the old values of atomics are looked at by whoever asked for them.
 */
#ifndef UROCE_TESTS_APPS_TRANSFER_H
#define UROCE_TESTS_APPS_TRANSFER_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define TRANSFER_QPS_MAX 256u

enum kind { KIND_SEND, KIND_WRITE, KIND_READ, KIND_ATOMIC, KIND_COUNT };

/* What is done; both processes must be told the same. */
struct plan {
    uint32_t qps;
    uint32_t ops;                /* on each QP, in each direction; UINT32_MAX: till time is up */
    uint32_t size;               /* largest message */
    uint32_t depth;              /* operations of a QP at once, in each direction */
    bool exact;                  /* all messages are of that size, else of all sizes up to it */
    enum kind kinds[KIND_COUNT]; /* in turn */
    uint32_t kind_count;
    enum ibv_mtu mtu;
    bool orphan; /* goes on when the other process has died, till the transport says so */
};

/* This process's device; what all transfers share. */
struct endpoint {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel;
    struct ibv_cq *cq;
    union ibv_gid gid;
    int gid_index;
    uint32_t depth_max; /* of the device: outstanding READs and atomics of a QP */
};

struct transfer;

/* Makes the queue pairs and connects them to those of the process behind fd (taken). */
struct transfer *transfer_new(const struct endpoint *e, const struct plan *plan, int fd);
void transfer_free(struct transfer *t);

/* Posts what may be posted; with stopping set nothing new. */
void transfer_advance(struct transfer *t, bool stopping);

/* Takes a completion, if it is of this transfer. */
bool transfer_take(struct transfer *t, const struct ibv_wc *wc);

/* Reads what the other process says over TCP, without waiting. True when both are done. */
bool transfer_is_over(struct transfer *t);

int transfer_descriptor(const struct transfer *t);
uint64_t transfer_bytes(const struct transfer *t); /* verified */
uint64_t transfer_ops(const struct transfer *t);   /* verified */
uint32_t transfer_slot(const struct transfer *t);  /* high byte of our QPNs */

#endif
