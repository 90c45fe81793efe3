/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses, ports, options and events of identifiers that are not connected. */
#include "sides.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OTHER "192.0.2.8" /* beside 127.0.0.1 */

struct bench {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct rdma_cm_id *other;
};

static int setup(void **state)
{
    static struct bench b;

    b.channel = rdma_create_event_channel();
    assert_non_null(b.channel);
    assert_int_equal(rdma_create_id(b.channel, &b.id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_create_id(b.channel, &b.other, NULL, RDMA_PS_TCP), 0);
    *state = &b;
    return 0;
}

static int teardown(void **state)
{
    struct bench *b = *state;

    assert_int_equal(rdma_destroy_id(b->id), 0);
    assert_int_equal(rdma_destroy_id(b->other), 0);
    rdma_destroy_event_channel(b->channel);
    return 0;
}

static struct sockaddr_in ipv4(const char *address, uint16_t port)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};

    assert_int_equal(inet_pton(AF_INET, address, &in.sin_addr), 1);
    return in;
}

static int bind_to(struct rdma_cm_id *id, const char *address, uint16_t port)
{
    struct sockaddr_in in = ipv4(address, port);

    return rdma_bind_addr(id, (struct sockaddr *)&in);
}

static void an_address_of_ours_brings_its_device_and_the_wildcard_none(void **state)
{
    struct bench *b = *state;
    struct ibv_context **list;
    int count;

    assert_int_equal(bind_to(b->id, "127.0.0.1", PORT), 0);
    assert_int_equal(bind_to(b->other, "0.0.0.0", PORT + 1), 0);
    list = rdma_get_devices(&count);
    assert_non_null(list);
    assert_int_equal(count, 1);
    assert_ptr_equal(b->id->verbs, list[0]);
    assert_int_equal(b->id->port_num, 1);
    assert_ptr_equal(b->id->pd->context, list[0]);
    assert_null(b->other->verbs);
    rdma_free_devices(list);
}

static void an_address_that_is_not_ours_has_no_device(void **state)
{
    struct bench *b = *state;

    assert_int_equal(bind_to(b->id, "192.0.2.1", PORT), -1);
    assert_int_equal(errno, ENODEV);
    assert_int_equal(bind_to(b->id, "127.0.0.1", PORT), 0);
    assert_int_equal(bind_to(b->id, "127.0.0.1", PORT), -1);
    assert_int_equal(errno, EINVAL);
}

static void a_port_is_had_by_one_and_free_again_after_it(void **state)
{
    struct bench *b = *state;

    assert_int_equal(bind_to(b->id, "127.0.0.1", PORT), 0);
    assert_int_equal(bind_to(b->other, "127.0.0.1", PORT), -1);
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(rdma_destroy_id(b->id), 0);
    assert_int_equal(bind_to(b->other, "127.0.0.1", PORT), 0);
    assert_int_equal(rdma_create_id(b->channel, &b->id, NULL, RDMA_PS_UDP), 0);
    assert_int_equal(bind_to(b->id, "127.0.0.1", PORT), 0); /* another port space */
}

static struct sockaddr_storage at_port(const char *address, uint16_t port)
{
    struct sockaddr_storage storage = {.ss_family = strchr(address, ':') ? AF_INET6 : AF_INET};
    struct sockaddr_in *in = (struct sockaddr_in *)&storage;
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&storage;

    if (storage.ss_family == AF_INET) {
        *in = ipv4(address, port);
    } else {
        in6->sin6_port = htons(port);
        assert_int_equal(inet_pton(AF_INET6, address, &in6->sin6_addr), 1);
    }
    return storage;
}

/* Else one user could take from another what comes to an address of the other's wildcard. */
static void a_wildcard_has_its_port_at_all_addresses_of_its_families(void **state)
{
    static const struct {
        const char *first;
        const char *second;
        int one_family; /* of IPv6 */
        bool free;
    } rows[] = {
        {"0.0.0.0", "127.0.0.1", 0, false},
        {"127.0.0.1", "0.0.0.0", 0, false},
        {"::", "::1", 0, false},
        {"::1", "::", 0, false},
        {"::", "0.0.0.0", 0, false},
        {"::", "127.0.0.1", 0, false},
        {"127.0.0.1", "::", 0, false},
        {"::", "::1", 1, false},
        {"::", "0.0.0.0", 1, true},
        {"0.0.0.0", "::", 1, true},
        {"::", "127.0.0.1", 1, true},
        {"::1", "127.0.0.1", 0, true},
        {"0.0.0.0", "::1", 0, true},
    };
    struct bench *b = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sockaddr_storage first = at_port(rows[i].first, PORT);
        struct sockaddr_storage second = at_port(rows[i].second, PORT);
        struct rdma_cm_id *ids[2];
        int result;

        for (int j = 0; j < 2; j++) {
            assert_int_equal(rdma_create_id(b->channel, &ids[j], NULL, RDMA_PS_TCP), 0);
            assert_int_equal(rdma_set_option(ids[j], RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY,
                                             (void *)&rows[i].one_family, sizeof(int)),
                             0);
        }
        assert_int_equal(rdma_bind_addr(ids[0], (struct sockaddr *)&first), 0);
        result = rdma_bind_addr(ids[1], (struct sockaddr *)&second);
        assert_int_equal(result, rows[i].free ? 0 : -1);
        if (!rows[i].free)
            assert_int_equal(errno, EADDRNOTAVAIL); /* Linux: EADDRINUSE at one address only */
        assert_int_equal(rdma_destroy_id(ids[0]), 0);
        assert_int_equal(rdma_destroy_id(ids[1]), 0);
        assert_int_equal(rdma_create_id(b->channel, &ids[0], NULL, RDMA_PS_TCP), 0);
        assert_int_equal(rdma_bind_addr(ids[0], (struct sockaddr *)&second),
                         0); /* all given back */
        assert_int_equal(rdma_destroy_id(ids[0]), 0);
    }
}

static void those_who_say_so_share_a_port_until_one_listens(void **state)
{
    struct bench *b = *state;
    int yes = 1;

    assert_int_equal(
        rdma_set_option(b->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)), 0);
    assert_int_equal(
        rdma_set_option(b->other, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)), 0);
    assert_int_equal(bind_to(b->id, "127.0.0.1", PORT), 0);
    assert_int_equal(bind_to(b->other, "127.0.0.1", PORT), 0);
    assert_int_equal(rdma_listen(b->id, 0), 0);
    assert_int_equal(rdma_listen(b->other, 0), -1);
    assert_int_equal(errno, EADDRINUSE);
}

static void a_port_is_drawn_for_those_who_name_none(void **state)
{
    struct bench *b = *state;

    assert_int_equal(bind_to(b->id, "127.0.0.1", 0), 0);
    assert_int_not_equal(rdma_get_src_port(b->id), 0);
    assert_int_equal(rdma_listen(b->id, 0), 0);
    assert_int_equal(rdma_listen(b->other, 0), 0); /* bound by that */
    assert_int_not_equal(rdma_get_src_port(b->other), 0);
    assert_int_not_equal(rdma_get_src_port(b->other), rdma_get_src_port(b->id));
}

/* Linux looks for the route while the caller waits (rdma_resolve_ip), and says so at once. */
static void an_address_without_a_way_there_is_an_error_at_once(void **state)
{
    static const char *const nowhere[] = {"192.0.2.1", "255.255.255.255", "2001:db8::1",
                                          "::ffff:127.0.0.1"};
    struct bench *b = *state;

    for (size_t i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
        struct sockaddr_storage there = at_port(nowhere[i], PORT);
        struct rdma_cm_id *id;

        assert_int_equal(rdma_create_id(b->channel, &id, NULL, RDMA_PS_TCP), 0);
        assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, 100), -1);
        assert_int_equal(errno, ENETUNREACH);
        assert_false(readable(b->channel->fd, 0));
        assert_int_equal(rdma_destroy_id(id), 0);
    }
}

static void an_ipv4_address_in_ipv6_is_no_address_of_ours(void **state)
{
    struct bench *b = *state;
    struct sockaddr_storage here = at_port("::ffff:127.0.0.1", PORT);

    assert_int_equal(rdma_bind_addr(b->id, (struct sockaddr *)&here), -1);
    assert_int_equal(errno, ENODEV);
}

static void no_address_at_all_is_this_host(void **state)
{
    static const struct {
        const char *own; /* NULL: not bound */
        const char *asked;
        const char *found;
    } rows[] = {
        {NULL, "0.0.0.0", "127.0.0.1"},
        {OTHER, "0.0.0.0", OTHER},
        {NULL, "::", "::1"},
    };
    struct bench *b = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct sockaddr_storage there = at_port(rows[i].asked, PORT);
        struct sockaddr_storage found = at_port(rows[i].found, PORT);
        struct rdma_cm_id *id;

        assert_int_equal(rdma_create_id(b->channel, &id, NULL, RDMA_PS_TCP), 0);
        if (rows[i].own != NULL)
            assert_int_equal(bind_to(id, rows[i].own, 0), 0);
        assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, 100), 0);
        expect_and_ack(b->channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
        assert_memory_equal(&id->route.addr.dst_storage, &found, sizeof(struct sockaddr_in6));
        assert_int_equal(rdma_destroy_id(id), 0);
    }
}

static void resolving_fills_in_addresses_and_the_path(void **state)
{
    struct bench *b = *state;
    struct sockaddr_in there = ipv4("127.0.0.1", PORT);
    const struct sockaddr_in *src = (const struct sockaddr_in *)&b->id->route.addr.src_addr;
    uint8_t tos = 0x28;

    assert_int_equal(rdma_set_option(b->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
    assert_int_equal(rdma_resolve_route(b->id, 100), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_resolve_addr(b->id, NULL, (struct sockaddr *)&there, 100), 0);
    expect_and_ack(b->channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    assert_int_equal(src->sin_addr.s_addr, htonl(INADDR_LOOPBACK));
    assert_int_equal(rdma_get_dst_port(b->id), htons(PORT));
    assert_int_equal(rdma_resolve_route(b->id, 100), 0);
    expect_and_ack(b->channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    assert_int_equal(b->id->route.num_paths, 1);
    assert_int_equal(b->id->route.path_rec->mtu, IBV_MTU_4096);
    assert_int_equal(b->id->route.path_rec->traffic_class, tos);
}

static void a_channel_is_readable_when_an_event_is_there(void **state)
{
    struct bench *b = *state;
    struct sockaddr_in there = ipv4("127.0.0.1", PORT);
    struct rdma_cm_event *event;

    assert_int_equal(fcntl(b->channel->fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(rdma_get_cm_event(b->channel, &event), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(rdma_resolve_addr(b->id, NULL, (struct sockaddr *)&there, 100), 0);
    assert_true(readable(b->channel->fd, 0));
    expect_and_ack(b->channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    assert_false(readable(b->channel->fd, 0));
}

static void events_that_wait_go_along_to_another_channel(void **state)
{
    struct bench *b = *state;
    struct sockaddr_in there = ipv4("127.0.0.1", PORT);
    struct rdma_event_channel *to = rdma_create_event_channel();

    assert_int_equal(rdma_resolve_addr(b->id, NULL, (struct sockaddr *)&there, 100), 0);
    assert_int_equal(rdma_migrate_id(b->id, to), 0);
    assert_false(readable(b->channel->fd, 0));
    expect_and_ack(to, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    assert_int_equal(rdma_migrate_id(b->id, b->channel), 0);
    rdma_destroy_event_channel(to);
}

static void *wait_for_event(void *channel)
{
    struct rdma_cm_event *event;

    rdma_get_cm_event(channel, &event);
    return NULL;
}

static void who_comes_to_wait_for_a_channel_that_is_gone_sleeps_as_one_who_waited(void **state)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct timespec until;
    pthread_t thread;
    void *result;

    (void)state;
    rdma_destroy_event_channel(channel);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_event, channel), 0);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 1;
    assert_int_equal(pthread_timedjoin_np(thread, NULL, &until), ETIMEDOUT);
    assert_int_equal(pthread_cancel(thread), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
}

static void unknown_options_are_refused(void **state)
{
    struct bench *b = *state;
    uint8_t timeout = 32;
    int number = 0;

    assert_int_equal(rdma_set_option(b->id, RDMA_OPTION_ID, 77, &number, sizeof(number)), -1);
    assert_int_equal(errno, ENOSYS);
    assert_int_equal(
        rdma_set_option(b->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_set_option(b->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &number, 4), -1);
    assert_int_equal(errno, EINVAL);
}

/* As with Linux, where the loopback interface has no device. It stays for the rest of the program.
 */
static void beside_other_devices_the_loopback_address_has_none(void **state)
{
    struct bench *b = *state;

    if (system("ip link add near type veth peer name far && ip link set far up &&"
               "ip address add 192.0.2.9/24 dev near && ip link set near up") != 0)
        skip();
    assert_int_equal(bind_to(b->id, "192.0.2.9", PORT), 0);
    assert_non_null(b->id->verbs);
    assert_int_equal(bind_to(b->other, "127.0.0.1", PORT), 0);
    assert_null(b->other->verbs);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(an_address_of_ours_brings_its_device_and_the_wildcard_none),
        CASE(an_address_that_is_not_ours_has_no_device),
        CASE(a_port_is_had_by_one_and_free_again_after_it),
        CASE(a_wildcard_has_its_port_at_all_addresses_of_its_families),
        CASE(those_who_say_so_share_a_port_until_one_listens),
        CASE(a_port_is_drawn_for_those_who_name_none),
        CASE(an_address_without_a_way_there_is_an_error_at_once),
        CASE(an_ipv4_address_in_ipv6_is_no_address_of_ours),
        CASE(no_address_at_all_is_this_host),
        CASE(resolving_fills_in_addresses_and_the_path),
        CASE(a_channel_is_readable_when_an_event_is_there),
        CASE(events_that_wait_go_along_to_another_channel),
        CASE(who_comes_to_wait_for_a_channel_that_is_gone_sleeps_as_one_who_waited),
        CASE(unknown_options_are_refused),
        CASE(beside_other_devices_the_loopback_address_has_none),
    };

    enter_namespace();
    if (system("ip address add " OTHER "/32 dev lo") != 0)
        return 77;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
