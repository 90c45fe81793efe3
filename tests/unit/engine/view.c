/* SPDX-License-Identifier: BSD-2-Clause */
/* What is counted for a queue pair, and what somebody who watches is shown of it. */
#include "rc_script.h"

#include "engine/view.h"

#define LEN_OF_SEND_HEADERS 12u /* BTH */
#define LEN_OF_ICRC 4u
#define LEN_OF_ACK 20u /* BTH, AETH, ICRC */

static struct qp_view look(struct peer *p)
{
    struct qp_view v;

    qp_view(p->ep.qp, &v);
    return v;
}

/* Takes what has changed; how many queue pairs that was. */
static uint32_t take_changes(struct peer *p)
{
    uint32_t count = 0;

    while (engine_touched_next(p->ep.engine) != NULL)
        count++;
    return count;
}

static void packets_and_bytes_are_counted_from_bth_to_icrc(void **state)
{
    struct peer *p = *state;
    struct qp_counters c;

    post_send(p, 1, 10); /* 10 bytes and 2 of pad */
    peer_acks(p, 0, 1);
    c = look(p).counters;
    assert_int_equal(c.sent_packets, 1);
    assert_int_equal(c.sent_bytes, LEN_OF_SEND_HEADERS + 12 + LEN_OF_ICRC);
    assert_int_equal(c.sent_payload_bytes, 10);
    assert_int_equal(c.rcv_packets, 1);
    assert_int_equal(c.rcv_bytes, LEN_OF_ACK);
    expect_counter(&p->ep, sent_bytes, c.sent_bytes);
    expect_counter(&p->ep, rcv_bytes, c.rcv_bytes);
}

static void messages_that_are_taken_are_counted_by_kind(void **state)
{
    struct peer *p = *state;
    struct qp_counters c;

    endpoint_post_recv(&p->ep, 1, 0, 2 * PMTU);
    peer_sends(p, (struct script){.operation = OP_SEND_FIRST, .psn = 0, .len = PMTU});
    peer_sends(p, (struct script){.operation = OP_SEND_LAST, .psn = 1, .len = 1, .first = PMTU});
    peer_sends(p,
               (struct script){
                   .operation = OP_WRITE_ONLY, .psn = 2, .len = 8, .dma_len = 8, .remote = TARGET});
    peer_sends(
        p, (struct script){.operation = OP_READ_REQUEST, .psn = 3, .dma_len = 8, .remote = TARGET});
    peer_sends(
        p, (struct script){.operation = OP_FETCH_ADD, .psn = 4, .swap_add = 1, .remote = TARGET});
    peer_sends(
        p, (struct script){.operation = OP_FETCH_ADD, .psn = 4, .swap_add = 1, .remote = TARGET});
    c = look(p).counters;
    assert_int_equal(c.requests, 5);
    assert_int_equal(c.rx_send_requests, 1);
    assert_int_equal(c.rx_write_requests, 1);
    assert_int_equal(c.rx_read_requests, 1);
    assert_int_equal(c.rx_atomic_requests, 1);
    assert_int_equal(c.duplicate_request, 1);
}

static void requests_that_fail_are_counted_by_what_the_peer_said(void **state)
{
    struct peer *p = *state;
    struct qp_counters c;

    endpoint_post_recv(&p->ep, 7, 0, 8);
    post_write(p, 1, 8);
    post_write(p, 2, 8);
    peer_naks(p, NAK_REMOTE_ACCESS, 0);
    c = look(p).counters;
    assert_int_equal(c.req_cqe_error, 2);
    assert_int_equal(c.req_remote_access_errors, 1);
    assert_int_equal(c.req_cqe_flush_error, 1);
    assert_int_equal(c.req_remote_invalid_request, 0);
    assert_int_equal(c.resp_cqe_error, 1);
    assert_int_equal(c.resp_cqe_flush_error, 1);
    assert_int_equal(look(p).state, QP_ERR);
}

static void view_shows_where_the_queue_pair_stands(void **state)
{
    struct peer *p = *state;
    const uint32_t start = p->psn_start;
    struct qp_view v;

    post_write(p, 1, 8);
    post_write(p, 2, 8);
    peer_acks(p, 0, 1);
    endpoint_post_recv(&p->ep, 7, 0, 8);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 0, .len = 1});
    v = look(p);
    assert_int_equal(v.qpn, qp_qpn(p->ep.qp));
    assert_int_equal(v.service, SERVICE_RC);
    assert_int_equal(v.state, QP_RTS);
    assert_int_equal(v.sq_psn.value, (start + 2) & 0xffffff);
    assert_int_equal(v.una.value, (start + 1) & 0xffffff);
    assert_int_equal(v.epsn.value, (start + 1) & 0xffffff);
    assert_int_equal(v.send_queued, 1);
}

static void change_is_told_once(void **state)
{
    struct peer *p = *state;

    assert_int_equal(take_changes(p), 1); /* it was made and modified */
    assert_int_equal(take_changes(p), 0);
    post_write(p, 1, 8);
    peer_acks(p, 0, 1);
    assert_int_equal(take_changes(p), 1);
    endpoint_modify_state(&p->ep, QP_ERR, 0, NULL);
    assert_int_equal(take_changes(p), 1);
    assert_int_equal(take_changes(p), 0);
}

static void queue_pair_that_is_gone_is_not_told_of(void **state)
{
    struct peer *p = *state;
    struct qp_init init = {.service = SERVICE_UC,
                           .pd = p->ep.pd,
                           .send_cq = p->ep.send_cq,
                           .recv_cq = p->ep.recv_cq,
                           .port_tag = 3};
    struct qp *other;
    struct qp_view v;

    take_changes(p);
    assert_int_equal(qp_new(p->ep.engine, &init, &other), 0);
    qp_view(other, &v);
    assert_int_equal(v.port_tag, 3);
    assert_int_equal(qp_free(other), 0);
    assert_int_equal(take_changes(p), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RC_TEST(packets_and_bytes_are_counted_from_bth_to_icrc),
        RC_TEST(messages_that_are_taken_are_counted_by_kind),
        RC_TEST(requests_that_fail_are_counted_by_what_the_peer_said),
        RC_TEST(view_shows_where_the_queue_pair_stands),
        RC_TEST(change_is_told_once),
        RC_TEST(queue_pair_that_is_gone_is_not_told_of),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
