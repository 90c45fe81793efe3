/* SPDX-License-Identifier: BSD-2-Clause */
/* Destination windows: shared by those that go there, in turn, and moved by loss and success. */
#include "bare_engine.h"

#include "engine/qp_private.h"

#define PMTU 1024u

struct fixture {
    struct bare_engine bare;
    struct qp qps[3];
};

static int setup(void **state)
{
    static struct fixture f;

    f = (struct fixture){0};
    bare_engine_init(&f.bare, 9);
    window_table_init(&f.bare.engine.windows);
    list_init(&f.bare.engine.ready);
    for (uint32_t i = 0; i < 3; i++) {
        f.qps[i].engine = &f.bare.engine;
        list_init(&f.qps[i].ready_link);
        list_init(&f.qps[i].window_link);
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

static struct window *window_to(struct fixture *f, uint8_t address, uint8_t slot)
{
    const struct gid dst = {.bytes = {[15] = address}};
    struct window *w = window_get(&f->bare.engine, &dst, slot, PMTU);

    assert_non_null(w);
    return w;
}

static void all_that_goes_to_one_process_shares_a_window(void **state)
{
    struct fixture *f = *state;
    struct window *w = window_to(f, 1, 7);
    struct window *same = window_to(f, 1, 7);
    struct window *other_slot = window_to(f, 1, 8);
    struct window *other_host = window_to(f, 2, 7);

    assert_ptr_equal(w, same);
    assert_ptr_not_equal(w, other_slot);
    assert_ptr_not_equal(w, other_host);
    window_put(w);
    w = window_to(f, 1, 7);
    assert_ptr_equal(w, same);
    window_put(w);
    window_put(same);
    window_put(other_slot);
    window_put(other_host);
}

static uint32_t known_of_slot(void *context, const struct gid *dst, uint8_t slot)
{
    (void)context;
    (void)dst;
    return slot * 100000u;
}

static void a_known_buffer_opens_its_window_at_once(void **state)
{
    struct fixture *f = *state;
    struct window *unknown, *known, *limited;
    uint32_t usual;

    unknown = window_to(f, 1, 5);
    usual = unknown->limit_max;
    window_put(unknown);
    f->bare.engine.config.window = known_of_slot;
    unknown = window_to(f, 1, 0);
    assert_int_equal(unknown->limit_max, usual);
    assert_in_range(unknown->limit, 1, usual - 1);
    known = window_to(f, 1, 5);
    assert_int_equal(known->limit, 500000);
    assert_int_equal(known->limit_max, 500000);
    f->bare.engine.config.window_max = 300000; /* what a person asked for */
    limited = window_to(f, 1, 6);
    assert_int_equal(limited->limit, 300000);
    window_put(unknown);
    window_put(known);
    window_put(limited);
}

static void one_packet_more_is_let_in_while_there_is_any_room(void **state)
{
    struct window w;

    (void)state;
    window_init(&w, 1000, 2000);
    assert_true(window_has_room(&w));
    window_charge(&w, 999);
    assert_true(window_has_room(&w));
    window_charge(&w, 5000);
    assert_false(window_has_room(&w));
    window_release(&w, 4999);
    assert_false(window_has_room(&w));
    window_release(&w, 1);
    assert_true(window_has_room(&w));
    window_release(&w, 999);
}

static void those_that_wait_are_woken_in_turn_and_keep_their_places(void **state)
{
    struct fixture *f = *state;
    struct list *ready = &f->bare.engine.ready;
    struct window w;

    window_init(&w, 1000, 2000);
    window_charge(&w, 1500);
    for (uint32_t i = 0; i < 3; i++)
        list_push_tail(&w.waiting, &f->qps[i].window_link);
    window_release(&w, 500);
    assert_true(list_empty(ready)); /* exactly full is no room */
    assert_false(window_admits(&w, &f->qps[0].window_link));
    window_release(&w, 1);
    window_wake(&w);
    assert_ptr_equal(list_pop_head(ready), &f->qps[0].ready_link);
    assert_true(list_empty(ready)); /* one at a time: it may fill the window again */
    assert_true(window_admits(&w, &f->qps[0].window_link));
    assert_false(window_admits(&w, &f->qps[1].window_link));
    list_remove(&f->qps[0].window_link);
    window_wake(&w);
    assert_ptr_equal(list_pop_head(ready), &f->qps[1].ready_link);
    assert_true(window_admits(&w, &f->qps[1].window_link));
}

static void success_widens_it_by_a_packet_a_round_up_to_its_limit(void **state)
{
    const uint32_t packet = PMTU + WINDOW_PACKET_COST;
    struct window w;

    (void)state;
    window_init(&w, 10 * packet, 12 * packet + 1);
    window_charge(&w, 10 * packet);
    for (uint32_t i = 0; i < 9; i++)
        window_grow(&w, packet, PMTU);
    assert_int_equal(w.limit, 10 * packet);
    window_grow(&w, packet, PMTU);
    assert_int_equal(w.limit, 11 * packet);
    window_charge(&w, 10 * packet);
    for (uint32_t i = 0; i < 1000; i++) {
        window_charge(&w, 1);
        window_grow(&w, packet, PMTU);
    }
    assert_int_equal(w.limit, 12 * packet + 1);
}

static void a_window_that_is_not_filled_stays_as_it_is(void **state)
{
    struct window w;

    (void)state;
    window_init(&w, 10000, 20000);
    for (uint32_t i = 0; i < 1000; i++) {
        window_charge(&w, 9999);
        window_release(&w, 9999);
        window_grow(&w, 9999, PMTU);
    }
    assert_int_equal(w.limit, 10000);
}

static void loss_halves_it_once_for_a_burst_and_never_to_nothing(void **state)
{
    uint64_t now = 5000000000;
    struct window w;

    (void)state;
    window_init(&w, 100000, 131072);
    window_shrink(&w, now);
    assert_int_equal(w.limit, 50000);
    window_shrink(&w, now);
    window_shrink(&w, now + 1000);
    assert_int_equal(w.limit, 50000);
    for (uint32_t i = 0; i < 20; i++) {
        now += 1000000000;
        window_shrink(&w, now);
    }
    assert_true(w.limit >= 4096);
    assert_true(w.limit < 50000);
}

static void what_packets_alone_cost_more_comes_back_with_them(void **state)
{
    struct flight f = {0};
    struct window w;

    (void)state;
    window_init(&w, 100000, 200000);
    flight_charge(&f, &w, 3000);
    flight_charge_extra(&f, &w, 1000);
    assert_int_equal(w.in_flight, 4000);
    flight_release(&f, &w, 1500);
    assert_int_equal(w.in_flight, 2000);
    flight_charge(&f, &w, 500);
    flight_charge_extra(&f, &w, 7);
    for (uint32_t i = 0; i < 2000; i++)
        flight_release(&f, &w, 1);
    assert_int_equal(w.in_flight, 0); /* nothing is lost in rounding */
    flight_charge(&f, &w, 10);
    flight_charge_extra(&f, &w, 20);
    flight_end(&f, &w);
    assert_int_equal(w.in_flight, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_that_goes_to_one_process_shares_a_window),
        TEST(a_known_buffer_opens_its_window_at_once),
        TEST(one_packet_more_is_let_in_while_there_is_any_room),
        TEST(those_that_wait_are_woken_in_turn_and_keep_their_places),
        TEST(success_widens_it_by_a_packet_a_round_up_to_its_limit),
        TEST(a_window_that_is_not_filled_stays_as_it_is),
        TEST(what_packets_alone_cost_more_comes_back_with_them),
        TEST(loss_halves_it_once_for_a_burst_and_never_to_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
