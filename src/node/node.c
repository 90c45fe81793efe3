/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The node's life: start, lock, fork, exit. What moves is progress.c, who moves
 * it while the application sleeps is thread.c.
 */
#include "node/node_private.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/multicast.h"
#include "engine/qp.h"
#include "link/udp.h"
#include "node/guarded_copy.h"
#include "node/publish.h"
#include "node/settings.h"

#define BATCH_LEN_MAX 65507u
#define BATCH_COUNT_MAX 64u

/* Bounds of what is asked for in READs; the kernel's account of a 4 KiB packet in a batch is near
 * its length. */
#define READ_WINDOW_MIN 32768u
#define READ_WINDOW_MAX 524288u

/* How long fork waits for another thread to be out of the engine. */
#define FORK_WAIT_S 1
/* And exit; the progress thread is out in a moment. */
#define EXIT_WAIT_S 1

static_assert(PACING_AUTO == SETTING_AUTO, "the setting is handed on as it is");

static struct node node = {
    .lock = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP,
    .epoll_fd = -1,
    .wake_fd = -1,
    .watch_fd = -1,
    .alarm_ns = ENGINE_NEVER,
};

/* --- lock --- */

void node_acquire(struct node *n)
{
    if (pthread_mutex_trylock(&n->lock) == 0)
        return;
    atomic_fetch_add_explicit(&n->lock_waiters, 1, memory_order_relaxed);
    pthread_mutex_lock(&n->lock);
    atomic_fetch_sub_explicit(&n->lock_waiters, 1, memory_order_relaxed);
}

void node_release(struct node *n)
{
    pthread_mutex_unlock(&n->lock);
}

void node_lock(struct node *n)
{
    int cancel_state;

    /* A thread that is cancelled in a system call of ours would take the lock along. */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    node_acquire(n);
    n->cancel_state = cancel_state;
    n->activity++;
}

/* Ends every use of the engine: events out, and the thread told of a deadline that it would miss.
 */
static void settle(struct node *n)
{
    if (n->link == NULL)
        return;
    if (cm_wants_transmit(n->cm))
        progress_send(n, node_now());
    progress_hand_out_events(n);
    if (atomic_load_explicit(&n->thread_state, memory_order_relaxed) == THREAD_WAITING &&
        progress_deadline(n) < n->sleeps_until) {
        n->sleeps_until = 0;
        thread_poke(n);
    }
}

void node_unlock(struct node *n)
{
    int cancel_state = n->cancel_state;

    settle(n);
    node_release(n);
    pthread_setcancelstate(cancel_state, NULL);
}

void node_enter(struct node *n)
{
    node_lock(n);
}

void node_leave_posted(struct node *n)
{
    if (n->link != NULL && engine_wants_transmit(n->engine))
        progress_send(n, node_now());
    node_unlock(n);
}

/* A poll, whether it found something or not: who takes completions comes back for more. */
void node_leave(struct node *n)
{
    atomic_store_explicit(&n->epoch, n->epoch + 1, memory_order_relaxed);
    node_leave_posted(n);
}

void node_progress(struct node *n)
{
    if (n->link != NULL)
        progress_turn(n);
}

uint64_t node_deadline(const struct node *n)
{
    return n->link != NULL ? progress_deadline(n) : ENGINE_NEVER;
}

void node_before_sleep(struct node *n)
{
    atomic_store(&n->quiet_epoch, atomic_load(&n->epoch));
    if (atomic_load(&n->thread_state) == THREAD_STANDING_BACK)
        thread_poke(n);
}

void node_idle_hint(struct node *n, uint32_t empty_polls)
{
    if (atomic_load_explicit(&n->lock_waiters, memory_order_relaxed) > 0 ||
        (n->yield_after != 0 && empty_polls >= n->yield_after))
        sched_yield();
}

/* --- fork and exit --- */

/* The engine is whole in the child when no thread is inside at the fork. */
static bool fork_holds_lock;

static void before_fork(void)
{
    struct timespec limit;

    if (node.engine == NULL)
        return;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += FORK_WAIT_S;
    /* A handler of a fault in our own code may fork with the lock held: then the child goes
     * without. */
    fork_holds_lock = pthread_mutex_timedlock(&node.lock, &limit) == 0;
}

static void after_fork_in_parent(void)
{
    if (fork_holds_lock)
        node_release(&node);
    fork_holds_lock = false;
}

/*
 * What was the parent's stays the parent's. The old engine is left as it is:
 * objects of before may still be freed, and the memory is a copy.
 */
static void abandon(struct node *n)
{
    static const pthread_mutex_t fresh = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP;

    n->lock = fresh;
    atomic_store(&n->lock_waiters, 0);
    atomic_store(&n->waiter, false);
    atomic_store(&n->alarm_ns, ENGINE_NEVER);
    fork_holds_lock = false;
    thread_forget(n);
    publish_abandon(n);
    if (n->link != NULL)
        links_abandon(n);
    n->engine = NULL;
    n->use_count = 0;
    n->parents_cm = n->cm;
    n->cm = NULL;
    n->batch.count = 0;
}

static void after_fork_in_child(void)
{
    if (node.engine != NULL)
        abandon(&node);
}

/*
 * What queue pairs and connections still say when nobody destroyed them; what the link does not
 * take now is lost.
 */
static void leave(struct node *n)
{
    n->retry_ns = 0;
    while (n->engine != NULL && engine_leave(n->engine)) {
        progress_send(n, node_now());
        if (n->batch.count > 0)
            break;
    }
    if (n->cm != NULL)
        cm_leave(n->cm, node_now());
    while (n->cm != NULL && cm_wants_transmit(n->cm) && n->batch.count == 0)
        progress_send(n, node_now());
    if (n->cm != NULL)
        progress_pass_on(n);
}

/* Other threads may be anywhere, also inside for good: then all stays as it is. */
static void at_exit(void)
{
    struct timespec limit;

    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_sec += EXIT_WAIT_S;
    if (node.pid != getpid() || pthread_mutex_timedlock(&node.lock, &limit) != 0)
        return;
    leave(&node);
    links_finish(&node);
    report_counters(&node);
    publish_close(&node);
    node.thread_stop = true;
    node_release(&node);
    thread_stop(&node);
}

static void watch_process(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    atexit(at_exit);
}

/* --- start --- */

static uint32_t clamp(uint32_t value, uint32_t min, uint32_t max)
{
    return value < min ? min : value > max ? max : value;
}

/*
 * The READ responses that may be on their way here are limited by our own
 * receive buffer, of which a part is for what others send: loss begins at about 0.6 of what
 * half of it (the kernel's account) holds.
 */
static struct engine_config configure(struct node *n, const struct settings *s, uint8_t slot)
{
    struct engine_config c = engine_config_default();

    c.qpn_base = (uint32_t)slot << 16;
    c.rd_atomic_max = (uint32_t)s->rd_atomic;
    c.copy = guarded_copy;
    c.timeout_floor_ns = s->timeout_floor_ms * 1000000u;
    c.read_window =
        clamp(udp_link_receive_buffer(n->udp) / 16 * 5, READ_WINDOW_MIN, READ_WINDOW_MAX);
    if (s->window != SETTING_AUTO) {
        c.window_max = (uint32_t)s->window;
        c.read_window = (uint32_t)s->window;
    }
    c.room = progress_room;
    c.window = progress_window;
    c.arrives_whole = progress_arrives_whole;
    c.context = n;
    return c;
}

static int new_engine(struct node *n, const struct settings *s, uint8_t slot)
{
    struct engine_config c = configure(n, s, slot);

    if (getrandom(c.seed, sizeof(c.seed), 0) != (ssize_t)sizeof(c.seed))
        return -errno;
    return engine_new(&c, &n->engine);
}

static int new_batch(struct node *n)
{
    if (n->buffer == NULL)
        n->buffer = malloc(BATCH_LEN_MAX);
    n->batch = (struct datagram_batch){
        .buffer = n->buffer,
        .capacity = BATCH_LEN_MAX,
        .count_max = BATCH_COUNT_MAX,
    };
    return n->buffer != NULL ? 0 : -ENOMEM;
}

static bool has_lone_core(void)
{
    cpu_set_t cores;

    return sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) == 1;
}

static void begin(struct node *n, const struct settings *s)
{
    n->pid = getpid();
    n->retry_ns = ENGINE_NEVER;
    n->retry_wait_ns = 0;
    n->unfinished = false;
    n->sleeps_until = 0;
    n->lone_core = has_lone_core();
    /* Alone on one core, whom we wait for cannot run before we let go. */
    n->yield_after = s->spin > 0 && n->lone_core ? 1 : (uint32_t)s->spin;
    n->counters = (struct node_counters){0};
    atomic_store(&n->pokes, 0);
    pacing_init(&n->pacing, s->datagram_rate_bps, udp_link_receive_buffer(n->udp));
}

/* Returns 0, or a negative errno with the reason in error. The lock is held. */
static int start(struct node *n, char error[NODE_ERROR_SIZE])
{
    static bool watched;
    const struct settings *s = settings_get();
    uint8_t slot;
    int result = links_open(n, s, &slot, error);

    if (result != 0)
        return result;
    begin(n, s);
    result = new_batch(n);
    if (result == 0)
        result = connections_open(n, slot);
    if (result != 0)
        goto close_link;
    result = new_engine(n, s, slot);
    if (result != 0)
        goto free_connections;
    publish_open(n);
    result = thread_start(n);
    if (result != 0)
        goto close_publisher;
    if (!watched)
        watch_process();
    watched = true;
    log_info("slot %u, receive buffer %u bytes", slot, udp_link_receive_buffer(n->udp));
    return 0;

close_publisher:
    publish_close(n);
    engine_free(n->engine);
    n->engine = NULL;
free_connections:
    cm_free(n->cm);
    n->cm = NULL;
close_link:
    links_close(n);
    snprintf(error, NODE_ERROR_SIZE, "cannot start: %s", strerror(-result));
    return result;
}

struct node *node_get(void)
{
    char error[NODE_ERROR_SIZE] = "";
    int result = 0;

    /* A process made by clone or vfork, whom no fork handler has told. */
    if (node.engine != NULL && node.pid != getpid())
        abandon(&node);
    node_lock(&node);
    if (node.engine == NULL)
        result = start(&node, error);
    if (result == 0)
        node.use_count++;
    node_unlock(&node);
    if (result == 0)
        return &node;
    fprintf(stderr, "uroce: %s\n", error);
    errno = -result;
    return NULL;
}

/* The node lasts as long as the process: its slot in QPNs that peers know must not go to another.
 */
void node_put(struct node *n)
{
    node_lock(n);
    assert(n->use_count > 0);
    n->use_count--;
    if (n->use_count == 0 && n->link != NULL)
        link_flush(n->link);
    node_unlock(n);
}

struct engine *node_engine(struct node *n)
{
    return n->engine;
}

int node_qp_free(struct node *n, struct qp *qp)
{
    if (qp_is_attached(qp))
        return -EBUSY;
    publish_qp_gone(n, qp);
    return qp_free(qp);
}

struct node_counters node_counters(struct node *n)
{
    struct node_counters counters;

    node_lock(n);
    counters = n->counters;
    counters.pokes = atomic_load_explicit(&n->pokes, memory_order_relaxed);
    node_unlock(n);
    return counters;
}

struct link_counters node_link_counters(struct node *n)
{
    struct link_counters counters = {0};

    node_lock(n);
    if (n->link != NULL)
        counters = n->link->counters;
    node_unlock(n);
    return counters;
}
