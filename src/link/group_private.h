/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What group.c (joining and making) and group_slots.c (leasing) share.
 */
#ifndef UROCE_LINK_GROUP_PRIVATE_H
#define UROCE_LINK_GROUP_PRIVATE_H

#include "link/group.h"

/* CLOCK_MONOTONIC, for time-outs. */
uint64_t group_now_ms(void);

/*
 * Adds slots so that slot exists and some after it; only for one who has the
 * right to (shared.h), or while nobody else knows the group. Returns 0 or a negative errno.
 */
int group_add_slots(struct group *g, uint32_t slot);

#endif
