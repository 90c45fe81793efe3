/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended reliable connections (IBA annex A14): an initiator QP only sends,
 * a target QP only receives, and each request names the shared receive queue
 * that it is for. The domain is what ties target QPs to the SRQs that may be
 * named through them. Of RC it keeps everything else.
 */
#ifndef UROCE_ENGINE_XRC_H
#define UROCE_ENGINE_XRC_H

#include <stdint.h>

struct engine;
struct qp;
struct xrcd;

/* Returns 0 with *out owned by the caller; -ENOMEM, also at the limit. */
int xrcd_new(struct engine *e, struct xrcd **out);

/* Returns 0, or -EBUSY while it has target QPs or SRQs. */
int xrcd_free(struct xrcd *d);

/* The target QP of the domain with this full QPN; NULL if none. */
struct qp *xrcd_find_target(const struct xrcd *d, uint32_t qpn);

#endif
