/* SPDX-License-Identifier: BSD-2-Clause */
/* Who refuses whom, and what both learn of it: IBA 12.6.7 (reasons), 12.9.8 (when), 12.11 (datagram
 * services). */
#include "two.h"

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

#define REASON(name, code, text) CM_REASON_##name,
static const enum cm_reason reasons[] = {CM_REASONS(REASON)};
#undef REASON
#define REASON_COUNT (sizeof(reasons) / sizeof(reasons[0]))

static void every_reason_reaches_who_asked(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < REASON_COUNT; i++) {
        struct cm_event event;

        request_comes(f);
        assert_int_equal(cm_reject(f->passive, reasons[i], (struct cm_bytes){"info", 4},
                                   (struct cm_bytes){"why", 3}, f->now),
                         0);
        passes(f, f->b, CM_REJ);
        assert_int_equal(f->last.refused, CM_REFUSED_REQ);
        event = event_of(f->a, CM_EVENT_REJECTED);
        assert_int_equal(event.message.reason, reasons[i]);
        assert_int_equal(event.message.info_len, 4);
        assert_memory_equal(event.message.info, "info", 4);
        assert_memory_equal(event.message.private_data, "why", 4);
        assert_int_equal(cm_id_state(f->active), CM_STATE_OVER);
        nothing_happens(f->a);
    }
}

static void every_reason_reaches_who_accepted(void **state)
{
    struct fixture *f = *state;

    for (size_t i = 0; i < REASON_COUNT; i++) {
        ask_and_accept(f);
        passes(f, f->b, CM_REP);
        event_of(f->a, CM_EVENT_REPLY);
        assert_int_equal(cm_reject(f->active, reasons[i], none, none, f->now), 0);
        passes(f, f->a, CM_REJ);
        assert_int_equal(f->last.refused, CM_REFUSED_REP);
        assert_int_equal(event_of(f->b, CM_EVENT_REJECTED).message.reason, reasons[i]);
        assert_int_equal(cm_id_state(f->passive), CM_STATE_OVER);
        nothing_happens(f->b);
    }
}

static void a_refusal_that_got_lost_is_said_again_to_a_repeated_rep(void **state)
{
    struct fixture *f = *state;

    ask_and_accept(f);
    passes(f, f->b, CM_REP);
    event_of(f->a, CM_EVENT_REPLY);
    cm_id_free(f->active, f->now);
    is_lost(f, f->a, CM_REJ);
    time_passes(f, cm_deadline(f->b) - f->now);
    passes(f, f->b, CM_REP);
    passes(f, f->a, CM_REJ);
    event_of(f->b, CM_EVENT_REJECTED);
    time_passes(f, 10000 * MS);
    assert_int_equal(cm_id_count(f->a), 0);
}

/* Its peer gave up waiting for the RTU, say. */
static void a_refusal_of_what_is_established_disconnects(void **state)
{
    struct fixture *f = *state;
    struct cm_message rej = {
        .kind = CM_REJ,
        .reason = CM_REASON_TIMEOUT,
        .refused = CM_REFUSED_NONE,
    };

    connect_them(f);
    rej.local_comm_id = cm_id_comm_id(f->passive);
    rej.remote_comm_id = cm_id_comm_id(f->active);
    forged(f, f->a, &rej);
    event_of(f->a, CM_EVENT_DISCONNECTED);
    assert_int_equal(cm_id_state(f->active), CM_STATE_TIMEWAIT);
}

/* The network repeated the REQ: one copy found nobody, or a stale connection, the next one did. */
static void a_refusal_of_a_req_comes_too_late_once_there_is_a_rep(void **state)
{
    struct fixture *f = *state;
    struct cm_message rej = {.kind = CM_REJ, .reason = CM_REASON_INVALID_SERVICE_ID};

    ask_and_accept(f);
    rej.remote_comm_id = cm_id_comm_id(f->active);
    passes(f, f->b, CM_REP);
    event_of(f->a, CM_EVENT_REPLY);
    forged(f, f->a, &rej);
    assert_int_equal(cm_establish(f->active, none, f->now), 0);
    passes(f, f->a, CM_RTU);
    forged(f, f->a, &rej);
    nothing_happens(f->a);
    assert_int_equal(cm_id_state(f->active), CM_STATE_ESTABLISHED);
    assert_int_equal(cm_counters(f->a)->duplicates, 2);
}

static void a_request_that_is_given_up_is_taken_back(void **state)
{
    struct fixture *f = *state;
    struct cm_event event;

    request_comes(f);
    cm_id_free(f->active, f->now);
    passes(f, f->a, CM_REJ);
    event = event_of(f->b, CM_EVENT_REJECTED);
    assert_ptr_equal(event.id, f->passive);
    assert_int_equal(event.message.reason, CM_REASON_TIMEOUT);
    assert_int_equal(cm_id_count(f->a), 0);
}

/* Refuses with this reason, and takes no ID for it. */
static void is_refused(struct fixture *f, const struct cm_message *req, enum cm_reason reason)
{
    forged(f, f->b, req);
    assert_true(leaves(f, f->b));
    assert_int_equal(f->last.kind, CM_REJ);
    assert_int_equal(f->last.reason, reason);
    assert_int_equal(f->last.remote_comm_id, req->local_comm_id);
    nothing_happens(f->b);
    assert_int_equal(cm_id_count(f->b), 1);
}

static void transport_services_that_do_not_exist_are_refused(void **state)
{
    struct fixture *f = *state;
    struct cm_message req;

    ask(f);
    is_lost(f, f->a, CM_REQ);
    req = f->last;
    req.transport = CM_TRANSPORT_RD;
    is_refused(f, &req, CM_REASON_INVALID_TRANSPORT);
    req.transport = CM_TRANSPORT_EXTENDED;
    is_refused(f, &req, CM_REASON_INVALID_TRANSPORT);
    req.extended_transport = 7;
    is_refused(f, &req, CM_REASON_INVALID_TRANSPORT);
    assert_int_equal(cm_counters(f->b)->unsupported, 3);
    req.extended_transport = 1; /* XRC */
    forged(f, f->b, &req);
    event_of(f->b, CM_EVENT_REQUEST);
}

static void path_mtus_that_do_not_exist_are_refused(void **state)
{
    struct fixture *f = *state;
    struct cm_message req;

    ask(f);
    is_lost(f, f->a, CM_REQ);
    req = f->last;
    for (req.path_mtu = 0; req.path_mtu < 16; req.path_mtu++)
        if (req.path_mtu == 0 || req.path_mtu > 5)
            is_refused(f, &req, CM_REASON_INVALID_MTU);
}

/* --- stale connections (IBA 12.9.8.3.1) --- */

static void a_qp_that_connects_anew_is_refused_once_and_its_old_connection_ends(void **state)
{
    struct fixture *f = *state;

    connect_them(f);
    restart_a(f);
    f->same_qp = true;
    ask(f);
    passes(f, f->a, CM_REQ);
    passes(f, f->b, CM_REJ);
    assert_int_equal(f->last.reason, CM_REASON_STALE_CONNECTION);
    assert_int_equal(event_of(f->a, CM_EVENT_REJECTED).message.reason, 10);
    passes(f, f->b, CM_DREQ);
    assert_int_equal(f->last.qpn, QPN_A);
    passes(f, f->a, CM_DREP);
    assert_ptr_equal(event_of(f->b, CM_EVENT_DISCONNECTED).id, f->passive);
    assert_int_equal(cm_counters(f->b)->stale, 1);
    connect_them(f);
}

static void who_is_patient_asks_again_when_its_qp_was_stale(void **state)
{
    struct fixture *f = *state;

    connect_them(f);
    restart_a(f);
    f->same_qp = true;
    f->patience_ns = 100 * MS;
    ask(f);
    passes(f, f->a, CM_REQ);
    passes(f, f->b, CM_REJ);
    nothing_happens(f->a);
    passes(f, f->b, CM_DREQ);
    passes(f, f->a, CM_DREP);
    event_of(f->b, CM_EVENT_DISCONNECTED);
    time_passes(f, 10 * MS);
    passes(f, f->a, CM_REQ);
    event_of(f->b, CM_EVENT_REQUEST);
}

static void a_rep_of_a_qp_that_is_in_another_connection_is_refused(void **state)
{
    struct fixture *f = *state;
    struct cm_id *old;

    connect_them(f);
    old = f->active;
    ask(f);
    passes(f, f->a, CM_REQ);
    f->passive = event_of(f->b, CM_EVENT_REQUEST).id;
    f->qpn--; /* the QP of before */
    accept_it(f);
    passes(f, f->b, CM_REP);
    assert_int_equal(event_of(f->a, CM_EVENT_REJECTED).message.reason, 10);
    passes(f, f->a, CM_DREQ);
    event_of(f->b, CM_EVENT_DISCONNECTED);
    passes(f, f->b, CM_DREP);
    passes(f, f->a, CM_REJ);
    assert_int_equal(f->last.reason, CM_REASON_STALE_CONNECTION);
    assert_int_equal(f->last.refused, CM_REFUSED_REP);
    assert_int_equal(event_of(f->b, CM_EVENT_REJECTED).message.reason, 10);
    assert_ptr_equal(event_of(f->a, CM_EVENT_DISCONNECTED).id, old);
}

/* --- who knows nothing of it (IBA 12.9.8.3) --- */

static void a_rep_and_an_rtu_to_what_is_gone_are_refused(void **state)
{
    struct fixture *f = *state;
    struct cm_message rtu;

    ask_and_accept(f);
    is_lost(f, f->b, CM_REP);
    restart_a(f);
    lands(f, f->a);
    passes(f, f->a, CM_REJ);
    assert_int_equal(f->last.reason, CM_REASON_INVALID_COMM_ID);
    assert_int_equal(f->last.refused, CM_REFUSED_REP);
    assert_int_equal(event_of(f->b, CM_EVENT_REJECTED).message.reason, 6);
    rtu = (struct cm_message){.kind = CM_RTU, .local_comm_id = 1, .remote_comm_id = 0x02123456};
    forged(f, f->b, &rtu);
    is_lost(f, f->b, CM_REJ);
    assert_int_equal(f->last.reason, CM_REASON_INVALID_COMM_ID);
    assert_int_equal(f->last.remote_comm_id, 1);
}

/* An ID that its caller has not freed yet is as good as gone. */
static void who_gave_up_refuses_what_comes_too_late(void **state)
{
    struct fixture *f = *state;
    struct cm_message late;

    ask_and_accept(f);
    passes(f, f->b, CM_REP);
    event_of(f->a, CM_EVENT_REPLY);
    assert_int_equal(cm_establish(f->active, none, f->now), 0);
    is_lost(f, f->a, CM_RTU);
    late = f->last;
    while (cm_id_state(f->passive) != CM_STATE_OVER) {
        time_passes(f, cm_deadline(f->b) - f->now);
        assert_true(leaves(f, f->b));
    }
    event_of(f->b, CM_EVENT_UNREACHABLE);
    assert_int_equal(f->last.reason, CM_REASON_TIMEOUT); /* the last word got lost, too */
    forged(f, f->b, &late);
    passes(f, f->b, CM_REJ);
    event_of(f->a, CM_EVENT_DISCONNECTED);
}

/* --- datagram services (IBA 12.11) --- */

static void ask_for_datagrams(struct fixture *f)
{
    const struct path path = {.src = gid_a, .dst = gid_b, .hop_limit = 64};

    assert_int_equal(cm_id_new(f->a, f, &f->active), 0);
    assert_int_equal(cm_resolve(f->active, &path, SERVICE, (struct cm_bytes){"who", 3}, f->now), 0);
}

static void every_status_of_a_datagram_service_reaches_who_asked(void **state)
{
    struct fixture *f = *state;

    for (unsigned status = CM_SIDR_OK; status <= CM_SIDR_VERSION; status++) {
        const bool ok = status == CM_SIDR_OK;
        struct cm_event event;

        ask_for_datagrams(f);
        passes(f, f->a, CM_SIDR_REQ);
        event = event_of(f->b, CM_EVENT_DATAGRAM_REQUEST);
        assert_memory_equal(event.message.private_data, "who", 4);
        assert_int_equal(cm_resolve_reply(event.id, (enum cm_sidr_status)status, 0x99, 0x01234567,
                                          (struct cm_bytes){"me", 2}, f->now),
                         0);
        passes(f, f->b, CM_SIDR_REP);
        event = event_of(f->a, CM_EVENT_DATAGRAM_REPLY);
        assert_int_equal(event.message.status, status);
        assert_int_equal(event.message.qpn, ok ? 0x99 : 0);
        assert_int_equal(event.message.qkey, ok ? 0x01234567 : 0);
        assert_memory_equal(event.message.private_data, "me", 3);
        assert_int_equal(cm_id_state(f->active), CM_STATE_OVER);
    }
}

static void a_datagram_service_that_nobody_has_is_status_1(void **state)
{
    struct fixture *f = *state;

    cm_id_free(f->listener, f->now);
    ask_for_datagrams(f);
    passes(f, f->a, CM_SIDR_REQ);
    passes(f, f->b, CM_SIDR_REP);
    assert_int_equal(event_of(f->a, CM_EVENT_DATAGRAM_REPLY).message.status, CM_SIDR_NO_SERVICE);
}

static void a_repeated_sidr_req_is_answered_with_the_same_rep(void **state)
{
    struct fixture *f = *state;
    uint8_t rep[MAD_LEN];
    struct cm_id *id;

    ask_for_datagrams(f);
    passes(f, f->a, CM_SIDR_REQ);
    lands(f, f->b); /* repeated by the network, before the answer */
    id = event_of(f->b, CM_EVENT_DATAGRAM_REQUEST).id;
    nothing_happens(f->b);
    assert_int_equal(cm_resolve_reply(id, CM_SIDR_OK, 0x99, 1, none, f->now), 0);
    cm_id_free(id, f->now);
    is_lost(f, f->b, CM_SIDR_REP);
    memcpy(rep, f->bytes + MAD_AT, MAD_LEN);
    time_passes(f, cm_deadline(f->a) - f->now);
    passes(f, f->a, CM_SIDR_REQ);
    passes(f, f->b, CM_SIDR_REP);
    assert_memory_equal(rep, f->bytes + MAD_AT, MAD_LEN);
    event_of(f->a, CM_EVENT_DATAGRAM_REPLY);
    lands(f, f->a);
    nothing_happens(f->a);
    time_passes(f, 10000 * MS);
    assert_int_equal(cm_id_count(f->b), 1);
}

static void a_datagram_service_that_is_silent_is_unreachable(void **state)
{
    struct fixture *f = *state;

    ask_for_datagrams(f);
    while (cm_deadline(f->a) != CM_NEVER) {
        is_lost(f, f->a, CM_SIDR_REQ);
        time_passes(f, cm_deadline(f->a) - f->now);
    }
    event_of(f->a, CM_EVENT_UNREACHABLE);
    nothing_happens(f->a); /* there is nothing to take back */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nobody_listening_is_reason_8_with_no_id_of_its_own),
        TEST(a_refusal_carries_reason_and_private_data_and_is_repeated),
        TEST(every_reason_reaches_who_asked),
        TEST(every_reason_reaches_who_accepted),
        TEST(a_refusal_that_got_lost_is_said_again_to_a_repeated_rep),
        TEST(a_refusal_of_what_is_established_disconnects),
        TEST(a_refusal_of_a_req_comes_too_late_once_there_is_a_rep),
        TEST(a_request_that_is_given_up_is_taken_back),
        TEST(transport_services_that_do_not_exist_are_refused),
        TEST(path_mtus_that_do_not_exist_are_refused),
        TEST(a_qp_that_connects_anew_is_refused_once_and_its_old_connection_ends),
        TEST(who_is_patient_asks_again_when_its_qp_was_stale),
        TEST(a_rep_of_a_qp_that_is_in_another_connection_is_refused),
        TEST(a_rep_and_an_rtu_to_what_is_gone_are_refused),
        TEST(who_gave_up_refuses_what_comes_too_late),
        TEST(every_status_of_a_datagram_service_reaches_who_asked),
        TEST(a_datagram_service_that_nobody_has_is_status_1),
        TEST(a_repeated_sidr_req_is_answered_with_the_same_rep),
        TEST(a_datagram_service_that_is_silent_is_unreachable),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
