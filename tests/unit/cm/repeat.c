/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages that get lost, come twice, come late or never: IBA 12.9.8, and what Linux does where
 * that is open. */
#include "two.h"

static void a_lost_req_is_said_again_soon_and_the_same(void **state)
{
    struct fixture *f = *state;
    uint64_t transaction_id;

    ask(f);
    is_lost(f, f->a, CM_REQ);
    transaction_id = f->last.transaction_id;
    assert_true(cm_deadline(f->a) <= f->now + 500 * MS);
    time_passes(f, cm_deadline(f->a) - f->now);
    passes(f, f->a, CM_REQ);
    assert_true(f->last.transaction_id == transaction_id);
    event_of(f->b, CM_EVENT_REQUEST);
}

static void a_repeated_req_makes_no_second_request(void **state)
{
    struct fixture *f = *state;

    ask(f);
    passes(f, f->a, CM_REQ);
    lands(f, f->b);
    event_of(f->b, CM_EVENT_REQUEST);
    is_lost(f, f->b, CM_MRA);
    nothing_happens(f->b);
    assert_int_equal(cm_counters(f->b)->duplicates, 1);
}

static void a_repeated_req_is_answered_with_the_same_rep(void **state)
{
    struct fixture *f = *state;
    uint8_t rep[MAD_LEN];

    ask(f);
    passes(f, f->a, CM_REQ);
    f->passive = event_of(f->b, CM_EVENT_REQUEST).id;
    accept_it(f);
    is_lost(f, f->b, CM_REP);
    memcpy(rep, f->bytes + MAD_AT, MAD_LEN);
    time_passes(f, cm_deadline(f->a) - f->now);
    passes(f, f->a, CM_REQ);
    passes(f, f->b, CM_REP);
    assert_memory_equal(rep, f->bytes + MAD_AT, MAD_LEN);
    event_of(f->a, CM_EVENT_REPLY);
}

static void a_lost_rtu_is_said_again_for_a_repeated_rep(void **state)
{
    struct fixture *f = *state;

    ask_and_accept(f);
    passes(f, f->b, CM_REP);
    event_of(f->a, CM_EVENT_REPLY);
    assert_int_equal(cm_establish(f->active, none, f->now), 0);
    is_lost(f, f->a, CM_RTU);
    time_passes(f, cm_deadline(f->b) - f->now);
    passes(f, f->b, CM_REP);
    passes(f, f->a, CM_RTU);
    event_of(f->b, CM_EVENT_ESTABLISHED);
    nothing_happens(f->a);
}

/* What is repeated by the network, or because its answer got lost, at any later time. */
static void messages_that_come_again_change_nothing(void **state)
{
    struct fixture *f = *state;
    uint8_t req[DATAGRAM_LEN], reply[DATAGRAM_LEN], rtu[DATAGRAM_LEN];

    request_comes(f);
    memcpy(req, f->bytes, sizeof(req));
    accept_it(f);
    passes(f, f->b, CM_REP);
    memcpy(reply, f->bytes, sizeof(reply));
    event_of(f->a, CM_EVENT_REPLY);
    assert_int_equal(cm_establish(f->active, none, f->now), 0);
    passes(f, f->a, CM_RTU);
    memcpy(rtu, f->bytes, sizeof(rtu));
    event_of(f->b, CM_EVENT_ESTABLISHED);

    memcpy(f->bytes, req, sizeof(req));
    lands(f, f->b);
    memcpy(f->bytes, rtu, sizeof(rtu));
    lands(f, f->b);
    nothing_happens(f->b);
    assert_int_equal(cm_counters(f->b)->duplicates, 2);
    memcpy(f->bytes, reply, sizeof(reply));
    lands(f, f->a);
    passes(f, f->a, CM_RTU);
    nothing_happens(f->a);
    nothing_happens(f->b);
    assert_int_equal(cm_id_state(f->active), CM_STATE_ESTABLISHED);
    assert_int_equal(cm_id_state(f->passive), CM_STATE_ESTABLISHED);

    assert_int_equal(cm_disconnect(f->active, none, f->now), 0);
    passes(f, f->a, CM_DREQ);
    event_of(f->b, CM_EVENT_DISCONNECTED);
    passes(f, f->b, CM_DREP);
    event_of(f->a, CM_EVENT_DISCONNECTED);
    lands(f, f->a); /* the DREP again */
    memcpy(f->bytes, req, sizeof(req));
    lands(f, f->b);
    memcpy(f->bytes, rtu, sizeof(rtu));
    lands(f, f->b);
    memcpy(f->bytes, reply, sizeof(reply));
    lands(f, f->a);
    nothing_happens(f->a);
    nothing_happens(f->b);
}

static void a_lost_drep_is_said_again_also_after_timewait(void **state)
{
    struct fixture *f = *state;

    connect_them(f);
    assert_int_equal(cm_disconnect(f->active, none, f->now), 0);
    passes(f, f->a, CM_DREQ);
    event_of(f->b, CM_EVENT_DISCONNECTED);
    is_lost(f, f->b, CM_DREP);
    time_passes(f, 200 * MS);
    passes(f, f->a, CM_DREQ);
    is_lost(f, f->b, CM_DREP);
    time_passes(f, 3000 * MS);
    event_of(f->b, CM_EVENT_TIMEWAIT_OVER);
    cm_id_free(f->passive, f->now);
    passes(f, f->a, CM_DREQ);
    passes(f, f->b, CM_DREP);
    event_of(f->a, CM_EVENT_DISCONNECTED);
}

static void a_dreq_for_what_is_gone_is_answered_all_the_same(void **state)
{
    struct fixture *f = *state;

    connect_them(f);
    cm_free(f->b);
    assert_int_equal(cm_new(&(struct cm_config){.slot = 2}, &f->b), 0);
    assert_int_equal(cm_disconnect(f->active, none, f->now), 0);
    passes(f, f->a, CM_DREQ);
    passes(f, f->b, CM_DREP);
    event_of(f->a, CM_EVENT_DISCONNECTED);
}

/* Its process ends, and with it who would answer a repeated DREQ. */
static void a_drep_is_said_again_when_its_process_ends(void **state)
{
    struct fixture *f = *state;

    connect_them(f);
    assert_int_equal(cm_disconnect(f->active, none, f->now), 0);
    passes(f, f->a, CM_DREQ);
    event_of(f->b, CM_EVENT_DISCONNECTED);
    is_lost(f, f->b, CM_DREP);
    cm_id_free(f->passive, f->now);
    cm_leave(f->b, f->now);
    passes(f, f->b, CM_DREP);
    event_of(f->a, CM_EVENT_DISCONNECTED);
    nothing_happens(f->b);
}

static void a_dreq_that_overtakes_the_rtu_says_both(void **state)
{
    struct fixture *f = *state;

    ask_and_accept(f);
    passes(f, f->b, CM_REP);
    event_of(f->a, CM_EVENT_REPLY);
    assert_int_equal(cm_establish(f->active, none, f->now), 0);
    is_lost(f, f->a, CM_RTU);
    assert_int_equal(cm_disconnect(f->active, none, f->now), 0);
    passes(f, f->a, CM_DREQ);
    event_of(f->b, CM_EVENT_ESTABLISHED);
    event_of(f->b, CM_EVENT_DISCONNECTED);
    passes(f, f->b, CM_DREP);
    event_of(f->a, CM_EVENT_DISCONNECTED);
}

/* --- reminders --- */

/* A killed process says nothing; whoever reads QP1 on its host then does. */
static void a_peer_that_is_gone_is_noticed_without_traffic(void **state)
{
    struct fixture *f = *state;

    connect_them(f);
    time_passes(f, 6000 * MS);
    passes(f, f->a, CM_RTU);
    passes(f, f->b, CM_REP);
    passes(f, f->a, CM_RTU);
    nothing_happens(f->a); /* all is well, and says no more */
    nothing_happens(f->b);
    restart_a(f);
    time_passes(f, 6000 * MS);
    passes(f, f->b, CM_REP);
    passes(f, f->a, CM_REJ);
    assert_int_equal(f->last.reason, CM_REASON_INVALID_COMM_ID);
    event_of(f->b, CM_EVENT_DISCONNECTED);
    assert_int_equal(cm_counters(f->b)->reminders, 2);
}

static void so_is_the_side_that_accepted(void **state)
{
    struct fixture *f = *state;

    connect_them(f);
    cm_free(f->b);
    assert_int_equal(cm_new(&(struct cm_config){.slot = 2}, &f->b), 0);
    time_passes(f, 6000 * MS);
    passes(f, f->a, CM_RTU);
    passes(f, f->b, CM_REJ);
    event_of(f->a, CM_EVENT_DISCONNECTED);
}

/* --- silence --- */

static void silence_ends_in_unreachable_and_a_timeout_rej(void **state)
{
    struct fixture *f = *state;
    unsigned tries = 0;

    ask(f);
    for (;;) {
        if (leaves(f, f->a) && f->last.kind == CM_REQ)
            tries++;
        if (cm_deadline(f->a) == CM_NEVER)
            break;
        time_passes(f, cm_deadline(f->a) - f->now);
    }
    assert_true(tries >= 16);
    assert_true(f->now < 80000 * MS);
    event_of(f->a, CM_EVENT_UNREACHABLE);
    assert_int_equal(f->last.kind, CM_REJ);
    assert_int_equal(f->last.reason, CM_REASON_TIMEOUT);
    assert_int_equal(cm_counters(f->a)->gave_up, 1);
}

static void a_dreq_that_nobody_answers_disconnects_all_the_same(void **state)
{
    struct fixture *f = *state;
    const uint64_t patience = 16 * (UINT64_C(4096) << 20);
    uint64_t start;

    connect_them(f);
    start = f->now;
    assert_int_equal(cm_disconnect(f->active, none, f->now), 0);
    while (cm_id_state(f->active) == CM_STATE_DREQ_SENT) {
        if (leaves(f, f->a))
            assert_int_equal(f->last.kind, CM_DREQ);
        time_passes(f, cm_deadline(f->a) - f->now);
    }
    assert_true(f->now - start == patience);
    event_of(f->a, CM_EVENT_DISCONNECTED);
}

/* IBA 12.7.4 and 12.7.27: the REQ says how long its sender lets the other wait, and how often. */
static void a_rep_is_repeated_for_as_long_as_the_req_promises(void **state)
{
    static const struct {
        uint8_t response_timeout, retries;
        uint64_t patience;
    } rows[] = {
        {18, 3, 4 * (UINT64_C(4096) << 18)},
        {20, 15, 16 * (UINT64_C(4096) << 20)},
        {0, 0, UINT64_C(4096) << 14},          /* at least that */
        {31, 15, 16 * (UINT64_C(4096) << 22)}, /* and no hours */
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct cm_message req;
        uint64_t start;

        ask(f);
        is_lost(f, f->a, CM_REQ);
        req = f->last;
        req.local_response_timeout = rows[i].response_timeout;
        req.max_cm_retries = rows[i].retries;
        forged(f, f->b, &req);
        f->passive = event_of(f->b, CM_EVENT_REQUEST).id;
        accept_it(f);
        start = f->now;
        while (cm_id_state(f->passive) == CM_STATE_REP_SENT) {
            is_lost(f, f->b, CM_REP);
            f->now = cm_deadline(f->b);
            cm_advance(f->b, f->now);
        }
        event_of(f->b, CM_EVENT_UNREACHABLE);
        is_lost(f, f->b, CM_REJ);
        assert_true(f->now - start == rows[i].patience);
    }
}

/* --- MRA (IBA 12.9.8.2) --- */

static void a_message_receipt_acknowledgement_buys_time(void **state)
{
    struct fixture *f = *state;
    struct cm_message mra = {.kind = CM_MRA, .local_comm_id = 0x02000001, .service_timeout = 21};

    ask(f);
    is_lost(f, f->a, CM_REQ);
    mra.remote_comm_id = f->last.local_comm_id;
    forged(f, f->a, &mra);
    time_passes(f, (UINT64_C(4096) << 21) - 1);
    assert_false(cm_wants_transmit(f->a));
    time_passes(f, 1);
    passes(f, f->a, CM_REQ);
}

static void who_asks_again_before_the_answer_is_told_to_wait(void **state)
{
    struct fixture *f = *state;

    request_comes(f);
    time_passes(f, cm_deadline(f->a) - f->now);
    passes(f, f->a, CM_REQ);
    passes(f, f->b, CM_MRA);
    assert_int_equal(f->last.refused, CM_REFUSED_REQ);
    assert_int_equal(f->last.service_timeout, 21);
    assert_int_equal(f->last.local_comm_id, cm_id_comm_id(f->passive));
    time_passes(f, (UINT64_C(4096) << 21) - 1);
    assert_false(cm_wants_transmit(f->a));
    accept_it(f);
    passes(f, f->b, CM_REP);
    event_of(f->a, CM_EVENT_REPLY);
    time_passes(f, cm_deadline(f->b) - f->now);
    passes(f, f->b, CM_REP);
    passes(f, f->a, CM_MRA);
    assert_int_equal(f->last.refused, CM_REFUSED_REP);
    assert_int_equal(cm_establish(f->active, none, f->now), 0);
    passes(f, f->a, CM_RTU);
    event_of(f->b, CM_EVENT_ESTABLISHED);
}

static void a_refusal_outlives_the_time_that_the_peer_was_told_to_wait(void **state)
{
    struct fixture *f = *state;

    request_comes(f);
    lands(f, f->b);
    passes(f, f->b, CM_MRA);
    assert_int_equal(cm_reject(f->passive, CM_REASON_CONSUMER, none, none, f->now), 0);
    cm_id_free(f->passive, f->now);
    is_lost(f, f->b, CM_REJ);
    time_passes(f, UINT64_C(4096) << 21);
    passes(f, f->a, CM_REQ);
    passes(f, f->b, CM_REJ);
    event_of(f->a, CM_EVENT_REJECTED);
}

static void nobody_is_told_to_wait_for_ever(void **state)
{
    struct fixture *f = *state;
    struct cm_message mra = {.kind = CM_MRA, .local_comm_id = 0x02000001, .service_timeout = 31};
    uint64_t limit;

    ask(f);
    is_lost(f, f->a, CM_REQ);
    mra.remote_comm_id = cm_id_comm_id(f->active);
    limit = f->now + 16 * ((UINT64_C(4096) << 31) + 16 * (UINT64_C(4096) << 20));
    while (cm_id_state(f->active) == CM_STATE_REQ_SENT) {
        forged(f, f->a, &mra);
        time_passes(f, cm_deadline(f->a) - f->now);
        while (leaves(f, f->a))
            continue;
        assert_true(f->now < limit);
    }
    event_of(f->a, CM_EVENT_UNREACHABLE);
}

static void an_mra_to_another_message_buys_nothing(void **state)
{
    struct fixture *f = *state;
    struct cm_message mra = {.kind = CM_MRA, .service_timeout = 21, .refused = CM_REFUSED_REP};

    ask(f);
    is_lost(f, f->a, CM_REQ);
    mra.remote_comm_id = cm_id_comm_id(f->active);
    forged(f, f->a, &mra);
    assert_int_equal(cm_counters(f->a)->wrong_state, 1);
    time_passes(f, 200 * MS);
    is_lost(f, f->a, CM_REQ);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_lost_req_is_said_again_soon_and_the_same),
        TEST(a_repeated_req_makes_no_second_request),
        TEST(a_repeated_req_is_answered_with_the_same_rep),
        TEST(a_lost_rtu_is_said_again_for_a_repeated_rep),
        TEST(messages_that_come_again_change_nothing),
        TEST(a_lost_drep_is_said_again_also_after_timewait),
        TEST(a_dreq_for_what_is_gone_is_answered_all_the_same),
        TEST(a_drep_is_said_again_when_its_process_ends),
        TEST(a_dreq_that_overtakes_the_rtu_says_both),
        TEST(a_peer_that_is_gone_is_noticed_without_traffic),
        TEST(so_is_the_side_that_accepted),
        TEST(silence_ends_in_unreachable_and_a_timeout_rej),
        TEST(a_dreq_that_nobody_answers_disconnects_all_the_same),
        TEST(a_rep_is_repeated_for_as_long_as_the_req_promises),
        TEST(a_message_receipt_acknowledgement_buys_time),
        TEST(who_asks_again_before_the_answer_is_told_to_wait),
        TEST(a_refusal_outlives_the_time_that_the_peer_was_told_to_wait),
        TEST(nobody_is_told_to_wait_for_ever),
        TEST(an_mra_to_another_message_buys_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
