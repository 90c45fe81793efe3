/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Having guests (guest.h). Any member that accepts a visitor serves it: leases a slot,
 * reads its sockets and passes on what is for that slot, each datagram looked at. A guest
 * can do nothing but ask once, name multicast groups and listen; what it does not read is dropped
 * when its connection is full, so it costs a bounded amount of memory and nobody else's time.
 *
 * When this process ends, the kernel frees the lease; the record that it was a
 * guest's keeps the slot for it (group_lease) till it has found another member.
 */
#include "link/udp_private.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "link/refusal.h"
#include "link/services.h"

void udp_host_init(struct udp *u)
{
    for (uint32_t i = 0; i < GUESTS_MAX; i++)
        u->host.visitor[i].fd = -1;
}

static uint32_t guest_source(uint32_t visitor)
{
    return SOURCE_GUESTS + visitor * FAMILY_COUNT;
}

/* Ends a visit. Of a slot, the lease too, unless it is the process that ends. */
static void dismiss(struct udp *u, uint32_t visitor)
{
    struct visitor *v = &u->host.visitor[visitor];

    udp_multicast_forget(u, visitor);
    if (v->slot) {
        services_forget(&u->group, v->slot);
        for (enum family f = 0; f < FAMILY_COUNT; f++) {
            if (u->source[guest_source(visitor) + f].fd >= 0)
                slot_socket_disown(u->source[guest_source(visitor) + f].fd);
        }
        udp_close_sources(u, guest_source(visitor), guest_source(visitor) + FAMILY_COUNT);
        u->host.visitor_of[v->slot] = 0;
        group_release(&u->group, v->slot);
        log_info("slot %u: the guest of user %u has gone", v->slot, v->uid);
    }
    udp_unwatch(u, v->fd);
    close(v->fd);
    *v = (struct visitor){.fd = -1};
}

/* A place for a visitor; those who say nothing make way, the one who came first before the others.
 * NULL: all places are taken by guests. */
static struct visitor *find_place(struct udp *u)
{
    struct visitor *vacant = NULL;
    struct visitor *oldest = NULL;
    uint32_t waiting = 0;

    for (struct visitor *v = u->host.visitor; v < u->host.visitor + GUESTS_MAX; v++) {
        if (v->fd < 0) {
            vacant = vacant ? vacant : v;
        } else if (!v->slot) {
            waiting++;
            if (!oldest || (int32_t)(v->number - oldest->number) < 0)
                oldest = v;
        }
    }
    if (vacant && waiting < VISITORS_WAITING)
        return vacant;
    if (oldest)
        dismiss(u, (uint32_t)(oldest - u->host.visitor));
    return oldest;
}

/* Guests that any member of the group serves; *of_user: those of one user. */
static uint32_t count_guests(struct udp *u, unsigned uid, uint32_t *of_user)
{
    uint32_t all = 0;

    *of_user = 0;
    for (uint32_t slot = SLOT_FIRST; slot <= SLOT_LAST; slot++) {
        const struct shared_slot *r = &u->group.shared->slots[slot];

        if (!atomic_load(&r->guest) ||
            !(udp_host_serves(u, (uint8_t)slot) || group_slot_held(&u->group, (uint8_t)slot)))
            continue;
        all++;
        *of_user += atomic_load(&r->guest_uid) == uid;
    }
    return all;
}

/* Whether this user may have one guest more. 0 or a negative errno. */
static int admit(struct udp *u, const struct guest_request *q, unsigned uid)
{
    uint32_t of_user;

    if (q->magic != GUEST_MAGIC || q->version != GUEST_VERSION || q->slot > SLOT_LAST)
        return -EPROTO;
    if (atomic_load(&u->group.shared->no_guests))
        return -EACCES;
    if (count_guests(u, uid, &of_user) >= GUESTS_IN_GROUP || of_user >= GUESTS_PER_USER)
        return -EUSERS;
    return 0;
}

/* Bytes that can be on their way to a guest, as the kernel accounts. */
static uint32_t send_buffer(int fd)
{
    int size = 0;
    socklen_t len = sizeof(size);

    getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &len);
    return size > 0 ? (uint32_t)size : 0;
}

/* Leases a slot for visitor v and reads its sockets from now on. 0 or a negative errno. */
static int lodge(struct udp *u, struct visitor *v, const struct guest_request *q,
                 struct guest_answer *a)
{
    uint32_t source = guest_source((uint32_t)(v - u->host.visitor));
    struct lease wanted = {.slot = (uint8_t)q->slot, .guest = q->guest};
    struct adoption how = {
        .gro = !u->config.no_gro,
        .keep = q->slot != 0,
        .receive_buffer = u->config.receive_buffer,
    };
    struct slot_sockets sockets;
    struct shared_slot *r;
    char sentence[UDP_ERROR_LEN];
    uint8_t slot;
    int err;

    if (!wanted.slot || !wanted.guest) {
        wanted.slot = 0;
        if (getrandom(&wanted.guest, sizeof(wanted.guest), 0) < 0)
            return -errno;
        wanted.guest |= 1;
    }
    err = group_lease(&u->group, &wanted, &slot, &sockets, sentence);
    if (err)
        return err;
    err = udp_adopt(u, &sockets, source, &how, &a->receive_buffer);
    if (err) {
        udp_close_sources(u, source, source + FAMILY_COUNT);
        group_release(&u->group, slot);
        return err;
    }
    if (!a->receive_buffer || send_buffer(v->fd) < a->receive_buffer)
        a->receive_buffer = send_buffer(v->fd);
    r = &u->group.shared->slots[slot];
    atomic_store(&r->guest_uid, v->uid);
    atomic_store(&r->budget, 0);
    atomic_store(&r->whole, 0);
    atomic_store(&r->inbox, u->inbox_name);
    v->slot = slot;
    u->host.visitor_of[slot] = (uint8_t)(v - u->host.visitor + 1);
    a->slot = slot;
    a->guest = wanted.guest;
    return 0;
}

/* A visitor has said what it wants. */
static void answer(struct udp *u, struct visitor *v, const struct guest_request *q)
{
    struct guest_answer a = {
        .magic = GUEST_MAGIC, .version = GUEST_VERSION, .error = admit(u, q, v->uid)};

    if (!a.error)
        a.error = lodge(u, v, q, &a);
    if (a.error == -EMFILE || a.error == -ENFILE)
        a.error = GUEST_ERROR_NO_DESCRIPTORS;
    /* It is the first message of an empty connection, so there is room for it. */
    if (send(v->fd, &a, sizeof(a), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 || a.error) {
        u->link.counters.guests_refused++;
        log_info("a process of user %u asked to be a guest: %s", v->uid, strerror(-a.error));
        dismiss(u, (uint32_t)(v - u->host.visitor));
        return;
    }
    u->link.counters.guests++;
    log_info("slot %u is a guest's, of user %u", v->slot, v->uid);
}

/* A guest joins or leaves a group. One that asks for too much is told nothing, and gets nothing. */
static void move(struct udp *u, uint32_t visitor, const struct guest_multicast *q)
{
    int err = 0;

    if (!q->join)
        udp_multicast_leave(u, &q->group, visitor);
    else if (gid_is_multicast(&q->group.gid))
        err = udp_multicast_join(u, &q->group, visitor);
    else
        err = -EINVAL;
    if (err)
        log_info("slot %u: the guest's multicast group: %s", u->host.visitor[visitor].slot,
                 strerror(-err));
}

/* A guest listens on a service, or no more. 0 or a negative errno. */
static int serve_service(struct udp *u, const struct guest_service *q, unsigned uid)
{
    const struct shared_slot *r = &u->group.shared->slots[q->slot % SLOT_COUNT];
    const uint8_t slot = (uint8_t)q->slot;

    if (q->magic != GUEST_MAGIC || q->version != GUEST_VERSION)
        return -EPROTO;
    if (q->slot < SLOT_FIRST || q->slot > SLOT_LAST || q->guest == 0 || q->service_id == 0 ||
        atomic_load(&r->guest) != q->guest || atomic_load(&r->guest_uid) != uid)
        return -EACCES;
    if (!q->listen) {
        services_remove(&u->group, slot, q->service_id, &q->local);
        return 0;
    }
    if (services_of_slot(&u->group, slot) >= SERVICES_OF_GUEST_MAX ||
        services_of_guests(&u->group) >= SERVICES_OF_GUESTS_MAX)
        return -ENOSPC;
    return services_add(&u->group, slot, q->service_id, &q->local);
}

/* A guest that we serve, or another member does, has come on a second connection. */
static void serve(struct udp *u, uint32_t visitor, const struct guest_service *q)
{
    const struct visitor *v = &u->host.visitor[visitor];
    const struct guest_service_answer a = {
        .magic = GUEST_MAGIC,
        .error = serve_service(u, q, v->uid),
    };

    if (send(v->fd, &a, sizeof(a), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        log_info("slot %u: the guest did not wait for its answer", q->slot);
    dismiss(u, visitor);
}

void udp_host_listen(struct udp *u, uint32_t visitor)
{
    struct visitor *v = &u->host.visitor[visitor];
    union {
        struct guest_request request;
        struct guest_multicast multicast;
        struct guest_service service;
    } q;
    ssize_t len = v->fd < 0 ? 0 : recv(v->fd, &q, sizeof(q), MSG_DONTWAIT | MSG_TRUNC);

    if (v->fd < 0 || (len < 0 && errno == EAGAIN))
        return;
    if (!v->slot && len == sizeof(q.request))
        answer(u, v, &q.request);
    else if (!v->slot && len == sizeof(q.service))
        serve(u, visitor, &q.service);
    else if (v->slot && len == sizeof(q.multicast) && q.multicast.magic == GUEST_MAGIC)
        move(u, visitor, &q.multicast);
    else
        dismiss(u, visitor); /* It has gone, or speaks out of turn. */
}

void udp_host_greet(void *context, int fd, unsigned uid, bool last)
{
    struct udp *u = context;
    struct visitor *v = find_place(u);
    int size = GUEST_BUFFER;
    uint32_t visitor;

    if (!v) {
        u->link.counters.guests_refused++;
        close(fd);
        return;
    }
    visitor = (uint32_t)(v - u->host.visitor);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    *v = (struct visitor){.fd = fd, .uid = uid, .number = u->host.number++};
    if (udp_watch(u, SOURCE_VISITORS + visitor, fd))
        dismiss(u, visitor);
    else
        udp_host_listen(u, visitor);
    /* The next one needs the descriptor of who has not said yet what it wants, and asks again. */
    if (last && v->fd >= 0 && !v->slot)
        dismiss(u, visitor);
}

bool udp_host_serves(const struct udp *u, uint8_t slot)
{
    return u->host.visitor_of[slot] != 0;
}

static enum handed fate(ssize_t sent)
{
    if (sent >= 0)
        return HANDED_OVER;
    return errno == EPIPE || errno == ECONNRESET ? HANDED_TO_NOBODY : HANDED_FULL;
}

enum handed udp_host_pass_to(struct udp *u, uint32_t visitor, const struct arrival *a,
                             const uint8_t *bytes)
{
    struct iovec iov[] = {
        {.iov_base = (void *)(uintptr_t)a, .iov_len = sizeof(*a)},
        {.iov_base = (void *)(uintptr_t)bytes, .iov_len = a->len},
    };
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};

    return fate(sendmsg(u->host.visitor[visitor].fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL));
}

enum handed udp_host_pass(struct udp *u, uint8_t slot, const uint8_t *parcel, uint32_t len)
{
    const struct visitor *v = &u->host.visitor[u->host.visitor_of[slot] - 1];

    return fate(send(v->fd, parcel, len, MSG_DONTWAIT | MSG_NOSIGNAL));
}

void udp_host_close(struct udp *u)
{
    for (uint32_t i = 0; i < GUESTS_MAX; i++) {
        if (u->host.visitor[i].fd >= 0)
            close(u->host.visitor[i].fd);
        u->host.visitor[i].fd = -1;
    }
    udp_close_sources(u, SOURCE_GUESTS, SOURCE_MULTICASTS);
}
