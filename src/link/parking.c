/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A message is one byte, the low byte of its own number, so that byte offsets in the
 * queue (SO_PEEK_OFF) are message numbers. The offset belongs to the socket
 * and so to all processes at once: who finds another's message in hand just tries again.
 */
#include "link/parking.h"

#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/descriptors.h"
#include "link/limits.h"
#include "link/own_descriptor.h"

#define QUEUE_BYTES (1 << 20) /* asked for; 255 messages of under 1 KiB fit the usual default */

int parking_open(struct parking *p)
{
    int pair[2];
    int size = QUEUE_BYTES;

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair))
        return -errno;
    p->in = own_descriptor(pair[0]);
    p->out = own_descriptor(pair[1]);
    setsockopt(p->in, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    return 0;
}

void parking_close(struct parking *p)
{
    if (p->in >= 0)
        close(p->in);
    if (p->out >= 0)
        close(p->out);
    p->in = -1;
    p->out = -1;
}

uint32_t parking_count(const struct parking *p)
{
    int bytes = 0;

    if (ioctl(p->out, SIOCINQ, &bytes) || bytes < 0)
        return 0;
    return (uint32_t)bytes;
}

int parking_put(struct parking *p, uint32_t slot, const struct slot_sockets *s)
{
    uint8_t byte = (uint8_t)slot;
    struct parcel parcel = {.bytes = &byte, .len = 1};

    assert(slot < SLOT_COUNT);
    for (enum family f = 0; f < FAMILY_COUNT; f++) {
        if (s->fd[f] >= 0)
            parcel.fds[parcel.fd_count++] = s->fd[f];
    }
    return parcel_send(p->in, &parcel);
}

/* The order of descriptors is that of families; a socket knows its own. */
static void sort_out(const struct parcel *parcel, struct slot_sockets *s)
{
    s->fd[FAMILY_IPV4] = -1;
    s->fd[FAMILY_IPV6] = -1;
    for (size_t i = 0; i < parcel->fd_count; i++) {
        int domain = 0;
        socklen_t len = sizeof(domain);

        getsockopt(parcel->fds[i], SOL_SOCKET, SO_DOMAIN, &domain, &len);
        s->fd[domain == AF_INET ? FAMILY_IPV4 : FAMILY_IPV6] = parcel->fds[i];
    }
}

int parking_take(const struct parking *p, uint32_t slot, struct slot_sockets *s)
{
    int offset = (int)slot;

    for (uint32_t attempt = 0; attempt < TAKE_ATTEMPTS; attempt++) {
        uint8_t byte;
        struct parcel parcel = {.bytes = &byte, .len = 1};
        int err;

        if (slot >= parking_count(p))
            return -ENOENT;
        if (setsockopt(p->out, SOL_SOCKET, SO_PEEK_OFF, &offset, sizeof(offset)))
            return -errno;
        err = parcel_receive(p->out, MSG_PEEK, &parcel);
        if (err && err != -EAGAIN)
            return err;
        if (!err && byte == slot && parcel.fd_count <= FAMILY_COUNT) {
            sort_out(&parcel, s);
            return 0;
        }
        for (size_t i = 0; !err && i < parcel.fd_count; i++)
            close(parcel.fds[i]);
        sched_yield();
    }
    return -ETIMEDOUT;
}
