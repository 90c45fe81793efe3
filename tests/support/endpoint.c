/* SPDX-License-Identifier: BSD-2-Clause */
/* An engine with one queue pair, ready for tests. */
#include "support/endpoint.h"

#include <string.h>

#include "support/pattern.h"

struct endpoint_config endpoint_config_default(uint8_t address)
{
    struct endpoint_config c = {
        .engine = engine_config_default(),
        .service = SERVICE_RC,
        .pmtu = 256,
        .access = ENDPOINT_RIGHTS,
        .wr_max = 32,
        .rd_atomic = 4,
        .dest_rd_atomic = 4,
        .timeout = 14, /* 67 ms */
        .retry_count = 3,
        .rnr_retry = 3,
        .min_rnr_timer = 12, /* 640 us */
        .address = address,
        .qkey = 0x11111111,
    };

    c.engine.qpn_base = (uint32_t)address << 16;
    c.engine.timeout_floor_ns = 0;
    return c;
}

struct gid endpoint_gid(uint8_t address)
{
    return (struct gid){.bytes = {[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 77, [15] = address}};
}

void endpoint_open(struct endpoint *ep, const struct endpoint_config *config)
{
    const struct mr_attr mr_attr = {.base = ep->memory,
                                    .len = sizeof(ep->memory),
                                    .iova = ENDPOINT_IOVA,
                                    .access = ENDPOINT_RIGHTS};
    struct srq_attr srq_attr = {.wr_max = config->wr_max, .sge_max = 2};
    struct qp_init init = {
        .service = config->service,
        .cap = {.send_wr_max = config->wr_max,
                .recv_wr_max = config->wr_max,
                .send_sge_max = 4,
                .recv_sge_max = 4,
                .inline_max = 256},
        .pmtu = config->pmtu,
        .context = ep,
    };

    memset(ep, 0, sizeof(*ep));
    ep->config = *config;
    ep->now = 1000000;
    assert_int_equal(engine_new(&config->engine, &ep->engine), 0);
    assert_int_equal(pd_new(ep->engine, &ep->pd), 0);
    assert_int_equal(mr_new(ep->pd, &mr_attr, &ep->mr), 0);
    assert_int_equal(cq_new(ep->engine, 2 * config->wr_max, ep, &ep->send_cq), 0);
    assert_int_equal(cq_new(ep->engine, 2 * config->wr_max, ep, &ep->recv_cq), 0);
    if (config->target) {
        assert_int_equal(xrcd_new(ep->engine, &ep->xrcd), 0);
        srq_attr.xrcd = ep->xrcd;
        srq_attr.cq = ep->recv_cq;
    }
    if (config->with_srq || config->target)
        assert_int_equal(srq_new(ep->pd, &srq_attr, ep, &ep->srq), 0);
    init.xrcd = ep->xrcd;
    if (!config->target) {
        init.pd = ep->pd;
        init.send_cq = ep->send_cq;
        init.recv_cq = ep->recv_cq;
        init.srq = ep->srq;
    }
    assert_int_equal(qp_new(ep->engine, &init, &ep->qp), 0);
}

void endpoint_close(struct endpoint *ep)
{
    assert_int_equal(qp_free(ep->qp), 0);
    if (ep->srq != NULL)
        assert_int_equal(srq_free(ep->srq), 0);
    if (ep->xrcd != NULL)
        assert_int_equal(xrcd_free(ep->xrcd), 0);
    assert_int_equal(cq_free(ep->send_cq), 0);
    assert_int_equal(cq_free(ep->recv_cq), 0);
    assert_int_equal(mr_free(ep->mr), 0);
    assert_int_equal(pd_free(ep->pd), 0);
    engine_free(ep->engine);
}

void endpoint_modify_state(struct endpoint *ep, enum qp_state to, uint32_t extra_mask,
                           const struct qp_attr *extra)
{
    struct qp_attr attr = extra != NULL ? *extra : (struct qp_attr){0};
    const char *why = NULL;

    attr.state = to;
    if (qp_modify(ep->qp, &attr, QP_ATTR_STATE | extra_mask, &why) != 0)
        fail_msg("modify to state %d: %s", (int)to, why);
}

void endpoint_connect(struct endpoint *ep, uint32_t dest_qpn)
{
    static const struct masks {
        uint32_t init;
        uint32_t rtr;
        uint32_t rts;
    } masks[] = {
        [SERVICE_RC] = {QP_ATTR_PKEY_INDEX | QP_ATTR_PORT | QP_ATTR_ACCESS,
                        QP_ATTR_AV | QP_ATTR_PMTU | QP_ATTR_DEST_QPN | QP_ATTR_RQ_PSN |
                            QP_ATTR_DEST_RD_ATOMIC | QP_ATTR_MIN_RNR_TIMER,
                        QP_ATTR_SQ_PSN | QP_ATTR_TIMEOUT | QP_ATTR_RETRY_COUNT | QP_ATTR_RNR_RETRY |
                            QP_ATTR_RD_ATOMIC},
        [SERVICE_UC] = {QP_ATTR_PKEY_INDEX | QP_ATTR_PORT | QP_ATTR_ACCESS,
                        QP_ATTR_AV | QP_ATTR_PMTU | QP_ATTR_DEST_QPN | QP_ATTR_RQ_PSN,
                        QP_ATTR_SQ_PSN},
        [SERVICE_UD] = {QP_ATTR_PKEY_INDEX | QP_ATTR_PORT | QP_ATTR_QKEY, 0, QP_ATTR_SQ_PSN},
        [SERVICE_XRC] = {QP_ATTR_PKEY_INDEX | QP_ATTR_PORT | QP_ATTR_ACCESS,
                         QP_ATTR_AV | QP_ATTR_PMTU | QP_ATTR_DEST_QPN | QP_ATTR_RQ_PSN,
                         QP_ATTR_SQ_PSN | QP_ATTR_TIMEOUT | QP_ATTR_RETRY_COUNT |
                             QP_ATTR_RNR_RETRY | QP_ATTR_RD_ATOMIC},
    };
    static const struct masks target = {QP_ATTR_PKEY_INDEX | QP_ATTR_PORT | QP_ATTR_ACCESS,
                                        QP_ATTR_AV | QP_ATTR_PMTU | QP_ATTR_DEST_QPN |
                                            QP_ATTR_RQ_PSN | QP_ATTR_DEST_RD_ATOMIC |
                                            QP_ATTR_MIN_RNR_TIMER,
                                        QP_ATTR_SQ_PSN | QP_ATTR_TIMEOUT};
    const struct endpoint_config *c = &ep->config;
    const struct masks *m = c->target ? &target : &masks[c->service];
    const struct qp_attr attr = {
        .port = 1,
        .access = c->access,
        .qkey = c->qkey,
        .path = {.src = endpoint_gid(c->address),
                 .dst = endpoint_gid((uint8_t)(5 - c->address)),
                 .hop_limit = 64},
        .pmtu = c->pmtu,
        .dest_qpn = dest_qpn,
        .rq_psn = psn_make(c->rq_psn),
        .sq_psn = psn_make(c->sq_psn),
        .rd_atomic = c->rd_atomic,
        .dest_rd_atomic = c->dest_rd_atomic,
        .timeout = c->timeout,
        .retry_count = c->retry_count,
        .rnr_retry = c->rnr_retry,
        .min_rnr_timer = c->min_rnr_timer,
    };

    endpoint_modify_state(ep, QP_INIT, m->init, &attr);
    endpoint_modify_state(ep, QP_RTR, m->rtr, &attr);
    endpoint_modify_state(ep, QP_RTS, m->rts, &attr);
}

int endpoint_try_post(struct endpoint *ep, const struct work *w)
{
    bool is_inline = (w->flags & WR_INLINE) != 0;
    const struct ah ah = {.pd = ep->pd,
                          .path = {.src = endpoint_gid(ep->config.address),
                                   .dst = endpoint_gid((uint8_t)(5 - ep->config.address)),
                                   .hop_limit = 64}};
    const struct sge sge = {
        .addr = is_inline ? (uintptr_t)ep->memory + w->local : at(w->local),
        .length = w->len,
        .lkey = w->lkey != 0 ? w->lkey : ep->mr->key,
    };
    const struct send_wr wr = {
        .wr_id = w->wr_id,
        .opcode = w->opcode,
        .flags = w->flags | (w->unsignaled ? 0u : WR_SIGNALED),
        .sges = &sge,
        .sge_count = w->len > 0,
        .imm = w->imm,
        .remote_addr = at(w->remote),
        .rkey = w->rkey,
        .compare = w->compare,
        .swap = w->swap,
        .remote_srqn = w->srqn,
        .flush_len = w->flush_len,
        .flush_placement = w->placement,
        .flush_selectivity = w->selectivity,
        .bind = w->bind,
        .ah = ep->config.service == SERVICE_UD ? &ah : NULL,
        .remote_qpn = 0x030011,
        .remote_qkey = ep->config.qkey,
    };

    return qp_post_send(ep->qp, &wr);
}

void endpoint_post(struct endpoint *ep, const struct work *w)
{
    assert_int_equal(endpoint_try_post(ep, w), 0);
}

void endpoint_post_recv(struct endpoint *ep, uint64_t wr_id, uint32_t offset, uint32_t len)
{
    const struct sge sge = {.addr = at(offset), .length = len, .lkey = ep->mr->key};
    const struct recv_wr wr = {.wr_id = wr_id, .sges = &sge, .sge_count = len > 0};

    if (ep->srq != NULL)
        assert_int_equal(srq_post(ep->srq, &wr), 0);
    else
        assert_int_equal(qp_post_recv(ep->qp, &wr), 0);
}

void endpoint_fill(struct endpoint *ep, uint32_t offset, uint64_t message, uint32_t first,
                   uint32_t len)
{
    pattern_fill(message, first, ep->memory + offset, len);
}

void expect_placed(const struct endpoint *ep, uint32_t offset, uint64_t message, uint32_t first,
                   uint32_t len)
{
    size_t right = pattern_matches(message, first, ep->memory + offset, len);

    if (right != len)
        fail_msg("byte %zu of %u at offset %u is not that of message %llu", right, len, offset,
                 (unsigned long long)message);
}

void expect_untouched(const struct endpoint *ep, uint32_t offset, uint32_t len)
{
    for (uint32_t i = 0; i < len; i++) {
        if (ep->memory[offset + i] != 0)
            fail_msg("byte %u behind offset %u was written", i, offset);
    }
}

struct completion expect_completion(struct cq *cq, uint64_t wr_id, enum completion_status status)
{
    struct completion c;
    int count = cq_poll(cq, 1, &c);

    if (count != 1)
        fail_msg("no completion (%d), expected request %llu with status %d", count,
                 (unsigned long long)wr_id, (int)status);
    if (c.wr_id != wr_id || c.status != status)
        fail_msg("completion of request %llu with status %d, expected request %llu with status %d",
                 (unsigned long long)c.wr_id, (int)c.status, (unsigned long long)wr_id,
                 (int)status);
    return c;
}

void expect_no_completion(struct cq *cq)
{
    struct completion c;

    if (cq_poll(cq, 1, &c) != 0)
        fail_msg("completion of request %llu with status %d, expected none",
                 (unsigned long long)c.wr_id, (int)c.status);
}

void expect_event(struct endpoint *ep, enum engine_event_type type)
{
    struct engine_event event;

    if (!engine_event_next(ep->engine, &event))
        fail_msg("no event, expected type %d", (int)type);
    if (event.type != type)
        fail_msg("event of type %d, expected type %d", (int)event.type, (int)type);
}

void expect_no_event(struct endpoint *ep)
{
    struct engine_event event;

    if (engine_event_next(ep->engine, &event))
        fail_msg("event of type %d, expected none", (int)event.type);
}
