/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receive queues: a QP's own, and the shared receive queue around one
 * (IBA 10.2.9, 10.8.3.2). Requests are checked and copied at the post, so that
 * what a program does to them later changes nothing. Keys are looked up when
 * a message arrives, by the responder.
 */
#include "engine/srq_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/cq_private.h"
#include "engine/engine_private.h"
#include "engine/limits.h"
#include "engine/memory.h"
#include "engine/xrc_private.h"

struct recv_slab {
    struct recv_slab *next;
    bool borrowed; /* the caller's memory */
    _Alignas(struct recv_wqe) uint8_t slots[];
};

static_assert(sizeof(struct recv_wqe) % _Alignof(struct recv_wqe) == 0, "slots stay aligned");
static_assert(sizeof(struct sge) % _Alignof(struct recv_wqe) == 0, "slots stay aligned");

/* --- receive queue --- */

static struct recv_wqe *wqe_of(struct list *link)
{
    return LIST_ENTRY(link, struct recv_wqe, link);
}

void recv_queue_check(const struct recv_queue *q)
{
    uint32_t free_count = 0;
    uint32_t posted_count = 0;

    for (const struct list *l = q->free.next; l != &q->free; l = l->next)
        free_count++;
    for (const struct list *l = q->posted.next; l != &q->posted; l = l->next)
        posted_count++;
    assert(posted_count == q->posted_count);
    assert(free_count + posted_count + q->held_count == q->slot_count);
    assert(q->posted_count + q->held_count <= q->wr_max);
    assert(q->wr_max <= q->slot_count);
}

static size_t slab_len(const struct recv_queue *q, uint32_t count)
{
    return sizeof(struct recv_slab) + count * recv_wqe_stride(q->sge_max);
}

static void add_slab(struct recv_queue *q, struct recv_slab *slab, uint32_t count)
{
    size_t stride = recv_wqe_stride(q->sge_max);

    slab->next = q->slabs;
    q->slabs = slab;
    q->slot_count += count;
    for (uint32_t i = 0; i < count; i++) {
        struct recv_wqe *wqe = (struct recv_wqe *)(void *)(slab->slots + i * stride);

        list_push_tail(&q->free, &wqe->link);
    }
}

static int add_slots(struct recv_queue *q, uint32_t count)
{
    struct recv_slab *slab = calloc(1, slab_len(q, count));

    if (slab == NULL)
        return -ENOMEM;
    add_slab(q, slab, count);
    return 0;
}

int recv_queue_init(struct recv_queue *q, uint32_t wr_max, uint32_t sge_max)
{
    *q = (struct recv_queue){.sge_max = sge_max};
    list_init(&q->free);
    list_init(&q->posted);
    return recv_queue_resize(q, wr_max);
}

void recv_queue_fini(struct recv_queue *q)
{
    while (q->slabs != NULL) {
        struct recv_slab *slab = q->slabs;

        q->slabs = slab->next;
        if (!slab->borrowed)
            free(slab);
    }
}

size_t recv_queue_len(const struct recv_queue *q)
{
    return q->slot_count > 0 ? slab_len(q, q->slot_count) : 0;
}

void recv_queue_move(struct recv_queue *q, uint8_t *to)
{
    struct recv_slab *slab = (struct recv_slab *)(void *)to;
    uint32_t count = q->slot_count;

    assert(q->posted_count == 0);
    assert(q->held_count == 0);
    if (count == 0)
        return;
    recv_queue_fini(q);
    list_init(&q->free);
    q->slot_count = 0;
    slab->borrowed = true;
    add_slab(q, slab, count);
}

int recv_queue_resize(struct recv_queue *q, uint32_t wr_max)
{
    int error = 0;

    if (wr_max < q->posted_count + q->held_count)
        return -EINVAL;
    if (wr_max > q->slot_count)
        error = add_slots(q, wr_max - q->slot_count);
    if (error == 0)
        q->wr_max = wr_max;
    return error;
}

int recv_queue_post(struct recv_queue *q, const struct recv_wr *wr)
{
    struct recv_wqe *wqe;

    if (wr->sge_count > q->sge_max)
        return -EINVAL;
    if (q->posted_count + q->held_count >= q->wr_max)
        return -ENOMEM;
    wqe = wqe_of(list_pop_head(&q->free));
    wqe->wr_id = wr->wr_id;
    wqe->sge_count = wr->sge_count;
    wqe->length = 0;
    for (uint32_t i = 0; i < wr->sge_count; i++) {
        wqe->sges[i] = wr->sges[i];
        wqe->length += wqe->sges[i].length;
    }
    list_push_tail(&q->posted, &wqe->link);
    q->posted_count++;
    return 0;
}

struct recv_wqe *recv_queue_take(struct recv_queue *q)
{
    if (q->posted_count == 0)
        return NULL;
    q->posted_count--;
    q->held_count++;
    return wqe_of(list_pop_head(&q->posted));
}

static void give_up(struct recv_queue *q, const struct recv_wqe *wqe)
{
    assert(list_empty(&wqe->link));
    assert(q->held_count > 0);
    q->held_count--;
}

void recv_queue_release(struct recv_queue *q, struct recv_wqe *wqe)
{
    give_up(q, wqe);
    list_push_head(&q->free, &wqe->link); /* the slot that is warm in the cache is used next */
}

void recv_queue_untake(struct recv_queue *q, struct recv_wqe *wqe)
{
    give_up(q, wqe);
    list_push_head(&q->posted, &wqe->link);
    q->posted_count++;
}

/* --- shared receive queue --- */

static int enter_domain(struct srq *srq, const struct srq_attr *attr)
{
    srq->xrcd = attr->xrcd;
    srq->cq = attr->cq;
    if (xrc_enter_srq(srq) != 0)
        return -ENOMEM;
    cq_get(srq->cq);
    return 0;
}

static void leave_domain(struct srq *srq)
{
    xrc_leave_srq(srq);
    cq_forget(srq->cq, srq);
    cq_put(srq->cq);
}

int srq_new(struct pd *pd, struct srq_attr *attr, void *context, struct srq **out)
{
    struct engine *e = pd->engine;
    struct srq *srq;

    if (attr->wr_max == 0 || attr->wr_max > SRQ_WR_MAX || attr->sge_max > QP_SGE_MAX)
        return -EINVAL;
    if ((attr->xrcd == NULL) != (attr->cq == NULL))
        return -EINVAL;
    if (e->srq_count >= SRQ_COUNT_MAX)
        return -ENOMEM;
    srq = calloc(1, sizeof(*srq));
    if (srq == NULL)
        return -ENOMEM;
    if (recv_queue_init(&srq->queue, attr->wr_max, attr->sge_max) != 0)
        goto free_srq;
    srq->pd = pd;
    srq->context = context;
    if (attr->xrcd != NULL && enter_domain(srq, attr) != 0)
        goto free_queue;
    event_source_init(&srq->events, EVENT_OWNER_SRQ);
    pd->use_count++;
    e->srq_count++;
    srq_query(srq, attr);
    *out = srq;
    return 0;

free_queue:
    recv_queue_fini(&srq->queue);
free_srq:
    free(srq);
    return -ENOMEM;
}

int srq_free(struct srq *srq)
{
    if (srq->use_count > 0)
        return -EBUSY;
    if (srq->xrcd != NULL)
        leave_domain(srq);
    assert(srq->pd->engine->srq_count > 0);
    srq->pd->engine->srq_count--;
    srq->pd->use_count--;
    event_forget(&srq->events);
    recv_queue_fini(&srq->queue);
    free(srq);
    return 0;
}

/* An armed limit that is not met is told and disarmed; at once, so that no program waits in vain.
 */
static void tell_limit(struct srq *srq)
{
    if (srq->queue.posted_count >= srq->limit)
        return;
    srq->limit = 0;
    event_raise(srq->pd->engine, &srq->events, ENGINE_EVENT_SRQ_LIMIT);
}

int srq_set_limit(struct srq *srq, uint32_t limit)
{
    if (limit > srq->queue.wr_max)
        return -EINVAL;
    srq->limit = limit;
    tell_limit(srq);
    return 0;
}

int srq_resize(struct srq *srq, uint32_t wr_max)
{
    if (wr_max == 0 || wr_max > SRQ_WR_MAX || wr_max < srq->limit)
        return -EINVAL;
    return recv_queue_resize(&srq->queue, wr_max);
}

void srq_query(const struct srq *srq, struct srq_attr *out)
{
    *out = (struct srq_attr){
        .wr_max = srq->queue.wr_max,
        .sge_max = srq->queue.sge_max,
        .limit = srq->limit,
        .xrcd = srq->xrcd,
        .cq = srq->cq,
    };
}

size_t srq_ring_len(const struct srq *srq)
{
    return recv_queue_len(&srq->queue);
}

void srq_set_ring(struct srq *srq, void *ring)
{
    recv_queue_move(&srq->queue, ring);
}

uint32_t srq_number(const struct srq *srq)
{
    return srq->number;
}

void *srq_context(const struct srq *srq)
{
    return srq->context;
}

int srq_post(struct srq *srq, const struct recv_wr *wr)
{
    return recv_queue_post(&srq->queue, wr);
}

struct recv_wqe *srq_take(struct srq *srq)
{
    struct recv_wqe *wqe = recv_queue_take(&srq->queue);

    tell_limit(srq);
    return wqe;
}
