/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What guests and their host say to each other. A reuseport group of the kernel
 * admits one user; processes of others are guests of the group that holds the port. A guest
 * connects to the abstract name of the group (SOCK_SEQPACKET), any member accepts, and both look at
 * the other's credentials:
 *
 *      guest                         a member of the host
 *        | guest_request -------------> |  leases a slot, reads its sockets
 *        | <------------- guest_answer  |
 *        | <-- struct arrival + bytes   |  datagrams of that slot (inbox.h)
 *        | guest_multicast -----------> |  joins a group, or leaves it; nothing is answered
 *
 *        | guest_service  ------------> |  on a connection of its own, to any member:
 *        | <----- guest_service_answer  |  listens for the guest, or does no more
 *
 * The lease lasts as long as the connection. When it breaks, the guest asks again,
 * at whichever member answers then, for the slot that it had. No descriptor travels:
 * who holds the port sees what its guests receive, and a guest only what is its own.
 */
#ifndef UROCE_LINK_GUEST_H
#define UROCE_LINK_GUEST_H

#include <assert.h>
#include <errno.h>
#include <stdint.h>

#include "wire/datagram.h"

#define GUEST_MAGIC 0x74737567u /* "gust" */
#define GUEST_VERSION 4u        /* of this and of struct arrival */

struct guest_request {
    uint32_t magic;
    uint32_t version;
    uint32_t slot; /* the one it had; 0: any */
    uint32_t spare;
    uint64_t guest; /* as the first answer said; 0: this is the first request */
};

/* The host has no descriptors left for one more; one's own shortage is -EMFILE. */
#define GUEST_ERROR_NO_DESCRIPTORS (-ENOBUFS)

struct guest_answer {
    uint32_t magic;
    uint32_t version;
    int32_t error; /* 0, or the negative errno why not, and nothing else is valid */
    uint32_t slot;
    uint64_t guest;
    uint32_t receive_buffer; /* as the kernel accounts; the smaller one on the way to the guest */
    uint32_t spare;
};

struct guest_multicast {
    uint32_t magic;
    uint32_t join; /* 0: leave */
    struct multicast group;
};

/* Says who listens for connections on which service (services.h). */
struct guest_service {
    uint32_t magic;
    uint32_t version;
    uint32_t slot;
    uint32_t listen; /* 0: no more */
    uint64_t guest;  /* as in guest_answer: nobody else knows it */
    uint64_t service_id;
    struct gid local;
};

struct guest_service_answer {
    uint32_t magic;
    int32_t error; /* 0 or a negative errno */
};

static_assert(sizeof(struct guest_service) == 48, "no padding leaves the process");
static_assert(sizeof(struct guest_service_answer) == 8, "no padding leaves the process");
static_assert(sizeof(struct guest_multicast) == 28, "no padding leaves the process");
static_assert(sizeof(struct guest_request) == 24, "no padding leaves the process");
static_assert(sizeof(struct guest_answer) == 32, "no padding leaves the process");

#endif
