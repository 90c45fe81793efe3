/* SPDX-License-Identifier: BSD-2-Clause */
#include "engine/view.h"

#include "engine/engine_private.h"
#include "engine/qp_private.h"

void qp_touch(struct qp *qp)
{
    if (list_empty(&qp->touched_link))
        list_push_tail(&qp->engine->touched, &qp->touched_link);
}

void qp_view(const struct qp *qp, struct qp_view *out)
{
    const struct requester *r = &qp->requester;

    *out = (struct qp_view){
        .qpn = qp->qpn,
        .dest_qpn = qp->attr.dest_qpn,
        .service = qp->service,
        .state = qp->state,
        .src = qp->attr.path.src,
        .dst = qp->attr.path.dst,
        .sq_psn = r->psn_sent,
        .una = r->psn_una,
        .epsn = qp->responder.epsn,
        .send_queued = r->sq.tail - r->sq.head,
        .port_tag = qp->port_tag,
        .counters = qp->counters,
    };
}

struct qp *engine_touched_next(struct engine *e)
{
    struct list *first = list_pop_head(&e->touched);

    return first != NULL ? LIST_ENTRY(first, struct qp, touched_link) : NULL;
}

bool engine_touched(const struct engine *e)
{
    return !list_empty(&e->touched);
}

uint64_t engine_packets(const struct engine *e)
{
    return e->counters.rcv_packets + e->counters.sent_packets;
}

uint32_t qp_published(const struct qp *qp)
{
    return qp->published;
}

void qp_set_published(struct qp *qp, uint32_t number)
{
    qp->published = number;
}
