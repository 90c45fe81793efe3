/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stream sockets: a reliable connection between two buffers. Each side writes into the peer's
 * receive buffer, of which it is told one half after the other (stream_wire.h), and has a queue
 * pair, a completion queue and an event channel of its own.
 */
#ifndef UROCE_RDMACM_STREAM_H
#define UROCE_RDMACM_STREAM_H

#include <rdma/rdma_cma.h>

#include "base/list.h"
#include "rdmacm/socket.h"
#include "rdmacm/stream_wire.h"

enum stream_state {
    STREAM_IDLE,       /* perhaps bound */
    STREAM_LISTENING,  /* a service: hands out others */
    STREAM_CONNECTING, /* the REQ is out */
    STREAM_ACCEPTING,  /* the REP is out */
    STREAM_CONNECTED,  /* one direction or both are open */
    STREAM_CLOSED,     /* both sides have said that they are done */
    STREAM_FAILED,     /* why, was in the socket's error */
};

/* How much there is of what; what the application may set before it connects. */
struct stream_sizes {
    uint32_t receive;
    uint32_t send;
    uint32_t send_queue;
    uint32_t receive_queue;
    uint32_t inline_len;
    uint32_t maps; /* that the peer may tell us */
};

struct stream_options {
    bool reuse_address;
    bool keepalive;
    bool out_of_band_inline;
    bool no_delay;
    bool one_family;
    struct linger linger;
    int keepalive_s;
    int tos;
};

struct stream {
    struct rsock socket;

    /* Who sends, who receives: one at a time, so that what two threads send does not mix. */
    pthread_mutex_t sending;
    pthread_mutex_t receiving;

    /* all that follows is under the socket's lock */
    enum stream_state state;
    struct rdma_cm_id *id;
    struct rdma_event_channel *channel; /* of id alone */
    uint32_t kicks;                     /* tokens in the channel that stand for no event */
    bool armed;                         /* the completion queue will tell */
    bool read_ended;                    /* by the peer: what is there is all */
    bool read_shut;                     /* by us */
    bool write_shut;                    /* by us */
    bool peer_gone;                     /* it said so, or its connection manager */
    uint64_t heard_ns;                  /* when last something came, an answer not least */
    struct stream_sizes sizes;
    struct stream_options options;
    void *route; /* RDMA_ROUTE; owned, or NULL */
    size_t route_len;

    /* listening */
    struct list accepted; /* of struct stream, by its link: those that accept hands out */
    uint32_t accepted_count;
    uint32_t backlog;
    struct list link; /* in accepted of another */

    /* keepalive.c */
    struct list kept;  /* under a lock of its own */
    uint64_t asked_ns; /* when last */

    /* sending: memory in the order of the requests, which complete in that order */
    uint8_t *send_buffer;
    struct ibv_mr *send_region;
    uint32_t send_at;
    uint32_t send_free;
    uint32_t data_slots; /* requests that may be posted */
    uint32_t control_slots;
    uint16_t sent;       /* messages that take a credit */
    uint16_t sent_limit; /* the first that must wait */
    struct stream_range targets[STREAM_WINDOW_RANGES];
    uint32_t target_now;  /* where we write */
    uint32_t target_next; /* which the peer notes next */

    /* receiving: a ring that the peer writes; what it may write, what it has written, what is free
     */
    uint8_t *receive_buffer;
    struct ibv_mr *receive_region;
    uint32_t read_at;
    uint32_t readable;
    uint32_t granted;    /* bytes that the peer may still write */
    uint32_t grant_at;   /* the half that is told next */
    uint16_t received;   /* messages that took a credit */
    uint16_t credit_due; /* when so many were received the peer is told of new credits */
    struct stream_range peer_window;
    uint32_t peer_next; /* which of its ranges we note next */
    bool peer_big_endian;

    /* what the peer writes to tell us its ranges and maps */
    uint8_t *window;
    size_t window_len;
    struct ibv_mr *window_region;

    /* iomap.c */
    struct stream_map *targets_mapped; /* as many as sizes.maps */
    uint32_t peer_maps;                /* that the peer can be told */
    struct list maps;                  /* of ours */
    bool maps_waiting;                 /* some of them the peer was not told of */
};

static inline struct stream *stream_of(struct rsock *s)
{
    return (struct stream *)((char *)s - offsetof(struct stream, socket));
}

/* --- stream.c: what moves. The lock is held in all of them. --- */

/* Looks at completions and events; returns how many there were. */
unsigned stream_progress(struct stream *t);

/* May data be posted now? */
bool stream_can_send(const struct stream *t);

/* Will nothing that is sent arrive? 0, or the negative errno of a send. */
int stream_send_error(const struct stream *t);

/* Has the peer's transport answered all that was posted? If not, ours is asking already. */
static inline bool stream_all_answered(const struct stream *t)
{
    return t->data_slots + t->control_slots == t->sizes.send_queue;
}

/* Sends what nobody notices, so that a peer that is gone is found out. */
void stream_ask(struct stream *t);

/* The same for a thread that goes to sleep, when it is time. */
void stream_probe(struct stream *t);

/* Sleeps until something may have happened. 0, or -EINTR. */
int stream_wait(struct stream *t);

/* Until stream_can_send, or an error. Returns 0 or a negative errno. */
int stream_wait_to_send(struct stream *t, int flags);

/* The connection has failed for this reason, a negative errno. */
void stream_fail(struct stream *t, int error);

struct stream_post {
    struct iovec_cursor *from; /* len bytes of it are sent, and it moves on */
    uint32_t len;
    struct stream_range to; /* its length does not matter */
    bool with_immediate;
    uint32_t immediate;
};

/* Posts a write into the peer's memory; there are a slot and room. 0 or a negative errno. */
int stream_post(struct stream *t, const struct stream_post *p);

/* A message of control; there is a slot. 0 or a negative errno. */
int stream_post_control(struct stream *t, enum stream_control control);

/* Tells the peer what it may send, if it is time. */
void stream_grant(struct stream *t);

/* --- stream_connect.c --- */

/* Looks at events of the connection manager; returns how many there were. The lock is held. */
unsigned stream_take_events(struct stream *t);

/* --- stream_buffer.c --- */

/* Queue pair and buffers, with all receives posted. 0 or a negative errno. */
int stream_allocate(struct stream *t);
void stream_release(struct stream *t);

/* Posts so many receives. 0 or a negative errno. */
int stream_post_receives(struct stream *t, uint32_t count);

struct stream_hello stream_say_hello(const struct stream *t);
void stream_hear_hello(struct stream *t, const struct stream_hello *hello);

/* --- stream_call.c --- */

ssize_t stream_send(struct rsock *s, struct transfer *x);
ssize_t stream_receive(struct rsock *s, struct transfer *x);
int stream_shutdown(struct rsock *s, int how);
void stream_close(struct rsock *s);
void stream_leave(struct rsock *s, uint64_t deadline);
short stream_poll(struct rsock *s, short events);

/* --- stream_option.c --- */

int stream_set_option(struct rsock *s, int level, int name, const void *value, socklen_t len);
int stream_get_option(struct rsock *s, int level, int name, void *value, socklen_t *len);

/* --- iomap.c; the lock is held --- */

void stream_init_maps(struct stream *t);
void stream_free_maps(struct stream *t);
int stream_allocate_maps(struct stream *t);

/* The peer has noted its map with this index. False: there is no such. */
bool stream_hear_map(struct stream *t, uint32_t index);

/* Tells the peer of maps that are new. 0 or a negative errno. */
int stream_tell_maps(struct stream *t, int flags);

#endif
