/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses and carriers that come and go while a program has the device open. */
#include "fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "node/stat_file.h"

static struct ibv_context *context; /* of the interface va, whose peer is vb */

static void ip(const char *arguments)
{
    char command[256];

    snprintf(command, sizeof(command), "ip %s", arguments);
    if (system(command) != 0)
        fail_msg("%s", command);
}

static void pause_ms(long ms)
{
    struct timespec t = {.tv_nsec = ms * 1000000};

    nanosleep(&t, NULL);
}

static struct ibv_context *open_named(const char *name)
{
    struct ibv_context *opened = NULL;
    struct ibv_device **list = ibv_get_device_list(NULL);

    assert_non_null(list);
    for (int i = 0; list[i] != NULL && opened == NULL; i++)
        if (strcmp(ibv_get_device_name(list[i]), name) == 0)
            opened = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    return opened;
}

static enum ibv_port_state port_state(void)
{
    struct ibv_port_attr attr;

    assert_int_equal(ibv_query_port(context, 1, &attr), 0);
    return attr.state;
}

/* IPv4 address at an index, 0.0.0.0 for a hole, as text. */
static const char *address_at(int index)
{
    static char text[INET_ADDRSTRLEN];
    union ibv_gid gid;

    assert_int_equal(ibv_query_gid(context, 1, index, &gid), 0);
    assert_non_null(inet_ntop(AF_INET, &gid.raw[12], text, sizeof(text)));
    return text;
}

static void expect_event(enum ibv_event_type type)
{
    struct ibv_async_event event;

    if (!readable(context->async_fd, WAIT_MS))
        fail_msg("no event; expected %s", ibv_event_type_str(type));
    assert_int_equal(ibv_get_async_event(context, &event), 0);
    assert_string_equal(ibv_event_type_str(event.event_type), ibv_event_type_str(type));
    assert_int_equal(event.element.port_num, 1);
    ibv_ack_async_event(&event);
}

static void expect_no_event(void)
{
    assert_false(readable(context->async_fd, 50));
}

static int setup(void **state)
{
    (void)state;
    ip("link add va type veth peer name vb");
    ip("link set va addrgenmode none");
    ip("link set vb addrgenmode none");
    ip("address add 10.1.0.1/24 dev va");
    ip("address add 10.1.0.2/24 dev va");
    ip("address add 10.1.0.3/24 dev va");
    ip("link set va up");
    ip("link set vb up");
    for (int i = 0; i < 100; i++) {
        bool up;

        context = open_named("uroce_va");
        assert_non_null(context);
        up = port_state() == IBV_PORT_ACTIVE;
        assert_int_equal(ibv_close_device(context), 0);
        if (up) {
            /* Anew: the other may have seen it come up, and would tell. */
            context = open_named("uroce_va");
            return context != NULL ? 0 : -1;
        }
        pause_ms(20);
    }
    return -1;
}

static int teardown(void **state)
{
    (void)state;
    if (context != NULL)
        assert_int_equal(ibv_close_device(context), 0);
    context = NULL;
    ip("link del va");
    return 0;
}

static void an_address_that_goes_leaves_a_hole_which_the_next_one_takes(void **state)
{
    struct ibv_gid_entry table[8];
    struct ibv_gid_entry entry;

    (void)state;
    assert_string_equal(address_at(1), "10.1.0.2");
    ip("address del 10.1.0.2/24 dev va");
    expect_event(IBV_EVENT_GID_CHANGE);
    assert_string_equal(address_at(0), "10.1.0.1");
    assert_string_equal(address_at(1), "0.0.0.0");
    assert_string_equal(address_at(2), "10.1.0.3");
    assert_int_equal(ibv_query_gid_ex(context, 1, 1, &entry, 0), ENODATA);
    assert_int_equal(ibv_query_gid_table(context, table, 8, 0), 2);
    assert_int_equal(table[1].gid_index, 2);
    ip("address add 10.1.0.4/24 dev va");
    expect_event(IBV_EVENT_GID_CHANGE);
    assert_string_equal(address_at(1), "10.1.0.4");
    ip("address add 10.1.0.5/24 dev va");
    expect_event(IBV_EVENT_GID_CHANGE);
    assert_string_equal(address_at(3), "10.1.0.5");
    assert_int_equal(port_state(), IBV_PORT_ACTIVE);
    expect_no_event();
}

static void a_hole_is_no_source_address(void **state)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.sgid_index = 1}};

    (void)state;
    ip("address del 10.1.0.2/24 dev va");
    expect_event(IBV_EVENT_GID_CHANGE);
    attr.grh.dgid.raw[10] = attr.grh.dgid.raw[11] = 0xff;
    attr.grh.dgid.raw[12] = 10;
    assert_null(ibv_create_ah(pd, &attr));
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void take_count(void *count, const struct stat_snapshot *s, const char *path,
                       const char *why)
{
    (void)path;
    (void)why;
    if (s == NULL || s->head.pid != (uint32_t)getpid())
        return;
    for (uint32_t port = 0; port < s->head.port_count; port++)
        if (strcmp(s->head.ports[port].device, "uroce_va") == 0)
            *(uint64_t *)count = s->head.ports[port].downed;
}

/* link_downed, as who watches this process sees it. */
static uint64_t downed(void)
{
    uint64_t count = UINT64_MAX;

    stat_each(geteuid(), false, take_count, &count);
    return count;
}

static void a_carrier_that_goes_and_comes_is_told_and_gids_stay(void **state)
{
    const uint64_t before = downed();

    (void)state;
    ip("link set vb down");
    expect_event(IBV_EVENT_PORT_ERR);
    assert_int_equal(downed(), before + 1);
    assert_int_equal(port_state(), IBV_PORT_DOWN);
    assert_string_equal(address_at(2), "10.1.0.3");
    ip("link set vb up");
    expect_event(IBV_EVENT_PORT_ACTIVE);
    assert_int_equal(port_state(), IBV_PORT_ACTIVE);
    assert_int_equal(downed(), before + 1);
    expect_no_event();
}

static void an_interface_that_is_set_down_and_up_keeps_its_gids(void **state)
{
    (void)state;
    ip("link set va down");
    expect_event(IBV_EVENT_PORT_ERR);
    assert_string_equal(address_at(2), "10.1.0.3");
    ip("link set va up");
    expect_event(IBV_EVENT_PORT_ACTIVE);
    assert_string_equal(address_at(2), "10.1.0.3");
}

static void an_interface_without_addresses_is_still_an_active_port(void **state)
{
    (void)state;
    ip("address flush dev va");
    expect_event(IBV_EVENT_GID_CHANGE);
    pause_ms(100);
    assert_int_equal(port_state(), IBV_PORT_ACTIVE);
    assert_string_equal(address_at(0), "0.0.0.0");
}

static void an_interface_that_is_removed_is_a_port_that_is_down(void **state)
{
    (void)state;
    ip("link del va");
    expect_event(IBV_EVENT_PORT_ERR);
    expect_event(IBV_EVENT_GID_CHANGE);
    assert_int_equal(port_state(), IBV_PORT_DOWN);
    /* For teardown. */
    ip("link add va type veth peer name vb");
}

static void a_program_that_polls_all_the_time_is_told_too(void **state)
{
    struct ibv_cq *cq = ibv_create_cq(context, 1, NULL, NULL, 0);
    struct ibv_wc wc;
    time_t end = time(NULL) + 5;

    (void)state;
    ip("address del 10.1.0.2/24 dev va");
    while (!readable(context->async_fd, 0) && time(NULL) < end)
        for (int i = 0; i < 100; i++)
            assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
    expect_event(IBV_EVENT_GID_CHANGE);
    assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void every_context_is_told_and_one_that_closes_forgets(void **state)
{
    struct ibv_context *second = open_named("uroce_va");
    struct ibv_async_event event;

    (void)state;
    ip("address del 10.1.0.2/24 dev va");
    expect_event(IBV_EVENT_GID_CHANGE);
    assert_true(readable(second->async_fd, WAIT_MS));
    ip("address add 10.1.0.6/24 dev va");
    expect_event(IBV_EVENT_GID_CHANGE);
    pause_ms(20);
    assert_int_equal(ibv_get_async_event(second, &event), 0);
    assert_false(readable(second->async_fd, 0)); /* twice the same is once */
    ip("address add 10.1.0.7/24 dev va");
    expect_event(IBV_EVENT_GID_CHANGE);
    assert_int_equal(ibv_close_device(second), 0);
    ip("address add 10.1.0.8/24 dev va");
    expect_event(IBV_EVENT_GID_CHANGE);
}

static void a_device_that_nobody_has_open_is_in_order_again(void **state)
{
    (void)state;
    ip("address del 10.1.0.2/24 dev va");
    expect_event(IBV_EVENT_GID_CHANGE);
    assert_string_equal(address_at(1), "0.0.0.0");
    assert_int_equal(ibv_close_device(context), 0);
    context = open_named("uroce_va");
    assert_non_null(context);
    assert_string_equal(address_at(1), "10.1.0.3");
    assert_string_equal(address_at(2), "0.0.0.0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_address_that_goes_leaves_a_hole_which_the_next_one_takes,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(a_hole_is_no_source_address, setup, teardown),
        cmocka_unit_test_setup_teardown(a_carrier_that_goes_and_comes_is_told_and_gids_stay, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_interface_that_is_set_down_and_up_keeps_its_gids, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(an_interface_without_addresses_is_still_an_active_port,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(an_interface_that_is_removed_is_a_port_that_is_down, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_program_that_polls_all_the_time_is_told_too, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(every_context_is_told_and_one_that_closes_forgets, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_device_that_nobody_has_open_is_in_order_again, setup,
                                        teardown),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
