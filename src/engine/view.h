/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs as somebody who watches sees them: which have changed, and how they are now. */
#ifndef UROCE_ENGINE_VIEW_H
#define UROCE_ENGINE_VIEW_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/counters.h"
#include "engine/qp.h"

struct engine;

struct qp_view {
    uint32_t qpn;
    uint32_t dest_qpn; /* 0 before RTR and for datagrams */
    enum service service;
    enum qp_state state;
    struct gid src;
    struct gid dst;
    struct psn sq_psn; /* of the next packet that is new */
    struct psn una;    /* oldest of ours that is not acknowledged */
    struct psn epsn;   /* that the peer's next request must have */
    uint32_t send_queued;
    uint32_t port_tag; /* as struct qp_init has it */
    struct qp_counters counters;
};

void qp_view(const struct qp *qp, struct qp_view *out);

/*
 * The QP whose oldest change was not yet taken by this call, or NULL. Made, modified, and each
 * turn with packets or timers are changes.
 */
struct qp *engine_touched_next(struct engine *e);
bool engine_touched(const struct engine *e); /* there is one */

/* Packets in and out: as long as the sum stays no QP has moved. */
uint64_t engine_packets(const struct engine *e);

/* A number that the caller keeps with the QP; 0 at first. */
uint32_t qp_published(const struct qp *qp);
void qp_set_published(struct qp *qp, uint32_t number);

#endif
