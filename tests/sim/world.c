/* SPDX-License-Identifier: BSD-2-Clause */
/* Clock, event queue and hosts: see world.h. */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

#include "sim/census.h"
#include "support/expect.h"

#define EVENTS_MAX 4000000ull

/* --- event queue: a binary heap --- */

static bool comes_before(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

void world_schedule(struct world *w, uint64_t at_ns, enum event_kind kind, struct host *h,
                    struct wire_packet *packet)
{
    struct event e = {
        .at_ns = at_ns, .order = w->order++, .kind = kind, .host = h, .packet = packet};
    uint32_t i = w->heap_count++;

    if (w->heap_count > w->heap_capacity) {
        w->heap_capacity = w->heap_capacity ? 2 * w->heap_capacity : 256;
        w->heap = realloc(w->heap, w->heap_capacity * sizeof(struct event));
        EXPECT(w->heap, "no memory for the test itself");
    }
    for (; i > 0 && comes_before(&e, &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        w->heap[i] = w->heap[(i - 1) / 2];
    w->heap[i] = e;
}

static struct event take_event(struct world *w)
{
    struct event first = w->heap[0];
    struct event last = w->heap[--w->heap_count];
    uint32_t i = 0;

    for (;;) {
        uint32_t child = 2 * i + 1;

        if (child >= w->heap_count)
            break;
        if (child + 1 < w->heap_count && comes_before(&w->heap[child + 1], &w->heap[child]))
            child++;
        if (comes_before(&last, &w->heap[child]))
            break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return first;
}

/* --- hosts --- */

static struct gid host_gid(const struct plan *p, uint32_t index)
{
    struct gid g = {{[10] = 0xff, [11] = 0xff, [12] = 10, [14] = 7}};

    if (p->shared_address && index == 1)
        index = 0;
    if (p->ipv6)
        g = (struct gid){{0xfd, 0x00, 0x52, 0x6f, 0x43, 0x45}};
    g.bytes[15] = (uint8_t)(index + 1);
    return g;
}

static uint32_t room(void *context, const struct gid *dst, uint8_t slot, bool paced, uint64_t now)
{
    struct host *h = context;
    struct dice *d = &h->world->dice_host;

    (void)dst;
    (void)slot;
    if (!paced)
        return UINT32_MAX;
    EXPECT(now <= h->world->now, "the engine asks for room in the future");
    h->room = dice_percent(d, 40) ? 0 : (uint32_t)dice_below(d, 20000);
    return h->room;
}

static bool arrives_whole(void *context, const struct path *path, uint8_t slot)
{
    (void)context;
    (void)path;
    (void)slot;
    return true;
}

static void host_init(struct world *w, uint32_t index)
{
    struct host *h = &w->hosts[index];
    struct engine_config config = w->plan.config;
    int error;

    *h = (struct host){.world = w, .index = index, .timer_ns = ENGINE_NEVER};
    h->gid = host_gid(&w->plan, index);
    h->slot = (uint8_t)(index * 63 + 1);
    h->queue_last = &h->queue_first;
    config.context = h;
    if (w->plan.paced)
        config.room = room;
    if (w->plan.seed / 2 % 2 == 0) /* seeds differ by 2 in whether they hold acknowledgements */
        config.arrives_whole = arrives_whole;
    config.qpn_base = (uint32_t)h->slot << 16;
    config.seed[0] = (uint8_t)(config.seed[0] + index);
    error = engine_new(&config, &h->engine);
    EXPECT(error == 0, "engine_new returns %d", error);
    h->buffer = malloc(w->plan.batch_capacity);
    EXPECT(h->buffer, "no memory for the test itself");
}

void world_init(struct world *w, const struct plan *plan, const struct world_ops *ops,
                struct ladder *ladder)
{
    *w = (struct world){.plan = *plan, .ops = ops, .ladder = ladder, .now = 1000};
    w->dice_wire = dice_make(plan->seed, 2);
    w->dice_host = dice_make(plan->seed, 3);
    for (uint32_t i = 0; i < plan->host_count; i++)
        host_init(w, i);
}

void world_fini(struct world *w)
{
    uint32_t i;

    for (i = 0; i < w->heap_count; i++)
        free(w->heap[i].packet);
    free(w->heap);
    for (i = 0; i < w->plan.host_count; i++) {
        struct host *h = &w->hosts[i];

        while (h->queue_first) {
            struct wire_packet *p = h->queue_first;

            h->queue_first = p->next;
            free(p);
        }
        engine_free(h->engine);
        free(h->buffer);
    }
}

static void take_events(struct host *h)
{
    struct engine_event event;

    while (engine_event_next(h->engine, &event))
        h->world->ops->event(h, &event);
}

static void transmit(struct host *h)
{
    struct world *w = h->world;

    while (w->now >= h->link_free_ns && engine_wants_transmit(h->engine)) {
        struct datagram_batch b = {.buffer = h->buffer,
                                   .capacity = w->plan.batch_capacity,
                                   .count_max = w->plan.batch_count_max};
        uint32_t count = engine_transmit(h->engine, w->now, &b);

        EXPECT(count == b.count, "engine_transmit returns %u and filled %u", count, b.count);
        if (count == 0)
            break;
        network_send(h, &b);
        h->link_free_ns =
            w->now + ((count - 1) * b.segment_len + b.last_len) * w->plan.ps_per_byte / 1000;
        if (!world_is_healed(w) && dice_chance(&w->dice_wire, w->plan.faults.busy)) {
            h->link_free_ns += dice_between(&w->dice_wire, 1, w->plan.busy_ns);
            census_add(TROUBLE_BUSY, 1);
        }
    }
    if (!h->transmit_scheduled && w->now < h->link_free_ns && engine_wants_transmit(h->engine)) {
        h->transmit_scheduled = true;
        world_schedule(w, h->link_free_ns, EVENT_TRANSMIT, h, NULL);
    }
}

static void set_timer(struct host *h)
{
    struct world *w = h->world;
    uint64_t deadline = engine_deadline(h->engine);

    if (deadline >= h->timer_ns)
        return;
    h->timer_ns = deadline;
    if (deadline < w->now)
        deadline = w->now;
    world_schedule(w, deadline + dice_below(&w->dice_host, w->plan.timer_slack_ns + 1), EVENT_TIMER,
                   h, NULL);
}

void host_pump(struct host *h)
{
    transmit(h);
    take_events(h);
    set_timer(h);
    h->world->ops->check_deadline(h, engine_deadline(h->engine));
}

/* A datagram for a group becomes as many as have asked for it. */
static void note_multicast(struct host *h, const struct wire_packet *p, const struct packet *parsed)
{
    uint32_t members = h->world->ops->members(h, &p->d.dst);

    if (parsed->h.bth.dest_qpn != QPN_MULTICAST || parsed->operation->kind == KIND_CNP)
        return;
    h->multicasts += members > 0;
    h->copies += members;
}

static void serve(struct host *h)
{
    struct world *w = h->world;

    h->serve_scheduled = false;
    while (h->queue_first) {
        struct wire_packet *p = h->queue_first;
        struct packet parsed;

        h->queue_first = p->next;
        if (packet_parse(p->bytes, p->d.len, &parsed) == DROP_NONE) {
            struct flow *f = p->stray ? NULL : w->ops->receiver(h, parsed.h.bth.dest_qpn);

            if (f) {
                f->marked |= (p->d.traffic_class & 3) == 3;
                flow_delivered(f, &parsed, w->now);
            }
            note_multicast(h, p, &parsed);
        }
        w->counters.delivered++;
        h->delivered++;
        engine_receive(h->engine, &p->d, w->now);
        free(p);
        w->in_flight--;
    }
    h->queue_last = &h->queue_first;
    h->queue_bytes = 0;
    host_pump(h);
}

static void arrive(struct host *h, struct wire_packet *packet)
{
    struct world *w = h->world;
    uint32_t limit = w->plan.receive_buffer;
    uint64_t at;

    if (!network_arrive(h, packet))
        return;
    if (limit > 0 && !world_is_healed(w) && h->queue_bytes + packet->d.len > limit) {
        w->counters.overflowed++;
        census_add(TROUBLE_OVERFLOWED, 1);
        ladder_note(w->ladder, w->now, h->index, "receive buffer full: packet dropped");
        w->in_flight--;
        free(packet);
        return;
    }
    packet->next = NULL;
    *h->queue_last = packet;
    h->queue_last = &packet->next;
    h->queue_bytes += (uint32_t)packet->d.len;
    if (w->plan.stall_ns > 0 && !world_is_healed(w) && w->now > h->stalled_until_ns &&
        dice_chance(&w->dice_host, 2000)) {
        h->stalled_until_ns = w->now + dice_below(&w->dice_host, w->plan.stall_ns);
        ladder_note(w->ladder, w->now, h->index, "stops until %.3f us",
                    (double)h->stalled_until_ns / 1000);
    }
    if (h->serve_scheduled)
        return;
    at = w->now + dice_below(&w->dice_host, w->plan.service_ns + 1);
    if (at < h->stalled_until_ns)
        at = h->stalled_until_ns;
    if (at < h->stopped_until_ns)
        at = h->stopped_until_ns;
    if (at == w->now) {
        serve(h);
        return;
    }
    h->serve_scheduled = true;
    world_schedule(w, at, EVENT_SERVE, h, NULL);
}

static void expire(struct host *h, uint64_t at_ns)
{
    struct world *w = h->world;

    h->timer_ns = ENGINE_NEVER;
    engine_advance(h->engine, at_ns);
    EXPECT(engine_deadline(h->engine) > w->now, "host %u: a deadline stays after it passed",
           h->index);
    host_pump(h);
}

bool world_step(struct world *w)
{
    struct event e;

    if (w->heap_count == 0)
        return false;
    e = take_event(w);
    EXPECT(++w->event_count < EVENTS_MAX, "no end in sight: %lu events",
           (unsigned long)w->event_count);
    w->now = e.at_ns;
    if (e.kind != EVENT_ARRIVE && w->now < e.host->stopped_until_ns) {
        world_schedule(w, e.host->stopped_until_ns, e.kind, e.host, NULL);
        return true;
    }
    switch (e.kind) {
    case EVENT_ARRIVE:
        arrive(e.host, e.packet);
        break;
    case EVENT_SERVE:
        serve(e.host);
        break;
    case EVENT_TIMER:
        expire(e.host, e.at_ns);
        break;
    case EVENT_TRANSMIT:
        e.host->transmit_scheduled = false;
        host_pump(e.host);
        break;
    case EVENT_APP:
        w->ops->turn(e.host);
        break;
    }
    return true;
}
