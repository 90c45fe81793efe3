/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A socket of the kernel's. Libraries that programs are run with (librspreload.so) put a socket
 * function of their own in the place of libc's, which makes sockets over RDMA: ours would be
 * upon themselves. No library of ours calls socket(2) otherwise (tools/check-symbols).
 */
#ifndef UROCE_LINK_KERNEL_SOCKET_H
#define UROCE_LINK_KERNEL_SOCKET_H

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "link/own_descriptor.h"

/* As socket(2), but for the number (own_descriptor.h). */
static inline int kernel_socket(int domain, int type, int protocol)
{
    return own_descriptor((int)syscall(SYS_socket, domain, type, protocol));
}

#endif
