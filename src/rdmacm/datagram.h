/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram sockets: a UDP socket of the kernel's, and a UD queue pair for each address of ours
 * that is sent from. Where a peer's queue pair is not known, or a datagram is longer than a packet,
 * it goes over UDP, with a header that tells our queue pair; the peer tells its own, and from then
 * on datagrams go from queue pair to queue pair.
 */
#ifndef UROCE_RDMACM_DATAGRAM_H
#define UROCE_RDMACM_DATAGRAM_H

#include <infiniband/verbs.h>

#include "base/list.h"
#include "rdmacm/datagram_wire.h"
#include "rdmacm/device.h"
#include "rdmacm/socket.h"

#define DATAGRAM_PEERS_MAX 1024u
#define DATAGRAM_QPS_MAX 64u

/* What was received and is not read yet. */
struct datagram_in {
    struct endpoint source;
    const uint8_t *bytes;
    size_t len;
};

/* A queue pair and its queues, at one address. */
struct datagram_qp {
    struct list link;
    struct place place;
    struct endpoint local; /* with the UDP socket's port */
    uint32_t len_max;      /* of a packet's payload */
    struct ibv_comp_channel *channel;
    struct ibv_cq *send_cq;
    struct ibv_cq *recv_cq;
    struct ibv_qp *qp;
    uint8_t *memory; /* slots to send from, then slots to receive into */
    struct ibv_mr *region;
    uint32_t send_slots;
    uint32_t receive_slots;
    uint64_t posted;
    uint64_t sent; /* of them */
    bool armed;
};

/* Somebody that was sent to, or heard of over UDP. */
struct datagram_peer {
    struct list link;
    struct endpoint at;
    struct datagram_qp *from;
    struct ibv_ah *ah; /* NULL: its queue pair is not known */
    uint32_t qpn;
};

struct datagram_socket {
    struct rsock socket;
    int udp;

    /* set before a queue pair is made; all under the socket's lock */
    uint32_t receive_size;
    uint32_t send_size;
    uint32_t send_queue;
    uint32_t receive_queue;
    uint32_t inline_len;

    /* SO_RCVTIMEO, SO_SNDTIMEO; 0: for ever */
    uint64_t receive_wait_ns;
    uint64_t send_wait_ns;

    int wake_fd;
    uint32_t kicks;
    bool connected;
    struct endpoint default_peer;
    struct list qps; /* the first is asked first, and goes to the end */
    uint32_t qp_count;
    struct list peers; /* the latest first */
    uint32_t peer_count;

    /* the datagram that is read next, if there is one */
    bool has_next;
    struct datagram_in next;
    struct datagram_qp *next_qp; /* NULL: it came over UDP */
    uint64_t next_slot;
    uint32_t since_udp; /* datagrams read since the UDP socket was looked at */
    uint8_t udp_bytes[DATAGRAM_LEN_MAX];
};

static inline struct datagram_socket *datagram_of(struct rsock *s)
{
    return (struct datagram_socket *)((char *)s - offsetof(struct datagram_socket, socket));
}

/* --- datagram_qp.c --- */

/* The queue pair at a local address, made if there is none. 0 or a negative errno. */
int datagram_qp_find(struct datagram_socket *d, const struct endpoint *local,
                     struct datagram_qp **out);
void datagram_qp_free(struct datagram_socket *d, struct datagram_qp *q);

/* Its descriptor tells of the next completion of either kind. */
void datagram_qp_arm(struct datagram_qp *q);

/* Is a slot to send from free? Looks at completions if not. */
bool datagram_qp_can_send(struct datagram_qp *q);
bool datagram_qp_all_sent(struct datagram_qp *q);

/* Where the next is to be written, DATAGRAM_LEN_MAX bytes; and posts it. 0 or a negative errno. */
uint8_t *datagram_qp_slot(const struct datagram_qp *q);
int datagram_qp_post(struct datagram_qp *q, const struct datagram_peer *to, uint32_t len);

/* The next that has come: true, and its slot is the caller's until it is given back. */
bool datagram_qp_receive(struct datagram_qp *q, struct datagram_in *out, uint64_t *slot);
void datagram_qp_give_back(struct datagram_qp *q, uint64_t slot);

/* An address handle to a peer; NULL with errno. */
struct ibv_ah *datagram_qp_address(const struct datagram_qp *q, const struct endpoint *to);

#endif
