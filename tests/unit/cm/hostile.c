/* SPDX-License-Identifier: BSD-2-Clause */
/* What no peer of good will sends: it is counted by name, answered where that helps, and ends
 * nothing. */
#include "two.h"

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
    f->bytes[MAD_AT + 1] = 4; /* class */
    lands(f, f->b);
    assert_int_equal(c->unknown_class, 1);
    f->bytes[MAD_AT + 1] = MAD_CLASS_CM;
    f->bytes[MAD_AT + 17] = 0x7f; /* attribute */
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

static void a_dreq_for_another_qp_is_ignored(void **state)
{
    struct fixture *f = *state;

    connect_them(f);
    assert_int_equal(cm_disconnect(f->active, none, f->now), 0);
    is_lost(f, f->a, CM_DREQ);
    f->bytes[MAD_AT + MAD_HEADER_LEN + 10] ^= 1;
    lands(f, f->b);
    nothing_happens(f->b);
    assert_int_equal(cm_counters(f->b)->wrong_state, 1);
}

/* Linux's ib_mad answers so whatever no agent of its has registered for. */
static void what_we_do_not_have_is_told_to_who_asks_for_it(void **state)
{
    struct fixture *f = *state;
    struct datagram_batch b = {.buffer = f->bytes, .capacity = DATAGRAM_LEN, .count_max = 1};
    struct mad_header h = {
        .base_version = 1,
        .mgmt_class = MAD_CLASS_PERFORMANCE,
        .class_version = 1,
        .method = MAD_METHOD_GET,
        .transaction_id = 0x0123456789abcdef,
        .attribute_id = 0x12,
    };

    ask(f);
    is_lost(f, f->a, CM_REQ);
    mad_write(&h, f->bytes + MAD_AT);
    lands(f, f->b);
    assert_int_equal(cm_transmit(f->b, &b), 1);
    assert_true(mad_read(f->bytes + MAD_AT, MAD_LEN, &h));
    assert_int_equal(h.mgmt_class, MAD_CLASS_PERFORMANCE);
    assert_int_equal(h.method, MAD_METHOD_GET_RESPONSE);
    assert_int_equal(h.status, MAD_STATUS_UNSUPPORTED_ATTRIBUTE);
    assert_true(h.transaction_id == 0x0123456789abcdef);
    assert_int_equal(h.attribute_id, 0x12);
    lands(f, f->a); /* which is no question, so it is not answered */
    nothing_happens(f->a);
    assert_int_equal(cm_counters(f->a)->unknown_class, 1);
}

static void answers_that_nobody_waits_for_are_counted(void **state)
{
    static const enum cm_kind kinds[] = {CM_MRA, CM_DREP, CM_APR, CM_LAP, CM_RTU};
    struct fixture *f = *state;
    const struct cm_counters *c = cm_counters(f->a);

    ask(f);
    is_lost(f, f->a, CM_REQ);
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct cm_message m = {
            .kind = kinds[i],
            .local_comm_id = 0x02000001,
            .remote_comm_id = cm_id_comm_id(f->active),
            .refused = CM_REFUSED_NONE,
        };

        forged(f, f->a, &m);
        assert_int_equal(c->wrong_state, i + 1);
        nothing_happens(f->a);
    }
    assert_int_equal(cm_id_state(f->active), CM_STATE_REQ_SENT);
}

/* Automatic path migration is not there: AP status 2 (IBA 12.8.2). */
static void an_alternate_path_is_refused_politely(void **state)
{
    struct fixture *f = *state;
    struct cm_message lap = {.kind = CM_LAP, .transaction_id = 0x77};

    connect_them(f);
    lap.local_comm_id = cm_id_comm_id(f->active);
    lap.remote_comm_id = cm_id_comm_id(f->passive);
    forged(f, f->b, &lap);
    passes(f, f->b, CM_APR);
    assert_int_equal(f->last.status, 2);
    assert_true(f->last.transaction_id == 0x77);
    assert_int_equal(f->last.remote_comm_id, lap.local_comm_id);
    assert_int_equal(cm_id_state(f->passive), CM_STATE_ESTABLISHED);
    assert_int_equal(cm_counters(f->a)->wrong_state, 1); /* it had not asked */
}

/* A peer whose ID is another than the connection's began anew, or guesses. */
static void an_id_of_another_communication_ends_nothing(void **state)
{
    struct fixture *f = *state;
    struct cm_message dreq = {.kind = CM_DREQ, .qpn = QPN_B};

    connect_them(f);
    dreq.local_comm_id = cm_id_comm_id(f->active) ^ 1;
    dreq.remote_comm_id = cm_id_comm_id(f->passive);
    forged(f, f->b, &dreq);
    passes(f, f->b, CM_DREP);
    nothing_happens(f->b);
    assert_int_equal(cm_id_state(f->passive), CM_STATE_ESTABLISHED);
    assert_int_equal(cm_counters(f->b)->unknown_id, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(datagrams_that_are_no_messages_are_counted),
        TEST(answers_tell_whose_they_are),
        TEST(another_address_cannot_end_a_connection),
        TEST(a_dreq_for_another_qp_is_ignored),
        TEST(what_we_do_not_have_is_told_to_who_asks_for_it),
        TEST(answers_that_nobody_waits_for_are_counted),
        TEST(an_alternate_path_is_refused_politely),
        TEST(an_id_of_another_communication_ends_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
