/* SPDX-License-Identifier: BSD-2-Clause */
/* What the rest of the engine may do with a completion queue. */
#ifndef UROCE_ENGINE_CQ_PRIVATE_H
#define UROCE_ENGINE_CQ_PRIVATE_H

#include "engine/cq.h"

/*
 * Puts an entry in, stamps it, and raises the completion event if the CQ is
 * armed for it (solicited: a receive of a packet with SE, or any status but
 * success). When full: the entry is lost, the CQ is in error from then on and
 * ENGINE_EVENT_CQ_ERR is raised once.
 */
void cq_push(struct cq *cq, const struct completion *c, bool solicited);

/* Drops the entries of a QP that goes away or is reset. */
void cq_forget_qp(struct cq *cq, const struct qp *qp);

/* Counts the QPs and SRQs that use it. */
void cq_get(struct cq *cq);
void cq_put(struct cq *cq);

#endif
