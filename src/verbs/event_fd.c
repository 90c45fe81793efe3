/* SPDX-License-Identifier: BSD-2-Clause */
/* Tokens in eventfds. */
#include "verbs/event_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

int event_fd_open(void)
{
    return eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
}

void event_fd_signal(int fd)
{
    const uint64_t one = 1;

    /* Fails only when the application closed the descriptor: then nobody waits. */
    if (write(fd, &one, sizeof(one)) < 0)
        return;
}

int event_fd_wait(int fd)
{
    uint64_t token;
    ssize_t got = read(fd, &token, sizeof(token));

    return got == (ssize_t)sizeof(token) ? 0 : -1;
}

bool event_fd_blocks(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    return flags >= 0 && (flags & O_NONBLOCK) == 0;
}

bool event_fd_try(int fd)
{
    uint64_t token;
    struct iovec v = {.iov_base = &token, .iov_len = sizeof(token)};

    return preadv2(fd, &v, 1, -1, RWF_NOWAIT) == (ssize_t)sizeof(token);
}

void event_fd_withdraw(int fd)
{
    /* A kernel that cannot leaves the token: a wait then finds no event and goes on waiting. */
    event_fd_try(fd);
}
