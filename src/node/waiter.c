/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A thread of the application that waits for an event serves the node meanwhile, so that a
 * datagram wakes one thread and not two in turn. While there is such a waiter, the progress thread
 * leaves the link's descriptors alone (thread.c).
 *
 * What must hold: whenever nobody has the lock, each descriptor that is readable and each deadline
 * that is past has somebody who will look at it. Without a waiter that is the thread: it sleeps
 * with the descriptors armed, or stands back for a bounded time and looks again. With one it is the
 * waiter for the descriptors, which it watches as they are, and still the thread for deadlines: a
 * poster that makes an earlier one pokes it (node.c). The way back: the waiter clears `waiter`,
 * then reads `thread_aside`; the thread sets `thread_aside`, then reads `waiter`; all in one order
 * for all, so one of the two sees the other, and the thread is poked or does not fall asleep.
 */
#include "node/node_private.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <time.h>

bool node_wait_begin(struct node *n)
{
    bool nobody = false;

    if (atomic_load_explicit(&n->thread_state, memory_order_relaxed) == THREAD_NONE ||
        !atomic_compare_exchange_strong(&n->waiter, &nobody, true))
        return false;
    atomic_fetch_add(&n->waits, 1);
    atomic_store(&n->quiet_epoch, atomic_load(&n->epoch));
    return true;
}

void node_wait_end(struct node *n)
{
    atomic_store(&n->waiter, false);
    if (atomic_load(&n->thread_aside))
        thread_poke(n);
}

/* Whether a call that a signal interrupted would have gone on by itself, as far as one can know. */
static bool signals_restart(void)
{
    for (int signal = 1; signal < NSIG; signal++) {
        struct sigaction a;

        if (sigaction(signal, NULL, &a) == 0 && a.sa_handler != SIG_DFL &&
            a.sa_handler != SIG_IGN && (a.sa_flags & SA_RESTART) == 0)
            return false;
    }
    return true;
}

int node_wait(struct node *n, int fd, uint64_t deadline)
{
    const struct link *link = n->link;
    const uint64_t now = deadline == ENGINE_NEVER ? 0 : node_now();
    const uint64_t left = deadline > now ? deadline - now : 0;
    const struct timespec limit = {.tv_sec = (time_t)(left / NS_PER_S),
                                   .tv_nsec = (long)(left % NS_PER_S)};
    struct pollfd polled[2 + LINK_DESCRIPTORS_MAX] = {
        {.fd = fd, .events = POLLIN},
        /* poll ignores -1 */
        {.fd = atomic_load_explicit(&link->direct_descriptor, memory_order_relaxed),
         .events = POLLIN},
    };
    const struct timespec pause = {.tv_nsec = 1000000};
    int ready;

    for (uint32_t i = 0; i < link->descriptor_count; i++)
        polled[2 + i] = (struct pollfd){.fd = link->descriptors[i], .events = POLLIN};
    ready =
        ppoll(polled, 2 + link->descriptor_count, deadline == ENGINE_NEVER ? NULL : &limit, NULL);
    if (ready < 0)
        return errno == EINTR && signals_restart() ? 0 : -errno;
    if ((polled[0].revents & POLLNVAL) != 0)
        return -EBADF;
    for (uint32_t i = 0; i < link->descriptor_count; i++)
        if ((polled[2 + i].revents & POLLNVAL) != 0) /* the program closed it, with all others */
            clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
    return polled[0].revents != 0 ? 1 : 0;
}
