/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels and their events (ibv_get_cq_event and its relatives). */
#include "verbs/channel.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/event.h"
#include "verbs/event_fd.h"
#include "verbs/export.h"

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    struct context_handle *c = context_of(context);
    struct channel_handle *h;

    if (!context_alive(c)) {
        errno = EIO;
        return NULL;
    }
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        return NULL;
    h->ibv.fd = event_fd_open();
    if (h->ibv.fd < 0)
        goto free_channel;
    h->ibv.context = context;
    h->context = c;
    list_init(&h->ready);
    node_lock(c->node);
    context_get(c);
    node_unlock(c->node);
    return &h->ibv;

free_channel:
    free(h);
    return NULL;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    struct channel_handle *h = channel_of(channel);
    struct context_handle *c = h->context;
    int refcnt;

    if (!context_alive(c))
        return EIO;
    node_lock(c->node);
    refcnt = channel->refcnt;
    node_unlock(c->node);
    if (refcnt > 0)
        return EBUSY;
    close(channel->fd);
    free(h);
    context_put(c);
    return 0;
}

void channel_notify(struct cq_handle *cq)
{
    if (cq->channel == NULL)
        return;
    if (cq->comp_pending++ == 0)
        list_push_tail(&cq->channel->ready, &cq->comp_link);
    event_fd_signal(cq->channel->ibv.fd);
}

void channel_withdraw(struct cq_handle *cq)
{
    for (; cq->comp_pending > 0; cq->comp_pending--)
        event_fd_withdraw(cq->channel->ibv.fd);
    list_remove(&cq->comp_link);
}

/* Takes an event of the CQ that waits longest. NULL when there is none. */
static struct cq_handle *take_event(struct channel_handle *h)
{
    struct list *link = list_pop_head(&h->ready);
    struct cq_handle *cq;

    if (link == NULL)
        return NULL;
    cq = LIST_ENTRY(link, struct cq_handle, comp_link);
    cq->comp_reported++;
    if (--cq->comp_pending > 0)
        list_push_tail(&h->ready, &cq->comp_link);
    return cq;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    struct channel_handle *h = channel_of(channel);
    struct cq_handle *taken = NULL;

    if (!context_alive(h->context)) {
        errno = EIO;
        return -1;
    }
    while (taken == NULL) {
        node_before_sleep(h->context->node);
        if (event_fd_wait(channel->fd) != 0)
            return -1;
        node_lock(h->context->node);
        taken = take_event(h);
        node_unlock(h->context->node);
    }
    *cq = ibv_cq_ex_to_cq(&taken->ibv);
    *cq_context = taken->ibv.cq_context;
    return 0;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
    ack_add(&cq->mutex, &cq->cond, &cq->comp_events_completed, nevents);
}
