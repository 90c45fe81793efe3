/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events: raised by the engine, fetched and acknowledged by the application. */
#include "verbs/event.h"

#include <assert.h>
#include <errno.h>

#include "engine/cq.h"
#include "engine/qp.h"
#include "engine/srq.h"
#include "verbs/channel.h"
#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/event_fd.h"
#include "verbs/export.h"
#include "verbs/port.h"
#include "verbs/qp.h"
#include "verbs/srq.h"

void async_source_init(struct async_source *s, enum async_owner owner)
{
    *s = (struct async_source){.owner = owner};
    list_init(&s->link);
}

static void raise_async(struct context_handle *c, struct async_source *s, uint32_t type)
{
    if ((s->pending & (1u << type)) != 0)
        return;
    if (s->pending == 0)
        list_push_tail(&c->async, &s->link);
    s->pending |= 1u << type;
    event_fd_signal(c->verbs.context.async_fd);
}

void async_withdraw(struct context_handle *c, struct async_source *s)
{
    for (; s->pending != 0; s->pending &= s->pending - 1)
        event_fd_withdraw(c->verbs.context.async_fd);
    list_remove(&s->link);
}

/* An event that was not fetched and is not true any more. */
static void retract(struct context_handle *c, struct async_source *s, uint32_t type)
{
    if ((s->pending & (1u << type)) == 0)
        return;
    s->pending &= ~(1u << type);
    event_fd_withdraw(c->verbs.context.async_fd);
    if (s->pending == 0)
        list_remove(&s->link);
}

void event_tell_changes(struct context_handle *c)
{
    const struct device_changes now = device_changes(c->device);

    if (now.port != c->told.port) {
        node_port_downed(c->node, c->port_tag, now.downs);
        retract(c, &c->port, now.up ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE);
        raise_async(c, &c->port, now.up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
    }
    if (now.gids != c->told.gids)
        raise_async(c, &c->port, IBV_EVENT_GID_CHANGE);
    c->told = now;
}

static void raise_for_sharers(struct qp_handle *first, uint32_t type)
{
    struct list *l = &first->sharers;

    do {
        struct qp_handle *h = LIST_ENTRY(l, struct qp_handle, sharers);

        raise_async(h->context, &h->async, type);
        l = l->next;
    } while (l != &first->sharers);
}

void event_dispatch(const struct engine_event *event)
{
    switch (event->type) {
    case ENGINE_EVENT_COMPLETION:
        channel_notify(cq_context(event->cq));
        break;
    case ENGINE_EVENT_CQ_ERR: {
        struct cq_handle *h = cq_context(event->cq);

        raise_async(h->context, &h->async, event->type);
        break;
    }
    case ENGINE_EVENT_SRQ_ERR:
    case ENGINE_EVENT_SRQ_LIMIT: {
        struct srq_handle *h = srq_context(event->srq);

        raise_async(h->context, &h->async, event->type);
        break;
    }
    case ENGINE_EVENT_QP_FATAL:
    case ENGINE_EVENT_QP_REQ_ERR:
    case ENGINE_EVENT_QP_ACCESS_ERR:
    case ENGINE_EVENT_COMM_EST:
    case ENGINE_EVENT_SQ_DRAINED:
    case ENGINE_EVENT_LAST_WQE:
        raise_for_sharers(qp_context(event->qp), event->type);
        break;
    }
}

/* Takes the oldest source's first event. False when there is none. */
static bool take_event(struct context_handle *c, struct ibv_async_event *out)
{
    struct async_source *s;
    unsigned type;

    if (list_empty(&c->async))
        return false;
    s = LIST_ENTRY(c->async.next, struct async_source, link);
    assert(s->pending != 0);
    type = (unsigned)__builtin_ctz(s->pending);
    s->pending &= s->pending - 1;
    s->reported++;
    if (s->pending == 0)
        list_remove(&s->link);
    out->event_type = (enum ibv_event_type)type;
    switch (s->owner) {
    case ASYNC_CQ:
        out->element.cq = ibv_cq_ex_to_cq(&LIST_ENTRY(s, struct cq_handle, async)->ibv);
        break;
    case ASYNC_QP:
        out->element.qp = &LIST_ENTRY(s, struct qp_handle, async)->ibv.qp_base;
        break;
    case ASYNC_SRQ:
        out->element.srq = &LIST_ENTRY(s, struct srq_handle, async)->ibv;
        break;
    case ASYNC_PORT:
        out->element.port_num = PORT_NUMBER;
        break;
    }
    return true;
}

EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    struct context_handle *c = context_of(context);
    bool taken = false;

    if (!context_alive(c)) {
        errno = EIO;
        return -1;
    }
    while (!taken) {
        node_before_sleep(c->node);
        if (event_fd_wait(context->async_fd) != 0)
            return -1;
        node_lock(c->node);
        taken = take_event(c, event);
        node_unlock(c->node);
    }
    return 0;
}

void ack_add(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *completed, uint32_t count)
{
    pthread_mutex_lock(mutex);
    *completed += count;
    pthread_cond_broadcast(cond);
    pthread_mutex_unlock(mutex);
}

/* Counters wrap; more acknowledged than reported is the application's error and no reason to wait.
 */
void ack_wait(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *completed,
              uint32_t reported)
{
    pthread_mutex_lock(mutex);
    while ((int32_t)(reported - *completed) > 0)
        pthread_cond_wait(cond, mutex);
    pthread_mutex_unlock(mutex);
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
    struct ibv_cq *cq = event->element.cq;
    struct ibv_qp *qp = event->element.qp;
    struct ibv_srq *srq = event->element.srq;

    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        ack_add(&cq->mutex, &cq->cond, &cq->async_events_completed, 1);
        break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        ack_add(&srq->mutex, &srq->cond, &srq->events_completed, 1);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        ack_add(&qp->mutex, &qp->cond, &qp->events_completed, 1);
        break;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_WQ_FATAL:
        break; /* of no object of ours: nothing waits for it */
    }
}
