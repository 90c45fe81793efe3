/* SPDX-License-Identifier: BSD-2-Clause */
/* Asynchronous events: raised, fetched, acknowledged; destroys wait for that. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <time.h>

static struct ibv_async_event expect_event(struct pair *p, enum ibv_event_type type)
{
    struct ibv_async_event event;

    assert_true(readable(p->context->async_fd, WAIT_MS));
    assert_int_equal(ibv_get_async_event(p->context, &event), 0);
    assert_int_equal(event.event_type, type);
    return event;
}

static void setup_with_srq(struct pair *p)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};

    pair_open(p);
    p->srq = ibv_create_srq(p->pd, &init);
    pair_create_qps(p, IBV_QPT_RC, 0);
    pair_connect(p);
}

static void send_byte(struct pair *p)
{
    struct ibv_sge sge = sge_of(p, 0, 0, 1);
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

    post_request(p, &wr);
    expect_success(p->send_cq);
    expect_success(p->recv_cq);
}

static void a_shared_queue_that_runs_low_says_so_once(void **state)
{
    struct ibv_srq_attr attr = {.srq_limit = 3};
    struct ibv_async_event event;
    struct pair p;

    (void)state;
    setup_with_srq(&p);
    for (uint64_t i = 0; i < 4; i++)
        post_receive(&p, i, 1);
    assert_int_equal(ibv_modify_srq(p.srq, &attr, IBV_SRQ_LIMIT), 0);
    send_byte(&p);
    assert_false(readable(p.context->async_fd, 0)); /* three are left */
    send_byte(&p);
    event = expect_event(&p, IBV_EVENT_SRQ_LIMIT_REACHED);
    assert_ptr_equal(event.element.srq, p.srq);
    ibv_ack_async_event(&event);
    send_byte(&p);
    assert_false(readable(p.context->async_fd, 0));
    pair_close(&p);
}

static void a_qp_with_a_shared_queue_says_when_it_takes_no_more(void **state)
{
    struct ibv_async_event event;
    struct pair p;

    (void)state;
    setup_with_srq(&p);
    assert_int_equal(to_state(p.qp[1], IBV_QPS_ERR), 0);
    event = expect_event(&p, IBV_EVENT_QP_LAST_WQE_REACHED);
    assert_ptr_equal(event.element.qp, p.qp[1]);
    ibv_ack_async_event(&event);
    assert_false(readable(p.context->async_fd, 0));
    pair_close(&p);
}

static void a_queue_that_overflows_says_so(void **state)
{
    struct ibv_send_wr *bad;
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    struct ibv_async_event event;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_resize_cq(p.send_cq, 1), 0);
    assert_int_equal(to_state(p.qp[0], IBV_QPS_ERR), 0);
    sge = sge_of(&p, 0, 0, 1);
    wr = (struct ibv_send_wr){.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    for (int i = 0; i < 3; i++)
        assert_int_equal(ibv_post_send(p.qp[0], &wr, &bad), 0);
    event = expect_event(&p, IBV_EVENT_CQ_ERR);
    assert_ptr_equal(event.element.cq, p.send_cq);
    ibv_ack_async_event(&event);
    pair_close(&p);
}

static void a_receiver_hears_of_the_first_message_before_rts(void **state)
{
    struct ibv_async_event event;
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    struct pair p;

    (void)state;
    pair_open(&p);
    pair_create_qps(&p, IBV_QPT_RC, 0);
    for (int i = 0; i < 2; i++) {
        to_init(p.qp[i]);
        to_rtr(&p, p.qp[i], p.qp[1 - i]->qp_num);
    }
    to_rts(p.qp[0]);
    post_receive(&p, 1, 1);
    sge = sge_of(&p, 0, 0, 1);
    wr = (struct ibv_send_wr){.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    post_request(&p, &wr);
    event = expect_event(&p, IBV_EVENT_COMM_EST);
    assert_ptr_equal(event.element.qp, p.qp[1]);
    ibv_ack_async_event(&event);
    expect_success(p.send_cq);
    pair_close(&p);
}

static void a_nonblocking_context_without_events_says_eagain(void **state)
{
    struct ibv_async_event event;
    struct pair p;
    int flags;

    (void)state;
    pair_open(&p);
    flags = fcntl(p.context->async_fd, F_GETFL);
    assert_int_equal(fcntl(p.context->async_fd, F_SETFL, flags | O_NONBLOCK), 0);
    assert_int_equal(ibv_get_async_event(p.context, &event), -1);
    assert_int_equal(errno, EAGAIN);
    pair_close(&p);
}

static void events_not_fetched_go_with_their_object(void **state)
{
    struct pair p;

    (void)state;
    setup_with_srq(&p);
    assert_int_equal(to_state(p.qp[1], IBV_QPS_ERR), 0);
    assert_true(readable(p.context->async_fd, WAIT_MS));
    assert_int_equal(ibv_destroy_qp(p.qp[1]), 0);
    p.qp[1] = NULL;
    assert_false(readable(p.context->async_fd, 0));
    pair_close(&p);
}

struct destruction {
    struct ibv_qp *qp;
    int result;
    _Atomic bool done;
};

static void *destroy(void *arg)
{
    struct destruction *d = arg;

    d->result = ibv_destroy_qp(d->qp);
    d->done = true;
    return NULL;
}

static void destroying_a_qp_waits_for_acknowledgements(void **state)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    struct destruction d = {.result = -1};
    struct ibv_async_event event;
    pthread_t thread;
    struct pair p;

    (void)state;
    setup_with_srq(&p);
    assert_int_equal(to_state(p.qp[1], IBV_QPS_ERR), 0);
    event = expect_event(&p, IBV_EVENT_QP_LAST_WQE_REACHED);
    d.qp = p.qp[1];
    assert_int_equal(pthread_create(&thread, NULL, destroy, &d), 0);
    nanosleep(&pause, NULL);
    assert_false(d.done);
    ibv_ack_async_event(&event);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(d.result, 0);
    p.qp[1] = NULL;
    pair_close(&p);
}

static void events_of_no_object_are_acknowledged_without_harm(void **state)
{
    struct ibv_async_event event = {.event_type = IBV_EVENT_PORT_ACTIVE, .element.port_num = 1};

    (void)state;
    ibv_ack_async_event(&event);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shared_queue_that_runs_low_says_so_once),
        cmocka_unit_test(a_qp_with_a_shared_queue_says_when_it_takes_no_more),
        cmocka_unit_test(a_queue_that_overflows_says_so),
        cmocka_unit_test(a_receiver_hears_of_the_first_message_before_rts),
        cmocka_unit_test(a_nonblocking_context_without_events_says_eagain),
        cmocka_unit_test(events_not_fetched_go_with_their_object),
        cmocka_unit_test(destroying_a_qp_waits_for_acknowledgements),
        cmocka_unit_test(events_of_no_object_are_acknowledged_without_harm),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
