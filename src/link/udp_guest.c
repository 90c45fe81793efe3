/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Being a guest (guest.h): finding a host, and another one when it is lost. The host's user has
 * other processes as a rule, and one of them answers at once. When it has none, the port is free:
 * the guest that is first makes a group of its own user, keeping its slot, which is in the QPNs
 * that its peers know, and the others become members or guests of that.
 */
#include "link/udp_private.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"
#include "link/group_private.h"
#include "link/own_descriptor.h"
#include "link/refusal.h"
#include "link/services.h"

static void arm(struct udp *u, uint64_t ms)
{
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000}};

    timerfd_settime(u->source[SOURCE_TIMER].fd, 0, &when, NULL);
}

static void hang_up(struct udp *u)
{
    u->guest.asked_ms = 0;
    udp_close_sources(u, SOURCE_HOST, SOURCE_HOST + 1);
}

/* Asks a user's group for the slot that we had, or any. 0 or a negative errno. */
static int ask(struct udp *u, unsigned host)
{
    struct guest_request q = {
        .magic = GUEST_MAGIC,
        .version = GUEST_VERSION,
        .slot = u->slot,
        .guest = u->guest.number,
    };
    int fd = group_connect(host);
    int err;

    if (fd < 0)
        return fd;
    u->source[SOURCE_HOST].fd = fd;
    err = send(fd, &q, sizeof(q), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno : 0;
    if (!err)
        err = udp_watch(u, SOURCE_HOST, fd);
    if (err) {
        hang_up(u);
        return err;
    }
    u->guest.uid = host;
    u->guest.asked_ms = group_now_ms();
    return 0;
}

/* Reads the answer. 0, -EAGAIN when there is none yet, or the reason why not; then the line is
 * closed. */
static int read_answer(struct udp *u)
{
    struct guest_answer a = {0};
    ssize_t len = recv(u->source[SOURCE_HOST].fd, &a, sizeof(a), MSG_DONTWAIT | MSG_TRUNC);
    int err = 0;

    if (len < 0 && errno == EAGAIN)
        return -EAGAIN;
    if (len <= 0)
        err = -ECONNRESET;
    else if (len != sizeof(a) || a.magic != GUEST_MAGIC || a.version != GUEST_VERSION)
        err = -EPROTO;
    else if (a.error)
        err = a.error < 0 ? a.error : -EPROTO;
    else if (a.slot < SLOT_FIRST || a.slot > SLOT_LAST || (u->slot && a.slot != u->slot))
        err = -EPROTO;
    if (err) {
        hang_up(u);
        return err;
    }
    u->guest.asked_ms = 0;
    u->guest.number = a.guest;
    u->slot = (uint8_t)a.slot;
    u->receive_buffer = a.receive_buffer ? a.receive_buffer : GUEST_BUFFER_LEAST;
    return 0;
}

/* Opening. */

static int await_answer(struct udp *u)
{
    struct pollfd p = {.fd = u->source[SOURCE_HOST].fd, .events = POLLIN};
    int err;

    if (poll(&p, 1, ANSWER_TIMEOUT_MS) <= 0) {
        hang_up(u);
        return -ETIMEDOUT;
    }
    err = read_answer(u);
    return err == -EAGAIN ? -ETIMEDOUT : err;
}

static int explain(int err, unsigned host, char *error)
{
    switch (-err) {
    case ECONNREFUSED:
        return refuse(error, -EADDRINUSE,
                      "UDP port 4791 is held by a program of user %u that shares it with nobody",
                      host);
    case EACCES:
        return refuse(error, -EADDRINUSE,
                      "UDP port 4791 is held by user %u, who takes no guests (UROCE_GUESTS)", host);
    case EUSERS:
    case EAGAIN:
        return refuse(error, -EAGAIN,
                      "UDP port 4791 is held by user %u, who has no room for more guests", host);
    case ENOBUFS:
        return refuse(error, -EAGAIN,
                      "UDP port 4791 is held by user %u, whose process has too many open files "
                      "(ulimit -n) to take a guest",
                      host);
    case EMFILE:
        return refuse(error, err, "too many open files (ulimit -n) to be a guest of user %u", host);
    case EPROTO:
        return refuse(error, err, "UDP port 4791 is held by user %u with another version of uroce",
                      host);
    default:
        return refuse(error, err,
                      "UDP port 4791 is held by user %u, whose processes do not answer: %s", host,
                      strerror(-err));
    }
}

static int open_timer(struct udp *u)
{
    int fd = own_descriptor(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC));

    if (fd < 0)
        return -errno;
    u->source[SOURCE_TIMER].fd = fd;
    return udp_watch(u, SOURCE_TIMER, fd);
}

/* Whether the next moment may bring another answer. */
static bool passes(int err)
{
    return err == -ECONNREFUSED || err == -ECONNRESET || err == -EAGAIN || err == -ETIMEDOUT ||
           err == -EPIPE || err == GUEST_ERROR_NO_DESCRIPTORS;
}

int udp_guest_open(struct udp *u, char *error)
{
    uint64_t end_ms = group_now_ms() + PORT_TIMEOUT_MS;
    unsigned host = u->group.uid;
    int err;

    /* Whoever holds the port may be starting, or ending and about to leave it to us. */
    for (;;) {
        if (port_holder_find(&host) != PORT_HOLDER_USER || host == u->group.uid) {
            err = udp_join(u, PORT_TIMEOUT_MS, error);
            if (err == -EUSERS && group_now_ms() < end_ms)
                continue;
            return err == -EUSERS ? -EADDRINUSE : err;
        }
        if (u->config.no_guests)
            return refuse(error, -EADDRINUSE,
                          "UDP port 4791 is held by user %u, and UROCE_GUESTS is off", host);
        err = ask(u, host);
        if (!err)
            err = await_answer(u);
        if (!passes(err) || group_now_ms() >= end_ms)
            break;
        usleep(JOIN_PAUSE_US);
    }
    if (err)
        return explain(err, host, error);
    err = open_timer(u);
    if (err)
        return refuse(error, err, "opening the link: %s", strerror(-err));
    log_info("slot %u, as a guest of user %u, who holds UDP port 4791", u->slot, host);
    return 0;
}

/* Multicast. */

void udp_guest_multicast(struct udp *u, const struct multicast *group, bool join)
{
    const struct guest_multicast q = {.magic = GUEST_MAGIC, .join = join, .group = *group};

    /* Without a host there is nobody to tell; the next one hears of all groups (found). */
    if (u->source[SOURCE_HOST].fd >= 0 && !u->guest.asked_ms &&
        send(u->source[SOURCE_HOST].fd, &q, sizeof(q), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        log_warn("a multicast group: the process of user %u that passes us our datagrams: %s",
                 u->guest.uid, strerror(errno));
}

/* Services. */

/* Asks whoever answers of the host's user. 0 or a negative errno. */
static int ask_service(unsigned host, const struct guest_service *q)
{
    struct guest_service_answer a = {0};
    const int fd = group_connect(host);
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int err = 0;

    if (fd < 0)
        return fd;
    if (send(fd, q, sizeof(*q), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        err = -errno;
    else if (poll(&p, 1, ANSWER_TIMEOUT_MS) <= 0)
        err = -ETIMEDOUT;
    else if (recv(fd, &a, sizeof(a), MSG_DONTWAIT) != sizeof(a) || a.magic != GUEST_MAGIC)
        err = -ECONNRESET;
    else
        err = a.error;
    close(fd);
    return err;
}

int udp_guest_service(struct udp *u, uint64_t service_id, const struct gid *local, bool listen)
{
    const struct guest_service q = {
        .magic = GUEST_MAGIC,
        .version = GUEST_VERSION,
        .slot = u->slot,
        .listen = listen,
        .guest = u->guest.number,
        .service_id = service_id,
        .local = *local,
    };
    int err;

    if (u->source[SOURCE_HOST].fd < 0 || u->guest.asked_ms)
        return 0;
    err = ask_service(u->guest.uid, &q);
    return err == -ECONNREFUSED || err == -ECONNRESET ? 0 : err;
}

/* A new host hears of them all. */
static void renew_services(struct udp *u)
{
    uint64_t service_id;
    struct gid local;
    uint32_t index = 0;
    int err = 0;

    while (!err && services_next(&u->group, u->slot, &index, &service_id, &local))
        err = udp_guest_service(u, service_id, &local, true);
    if (err)
        log_warn("slot %u: user %u does not listen for us on 0x%016" PRIx64 ": %s", u->slot,
                 u->guest.uid, service_id, strerror(-err));
}

/* Going on without the host that we had. */

void udp_guest_lost(struct udp *u)
{
    u->link.counters.host_lost++;
    log_info("the process of user %u that passed us our datagrams has gone", u->guest.uid);
    hang_up(u);
    u->guest.pause_ms = GUEST_PAUSE_MIN_MS;
    arm(u, GUEST_PAUSE_MIN_MS);
}

static void try_later(struct udp *u, int err, const char *sentence)
{
    struct guest *g = &u->guest;

    g->pause_ms = 2 * g->pause_ms < GUEST_PAUSE_MAX_MS ? 2 * g->pause_ms : GUEST_PAUSE_MAX_MS;
    if (err == -EBUSY || err == -EACCES) {
        u->link.counters.slot_lost++;
        g->pause_ms = GUEST_PAUSE_LOST_MS;
        if (!g->complained)
            log_error("nobody can reach this process's queue pairs any more: slot %u: %s", u->slot,
                      sentence);
        g->complained = true;
    }
    arm(u, g->pause_ms);
}

static void found(struct udp *u)
{
    u->link.counters.host_found++;
    u->guest.complained = false;
    arm(u, 0);
    if (udp_is_guest(u))
        renew_services(u);
    udp_multicast_renew(u);
}

void udp_guest_answered(struct udp *u)
{
    int err = read_answer(u);

    if (err == -EAGAIN)
        return;
    if (err)
        try_later(u, err, strerror(-err));
    else
        found(u);
    if (!err)
        log_info("another process of user %u passes us our datagrams", u->guest.uid);
}

/* The port is ours to take. */
static void take_port(struct udp *u)
{
    char sentence[UDP_ERROR_LEN] = "";
    int err = udp_join(u, 0, sentence);

    if (err) {
        try_later(u, err, sentence);
        return;
    }
    found(u);
    log_info("slot %u: no process of user %u is left, user %u holds UDP port 4791 now", u->slot,
             u->guest.uid, u->group.uid);
}

void udp_guest_retry(struct udp *u)
{
    unsigned host;
    uint64_t fired;
    int err;

    if (read(u->source[SOURCE_TIMER].fd, &fired, sizeof(fired)) < 0)
        return;
    if (u->guest.asked_ms) /* and not answered in time */
        hang_up(u);
    if (port_holder_find(&host) != PORT_HOLDER_USER || host == u->group.uid) {
        take_port(u);
        return;
    }
    err = ask(u, host);
    if (err)
        try_later(u, err, strerror(-err));
    else
        arm(u, ANSWER_TIMEOUT_MS);
}
