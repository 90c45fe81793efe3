/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A subject in this process: an engine of ours with one queue pair, in
 * simulated time. The same script against it gives the same packets at the
 * same times, always. What the link does beneath an engine is done here: ICRCs
 * are made and verified.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "script/subject.h"
#include "wire/datagram.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define START_NS 1000000u
#define IOVA_FIRST 0x5a0000001000ull /* not where the memory is, so that a mix-up is seen */
#define IOVA_STEP 0x10000000ull
#define GUARD_LEN 4096u /* around each region: nobody writes there */
#define GUARD_BYTE 0xa5u
#define QUEUE_MAX 1024u
#define BATCH_LEN 65507u
#define BATCH_COUNT 64u
#define STEPS_MAX 1000000u /* timers that may expire in one wait */
#define SRC_PORT 0xc123u

struct engine_subject {
    struct subject base;
    struct setup setup;
    struct engine *engine;
    struct pd *pd;
    struct pd *foreign_pd;
    struct cq *send_cq;
    struct cq *recv_cq;
    struct srq *srq;
    struct qp *qp;
    struct mr *mrs[SCRIPT_REGIONS_MAX];
    uint8_t *memory[SCRIPT_REGIONS_MAX]; /* with a guard on both sides */
    struct mw *windows[SCRIPT_WINDOWS_MAX];
    uint64_t now_ns;
    uint8_t batch[BATCH_LEN];
    /* what it sent and nobody took yet */
    struct wire_packet *queue;
    uint32_t queue_head;
    uint32_t queue_tail;
    bool overrun; /* it sent more than the queue holds */
};

static struct engine_subject *of(struct subject *s)
{
    return (struct engine_subject *)(void *)s;
}

static struct gid address(uint8_t last)
{
    return (struct gid){.bytes = {[10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = last}};
}

static struct gid own_gid(void)
{
    return address(1);
}

static struct gid peer_gid(void)
{
    return address(2);
}

static struct path path_to_peer(void)
{
    return (struct path){.src = own_gid(), .dst = peer_gid(), .hop_limit = 64};
}

/* --- set up --- */

static int refuse(struct engine_subject *e, const char *what, int error)
{
    snprintf(e->base.error, sizeof(e->base.error), "%s: %s", what, strerror(-error));
    return error;
}

static int open_regions(struct engine_subject *e, struct offer *out)
{
    for (uint32_t i = 0; i < e->setup.region_count; i++) {
        const struct setup_region *r = &e->setup.regions[i];
        struct mr_attr attr = {.len = r->len, .access = r->access};
        int error;

        e->memory[i] = calloc(1, r->len + 2 * GUARD_LEN);
        if (e->memory[i] == NULL)
            return refuse(e, "memory", -ENOMEM);
        memset(e->memory[i], GUARD_BYTE, GUARD_LEN);
        memset(e->memory[i] + GUARD_LEN + r->len, GUARD_BYTE, GUARD_LEN);
        attr.base = e->memory[i] + GUARD_LEN;
        attr.iova = IOVA_FIRST + i * IOVA_STEP;
        error = mr_new(r->foreign ? e->foreign_pd : e->pd, &attr, &e->mrs[i]);
        if (error != 0)
            return refuse(e, "memory with these rights", error);
        out->regions[i].va = attr.iova;
        out->regions[i].lkey = e->mrs[i]->key;
        out->regions[i].rkey = e->mrs[i]->key;
    }
    for (uint32_t i = 0; i < e->setup.window_count; i++) {
        int error = mw_new(e->pd, MW_TYPE_2, &e->windows[i]);

        if (error != 0)
            return refuse(e, "window", error);
        out->window_rkeys[i] = e->windows[i]->view.key;
    }
    return 0;
}

static int open_qp(struct engine_subject *e)
{
    struct qp_init init = {
        .service = e->setup.service,
        .pd = e->pd,
        .send_cq = e->send_cq,
        .recv_cq = e->recv_cq,
        .srq = e->srq,
        .cap = {.send_wr_max = e->setup.send_wr_max,
                .recv_wr_max = e->setup.recv_wr_max,
                .send_sge_max = 1,
                .recv_sge_max = 1,
                .inline_max = 64},
        .pmtu = e->setup.attr.pmtu,
    };
    int error = qp_new(e->engine, &init, &e->qp);

    return error != 0 ? refuse(e, "qp", error) : 0;
}

static int connect_qp(struct engine_subject *e)
{
    enum { TO_INIT, TO_RTR, TO_RTS, STEP_COUNT };
    static const enum qp_state states[] = {QP_INIT, QP_RTR, QP_RTS};
    static const uint32_t masks[][STEP_COUNT] = {
        [SERVICE_RC] = {QP_ATTR_PKEY_INDEX | QP_ATTR_PORT | QP_ATTR_ACCESS,
                        QP_ATTR_AV | QP_ATTR_PMTU | QP_ATTR_DEST_QPN | QP_ATTR_RQ_PSN |
                            QP_ATTR_DEST_RD_ATOMIC | QP_ATTR_MIN_RNR_TIMER,
                        QP_ATTR_SQ_PSN | QP_ATTR_TIMEOUT | QP_ATTR_RETRY_COUNT | QP_ATTR_RNR_RETRY |
                            QP_ATTR_RD_ATOMIC},
        [SERVICE_UC] = {QP_ATTR_PKEY_INDEX | QP_ATTR_PORT | QP_ATTR_ACCESS,
                        QP_ATTR_AV | QP_ATTR_PMTU | QP_ATTR_DEST_QPN | QP_ATTR_RQ_PSN,
                        QP_ATTR_SQ_PSN},
        [SERVICE_UD] = {QP_ATTR_PKEY_INDEX | QP_ATTR_PORT | QP_ATTR_QKEY, 0, QP_ATTR_SQ_PSN},
    };
    struct qp_attr attr = e->setup.attr;

    attr.port = 1;
    attr.path = path_to_peer();
    for (unsigned i = 0; i < STEP_COUNT; i++) {
        const char *why = NULL;

        attr.state = states[i];
        if (qp_modify(e->qp, &attr, QP_ATTR_STATE | masks[e->setup.service][i], &why) != 0) {
            snprintf(e->base.error, sizeof(e->base.error), "qp: %s", why);
            return -EINVAL;
        }
    }
    return 0;
}

static int open_queues(struct engine_subject *e)
{
    struct srq_attr srq = {.wr_max = e->setup.recv_wr_max, .sge_max = 1};
    int error = cq_new(e->engine, 512, NULL, &e->send_cq);

    if (error == 0)
        error = cq_new(e->engine, 512, NULL, &e->recv_cq);
    if (error == 0 && e->setup.with_srq)
        error = srq_new(e->pd, &srq, NULL, &e->srq);
    return error != 0 ? refuse(e, "queues", error) : 0;
}

static void engine_subject_close(struct subject *s);

static int engine_subject_open(struct subject *s, const struct setup *setup, struct offer *out)
{
    struct engine_subject *e = of(s);
    struct engine_config config = engine_config_default();
    int error;

    config.timeout_floor_ns = 0;
    e->setup = *setup;
    e->now_ns = START_NS;
    e->queue_head = 0;
    e->queue_tail = 0;
    e->overrun = false;
    e->base.error[0] = '\0';
    *out = (struct offer){0};
    error = engine_new(&config, &e->engine);
    if (error == 0)
        error = pd_new(e->engine, &e->pd);
    if (error == 0)
        error = pd_new(e->engine, &e->foreign_pd);
    if (error == 0)
        error = open_regions(e, out);
    if (error == 0)
        error = open_queues(e);
    if (error == 0)
        error = open_qp(e);
    if (error == 0)
        error = connect_qp(e);
    if (error != 0) {
        engine_subject_close(s);
        return error;
    }
    out->qpn = qp_qpn(e->qp);
    return 0;
}

static void engine_subject_close(struct subject *s)
{
    struct engine_subject *e = of(s);

    if (e->qp != NULL)
        qp_free(e->qp);
    if (e->srq != NULL)
        srq_free(e->srq);
    if (e->send_cq != NULL)
        cq_free(e->send_cq);
    if (e->recv_cq != NULL)
        cq_free(e->recv_cq);
    for (uint32_t i = 0; i < SCRIPT_WINDOWS_MAX; i++) {
        if (e->windows[i] != NULL)
            mw_free(e->windows[i]);
        e->windows[i] = NULL;
    }
    for (uint32_t i = 0; i < SCRIPT_REGIONS_MAX; i++) {
        if (e->mrs[i] != NULL)
            mr_free(e->mrs[i]);
        e->mrs[i] = NULL;
        free(e->memory[i]);
        e->memory[i] = NULL;
    }
    if (e->foreign_pd != NULL)
        pd_free(e->foreign_pd);
    if (e->pd != NULL)
        pd_free(e->pd);
    if (e->engine != NULL)
        engine_free(e->engine);
    e->qp = NULL;
    e->srq = NULL;
    e->send_cq = NULL;
    e->recv_cq = NULL;
    e->pd = NULL;
    e->foreign_pd = NULL;
    e->engine = NULL;
}

/* --- the wire --- */

static void collect(struct engine_subject *e, const uint8_t *bytes, size_t len)
{
    struct wire_packet *p;

    assert(len <= SUBJECT_DATAGRAM_MAX);
    if (e->queue_tail == QUEUE_MAX) {
        e->overrun = true;
        return;
    }
    p = &e->queue[e->queue_tail++];
    memcpy(p->bytes, bytes, len);
    p->len = len;
    p->at_ns = e->now_ns;
    p->bad_icrc = false;
}

static void collect_all(struct engine_subject *e)
{
    struct datagram_batch b = {
        .buffer = e->batch, .capacity = sizeof(e->batch), .count_max = BATCH_COUNT};

    while (engine_transmit(e->engine, e->now_ns, &b) > 0) {
        const uint8_t *bytes = b.buffer;

        for (uint32_t i = 0; i < b.count; i++) {
            size_t len = i == b.count - 1 ? b.last_len : b.segment_len;

            collect(e, bytes, len);
            bytes += len;
        }
    }
}

static uint64_t engine_subject_now(struct subject *s)
{
    return of(s)->now_ns;
}

static int engine_subject_send(struct subject *s, struct wire_packet *p)
{
    struct engine_subject *e = of(s);
    const struct gid src = p->other_source ? address(3) : peer_gid();
    const struct gid dst = own_gid();
    uint8_t *exact = malloc(p->len); /* so that a read beyond the end is seen */
    struct icrc_flow flow;
    uint16_t identification;
    const struct datagram d = {.src = src,
                               .dst = dst,
                               .hop_limit = 64,
                               .traffic_class = p->ecn,
                               .src_port = SRC_PORT,
                               .bytes = exact,
                               .len = p->len};

    if (exact == NULL)
        return -ENOMEM;
    p->at_ns = e->now_ns;
    memcpy(exact, p->bytes, p->len);
    icrc_flow_init(&flow, &src, &dst);
    if (p->len >= BTH_LEN + ICRC_LEN)
        store_le32(exact + p->len - ICRC_LEN,
                   icrc_compute(&flow, SRC_PORT, 0, exact, p->len - ICRC_LEN) ^
                       (p->bad_icrc ? 1u : 0u));
    if (p->len < BTH_LEN + ICRC_LEN ||
        icrc_verify(&flow, SRC_PORT, 0, exact, p->len, &identification) == ICRC_GOOD)
        engine_receive(e->engine, &d, e->now_ns);
    free(exact);
    collect_all(e);
    return 0;
}

/* The engine's next step until then, if it has one. */
static bool step(struct engine_subject *e, uint64_t until)
{
    uint64_t deadline = engine_deadline(e->engine);

    if (deadline > until)
        return false;
    if (e->now_ns < deadline)
        e->now_ns = deadline;
    engine_advance(e->engine, e->now_ns);
    collect_all(e);
    return true;
}

static void arrive_at(struct engine_subject *e, uint64_t until)
{
    if (e->now_ns < until)
        e->now_ns = until;
    engine_advance(e->engine, e->now_ns);
    collect_all(e);
}

static int engine_subject_receive(struct subject *s, uint64_t until_ns, struct wire_packet *out)
{
    struct engine_subject *e = of(s);
    uint32_t steps = 0;

    collect_all(e);
    while (e->queue_head == e->queue_tail && steps++ < STEPS_MAX && step(e, until_ns))
        ;
    if (e->queue_head == e->queue_tail)
        arrive_at(e, until_ns);
    if (e->overrun)
        return refuse(e, "it sent more packets than can wait for a line", -ENOBUFS);
    if (e->queue_head == e->queue_tail)
        return 0;
    *out = e->queue[e->queue_head++];
    if (e->queue_head == e->queue_tail) {
        e->queue_head = 0;
        e->queue_tail = 0;
    }
    return 1;
}

static int engine_subject_wait(struct subject *s, uint64_t until_ns)
{
    struct engine_subject *e = of(s);
    uint32_t steps = 0;

    collect_all(e);
    while (steps++ < STEPS_MAX && step(e, until_ns))
        ;
    arrive_at(e, until_ns);
    return 0;
}

/* --- the application --- */

/* Where an inline request reads: an address of this process. */
static uint64_t local_address(const struct engine_subject *e, const struct post *post)
{
    if ((post->flags & WR_INLINE) == 0)
        return post->va;
    for (uint32_t i = 0; i < e->setup.region_count; i++) {
        uint64_t offset = post->va - e->mrs[i]->iova;

        if (offset < e->mrs[i]->len && post->len <= e->mrs[i]->len - offset)
            return (uintptr_t)e->mrs[i]->base + offset;
    }
    return 0;
}

static int post_recv(struct engine_subject *e, const struct post *post)
{
    const struct sge sge = {.addr = post->va, .length = post->len, .lkey = post->lkey};
    const struct recv_wr wr = {.wr_id = post->id, .sges = &sge, .sge_count = post->len > 0};

    return e->srq != NULL ? srq_post(e->srq, &wr) : qp_post_recv(e->qp, &wr);
}

static int engine_subject_post(struct subject *s, const struct post *post)
{
    struct engine_subject *e = of(s);
    const struct ah ah = {.pd = e->pd, .path = path_to_peer()};
    const struct sge sge = {
        .addr = local_address(e, post), .length = post->len, .lkey = post->lkey};
    const bool binds = post->opcode == WR_BIND_MW;
    const struct mw_bind bind = {.window_key = binds ? e->windows[post->window]->view.key : 0,
                                 .region_key = post->region_key,
                                 .key = post->window_key,
                                 .addr = post->va,
                                 .len = post->len,
                                 .access = post->window_access};
    const struct send_wr wr = {
        .wr_id = post->id,
        .opcode = post->opcode,
        .flags = post->flags,
        .sges = &sge,
        .sge_count = post->len > 0 && !binds,
        .imm = post->opcode == WR_LOCAL_INV ? post->rkey : post->imm,
        .remote_addr = post->remote_va,
        .rkey = post->rkey,
        .compare = post->compare,
        .swap = post->swap,
        .ah = e->setup.service == SERVICE_UD ? &ah : NULL,
        .remote_qpn = post->remote_qpn,
        .remote_qkey = post->remote_qkey,
        .bind = binds ? &bind : NULL,
    };
    int error;

    e->base.error[0] = '\0';
    if ((post->flags & WR_INLINE) != 0 && post->len > 0 && sge.addr == 0)
        return refuse(e, "inline data outside the memory", -EFAULT);
    error = post->recv ? post_recv(e, post) : qp_post_send(e->qp, &wr);
    collect_all(e);
    return error;
}

static int engine_subject_poll(struct subject *s, struct completion *out)
{
    struct engine_subject *e = of(s);
    int count = cq_poll(e->send_cq, 1, out);

    return count != 0 ? count : cq_poll(e->recv_cq, 1, out);
}

static int engine_subject_event(struct subject *s, uint32_t *type)
{
    struct engine_event event;

    if (!engine_event_next(of(s)->engine, &event))
        return 0;
    *type = event.type;
    return 1;
}

static int engine_subject_state(struct subject *s, uint32_t *state)
{
    *state = qp_state(of(s)->qp);
    return 0;
}

static int engine_subject_modify(struct subject *s, uint32_t state)
{
    struct engine_subject *e = of(s);
    const struct qp_attr attr = {.state = (enum qp_state)state};
    const char *why = NULL;
    int error = qp_modify(e->qp, &attr, QP_ATTR_STATE, &why);

    e->base.error[0] = '\0';
    if (error != 0)
        snprintf(e->base.error, sizeof(e->base.error), "modify: %s", why);
    collect_all(e);
    return error;
}

static int engine_subject_write(struct subject *s, uint32_t region, uint32_t offset,
                                const uint8_t *bytes, uint32_t len)
{
    memcpy(of(s)->memory[region] + GUARD_LEN + offset, bytes, len);
    return 0;
}

/* Reading is also looking at the guards: whoever wrote there has no excuse. */
static int engine_subject_read(struct subject *s, uint32_t region, uint32_t offset, uint8_t *bytes,
                               uint32_t len)
{
    struct engine_subject *e = of(s);
    const uint8_t *front = e->memory[region];
    const uint8_t *behind = front + GUARD_LEN + e->setup.regions[region].len;

    for (uint32_t i = 0; i < GUARD_LEN; i++) {
        if (front[i] != GUARD_BYTE || behind[i] != GUARD_BYTE)
            return refuse(e, "bytes were written outside the region", -EFAULT);
    }
    memcpy(bytes, front + GUARD_LEN + offset, len);
    return 0;
}

static const struct subject_ops ops = {
    .open = engine_subject_open,
    .close = engine_subject_close,
    .now = engine_subject_now,
    .send = engine_subject_send,
    .receive = engine_subject_receive,
    .wait = engine_subject_wait,
    .post = engine_subject_post,
    .poll = engine_subject_poll,
    .event = engine_subject_event,
    .state = engine_subject_state,
    .modify = engine_subject_modify,
    .write = engine_subject_write,
    .read = engine_subject_read,
};

struct subject *engine_subject_new(void)
{
    struct engine_subject *e = calloc(1, sizeof(*e));

    if (e == NULL)
        return NULL;
    e->queue = calloc(QUEUE_MAX, sizeof(*e->queue));
    if (e->queue == NULL) {
        free(e);
        return NULL;
    }
    e->base = (struct subject){.ops = &ops, .name = "engine", .peer_qpn = SUBJECT_PEER_QPN};
    return &e->base;
}

void engine_subject_free(struct subject *s)
{
    if (s == NULL)
        return;
    free(of(s)->queue);
    free(s);
}
