/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The sockets to send from, each with a source port of its own; opened when
 * first used. A QP always uses the same one, so that its packets take one way through
 * a network that spreads flows by ports.
 */
#include "link/udp_private.h"

#include <errno.h>
#include <linux/filter.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "link/kernel_socket.h"
#include "wire/ip.h"
#include "wire/packet.h"

#define MULTICAST_IPV4_FIRST 224u
#define MULTICAST_IPV6 0xffu

static void set_option(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof(value));
}

/* Nobody has a reason to send to these ports: what comes is dropped unseen. */
static void refuse_datagrams(int fd)
{
    struct sock_filter code[] = {{.code = BPF_RET | BPF_K, .k = 0}};
    struct sock_fprog program = {.len = 1, .filter = code};

    setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

/* Binds some free port of the range; others, our own included, have some of them. Returns it or a
 * negative errno. */
static int bind_some_port(int fd, enum family f)
{
    uint32_t offset = 0;

    if (getrandom(&offset, sizeof(offset), 0) < 0)
        return -errno;
    for (uint32_t i = 0; i < SEND_PORT_ATTEMPTS; i++) {
        uint16_t port = (uint16_t)(SEND_PORT_FIRST + (offset + i * 37) % SEND_PORT_COUNT);
        struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
        struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

        if (f == FAMILY_IPV4 ? bind(fd, (const struct sockaddr *)&in, sizeof(in)) == 0
                             : bind(fd, (const struct sockaddr *)&in6, sizeof(in6)) == 0)
            return port;
        if (errno != EADDRINUSE)
            return -errno;
    }
    return -EADDRINUSE;
}

static int open_send_socket(struct send_socket *s, enum family f)
{
    int fd = kernel_socket(family_domain(f), SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int port;

    if (fd < 0)
        return -errno;
    if (f == FAMILY_IPV4) {
        set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
        set_option(fd, IPPROTO_IP, IP_RECVERR, 1);
    } else {
        set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
        set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
        set_option(fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
    }
    set_option(fd, SOL_SOCKET, SO_SNDBUF, SEND_BUFFER);
    refuse_datagrams(fd);
    port = bind_some_port(fd, f);
    if (port < 0) {
        close(fd);
        return port;
    }
    *s = (struct send_socket){.fd = fd, .port = (uint16_t)port};
    return 0;
}

/*
 * The same socket for all of a QP, and different ones for neighbouring slots
 * of one address, lest the receiver's kernel merge datagrams of two processes.
 */
int udp_pool_get(struct udp *u, enum family f, const struct datagram_batch *b,
                 struct send_socket **out)
{
    uint32_t classes =
        u->config.send_sockets < SEND_SLOT_CLASSES ? u->config.send_sockets : SEND_SLOT_CLASSES;
    uint32_t paths = u->config.send_sockets / classes;
    uint32_t mixed = (b->src_port * 0x9e3779b1u) >> 16;
    struct send_socket *s = &u->pool[f][b->dest_slot % classes + classes * (mixed % paths)];

    *out = s;
    return s->port ? 0 : open_send_socket(s, f);
}

static const struct sockaddr_storage nowhere = {.ss_family = AF_UNSPEC};

/* Connects to where the path goes; false unless the kernel would send from the path's source. */
static bool connect_ipv4(int fd, const struct path *path)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT)};
    socklen_t len = sizeof(name);

    if (path->scope_id != 0 || path->dst.bytes[12] >= MULTICAST_IPV4_FIRST)
        return false;
    memcpy(&name.sin_addr, path->dst.bytes + 12, 4);
    return connect(fd, (const struct sockaddr *)&name, sizeof(name)) == 0 &&
           getsockname(fd, (struct sockaddr *)&name, &len) == 0 &&
           memcmp(&name.sin_addr, path->src.bytes + 12, 4) == 0;
}

static bool connect_ipv6(int fd, const struct path *path)
{
    struct sockaddr_in6 name = {
        .sin6_family = AF_INET6,
        .sin6_port = htons(ROCE_UDP_PORT),
        .sin6_scope_id = path->scope_id,
    };
    socklen_t len = sizeof(name);

    if (path->dst.bytes[0] == MULTICAST_IPV6)
        return false;
    memcpy(&name.sin6_addr, path->dst.bytes, 16);
    return connect(fd, (const struct sockaddr *)&name, sizeof(name)) == 0 &&
           getsockname(fd, (struct sockaddr *)&name, &len) == 0 &&
           memcmp(&name.sin6_addr, path->src.bytes, 16) == 0;
}

static bool settle(int fd, enum family f, const struct path *path)
{
    const int hop_limit = path->hop_limit ? path->hop_limit : (int)HOP_LIMIT_DEFAULT;

    /* Else the source stays that of the way before. */
    (void)connect(fd, (const struct sockaddr *)&nowhere, sizeof(nowhere));
    if (f == FAMILY_IPV4) {
        set_option(fd, IPPROTO_IP, IP_TOS, path->traffic_class);
        set_option(fd, IPPROTO_IP, IP_TTL, hop_limit);
    } else {
        set_option(fd, IPPROTO_IPV6, IPV6_TCLASS, path->traffic_class);
        set_option(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, hop_limit);
    }
    if (f == FAMILY_IPV4 ? connect_ipv4(fd, path) : connect_ipv6(fd, path))
        return true;
    (void)connect(fd, (const struct sockaddr *)&nowhere, sizeof(nowhere));
    return false;
}

static bool may_be_connected(struct udp *u, enum family f, const struct path *path)
{
    return f == FAMILY_IPV6 || routes_is_local(&u->routes, &path->dst, udp_now_ns());
}

bool send_socket_leads(struct udp *u, struct send_socket *s, enum family f, const struct path *path)
{
    if (!may_be_connected(u, f, path)) {
        if (s->settled)
            (void)connect(s->fd, (const struct sockaddr *)&nowhere, sizeof(nowhere));
        s->settled = false;
        s->path = (struct path){.scope_id = 0};
        return false;
    }
    if (!path_equal(&s->path, path)) {
        if (++s->astray < SEND_ASTRAY_MAX)
            return false;
        s->path = *path;
        s->settled = settle(s->fd, f, path);
    }
    s->astray = 0;
    return s->settled;
}

void udp_pool_close(struct udp *u)
{
    for (enum family f = 0; f < FAMILY_COUNT; f++) {
        for (uint32_t i = 0; i < SEND_SOCKETS_MAX; i++) {
            if (u->pool[f][i].port)
                close(u->pool[f][i].fd);
            u->pool[f][i].port = 0;
        }
    }
}
