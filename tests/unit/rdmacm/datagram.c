/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagram sockets over RDMA: rsocket(7), and what udp(7) says. */
#include "streams.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "rdmacm/datagram_wire.h"

struct two {
    int server;
    int client;
    struct sockaddr_in there; /* the server's */
};

static int setup(void **state)
{
    static struct two t;

    t.there = loopback(PORT);
    t.server = rsocket(AF_INET, SOCK_DGRAM, 0);
    t.client = rsocket(AF_INET, SOCK_DGRAM, 0);
    assert_true(t.server >= 0);
    assert_true(t.client >= 0);
    assert_int_equal(rbind(t.server, (struct sockaddr *)&t.there, sizeof(t.there)), 0);
    set_waiting(t.server, false);
    set_waiting(t.client, false);
    *state = &t;
    return 0;
}

static int teardown(void **state)
{
    struct two *t = *state;

    assert_int_equal(rclose(t->client), 0);
    assert_int_equal(rclose(t->server), 0);
    return 0;
}

static void send_to(int socket, const void *bytes, size_t len, const struct sockaddr_in *to)
{
    assert_int_equal(rsendto(socket, bytes, len, 0, (const struct sockaddr *)to, sizeof(*to)), len);
}

static void expect_from(int socket, const void *bytes, size_t len, struct sockaddr_in *from)
{
    char got[DATAGRAM_LEN_MAX];
    socklen_t from_len = sizeof(*from);

    expect_poll(socket, POLLIN);
    assert_int_equal(rrecvfrom(socket, got, sizeof(got), 0, (struct sockaddr *)from, &from_len),
                     len);
    assert_int_equal(from_len, sizeof(*from));
    assert_memory_equal(got, bytes, len);
}

/* Both know each other's queue pair afterwards. */
static void meet(struct two *t, struct sockaddr_in *client)
{
    struct sockaddr_in from;

    send_to(t->client, "hello", 5, &t->there);
    expect_from(t->server, "hello", 5, client);
    send_to(t->server, "hello, too", 10, client);
    expect_from(t->client, "hello, too", 10, &from);
    assert_memory_equal(&from, &t->there, sizeof(from));
}

static void a_datagram_comes_with_who_sent_it(void **state)
{
    struct two *t = *state;
    struct sockaddr_in client, own;
    socklen_t len = sizeof(own);

    meet(t, &client);
    assert_int_equal(rgetsockname(t->client, (struct sockaddr *)&own, &len), 0);
    assert_int_equal(client.sin_port, own.sin_port);
    assert_int_equal(client.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
}

static void many_arrive_whole_between_queue_pairs(void **state)
{
    struct two *t = *state;
    struct sockaddr_in client, from;
    uint8_t bytes[1000];

    meet(t, &client);
    for (unsigned i = 0; i < 300; i++) {
        memset(bytes, (int)i, sizeof(bytes));
        send_to(t->client, bytes, 1 + i * 3, &t->there);
        expect_from(t->server, bytes, 1 + i * 3, &from);
        assert_memory_equal(&from, &client, sizeof(from));
    }
}

static void an_empty_datagram_is_one(void **state)
{
    struct two *t = *state;
    struct sockaddr_in client, from;
    char c;

    meet(t, &client);
    send_to(t->client, "", 0, &t->there);
    expect_from(t->server, "", 0, &from);
    expect_errno(rrecv(t->server, &c, 1, 0), EAGAIN);
}

static void what_does_not_fit_is_cut_and_said(void **state)
{
    struct two *t = *state;
    struct sockaddr_in client;
    char got[4];
    struct iovec piece = {got, sizeof(got)};
    struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1};

    meet(t, &client);
    for (int i = 0; i < 4; i++)
        send_to(t->client, "0123456789", 10, &t->there);
    expect_poll(t->server, POLLIN);
    assert_int_equal(rrecvmsg(t->server, &m, 0), 4);
    assert_int_equal(m.msg_flags, MSG_TRUNC);
    expect_poll(t->server, POLLIN);
    assert_int_equal(rrecv(t->server, got, 4, MSG_TRUNC), 10);
    expect_poll(t->server, POLLIN);
    assert_int_equal(rrecv(t->server, got, 4, MSG_PEEK), 4);
    assert_int_equal(rrecv(t->server, got, 4, 0), 4);
    assert_memory_equal(got, "0123", 4);
    expect_poll(t->server, POLLIN);
    assert_int_equal(rrecv(t->server, got, 4, 0), 4);
    expect_errno(rrecv(t->server, got, 4, 0), EAGAIN);
}

static void longer_than_a_packet_goes_over_udp_and_longer_yet_not_at_all(void **state)
{
    static uint8_t bytes[DATAGRAM_LEN_MAX + 1];
    struct two *t = *state;
    struct sockaddr_in client, from;
    const size_t most = DATAGRAM_LEN_MAX - 16; /* an IPv4 header of UDP */

    meet(t, &client);
    memset(bytes, 5, sizeof(bytes));
    send_to(t->client, bytes, DATAGRAM_LEN_MAX - DATAGRAM_HEADER_MAX, &t->there);
    expect_from(t->server, bytes, DATAGRAM_LEN_MAX - DATAGRAM_HEADER_MAX, &from);
    assert_int_equal(
        rsendto(t->client, bytes, sizeof(bytes), 0, (struct sockaddr *)&t->there, sizeof(t->there)),
        -1);
    assert_int_equal(errno, EMSGSIZE);
    expect_errno(
        rsendto(t->client, bytes, most + 1, 0, (struct sockaddr *)&t->there, sizeof(t->there)),
        EMSGSIZE);
}

static void one_that_is_connected_hears_its_peer_alone(void **state)
{
    struct two *t = *state;
    struct sockaddr_in client, from, peer;
    socklen_t len = sizeof(peer);
    char c;

    expect_errno(rsend(t->client, "x", 1, 0), EDESTADDRREQ);
    assert_int_equal(rconnect(t->client, (struct sockaddr *)&t->there, sizeof(t->there)), 0);
    assert_int_equal(rgetpeername(t->client, (struct sockaddr *)&peer, &len), 0);
    assert_memory_equal(&peer, &t->there, sizeof(peer));
    assert_int_equal(rsend(t->client, "hello", 5, 0), 5);
    expect_from(t->server, "hello", 5, &client);
    send_to(t->server, "answer", 6, &client);
    expect_from(t->client, "answer", 6, &from);
    /* Another socket, that knows the client's queue pair by asking. */
    {
        int other = rsocket(AF_INET, SOCK_DGRAM, 0);

        send_to(other, "not for you", 11, &client);
        usleep(20000);
        expect_errno(rrecv(t->client, &c, 1, 0), EAGAIN);
        assert_int_equal(rclose(other), 0);
    }
}

static void *send_soon(void *context)
{
    const struct two *t = context;

    usleep(20000);
    send_to(t->client, "x", 1, &t->there);
    return NULL;
}

static void who_waits_is_woken_by_either_way(void **state)
{
    struct two *t = *state;
    struct sockaddr_in client;
    pthread_t sender;
    char c;

    set_waiting(t->server, true);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&sender, NULL, send_soon, t), 0);
        assert_int_equal(rrecv(t->server, &c, 1, 0), 1);
        pthread_join(sender, NULL);
        set_waiting(t->server, true);
        if (i == 0)
            meet(t, &client);
    }
}

static void more_than_there_are_slots_for_is_sent_by_waiting(void **state)
{
    struct two *t = *state;
    struct sockaddr_in client;

    meet(t, &client);
    set_waiting(t->client, true);
    for (int i = 0; i < 1000; i++)
        send_to(t->client, "x", 1, &t->there);
    expect_poll(t->client, POLLOUT);
}

/* --- strangers: what comes over UDP from who is no socket over RDMA --- */

static void strangers_words_are_no_datagrams(void **state)
{
    static const struct {
        size_t at, len;
        uint8_t value;
    } rows[] = {
        {0, 21, 0x54}, {4, 21, 6},  {4, 21, 5},    {5, 21, 1},
        {6, 21, 28},   {6, 21, 15}, {0, 15, 0x55}, {0, 0, 0x55},
    };
    struct two *t = *state;
    struct datagram_udp_header header = {DATAGRAM_DATA, 0x123456, {.family = AF_INET}};
    uint8_t bytes[DATAGRAM_UDP_HEADER_MAX];
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in from;
    char c;

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        datagram_udp_header_write(&header, bytes);
        bytes[rows[i].at] = rows[i].value;
        assert_int_equal(
            sendto(udp, bytes, rows[i].len, 0, (struct sockaddr *)&t->there, sizeof(t->there)),
            rows[i].len);
        expect_errno(rrecv(t->server, &c, 1, 0), EAGAIN);
    }
    /* One of them who has the words right is heard, and told of our queue pair. */
    datagram_udp_header_write(&header, bytes);
    memset(bytes + 16, 'r', 5);
    assert_int_equal(sendto(udp, bytes, 21, 0, (struct sockaddr *)&t->there, sizeof(t->there)), 21);
    expect_from(t->server, "rrrrr", 5, &from);
    assert_int_equal(recv(udp, bytes, sizeof(bytes), 0), 16);
    assert_int_equal(datagram_udp_header_read(bytes, 16, &header), 16);
    assert_int_equal(header.op, DATAGRAM_TELLS);
    assert_int_not_equal(header.qpn, 0);
    close(udp);
}

/* The queue pair that the server tells to who asks over UDP. */
static uint32_t ask_for_qpn(struct two *t, int udp)
{
    struct datagram_udp_header header = {DATAGRAM_DATA, 0x123456, {.family = AF_INET}};
    uint8_t bytes[DATAGRAM_UDP_HEADER_MAX];
    struct sockaddr_in from;

    datagram_udp_header_write(&header, bytes);
    assert_int_equal(sendto(udp, bytes, 16, 0, (struct sockaddr *)&t->there, sizeof(t->there)), 16);
    expect_from(t->server, "", 0, &from);
    assert_int_equal(recv(udp, bytes, sizeof(bytes), 0), 16);
    assert_int_equal(datagram_udp_header_read(bytes, 16, &header), 16);
    return header.qpn;
}

static void send_raw(struct pair *p, uint32_t qpn, const uint8_t *bytes, uint32_t len)
{
    struct ibv_sge sge = sge_of(p, 0, 0, len);
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.ud = {.ah = p->ah, .remote_qpn = qpn, .remote_qkey = RDMA_UDP_QKEY},
    };
    struct ibv_send_wr *bad;

    memcpy(buf_of(p, 0), bytes, len);
    assert_int_equal(ibv_post_send(p->qp[0], &wr, &bad), 0);
    expect_success(p->send_cq);
}

static void what_has_no_header_between_queue_pairs_is_dropped(void **state)
{
    static const struct {
        uint8_t version, len;
        uint32_t sent;
    } rows[] = {{4, 8, 0},   {4, 8, 7},   {4, 24, 30},  {4, 255, 300},
                {6, 24, 23}, {6, 8, 100}, {0, 0, 1000}, {5, 8, 9}};
    struct two *t = *state;
    struct pair p = {.ipv4 = true};
    struct sockaddr_in from;
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    const uint32_t qpn = ask_for_qpn(t, udp);
    uint8_t bytes[1000] = {0};

    pair_setup(&p, IBV_QPT_UD, 0);
    for (int round = 0; round < 20; round++) { /* more of them than it has slots */
        for (size_t i = 0; i < COUNT_OF(rows); i++) {
            bytes[0] = rows[i].version;
            bytes[1] = rows[i].len;
            send_raw(&p, qpn, bytes, rows[i].sent);
        }
        assert_int_equal(poll_now(t->server) & POLLIN, 0);
    }
    bytes[0] = 4;
    bytes[1] = 8;
    bytes[8] = 'x';
    send_raw(&p, qpn, bytes, 9);
    expect_from(t->server, "x", 1, &from);
    pair_close(&p);
    close(udp);
}

static void headers_are_as_the_distributions(void **state)
{
    static const uint8_t udp[] = {0x55, 0x55, 0x55, 0x55, 4,  7, 16, 0,
                                  0,    0x12, 0x34, 0x56, 10, 1, 2,  3};
    static const uint8_t ud[] = {4, 8, 0x1c, 0x06, 10, 1, 2, 3};
    const struct endpoint at = {
        .family = AF_INET, .gid = {{[10] = 0xff, 0xff, 10, 1, 2, 3}}, .port = PORT};
    const struct endpoint at6 = {.family = AF_INET6, .gid = {{0xfd, [15] = 1}}, .port = PORT};
    const struct datagram_udp_header h = {DATAGRAM_TELLS, 0x123456, at};
    uint8_t bytes[DATAGRAM_UDP_HEADER_MAX];
    struct endpoint read;

    (void)state;
    assert_int_equal(datagram_udp_header_write(&h, bytes), sizeof(udp));
    assert_memory_equal(bytes, udp, sizeof(udp));
    assert_int_equal(datagram_header_write(&at, bytes), sizeof(ud));
    assert_memory_equal(bytes, ud, sizeof(ud));
    assert_int_equal(datagram_header_write(&at6, bytes), 24);
    assert_int_equal(datagram_header_read(bytes, 24, &read), 24);
    assert_int_equal(read.family, at6.family);
    assert_memory_equal(&read.gid, &at6.gid, sizeof(read.gid));
    assert_int_equal(read.scope_id, at6.scope_id);
    assert_int_equal(read.port, at6.port);
    assert_int_equal(datagram_header_read(bytes, 23, &read), 0);
    assert_int_equal(datagram_header_read(ud, 7, &read), 0);
}

static void what_streams_do_datagrams_do_not(void **state)
{
    struct two *t = *state;
    int value = 5;

    expect_errno(rlisten(t->server, 1), EOPNOTSUPP);
    expect_errno(raccept(t->server, NULL, NULL), EOPNOTSUPP);
    expect_errno(rsetsockopt(t->server, SOL_RDMA, RDMA_IOMAPSIZE, &value, sizeof(value)),
                 ENOPROTOOPT);
    assert_int_equal(rsetsockopt(t->server, SOL_RDMA, RDMA_SQSIZE, &value, sizeof(value)), 0);
    expect_errno(riomap(t->server, &value, sizeof(value), 0, 0, -1), EOPNOTSUPP);
    expect_errno(rshutdown(t->server, SHUT_RD), ENOTCONN);
}

static uint64_t now_us(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* socket(7). A busy machine may be late, and is never early. */
static void who_waits_with_a_limit_waits_so_long(void **state)
{
    struct two *t = *state;
    const struct timeval most = {.tv_usec = 20000};
    const uint64_t before = now_us();
    struct timeval got = {0};
    socklen_t len = sizeof(got);
    struct sockaddr_in client;
    char byte;

    set_waiting(t->server, true);
    assert_int_equal(rsetsockopt(t->server, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most)), 0);
    assert_int_equal(rgetsockopt(t->server, SOL_SOCKET, SO_RCVTIMEO, &got, &len), 0);
    assert_in_range(got.tv_usec, 20000, 30000); /* whole ticks of the kernel's */
    expect_errno(rrecv(t->server, &byte, 1, 0), EAGAIN);
    assert_true(now_us() - before >= 20000);
    expect_errno(rrecv(t->server, &byte, 1, MSG_DONTWAIT), EAGAIN);
    meet(t, &client);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_datagram_comes_with_who_sent_it),
        CASE(many_arrive_whole_between_queue_pairs),
        CASE(an_empty_datagram_is_one),
        CASE(what_does_not_fit_is_cut_and_said),
        CASE(longer_than_a_packet_goes_over_udp_and_longer_yet_not_at_all),
        CASE(one_that_is_connected_hears_its_peer_alone),
        CASE(who_waits_is_woken_by_either_way),
        CASE(more_than_there_are_slots_for_is_sent_by_waiting),
        CASE(strangers_words_are_no_datagrams),
        CASE(what_has_no_header_between_queue_pairs_is_dropped),
        CASE(headers_are_as_the_distributions),
        CASE(what_streams_do_datagrams_do_not),
        CASE(who_waits_with_a_limit_waits_so_long),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
