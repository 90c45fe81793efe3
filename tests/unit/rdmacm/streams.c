/* SPDX-License-Identifier: BSD-2-Clause */
#include "streams.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

uint8_t pattern(size_t at)
{
    return (uint8_t)(at * 7 + at / 251 + at / 65521);
}

void set_waiting(int socket, bool waits)
{
    assert_int_equal(rfcntl(socket, F_SETFL, waits ? 0 : O_NONBLOCK), 0);
}

int listen_with(int name, int value)
{
    const struct sockaddr_in here = loopback(PORT);
    const int on = 1;
    int listener = rsocket(AF_INET, SOCK_STREAM, 0);

    assert_true(listener >= 0);
    assert_int_equal(rsetsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
    if (name >= 0)
        assert_int_equal(rsetsockopt(listener, SOL_RDMA, name, &value, sizeof(value)), 0);
    assert_int_equal(rbind(listener, (const struct sockaddr *)&here, sizeof(here)), 0);
    assert_int_equal(rlisten(listener, 16), 0);
    set_waiting(listener, false);
    return listener;
}

int ask_listener(void)
{
    const struct sockaddr_in there = loopback(PORT);
    int client = rsocket(AF_INET, SOCK_STREAM, 0);

    assert_true(client >= 0);
    set_waiting(client, false);
    expect_errno(rconnect(client, (const struct sockaddr *)&there, sizeof(there)), EINPROGRESS);
    return client;
}

void expect_poll(int socket, short events)
{
    for (int tries = 0; tries < 100; tries++) {
        struct pollfd p = {.fd = socket, .events = events};

        assert_in_range(rpoll(&p, 1, WAIT_MS), 1, 1);
        if ((p.revents & events) == events)
            return;
    }
    fail();
}

short poll_now(int socket)
{
    struct pollfd p = {.fd = socket, .events = POLLIN | POLLOUT};

    rpoll(&p, 1, 0);
    return p.revents;
}

void streams_open(struct streams *s)
{
    s->listener = listen_with(-1, 0);
    s->client = ask_listener();
    expect_poll(s->listener, POLLIN);
    s->server = raccept(s->listener, NULL, NULL);
    assert_true(s->server >= 0);
    set_waiting(s->server, false);
    expect_poll(s->client, POLLOUT);
    expect_poll(s->server, POLLOUT);
}

static void close_one(int *socket)
{
    if (*socket >= 0)
        assert_int_equal(rclose(*socket), 0);
    *socket = -1;
}

void streams_close(struct streams *s)
{
    close_one(&s->client);
    close_one(&s->server);
    close_one(&s->listener);
}

void send_fully(int socket, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;

    while (len > 0) {
        const ssize_t sent = rsend(socket, at, len, 0);

        if (sent < 0) {
            assert_int_equal(errno, EAGAIN);
            expect_poll(socket, POLLOUT);
            continue;
        }
        at += sent;
        len -= (size_t)sent;
    }
}

void receive_fully(int socket, void *bytes, size_t len)
{
    uint8_t *at = bytes;

    while (len > 0) {
        const ssize_t got = rrecv(socket, at, len, 0);

        if (got < 0) {
            assert_int_equal(errno, EAGAIN);
            expect_poll(socket, POLLIN);
            continue;
        }
        assert_true(got > 0);
        at += got;
        len -= (size_t)got;
    }
}
