/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels and their events (ibv_get_cq_event and its relatives). */
#include "verbs/channel.h"

#include <errno.h>
#include <pthread.h>
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
    if (cq->channel->quiet)
        cq->channel->untold++;
    else
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

static struct cq_handle *take_told(struct channel_handle *h)
{
    struct cq_handle *taken;

    node_lock(h->context->node);
    taken = take_event(h);
    node_unlock(h->context->node);
    return taken;
}

/* Makes progress and takes an event that this brings; those beyond it get their tokens. */
static struct cq_handle *take_from_progress(struct channel_handle *h, uint64_t *deadline)
{
    struct node *n = h->context->node;
    struct cq_handle *taken = NULL;

    node_lock(n);
    h->quiet = true;
    node_progress(n);
    h->quiet = false;
    if (h->untold > 0) {
        taken = take_event(h);
        while (--h->untold > 0)
            event_fd_signal(h->ibv.fd);
    }
    *deadline = node_deadline(n);
    node_unlock(n);
    return taken;
}

/* Returns 0 or a negative errno; *taken is an event then. */
static int serve_until_event(struct channel_handle *h, struct cq_handle **taken)
{
    struct node *n = h->context->node;
    uint64_t deadline;
    int result = 0;

    node_lock(n);
    deadline = node_deadline(n);
    node_unlock(n);
    while (*taken == NULL && result >= 0) {
        result = node_wait(n, h->ibv.fd, deadline);
        if (result == 0)
            *taken = take_from_progress(h, &deadline);
        else if (result > 0 && event_fd_try(h->ibv.fd))
            *taken = take_told(h);
    }
    return result < 0 ? result : 0;
}

static void end_wait(void *node)
{
    node_wait_end(node);
}

/* Waits for an event and serves the node; the thread may be cancelled meanwhile. */
static int wait_serving(struct channel_handle *h, struct cq_handle **taken)
{
    int result;

    pthread_cleanup_push(end_wait, h->context->node);
    result = serve_until_event(h, taken);
    pthread_cleanup_pop(1);
    return result;
}

/* Waits as the application set the descriptor up; another thread serves. */
static int wait_told(struct channel_handle *h, struct cq_handle **taken)
{
    node_before_sleep(h->context->node);
    if (event_fd_wait(h->ibv.fd) != 0)
        return -errno;
    *taken = take_told(h);
    return 0;
}

/* An event that is there already needs no waiting, nor the question how to wait. */
static struct cq_handle *take_waiting(struct channel_handle *h)
{
    bool told;

    node_lock(h->context->node);
    told = !list_empty(&h->ready);
    node_unlock(h->context->node);
    return told && event_fd_try(h->ibv.fd) ? take_told(h) : NULL;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    struct channel_handle *h = channel_of(channel);
    struct cq_handle *taken;

    if (!context_alive(h->context)) {
        errno = EIO;
        return -1;
    }
    taken = take_waiting(h);
    while (taken == NULL) {
        bool serves = event_fd_blocks(channel->fd) && node_wait_begin(h->context->node);
        int result = serves ? wait_serving(h, &taken) : wait_told(h, &taken);

        if (result != 0) {
            errno = -result;
            return -1;
        }
    }
    *cq = ibv_cq_ex_to_cq(&taken->ibv);
    *cq_context = taken->ibv.cq_context;
    return 0;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
    ack_add(&cq->mutex, &cq->cond, &cq->comp_events_completed, nevents);
}
