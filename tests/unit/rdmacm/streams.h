/* SPDX-License-Identifier: BSD-2-Clause */
/* What the tests of sockets over RDMA share: a listener, and both ends of a connection. */
#ifndef UROCE_TESTS_UNIT_RDMACM_STREAMS_H
#define UROCE_TESTS_UNIT_RDMACM_STREAMS_H

#include "sides.h"

#include <rdma/rsocket.h>

struct streams {
    int listener;
    int client;
    int server;
};

/* A listener on PORT of 127.0.0.1, as these options of SOL_RDMA say (name -1: none). */
int listen_with(int name, int value);

/* A socket that asks there, and does not wait. */
int ask_listener(void);

/* Both ends; they do not wait. */
void streams_open(struct streams *s);
void streams_close(struct streams *s);

/* Waits for what rpoll says of a socket to have all these events. */
void expect_poll(int socket, short events);

/* What it says now. */
short poll_now(int socket);

/* The result of a call, and the errno behind it. */
#define expect_errno(call, number)                                                                 \
    do {                                                                                           \
        errno = 0;                                                                                 \
        assert_int_equal((call), -1);                                                              \
        assert_int_equal(errno, number);                                                           \
    } while (0)

/* Sends and receives all of it, waiting with rpoll. */
void send_fully(int socket, const void *bytes, size_t len);
void receive_fully(int socket, void *bytes, size_t len);

void set_waiting(int socket, bool waits);

/* A byte of a pattern that has no short period. */
uint8_t pattern(size_t at);

#endif
