/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Addresses on the link: those that mean something only there, and those of which nobody answers,
 * where Linux says ADDR_ERROR with -ETIMEDOUT when the time is over that rdma_resolve_addr was
 * given. Needs veth devices: skipped where there are none.
 */
#include "sides.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

struct bench {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    bool no_link;
};

static int setup(void **state)
{
    static struct bench b;

    b.no_link = if_nametoindex("near") == 0;
    b.channel = rdma_create_event_channel();
    assert_non_null(b.channel);
    assert_int_equal(rdma_create_id(b.channel, &b.id, NULL, RDMA_PS_TCP), 0);
    *state = &b;
    return 0;
}

static int teardown(void **state)
{
    struct bench *b = *state;

    assert_int_equal(rdma_destroy_id(b->id), 0);
    rdma_destroy_event_channel(b->channel);
    return 0;
}

static int resolve_to(struct bench *b, const char *address, int timeout_ms)
{
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    struct sockaddr_in6 there6 = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};

    if (inet_pton(AF_INET, address, &there.sin_addr) == 1)
        return rdma_resolve_addr(b->id, NULL, (struct sockaddr *)&there, timeout_ms);
    assert_int_equal(inet_pton(AF_INET6, address, &there6.sin6_addr), 1);
    if (IN6_IS_ADDR_LINKLOCAL(&there6.sin6_addr))
        there6.sin6_scope_id = if_nametoindex("near");
    return rdma_resolve_addr(b->id, NULL, (struct sockaddr *)&there6, timeout_ms);
}

static int64_t now_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Not before its time: a bound that no busy machine crosses. */
static void an_address_that_nobody_has_is_an_error_in_time(struct bench *b, const char *address)
{
    const int64_t start = now_ms();

    if (b->no_link)
        skip();
    assert_int_equal(resolve_to(b, address, 150), 0);
    expect_and_ack(b->channel, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
    assert_true(now_ms() - start >= 150);
}

static void an_ipv4_address_that_nobody_has_is_an_error_in_time(void **state)
{
    an_address_that_nobody_has_is_an_error_in_time(*state, "192.0.2.9");
}

static void an_ipv6_address_that_nobody_has_is_an_error_in_time(void **state)
{
    an_address_that_nobody_has_is_an_error_in_time(*state, "2001:db8::9");
}

static void a_link_local_address_that_nobody_has_is_an_error_in_time(void **state)
{
    an_address_that_nobody_has_is_an_error_in_time(*state, "fe80::9");
}

static void so_is_one_behind_a_router_that_is_not_there(void **state)
{
    an_address_that_nobody_has_is_an_error_in_time(*state, "198.51.100.1");
}

/* To which port the first UDP datagram to 192.0.2.8 goes. */
static unsigned port_of_datagram(int tap)
{
    static const uint8_t address[] = {192, 0, 2, 8};
    uint8_t packet[100];

    do {
        assert_true(readable(tap, WAIT_MS));
        assert_true(recv(tap, packet, sizeof(packet), 0) >= 28);
    } while (packet[9] != IPPROTO_UDP || memcmp(packet + 16, address, sizeof(address)) != 0);
    return (unsigned)packet[22] << 8 | packet[23];
}

/* What makes the kernel look is none of RoCEv2's packets: some peers do not survive a short one. */
static void an_address_that_is_found_meanwhile_is_resolved(void **state)
{
    struct bench *b = *state;
    int tap;

    if (b->no_link)
        skip();
    tap = open_tap("far");
    assert_int_equal(resolve_to(b, "192.0.2.8", WAIT_MS), 0);
    assert_false(readable(b->channel->fd, 0));
    assert_int_equal(system("ip neigh replace 192.0.2.8 lladdr 02:00:00:00:00:08 dev near"), 0);
    expect_and_ack(b->channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    assert_int_not_equal(port_of_datagram(tap), 4791);
    close(tap);
}

static void a_neighbour_that_is_known_is_resolved_at_once(void **state)
{
    struct bench *b = *state;

    if (b->no_link)
        skip();
    assert_int_equal(system("ip neigh replace 192.0.2.7 lladdr 02:00:00:00:00:07 dev near"), 0);
    assert_int_equal(resolve_to(b, "192.0.2.7", 1), 0);
    assert_true(readable(b->channel->fd, 0));
    expect_and_ack(b->channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}

/* Both sides say of which link they are: a program copies these addresses to ask again. */
static void a_link_local_address_is_met_on_its_link(void **state)
{
    struct bench *b = *state;
    struct sockaddr_in6 here = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
    struct rdma_cm_id *listener, *asked;
    struct rdma_cm_event *event;
    const struct sockaddr_in6 *peer;

    if (b->no_link)
        skip();
    assert_int_equal(inet_pton(AF_INET6, "fe80::1", &here.sin6_addr), 1);
    assert_int_equal(rdma_create_id(b->channel, &listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&here), -1); /* of which link? */
    assert_int_equal(errno, EINVAL);
    here.sin6_scope_id = if_nametoindex("near");
    assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&here), 0);
    assert_int_equal(rdma_listen(listener, 1), 0);
    assert_int_equal(resolve_to(b, "fe80::1", WAIT_MS), 0);
    expect_and_ack(b->channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    assert_int_equal(rdma_resolve_route(b->id, WAIT_MS), 0);
    expect_and_ack(b->channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    make_qp(b->id);
    assert_int_equal(rdma_connect(b->id, NULL), 0);
    event = expect_event(b->channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    peer = (const struct sockaddr_in6 *)rdma_get_peer_addr(event->id);
    assert_memory_equal(&peer->sin6_addr, &here.sin6_addr, sizeof(peer->sin6_addr));
    assert_int_equal(peer->sin6_scope_id, here.sin6_scope_id);
    peer = (const struct sockaddr_in6 *)rdma_get_peer_addr(b->id);
    assert_int_equal(peer->sin6_scope_id, here.sin6_scope_id);
    asked = event->id;
    rdma_ack_cm_event(event);
    assert_int_equal(rdma_reject(asked, NULL, 0), 0);
    assert_int_equal(rdma_destroy_id(asked), 0);
    expect_and_ack(b->channel, RDMA_CM_EVENT_REJECTED, 28);
    rdma_destroy_qp(b->id);
    assert_int_equal(rdma_destroy_id(listener), 0);
}

static struct rdma_cm_id *listen_on_link(struct bench *b, const char *link)
{
    struct sockaddr_in6 here = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
    struct rdma_cm_id *listener;

    inet_pton(AF_INET6, "fe80::1", &here.sin6_addr);
    here.sin6_scope_id = if_nametoindex(link);
    assert_int_equal(rdma_create_id(b->channel, &listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(listener, (struct sockaddr *)&here), 0);
    assert_int_equal(rdma_listen(listener, 1), 0);
    return listener;
}

/* The client asks at fe80::1 of a link; the listener that is met, or NULL for none. */
static struct rdma_cm_id *listener_met(struct bench *b, const char *link)
{
    struct sockaddr_in6 there = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
    struct rdma_cm_id *id, *met = NULL;
    struct rdma_cm_event *event;

    inet_pton(AF_INET6, "fe80::1", &there.sin6_addr);
    there.sin6_scope_id = if_nametoindex(link);
    assert_int_equal(rdma_create_id(b->channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, WAIT_MS), 0);
    expect_and_ack(b->channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    assert_int_equal(rdma_resolve_route(id, WAIT_MS), 0);
    expect_and_ack(b->channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    make_qp(id);
    assert_int_equal(rdma_connect(id, NULL), 0);
    assert_true(readable(b->channel->fd, WAIT_MS));
    assert_int_equal(rdma_get_cm_event(b->channel, &event), 0);
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
        struct rdma_cm_id *asked = event->id;

        met = event->listen_id;
        rdma_ack_cm_event(event);
        assert_int_equal(rdma_reject(asked, NULL, 0), 0);
        assert_int_equal(rdma_destroy_id(asked), 0);
        expect_and_ack(b->channel, RDMA_CM_EVENT_REJECTED, 28);
    } else {
        assert_int_equal(event->event, RDMA_CM_EVENT_REJECTED);
        assert_int_equal(event->status, 8); /* nobody listens */
        rdma_ack_cm_event(event);
    }
    rdma_destroy_qp(id);
    assert_int_equal(rdma_destroy_id(id), 0);
    return met;
}

/* Both links have the address, and each its own listener on the same port. */
static void a_listener_at_a_link_local_address_is_of_its_link_only(void **state)
{
    struct bench *b = *state;
    struct rdma_cm_id *near, *far;

    if (b->no_link)
        skip();
    near = listen_on_link(b, "near");
    assert_ptr_equal(listener_met(b, "near"), near);
    assert_null(listener_met(b, "far"));
    far = listen_on_link(b, "far");
    assert_ptr_equal(listener_met(b, "near"), near);
    assert_ptr_equal(listener_met(b, "far"), far);
    assert_int_equal(rdma_destroy_id(near), 0);
    assert_null(listener_met(b, "near"));
    assert_int_equal(rdma_destroy_id(far), 0);
}

/* Linux asks nobody where a broadcast goes, so that the address is known at once. */
static void a_broadcast_address_is_resolved_where_there_is_a_route(void **state)
{
    struct bench *b = *state;

    if (b->no_link)
        skip();
    assert_int_equal(resolve_to(b, "192.0.2.255", 1), 0);
    expect_and_ack(b->channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
}

static void an_id_that_waits_may_be_destroyed(void **state)
{
    struct bench *b = *state;

    if (b->no_link)
        skip();
    assert_int_equal(resolve_to(b, "192.0.2.6", 60), 0);
    assert_int_equal(rdma_destroy_id(b->id), 0);
    assert_int_equal(rdma_create_id(b->channel, &b->id, NULL, RDMA_PS_TCP), 0);
    assert_false(readable(b->channel->fd, 150));
}

static void without_a_channel_the_call_itself_waits(void **state)
{
    struct bench *b = *state;

    if (b->no_link)
        skip();
    assert_int_equal(rdma_migrate_id(b->id, NULL), 0);
    assert_int_equal(resolve_to(b, "192.0.2.5", 50), -1);
    assert_int_equal(errno, ETIMEDOUT);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(an_ipv4_address_that_nobody_has_is_an_error_in_time),
        CASE(an_ipv6_address_that_nobody_has_is_an_error_in_time),
        CASE(a_link_local_address_that_nobody_has_is_an_error_in_time),
        CASE(so_is_one_behind_a_router_that_is_not_there),
        CASE(an_address_that_is_found_meanwhile_is_resolved),
        CASE(a_neighbour_that_is_known_is_resolved_at_once),
        CASE(a_link_local_address_is_met_on_its_link),
        CASE(a_listener_at_a_link_local_address_is_of_its_link_only),
        CASE(a_broadcast_address_is_resolved_where_there_is_a_route),
        CASE(an_id_that_waits_may_be_destroyed),
        CASE(without_a_channel_the_call_itself_waits),
    };

    enter_namespace();
    if (system("ip link add near type veth peer name far 2>/dev/null &&"
               "ip address add 192.0.2.1/24 dev near &&"
               "ip address add 2001:db8::1/64 dev near nodad &&"
               "ip address add fe80::1/64 dev near nodad &&"
               "ip address add fe80::1/64 dev far nodad &&"
               "ip link set near up && ip link set far up &&"
               "ip route add 198.51.100.0/24 via 192.0.2.254") != 0)
        print_message("no veth device\n");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
