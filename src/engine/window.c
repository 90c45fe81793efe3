/* SPDX-License-Identifier: BSD-2-Clause */
/* The windows of window_private.h: found by destination, shared, woken in turn. */
#include "engine/window_private.h"

#include <assert.h>
#include <stdlib.h>

#include "engine/engine_private.h"
#include "engine/qp_private.h"

/*
 * First and largest limits: measured on the kernel's default receive buffer
 * (212992 bytes asked for). Packets of 4 KiB in batches reach full speed with
 * 64 KiB in flight; with 1 KiB packets the kernel's own cost weighs more. Loss
 * begins near 200 KiB and costs ten times what a larger window could win.
 */
#define WINDOW_START_LARGE 65536u
#define WINDOW_START_SMALL 32768u
#define WINDOW_LARGE_PMTU 2048u
#define WINDOW_MAX 131072u
#define WINDOW_MIN 8192u
/* A burst of losses of one overflow is one event: a round trip on a busy host is shorter. */
#define WINDOW_SHRINK_INTERVAL_NS 2000000u

void window_init(struct window *w, uint32_t limit, uint32_t limit_max)
{
    *w = (struct window){.limit = limit, .limit_max = limit_max};
    list_init(&w->waiting);
    list_init(&w->link);
}

void window_table_init(struct window_table *t)
{
    for (uint32_t i = 0; i < WINDOW_BUCKETS; i++)
        list_init(&t->buckets[i]);
}

static struct list *bucket_of(struct window_table *t, const struct gid *dst, uint8_t slot)
{
    uint32_t hash = slot;

    for (uint32_t i = 0; i < sizeof(dst->bytes); i++)
        hash = hash * 31u + dst->bytes[i];
    return &t->buckets[hash % WINDOW_BUCKETS];
}

/* A known buffer needs no feeling one's way. */
static void open_window(const struct engine *e, struct window *w, const struct gid *dst,
                        uint8_t slot, uint32_t pmtu)
{
    uint32_t start = pmtu >= WINDOW_LARGE_PMTU ? WINDOW_START_LARGE : WINDOW_START_SMALL;
    uint32_t most = WINDOW_MAX;
    uint32_t known = e->config.window == NULL ? 0 : e->config.window(e->config.context, dst, slot);

    if (known > most) {
        most = known;
        start = known;
    }
    if (e->config.window_max != 0)
        most = e->config.window_max;
    if (e->config.window_start != 0)
        start = e->config.window_start;
    window_init(w, start < most ? start : most, most);
    w->dst = *dst;
    w->slot = slot;
    w->use_count = 1;
}

struct window *window_get(struct engine *e, const struct gid *dst, uint8_t slot, uint32_t pmtu)
{
    struct list *bucket = bucket_of(&e->windows, dst, slot);

    for (struct list *l = bucket->next; l != bucket; l = l->next) {
        struct window *w = LIST_ENTRY(l, struct window, link);

        if (w->slot == slot && gid_equal(&w->dst, dst)) {
            w->use_count++;
            return w;
        }
    }
    struct window *w = malloc(sizeof(*w));

    if (w == NULL)
        return NULL;
    open_window(e, w, dst, slot, pmtu);
    list_push_tail(bucket, &w->link);
    return w;
}

void window_put(struct window *w)
{
    assert(w->use_count > 0);
    if (--w->use_count > 0)
        return;
    assert(w->in_flight == 0);
    assert(list_empty(&w->waiting));
    list_remove(&w->link);
    free(w);
}

void window_wake(struct window *w)
{
    if (window_has_room(w) && !list_empty(&w->waiting))
        qp_make_ready(LIST_ENTRY(w->waiting.next, struct qp, window_link));
}

bool window_admits(const struct window *w, const struct list *link)
{
    return w->waiting.next == link && window_has_room(w);
}

void window_release(struct window *w, uint32_t bytes)
{
    assert(w->in_flight >= bytes);
    w->in_flight -= bytes;
    window_wake(w);
}

void flight_charge(struct flight *f, struct window *w, uint32_t bytes)
{
    f->bytes += bytes;
    window_charge(w, bytes);
}

void flight_charge_extra(struct flight *f, struct window *w, uint32_t bytes)
{
    f->extra += bytes;
    window_charge(w, bytes);
}

void flight_release(struct flight *f, struct window *w, uint32_t bytes)
{
    uint32_t extra;

    assert(bytes > 0);
    assert(f->bytes >= bytes);
    extra = (uint32_t)((uint64_t)f->extra * bytes / f->bytes);
    f->bytes -= bytes;
    f->extra -= extra;
    window_release(w, bytes + extra);
}

void flight_end(struct flight *f, struct window *w)
{
    uint32_t bytes = f->bytes + f->extra;

    *f = (struct flight){0};
    if (w != NULL)
        window_release(w, bytes);
}

void window_grow(struct window *w, uint32_t bytes, uint32_t pmtu)
{
    uint32_t step = pmtu + WINDOW_PACKET_COST;

    if (!w->filled)
        return; /* nobody has tried what is let in */
    w->grown += bytes;
    if (w->grown < w->limit)
        return;
    w->grown = 0;
    w->filled = false;
    w->limit = w->limit_max - w->limit < step ? w->limit_max : w->limit + step;
}

void window_shrink(struct window *w, uint64_t now)
{
    uint32_t floor = w->limit_max < WINDOW_MIN ? w->limit_max : WINDOW_MIN;

    if (w->shrunk_ns != 0 && now - w->shrunk_ns < WINDOW_SHRINK_INTERVAL_NS)
        return;
    w->shrunk_ns = now;
    w->grown = 0;
    w->limit = w->limit / 2 < floor ? floor : w->limit / 2;
}
