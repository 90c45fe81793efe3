/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast: the link is in a group for as long as some queue pair of the engine is.
 */
#include "engine/multicast.h"

#include "node/node_private.h"

int node_attach(struct node *n, struct qp *qp, const struct multicast *group)
{
    int error = multicast_attach(qp, group);

    if (error != 0)
        return error;
    error = link_join(n->link, group);
    if (error != 0)
        multicast_detach(qp, group);
    return error;
}

int node_detach(struct node *n, struct qp *qp, const struct multicast *group)
{
    int error = multicast_detach(qp, group);

    if (error == 0 && multicast_count(n->engine, group) == 0)
        link_leave(n->link, group);
    return error;
}
