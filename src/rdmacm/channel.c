/* SPDX-License-Identifier: BSD-2-Clause */
/* Queues of events, and who has acknowledged what. */
#include "rdmacm/channel.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "rdmacm/id.h"
#include "rdmacm/multicast.h"
#include "rdmacm/process.h"
#include "verbs/event_fd.h"
#include "verbs/export.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t acknowledged = PTHREAD_COND_INITIALIZER;

static struct channel_handle *channel_of(struct rdma_event_channel *rdma)
{
    return (struct channel_handle *)((char *)rdma - offsetof(struct channel_handle, rdma));
}

void channels_forget(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
    static const pthread_cond_t fresh_cond = PTHREAD_COND_INITIALIZER;

    lock = fresh;
    acknowledged = fresh_cond;
}

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
    struct channel_handle *c = calloc(1, sizeof(*c));

    if (c == NULL)
        return NULL;
    list_init(&c->events);
    c->rdma.fd = event_fd_open();
    if (c->rdma.fd >= 0)
        return &c->rdma;
    free(c);
    return NULL;
}

/*
 * Programs (rping) destroy a channel that a thread of theirs waits for: with a kernel it sleeps on,
 * and nothing here happens so slowly that one which only is about to wait gets there in time.
 * So the newest that are gone can still be told from others.
 */
static void bury(struct channel_handle *c)
{
    static struct channel_handle *newest[16];
    static unsigned place;
    struct channel_handle *oldest;

    pthread_mutex_lock(&lock);
    oldest = newest[place];
    newest[place] = c;
    place = (place + 1) % (sizeof(newest) / sizeof(newest[0]));
    pthread_mutex_unlock(&lock);
    free(oldest);
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    struct channel_handle *c = channel_of(channel);
    struct list *link;
    int fd = channel->fd;

    while ((link = list_pop_head(&c->events)) != NULL)
        free(LIST_ENTRY(link, struct event_handle, link));
    atomic_store(&c->gone, true);
    channel->fd = -1;
    close(fd);
    bury(c);
}

/* --- in --- */

static void queue(struct event_handle *e)
{
    struct rdma_event_channel *channel;

    list_init(&e->link);
    pthread_mutex_lock(&lock);
    channel = e->owner->rdma.channel;
    list_push_tail(&channel_of(channel)->events, &e->link);
    event_fd_signal(channel->fd);
    pthread_mutex_unlock(&lock);
}

static int raise_event(struct id_handle *h, const struct rdma_cm_event *rdma,
                       struct membership *joined)
{
    struct event_handle *e = calloc(1, sizeof(*e));

    if (e == NULL)
        return -ENOMEM;
    e->id = h;
    e->owner = h;
    e->joined = joined;
    e->rdma = *rdma;
    queue(e);
    return 0;
}

int channel_raise(struct id_handle *h, enum rdma_cm_event_type type, int status)
{
    const struct rdma_cm_event rdma = {.id = &h->rdma, .event = type, .status = status};

    return raise_event(h, &rdma, NULL);
}

int channel_raise_joined(struct membership *m)
{
    const struct rdma_cm_event rdma = {.id = &m->id->rdma};

    return raise_event(m->id, &rdma, m);
}

/* A request gets its ID at once, so that what happens to it before it is fetched has a place. */
void channel_take_event(const struct cm_event *event)
{
    struct id_handle *h = inside->cm_id_user(event->id);
    struct id_handle *owner = h;
    struct event_handle *e;

    if (h == NULL)
        return;
    e = calloc(1, sizeof(*e));
    if (e != NULL && event->listener != NULL)
        h = id_new_child(owner, event->id);
    if (e == NULL || h == NULL) {
        free(e);
        if (event->listener != NULL) {
            inside->cm_id_set_user(event->id, NULL);
            inside->cm_id_free(event->id, inside->node_now());
        }
        return; /* as if a message had been lost */
    }
    e->id = h;
    e->owner = owner;
    e->from_cm = true;
    e->cm = *event;
    queue(e);
}

/* --- out --- */

/* Takes the oldest event, or NULL. */
static struct event_handle *take(struct rdma_event_channel *channel)
{
    struct list *link;
    struct event_handle *e = NULL;

    pthread_mutex_lock(&lock);
    link = list_pop_head(&channel_of(channel)->events);
    if (link != NULL) {
        e = LIST_ENTRY(link, struct event_handle, link);
        e->owner->reported++;
        if (e->joined != NULL)
            e->joined->reported = true;
    }
    pthread_mutex_unlock(&lock);
    return e;
}

bool channel_has_event(struct rdma_event_channel *channel)
{
    bool has;

    pthread_mutex_lock(&lock);
    has = !list_empty(&channel_of(channel)->events);
    pthread_mutex_unlock(&lock);
    return has;
}

static void acknowledge(struct event_handle *e)
{
    pthread_mutex_lock(&lock);
    e->owner->acked++;
    if (e->joined != NULL)
        e->joined->reported = false;
    pthread_cond_broadcast(&acknowledged);
    pthread_mutex_unlock(&lock);
    free(e);
}

EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    if (channel == NULL || event == NULL)
        return id_result(-EINVAL);
    for (;;) {
        struct event_handle *e;

        process_before_sleep();
        if (event_fd_wait(channel->fd) != 0) {
            while (atomic_load(&channel_of(channel)->gone))
                pause();
            return -1;
        }
        e = take(channel);
        if (e == NULL)
            continue;
        if (event_prepare(e)) {
            *event = &e->rdma;
            return 0;
        }
        acknowledge(e);
    }
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    if (event == NULL)
        return id_result(-EINVAL);
    acknowledge(LIST_ENTRY(event, struct event_handle, rdma));
    return 0;
}

void channel_wait_acked(struct id_handle *h)
{
    pthread_mutex_lock(&lock);
    while ((int32_t)(h->reported - h->acked) > 0)
        pthread_cond_wait(&acknowledged, &lock);
    pthread_mutex_unlock(&lock);
}

/* --- away --- */

/* Moves the events that are of h, or only a membership's, to the list. The lock is held. */
static void pick(const struct id_handle *h, const struct membership *joined, struct list *to)
{
    struct channel_handle *c = channel_of(h->rdma.channel);

    for (struct list *l = c->events.next, *next; l != &c->events; l = next) {
        const struct event_handle *e = LIST_ENTRY(l, struct event_handle, link);

        next = l->next;
        if ((e->owner != h && e->id != h) || (joined != NULL && e->joined != joined))
            continue;
        list_remove(l);
        list_push_tail(to, l);
        event_fd_withdraw(c->rdma.fd);
    }
}

void channel_withdraw(struct id_handle *h)
{
    struct list mine;
    struct list *link;

    list_init(&mine);
    pthread_mutex_lock(&lock);
    pick(h, NULL, &mine);
    pthread_mutex_unlock(&lock);
    while ((link = list_pop_head(&mine)) != NULL) {
        struct event_handle *e = LIST_ENTRY(link, struct event_handle, link);

        if (e->id != h) {
            inside->cm_id_set_user(e->cm.id, NULL);
            channel_withdraw(e->id);
            id_free_child(e->id);
        }
        free(e);
    }
}

void channel_end_membership(struct membership *m)
{
    struct list mine;
    struct list *link;

    list_init(&mine);
    pthread_mutex_lock(&lock);
    pick(m->id, m, &mine);
    while (m->reported)
        pthread_cond_wait(&acknowledged, &lock);
    pthread_mutex_unlock(&lock);
    while ((link = list_pop_head(&mine)) != NULL)
        free(LIST_ENTRY(link, struct event_handle, link));
}

void channel_move(struct id_handle *h, struct rdma_event_channel *to)
{
    struct list mine;
    struct list *link;

    list_init(&mine);
    pthread_mutex_lock(&lock);
    pick(h, NULL, &mine);
    h->rdma.channel = to;
    while ((link = list_pop_head(&mine)) != NULL) {
        list_push_tail(&channel_of(to)->events, link);
        event_fd_signal(to->fd);
    }
    pthread_mutex_unlock(&lock);
}
