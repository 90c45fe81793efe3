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
#include "link/guest.h"
#include "link/inbox.h"
#include "link/peer.h"
#include "link/route.h"
#include "link/udp.h"

#define RECEIVE_STRIDE                                                                             \
    (RECEIVE_LEN_MAX + 64u) /* with room for a struct arrival, or a frame's headers */
#define RAW_HEADERS_MAX 48u /* IPv6 and UDP */

/* Where datagrams come from. */
enum source_kind {
    SOURCE_SLOT_IPV4,
    SOURCE_SLOT_IPV6,
    SOURCE_INBOX,
    SOURCE_QP1_IPV4,
    SOURCE_QP1_IPV6,
    SOURCE_HOST,     /* a guest's connection to its host */
    SOURCE_RAW_IPV4, /* packet sockets; see udp_raw.c */
    SOURCE_RAW_IPV6,
    SOURCE_TIMER,    /* when a guest without a host looks for one again */
    SOURCE_LISTENER, /* newcomers to the group */
    SOURCE_COUNT,
};

/* Behind them the sockets of our guests, those of multicast groups, then the guests' connections.
 */
#define SOURCE_GUESTS ((uint32_t)SOURCE_COUNT)
#define SOURCE_MULTICASTS (SOURCE_GUESTS + GUESTS_MAX * FAMILY_COUNT)
#define SOURCE_VISITORS (SOURCE_MULTICASTS + MULTICAST_SOCKETS_MAX)

struct source {
    int fd;
    uint32_t drops; /* as the kernel counts them */
    bool remote;    /* it has brought something from another host */
    bool singly;    /* its messages come one at a time, as far as was seen */
};

/* A process of another user that connected to us. */
struct visitor {
    int fd; /* -1: nobody */
    unsigned uid;
    uint8_t slot;    /* 0: has not said yet what it wants */
    uint32_t number; /* in the order of coming */
};

struct host {
    struct visitor visitor[GUESTS_MAX];
    uint8_t visitor_of[SLOT_COUNT]; /* index and one; 0: not of our guests */
    uint32_t number;                /* of the visitor who came last */
};

/* What a guest knows of its host; uid is valid once it has a slot. */
struct guest {
    unsigned uid;
    uint64_t number;   /* it proves itself with; see struct shared_slot */
    uint64_t asked_ms; /* and was not answered yet; 0: no question is open */
    uint64_t pause_ms; /* between the last two attempts to find a host */
    bool complained;   /* of the loss of its slot */
};

/* A group that this process or some of its guests are in. */
struct multicast_socket {
    struct multicast group;
    bool used;
    bool own;                           /* this process is in it */
    uint64_t visitors[GUESTS_MAX / 64]; /* a bit for each visitor that is */
};

/* Datagrams for another process: struct arrival and bytes, again and again (inbox.h). */
struct parcel {
    uint8_t *bytes; /* RECEIVE_STRIDE */
    uint32_t len;
    uint32_t count;    /* datagrams */
    uint64_t since_ns; /* when it first found no room; 0: it has not been tried */
    uint8_t slot;
};

struct parcels {
    struct parcel parcel[PARCELS_MAX]; /* oldest first; those behind count are free */
    uint32_t count;
    bool added;        /* something, since they were last sent */
    uint64_t retry_ns; /* valid while there are any */
    uint8_t *bytes;    /* of all */
};

struct send_socket {
    int fd;
    uint16_t port;   /* 0: not opened yet */
    bool settled;    /* connected to where path goes: what goes there needs no address */
    uint32_t astray; /* sends in a row that went elsewhere */
    struct path path;
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
    uint64_t inbox_name;
    uint32_t receive_buffer;

    /* moves as processes come and go */
    struct host host;
    struct guest guest;
    struct multicast_socket
        multicasts[MULTICAST_SOCKETS_MAX]; /* source: SOURCE_MULTICASTS + index */

    /* moves with datagrams */
    struct source source[SOURCE_VISITORS];
    uint32_t favourite;  /* source that brought something last */
    uint32_t busy_calls; /* of udp_receive */
    struct send_socket pool[FAMILY_COUNT][SEND_SOCKETS_MAX];
    struct send_socket raw_sender[FAMILY_COUNT];
    uint32_t resume; /* datagrams of the blocked batch that have left; link.h's send */
    uint64_t stalled_at[SLOT_COUNT];       /* consumed, when room ran out */
    uint64_t stalled_since_ns[SLOT_COUNT]; /* 0: room has not run out */
    uint64_t unsent_least;                 /* at the least so much was charged to us, not sent */
    uint64_t unsent_since_ns;              /* since then; 0: there was none */
    struct peers peers;
    struct routes routes;
    struct parcels parcels;
    uint8_t *buffers; /* RECEIVE_AT_ONCE of RECEIVE_STRIDE */
    struct mmsghdr header[RECEIVE_AT_ONCE];
    struct receive_message message[RECEIVE_AT_ONCE];
};

static inline struct udp *udp_of(struct link *link)
{
    return (struct udp *)(void *)link;
}

/* No member of a group, though another user's group may serve it. */
static inline bool udp_is_guest(const struct udp *u)
{
    return u->group.memory < 0;
}

/* udp.c */
/* Has the link look at a descriptor from now on. source: as above. 0 or a negative errno. */
int udp_watch(struct udp *u, uint32_t source, int fd);

/* Readies the sockets of a slot, which are read from now on. 0 or a negative errno. */
int udp_adopt(struct udp *u, const struct slot_sockets *s, uint32_t first,
              const struct adoption *how, uint32_t *receive_buffer);

void udp_unwatch(struct udp *u, int fd);
void udp_close_sources(struct udp *u, uint32_t first, uint32_t end);

/*
 * One attempt (patience_ms 0) to be a member of this user's group, with the slot that the link
 * has, if it has one. 0, or a negative errno with a sentence; then nothing has changed.
 */
int udp_join(struct udp *u, uint64_t patience_ms, char *error);

/* udp_host.c: having guests. */
void udp_host_init(struct udp *u);
void udp_host_greet(void *context, int fd, unsigned uid, bool last); /* a group_visitor_fn */
void udp_host_listen(struct udp *u, uint32_t visitor); /* its connection has something */
bool udp_host_serves(const struct udp *u, uint8_t slot);
/* Passes on a parcel to the guest of a slot that is served here. */
enum handed udp_host_pass(struct udp *u, uint8_t slot, const uint8_t *parcel, uint32_t len);
/* Lets go of all connections. Their guests go to other members. */
void udp_host_close(struct udp *u);

/* The same for a visitor by its number. */
enum handed udp_host_pass_to(struct udp *u, uint32_t visitor, const struct arrival *a,
                             const uint8_t *bytes);

/* udp_guest.c: being one. */
/* Becomes a guest of who holds the port. 0, or a negative errno with a sentence. */
int udp_guest_open(struct udp *u, char *error);
/* The host has answered. */
void udp_guest_answered(struct udp *u);
/* Tells the host, if there is one, that we join a group or leave it. */
void udp_guest_multicast(struct udp *u, const struct multicast *group, bool join);
/* Tells any process of the host's user that we listen on a service, or no more, and waits for the
 * answer. 0 or a negative errno; 0 too without a host: the next one hears of all services. */
int udp_guest_service(struct udp *u, uint64_t service_id, const struct gid *local, bool listen);
/* The connection broke. */
void udp_guest_lost(struct udp *u);
/* The timer fired. */
void udp_guest_retry(struct udp *u);

/* udp_multicast.c */
#define HOLDER_OWN UINT32_MAX
/* holder: a visitor, or HOLDER_OWN. As link_join, link_leave. */
int udp_multicast_join(struct udp *u, const struct multicast *group, uint32_t holder);
void udp_multicast_leave(struct udp *u, const struct multicast *group, uint32_t holder);
/* A visitor goes. */
void udp_multicast_forget(struct udp *u, uint32_t visitor);
/* Joins again what this process is in: by a new host, or, as a member of a group, by itself. */
void udp_multicast_renew(struct udp *u);

/* CLOCK_MONOTONIC, coarse: for things that happen about once a second. */
uint64_t udp_now_ns(void);

/* udp_parcel.c: what is another process's. */
int udp_parcels_prepare(struct udp *u); /* 0 or a negative errno */
void udp_parcels_release(struct udp *u);
/* Packs bytes (a->len of them: count datagrams) for whoever has the slot. */
void udp_parcel_add(struct udp *u, uint8_t slot, const struct arrival *a, const uint8_t *bytes,
                    uint32_t count);
/* Hands over all for which there is room. */
void udp_parcels_send(struct udp *u);
/* The same, if it is time to try again. */
void udp_parcels_retry(struct udp *u);
uint64_t udp_parcels_deadline(const struct link *link);

/* udp_room.c */
/* Whether there is a process behind this slot at this address whose memory is counted. */
bool udp_counts_room(struct udp *u, const struct gid *dst, uint8_t slot);

uint32_t udp_local_room(struct link *link, const struct gid *dst, uint8_t slot);
uint32_t udp_local_buffer(struct link *link, const struct gid *dst, uint8_t slot);
bool udp_delivers_whole(struct link *link, const struct path *path, uint8_t slot);

/* udp_pool.c: the socket for a batch, opened if need be; 0 or a negative errno. */
int udp_pool_get(struct udp *u, enum family f, const struct datagram_batch *b,
                 struct send_socket **out);
/*
 * Whether the socket leads where the path goes by itself. One whose sends go one way is connected
 * there, which spares the kernel the search for a route with each; others are sent from it with
 * their address all the same.
 *
 * Not so on IPv4 to other hosts: Linux numbers what leaves a connected socket, from a number that
 * nobody is told, and the ICRC covers the identification. From one that is not, with DF set, it is
 * 0 (ip_select_ident_segs). On this host there is uroce alone, which takes any.
 */
bool send_socket_leads(struct udp *u, struct send_socket *s, enum family f,
                       const struct path *path);
void udp_pool_close(struct udp *u);

/* udp_raw.c: whole frames, if the configuration says so. */
/* Opens the sockets, before there is a slot. 0, or a negative errno with a sentence. */
int udp_raw_open(struct udp *u, char *error);
/* Receives what is for our slot from now on. As above. */
int udp_raw_start(struct udp *u, char *error);
/* The UDP sockets of our slot drop what the packet sockets show. 0 or a negative errno. */
int udp_raw_mute(struct udp *u);
void udp_raw_close(struct udp *u);
/* Whether what goes this way leaves with headers of our own. */
bool udp_raw_sends(struct udp *u, const struct path *path);
/* Whether a frame with these addresses may come from another host to this one. */
bool udp_raw_addresses_fit(struct udp *u, const struct arrival *a);
/* Writes the IP and UDP headers of a datagram of len bytes; returns their length. */
size_t udp_raw_headers(const struct datagram_batch *b, uint16_t identification, size_t len,
                       uint8_t out[RAW_HEADERS_MAX]);

/* udp_send.c */
const char *udp_address_text(const struct gid *g, char text[INET6_ADDRSTRLEN]);
int udp_send(struct link *link, struct datagram_batch *b);

/* udp_receive.c */
int udp_receive_prepare(struct udp *u);
uint32_t udp_receive(struct link *link, uint32_t budget, link_receive_fn fn, void *context);
bool udp_pass(struct link *link, uint8_t slot, const struct datagram *d);
void udp_finish(struct link *link);

#endif
