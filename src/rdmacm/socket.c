/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of sockets, their life, and how threads wait at them. */
#include "rdmacm/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "engine/engine.h"
#include "link/own_descriptor.h"
#include "rdmacm/process.h"

#define NS_PER_S 1000000000u
#define PAGE_BITS 10u
#define PAGE_SOCKETS (1u << PAGE_BITS)
#define PAGES 1024u /* descriptors up to 1,048,575, the most that the kernel gives by default */

/* --- table --- */

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rsock **pages[PAGES]; /* under the lock */

/* NULL where there is no page. */
static struct rsock **slot_of(int fd)
{
    struct rsock **page = fd >= 0 && fd >> PAGE_BITS < (int)PAGES ? pages[fd >> PAGE_BITS] : NULL;

    return page != NULL ? &page[fd & (int)(PAGE_SOCKETS - 1)] : NULL;
}

void sockets_in_child(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    table_lock = fresh;
}

int socket_publish(struct rsock *s)
{
    struct rsock **slot;

    pthread_mutex_lock(&table_lock);
    if (s->fd >> PAGE_BITS < (int)PAGES && pages[s->fd >> PAGE_BITS] == NULL)
        pages[s->fd >> PAGE_BITS] = calloc(PAGE_SOCKETS, sizeof(struct rsock *));
    slot = slot_of(s->fd);
    if (slot != NULL) {
        *slot = s;
        s->users = 1;
    }
    pthread_mutex_unlock(&table_lock);
    return slot != NULL ? 0 : -ENOMEM;
}

struct rsock *socket_get(int fd)
{
    struct rsock **slot;
    struct rsock *s;

    pthread_mutex_lock(&table_lock);
    slot = slot_of(fd);
    s = slot != NULL ? *slot : NULL;
    if (s == NULL)
        errno = EBADF;
    else
        s->users++;
    pthread_mutex_unlock(&table_lock);
    return s;
}

void socket_put(struct rsock *s)
{
    bool last;

    pthread_mutex_lock(&table_lock);
    last = --s->users == 0;
    pthread_mutex_unlock(&table_lock);
    if (last)
        s->ops->free(s);
}

bool socket_withdraw(struct rsock *s)
{
    struct rsock **slot;
    bool mine;

    pthread_mutex_lock(&table_lock);
    slot = slot_of(s->fd);
    mine = *slot == s;
    if (mine) {
        *slot = NULL;
        s->users--; /* the table's; the caller has one */
    }
    pthread_mutex_unlock(&table_lock);
    return mine;
}

static bool has_page(unsigned page)
{
    bool has;

    pthread_mutex_lock(&table_lock);
    has = pages[page] != NULL;
    pthread_mutex_unlock(&table_lock);
    return has;
}

static void call_one(int fd, void (*call)(struct rsock *s))
{
    struct rsock *s = socket_get(fd);

    if (s == NULL)
        return;
    if (s->generation == process_generation)
        call(s);
    socket_put(s);
}

void socket_for_each(void (*call)(struct rsock *s))
{
    for (unsigned page = 0; page < PAGES; page++)
        for (unsigned i = 0; i < PAGE_SOCKETS && has_page(page); i++)
            call_one((int)(page * PAGE_SOCKETS + i), call);
}

/* --- life --- */

int socket_init(struct rsock *s, const struct socket_ops *ops, int family, int type)
{
    pthread_condattr_t attr;

    s->ops = ops;
    s->family = family;
    s->type = type;
    s->generation = process_generation;
    s->file_flags = O_RDWR;
    s->fd = epoll_create1(EPOLL_CLOEXEC);
    if (s->fd < 0)
        return -errno;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->news, &attr);
    pthread_condattr_destroy(&attr);
    return 0;
}

void socket_fini(struct rsock *s)
{
    close(s->fd);
    pthread_cond_destroy(&s->news);
    pthread_mutex_destroy(&s->lock);
}

int socket_watch(struct rsock *s, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return epoll_ctl(s->fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

int socket_hide(int *fd)
{
    int flags;

    *fd = own_descriptor(*fd);
    flags = fcntl(*fd, F_GETFL);
    return flags >= 0 && fcntl(*fd, F_SETFL, flags | O_NONBLOCK) == 0 ? 0 : -errno;
}

int socket_renumber(struct rsock *s)
{
    const int fd = fcntl(s->fd, F_DUPFD_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    close(s->fd);
    s->fd = fd;
    return 0;
}

/* --- waiting --- */

uint64_t socket_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
}

static int sleep_told(int fd, uint64_t deadline)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    const uint64_t now = socket_now();
    const struct timespec left = timespec_of(deadline > now ? deadline - now : 0);

    process_before_sleep();
    if (ppoll(&polled, 1, deadline == SOCKET_NEVER ? NULL : &left, NULL) < 0)
        return errno == EINTR ? -EINTR : -EIO;
    return 0;
}

static int sleep_serving(int fd, uint64_t deadline)
{
    struct node *n = process_node();
    uint64_t due;
    int result;

    process_lock();
    due = inside->node_deadline(n);
    process_unlock();
    for (;;) {
        result = inside->node_wait(n, fd, due < deadline ? due : deadline);
        if (result != 0 || (deadline != SOCKET_NEVER && socket_now() >= deadline))
            break;
        process_lock();
        inside->node_progress(n);
        due = inside->node_deadline(n);
        process_unlock();
    }
    return result < 0 ? result : 0;
}

int socket_sleep(int fd, uint64_t deadline)
{
    int state, result;

    /* A thread that is cancelled here would leave its turn to nobody. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    if (inside->node_wait_begin(process_node())) {
        result = sleep_serving(fd, deadline);
        inside->node_wait_end(process_node());
    } else {
        result = sleep_told(fd, deadline);
    }
    pthread_setcancelstate(state, NULL);
    return result;
}

/* One thread sleeps at the descriptor, the others are told by it. */
int socket_wait(struct rsock *s, uint64_t deadline)
{
    const struct timespec until = timespec_of(deadline);
    int result;

    if (s->waited && deadline == SOCKET_NEVER) {
        pthread_cond_wait(&s->news, &s->lock);
        return 0;
    }
    if (s->waited) {
        pthread_cond_timedwait(&s->news, &s->lock, &until);
        return 0;
    }
    if (s->ops->arm(s))
        return 0;
    s->waited = true;
    s->sleepers++;
    pthread_mutex_unlock(&s->lock);
    result = socket_sleep(s->fd, deadline);
    pthread_mutex_lock(&s->lock);
    s->sleepers--;
    s->waited = false;
    pthread_cond_broadcast(&s->news);
    return result;
}

void socket_news(struct rsock *s)
{
    if (s->sleepers > 0)
        s->ops->kick(s);
    pthread_cond_broadcast(&s->news);
}

bool socket_nonblocking(const struct rsock *s, int flags)
{
    return (flags & MSG_DONTWAIT) != 0 || (s->file_flags & O_NONBLOCK) != 0;
}

int socket_take_turn(struct rsock *s, pthread_mutex_t *turn, int flags)
{
    bool waits;

    if (pthread_mutex_trylock(turn) == 0)
        return 0;
    pthread_mutex_lock(&s->lock);
    waits = !socket_nonblocking(s, flags);
    pthread_mutex_unlock(&s->lock);
    if (!waits)
        return -EAGAIN;
    pthread_mutex_lock(turn);
    return 0;
}
