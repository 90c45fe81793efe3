/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Identifiers as applications hold them (struct rdma_cm_id), with what is behind. One thread at a
 * time uses an ID, as the interface demands; what events and other threads reach says so.
 */
#ifndef UROCE_RDMACM_ID_H
#define UROCE_RDMACM_ID_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "cm/cm.h"
#include "rdmacm/address.h"
#include "rdmacm/device.h"

/* What both sides have agreed on, for the queue pair; valid once the peer has spoken. */
struct agreement {
    bool known;
    enum ibv_mtu path_mtu;
    uint32_t remote_qpn;
    uint32_t remote_psn; /* the first that we send */
    uint8_t responder_resources;
    uint8_t initiator_depth;
    uint8_t retry_count;
    uint8_t rnr_retry_count;
    uint8_t ack_timeout;
};

/*
 * How far an ID has come, as Linux's cma.c has it: each call belongs to one or two of these, and is
 * -EINVAL in all others. What becomes of a connection is the connection manager's to say.
 */
enum id_state {
    ID_IDLE,
    ID_BOUND,         /* has a source address, perhaps the wildcard */
    ID_ADDRESS_QUERY, /* the next hop is looked for */
    ID_ADDRESS_RESOLVED,
    ID_ROUTE_RESOLVED,
    ID_CONNECT, /* asked, or was asked; stays so whatever comes of it */
    ID_LISTEN,
};

/* Where a destination was found, until the ID is told (id_resolved). */
struct resolution {
    struct place place;
    struct endpoint from;
    struct gid to;
};

struct id_handle {
    struct rdma_cm_id rdma;

    /* set at creation */
    uint32_t generation; /* process_generation then */
    bool sync;           /* each call waits for its event; rdma_migrate_id changes it */

    /* Moved on by its calls, and from ADDRESS_QUERY by the thread that looks for neighbours. */
    _Atomic enum id_state state;
    struct resolution found; /* in ADDRESS_QUERY */

    /* set by bind and resolve */
    struct place place; /* device NULL: bound to no device */
    bool service_taken;
    uint64_t service_id;
    struct gid service_local;

    /* options */
    bool has_ack_timeout;
    uint8_t ack_timeout;
    uint8_t tos;
    bool reuse_address;
    bool one_family; /* RDMA_OPTION_ID_AFONLY */

    /* the connection */
    struct cm_id *cm; /* NULL: none asked for; under the node's lock */
    struct path path;
    uint32_t local_psn; /* the first that the peer sends */
    struct agreement agreed;
    struct ibv_sa_path_rec path_rec;

    struct list memberships; /* of multicast groups: struct membership */

    /* of rdma_create_ep */
    struct ibv_qp_init_attr *qp_init_attr; /* for those who connect; owned */
    void *connect_data;                    /* for rdma_connect; owned */
    size_t connect_len;

    /* under the lock of channel.c */
    uint32_t reported; /* events handed out */
    uint32_t acked;
};

static inline struct id_handle *id_of(struct rdma_cm_id *rdma)
{
    return (struct id_handle *)((char *)rdma - offsetof(struct id_handle, rdma));
}

static inline bool id_is_datagram(const struct id_handle *h)
{
    return h->rdma.qp_type == IBV_QPT_UD;
}

/* Whether it can be used in this process: after fork the parent's cannot. */
bool id_alive(const struct id_handle *h);

/* The face of every call: 0, or -1 with errno for a negative errno. */
int id_result(int result);

/* The ID of a request that came; rdma_destroy_id frees it. NULL: no memory. Any thread. */
struct id_handle *id_new_child(const struct id_handle *listener, struct cm_id *cm);

/* Frees one that the application never had; the node's lock is held, no event of it is left. */
void id_free_child(struct id_handle *h);

/* Makes h->cm. 0 or a negative errno; the node's lock is held. */
int id_make_cm(struct id_handle *h);

/* The source is at this place: device, port number, domain and GID of the ID follow. */
void id_set_place(struct id_handle *h, const struct place *place);

/* The PSN that the peer is to begin with. 0 or a negative errno. */
int id_draw_psn(struct id_handle *h);

/* With a synchronous ID, waits for the event that the call led to. 0 or a negative errno. */
int id_complete(struct id_handle *h);

/*
 * resolve.c: the search for the destination has ended, with 0 or a negative errno: the state
 * follows, and the event is raised. Any thread. 0 or -ENOMEM.
 */
int id_resolved(struct id_handle *h, int status);

/* The record of the only path, once both addresses are known. */
void id_describe_path(struct id_handle *h);

/* connect.c: the peer has answered (REP): what the queue pair needs, and the RTU. */
int id_establish(struct id_handle *h);

/* qp.c: the ID's queue pair can receive and send; 0 or a negative errno. */
int id_qp_ready(struct id_handle *h);
void id_qp_fail(struct id_handle *h);
struct ibv_ah_attr id_address(const struct id_handle *h, const struct path *path);

#endif
