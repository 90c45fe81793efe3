/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Completion queues (IBA 10.8, 11.4.2). A ring of exactly the capacity that
 * was asked for. An entry that finds it full is lost, which nobody can make
 * good: the CQ takes no more, what it holds can still be polled, and then
 * polling says so (IBA 11.6.3.1, CQ error). A QP that lost an entry cannot
 * tell of its work any more and fails (IBA 11.6.3.2).
 */
#include "engine/cq_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "engine/engine_private.h"
#include "engine/limits.h"
#include "engine/qp_private.h"

void cq_check(const struct cq *cq)
{
    assert(cq->capacity > 0);
    assert(cq->capacity <= CQ_CAPACITY_MAX);
    assert(cq->head < cq->capacity);
    assert(cq->queued <= cq->capacity);
}

/* The slot of the entry that has index entries before it. */
static struct completion *entry_at(const struct cq *cq, uint32_t index)
{
    uint32_t slot = cq->head + index;

    if (slot >= cq->capacity)
        slot -= cq->capacity;
    return &cq->ring[slot];
}

int cq_new(struct engine *e, uint32_t capacity, void *context, struct cq **out)
{
    struct cq *cq;

    if (capacity == 0 || capacity > CQ_CAPACITY_MAX)
        return -EINVAL;
    if (e->cq_count >= CQ_COUNT_MAX)
        return -ENOMEM;
    cq = calloc(1, sizeof(*cq));
    if (cq == NULL)
        return -ENOMEM;
    cq->ring = calloc(capacity, sizeof(*cq->ring));
    if (cq->ring == NULL)
        goto free_cq;
    cq->engine = e;
    cq->context = context;
    cq->capacity = capacity;
    event_source_init(&cq->events, EVENT_OWNER_CQ);
    list_init(&cq->moderated_link);
    e->cq_count++;
    cq_check(cq);
    *out = cq;
    return 0;

free_cq:
    free(cq);
    return -ENOMEM;
}

static void free_ring(struct cq *cq)
{
    if (!cq->borrowed)
        free(cq->ring);
}

int cq_free(struct cq *cq)
{
    if (cq->use_count > 0)
        return -EBUSY;
    assert(cq->engine->cq_count > 0);
    cq->engine->cq_count--;
    list_remove(&cq->moderated_link);
    event_forget(&cq->events);
    free_ring(cq);
    free(cq);
    return 0;
}

size_t cq_ring_len(uint32_t capacity)
{
    return capacity * sizeof(struct completion);
}

/* What is queued, to the front of a ring of any capacity that holds it. */
static void move_entries(struct cq *cq, struct completion *ring, bool borrowed)
{
    for (uint32_t i = 0; i < cq->queued; i++)
        ring[i] = *entry_at(cq, i);
    free_ring(cq);
    cq->ring = ring;
    cq->borrowed = borrowed;
    cq->head = 0;
}

void cq_set_ring(struct cq *cq, void *ring)
{
    move_entries(cq, ring, true);
    cq_check(cq);
}

int cq_resize(struct cq *cq, uint32_t capacity)
{
    struct completion *ring;

    if (capacity == 0 || capacity > CQ_CAPACITY_MAX || capacity < cq->queued)
        return -EINVAL;
    ring = calloc(capacity, sizeof(*ring));
    if (ring == NULL)
        return -ENOMEM;
    move_entries(cq, ring, false);
    cq->capacity = capacity;
    cq_check(cq);
    return 0;
}

uint32_t cq_capacity(const struct cq *cq)
{
    return cq->capacity;
}

uint32_t cq_queued(const struct cq *cq)
{
    return cq->queued;
}

void *cq_context(const struct cq *cq)
{
    return cq->context;
}

const struct completion *cq_peek(const struct cq *cq)
{
    return cq->queued > 0 ? entry_at(cq, 0) : NULL;
}

/* Also those without a completion behind the newest that had one. */
static void free_polled(struct send_queue *sq, uint32_t end)
{
    assert(sq->unpolled > 0);
    sq->unpolled--;
    sq->freed = sq->unpolled == 0 ? sq->head : end;
}

void cq_pop(struct cq *cq)
{
    const struct completion *c = cq_peek(cq);

    assert(c != NULL);
    if (c->sender != NULL)
        free_polled(&c->sender->requester.sq, c->sq_end);
    cq->head = cq->head + 1 < cq->capacity ? cq->head + 1 : 0;
    cq->queued--;
}

int cq_poll(struct cq *cq, uint32_t count, struct completion *out)
{
    uint32_t taken = count < cq->queued ? count : cq->queued;

    if (cq->queued == 0 && cq->overrun)
        return -EOVERFLOW;
    for (uint32_t i = 0; i < taken; i++) {
        out[i] = *cq_peek(cq);
        cq_pop(cq);
    }
    return (int)taken;
}

void cq_arm(struct cq *cq, bool solicited_only)
{
    enum cq_arm wanted = solicited_only ? CQ_ARM_SOLICITED : CQ_ARM_ANY;

    if (wanted > cq->arm)
        cq->arm = wanted;
}

static void tell(struct cq *cq)
{
    cq->arm = CQ_ARM_NONE;
    cq->held = 0;
    list_remove(&cq->moderated_link);
    event_raise(cq->engine, &cq->events, ENGINE_EVENT_COMPLETION);
}

/* A full ring is not waited for. */
static bool may_hold(const struct cq *cq)
{
    return cq->held < cq->moderation_count && cq->queued < cq->capacity;
}

static void hold(struct cq *cq)
{
    cq->held_until_ns = cq->moderation_ns != 0 ? cq->engine->now + cq->moderation_ns : ENGINE_NEVER;
    if (list_empty(&cq->moderated_link))
        list_push_tail(&cq->engine->moderated, &cq->moderated_link);
}

/* Tells who waits that an entry came, if it is one that was waited for. */
static void notify(struct cq *cq, bool solicited)
{
    if (cq->arm == CQ_ARM_NONE || (cq->arm == CQ_ARM_SOLICITED && !solicited))
        return;
    cq->held++;
    if (!may_hold(cq))
        tell(cq);
    else if (cq->held == 1)
        hold(cq);
}

void cq_moderate(struct cq *cq, uint32_t count, uint64_t period_ns)
{
    cq->moderation_count = count;
    cq->moderation_ns = period_ns;
    if (cq->held == 0)
        return;
    if (may_hold(cq))
        hold(cq);
    else
        tell(cq);
}

uint64_t cq_deadline(const struct engine *e)
{
    uint64_t deadline = ENGINE_NEVER;

    for (const struct list *l = e->moderated.next; l != &e->moderated; l = l->next) {
        const struct cq *cq = LIST_ENTRY(l, const struct cq, moderated_link);

        if (cq->held_until_ns < deadline)
            deadline = cq->held_until_ns;
    }
    return deadline;
}

void cq_advance(struct engine *e)
{
    for (struct list *l = e->moderated.next, *next; l != &e->moderated; l = next) {
        struct cq *cq = LIST_ENTRY(l, struct cq, moderated_link);

        next = l->next;
        if (cq->held_until_ns <= e->now)
            tell(cq);
    }
}

void cq_ignore_overrun(struct cq *cq)
{
    cq->overrun_ignored = true;
}

static void lose(struct cq *cq, const struct completion *c)
{
    struct qp *qp = qp_find(cq->engine, c->qpn);

    if (!cq->overrun)
        event_raise(cq->engine, &cq->events, ENGINE_EVENT_CQ_ERR);
    cq->overrun = true;
    if (qp != NULL)
        qp->completion_lost = true;
}

/* Errors, by side and by what was wrong. */
static void count_error(struct cq *cq, const struct completion *c)
{
    struct qp *qp = qp_find(cq->engine, c->qpn);
    bool receive = (c->opcode & COMPLETION_RECV) != 0;
    bool flushed = c->status == STATUS_WR_FLUSH_ERR;

    if (qp == NULL)
        return;
    if (receive) {
        qp_count(qp, resp_cqe_error, 1);
        qp_count(qp, resp_cqe_flush_error, flushed);
        qp_count(qp, resp_local_length_error, c->status == STATUS_LOC_LEN_ERR);
    } else {
        qp_count(qp, req_cqe_error, 1);
        qp_count(qp, req_cqe_flush_error, flushed);
        qp_count(qp, req_remote_access_errors, c->status == STATUS_REM_ACCESS_ERR);
        qp_count(qp, req_remote_invalid_request, c->status == STATUS_REM_INV_REQ_ERR);
    }
}

void cq_push(struct cq *cq, const struct completion *c, bool solicited)
{
    struct completion *entry;

    if (c->status != STATUS_SUCCESS)
        count_error(cq, c);
    if (cq->queued == cq->capacity && cq->overrun_ignored)
        cq_pop(cq);
    if (cq->overrun || cq->queued == cq->capacity) {
        lose(cq, c);
        if (cq->arm != CQ_ARM_NONE)
            tell(cq); /* who sleeps must wake up to see the error */
        return;
    }
    entry = entry_at(cq, cq->queued);
    *entry = *c;
    entry->timestamp_ns = cq->engine->now;
    cq->queued++;
    notify(cq, solicited || c->status != STATUS_SUCCESS);
}

void cq_forget(struct cq *cq, const void *owner)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < cq->queued; i++) {
        const struct completion *c = entry_at(cq, i);

        if (c->owner != owner)
            *entry_at(cq, kept++) = *c;
    }
    cq->queued = kept;
    cq_check(cq);
}

void cq_get(struct cq *cq)
{
    cq->use_count++;
}

void cq_put(struct cq *cq)
{
    assert(cq->use_count > 0);
    cq->use_count--;
}
