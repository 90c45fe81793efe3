/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket and its relatives, as rsocket(7) has them: what sockets have, with an r before it. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/keepalive.h"
#include "rdmacm/process.h"
#include "rdmacm/socket.h"
#include "verbs/export.h"

#define LEAVE_NS UINT64_C(500000000)
#define TYPE_FLAGS (SOCK_NONBLOCK | SOCK_CLOEXEC)

/* --- errors --- */

/* The result of a call on a socket that socket_get gave; NULL: it has none, and errno is set. */
static ssize_t leave(struct rsock *s, ssize_t result)
{
    if (s == NULL)
        return -1;
    socket_put(s);
    if (result >= 0)
        return result;
    errno = (int)-result;
    return -1;
}

/* What an ordinary call makes of a result. */
static int as_int(ssize_t result)
{
    return (int)result;
}

/* After fork the parent's are of no use but to be closed. */
static bool is_ours(const struct rsock *s)
{
    if (s->generation == process_generation)
        return true;
    errno = EIO;
    return false;
}

static struct rsock *enter(int fd)
{
    struct rsock *s = socket_get(fd);

    if (s == NULL || is_ours(s))
        return s;
    socket_put(s);
    errno = EIO;
    return NULL;
}

/* --- life --- */

static uint64_t leave_deadline; /* for all sockets together */

static void leave_one(struct rsock *s)
{
    s->ops->leave(s, leave_deadline);
}

/* A program that ends without closing its sockets ends them all the same, as with the kernel's. */
static void at_exit(void)
{
    leave_deadline = socket_now() + LEAVE_NS;
    keepalive_end();
    socket_for_each(leave_one);
}

static void watch_exit(void)
{
    atexit(at_exit);
}

/* Is there such a socket? librspreload.so asks for all that a program opens. */
static int check_kind(int domain, int type, int protocol)
{
    if (domain != AF_INET && domain != AF_INET6)
        return -EAFNOSUPPORT;
    if (type != SOCK_STREAM && type != SOCK_DGRAM)
        return -EPROTOTYPE;
    if (protocol != 0 && protocol != (type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP))
        return -EPROTONOSUPPORT;
    return 0;
}

EXPORT int rsocket(int domain, int type, int protocol)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const int kind = type & ~TYPE_FLAGS;
    struct rsock *s;
    int result = check_kind(domain, kind, protocol);

    if (result == 0)
        result = process_start();
    if (result == 0) {
        /* Behind the node's, so that it is called before. */
        pthread_once(&once, watch_exit);
        result = kind == SOCK_STREAM ? stream_open(domain, &s) : datagram_open(domain, &s);
    }
    if (result == 0) {
        s->file_flags |= (type & SOCK_NONBLOCK) != 0 ? O_NONBLOCK : 0;
        s->fd_flags = (type & SOCK_CLOEXEC) != 0 ? FD_CLOEXEC : 0;
        result = socket_publish(s);
        if (result == 0)
            return s->fd;
        s->ops->free(s);
    }
    errno = -result;
    return -1;
}

EXPORT int rclose(int socket)
{
    struct rsock *s = socket_get(socket);

    if (s == NULL)
        return -1;
    if (!socket_withdraw(s)) {
        socket_put(s);
        errno = EBADF;
        return -1;
    }
    if (is_ours(s))
        s->ops->close(s);
    socket_put(s);
    return 0;
}

EXPORT int rshutdown(int socket, int how)
{
    struct rsock *s = enter(socket);

    return as_int(leave(s, s != NULL ? s->ops->shutdown(s, how) : 0));
}

/* --- names and connections --- */

/* Whether a whole address is there. */
static bool is_address(const struct sockaddr *address, socklen_t len)
{
    if (address == NULL || len < sizeof(sa_family_t))
        return false;
    switch (address->sa_family) {
    case AF_INET:
        return len >= sizeof(struct sockaddr_in);
    case AF_INET6:
        return len >= sizeof(struct sockaddr_in6);
    default:
        return true; /* it is refused by who reads it, and nothing behind the family is read */
    }
}

EXPORT int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
    struct rsock *s = enter(socket);
    ssize_t result = -EINVAL;

    if (s != NULL && is_address(addr, addrlen))
        result = s->ops->bind(s, addr);
    return as_int(leave(s, result));
}

EXPORT int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
    struct rsock *s = enter(socket);
    ssize_t result = -EINVAL;

    if (s != NULL && is_address(addr, addrlen))
        result = s->ops->connect(s, addr);
    return as_int(leave(s, result));
}

EXPORT int rlisten(int socket, int backlog)
{
    struct rsock *s = enter(socket);

    return as_int(leave(s, s != NULL ? s->ops->listen(s, backlog) : 0));
}

/* As much of a name as fits; the length says how long it is. */
static void show_name(const struct sockaddr_storage *name, struct sockaddr *addr,
                      socklen_t *addrlen)
{
    const socklen_t len =
        name->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

    if (addr == NULL || addrlen == NULL)
        return;
    memcpy(addr, name, *addrlen < len ? *addrlen : len);
    *addrlen = len;
}

static int find_name(struct rsock *s, bool peer, struct sockaddr_storage *out)
{
    int result;

    pthread_mutex_lock(&s->lock);
    result = s->ops->name(s, peer, out);
    pthread_mutex_unlock(&s->lock);
    return result;
}

static int name(int socket, bool peer, struct sockaddr *addr, socklen_t *addrlen)
{
    struct rsock *s = enter(socket);
    struct sockaddr_storage found;
    ssize_t result = 0;

    if (s != NULL)
        result = addr == NULL || addrlen == NULL ? -EFAULT : find_name(s, peer, &found);
    if (s != NULL && result == 0)
        show_name(&found, addr, addrlen);
    return as_int(leave(s, result));
}

EXPORT int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
    return name(socket, true, addr, addrlen);
}

EXPORT int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
    return name(socket, false, addr, addrlen);
}

EXPORT int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
    struct rsock *s = enter(socket);
    struct rsock *accepted;
    struct sockaddr_storage peer;
    ssize_t result = 0;

    if (s != NULL)
        result = s->ops->accept(s, &accepted);
    if (s != NULL && result == 0) {
        if (find_name(accepted, true, &peer) == 0)
            show_name(&peer, addr, addrlen);
        result = socket_publish(accepted);
        if (result == 0)
            result = accepted->fd;
        else
            accepted->ops->free(accepted);
    }
    return as_int(leave(s, result));
}

/* --- data --- */

static ssize_t send_pieces(int socket, const struct iovec *iov, size_t count, int flags,
                           const struct sockaddr *to, socklen_t to_len)
{
    struct rsock *s = enter(socket);
    struct sockaddr_storage at;
    struct transfer t = {.iov = iov, .iov_count = count, .flags = flags};
    ssize_t result = -EINVAL;

    if (s != NULL && (to == NULL || is_address(to, to_len)) && count <= IOV_MAX) {
        if (to != NULL) {
            memset(&at, 0, sizeof(at));
            memcpy(&at, to, to_len < sizeof(at) ? to_len : sizeof(at));
            t.at = &at;
        }
        result = s->ops->send(s, &t);
    }
    return leave(s, result);
}

static ssize_t receive_pieces(int socket, const struct iovec *iov, size_t count, int *flags,
                              struct sockaddr *from, socklen_t *from_len)
{
    struct rsock *s = enter(socket);
    struct sockaddr_storage at = {0};
    struct transfer t = {.iov = iov, .iov_count = count, .flags = *flags, .flags_out = flags};
    ssize_t result = -EINVAL;

    *flags = 0;
    t.at = from != NULL && from_len != NULL ? &at : NULL;
    if (s != NULL && count <= IOV_MAX)
        result = s->ops->receive(s, &t);
    if (result >= 0 && t.at != NULL)
        show_name(&at, from, from_len);
    return leave(s, result);
}

EXPORT ssize_t rsendto(int socket, const void *buf, size_t len, int flags,
                       const struct sockaddr *dest_addr, socklen_t addrlen)
{
    const struct iovec piece = {(void *)(uintptr_t)buf, len};

    return send_pieces(socket, &piece, 1, flags, dest_addr, addrlen);
}

EXPORT ssize_t rsend(int socket, const void *buf, size_t len, int flags)
{
    return rsendto(socket, buf, len, flags, NULL, 0);
}

EXPORT ssize_t rsendmsg(int socket, const struct msghdr *msg, int flags)
{
    if (msg->msg_controllen > 0 && msg->msg_control != NULL) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return send_pieces(socket, msg->msg_iov, msg->msg_iovlen, flags, msg->msg_name,
                       msg->msg_namelen);
}

EXPORT ssize_t rwrite(int socket, const void *buf, size_t count)
{
    return rsendto(socket, buf, count, 0, NULL, 0);
}

EXPORT ssize_t rwritev(int socket, const struct iovec *iov, int iovcnt)
{
    return send_pieces(socket, iov, iovcnt < 0 ? SIZE_MAX : (size_t)iovcnt, 0, NULL, 0);
}

EXPORT ssize_t rrecvfrom(int socket, void *buf, size_t len, int flags, struct sockaddr *src_addr,
                         socklen_t *addrlen)
{
    const struct iovec piece = {buf, len};

    return receive_pieces(socket, &piece, 1, &flags, src_addr, addrlen);
}

EXPORT ssize_t rrecv(int socket, void *buf, size_t len, int flags)
{
    return rrecvfrom(socket, buf, len, flags, NULL, NULL);
}

EXPORT ssize_t rrecvmsg(int socket, struct msghdr *msg, int flags)
{
    socklen_t *len = msg->msg_name != NULL ? &msg->msg_namelen : NULL;
    ssize_t result =
        receive_pieces(socket, msg->msg_iov, msg->msg_iovlen, &flags, msg->msg_name, len);

    msg->msg_flags = flags;
    msg->msg_controllen = 0;
    return result;
}

EXPORT ssize_t rread(int socket, void *buf, size_t count)
{
    return rrecvfrom(socket, buf, count, 0, NULL, NULL);
}

EXPORT ssize_t rreadv(int socket, const struct iovec *iov, int iovcnt)
{
    int flags = 0;

    return receive_pieces(socket, iov, iovcnt < 0 ? SIZE_MAX : (size_t)iovcnt, &flags, NULL, NULL);
}

/* --- options --- */

EXPORT int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
    struct rsock *s = enter(socket);
    ssize_t result = -EINVAL;

    if (s != NULL && optval != NULL)
        result = s->ops->set_option(s, level, optname, optval, optlen);
    return as_int(leave(s, result));
}

static int get_common(const struct rsock *s, int name, void *value, socklen_t *len)
{
    const int number = name == SO_TYPE ? s->type : s->family;

    if (name != SO_TYPE && name != SO_DOMAIN)
        return -ENOPROTOOPT;
    *len = *len < sizeof(number) ? *len : (socklen_t)sizeof(number);
    memcpy(value, &number, *len);
    return 0;
}

EXPORT int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
    struct rsock *s = enter(socket);
    ssize_t result = -EINVAL;

    if (s != NULL && optval != NULL && optlen != NULL) {
        result = level == SOL_SOCKET ? get_common(s, optname, optval, optlen) : -ENOPROTOOPT;
        if (result == -ENOPROTOOPT)
            result = s->ops->get_option(s, level, optname, optval, optlen);
    }
    return as_int(leave(s, result));
}

EXPORT int rfcntl(int socket, int cmd, ...)
{
    struct rsock *s = enter(socket);
    ssize_t result = 0;
    va_list arguments;
    int argument = 0;

    if (s == NULL)
        return -1;
    if (cmd == F_SETFL || cmd == F_SETFD) {
        va_start(arguments, cmd);
        argument = va_arg(arguments, int);
        va_end(arguments);
    }
    pthread_mutex_lock(&s->lock);
    switch (cmd) {
    case F_GETFL:
        result = s->file_flags;
        break;
    case F_SETFL:
        s->file_flags = (argument & ~O_ACCMODE) | O_RDWR;
        break;
    case F_GETFD:
        result = s->fd_flags;
        break;
    case F_SETFD:
        s->fd_flags = argument;
        break;
    default:
        result = -EOPNOTSUPP;
    }
    pthread_mutex_unlock(&s->lock);
    return as_int(leave(s, result));
}
