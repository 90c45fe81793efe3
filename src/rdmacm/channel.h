/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Event channels. An event is queued where its ID's events go when it happens, and prepared (a
 * request becomes an ID, a queue pair changes its state) by the thread that fetches it. A lock of
 * its own guards queues and counts; it may be taken with the node's held, not the other way round.
 */
#ifndef UROCE_RDMACM_CHANNEL_H
#define UROCE_RDMACM_CHANNEL_H

#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/list.h"
#include "cm/cm.h"

struct id_handle;
struct membership;

struct channel_handle {
    struct rdma_event_channel rdma;
    struct list events; /* of struct event_handle; under the lock */
    atomic_bool gone;   /* destroyed: who asks for its events sleeps */
};

struct event_handle {
    struct rdma_cm_event rdma;
    struct list link;
    struct id_handle *id;
    struct id_handle *owner;   /* whose acknowledgement counts: the listener's for a request */
    struct membership *joined; /* what a group's event is about; NULL: no group's */
    bool from_cm;              /* cm is valid, and says what rdma is to say */
    struct cm_event cm;
};

/* The connection manager's events; called with the node's lock held. */
void channel_take_event(const struct cm_event *event);

/* Queues an event that needs no peer. 0 or -ENOMEM. */
int channel_raise(struct id_handle *h, enum rdma_cm_event_type type, int status);

/* The same for the event that answers rdma_join_multicast; there is one for each membership. */
int channel_raise_joined(struct membership *m);

/*
 * The events of an ID that were not fetched are forgotten; requests among them are refused. The
 * node's lock is held.
 */
void channel_withdraw(struct id_handle *h);

/* Waits until all events of the ID that were fetched are acknowledged. */
void channel_wait_acked(struct id_handle *h);

/* Forgets the event of a membership that was not fetched, or waits until it is acknowledged. */
void channel_end_membership(struct membership *m);

/* The events of an ID go to another channel from now on, those that wait too. */
void channel_move(struct id_handle *h, struct rdma_event_channel *to);

/* Is there an event to fetch? */
bool channel_has_event(struct rdma_event_channel *channel);

/* After fork. */
void channels_forget(void);

/* event.c: fills e->rdma with what can be said only now. False: there is nothing to tell the
 * application. */
bool event_prepare(struct event_handle *e);

#endif
