/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The queue of events: objects with something to tell stand in the order in
 * which they first had it (IBA 11.6.3, verbs asynchronous events). An object
 * stays in front until all of its events are taken.
 */
#include "engine/event_private.h"

#include <assert.h>

#include "engine/cq_private.h"
#include "engine/engine_private.h"
#include "engine/qp_private.h"
#include "engine/srq_private.h"

static_assert(ENGINE_EVENT_COMPLETION < 32, "every type has a bit in event_source.pending");

void event_source_init(struct event_source *s, enum event_owner owner)
{
    list_init(&s->link);
    s->pending = 0;
    s->owner = owner;
}

void event_raise(struct engine *e, struct event_source *s, enum engine_event_type type)
{
    assert((s->pending == 0) == list_empty(&s->link));
    if (s->pending == 0)
        list_push_tail(&e->events, &s->link);
    s->pending |= 1u << type;
}

void event_forget(struct event_source *s)
{
    list_remove(&s->link);
    s->pending = 0;
}

/* Takes the source's lowest event. */
static enum engine_event_type take_type(struct event_source *s)
{
    unsigned type = (unsigned)__builtin_ctz(s->pending);

    s->pending &= s->pending - 1;
    if (s->pending == 0)
        list_remove(&s->link);
    return (enum engine_event_type)type;
}

bool engine_event_next(struct engine *e, struct engine_event *out)
{
    struct event_source *s;

    if (list_empty(&e->events))
        return false;
    s = LIST_ENTRY(e->events.next, struct event_source, link);
    assert(s->pending != 0);
    *out = (struct engine_event){.type = take_type(s)};
    switch (s->owner) {
    case EVENT_OWNER_CQ:
        out->cq = LIST_ENTRY(s, struct cq, events);
        break;
    case EVENT_OWNER_QP:
        out->qp = LIST_ENTRY(s, struct qp, events);
        break;
    case EVENT_OWNER_SRQ:
        out->srq = LIST_ENTRY(s, struct srq, events);
        break;
    }
    return true;
}
