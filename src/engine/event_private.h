/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Events wait in the objects that they speak of: a bit for each type, and a
 * link on the engine's list while a bit is set. So an event needs no memory of
 * its own and cannot be lost, and the same event is not queued twice.
 */
#ifndef UROCE_ENGINE_EVENT_PRIVATE_H
#define UROCE_ENGINE_EVENT_PRIVATE_H

#include <stdint.h>

#include "base/list.h"
#include "engine/engine.h"

enum event_owner {
    EVENT_OWNER_CQ,
    EVENT_OWNER_QP,
    EVENT_OWNER_SRQ,
};

struct event_source {
    struct list link; /* on engine.events while pending is not 0 */
    uint32_t pending; /* bit n: enum engine_event_type n */
    enum event_owner owner;
};

void event_source_init(struct event_source *s, enum event_owner owner);
void event_raise(struct engine *e, struct event_source *s, enum engine_event_type type);
void event_forget(struct event_source *s); /* the owner goes away */

#endif
