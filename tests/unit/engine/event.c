/* SPDX-License-Identifier: BSD-2-Clause */
/* Events come out in order, once each, and go away with their owner. */
#include "bare_engine.h"

#include "engine/cq_private.h"
#include "engine/event_private.h"
#include "engine/qp_private.h"
#include "engine/srq_private.h"

struct fixture {
    struct bare_engine bare;
    struct cq cq;
    struct qp qp;
    struct srq srq;
};

static int setup(void **state)
{
    static struct fixture f;

    f = (struct fixture){0};
    bare_engine_init(&f.bare, 1);
    event_source_init(&f.cq.events, EVENT_OWNER_CQ);
    event_source_init(&f.qp.events, EVENT_OWNER_QP);
    event_source_init(&f.srq.events, EVENT_OWNER_SRQ);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    bare_engine_fini(&f->bare);
    return 0;
}

static void expect_event(struct fixture *f, struct engine_event want)
{
    struct engine_event got;

    assert_true(engine_event_next(&f->bare.engine, &got));
    assert_int_equal(got.type, want.type);
    assert_ptr_equal(got.cq, want.cq);
    assert_ptr_equal(got.qp, want.qp);
    assert_ptr_equal(got.srq, want.srq);
}

static void expect_no_event(struct fixture *f)
{
    struct engine_event got;

    assert_false(engine_event_next(&f->bare.engine, &got));
}

static void an_engine_without_events_has_none_to_give(void **state)
{
    expect_no_event(*state);
}

static void events_come_in_the_order_of_their_owners(void **state)
{
    struct fixture *f = *state;
    struct engine *e = &f->bare.engine;

    event_raise(e, &f->srq.events, ENGINE_EVENT_SRQ_LIMIT);
    event_raise(e, &f->cq.events, ENGINE_EVENT_COMPLETION);
    event_raise(e, &f->qp.events, ENGINE_EVENT_COMM_EST);
    expect_event(f, (struct engine_event){.type = ENGINE_EVENT_SRQ_LIMIT, .srq = &f->srq});
    expect_event(f, (struct engine_event){.type = ENGINE_EVENT_COMPLETION, .cq = &f->cq});
    expect_event(f, (struct engine_event){.type = ENGINE_EVENT_COMM_EST, .qp = &f->qp});
    expect_no_event(f);
}

static void one_owner_may_have_several_events(void **state)
{
    struct fixture *f = *state;
    struct engine *e = &f->bare.engine;

    event_raise(e, &f->cq.events, ENGINE_EVENT_COMPLETION);
    event_raise(e, &f->cq.events, ENGINE_EVENT_CQ_ERR);
    expect_event(f, (struct engine_event){.type = ENGINE_EVENT_CQ_ERR, .cq = &f->cq});
    expect_event(f, (struct engine_event){.type = ENGINE_EVENT_COMPLETION, .cq = &f->cq});
    expect_no_event(f);
}

static void an_event_that_waits_is_not_doubled_but_may_come_again(void **state)
{
    struct fixture *f = *state;
    struct engine *e = &f->bare.engine;

    for (int round = 0; round < 3; round++) {
        event_raise(e, &f->qp.events, ENGINE_EVENT_SQ_DRAINED);
        event_raise(e, &f->qp.events, ENGINE_EVENT_SQ_DRAINED);
        expect_event(f, (struct engine_event){.type = ENGINE_EVENT_SQ_DRAINED, .qp = &f->qp});
        expect_no_event(f);
    }
}

static void events_of_an_owner_that_goes_away_are_forgotten(void **state)
{
    struct fixture *f = *state;
    struct engine *e = &f->bare.engine;

    event_raise(e, &f->qp.events, ENGINE_EVENT_QP_FATAL);
    event_raise(e, &f->qp.events, ENGINE_EVENT_LAST_WQE);
    event_raise(e, &f->cq.events, ENGINE_EVENT_COMPLETION);
    event_forget(&f->qp.events);
    expect_event(f, (struct engine_event){.type = ENGINE_EVENT_COMPLETION, .cq = &f->cq});
    expect_no_event(f);
    event_forget(&f->qp.events);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_engine_without_events_has_none_to_give, setup, teardown),
        cmocka_unit_test_setup_teardown(events_come_in_the_order_of_their_owners, setup, teardown),
        cmocka_unit_test_setup_teardown(one_owner_may_have_several_events, setup, teardown),
        cmocka_unit_test_setup_teardown(an_event_that_waits_is_not_doubled_but_may_come_again,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(events_of_an_owner_that_goes_away_are_forgotten, setup,
                                        teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
