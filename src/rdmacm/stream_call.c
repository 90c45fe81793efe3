/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams as applications call them: send, receive, poll, shut down, close. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "rdmacm/stream.h"

/* A write at most this long, so that the peer can take the first while the next is copied. */
#define CHUNK_MAX 65536u
/* How long close waits for the peer to take what was sent. */
#define NS_PER_S UINT64_C(1000000000)
#define LINGER_NS (10 * NS_PER_S)

/* --- send --- */

static uint32_t least(size_t a, size_t b)
{
    return (uint32_t)(a < b ? a : b);
}

/* Posts as much as goes at once; stream_can_send. 0 or a negative errno. */
static int send_some(struct stream *t, struct iovec_cursor *from)
{
    struct stream_range *target = &t->targets[t->target_now];
    const uint32_t room = least(least(t->send_free, CHUNK_MAX), target->len);
    const uint32_t len = least(iovec_left(from), room);
    const struct stream_post p = {
        .from = from,
        .len = len,
        .to = *target,
        .with_immediate = true,
        .immediate = stream_immediate(STREAM_DATA, len),
    };

    t->sent++;
    target->address += len;
    target->len -= len;
    if (target->len == 0)
        t->target_now = (t->target_now + 1) % STREAM_WINDOW_RANGES;
    return stream_post(t, &p);
}

static int send_all(struct stream *t, struct iovec_cursor *from, int flags)
{
    int result;

    if (t->read_shut)
        stream_progress(t);
    result = stream_send_error(t);
    while (result == 0 && iovec_left(from) > 0) {
        result = stream_wait_to_send(t, flags);
        if (result == 0)
            result = stream_tell_maps(t, flags);
        if (result == 0 && stream_can_send(t))
            result = send_some(t, from);
    }
    return result;
}

/* What is pending is told once: this time. */
static int told(struct stream *t, int result)
{
    if (t->state == STREAM_FAILED && -result == t->socket.error)
        t->socket.error = 0;
    return result;
}

ssize_t stream_send(struct rsock *s, struct transfer *x)
{
    struct stream *t = stream_of(s);
    struct iovec_cursor from = iovec_begin(x);
    const size_t len = iovec_left(&from);
    ssize_t sent;
    int result;

    if ((x->flags & MSG_OOB) != 0)
        return -EOPNOTSUPP;
    result = socket_take_turn(s, &t->sending, x->flags);
    if (result != 0)
        return result;
    pthread_mutex_lock(&s->lock);
    result = send_all(t, &from, x->flags);
    sent = (ssize_t)(len - iovec_left(&from));
    if (sent == 0 && result != 0)
        sent = told(t, result);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_unlock(&t->sending);
    return sent;
}

/* --- receive --- */

/* What there is to say when there is nothing to read: 0 for the end, or a negative errno. */
static int nothing_more(struct stream *t)
{
    switch (t->state) {
    case STREAM_IDLE:
    case STREAM_LISTENING:
        return -ENOTCONN;
    case STREAM_CONNECTING:
    case STREAM_ACCEPTING:
    case STREAM_CONNECTED:
    case STREAM_CLOSED:
        return 0;
    case STREAM_FAILED:
        return told(t, -t->socket.error);
    }
    return 0;
}

/* Is there something to read, or nothing to wait for? */
static bool has_read(const struct stream *t)
{
    return t->readable > 0 || t->read_ended || t->read_shut ||
           (t->state != STREAM_CONNECTING && t->state != STREAM_ACCEPTING &&
            t->state != STREAM_CONNECTED);
}

/* 0 or a negative errno. */
static int wait_to_read(struct stream *t, int flags)
{
    int result = 0;

    while (!has_read(t) && result == 0) {
        if (stream_progress(t) > 0)
            continue;
        if (socket_nonblocking(&t->socket, flags))
            return -EAGAIN;
        result = stream_wait(t);
    }
    return result;
}

/* The next bytes; len of them are there. The lock is given up while they are copied: until they
 * are taken the peer has no leave to write there. */
static void copy_out(struct stream *t, struct iovec_cursor *to, uint32_t len)
{
    const uint32_t to_end = t->sizes.receive - t->read_at;
    const uint32_t first = len < to_end ? len : to_end;
    const uint8_t *bytes = t->receive_buffer + t->read_at;

    pthread_mutex_unlock(&t->socket.lock);
    iovec_scatter(to, bytes, first);
    iovec_scatter(to, t->receive_buffer, len - first);
    pthread_mutex_lock(&t->socket.lock);
}

static void take_out(struct stream *t, uint32_t len)
{
    /* Another thread may have shut it meanwhile, and dropped what was there. */
    if (t->read_shut)
        return;
    t->read_at = (t->read_at + len) % t->sizes.receive;
    t->readable -= len;
    stream_grant(t);
}

static int receive_all(struct stream *t, struct iovec_cursor *to, int flags)
{
    const bool peeks = (flags & MSG_PEEK) != 0;
    int result;
    uint32_t len;

    do {
        result = wait_to_read(t, flags);
        len = least(t->readable, iovec_left(to));
        if (result != 0 || len == 0)
            break;
        copy_out(t, to, len);
        if (!peeks)
            take_out(t, len);
    } while (iovec_left(to) > 0 && (t->readable > 0 || (flags & MSG_WAITALL) != 0) && !peeks);
    return result;
}

ssize_t stream_receive(struct rsock *s, struct transfer *x)
{
    struct stream *t = stream_of(s);
    struct iovec_cursor to = iovec_begin(x);
    const size_t len = iovec_left(&to);
    ssize_t received;
    int result;

    if ((x->flags & MSG_OOB) != 0)
        return -EINVAL;
    result = socket_take_turn(s, &t->receiving, x->flags);
    if (result != 0)
        return result;
    pthread_mutex_lock(&s->lock);
    if (len > 0)
        result = receive_all(t, &to, x->flags);
    received = (ssize_t)(len - iovec_left(&to));
    if (received == 0 && len > 0)
        received = result != 0 ? result : nothing_more(t);
    if (x->at != NULL && received >= 0)
        s->ops->name(s, true, x->at);
    pthread_mutex_unlock(&s->lock);
    pthread_mutex_unlock(&t->receiving);
    return received;
}

/* --- poll --- */

static unsigned events_now(const struct stream *t)
{
    unsigned now = 0;

    if (has_read(t))
        now |= POLLIN | POLLRDNORM;
    if (t->read_ended || t->read_shut)
        now |= POLLRDHUP;
    switch (t->state) {
    case STREAM_IDLE:
        return POLLOUT | POLLWRNORM | POLLHUP;
    case STREAM_LISTENING:
        return t->accepted_count > 0 || t->read_shut ? POLLIN | POLLRDNORM : 0;
    case STREAM_CONNECTING:
    case STREAM_ACCEPTING:
        break;
    case STREAM_CONNECTED:
        if (stream_can_send(t) || t->write_shut)
            now |= POLLOUT | POLLWRNORM;
        break;
    case STREAM_CLOSED:
        /* Programs take a hang-up for the end of all, so it is told behind the last byte. */
        now |= POLLOUT | POLLWRNORM;
        now |= t->readable == 0 ? POLLHUP : 0u;
        break;
    case STREAM_FAILED:
        now |= POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM | POLLRDHUP | POLLHUP;
        now |= t->socket.error != 0 ? POLLERR : 0u;
        break;
    }
    return now;
}

short stream_poll(struct rsock *s, short events)
{
    const unsigned wanted = (uint16_t)events | POLLERR | POLLHUP;
    struct stream *t = stream_of(s);
    unsigned now;

    pthread_mutex_lock(&s->lock);
    now = events_now(t) & wanted;
    if (now == 0 || t->read_shut) { /* what comes is to be thrown away */
        stream_progress(t);
        now = events_now(t) & wanted;
    }
    pthread_mutex_unlock(&s->lock);
    return (short)now;
}

/* --- the end --- */

/* Waits for a slot; false: there is none, or nobody to tell. */
static bool wait_for_control(struct stream *t, uint64_t deadline)
{
    while (
        (t->state == STREAM_ACCEPTING || (t->state == STREAM_CONNECTED && t->control_slots == 0)) &&
        socket_now() < deadline)
        if (stream_progress(t) == 0)
            socket_wait(&t->socket, deadline);
    return t->state == STREAM_CONNECTED && t->control_slots > 0;
}

static void say(struct stream *t, enum stream_control control, uint64_t deadline)
{
    if (!wait_for_control(t, deadline))
        return;
    stream_post_control(t, control);
    if (control == STREAM_DISCONNECT && t->state == STREAM_CONNECTED)
        t->state = STREAM_CLOSED;
}

static int shut(struct stream *t, int how, uint64_t deadline)
{
    const bool write = how != SHUT_RD && !t->write_shut;

    if (t->state != STREAM_CONNECTED && t->state != STREAM_ACCEPTING &&
        t->state != STREAM_LISTENING)
        return -ENOTCONN;
    t->read_shut = t->read_shut || how != SHUT_WR;
    t->write_shut = t->write_shut || how != SHUT_RD;
    if (t->write_shut && (t->read_shut || t->read_ended))
        say(t, STREAM_DISCONNECT, deadline);
    else if (write)
        say(t, STREAM_SHUTDOWN, deadline);
    socket_news(&t->socket);
    return 0;
}

int stream_shutdown(struct rsock *s, int how)
{
    struct stream *t = stream_of(s);
    int result;

    if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
        return -EINVAL;
    pthread_mutex_lock(&s->lock);
    stream_progress(t);
    result = shut(t, how, socket_now() + LINGER_NS);
    pthread_mutex_unlock(&s->lock);
    return result;
}

/* What was sent is taken by the peer, or it cannot be any more. */
static void linger(struct stream *t, uint64_t deadline)
{
    while (t->id->qp != NULL && t->state != STREAM_FAILED && !t->peer_gone &&
           !stream_all_answered(t) && socket_now() < deadline)
        if (stream_progress(t) == 0)
            socket_wait(&t->socket, deadline);
}

/* Good-bye, and all that was sent before. The lock is held. */
static void end(struct stream *t, uint64_t deadline)
{
    stream_progress(t);
    if (t->state == STREAM_CONNECTED || t->state == STREAM_ACCEPTING)
        shut(t, SHUT_RDWR, deadline);
    linger(t, deadline);
}

void stream_close(struct rsock *s)
{
    struct stream *t = stream_of(s);
    const struct linger *asked = &t->options.linger;
    const uint64_t most = asked->l_onoff != 0 ? (uint64_t)asked->l_linger * NS_PER_S : LINGER_NS;

    pthread_mutex_lock(&s->lock);
    s->closed = true;
    end(t, socket_now() + most);
    socket_news(s);
    pthread_mutex_unlock(&s->lock);
}

void stream_leave(struct rsock *s, uint64_t deadline)
{
    /* It may be within a call of this very thread, which a signal's handler ends. */
    if (pthread_mutex_trylock(&s->lock) != 0)
        return;
    end(stream_of(s), deadline);
    pthread_mutex_unlock(&s->lock);
}
