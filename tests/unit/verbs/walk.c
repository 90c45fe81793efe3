/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random walks through the whole interface: objects come and go, requests are posted in every
 * state, with arguments that are right, wrong or absurd; what programs may not do (pointers to
 * nothing, objects that are gone) is left out. Each call must come back, errors are positive,
 * bad_wr names a request of the list, and in the end everything can be destroyed. Walkers in
 * threads of their own use some objects together. Under sanitizers and memcheck this is where most
 * is looked at.
 */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/dice.h"

#define OBJECTS 8u /* of each kind */
#define STEPS 20000u
#define WALKERS 4u
#define SGES 36u /* more than any queue takes */
#define LIST 3u
#define INLINE_ROOM 64u
#define REMOTE_RIGHTS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* As assert_true, in any thread. */
#define must(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, strerror(errno));   \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

struct things {
    struct ibv_pd *pd[OBJECTS];
    struct ibv_comp_channel *channel[OBJECTS];
    struct ibv_cq *cq[OBJECTS];
    struct ibv_srq *srq[OBJECTS];
    struct ibv_qp *qp[OBJECTS];
    struct ibv_mr *mr[OBJECTS];
    struct ibv_mw *mw[OBJECTS];
    struct ibv_ah *ah[OBJECTS];
    struct ibv_dm *dm[OBJECTS];
};

struct walk {
    struct dice dice;
    struct ibv_context *context;
    struct ibv_ah_attr address; /* of the device itself */
    uint8_t *memory;            /* BUF_SIZE */
    struct things own;
    struct things *shared; /* that nobody destroys before all walks are over */
};

/* --- what is drawn --- */

static uint32_t below(struct walk *w, uint32_t bound)
{
    return (uint32_t)dice_below(&w->dice, bound);
}

static bool rarely(struct walk *w)
{
    return below(w, 12) == 0;
}

/* Numbers at which something may turn over. */
static uint32_t odd(struct walk *w)
{
    static const uint32_t edges[] = {0,     1,          2,          4,         31,   32,
                                     33,    64,         127,        255,       4096, 65535,
                                     65536, 0x7fffffff, 0x80000000, UINT32_MAX};

    return below(w, 3) > 0 ? edges[below(w, COUNT_OF(edges))] : (uint32_t)dice_u64(&w->dice);
}

static uint64_t odd_address(struct walk *w)
{
    return (uint64_t)odd(w) << 32 | odd(w);
}

/* Most often below bound. */
static uint32_t likely(struct walk *w, uint32_t bound)
{
    return rarely(w) ? odd(w) : below(w, bound);
}

/* An object of the kind, or NULL. */
#define ANY(w, kind)                                                                               \
    (below(w, 2) == 0 ? (w)->own.kind[below(w, OBJECTS)] : (w)->shared->kind[below(w, OBJECTS)])

/* Of few domains, so that most things are of one. */
static struct ibv_pd *any_pd(struct walk *w)
{
    return below(w, 2) == 0 ? w->own.pd[below(w, 2)] : w->shared->pd[0];
}

static uint32_t any_key(struct walk *w)
{
    const struct ibv_mr *mr = ANY(w, mr);

    return mr != NULL && !rarely(w) ? mr->lkey : odd(w);
}

static void draw_sges(struct walk *w, struct ibv_sge *sges)
{
    for (uint32_t i = 0; i < SGES; i++) {
        sges[i] = (struct ibv_sge){.addr = (uintptr_t)w->memory + below(w, BUF_SIZE / 2),
                                   .length = likely(w, 3000),
                                   .lkey = any_key(w)};
        if (rarely(w))
            sges[i].addr = odd_address(w);
    }
}

/* --- objects --- */

/* Makes the object of a slot, or at times destroys the one that is there; in use it stays. */
#define COME_OR_GO(w, kind, slot, make, destroy)                                                   \
    do {                                                                                           \
        if ((w)->own.kind[slot] == NULL)                                                           \
            (w)->own.kind[slot] = (make);                                                          \
        else if (below(w, 3) == 0 && destroy((w)->own.kind[slot]) == 0)                            \
            (w)->own.kind[slot] = NULL;                                                            \
    } while (0)

static void pd_turn(struct walk *w, uint32_t slot)
{
    COME_OR_GO(w, pd, slot % 2, ibv_alloc_pd(w->context), ibv_dealloc_pd);
}

static void channel_turn(struct walk *w, uint32_t slot)
{
    COME_OR_GO(w, channel, slot, ibv_create_comp_channel(w->context), ibv_destroy_comp_channel);
    if (w->own.channel[slot] != NULL)
        must(fcntl(w->own.channel[slot]->fd, F_SETFL, O_NONBLOCK) == 0);
}

static void cq_turn(struct walk *w, uint32_t slot)
{
    COME_OR_GO(w, cq, slot,
               ibv_create_cq(w->context, (int)likely(w, 100), w, w->own.channel[below(w, OBJECTS)],
                             rarely(w) ? (int)odd(w) : 0),
               ibv_destroy_cq);
}

static void srq_turn(struct walk *w, uint32_t slot)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = likely(w, 100), .max_sge = likely(w, 5)}};
    struct ibv_srq_attr attr = {.max_wr = odd(w), .max_sge = odd(w), .srq_limit = likely(w, 50)};
    struct ibv_pd *pd = any_pd(w);
    struct ibv_srq *srq = ANY(w, srq);

    if (srq != NULL)
        must(ibv_modify_srq(srq, &attr, (int)likely(w, 4)) >= 0);
    if (pd != NULL)
        COME_OR_GO(w, srq, slot, ibv_create_srq(pd, &init), ibv_destroy_srq);
}

static void mr_turn(struct walk *w, uint32_t slot)
{
    struct ibv_pd *pd = any_pd(w);
    void *start = rarely(w) ? (void *)(uintptr_t)odd_address(w) : w->memory + below(w, 1000);
    size_t length = rarely(w) ? odd_address(w) : below(w, BUF_SIZE - 1000);
    unsigned rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | REMOTE_RIGHTS;
    struct ibv_mr *mr = w->own.mr[slot];

    if (pd == NULL)
        return;
    if (rarely(w))
        rights = odd(w);
    if (mr != NULL && rarely(w))
        must(ibv_rereg_mr(mr, (int)likely(w, 8), pd, start, length, (int)rights) >= -3);
    COME_OR_GO(w, mr, slot, ibv_reg_mr(pd, start, length, rights), ibv_dereg_mr);
}

static void mw_turn(struct walk *w, uint32_t slot)
{
    struct ibv_pd *pd = any_pd(w);

    if (pd != NULL)
        COME_OR_GO(w, mw, slot, ibv_alloc_mw(pd, (enum ibv_mw_type)likely(w, 3)), ibv_dealloc_mw);
}

static void ah_turn(struct walk *w, uint32_t slot)
{
    struct ibv_ah_attr attr = w->address;
    struct ibv_pd *pd = any_pd(w);

    attr.static_rate = (uint8_t)likely(w, 4);
    attr.grh.traffic_class = (uint8_t)odd(w);
    if (rarely(w))
        attr.grh.dgid.raw[below(w, 16)] = (uint8_t)odd(w);
    if (rarely(w))
        attr.grh.sgid_index = (uint8_t)odd(w);
    if (pd != NULL)
        COME_OR_GO(w, ah, slot, ibv_create_ah(pd, &attr), ibv_destroy_ah);
}

static void dm_turn(struct walk *w, uint32_t slot)
{
    struct ibv_alloc_dm_attr attr = {.length = likely(w, 4096), .log_align_req = likely(w, 2)};
    uint8_t bytes[256] = {0};
    struct ibv_dm *dm = w->own.dm[slot];

    if (dm != NULL) {
        ibv_memcpy_to_dm(dm, rarely(w) ? odd_address(w) : below(w, 100), bytes, below(w, 256));
        ibv_memcpy_from_dm(bytes, dm, rarely(w) ? odd_address(w) : below(w, 100), below(w, 256));
    }
    COME_OR_GO(w, dm, slot, ibv_alloc_dm(w->context, &attr), ibv_free_dm);
}

static struct ibv_qp *make_qp(struct walk *w)
{
    static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
    struct ibv_qp_init_attr_ex init = {
        .send_cq = ANY(w, cq),
        .recv_cq = ANY(w, cq),
        .srq = below(w, 3) == 0 ? ANY(w, srq) : NULL,
        .cap = {.max_send_wr = likely(w, 40),
                .max_recv_wr = likely(w, 40),
                .max_send_sge = likely(w, 5),
                .max_recv_sge = likely(w, 5),
                .max_inline_data = likely(w, 300)},
        .qp_type = rarely(w) ? (enum ibv_qp_type)odd(w) : types[below(w, COUNT_OF(types))],
        .sq_sig_all = (int)below(w, 2),
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = any_pd(w),
        .send_ops_flags = below(w, 3) > 0 ? 0x7ff : odd(w),
    };

    if (below(w, 2) == 0)
        init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    return init.pd != NULL ? ibv_create_qp_ex(w->context, &init) : NULL;
}

static void group(uint32_t n, union ibv_gid *out)
{
    memset(out, 0, sizeof(*out));
    out->raw[10] = out->raw[11] = 0xff;
    out->raw[12] = 239;
    out->raw[15] = (uint8_t)n;
}

/* One in a group is in use. */
static int leave_and_destroy(struct ibv_qp *qp)
{
    union ibv_gid gid;

    for (uint32_t n = 0; n < 2; n++) {
        group(n, &gid);
        while (ibv_detach_mcast(qp, &gid, 0) == 0)
            ;
    }
    must(ibv_destroy_qp(qp) == 0);
    return 0;
}

static void qp_turn(struct walk *w, uint32_t slot)
{
    COME_OR_GO(w, qp, slot, make_qp(w), leave_and_destroy);
}

static void group_turn(struct walk *w, uint32_t slot)
{
    struct ibv_qp *qp = w->own.qp[slot];
    union ibv_gid gid = w->address.grh.dgid;

    if (qp == NULL)
        return;
    if (!rarely(w))
        group(below(w, 2), &gid);
    must((below(w, 2) == 0 ? ibv_attach_mcast : ibv_detach_mcast)(qp, &gid, 0) >= 0);
}

/* --- states --- */

static void draw_attr(struct walk *w, struct ibv_qp_attr *attr)
{
    const struct ibv_qp *peer = ANY(w, qp);

    *attr = (struct ibv_qp_attr){.qp_state = (enum ibv_qp_state)below(w, 7),
                                 .path_mtu = (enum ibv_mtu)likely(w, 6),
                                 .qkey = QKEY,
                                 .rq_psn = below(w, 4) == 0 ? odd(w) : 7,
                                 .sq_psn = below(w, 4) == 0 ? odd(w) : 7,
                                 .dest_qp_num = peer != NULL ? peer->qp_num : odd(w),
                                 .qp_access_flags = rarely(w) ? odd(w) : REMOTE_RIGHTS,
                                 .ah_attr = w->address,
                                 .en_sqd_async_notify = (uint8_t)below(w, 2),
                                 .max_rd_atomic = (uint8_t)likely(w, 17),
                                 .max_dest_rd_atomic = (uint8_t)likely(w, 17),
                                 .min_rnr_timer = (uint8_t)likely(w, 3),
                                 .port_num = rarely(w) ? (uint8_t)odd(w) : 1,
                                 .timeout = (uint8_t)likely(w, 10),
                                 .retry_cnt = (uint8_t)likely(w, 3),
                                 .rnr_retry = (uint8_t)likely(w, 3),
                                 .rate_limit = odd(w)};
}

static void modify_turn(struct walk *w, uint32_t slot)
{
    struct ibv_qp *qp = ANY(w, qp);
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    (void)slot;
    if (qp == NULL || below(w, 4) > 0)
        return;
    draw_attr(w, &attr);
    must(ibv_modify_qp(qp, &attr, (int)(IBV_QP_STATE | (rarely(w) ? odd(w) : 0))) >= 0);
    must(ibv_query_qp(qp, &attr, (int)odd(w), &init) >= 0);
}

/* From RESET to RTS, as it is done; it works for those that stand at its beginning. */
static void walk_up(struct walk *w, struct ibv_qp *qp, uint32_t peer)
{
    const bool ud = qp->qp_type == IBV_QPT_UD;
    const bool rc = qp->qp_type == IBV_QPT_RC;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET,
                               .path_mtu = IBV_MTU_1024,
                               .qkey = QKEY,
                               .rq_psn = 7,
                               .sq_psn = 7,
                               .dest_qp_num = peer,
                               .qp_access_flags = REMOTE_RIGHTS,
                               .ah_attr = w->address,
                               .max_rd_atomic = 4,
                               .max_dest_rd_atomic = 4,
                               .min_rnr_timer = 1,
                               .port_num = 1,
                               .timeout = 8,
                               .retry_cnt = 2,
                               .rnr_retry = 2};

    ibv_modify_qp(qp, &attr, IBV_QP_STATE);
    attr.qp_state = IBV_QPS_INIT;
    ibv_modify_qp(qp, &attr,
                  IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
                      (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
    attr.qp_state = IBV_QPS_RTR;
    ibv_modify_qp(qp, &attr,
                  IBV_QP_STATE |
                      (ud ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN) |
                      (rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
    attr.qp_state = IBV_QPS_RTS;
    ibv_modify_qp(
        qp, &attr,
        IBV_QP_STATE | IBV_QP_SQ_PSN |
            (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
                : 0));
}

static void connect_turn(struct walk *w, uint32_t slot)
{
    struct ibv_qp *qp = ANY(w, qp);
    struct ibv_qp *peer = ANY(w, qp);

    (void)slot;
    if (qp == NULL || peer == NULL || qp->qp_type != peer->qp_type)
        return;
    walk_up(w, qp, peer->qp_num);
    walk_up(w, peer, qp->qp_num);
}

/* --- requests --- */

/* Inline bytes are read at once, so they must be there. */
static void make_inline(struct walk *w, struct ibv_send_wr *wr)
{
    for (int i = 0; i < wr->num_sge && i < (int)SGES; i++) {
        wr->sg_list[i].addr = (uintptr_t)w->memory;
        wr->sg_list[i].length = likely(w, INLINE_ROOM);
    }
}

static void draw_operands(struct walk *w, const struct ibv_qp *qp, struct ibv_send_wr *wr)
{
    struct ibv_mr *mr = ANY(w, mr);
    struct ibv_mw *mw = ANY(w, mw);

    if (wr->opcode == IBV_WR_BIND_MW) {
        if (mw == NULL || mr == NULL) {
            wr->opcode = IBV_WR_SEND;
            return;
        }
        wr->bind_mw.mw = mw;
        wr->bind_mw.rkey = ibv_inc_rkey(mw->rkey) ^ (rarely(w) ? odd(w) : 0);
        wr->bind_mw.bind_info = (struct ibv_mw_bind_info){mr, (uintptr_t)w->memory + below(w, 100),
                                                          likely(w, 1000), REMOTE_RIGHTS};
        return;
    }
    wr->imm_data = any_key(w); /* and what is invalidated */
    if (qp->qp_type == IBV_QPT_UD) {
        wr->wr.ud.ah = ANY(w, ah);
        wr->wr.ud.remote_qpn = qp->qp_num;
        wr->wr.ud.remote_qkey = rarely(w) ? odd(w) : QKEY;
    } else if (wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
               wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr->wr.atomic.remote_addr = (uintptr_t)w->memory + (below(w, 800) & ~7u);
        wr->wr.atomic.rkey = any_key(w);
    } else {
        wr->wr.rdma.remote_addr = (uintptr_t)w->memory + below(w, BUF_SIZE / 2);
        wr->wr.rdma.rkey = any_key(w);
    }
}

static void send_turn(struct walk *w, uint32_t slot)
{
    struct ibv_send_wr wrs[LIST] = {0};
    struct ibv_sge sges[LIST][SGES];
    struct ibv_send_wr *bad = NULL;
    struct ibv_qp *qp = ANY(w, qp);
    uint32_t count = 1 + below(w, LIST);
    int error;

    (void)slot;
    for (uint32_t i = 0; i < count && qp != NULL; i++) {
        draw_sges(w, sges[i]);
        wrs[i] = (struct ibv_send_wr){
            .wr_id = i,
            .next = i + 1 < count ? &wrs[i + 1] : NULL,
            .sg_list = sges[i],
            .num_sge = (int)likely(w, 4),
            .opcode = (enum ibv_wr_opcode)likely(w, 16),
            .send_flags = likely(w, 32),
        };
        if ((wrs[i].send_flags & IBV_SEND_INLINE) != 0)
            make_inline(w, &wrs[i]);
        draw_operands(w, qp, &wrs[i]);
    }
    if (qp == NULL)
        return;
    error = ibv_post_send(qp, wrs, &bad);
    must(error >= 0);
    if (error > 0)
        must(bad >= wrs && bad < wrs + count);
}

static void receive_turn(struct walk *w, uint32_t slot)
{
    struct ibv_sge sges[SGES];
    struct ibv_recv_wr wr = {.sg_list = sges, .num_sge = (int)likely(w, 3)};
    struct ibv_recv_wr *bad = NULL;
    struct ibv_srq *srq = ANY(w, srq);
    struct ibv_qp *qp = ANY(w, qp);
    int error = 0;

    (void)slot;
    draw_sges(w, sges);
    if (rarely(w))
        wr.next = &wr; /* a list without an end */
    if (srq != NULL && below(w, 2) == 0)
        error = ibv_post_srq_recv(srq, &wr, &bad);
    else if (qp != NULL)
        error = ibv_post_recv(qp, &wr, &bad);
    must(error >= 0);
    if (error > 0)
        must(bad == &wr);
}

static void build_one(struct walk *w, struct ibv_qp_ex *qp)
{
    uint64_t there = (uintptr_t)w->memory + below(w, 1000);
    struct ibv_sge sges[SGES];

    draw_sges(w, sges);
    qp->wr_id = odd(w);
    qp->wr_flags = likely(w, 32);
    switch (below(w, 10)) {
    case 0:
        ibv_wr_send(qp);
        break;
    case 1:
        ibv_wr_rdma_write(qp, any_key(w), there);
        break;
    case 2:
        ibv_wr_rdma_read(qp, any_key(w), there);
        break;
    case 3:
        ibv_wr_atomic_fetch_add(qp, any_key(w), there & ~7ull, 1);
        break;
    case 4:
        ibv_wr_local_inv(qp, any_key(w));
        break;
    case 5:
        ibv_wr_send_inv(qp, any_key(w));
        break;
    case 6:
        ibv_wr_set_sge(qp, sges[0].lkey, sges[0].addr, sges[0].length);
        break;
    case 7:
        ibv_wr_set_sge_list(qp, below(w, SGES), sges);
        break;
    case 8:
        ibv_wr_set_inline_data(qp, w->memory, below(w, BUF_SIZE));
        break;
    case 9:
        if (w->shared->ah[0] != NULL)
            ibv_wr_set_ud_addr(qp, w->shared->ah[0], odd(w), QKEY);
        break;
    }
}

/* Only with one's own: between start and complete the queue pair is its thread's. */
static void build_turn(struct walk *w, uint32_t slot)
{
    struct ibv_qp *qp = w->own.qp[slot];
    struct ibv_qp_ex *ex = qp != NULL ? ibv_qp_to_qp_ex(qp) : NULL;

    if (ex == NULL)
        return;
    ibv_wr_start(ex);
    for (uint32_t n = below(w, 6); n > 0; n--)
        build_one(w, ex);
    if (rarely(w))
        ibv_wr_abort(ex);
    else
        must(ibv_wr_complete(ex) >= 0);
}

/* --- completions and events --- */

static void poll_turn(struct walk *w, uint32_t slot)
{
    struct ibv_cq *cq = ANY(w, cq);
    struct ibv_wc wc[16];

    (void)slot;
    if (cq == NULL)
        return;
    must(ibv_poll_cq(cq, (int)below(w, 17), wc) <= 16);
    if (rarely(w))
        must(ibv_resize_cq(cq, (int)likely(w, 300)) >= 0);
    if (rarely(w))
        must(ibv_req_notify_cq(cq, (int)likely(w, 2)) >= 0);
}

static void event_turn(struct walk *w, uint32_t slot)
{
    struct ibv_comp_channel *channel = w->own.channel[slot];
    struct ibv_async_event event;
    struct ibv_cq *cq;
    void *of_the_cq;

    if (channel != NULL && ibv_get_cq_event(channel, &cq, &of_the_cq) == 0) {
        must(of_the_cq == w);
        ibv_ack_cq_events(cq, 1);
    }
    if (ibv_get_async_event(w->context, &event) == 0)
        ibv_ack_async_event(&event);
}

static void bind_turn(struct walk *w, uint32_t slot)
{
    struct ibv_qp *qp = ANY(w, qp);
    struct ibv_mw *mw = ANY(w, mw);
    struct ibv_mr *mr = ANY(w, mr);
    struct ibv_mw_bind bind = {.send_flags = likely(w, 32)};

    (void)slot;
    if (qp == NULL || mw == NULL || mr == NULL)
        return;
    bind.bind_info = (struct ibv_mw_bind_info){mr, (uintptr_t)w->memory, likely(w, 1000),
                                               rarely(w) ? odd(w) : REMOTE_RIGHTS};
    must(ibv_bind_mw(qp, mw, &bind) >= 0);
}

/* --- walks --- */

static void (*const turns[])(struct walk *, uint32_t) = {
    pd_turn,      channel_turn, cq_turn,   srq_turn,   mr_turn,     mw_turn,      ah_turn,
    dm_turn,      qp_turn,      qp_turn,   group_turn, modify_turn, connect_turn, connect_turn,
    connect_turn, send_turn,    send_turn, send_turn,  send_turn,   send_turn,    receive_turn,
    receive_turn, build_turn,   poll_turn, poll_turn,  poll_turn,   event_turn,   bind_turn,
};

#define DESTROY_ALL(t, kind, destroy)                                                              \
    for (uint32_t i = 0; i < OBJECTS; i++)                                                         \
        if ((t)->kind[i] != NULL)                                                                  \
    must(destroy((t)->kind[i]) == 0)

static void destroy_all(struct things *t)
{
    DESTROY_ALL(t, qp, leave_and_destroy);
    DESTROY_ALL(t, srq, ibv_destroy_srq);
    DESTROY_ALL(t, ah, ibv_destroy_ah);
    DESTROY_ALL(t, mw, ibv_dealloc_mw);
    DESTROY_ALL(t, mr, ibv_dereg_mr);
    DESTROY_ALL(t, cq, ibv_destroy_cq);
    DESTROY_ALL(t, channel, ibv_destroy_comp_channel);
    DESTROY_ALL(t, dm, ibv_free_dm);
    DESTROY_ALL(t, pd, ibv_dealloc_pd);
}

/* Some of each kind that walkers share, all good and of one domain. */
static void share(struct walk *w)
{
    struct things *t = &w->own;

    t->pd[0] = ibv_alloc_pd(w->context);
    for (uint32_t i = 0; i < 4; i++) {
        struct ibv_qp_init_attr init = {.cap = {32, 32, 2, 2, 100},
                                        .qp_type = i == 3 ? IBV_QPT_UD : IBV_QPT_RC};

        t->cq[i] = ibv_create_cq(w->context, 100, NULL, NULL, 0);
        t->mr[i] = ibv_reg_mr(t->pd[0], w->memory, BUF_SIZE,
                              IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND | REMOTE_RIGHTS);
        t->mw[i] = ibv_alloc_mw(t->pd[0], i % 2 == 0 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2);
        t->ah[i] = ibv_create_ah(t->pd[0], &w->address);
        init.send_cq = init.recv_cq = t->cq[i];
        t->qp[i] = ibv_create_qp(t->pd[0], &init);
        assert_non_null(t->qp[i]);
    }
}

static struct walk walk_begin(uint64_t seed)
{
    struct walk w = {.dice = dice_make(seed, 1), .context = open_loopback()};
    int index = gid_index(w.context, true);

    w.address = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
    w.address.grh.sgid_index = (uint8_t)index;
    w.address.grh.hop_limit = 64;
    assert_int_equal(ibv_query_gid(w.context, 1, index, &w.address.grh.dgid), 0);
    assert_int_equal(fcntl(w.context->async_fd, F_SETFL, O_NONBLOCK), 0);
    w.memory = calloc(1, BUF_SIZE);
    assert_non_null(w.memory);
    return w;
}

static void walk_end(struct walk *w)
{
    destroy_all(&w->own);
    assert_int_equal(ibv_close_device(w->context), 0);
    free(w->memory);
}

static void walk_steps(struct walk *w)
{
    for (uint32_t i = 0; i < STEPS; i++)
        turns[below(w, COUNT_OF(turns))](w, below(w, OBJECTS));
}

static void one_walker_gets_to_the_end(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct walk w = walk_begin(seed);

        w.shared = &w.own;
        walk_steps(&w);
        walk_end(&w);
    }
}

static void *walker(void *argument)
{
    struct walk *w = argument;

    walk_steps(w);
    destroy_all(&w->own);
    return NULL;
}

static void walkers_who_share_objects_get_to_the_end(void **state)
{
    struct walk common = walk_begin(100);
    struct walk walks[WALKERS];
    pthread_t threads[WALKERS];

    (void)state;
    share(&common);
    for (uint32_t i = 0; i < WALKERS; i++) {
        walks[i] = common;
        walks[i].dice = dice_make(101, i);
        walks[i].own = (struct things){0};
        walks[i].shared = &common.own;
        assert_int_equal(pthread_create(&threads[i], NULL, walker, &walks[i]), 0);
    }
    for (uint32_t i = 0; i < WALKERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    walk_end(&common);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_walker_gets_to_the_end),
        cmocka_unit_test(walkers_who_share_objects_get_to_the_end),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
