/* SPDX-License-Identifier: BSD-2-Clause */
/* What the wire and the engine ask of the applications: whose packet it is, and whether it may be.
 */
#include <errno.h>
#include <string.h>

#include "sim/app.h"
#include "sim/census.h"
#include "support/expect.h"

static struct app *current; /* for the engine's copy, which has no context */

static struct endpoint *endpoint_at(const struct host *h, uint32_t qpn)
{
    const struct app *a = app_of(h);
    uint32_t i;

    for (i = 0; i < a->endpoint_count; i++) {
        struct endpoint *ep = a->endpoints[i];

        if (ep->home->host == h && qp_qpn(ep->qp) == qpn)
            return ep;
    }
    return NULL;
}

static struct flow *sender(struct host *h, const struct host *to, uint32_t dest, uint32_t src)
{
    struct app *a = app_of(h);
    struct endpoint *ep = endpoint_at(h, src);
    uint32_t i;

    /* Which QP it was for: that may be gone. */
    for (i = 0; i < a->endpoint_count; i++) {
        struct endpoint *other = a->endpoints[i];

        if (other->home->host == h && other->peer && other->peer->home->host == to &&
            other->attr.dest_qpn == dest)
            return &other->flow;
    }
    return ep && ep->service == SERVICE_UD ? &ep->flow : NULL;
}

static struct flow *receiver(const struct host *to, uint32_t dest)
{
    struct endpoint *ep = endpoint_at(to, dest);

    if (!ep || app_is_hostile(ep->app) || qp_state(ep->qp) == QP_ERR)
        return NULL;
    return &ep->flow;
}

static uint32_t members(const struct host *h, const struct gid *group)
{
    return groups_members_on(app_of(h), h, group);
}

static void check_windows(struct host *h, const struct flow *f)
{
    struct app *a = app_of(h);
    struct flow *flows[ENDPOINTS_MAX];
    uint32_t count = 0;
    uint32_t i;

    for (i = 0; i < a->endpoint_count; i++) {
        enum qp_state state = qp_state(a->endpoints[i]->qp);

        /* One in error or reset gave its window back. */
        if (a->endpoints[i]->home->host == h && (state == QP_RTS || state == QP_SQD))
            flows[count++] = &a->endpoints[i]->flow;
    }
    flow_check_windows(flows, count, f, &a->limits, a->world.now);
}

static void check_deadline(struct host *h, uint64_t deadline_ns)
{
    struct app *a = app_of(h);
    uint32_t i;

    for (i = 0; i < a->endpoint_count; i++) {
        const struct endpoint *ep = a->endpoints[i];
        uint64_t due = flow_deadline(&ep->flow, a->world.now);

        if (ep->home->host == h && qp_state(ep->qp) == QP_RTS && !app_is_hostile(a))
            EXPECT(deadline_ns <= due,
                   "%s: the engine sleeps until %lu, %lu at the latest is right", ep->channel.name,
                   (unsigned long)deadline_ns, (unsigned long)due);
    }
}

static bool touches(const struct piece *gone, const uint8_t *bytes, size_t len)
{
    const uint8_t *from = gone->book->bytes + gone->offset;

    return bytes < from + gone->len && from < bytes + len;
}

/* Memory that is there no more, as an application that unmaps it makes it. */
static bool is_gone(const struct app *a, const uint8_t *bytes, size_t len)
{
    uint32_t i;

    for (i = 0; i < a->connection_count; i++) {
        const struct connection *c = &a->connections[i];

        /* It comes back when the request is over, for others to use. */
        if (c->gone.book && !c->refused_message->completed && touches(&c->gone, bytes, len))
            return true;
    }
    return false;
}

/* The engine's copy: nothing may be written to where nobody asked for it. */
static int watched_copy(void *dst, const void *src, size_t len)
{
    const uint8_t *to = dst;
    struct app *a = current;
    uint32_t i;

    for (i = 0; i < a->endpoint_count; i++) {
        const struct endpoint *ep = a->endpoints[i];
        const struct book *books[] = {&ep->arena.book, &ep->inbox.book, &ep->target_book};

        for (uint32_t k = 0; k < 3; k++) {
            const struct book *b = books[k];

            if (b->bytes && to >= b->bytes && to < b->bytes + b->len)
                EXPECT(book_may_write(b, (size_t)(to - b->bytes), len),
                       "the engine writes %zu bytes at %zu of %s, which nobody asked for", len,
                       (size_t)(to - b->bytes) - BOOK_GUARD, b->name);
        }
    }
    if (is_gone(a, dst, len) || is_gone(a, src, len)) {
        census_add(TROUBLE_MEMORY_GONE, 1);
        return -EFAULT;
    }
    memcpy(dst, src, len);
    return 0;
}

static const struct world_ops ops = {
    .turn = app_turn,
    .event = app_event,
    .sender = sender,
    .receiver = receiver,
    .members = members,
    .check_windows = check_windows,
    .check_deadline = check_deadline,
};

const struct world_ops *app_watch(struct app *a, struct engine_config *config)
{
    current = a;
    config->copy = watched_copy;
    return &ops;
}
