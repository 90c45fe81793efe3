/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: creation, classic and extended polling, resizing. */
#include "fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

static struct ibv_cq_ex *create_ex(struct ibv_context *context, uint64_t wc_flags)
{
    struct ibv_cq_init_attr_ex attr = {.cqe = 128, .wc_flags = wc_flags};

    return ibv_create_cq_ex(context, &attr);
}

/* A pair whose receive queue completes into cq. */
static void pair_with_cq(struct pair *p,
                         struct ibv_cq_ex *(*create)(struct ibv_context *, uint64_t),
                         uint64_t wc_flags)
{
    struct ibv_cq_ex *cq;

    pair_open(p);
    assert_int_equal(ibv_destroy_cq(p->recv_cq), 0);
    cq = create(p->context, wc_flags);
    assert_non_null(cq);
    p->recv_cq = ibv_cq_ex_to_cq(cq);
    pair_create_qps(p, IBV_QPT_RC, 0);
    pair_connect(p);
}

static struct ibv_cq_ex *ex_of(struct pair *p)
{
    return (struct ibv_cq_ex *)p->recv_cq;
}

/* Sends len bytes with an immediate and waits until the sender knows that they arrived. */
static void send_one(struct pair *p, uint64_t recv_id, uint32_t len)
{
    struct ibv_sge sge = sge_of(p, 0, 0, len);
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND_WITH_IMM,
                             .imm_data = htonl((uint32_t)recv_id)};

    post_receive(p, recv_id, len);
    post_request(p, &wr);
}

static void deliver(struct pair *p, uint64_t recv_id, uint32_t len)
{
    send_one(p, recv_id, len);
    expect_success(p->send_cq);
}

static void sizes_that_cannot_be_are_refused(void **state)
{
    struct ibv_context *context = open_loopback();
    struct ibv_device_attr device;
    struct ibv_cq *cq;

    (void)state;
    assert_int_equal(ibv_query_device(context, &device), 0);
    assert_null(ibv_create_cq(context, 0, NULL, NULL, 0));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_create_cq(context, -1, NULL, NULL, 0));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_create_cq(context, device.max_cqe + 1, NULL, NULL, 0));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_create_cq(context, 1, NULL, NULL, context->num_comp_vectors));
    assert_int_equal(errno, EINVAL);
    cq = ibv_create_cq(context, 1, &device, NULL, 0);
    assert_non_null(cq);
    assert_true(cq->cqe >= 1);
    assert_ptr_equal(cq->cq_context, &device);
    assert_ptr_equal(cq->context, context);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void what_an_extended_queue_cannot_do_is_refused(void **state)
{
    struct ibv_context *context = open_loopback();
    struct ibv_cq_init_attr_ex attr = {.cqe = 4, .comp_mask = 1u << 5};

    (void)state;
    assert_null(create_ex(context, IBV_WC_EX_WITH_CVLAN));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(create_ex(context, IBV_WC_EX_WITH_FLOW_TAG));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(create_ex(context, IBV_WC_EX_WITH_TM_INFO));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(create_ex(context, 1ull << 40));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(ibv_create_cq_ex(context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(ibv_close_device(context), 0);
}

static void an_empty_queue_gives_nothing(void **state)
{
    struct pair p;
    struct ibv_wc wc;

    (void)state;
    pair_open(&p);
    assert_int_equal(ibv_poll_cq(p.recv_cq, 1, &wc), 0);
    assert_int_equal(ibv_poll_cq(p.recv_cq, 0, &wc), 0);
    pair_close(&p);
}

static void one_poll_takes_all_that_is_there_in_order(void **state)
{
    struct ibv_wc wc[64];
    struct pair p;
    int got;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    for (uint64_t i = 0; i < 40; i++)
        deliver(&p, i, 1);
    got = ibv_poll_cq(p.recv_cq, 64, wc);
    assert_int_equal(got, 40);
    for (int i = 0; i < got; i++)
        assert_int_equal(wc[i].wr_id, i);
    pair_close(&p);
}

static void a_queue_in_use_is_not_destroyed(void **state)
{
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_destroy_cq(p.recv_cq), EBUSY);
    deliver(&p, 1, 1); /* and still works */
    expect_success(p.recv_cq);
    pair_close(&p);
}

static void resizing_keeps_what_is_queued(void **state)
{
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    for (uint64_t i = 0; i < 10; i++)
        deliver(&p, i, 1);
    assert_int_equal(ibv_resize_cq(p.recv_cq, 9), EINVAL);
    assert_int_equal(p.recv_cq->cqe, 64);
    assert_int_equal(ibv_resize_cq(p.recv_cq, 0), EINVAL);
    assert_int_equal(ibv_resize_cq(p.recv_cq, 100), 0);
    assert_true(p.recv_cq->cqe >= 100);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(expect_success(p.recv_cq).wr_id, i);
    pair_close(&p);
}

static void expect_event(struct pair *p, enum ibv_event_type type)
{
    struct ibv_async_event event;

    assert_true(readable(p->context->async_fd, 5000));
    assert_int_equal(ibv_get_async_event(p->context, &event), 0);
    assert_int_equal(event.event_type, type);
    ibv_ack_async_event(&event);
}

static void a_queue_that_overflowed_says_so_after_the_last_good_entry(void **state)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct ibv_wc wc[2];
    struct pair p;

    (void)state;
    pair_open(&p);
    assert_int_equal(ibv_resize_cq(p.recv_cq, 1), 0);
    pair_create_qps(&p, IBV_QPT_RC, 0);
    pair_connect(&p);
    deliver(&p, 1, 1);
    send_one(&p, 2, 1);
    expect_event(&p, IBV_EVENT_CQ_ERR);
    expect_event(&p, IBV_EVENT_QP_FATAL);
    assert_int_equal(ibv_poll_cq(p.recv_cq, 2, wc), 1);
    assert_true(ibv_poll_cq(p.recv_cq, 2, wc) < 0);
    assert_int_equal(ibv_query_qp(p.qp[1], &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_ERR);
    pair_close(&p);
}

/* --- extended polling --- */

static void extended_polling_walks_through_all_entries(void **state)
{
    struct ibv_poll_cq_attr attr = {0};
    struct ibv_cq_ex *cq;
    struct pair p;

    (void)state;
    pair_with_cq(&p, create_ex, IBV_WC_STANDARD_FLAGS);
    cq = ex_of(&p);
    assert_int_equal(ibv_start_poll(cq, &attr), ENOENT);
    deliver(&p, 5, 100);
    deliver(&p, 6, 200);

    assert_int_equal(ibv_start_poll(cq, &attr), 0);
    assert_int_equal(cq->wr_id, 5);
    assert_int_equal(cq->status, IBV_WC_SUCCESS);
    assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RECV);
    assert_int_equal(ibv_wc_read_byte_len(cq), 100);
    assert_int_equal(ibv_wc_read_wc_flags(cq), IBV_WC_WITH_IMM);
    assert_int_equal(ntohl(ibv_wc_read_imm_data(cq)), 5);
    assert_int_equal(ibv_wc_read_qp_num(cq), p.qp[1]->qp_num);
    assert_int_equal(ibv_wc_read_slid(cq), 0);
    assert_int_equal(ibv_wc_read_dlid_path_bits(cq), 0);
    assert_int_equal(ibv_next_poll(cq), 0);
    assert_int_equal(cq->wr_id, 6);
    assert_int_equal(ibv_wc_read_byte_len(cq), 200);
    assert_int_equal(ibv_next_poll(cq), ENOENT);
    ibv_end_poll(cq);

    assert_int_equal(ibv_start_poll(cq, &attr), ENOENT); /* each entry once */
    pair_close(&p);
}

static void ending_early_loses_nothing(void **state)
{
    struct ibv_poll_cq_attr attr = {0};
    struct ibv_cq_ex *cq;
    struct pair p;

    (void)state;
    pair_with_cq(&p, create_ex, 0);
    cq = ex_of(&p);
    for (uint64_t i = 1; i <= 3; i++)
        deliver(&p, i, 1);
    assert_int_equal(ibv_start_poll(cq, &attr), 0);
    assert_int_equal(cq->wr_id, 1);
    ibv_end_poll(cq);
    assert_int_equal(ibv_start_poll(cq, &attr), 0);
    assert_int_equal(cq->wr_id, 2);
    ibv_end_poll(cq);
    assert_int_equal(expect_success(p.recv_cq).wr_id, 3); /* the classic way sees the same queue */
    pair_close(&p);
}

static void misuse_of_extended_polling_does_no_harm(void **state)
{
    struct ibv_poll_cq_attr strange = {.comp_mask = 1};
    struct ibv_poll_cq_attr attr = {0};
    struct ibv_cq_ex *cq;
    struct pair p;

    (void)state;
    pair_with_cq(&p, create_ex, 0);
    cq = ex_of(&p);
    assert_int_equal(ibv_start_poll(cq, &strange), EINVAL);
    assert_int_equal(ibv_next_poll(cq), EINVAL);
    ibv_end_poll(cq);
    assert_int_equal(ibv_start_poll(cq, &attr), ENOENT);
    ibv_end_poll(cq);
    deliver(&p, 1, 1);
    assert_int_equal(ibv_start_poll(cq, &attr), 0);
    ibv_end_poll(cq);
    ibv_end_poll(cq);
    pair_close(&p);
}

static void posting_from_within_the_loop_works(void **state)
{
    struct ibv_poll_cq_attr attr = {0};
    struct pair p;

    (void)state;
    pair_with_cq(&p, create_ex, 0);
    deliver(&p, 1, 1);
    assert_int_equal(ibv_start_poll(ex_of(&p), &attr), 0);
    deliver(&p, 2, 1);
    assert_int_equal(ibv_next_poll(ex_of(&p)), 0);
    assert_int_equal(ex_of(&p)->wr_id, 2);
    ibv_end_poll(ex_of(&p));
    pair_close(&p);
}

static void a_failed_entry_is_read_the_same_way(void **state)
{
    struct ibv_poll_cq_attr attr = {0};
    struct pair p;

    (void)state;
    pair_with_cq(&p, create_ex, 0);
    post_receive(&p, 8, 16);
    assert_int_equal(to_state(p.qp[1], IBV_QPS_ERR), 0);
    assert_int_equal(ibv_start_poll(ex_of(&p), &attr), 0);
    assert_int_equal(ex_of(&p)->status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(ex_of(&p)->wr_id, 8);
    assert_int_equal(ibv_wc_read_qp_num(ex_of(&p)), p.qp[1]->qp_num);
    ibv_wc_read_vendor_err(ex_of(&p));
    ibv_end_poll(ex_of(&p));
    pair_close(&p);
}

static void completion_times_are_those_of_the_clocks(void **state)
{
    struct ibv_values_ex before = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
    struct ibv_values_ex after = before;
    struct ibv_poll_cq_attr attr = {0};
    struct timespec wall;
    uint64_t raw;
    int64_t wall_ns;
    struct pair p;

    (void)state;
    pair_with_cq(&p, create_ex,
                 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
                     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
    assert_int_equal(ibv_query_rt_values_ex(p.context, &before), 0);
    deliver(&p, 1, 1);
    assert_int_equal(ibv_query_rt_values_ex(p.context, &after), 0);
    assert_int_equal(ibv_start_poll(ex_of(&p), &attr), 0);
    raw = ibv_wc_read_completion_ts(ex_of(&p));
    assert_true(raw >= (uint64_t)before.raw_clock.tv_nsec);
    assert_true(raw <= (uint64_t)after.raw_clock.tv_nsec);
    clock_gettime(CLOCK_REALTIME, &wall);
    wall_ns = (int64_t)ibv_wc_read_completion_wallclock_ns(ex_of(&p));
    assert_true(wall_ns <= (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec);
    assert_true(wall_ns > ((int64_t)wall.tv_sec - 10) * 1000000000);
    ibv_end_poll(ex_of(&p));
    pair_close(&p);
}

struct poller {
    struct ibv_cq_ex *cq;
    _Atomic bool stop;
    _Atomic unsigned count;
};

static void *poll_many(void *arg)
{
    struct ibv_poll_cq_attr attr = {0};
    struct poller *p = arg;

    while (!p->stop) {
        if (ibv_start_poll(p->cq, &attr) != 0)
            continue;
        do
            p->count++;
        while (ibv_next_poll(p->cq) == 0);
        ibv_end_poll(p->cq);
    }
    return NULL;
}

static void two_threads_polling_see_each_entry_once(void **state)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    pthread_t threads[2];
    struct poller poller = {0};
    struct pair p;

    (void)state;
    pair_with_cq(&p, create_ex, 0);
    poller.cq = ex_of(&p);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, poll_many, &poller), 0);
    for (uint64_t i = 0; i < 100; i++)
        deliver(&p, i, 1);
    nanosleep(&pause, NULL);
    poller.stop = true;
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(poller.count, 100);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_that_cannot_be_are_refused),
        cmocka_unit_test(what_an_extended_queue_cannot_do_is_refused),
        cmocka_unit_test(an_empty_queue_gives_nothing),
        cmocka_unit_test(one_poll_takes_all_that_is_there_in_order),
        cmocka_unit_test(a_queue_in_use_is_not_destroyed),
        cmocka_unit_test(resizing_keeps_what_is_queued),
        cmocka_unit_test(a_queue_that_overflowed_says_so_after_the_last_good_entry),
        cmocka_unit_test(extended_polling_walks_through_all_entries),
        cmocka_unit_test(ending_early_loses_nothing),
        cmocka_unit_test(misuse_of_extended_polling_does_no_harm),
        cmocka_unit_test(posting_from_within_the_loop_works),
        cmocka_unit_test(a_failed_entry_is_read_the_same_way),
        cmocka_unit_test(completion_times_are_those_of_the_clocks),
        cmocka_unit_test(two_threads_polling_see_each_entry_once),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
