/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that says what no peer says: its own queue pair in the place of a stream. Whatever it
 * says, the socket at the other end lives, and what it hands out was written.
 */
#include "streams.h"

#include <errno.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/stream_wire.h"

/* One that speaks for itself. */
struct peer {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_mr *region;
    uint8_t memory[4096]; /* window first, then buffer */
    struct stream_hello heard;
    int listener;
    int socket; /* the victim, or -1 */
};

static struct stream_hello usual_hello(const struct peer *p)
{
    return (struct stream_hello){
        .has_maps = true,
        .credits = 100,
        .maps = 2,
        .window = {(uintptr_t)p->memory, p->region->rkey, STREAM_WINDOW_RANGES},
        .buffer = {(uintptr_t)p->memory + 1024, p->region->rkey, 2048},
    };
}

static void post_receives(struct peer *p)
{
    struct ibv_recv_wr wr = {0}, *bad;

    for (int i = 0; i < 64; i++)
        assert_int_equal(ibv_post_recv(p->id->qp, &wr, &bad), 0);
}

static void peer_open(struct peer *p)
{
    struct sockaddr_in there = loopback(PORT);
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = 64, .max_recv_wr = 64, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
    };

    memset(p, 0, sizeof(*p));
    p->socket = -1;
    p->listener = listen_with(RDMA_IOMAPSIZE, 4);
    p->channel = rdma_create_event_channel();
    assert_int_equal(rdma_create_id(p->channel, &p->id, p, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(p->id, NULL, (struct sockaddr *)&there, 1000), 0);
    expect_and_ack(p->channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    assert_int_equal(rdma_resolve_route(p->id, 1000), 0);
    expect_and_ack(p->channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    assert_int_equal(rdma_create_qp(p->id, NULL, &attr), 0);
    p->region = ibv_reg_mr(p->id->pd, p->memory, sizeof(p->memory),
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    assert_non_null(p->region);
    post_receives(p);
}

static void peer_close(struct peer *p)
{
    if (p->socket >= 0)
        assert_int_equal(rclose(p->socket), 0);
    rdma_disconnect(p->id);
    rdma_destroy_qp(p->id);
    ibv_dereg_mr(p->region);
    rdma_destroy_id(p->id);
    rdma_destroy_event_channel(p->channel);
    assert_int_equal(rclose(p->listener), 0);
}

static void ask_with(struct peer *p, const uint8_t *bytes, size_t len)
{
    struct rdma_conn_param param = {
        .private_data = bytes,
        .private_data_len = (uint8_t)len,
        .retry_count = 7,
        .rnr_retry_count = 7,
    };

    assert_int_equal(rdma_connect(p->id, &param), 0);
}

static void establish_with(struct peer *p, const struct stream_hello *hello)
{
    uint8_t bytes[STREAM_HELLO_LEN];
    struct rdma_cm_event *event;

    stream_hello_write(hello, bytes);
    ask_with(p, bytes, sizeof(bytes));
    expect_poll(p->listener, POLLIN);
    p->socket = raccept(p->listener, NULL, NULL);
    assert_true(p->socket >= 0);
    set_waiting(p->socket, false);
    event = expect_event(p->channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    assert_true(stream_hello_read(event->param.conn.private_data,
                                  event->param.conn.private_data_len, &p->heard));
    rdma_ack_cm_event(event);
}

static void establish_as_usual(struct peer *p)
{
    const struct stream_hello hello = usual_hello(p);

    establish_with(p, &hello);
}

/* A write of so many bytes with this message, or of none. */
static void say(struct peer *p, uint32_t immediate, uint32_t len, const struct stream_range *to)
{
    struct ibv_sge sge = {(uintptr_t)p->memory, len, p->region->lkey};
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = len > 0,
        .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
        .imm_data = htonl(immediate),
        .wr.rdma = {.remote_addr = to->address, .rkey = to->key},
    };
    struct ibv_send_wr *bad;
    struct ibv_wc wc;

    assert_int_equal(ibv_post_send(p->id->qp, &wr, &bad), 0);
    assert_int_equal(rdma_get_send_comp(p->id, &wc), 1);
}

static void expect_end(struct peer *p, int error)
{
    char c;

    expect_poll(p->socket, POLLHUP);
    expect_errno(rrecv(p->socket, &c, 1, 0), error);
    assert_int_equal(rrecv(p->socket, &c, 1, 0), 0);
    assert_int_equal(rsend(p->socket, &c, 1, 0), -1);
}

/* --- hello --- */

static void who_is_no_stream_is_refused(void **state)
{
    static const struct {
        size_t at, len;
        uint8_t value;
    } rows[] = {
        {0, STREAM_HELLO_LEN, 0},  /* version */
        {0, STREAM_HELLO_LEN, 2},  /* version */
        {23, STREAM_HELLO_LEN, 0}, /* no ranges in the window */
        {0, 0, 0},                 /* no word */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint8_t bytes[STREAM_HELLO_LEN];
        struct stream_hello hello;
        struct peer p;

        peer_open(&p);
        hello = usual_hello(&p);
        stream_hello_write(&hello, bytes);
        bytes[rows[i].at] = rows[i].value;
        ask_with(&p, bytes, rows[i].len);
        while (!readable(p.channel->fd, 10))
            assert_int_equal(poll_now(p.listener), 0);
        expect_and_ack(p.channel, RDMA_CM_EVENT_REJECTED, 28);
        expect_errno(raccept(p.listener, NULL, NULL), EAGAIN);
        peer_close(&p);
    }
}

/* Where it may not write, or has nothing: it is the socket's connection that ends. */
static void ranges_that_are_none_end_the_connection_that_uses_them(void **state)
{
    static const struct stream_range rows[] = {{0, 0, 100},
                                               {UINT64_MAX - 5, 0xffffffff, UINT32_MAX}};
    static char bytes[100000];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct stream_hello hello;
        struct peer p;

        peer_open(&p);
        hello = usual_hello(&p);
        hello.buffer = rows[i];
        establish_with(&p, &hello);
        assert_true(rsend(p.socket, bytes, sizeof(bytes), 0) > 0);
        expect_end(&p, ECONNRESET);
        peer_close(&p);
    }
}

static void a_window_that_is_none_ends_the_connection(void **state)
{
    struct stream_hello hello;
    struct peer p;

    (void)state;
    peer_open(&p);
    hello = usual_hello(&p);
    hello.window = (struct stream_range){UINT64_MAX, 1, UINT32_MAX};
    establish_with(&p, &hello);
    expect_end(&p, ECONNRESET);
    peer_close(&p);
}

static void without_credits_nothing_is_sent(void **state)
{
    struct stream_hello hello;
    struct peer p;

    (void)state;
    peer_open(&p);
    hello = usual_hello(&p);
    hello.credits = 0;
    establish_with(&p, &hello);
    expect_errno(rsend(p.socket, "x", 1, 0), EAGAIN);
    say(&p, stream_immediate(STREAM_CREDIT, 1), 0, &p.heard.window);
    expect_poll(p.socket, POLLOUT);
    assert_int_equal(rsend(p.socket, "x", 1, 0), 1);
    expect_errno(rsend(p.socket, "x", 1, 0), EAGAIN);
    peer_close(&p);
}

/* --- messages --- */

static void a_message_that_lies_ends_the_connection(void **state)
{
    static const struct {
        uint32_t immediate, len;
    } rows[] = {
        {0x00000010, 15}, /* more than was written */
        {0x00000010, 0},  /* nothing was written */
        {0x1fffffff, 16}, /* more than there is */
        {0x20000001, 1},  /* kinds that there are not */
        {0x40000001, 1},  /* */
        {0x60000001, 1},  /* */
        {0xa0000001, 1},  /* */
        {0x80000001, 15}, /* a range that is shorter, or longer */
        {0x80000001, 17}, /* */
        {0xc0000004, 24}, /* a map that there is not: 0 to 3 */
        {0xdfffffff, 24}, /* */
        {0xe0000003, 0},  /* control that there is not */
        {0xffffffff, 0},  /* */
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct peer p;

        peer_open(&p);
        establish_as_usual(&p);
        say(&p, rows[i].immediate, rows[i].len, &p.heard.buffer);
        expect_end(&p, EPROTO);
        peer_close(&p);
    }
}

static void data_beyond_what_was_granted_ends_the_connection(void **state)
{
    struct peer p;
    char got[16];

    (void)state;
    peer_open(&p);
    establish_as_usual(&p);
    poll_now(p.socket); /* the second half is granted: 131,072 bytes in all */
    for (int i = 0; i < 32; i++)
        say(&p, stream_immediate(STREAM_DATA, 4096), 4096, &p.heard.buffer);
    assert_int_equal(rrecv(p.socket, got, sizeof(got), MSG_PEEK), sizeof(got));
    say(&p, stream_immediate(STREAM_DATA, 1), 1, &p.heard.buffer);
    expect_poll(p.socket, POLLHUP);
    peer_close(&p);
}

static void data_behind_the_end_ends_the_connection(void **state)
{
    struct peer p;

    (void)state;
    peer_open(&p);
    establish_as_usual(&p);
    say(&p, stream_immediate(STREAM_CONTROL, STREAM_SHUTDOWN), 0, &p.heard.buffer);
    say(&p, stream_immediate(STREAM_DATA, 1), 1, &p.heard.buffer);
    expect_end(&p, EPROTO);
    peer_close(&p);
}

static void a_send_is_no_message(void **state)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
    struct peer p;
    struct ibv_wc wc;

    (void)state;
    peer_open(&p);
    establish_as_usual(&p);
    assert_int_equal(ibv_post_send(p.id->qp, &wr, &bad), 0);
    assert_int_equal(rdma_get_send_comp(p.id, &wc), 1);
    expect_end(&p, EPROTO);
    peer_close(&p);
}

static void maps_of_any_content_are_ranges_of_the_peers(void **state)
{
    struct stream_range maps;
    struct peer p;

    (void)state;
    peer_open(&p);
    establish_as_usual(&p);
    maps = p.heard.window;
    maps.address +=
        (uint64_t)STREAM_WINDOW_RANGES * STREAM_RANGE_LEN + 3 * (uint64_t)STREAM_MAP_LEN;
    memset(p.memory, 0xff, STREAM_MAP_LEN); /* to the end of all offsets, and on */
    say(&p, stream_immediate(STREAM_MAP, 3), STREAM_MAP_LEN, &maps);
    poll_now(p.socket);
    assert_int_equal(riowrite(p.socket, "abc", 3, 0, 0), 0);
    assert_int_equal(riowrite(p.socket, "abc", 3, -1, 0), 3);
    expect_end(&p, ECONNRESET);
    peer_close(&p);
}

/* Many at random, by a fixed seed: nothing is expected but that all goes on. */
static void no_messages_at_random_harm_more_than_their_connection(void **state)
{
    static char got[5000];
    unsigned seed = 7;

    (void)state;
    for (int round = 0; round < 30; round++) {
        struct peer p;

        peer_open(&p);
        establish_as_usual(&p);
        for (int i = 0; i < 40 && (poll_now(p.socket) & POLLHUP) == 0; i++) {
            static const uint32_t kinds[] = {0, 0, 0, 4, 4, 6, 7};
            const uint32_t kind = kinds[(unsigned)rand_r(&seed) % COUNT_OF(kinds)];
            const uint32_t len = (unsigned)rand_r(&seed) % 40;
            const uint32_t value = rand_r(&seed) % 3 != 0 ? len : (unsigned)rand_r(&seed);
            struct stream_range to = rand_r(&seed) % 2 ? p.heard.window : p.heard.buffer;

            for (size_t b = 0; b < 64; b++)
                p.memory[512 + b] = (uint8_t)rand_r(&seed);
            to.address += (unsigned)rand_r(&seed) % 64;
            say(&p, kind << 29 | (value & 0x1fffffff), len, &to);
            rrecv(p.socket, got, sizeof(got), 0);
            rsend(p.socket, got, (unsigned)rand_r(&seed) % sizeof(got), 0);
            riowrite(p.socket, got, 100, rand_r(&seed), 0);
        }
        peer_close(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_is_no_stream_is_refused),
        cmocka_unit_test(ranges_that_are_none_end_the_connection_that_uses_them),
        cmocka_unit_test(a_window_that_is_none_ends_the_connection),
        cmocka_unit_test(without_credits_nothing_is_sent),
        cmocka_unit_test(a_message_that_lies_ends_the_connection),
        cmocka_unit_test(data_beyond_what_was_granted_ends_the_connection),
        cmocka_unit_test(data_behind_the_end_ends_the_connection),
        cmocka_unit_test(a_send_is_no_message),
        cmocka_unit_test(maps_of_any_content_are_ranges_of_the_peers),
        cmocka_unit_test(no_messages_at_random_harm_more_than_their_connection),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
