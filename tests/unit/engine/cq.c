/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion queues: order, the end of the ring, arming, resizing, forgetting. */
#include "bare_engine.h"

#include <errno.h>

#include "engine/cq_private.h"
#include "engine/limits.h"

#define CAPACITY 5u

struct fixture {
    struct bare_engine bare;
    struct cq *cq;
    uint64_t pushed; /* wr_id of the next entry that is pushed */
    uint64_t polled; /* wr_id of the next entry that is expected */
};

static int setup(void **state)
{
    static struct fixture f;

    f = (struct fixture){0};
    bare_engine_init(&f.bare, 2);
    assert_int_equal(cq_new(&f.bare.engine, CAPACITY, &f, &f.cq), 0);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(cq_free(f->cq), 0);
    assert_int_equal(f->bare.engine.cq_count, 0);
    assert_true(list_empty(&f->bare.engine.events));
    bare_engine_fini(&f->bare);
    return 0;
}

static void push_as(struct fixture *f, enum completion_status status, bool solicited)
{
    const struct completion c = {.wr_id = f->pushed++, .status = status};

    cq_push(f->cq, &c, solicited);
    cq_check(f->cq);
}

static void push(struct fixture *f, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        push_as(f, STATUS_SUCCESS, false);
}

static void expect_polled(struct fixture *f, uint32_t ask, int want)
{
    struct completion got[64];

    assert_int_equal(cq_poll(f->cq, ask, got), want);
    for (int i = 0; i < want; i++)
        assert_int_equal(got[i].wr_id, f->polled++);
    cq_check(f->cq);
}

static bool event_came(struct fixture *f, enum engine_event_type type)
{
    struct engine_event event;

    if (!engine_event_next(&f->bare.engine, &event))
        return false;
    assert_int_equal(event.type, type);
    assert_ptr_equal(event.cq, f->cq);
    return true;
}

static void entries_come_out_in_order_however_often_the_ring_goes_round(void **state)
{
    struct fixture *f = *state;

    for (int round = 0; round < 50; round++) {
        push(f, 3);
        expect_polled(f, 2, 2);
        push(f, 2);
        assert_int_equal(cq_queued(f->cq), 3);
        expect_polled(f, 64, 3);
        expect_polled(f, 64, 0);
    }
}

static void capacity_is_what_was_asked_for_and_all_of_it_can_be_used(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(cq_capacity(f->cq), CAPACITY);
    push(f, CAPACITY);
    assert_false(event_came(f, ENGINE_EVENT_CQ_ERR));
    expect_polled(f, 64, CAPACITY);
}

static void capacities_out_of_range_are_refused(void **state)
{
    struct fixture *f = *state;
    struct cq *cq = NULL;

    assert_int_equal(cq_new(&f->bare.engine, 0, NULL, &cq), -EINVAL);
    assert_int_equal(cq_new(&f->bare.engine, CQ_CAPACITY_MAX + 1, NULL, &cq), -EINVAL);
    assert_null(cq);
    assert_int_equal(cq_resize(f->cq, 0), -EINVAL);
    assert_int_equal(cq_resize(f->cq, CQ_CAPACITY_MAX + 1), -EINVAL);
    assert_int_equal(cq_new(&f->bare.engine, CQ_CAPACITY_MAX, NULL, &cq), 0);
    assert_int_equal(cq_free(cq), 0);
}

static void entry_is_stamped_with_the_time_of_the_engine(void **state)
{
    struct fixture *f = *state;

    f->bare.engine.now = 123456789;
    push(f, 1);
    assert_int_equal(cq_peek(f->cq)->timestamp_ns, 123456789);
}

static void peek_leaves_the_entry_and_pop_takes_it(void **state)
{
    struct fixture *f = *state;

    assert_null(cq_peek(f->cq));
    push(f, 2);
    assert_int_equal(cq_peek(f->cq)->wr_id, 0);
    assert_int_equal(cq_peek(f->cq)->wr_id, 0);
    cq_pop(f->cq);
    assert_int_equal(cq_peek(f->cq)->wr_id, 1);
    cq_pop(f->cq);
    assert_null(cq_peek(f->cq));
}

/* IBA 11.6.3: a CQ overrun is told once, and what is queued can still be had. */
static void overrun_is_told_by_one_event_and_by_polling_after_the_rest(void **state)
{
    struct fixture *f = *state;

    push(f, CAPACITY + 3);
    assert_true(event_came(f, ENGINE_EVENT_CQ_ERR));
    assert_false(event_came(f, ENGINE_EVENT_CQ_ERR));
    expect_polled(f, 2, 2);
    push(f, 1); /* there is room again, but the queue has a hole already */
    expect_polled(f, 64, 3);
    expect_polled(f, 64, -EOVERFLOW);
    expect_polled(f, 64, -EOVERFLOW);
    assert_false(event_came(f, ENGINE_EVENT_CQ_ERR));
}

static void overrun_wakes_up_who_waits_for_an_entry(void **state)
{
    struct fixture *f = *state;

    push(f, CAPACITY);
    cq_arm(f->cq, true);
    push(f, 1);
    assert_true(event_came(f, ENGINE_EVENT_CQ_ERR));
    assert_true(event_came(f, ENGINE_EVENT_COMPLETION));
}

static void armed_queue_tells_of_the_next_entry_once(void **state)
{
    struct fixture *f = *state;

    push(f, 1);
    assert_false(event_came(f, ENGINE_EVENT_COMPLETION));
    cq_arm(f->cq, false);
    assert_false(
        event_came(f, ENGINE_EVENT_COMPLETION)); /* what is queued already does not count */
    push(f, 2);
    assert_true(event_came(f, ENGINE_EVENT_COMPLETION));
    assert_false(event_came(f, ENGINE_EVENT_COMPLETION));
}

static void armed_for_solicited_is_deaf_to_other_successes(void **state)
{
    struct fixture *f = *state;

    cq_arm(f->cq, true);
    push_as(f, STATUS_SUCCESS, false);
    assert_false(event_came(f, ENGINE_EVENT_COMPLETION));
    push_as(f, STATUS_SUCCESS, true);
    assert_true(event_came(f, ENGINE_EVENT_COMPLETION));
}

static void armed_for_solicited_hears_every_error(void **state)
{
    struct fixture *f = *state;

    cq_arm(f->cq, true);
    push_as(f, STATUS_WR_FLUSH_ERR, false);
    assert_true(event_came(f, ENGINE_EVENT_COMPLETION));
}

/* IBA 11.4: asking for less does not take back that more was asked for. */
static void weaker_arm_does_not_replace_a_stronger_one(void **state)
{
    struct fixture *f = *state;

    cq_arm(f->cq, false);
    cq_arm(f->cq, true);
    push_as(f, STATUS_SUCCESS, false);
    assert_true(event_came(f, ENGINE_EVENT_COMPLETION));

    cq_arm(f->cq, true);
    cq_arm(f->cq, false);
    push_as(f, STATUS_SUCCESS, false);
    assert_true(event_came(f, ENGINE_EVENT_COMPLETION));
}

static void let_time_pass(struct fixture *f, uint64_t ns)
{
    f->bare.engine.now += ns;
    cq_advance(&f->bare.engine);
}

static void moderated_queue_tells_of_so_many_entries_at_once(void **state)
{
    struct fixture *f = *state;

    cq_moderate(f->cq, 3, 0);
    for (uint32_t round = 0; round < 3; round++) {
        cq_arm(f->cq, false);
        push(f, 2);
        let_time_pass(f, 1000000000);
        assert_false(event_came(f, ENGINE_EVENT_COMPLETION));
        assert_int_equal(cq_deadline(&f->bare.engine), ENGINE_NEVER);
        push(f, 1);
        assert_true(event_came(f, ENGINE_EVENT_COMPLETION));
        expect_polled(f, 3, 3);
    }
}

static void moderated_queue_holds_an_event_back_no_longer_than_its_period(void **state)
{
    struct fixture *f = *state;

    cq_moderate(f->cq, 3, 500);
    cq_arm(f->cq, false);
    assert_int_equal(cq_deadline(&f->bare.engine), ENGINE_NEVER);
    push(f, 1);
    assert_int_equal(cq_deadline(&f->bare.engine), f->bare.engine.now + 500);
    let_time_pass(f, 499);
    push(f, 1); /* the period is that of the first */
    assert_false(event_came(f, ENGINE_EVENT_COMPLETION));
    let_time_pass(f, 1);
    assert_true(event_came(f, ENGINE_EVENT_COMPLETION));
    assert_int_equal(cq_deadline(&f->bare.engine), ENGINE_NEVER);
}

/* Else a count larger than the queue would be waited for in vain. */
static void full_queue_is_told_of_whatever_the_moderation(void **state)
{
    struct fixture *f = *state;

    cq_moderate(f->cq, 100, 0);
    cq_arm(f->cq, false);
    push(f, CAPACITY - 1);
    assert_false(event_came(f, ENGINE_EVENT_COMPLETION));
    push(f, 1);
    assert_true(event_came(f, ENGINE_EVENT_COMPLETION));
}

static void changed_moderation_holds_for_what_waits(void **state)
{
    struct fixture *f = *state;

    cq_moderate(f->cq, 4, 0);
    cq_arm(f->cq, false);
    push(f, 2);
    cq_moderate(f->cq, 3, 700);
    assert_false(event_came(f, ENGINE_EVENT_COMPLETION));
    assert_int_equal(cq_deadline(&f->bare.engine), f->bare.engine.now + 700);
    cq_moderate(f->cq, 0, 0);
    assert_true(event_came(f, ENGINE_EVENT_COMPLETION));
}

static void queue_that_ignores_overrun_keeps_the_newest(void **state)
{
    struct fixture *f = *state;

    cq_ignore_overrun(f->cq);
    push(f, CAPACITY + 2);
    assert_false(event_came(f, ENGINE_EVENT_CQ_ERR));
    f->polled += 2;
    expect_polled(f, 64, CAPACITY);
    push(f, 1);
    expect_polled(f, 64, 1);
}

static void resize_keeps_what_is_queued_in_order(void **state)
{
    static const uint32_t capacities[] = {8, 4, 31, 4, 64, 5};
    struct fixture *f = *state;

    push(f, 4);
    expect_polled(f, 3, 3);
    push(f, 3); /* goes round the end of the ring */
    for (size_t i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++) {
        assert_int_equal(cq_resize(f->cq, capacities[i]), 0);
        assert_int_equal(cq_capacity(f->cq), capacities[i]);
        assert_int_equal(cq_queued(f->cq), 4);
        expect_polled(f, 1, 1);
        push(f, 1);
    }
    expect_polled(f, 64, 4);
}

static void resize_below_what_is_queued_is_refused_and_changes_nothing(void **state)
{
    struct fixture *f = *state;

    push(f, 4);
    assert_int_equal(cq_resize(f->cq, 3), -EINVAL);
    assert_int_equal(cq_capacity(f->cq), CAPACITY);
    expect_polled(f, 64, 4);
}

static void entries_of_a_queue_pair_that_goes_away_are_dropped(void **state)
{
    struct fixture *f = *state;
    struct qp *stays = (struct qp *)(void *)&f->pushed; /* only compared */
    struct qp *goes = (struct qp *)(void *)&f->polled;
    struct completion got[CAPACITY];

    push(f, 3);
    expect_polled(f, 3, 3);
    for (uint64_t id = 0; id < CAPACITY; id++) {
        const struct completion c = {.wr_id = id, .owner = id % 2 == 0 ? goes : stays};

        cq_push(f->cq, &c, false);
    }
    cq_forget(f->cq, goes);
    cq_check(f->cq);
    assert_int_equal(cq_poll(f->cq, CAPACITY, got), 2);
    assert_int_equal(got[0].wr_id, 1);
    assert_int_equal(got[1].wr_id, 3);
}

static void queue_in_use_cannot_be_freed(void **state)
{
    struct fixture *f = *state;

    cq_get(f->cq);
    cq_get(f->cq);
    assert_int_equal(cq_free(f->cq), -EBUSY);
    cq_put(f->cq);
    assert_int_equal(cq_free(f->cq), -EBUSY);
    cq_put(f->cq);
}

static void events_not_taken_go_away_with_the_queue(void **state)
{
    struct fixture *f = *state;
    struct engine_event event;
    struct cq *cq;

    assert_int_equal(cq_new(&f->bare.engine, 1, NULL, &cq), 0);
    cq_arm(cq, false);
    cq_push(cq, &(struct completion){.wr_id = 1}, false);
    assert_int_equal(cq_free(cq), 0);
    assert_false(engine_event_next(&f->bare.engine, &event));
}

static void context_is_handed_back(void **state)
{
    struct fixture *f = *state;

    assert_ptr_equal(cq_context(f->cq), f);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(entries_come_out_in_order_however_often_the_ring_goes_round),
        TEST(capacity_is_what_was_asked_for_and_all_of_it_can_be_used),
        TEST(capacities_out_of_range_are_refused),
        TEST(entry_is_stamped_with_the_time_of_the_engine),
        TEST(peek_leaves_the_entry_and_pop_takes_it),
        TEST(overrun_is_told_by_one_event_and_by_polling_after_the_rest),
        TEST(overrun_wakes_up_who_waits_for_an_entry),
        TEST(armed_queue_tells_of_the_next_entry_once),
        TEST(armed_for_solicited_is_deaf_to_other_successes),
        TEST(armed_for_solicited_hears_every_error),
        TEST(weaker_arm_does_not_replace_a_stronger_one),
        TEST(moderated_queue_tells_of_so_many_entries_at_once),
        TEST(moderated_queue_holds_an_event_back_no_longer_than_its_period),
        TEST(full_queue_is_told_of_whatever_the_moderation),
        TEST(changed_moderation_holds_for_what_waits),
        TEST(queue_that_ignores_overrun_keeps_the_newest),
        TEST(resize_keeps_what_is_queued_in_order),
        TEST(resize_below_what_is_queued_is_refused_and_changes_nothing),
        TEST(entries_of_a_queue_pair_that_goes_away_are_dropped),
        TEST(queue_in_use_cannot_be_freed),
        TEST(events_not_taken_go_away_with_the_queue),
        TEST(context_is_handed_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
