/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams with SO_KEEPALIVE, which the node's progress thread looks after. */
#ifndef UROCE_RDMACM_KEEPALIVE_H
#define UROCE_RDMACM_KEEPALIVE_H

struct node;
struct stream;

/* Its option or its time was set, or it has them from a listener. The socket's lock is held, or
 * nobody else knows the stream yet. */
void keepalive_update(struct stream *t);

/* The stream goes. The socket's lock is not held. */
void keepalive_forget(struct stream *t);

/* As node_alarm_fn: asks the peers that it is time to ask, and takes what came of it. */
void keepalive_look(struct node *n);

/* The process ends: from now on no stream is looked at, so its lock is the caller's to get. */
void keepalive_end(void);

/* After fork. */
void keepalive_in_child(void);

#endif
