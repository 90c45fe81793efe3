/* SPDX-License-Identifier: BSD-2-Clause */
#include "meeting.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ending.h"

#define CONNECT_PAUSE_US 20000u
#define BACKLOG 128

static int bind_any(int family, const char *port)
{
    int on = 1;
    int off = 0;
    union {
        struct sockaddr any;
        struct sockaddr_in ipv4;
        struct sockaddr_in6 ipv6;
    } name = {.any.sa_family = (sa_family_t)family};
    socklen_t len = family == AF_INET6 ? sizeof(name.ipv6) : sizeof(name.ipv4);
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    name.ipv4.sin_port = htons((uint16_t)strtoul(port, NULL, 10)); /* same place in both */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, &name.any, len) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    close(fd);
    return -1;
}

int meeting_listen(const char *port)
{
    int fd = bind_any(AF_INET6, port);

    if (fd < 0)
        fd = bind_any(AF_INET, port);
    if (fd < 0)
        end_badly("cannot listen on TCP port %s", port);
    return fd;
}

int meeting_accept(int listener, uint32_t patience_s)
{
    struct pollfd waiting = {.fd = listener, .events = POLLIN};
    int fd;

    if (poll(&waiting, 1, (int)patience_s * 1000) != 1)
        end_peer_gone();
    fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

    if (fd < 0)
        end_badly("accept failed");
    return fd;
}

static int connect_once(const char *host, const char *port)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found;
    int fd;

    if (getaddrinfo(host, port, &hints, &found) != 0)
        end_badly("%s is no address", host);
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        end_badly("no TCP socket");
    if (connect(fd, found->ai_addr, found->ai_addrlen) != 0) {
        close(fd);
        fd = -1;
    }
    freeaddrinfo(found);
    return fd;
}

int meeting_connect(const char *host, const char *port, uint32_t patience_s)
{
    for (uint32_t i = 0; i < patience_s * (1000000u / CONNECT_PAUSE_US); i++) {
        int fd = connect_once(host, port);

        if (fd >= 0)
            return fd;
        usleep(CONNECT_PAUSE_US);
    }
    end_badly("%s port %s: nobody listens", host, port);
}

static void send_all(int fd, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        ssize_t n = send(fd, bytes, len, MSG_NOSIGNAL);

        if (n <= 0)
            end_peer_gone();
        bytes += n;
        len -= (size_t)n;
    }
}

void meeting_swap(int fd, const void *ours, void *theirs, size_t len)
{
    send_all(fd, ours, len);
    if (recv(fd, theirs, len, MSG_WAITALL) != (ssize_t)len)
        end_peer_gone();
}
