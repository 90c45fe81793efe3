/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups of UD queue pairs (IBA 10.5, RoCEv2 annex A17.9). A datagram to the
 * multicast QPN goes to each queue pair that is attached to the group of its address,
 * but not to the one that sent it. Whoever carries datagrams must bring a sender's
 * own to its engine, as IP does with members on the sender's host.
 */
#ifndef UROCE_ENGINE_MULTICAST_H
#define UROCE_ENGINE_MULTICAST_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/datagram.h"

struct engine;
struct qp;

/*
 * Attaches the QP; one that is attached already stays so, once. Returns 0; -EINVAL for another
 * service than UD or an address that is none of a group; -ENOMEM, also at the limits of limits.h.
 */
int multicast_attach(struct qp *qp, const struct multicast *group);

/* Returns 0, or -EINVAL when it is not attached to that group. */
int multicast_detach(struct qp *qp, const struct multicast *group);

/* To some group. */
bool qp_is_attached(const struct qp *qp);

/* How many QPs are attached to the group: with the first one its datagrams are wanted, with the
 * last one no more. */
uint32_t multicast_count(const struct engine *e, const struct multicast *group);

#endif
