/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing of the UDP link. The directions are udp_send.c and
 * udp_receive.c; how processes share the port is group.c.
 */
#include "link/udp_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "link/refusal.h"

/*
 * The process that has a link open: a second one would be given the same
 * slot, since a process never conflicts with its own locks.
 */
static _Atomic pid_t open_in;

uint64_t udp_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Closes what belongs to this process alone and leaves the rest to the others. */
static void release(struct udp *u)
{
    udp_pool_close(u);
    for (enum source_kind kind = 0; kind < SOURCE_LISTENER; kind++) {
        if (u->source[kind].fd >= 0)
            close(u->source[kind].fd);
    }
    if (u->epoll >= 0)
        close(u->epoll);
    routes_close(&u->routes);
    if (u->buffers)
        munmap(u->buffers, (size_t)RECEIVE_AT_ONCE * RECEIVE_STRIDE);
    group_leave(&u->group);
    free(u);
    atomic_store(&open_in, 0);
}

void udp_link_abandon(struct link *link)
{
    release(udp_of(link));
}

static void udp_close(struct link *link)
{
    struct udp *u = udp_of(link);
    struct shared_slot *mine = &u->group.shared->slots[u->slot];

    atomic_store_explicit(&mine->inbox, 0, memory_order_relaxed);
    atomic_store_explicit(&mine->budget, 0, memory_order_relaxed);
    for (enum source_kind kind = SOURCE_SLOT_IPV4; kind <= SOURCE_SLOT_IPV6; kind++) {
        if (u->source[kind].fd >= 0)
            slot_socket_disown(u->source[kind].fd);
    }
    release(u);
}

static const struct link_ops udp_ops = {
    .send = udp_send,
    .receive = udp_receive,
    .local_room = udp_local_room,
    .close = udp_close,
};

uint32_t udp_link_receive_buffer(const struct link *link)
{
    return ((const struct udp *)(const void *)link)->receive_buffer;
}

static void configure(struct udp *u, const struct udp_config *config)
{
    u->config = *config;
    if (u->config.send_sockets == 0)
        u->config.send_sockets = SEND_SOCKETS_DEFAULT;
    if (u->config.send_sockets > SEND_SOCKETS_MAX)
        u->config.send_sockets = SEND_SOCKETS_MAX;
    u->epoll = -1;
    u->inbox = -1;
    u->routes.socket = -1;
    for (enum source_kind kind = 0; kind < SOURCE_COUNT; kind++)
        u->source[kind].fd = -1;
    u->link = (struct link){.ops = &udp_ops, .write_descriptor = -1};
}

/* Readies the sockets of one slot that this process reads from now on. */
static int adopt(struct udp *u, const struct slot_sockets *s, enum source_kind first)
{
    bool own = first == SOURCE_SLOT_IPV4;
    struct adoption how = {
        .gro = own && !u->config.no_gro,
        .shared = !own,
        .receive_buffer = u->config.receive_buffer,
    };
    int err = 0;

    for (enum family f = 0; f < FAMILY_COUNT; f++)
        u->source[first + (unsigned)f].fd = s->fd[f];
    for (enum family f = 0; f < FAMILY_COUNT && !err; f++) {
        struct source *source = &u->source[first + (unsigned)f];
        uint32_t granted = 0;

        if (source->fd < 0)
            continue;
        err = slot_socket_adopt(source->fd, f, &how, &granted, &source->drops);
        if (own && (!u->receive_buffer || granted < u->receive_buffer))
            u->receive_buffer = granted;
    }
    return err;
}

/*
 * Tells the others where to hand what is ours, and how much fits: half of what
 * the kernel accounts, since it gives memory back late.
 */
static void publish(struct udp *u, uint64_t inbox_name)
{
    struct shared_slot *mine = &u->group.shared->slots[u->slot];

    atomic_store(&mine->consumed, atomic_load(&mine->charged));
    atomic_store(&mine->budget, u->receive_buffer / 2);
    atomic_store(&mine->inbox, inbox_name);
}

static int watch(struct udp *u)
{
    u->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (u->epoll < 0)
        return -errno;
    for (enum source_kind kind = 0; kind < SOURCE_COUNT; kind++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = kind};
        int fd = u->source[kind].fd;

        if (fd >= 0 && epoll_ctl(u->epoll, EPOLL_CTL_ADD, fd, &event))
            return -errno;
    }
    u->link.descriptors[0] = u->epoll;
    u->link.descriptor_count = 1;
    return 0;
}

static int take_up(struct udp *u, char *error)
{
    struct slot_sockets sockets;
    uint64_t name;
    int err = group_lease(&u->group, &u->slot, &sockets, error);

    if (err)
        return err;
    err = adopt(u, &sockets, SOURCE_SLOT_IPV4);
    if (err)
        return refuse(error, err, "sockets of slot %u: %s", u->slot, strerror(-err));
    err = group_take_qp1(&u->group, &sockets);
    if (!err)
        err = adopt(u, &sockets, SOURCE_QP1_IPV4);
    if (err)
        return refuse(error, err, "sockets of QP1: %s", strerror(-err));
    u->inbox = inbox_open(&name);
    u->source[SOURCE_INBOX].fd = u->inbox;
    if (u->inbox < 0)
        return refuse(error, u->inbox, "inbox: %s", strerror(-u->inbox));
    u->source[SOURCE_LISTENER].fd = u->group.listener;
    err = watch(u);
    if (!err)
        err = udp_receive_prepare(u);
    if (err)
        return refuse(error, err, "opening the link: %s", strerror(-err));
    publish(u, name);
    return 0;
}

int udp_link_open(const struct udp_config *config, struct link **out, uint8_t *slot, char *error)
{
    struct udp *u;
    int err;

    if (atomic_exchange(&open_in, getpid()) == getpid())
        return refuse(error, -EBUSY, "this process has the link open already");
    u = calloc(1, sizeof(*u));
    if (!u) {
        atomic_store(&open_in, 0);
        return refuse(error, -ENOMEM, "out of memory");
    }
    configure(u, config);
    routes_open(&u->routes);
    err = group_join(&u->group, !u->config.no_bpf, error);
    if (!err)
        err = take_up(u, error);
    if (err) {
        release(u);
        return err;
    }
    *slot = u->slot;
    *out = &u->link;
    return 0;
}
