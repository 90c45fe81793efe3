/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SCM_RIGHTS, sent and received (unix(7)).
 */
#include "link/descriptors.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/own_descriptor.h"

union control {
    char bytes[CMSG_SPACE(DESCRIPTORS_MAX * sizeof(int))];
    struct cmsghdr align;
};

int parcel_send(int socket, const struct parcel *p)
{
    union control control = {.bytes = {0}};
    struct iovec iov = {.iov_base = p->bytes, .iov_len = p->len};
    size_t fds_len = p->fd_count * sizeof(int);
    struct msghdr message = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
    };

    assert(p->fd_count <= DESCRIPTORS_MAX);
    if (p->fd_count) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(fds_len);
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);

        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(fds_len);
        memcpy(CMSG_DATA(rights), p->fds, fds_len);
    }
    return sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static size_t read_rights(struct msghdr *message, int fds[DESCRIPTORS_MAX])
{
    size_t count = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(c), count * sizeof(int));
    }
    return count;
}

int parcel_receive(int socket, int flags, struct parcel *p)
{
    union control control;
    struct iovec iov = {.iov_base = p->bytes, .iov_len = p->len};
    struct msghdr message = {
        .msg_iov = &iov,
        .msg_iovlen = 1,
        .msg_control = control.bytes,
        .msg_controllen = sizeof(control.bytes),
    };
    int fds[DESCRIPTORS_MAX];
    size_t count;
    ssize_t len = recvmsg(socket, &message, flags | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (len < 0)
        return -errno;
    count = read_rights(&message, fds);
    if (len == 0 || message.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) {
        for (size_t i = 0; i < count; i++)
            close(fds[i]);
        if (len == 0)
            return -EPIPE;
        return message.msg_flags & MSG_CTRUNC ? -EMFILE : -EMSGSIZE;
    }
    for (size_t i = 0; i < count; i++)
        p->fds[i] = own_descriptor(fds[i]);
    p->fd_count = count;
    p->len = (size_t)len;
    return 0;
}
