/* SPDX-License-Identifier: BSD-2-Clause */
/* The heap of deadlines against a plain search for the smallest. */
#include "bare_engine.h"

#include "engine/qp_private.h"
#include "support/dice.h"

#define QPS 100u

struct fixture {
    struct bare_engine bare;
    struct qp qps[QPS];
    struct qp *heap[QPS];
};

static int setup(void **state)
{
    static struct fixture f;

    f = (struct fixture){0};
    bare_engine_init(&f.bare, 8);
    f.bare.engine.timers = f.heap;
    f.bare.engine.timer_capacity = QPS;
    for (uint32_t i = 0; i < QPS; i++) {
        f.qps[i].engine = &f.bare.engine;
        f.qps[i].timer_index = QP_NO_TIMER;
        f.qps[i].deadline_ns = ENGINE_NEVER;
        f.qps[i].requester.retransmit_ns = ENGINE_NEVER;
        f.qps[i].requester.rnr_wait_ns = ENGINE_NEVER;
        f.qps[i].requester.room_wait_ns = ENGINE_NEVER;
        f.qps[i].rate_wait_ns = ENGINE_NEVER;
        f.qps[i].responder.ack_hold_ns = ENGINE_NEVER;
    }
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    bare_engine_fini(&f->bare);
    return 0;
}

static uint64_t smallest(const struct fixture *f)
{
    uint64_t least = ENGINE_NEVER;

    for (uint32_t i = 0; i < QPS; i++)
        least = f->qps[i].deadline_ns < least ? f->qps[i].deadline_ns : least;
    return least;
}

static void deadline_is_always_the_smallest(void **state)
{
    struct fixture *f = *state;
    struct dice dice = dice_make(1, 0);

    assert_true(engine_deadline(&f->bare.engine) == ENGINE_NEVER);
    for (uint32_t step = 0; step < 20000; step++) {
        struct qp *qp = &f->qps[dice_below(&dice, QPS)];

        /* Small numbers, so that equal deadlines are common. */
        timer_set(qp, dice_percent(&dice, 30) ? ENGINE_NEVER : dice_below(&dice, 50));
        assert_true(engine_deadline(&f->bare.engine) == smallest(f));
        assert_int_equal(qp->timer_index == QP_NO_TIMER, qp->deadline_ns == ENGINE_NEVER);
    }
    for (uint32_t i = 0; i < QPS; i++)
        timer_set(&f->qps[i], ENGINE_NEVER);
    assert_int_equal(f->bare.engine.timer_count, 0);
}

static void earliest_of_the_timers_of_a_queue_pair_counts(void **state)
{
    struct fixture *f = *state;
    struct qp *qp = &f->qps[0];

    assert_true(timer_due(qp) == ENGINE_NEVER);
    qp->requester.retransmit_ns = 300;
    timer_update(qp);
    assert_int_equal(engine_deadline(&f->bare.engine), 300);
    qp->requester.rnr_wait_ns = 200;
    timer_update(qp);
    assert_int_equal(engine_deadline(&f->bare.engine), 200);
    qp->requester.room_wait_ns = 100;
    timer_update(qp);
    assert_int_equal(engine_deadline(&f->bare.engine), 100);
    qp->responder.ack_hold_ns = 50;
    timer_update(qp);
    assert_int_equal(engine_deadline(&f->bare.engine), 50);
}

/* A deadline that only moves later is left where it is: the QP is looked at once too early. */
static void deadline_is_never_later_than_what_is_due(void **state)
{
    struct fixture *f = *state;
    struct qp *qp = &f->qps[0];

    qp->requester.retransmit_ns = 100;
    timer_update(qp);
    qp->requester.retransmit_ns = 500;
    timer_update(qp);
    assert_true(engine_deadline(&f->bare.engine) <= 500);
    timer_set(qp, ENGINE_NEVER);
    timer_update(qp);
    assert_int_equal(engine_deadline(&f->bare.engine), 500);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(deadline_is_always_the_smallest),
        TEST(earliest_of_the_timers_of_a_queue_pair_counts),
        TEST(deadline_is_never_later_than_what_is_due),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
