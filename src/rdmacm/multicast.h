/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups that an ID is in, as its application asked. */
#ifndef UROCE_RDMACM_MULTICAST_H
#define UROCE_RDMACM_MULTICAST_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "base/list.h"
#include "rdmacm/address.h"

struct id_handle;

struct membership {
    struct list link; /* in the ID's list */
    struct id_handle *id;
    struct endpoint group; /* the address as the application says it */
    bool send_only;
    void *context; /* the application's */
    bool reported; /* its event was fetched and is not acknowledged; under the lock of channel.c */
};

/* What the event of a membership says; the ID's queue pair, if it has one, is attached by it. */
void membership_prepare(struct membership *m, struct rdma_cm_event *event);

/* Of an ID that goes: no event of it is left. */
void memberships_free(struct id_handle *h);

#endif
