/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains (IBA annex A14) and the numbers of their SRQs. The numbers are
 * handed out in turn, so that a request on its way to an SRQ that is gone does
 * not meet a younger one soon.
 */
#include "engine/xrc_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "engine/engine_private.h"
#include "engine/limits.h"
#include "engine/memory.h"
#include "engine/qp_private.h"
#include "engine/srq_private.h"

int xrcd_new(struct engine *e, struct xrcd **out)
{
    struct xrcd *d;

    if (e->xrcd_count >= XRCD_COUNT_MAX)
        return -ENOMEM;
    d = calloc(1, sizeof(*d));
    if (d == NULL)
        return -ENOMEM;
    d->engine = e;
    list_init(&d->targets);
    e->xrcd_count++;
    *out = d;
    return 0;
}

int xrcd_free(struct xrcd *d)
{
    if (d->use_count > 0)
        return -EBUSY;
    assert(list_empty(&d->targets));
    assert(d->engine->xrcd_count > 0);
    d->engine->xrcd_count--;
    free(d);
    return 0;
}

struct qp *xrcd_find_target(const struct xrcd *d, uint32_t qpn)
{
    struct qp *qp = qp_find(d->engine, qpn);

    return qp != NULL && qp->xrcd == d ? qp : NULL;
}

/* The table is made when the first number is needed: most processes never do. */
int xrc_enter_srq(struct srq *srq)
{
    struct engine *e = srq->pd->engine;

    if (e->xrc_srqs == NULL)
        e->xrc_srqs = calloc(XRC_SRQN_SPACE, sizeof(struct srq *));
    if (e->xrc_srqs == NULL)
        return -ENOMEM;
    assert(e->srq_count < SRQ_COUNT_MAX); /* so there is a free one */
    for (;;) {
        uint32_t number = 1 + e->srqn_next++ % (XRC_SRQN_SPACE - 1);

        if (e->xrc_srqs[number] != NULL)
            continue;
        e->xrc_srqs[number] = srq;
        srq->number = number;
        srq->xrcd->use_count++;
        return 0;
    }
}

void xrc_leave_srq(struct srq *srq)
{
    struct xrcd *d = srq->xrcd;

    for (struct list *l = d->targets.next; l != &d->targets; l = l->next) {
        struct responder *r = &LIST_ENTRY(l, struct qp, target_link)->responder;

        if (r->srq != srq)
            continue;
        if (r->receive != NULL)
            recv_queue_release(&srq->queue, r->receive);
        r->receive = NULL;
        r->srq = NULL; /* what comes next of the message names an SRQ that does not exist */
    }
    d->engine->xrc_srqs[srq->number] = NULL;
    d->use_count--;
}

struct srq *xrc_find_srq(const struct xrcd *d, uint32_t number)
{
    struct srq *srq;

    if (d->engine->xrc_srqs == NULL || number >= XRC_SRQN_SPACE)
        return NULL;
    srq = d->engine->xrc_srqs[number];
    return srq != NULL && srq->xrcd == d ? srq : NULL;
}
