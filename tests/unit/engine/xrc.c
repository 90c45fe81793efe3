/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended reliable connections (IBA annex A14) against packets made by hand:
 * what an initiator says, what a target takes, and the SRQs and domain between.
 * All else is RC's, whose tests stand beside this file.
 */
#include "rc_script.h"

#include "engine/limits.h"

#define SRQN 0x00abcdu /* of the peer */

static int open_side(void **state, bool target)
{
    struct endpoint_config config = endpoint_config_default(2);

    config.service = SERVICE_XRC;
    config.target = target;
    peer_open(&the_peer, config, 0xfffffe);
    *state = &the_peer;
    return 0;
}

static int setup_initiator(void **state)
{
    return open_side(state, false);
}

static int setup_target(void **state)
{
    return open_side(state, true);
}

/* A second SRQ, of any domain and PD, that completes into the endpoint's other CQ. */
static struct srq *another_srq(struct peer *p, struct pd *pd, struct xrcd *xrcd)
{
    struct srq_attr attr = {.wr_max = 8, .sge_max = 1, .xrcd = xrcd, .cq = p->ep.send_cq};
    struct srq *srq = NULL;

    assert_int_equal(srq_new(pd, &attr, NULL, &srq), 0);
    return srq;
}

static void post_to(struct peer *p, struct srq *srq, uint64_t wr_id, uint32_t offset, uint32_t len)
{
    const struct sge sge = {.addr = at(offset), .length = len, .lkey = p->ep.mr->key};

    assert_int_equal(srq_post(srq, &(struct recv_wr){.wr_id = wr_id, .sges = &sge, .sge_count = 1}),
                     0);
}

/* --- the side that sends --- */

static void expect_xrceth(struct peer *p, enum operation_code operation, uint32_t psn)
{
    const struct sent_packet *s = expect_packet(p, operation, psn);

    assert_int_equal(opcode_service(s->p.h.bth.opcode), SERVICE_XRC);
    assert_int_equal(s->p.h.xrceth.srqn, SRQN);
}

/* A14: the XRCETH is in every request packet, middles and RDMA as well, behind the BTH. */
static void every_request_packet_names_its_srq(void **state)
{
    struct peer *p = *state;

    post(p, (struct work){.wr_id = 1, .opcode = WR_SEND, .len = 2 * PMTU + 1, .srqn = SRQN});
    post(p, (struct work){.wr_id = 2, .opcode = WR_WRITE_IMM, .len = 2 * PMTU, .srqn = SRQN});
    post(p, (struct work){.wr_id = 3, .opcode = WR_READ, .len = 8, .remote = FAR, .srqn = SRQN});
    post(p, (struct work){.wr_id = 4, .opcode = WR_FETCH_ADD, .len = 8, .srqn = SRQN});
    peer_listens(p);
    expect_xrceth(p, OP_SEND_FIRST, 0);
    expect_xrceth(p, OP_SEND_MIDDLE, 1);
    expect_xrceth(p, OP_SEND_LAST, 2);
    expect_xrceth(p, OP_WRITE_FIRST, 3);
    expect_xrceth(p, OP_WRITE_LAST_IMM, 4);
    expect_xrceth(p, OP_READ_REQUEST, 5);
    expect_xrceth(p, OP_FETCH_ADD, 6);
    expect_silence(p);
}

static void initiator_completes_what_the_target_answers(void **state)
{
    struct peer *p = *state;
    struct completion c;

    post(p, (struct work){.wr_id = 1, .opcode = WR_SEND, .len = 10, .srqn = SRQN});
    post(p, (struct work){.wr_id = 2, .opcode = WR_READ, .local = 0x100, .len = 8, .srqn = SRQN});
    peer_listens(p);
    peer_acks(p, 0, 1);
    peer_answers_read(p, OP_READ_RESP_ONLY, 1, 77, 0, 8);
    c = expect_completion(p->ep.send_cq, 1, STATUS_SUCCESS);
    assert_int_equal(c.qpn, qp_qpn(p->ep.qp));
    expect_completion(p->ep.send_cq, 2, STATUS_SUCCESS);
    expect_placed(&p->ep, 0x100, 77, 0, 8);
}

static void lost_request_is_sent_again_to_the_same_srq(void **state)
{
    struct peer *p = *state;

    post(p, (struct work){.wr_id = 1, .opcode = WR_SEND, .len = 10, .srqn = SRQN});
    peer_listens(p);
    expect_xrceth(p, OP_SEND_ONLY, 0);
    time_passes(p, TIMEOUT_NS + 1);
    expect_xrceth(p, OP_SEND_ONLY, 0);
    peer_acks(p, 0, 1);
    expect_done(p, 1);
}

static void refusal_by_the_target_fails_the_request_and_the_initiator(void **state)
{
    struct peer *p = *state;

    post(p, (struct work){.wr_id = 1, .opcode = WR_SEND, .len = 10, .srqn = SRQN});
    post(p, (struct work){.wr_id = 2, .opcode = WR_SEND, .len = 10, .srqn = SRQN});
    peer_listens(p);
    peer_naks(p, NAK_INVALID_REQUEST, 0);
    expect_completion(p->ep.send_cq, 1, STATUS_REM_INV_REQ_ERR);
    expect_completion(p->ep.send_cq, 2, STATUS_WR_FLUSH_ERR);
    assert_int_equal(qp_state(p->ep.qp), QP_ERR);
    expect_no_event(&p->ep); /* no SRQ is the initiator's, so no last WQE of one */
}

static void initiator_takes_no_request_and_no_receive(void **state)
{
    struct peer *p = *state;

    peer_sends(p,
               (struct script){
                   .operation = OP_SEND_ONLY, .psn = 0, .ack_req = true, .len = 8, .srqn = SRQN});
    peer_sends(p, (struct script){.operation = OP_READ_REQUEST, .psn = 0, .dma_len = 8});
    expect_silence(p);
    expect_counter(&p->ep, wrong_service, 2);
    assert_int_equal(qp_state(p->ep.qp), QP_RTS);
    assert_int_equal(qp_post_recv(p->ep.qp, &(struct recv_wr){.wr_id = 1}), -EINVAL);
}

/* --- the side that receives --- */

/* A14: the completion goes where the SRQ's completions go, and tells through whom it came. */
static void send_is_delivered_into_the_srq_that_it_names(void **state)
{
    struct peer *p = *state;
    struct srq *other = another_srq(p, p->ep.pd, p->ep.xrcd);
    struct completion c;
    uint8_t syndrome;

    endpoint_post_recv(&p->ep, 1, 0, 1000);
    post_to(p, other, 2, 0x1000, 1000);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY,
                                  .psn = 0,
                                  .ack_req = true,
                                  .len = 99,
                                  .message = 7,
                                  .srqn = srq_number(other)});
    /* IBA 9.7.7.2: an SRQ's requests are nobody's to count on. */
    syndrome = expect_packet(p, OP_ACK, 0)->p.h.aeth.syndrome;
    assert_int_equal(syndrome, aeth_make(AETH_ACK, AETH_CREDITS_INVALID));
    c = expect_completion(p->ep.send_cq, 2, STATUS_SUCCESS);
    assert_int_equal(c.opcode, COMPLETION_RECV);
    assert_int_equal(c.byte_len, 99);
    assert_int_equal(c.qpn, qp_qpn(p->ep.qp));
    assert_int_equal(c.src_qpn, PEER_QPN);
    expect_placed(&p->ep, 0x1000, 7, 0, 99);
    expect_no_completion(p->ep.recv_cq);
    assert_int_equal(srq_free(other), 0);
}

static void write_with_immediate_takes_a_receive_of_the_named_srq(void **state)
{
    struct peer *p = *state;
    struct completion c;

    endpoint_post_recv(&p->ep, 1, 0, 0);
    peer_sends(p, (struct script){.operation = OP_WRITE_ONLY_IMM,
                                  .psn = 0,
                                  .ack_req = true,
                                  .len = 8,
                                  .dma_len = 8,
                                  .message = 3,
                                  .remote = TARGET,
                                  .imm = 0x11223344});
    expect_ack(p, 0, 1);
    c = expect_completion(p->ep.recv_cq, 1, STATUS_SUCCESS);
    assert_int_equal(c.opcode, COMPLETION_RECV_WRITE_IMM);
    assert_int_equal(c.imm, 0x11223344);
    expect_placed(&p->ep, TARGET, 3, 0, 8);
}

static void reads_and_atomics_are_answered_and_answered_again(void **state)
{
    struct peer *p = *state;
    uint64_t value = 40;

    endpoint_fill(&p->ep, TARGET, 5, 0, 2 * PMTU);
    memcpy(p->ep.memory + 0x2000, &value, sizeof(value));
    for (int round = 0; round < 2; round++) {
        peer_sends(p, (struct script){.operation = OP_READ_REQUEST,
                                      .psn = 0,
                                      .ack_req = true,
                                      .remote = TARGET,
                                      .dma_len = 2 * PMTU});
        expect_data(p, OP_READ_RESP_FIRST, 0, 5, 0, PMTU);
        expect_data(p, OP_READ_RESP_LAST, 1, 5, PMTU, PMTU);
    }
    for (int round = 0; round < 2; round++) {
        peer_sends(p, (struct script){.operation = OP_FETCH_ADD,
                                      .psn = 2,
                                      .ack_req = true,
                                      .remote = 0x2000,
                                      .swap_add = 2});
        assert_int_equal(expect_packet(p, OP_ATOMIC_ACK, 2)->p.h.atomic_ack.original, 40);
    }
    memcpy(&value, p->ep.memory + 0x2000, sizeof(value));
    assert_int_equal(value, 42);
}

/* A14: a target has no PD; what a request may reach is decided by the SRQ that it names. */
static void keys_are_of_the_domain_of_the_named_srq(void **state)
{
    struct peer *p = *state;
    struct mr_attr attr = {
        .base = p->ep.memory + 0x3000, .len = 64, .iova = at(0x3000), .access = ENDPOINT_RIGHTS};
    struct script write = {
        .operation = OP_WRITE_ONLY, .ack_req = true, .len = 8, .dma_len = 8, .remote = 0x3000};
    struct srq *other;
    struct pd *pd;
    struct mr *mr;

    assert_int_equal(pd_new(p->ep.engine, &pd), 0);
    assert_int_equal(mr_new(pd, &attr, &mr), 0);
    other = another_srq(p, pd, p->ep.xrcd);
    write.rkey = mr->key;
    write.srqn = srq_number(other);
    peer_sends(p, write);
    expect_ack(p, 0, 1);
    write.psn = 1;
    write.srqn = srq_number(p->ep.srq); /* the same key through the SRQ of another PD */
    peer_sends(p, write);
    expect_nak(p, NAK_REMOTE_ACCESS, 1, 1);
    expect_event(&p->ep, ENGINE_EVENT_QP_ACCESS_ERR);
    assert_int_equal(srq_free(other), 0);
    assert_int_equal(mr_free(mr), 0);
    assert_int_equal(pd_free(pd), 0);
}

static void target_tells_to_wait_while_the_srq_is_empty(void **state)
{
    struct peer *p = *state;
    struct srq *other = another_srq(p, p->ep.pd, p->ep.xrcd);
    const struct script send = {.operation = OP_SEND_ONLY, .ack_req = true, .len = 8};

    post_to(p, other, 2, 0, 100); /* of no use to who names the empty one */
    peer_sends(p, send);
    expect_rnr_nak(p, p->ep.config.min_rnr_timer, 0, 0);
    endpoint_post_recv(&p->ep, 1, 0, 100);
    peer_sends(p, send);
    expect_ack(p, 0, 1);
    expect_completion(p->ep.recv_cq, 1, STATUS_SUCCESS);
    assert_int_equal(srq_free(other), 0);
}

/* A14, responder errors: an invalid XRCETH, and the violation of a domain. */
static void request_for_an_srq_that_may_not_be_named_is_refused(void **state)
{
    struct peer *p = *state;
    struct xrcd *foreign;
    struct srq *other;
    uint32_t numbers[5];

    assert_int_equal(xrcd_new(p->ep.engine, &foreign), 0);
    other = another_srq(p, p->ep.pd, foreign);
    post_to(p, other, 9, 0, 100);
    numbers[0] = srq_number(other);
    numbers[1] = srq_number(p->ep.srq) ^ 0x8000;
    numbers[2] = srq_number(p->ep.srq) | 0x10000;
    numbers[3] = 0xffffff;
    numbers[4] = 0x10000;
    for (uint32_t i = 0; i < 10; i++) {
        struct script s = {
            .operation = OP_SEND_ONLY, .ack_req = true, .len = 8, .srqn = numbers[i / 2]};

        endpoint_post_recv(&p->ep, 1, 0, 100);
        if (i % 2 == 1) {
            s.operation = OP_WRITE_ONLY;
            s.remote = TARGET;
            s.dma_len = 8;
        }
        peer_sends(p, s);
        expect_nak(p, NAK_INVALID_REQUEST, 0, 0);
        expect_silence(p);
        expect_event(&p->ep, ENGINE_EVENT_QP_ACCESS_ERR);
        expect_no_event(&p->ep);
        expect_counter(&p->ep, wrong_xrc_srq, i + 1);
        assert_int_equal(qp_state(p->ep.qp), QP_ERR);
        endpoint_modify_state(&p->ep, QP_RESET, 0, NULL);
        endpoint_connect(&p->ep, PEER_QPN);
    }
    expect_untouched(&p->ep, TARGET, 8);
    expect_no_completion(p->ep.recv_cq);
    expect_no_completion(p->ep.send_cq);
    assert_int_equal(srq_free(other), 0);
    assert_int_equal(xrcd_free(foreign), 0);
}

static void message_that_changes_its_srq_is_refused(void **state)
{
    struct peer *p = *state;
    struct srq *other = another_srq(p, p->ep.pd, p->ep.xrcd);

    endpoint_post_recv(&p->ep, 1, 0, 1000);
    post_to(p, other, 2, 0x1000, 1000);
    peer_sends(p, (struct script){.operation = OP_SEND_FIRST, .psn = 0, .len = PMTU});
    peer_sends(p, (struct script){.operation = OP_SEND_LAST,
                                  .psn = 1,
                                  .ack_req = true,
                                  .len = 8,
                                  .srqn = srq_number(other)});
    expect_nak(p, NAK_INVALID_REQUEST, 1, 0);
    /* The receive request that the message held is the program's again. */
    expect_completion(p->ep.recv_cq, 1, STATUS_WR_FLUSH_ERR);
    expect_no_completion(p->ep.send_cq);
    assert_int_equal(srq_free(other), 0);
}

static void message_longer_than_its_receive_ends_in_the_cq_of_the_srq(void **state)
{
    struct peer *p = *state;
    struct completion c;

    endpoint_post_recv(&p->ep, 1, 0, 7);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 0, .ack_req = true, .len = 8});
    expect_nak(p, NAK_INVALID_REQUEST, 0, 0);
    c = expect_completion(p->ep.recv_cq, 1, STATUS_LOC_LEN_ERR);
    assert_int_equal(c.qpn, qp_qpn(p->ep.qp));
    expect_untouched(&p->ep, 0, 8);
}

static void target_takes_no_answer_and_no_work(void **state)
{
    struct peer *p = *state;

    peer_acks(p, 0, 0);
    expect_counter(&p->ep, wrong_service, 1);
    assert_int_equal(qp_state(p->ep.qp), QP_RTS);
    assert_int_equal(endpoint_try_post(&p->ep, &(struct work){.opcode = WR_SEND}), -EINVAL);
    assert_int_equal(qp_post_recv(p->ep.qp, &(struct recv_wr){.wr_id = 1}), -EINVAL);
    assert_int_equal(qp_send_room(p->ep.qp), 0);
}

/* --- objects that come and go --- */

static void srq_that_goes_away_in_the_middle_of_a_message_ends_it(void **state)
{
    struct peer *p = *state;
    struct srq *other = another_srq(p, p->ep.pd, p->ep.xrcd);
    const uint32_t number = srq_number(other);

    post_to(p, other, 2, 0, 1000);
    peer_sends(p,
               (struct script){.operation = OP_SEND_FIRST, .psn = 0, .len = PMTU, .srqn = number});
    assert_int_equal(srq_free(other), 0);
    peer_sends(p,
               (struct script){
                   .operation = OP_SEND_LAST, .psn = 1, .ack_req = true, .len = 8, .srqn = number});
    expect_nak(p, NAK_INVALID_REQUEST, 1, 0);
    expect_no_completion(p->ep.send_cq);
}

static void read_is_not_answered_through_an_srq_that_is_gone(void **state)
{
    struct peer *p = *state;
    struct srq *other = another_srq(p, p->ep.pd, p->ep.xrcd);

    peer_sends_quietly(p, (struct script){.operation = OP_READ_REQUEST,
                                          .psn = 0,
                                          .ack_req = true,
                                          .remote = TARGET,
                                          .dma_len = 8,
                                          .srqn = srq_number(other)});
    assert_int_equal(srq_free(other), 0);
    peer_listens(p);
    expect_nak(p, NAK_REMOTE_ACCESS, 0, 1);
    assert_int_equal(qp_state(p->ep.qp), QP_ERR);
}

/* The completion is the SRQ's, whose program may not know of the queue pair at all. */
static void completion_outlives_the_target_and_goes_with_the_srq(void **state)
{
    struct peer *p = *state;
    struct srq *other = another_srq(p, p->ep.pd, p->ep.xrcd);
    uint32_t qpn = qp_qpn(p->ep.qp);

    endpoint_post_recv(&p->ep, 1, 0, 100);
    post_to(p, other, 2, 0, 100);
    peer_sends(p, (struct script){.operation = OP_SEND_ONLY, .psn = 0, .len = 8});
    peer_sends(p, (struct script){
                      .operation = OP_SEND_ONLY, .psn = 1, .len = 8, .srqn = srq_number(other)});
    endpoint_modify_state(&p->ep, QP_RESET, 0, NULL);
    assert_int_equal(expect_completion(p->ep.recv_cq, 1, STATUS_SUCCESS).qpn, qpn);
    assert_int_equal(srq_free(other), 0);
    expect_no_completion(p->ep.send_cq);
}

/* F64 is of QPs that were made with an SRQ; a target never takes the last one of any. */
static void error_in_the_middle_of_a_message_gives_its_receive_back(void **state)
{
    struct peer *p = *state;

    endpoint_post_recv(&p->ep, 1, 0, 1000);
    endpoint_post_recv(&p->ep, 2, 0, 1000);
    peer_sends(p, (struct script){.operation = OP_SEND_FIRST, .psn = 0, .len = PMTU});
    endpoint_modify_state(&p->ep, QP_ERR, 0, NULL);
    expect_completion(p->ep.recv_cq, 1, STATUS_WR_FLUSH_ERR);
    expect_no_completion(p->ep.recv_cq); /* the other one is still the SRQ's */
    expect_no_event(&p->ep);
}

static void target_whose_srq_lost_a_completion_fails(void **state)
{
    struct peer *p = *state;
    struct srq_attr attr = {.wr_max = 2, .sge_max = 1, .xrcd = p->ep.xrcd};
    struct srq *srq;
    struct cq *cq;

    assert_int_equal(cq_new(p->ep.engine, 1, NULL, &cq), 0);
    attr.cq = cq;
    assert_int_equal(srq_new(p->ep.pd, &attr, NULL, &srq), 0);
    for (uint32_t i = 0; i < 2; i++) {
        post_to(p, srq, i, 0, 100);
        peer_sends(p, (struct script){
                          .operation = OP_SEND_ONLY, .psn = i, .len = 8, .srqn = srq_number(srq)});
    }
    expect_event(&p->ep, ENGINE_EVENT_CQ_ERR);
    expect_event(&p->ep, ENGINE_EVENT_QP_FATAL);
    assert_int_equal(qp_state(p->ep.qp), QP_ERR);
    assert_int_equal(cq_free(cq), -EBUSY); /* the SRQ uses it */
    assert_int_equal(srq_free(srq), 0);
    assert_int_equal(cq_free(cq), 0);
}

static void domain_with_anything_in_it_cannot_be_freed(void **state)
{
    struct peer *p = *state;
    struct qp_init init = {.service = SERVICE_XRC};
    struct srq *srq;
    struct qp *qp;

    assert_int_equal(xrcd_free(p->ep.xrcd), -EBUSY);
    assert_int_equal(xrcd_new(p->ep.engine, &init.xrcd), 0);
    assert_int_equal(qp_new(p->ep.engine, &init, &qp), 0);
    assert_int_equal(xrcd_free(init.xrcd), -EBUSY);
    assert_ptr_equal(xrcd_find_target(init.xrcd, qp_qpn(qp)), qp);
    assert_null(xrcd_find_target(p->ep.xrcd, qp_qpn(qp)));
    assert_null(xrcd_find_target(init.xrcd, qp_qpn(qp) + 1));
    qp_free(qp);
    srq = another_srq(p, p->ep.pd, init.xrcd);
    assert_int_equal(xrcd_free(init.xrcd), -EBUSY);
    assert_int_equal(srq_free(srq), 0);
    assert_int_equal(xrcd_free(init.xrcd), 0);
}

static void parts_that_do_not_go_together_are_refused(void **state)
{
    struct peer *p = *state;
    struct srq_attr attr = {.wr_max = 1, .sge_max = 1};
    const struct qp_init wrong[] = {
        /* clang-format off */
        {.service = SERVICE_XRC, .xrcd = p->ep.xrcd, .pd = p->ep.pd},
        {.service = SERVICE_XRC, .xrcd = p->ep.xrcd, .send_cq = p->ep.send_cq},
        {.service = SERVICE_XRC, .xrcd = p->ep.xrcd, .recv_cq = p->ep.recv_cq},
        {.service = SERVICE_XRC, .xrcd = p->ep.xrcd, .srq = p->ep.srq},
        {.service = SERVICE_XRC, .pd = p->ep.pd},
        {.service = SERVICE_XRC, .send_cq = p->ep.send_cq},
        {.service = SERVICE_XRC, .pd = p->ep.pd, .send_cq = p->ep.send_cq, .srq = p->ep.srq},
        {.service = SERVICE_RC, .pd = p->ep.pd, .send_cq = p->ep.send_cq, .recv_cq = p->ep.recv_cq,
         .srq = p->ep.srq}, /* an SRQ of a domain */
        {.service = SERVICE_RC, .pd = p->ep.pd, .send_cq = p->ep.send_cq, .recv_cq = p->ep.recv_cq,
         .xrcd = p->ep.xrcd},
        /* clang-format on */
    };
    struct srq *srq = NULL;
    struct qp *qp = NULL;

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct qp_init init = wrong[i];

        assert_int_equal(qp_new(p->ep.engine, &init, &qp), -EINVAL);
    }
    attr.xrcd = p->ep.xrcd;
    assert_int_equal(srq_new(p->ep.pd, &attr, NULL, &srq), -EINVAL);
    attr.xrcd = NULL;
    attr.cq = p->ep.recv_cq;
    assert_int_equal(srq_new(p->ep.pd, &attr, NULL, &srq), -EINVAL);
    assert_null(srq);
    assert_null(qp);
}

/* A request that is late must not land in the SRQ that came after the one it was for. */
static void numbers_of_srqs_do_not_come_back_soon(void **state)
{
    struct peer *p = *state;
    uint32_t first = srq_number(p->ep.srq);

    for (uint32_t i = 0; i < XRC_SRQN_SPACE - 2; i++) {
        struct srq *srq = another_srq(p, p->ep.pd, p->ep.xrcd);

        assert_int_not_equal(srq_number(srq), 0);
        assert_int_not_equal(srq_number(srq), first);
        assert_int_equal(srq_free(srq), 0);
    }
}

#define INITIATOR_TEST(name) cmocka_unit_test_setup_teardown(name, setup_initiator, teardown_rc)
#define TARGET_TEST(name) cmocka_unit_test_setup_teardown(name, setup_target, teardown_rc)

int main(void)
{
    const struct CMUnitTest tests[] = {
        INITIATOR_TEST(every_request_packet_names_its_srq),
        INITIATOR_TEST(initiator_completes_what_the_target_answers),
        INITIATOR_TEST(lost_request_is_sent_again_to_the_same_srq),
        INITIATOR_TEST(refusal_by_the_target_fails_the_request_and_the_initiator),
        INITIATOR_TEST(initiator_takes_no_request_and_no_receive),
        TARGET_TEST(send_is_delivered_into_the_srq_that_it_names),
        TARGET_TEST(write_with_immediate_takes_a_receive_of_the_named_srq),
        TARGET_TEST(reads_and_atomics_are_answered_and_answered_again),
        TARGET_TEST(keys_are_of_the_domain_of_the_named_srq),
        TARGET_TEST(target_tells_to_wait_while_the_srq_is_empty),
        TARGET_TEST(request_for_an_srq_that_may_not_be_named_is_refused),
        TARGET_TEST(message_that_changes_its_srq_is_refused),
        TARGET_TEST(message_longer_than_its_receive_ends_in_the_cq_of_the_srq),
        TARGET_TEST(target_takes_no_answer_and_no_work),
        TARGET_TEST(srq_that_goes_away_in_the_middle_of_a_message_ends_it),
        TARGET_TEST(read_is_not_answered_through_an_srq_that_is_gone),
        TARGET_TEST(completion_outlives_the_target_and_goes_with_the_srq),
        TARGET_TEST(error_in_the_middle_of_a_message_gives_its_receive_back),
        TARGET_TEST(target_whose_srq_lost_a_completion_fails),
        TARGET_TEST(domain_with_anything_in_it_cannot_be_freed),
        TARGET_TEST(parts_that_do_not_go_together_are_refused),
        TARGET_TEST(numbers_of_srqs_do_not_come_back_soon),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
