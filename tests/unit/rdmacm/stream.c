/* SPDX-License-Identifier: BSD-2-Clause */
/* Streams over RDMA, both ends in one process or in two: rsocket(7), and what it says TCP does. */
#include "streams.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LONG 1000000u

static int setup(void **state)
{
    static struct streams s;

    streams_open(&s);
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    streams_close(*state);
    return 0;
}

/* --- data --- */

static void *send_long(void *socket)
{
    static uint8_t bytes[LONG];
    size_t at = 0;

    for (size_t i = 0; i < LONG; i++)
        bytes[i] = pattern(i);
    for (size_t len = 1; at < LONG; len = len * 3 % 70001 + 1) {
        const size_t now = len < LONG - at ? len : LONG - at;

        send_fully(*(int *)socket, bytes + at, now);
        at += now;
    }
    return NULL;
}

static void more_than_the_buffers_hold_arrives_in_order(void **state)
{
    struct streams *s = *state;
    static uint8_t got[LONG];
    pthread_t sender;

    assert_int_equal(pthread_create(&sender, NULL, send_long, &s->client), 0);
    receive_fully(s->server, got, LONG);
    pthread_join(sender, NULL);
    for (size_t i = 0; i < LONG; i++)
        assert_int_equal(got[i], pattern(i));
}

static void a_full_stream_takes_no_more_until_the_peer_reads(void **state)
{
    static uint8_t bytes[65536];
    struct streams *s = *state;
    size_t sent = 0, got = 0;
    ssize_t now;

    while ((now = rsend(s->client, bytes, sizeof(bytes), 0)) > 0 || (poll_now(s->client) & POLLOUT))
        sent += now > 0 ? (size_t)now : 0;
    assert_int_equal(errno, EAGAIN);
    assert_true(sent >= 131072); /* the peer's buffer at least */
    assert_true(sent <= 262144);
    while (got < sent) {
        now = rrecv(s->server, bytes, sizeof(bytes), 0);
        got += now > 0 ? (size_t)now : 0;
    }
    expect_poll(s->client, POLLOUT);
    assert_int_equal(rrecv(s->server, bytes, 1, 0), -1);
}

static void nothing_to_read_is_said_to_who_does_not_wait(void **state)
{
    struct streams *s = *state;
    char c;

    expect_errno(rrecv(s->server, &c, 1, 0), EAGAIN);
    set_waiting(s->server, true);
    expect_errno(rrecv(s->server, &c, 1, MSG_DONTWAIT), EAGAIN);
}

static void peeking_takes_nothing(void **state)
{
    struct streams *s = *state;
    char got[8];

    assert_int_equal(rsend(s->client, "abcdef", 6, 0), 6);
    expect_poll(s->server, POLLIN);
    assert_int_equal(rrecv(s->server, got, 4, MSG_PEEK), 4);
    assert_memory_equal(got, "abcd", 4);
    assert_int_equal(rrecv(s->server, got, 8, MSG_PEEK), 6);
    assert_int_equal(rrecv(s->server, got, 8, 0), 6);
    assert_memory_equal(got, "abcdef", 6);
    expect_errno(rrecv(s->server, got, 8, 0), EAGAIN);
}

static void nothing_can_be_sent_and_received_and_means_nothing(void **state)
{
    struct streams *s = *state;
    char c;

    assert_int_equal(rsend(s->client, "", 0, 0), 0);
    assert_int_equal(rrecv(s->server, &c, 0, 0), 0);
    expect_errno(rrecv(s->server, &c, 1, 0), EAGAIN);
    assert_int_equal(rsend(s->client, "x", 1, 0), 1);
    expect_poll(s->server, POLLIN);
    assert_int_equal(rrecv(s->server, &c, 1, 0), 1);
}

static void bytes_in_pieces_are_one_stream(void **state)
{
    struct streams *s = *state;
    char a[3], b[4] = "";
    struct iovec out[] = {{"one", 3}, {"", 0}, {"two!", 4}};
    struct iovec in[] = {{a, sizeof(a)}, {b, sizeof(b)}};
    struct sockaddr_in from;
    struct msghdr m = {
        .msg_iov = in, .msg_iovlen = 2, .msg_name = &from, .msg_namelen = sizeof(from)};

    assert_int_equal(rwritev(s->client, out, 3), 7);
    expect_poll(s->server, POLLIN);
    assert_int_equal(rrecvmsg(s->server, &m, MSG_WAITALL), 7);
    assert_memory_equal(a, "one", 3);
    assert_memory_equal(b, "two!", 4);
    assert_int_equal(m.msg_flags, 0);
    assert_int_equal(from.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    m = (struct msghdr){.msg_iov = out, .msg_iovlen = 3};
    assert_int_equal(rsendmsg(s->server, &m, 0), 7);
    expect_poll(s->client, POLLIN);
    assert_int_equal(rreadv(s->client, in, 2), 7);
    assert_memory_equal(b, "two!", 4);
}

static void waiting_for_all_gets_all(void **state)
{
    struct streams *s = *state;
    static uint8_t got[LONG];
    pthread_t sender;

    set_waiting(s->server, true);
    assert_int_equal(pthread_create(&sender, NULL, send_long, &s->client), 0);
    assert_int_equal(rrecv(s->server, got, LONG, MSG_WAITALL), LONG);
    pthread_join(sender, NULL);
    assert_int_equal(got[LONG - 1], pattern(LONG - 1));
}

/* --- the end --- */

static void half_a_connection_may_be_closed(void **state)
{
    struct streams *s = *state;
    char got[8];

    assert_int_equal(rsend(s->client, "last", 4, 0), 4);
    assert_int_equal(rshutdown(s->client, SHUT_WR), 0);
    expect_errno(rsend(s->client, "x", 1, 0), EPIPE);
    receive_fully(s->server, got, 4);
    expect_poll(s->server, POLLIN | POLLRDHUP);
    assert_int_equal(rrecv(s->server, got, 1, 0), 0);
    assert_int_equal(rrecv(s->server, got, 1, 0), 0);
    assert_int_equal(rsend(s->server, "answer", 6, 0), 6);
    receive_fully(s->client, got, 6);
    assert_memory_equal(got, "answer", 6);
    assert_int_equal(rshutdown(s->server, SHUT_WR), 0);
    expect_poll(s->client, POLLIN | POLLHUP);
    assert_int_equal(rrecv(s->client, got, 1, 0), 0);
    assert_true((poll_now(s->server) & POLLHUP) != 0);
}

static void what_was_sent_before_closing_is_read_before_the_end(void **state)
{
    struct streams *s = *state;
    static uint8_t bytes[100000];

    send_fully(s->client, bytes, sizeof(bytes));
    assert_int_equal(rclose(s->client), 0);
    s->client = -1;
    receive_fully(s->server, bytes, sizeof(bytes));
    assert_int_equal(rrecv(s->server, bytes, 1, 0), 0);
    expect_errno(rsend(s->server, bytes, 1, 0), ECONNRESET);
}

static void who_shuts_reading_gets_nothing_and_hinders_nobody(void **state)
{
    static uint8_t bytes[65536];
    struct streams *s = *state;
    size_t sent = 0;
    char c;

    assert_int_equal(rshutdown(s->server, SHUT_RD), 0);
    assert_int_equal(rrecv(s->server, &c, 1, 0), 0);
    while (sent < LONG) {
        /* Whoever is within a call, as with all of rsocket, throws away what has come. */
        struct pollfd p[] = {{s->client, POLLOUT, 0}, {s->server, 0, 0}};
        ssize_t now;

        assert_int_equal(rpoll(p, 2, WAIT_MS), 1);
        now = rsend(s->client, bytes, sizeof(bytes), 0);
        sent += now > 0 ? (size_t)now : 0;
    }
    assert_int_equal(rrecv(s->server, &c, 1, 0), 0);
    assert_int_equal(rsend(s->server, "x", 1, 0), 1);
    receive_fully(s->client, &c, 1);
}

struct reader {
    pthread_t thread;
    _Atomic pid_t tid; /* 0: not there yet */
    int socket;
};

static void *read_one(void *context)
{
    struct reader *r = context;
    char c;

    atomic_store(&r->tid, gettid());
    return (void *)(intptr_t)rrecv(r->socket, &c, 1, 0);
}

static void await_sleep(struct reader *r)
{
    char path[64], state = 'R';

    while (atomic_load(&r->tid) == 0)
        usleep(1000);
    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", atomic_load(&r->tid));
    while (state != 'S') {
        FILE *f = fopen(path, "r");

        assert_non_null(f);
        assert_int_equal(fscanf(f, "%*d (%*[^)]) %c", &state), 1);
        fclose(f);
        usleep(1000);
    }
}

static void shutting_down_wakes_who_reads(void **state)
{
    struct streams *s = *state;
    struct reader reader = {.socket = s->server};
    void *result;

    set_waiting(s->server, true);
    assert_int_equal(pthread_create(&reader.thread, NULL, read_one, &reader), 0);
    await_sleep(&reader);
    assert_int_equal(rshutdown(s->server, SHUT_RDWR), 0);
    assert_int_equal(rclose(s->server), 0); /* the reader may still be on its way out */
    pthread_join(reader.thread, &result);
    assert_int_equal((intptr_t)result, 0);
    s->server = -1;
}

static void a_descriptor_that_was_closed_is_none(void **state)
{
    struct streams *s = *state;
    const int closed = s->client;
    struct pollfd p = {.fd = 999999, .events = POLLIN};
    char c;

    assert_int_equal(rclose(closed), 0);
    s->client = -1;
    expect_errno(rclose(closed), EBADF);
    expect_errno(rrecv(closed, &c, 1, 0), EBADF);
    expect_errno(rsend(999999, &c, 1, 0), EBADF);
    assert_int_equal(rpoll(&p, 1, 0), 1);
    assert_int_equal(p.revents, POLLNVAL);
}

/* --- other processes --- */

/* A child that connects, tells its process ID and then does what it is told. */
static pid_t start_peer(void (*then)(int socket))
{
    const struct sockaddr_in there = loopback(PORT);
    const pid_t pid = fork();
    int socket;

    if (pid != 0)
        return pid;
    socket = rsocket(AF_INET, SOCK_STREAM, 0);
    if (rconnect(socket, (const struct sockaddr *)&there, sizeof(there)) == 0)
        then(socket);
    _exit(1);
}

static int accept_peer(int listener)
{
    int socket;

    expect_poll(listener, POLLIN);
    socket = raccept(listener, NULL, NULL);
    assert_true(socket >= 0);
    return socket;
}

static void wait_for_death(int socket)
{
    (void)socket;
    for (;;)
        pause();
}

static void answer_each(int socket)
{
    char c;

    while (rrecv(socket, &c, 1, 0) == 1 && rsend(socket, &c, 1, 0) == 1)
        ;
}

/* Nothing is on its way afterwards, not even an acknowledgement. */
static void expect_answer(int socket)
{
    char c = 0;

    assert_int_equal(rsend(socket, "x", 1, 0), 1);
    receive_fully(socket, &c, 1);
    assert_int_equal(c, 'x');
}

/* Longer than its queue pair would be asked in vain. */
static void one_that_is_stopped_is_waited_for(int socket, pid_t pid)
{
    struct pollfd p = {socket, POLLIN, 0};

    assert_int_equal(rpoll(&p, 1, 3000), 0);
    kill(pid, SIGCONT);
    expect_answer(socket);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(rclose(socket), 0);
}

static void
a_peer_that_is_killed_is_noticed_by_who_waits_and_one_that_is_stopped_lives(void **state)
{
    struct streams *s = *state;
    const pid_t stopped_pid = start_peer(answer_each);
    const int stopped = accept_peer(s->listener);
    const pid_t pid = start_peer(wait_for_death);
    const int socket = accept_peer(s->listener);
    struct pollfd p[] = {{socket, POLLIN, 0}, {stopped, POLLIN, 0}};
    char c;

    expect_poll(socket, POLLOUT);
    expect_answer(stopped);
    kill(stopped_pid, SIGSTOP);
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(rpoll(p, 2, -1), 1);
    assert_int_equal(p[1].revents, 0);
    set_waiting(socket, true);
    assert_int_equal(rrecv(socket, &c, 1, 0), -1);
    assert_true(errno == ECONNRESET || errno == ETIMEDOUT);
    assert_true((poll_now(socket) & POLLHUP) != 0);
    assert_int_equal(rrecv(socket, &c, 1, 0), 0);
    assert_int_equal(rclose(socket), 0);
    one_that_is_stopped_is_waited_for(stopped, stopped_pid);
}

static void say_and_end(int socket)
{
    if (rsend(socket, "done", 4, 0) == 4)
        exit(0);
}

static void a_process_that_ends_without_closing_ends_its_streams(void **state)
{
    struct streams *s = *state;
    const pid_t pid = start_peer(say_and_end);
    const int socket = accept_peer(s->listener);
    char got[4];
    int status;

    set_waiting(socket, true);
    assert_int_equal(rrecv(socket, got, 4, MSG_WAITALL), 4);
    assert_int_equal(rrecv(socket, got, 1, 0), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(rclose(socket), 0);
}

static void a_child_can_only_close_what_its_parent_had(void **state)
{
    struct streams *s = *state;
    const pid_t pid = fork();
    int status;
    char c;

    if (pid == 0) {
        const bool refused = rrecv(s->client, &c, 1, 0) == -1 && errno == EIO;

        _exit(refused && rclose(s->client) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(rsend(s->client, "still", 5, 0), 5);
    expect_poll(s->server, POLLIN);
}

/* --- connecting --- */

static void nobody_at_a_port_is_said_once(void **state)
{
    const struct sockaddr_in nobody = loopback(PORT + 1);
    int socket = rsocket(AF_INET, SOCK_STREAM, 0);
    int error = 0;
    socklen_t len = sizeof(error);

    (void)state;
    set_waiting(socket, false);
    expect_errno(rconnect(socket, (const struct sockaddr *)&nobody, sizeof(nobody)), EINPROGRESS);
    expect_errno(rconnect(socket, (const struct sockaddr *)&nobody, sizeof(nobody)), EALREADY);
    expect_poll(socket, POLLOUT | POLLERR | POLLHUP);
    assert_int_equal(rgetsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &len), 0);
    assert_int_equal(error, ECONNREFUSED);
    assert_int_equal(rgetsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &len), 0);
    assert_int_equal(error, 0);
    assert_int_equal(rclose(socket), 0);
    socket = rsocket(AF_INET, SOCK_STREAM, 0);
    expect_errno(rconnect(socket, (const struct sockaddr *)&nobody, sizeof(nobody)), ECONNREFUSED);
    assert_int_equal(rclose(socket), 0);
}

static void an_address_that_no_interface_reaches_is_an_error_at_once(void **state)
{
    struct sockaddr_in far = loopback(PORT);
    int socket = rsocket(AF_INET, SOCK_STREAM, 0);

    (void)state;
    far.sin_addr.s_addr = htonl(0x0a000001);
    expect_errno(rconnect(socket, (const struct sockaddr *)&far, sizeof(far)), ENETUNREACH);
    assert_int_equal(rclose(socket), 0);
}

static void names_are_those_of_both_ends(void **state)
{
    struct streams *s = *state;
    struct sockaddr_in client, server;
    socklen_t len = sizeof(client);

    assert_int_equal(rgetpeername(s->server, (struct sockaddr *)&server, &len), 0);
    assert_int_equal(rgetsockname(s->client, (struct sockaddr *)&client, &len), 0);
    assert_int_equal(len, sizeof(client));
    assert_memory_equal(&client, &server, sizeof(client));
    assert_int_equal(rgetpeername(s->client, (struct sockaddr *)&server, &len), 0);
    assert_int_equal(ntohs(server.sin_port), PORT);
    expect_errno(rgetpeername(s->listener, (struct sockaddr *)&server, &len), ENOTCONN);
}

static void a_port_is_one_listeners(void **state)
{
    const struct sockaddr_in here = loopback(PORT);
    int other = rsocket(AF_INET, SOCK_STREAM, 0);

    (void)state;
    expect_errno(rbind(other, (const struct sockaddr *)&here, sizeof(here)), EADDRINUSE);
    assert_int_equal(rclose(other), 0);
}

static void kinds_of_socket_that_there_are_not_are_refused(void **state)
{
    (void)state;
    expect_errno(rsocket(AF_UNIX, SOCK_STREAM, 0), EAFNOSUPPORT);
    expect_errno(rsocket(AF_INET, SOCK_RAW, 0), EPROTOTYPE);
    expect_errno(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), EPROTONOSUPPORT);
}

/* --- options --- */

static int option(int socket, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof(value);

    assert_int_equal(rgetsockopt(socket, level, name, &value, &len), 0);
    assert_int_equal(len, sizeof(value));
    return value;
}

static int set(int socket, int level, int name, int value)
{
    return rsetsockopt(socket, level, name, &value, sizeof(value));
}

static void options_are_kept_and_sizes_are_fixed_once_connected(void **state)
{
    const struct linger asked = {.l_onoff = 1, .l_linger = 3};
    struct linger linger = {0};
    socklen_t len = sizeof(linger);
    struct streams *s = *state;
    int socket = rsocket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(set(socket, SOL_RDMA, RDMA_SQSIZE, 100), 0);
    assert_int_equal(option(socket, SOL_RDMA, RDMA_SQSIZE), 100);
    assert_int_equal(set(socket, SOL_RDMA, RDMA_IOMAPSIZE, 300), 0);
    assert_int_equal(option(socket, SOL_RDMA, RDMA_IOMAPSIZE), 256); /* in steps of 256 */
    assert_int_equal(set(socket, SOL_SOCKET, SO_RCVBUF, 50000), 0);
    assert_int_equal(option(socket, SOL_SOCKET, SO_RCVBUF), 100000); /* as with the kernel's */
    assert_int_equal(set(socket, IPPROTO_TCP, TCP_NODELAY, 1), 0);
    assert_int_equal(option(socket, IPPROTO_TCP, TCP_NODELAY), 1);
    assert_int_equal(option(socket, SOL_SOCKET, SO_KEEPALIVE), 0);
    assert_int_equal(set(socket, SOL_SOCKET, SO_KEEPALIVE, 1), 0);
    assert_int_equal(option(socket, SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_int_equal(option(socket, IPPROTO_TCP, TCP_KEEPIDLE), 7200);
    assert_int_equal(set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 20), 0);
    assert_int_equal(option(socket, IPPROTO_TCP, TCP_KEEPIDLE), 20);
    expect_errno(set(socket, IPPROTO_TCP, TCP_KEEPIDLE, 0), EINVAL);
    assert_int_equal(set(socket, IPPROTO_IP, IP_TOS, 0x68), 0);
    assert_int_equal(option(socket, IPPROTO_IP, IP_TOS), 0x68);
    assert_int_equal(rsetsockopt(socket, SOL_SOCKET, SO_LINGER, &asked, sizeof(asked)), 0);
    assert_int_equal(rgetsockopt(socket, SOL_SOCKET, SO_LINGER, &linger, &len), 0);
    assert_int_equal(linger.l_onoff, 1);
    assert_int_equal(linger.l_linger, 3);
    assert_int_equal(option(socket, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
    expect_errno(set(socket, SOL_SOCKET, 12345, 1), ENOPROTOOPT);
    expect_errno(set(socket, 12345, 1, 1), ENOPROTOOPT);
    assert_int_equal(rclose(socket), 0);
    expect_errno(set(s->client, SOL_RDMA, RDMA_SQSIZE, 100), EINVAL);
    assert_int_equal(option(s->listener, SOL_SOCKET, SO_ACCEPTCONN), 1);
    assert_int_equal(option(s->client, SOL_SOCKET, SO_ACCEPTCONN), 0);
}

static void small_buffers_and_queues_do(void **state)
{
    static const uint8_t zeros[20000];
    static uint8_t got[sizeof(zeros)];
    const struct sockaddr_in there = loopback(PORT);
    struct streams *s = *state;
    int socket = rsocket(AF_INET, SOCK_STREAM, 0);
    int server;

    memset(got, 1, sizeof(got));
    assert_int_equal(set(socket, SOL_RDMA, RDMA_SQSIZE, 0), 0);
    assert_int_equal(set(socket, SOL_RDMA, RDMA_RQSIZE, 1), 0);
    assert_int_equal(set(socket, SOL_RDMA, RDMA_INLINE, 0), 0);
    assert_int_equal(set(socket, SOL_SOCKET, SO_RCVBUF, 1), 0);
    assert_int_equal(set(socket, SOL_SOCKET, SO_SNDBUF, 1), 0);
    set_waiting(socket, false);
    expect_errno(rconnect(socket, (const struct sockaddr *)&there, sizeof(there)), EINPROGRESS);
    server = accept_peer(s->listener);
    expect_poll(socket, POLLOUT);
    for (size_t at = 0; at < sizeof(zeros); at += 500) {
        send_fully(socket, zeros, 500);
        receive_fully(server, got + at, 500);
        send_fully(server, zeros, 500);
        receive_fully(socket, got + at, 500);
    }
    assert_memory_equal(got, zeros, sizeof(zeros));
    assert_int_equal(rclose(socket), 0);
    assert_int_equal(rclose(server), 0);
}

/* --- many --- */

#define BLOCK 5000u
#define BLOCKS 60u

static void *send_blocks(void *context)
{
    const int *socket = context;
    uint8_t block[BLOCK];

    memset(block, (int)(uintptr_t)pthread_self() >> 12, sizeof(block));
    for (unsigned i = 0; i < BLOCKS; i++)
        assert_int_equal(rsend(*socket, block, sizeof(block), 0), BLOCK);
    return NULL;
}

static void what_two_threads_send_is_not_mixed(void **state)
{
    struct streams *s = *state;
    uint8_t block[BLOCK];
    pthread_t senders[2];

    set_waiting(s->client, true);
    set_waiting(s->server, true);
    for (size_t i = 0; i < COUNT_OF(senders); i++)
        assert_int_equal(pthread_create(&senders[i], NULL, send_blocks, &s->client), 0);
    for (unsigned i = 0; i < BLOCKS * COUNT_OF(senders); i++) {
        assert_int_equal(rrecv(s->server, block, sizeof(block), MSG_WAITALL), BLOCK);
        assert_memory_equal(block, block + 1, BLOCK - 1); /* all of one value */
    }
    for (size_t i = 0; i < COUNT_OF(senders); i++)
        pthread_join(senders[i], NULL);
}

static void *echo(void *context)
{
    const int *socket = context;
    uint8_t bytes[3000];
    ssize_t got;

    while ((got = rrecv(*socket, bytes, sizeof(bytes), 0)) > 0)
        assert_int_equal(rsend(*socket, bytes, (size_t)got, 0), got);
    assert_int_equal(got, 0);
    return NULL;
}

static void threads_send_and_receive_at_a_time_on_both_ends(void **state)
{
    static uint8_t got[LONG];
    struct streams *s = *state;
    pthread_t sender, echoer;

    set_waiting(s->client, true);
    set_waiting(s->server, true);
    assert_int_equal(pthread_create(&echoer, NULL, echo, &s->server), 0);
    assert_int_equal(pthread_create(&sender, NULL, send_long, &s->client), 0);
    assert_int_equal(rrecv(s->client, got, LONG, MSG_WAITALL), LONG);
    pthread_join(sender, NULL);
    assert_int_equal(rshutdown(s->client, SHUT_WR), 0);
    pthread_join(echoer, NULL);
    for (size_t i = 0; i < LONG; i++)
        assert_int_equal(got[i], pattern(i));
}

static unsigned count_descriptors(void)
{
    DIR *all = opendir("/proc/self/fd");
    unsigned count = 0;

    while (readdir(all) != NULL)
        count++;
    closedir(all);
    return count;
}

#define MANY 40

static void many_connections_come_and_go_and_leave_nothing(void **state)
{
    struct streams *s = *state;
    const unsigned before = count_descriptors();
    int clients[MANY], servers[MANY];
    char c;

    for (int i = 0; i < MANY; i++) {
        clients[i] = ask_listener();
        servers[i] = accept_peer(s->listener);
    }
    for (int i = 0; i < MANY; i++) {
        c = (char)i;
        expect_poll(clients[i], POLLOUT);
        assert_int_equal(rsend(clients[i], &c, 1, 0), 1);
    }
    for (int i = 0; i < MANY; i++) {
        receive_fully(servers[i], &c, 1);
        assert_int_equal(c, i);
        assert_int_equal(rclose(i % 2 == 0 ? clients[i] : servers[i]), 0);
        assert_int_equal(rclose(i % 2 == 0 ? servers[i] : clients[i]), 0);
    }
    assert_int_equal(count_descriptors(), before);
}

#define LOWEST 4

/* The numbers that the next descriptors get. */
static void find_lowest(int numbers[LOWEST])
{
    for (int i = 0; i < LOWEST; i++)
        numbers[i] = dup(STDERR_FILENO);
    for (int i = 0; i < LOWEST; i++)
        assert_int_equal(close(numbers[i]), 0);
}

static void of_all_that_a_socket_needs_only_itself_takes_a_low_number(void **state)
{
    struct streams *s = *state;
    const struct sockaddr_in there = loopback(PORT);
    int free_before[LOWEST], free_now[LOWEST];
    int client, server, datagrams;

    find_lowest(free_before);
    client = ask_listener();
    assert_int_equal(client, free_before[0]);
    expect_poll(s->listener, POLLIN);
    find_lowest(free_now);
    assert_int_equal(free_now[0], free_before[1]); /* the connection that waits has none yet */
    server = accept_peer(s->listener);
    assert_int_equal(server, free_before[1]);
    expect_poll(client, POLLOUT);
    datagrams = rsocket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(datagrams, free_before[2]);
    assert_int_equal(rsendto(datagrams, "", 1, 0, (const struct sockaddr *)&there, sizeof(there)),
                     1);
    find_lowest(free_now);
    assert_int_equal(free_now[0], free_before[3]);
    assert_int_equal(rclose(datagrams), 0);
    assert_int_equal(rclose(client), 0);
    assert_int_equal(rclose(server), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(more_than_the_buffers_hold_arrives_in_order),
        CASE(a_full_stream_takes_no_more_until_the_peer_reads),
        CASE(nothing_to_read_is_said_to_who_does_not_wait),
        CASE(peeking_takes_nothing),
        CASE(nothing_can_be_sent_and_received_and_means_nothing),
        CASE(bytes_in_pieces_are_one_stream),
        CASE(waiting_for_all_gets_all),
        CASE(half_a_connection_may_be_closed),
        CASE(what_was_sent_before_closing_is_read_before_the_end),
        CASE(who_shuts_reading_gets_nothing_and_hinders_nobody),
        CASE(shutting_down_wakes_who_reads),
        CASE(a_descriptor_that_was_closed_is_none),
        CASE(a_peer_that_is_killed_is_noticed_by_who_waits_and_one_that_is_stopped_lives),
        CASE(a_process_that_ends_without_closing_ends_its_streams),
        CASE(a_child_can_only_close_what_its_parent_had),
        CASE(nobody_at_a_port_is_said_once),
        CASE(an_address_that_no_interface_reaches_is_an_error_at_once),
        CASE(names_are_those_of_both_ends),
        CASE(a_port_is_one_listeners),
        CASE(kinds_of_socket_that_there_are_not_are_refused),
        CASE(options_are_kept_and_sizes_are_fixed_once_connected),
        CASE(small_buffers_and_queues_do),
        CASE(what_two_threads_send_is_not_mixed),
        CASE(threads_send_and_receive_at_a_time_on_both_ends),
        CASE(many_connections_come_and_go_and_leave_nothing),
        CASE(of_all_that_a_socket_needs_only_itself_takes_a_low_number),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
