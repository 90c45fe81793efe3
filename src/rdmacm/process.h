/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The process's node as this library has it. The node belongs to libibverbs.so.1; connections are
 * its connection manager's, whose lock is the node's.
 */
#ifndef UROCE_RDMACM_PROCESS_H
#define UROCE_RDMACM_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs/inside.h"

/* Set by the first process_get. */
extern const struct inside *inside;

/* How many forks lie between this process and the first that used the library: what is of
 * another generation has no node any more. */
extern uint32_t process_generation;

/*
 * Starts the node if it is not yet; it is used until the process ends. 0 or a negative errno (the
 * reason was said).
 */
int process_start(void);

/* The node's lock; it is started. */
void process_lock(void);
void process_unlock(void); /* what has to be sent leaves */

struct node *process_node(void);

/* Before a thread sleeps for an event. The node need not be started. */
void process_before_sleep(void);

#endif
