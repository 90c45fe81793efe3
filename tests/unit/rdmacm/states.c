/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which call an ID takes in which state, and the errno of those that it does not. The figures are
 * those of Linux's state machine (cma.c, and for messages cm.c): an ID that is not in the state
 * that a call belongs to is refused with EINVAL, traffic on an established connection with EISCONN,
 * and whoever has a connection, or had one, may end it.
 */
#include "sides.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>

static bool no_link;

/* --- states --- */

/* The application has a queue pair of its own, another one each time: none may connect twice. */
static struct rdma_conn_param own_qp(void)
{
    static uint32_t qpn = 0x1000;

    return (struct rdma_conn_param){.qp_num = qpn++, .responder_resources = 1};
}

static struct rdma_cm_id *idle(struct sides *s)
{
    return s->client;
}

static struct rdma_cm_id *bound(struct sides *s)
{
    struct sockaddr_in here = loopback(PORT + 1);

    assert_int_equal(rdma_bind_addr(s->client, (struct sockaddr *)&here), 0);
    return s->client;
}

static void look_for_nobody(struct sides *s, int timeout_ms)
{
    struct sockaddr_in there = {.sin_family = AF_INET, .sin_port = htons(PORT)};

    inet_pton(AF_INET, "192.0.2.9", &there.sin_addr);
    assert_int_equal(rdma_resolve_addr(s->client, NULL, (struct sockaddr *)&there, timeout_ms), 0);
}

static struct rdma_cm_id *address_query(struct sides *s)
{
    if (no_link)
        return NULL;
    look_for_nobody(s, 60000);
    assert_null(s->client->verbs);
    return s->client;
}

static struct rdma_cm_id *address_error(struct sides *s)
{
    if (no_link)
        return NULL;
    look_for_nobody(s, 1);
    expect_and_ack(s->client_channel, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
    assert_null(s->client->verbs);
    return s->client;
}

static struct rdma_cm_id *address_resolved(struct sides *s)
{
    struct sockaddr_in there = loopback(PORT);

    assert_int_equal(rdma_resolve_addr(s->client, NULL, (struct sockaddr *)&there, 1000), 0);
    expect_and_ack(s->client_channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    return s->client;
}

static struct rdma_cm_id *route_resolved(struct sides *s)
{
    resolve(s, PORT);
    return s->client;
}

static struct rdma_cm_id *asking(struct sides *s)
{
    struct rdma_conn_param param = own_qp();
    struct rdma_cm_event *event;

    resolve(s, PORT);
    assert_int_equal(rdma_connect(s->client, &param), 0);
    event = expect_event(s->server_channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    s->server = event->id;
    rdma_ack_cm_event(event);
    return s->client;
}

static struct rdma_cm_id *asked(struct sides *s)
{
    asking(s);
    return s->server;
}

static struct rdma_cm_id *answering(struct sides *s)
{
    struct rdma_conn_param param = own_qp();

    asking(s);
    assert_int_equal(rdma_accept(s->server, &param), 0);
    return s->server;
}

static struct rdma_cm_id *answered(struct sides *s)
{
    answering(s);
    expect_and_ack(s->client_channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
    return s->client;
}

static struct rdma_cm_id *connected(struct sides *s)
{
    answered(s);
    assert_int_equal(rdma_establish(s->client), 0);
    return s->client;
}

static struct rdma_cm_id *connected_to(struct sides *s)
{
    connected(s);
    expect_and_ack(s->server_channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    return s->server;
}

static struct rdma_cm_id *disconnected(struct sides *s)
{
    connected_to(s);
    assert_int_equal(rdma_disconnect(s->server), 0);
    expect_and_ack(s->client_channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    return s->client;
}

static struct rdma_cm_id *rejected(struct sides *s)
{
    asking(s);
    assert_int_equal(rdma_reject(s->server, NULL, 0), 0);
    expect_and_ack(s->client_channel, RDMA_CM_EVENT_REJECTED, 28); /* consumer defined */
    return s->client;
}

/* At an address with a device; beside the link the loopback address has none. */
static struct rdma_cm_id *listening(struct sides *s)
{
    struct sockaddr_in here = loopback(PORT + 1);

    if (!no_link)
        inet_pton(AF_INET, "192.0.2.1", &here.sin_addr);
    assert_int_equal(rdma_bind_addr(s->client, (struct sockaddr *)&here), 0);
    assert_int_equal(rdma_listen(s->client, 1), 0);
    assert_non_null(s->client->verbs);
    return s->client;
}

static struct rdma_cm_id *listening_anywhere(struct sides *s)
{
    assert_int_equal(rdma_listen(s->client, 1), 0);
    return s->client;
}

/* --- calls --- */

static int bind_id(struct rdma_cm_id *id)
{
    struct sockaddr_in here = loopback(0);

    return rdma_bind_addr(id, (struct sockaddr *)&here);
}

static int resolve_address(struct rdma_cm_id *id)
{
    struct sockaddr_in there = loopback(PORT);

    return rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, 1000);
}

static int resolve_route(struct rdma_cm_id *id)
{
    return rdma_resolve_route(id, 1000);
}

static int connect_id(struct rdma_cm_id *id)
{
    struct rdma_conn_param param = own_qp();

    return rdma_connect(id, &param);
}

static int listen_id(struct rdma_cm_id *id)
{
    return rdma_listen(id, 1);
}

static int accept_id(struct rdma_cm_id *id)
{
    struct rdma_conn_param param = own_qp();

    return rdma_accept(id, &param);
}

static int reject_id(struct rdma_cm_id *id)
{
    return rdma_reject(id, NULL, 0);
}

static int note_traffic(struct rdma_cm_id *id)
{
    return rdma_notify(id, IBV_EVENT_COMM_EST);
}

static int set_flag(struct rdma_cm_id *id, int name, int flag)
{
    return rdma_set_option(id, RDMA_OPTION_ID, name, &flag, sizeof(flag));
}

static int set_one_family(struct rdma_cm_id *id)
{
    return set_flag(id, RDMA_OPTION_ID_AFONLY, 1);
}

static int share_port(struct rdma_cm_id *id)
{
    return set_flag(id, RDMA_OPTION_ID_REUSEADDR, 1);
}

static int keep_port(struct rdma_cm_id *id)
{
    return set_flag(id, RDMA_OPTION_ID_REUSEADDR, 0);
}

static int (*const calls[])(struct rdma_cm_id *id) = {
    bind_id,        resolve_address, resolve_route,  connect_id,   listen_id,
    accept_id,      reject_id,       rdma_establish, note_traffic, rdma_disconnect,
    set_one_family, share_port,      keep_port,
};

#define CALL_COUNT (sizeof(calls) / sizeof(calls[0]))

/* --- the table --- */

struct row {
    const char *name;
    struct rdma_cm_id *(*enter)(struct sides *s);
    int expected[CALL_COUNT]; /* errno; 0: the call is taken */
};

#define NO EINVAL
#define AGAIN EISCONN

/* clang-format off */
static const struct row rows[] = {
/*                       bind addr route conn listen accept reject estab notify disc afonly share keep */
{"idle", idle,               {0,  0, NO, NO,  0, NO, NO, NO, NO,    NO,  0,  0,  0}},
{"bound", bound,             {NO, 0, NO, NO,  0, NO, NO, NO, NO,    NO,  0,  0, NO}},
{"query", address_query,     {NO, NO, NO, NO, NO, NO, NO, NO, NO,   NO, NO,  0, NO}},
{"error", address_error,     {NO, 0, NO, NO,  0, NO, NO, NO, NO,    NO,  0,  0, NO}},
{"address", address_resolved, {NO, NO, 0, NO, NO, NO, NO, NO, NO,   NO, NO,  0, NO}},
{"route", route_resolved,    {NO, NO, NO,  0, NO, NO, NO, NO, NO,   NO, NO,  0, NO}},
{"asking", asking,           {NO, NO, NO, NO, NO, NO,  0, NO, NO,    0, NO,  0, NO}},
{"asked", asked,             {NO, NO, NO, NO, NO,  0,  0, NO, NO,    0, NO,  0, NO}},
{"answering", answering,     {NO, NO, NO, NO, NO, NO,  0, NO,  0,    0, NO,  0, NO}},
{"answered", answered,       {NO, NO, NO, NO, NO, NO,  0,  0, NO,    0, NO,  0, NO}},
{"connected", connected,     {NO, NO, NO, NO, NO, NO, NO, NO, AGAIN, 0, NO,  0, NO}},
{"connected to", connected_to, {NO, NO, NO, NO, NO, NO, NO, NO, AGAIN, 0, NO, 0, NO}},
{"disconnected", disconnected, {NO, NO, NO, NO, NO, NO, NO, NO, NO,  0, NO,  0, NO}},
{"rejected", rejected,       {NO, NO, NO, NO, NO, NO, NO, NO, NO,    0, NO,  0, NO}},
{"listening", listening,     {NO, NO, NO, NO, NO, NO, NO, NO, NO,    0, NO, NO, NO}},
{"listening anywhere", listening_anywhere,
                             {NO, NO, NO, NO, NO, NO, NO, NO, NO,   NO, NO, NO, NO}},
};
/* clang-format on */

/* 0, or the errno. */
static int try_call(const struct row *row, size_t call)
{
    struct rdma_cm_id *id;
    struct sides s;
    int result = row->expected[call];

    sides_open(&s, RDMA_PS_TCP);
    id = row->enter(&s);
    if (id != NULL)
        result = calls[call](id) == 0 ? 0 : errno;
    sides_close(&s);
    return result;
}

static void each_call_belongs_to_its_states(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (size_t call = 0; call < CALL_COUNT; call++) {
            const int result = try_call(&rows[i], call);

            if (result != rows[i].expected[call])
                fail_msg("%s, call %zu: errno %d", rows[i].name, call, result);
        }
    }
}

/* The same for groups, which belong to datagrams before they have a route. */
static void a_group_is_joined_before_the_route_is_resolved(void **state)
{
    struct sockaddr_in group = loopback(0);
    struct sides s;

    (void)state;
    inet_pton(AF_INET, "239.0.0.1", &group.sin_addr);
    sides_open(&s, RDMA_PS_UDP);
    assert_int_equal(rdma_join_multicast(s.client, (struct sockaddr *)&group, NULL), -1);
    assert_int_equal(errno, EINVAL);
    address_resolved(&s);
    assert_int_equal(rdma_join_multicast(s.client, (struct sockaddr *)&group, NULL), 0);
    expect_and_ack(s.client_channel, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    assert_int_equal(rdma_resolve_route(s.client, 1000), 0);
    expect_and_ack(s.client_channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    assert_int_equal(rdma_join_multicast(s.client, (struct sockaddr *)&group, NULL), -1);
    assert_int_equal(errno, EINVAL);
    sides_close(&s);
}

/* A search that failed leaves nothing behind: the next one may go elsewhere. */
static void who_looked_in_vain_looks_again(void **state)
{
    struct sides s;

    (void)state;
    sides_open(&s, RDMA_PS_TCP);
    if (address_error(&s) != NULL)
        resolve(&s, PORT);
    sides_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_call_belongs_to_its_states),
        cmocka_unit_test(a_group_is_joined_before_the_route_is_resolved),
        cmocka_unit_test(who_looked_in_vain_looks_again),
    };

    enter_namespace();
    no_link = system("ip link add near type veth peer name far 2>/dev/null &&"
                     "ip address add 192.0.2.1/24 dev near &&"
                     "ip link set near up && ip link set far up") != 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
