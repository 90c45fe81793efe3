/* SPDX-License-Identifier: BSD-2-Clause */
/* Receive queues: order, slots that never move, limits and resizing. */
#include "bare_engine.h"

#include <errno.h>

#include "engine/limits.h"
#include "engine/srq_private.h"

#define WR_MAX 4u
#define SGE_MAX 3u

struct fixture {
    struct bare_engine bare;
    struct srq *srq;
};

static int setup(void **state)
{
    static struct fixture f;
    struct srq_attr attr = {.wr_max = WR_MAX, .sge_max = SGE_MAX, .limit = 2};

    f = (struct fixture){0};
    bare_engine_init(&f.bare, 3);
    assert_int_equal(srq_new(f.bare.pd, &attr, &f, &f.srq), 0);
    assert_int_equal(attr.wr_max, WR_MAX);
    assert_int_equal(attr.sge_max, SGE_MAX);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    recv_queue_check(&f->srq->queue);
    assert_int_equal(srq_free(f->srq), 0);
    assert_int_equal(f->bare.engine.srq_count, 0);
    bare_engine_fini(&f->bare);
    return 0;
}

static int post(struct fixture *f, uint64_t wr_id)
{
    const struct sge sge = {.addr = wr_id * 100, .length = 10, .lkey = 7};

    return srq_post(f->srq, &(struct recv_wr){.wr_id = wr_id, .sges = &sge, .sge_count = 1});
}

static void post_from_to(struct fixture *f, uint64_t first, uint64_t last)
{
    for (uint64_t id = first; id <= last; id++)
        assert_int_equal(post(f, id), 0);
}

static struct recv_wqe *take(struct fixture *f, uint64_t want)
{
    struct recv_wqe *wqe = srq_take(f->srq);

    assert_non_null(wqe);
    assert_int_equal(wqe->wr_id, want);
    assert_int_equal(wqe->sges[0].addr, want * 100);
    recv_queue_check(&f->srq->queue);
    return wqe;
}

static void take_and_release(struct fixture *f, uint64_t first, uint64_t last)
{
    for (uint64_t id = first; id <= last; id++)
        recv_queue_release(&f->srq->queue, take(f, id));
}

static bool limit_event_came(struct fixture *f)
{
    struct engine_event event;

    if (!engine_event_next(&f->bare.engine, &event))
        return false;
    assert_int_equal(event.type, ENGINE_EVENT_SRQ_LIMIT);
    assert_ptr_equal(event.srq, f->srq);
    return true;
}

static uint32_t limit_of(const struct srq *srq)
{
    struct srq_attr attr;

    srq_query(srq, &attr);
    return attr.limit;
}

/* --- receive queue --- */

static void requests_are_taken_in_the_order_of_their_posts(void **state)
{
    struct fixture *f = *state;

    for (uint64_t round = 0; round < 20; round++) {
        post_from_to(f, round * 3, round * 3 + 2);
        take_and_release(f, round * 3, round * 3 + 2);
        assert_null(srq_take(f->srq));
    }
}

static void request_is_a_copy_with_its_length_summed_in_64_bits(void **state)
{
    struct fixture *f = *state;
    struct sge sges[SGE_MAX] = {
        {.addr = 1, .length = UINT32_MAX, .lkey = 11},
        {.addr = 2, .length = 5, .lkey = 12},
        {.addr = 3, .length = UINT32_MAX, .lkey = 13},
    };
    struct recv_wr wr = {.wr_id = 9, .sges = sges, .sge_count = SGE_MAX};
    struct recv_wqe *wqe;

    assert_int_equal(srq_post(f->srq, &wr), 0);
    sges[1] = (struct sge){0};
    wqe = srq_take(f->srq);
    assert_int_equal(wqe->length, 2ull * UINT32_MAX + 5);
    assert_int_equal(wqe->sge_count, SGE_MAX);
    assert_int_equal(wqe->sges[1].addr, 2);
    assert_int_equal(wqe->sges[1].lkey, 12);
    recv_queue_release(&f->srq->queue, wqe);
}

static void request_without_sges_is_good(void **state)
{
    struct fixture *f = *state;
    struct recv_wqe *wqe;

    assert_int_equal(srq_post(f->srq, &(struct recv_wr){.wr_id = 1}), 0);
    wqe = srq_take(f->srq);
    assert_int_equal(wqe->length, 0);
    recv_queue_release(&f->srq->queue, wqe);
}

static void too_many_sges_are_refused(void **state)
{
    struct fixture *f = *state;
    const struct sge sges[SGE_MAX + 1] = {0};

    assert_int_equal(srq_post(f->srq, &(struct recv_wr){.sges = sges, .sge_count = SGE_MAX + 1}),
                     -EINVAL);
    assert_null(srq_take(f->srq));
}

static void requests_that_are_held_count_until_they_are_released(void **state)
{
    struct fixture *f = *state;
    struct recv_wqe *held;

    post_from_to(f, 0, WR_MAX - 1);
    assert_int_equal(post(f, 99), -ENOMEM);
    held = take(f, 0);
    assert_int_equal(post(f, 99), -ENOMEM);
    recv_queue_release(&f->srq->queue, held);
    assert_int_equal(post(f, WR_MAX), 0);
    take_and_release(f, 1, WR_MAX);
}

static void requests_may_be_released_in_any_order(void **state)
{
    struct fixture *f = *state;
    struct recv_wqe *held[3];

    post_from_to(f, 0, 3);
    for (uint64_t id = 0; id < 3; id++)
        held[id] = take(f, id);
    recv_queue_release(&f->srq->queue, held[1]);
    assert_int_equal(post(f, 4), 0);
    recv_queue_release(&f->srq->queue, held[0]);
    assert_int_equal(held[2]->wr_id, 2);
    recv_queue_release(&f->srq->queue, held[2]);
    take_and_release(f, 3, 4);
}

static void request_that_was_not_used_goes_back_in_front(void **state)
{
    struct fixture *f = *state;

    post_from_to(f, 0, 2);
    recv_queue_untake(&f->srq->queue, take(f, 0));
    recv_queue_check(&f->srq->queue);
    take_and_release(f, 0, 2);
}

static void queue_of_no_requests_is_always_full(void **state)
{
    struct recv_queue q;

    (void)state;
    assert_int_equal(recv_queue_init(&q, 0, 0), 0);
    assert_int_equal(recv_queue_post(&q, &(struct recv_wr){.wr_id = 1}), -ENOMEM);
    assert_null(recv_queue_take(&q));
    recv_queue_check(&q);
    recv_queue_fini(&q);
}

/* --- shared receive queue --- */

static void sizes_out_of_range_are_refused(void **state)
{
    static const struct srq_attr bad[] = {
        {.wr_max = 0, .sge_max = 1},
        {.wr_max = SRQ_WR_MAX + 1, .sge_max = 1},
        {.wr_max = 1, .sge_max = QP_SGE_MAX + 1},
    };
    struct fixture *f = *state;
    struct srq *srq;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct srq_attr attr = bad[i];

        assert_int_equal(srq_new(f->bare.pd, &attr, NULL, &srq), -EINVAL);
    }
}

static void limit_given_at_creation_is_not_armed(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(limit_of(f->srq), 0);
}

/* IBA 10.2.9: the event comes once, when the count falls below; arming again brings it again. */
static void limit_event_comes_once_when_fewer_requests_are_left(void **state)
{
    struct fixture *f = *state;

    post_from_to(f, 0, 3);
    assert_int_equal(srq_set_limit(f->srq, 2), 0);
    assert_int_equal(limit_of(f->srq), 2);
    take_and_release(f, 0, 1);
    assert_false(limit_event_came(f)); /* two are left: not fewer than two */
    take_and_release(f, 2, 2);
    assert_true(limit_event_came(f));
    assert_int_equal(limit_of(f->srq), 0);
    take_and_release(f, 3, 3);
    assert_false(limit_event_came(f));
}

static void limit_that_is_not_met_when_it_is_armed_is_told_at_once(void **state)
{
    struct fixture *f = *state;

    post_from_to(f, 0, 0);
    assert_int_equal(srq_set_limit(f->srq, 1), 0);
    assert_false(limit_event_came(f));
    assert_int_equal(srq_set_limit(f->srq, 2), 0);
    assert_true(limit_event_came(f));
    assert_int_equal(limit_of(f->srq), 0);
}

static void limit_above_the_size_is_refused(void **state)
{
    struct fixture *f = *state;

    post_from_to(f, 0, WR_MAX - 1);
    assert_int_equal(srq_set_limit(f->srq, WR_MAX + 1), -EINVAL);
    assert_int_equal(srq_resize(f->srq, 2 * WR_MAX), 0);
    assert_int_equal(srq_set_limit(f->srq, WR_MAX), 0);
    assert_int_equal(srq_resize(f->srq, WR_MAX - 1), -EINVAL);
    assert_int_equal(srq_set_limit(f->srq, 0), 0);
    take_and_release(f, 0, 1);
    assert_int_equal(srq_resize(f->srq, WR_MAX - 1), 0);
}

static void resize_under_traffic_moves_no_request(void **state)
{
    struct fixture *f = *state;
    struct recv_wqe *held;

    post_from_to(f, 0, 3);
    held = take(f, 0);
    assert_int_equal(srq_resize(f->srq, 1000), 0);
    post_from_to(f, 4, 999);
    assert_int_equal(post(f, 1000), -ENOMEM);
    assert_int_equal(held->wr_id, 0);
    take_and_release(f, 1, 999);
    recv_queue_release(&f->srq->queue, held);
}

static void shrunk_queue_takes_no_more_than_its_new_size(void **state)
{
    struct fixture *f = *state;

    post_from_to(f, 0, 2);
    assert_int_equal(srq_resize(f->srq, 2), -EINVAL);
    assert_int_equal(srq_resize(f->srq, 3), 0);
    assert_int_equal(post(f, 3), -ENOMEM);
    take_and_release(f, 0, 0);
    assert_int_equal(post(f, 3), 0);
    assert_int_equal(srq_resize(f->srq, WR_MAX), 0);
    assert_int_equal(post(f, 4), 0);
    assert_int_equal(post(f, 5), -ENOMEM);
    take_and_release(f, 1, 4);
}

static void growing_and_shrinking_for_ever_takes_bounded_memory(void **state)
{
    struct fixture *f = *state;

    for (int round = 0; round < 10000; round++) {
        assert_int_equal(srq_resize(f->srq, SRQ_WR_MAX), 0);
        assert_int_equal(srq_resize(f->srq, 1), 0);
    }
    assert_int_equal(f->srq->queue.slot_count, SRQ_WR_MAX);
    assert_int_equal(srq_resize(f->srq, SRQ_WR_MAX + 1), -EINVAL);
    assert_int_equal(srq_resize(f->srq, 0), -EINVAL);
}

static void queue_in_use_cannot_be_freed_nor_can_its_domain(void **state)
{
    struct fixture *f = *state;

    f->srq->use_count++;
    assert_int_equal(srq_free(f->srq), -EBUSY);
    f->srq->use_count--;
    assert_int_equal(pd_free(f->bare.pd), -EBUSY);
}

static void context_is_handed_back(void **state)
{
    struct fixture *f = *state;

    assert_ptr_equal(srq_context(f->srq), f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(requests_are_taken_in_the_order_of_their_posts),
        TEST(request_is_a_copy_with_its_length_summed_in_64_bits),
        TEST(request_without_sges_is_good),
        TEST(too_many_sges_are_refused),
        TEST(requests_that_are_held_count_until_they_are_released),
        TEST(requests_may_be_released_in_any_order),
        TEST(request_that_was_not_used_goes_back_in_front),
        TEST(queue_of_no_requests_is_always_full),
        TEST(sizes_out_of_range_are_refused),
        TEST(limit_given_at_creation_is_not_armed),
        TEST(limit_event_comes_once_when_fewer_requests_are_left),
        TEST(limit_that_is_not_met_when_it_is_armed_is_told_at_once),
        TEST(limit_above_the_size_is_refused),
        TEST(resize_under_traffic_moves_no_request),
        TEST(shrunk_queue_takes_no_more_than_its_new_size),
        TEST(growing_and_shrinking_for_ever_takes_bounded_memory),
        TEST(queue_in_use_cannot_be_freed_nor_can_its_domain),
        TEST(context_is_handed_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
