/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets over RDMA as descriptors: what streams and datagrams have in common. A socket's
 * descriptor is an epoll descriptor that is readable when something may have happened: the
 * descriptors behind it tell of completions and of events of the connection manager.
 *
 * Several threads may use a socket. Each field says which lock it is under; the order is: the turn
 * of who sends or receives, the socket's lock, the node's. The table's lock is taken alone.
 */
#ifndef UROCE_RDMACM_SOCKET_H
#define UROCE_RDMACM_SOCKET_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#define SOCKET_NEVER UINT64_MAX

struct rsock;

/* After fork. */
void sockets_in_child(void);

/* What came with a call that sends or receives. */
struct transfer {
    const struct iovec *iov;
    size_t iov_count;
    int flags;                   /* MSG_... */
    struct sockaddr_storage *at; /* the peer: read by sends, written by receives; may be NULL */
    int *flags_out;              /* MSG_TRUNC of what was received; may be NULL */
};

/* What a kind of socket does. All return 0 (or a count) or a negative errno. */
struct socket_ops {
    int (*bind)(struct rsock *s, const struct sockaddr *address);
    int (*connect)(struct rsock *s, const struct sockaddr *address);
    int (*listen)(struct rsock *s, int backlog);
    int (*accept)(struct rsock *s, struct rsock **out);
    ssize_t (*send)(struct rsock *s, struct transfer *t);
    ssize_t (*receive)(struct rsock *s, struct transfer *t);
    int (*shutdown)(struct rsock *s, int how);
    /* The socket's lock is held. */
    int (*name)(struct rsock *s, bool peer, struct sockaddr_storage *out);
    /* -ENOPROTOOPT: not one of this kind's */
    int (*set_option)(struct rsock *s, int level, int name, const void *value, socklen_t len);
    int (*get_option)(struct rsock *s, int level, int name, void *value, socklen_t *len);

    /* What poll(2) would say of events; makes progress. */
    short (*poll)(struct rsock *s, short events);

    /* Sees to it that the descriptor gets readable when there is news; true: there is already.
     * The socket's lock is held. */
    bool (*arm)(struct rsock *s);

    /* Makes the descriptor readable, for those who sleep there. The socket's lock is held. */
    void (*kick)(struct rsock *s);

    /* The application closed it: says good-bye to the peer. Others may still be within calls. */
    void (*close)(struct rsock *s);

    /* The process ends: the same, until deadline (socket_now) or not at all. */
    void (*leave)(struct rsock *s, uint64_t deadline);

    /* Nobody uses it any more. */
    void (*free)(struct rsock *s);
};

struct rsock {
    const struct socket_ops *ops;

    /* set at creation */
    int fd;
    int family;
    int type;
    uint32_t generation;

    uint32_t users; /* under the table's lock; the table is one */

    pthread_mutex_t lock;

    /* under the lock */
    pthread_cond_t news; /* for threads that wait while another does at the descriptor */
    bool waited;         /* a thread sleeps at the descriptor, and tells the others */
    uint32_t sleepers;   /* it, and those in rpoll */
    bool closed;         /* by the application */
    int file_flags;      /* F_GETFL */
    int fd_flags;        /* F_GETFD */
    int error;           /* SO_ERROR */
};

/* Makes s, which the caller allocated with zeros, a socket. 0 or a negative errno. */
int socket_init(struct rsock *s, const struct socket_ops *ops, int family, int type);

/* Ends what socket_init began; s is not in the table. */
void socket_fini(struct rsock *s);

/* The application may use it from now on. 0 or -ENOMEM. */
int socket_publish(struct rsock *s);

/* The socket of a descriptor, to be given back by socket_put; NULL with errno EBADF or EIO. */
struct rsock *socket_get(int fd);
void socket_put(struct rsock *s);

/* Takes it out of the table; the caller got it by socket_get. False: another thread did. */
bool socket_withdraw(struct rsock *s);

/* The descriptor tells of this one too. 0 or a negative errno. */
int socket_watch(struct rsock *s, int fd);

/*
 * A channel's descriptor that the application never sees goes out of its way, and does not wait
 * from now on. 0 or a negative errno.
 */
int socket_hide(int *fd);

/*
 * Its descriptor becomes the lowest that is free, as that of a new one; it is not in the table. The
 * distribution's librspreload.so has opened a descriptor of its own before it calls rsocket or
 * raccept, and tells the two apart by theirs being the lower. 0 or a negative errno.
 */
int socket_renumber(struct rsock *s);

/* Calls this for each socket in the table that is of this process. */
void socket_for_each(void (*call)(struct rsock *s));

/* CLOCK_MONOTONIC. */
uint64_t socket_now(void);

/*
 * Sleeps until something may have happened or deadline is past (socket_now); the lock is held and
 * is given up meanwhile. 0, or -EINTR.
 */
int socket_wait(struct rsock *s, uint64_t deadline);

/* What threads wait for may have come about. The lock is held. */
void socket_news(struct rsock *s);

/* Does this call not wait? The lock is held. */
bool socket_nonblocking(const struct rsock *s, int flags);

/* The turn of a sender or receiver: 0, or -EAGAIN when it does not wait. */
int socket_take_turn(struct rsock *s, pthread_mutex_t *turn, int flags);

/* Waits for a descriptor and serves the node meanwhile. 0, or -EINTR. */
int socket_sleep(int fd, uint64_t deadline);

/* --- iovec.c --- */

/* Where a transfer is within its pieces. */
struct iovec_cursor {
    const struct iovec *iov;
    size_t count;
    size_t at; /* in the first */
};

struct iovec_cursor iovec_begin(const struct transfer *t);
size_t iovec_left(const struct iovec_cursor *c);
void iovec_gather(struct iovec_cursor *c, uint8_t *out, size_t len);
void iovec_scatter(struct iovec_cursor *c, const uint8_t *bytes, size_t len);

/* --- kinds --- */

int stream_open(int family, struct rsock **out);
int datagram_open(int family, struct rsock **out);

/* --- socket_option.c --- */

/* What a new socket has, from /etc/rdma/rsocket. */
struct socket_defaults {
    uint32_t receive_size;
    uint32_t send_size;
    uint32_t send_queue;
    uint32_t receive_queue;
    uint32_t inline_len;
    uint32_t maps;
    uint32_t polling_us;
    uint32_t wake_ms;
};

const struct socket_defaults *socket_defaults(void);

#define SOCKET_BUFFER_MIN 4096u
#define SOCKET_BUFFER_MAX (1u << 29)

/* What a buffer is made when so many bytes were asked for: even, and within bounds. */
uint32_t socket_buffer_size(uint64_t asked);

#endif
