/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A completion queue that is too small for what completes (IBA 11.6.3.1,
 * 11.6.3.2): the CQ says so once, the QP that lost a completion fails and says
 * so, and nobody else is harmed.
 */
#include "support/packet_peer.h"

#include <errno.h>

static struct peer the_peer;

static void open_with(enum service service, bool with_srq)
{
    struct endpoint_config config = endpoint_config_default(2);

    config.service = service;
    config.with_srq = with_srq;
    peer_open(&the_peer, config, 0xfffffe);
}

static void post_sends(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        endpoint_post(&the_peer.ep, &(struct work){.wr_id = i, .opcode = WR_SEND});
}

/* The events of the CQ and the QP, once each and in the order of the loss. */
static void expect_the_qp_failed(struct cq *cq)
{
    struct endpoint *ep = &the_peer.ep;
    struct completion c;

    expect_event(ep, ENGINE_EVENT_CQ_ERR);
    expect_event(ep, ENGINE_EVENT_QP_FATAL);
    if (ep->srq != NULL)
        expect_event(ep, ENGINE_EVENT_LAST_WQE);
    expect_no_event(ep);
    assert_int_equal(qp_state(ep->qp), QP_ERR);
    assert_int_equal(cq_poll(cq, 1, &c), -EOVERFLOW);
}

static void requester_that_loses_a_completion_fails(void **state)
{
    struct endpoint *ep = &the_peer.ep;

    (void)state;
    open_with(SERVICE_RC, false);
    assert_int_equal(cq_resize(ep->send_cq, 1), 0);
    post_sends(3);
    peer_listens(&the_peer);
    peer_acks(&the_peer, 1, 2);
    expect_completion(ep->send_cq, 0, STATUS_SUCCESS);
    expect_the_qp_failed(ep->send_cq);
    peer_close(&the_peer);
}

static void unreliable_requester_that_loses_a_completion_fails(void **state)
{
    struct endpoint *ep = &the_peer.ep;

    (void)state;
    open_with(SERVICE_UC, false);
    assert_int_equal(cq_resize(ep->send_cq, 1), 0);
    post_sends(2);
    peer_listens(&the_peer); /* what left is done */
    expect_completion(ep->send_cq, 0, STATUS_SUCCESS);
    expect_the_qp_failed(ep->send_cq);
    peer_close(&the_peer);
}

static void send_queue_in_error_that_loses_a_flush_fails_whole(void **state)
{
    struct endpoint *ep = &the_peer.ep;

    (void)state;
    open_with(SERVICE_UC, false);
    assert_int_equal(cq_resize(ep->send_cq, 1), 0);
    endpoint_post(ep, &(struct work){.opcode = WR_SEND, .len = 8, .lkey = 1});
    peer_listens(&the_peer);
    assert_int_equal(qp_state(ep->qp), QP_SQE);
    expect_no_event(ep);
    endpoint_post(ep, &(struct work){.wr_id = 1, .opcode = WR_SEND});
    expect_completion(ep->send_cq, 0, STATUS_LOC_PROT_ERR);
    expect_the_qp_failed(ep->send_cq);
    peer_close(&the_peer);
}

static void responder_that_loses_a_completion_fails(void **state)
{
    (void)state;
    for (int with_srq = 0; with_srq < 2; with_srq++) {
        struct endpoint *ep = &the_peer.ep;

        open_with(SERVICE_RC, with_srq != 0);
        assert_int_equal(cq_resize(ep->recv_cq, 1), 0);
        for (uint32_t i = 0; i < 4; i++)
            endpoint_post_recv(ep, i, 0x100 * i, 0x100);
        for (uint32_t i = 0; i < 2; i++)
            peer_sends(&the_peer, (struct script){.operation = OP_SEND_ONLY, .psn = i});
        expect_completion(ep->recv_cq, 0, STATUS_SUCCESS);
        expect_the_qp_failed(ep->recv_cq);
        peer_sends(&the_peer, (struct script){.operation = OP_SEND_ONLY, .psn = 2});
        expect_counter(ep, wrong_state, 1);
        expect_counter(ep, requests, 2);
        peer_close(&the_peer);
    }
}

/* IBA 11.6.3.2: there is nothing new to say of a QP that is in error. */
static void queue_pair_in_error_that_loses_flushes_does_not_fail_again(void **state)
{
    struct endpoint *ep = &the_peer.ep;

    (void)state;
    open_with(SERVICE_RC, false);
    assert_int_equal(cq_resize(ep->send_cq, 1), 0);
    post_sends(3);
    endpoint_modify_state(ep, QP_ERR, 0, NULL);
    expect_event(ep, ENGINE_EVENT_CQ_ERR);
    expect_no_event(ep);
    peer_close(&the_peer);
}

static void queue_pair_that_lost_nothing_goes_on(void **state)
{
    struct endpoint *ep = &the_peer.ep;
    struct qp_init init = {.service = SERVICE_RC, .cap = {.send_wr_max = 1, .recv_wr_max = 1}};
    struct qp_attr attr = {.state = QP_INIT, .port = 1};
    struct qp *other;

    (void)state;
    open_with(SERVICE_RC, false);
    init.pd = ep->pd;
    init.send_cq = ep->send_cq;
    init.recv_cq = ep->recv_cq;
    assert_int_equal(qp_new(ep->engine, &init, &other), 0);
    assert_int_equal(qp_modify(other, &attr,
                               QP_ATTR_STATE | QP_ATTR_PORT | QP_ATTR_PKEY_INDEX | QP_ATTR_ACCESS,
                               NULL),
                     0);
    assert_int_equal(cq_resize(ep->send_cq, 1), 0);
    post_sends(2);
    peer_listens(&the_peer);
    peer_acks(&the_peer, 1, 2);
    assert_int_equal(qp_state(ep->qp), QP_ERR);
    assert_int_equal(qp_state(other), QP_INIT);
    assert_int_equal(qp_free(other), 0);
    peer_close(&the_peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requester_that_loses_a_completion_fails),
        cmocka_unit_test(unreliable_requester_that_loses_a_completion_fails),
        cmocka_unit_test(send_queue_in_error_that_loses_a_flush_fails_whole),
        cmocka_unit_test(responder_that_loses_a_completion_fails),
        cmocka_unit_test(queue_pair_in_error_that_loses_flushes_does_not_fail_again),
        cmocka_unit_test(queue_pair_that_lost_nothing_goes_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
