/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager of this process, between QP1 and the caller. All
 * processes that share the port read QP1, so a message may be another's: an answer goes to the
 * slot in its communication ID, a request to who listens on its service ID. What nobody
 * listens for, whoever read it refuses.
 */
#include "node/node_private.h"

#include <errno.h>
#include <sys/random.h>

#include "base/bytes.h"
#include "wire/packet.h"

#define DEST_QPN_OFFSET 5u

static _Atomic(node_cm_event_fn) event_handler;

void node_set_cm_handler(node_cm_event_fn fn)
{
    atomic_store(&event_handler, fn);
}

struct cm *node_cm(struct node *n)
{
    return n->cm;
}

int node_take_service(struct node *n, uint64_t service_id, const struct gid *local)
{
    return link_listen(n->link, service_id, local);
}

void node_give_service(struct node *n, uint64_t service_id, const struct gid *local)
{
    if (n->link != NULL)
        link_unlisten(n->link, service_id, local);
}

int connections_open(struct node *n, uint8_t slot)
{
    struct cm_config config = {.slot = slot};

    if (getrandom(config.seed, sizeof(config.seed), 0) != (ssize_t)sizeof(config.seed))
        return -errno;
    n->slot = slot;
    return cm_new(&config, &n->cm);
}

static bool is_for_qp1(const struct datagram *d)
{
    return d->len >= BTH_LEN && load_be24(d->bytes + DEST_QPN_OFFSET) == GSI_QPN &&
           !gid_is_multicast(&d->dst);
}

bool connections_pass(struct node *n, const struct datagram *d)
{
    uint64_t service_id;
    uint8_t slot = 0;

    if (!is_for_qp1(d))
        return false;
    if (!cm_slot_of(d, &slot, &service_id) && service_id != 0) {
        const struct gid local = cm_listen_address(&d->dst, d->scope_id);

        slot = link_listener(n->link, service_id, &local);
    }
    return slot != 0 && slot != n->slot && link_pass(n->link, slot, d);
}

bool connections_take(struct node *n, const struct datagram *d)
{
    if (!is_for_qp1(d))
        return false;
    /* What is for a process that is gone is answered in its place. */
    if (!connections_pass(n, d))
        cm_receive(n->cm, d, n->now);
    return true;
}

void connections_hand_out_events(struct node *n)
{
    node_cm_event_fn fn = atomic_load_explicit(&event_handler, memory_order_acquire);
    struct cm_event event;

    while (cm_event_next(n->cm, &event))
        if (fn != NULL)
            fn(&event);
}
