/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Asynchronous events (ibv_get_async_event). As in the engine, an event is a
 * bit in the object that it speaks of, so it needs no memory of its own: the
 * same event of the same object, not fetched yet, is one event. Each bit that
 * is set has its token in the context's async_fd.
 */
#ifndef UROCE_VERBS_EVENT_H
#define UROCE_VERBS_EVENT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "engine/engine.h"

struct context_handle;

enum async_owner {
    ASYNC_CQ,
    ASYNC_QP,
    ASYNC_SRQ,
    ASYNC_PORT,
};

/* Under the node's lock. */
struct async_source {
    struct list link;  /* on context_handle.async while pending is not 0 */
    uint32_t pending;  /* bit n: event type n */
    uint32_t reported; /* events handed to the application, which acknowledges each */
    enum async_owner owner;
};

void async_source_init(struct async_source *s, enum async_owner owner);

/* The object goes away: events that were not fetched are forgotten. The node's lock is held. */
void async_withdraw(struct context_handle *c, struct async_source *s);

/* Raises what has changed of the device since it was last told. The node's lock is held. */
void event_tell_changes(struct context_handle *c);

/* The node's event handler: sorts the engine's events to channels and contexts. */
void event_dispatch(const struct engine_event *event);

/*
 * Acknowledgements (ibv_ack_cq_events, ibv_ack_async_event) count up; a
 * destroy waits until what was reported is acknowledged.
 */
void ack_add(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed, uint32_t count);
void ack_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
              uint32_t reported);

#endif
