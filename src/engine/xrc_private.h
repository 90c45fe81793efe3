/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of an XRC domain, and the numbers of its SRQs. */
#ifndef UROCE_ENGINE_XRC_PRIVATE_H
#define UROCE_ENGINE_XRC_PRIVATE_H

#include <stdint.h>

#include "base/list.h"
#include "engine/xrc.h"

struct srq;

struct xrcd {
    struct engine *engine;
    uint32_t use_count;  /* target QPs and SRQs */
    struct list targets; /* struct qp, by target_link */
};

/* A number for an SRQ of a domain, by which requests name it. 0 or -ENOMEM. */
int xrc_enter_srq(struct srq *srq);

/* The SRQ goes away: its number is given back, and messages that were on their way into it lose
 * their receive request. */
void xrc_leave_srq(struct srq *srq);

/* The SRQ that a request through a target of the domain may name; NULL: there is none, or it is of
 * another domain. */
struct srq *xrc_find_srq(const struct xrcd *d, uint32_t number);

#endif
