/* SPDX-License-Identifier: BSD-2-Clause */
#include "sides.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <string.h>
#include <sys/socket.h>

struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_port = htons(port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
}

void sides_open(struct sides *s, enum rdma_port_space ps)
{
    struct sockaddr_in here = loopback(PORT);

    *s = (struct sides){0};
    s->server_channel = rdma_create_event_channel();
    s->client_channel = rdma_create_event_channel();
    assert_non_null(s->server_channel);
    assert_non_null(s->client_channel);
    assert_int_equal(rdma_create_id(s->server_channel, &s->listener, s, ps), 0);
    assert_int_equal(rdma_create_id(s->client_channel, &s->client, s, ps), 0);
    assert_int_equal(rdma_bind_addr(s->listener, (struct sockaddr *)&here), 0);
    assert_int_equal(rdma_listen(s->listener, 4), 0);
}

static void destroy(struct rdma_cm_id *id)
{
    if (id == NULL)
        return;
    rdma_destroy_qp(id);
    assert_int_equal(rdma_destroy_id(id), 0);
}

void sides_close(struct sides *s)
{
    destroy(s->client);
    destroy(s->server);
    destroy(s->listener);
    rdma_destroy_event_channel(s->server_channel);
    rdma_destroy_event_channel(s->client_channel);
}

struct rdma_cm_event *expect_event(struct rdma_event_channel *channel, enum rdma_cm_event_type type,
                                   int status)
{
    struct rdma_cm_event *event;

    assert_true(readable(channel->fd, WAIT_MS));
    assert_int_equal(rdma_get_cm_event(channel, &event), 0);
    assert_string_equal(rdma_event_str(event->event), rdma_event_str(type));
    assert_int_equal(event->status, status);
    return event;
}

void expect_and_ack(struct rdma_event_channel *channel, enum rdma_cm_event_type type, int status)
{
    assert_int_equal(rdma_ack_cm_event(expect_event(channel, type, status)), 0);
}

void resolve(struct sides *s, uint16_t port)
{
    struct sockaddr_in there = loopback(port);

    assert_int_equal(rdma_resolve_addr(s->client, NULL, (struct sockaddr *)&there, 1000), 0);
    expect_and_ack(s->client_channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    assert_int_equal(rdma_resolve_route(s->client, 1000), 0);
    expect_and_ack(s->client_channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

void make_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = id->qp_type,
        .sq_sig_all = 1,
    };

    assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

void ask(struct sides *s, const char *data)
{
    struct rdma_conn_param param = {
        .private_data = data,
        .private_data_len = (uint8_t)strlen(data),
        .responder_resources = 3,
        .initiator_depth = 2,
        .retry_count = 5,
        .rnr_retry_count = 6,
    };
    struct rdma_cm_event *event;

    assert_int_equal(rdma_connect(s->client, &param), 0);
    event = expect_event(s->server_channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    assert_ptr_equal(event->listen_id, s->listener);
    s->server = event->id;
    assert_ptr_equal(s->server->context, s);
    assert_memory_equal(event->param.conn.private_data, data, strlen(data));
    assert_int_equal(rdma_ack_cm_event(event), 0);
}

void establish(struct sides *s)
{
    resolve(s, PORT);
    make_qp(s->client);
    ask(s, "hello");
    make_qp(s->server);
    assert_int_equal(rdma_accept(s->server, NULL), 0);
    expect_and_ack(s->client_channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    expect_and_ack(s->server_channel, RDMA_CM_EVENT_ESTABLISHED, 0);
}

int open_tap(const char *interface)
{
    const struct sockaddr_ll at = {.sll_family = AF_PACKET,
                                   .sll_protocol = htons(ETH_P_IP),
                                   .sll_ifindex = (int)if_nametoindex(interface)};
    int tap = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_true(tap >= 0);
    assert_int_equal(bind(tap, (const struct sockaddr *)&at, sizeof(at)), 0);
    return tap;
}
