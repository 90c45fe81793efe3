/* SPDX-License-Identifier: BSD-2-Clause */
/* Names to addresses, and synchronous identifiers made of them: a server in a thread, a client. */
#include "sides.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <string.h>

static struct rdma_addrinfo *look_up(const char *node, int flags, int ps)
{
    struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = ps};
    struct rdma_addrinfo *res;

    assert_int_equal(rdma_getaddrinfo(node, "7174", &hints, &res), 0);
    return res;
}

static void a_name_becomes_the_address_of_its_side(void **state)
{
    struct rdma_addrinfo *res = look_up("127.0.0.1", RAI_PASSIVE, 0);

    (void)state;
    assert_null(res->ai_dst_addr);
    assert_int_equal(((struct sockaddr_in *)res->ai_src_addr)->sin_port, htons(7174));
    assert_int_equal(res->ai_port_space, RDMA_PS_TCP);
    assert_int_equal(res->ai_qp_type, IBV_QPT_RC);
    rdma_freeaddrinfo(res);
    res = look_up("::1", 0, RDMA_PS_UDP);
    assert_null(res->ai_src_addr);
    assert_int_equal(res->ai_family, AF_INET6);
    assert_int_equal(res->ai_dst_len, sizeof(struct sockaddr_in6));
    assert_int_equal(res->ai_qp_type, IBV_QPT_UD);
    rdma_freeaddrinfo(res);
}

static void a_name_that_nobody_has_is_told(void **state)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_NUMERICHOST};
    struct rdma_addrinfo *res;

    (void)state;
    assert_int_not_equal(rdma_getaddrinfo("no.such.host", "1", &hints, &res), 0);
    assert_int_equal(rdma_getaddrinfo(NULL, NULL, NULL, &res), -1);
    assert_int_equal(errno, EINVAL);
}

static struct ibv_qp_init_attr small(void)
{
    return (struct ibv_qp_init_attr){
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .sq_sig_all = 1,
    };
}

/* Answers one message with the same; what fails here ends the client's wait. */
static void *serve(void *context)
{
    struct rdma_cm_id *listener = context;
    struct rdma_cm_id *id;
    static char text[16];
    struct ibv_mr *mr;
    struct ibv_wc wc;

    if (rdma_get_request(listener, &id) != 0)
        return "no request";
    mr = rdma_reg_msgs(id, text, sizeof(text));
    if (rdma_post_recv(id, NULL, text, sizeof(text), mr) != 0 || rdma_accept(id, NULL) != 0)
        return "not accepted";
    if (rdma_get_recv_comp(id, &wc) != 1 ||
        rdma_post_send(id, NULL, text, sizeof(text), mr, 0) != 0 ||
        rdma_get_send_comp(id, &wc) != 1)
        return "no message";
    rdma_disconnect(id);
    rdma_dereg_mr(mr);
    rdma_destroy_ep(id);
    return NULL;
}

static struct rdma_cm_id *listen_at(const char *address)
{
    struct rdma_addrinfo *res = look_up(address, RAI_PASSIVE, RDMA_PS_TCP);
    struct ibv_qp_init_attr attr = small();
    struct rdma_cm_id *listener;

    assert_int_equal(rdma_create_ep(&listener, res, NULL, &attr), 0);
    assert_int_equal(rdma_listen(listener, 0), 0);
    rdma_freeaddrinfo(res);
    return listener;
}

static struct rdma_cm_id *connect_to(const char *address)
{
    struct rdma_addrinfo *res = look_up(address, 0, RDMA_PS_TCP);
    struct ibv_qp_init_attr attr = small();
    struct rdma_cm_id *id;

    assert_int_equal(rdma_create_ep(&id, res, NULL, &attr), 0);
    rdma_freeaddrinfo(res);
    return id;
}

static void echo_at(const char *address)
{
    static char text[16] = "echo";
    struct rdma_cm_id *listener = listen_at(address);
    struct rdma_cm_id *id = connect_to(address);
    struct ibv_mr *mr = rdma_reg_msgs(id, text, sizeof(text));
    pthread_t thread;
    void *fault;
    struct ibv_wc wc;

    assert_int_equal(pthread_create(&thread, NULL, serve, listener), 0);
    assert_int_equal(rdma_post_recv(id, NULL, text, sizeof(text), mr), 0);
    assert_int_equal(rdma_connect(id, NULL), 0);
    assert_int_equal(rdma_post_send(id, NULL, text, sizeof(text), mr, 0), 0);
    assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(rdma_disconnect(id), 0);
    assert_int_equal(pthread_join(thread, &fault), 0);
    assert_null(fault);
    rdma_dereg_mr(mr);
    rdma_destroy_ep(id);
    rdma_destroy_ep(listener);
}

static void calls_without_a_channel_wait_for_their_events(void **state)
{
    (void)state;
    echo_at("127.0.0.1");
    echo_at("::1");
}

static void a_refused_connection_is_the_result_of_the_call(void **state)
{
    struct rdma_cm_id *id = connect_to("127.0.0.1");

    (void)state;
    assert_int_equal(rdma_connect(id, NULL), -1);
    assert_int_equal(errno, ECONNREFUSED);
    assert_int_equal(id->event->event, RDMA_CM_EVENT_REJECTED);
    rdma_destroy_ep(id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_becomes_the_address_of_its_side),
        cmocka_unit_test(a_name_that_nobody_has_is_told),
        cmocka_unit_test(calls_without_a_channel_wait_for_their_events),
        cmocka_unit_test(a_refused_connection_is_the_result_of_the_call),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
