/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The inside of the UDP link, shared by its two directions. All of it belongs
 * to the link's owner.
 */
#ifndef UROCE_LINK_UDP_PRIVATE_H
#define UROCE_LINK_UDP_PRIVATE_H

#include <netinet/in.h>
#include <sys/socket.h>

#include "link/group.h"
#include "link/inbox.h"
#include "link/peer.h"
#include "link/route.h"
#include "link/udp.h"

/* Where datagrams come from. */
enum source_kind {
    SOURCE_SLOT_IPV4,
    SOURCE_SLOT_IPV6,
    SOURCE_INBOX,
    SOURCE_QP1_IPV4,
    SOURCE_QP1_IPV6,
    SOURCE_LISTENER, /* newcomers to the group */
};
#define SOURCE_COUNT 6

struct source {
    int fd;
    uint32_t drops; /* as the kernel counts them */
};

struct send_socket {
    int fd;
    uint16_t port; /* 0: not opened yet */
};

struct receive_message {
    struct sockaddr_storage name;
    struct iovec iov;
    _Alignas(struct cmsghdr) char control[256];
};

struct udp {
    struct link link;

    /* set at creation */
    struct udp_config config;
    struct group group;
    uint8_t slot;
    int epoll;
    int inbox;
    uint32_t receive_buffer;

    /* moves with datagrams */
    struct source source[SOURCE_COUNT];
    enum source_kind favourite; /* brought something last */
    uint32_t busy_calls;        /* of udp_receive */
    struct send_socket pool[FAMILY_COUNT][SEND_SOCKETS_MAX];
    uint32_t resume; /* datagrams of the blocked batch that have left; link.h's send */
    uint64_t stalled_at[SLOT_COUNT];       /* consumed, when room ran out */
    uint64_t stalled_since_ns[SLOT_COUNT]; /* 0: room has not run out */
    struct peers peers;
    struct routes routes;
    uint8_t *buffers; /* RECEIVE_AT_ONCE of RECEIVE_STRIDE */
    struct mmsghdr header[RECEIVE_AT_ONCE];
    struct receive_message message[RECEIVE_AT_ONCE];
};

#define RECEIVE_STRIDE (RECEIVE_LEN_MAX + 64u) /* with room for a struct arrival */

static inline struct udp *udp_of(struct link *link)
{
    return (struct udp *)(void *)link;
}

/* CLOCK_MONOTONIC, coarse: for things that happen about once a second. */
uint64_t udp_now_ns(void);

/* udp_room.c */
/* Kernel memory that so many datagrams, bytes in all, take in a receiver's socket when they are
 * sent at once. */
uint32_t udp_truesize(uint32_t count, uint32_t bytes);

/* Whether there is a process behind this slot at this address whose memory is counted. */
bool udp_counts_room(struct udp *u, const struct gid *dst, uint8_t slot);

uint32_t udp_local_room(struct link *link, const struct gid *dst, uint8_t slot);

/* udp_pool.c: the socket for a batch, opened if need be; 0 or a negative errno. */
int udp_pool_get(struct udp *u, enum family f, const struct datagram_batch *b,
                 struct send_socket **out);
void udp_pool_close(struct udp *u);

/* udp_send.c */
int udp_send(struct link *link, struct datagram_batch *b);

/* udp_receive.c */
int udp_receive_prepare(struct udp *u);
uint32_t udp_receive(struct link *link, uint32_t budget, link_receive_fn fn, void *context);

#endif
