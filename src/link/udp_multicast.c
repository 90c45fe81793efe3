/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups that this process and its guests are in. The kernel gives a copy of
 * a multicast datagram to each socket that joined, so each process has sockets of its
 * own for its groups, one for a group of an interface: they need no slot, cannot be
 * steered wrongly, and end with the process. A guest cannot bind the port: its host
 * has the socket for it. What a process sends comes back to it (IP_MULTICAST_LOOP, the default).
 */
#include "link/udp_private.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

static uint32_t source_of(const struct udp *u, const struct multicast_socket *s)
{
    return SOURCE_MULTICASTS + (uint32_t)(s - u->multicasts);
}

static struct multicast_socket *find(struct udp *u, const struct multicast *group)
{
    for (struct multicast_socket *s = u->multicasts; s < u->multicasts + MULTICAST_SOCKETS_MAX; s++)
        if (s->used && multicast_equal(&s->group, group))
            return s;
    return NULL;
}

static struct multicast_socket *find_free(struct udp *u)
{
    for (struct multicast_socket *s = u->multicasts; s < u->multicasts + MULTICAST_SOCKETS_MAX; s++)
        if (!s->used)
            return s;
    return NULL;
}

static bool has_visitor(const struct multicast_socket *s, uint32_t visitor)
{
    return (s->visitors[visitor / 64] >> visitor % 64 & 1) != 0;
}

static bool has_visitors(const struct multicast_socket *s)
{
    uint64_t any = 0;

    for (uint32_t i = 0; i < GUESTS_MAX / 64; i++)
        any |= s->visitors[i];
    return any != 0;
}

/* 0, or -ENOMEM when guests, or this one, are in as many groups as they may. */
static int admit(const struct udp *u, uint32_t visitor)
{
    uint32_t of_guests = 0;
    uint32_t of_this = 0;

    for (uint32_t i = 0; i < MULTICAST_SOCKETS_MAX; i++) {
        const struct multicast_socket *s = &u->multicasts[i];

        of_guests += has_visitors(s);
        of_this += has_visitor(s, visitor);
    }
    return of_guests < MULTICAST_OF_GUESTS_MAX && of_this < MULTICAST_OF_GUEST_MAX ? 0 : -ENOMEM;
}

/* Errors as verbs know them: no more memory, memberships or descriptors are one. */
static int simplify(int err)
{
    return err == -ENOBUFS || err == -EMFILE || err == -ENFILE ? -ENOMEM : err;
}

/* Opens the socket of a group; a guest has none. 0 or a negative errno. */
static int open_socket(struct udp *u, struct multicast_socket *s)
{
    const struct adoption how = {
        .gro = !u->config.no_gro, .keep = true, .receive_buffer = u->config.receive_buffer};
    struct source *source = &u->source[source_of(u, s)];
    int fd, err;

    if (udp_is_guest(u))
        return 0;
    fd = multicast_socket_make(&s->group, &how);
    if (fd < 0)
        return simplify(fd);
    err = udp_watch(u, source_of(u, s), fd);
    if (err) {
        close(fd);
        return simplify(err);
    }
    *source = (struct source){.fd = fd};
    return 0;
}

static void close_socket(struct udp *u, struct multicast_socket *s)
{
    uint32_t source = source_of(u, s);

    if (u->favourite == source) {
        u->favourite = SOURCE_SLOT_IPV4;
        atomic_store_explicit(&u->link.direct_descriptor, -1, memory_order_relaxed);
    }
    udp_close_sources(u, source, source + 1);
    s->used = false;
}

int udp_multicast_join(struct udp *u, const struct multicast *group, uint32_t holder)
{
    struct multicast_socket *s = find(u, group);
    int err = 0;

    if (s && (holder == HOLDER_OWN ? s->own : has_visitor(s, holder)))
        return 0;
    if (holder != HOLDER_OWN)
        err = admit(u, holder);
    if (err)
        return err;
    if (!s) {
        s = find_free(u);
        if (!s)
            return -ENOMEM;
        *s = (struct multicast_socket){.group = *group};
        err = open_socket(u, s);
        if (err)
            return err;
        s->used = true;
    }
    if (holder != HOLDER_OWN) {
        s->visitors[holder / 64] |= 1ull << holder % 64;
        return 0;
    }
    s->own = true;
    if (udp_is_guest(u))
        udp_guest_multicast(u, group, true);
    return 0;
}

static void let_go(struct udp *u, struct multicast_socket *s, uint32_t holder)
{
    if (holder == HOLDER_OWN)
        s->own = false;
    else
        s->visitors[holder / 64] &= ~(1ull << holder % 64);
    if (!s->own && !has_visitors(s))
        close_socket(u, s);
}

void udp_multicast_leave(struct udp *u, const struct multicast *group, uint32_t holder)
{
    struct multicast_socket *s = find(u, group);

    if (!s)
        return;
    if (holder == HOLDER_OWN && udp_is_guest(u))
        udp_guest_multicast(u, group, false);
    let_go(u, s, holder);
}

void udp_multicast_forget(struct udp *u, uint32_t visitor)
{
    for (struct multicast_socket *s = u->multicasts; s < u->multicasts + MULTICAST_SOCKETS_MAX; s++)
        if (s->used && has_visitor(s, visitor))
            let_go(u, s, visitor);
}

void udp_multicast_renew(struct udp *u)
{
    for (struct multicast_socket *s = u->multicasts; s < u->multicasts + MULTICAST_SOCKETS_MAX;
         s++) {
        int err = 0;

        if (!s->used)
            continue;
        if (udp_is_guest(u))
            udp_guest_multicast(u, &s->group, true);
        else
            err = open_socket(u, s);
        if (err) {
            u->link.counters.mcast_lost++;
            log_warn("a multicast group cannot be joined again: %s", strerror(-err));
        }
    }
}
