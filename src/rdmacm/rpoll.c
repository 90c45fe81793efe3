/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rpoll and rselect wait for sockets over RDMA and for ordinary descriptors together. A socket is
 * asked itself; while nothing is ready the thread sleeps at the sockets' descriptors, which tell
 * that something has happened, not what.
 */
#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <time.h>

#include "rdmacm/process.h"
#include "rdmacm/socket.h"
#include "verbs/export.h"

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)
#define POLL_FEW 32u /* described on the stack */

/* What is waited for. */
struct wait {
    struct pollfd *fds;
    nfds_t count;
    struct rsock **sockets; /* NULL for an ordinary descriptor */
    struct pollfd *at;      /* where the thread sleeps */
    nfds_t ordinary;
};

/* --- one round --- */

static short ask_socket(struct rsock *s, short events)
{
    bool closed;

    if (s->generation != process_generation)
        return POLLERR;
    pthread_mutex_lock(&s->lock);
    closed = s->closed;
    pthread_mutex_unlock(&s->lock);
    if (closed)
        return POLLNVAL;
    return s->ops->poll(s, events);
}

/* Returns how many sockets are ready. */
static int ask_sockets(const struct wait *w)
{
    int ready = 0;

    for (nfds_t i = 0; i < w->count; i++) {
        w->fds[i].revents = 0;
        if (w->sockets[i] != NULL)
            w->fds[i].revents = ask_socket(w->sockets[i], w->fds[i].events);
        ready += w->fds[i].revents != 0;
    }
    return ready;
}

/* Returns how many ordinary descriptors are ready, or a negative errno. */
static int ask_ordinary(const struct wait *w)
{
    int ready = 0;

    if (w->ordinary == 0)
        return 0;
    for (nfds_t i = 0; i < w->count; i++) {
        w->at[i] = w->fds[i];
        if (w->sockets[i] != NULL)
            w->at[i].fd = -1;
    }
    if (poll(w->at, w->count, 0) < 0)
        return -errno;
    for (nfds_t i = 0; i < w->count; i++) {
        if (w->sockets[i] == NULL)
            w->fds[i].revents = w->at[i].revents;
        ready += w->at[i].revents != 0;
    }
    return ready;
}

static int ask_all(const struct wait *w)
{
    const int ready = ask_sockets(w);
    const int others = ask_ordinary(w);

    return others < 0 ? others : ready + others;
}

/* --- sleeping --- */

/* Sees to it that the sockets' descriptors tell. False: there is news already. */
static bool lie_down(const struct wait *w)
{
    bool quiet = true;

    for (nfds_t i = 0; i < w->count; i++) {
        struct rsock *s = w->sockets[i];

        w->at[i] = w->fds[i];
        if (s == NULL)
            continue;
        w->at[i].events = POLLIN;
        pthread_mutex_lock(&s->lock);
        quiet = !s->closed && !s->ops->arm(s) && quiet;
        s->sleepers++;
        pthread_mutex_unlock(&s->lock);
    }
    return quiet;
}

static void get_up(const struct wait *w)
{
    for (nfds_t i = 0; i < w->count; i++) {
        struct rsock *s = w->sockets[i];

        if (s == NULL)
            continue;
        pthread_mutex_lock(&s->lock);
        s->sleepers--;
        pthread_mutex_unlock(&s->lock);
    }
}

/* 0 or a negative errno. */
static int sleep_for(const struct wait *w, uint64_t left)
{
    const struct timespec limit = {.tv_sec = (time_t)(left / NS_PER_S),
                                   .tv_nsec = (long)(left % NS_PER_S)};

    /* At one descriptor a thread can serve the node itself. */
    if (w->count == 1 && w->sockets[0] != NULL)
        return socket_sleep(w->at[0].fd, socket_now() + left);
    process_before_sleep();
    return ppoll(w->at, w->count, &limit, NULL) < 0 ? -errno : 0;
}

/* --- rpoll --- */

/* Returns how many are ready, or a negative errno. */
static int poll_until(const struct wait *w, uint64_t deadline)
{
    const uint64_t most = (uint64_t)socket_defaults()->wake_ms * NS_PER_MS;

    for (;;) {
        int ready = ask_all(w);
        const uint64_t now = ready != 0 || deadline == 0 ? 0 : socket_now();
        uint64_t left = deadline > now ? deadline - now : 0;

        if (ready != 0 || left == 0)
            return ready;
        if (left > most)
            left = most;
        if (lie_down(w))
            ready = sleep_for(w, left);
        get_up(w);
        if (ready < 0)
            return ready;
    }
}

static void find_sockets(struct wait *w)
{
    for (nfds_t i = 0; i < w->count; i++) {
        w->sockets[i] = w->fds[i].fd < 0 ? NULL : socket_get(w->fds[i].fd);
        w->ordinary += w->sockets[i] == NULL;
    }
}

static void put_sockets(const struct wait *w)
{
    for (nfds_t i = 0; i < w->count; i++)
        if (w->sockets[i] != NULL)
            socket_put(w->sockets[i]);
}

/* Returns how many are ready, or a negative errno. */
static int poll_all(struct pollfd *fds, nfds_t count, uint64_t deadline)
{
    struct pollfd at[POLL_FEW];
    struct rsock *sockets[POLL_FEW];
    struct wait w = {.fds = fds, .count = count, .sockets = sockets, .at = at};
    int result = -ENOMEM;

    if (count > POLL_FEW) {
        w.at = calloc(count, sizeof(*w.at));
        w.sockets = calloc(count, sizeof(struct rsock *));
    }
    if (w.at != NULL && w.sockets != NULL) {
        find_sockets(&w);
        result = poll_until(&w, deadline);
        put_sockets(&w);
    }
    if (count > POLL_FEW) {
        free(w.at);
        free(w.sockets);
    }
    return result;
}

static int as_call(int result)
{
    if (result >= 0)
        return result;
    errno = -result;
    return -1;
}

EXPORT int rpoll(struct pollfd *fds, nfds_t nfds, int timeout)
{
    uint64_t deadline = SOCKET_NEVER;

    if (timeout >= 0)
        deadline = timeout == 0 ? 0 : socket_now() + (uint64_t)timeout * NS_PER_MS;
    return as_call(poll_all(fds, nfds, deadline));
}

/* --- rselect --- */

static bool in(int fd, const fd_set *set)
{
    return set != NULL && FD_ISSET(fd, set);
}

static nfds_t as_polled(int nfds, const fd_set *sets[3], struct pollfd *out)
{
    nfds_t count = 0;

    for (int fd = 0; fd < nfds; fd++) {
        const short events =
            (short)((in(fd, sets[0]) ? POLLIN : 0) | (in(fd, sets[1]) ? POLLOUT : 0) |
                    (in(fd, sets[2]) ? POLLPRI : 0));

        if (events != 0)
            out[count++] = (struct pollfd){.fd = fd, .events = events};
    }
    return count;
}

static int mark(int fd, bool is_ready, fd_set *set)
{
    if (set == NULL || !FD_ISSET(fd, set))
        return 0;
    if (!is_ready)
        FD_CLR(fd, set);
    return is_ready;
}

/* As the kernel's select reads what poll says. Returns how many bits are set, or -EBADF. */
static int as_selected(const struct pollfd *polled, nfds_t count, fd_set *sets[3])
{
    int bits = 0;

    for (nfds_t i = 0; i < count; i++)
        if ((polled[i].revents & POLLNVAL) != 0)
            return -EBADF;
    for (nfds_t i = 0; i < count; i++) {
        const short is = polled[i].revents;

        bits += mark(polled[i].fd, (is & (POLLIN | POLLHUP | POLLERR)) != 0, sets[0]);
        bits += mark(polled[i].fd, (is & (POLLOUT | POLLERR)) != 0, sets[1]);
        bits += mark(polled[i].fd, (is & POLLPRI) != 0, sets[2]);
    }
    return bits;
}

EXPORT int rselect(int nfds, fd_set *readfds, fd_set *writefds, fd_set *exceptfds,
                   struct timeval *timeout)
{
    const fd_set *asked[3] = {readfds, writefds, exceptfds};
    fd_set *sets[3] = {readfds, writefds, exceptfds};
    struct pollfd polled[FD_SETSIZE];
    uint64_t deadline = SOCKET_NEVER;
    nfds_t count;
    int result;

    if (nfds < 0 || nfds > FD_SETSIZE ||
        (timeout != NULL && (timeout->tv_sec < 0 || timeout->tv_usec < 0))) {
        errno = EINVAL;
        return -1;
    }
    count = as_polled(nfds, asked, polled);
    if (timeout != NULL)
        deadline = socket_now() + (uint64_t)timeout->tv_sec * NS_PER_S +
                   (uint64_t)timeout->tv_usec * 1000u;
    if (timeout != NULL && timeout->tv_sec == 0 && timeout->tv_usec == 0)
        deadline = 0;
    result = poll_all(polled, count, deadline);
    return as_call(result >= 0 ? as_selected(polled, count, sets) : result);
}
