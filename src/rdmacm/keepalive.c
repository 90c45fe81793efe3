/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SO_KEEPALIVE: a connected peer of which nothing was heard for TCP_KEEPIDLE seconds is asked
 * whether it is there. What comes is heard when a call of the program takes it; while there is
 * none, a peer may be asked though something came, but is asked in time (LOOK_NS). The question
 * (stream_ask) is one that its transport answers, and ours repeats in vain when nobody does; the
 * error ends the stream, as that of any other send. How often and how long it is repeated is the
 * transport's affair, so TCP_KEEPINTVL and TCP_KEEPCNT mean nothing. How this goes with the
 * question that a waiting thread asks by itself is said in stream.c, at PROBE_NS.
 *
 * No thread of the program need be in a call: the progress thread looks at the streams that have
 * the option when the first of them is due (node_set_alarm), and again until the answer is there.
 * Data and its completions pass none of this.
 *
 * Locks: the socket's, the list's, the node's. The progress thread has the list's first and
 * therefore only tries the socket's: who has that may be waiting for something, even for this
 * thread.
 */
#include "rdmacm/keepalive.h"

#include <pthread.h>
#include <time.h>

#include "rdmacm/process.h"
#include "rdmacm/stream.h"

#define NS_PER_S UINT64_C(1000000000)
/* How soon an answer is looked for, and how often at most all streams are. */
#define LOOK_NS (NS_PER_S / 10)
#define END_WAIT_S 1

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list kept = {&kept, &kept}; /* of struct stream; under the lock */
static bool ended;                        /* likewise */

static uint64_t idle_ns(const struct stream *t)
{
    return (uint64_t)t->options.keepalive_s * NS_PER_S;
}

void keepalive_update(struct stream *t)
{
    pthread_mutex_lock(&lock);
    list_remove(&t->kept);
    if (t->options.keepalive)
        list_push_tail(&kept, &t->kept);
    pthread_mutex_unlock(&lock);
    /* After it is on the list: a look that is under way sees it, or the alarm is still to come. */
    if (t->options.keepalive)
        inside->node_set_alarm(process_node(), t->heard_ns + idle_ns(t));
}

void keepalive_forget(struct stream *t)
{
    pthread_mutex_lock(&lock);
    list_remove(&t->kept);
    pthread_mutex_unlock(&lock);
}

/* Has it been asked, and nothing has come since? */
static bool is_awaited(const struct stream *t)
{
    return t->asked_ns >= t->heard_ns;
}

static void ask(struct stream *t)
{
    stream_ask(t);
    t->asked_ns = socket_now();
    if (t->state != STREAM_CONNECTED)
        socket_news(&t->socket);
}

/* Returns when to look again: also at once, or SOCKET_NEVER. The socket's lock is held. */
static uint64_t look_at_connected(struct stream *t, uint64_t now)
{
    const bool awaited = is_awaited(t);

    if (!awaited && now < t->heard_ns + idle_ns(t))
        return t->heard_ns + idle_ns(t);
    stream_progress(t);
    if (!awaited && t->state == STREAM_CONNECTED)
        ask(t);
    return is_awaited(t) ? now : t->heard_ns + idle_ns(t);
}

static uint64_t look_at(struct stream *t, uint64_t now)
{
    switch (t->state) {
    case STREAM_IDLE:
    case STREAM_CONNECTING:
    case STREAM_ACCEPTING:
        /* Connected meanwhile, it is due after that. */
        return now + idle_ns(t);
    case STREAM_CONNECTED:
        return look_at_connected(t, now);
    case STREAM_LISTENING:
    case STREAM_CLOSED:
    case STREAM_FAILED:
        /* It stays so. */
        list_remove(&t->kept);
        return SOCKET_NEVER;
    }
    return SOCKET_NEVER;
}

static uint64_t try_to_look_at(struct stream *t, uint64_t now)
{
    uint64_t next;

    if (pthread_mutex_trylock(&t->socket.lock) != 0)
        return now;
    next = look_at(t, now);
    pthread_mutex_unlock(&t->socket.lock);
    return next;
}

void keepalive_look(struct node *n)
{
    const uint64_t now = socket_now();
    uint64_t next = SOCKET_NEVER;

    pthread_mutex_lock(&lock);
    for (struct list *l = kept.next, *after; l != &kept && !ended; l = after) {
        uint64_t due;

        after = l->next;
        due = try_to_look_at(LIST_ENTRY(l, struct stream, kept), now);
        next = due < next ? due : next;
    }
    pthread_mutex_unlock(&lock);
    if (next != SOCKET_NEVER)
        inside->node_set_alarm(n, next > now + LOOK_NS ? next : now + LOOK_NS);
}

/* A signal's handler may end the program while this very thread has the lock. */
void keepalive_end(void)
{
    struct timespec limit;

    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += END_WAIT_S;
    if (pthread_mutex_timedlock(&lock, &limit) != 0)
        return;
    ended = true;
    pthread_mutex_unlock(&lock);
}

void keepalive_in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    lock = fresh;
    list_init(&kept);
    ended = false;
}
