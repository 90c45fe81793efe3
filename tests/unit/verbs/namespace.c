/* SPDX-License-Identifier: BSD-2-Clause */
/* A network namespace for a test program; needs nothing of the library. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return good;
}

static bool unshare_as_user(void)
{
    char map[64];
    unsigned uid = getuid();

    snprintf(map, sizeof(map), "0 %u 1", uid);
    return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && write_file("/proc/self/uid_map", map);
}

static bool loopback_up(void)
{
    struct ifreq request = {.ifr_name = "lo"};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool good = fd >= 0 && ioctl(fd, SIOCGIFFLAGS, &request) == 0;

    request.ifr_flags |= IFF_UP;
    good = good && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
    if (fd >= 0)
        close(fd);
    return good;
}

void enter_namespace(void)
{
    bool moved = geteuid() == 0 ? unshare(CLONE_NEWNET) == 0 : unshare_as_user();

    if (moved && loopback_up())
        return;
    fprintf(stderr, "no network namespace of our own: %s\n", strerror(errno));
    exit(EXIT_SKIP);
}
