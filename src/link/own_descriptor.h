/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Numbers for the descriptors that uroce keeps to itself. Programs take the low ones for theirs:
 * they close one and open another in its place, have an array of the first few, or hand
 * them to select(2). So what a program is not given moves out of the way as soon as it is made,
 * before anything is registered under its number. Above the reach of select(2), where the limit of
 * open files allows that, and not further up, for the kernel's table grows with the highest number.
 */
#ifndef UROCE_LINK_OWN_DESCRIPTOR_H
#define UROCE_LINK_OWN_DESCRIPTOR_H

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <unistd.h>

/* The lowest number that is ours rather than the program's: half of what may be open, or
 * FD_SETSIZE. */
static inline int own_descriptor_first(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur / 2 > FD_SETSIZE)
        return FD_SETSIZE;
    return (int)(limit.rlim_cur / 2);
}

/* A copy of fd for uroce, or -1 with errno. It closes with exec. */
static inline int own_descriptor_copy(int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, own_descriptor_first());

    return copy >= 0 ? copy : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

/*
 * Moves a descriptor that was just made (taken), and returns its new number. Where there is no room
 * it stays where it is; a negative number is passed through, with errno.
 */
static inline int own_descriptor(int fd)
{
    int moved = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, own_descriptor_first());

    if (moved < 0)
        return fd;
    close(fd);
    return moved;
}

#endif
