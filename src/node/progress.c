/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What moves the engine: datagrams from the link into it, time, datagrams out
 * of it to the link, events to whoever asked for them. Each turn is bounded, so
 * that neither direction nor a thread that waits for the lock starves.
 */
#include "node/node_private.h"

#include <poll.h>
#include <time.h>

#include "node/guarded_copy.h"
#include "node/publish.h"
#include "wire/opcode.h"

/* Datagrams a turn: two full UDP_GRO packets. */
#define TURN_RECEIVE_MAX 128u
/* As often as that while there is more; together what a large receive buffer holds. */
#define TURN_RECEIVE_CALLS 16u
/* Batches a turn. */
#define TURN_SEND_MAX 32u
/* How soon a batch that the link did not take is offered again: at first, and at most. */
#define RETRY_MIN_NS 50000u
#define RETRY_MAX_NS 5000000u
#define WINDOW_KNOWN_MAX 524288u
#define LAST_WAIT_NS 20000000u
#define CHECK_NS 1000000000u

static _Atomic(node_event_fn) event_handler;

uint64_t node_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void node_set_event_handler(node_event_fn fn)
{
    atomic_store(&event_handler, fn);
}

void progress_hand_out_events(struct node *n)
{
    node_event_fn fn = atomic_load_explicit(&event_handler, memory_order_acquire);
    struct engine_event event;

    while (engine_event_next(n->engine, &event))
        if (fn != NULL)
            fn(&event);
    connections_hand_out_events(n);
}

static void take_datagram(void *context, const struct datagram *d)
{
    struct node *n = context;

    if (!connections_take(n, d))
        engine_receive(n->engine, d, n->now);
}

uint32_t progress_room(void *context, const struct gid *dst, uint8_t slot, bool paced, uint64_t now)
{
    const struct node *n = context;
    uint32_t room = link_local_room(n->link, dst, slot);

    return room != UINT32_MAX || !paced ? room : pacing_room(&n->pacing, dst, slot, now);
}

/*
 * Half of what the kernel accounts, so that a default buffer is approached with the usual care.
 * More than the most wins nothing, and leaves the caches.
 */
uint32_t progress_window(void *context, const struct gid *dst, uint8_t slot)
{
    const struct node *n = context;
    uint32_t window = link_local_buffer(n->link, dst, slot) / 2;

    return window < WINDOW_KNOWN_MAX ? window : WINDOW_KNOWN_MAX;
}

bool progress_arrives_whole(void *context, const struct path *path, uint8_t slot)
{
    const struct node *n = context;

    return link_delivers_whole(n->link, path, slot);
}

static uint64_t next_wait(uint64_t wait_ns)
{
    if (wait_ns == 0)
        return RETRY_MIN_NS;
    return wait_ns < RETRY_MAX_NS / 2 ? 2 * wait_ns : RETRY_MAX_NS;
}

/* Offers the batch to the link; false when it has to wait. */
static bool offer_batch(struct node *n, uint64_t now)
{
    struct datagram_batch *b = &n->batch;
    enum service service = opcode_service(b->buffer[0]);
    uint64_t len = (b->count - 1) * (uint64_t)b->segment_len + b->last_len;

    if (link_send(n->link, b) != 0) {
        n->counters.send_retries++;
        n->retry_wait_ns = next_wait(n->retry_wait_ns);
        n->retry_ns = now + n->retry_wait_ns;
        return false;
    }
    if (service == SERVICE_UC || service == SERVICE_UD)
        pacing_charge(&n->pacing, b, len, now);
    b->count = 0;
    n->retry_wait_ns = 0;
    n->retry_ns = ENGINE_NEVER;
    return true;
}

static uint32_t engine_fill(struct node *n, uint64_t now)
{
    return engine_wants_transmit(n->engine) ? engine_transmit(n->engine, now, &n->batch) : 0;
}

bool progress_wants_send(const struct node *n)
{
    return engine_wants_transmit(n->engine) || cm_wants_transmit(n->cm);
}

void progress_send(struct node *n, uint64_t now)
{
    n->unfinished = false;
    if (n->batch.count > 0 && (now < n->retry_ns || !offer_batch(n, now)))
        return;
    for (uint32_t i = 0; i < TURN_SEND_MAX; i++) {
        if (cm_transmit(n->cm, &n->batch) == 0 && engine_fill(n, now) == 0)
            return;
        if (!offer_batch(n, now))
            return;
    }
    n->unfinished = progress_wants_send(n);
}

static void check_handlers(struct node *n)
{
    if (n->now - n->checked_ns < CHECK_NS)
        return;
    n->checked_ns = n->now;
    guarded_copy_check();
}

/* What waits comes before timers: an answer that is here already must not count as missing. */
static uint32_t receive_waiting(struct node *n)
{
    uint32_t received = 0;
    uint32_t more = TURN_RECEIVE_MAX;

    for (uint32_t i = 0; i < TURN_RECEIVE_CALLS && more >= TURN_RECEIVE_MAX; i++) {
        more = link_receive(n->link, TURN_RECEIVE_MAX, take_datagram, n);
        received += more;
    }
    n->activity += received;
    return received;
}

static void pass_on(void *context, const struct datagram *d)
{
    connections_pass(context, d);
}

/* Whether something comes before the moment. */
static bool comes_until(const struct link *link, uint64_t until)
{
    const uint64_t now = node_now();
    struct pollfd fds[LINK_DESCRIPTORS_MAX];

    for (uint32_t i = 0; i < link->descriptor_count; i++)
        fds[i] = (struct pollfd){.fd = link->descriptors[i], .events = POLLIN};
    return now < until && poll(fds, link->descriptor_count, (int)((until - now) / 1000000 + 1)) > 0;
}

void progress_pass_on(struct node *n)
{
    const uint64_t until = node_now() + LAST_WAIT_NS;

    /* On a busy machine what was sent to this host is not there at once. */
    do
        link_receive(n->link, TURN_RECEIVE_MAX, pass_on, n);
    while (n->udp->counters.guests > 0 && comes_until(n->link, until));
}

bool progress_turn(struct node *n)
{
    uint32_t received;
    bool due;

    n->now = node_now();
    check_handlers(n);
    received = receive_waiting(n);
    if (received > 0)
        n->now = node_now();
    due = engine_deadline(n->engine) <= n->now;
    if (due)
        engine_advance(n->engine, n->now);
    if (cm_deadline(n->cm) <= n->now)
        cm_advance(n->cm, n->now);
    progress_send(n, n->now);
    progress_hand_out_events(n);
    links_advance(n, n->now);
    publish_advance(n, n->now);
    return received > 0 || due || n->unfinished;
}

uint64_t progress_deadline(const struct node *n)
{
    uint64_t of_engine = engine_deadline(n->engine);
    uint64_t of_cm = cm_deadline(n->cm);
    uint64_t deadline = of_cm < of_engine ? of_cm : of_engine;
    uint64_t of_link = links_deadline(n);
    uint64_t of_publisher = publish_deadline(n);

    if (n->unfinished)
        return 0;
    deadline = of_link < deadline ? of_link : deadline;
    deadline = of_publisher < deadline ? of_publisher : deadline;
    return n->retry_ns < deadline ? n->retry_ns : deadline;
}
