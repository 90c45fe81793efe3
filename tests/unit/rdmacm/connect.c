/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections, from both sides: expectations from rdma_cm(7) and its pages. */
#include "sides.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_verbs.h>
#include <string.h>
#include <unistd.h>

static int setup(void **state)
{
    static struct sides s;

    sides_open(&s, RDMA_PS_TCP);
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    sides_close(*state);
    return 0;
}

static void send_and_receive(struct rdma_cm_id *from, struct rdma_cm_id *to)
{
    static char text[64], got[64];
    struct ibv_mr *in = rdma_reg_msgs(to, got, sizeof(got));
    struct ibv_mr *out = rdma_reg_msgs(from, text, sizeof(text));
    struct ibv_wc wc;

    strcpy(text, "over a queue pair of the ID");
    assert_int_equal(rdma_post_recv(to, NULL, got, sizeof(got), in), 0);
    assert_int_equal(rdma_post_send(from, NULL, text, sizeof(text), out, 0), 0);
    assert_int_equal(rdma_get_recv_comp(to, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(rdma_get_send_comp(from, &wc), 1);
    assert_string_equal(got, text);
    rdma_dereg_mr(in);
    rdma_dereg_mr(out);
}

static void a_connection_carries_messages_both_ways_and_ends_on_both_sides(void **state)
{
    struct sides *s = *state;

    establish(s);
    send_and_receive(s->client, s->server);
    send_and_receive(s->server, s->client);
    assert_int_equal(rdma_disconnect(s->client), 0);
    expect_and_ack(s->server_channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    expect_and_ack(s->client_channel, RDMA_CM_EVENT_DISCONNECTED, 0);
    assert_int_equal(rdma_disconnect(s->server), 0); /* it is already: no error */
    expect_and_ack(s->client_channel, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
    expect_and_ack(s->server_channel, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
}

static void parameters_are_said_from_the_receivers_side(void **state)
{
    struct sides *s = *state;
    struct rdma_conn_param asked = {
        .responder_resources = 3, .initiator_depth = 2, .retry_count = 5, .rnr_retry_count = 6};
    struct rdma_conn_param accepted = {.private_data = "yes",
                                       .private_data_len = 3,
                                       .responder_resources = 2,
                                       .initiator_depth = 1,
                                       .rnr_retry_count = 4};
    struct rdma_cm_event *event;
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    resolve(s, PORT);
    make_qp(s->client);
    assert_int_equal(rdma_connect(s->client, &asked), 0);
    event = expect_event(s->server_channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    s->server = event->id;
    assert_int_equal(event->param.conn.responder_resources, 2);
    assert_int_equal(event->param.conn.initiator_depth, 3);
    assert_int_equal(event->param.conn.retry_count, 5);
    assert_int_equal(event->param.conn.rnr_retry_count, 6);
    assert_int_equal(event->param.conn.qp_num, s->client->qp->qp_num);
    assert_int_equal(event->param.conn.private_data_len, 56);
    rdma_ack_cm_event(event);
    make_qp(s->server);
    assert_int_equal(rdma_accept(s->server, &accepted), 0);
    event = expect_event(s->client_channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    assert_int_equal(event->param.conn.responder_resources, 1);
    assert_int_equal(event->param.conn.initiator_depth, 2);
    assert_int_equal(event->param.conn.private_data_len, 196);
    assert_memory_equal(event->param.conn.private_data, "yes", 4);
    rdma_ack_cm_event(event);
    expect_and_ack(s->server_channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    assert_int_equal(ibv_query_qp(s->client->qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_RTS);
    assert_int_equal(attr.max_dest_rd_atomic, 1);
    assert_int_equal(attr.max_rd_atomic, 2);
    assert_int_equal(attr.rnr_retry, 4);
    assert_int_equal(attr.retry_cnt, 5);
}

static void a_port_without_a_listener_refuses(void **state)
{
    struct sides *s = *state;

    resolve(s, PORT + 1);
    make_qp(s->client);
    assert_int_equal(rdma_connect(s->client, NULL), 0);
    expect_and_ack(s->client_channel, RDMA_CM_EVENT_REJECTED, 8);
    assert_int_equal(s->client->qp->state, IBV_QPS_ERR);
}

static void a_request_for_another_kind_of_queue_pair_is_refused(void **state)
{
    struct sides *s = *state;
    const int fd = s->server_channel->fd;
    struct rdma_cm_event *event;

    s->listener->qp_type = IBV_QPT_UC; /* as rdma_create_ep would */
    resolve(s, PORT);
    make_qp(s->client);
    assert_int_equal(rdma_connect(s->client, NULL), 0);
    assert_true(readable(fd, WAIT_MS));
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(rdma_get_cm_event(s->server_channel, &event), -1); /* nothing is for it */
    assert_int_equal(errno, EAGAIN);
    expect_and_ack(s->client_channel, RDMA_CM_EVENT_REJECTED, 9);
}

static struct ibv_qp_attr attributes(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    assert_int_equal(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init), 0);
    return attr;
}

/* The request carries both: the side that accepts answers in the same class of traffic. */
static void options_of_the_client_reach_the_queue_pairs_of_both_sides(void **state)
{
    struct sides *s = *state;
    uint8_t tos = 0x68;
    uint8_t timeout = 9;

    assert_int_equal(rdma_set_option(s->client, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
    assert_int_equal(
        rdma_set_option(s->client, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), 0);
    establish(s);
    assert_int_equal(attributes(s->client).ah_attr.grh.traffic_class, tos);
    assert_int_equal(attributes(s->client).timeout, timeout);
    assert_int_equal(attributes(s->server).ah_attr.grh.traffic_class, tos);
    assert_int_equal(attributes(s->server).timeout, timeout);
}

static void the_listeners_own_patience_goes_before_the_clients(void **state)
{
    struct sides *s = *state;
    uint8_t timeout = 9;
    uint8_t other = 11;

    assert_int_equal(
        rdma_set_option(s->client, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), 0);
    assert_int_equal(
        rdma_set_option(s->listener, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &other, 1), 0);
    establish(s);
    assert_int_equal(attributes(s->client).timeout, timeout);
    assert_int_equal(attributes(s->server).timeout, other);
}

static void the_wildcard_of_ipv6_is_met_over_ipv4_unless_it_is_of_one_family(void **state)
{
    struct sockaddr_in6 anywhere = {.sin6_family = AF_INET6, .sin6_port = htons(PORT + 1)};
    struct sides *s = *state;
    struct rdma_cm_event *event;

    for (int one_family = 0; one_family <= 1; one_family++) {
        sides_close(s);
        sides_open(s, RDMA_PS_TCP);
        assert_int_equal(rdma_destroy_id(s->listener), 0);
        assert_int_equal(rdma_create_id(s->server_channel, &s->listener, s, RDMA_PS_TCP), 0);
        assert_int_equal(rdma_set_option(s->listener, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY,
                                         &one_family, sizeof(one_family)),
                         0);
        assert_int_equal(rdma_bind_addr(s->listener, (struct sockaddr *)&anywhere), 0);
        assert_int_equal(rdma_listen(s->listener, 4), 0);
        resolve(s, PORT + 1);
        make_qp(s->client);
        if (one_family == 0)
            ask(s, "hello");
        else
            assert_int_equal(rdma_connect(s->client, NULL), 0);
    }
    assert_true(readable(s->server_channel->fd, WAIT_MS));
    assert_int_equal(fcntl(s->server_channel->fd, F_SETFL, O_NONBLOCK), 0);
    if (rdma_get_cm_event(s->server_channel, &event) == 0) {
        s->server = event->id;
        rdma_ack_cm_event(event);
        fail_msg("a request over IPv4 came to a listener of IPv6 alone");
    }
    expect_and_ack(s->client_channel, RDMA_CM_EVENT_REJECTED, 8);
}

/* False: the client was refused, for this process was away for longer than clients are patient. */
static bool is_late_and_met(struct sides *s)
{
    struct sockaddr_in here = loopback(PORT + 1);
    struct pollfd fds[] = {{.fd = s->server_channel->fd, .events = POLLIN},
                           {.fd = s->client_channel->fd, .events = POLLIN}};
    struct rdma_cm_event *event;
    struct rdma_cm_id *late;
    bool met;

    resolve(s, PORT + 1);
    make_qp(s->client);
    assert_int_equal(rdma_connect(s->client, NULL), 0);
    usleep(15000); /* the first refusal is there */
    assert_int_equal(rdma_create_id(s->server_channel, &late, s, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(late, (struct sockaddr *)&here), 0);
    assert_int_equal(rdma_listen(late, 4), 0);
    assert_true(poll(fds, COUNT_OF(fds), WAIT_MS) > 0);
    met = (fds[0].revents & POLLIN) != 0;
    if (met) {
        event = expect_event(s->server_channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
        s->server = event->id;
        rdma_ack_cm_event(event);
    } else {
        expect_and_ack(s->client_channel, RDMA_CM_EVENT_REJECTED, 8);
    }
    assert_int_equal(rdma_destroy_id(late), 0);
    return met;
}

static void a_listener_that_comes_a_moment_late_is_met(void **state)
{
    int refused = 0;

    while (!is_late_and_met(*state)) {
        assert_true(++refused < 50);
        sides_close(*state);
        sides_open(*state, RDMA_PS_TCP);
    }
}

static void a_refusal_carries_the_applications_words(void **state)
{
    struct sides *s = *state;
    struct rdma_cm_event *event;

    resolve(s, PORT);
    make_qp(s->client);
    ask(s, "hello");
    assert_int_equal(rdma_reject(s->server, "full", 4), 0);
    event = expect_event(s->client_channel, RDMA_CM_EVENT_REJECTED, 28);
    assert_int_equal(event->param.conn.private_data_len, 148);
    assert_memory_equal(event->param.conn.private_data, "full", 5);
    rdma_ack_cm_event(event);
}

static void a_request_that_nobody_fetched_is_refused_with_its_listener(void **state)
{
    struct sides *s = *state;

    resolve(s, PORT);
    make_qp(s->client);
    assert_int_equal(rdma_connect(s->client, NULL), 0);
    assert_true(readable(s->server_channel->fd, WAIT_MS));
    assert_int_equal(rdma_destroy_id(s->listener), 0);
    s->listener = NULL;
    assert_false(readable(s->server_channel->fd, 0));
    expect_and_ack(s->client_channel, RDMA_CM_EVENT_REJECTED, 28);
}

static void private_data_has_its_limits(void **state)
{
    static const char data[256];
    struct sides *s = *state;
    struct rdma_conn_param param = {.private_data = data, .private_data_len = 57};

    resolve(s, PORT);
    make_qp(s->client);
    assert_int_equal(rdma_connect(s->client, &param), -1);
    assert_int_equal(errno, EINVAL);
    ask(s, "hello");
    param.private_data_len = 197;
    assert_int_equal(rdma_accept(s->server, &param), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_reject(s->server, data, 149), -1);
    assert_int_equal(errno, EINVAL);
}

/* --- with a queue pair that the ID does not know --- */

static struct ibv_qp *own_qp(struct rdma_cm_id *id, struct ibv_cq *cq)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    struct ibv_qp *qp = ibv_create_qp(id->pd, &attr);

    assert_non_null(qp);
    return qp;
}

static void bring_up(struct rdma_cm_id *id, struct ibv_qp *qp)
{
    static const enum ibv_qp_state states[] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};

    for (size_t i = 0; i < COUNT_OF(states); i++) {
        struct ibv_qp_attr attr = {.qp_state = states[i]};
        int mask;

        assert_int_equal(rdma_init_qp_attr(id, &attr, &mask), 0);
        assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
    }
}

static void an_application_may_bring_its_own_queue_pair(void **state)
{
    struct sides *s = *state;
    struct rdma_conn_param param = {.retry_count = 7};
    struct rdma_cm_event *event;
    struct ibv_cq *cq;
    struct ibv_qp *client, *server;

    resolve(s, PORT);
    cq = ibv_create_cq(s->client->verbs, 4, NULL, NULL, 0);
    client = own_qp(s->client, cq);
    param.qp_num = client->qp_num;
    assert_int_equal(rdma_establish(s->client), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_connect(s->client, &param), 0);
    event = expect_event(s->server_channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    assert_int_equal(event->param.conn.qp_num, client->qp_num);
    s->server = event->id;
    rdma_ack_cm_event(event);
    server = own_qp(s->server, cq);
    bring_up(s->server, server);
    param.qp_num = server->qp_num;
    assert_int_equal(rdma_accept(s->server, &param), 0);
    expect_and_ack(s->client_channel, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
    bring_up(s->client, client);
    assert_int_equal(rdma_establish(s->client), 0);
    expect_and_ack(s->server_channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    ibv_destroy_qp(client);
    ibv_destroy_qp(server);
    ibv_destroy_cq(cq);
}

/* --- datagrams --- */

static void a_datagram_service_tells_its_queue_pair(void **state)
{
    struct sides s;
    struct rdma_cm_event *event;
    struct rdma_conn_param param = {.private_data = "here", .private_data_len = 4};

    sides_close(*state);
    sides_open(&s, RDMA_PS_UDP);
    resolve(&s, PORT);
    make_qp(s.client);
    assert_int_equal(s.client->qp->state, IBV_QPS_RTS);
    assert_int_equal(rdma_connect(s.client, NULL), 0);
    event = expect_event(s.server_channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
    s.server = event->id;
    assert_int_equal(event->param.ud.private_data_len, 180);
    rdma_ack_cm_event(event);
    make_qp(s.server);
    assert_int_equal(rdma_accept(s.server, &param), 0);
    event = expect_event(s.client_channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    assert_int_equal(event->param.ud.qp_num, s.server->qp->qp_num);
    assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
    assert_memory_equal(event->param.ud.private_data, "here", 4);
    rdma_ack_cm_event(event);
    sides_close(&s);
    sides_open(*state, RDMA_PS_TCP);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_connection_carries_messages_both_ways_and_ends_on_both_sides),
        CASE(parameters_are_said_from_the_receivers_side),
        CASE(a_port_without_a_listener_refuses),
        CASE(a_request_for_another_kind_of_queue_pair_is_refused),
        CASE(options_of_the_client_reach_the_queue_pairs_of_both_sides),
        CASE(the_listeners_own_patience_goes_before_the_clients),
        CASE(the_wildcard_of_ipv6_is_met_over_ipv4_unless_it_is_of_one_family),
        CASE(a_listener_that_comes_a_moment_late_is_met),
        CASE(a_refusal_carries_the_applications_words),
        CASE(a_request_that_nobody_fetched_is_refused_with_its_listener),
        CASE(private_data_has_its_limits),
        CASE(an_application_may_bring_its_own_queue_pair),
        CASE(a_datagram_service_tells_its_queue_pair),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
