/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A member and its test talk over a Unix socket: commands one way, answers and
 * datagrams the other.
 */
#include "member.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link/udp_private.h"
#include "wire/packet.h"

#define PATIENCE_MS 60000
#define USE_UP_MAX 4096u /* descriptors; above those of the link (link/own_descriptor.h) */

enum order {
    ORDER_SEND,
    ORDER_COUNTERS,
    ORDER_ROOM,
    ORDER_CHARGE,
    ORDER_SENT,
    ORDER_JOIN,
    ORDER_LEAVE,
    ORDER_LISTEN,
    ORDER_UNLISTEN,
    ORDER_LISTENER,
    ORDER_BUFFER,
    ORDER_WHOLE,
    ORDER_SLEEP,
    ORDER_WAKE,
    ORDER_USE_UP,
    ORDER_FORK,
    ORDER_FORK_IDLE,
    ORDER_CLOSE,
};

struct command {
    enum order order;
    struct shipment shipment;
    struct multicast group;
    uint64_t service_id;
};

struct report {
    bool is_datagram; /* else the answer to a command */
    struct seen seen;
    int64_t number;
    uint8_t slot;
    uint32_t receive_buffer;
    uint64_t inbox;
    char sentence[UDP_ERROR_LEN];
    struct link_counters counters;
};

/* In the member. */

struct body {
    int control;
    struct link *link;
    bool asleep;
};

static void tell(const struct body *b, const struct report *r)
{
    if (send(b->control, r, sizeof(*r), MSG_NOSIGNAL) != sizeof(*r))
        _exit(2);
}

static void on_datagram(void *context, const struct datagram *d)
{
    struct report r = {
        .is_datagram = true,
        .seen =
            {
                .src = d->src,
                .dst = d->dst,
                .len = (uint32_t)d->len,
                .src_port = d->src_port,
                .traffic_class = d->traffic_class,
                .hop_limit = d->hop_limit,
                .slot = d->bytes[5],
                .mark = d->bytes[BTH_LEN],
            },
    };

    tell(context, &r);
}

static int do_send(struct body *b, const struct shipment *s)
{
    static uint8_t buffer[65507];
    struct datagram_batch batch = {
        .buffer = buffer,
        .capacity = sizeof(buffer),
        .path = s->path,
        .src_port = s->src_port,
        .dest_slot = s->slot,
        .count = s->count,
        .segment_len = s->len,
        .last_len = s->last_len ? s->last_len : s->len,
    };
    int err;

    for (uint32_t i = 0; i < s->count; i++)
        fill_datagram(buffer + (size_t)i * s->len,
                      i + 1 < s->count ? s->len : (uint32_t)batch.last_len, s->slot, s->mark);
    while ((err = link_send(b->link, &batch)) == -EAGAIN) {
        struct pollfd p = {.fd = link_wants_write(b->link), .events = POLLOUT};

        if (poll(&p, 1, PATIENCE_MS) <= 0)
            break;
    }
    return err;
}

static int do_fork(struct body *b)
{
    int status = 0;
    pid_t pid = fork();

    if (pid == 0) {
        static const struct udp_config config;
        char sentence[UDP_ERROR_LEN];
        uint8_t slot = 0;
        struct link *own;

        link_abandon(b->link);
        if (udp_link_open(&config, &own, &slot, sentence) == 0)
            link_close(own);
        _exit(slot);
    }
    /* The child joins the group, which we may be the only one to let it. */
    while (waitpid(pid, &status, WNOHANG) == 0) {
        link_receive(b->link, 64, on_datagram, b);
        usleep(1000);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -ECHILD;
}

static void use_up_descriptors(void)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur > USE_UP_MAX)
        limit.rlim_cur = USE_UP_MAX;
    setrlimit(RLIMIT_NOFILE, &limit);
    while (dup(STDERR_FILENO) >= 0)
        ;
}

static int do_fork_idle(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        alarm(PATIENCE_MS / 1000); /* If the test fails before it ends us. */
        pause();
        _exit(0);
    }
    return pid;
}

static void obey(struct body *b, const struct command *c)
{
    struct shared_slot *slots = udp_of(b->link)->group.shared->slots;
    struct report r = {.is_datagram = false};

    switch (c->order) {
    case ORDER_SEND:
        r.number = do_send(b, &c->shipment);
        break;
    case ORDER_COUNTERS:
        r.counters = b->link->counters;
        break;
    case ORDER_ROOM:
        r.number = link_local_room(b->link, &c->shipment.path.dst, c->shipment.slot);
        break;
    case ORDER_CHARGE:
        atomic_fetch_add(&slots[c->shipment.slot].charged, c->shipment.len);
        break;
    case ORDER_SENT:
        atomic_fetch_add(&slots[c->shipment.slot].sent, c->shipment.len);
        break;
    case ORDER_JOIN:
        r.number = link_join(b->link, &c->group);
        break;
    case ORDER_LEAVE:
        link_leave(b->link, &c->group);
        break;
    case ORDER_LISTEN:
        r.number = link_listen(b->link, c->service_id, &c->group.gid);
        break;
    case ORDER_UNLISTEN:
        link_unlisten(b->link, c->service_id, &c->group.gid);
        break;
    case ORDER_LISTENER:
        r.number = link_listener(b->link, c->service_id, &c->group.gid);
        break;
    case ORDER_BUFFER:
        r.number = link_local_buffer(b->link, &c->shipment.path.dst, c->shipment.slot);
        break;
    case ORDER_WHOLE:
        r.number = link_delivers_whole(b->link, &c->shipment.path, c->shipment.slot);
        break;
    case ORDER_SLEEP:
        b->asleep = true;
        break;
    case ORDER_WAKE:
        b->asleep = false;
        break;
    case ORDER_USE_UP:
        use_up_descriptors();
        break;
    case ORDER_FORK:
        r.number = do_fork(b);
        break;
    case ORDER_FORK_IDLE:
        r.number = do_fork_idle();
        break;
    case ORDER_CLOSE:
        link_close(b->link);
        _exit(0);
    }
    tell(b, &r);
}

static void live(struct body *b)
{
    for (;;) {
        struct pollfd p[] = {
            {.fd = b->control, .events = POLLIN},
            {.fd = b->asleep ? -1 : b->link->descriptors[0], .events = POLLIN},
        };
        struct command c;

        poll(p, 2, link_deadline(b->link) != UINT64_MAX ? 1 : -1);
        if (p[0].revents & POLLIN && recv(b->control, &c, sizeof(c), 0) == sizeof(c))
            obey(b, &c);
        else if (p[0].revents)
            _exit(0);
        if (!b->asleep)
            while (link_receive(b->link, 64, on_datagram, b) > 0)
                ;
    }
}

static void be_member(int control, const struct udp_config *config, unsigned uid)
{
    struct body b = {.control = control};
    struct report r = {.is_datagram = false};

    if (uid && setresuid(uid, uid, uid))
        r.number = -EPERM;
    else
        r.number = udp_link_open(config, &b.link, &r.slot, r.sentence);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (r.number == 0) {
        struct udp *u = (struct udp *)(void *)b.link;

        r.receive_buffer = udp_link_receive_buffer(b.link);
        r.inbox = u->group.shared->slots[r.slot].inbox;
    }
    tell(&b, &r);
    if (r.number)
        _exit(0);
    live(&b);
}

/* In the test. */

static void hear(struct member *m, struct report *r)
{
    struct pollfd p = {.fd = m->control, .events = POLLIN};

    if (poll(&p, 1, PATIENCE_MS) != 1)
        fail_msg("member of slot %u says nothing", m->slot);
    if (recv(m->control, r, sizeof(*r), 0) != sizeof(*r))
        fail_msg("member of slot %u is gone", m->slot);
    if (r->is_datagram) {
        assert_true(m->seen_count < MEMBER_DATAGRAMS_MAX);
        m->seen[m->seen_count++] = r->seen;
    }
}

static struct report command(struct member *m, const struct command *c)
{
    struct report r;

    assert_int_equal(send(m->control, c, sizeof(*c), MSG_NOSIGNAL), sizeof(*c));
    do
        hear(m, &r);
    while (r.is_datagram);
    return r;
}

void member_begin(struct member *m, const struct udp_config *config, unsigned uid)
{
    int pair[2];

    memset(m, 0, sizeof(*m));
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    m->pid = fork();
    assert_true(m->pid >= 0);
    if (m->pid == 0) {
        close(pair[0]);
        be_member(pair[1], config, uid);
    }
    close(pair[1]);
    m->control = pair[0];
}

void member_opened(struct member *m)
{
    struct report r;

    hear(m, &r);
    m->err = (int)r.number;
    m->slot = r.slot;
    m->receive_buffer = r.receive_buffer;
    m->inbox = r.inbox;
    memcpy(m->sentence, r.sentence, sizeof(m->sentence));
}

void member_start(struct member *m, const struct udp_config *config)
{
    member_begin(m, config, 0);
    member_opened(m);
    if (m->err)
        fail_msg("%s", m->sentence);
}

int member_send(struct member *m, const struct shipment *s)
{
    return (int)command(m, &(struct command){.order = ORDER_SEND, .shipment = *s}).number;
}

struct link_counters member_counters(struct member *m)
{
    return command(m, &(struct command){.order = ORDER_COUNTERS}).counters;
}

uint32_t member_room(struct member *m, const struct gid *dst, uint8_t slot)
{
    struct command c = {.order = ORDER_ROOM, .shipment = {.path.dst = *dst, .slot = slot}};

    return (uint32_t)command(m, &c).number;
}

void member_charge(struct member *m, uint8_t slot, uint32_t len)
{
    command(m, &(struct command){.order = ORDER_CHARGE, .shipment = {.slot = slot, .len = len}});
}

void member_sent(struct member *m, uint8_t slot, uint32_t len)
{
    command(m, &(struct command){.order = ORDER_SENT, .shipment = {.slot = slot, .len = len}});
}

int member_join(struct member *m, const struct multicast *group)
{
    return (int)command(m, &(struct command){.order = ORDER_JOIN, .group = *group}).number;
}

void member_leave(struct member *m, const struct multicast *group)
{
    command(m, &(struct command){.order = ORDER_LEAVE, .group = *group});
}

static struct command service_command(enum order order, uint64_t service_id,
                                      const struct gid *local)
{
    return (struct command){.order = order, .service_id = service_id, .group = {.gid = *local}};
}

int member_listen(struct member *m, uint64_t service_id, const struct gid *local)
{
    const struct command c = service_command(ORDER_LISTEN, service_id, local);

    return (int)command(m, &c).number;
}

void member_unlisten(struct member *m, uint64_t service_id, const struct gid *local)
{
    const struct command c = service_command(ORDER_UNLISTEN, service_id, local);

    command(m, &c);
}

uint8_t member_listener(struct member *m, uint64_t service_id, const struct gid *local)
{
    const struct command c = service_command(ORDER_LISTENER, service_id, local);

    return (uint8_t)command(m, &c).number;
}

uint32_t member_buffer(struct member *m, const struct gid *dst, uint8_t slot)
{
    struct command c = {.order = ORDER_BUFFER, .shipment = {.path.dst = *dst, .slot = slot}};

    return (uint32_t)command(m, &c).number;
}

bool member_delivers_whole(struct member *m, const struct path *path, uint8_t slot)
{
    struct command c = {.order = ORDER_WHOLE, .shipment = {.path = *path, .slot = slot}};

    return command(m, &c).number != 0;
}

void member_use_up_descriptors(struct member *m)
{
    const struct command c = {.order = ORDER_USE_UP};

    command(m, &c);
}

void member_sleep(struct member *m)
{
    command(m, &(struct command){.order = ORDER_SLEEP});
}

void member_wake(struct member *m)
{
    command(m, &(struct command){.order = ORDER_WAKE});
}

int member_fork(struct member *m)
{
    return (int)command(m, &(struct command){.order = ORDER_FORK}).number;
}

pid_t member_fork_idle(struct member *m)
{
    return (pid_t)command(m, &(struct command){.order = ORDER_FORK_IDLE}).number;
}

void member_await(struct member *m, uint32_t count)
{
    struct report r;

    while (m->seen_count < count) {
        hear(m, &r);
        assert_true(r.is_datagram);
    }
}

void member_close(struct member *m)
{
    struct command c = {.order = ORDER_CLOSE};
    int status;

    assert_int_equal(send(m->control, &c, sizeof(c), MSG_NOSIGNAL), sizeof(c));
    assert_int_equal(waitpid(m->pid, &status, 0), m->pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    close(m->control);
    m->pid = 0;
}

void member_kill(struct member *m)
{
    kill(m->pid, SIGKILL);
    waitpid(m->pid, NULL, 0);
    close(m->control);
    m->pid = 0;
}

/* Surroundings. */

static void map_root(void)
{
    char text[64];
    int fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);

    snprintf(text, sizeof(text), "0 %u 1", geteuid());
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        fprintf(stderr, "uid_map: %s\n", strerror(errno));
    if (fd >= 0)
        close(fd);
}

void namespace_make(void)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    unsigned uid = geteuid();
    int fd;

    if (unshare(CLONE_NEWNET)) {
        if (unshare(CLONE_NEWUSER | CLONE_NEWNET)) {
            fprintf(stderr, "no network namespace: %s\n", strerror(errno));
            exit(77);
        }
        (void)uid;
        map_root();
    }
    fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo)) {
        fprintf(stderr, "lo: %s\n", strerror(errno));
        exit(77);
    }
    close(fd);
}

void namespace_set_mtu(int mtu)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_mtu = mtu};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_int_equal(ioctl(fd, SIOCSIFMTU, &lo), 0);
    close(fd);
}

struct gid gid_ipv4(uint32_t address)
{
    return (struct gid){.bytes = {[10] = 0xff,
                                  [11] = 0xff,
                                  [12] = (uint8_t)(address >> 24),
                                  [13] = (uint8_t)(address >> 16),
                                  [14] = (uint8_t)(address >> 8),
                                  [15] = (uint8_t)address}};
}

struct gid gid_ipv6_loopback(void)
{
    return (struct gid){.bytes = {[15] = 1}};
}

struct path path_loopback4(void)
{
    return (struct path){.src = gid_ipv4(0x7f000001), .dst = gid_ipv4(0x7f000001)};
}

struct path path_loopback6(void)
{
    return (struct path){.src = gid_ipv6_loopback(), .dst = gid_ipv6_loopback()};
}

void fill_datagram(uint8_t *bytes, uint32_t len, uint8_t slot, uint8_t mark)
{
    memset(bytes, mark, len);
    memset(bytes, 0, BTH_LEN);
    bytes[0] = 0x04; /* RC SEND_ONLY */
    bytes[2] = 0xff;
    bytes[3] = 0xff;
    bytes[5] = slot;
    bytes[7] = 0x11;
}

int plain_socket(int domain, uint16_t *port)
{
    int fd = socket(domain, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socklen_t len = domain == AF_INET ? sizeof(in) : sizeof(in6);
    struct sockaddr *name = domain == AF_INET ? (void *)&in : (void *)&in6;

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, name, len), 0);
    assert_int_equal(getsockname(fd, name, &len), 0);
    *port = ntohs(domain == AF_INET ? in.sin_port : in6.sin6_port);
    return fd;
}
