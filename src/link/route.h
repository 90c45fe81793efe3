/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whether an address is one of this host's: the kernel's routing tables are
 * asked (rtnetlink(7)), so that every address of every interface and 127.0.0.0/8 are
 * right at the same small cost on any host. Answers are kept for a second.
 */
#ifndef UROCE_LINK_ROUTE_H
#define UROCE_LINK_ROUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "link/limits.h"
#include "wire/datagram.h"

struct route_answer {
    struct gid address;
    uint64_t until_ns;
    bool local;
};

struct routes {
    int socket; /* negative: nothing is known to be local */
    struct route_answer answer[ROUTE_ANSWERS];
};

void routes_open(struct routes *r);
void routes_close(struct routes *r);

/* False also when the kernel does not answer. */
bool routes_is_local(struct routes *r, const struct gid *address, uint64_t now_ns);

#endif
