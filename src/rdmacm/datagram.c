/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagram sockets. The kernel's UDP socket has the name, and what is asked over it is answered
 * when the application is within a call: until then it waits in the kernel's buffer.
 */
#include "rdmacm/datagram.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "link/kernel_socket.h"
#include "link/own_descriptor.h"
#include "rdmacm/process.h"
#include "verbs/event_fd.h"

#define UDP_LOOK_EVERY 16u /* datagrams of queue pairs, while there are some */
#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_US UINT64_C(1000)
#define LINGER_NS (NS_PER_S / 10)
#define QUEUE_MAX 0xfffeu

static const struct socket_ops datagram_ops;

static socklen_t size_of(const struct sockaddr *address)
{
    return address_len(address->sa_family);
}

/* --- peers --- */

static bool same(const struct endpoint *a, const struct endpoint *b)
{
    return a->port == b->port && gid_equal(&a->gid, &b->gid) &&
           (!gid_is_link_local(&a->gid) || a->scope_id == 0 || b->scope_id == 0 ||
            a->scope_id == b->scope_id);
}

static struct datagram_peer *peer_of(struct list *link)
{
    return LIST_ENTRY(link, struct datagram_peer, link);
}

static void free_peer(struct datagram_socket *d, struct datagram_peer *p)
{
    list_remove(&p->link);
    d->peer_count--;
    if (p->ah != NULL)
        ibv_destroy_ah(p->ah);
    free(p);
}

/* The UDP socket's name; it gets a port if it has none. 0 or a negative errno. */
static int own_name(const struct datagram_socket *d, struct endpoint *out)
{
    struct sockaddr_storage name;
    socklen_t len = sizeof(name);

    if (getsockname(d->udp, (struct sockaddr *)&name, &len) != 0)
        return -errno;
    endpoint_read((struct sockaddr *)&name, out);
    if (out->port != 0)
        return 0;
    /* The wildcard of its family, and a port of the kernel's choice. */
    if (bind(d->udp, (const struct sockaddr *)&name, len) != 0 ||
        getsockname(d->udp, (struct sockaddr *)&name, &len) != 0)
        return -errno;
    endpoint_read((struct sockaddr *)&name, out);
    return 0;
}

/* The address that what goes there has. 0 or a negative errno. */
static int find_source(const struct datagram_socket *d, const struct endpoint *to,
                       struct endpoint *out)
{
    struct endpoint bound;
    int result = own_name(d, &bound);

    if (result == 0)
        result = route_source(&bound, to, out);
    out->port = bound.port;
    return result;
}

/* 0 or a negative errno. */
static int new_peer(struct datagram_socket *d, const struct endpoint *at,
                    struct datagram_peer **out)
{
    struct endpoint from;
    struct datagram_peer *p;
    struct datagram_qp *q;
    int result = find_source(d, at, &from);

    if (result == 0)
        result = datagram_qp_find(d, &from, &q);
    if (result != 0)
        return result;
    /* Who was not met for longest is met anew, over UDP. */
    if (d->peer_count == DATAGRAM_PEERS_MAX)
        free_peer(d, peer_of(d->peers.prev));
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return -ENOMEM;
    p->at = *at;
    p->from = q;
    list_push_head(&d->peers, &p->link);
    d->peer_count++;
    *out = p;
    return 0;
}

static int find_peer(struct datagram_socket *d, const struct endpoint *at,
                     struct datagram_peer **out)
{
    for (struct list *l = d->peers.next; l != &d->peers; l = l->next) {
        if (!same(&peer_of(l)->at, at))
            continue;
        list_remove(l);
        list_push_head(&d->peers, l);
        *out = peer_of(l);
        return 0;
    }
    return new_peer(d, at, out);
}

static void learn(struct datagram_peer *p, uint32_t qpn)
{
    if (p->ah == NULL)
        p->ah = datagram_qp_address(p->from, &p->at);
    p->qpn = qpn;
}

/* --- over UDP --- */

/* The header tells our queue pair. Returns the length of what followed it, or a negative errno. */
static ssize_t send_udp(const struct datagram_socket *d, const struct datagram_peer *to,
                        enum datagram_op op, const struct transfer *x)
{
    const struct datagram_udp_header header = {op, to->from->qp->qp_num, to->from->local};
    uint8_t bytes[DATAGRAM_LEN_MAX];
    struct iovec_cursor from = iovec_begin(x);
    const size_t len = iovec_left(&from);
    const size_t header_len = datagram_udp_header_write(&header, bytes);
    struct sockaddr_storage at;

    if (len > sizeof(bytes) - header_len)
        return -EMSGSIZE;
    iovec_gather(&from, bytes + header_len, len);
    endpoint_write(&to->at, &at);
    if (sendto(d->udp, bytes, header_len + len, MSG_DONTWAIT | MSG_NOSIGNAL,
               (const struct sockaddr *)&at, size_of((struct sockaddr *)&at)) < 0)
        return -errno;
    return (ssize_t)len;
}

/* Reads one datagram. Returns false: there is none. *data: it carries some, which is in `next`. */
static bool receive_udp(struct datagram_socket *d, bool *data)
{
    static const struct transfer nothing;
    struct sockaddr_storage at;
    socklen_t at_len = sizeof(at);
    const ssize_t len = recvfrom(d->udp, d->udp_bytes, sizeof(d->udp_bytes), MSG_DONTWAIT,
                                 (struct sockaddr *)&at, &at_len);
    struct datagram_udp_header header;
    struct datagram_peer *peer;
    struct endpoint source;
    size_t header_len;

    *data = false;
    if (len < 0)
        return false; /* or what is pending of an earlier send: datagrams may be lost */
    header_len = datagram_udp_header_read(d->udp_bytes, (size_t)len, &header);
    if (header_len == 0 || !endpoint_read((struct sockaddr *)&at, &source) ||
        header.local.family != source.family || find_peer(d, &source, &peer) != 0)
        return true;
    learn(peer, header.qpn);
    if (header.op != DATAGRAM_DATA)
        return true;
    send_udp(d, peer, DATAGRAM_TELLS, &nothing);
    d->next = (struct datagram_in){source, d->udp_bytes + header_len, (size_t)len - header_len};
    d->next_qp = NULL;
    *data = true;
    return true;
}

/* --- what comes --- */

static void drop_next(struct datagram_socket *d)
{
    if (d->has_next && d->next_qp != NULL)
        datagram_qp_give_back(d->next_qp, d->next_slot);
    d->has_next = false;
}

/* One of the queue pairs, each in turn. */
static bool look_at_qps(struct datagram_socket *d)
{
    for (uint32_t i = 0; i < d->qp_count; i++) {
        struct list *first = d->qps.next;
        struct datagram_qp *q = LIST_ENTRY(first, struct datagram_qp, link);

        list_remove(first);
        list_push_tail(&d->qps, first);
        if (datagram_qp_receive(q, &d->next, &d->next_slot)) {
            d->next_qp = q;
            return true;
        }
    }
    return false;
}

static bool look_at_udp(struct datagram_socket *d)
{
    bool data;

    d->since_udp = 0;
    while (receive_udp(d, &data))
        if (data)
            return true;
    return false;
}

/* Of one that is connected, only the peer's. */
static bool wanted(const struct datagram_socket *d)
{
    return !d->connected || same(&d->next.source, &d->default_peer);
}

/* Is there a datagram to read? */
static bool look(struct datagram_socket *d)
{
    while (!d->has_next) {
        d->has_next =
            (d->since_udp++ < UDP_LOOK_EVERY && look_at_qps(d)) || look_at_udp(d) || look_at_qps(d);
        if (!d->has_next)
            return false;
        socket_news(&d->socket);
        if (!wanted(d))
            drop_next(d);
    }
    return true;
}

/* --- calls: data --- */

/* When a call that begins now has waited long enough. */
static uint64_t deadline_in(uint64_t ns)
{
    return ns == 0 ? SOCKET_NEVER : socket_now() + ns;
}

/* Until something may have happened; -EAGAIN: the call waits no longer. 0 or a negative errno. */
static int wait_until(struct datagram_socket *d, int flags, uint64_t deadline)
{
    if (socket_nonblocking(&d->socket, flags) ||
        (deadline != SOCKET_NEVER && socket_now() >= deadline))
        return -EAGAIN;
    return socket_wait(&d->socket, deadline);
}

/* 0 or a negative errno. */
static int wait_for_slot(struct datagram_socket *d, struct datagram_qp *q, int flags)
{
    const uint64_t deadline = deadline_in(d->send_wait_ns);
    int result = 0;

    while (result == 0 && !datagram_qp_can_send(q))
        result = wait_until(d, flags, deadline);
    return result;
}

static ssize_t send_ud(struct datagram_socket *d, const struct datagram_peer *to,
                       const struct transfer *x)
{
    struct datagram_qp *q = to->from;
    uint8_t *bytes = datagram_qp_slot(q);
    struct iovec_cursor from = iovec_begin(x);
    const size_t len = iovec_left(&from);
    const size_t header_len = datagram_header_write(&q->local, bytes);
    int result;

    (void)d;
    iovec_gather(&from, bytes + header_len, len);
    result = datagram_qp_post(q, to, (uint32_t)(header_len + len));
    return result != 0 ? result : (ssize_t)len;
}

/* Whom a send is for. 0 or a negative errno. */
static int find_target(struct datagram_socket *d, const struct transfer *x,
                       struct datagram_peer **out)
{
    struct endpoint at = d->default_peer;

    if (x->at == NULL && !d->connected)
        return -EDESTADDRREQ;
    if (x->at != NULL && !endpoint_read((const struct sockaddr *)x->at, &at))
        return -EAFNOSUPPORT;
    if (at.family != d->socket.family)
        return -EAFNOSUPPORT;
    return find_peer(d, &at, out);
}

static ssize_t send_one(struct datagram_socket *d, const struct transfer *x)
{
    struct iovec_cursor all = iovec_begin(x);
    const size_t len = iovec_left(&all);
    struct datagram_peer *to;
    int result;

    if (len > DATAGRAM_LEN_MAX)
        return -EMSGSIZE;
    result = find_target(d, x, &to);
    if (result == 0 && to->ah == NULL && !d->has_next) {
        /* The answer may be there; while data waits to be read it has to wait, too. */
        look(d);
        result = find_target(d, x, &to);
    }
    if (result == 0)
        result = wait_for_slot(d, to->from, x->flags);
    if (result == 0) /* the lock was given up, perhaps */
        result = find_target(d, x, &to);
    if (result != 0)
        return result;
    if (to->ah == NULL || len + DATAGRAM_HEADER_MAX > to->from->len_max)
        return send_udp(d, to, DATAGRAM_DATA, x);
    if (len + DATAGRAM_HEADER_MAX > DATAGRAM_LEN_MAX)
        return -EMSGSIZE;
    return send_ud(d, to, x);
}

static ssize_t datagram_send(struct rsock *s, struct transfer *x)
{
    ssize_t result;

    if ((x->flags & MSG_OOB) != 0)
        return -EOPNOTSUPP;
    pthread_mutex_lock(&s->lock);
    result = send_one(datagram_of(s), x);
    pthread_mutex_unlock(&s->lock);
    return result;
}

static ssize_t take_next(struct datagram_socket *d, struct transfer *x)
{
    struct iovec_cursor to = iovec_begin(x);
    const size_t room = iovec_left(&to);
    const size_t len = d->next.len < room ? d->next.len : room;

    iovec_scatter(&to, d->next.bytes, len);
    if (x->at != NULL)
        endpoint_write(&d->next.source, x->at);
    if (x->flags_out != NULL && len < d->next.len)
        *x->flags_out |= MSG_TRUNC;
    return (ssize_t)((x->flags & MSG_TRUNC) != 0 ? d->next.len : len);
}

static ssize_t datagram_receive(struct rsock *s, struct transfer *x)
{
    struct datagram_socket *d = datagram_of(s);
    uint64_t deadline;
    ssize_t result = 0;

    pthread_mutex_lock(&s->lock);
    deadline = deadline_in(d->receive_wait_ns);
    while (result == 0 && !look(d))
        result = s->closed ? -EBADF : wait_until(d, x->flags, deadline);
    if (result == 0) {
        result = take_next(d, x);
        if ((x->flags & MSG_PEEK) == 0)
            drop_next(d);
    }
    pthread_mutex_unlock(&s->lock);
    return result;
}

/* --- calls: the rest --- */

static int datagram_bind(struct rsock *s, const struct sockaddr *address)
{
    return bind(datagram_of(s)->udp, address, size_of(address)) == 0 ? 0 : -errno;
}

/* The kernel's socket gives itself a port and takes nothing of others. */
static int datagram_connect(struct rsock *s, const struct sockaddr *address)
{
    struct datagram_socket *d = datagram_of(s);
    struct datagram_peer *peer;
    struct endpoint at;
    int result = 0;

    if (address->sa_family != AF_UNSPEC && !endpoint_read(address, &at))
        return -EAFNOSUPPORT;
    pthread_mutex_lock(&s->lock);
    if (connect(d->udp, address,
                address->sa_family == AF_UNSPEC ? sizeof(sa_family_t) : size_of(address)) != 0)
        result = -errno;
    else
        d->connected = address->sa_family != AF_UNSPEC;
    if (result == 0 && d->connected) {
        d->default_peer = at;
        result = find_peer(d, &at, &peer);
        d->connected = result == 0;
    }
    if (d->has_next && !wanted(d))
        drop_next(d);
    pthread_mutex_unlock(&s->lock);
    return result;
}

static int datagram_listen(struct rsock *s, int backlog)
{
    (void)s;
    (void)backlog;
    return -EOPNOTSUPP;
}

static int datagram_accept(struct rsock *s, struct rsock **out)
{
    (void)s;
    (void)out;
    return -EOPNOTSUPP;
}

static int datagram_shutdown(struct rsock *s, int how)
{
    return shutdown(datagram_of(s)->udp, how) == 0 ? 0 : -errno;
}

static int datagram_name(struct rsock *s, bool peer, struct sockaddr_storage *out)
{
    const int udp = datagram_of(s)->udp;
    socklen_t len = sizeof(*out);
    const int result = peer ? getpeername(udp, (struct sockaddr *)out, &len)
                            : getsockname(udp, (struct sockaddr *)out, &len);

    return result == 0 ? 0 : -errno;
}

/* --- options --- */

static uint32_t *rdma_option(struct datagram_socket *d, int name)
{
    switch (name) {
    case RDMA_SQSIZE:
        return &d->send_queue;
    case RDMA_RQSIZE:
        return &d->receive_queue;
    case RDMA_INLINE:
        return &d->inline_len;
    default:
        return NULL;
    }
}

static int set_rdma(struct datagram_socket *d, int name, int value)
{
    uint32_t *option = rdma_option(d, name);

    if (option == NULL)
        return -ENOPROTOOPT;
    if (d->qp_count > 0 || value < 0)
        return -EINVAL;
    *option = (uint32_t)value < QUEUE_MAX ? (uint32_t)value : QUEUE_MAX;
    return 0;
}

/* What the kernel's socket has of them is how long ours waits; 0: for ever. */
static uint64_t waits_ns(const struct datagram_socket *d, int name)
{
    struct timeval most = {0};
    socklen_t len = sizeof(most);

    if (getsockopt(d->udp, SOL_SOCKET, name, &most, &len) != 0)
        return 0;
    return (uint64_t)most.tv_sec * NS_PER_S + (uint64_t)most.tv_usec * NS_PER_US;
}

static void note_waits(struct datagram_socket *d)
{
    d->receive_wait_ns = waits_ns(d, SO_RCVTIMEO);
    d->send_wait_ns = waits_ns(d, SO_SNDTIMEO);
}

static int datagram_set_option(struct rsock *s, int level, int name, const void *value,
                               socklen_t len)
{
    struct datagram_socket *d = datagram_of(s);
    int number = 0;
    int result = 0;

    memcpy(&number, value, len < sizeof(number) ? len : sizeof(number));
    pthread_mutex_lock(&s->lock);
    if (level == SOL_RDMA)
        result = set_rdma(d, name, number);
    else if (setsockopt(d->udp, level, name, value, len) != 0)
        result = -errno;
    if (result == 0 && level == SOL_SOCKET)
        note_waits(d);
    if (result == 0 && level == SOL_SOCKET && d->qp_count == 0 && number > 0) {
        if (name == SO_RCVBUF)
            d->receive_size = socket_buffer_size((uint64_t)number * 2);
        if (name == SO_SNDBUF)
            d->send_size = socket_buffer_size((uint64_t)number * 2);
    }
    pthread_mutex_unlock(&s->lock);
    return result;
}

static int datagram_get_option(struct rsock *s, int level, int name, void *value, socklen_t *len)
{
    struct datagram_socket *d = datagram_of(s);
    const uint32_t *option = level == SOL_RDMA ? rdma_option(d, name) : NULL;

    if (level == SOL_SOCKET && (name == SO_RCVBUF || name == SO_SNDBUF))
        option = name == SO_RCVBUF ? &d->receive_size : &d->send_size;
    if (option == NULL && level == SOL_RDMA)
        return -ENOPROTOOPT;
    if (option == NULL)
        return getsockopt(d->udp, level, name, value, len) == 0 ? 0 : -errno;
    pthread_mutex_lock(&s->lock);
    *len = *len < sizeof(*option) ? *len : (socklen_t)sizeof(*option);
    memcpy(value, option, *len);
    pthread_mutex_unlock(&s->lock);
    return 0;
}

/* --- waiting --- */

static bool can_send(const struct datagram_socket *d)
{
    for (struct list *l = d->qps.next; l != &d->qps; l = l->next)
        if (!datagram_qp_can_send(LIST_ENTRY(l, struct datagram_qp, link)))
            return false;
    return true;
}

static short datagram_poll(struct rsock *s, short events)
{
    struct datagram_socket *d = datagram_of(s);
    unsigned now = 0;

    pthread_mutex_lock(&s->lock);
    if (look(d))
        now |= POLLIN | POLLRDNORM;
    if (can_send(d))
        now |= POLLOUT | POLLWRNORM;
    pthread_mutex_unlock(&s->lock);
    return (short)(now & (uint16_t)events);
}

/* Slots that are free again are news, too, to who waits for one. */
static bool datagram_arm(struct rsock *s)
{
    struct datagram_socket *d = datagram_of(s);
    const bool could_send = can_send(d);
    const bool had_next = d->has_next;

    for (; s->sleepers == 0 && d->kicks > 0; d->kicks--)
        event_fd_withdraw(d->wake_fd);
    for (struct list *l = d->qps.next; l != &d->qps; l = l->next)
        datagram_qp_arm(LIST_ENTRY(l, struct datagram_qp, link));
    return (look(d) && !had_next) || (can_send(d) && !could_send);
}

static void datagram_kick(struct rsock *s)
{
    struct datagram_socket *d = datagram_of(s);

    if (d->kicks > 0)
        return;
    d->kicks++;
    event_fd_signal(d->wake_fd);
}

/* --- life --- */

static bool all_sent(struct datagram_socket *d)
{
    bool all = true;

    for (struct list *l = d->qps.next; l != &d->qps; l = l->next)
        all = datagram_qp_all_sent(LIST_ENTRY(l, struct datagram_qp, link)) && all;
    return all;
}

/* What was sent leaves; nobody says that it comes. The lock is held. */
static void linger(struct datagram_socket *d, uint64_t deadline)
{
    while (!all_sent(d) && socket_now() < deadline)
        socket_wait(&d->socket, deadline);
}

static void datagram_close(struct rsock *s)
{
    pthread_mutex_lock(&s->lock);
    s->closed = true;
    linger(datagram_of(s), socket_now() + LINGER_NS);
    socket_news(s);
    pthread_mutex_unlock(&s->lock);
}

static void datagram_leave(struct rsock *s, uint64_t deadline)
{
    if (pthread_mutex_trylock(&s->lock) != 0)
        return;
    linger(datagram_of(s), deadline);
    pthread_mutex_unlock(&s->lock);
}

static void datagram_free(struct rsock *s)
{
    struct datagram_socket *d = datagram_of(s);

    if (s->generation == process_generation) {
        while (!list_empty(&d->peers))
            free_peer(d, peer_of(d->peers.next));
        while (!list_empty(&d->qps))
            datagram_qp_free(d, LIST_ENTRY(d->qps.next, struct datagram_qp, link));
    }
    if (d->wake_fd >= 0)
        close(d->wake_fd);
    if (d->udp >= 0)
        close(d->udp);
    socket_fini(s);
    free(d);
}

int datagram_open(int family, struct rsock **out)
{
    const struct socket_defaults *defaults = socket_defaults();
    struct datagram_socket *d = calloc(1, sizeof(*d));
    int result = d == NULL ? -ENOMEM : socket_init(&d->socket, &datagram_ops, family, SOCK_DGRAM);

    if (result != 0) {
        free(d);
        return result;
    }
    list_init(&d->qps);
    list_init(&d->peers);
    d->receive_size = defaults->receive_size;
    d->send_size = defaults->send_size;
    d->send_queue = defaults->send_queue;
    d->receive_queue = defaults->receive_queue;
    d->inline_len = defaults->inline_len;
    d->udp = kernel_socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    d->wake_fd = own_descriptor(event_fd_open());
    if (d->udp < 0 || d->wake_fd < 0)
        result = -errno;
    if (result == 0)
        result = socket_watch(&d->socket, d->udp);
    if (result == 0)
        result = socket_watch(&d->socket, d->wake_fd);
    if (result != 0) {
        datagram_free(&d->socket);
        return result;
    }
    *out = &d->socket;
    return 0;
}

static const struct socket_ops datagram_ops = {
    .bind = datagram_bind,
    .connect = datagram_connect,
    .listen = datagram_listen,
    .accept = datagram_accept,
    .send = datagram_send,
    .receive = datagram_receive,
    .shutdown = datagram_shutdown,
    .name = datagram_name,
    .set_option = datagram_set_option,
    .get_option = datagram_get_option,
    .poll = datagram_poll,
    .arm = datagram_arm,
    .kick = datagram_kick,
    .close = datagram_close,
    .leave = datagram_leave,
    .free = datagram_free,
};
