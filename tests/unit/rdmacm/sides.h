/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of librdmacm share: a listener and a client on the loopback device, step by step.
 */
#ifndef UROCE_TESTS_UNIT_RDMACM_SIDES_H
#define UROCE_TESTS_UNIT_RDMACM_SIDES_H

#include "fixture.h"

#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#define PORT 7174

struct sides {
    struct rdma_event_channel *server_channel;
    struct rdma_event_channel *client_channel;
    struct rdma_cm_id *listener;
    struct rdma_cm_id *server; /* of the request that came */
    struct rdma_cm_id *client;
};

/* 127.0.0.1, and a port. */
struct sockaddr_in loopback(uint16_t port);

/* Creates a listener on PORT of 127.0.0.1, and an ID for the client. */
void sides_open(struct sides *s, enum rdma_port_space ps);
void sides_close(struct sides *s);

/* The client knows its address and route to a port. */
void resolve(struct sides *s, uint16_t port);

/* A queue pair with queues of its own. */
void make_qp(struct rdma_cm_id *id);

/* The next event of a channel, which has to be of this type and status; acknowledge it. */
struct rdma_cm_event *expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type,
                                   int status);
void expect_and_ack(struct rdma_event_channel *channel, enum rdma_cm_event_type type, int status);

/* The client asks, with this private data; the server's ID comes of it. */
void ask(struct sides *s, const char *data);

/* Shows the IPv4 packets of an interface, from the IP header on, from now on. The caller closes it.
 */
int open_tap(const char *interface);

/* Both to ESTABLISHED, with queue pairs on both sides. */
void establish(struct sides *s);

#endif
