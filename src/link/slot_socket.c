/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Options of the sockets on port 4791 and the order in which they are made
 * (socket(7), udp(7)).
 */
#include "link/slot_socket.h"

#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/kernel_socket.h"
#include "link/limits.h"
#include "wire/packet.h"

#ifndef IP_MULTICAST_ALL
#define IP_MULTICAST_ALL 49
#endif
#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif

#define BTH_QPN_HIGH_OFFSET 5
#define OPTIONS_MAX 5

int family_domain(enum family f)
{
    return f == FAMILY_IPV4 ? AF_INET : AF_INET6;
}

void slot_sockets_close(struct slot_sockets *s)
{
    for (enum family f = 0; f < FAMILY_COUNT; f++) {
        if (s->fd[f] >= 0)
            close(s->fd[f]);
        s->fd[f] = -1;
    }
}

static int set_number(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

/* group: the address to bind, or NULL: any. */
static int bind_port(int fd, enum family f, const struct multicast *group)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(ROCE_UDP_PORT)};
    int result;

    if (group) {
        memcpy(&in.sin_addr, group->gid.bytes + 12, sizeof(in.sin_addr));
        memcpy(&in6.sin6_addr, group->gid.bytes, sizeof(in6.sin6_addr));
        in6.sin6_scope_id = group->scope_id;
    }
    result = f == FAMILY_IPV4 ? bind(fd, (const struct sockaddr *)&in, sizeof(in))
                              : bind(fd, (const struct sockaddr *)&in6, sizeof(in6));

    return result ? -errno : 0;
}

/* alone: fails when any socket has the port; else joins those of the same user. group: for that
 * only, or NULL. */
static int make(enum family f, bool alone, const struct multicast *group)
{
    int fd = kernel_socket(family_domain(f), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int err = 0;

    if (fd < 0)
        return -errno;
    if (f == FAMILY_IPV6)
        err = set_number(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
    if (!err && !alone)
        err = set_number(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    if (!err)
        err = set_number(fd, SOL_SOCKET, SO_RCVBUF, 1);
    if (!err)
        err = bind_port(fd, f, group);
    if (err) {
        close(fd);
        return err;
    }
    /* Only members that joined a multicast group shall hear it. */
    if (f == FAMILY_IPV4)
        set_number(fd, IPPROTO_IP, IP_MULTICAST_ALL, 0);
    else
        set_number(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, 0);
    return fd;
}

int slot_socket_make(enum family f)
{
    return make(f, false, NULL);
}

/* True if the kernel takes the program. */
static bool attach_program(int fd)
{
    struct sock_filter code[] = {
        {.code = BPF_LD | BPF_B | BPF_ABS, .k = BTH_QPN_HIGH_OFFSET},
        {.code = BPF_RET | BPF_A},
    };
    struct sock_fprog program;

    memset(&program, 0, sizeof(program)); /* with the padding, which the kernel is shown */
    program.len = 2;
    program.filter = code;
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) == 0;
}

/*
 * The first socket binds alone, which is how the kernel tells whether the port
 * is free, and only then allows others beside it. A kernel that looks at
 * SO_REUSEPORT at bind time only refuses the second: then both are made plainly.
 */
int slot_socket_claim(enum family f, bool *by_slot, int fds[2])
{
    int first = make(f, true, NULL);
    int second;
    int err;

    if (first < 0)
        return first;
    err = set_number(first, SOL_SOCKET, SO_REUSEPORT, 1);
    second = err ? err : make(f, false, NULL);
    if (second == -EADDRINUSE) {
        close(first);
        first = make(f, false, NULL);
        if (first < 0)
            return first;
        second = make(f, false, NULL);
    }
    if (second < 0) {
        close(first);
        return second;
    }
    *by_slot = *by_slot && attach_program(second);
    fds[0] = first;
    fds[1] = second;
    return 0;
}

static void drain(int fd)
{
    uint8_t byte;

    for (uint32_t i = 0; i < DRAIN_DATAGRAMS_MAX; i++) {
        if (recv(fd, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) < 0 && errno == EAGAIN)
            return;
    }
}

struct option {
    int level;
    int name;
    bool optional;
};

/* clang-format off */
static const struct option options[FAMILY_COUNT][OPTIONS_MAX] = {
    [FAMILY_IPV4] = {
        {IPPROTO_IP, IP_PKTINFO, false},
        {IPPROTO_IP, IP_RECVTOS, true},
        {IPPROTO_IP, IP_RECVTTL, true},
        {SOL_SOCKET, SO_RXQ_OVFL, true},
    },
    [FAMILY_IPV6] = {
        {IPPROTO_IPV6, IPV6_RECVPKTINFO, false},
        {IPPROTO_IPV6, IPV6_RECVTCLASS, true},
        {IPPROTO_IPV6, IPV6_RECVHOPLIMIT, true},
        {SOL_SOCKET, SO_RXQ_OVFL, true},
        {IPPROTO_UDP, UDP_NO_CHECK6_RX, true}, /* Linux rxe sends UDP checksum 0 over IPv6 */
    },
};
/* clang-format on */

static uint32_t count_drops(int fd)
{
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t len = sizeof(info);

    if (getsockopt(fd, SOL_SOCKET, SO_MEMINFO, info, &len))
        return 0;
    return info[SK_MEMINFO_DROPS];
}

int slot_socket_adopt(int fd, enum family f, const struct adoption *how, uint32_t *granted,
                      uint32_t *drops)
{
    /* The kernel doubles what it is asked for, so half of INT_MAX is the most. */
    const uint32_t most = INT_MAX / 2;
    uint32_t wanted =
        how->receive_buffer && how->receive_buffer < most ? how->receive_buffer : most;
    int size = 0;
    socklen_t len = sizeof(size);

    for (const struct option *o = options[f]; o < options[f] + OPTIONS_MAX; o++) {
        int err = o->name ? set_number(fd, o->level, o->name, 1) : 0;

        if (err && !o->optional)
            return err;
    }
    set_number(fd, SOL_SOCKET, SO_DETACH_FILTER, 0); /* of an owner who saw frames (udp_raw.c) */
    set_number(fd, IPPROTO_UDP, UDP_GRO, how->gro);  /* a kernel that lacks it delivers singly */
    if (!how->keep)
        drain(fd);
    set_number(fd, SOL_SOCKET, SO_RCVBUF, (int)wanted);
    if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, &len))
        return -errno;
    *granted = (uint32_t)size;
    *drops = count_drops(fd);
    return 0;
}

static int join(int fd, enum family f, const struct multicast *group)
{
    struct ip_mreqn in = {.imr_ifindex = (int)group->scope_id};
    struct ipv6_mreq in6 = {.ipv6mr_interface = group->scope_id};
    int result;

    memcpy(&in.imr_multiaddr, group->gid.bytes + 12, sizeof(in.imr_multiaddr));
    memcpy(&in6.ipv6mr_multiaddr, group->gid.bytes, sizeof(in6.ipv6mr_multiaddr));
    result = f == FAMILY_IPV4 ? setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &in, sizeof(in))
                              : setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &in6, sizeof(in6));
    return result ? -errno : 0;
}

/*
 * It is bound to the address of the group, so it is none of the reuseport group of the slots, and
 * gets no datagram but those of the group: not even those that only lack a better socket.
 */
int multicast_socket_make(const struct multicast *group, const struct adoption *how)
{
    enum family f = gid_is_ipv4(&group->gid) ? FAMILY_IPV4 : FAMILY_IPV6;
    int fd = make(f, false, group);
    uint32_t ignored;
    int err;

    if (fd < 0)
        return fd;
    err = slot_socket_adopt(fd, f, how, &ignored, &ignored);
    if (!err)
        err = join(fd, f, group);
    if (err)
        close(fd);
    return err ? err : fd;
}

void slot_socket_disown(int fd)
{
    set_number(fd, SOL_SOCKET, SO_RCVBUF, 1);
    drain(fd);
}

/* Looks for port 4791 in the kernel's list; columns as in Documentation/networking/proc_net_tcp. */
static bool find_holder(const char *path, unsigned *uid, unsigned long *inode)
{
    FILE *file = fopen(path, "re");
    char line[256];
    unsigned port;
    bool found = false;

    if (!file)
        return false;
    while (!found && fgets(line, sizeof(line), file)) {
        found = sscanf(line, " %*u: %*[0-9A-Fa-f]:%x %*s %*s %*s %*s %*s %u %*d %lu", &port, uid,
                       inode) == 3 &&
                port == ROCE_UDP_PORT;
    }
    fclose(file);
    return found;
}

enum port_holder port_holder_find(unsigned *uid)
{
    unsigned long inode;

    if (!find_holder("/proc/thread-self/net/udp", uid, &inode) &&
        !find_holder("/proc/thread-self/net/udp6", uid, &inode))
        return PORT_HOLDER_UNKNOWN;
    return inode ? PORT_HOLDER_USER : PORT_HOLDER_KERNEL;
}
