/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The progress thread: keeps engine and link going while the application does
 * not, and keeps out of the way while it does.
 *
 * The link's descriptors are one-shot in the thread's epoll, so that data that
 * the application fetches by polling wakes the thread at most once. Woken, it
 * looks at the epoch, which the application moves on with each poll: changed
 * since the last look means somebody is at it, and the thread sleeps a little and looks again. Only
 * when the epoch has stood still does it take the lock, move what there is, and arm the
 * descriptors. Arming reports what came in between, so no wake-up is lost, and
 * the application sets no flag that could be missed.
 *
 * A thread that goes to sleep itself says at which epoch; that is as good as standing still.
 */
#include "node/node_private.h"
#include "node/watch.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "link/own_descriptor.h"

#define STACK_SIZE ((size_t)256 * 1024)
#define TIMERSLACK_NS 1000u

/*
 * How long to stand back before the next look: a short time for an application that polled a few
 * times, as one does between two sleeps; longer for one that spins, longest for one that has spun
 * all along.
 */
#define STAND_BACK_SHORT_NS 20000u
#define STAND_BACK_NS 200000u
#define STAND_BACK_LONG_NS 1000000u
#define POLLS_SPINNING 8u
#define LOOKS_LONG 10u

/*
 * Sleeps are no longer than this while something was going on lately: most
 * deadlines are later, so that posting work need not wake the thread to tell it of them.
 */
#define ACTIVE_SLEEP_NS 20000000u

/*
 * Sleeping and waking cost both ends of a stream more than its batches are apart. A thread whose
 * sleeps were ended by datagrams within the first time, so many in a row, goes on looking for the
 * second time before it sleeps again; when that was in vain, not the next time.
 */
#define SHORT_SLEEP_NS 50000u
#define SHORT_SLEEPS 2u
#define SPIN_NS 30000u

/* A descriptor that reports something where nothing is: so many times in a row, then slowly. */
#define FRUITLESS_MAX 16u

/* What the thread knows; nobody else looks at it. */
struct thread {
    struct node *node;
    uint32_t seen_epoch;
    uint32_t seen_activity;
    uint32_t fruitless; /* wake-ups in a row that found nothing */
    uint32_t short_sleeps;
    uint32_t seen_waits;
    uint64_t slept_ns; /* since when it slept; 0: it did not */
    uint64_t moved_ns; /* when a turn last moved something */
    uint32_t wakeups;  /* and the next: since they were added to the counters */
    uint32_t stood_back;
    uint32_t changes;
    uint32_t fired; /* descriptors to arm, a bit each; the last is for the poke */
    bool moved;     /* in the last turn */
    bool spinner;   /* the application was found polling without a pause */
};

/* How long exit waits for the thread to end. */
#define STOP_NS 100000000u

#define EVENT_POKE ((uint32_t)LINK_DESCRIPTORS_MAX)
#define EVENT_WATCH (EVENT_POKE + 1)
#define EVENTS_MAX (EVENT_WATCH + 1)
#define FIRED_POKE (1u << EVENT_POKE)
#define FIRED_WATCH (1u << EVENT_WATCH)

static _Atomic(node_change_fn) change_handler;
static _Atomic(node_alarm_fn) alarm_handler;

void node_set_change_handler(node_change_fn fn)
{
    atomic_store(&change_handler, fn);
}

/* Hands on that something changed; the lock is not held. */
static void look_for_changes(struct thread *t)
{
    node_change_fn fn = atomic_load_explicit(&change_handler, memory_order_acquire);

    if (t->node->watch_fd < 0 || !watch_take(t->node->watch_fd))
        return;
    t->changes++;
    if (fn != NULL)
        fn(t->node);
}

void node_set_alarm_handler(node_alarm_fn fn)
{
    atomic_store(&alarm_handler, fn);
}

void node_set_alarm(struct node *n, uint64_t at_ns)
{
    node_lock(n);
    if (at_ns < atomic_load(&n->alarm_ns))
        atomic_store(&n->alarm_ns, at_ns);
    if (atomic_load(&n->thread_state) == THREAD_WAITING && at_ns < n->sleeps_until) {
        n->sleeps_until = 0;
        thread_poke(n);
    }
    node_unlock(n);
}

/*
 * The lock is not held. Whoever set an alarm before it is taken back here is served by the call
 * that follows.
 */
static void sound_alarm(struct node *n)
{
    const uint64_t at_ns = atomic_load(&n->alarm_ns);
    node_alarm_fn fn;

    if (at_ns == ENGINE_NEVER || node_now() < at_ns)
        return;
    atomic_store(&n->alarm_ns, ENGINE_NEVER);
    fn = atomic_load(&alarm_handler);
    if (fn != NULL)
        fn(n);
}

/*
 * A full counter is readable too. Nor is any other error worth ending the program for: one that
 * closes all its descriptors, as daemons do, closes ours.
 */
void thread_poke(struct node *n)
{
    const uint64_t one = 1;
    ssize_t written;

    atomic_fetch_add_explicit(&n->pokes, 1, memory_order_relaxed);
    written = write(n->wake_fd, &one, sizeof(one));
    (void)written;
}

static void drain_poke(struct node *n)
{
    uint64_t count;
    ssize_t got = read(n->wake_fd, &count, sizeof(count));

    (void)got;
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
}

/* Sleeps for ns or until poked. */
static void nap(struct node *n, uint64_t ns)
{
    struct pollfd poked = {.fd = n->wake_fd, .events = POLLIN};
    struct timespec time = timespec_of(ns);

    if (ppoll(&poked, 1, &time, NULL) <= 0)
        return;
    if ((poked.revents & POLLIN) != 0)
        drain_poke(n);
    else
        clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL); /* the program closed it */
}

/* epoll_wait with a deadline in nanoseconds; kernels before 5.11 round up to milliseconds. */
static int epoll_wait_until(int fd, struct epoll_event *events, int count, uint64_t deadline)
{
    uint64_t now, left;
    struct timespec time;
    int result, ms;

    if (deadline == ENGINE_NEVER)
        return epoll_wait(fd, events, count, -1);
    now = node_now();
    left = deadline > now ? deadline - now : 0;
    time = timespec_of(left);
    result = epoll_pwait2(fd, events, count, &time, NULL);
    if (result >= 0 || (errno != ENOSYS && errno != EPERM))
        return result;
    ms = left < (uint64_t)INT_MAX * 1000000u ? (int)((left + 999999u) / 1000000u) : INT_MAX;
    return epoll_wait(fd, events, count, ms);
}

/* Sleeps until a descriptor, a poke or the deadline, and notes which descriptors fired. */
static void wait_until(struct thread *t, uint64_t deadline)
{
    struct epoll_event events[EVENTS_MAX];
    int count = epoll_wait_until(t->node->epoll_fd, events, EVENTS_MAX, deadline);

    if (count < 0)
        nap(t->node, STAND_BACK_LONG_NS);
    for (int i = 0; i < count; i++)
        t->fired |= 1u << events[i].data.u32;
    if ((t->fired & FIRED_POKE) != 0)
        drain_poke(t->node);
    if ((t->fired & FIRED_WATCH) != 0)
        look_for_changes(t);
    t->fired &= ~(FIRED_POKE | FIRED_WATCH);
    t->wakeups++;
}

/* One-shot descriptors that fired are asleep; what arrived since fires at once. */
static void arm(struct thread *t)
{
    const struct link *link = t->node->link;

    for (uint32_t i = 0; i < link->descriptor_count; i++) {
        struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u32 = i};

        if ((t->fired & (1u << i)) != 0)
            epoll_ctl(t->node->epoll_fd, EPOLL_CTL_MOD, link->descriptors[i], &event);
    }
    t->fired = 0;
}

/* How often the application has made progress by itself since the last look; 0 for one that sleeps.
 */
static uint32_t application_polls(const struct thread *t)
{
    uint32_t epoch = atomic_load(&t->node->epoch);

    return epoch == atomic_load(&t->node->quiet_epoch) ? 0 : epoch - t->seen_epoch;
}

/* Sleeps for as long as the application polls. Returns true if it slept at all. */
static bool stand_back(struct thread *t)
{
    uint32_t polls, looks = 0;

    /*
     * Before the look, as node_before_sleep looks at the state after its note: one of the two
     * sees the other.
     */
    atomic_store(&t->node->thread_state, THREAD_STANDING_BACK);
    while ((polls = application_polls(t)) > 0) {
        t->seen_epoch += polls;
        t->spinner |= polls >= POLLS_SPINNING;
        if (looks >= LOOKS_LONG)
            nap(t->node, STAND_BACK_LONG_NS);
        else if (looks > 0 || polls >= POLLS_SPINNING)
            nap(t->node, STAND_BACK_NS);
        else
            nap(t->node, STAND_BACK_SHORT_NS);
        look_for_changes(t);
        sound_alarm(t->node);
        looks++;
    }
    atomic_store(&t->node->thread_state, THREAD_SERVING);
    t->stood_back += looks;
    return looks > 0;
}

/*
 * An application that spun has to be still for one look more before the descriptors are armed: on
 * a busy machine it may just have lost its core, and each wake-up would take it away again.
 */
static bool linger(struct thread *t, uint64_t deadline)
{
    uint64_t now = node_now();

    if (!t->spinner || deadline <= now)
        return false;
    t->spinner = false;
    atomic_store(&t->node->thread_state, THREAD_STANDING_BACK);
    if (atomic_load(&t->node->epoch) != atomic_load(&t->node->quiet_epoch))
        nap(t->node, deadline - now < STAND_BACK_NS ? deadline - now : STAND_BACK_NS);
    return true;
}

/*
 * Leaves the descriptors to a thread that waits for an event and serves meanwhile. While waits
 * begin and end, it looks from time to time; when the waiter stays, it sleeps until that one ends.
 * Returns true if it slept at all.
 */
static bool leave_to_waiter(struct thread *t, uint64_t deadline)
{
    struct node *n = t->node;
    uint32_t waits = atomic_load(&n->waits);

    if (waits != t->seen_waits) {
        t->seen_waits = waits;
        atomic_store(&n->thread_state, THREAD_STANDING_BACK);
        nap(n, STAND_BACK_LONG_NS);
        return true;
    }
    if (!atomic_load(&n->waiter))
        return false;
    atomic_store(&n->thread_aside, true);
    if (atomic_load(&n->waiter))
        wait_until(t, deadline);
    atomic_store(&n->thread_aside, false);
    return true;
}

static void add_counters(struct thread *t)
{
    struct node_counters *c = &t->node->counters;

    c->wakeups += t->wakeups;
    c->stood_back += t->stood_back;
    c->served += t->moved ? 1 : 0;
    t->wakeups = 0;
    t->stood_back = 0;
    c->changes += t->changes;
    t->changes = 0;
}

/* After a turn: notes how the sleep before it ended. */
static void note_sleep(struct thread *t)
{
    const uint64_t now = t->node->now;

    if (t->slept_ns != 0)
        t->short_sleeps = t->moved && now - t->slept_ns < SHORT_SLEEP_NS ? t->short_sleeps + 1 : 0;
    t->slept_ns = 0;
    if (t->moved)
        t->moved_ns = now;
}

/* Whether to look again at once though the last turn moved nothing. */
static bool spins(struct thread *t)
{
    if (t->short_sleeps < SHORT_SLEEPS || t->node->lone_core)
        return false;
    if (t->node->now - t->moved_ns < SPIN_NS)
        return true;
    t->short_sleeps = 0;
    return false;
}

/* When the thread must be awake again; the lock is held. */
static uint64_t next_deadline(struct node *n)
{
    const uint64_t deadline = progress_deadline(n);
    const uint64_t alarm = atomic_load(&n->alarm_ns);

    return alarm < deadline ? alarm : deadline;
}

/*
 * One turn under the lock. *deadline is when to wake, 0 when there is more to
 * do at once. Returns false when the thread is to end.
 */
static bool serve(struct thread *t, uint64_t *deadline)
{
    struct node *n = t->node;
    bool goes_on;

    node_acquire(n);
    goes_on = !n->thread_stop;
    *deadline = 0;
    if (goes_on) {
        t->moved = progress_turn(n);
        add_counters(t);
        note_sleep(t);
        if (!t->moved && !spins(t))
            *deadline = next_deadline(n);
        if (n->activity != t->seen_activity && *deadline > n->now + ACTIVE_SLEEP_NS)
            *deadline = n->now + ACTIVE_SLEEP_NS;
        t->seen_activity = n->activity;
        t->seen_epoch = atomic_load_explicit(&n->epoch, memory_order_relaxed);
        n->sleeps_until = *deadline;
        if (*deadline > 0) {
            t->slept_ns = n->now;
            atomic_store(&n->thread_state, THREAD_WAITING);
        }
    }
    node_release(n);
    return goes_on;
}

/*
 * A descriptor that fires and brings nothing, again and again, must not keep a core busy. What
 * fires while the application polls has most likely been fetched by it.
 */
static void note_fruit(struct thread *t, bool *promised)
{
    if (t->moved)
        t->fruitless = 0;
    else if (*promised)
        t->fruitless++;
    *promised = false;
    if (t->fruitless > FRUITLESS_MAX)
        nap(t->node, STAND_BACK_LONG_NS);
}

static void *thread_main(void *context)
{
    struct thread t = {.node = context, .fired = FIRED_POKE - 1};
    uint64_t deadline;
    bool promised = false;

    prctl(PR_SET_TIMERSLACK, TIMERSLACK_NS, 0, 0, 0);
    while (serve(&t, &deadline)) {
        note_fruit(&t, &promised);
        if (deadline > 0 && !leave_to_waiter(&t, deadline) && !linger(&t, deadline)) {
            arm(&t);
            wait_until(&t, deadline);
            promised = t.fired != 0;
        }
        if (stand_back(&t))
            promised = false;
        sound_alarm(t.node);
    }
    return NULL;
}

/* All signals are the application's threads' business, but the faults of guarded copies. */
static int create(struct node *n, pthread_attr_t *attr)
{
    sigset_t blocked, before;
    int error;

    sigfillset(&blocked);
    sigdelset(&blocked, SIGSEGV);
    sigdelset(&blocked, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    error = pthread_create(&n->thread, attr, thread_main, n);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    n->thread_joinable = error == 0;
    if (error == 0)
        pthread_setname_np(n->thread, "uroce");
    return -error;
}

static int add_descriptor(struct node *n, int fd, struct epoll_event event)
{
    return epoll_ctl(n->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

/* The link's descriptors sleep until they are first armed. */
static int open_descriptors(struct node *n)
{
    int error;

    n->epoll_fd = own_descriptor(epoll_create1(EPOLL_CLOEXEC));
    n->wake_fd = own_descriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (n->epoll_fd < 0 || n->wake_fd < 0)
        return -errno;
    error = add_descriptor(n, n->wake_fd,
                           (struct epoll_event){.events = EPOLLIN, .data.u32 = EVENT_POKE});
    /* Where netlink is forbidden, nothing changes. */
    n->watch_fd = watch_open();
    if (n->watch_fd >= 0 && error == 0)
        error = add_descriptor(n, n->watch_fd,
                               (struct epoll_event){.events = EPOLLIN, .data.u32 = EVENT_WATCH});
    for (uint32_t i = 0; i < n->link->descriptor_count && error == 0; i++)
        error = add_descriptor(n, n->link->descriptors[i],
                               (struct epoll_event){.events = EPOLLONESHOT, .data.u32 = i});
    return error;
}

static void close_descriptors(struct node *n)
{
    if (n->epoll_fd >= 0)
        close(n->epoll_fd);
    if (n->wake_fd >= 0)
        close(n->wake_fd);
    if (n->watch_fd >= 0)
        close(n->watch_fd);
    n->watch_fd = -1;
    n->epoll_fd = -1;
    n->wake_fd = -1;
}

int thread_start(struct node *n)
{
    pthread_attr_t attr;
    int error = open_descriptors(n);

    n->thread_stop = false;
    if (error == 0)
        error = -pthread_attr_init(&attr);
    if (error == 0) {
        pthread_attr_setstacksize(&attr, STACK_SIZE);
        atomic_store(&n->thread_state, THREAD_SERVING);
        error = create(n, &attr);
        pthread_attr_destroy(&attr);
    }
    if (error != 0) {
        atomic_store(&n->thread_state, THREAD_NONE);
        close_descriptors(n);
    }
    return error;
}

void thread_stop(struct node *n)
{
    struct timespec limit;

    if (!n->thread_joinable || pthread_equal(pthread_self(), n->thread))
        return;
    n->thread_joinable = false;
    thread_poke(n);
    clock_gettime(CLOCK_REALTIME, &limit);
    limit = timespec_of((uint64_t)limit.tv_sec * NS_PER_S + (uint64_t)limit.tv_nsec + STOP_NS);
    pthread_timedjoin_np(n->thread, NULL, &limit);
}

void thread_forget(struct node *n)
{
    n->thread_joinable = false;
    atomic_store(&n->thread_state, THREAD_NONE);
    close_descriptors(n);
}
