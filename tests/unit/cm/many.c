/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections in great number, one after the other, at once, and of one peer that means harm. */
#include "two.h"

static void a_hundred_thousand_connections_leave_nothing_behind(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 100000; i++) {
        connect_them(f);
        assert_int_equal(cm_disconnect(f->active, none, f->now), 0);
        passes(f, f->a, CM_DREQ);
        event_of(f->b, CM_EVENT_DISCONNECTED);
        passes(f, f->b, CM_DREP);
        event_of(f->a, CM_EVENT_DISCONNECTED);
        cm_id_free(f->active, f->now);
        cm_id_free(f->passive, f->now);
        time_passes(f, 100 * MS);
        assert_true(cm_id_count(f->a) < 50);
        assert_true(cm_id_count(f->b) < 50);
    }
    time_passes(f, 10000 * MS);
    assert_int_equal(cm_id_count(f->a), 0);
    assert_int_equal(cm_id_count(f->b), 1);
}

#define AT_ONCE 2000u

static void give_all_back(struct fixture *f, struct cm_id *const ids[2][AT_ONCE])
{
    for (unsigned i = 0; i < AT_ONCE; i++) {
        cm_id_free(ids[0][i], f->now);
        cm_id_free(ids[1][i], f->now);
    }
}

/* Carries what leaves, until nothing does. */
static void all_passes(struct fixture *f)
{
    while (cm_wants_transmit(f->a) || cm_wants_transmit(f->b)) {
        while (leaves(f, f->a))
            lands(f, f->b);
        while (leaves(f, f->b))
            lands(f, f->a);
    }
}

/* With a backlog of a tenth: who finds it full asks again. */
static void two_thousand_at_once_all_succeed(void **state)
{
    static struct cm_id *ids[2][AT_ONCE];
    struct fixture *f = *state;
    const uint64_t start = f->now;
    unsigned up[2] = {0};
    struct cm_event e;
    struct cm_id *listener;

    assert_int_equal(cm_id_new(f->b, f, &listener), 0);
    assert_int_equal(cm_listen(listener, SERVICE, &gid_b, AT_ONCE / 10), 0);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        ask(f);
        ids[0][i] = f->active;
    }
    while (up[0] + up[1] < 2 * AT_ONCE) {
        all_passes(f);
        while (cm_event_next(f->b, &e)) {
            if (e.type == CM_EVENT_REQUEST) {
                const struct cm_accept accept = {.qpn = e.message.qpn ^ 0x030000};

                assert_int_equal(cm_accept(e.id, &accept, f->now), 0);
            } else {
                assert_int_equal(e.type, CM_EVENT_ESTABLISHED);
                ids[1][up[1]++] = e.id;
            }
        }
        while (cm_event_next(f->a, &e)) {
            assert_int_equal(e.type, CM_EVENT_REPLY);
            assert_int_equal(cm_establish(e.id, none, f->now), 0);
            up[0]++;
        }
        if (!cm_wants_transmit(f->a) && !cm_wants_transmit(f->b) && cm_deadline(f->a) != CM_NEVER)
            time_passes(f, cm_deadline(f->a) - f->now);
    }
    assert_true(f->now - start < 16 * (UINT64_C(4096) << 20));
    assert_true(cm_counters(f->b)->backlog_full > 0);
    give_all_back(f, ids);
    for (all_passes(f); cm_deadline(f->a) != CM_NEVER; all_passes(f))
        time_passes(f, cm_deadline(f->a) - f->now);
    time_passes(f, 10000 * MS);
    assert_int_equal(cm_id_count(f->a), 0);
    assert_int_equal(cm_id_count(f->b), 2);
}

/* --- one peer that asks without end --- */

#define FLOOD 100000u

/* As many REQs, each of another communication and another queue pair. */
static void flood(struct fixture *f, unsigned count)
{
    static uint32_t n;

    ask(f);
    is_lost(f, f->a, CM_REQ);
    for (unsigned i = 0; i < count; i++) {
        struct cm_message req = f->last;

        req.local_comm_id = ++n;
        req.qpn = n & 0xffffff;
        forged(f, f->b, &req);
    }
}

static void requests_without_end_stop_at_the_backlog(void **state)
{
    struct fixture *f = *state;

    flood(f, FLOOD);
    assert_int_equal(cm_id_count(f->b), 1 + 2); /* the listener, and its backlog */
    assert_int_equal(cm_counters(f->b)->backlog_full, FLOOD - 2);
    event_of(f->b, CM_EVENT_REQUEST);
    event_of(f->b, CM_EVENT_REQUEST);
    nothing_happens(f->b);
}

/* An application that answers at once has room in its backlog; each answer is remembered a while.
 */
static void requests_without_end_that_are_answered_stop_at_the_number_of_ids(void **state)
{
    struct fixture *f = *state;
    struct cm_config config = {.slot = 2, .ids_max = 100};
    unsigned refused = 0;

    cm_free(f->b);
    assert_int_equal(cm_new(&config, &f->b), 0);
    assert_int_equal(cm_id_new(f->b, f, &f->listener), 0);
    assert_int_equal(cm_listen(f->listener, SERVICE, NULL, 2), 0);
    for (unsigned i = 0; i < 1000; i++) {
        struct cm_event e;

        flood(f, 1);
        if (!cm_event_next(f->b, &e))
            continue;
        cm_id_free(e.id, f->now);
        while (leaves(f, f->b))
            refused += f->last.kind == CM_REJ;
    }
    assert_int_equal(refused, 99);
    assert_int_equal(cm_counters(f->b)->ids_exhausted, 1000 - 99);
    time_passes(f, 6000 * MS);
    assert_int_equal(cm_id_count(f->b), 1);
    flood(f, 1);
    event_of(f->b, CM_EVENT_REQUEST);
}

static void answers_that_cannot_leave_are_dropped_and_counted(void **state)
{
    struct fixture *f = *state;
    unsigned left = 0;

    cm_id_free(f->listener, f->now);
    flood(f, 1000);
    assert_int_equal(cm_counters(f->b)->no_listener, 1000);
    while (leaves(f, f->b))
        left++;
    assert_int_equal(left + cm_counters(f->b)->replies_dropped, 1000);
    assert_int_equal(left, 256);
    assert_int_equal(cm_id_count(f->b), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_hundred_thousand_connections_leave_nothing_behind),
        TEST(two_thousand_at_once_all_succeed),
        TEST(requests_without_end_stop_at_the_backlog),
        TEST(requests_without_end_that_are_answered_stop_at_the_number_of_ids),
        TEST(answers_that_cannot_leave_are_dropped_and_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
