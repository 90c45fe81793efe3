/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two connection managers face to face, each message handed over by the test,
 * which loses, repeats and forges as it likes. Expectations: IBA 12.9 (states),
 * 12.6 (messages), and what two kernels say to each other (captures).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "cm/cm.h"
#include "wire/packet.h"

#define SERVICE 0x0000000001061c06u
#define MS UINT64_C(1000000)
#define DATAGRAM_LEN 280u

static const struct gid gid_a = {{0xfd, [15] = 1}};
static const struct gid gid_b = {{0xfd, [15] = 2}};
static const struct cm_bytes none;

struct fixture {
    struct cm *a; /* active */
    struct cm *b; /* passive */
    struct cm_id *listener;
    struct cm_id *active;
    struct cm_id *passive;
    uint64_t now;
    uint32_t qpn; /* of the active side: another for each connection, unless same_qp */
    bool same_qp;
    uint8_t bytes[DATAGRAM_LEN]; /* of the last message that left */
    struct cm_message last;
};

static int setup(void **state)
{
    static struct fixture f;
    struct cm_config config = {.seed = "a seed of 16 by", .slot = 1};

    f = (struct fixture){.now = 1, .qpn = 0x01000a};
    assert_int_equal(cm_new(&config, &f.a), 0);
    config.slot = 2;
    assert_int_equal(cm_new(&config, &f.b), 0);
    assert_int_equal(cm_id_new(f.b, &f, &f.listener), 0);
    assert_int_equal(cm_listen(f.listener, SERVICE, NULL, 2), 0);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    cm_free(f->a);
    cm_free(f->b);
    return 0;
}

/* Takes one message that leaves; false when none does. */
static bool leaves(struct fixture *f, struct cm *cm)
{
    struct datagram_batch b = {.buffer = f->bytes, .capacity = DATAGRAM_LEN, .count_max = 1};

    if (cm_transmit(cm, &b) == 0)
        return false;
    assert_int_equal(b.last_len, DATAGRAM_LEN);
    assert_int_equal(cm_read(f->bytes + BTH_LEN + DETH_LEN, MAD_LEN, &f->last), 0);
    return true;
}

static void lands(struct fixture *f, struct cm *cm)
{
    const struct datagram d = {
        .src = cm == f->a ? gid_b : gid_a,
        .dst = cm == f->a ? gid_a : gid_b,
        .bytes = f->bytes,
        .len = DATAGRAM_LEN,
    };

    cm_receive(cm, &d, f->now);
}

/* The next message of one side reaches the other. */
static void passes(struct fixture *f, struct cm *from, enum cm_kind kind)
{
    assert_true(leaves(f, from));
    assert_int_equal(f->last.kind, kind);
    lands(f, from == f->a ? f->b : f->a);
}

static void is_lost(struct fixture *f, struct cm *from, enum cm_kind kind)
{
    assert_true(leaves(f, from));
    assert_int_equal(f->last.kind, kind);
}

static struct cm_event event_of(struct cm *cm, enum cm_event_type type)
{
    struct cm_event event;

    assert_true(cm_event_next(cm, &event));
    assert_int_equal(event.type, type);
    return event;
}

static void nothing_happens(struct cm *cm)
{
    struct cm_event event;

    assert_false(cm_event_next(cm, &event));
    assert_false(cm_wants_transmit(cm));
}

static void time_passes(struct fixture *f, uint64_t ns)
{
    f->now += ns;
    cm_advance(f->a, f->now);
    cm_advance(f->b, f->now);
}

static void ask(struct fixture *f)
{
    struct cm_connect connect = {
        .path = {.src = gid_a, .dst = gid_b, .flow_label = 0x5bd09, .hop_limit = 64},
        .service_id = SERVICE,
        .starting_psn = 0xabcdef,
        .responder_resources = 3,
        .initiator_depth = 4,
        .retry_count = 7,
        .rnr_retry_count = 6,
        .path_mtu = 5,
        .ack_timeout = 19,
        .private_data = {"hello", 5},
    };

    if (!f->same_qp)
        f->qpn++;
    connect.qpn = f->qpn;
    assert_int_equal(cm_id_new(f->a, f, &f->active), 0);
    assert_int_equal(cm_connect(f->active, &connect, f->now), 0);
}

static void accept_it(struct fixture *f)
{
    const struct cm_accept accept = {
        .qpn = 0x020007,
        .starting_psn = 0x123456,
        .responder_resources = 4,
        .initiator_depth = 3,
        .rnr_retry_count = 7,
        .private_data = {"welcome", 7},
    };

    assert_int_equal(cm_accept(f->passive, &accept, f->now), 0);
}

static void ask_and_accept(struct fixture *f)
{
    ask(f);
    passes(f, f->a, CM_REQ);
    f->passive = event_of(f->b, CM_EVENT_REQUEST).id;
    accept_it(f);
}

static void connect_them(struct fixture *f)
{
    ask_and_accept(f);
    passes(f, f->b, CM_REP);
    event_of(f->a, CM_EVENT_REPLY);
    assert_int_equal(cm_establish(f->active, none, f->now), 0);
    passes(f, f->a, CM_RTU);
    event_of(f->b, CM_EVENT_ESTABLISHED);
}

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
    nothing_happens(f->b);
    assert_int_equal(cm_counters(f->b)->duplicates, 1);
}

static void a_repeated_req_is_answered_with_the_same_rep(void **state)
{
    struct fixture *f = *state;
    struct cm_message rep;

    ask(f);
    passes(f, f->a, CM_REQ);
    f->passive = event_of(f->b, CM_EVENT_REQUEST).id;
    accept_it(f);
    is_lost(f, f->b, CM_REP);
    rep = f->last;
    time_passes(f, cm_deadline(f->a) - f->now);
    passes(f, f->a, CM_REQ);
    passes(f, f->b, CM_REP);
    assert_memory_equal(&rep, &f->last, sizeof(rep));
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

static void nobody_listening_is_reason_8_with_no_id_of_its_own(void **state)
{
    struct fixture *f = *state;

    cm_id_free(f->listener, f->now);
    ask(f);
    passes(f, f->a, CM_REQ);
    passes(f, f->b, CM_REJ);
    assert_int_equal(f->last.local_comm_id, 0);
    assert_int_equal(f->last.refused, CM_REFUSED_REQ);
    assert_int_equal(event_of(f->a, CM_EVENT_REJECTED).message.reason, 8);
}

static void a_refusal_carries_reason_and_private_data_and_is_repeated(void **state)
{
    struct fixture *f = *state;
    struct cm_event event;

    ask(f);
    passes(f, f->a, CM_REQ);
    f->passive = event_of(f->b, CM_EVENT_REQUEST).id;
    assert_int_equal(
        cm_reject(f->passive, CM_REASON_CONSUMER, none, (struct cm_bytes){"no", 2}, f->now), 0);
    cm_id_free(f->passive, f->now);
    is_lost(f, f->b, CM_REJ);
    time_passes(f, cm_deadline(f->a) - f->now);
    passes(f, f->a, CM_REQ);
    passes(f, f->b, CM_REJ);
    event = event_of(f->a, CM_EVENT_REJECTED);
    assert_int_equal(event.message.reason, CM_REASON_CONSUMER);
    assert_memory_equal(event.message.private_data, "no", 3);
}

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

static void a_message_receipt_acknowledgement_buys_time(void **state)
{
    struct fixture *f = *state;
    struct cm_message mra = {.kind = CM_MRA, .local_comm_id = 0x02000001, .service_timeout = 21};

    ask(f);
    is_lost(f, f->a, CM_REQ);
    mra.remote_comm_id = f->last.local_comm_id;
    cm_write(&mra, f->bytes + BTH_LEN + DETH_LEN);
    lands(f, f->a);
    time_passes(f, (UINT64_C(4096) << 21) - 1);
    assert_false(cm_wants_transmit(f->a));
    time_passes(f, 1);
    passes(f, f->a, CM_REQ);
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

static void a_dreq_for_another_qp_is_ignored(void **state)
{
    struct fixture *f = *state;

    connect_them(f);
    assert_int_equal(cm_disconnect(f->active, none, f->now), 0);
    is_lost(f, f->a, CM_DREQ);
    f->bytes[BTH_LEN + DETH_LEN + MAD_HEADER_LEN + 10] ^= 1;
    lands(f, f->b);
    nothing_happens(f->b);
    assert_int_equal(cm_counters(f->b)->wrong_state, 1);
}

static void another_address_cannot_end_a_connection(void **state)
{
    struct fixture *f = *state;
    struct datagram d = {.src = {{0xfd, [15] = 3}}, .dst = gid_b, .bytes = f->bytes};

    connect_them(f);
    assert_int_equal(cm_disconnect(f->active, none, f->now), 0);
    is_lost(f, f->a, CM_DREQ);
    d.len = DATAGRAM_LEN;
    cm_receive(f->b, &d, f->now);
    nothing_happens(f->b);
    assert_int_equal(cm_counters(f->b)->wrong_source, 1);
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

static void a_qp_that_connects_anew_ends_its_old_connection(void **state)
{
    struct fixture *f = *state;

    connect_them(f);
    cm_free(f->a); /* the peer's process died and came back */
    assert_int_equal(cm_new(&(struct cm_config){.seed = "other", .slot = 1}, &f->a), 0);
    f->same_qp = true;
    ask(f);
    passes(f, f->a, CM_REQ);
    assert_ptr_equal(event_of(f->b, CM_EVENT_DISCONNECTED).id, f->passive);
    event_of(f->b, CM_EVENT_REQUEST);
    assert_int_equal(cm_counters(f->b)->stale, 1);
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

static void datagrams_that_are_no_messages_are_counted(void **state)
{
    struct fixture *f = *state;
    const struct cm_counters *c = cm_counters(f->b);
    const uint8_t *end = f->bytes + DATAGRAM_LEN;
    struct datagram d = {.src = gid_a, .dst = gid_b, .bytes = f->bytes};

    ask(f);
    is_lost(f, f->a, CM_REQ);
    for (d.len = 0; f->bytes + d.len < end; d.len++)
        cm_receive(f->b, &d, f->now);
    assert_int_equal(c->malformed, DATAGRAM_LEN);
    f->bytes[BTH_LEN] ^= 1; /* Q_Key */
    lands(f, f->b);
    assert_int_equal(c->wrong_key, 1);
    f->bytes[BTH_LEN] ^= 1;
    f->bytes[BTH_LEN + DETH_LEN + 1] = 4; /* class */
    lands(f, f->b);
    assert_int_equal(c->unknown_class, 1);
    f->bytes[BTH_LEN + DETH_LEN + 1] = MAD_CLASS_CM;
    f->bytes[BTH_LEN + DETH_LEN + 17] = 0x7f; /* attribute */
    lands(f, f->b);
    assert_int_equal(c->unknown_message, 1);
    nothing_happens(f->b);
}

static void answers_tell_whose_they_are(void **state)
{
    struct fixture *f = *state;
    struct datagram d = {.src = gid_a, .dst = gid_b, .bytes = f->bytes, .len = DATAGRAM_LEN};
    uint64_t service_id;
    uint8_t slot;

    ask_and_accept(f);
    assert_true(leaves(f, f->b));
    assert_true(cm_slot_of(&d, &slot, &service_id));
    assert_int_equal(slot, 1);
    ask(f);
    assert_true(leaves(f, f->a));
    assert_false(cm_slot_of(&d, &slot, &service_id));
    assert_true(service_id == SERVICE);
    d.len = 100;
    assert_false(cm_slot_of(&d, &slot, &service_id));
    assert_true(service_id == 0);
}

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

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_connection_takes_three_messages_and_two_to_end),
        TEST(a_lost_req_is_said_again_soon_and_the_same),
        TEST(a_repeated_req_makes_no_second_request),
        TEST(a_repeated_req_is_answered_with_the_same_rep),
        TEST(a_lost_rtu_is_said_again_for_a_repeated_rep),
        TEST(data_that_overtakes_the_rtu_establishes),
        TEST(nobody_listening_is_reason_8_with_no_id_of_its_own),
        TEST(a_refusal_carries_reason_and_private_data_and_is_repeated),
        TEST(silence_ends_in_unreachable_and_a_timeout_rej),
        TEST(a_message_receipt_acknowledgement_buys_time),
        TEST(both_may_disconnect_at_once),
        TEST(a_dreq_for_what_is_gone_is_answered_all_the_same),
        TEST(a_dreq_for_another_qp_is_ignored),
        TEST(another_address_cannot_end_a_connection),
        TEST(a_full_backlog_is_silent_until_there_is_room),
        TEST(a_qp_that_connects_anew_ends_its_old_connection),
        TEST(private_data_that_does_not_fit_is_refused),
        TEST(a_service_has_one_listener_an_address),
        TEST(datagrams_that_are_no_messages_are_counted),
        TEST(answers_tell_whose_they_are),
        TEST(a_hundred_thousand_connections_leave_nothing_behind),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
