/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SO_KEEPALIVE of streams, while no thread of the program is in a call: what leaves is seen on the
 * interface, and a peer on another host that is killed, with nobody there to speak for it, is
 * noticed.
 */
#include "streams.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/bytes.h"

#define FAR_ADDRESS 0xc0000202u
#define NS_PER_S UINT64_C(1000000000)
#define PATIENCE_NS (60 * NS_PER_S)
/* IPv4, UDP, BTH, RETH, ICRC */
#define WRITE_OF_NOTHING_LEN (20u + 8 + 12 + 16 + 4)
#define WRITE_ONLY 0x0au
#define WRITE_ONLY_IMM 0x0bu

static int tap = -1;
static pid_t far_host;
static int far_ready;

static int set(int socket, int level, int name, int value)
{
    return rsetsockopt(socket, level, name, &value, sizeof(value));
}

static void keep_alive(int socket, int seconds)
{
    assert_int_equal(set(socket, IPPROTO_TCP, TCP_KEEPIDLE, seconds), 0);
    assert_int_equal(set(socket, SOL_SOCKET, SO_KEEPALIVE, 1), 0);
}

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* --- what is on the interface --- */

struct frame {
    uint8_t bytes[256]; /* from the IP header on */
    ssize_t len;
};

/* The next that comes in within ms. False: there is none. */
static bool next_frame(struct frame *f, int ms)
{
    struct pollfd p = {.fd = tap, .events = POLLIN};
    struct sockaddr_ll from = {.sll_pkttype = PACKET_OUTGOING};

    while (from.sll_pkttype != PACKET_HOST) { /* each is seen on its way out as well */
        socklen_t len = sizeof(from);

        if (poll(&p, 1, ms) != 1)
            return false;
        f->len = recvfrom(tap, f->bytes, sizeof(f->bytes), 0, (struct sockaddr *)&from, &len);
    }
    return f->len > 40;
}

static uint8_t opcode_of(const struct frame *f)
{
    return f->bytes[28];
}

static uint32_t qpn_of(const struct frame *f)
{
    return load_be24(f->bytes + 33);
}

static bool is_question(const struct frame *f)
{
    return opcode_of(f) == WRITE_ONLY && f->len == WRITE_OF_NOTHING_LEN &&
           load_be32(f->bytes + 52) == 0;
}

/* The queue pair at the other end, to which this one sends. */
static uint32_t peer_of(int socket)
{
    struct frame f;

    while (next_frame(&f, 0))
        ;
    assert_int_equal(rsend(socket, "x", 1, 0), 1);
    do
        assert_true(next_frame(&f, WAIT_MS));
    while (opcode_of(&f) != WRITE_ONLY_IMM);
    return qpn_of(&f);
}

/* --- who is asked --- */

struct kept {
    struct streams streams;
    uint32_t peer;
    uint32_t questions;
};

enum role { CLIENT, ACCEPTED, LONG, OFF, CLEARED, ROLES };

static void open_kept(struct kept *k, int listener)
{
    *k = (struct kept){.streams = {.listener = listener, .client = ask_listener()}};
    expect_poll(listener, POLLIN);
    k->streams.server = raccept(listener, NULL, NULL);
    assert_true(k->streams.server >= 0);
    expect_poll(k->streams.client, POLLOUT);
    expect_poll(k->streams.server, POLLOUT);
    k->peer = peer_of(k->streams.client);
}

static void close_kept(struct kept *k)
{
    assert_int_equal(rclose(k->streams.client), 0);
    assert_int_equal(rclose(k->streams.server), 0);
}

static void note(struct kept *kept, const struct frame *f)
{
    for (unsigned i = 0; i < ROLES; i++)
        kept[i].questions += is_question(f) && qpn_of(f) == kept[i].peer;
}

/* Until this one was asked so often; the only thread of the program sleeps at the tap. */
static void watch(struct kept *kept, enum role role, uint32_t times)
{
    const uint64_t limit = now_ns() + PATIENCE_NS;

    while (kept[role].questions < times) {
        struct frame f;

        assert_true(now_ns() < limit);
        if (next_frame(&f, WAIT_MS))
            note(kept, &f);
    }
}

/* Only at the end is there one that is due before two hours are over. */
static void open_all_but_accepted(struct kept *kept, int listener)
{
    memset(kept, 0, ROLES * sizeof(*kept));
    for (unsigned i = 0; i < ROLES; i++)
        if (i != ACCEPTED)
            open_kept(&kept[i], listener);
    keep_alive(kept[CLIENT].streams.client, 7200);
    keep_alive(kept[LONG].streams.client, 7200);
    keep_alive(kept[CLEARED].streams.client, 7200);
    assert_int_equal(set(kept[CLEARED].streams.client, SOL_SOCKET, SO_KEEPALIVE, 0), 0);
    assert_int_equal(set(kept[OFF].streams.client, IPPROTO_TCP, TCP_KEEPIDLE, 1), 0);
    assert_int_equal(set(kept[CLEARED].streams.client, IPPROTO_TCP, TCP_KEEPIDLE, 1), 0);
    assert_int_equal(set(kept[CLIENT].streams.client, IPPROTO_TCP, TCP_KEEPIDLE, 1), 0);
}

static void an_idle_peer_is_asked_when_it_is_asked_for_and_nobody_is_in_a_call(void **state)
{
    struct kept kept[ROLES];
    const uint64_t began = now_ns();
    int listener = listen_with(-1, 0);

    (void)state;
    open_all_but_accepted(kept, listener);
    watch(kept, CLIENT, 1);
    keep_alive(listener, 1);
    open_kept(&kept[ACCEPTED], listener);
    kept[ACCEPTED].peer = peer_of(kept[ACCEPTED].streams.server);
    watch(kept, ACCEPTED, 1);
    watch(kept, CLIENT, 2);
    /* not more often than once a second */
    assert_true(kept[CLIENT].questions * NS_PER_S <= now_ns() - began);
    for (unsigned i = LONG; i < ROLES; i++)
        assert_int_equal(kept[i].questions, 0);
    for (unsigned i = 0; i < ROLES; i++) {
        expect_poll(kept[i].streams.client, POLLOUT);
        close_kept(&kept[i]);
    }
    assert_int_equal(rclose(listener), 0);
}

/* --- at any time --- */

#define TURNS 300

static void *turn_on_and_off(void *context)
{
    const int socket = *(int *)context;

    for (int i = 0; i < TURNS; i++) {
        assert_int_equal(set(socket, SOL_SOCKET, SO_KEEPALIVE, 1), 0);
        assert_int_equal(rsend(socket, "x", 1, 0), 1);
        assert_int_equal(set(socket, SOL_SOCKET, SO_KEEPALIVE, i % 2), 0);
    }
    return NULL;
}

/* What a child does with its parent's, and with one of its own. */
static int use_in_child(const struct streams *s)
{
    if (set(s->client, SOL_SOCKET, SO_KEEPALIVE, 0) != -1 || errno != EIO)
        return 1;
    if (rclose(s->client) != 0 || rclose(s->server) != 0)
        return 2;
#ifndef __SANITIZE_THREAD__ /* which takes the child's thread for the parent's */
    const int own = rsocket(AF_INET, SOCK_STREAM, 0);

    keep_alive(own, 1);
    if (rclose(own) != 0)
        return 3;
#endif
    return 0;
}

static void it_may_be_set_and_cleared_and_the_stream_closed_at_any_time(void **state)
{
    struct streams s;
    pthread_t threads[2];
    char got[TURNS];
    int status;
    pid_t pid;

    (void)state;
    streams_open(&s);
    set_waiting(s.client, true);
    set_waiting(s.server, true);
    keep_alive(s.client, 1);
    keep_alive(s.server, 1);
    pid = fork();
    if (pid == 0)
        _exit(use_in_child(&s));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, turn_on_and_off, i == 0 ? &s.client : &s.server), 0);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    receive_fully(s.server, got, TURNS);
    keep_alive(s.client, 1);
    assert_int_equal(rsend(s.client, "y", 1, 0), 1);
    receive_fully(s.server, got, 1);
    streams_close(&s);
}

/* --- a host that is gone --- */

static bool run(const char *format, int pid)
{
    char command[160];

    snprintf(command, sizeof(command), format, pid);
    return system(command) == 0;
}

static void serve_far(int go, int ready)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    char c;
    int listener;

    here.sin_addr.s_addr = htonl(FAR_ADDRESS);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (unshare(CLONE_NEWNET) != 0 || write(ready, "", 1) != 1 || read(go, &c, 1) != 1 ||
        !run("ip address add 192.0.2.2/24 dev far && ip link set far up", 0))
        _exit(1);
    listener = rsocket(AF_INET, SOCK_STREAM, 0);
    if (rbind(listener, (struct sockaddr *)&here, sizeof(here)) != 0 || rlisten(listener, 4) != 0 ||
        write(ready, "", 1) != 1)
        _exit(1);
    while (raccept(listener, NULL, NULL) >= 0)
        ;
    _exit(1);
}

/* Another network namespace behind a pair of interfaces, before this process uses the library. */
static void make_far_host(void)
{
    int go[2], ready[2];
    char c;

    if (pipe(go) != 0 || pipe(ready) != 0)
        exit(1);
    far_host = fork();
    if (far_host == 0) {
        close(ready[0]);
        serve_far(go[0], ready[1]);
    }
    close(ready[1]);
    far_ready = ready[0];
    if (read(far_ready, &c, 1) != 1 ||
        !run("ip link add near type veth peer name far netns %d", far_host) ||
        !run("ip address add 192.0.2.1/24 dev near && ip link set near up", 0) ||
        write(go[1], "", 1) != 1)
        exit(EXIT_SKIP);
}

static int connect_far(void)
{
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    const int socket = rsocket(AF_INET, SOCK_STREAM, 0);

    there.sin_addr.s_addr = htonl(FAR_ADDRESS);
    assert_int_equal(rconnect(socket, (struct sockaddr *)&there, sizeof(there)), 0);
    set_waiting(socket, false);
    return socket;
}

/* Asked for what is so already, rpoll says it and looks no further: it is not what notices. */
static short known_of(int socket)
{
    struct pollfd p = {.fd = socket, .events = POLLOUT};

    assert_int_equal(rpoll(&p, 1, 0), 1);
    return p.revents;
}

static void a_host_that_is_gone_is_noticed_while_nobody_is_in_a_call(void **state)
{
    const struct linger at_once = {.l_onoff = 1};
    const uint64_t limit = now_ns() + PATIENCE_NS;
    int kept, other;
    char c;

    (void)state;
    assert_int_equal(read(far_ready, &c, 1), 1);
    kept = connect_far();
    other = connect_far();
    assert_int_equal(known_of(kept), POLLOUT);
    keep_alive(kept, 1);
    kill(far_host, SIGKILL);
    assert_int_equal(waitpid(far_host, NULL, 0), far_host);
    while ((known_of(kept) & POLLHUP) == 0) {
        assert_true(now_ns() < limit);
        usleep(50000);
    }
    assert_int_equal(known_of(kept), POLLOUT | POLLERR | POLLHUP);
    assert_int_equal(known_of(other), POLLOUT);
    expect_errno(rrecv(kept, &c, 1, 0), ETIMEDOUT);
    expect_errno(rsend(kept, &c, 1, 0), EPIPE);
    assert_int_equal(rclose(kept), 0);
    assert_int_equal(rsetsockopt(other, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once)), 0);
    assert_int_equal(rclose(other), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idle_peer_is_asked_when_it_is_asked_for_and_nobody_is_in_a_call),
        cmocka_unit_test(it_may_be_set_and_cleared_and_the_stream_closed_at_any_time),
        cmocka_unit_test(a_host_that_is_gone_is_noticed_while_nobody_is_in_a_call),
    };

    enter_namespace();
    make_far_host();
    tap = open_tap("lo");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
