/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Groups in a hash table by address, each with a list of its members. A QPN
 * alone does not say that a datagram is one's own, since other hosts have the
 * same numbers: the address that it came from must be one that this engine sent from.
 */
#include "engine/multicast.h"

#include <errno.h>
#include <stdlib.h>

#include "base/bytes.h"
#include "engine/engine_private.h"
#include "engine/limits.h"
#include "engine/qp_private.h"
#include "wire/packet.h"

void multicast_table_init(struct multicast_table *t)
{
    for (uint32_t i = 0; i < MULTICAST_BUCKETS; i++)
        list_init(&t->buckets[i]);
}

/* The low bits of group addresses are what tells them apart. */
static uint32_t bucket_of(const struct multicast *id)
{
    return (load_be32(id->gid.bytes + 12) + id->scope_id) * 0x9e3779b1u >> 26;
}

static struct multicast_group *find(const struct engine *e, const struct multicast *id)
{
    const struct list *bucket = &e->multicasts.buckets[bucket_of(id)];

    for (struct list *l = bucket->next; l != bucket; l = l->next) {
        struct multicast_group *g = LIST_ENTRY(l, struct multicast_group, link);

        if (multicast_equal(&g->id, id))
            return g;
    }
    return NULL;
}

static struct multicast_member *find_member(const struct multicast_group *g, const struct qp *qp)
{
    for (struct list *l = g->members.next; l != &g->members; l = l->next) {
        struct multicast_member *m = LIST_ENTRY(l, struct multicast_member, link);

        if (m->qp == qp)
            return m;
    }
    return NULL;
}

static struct multicast_group *new_group(struct engine *e, const struct multicast *id)
{
    struct multicast_group *g;

    if (e->multicasts.group_count == MULTICAST_GROUPS_MAX)
        return NULL;
    g = calloc(1, sizeof(*g));
    if (g == NULL)
        return NULL;
    g->id = *id;
    list_init(&g->members);
    list_push_tail(&e->multicasts.buckets[bucket_of(id)], &g->link);
    e->multicasts.group_count++;
    return g;
}

static void end_if_empty(struct engine *e, struct multicast_group *g)
{
    if (g->member_count > 0)
        return;
    list_remove(&g->link);
    e->multicasts.group_count--;
    free(g);
}

int multicast_attach(struct qp *qp, const struct multicast *id)
{
    struct engine *e = qp->engine;
    struct multicast_member *m;
    struct multicast_group *g;

    if (qp->service != SERVICE_UD || !gid_is_multicast(&id->gid))
        return -EINVAL;
    g = find(e, id);
    if (g != NULL && find_member(g, qp) != NULL)
        return 0;
    if (g == NULL)
        g = new_group(e, id);
    if (g == NULL)
        return -ENOMEM;
    m = g->member_count < MULTICAST_QPS_MAX ? calloc(1, sizeof(*m)) : NULL;
    if (m == NULL) {
        end_if_empty(e, g);
        return -ENOMEM;
    }
    m->qp = qp;
    list_push_tail(&g->members, &m->link);
    g->member_count++;
    qp->multicast_count++;
    return 0;
}

int multicast_detach(struct qp *qp, const struct multicast *id)
{
    struct multicast_group *g = find(qp->engine, id);
    struct multicast_member *m = g != NULL ? find_member(g, qp) : NULL;

    if (m == NULL)
        return -EINVAL;
    list_remove(&m->link);
    free(m);
    g->member_count--;
    qp->multicast_count--;
    end_if_empty(qp->engine, g);
    return 0;
}

bool qp_is_attached(const struct qp *qp)
{
    return qp->multicast_count > 0;
}

uint32_t multicast_count(const struct engine *e, const struct multicast *id)
{
    const struct multicast_group *g = find(e, id);

    return g != NULL ? g->member_count : 0;
}

/* IBA 9.6.1, 9.6.1.4: an address of a group and the multicast QPN go together. */
struct multicast_group *multicast_find(struct engine *e, const struct packet *p,
                                       const struct datagram *d)
{
    const struct multicast id = {.gid = d->dst, .scope_id = d->scope_id};
    struct multicast_group *g;

    if (p->h.bth.dest_qpn != QPN_MULTICAST || !gid_is_multicast(&d->dst)) {
        e->counters.mcast_bad_address++;
        return NULL;
    }
    g = find(e, &id);
    if (g == NULL)
        e->counters.mcast_no_member++;
    return g;
}

static bool is_source(const struct multicast_table *t, const struct gid *address)
{
    for (uint32_t i = 0; i < t->source_count && i < MULTICAST_SOURCES; i++)
        if (gid_equal(&t->sources[i], address))
            return true;
    return false;
}

bool multicast_is_own(const struct qp *qp, const struct packet *p, const struct datagram *d)
{
    return opcode_service(p->h.bth.opcode) == SERVICE_UD && p->h.deth.src_qpn == qp->qpn &&
           is_source(&qp->engine->multicasts, &d->src);
}

void multicast_note_sent(struct qp *qp, const struct datagram_batch *b)
{
    struct multicast_table *t = &qp->engine->multicasts;

    if (qp->service != SERVICE_UD || !gid_is_multicast(&b->path.dst))
        return;
    qp_count(qp, mcast_sent_packets, b->count);
    if (!is_source(t, &b->path.src))
        t->sources[t->source_count++ % MULTICAST_SOURCES] = b->path.src;
}
