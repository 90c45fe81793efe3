/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Opening and closing of the UDP link. The directions are udp_send.c and
 * udp_receive.c; how processes share the port is group.c.
 */
#include "link/udp_private.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "link/group_private.h"
#include "link/own_descriptor.h"
#include "link/refusal.h"
#include "link/services.h"

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

/* Other processes may have the same socket, and it would go on to wake us. */
void udp_unwatch(struct udp *u, int fd)
{
    if (u->epoll >= 0)
        epoll_ctl(u->epoll, EPOLL_CTL_DEL, fd, NULL);
}

void udp_close_sources(struct udp *u, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        if (u->source[i].fd < 0)
            continue;
        udp_unwatch(u, u->source[i].fd);
        close(u->source[i].fd);
        u->source[i].fd = -1;
    }
}

/*
 * Closes what belongs to this process alone and leaves the rest to the others. What epoll watches
 * is a parent's too.
 */
static void release(struct udp *u)
{
    if (u->epoll >= 0)
        close(u->epoll);
    u->epoll = -1;
    udp_pool_close(u);
    udp_raw_close(u);
    udp_host_close(u);
    udp_close_sources(u, 0, SOURCE_LISTENER);
    udp_close_sources(u, SOURCE_MULTICASTS, SOURCE_VISITORS);
    routes_close(&u->routes);
    if (u->buffers)
        munmap(u->buffers, (size_t)RECEIVE_AT_ONCE * RECEIVE_STRIDE);
    udp_parcels_release(u);
    group_leave(&u->group);
    free(u);
    atomic_store(&open_in, 0);
}

/* Locks, leases and sockets stay the parent's. */
static void udp_abandon(struct link *link)
{
    release(udp_of(link));
}

static void udp_close(struct link *link)
{
    struct udp *u = udp_of(link);
    struct shared_slot *mine = &u->group.shared->slots[u->slot];

    link_finish(link);
    atomic_store_explicit(&mine->inbox, 0, memory_order_relaxed);
    atomic_store_explicit(&mine->budget, 0, memory_order_relaxed);
    for (enum source_kind kind = SOURCE_SLOT_IPV4; kind <= SOURCE_SLOT_IPV6; kind++) {
        if (u->source[kind].fd >= 0)
            slot_socket_disown(u->source[kind].fd);
    }
    release(u);
}

static int udp_listen(struct link *link, uint64_t service_id, const struct gid *local)
{
    struct udp *u = udp_of(link);

    int err = services_add(&u->group, u->slot, service_id, local);

    if (err || !udp_is_guest(u))
        return err;
    /* In a guest's own memory they are for itself and for its next host. */
    err = udp_guest_service(u, service_id, local, true);
    if (err)
        services_remove(&u->group, u->slot, service_id, local);
    return err;
}

static void udp_unlisten(struct link *link, uint64_t service_id, const struct gid *local)
{
    struct udp *u = udp_of(link);

    services_remove(&u->group, u->slot, service_id, local);
    if (udp_is_guest(u))
        udp_guest_service(u, service_id, local, false);
}

static uint8_t udp_listener(struct link *link, uint64_t service_id, const struct gid *local)
{
    return services_find(&udp_of(link)->group, service_id, local);
}

static int udp_join_multicast(struct link *link, const struct multicast *group)
{
    return udp_multicast_join(udp_of(link), group, HOLDER_OWN);
}

static void udp_leave_multicast(struct link *link, const struct multicast *group)
{
    udp_multicast_leave(udp_of(link), group, HOLDER_OWN);
}

static const struct link_ops udp_ops = {
    .send = udp_send,
    .receive = udp_receive,
    .local_room = udp_local_room,
    .listen = udp_listen,
    .unlisten = udp_unlisten,
    .listener = udp_listener,
    .pass = udp_pass,
    .join = udp_join_multicast,
    .leave = udp_leave_multicast,
    .local_buffer = udp_local_buffer,
    .delivers_whole = udp_delivers_whole,
    .deadline = udp_parcels_deadline,
    .finish = udp_finish,
    .abandon = udp_abandon,
    .close = udp_close,
};

bool udp_link_host(const struct link *link, unsigned *uid)
{
    const struct udp *u = (const struct udp *)(const void *)link;

    *uid = u->guest.uid;
    return udp_is_guest(u);
}

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
    for (uint32_t i = 0; i < SOURCE_VISITORS; i++)
        u->source[i].fd = -1;
    for (enum family f = 0; f < FAMILY_COUNT; f++)
        u->raw_sender[f].fd = -1;
    udp_host_init(u);
    u->link = (struct link){.ops = &udp_ops, .write_descriptor = -1, .direct_descriptor = -1};
}

int udp_watch(struct udp *u, uint32_t source, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = source};

    return epoll_ctl(u->epoll, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

int udp_adopt(struct udp *u, const struct slot_sockets *s, uint32_t first,
              const struct adoption *how, uint32_t *receive_buffer)
{
    int err = 0;

    for (enum family f = 0; f < FAMILY_COUNT; f++)
        u->source[first + f].fd = s->fd[f];
    *receive_buffer = 0;
    for (enum family f = 0; f < FAMILY_COUNT && !err; f++) {
        struct source *source = &u->source[first + f];
        uint32_t granted = 0;

        if (source->fd < 0)
            continue;
        err = slot_socket_adopt(source->fd, f, how, &granted, &source->drops);
        if (!*receive_buffer || granted < *receive_buffer)
            *receive_buffer = granted;
        if (!err)
            err = udp_watch(u, first + f, source->fd);
    }
    return err;
}

/* Whether what leaves in one UDP_SEGMENT send on this host reaches us as one message. */
static bool reads_whole(const struct udp *u)
{
    const struct shared *s = u->group.shared;

    for (enum family f = 0; f < FAMILY_COUNT; f++) {
        int gro = 0;
        socklen_t len = sizeof(gro);

        if (u->source[SOURCE_SLOT_IPV4 + f].fd < 0)
            continue;
        if ((s->by_slot & 1u << f) == 0 ||
            getsockopt(u->source[SOURCE_SLOT_IPV4 + f].fd, IPPROTO_UDP, UDP_GRO, &gro, &len) ||
            !gro)
            return false;
    }
    return true;
}

/*
 * Tells the others where to hand what is ours, and how much fits: half of what
 * the kernel accounts, since it gives memory back late.
 */
static void publish(struct udp *u)
{
    struct shared_slot *mine = &u->group.shared->slots[u->slot];

    atomic_store(&mine->consumed, atomic_load(&mine->charged));
    atomic_store(&mine->budget, u->receive_buffer / 2);
    atomic_store(&mine->whole, reads_whole(u));
    atomic_store(&mine->inbox, u->inbox_name);
    if (u->config.no_guests)
        atomic_store(&u->group.shared->no_guests, 1);
}

static int adopt_slot(struct udp *u, char *error)
{
    struct lease wanted = {.slot = u->slot};
    struct adoption how = {
        .gro = !u->config.no_gro && !u->config.raw, /* merging forgets identifications */
        .keep = wanted.slot != 0,
        .receive_buffer = u->config.receive_buffer,
    };
    struct slot_sockets sockets;
    int err = group_lease(&u->group, &wanted, &u->slot, &sockets, error);

    if (err)
        return err;
    err = udp_adopt(u, &sockets, SOURCE_SLOT_IPV4, &how, &u->receive_buffer);
    if (!err && u->config.raw)
        err = udp_raw_mute(u);
    return err ? refuse(error, err, "sockets of slot %u: %s", u->slot, strerror(-err)) : 0;
}

static int adopt_qp1(struct udp *u, char *error)
{
    struct adoption how = {.keep = true, .receive_buffer = u->config.receive_buffer};
    struct slot_sockets sockets;
    uint32_t ignored;
    int err = group_take_qp1(&u->group, &sockets);

    if (!err)
        err = udp_adopt(u, &sockets, SOURCE_QP1_IPV4, &how, &ignored);
    return err ? refuse(error, err, "sockets of QP1: %s", strerror(-err)) : 0;
}

static int take_up(struct udp *u, char *error)
{
    int err = adopt_slot(u, error);

    if (!err)
        err = adopt_qp1(u, error);
    if (err)
        return err;
    u->inbox = inbox_open(&u->inbox_name);
    u->source[SOURCE_INBOX].fd = u->inbox;
    u->source[SOURCE_LISTENER].fd = u->group.listener;
    err = u->inbox < 0 ? u->inbox : udp_watch(u, SOURCE_INBOX, u->inbox);
    if (!err)
        err = udp_watch(u, SOURCE_LISTENER, u->group.listener);
    if (err)
        return refuse(error, err, "opening the link: %s", strerror(-err));
    publish(u);
    return 0;
}

/* Of one who was a guest and is a member now. */
static void move_services(struct udp *u, const struct group *before)
{
    uint64_t service_id;
    struct gid local;
    uint32_t index = 0;

    while (services_next(before, u->slot, &index, &service_id, &local))
        if (services_add(&u->group, u->slot, service_id, &local))
            log_warn("slot %u: another process listens on 0x%016" PRIx64 " now", u->slot,
                     service_id);
}

int udp_join(struct udp *u, uint64_t patience_ms, char *error)
{
    struct group before = u->group;
    uint8_t slot = u->slot;
    int err = group_join(&u->group, !u->config.no_bpf, patience_ms, error);

    if (!err)
        err = take_up(u, error);
    if (!err) {
        move_services(u, &before);
        if (slot)
            atomic_store(&u->group.shared->settling_until_ms, group_now_ms() + SETTLE_MS);
        group_leave(&before);
        return 0;
    }
    udp_close_sources(u, SOURCE_SLOT_IPV4, SOURCE_HOST);
    u->source[SOURCE_LISTENER].fd = -1;
    u->inbox = -1;
    group_leave(&u->group);
    u->group = before;
    u->slot = slot;
    return err;
}

static int prepare(struct udp *u)
{
    int err = group_alone(&u->group);

    if (err)
        return err;
    u->epoll = own_descriptor(epoll_create1(EPOLL_CLOEXEC));
    if (u->epoll < 0)
        return -errno;
    u->link.descriptors[0] = u->epoll;
    u->link.descriptor_count = 1;
    routes_open(&u->routes);
    return udp_receive_prepare(u);
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
    err = prepare(u);
    if (err)
        refuse(error, err, "opening the link: %s", strerror(-err));
    else if (u->config.raw)
        err = udp_raw_open(u, error);
    if (!err)
        err = udp_join(u, JOIN_TIMEOUT_MS, error);
    if (err == -EUSERS)
        err = udp_guest_open(u, error);
    if (err) {
        release(u);
        return err;
    }
    err = u->config.raw ? udp_raw_start(u, error) : 0;
    if (err) {
        link_close(&u->link);
        return err;
    }
    *slot = u->slot;
    *out = &u->link;
    return 0;
}
