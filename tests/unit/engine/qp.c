/* SPDX-License-Identifier: BSD-2-Clause */
/* Queue pairs as objects: their numbers, sizes, and what they hold on to. */
#include "support/endpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/limits.h"

#define SLOT 0x050000u

struct fixture {
    struct engine *engine;
    struct pd *pd;
    struct cq *cq;
};

static int setup(void **state)
{
    static struct fixture f;
    struct engine_config config = engine_config_default();

    config.qpn_base = SLOT;
    assert_int_equal(engine_new(&config, &f.engine), 0);
    assert_int_equal(pd_new(f.engine, &f.pd), 0);
    assert_int_equal(cq_new(f.engine, 100, NULL, &f.cq), 0);
    *state = &f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(cq_free(f->cq), 0);
    assert_int_equal(pd_free(f->pd), 0);
    engine_free(f->engine);
    return 0;
}

static struct qp_init init_of(const struct fixture *f)
{
    return (struct qp_init){
        .service = SERVICE_RC,
        .pd = f->pd,
        .send_cq = f->cq,
        .recv_cq = f->cq,
        .cap = {.send_wr_max = 1, .recv_wr_max = 1, .send_sge_max = 1, .recv_sge_max = 1}};
}

static struct qp *make(struct fixture *f)
{
    struct qp_init init = init_of(f);
    struct qp *qp = NULL;

    assert_int_equal(qp_new(f->engine, &init, &qp), 0);
    return qp;
}

/* F78: a number comes back only when all others have had their turn, so old packets find nobody. */
static void numbers_are_of_the_slot_and_do_not_come_back_soon(void **state)
{
    static uint32_t when[65536]; /* by low half: the round in which it was given out last */
    struct fixture *f = *state;
    struct qp *stays = make(f);

    memset(when, 0, sizeof(when));
    for (uint32_t round = 1; round < 140000; round++) {
        struct qp *qp = make(f);
        const uint32_t index = qp_qpn(qp) & 0xffff;

        assert_int_equal(qp_qpn(qp) & ~0xffffu, SLOT);
        assert_true(index >= 1);
        assert_int_not_equal(qp_qpn(qp), qp_qpn(stays));
        assert_true(when[index] == 0 || round - when[index] > 65000);
        when[index] = round;
        qp_free(qp);
    }
    qp_free(stays);
}

static void slot_holds_all_its_numbers_and_then_no_more(void **state)
{
    static struct qp *qps[65536];
    struct fixture *f = *state;
    struct qp_init init = init_of(f);
    uint32_t count = 0;
    struct qp *one_more = NULL;
    uint32_t freed;

    init.cap = (struct qp_cap){0};
    while (count < 65536 && qp_new(f->engine, &init, &qps[count]) == 0)
        count++;
    assert_int_equal(count, 65535);
    assert_int_equal(qp_new(f->engine, &init, &one_more), -ENOMEM);
    freed = qp_qpn(qps[777]);
    qp_free(qps[777]);
    assert_int_equal(qp_new(f->engine, &init, &qps[777]), 0);
    assert_int_equal(qp_qpn(qps[777]), freed);
    for (uint32_t i = 0; i < count; i++)
        qp_free(qps[i]);
}

static void sizes_and_services_out_of_range_are_refused(void **state)
{
    struct fixture *f = *state;

#define REFUSED(field, value)                                                                      \
    do {                                                                                           \
        struct qp_init init = init_of(f);                                                          \
        struct qp *qp = NULL;                                                                      \
        init.field = value;                                                                        \
        assert_int_equal(qp_new(f->engine, &init, &qp), -EINVAL);                                  \
        assert_null(qp);                                                                           \
    } while (0)

    REFUSED(cap.send_wr_max, QP_WR_MAX + 1);
    REFUSED(cap.recv_wr_max, QP_WR_MAX + 1);
    REFUSED(cap.send_sge_max, QP_SGE_MAX + 1);
    REFUSED(cap.recv_sge_max, QP_SGE_MAX + 1);
    REFUSED(cap.inline_max, QP_INLINE_MAX + 1);
    REFUSED(cap.send_wr_max, UINT32_MAX);
    REFUSED(service, SERVICE_RD);
    REFUSED(service, SERVICE_CNP);
    REFUSED(service, (enum service)7);
#undef REFUSED
    assert_int_equal(cq_free(f->cq), 0); /* nothing was held on to */
    assert_int_equal(cq_new(f->engine, 100, NULL, &f->cq), 0);
}

/* F63: what is granted is what is kept, at the limits as well. */
static void largest_sizes_are_granted(void **state)
{
    struct fixture *f = *state;
    struct qp_init init = init_of(f);
    struct qp_attr attr;
    struct qp_cap cap;
    struct qp *qp;

    init.cap = (struct qp_cap){.send_wr_max = QP_WR_MAX,
                               .recv_wr_max = QP_WR_MAX,
                               .send_sge_max = QP_SGE_MAX,
                               .recv_sge_max = QP_SGE_MAX,
                               .inline_max = QP_INLINE_MAX};
    assert_int_equal(qp_new(f->engine, &init, &qp), 0);
    qp_query(qp, &attr, &cap);
    assert_memory_equal(&cap, &init.cap, sizeof(cap));
    assert_int_equal(cap.send_wr_max, QP_WR_MAX);
    assert_int_equal(cap.inline_max, QP_INLINE_MAX);
    assert_int_equal(attr.state, QP_RESET);
    qp_free(qp);
}

static void what_a_queue_pair_uses_cannot_be_freed(void **state)
{
    struct fixture *f = *state;
    struct qp_init init = init_of(f);
    struct srq_attr attr = {.wr_max = 1, .sge_max = 1};
    struct srq *srq;
    struct qp *qp;

    assert_int_equal(srq_new(f->pd, &attr, NULL, &srq), 0);
    init.srq = srq;
    assert_int_equal(qp_new(f->engine, &init, &qp), 0);
    assert_int_equal(pd_free(f->pd), -EBUSY);
    assert_int_equal(cq_free(f->cq), -EBUSY);
    assert_int_equal(srq_free(srq), -EBUSY);
    assert_int_equal(qp_post_recv(qp, &(struct recv_wr){0}), -EINVAL);
    qp_free(qp);
    assert_int_equal(srq_free(srq), 0);
}

static void queue_pair_without_queues_takes_no_work(void **state)
{
    struct fixture *f = *state;
    struct endpoint_config config = endpoint_config_default(2);
    static struct endpoint ep;

    (void)f;
    config.wr_max = 1;
    endpoint_open(&ep, &config);
    struct qp_init init = {
        .service = SERVICE_RC, .pd = ep.pd, .send_cq = ep.send_cq, .recv_cq = ep.recv_cq};
    struct qp *with_queues = ep.qp;

    assert_int_equal(qp_new(ep.engine, &init, &ep.qp), 0);
    endpoint_connect(&ep, 0x030011);
    assert_int_equal(endpoint_try_post(&ep, &(struct work){.opcode = WR_SEND}), -ENOMEM);
    assert_int_equal(qp_post_recv(ep.qp, &(struct recv_wr){0}), -ENOMEM);
    endpoint_modify_state(&ep, QP_ERR, 0, NULL);
    qp_free(ep.qp);
    ep.qp = with_queues;
    endpoint_close(&ep);
}

/* F74: nothing can be posted to the send side before RTS nor to the receive side in RESET. */
static void posts_in_each_state_are_taken_refused_or_flushed(void **state)
{
    static const struct {
        enum qp_state state;
        int send;
        int receive;
        bool flushed;
    } rows[] = {
        {QP_RESET, -EINVAL, -EINVAL, false},
        {QP_INIT, -EINVAL, 0, false},
        {QP_RTR, -EINVAL, 0, false},
        {QP_RTS, 0, 0, false},
        {QP_SQD, 0, 0, false},
        {QP_ERR, 0, 0, true},
    };
    static struct endpoint ep;
    const struct endpoint_config config = endpoint_config_default(2);
    const struct qp_attr attr = {
        .port = 1,
        .access = ENDPOINT_RIGHTS,
        .path = {.src = endpoint_gid(2), .dst = endpoint_gid(3), .hop_limit = 64},
        .pmtu = 256,
        .dest_qpn = 0x030011,
        .dest_rd_atomic = 4,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        endpoint_open(&ep, &config);
        if (rows[i].state >= QP_RTS)
            endpoint_connect(&ep, 0x030011);
        if (rows[i].state == QP_INIT || rows[i].state == QP_RTR)
            endpoint_modify_state(&ep, QP_INIT, QP_ATTR_PKEY_INDEX | QP_ATTR_PORT | QP_ATTR_ACCESS,
                                  &attr);
        if (rows[i].state == QP_RTR)
            endpoint_modify_state(&ep, QP_RTR,
                                  QP_ATTR_AV | QP_ATTR_PMTU | QP_ATTR_DEST_QPN | QP_ATTR_RQ_PSN |
                                      QP_ATTR_DEST_RD_ATOMIC | QP_ATTR_MIN_RNR_TIMER,
                                  &attr);
        if (rows[i].state == QP_SQD || rows[i].state == QP_ERR)
            endpoint_modify_state(&ep, rows[i].state, 0, NULL);
        assert_int_equal(endpoint_try_post(&ep, &(struct work){.wr_id = 1, .opcode = WR_SEND}),
                         rows[i].send);
        assert_int_equal(qp_post_recv(ep.qp, &(struct recv_wr){.wr_id = 2}), rows[i].receive);
        if (rows[i].flushed) {
            expect_completion(ep.send_cq, 1, STATUS_WR_FLUSH_ERR);
            expect_completion(ep.recv_cq, 2, STATUS_WR_FLUSH_ERR);
        }
        expect_no_completion(ep.send_cq);
        expect_no_completion(ep.recv_cq);
        endpoint_close(&ep);
    }
}

static void engines_with_impossible_settings_are_refused(void **state)
{
    struct engine_config config = engine_config_default();
    struct engine *e = NULL;

    (void)state;
    config.rd_atomic_max = 0;
    assert_int_equal(engine_new(&config, &e), -EINVAL);
    config.rd_atomic_max = QP_RD_ATOMIC_MAX + 1;
    assert_int_equal(engine_new(&config, &e), -EINVAL);
    config.rd_atomic_max = QP_RD_ATOMIC_MAX;
    config.qpn_base = 0x1000000;
    assert_int_equal(engine_new(&config, &e), -EINVAL);
    config.qpn_base = 0x10001;
    assert_int_equal(engine_new(&config, &e), -EINVAL);
    assert_null(e);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(numbers_are_of_the_slot_and_do_not_come_back_soon),
        TEST(slot_holds_all_its_numbers_and_then_no_more),
        TEST(sizes_and_services_out_of_range_are_refused),
        TEST(largest_sizes_are_granted),
        TEST(what_a_queue_pair_uses_cannot_be_freed),
        TEST(queue_pair_without_queues_takes_no_work),
        TEST(posts_in_each_state_are_taken_refused_or_flushed),
        TEST(engines_with_impossible_settings_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
