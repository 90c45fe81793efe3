/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Joining a group: ask at each name, else take a free name and make the
 * group. Two things keep it right whatever races: only the holder of a name
 * makes sockets, and the first two sockets are made only where none exist
 * (slot_socket_claim), so a group that is not finished dying, or one under another name,
 * is waited for and never mixed with.
 */
#include "link/group.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "link/descriptors.h"
#include "link/group_private.h"
#include "link/kernel_socket.h"
#include "link/own_descriptor.h"
#include "link/refusal.h"

#define WELCOME_MAGIC 0x65636f72u /* "roce" */

/* What a member says to a newcomer, with listener, memory and parking. */
struct welcome {
    uint32_t magic;
    uint32_t version;
    int32_t error; /* not 0: why there are no descriptors with it */
};

enum { WELCOME_LISTENER, WELCOME_MEMORY, WELCOME_PARKING_IN, WELCOME_PARKING_OUT, WELCOME_FDS };

/* What one process knows while it joins. */
struct joining {
    bool by_slot;
    uint64_t deadline_ms;
    uint64_t stuck_since_ms[GROUP_NAMES]; /* name taken but nobody listens; 0: not so */
    uint64_t taken_since_ms; /* port taken by this user, but not by a group; 0: not so */
    int err;                 /* what to report if the deadline passes */
    char *error;
};

enum answer {
    ANSWER_JOINED,
    ANSWER_NOBODY, /* the name seems free */
    ANSWER_STUCK,  /* nobody accepts */
    ANSWER_FOREIGN,
    ANSWER_RETRY,
    ANSWER_FAILED,
};

uint64_t group_now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void group_reset(struct group *g)
{
    *g = (struct group){
        .listener = -1,
        .memory = -1,
        .spare = -1,
        .parking = {-1, -1},
        .own = {{-1, -1}},
        .uid = geteuid(),
    };
}

void group_leave(struct group *g)
{
    if (g->shared)
        munmap(g->shared, sizeof(*g->shared));
    if (g->listener >= 0)
        close(g->listener);
    if (g->spare >= 0)
        close(g->spare);
    parking_close(&g->parking);
    slot_sockets_close(&g->own);
    if (g->memory >= 0)
        close(g->memory);
    group_reset(g);
}

static socklen_t group_name(unsigned uid, uint32_t index, struct sockaddr_un *out)
{
    int len;

    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    len = snprintf(out->sun_path + 1, sizeof(out->sun_path) - 1, "uroce/%u/%u", uid, index);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len);
}

static int map_memory(struct group *g)
{
    struct stat status;
    void *at;

    if (fstat(g->memory, &status))
        return -errno;
    if (status.st_size != sizeof(*g->shared))
        return -EPROTO;
    at = mmap(NULL, sizeof(*g->shared), PROT_READ | PROT_WRITE, MAP_SHARED, g->memory, 0);
    if (at == MAP_FAILED)
        return -errno;
    g->shared = at;
    return 0;
}

int group_alone(struct group *g)
{
    void *at;

    group_reset(g);
    at = mmap(NULL, sizeof(*g->shared), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        return -errno;
    g->shared = at;
    return 0;
}

static int make_memory(struct group *g)
{
    g->memory = own_descriptor(memfd_create("uroce", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (g->memory < 0)
        return -errno;
    if (ftruncate(g->memory, sizeof(*g->shared)) ||
        fcntl(g->memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return -errno;
    return map_memory(g);
}

/* Making a group. */

/*
 * Says who has the port. -EAGAIN: perhaps the end of an earlier group, whose
 * sockets are there a little longer than its name, or may be gone by now.
 */
static int port_taken(struct joining *j, const struct group *g)
{
    unsigned uid = 0;
    int err = -EAGAIN;

    if (!j->taken_since_ms)
        j->taken_since_ms = group_now_ms();
    if (group_now_ms() - j->taken_since_ms > PORT_TIMEOUT_MS)
        err = -EADDRINUSE;
    switch (port_holder_find(&uid)) {
    case PORT_HOLDER_KERNEL:
        return refuse(
            j->error, -EADDRINUSE,
            "UDP port 4791 is held by the kernel: unload rdma_rxe, or use another network "
            "namespace");
    case PORT_HOLDER_UNKNOWN:
        return refuse(j->error, err, "UDP port 4791 is held by a program that /proc does not show");
    case PORT_HOLDER_USER:
        break;
    }
    if (uid == g->uid)
        return refuse(
            j->error, err,
            "UDP port 4791 is held by another program of this user (see ss -ulpn 'sport = "
            "4791')");
    return refuse(j->error, -EUSERS, "UDP port 4791 is held by user %u", uid);
}

/* Claims the port for one family; fds are for slots 0 and 1. */
static int claim_family(struct joining *j, struct group *g, enum family f, int fds[2])
{
    bool by_slot = j->by_slot;
    int err = slot_socket_claim(f, &by_slot, fds);

    if (err == -EAFNOSUPPORT || err == -EADDRNOTAVAIL)
        return 0;
    if (err == -EADDRINUSE)
        return port_taken(j, g);
    if (err)
        return refuse(j->error, err, "UDP port 4791: %s", strerror(-err));
    g->shared->families |= 1u << f;
    if (by_slot) {
        g->shared->by_slot |= 1u << f;
        return 0;
    }
    close(fds[0]);
    g->own.fd[f] = fds[1];
    fds[0] = -1;
    fds[1] = -1;
    return 0;
}

/* The first two slots: QP1's, which shows that the port is free, and the first process's. */
static int claim_port(struct joining *j, struct group *g)
{
    int fds[FAMILY_COUNT][2] = {{-1, -1}, {-1, -1}};
    int err = 0;

    for (enum family f = 0; f < FAMILY_COUNT && !err; f++)
        err = claim_family(j, g, f, fds[f]);
    if (!err && !g->shared->families)
        err = refuse(j->error, -EAFNOSUPPORT, "this kernel has neither IPv4 nor IPv6");
    for (uint32_t slot = 0; slot < 2; slot++) {
        struct slot_sockets s = {.fd = {fds[FAMILY_IPV4][slot], fds[FAMILY_IPV6][slot]}};

        if (!err && g->shared->by_slot) {
            err = parking_put(&g->parking, slot, &s);
            if (err)
                refuse(j->error, err, "sockets put aside: %s", strerror(-err));
        }
        slot_sockets_close(&s);
    }
    return err;
}

static int make_group(struct joining *j, struct group *g)
{
    int err = make_memory(g);

    if (err)
        return refuse(j->error, err, "shared memory: %s", strerror(-err));
    err = parking_open(&g->parking);
    if (err)
        return refuse(j->error, err, "socket pair: %s", strerror(-err));
    err = claim_port(j, g);
    if (err)
        return err;
    if (g->shared->by_slot)
        err = group_add_slots(g, SLOT_FIRST);
    if (err)
        return refuse(j->error, err, "sockets on UDP port 4791: %s", strerror(-err));
    if (listen(g->listener, LISTEN_BACKLOG))
        return refuse(j->error, -errno, "listen: %s", strerror(errno));
    return 0;
}

/* Answering and asking. */

static unsigned peer_uid(int fd, int *pid)
{
    struct ucred peer = {.uid = (uid_t)-1};
    socklen_t len = sizeof(peer);

    getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len);
    *pid = peer.pid;
    return peer.uid;
}

static void welcome(struct group *g, int fd)
{
    struct welcome w = {.magic = WELCOME_MAGIC, .version = SHARED_VERSION};
    struct parcel p = {
        .bytes = &w,
        .len = sizeof(w),
        .fds =
            {
                [WELCOME_LISTENER] = g->listener,
                [WELCOME_MEMORY] = g->memory,
                [WELCOME_PARKING_IN] = g->parking.in,
                [WELCOME_PARKING_OUT] = g->parking.out,
            },
        .fd_count = WELCOME_FDS,
    };
    int err = parcel_send(fd, &p);

    if (err == -ETOOMANYREFS) {
        w.error = err;
        p.fd_count = 0;
        parcel_send(fd, &p);
    }
}

static int accept_one(int listener)
{
    return own_descriptor(accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC));
}

/* *last: it took the spare descriptor. Else as accept(2). */
static int accept_newcomer(struct group *g, bool *last)
{
    int fd = accept_one(g->listener);

    *last = fd < 0 && (errno == EMFILE || errno == ENFILE) && g->spare >= 0;
    if (!*last)
        return fd;
    close(g->spare);
    g->spare = -1;
    return accept_one(g->listener);
}

/* At a number that is within the limit now: a program that lowers it later has no use of it. */
static void keep_spare(struct group *g)
{
    if (g->spare < 0)
        g->spare = own_descriptor(eventfd(0, EFD_CLOEXEC));
}

uint32_t group_serve(struct group *g, group_visitor_fn fn, void *context)
{
    uint32_t pinched = 0;

    for (uint32_t i = 0; i < SERVE_AT_ONCE; i++) {
        unsigned uid;
        bool last;
        int pid;
        int fd;

        keep_spare(g);
        fd = accept_newcomer(g, &last);
        if (fd < 0)
            break;
        pinched += last;
        uid = peer_uid(fd, &pid);
        if (uid != g->uid) {
            fn(context, fd, uid, last);
            continue;
        }
        welcome(g, fd);
        close(fd);
    }
    keep_spare(g);
    return pinched;
}

int group_connect(unsigned uid)
{
    int err = -ECONNREFUSED;

    for (uint32_t name = 0; name < GROUP_NAMES; name++) {
        struct sockaddr_un address;
        socklen_t len = group_name(uid, name, &address);
        int fd = kernel_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        int pid;

        if (fd < 0)
            return -errno;
        if (connect(fd, (const struct sockaddr *)&address, len) == 0 && peer_uid(fd, &pid) == uid)
            return fd;
        if (errno == EAGAIN)
            err = -EAGAIN;
        close(fd);
    }
    return err;
}

/* Takes what a member sent. Returns 0, -EAGAIN to ask again, or why this process cannot join. */
static int read_welcome(struct joining *j, struct group *g, int fd)
{
    struct welcome w = {0};
    struct parcel p = {.bytes = &w, .len = sizeof(w)};
    int err = parcel_receive(fd, 0, &p);

    if (err == -EMFILE)
        return refuse(j->error, err,
                      "too many open files (ulimit -n) to join the processes of user %u", g->uid);
    if (err)
        return -EAGAIN; /* It died, or several did. */
    if (!w.error && p.fd_count == WELCOME_FDS) {
        g->listener = p.fds[WELCOME_LISTENER];
        g->memory = p.fds[WELCOME_MEMORY];
        g->parking = (struct parking){p.fds[WELCOME_PARKING_IN], p.fds[WELCOME_PARKING_OUT]};
    }
    if (w.magic != WELCOME_MAGIC || w.version != SHARED_VERSION)
        return refuse(j->error, -EPROTO,
                      "another version of uroce runs for user %u: end its processes first", g->uid);
    if (w.error)
        return refuse(j->error, w.error,
                      "the limit of open files (ulimit -n) of user %u is used up by descriptors in "
                      "flight",
                      g->uid);
    if (g->memory < 0)
        return -EAGAIN;
    err = map_memory(g);
    return err ? refuse(j->error, err, "shared memory: %s", strerror(-err)) : 0;
}

static enum answer await_welcome(struct joining *j, struct group *g, int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    int pid;
    int err;

    if (peer_uid(fd, &pid) != g->uid)
        return ANSWER_FOREIGN;
    if (poll(&p, 1, ANSWER_TIMEOUT_MS) <= 0) {
        j->err = -ETIMEDOUT;
        refuse(
            j->error, j->err,
            "the processes of user %u that share UDP port 4791 do not answer (process %d was the "
            "first): are they stopped?",
            g->uid, pid);
        return ANSWER_RETRY;
    }
    err = read_welcome(j, g, fd);
    if (!err)
        return ANSWER_JOINED;
    group_leave(g);
    if (err == -EAGAIN)
        return ANSWER_RETRY;
    j->err = err;
    return ANSWER_FAILED;
}

static enum answer ask(struct joining *j, struct group *g, uint32_t name)
{
    struct sockaddr_un address;
    socklen_t len = group_name(g->uid, name, &address);
    int fd = kernel_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    enum answer answer;

    if (fd < 0) {
        j->err = refuse(j->error, -errno, "socket: %s", strerror(errno));
        return ANSWER_FAILED;
    }
    if (connect(fd, (const struct sockaddr *)&address, len) == 0)
        answer = await_welcome(j, g, fd);
    else
        answer = errno == EAGAIN ? ANSWER_STUCK : ANSWER_NOBODY;
    close(fd);
    return answer;
}

/* Whether a name that is taken, but answers nobody, has been so for long enough to count as a
 * squatter's. */
static bool stuck_for_good(struct joining *j, uint32_t name)
{
    if (!j->stuck_since_ms[name])
        j->stuck_since_ms[name] = group_now_ms();
    return group_now_ms() - j->stuck_since_ms[name] > ANSWER_TIMEOUT_MS;
}

/* Binds a name. Returns 0 with g->listener set, -EADDRINUSE, or another negative errno. */
static int take_name(struct group *g, uint32_t name)
{
    struct sockaddr_un address;
    socklen_t len = group_name(g->uid, name, &address);
    int fd = kernel_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int err = 0;

    if (fd < 0)
        return -errno;
    if (bind(fd, (const struct sockaddr *)&address, len)) {
        err = -errno;
        close(fd);
        return err;
    }
    g->listener = fd;
    return 0;
}

/* One round over the names. Returns 0, -EAGAIN to try again, or the reason why not. */
static int join_once(struct joining *j, struct group *g)
{
    bool passed_over[GROUP_NAMES] = {false};
    int err;

    for (uint32_t name = 0; name < GROUP_NAMES; name++) {
        switch (ask(j, g, name)) {
        case ANSWER_JOINED:
            return 0;
        case ANSWER_FAILED:
            return j->err;
        case ANSWER_RETRY:
            return -EAGAIN;
        case ANSWER_FOREIGN:
            passed_over[name] = true;
            break;
        case ANSWER_STUCK:
            if (!stuck_for_good(j, name))
                return -EAGAIN;
            passed_over[name] = true;
            break;
        case ANSWER_NOBODY:
            break;
        }
    }
    for (uint32_t name = 0; name < GROUP_NAMES; name++) {
        if (passed_over[name])
            continue;
        err = take_name(g, name);
        if (!err) {
            err = make_group(j, g);
            if (err)
                group_leave(g);
            return err;
        }
        if (err != -EADDRINUSE)
            return refuse(j->error, err, "abstract socket name: %s", strerror(-err));
        if (!stuck_for_good(j, name))
            return -EAGAIN;
    }
    return refuse(j->error, -EADDRINUSE,
                  "other users hold all socket names @uroce/%u/0 to %u (see ss -xlp)", g->uid,
                  GROUP_NAMES - 1);
}

int group_join(struct group *g, bool by_slot, uint64_t patience_ms, char *error)
{
    struct joining j = {
        .by_slot = by_slot,
        .deadline_ms = group_now_ms() + patience_ms,
        .err = -ETIMEDOUT,
        .error = error,
    };
    int err;

    group_reset(g);
    refuse(error, 0, "the processes of user %u come and go too fast to join them", g->uid);
    while ((err = join_once(&j, g)) == -EAGAIN) {
        if (group_now_ms() >= j.deadline_ms)
            return j.err;
        usleep(JOIN_PAUSE_US);
    }
    if (!err)
        keep_spare(g);
    return err;
}
