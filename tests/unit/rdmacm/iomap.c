/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that a peer writes into directly: riomap, riowrite, riounmap, as rsocket(7) has them. */
#include "streams.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>

#define MAPS 4

/* The server maps; what the client may be told of is said when it is made. */
static int setup(void **state)
{
    static struct streams s;
    const struct sockaddr_in there = loopback(PORT);
    const int maps = MAPS;

    s.listener = listen_with(-1, 0);
    s.client = rsocket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(rsetsockopt(s.client, SOL_RDMA, RDMA_IOMAPSIZE, &maps, sizeof(maps)), 0);
    set_waiting(s.client, false);
    expect_errno(rconnect(s.client, (const struct sockaddr *)&there, sizeof(there)), EINPROGRESS);
    expect_poll(s.listener, POLLIN);
    s.server = raccept(s.listener, NULL, NULL);
    set_waiting(s.server, false);
    expect_poll(s.client, POLLOUT);
    expect_poll(s.server, POLLOUT);
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    streams_close(*state);
    return 0;
}

/* What was mapped is known to the peer once it has data that was sent afterwards. */
static void say(int from, int to)
{
    char c;

    send_fully(from, "x", 1);
    receive_fully(to, &c, 1);
}

static void write_fully(int socket, const uint8_t *bytes, size_t len, off_t offset)
{
    set_waiting(socket, true);
    assert_int_equal(riowrite(socket, bytes, len, offset, 0), len);
    set_waiting(socket, false);
}

static uint8_t bytes[200000];
static uint8_t memory[200000];

static void bytes_are_placed_at_their_offset_before_the_data_that_follows(void **state)
{
    struct streams *s = *state;

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = pattern(i);
    memset(memory, 0, sizeof(memory));
    assert_int_equal(riomap(s->server, memory + 1000, 150000, PROT_WRITE, 0, 5000000000),
                     5000000000);
    say(s->server, s->client);
    write_fully(s->client, bytes, 150000 - 7, 5000000007);
    say(s->client, s->server);
    for (size_t i = 0; i < sizeof(memory); i++)
        assert_int_equal(memory[i], i < 1007 || i >= 151000 ? 0 : pattern(i - 1007));
    expect_errno(rrecv(s->server, bytes, 1, 0), EAGAIN);
}

static void neighbouring_maps_are_one_space_and_beyond_there_is_none(void **state)
{
    struct streams *s = *state;

    memset(memory, 0, sizeof(memory));
    memset(bytes, 9, 300);
    assert_int_equal(riomap(s->server, memory, 100, PROT_WRITE, 0, 0), 0);
    assert_int_equal(riomap(s->server, memory + 1000, 100, PROT_WRITE, 0, 100), 100);
    say(s->server, s->client);
    assert_int_equal(riowrite(s->client, bytes, 300, 50, 0), 150);
    assert_int_equal(riowrite(s->client, bytes, 1, 200, 0), 0);
    assert_int_equal(riowrite(s->client, bytes, 1, -1, 0), 0);
    say(s->client, s->server);
    assert_int_equal(memory[49], 0);
    assert_int_equal(memory[50], 9);
    assert_int_equal(memory[99], 9);
    assert_int_equal(memory[100], 0);
    assert_int_equal(memory[1000], 9);
    assert_int_equal(memory[1099], 9);
    assert_int_equal(memory[1100], 0);
}

static void a_mapping_that_was_ended_takes_no_more(void **state)
{
    struct streams *s = *state;
    const off_t offset = riomap(s->server, memory, 100, PROT_WRITE, 0, -1);

    assert_int_equal(offset, (off_t)(uintptr_t)memory);
    say(s->server, s->client);
    assert_int_equal(riowrite(s->client, bytes, 1, offset, 0), 1);
    say(s->client, s->server);
    expect_errno(riounmap(s->server, memory, 99), EINVAL);
    assert_int_equal(riounmap(s->server, memory, 100), 0);
    expect_errno(riounmap(s->server, memory, 100), EINVAL);
    say(s->server, s->client);
    assert_int_equal(riowrite(s->client, bytes, 1, offset, 0), 0);
    say(s->client, s->server); /* and the connection is as good as before */
}

static void as_many_maps_as_the_peer_has_room_for(void **state)
{
    struct streams *s = *state;

    for (int i = 0; i < MAPS; i++)
        assert_int_equal(riomap(s->server, memory + (size_t)100 * (size_t)i, 100, PROT_WRITE, 0, i),
                         i);
    expect_errno(riomap(s->server, memory + 1000, 100, PROT_WRITE, 0, 5), ENOMEM);
    assert_int_equal(riomap(s->server, memory + 1000, 100, PROT_NONE, 0, 5), 5);
    expect_errno(riomap(s->client, memory, 100, PROT_WRITE, 0, 5), ENOMEM);
    expect_errno(riomap(s->client, memory, 100, PROT_READ, 0, 5), EINVAL);
    expect_errno(riomap(s->listener, memory, 100, PROT_NONE, 0, 5), EINVAL);
    expect_errno(riomap(999999, memory, 100, PROT_NONE, 0, 5), EBADF);
    assert_int_equal(riounmap(s->server, memory, 100), 0);
    assert_int_equal(riomap(s->server, memory, 100, PROT_WRITE, 0, 7), 7);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(bytes_are_placed_at_their_offset_before_the_data_that_follows),
        CASE(neighbouring_maps_are_one_space_and_beyond_there_is_none),
        CASE(a_mapping_that_was_ended_takes_no_more),
        CASE(as_many_maps_as_the_peer_has_room_for),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
