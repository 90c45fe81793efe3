/* SPDX-License-Identifier: BSD-2-Clause */
/* One netlink socket; the messages themselves are not looked at. */
#include "node/watch.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/kernel_socket.h"

/* Messages of one call: a burst of more is one change more. */
#define TAKE_MAX 256u

int watch_open(void)
{
    struct sockaddr_nl address = {
        .nl_family = AF_NETLINK,
        .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR,
    };
    int fd = kernel_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    int error;

    if (fd < 0)
        return -errno;
    if (bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    error = -errno;
    close(fd);
    return error;
}

/* ENOBUFS: there were more messages than the kernel kept. */
bool watch_take(int fd)
{
    bool changed = false;
    uint8_t byte;

    for (uint32_t i = 0; i < TAKE_MAX; i++) {
        if (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) >= 0 || errno == ENOBUFS)
            changed = true;
        else if (errno != EINTR)
            break;
    }
    return changed;
}
