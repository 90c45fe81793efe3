/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link that wraps another and misbehaves by rule and seed (fault_rule.h), in
 * both directions: what leaves is judged before the inner link gets it, what
 * came after the inner link found it good.
 *
 * Damage is done to the ICRC of what leaves, so that whoever verifies it drops the packet
 * and data is never silently wrong; what came damaged is not delivered and counts as
 * icrc_error, as if it had been damaged on its way here.
 */
#ifndef UROCE_LINK_FAULT_H
#define UROCE_LINK_FAULT_H

#include "link/fault_rule.h"
#include "link/link.h"

struct fault_config {
    const struct fault_plan *plan; /* copied */
    uint64_t seed;
    uint64_t (*now)(void); /* nanoseconds that never go backwards; deadlines are in these */
};

/*
 * Wraps inner, which the new link owns from now on. *out receives it. Returns 0, or -ENOMEM;
 * then inner is as it was.
 */
int fault_link_open(const struct fault_config *config, struct link *inner, struct link **out);

/*
 * Writes what each rule of a fault link saw and hit to out (len bytes), a line each that begins
 * with prefix.
 */
void fault_link_report(const struct link *link, const char *prefix, char *out, size_t len);

#endif
