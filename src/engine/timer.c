/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One deadline for each QP, in a binary heap. A deadline that moves later, as
 * with every acknowledgement, is not moved in the heap: the heap may be early,
 * and whoever finds a QP expired computes its true deadline again.
 */
#include <assert.h>

#include "engine/engine_private.h"
#include "engine/qp_private.h"

static void place(struct engine *e, uint32_t index, struct qp *qp)
{
    e->timers[index] = qp;
    qp->timer_index = index;
}

static void sift_up(struct engine *e, uint32_t index)
{
    struct qp *qp = e->timers[index];

    while (index > 0) {
        uint32_t parent = (index - 1) / 2;

        if (e->timers[parent]->deadline_ns <= qp->deadline_ns)
            break;
        place(e, index, e->timers[parent]);
        index = parent;
    }
    place(e, index, qp);
}

static void sift_down(struct engine *e, uint32_t index)
{
    struct qp *qp = e->timers[index];

    for (;;) {
        uint32_t child = 2 * index + 1;

        if (child >= e->timer_count)
            break;
        if (child + 1 < e->timer_count &&
            e->timers[child + 1]->deadline_ns < e->timers[child]->deadline_ns)
            child++;
        if (qp->deadline_ns <= e->timers[child]->deadline_ns)
            break;
        place(e, index, e->timers[child]);
        index = child;
    }
    place(e, index, qp);
}

static void take_out(struct engine *e, struct qp *qp)
{
    uint32_t index = qp->timer_index;
    struct qp *last = e->timers[--e->timer_count];

    qp->timer_index = QP_NO_TIMER;
    if (last == qp)
        return;
    place(e, index, last);
    sift_up(e, index);
    sift_down(e, last->timer_index);
}

void timer_set(struct qp *qp, uint64_t deadline_ns)
{
    struct engine *e = qp->engine;

    qp->deadline_ns = deadline_ns;
    if (deadline_ns == ENGINE_NEVER) {
        if (qp->timer_index != QP_NO_TIMER)
            take_out(e, qp);
        return;
    }
    if (qp->timer_index == QP_NO_TIMER) {
        assert(e->timer_count < e->timer_capacity);
        place(e, e->timer_count++, qp);
    }
    sift_up(e, qp->timer_index);
    sift_down(e, qp->timer_index);
}

static uint64_t earliest(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t timer_due(const struct qp *qp)
{
    const struct requester *r = &qp->requester;

    return earliest(
        earliest(r->retransmit_ns, r->rnr_wait_ns),
        earliest(earliest(r->room_wait_ns, qp->rate_wait_ns), qp->responder.ack_hold_ns));
}

void timer_update(struct qp *qp)
{
    uint64_t due = timer_due(qp);

    if (qp->timer_index == QP_NO_TIMER ? due != ENGINE_NEVER : due < qp->deadline_ns)
        timer_set(qp, due);
}
