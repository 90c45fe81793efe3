/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections that come to be and end. Expectations: IBA 12.9 (states), 12.6 (messages), and what
 * two kernels say to each other (captures).
 */
#include "two.h"

static void a_connection_takes_three_messages_and_two_to_end(void **state)
{
    struct fixture *f = *state;
    struct cm_event event;

    ask(f);
    passes(f, f->a, CM_REQ);
    assert_int_equal(f->last.starting_psn, 0xabcdef);
    assert_int_equal(f->last.primary.flow_label, 0x5bd09);
    assert_int_equal(f->last.pkey, 0xffff);
    event = event_of(f->b, CM_EVENT_REQUEST);
    assert_ptr_equal(event.listener, f->listener);
    assert_memory_equal(event.message.private_data, "hello", 6);
    f->passive = event.id;
    assert_int_equal(cm_id_remote_qpn(f->passive), 0x01000b);
    accept_it(f);
    passes(f, f->b, CM_REP);
    event = event_of(f->a, CM_EVENT_REPLY);
    assert_memory_equal(event.message.private_data, "welcome", 8);
    assert_int_equal(cm_id_remote_qpn(f->active), 0x020007);
    assert_int_equal(cm_establish(f->active, none, f->now), 0);
    passes(f, f->a, CM_RTU);
    event_of(f->b, CM_EVENT_ESTABLISHED);
    assert_int_equal(cm_disconnect(f->active, none, f->now), 0);
    passes(f, f->a, CM_DREQ);
    assert_int_equal(f->last.qpn, 0x020007);
    event_of(f->b, CM_EVENT_DISCONNECTED);
    passes(f, f->b, CM_DREP);
    event_of(f->a, CM_EVENT_DISCONNECTED);
    time_passes(f, 5000 * MS);
    event_of(f->a, CM_EVENT_TIMEWAIT_OVER);
    event_of(f->b, CM_EVENT_TIMEWAIT_OVER);
    nothing_happens(f->a);
    nothing_happens(f->b);
    assert_true(cm_deadline(f->a) == CM_NEVER);
}

static void data_that_overtakes_the_rtu_establishes(void **state)
{
    struct fixture *f = *state;

    ask_and_accept(f);
    passes(f, f->b, CM_REP);
    cm_note_traffic(f->passive, f->now);
    event_of(f->b, CM_EVENT_ESTABLISHED);
    assert_int_equal(cm_id_state(f->passive), CM_STATE_ESTABLISHED);
    event_of(f->a, CM_EVENT_REPLY);
    assert_int_equal(cm_establish(f->active, none, f->now), 0);
    passes(f, f->a, CM_RTU);
    nothing_happens(f->b);
}

static void both_may_disconnect_at_once(void **state)
{
    struct fixture *f = *state;
    uint8_t crossing[DATAGRAM_LEN];

    connect_them(f);
    assert_int_equal(cm_disconnect(f->active, none, f->now), 0);
    assert_int_equal(cm_disconnect(f->passive, none, f->now), 0);
    is_lost(f, f->a, CM_DREQ);
    memcpy(crossing, f->bytes, sizeof(crossing));
    passes(f, f->b, CM_DREQ);
    event_of(f->a, CM_EVENT_DISCONNECTED);
    memcpy(f->bytes, crossing, sizeof(crossing));
    lands(f, f->b);
    event_of(f->b, CM_EVENT_DISCONNECTED);
    passes(f, f->a, CM_DREP);
    passes(f, f->b, CM_DREP);
    time_passes(f, 5000 * MS);
    event_of(f->a, CM_EVENT_TIMEWAIT_OVER);
    nothing_happens(f->a);
}

static void a_full_backlog_is_silent_until_there_is_room(void **state)
{
    struct fixture *f = *state;
    struct cm_id *first;

    ask(f);
    passes(f, f->a, CM_REQ);
    first = event_of(f->b, CM_EVENT_REQUEST).id;
    ask(f);
    passes(f, f->a, CM_REQ);
    event_of(f->b, CM_EVENT_REQUEST);
    ask(f);
    passes(f, f->a, CM_REQ);
    nothing_happens(f->b);
    assert_int_equal(cm_counters(f->b)->backlog_full, 1);
    f->passive = first;
    accept_it(f);
    lands(f, f->b);
    event_of(f->b, CM_EVENT_REQUEST);
}

static void private_data_that_does_not_fit_is_refused(void **state)
{
    static const uint8_t data[256];
    struct fixture *f = *state;
    const struct cm_connect connect = {.private_data = {data, 93}};

    assert_int_equal(cm_id_new(f->a, NULL, &f->active), 0);
    assert_int_equal(cm_connect(f->active, &connect, f->now), -EMSGSIZE);
    assert_int_equal(cm_id_state(f->active), CM_STATE_IDLE);
    assert_int_equal(cm_disconnect(f->active, none, f->now), -EINVAL);
    assert_int_equal(cm_establish(f->active, none, f->now), -EINVAL);
}

static void a_service_has_one_listener_an_address(void **state)
{
    struct fixture *f = *state;
    struct cm_id *other;

    assert_int_equal(cm_id_new(f->b, NULL, &other), 0);
    assert_int_equal(cm_listen(other, SERVICE, NULL, 1), -EADDRINUSE);
    assert_int_equal(cm_listen(other, SERVICE, &gid_b, 1), 0);
    ask(f);
    passes(f, f->a, CM_REQ);
    assert_ptr_equal(event_of(f->b, CM_EVENT_REQUEST).listener, other);
    cm_id_free(other, f->now);
    ask(f);
    passes(f, f->a, CM_REQ);
    assert_ptr_equal(event_of(f->b, CM_EVENT_REQUEST).listener, f->listener);
}

/* As when one thread calls exit while another has the IDs still. */
static void after_its_farewell_a_manager_has_its_ids_still(void **state)
{
    struct fixture *f = *state;
    struct cm_id *idle;
    uint32_t count;

    assert_int_equal(cm_id_new(f->a, NULL, &idle), 0);
    ask(f);
    passes(f, f->a, CM_REQ);
    count = cm_id_count(f->a);
    cm_leave(f->a, f->now);
    passes(f, f->a, CM_REJ);
    assert_int_equal(cm_id_count(f->a), count);
    assert_int_equal(cm_id_state(f->active), CM_STATE_OVER);
    cm_id_free(f->active, f->now);
    cm_id_free(idle, f->now);
    assert_int_equal(cm_id_count(f->a), count - 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_connection_takes_three_messages_and_two_to_end),
        TEST(data_that_overtakes_the_rtu_establishes),
        TEST(both_may_disconnect_at_once),
        TEST(a_full_backlog_is_silent_until_there_is_room),
        TEST(private_data_that_does_not_fit_is_refused),
        TEST(a_service_has_one_listener_an_address),
        TEST(after_its_farewell_a_manager_has_its_ids_still),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
