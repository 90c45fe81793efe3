/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transition table against a second writing of IBA 11.2, value ranges,
 * and what a transition sets off. The parts that carry work are stand-ins here
 * that write down what they were asked to do.
 */
#include "bare_engine.h"

#include <errno.h>
#include <string.h>

#include "engine/qp_private.h"
#include "engine/xrc_private.h"

/* --- stand-ins --- */

static char calls[256]; /* what was asked for, in order */
static int connect_result;
static int reads_result;

static void note(const char *what)
{
    strcat(calls, calls[0] == '\0' ? "" : " ");
    strcat(calls, what);
}

void qp_reset(struct qp *qp)
{
    (void)qp;
    note("reset");
}

int qp_connect(struct qp *qp)
{
    (void)qp;
    note("connect");
    return connect_result;
}

void qp_drain(struct qp *qp)
{
    assert_int_equal(qp->state, QP_SQD);
    note("drain");
}

void qp_make_ready(struct qp *qp)
{
    assert_int_equal(qp->state, QP_RTS);
    note("ready");
}

void farewell_say(struct qp *qp)
{
    (void)qp;
    note("farewell");
}

void qp_enter_error(struct qp *qp)
{
    (void)qp;
    note("error");
}

void qp_touch(struct qp *qp)
{
    (void)qp;
}

void requester_reset(struct qp *qp, struct psn sq_psn)
{
    qp->requester.psn_next = sq_psn;
    note("requester_reset");
}

void responder_reset(struct qp *qp, struct psn rq_psn)
{
    qp->responder.epsn = rq_psn;
    note("responder_reset");
}

int responder_set_reads(struct qp *qp, uint32_t count)
{
    assert_int_equal(count, qp->attr.dest_rd_atomic);
    note("set_reads");
    return reads_result;
}

/* --- verbs of these tests --- */

#define INITIATOR SERVICE_XRC
#define TARGET ((enum service)99) /* the other side of it */

struct fixture {
    struct bare_engine bare;
    struct qp qp;
    struct qp_attr good; /* every attribute legal */
};

static struct gid ipv4(uint8_t last)
{
    return (struct gid){
        .bytes = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 77, [14] = 0, [15] = last}};
}

static int setup(void **state)
{
    static struct fixture f;

    f = (struct fixture){
        .good =
            {
                .pmtu = 1024,
                .qkey = 0x11111111,
                .rq_psn = {0xfffffe},
                .sq_psn = {0x123456},
                .dest_qpn = 0xabcdef,
                .access = ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ,
                .port = 1,
                .path = {.src = ipv4(2), .dst = ipv4(3), .hop_limit = 64},
                .rd_atomic = 16,
                .dest_rd_atomic = 16,
                .min_rnr_timer = 12,
                .timeout = 14,
                .retry_count = 7,
                .rnr_retry = 7,
            },
    };
    bare_engine_init(&f.bare, 5);
    f.qp.engine = &f.bare.engine;
    calls[0] = '\0';
    connect_result = 0;
    reads_result = 0;
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    bare_engine_fini(&f->bare);
    return 0;
}

static int modify(struct fixture *f, enum qp_state to, uint32_t mask, const char **why)
{
    struct qp_attr attr = f->good;

    attr.state = to;
    attr.cur_state = f->qp.state;
    *why = NULL;
    return qp_modify(&f->qp, &attr, mask | QP_ATTR_STATE, why);
}

static void stands_in(struct fixture *f, enum service service, enum qp_state state)
{
    static struct xrcd domain;

    f->qp.service = service == TARGET ? SERVICE_XRC : service;
    f->qp.xrcd = service == TARGET ? &domain : NULL;
    f->qp.state = state;
}

static void expect_allowed(struct fixture *f, enum qp_state to, uint32_t mask)
{
    enum qp_state from = f->qp.state;
    const char *why;

    assert_int_equal(modify(f, to, mask, &why), 0);
    assert_null(why);
    assert_int_equal(qp_state(&f->qp), to);
    f->qp.state = from;
}

/* Refused as a whole: nothing has changed, and the sentence begins with what is wrong. */
static void expect_refused(struct fixture *f, enum qp_state to, uint32_t mask, const char *begin)
{
    struct qp before;
    const char *why;

    memcpy(&before, &f->qp, sizeof(before)); /* the padding as well, which is compared */
    assert_int_equal(modify(f, to, mask, &why), -EINVAL);
    assert_non_null(why);
    if (begin != NULL && strncmp(why, begin, strlen(begin)) != 0)
        fail_msg("expected a sentence that begins with \"%s\", got \"%s\"", begin, why);
    assert_memory_equal(&f->qp, &before, sizeof(before));
}

enum qp_state qp_state(const struct qp *qp)
{
    return qp->state;
}

/* --- the table --- */

/* One letter an attribute, so that the table below can be read beside the specification's. */
static const struct {
    char letter;
    uint32_t attribute;
} letters[] = {
    {'k', QP_ATTR_PKEY_INDEX},
    {'p', QP_ATTR_PORT},
    {'a', QP_ATTR_ACCESS},
    {'q', QP_ATTR_QKEY},
    {'v', QP_ATTR_AV},
    {'m', QP_ATTR_PMTU},
    {'d', QP_ATTR_DEST_QPN},
    {'r', QP_ATTR_RQ_PSN},
    {'R', QP_ATTR_DEST_RD_ATOMIC},
    {'n', QP_ATTR_MIN_RNR_TIMER},
    {'s', QP_ATTR_SQ_PSN},
    {'t', QP_ATTR_TIMEOUT},
    {'c', QP_ATTR_RETRY_COUNT},
    {'C', QP_ATTR_RNR_RETRY},
    {'S', QP_ATTR_RD_ATOMIC},
    {'u', QP_ATTR_CUR_STATE},
    {'g', QP_ATTR_PATH_MIG_STATE},
    {'y', QP_ATTR_SQD_NOTIFY},
};

/* Transitions beside those to RESET and ERR: from, to, service, required, optional. */
static const struct {
    enum qp_state from;
    enum qp_state to;
    enum service service;
    const char *required;
    const char *optional;
} table[] = {
    {QP_RESET, QP_INIT, SERVICE_RC, "kpa", ""},
    {QP_RESET, QP_INIT, SERVICE_UC, "kpa", ""},
    {QP_RESET, QP_INIT, SERVICE_UD, "kpq", ""},
    {QP_INIT, QP_INIT, SERVICE_RC, "", "kpa"},
    {QP_INIT, QP_INIT, SERVICE_UC, "", "kpa"},
    {QP_INIT, QP_INIT, SERVICE_UD, "", "kpq"},
    {QP_INIT, QP_RTR, SERVICE_RC, "vmdrRn", "ka"},
    {QP_INIT, QP_RTR, SERVICE_UC, "vmdr", "ka"},
    {QP_INIT, QP_RTR, SERVICE_UD, "", "kq"},
    {QP_RTR, QP_RTS, SERVICE_RC, "stcCS", "uang"},
    {QP_RTR, QP_RTS, SERVICE_UC, "s", "uag"},
    {QP_RTR, QP_RTS, SERVICE_UD, "s", "uq"},
    {QP_RTS, QP_RTS, SERVICE_RC, "", "uang"},
    {QP_RTS, QP_RTS, SERVICE_UC, "", "uag"},
    {QP_RTS, QP_RTS, SERVICE_UD, "", "uq"},
    {QP_RTS, QP_SQD, SERVICE_RC, "", "y"},
    {QP_RTS, QP_SQD, SERVICE_UC, "", "y"},
    {QP_RTS, QP_SQD, SERVICE_UD, "", "y"},
    {QP_SQD, QP_RTS, SERVICE_RC, "", "uang"},
    {QP_SQD, QP_RTS, SERVICE_UC, "", "uag"},
    {QP_SQD, QP_RTS, SERVICE_UD, "", "uq"},
    {QP_SQD, QP_SQD, SERVICE_RC, "", "pvtcCSRakng"},
    {QP_SQD, QP_SQD, SERVICE_UC, "", "vakg"},
    {QP_SQD, QP_SQD, SERVICE_UD, "", "kq"},
    {QP_SQE, QP_RTS, SERVICE_UC, "", "ua"},
    {QP_SQE, QP_RTS, SERVICE_UD, "", "uq"},
    /* XRC (annex A14): each side has those attributes of RC that are of its side. */
    {QP_RESET, QP_INIT, INITIATOR, "kpa", ""},
    {QP_RESET, QP_INIT, TARGET, "kpa", ""},
    {QP_INIT, QP_INIT, INITIATOR, "", "kpa"},
    {QP_INIT, QP_INIT, TARGET, "", "kpa"},
    {QP_INIT, QP_RTR, INITIATOR, "vmdr", "ka"},
    {QP_INIT, QP_RTR, TARGET, "vmdrRn", "ka"},
    {QP_RTR, QP_RTS, INITIATOR, "stcCS", "uag"},
    {QP_RTR, QP_RTS, TARGET, "st", "uang"},
    {QP_RTS, QP_RTS, INITIATOR, "", "uag"},
    {QP_RTS, QP_RTS, TARGET, "", "uang"},
    {QP_RTS, QP_SQD, INITIATOR, "", "y"},
    {QP_RTS, QP_SQD, TARGET, "", "y"},
    {QP_SQD, QP_RTS, INITIATOR, "", "uag"},
    {QP_SQD, QP_RTS, TARGET, "", "uang"},
    {QP_SQD, QP_SQD, INITIATOR, "", "pvtcCSakg"},
    {QP_SQD, QP_SQD, TARGET, "", "pvtRakng"},
};

static uint32_t mask_of(const char *text)
{
    uint32_t mask = 0;

    for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++)
        mask |= strchr(text, letters[i].letter) != NULL ? letters[i].attribute : 0;
    return mask;
}

static void each_transition_takes_what_it_requires_and_allows_and_no_more(void **state)
{
    struct fixture *f = *state;

    for (size_t row = 0; row < sizeof(table) / sizeof(table[0]); row++) {
        const uint32_t required = mask_of(table[row].required);
        const uint32_t optional = mask_of(table[row].optional);

        stands_in(f, table[row].service, table[row].from);
        expect_allowed(f, table[row].to, required);
        expect_allowed(f, table[row].to, required | optional);
        for (uint32_t bit = 0; bit < 21; bit++) {
            const uint32_t one = 1u << bit;

            calls[0] = '\0';
            if (one == QP_ATTR_STATE)
                continue;
            if ((required & one) != 0)
                expect_refused(f, table[row].to, (required | optional) & ~one, NULL);
            else if ((optional & one) != 0)
                expect_allowed(f, table[row].to, required | one);
            else
                expect_refused(f, table[row].to, required | one, NULL);
        }
        calls[0] = '\0';
    }
}

static bool in_table(enum qp_state from, enum qp_state to, enum service service)
{
    if (to == QP_RESET || to == QP_ERR)
        return true;
    for (size_t row = 0; row < sizeof(table) / sizeof(table[0]); row++) {
        if (table[row].from == from && table[row].to == to && table[row].service == service)
            return true;
    }
    return false;
}

static void transitions_that_do_not_exist_are_refused(void **state)
{
    static const enum service services[] = {SERVICE_RC, SERVICE_UC, SERVICE_UD, INITIATOR, TARGET};
    struct fixture *f = *state;

    for (enum qp_state from = QP_RESET; from <= QP_ERR; from++) {
        for (enum qp_state to = QP_RESET; to <= QP_ERR; to++) {
            for (size_t s = 0; s < 5; s++) {
                stands_in(f, services[s], from);
                calls[0] = '\0';
                if (!in_table(from, to, services[s]))
                    expect_refused(f, to, 0, "there is no transition");
            }
        }
    }
}

static void reset_and_error_can_be_reached_from_everywhere_and_take_no_attribute(void **state)
{
    static const enum qp_state ends[] = {QP_RESET, QP_ERR};
    struct fixture *f = *state;

    for (enum qp_state from = QP_RESET; from <= QP_ERR; from++) {
        for (size_t i = 0; i < 2; i++) {
            stands_in(f, SERVICE_RC, from);
            calls[0] = '\0';
            expect_refused(f, ends[i], QP_ATTR_ACCESS, "access rights must not be changed");
            expect_allowed(f, ends[i], 0);
        }
    }
}

static void modify_without_a_state_stays_in_the_present_one(void **state)
{
    struct fixture *f = *state;
    struct qp_attr attr = f->good;
    const char *why;

    stands_in(f, SERVICE_RC, QP_RTS);
    attr.state = QP_ERR; /* not named */
    attr.min_rnr_timer = 3;
    assert_int_equal(qp_modify(&f->qp, &attr, QP_ATTR_MIN_RNR_TIMER, &why), 0);
    assert_int_equal(f->qp.state, QP_RTS);
    assert_int_equal(f->qp.attr.min_rnr_timer, 3);
    assert_int_equal(f->qp.attr.access, 0);
    assert_string_equal(calls, "");
}

static void state_that_does_not_exist_is_refused(void **state)
{
    struct fixture *f = *state;

    expect_refused(f, (enum qp_state)7, 0, "state does not exist");
    expect_refused(f, (enum qp_state)0x7fffffff, 0, "state does not exist");
}

static void wrong_current_state_is_refused(void **state)
{
    struct fixture *f = *state;
    struct qp_attr attr = f->good;
    const char *why;

    stands_in(f, SERVICE_RC, QP_RTS);
    attr.cur_state = QP_SQD;
    assert_int_equal(qp_modify(&f->qp, &attr, QP_ATTR_CUR_STATE, &why), -EINVAL);
    attr.cur_state = QP_RTS;
    assert_int_equal(qp_modify(&f->qp, &attr, QP_ATTR_CUR_STATE, &why), 0);
}

/* --- sentences and values --- */

static void sentence_names_the_attribute_that_is_missing_or_too_much(void **state)
{
    struct fixture *f = *state;
    const uint32_t rtr = mask_of("vmdrRn");

    stands_in(f, SERVICE_RC, QP_INIT);
    expect_refused(f, QP_RTR, mask_of("vdrRn"),
                   "path MTU is required by this transition and missing");
    expect_refused(f, QP_RTR, rtr | QP_ATTR_TIMEOUT,
                   "timeout must not be changed in this transition");
    expect_refused(f, QP_RTR, rtr | QP_ATTR_ALT_PATH, "alternate paths are not supported");
    expect_refused(f, QP_RTR, rtr | QP_ATTR_CAP, "queues cannot be resized");
    expect_refused(f, QP_RTR, rtr | 1u << 25, "attribute is unknown");
    expect_refused(f, QP_RTR, rtr | 1u << 31, "attribute is unknown");
}

static void reason_need_not_be_asked_for(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(qp_modify(&f->qp, &f->good, 1u << 31, NULL), -EINVAL);
}

static void values_out_of_range_are_refused(void **state)
{
    static const struct path no_address;
    struct fixture *f = *state;
    const struct qp_attr good = f->good;
    const uint32_t init = mask_of("kpa");
    const uint32_t rtr = mask_of("vmdrRn");
    const uint32_t rts = mask_of("stcCS");

#define REFUSED(from, to, mask, field, ...)                                                        \
    do {                                                                                           \
        stands_in(f, SERVICE_RC, from);                                                            \
        f->good = good;                                                                            \
        f->good.field = __VA_ARGS__;                                                               \
        expect_refused(f, to, mask, NULL);                                                         \
    } while (0)

    REFUSED(QP_RESET, QP_INIT, init, port, 0);
    REFUSED(QP_RESET, QP_INIT, init, port, 2);
    REFUSED(QP_RESET, QP_INIT, init, pkey_index, 1);
    REFUSED(QP_RESET, QP_INIT, init, access, 1u << 6);
    REFUSED(QP_INIT, QP_RTR, rtr, pmtu, 0);
    REFUSED(QP_INIT, QP_RTR, rtr, pmtu, 128);
    REFUSED(QP_INIT, QP_RTR, rtr, pmtu, 1500);
    REFUSED(QP_INIT, QP_RTR, rtr, pmtu, 8192);
    REFUSED(QP_INIT, QP_RTR, rtr, dest_qpn, 0x1000000);
    REFUSED(QP_INIT, QP_RTR, rtr, rq_psn, (struct psn){0x1000000});
    REFUSED(QP_INIT, QP_RTR, rtr, dest_rd_atomic, 17);
    REFUSED(QP_INIT, QP_RTR, rtr, min_rnr_timer, 32);
    REFUSED(QP_INIT, QP_RTR, rtr, path, no_address);
    REFUSED(QP_INIT, QP_RTR, rtr, path.flow_label, 0x100000);
    REFUSED(QP_INIT, QP_RTR, rtr, path.dst, (struct gid){{0}});
    REFUSED(QP_INIT, QP_RTR, rtr, path.src, (struct gid){{0}});
    REFUSED(QP_INIT, QP_RTR, rtr, path.dst, (struct gid){.bytes = {[10] = 0xff, [11] = 0xff}});
    REFUSED(QP_INIT, QP_RTR, rtr, path.dst, (struct gid){.bytes = {[0] = 0xfd, [15] = 2}});
    REFUSED(QP_INIT, QP_RTR, rtr, path.dst,
            (struct gid){.bytes = {[10] = 0xff, [11] = 0xff, [12] = 239, [15] = 1}});
    REFUSED(QP_RTR, QP_RTS, rts, sq_psn, (struct psn){0xffffffff});
    REFUSED(QP_RTR, QP_RTS, rts, timeout, 32);
    REFUSED(QP_RTR, QP_RTS, rts, retry_count, 8);
    REFUSED(QP_RTR, QP_RTS, rts, rnr_retry, 8);
    REFUSED(QP_RTR, QP_RTS, rts, rd_atomic, 17);
    REFUSED(QP_RTS, QP_RTS, QP_ATTR_PATH_MIG_STATE, path_mig_state, 1);
#undef REFUSED
    assert_string_equal(calls, "");
}

static void values_at_the_edges_are_taken(void **state)
{
    static const uint32_t pmtus[] = {256, 512, 1024, 2048, 4096};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(pmtus) / sizeof(pmtus[0]); i++) {
        f->good.pmtu = pmtus[i];
        stands_in(f, SERVICE_RC, QP_INIT);
        expect_allowed(f, QP_RTR, mask_of("vmdrRn"));
        calls[0] = '\0';
    }
    f->good.timeout = 31;
    f->good.min_rnr_timer = 31;
    f->good.rd_atomic = 0;
    stands_in(f, SERVICE_RC, QP_RTR);
    expect_allowed(f, QP_RTS, mask_of("stcCSn"));
}

/* --- what a transition sets off --- */

static void each_transition_sets_off_what_it_must(void **state)
{
    static const struct {
        enum service service;
        enum qp_state from;
        enum qp_state to;
        const char *mask;
        const char *calls;
    } rows[] = {
        {SERVICE_RC, QP_RESET, QP_INIT, "kpa", ""},
        {SERVICE_RC, QP_INIT, QP_RTR, "vmdrRn", "set_reads connect responder_reset"},
        {SERVICE_UC, QP_INIT, QP_RTR, "vmdr", "connect responder_reset"},
        {SERVICE_UD, QP_INIT, QP_RTR, "", "responder_reset"},
        {SERVICE_RC, QP_RTR, QP_RTS, "stcCS", "requester_reset ready"},
        {SERVICE_UD, QP_RTR, QP_RTS, "s", "requester_reset ready"},
        {SERVICE_RC, QP_RTS, QP_RTS, "an", ""},
        {SERVICE_RC, QP_RTS, QP_SQD, "y", "drain"},
        {SERVICE_RC, QP_SQD, QP_SQD, "R", "set_reads"},
        {SERVICE_RC, QP_SQD, QP_SQD, "v", "connect"},
        {SERVICE_RC, QP_SQD, QP_RTS, "", "ready"},
        {SERVICE_UD, QP_SQE, QP_RTS, "", "ready"},
        {SERVICE_RC, QP_RTS, QP_ERR, "", "farewell error"},
        {SERVICE_RC, QP_RTS, QP_RESET, "", "reset"},
        {SERVICE_RC, QP_ERR, QP_RESET, "", "reset"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        stands_in(f, rows[i].service, rows[i].from);
        calls[0] = '\0';
        expect_allowed(f, rows[i].to, mask_of(rows[i].mask));
        assert_string_equal(calls, rows[i].calls);
    }
}

static void no_memory_at_connect_leaves_all_as_it_was(void **state)
{
    struct fixture *f = *state;
    const char *why;
    struct qp before;

    stands_in(f, SERVICE_RC, QP_INIT);
    memcpy(&before, &f->qp, sizeof(before));
    connect_result = -ENOMEM;
    assert_int_equal(modify(f, QP_RTR, mask_of("vmdrRn"), &why), -ENOMEM);
    assert_memory_equal(&f->qp, &before, sizeof(before));
    reads_result = -ENOMEM;
    assert_int_equal(modify(f, QP_RTR, mask_of("vmdrRn"), &why), -ENOMEM);
    assert_memory_equal(&f->qp, &before, sizeof(before));
}

/* IBA 10.3.1, SQD; F65. */
static void attributes_change_in_sqd_only_after_the_queue_is_drained(void **state)
{
    struct fixture *f = *state;

    stands_in(f, SERVICE_RC, QP_SQD);
    f->qp.requester.sq.head = 7;
    f->qp.requester.sq.started = 9;
    expect_refused(f, QP_SQD, QP_ATTR_TIMEOUT, "the send queue is not drained yet");
    expect_allowed(f, QP_RTS, 0);
    f->qp.requester.sq.head = 9;
    expect_allowed(f, QP_SQD, QP_ATTR_TIMEOUT);
}

static void reset_forgets_all_attributes(void **state)
{
    struct fixture *f = *state;
    struct qp_attr got;
    struct qp_cap cap;
    const char *why;

    stands_in(f, SERVICE_RC, QP_RTS);
    f->qp.attr = f->good;
    assert_int_equal(modify(f, QP_RESET, 0, &why), 0);
    qp_query(&f->qp, &got, &cap);
    assert_int_equal(got.pmtu, 0);
    assert_int_equal(got.dest_qpn, 0);
    assert_int_equal(got.state, QP_RESET);
}

static void query_tells_what_modify_set_and_where_the_psns_are(void **state)
{
    struct fixture *f = *state;
    struct qp_attr got;
    struct qp_cap cap;
    const char *why;

    stands_in(f, SERVICE_RC, QP_RESET);
    f->qp.cap.send_wr_max = 77;
    assert_int_equal(modify(f, QP_INIT, mask_of("kpa"), &why), 0);
    assert_int_equal(modify(f, QP_RTR, mask_of("vmdrRn"), &why), 0);
    assert_int_equal(modify(f, QP_RTS, mask_of("stcCS"), &why), 0);
    qp_query(&f->qp, &got, &cap);
    assert_int_equal(got.state, QP_RTS);
    assert_int_equal(got.cur_state, QP_RTS);
    assert_int_equal(got.pmtu, 1024);
    assert_int_equal(got.dest_qpn, 0xabcdef);
    assert_true(psn_equal(got.rq_psn, psn_make(0xfffffe)));
    assert_true(psn_equal(got.sq_psn, psn_make(0x123456)));
    assert_int_equal(cap.send_wr_max, 77);
    f->qp.requester.psn_next = psn_make(0x123460);
    f->qp.responder.epsn = psn_make(2);
    qp_query(&f->qp, &got, &cap);
    assert_true(psn_equal(got.rq_psn, psn_make(2)));
    assert_true(psn_equal(got.sq_psn, psn_make(0x123460)));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_transition_takes_what_it_requires_and_allows_and_no_more),
        TEST(transitions_that_do_not_exist_are_refused),
        TEST(reset_and_error_can_be_reached_from_everywhere_and_take_no_attribute),
        TEST(modify_without_a_state_stays_in_the_present_one),
        TEST(state_that_does_not_exist_is_refused),
        TEST(wrong_current_state_is_refused),
        TEST(sentence_names_the_attribute_that_is_missing_or_too_much),
        TEST(reason_need_not_be_asked_for),
        TEST(values_out_of_range_are_refused),
        TEST(values_at_the_edges_are_taken),
        TEST(each_transition_sets_off_what_it_must),
        TEST(no_memory_at_connect_leaves_all_as_it_was),
        TEST(attributes_change_in_sqd_only_after_the_queue_is_drained),
        TEST(reset_forgets_all_attributes),
        TEST(query_tells_what_modify_set_and_where_the_psns_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
