/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether the next hop to an address is there. The kernel knows once ARP or neighbour discovery
 * has found it; rdma_resolve_addr waits for that, for as long as it was told.
 */
#ifndef UROCE_RDMACM_NEIGHBOUR_H
#define UROCE_RDMACM_NEIGHBOUR_H

#include "rdmacm/address.h"
#include "rdmacm/id.h"

/*
 * Calls id_resolved as soon as the next hop to dst is known, at once as a rule; or after timeout_ms
 * with -ETIMEDOUT. 0 or a negative errno.
 */
int neighbour_await(struct id_handle *h, const struct endpoint *dst, int timeout_ms);

/* Nothing is raised for this ID any more. */
void neighbour_forget(const struct id_handle *h);

/* After fork: who waits is the parent's. */
void neighbours_forget(void);

#endif
