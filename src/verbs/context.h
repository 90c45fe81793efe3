/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An open device. The application's pointer is to the last member of struct
 * verbs_context: inline functions of <infiniband/verbs.h> reach the extended
 * calls at negative offsets from it. Ours lies behind.
 *
 *      struct verbs_context                      private
 *     +---------------------------+-------------+----------------
 *     | query_port ... close_xrcd | ibv_context | device, node ...
 *     +---------------------------+-------------+----------------
 *                                 ^ what ibv_open_device returns
 */
#ifndef UROCE_VERBS_CONTEXT_H
#define UROCE_VERBS_CONTEXT_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/list.h"
#include "node/node.h"
#include "verbs/device.h"
#include "verbs/event.h"

/* What its command descriptor is open on, by which a duplicate of it is known. */
struct context_file {
    dev_t device;
    ino_t inode;
};

struct context_handle {
    struct verbs_context verbs;
    struct context_file file;
    struct device_handle *device;
    struct node *node;
    uint32_t fork_generation; /* of the process that opened it */
    uint32_t port_tag;        /* of its device, for struct qp_init */
    /* under the node's lock */
    uint32_t use_count; /* 1 while open, and one for each PD, CQ and channel */
    uint32_t ah_count;
    struct list async;        /* struct async_source with something to tell */
    struct async_source port; /* tells of changes of the device */
    struct device_changes told;
    struct list link; /* on the list of open contexts */
};

static inline struct context_handle *context_of(struct ibv_context *ibv)
{
    return (struct context_handle *)((char *)ibv - offsetof(struct context_handle, verbs.context));
}

static inline bool file_same(const struct context_file *a, const struct context_file *b)
{
    return a->device == b->device && a->inode == b->inode;
}

/* How many forks lie between this process and the first that loaded the library. */
extern uint32_t fork_generation;

/*
 * False in a child of the process that opened it: its node did not survive the
 * fork. Every call asks this first, and answers EIO.
 */
static inline bool context_alive(const struct context_handle *c)
{
    return c->fork_generation == fork_generation;
}

/* Object creation and destruction count here; the node's lock is held. */
static inline void context_get(struct context_handle *c)
{
    c->use_count++;
}

/* Gives back a use; the node's lock is not held. The last one frees the context. */
void context_put(struct context_handle *c);

#endif
