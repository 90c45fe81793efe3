/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams come to be and go: names, connect, listen, accept, events of the connection manager. */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "link/own_descriptor.h"
#include "rdmacm/address.h"
#include "rdmacm/channel.h"
#include "rdmacm/keepalive.h"
#include "rdmacm/process.h"
#include "rdmacm/stream.h"
#include "verbs/event_fd.h"

#define RESOLVE_MS 2000
#define RETRIES 7u /* of RNR: for ever */
#define BACKLOG_MAX 128
#define KEEPALIVE_S 7200 /* TCP_KEEPIDLE, if it is not said */

static const struct socket_ops stream_ops;

/* --- life --- */

/* A stream without an ID, or NULL with errno. */
static struct stream *new_stream(int family)
{
    const struct socket_defaults *d = socket_defaults();
    struct stream *t = calloc(1, sizeof(*t));
    int result = t == NULL ? -ENOMEM : socket_init(&t->socket, &stream_ops, family, SOCK_STREAM);

    if (result != 0) {
        free(t);
        errno = -result;
        return NULL;
    }
    pthread_mutex_init(&t->sending, NULL);
    pthread_mutex_init(&t->receiving, NULL);
    list_init(&t->accepted);
    list_init(&t->link);
    list_init(&t->kept);
    t->options.keepalive_s = KEEPALIVE_S;
    stream_init_maps(t);
    t->sizes = (struct stream_sizes){
        .receive = d->receive_size,
        .send = d->send_size,
        .send_queue = d->send_queue,
        .receive_queue = d->receive_queue,
        .inline_len = d->inline_len,
        .maps = d->maps,
    };
    return t;
}

static void free_accepted(struct stream *t);

static void stream_free(struct rsock *s)
{
    struct stream *t = stream_of(s);

    if (s->generation == process_generation) {
        keepalive_forget(t);
        if (t->id != NULL && t->id->qp != NULL)
            rdma_disconnect(t->id);
        stream_release(t);
        free_accepted(t);
    }
    if (t->id != NULL)
        rdma_destroy_id(t->id);
    if (t->channel != NULL)
        rdma_destroy_event_channel(t->channel);
    socket_fini(s);
    pthread_mutex_destroy(&t->sending);
    pthread_mutex_destroy(&t->receiving);
    free(t->route);
    free(t);
}

static void free_accepted(struct stream *t)
{
    struct list *link;

    while ((link = list_pop_head(&t->accepted)) != NULL)
        stream_free(&LIST_ENTRY(link, struct stream, link)->socket);
}

/* The stream has a channel of its own, at which nobody waits. 0 or a negative errno. */
static int open_channel(struct stream *t)
{
    int result;

    t->channel = rdma_create_event_channel();
    if (t->channel == NULL)
        return -errno;
    result = socket_hide(&t->channel->fd);
    return result == 0 ? socket_watch(&t->socket, t->channel->fd) : result;
}

int stream_open(int family, struct rsock **out)
{
    struct stream *t = new_stream(family);
    int result;

    if (t == NULL)
        return -errno;
    result = open_channel(t);
    if (result == 0 && rdma_create_id(t->channel, &t->id, t, RDMA_PS_TCP) != 0)
        result = -errno;
    if (result != 0) {
        stream_free(&t->socket);
        return result;
    }
    *out = &t->socket;
    return 0;
}

/* --- names --- */

static int stream_bind(struct rsock *s, const struct sockaddr *address)
{
    struct stream *t = stream_of(s);
    int result;

    pthread_mutex_lock(&s->lock);
    /* rdma_bind_addr only reads it */
    result = t->state != STREAM_IDLE ? -EINVAL : 0;
    if (result == 0 && rdma_bind_addr(t->id, (struct sockaddr *)(uintptr_t)address) != 0)
        result = errno == ENODEV ? -EADDRNOTAVAIL : -errno;
    pthread_mutex_unlock(&s->lock);
    return result;
}

static int stream_name(struct rsock *s, bool peer, struct sockaddr_storage *out)
{
    const struct stream *t = stream_of(s);
    const struct rdma_addr *a = &t->id->route.addr;
    const bool named = t->state != STREAM_IDLE && t->state != STREAM_LISTENING;

    if (peer && !named)
        return -ENOTCONN;
    *out = peer ? a->dst_storage : a->src_storage;
    if (out->ss_family == 0)
        out->ss_family = (sa_family_t)s->family;
    return 0;
}

/* --- connecting --- */

static struct rdma_conn_param connect_param(const uint8_t *hello)
{
    return (struct rdma_conn_param){
        .private_data = hello,
        .private_data_len = STREAM_HELLO_LEN,
        .flow_control = 1,
        .retry_count = RETRIES,
        .rnr_retry_count = RETRIES,
    };
}

/* What this library answers at once. 0 or a negative errno. */
static int expect(struct stream *t, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *event;
    int result = 0;

    if (rdma_get_cm_event(t->channel, &event) != 0)
        return -errno;
    if (event->event != type)
        result = event->status < 0 ? event->status : -EHOSTUNREACH;
    rdma_ack_cm_event(event);
    return result;
}

static int resolve(struct stream *t, const struct sockaddr *address)
{
    struct sockaddr *to = (struct sockaddr *)(uintptr_t)address; /* only read */
    int result;

    if (rdma_resolve_addr(t->id, NULL, to, RESOLVE_MS) != 0)
        return -errno;
    result = expect(t, RDMA_CM_EVENT_ADDR_RESOLVED);
    if (result != 0)
        return result;
    if (rdma_resolve_route(t->id, RESOLVE_MS) != 0)
        return -errno;
    return expect(t, RDMA_CM_EVENT_ROUTE_RESOLVED);
}

static int ask(struct stream *t)
{
    uint8_t bytes[STREAM_HELLO_LEN];
    struct rdma_conn_param param = connect_param(bytes);
    const struct stream_hello hello = stream_say_hello(t);

    stream_hello_write(&hello, bytes);
    if (rdma_connect(t->id, &param) != 0)
        return -errno;
    t->state = STREAM_CONNECTING;
    return 0;
}

static int begin(struct stream *t, const struct sockaddr *address)
{
    int result;

    switch (t->state) {
    case STREAM_IDLE:
        break;
    case STREAM_CONNECTING:
        return -EALREADY;
    case STREAM_ACCEPTING:
    case STREAM_CONNECTED:
    case STREAM_CLOSED:
        return -EISCONN;
    case STREAM_LISTENING:
        return -EINVAL;
    case STREAM_FAILED:
        return -ECONNABORTED;
    }
    result = resolve(t, address);
    if (result == 0)
        result = stream_allocate(t);
    if (result == 0)
        result = ask(t);
    if (result != 0) {
        stream_fail(t, result);
        t->socket.error = 0; /* told now */
    }
    return result;
}

static int finish(struct stream *t)
{
    int result = 0;

    while (t->state == STREAM_CONNECTING && result == 0) {
        if (stream_progress(t) > 0)
            continue;
        if (socket_nonblocking(&t->socket, 0))
            return -EINPROGRESS;
        result = stream_wait(t);
    }
    if (t->state == STREAM_FAILED) {
        result = -t->socket.error;
        t->socket.error = 0;
    }
    return result;
}

static int stream_connect(struct rsock *s, const struct sockaddr *address)
{
    struct stream *t = stream_of(s);
    int result;

    pthread_mutex_lock(&s->lock);
    stream_progress(t);
    result = begin(t, address);
    if (result == 0)
        result = finish(t);
    pthread_mutex_unlock(&s->lock);
    return result;
}

/* --- listening --- */

static int stream_listen(struct rsock *s, int backlog)
{
    struct stream *t = stream_of(s);
    int result = 0;

    if (backlog < 1)
        backlog = 1;
    pthread_mutex_lock(&s->lock);
    if (t->state != STREAM_IDLE && t->state != STREAM_LISTENING)
        result = -EINVAL;
    t->backlog = backlog < BACKLOG_MAX ? (uint32_t)backlog : BACKLOG_MAX;
    if (result == 0 && t->state == STREAM_IDLE) {
        if (rdma_listen(t->id, BACKLOG_MAX) != 0)
            result = -errno;
        else
            t->state = STREAM_LISTENING;
    }
    pthread_mutex_unlock(&s->lock);
    return result;
}

/* Answers a request whose ID the stream has. 0 or a negative errno. */
static int answer(struct stream *t, const struct rdma_conn_param *asked)
{
    uint8_t bytes[STREAM_HELLO_LEN];
    struct rdma_conn_param param = connect_param(bytes);
    struct stream_hello hello;
    int result;

    if (!stream_hello_read(asked->private_data, asked->private_data_len, &hello)) {
        log_warn("rsocket %d: a peer wants a connection and is no rsocket of version %u",
                 t->socket.fd, STREAM_VERSION);
        return -EPROTO;
    }
    result = open_channel(t);
    if (result == 0 && rdma_migrate_id(t->id, t->channel) != 0)
        result = -errno;
    if (result == 0)
        result = stream_allocate(t);
    if (result != 0)
        return result;
    stream_hear_hello(t, &hello);
    hello = stream_say_hello(t);
    stream_hello_write(&hello, bytes);
    param.responder_resources = asked->responder_resources;
    param.initiator_depth = asked->initiator_depth;
    return rdma_accept(t->id, &param) == 0 ? 0 : -errno;
}

/* The family of an address is the peer's: one that listens for IPv6 is asked by IPv4 too. */
static void accept_request(struct stream *listener, const struct rdma_cm_event *event)
{
    struct stream *t = new_stream(listener->socket.family);
    int result = -ENOMEM;

    if (t != NULL) {
        t->socket.fd = own_descriptor(t->socket.fd); /* until it is accepted */
        t->id = event->id;
        t->sizes = listener->sizes;
        t->options = listener->options;
        result = answer(t, &event->param.conn);
    }
    if (result == 0) {
        t->state = STREAM_ACCEPTING;
        list_push_tail(&listener->accepted, &t->link);
        listener->accepted_count++;
        return;
    }
    rdma_reject(event->id, NULL, 0);
    if (t != NULL)
        stream_free(&t->socket);
    else
        rdma_destroy_id(event->id);
}

static struct stream *take_accepted(struct stream *t)
{
    struct list *link = list_pop_head(&t->accepted);

    if (link == NULL)
        return NULL;
    t->accepted_count--;
    return LIST_ENTRY(link, struct stream, link);
}

static int stream_accept(struct rsock *s, struct rsock **out)
{
    struct stream *t = stream_of(s);
    struct stream *accepted = NULL;
    int result = 0;

    pthread_mutex_lock(&s->lock);
    while (result == 0 && (accepted = take_accepted(t)) == NULL) {
        if (t->state != STREAM_LISTENING || t->read_shut || s->closed)
            result = -EINVAL;
        else if (stream_progress(t) > 0)
            continue;
        else
            result = socket_nonblocking(s, 0) ? -EAGAIN : socket_wait(s, SOCKET_NEVER);
    }
    pthread_mutex_unlock(&s->lock);
    if (accepted == NULL)
        return result;
    result = socket_renumber(&accepted->socket);
    if (result != 0) {
        stream_free(&accepted->socket);
        return result;
    }
    keepalive_update(accepted);
    *out = &accepted->socket;
    return 0;
}

/* --- events --- */

static void established(struct stream *t, const struct rdma_conn_param *p)
{
    struct stream_hello hello;

    if (t->state == STREAM_ACCEPTING)
        t->state = STREAM_CONNECTED;
    if (t->state != STREAM_CONNECTING)
        return;
    if (!stream_hello_read(p->private_data, p->private_data_len, &hello)) {
        log_warn("rsocket %d: who accepted is no rsocket of version %u", t->socket.fd,
                 STREAM_VERSION);
        stream_fail(t, -EPROTO);
        return;
    }
    stream_hear_hello(t, &hello);
    t->state = STREAM_CONNECTED;
}

static bool connects(const struct stream *t)
{
    return t->state == STREAM_CONNECTING || t->state == STREAM_ACCEPTING;
}

static void take_event(struct stream *t, const struct rdma_cm_event *event)
{
    switch ((int)event->event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        accept_request(t, event);
        break;
    case RDMA_CM_EVENT_ESTABLISHED:
        established(t, &event->param.conn);
        break;
    case RDMA_CM_EVENT_REJECTED:
        if (connects(t))
            stream_fail(t, t->state == STREAM_CONNECTING ? -ECONNREFUSED : -ECONNRESET);
        break;
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
        if (connects(t))
            stream_fail(t, event->status < 0 ? event->status : -ETIMEDOUT);
        break;
    case RDMA_CM_EVENT_DISCONNECTED:
        t->peer_gone = true;
        if (connects(t))
            stream_fail(t, -ECONNRESET);
        break;
    default:
        break;
    }
}

/* Of those who ask, as many are answered as the application said that it can keep waiting. */
static bool has_event(const struct stream *t)
{
    return (t->state != STREAM_LISTENING || t->accepted_count < t->backlog) &&
           channel_has_event(t->channel);
}

unsigned stream_take_events(struct stream *t)
{
    struct rdma_cm_event *event;
    unsigned found = 0;

    while (has_event(t) && rdma_get_cm_event(t->channel, &event) == 0) {
        take_event(t, event);
        rdma_ack_cm_event(event);
        found++;
    }
    return found;
}

/* --- being told --- */

static void stream_kick(struct rsock *s)
{
    struct stream *t = stream_of(s);

    if (t->kicks > 0)
        return;
    t->kicks++;
    event_fd_signal(t->channel->fd);
}

/* A completion queue that is armed tells once. */
static void arm_completions(struct stream *t)
{
    struct ibv_cq *cq;
    void *context;

    if (t->armed && ibv_get_cq_event(t->id->recv_cq_channel, &cq, &context) == 0) {
        ibv_ack_cq_events(cq, 1);
        t->armed = false;
    }
    if (!t->armed)
        t->armed = ibv_req_notify_cq(t->id->recv_cq, 0) == 0;
}

static bool stream_arm(struct rsock *s)
{
    struct stream *t = stream_of(s);

    /* A sleeper that has not seen it yet would sleep on. */
    for (; s->sleepers == 0 && t->kicks > 0; t->kicks--)
        event_fd_withdraw(t->channel->fd);
    if (t->id->qp != NULL)
        arm_completions(t);
    stream_probe(t);
    return stream_progress(t) > 0;
}

static const struct socket_ops stream_ops = {
    .bind = stream_bind,
    .connect = stream_connect,
    .listen = stream_listen,
    .accept = stream_accept,
    .send = stream_send,
    .receive = stream_receive,
    .shutdown = stream_shutdown,
    .name = stream_name,
    .set_option = stream_set_option,
    .get_option = stream_get_option,
    .poll = stream_poll,
    .arm = stream_arm,
    .kick = stream_kick,
    .close = stream_close,
    .leave = stream_leave,
    .free = stream_free,
};
