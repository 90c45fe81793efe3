/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The work request builder. Whatever the engine could refuse in one request
 * is judged while the list is built; what it could refuse at the post (state,
 * room) is the same for all. So a list is posted whole or not at all.
 *
 * The first error is kept and returned by ibv_wr_complete. Between start and
 * end the builder belongs to one thread.
 */
#include "verbs/wr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/limits.h"
#include "verbs/ah.h"
#include "verbs/context.h"
#include "verbs/mw.h"
#include "verbs/pd.h"
#include "verbs/post.h"
#include "verbs/qp.h"

#define DATA_ALIGN 8u
#define DATA_CAPACITY_MIN 256u

#define SEND_FLAGS_USED (IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED)
/* A program may say inline here too; what counts is the setter that it calls. */
#define SEND_FLAGS_KNOWN (SEND_FLAGS_USED | IBV_SEND_INLINE)

struct built_wr {
    struct send_wr wr;
    size_t data_offset; /* of its SGEs, or of its inline bytes */
    size_t data_len;    /* of its inline bytes */
    bool addressed;     /* UD: it has an address; XRC: it names an SRQ */
};

/* Storage grows to the longest list that was built, and stays. */
struct wr_builder {
    pthread_mutex_t mutex; /* from start to complete or abort */
    uint64_t operations;   /* enum ibv_qp_create_send_ops_flags */
    bool building;
    int error; /* the first, a positive errno */
    struct built_wr *wrs;
    uint32_t count;
    uint32_t capacity;
    uint8_t *data;
    size_t data_len;
    size_t data_capacity;
};

static void fail(struct wr_builder *b, int error)
{
    if (b->error == 0)
        b->error = error;
}

/* --- storage --- */

static bool grow_wrs(struct wr_builder *b)
{
    uint32_t capacity = b->capacity == 0 ? 4 : 2 * b->capacity;
    struct built_wr *wrs = realloc(b->wrs, capacity * sizeof(*wrs));

    if (wrs == NULL)
        return false;
    b->wrs = wrs;
    b->capacity = capacity;
    return true;
}

/* Room for len bytes at the end of data; NULL without memory. */
static uint8_t *reserve_data(struct wr_builder *b, size_t len)
{
    size_t start = (b->data_len + DATA_ALIGN - 1) & ~(size_t)(DATA_ALIGN - 1);
    size_t capacity = b->data_capacity;
    uint8_t *data;

    if (start + len > capacity || b->data == NULL) {
        capacity = 2 * (start + len) + DATA_CAPACITY_MIN;
        data = realloc(b->data, capacity);
        if (data == NULL)
            return NULL;
        b->data = data;
        b->data_capacity = capacity;
    }
    b->data_len = start + len;
    return b->data + start;
}

/* Local operations have no data and no destination. */
static bool takes_setters(enum wr_opcode opcode)
{
    return opcode != WR_BIND_MW && opcode != WR_LOCAL_INV;
}

/* The request that setters speak of; NULL, with the error noted, when there is none. */
static struct built_wr *last(struct qp_handle *h)
{
    struct wr_builder *b = h->builder;

    if (!b->building || b->count == 0 || !takes_setters(b->wrs[b->count - 1].wr.opcode))
        fail(b, EINVAL);
    return b->error == 0 ? &b->wrs[b->count - 1] : NULL;
}

/* Begins a request; NULL, with the error noted, when it cannot be. */
static struct send_wr *begin(struct ibv_qp_ex *ibv, enum wr_opcode opcode, uint64_t operation)
{
    struct qp_handle *h = qp_of_ex(ibv);
    struct wr_builder *b = h->builder;

    if (!b->building)
        return NULL;
    if ((b->operations & operation) == 0)
        fail(b, EOPNOTSUPP);
    else if ((ibv->wr_flags & ~(unsigned)SEND_FLAGS_KNOWN) != 0)
        fail(b, EINVAL);
    else if (b->count == h->cap.send_wr_max)
        fail(b, ENOMEM);
    else if (b->count == b->capacity && !grow_wrs(b))
        fail(b, ENOMEM);
    if (b->error != 0)
        return NULL;
    b->wrs[b->count] = (struct built_wr){
        .wr = {.wr_id = ibv->wr_id, .opcode = opcode, .flags = ibv->wr_flags & SEND_FLAGS_USED}};
    return &b->wrs[b->count++].wr;
}

/* --- operations --- */

static void wr_send(struct ibv_qp_ex *qp)
{
    begin(qp, WR_SEND, IBV_QP_EX_WITH_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *qp, __be32 imm_data)
{
    struct send_wr *wr = begin(qp, WR_SEND_IMM, IBV_QP_EX_WITH_SEND_WITH_IMM);

    if (wr != NULL)
        wr->imm = ntohl(imm_data);
}

static void wr_send_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
    struct send_wr *wr = begin(qp, WR_SEND_INV, IBV_QP_EX_WITH_SEND_WITH_INV);

    if (wr != NULL)
        wr->imm = invalidate_rkey;
}

static struct send_wr *begin_remote(struct ibv_qp_ex *qp, enum wr_opcode opcode, uint64_t operation,
                                    const struct send_wr *remote)
{
    struct send_wr *wr = begin(qp, opcode, operation);

    if (wr != NULL) {
        wr->rkey = remote->rkey;
        wr->remote_addr = remote->remote_addr;
        wr->compare = remote->compare;
        wr->swap = remote->swap;
        wr->imm = remote->imm;
    }
    return wr;
}

static void wr_rdma_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
    const struct send_wr remote = {.rkey = rkey, .remote_addr = remote_addr};

    begin_remote(qp, WR_READ, IBV_QP_EX_WITH_RDMA_READ, &remote);
}

static void wr_rdma_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr)
{
    const struct send_wr remote = {.rkey = rkey, .remote_addr = remote_addr};

    begin_remote(qp, WR_WRITE, IBV_QP_EX_WITH_RDMA_WRITE, &remote);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                              __be32 imm_data)
{
    const struct send_wr remote = {
        .rkey = rkey, .remote_addr = remote_addr, .imm = ntohl(imm_data)};

    begin_remote(qp, WR_WRITE_IMM, IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, &remote);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                              uint64_t compare, uint64_t swap)
{
    const struct send_wr remote = {
        .rkey = rkey, .remote_addr = remote_addr, .compare = compare, .swap = swap};

    begin_remote(qp, WR_CMP_SWAP, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, &remote);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                                uint64_t add)
{
    const struct send_wr remote = {.rkey = rkey, .remote_addr = remote_addr, .compare = add};

    begin_remote(qp, WR_FETCH_ADD, IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, &remote);
}

/* The list's data holds what the bind asks for, as it holds others' SGEs. */
static void wr_bind_mw(struct ibv_qp_ex *qp, struct ibv_mw *mw, uint32_t rkey,
                       const struct ibv_mw_bind_info *bind_info)
{
    struct wr_builder *b = qp_of_ex(qp)->builder;
    struct mw_bind bind;
    uint8_t *to;

    if (begin(qp, WR_BIND_MW, IBV_QP_EX_WITH_BIND_MW) == NULL)
        return;
    if (mw_bind_type_2(mw, rkey, bind_info, &bind) != 0) {
        fail(b, EINVAL);
        return;
    }
    to = reserve_data(b, sizeof(bind));
    if (to == NULL) {
        fail(b, ENOMEM);
        return;
    }
    memcpy(to, &bind, sizeof(bind));
    b->wrs[b->count - 1].data_offset = (size_t)(to - b->data);
}

static void wr_local_inv(struct ibv_qp_ex *qp, uint32_t invalidate_rkey)
{
    struct send_wr *wr = begin(qp, WR_LOCAL_INV, IBV_QP_EX_WITH_LOCAL_INV);

    if (wr != NULL)
        wr->imm = invalidate_rkey;
}

/* --- setters --- */

static void wr_set_ud_addr(struct ibv_qp_ex *qp, struct ibv_ah *ah, uint32_t remote_qpn,
                           uint32_t remote_qkey)
{
    struct qp_handle *h = qp_of_ex(qp);
    struct built_wr *built = last(h);

    if (built == NULL)
        return;
    if (ah == NULL || ah_of(ah)->ah.pd != pd_of(qp->qp_base.pd)->pd) {
        fail(h->builder, EINVAL);
        return;
    }
    built->wr.ah = &ah_of(ah)->ah;
    built->wr.remote_qpn = remote_qpn;
    built->wr.remote_qkey = remote_qkey;
    built->addressed = true;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *qp, uint32_t remote_srqn)
{
    struct qp_handle *h = qp_of_ex(qp);
    struct built_wr *built = last(h);

    if (built == NULL)
        return;
    if (qp->qp_base.qp_type != IBV_QPT_XRC_SEND) {
        fail(h->builder, EINVAL);
        return;
    }
    built->wr.remote_srqn = remote_srqn;
    built->addressed = true;
}

static void wr_set_sge_list(struct ibv_qp_ex *qp, size_t num_sge, const struct ibv_sge *sg_list)
{
    struct qp_handle *h = qp_of_ex(qp);
    struct wr_builder *b = h->builder;
    struct built_wr *built = last(h);
    uint64_t length = 0;
    uint8_t *to;

    if (built == NULL)
        return;
    if (num_sge > h->cap.send_sge_max) {
        fail(b, EINVAL);
        return;
    }
    for (size_t i = 0; i < num_sge; i++)
        length += sg_list[i].length;
    if (length > MESSAGE_LEN_MAX) {
        fail(b, EINVAL);
        return;
    }
    to = reserve_data(b, num_sge * sizeof(*sg_list));
    if (to == NULL) {
        fail(b, ENOMEM);
        return;
    }
    if (num_sge > 0)
        memcpy(to, sg_list, num_sge * sizeof(*sg_list));
    built->data_offset = (size_t)(to - b->data);
    built->wr.sge_count = (uint32_t)num_sge;
    built->wr.flags &= ~(unsigned)WR_INLINE;
}

static void wr_set_sge(struct ibv_qp_ex *qp, uint32_t lkey, uint64_t addr, uint32_t length)
{
    const struct ibv_sge sge = {.addr = addr, .length = length, .lkey = lkey};

    wr_set_sge_list(qp, 1, &sge);
}

/* IBA 10.7.2.3 and the man page: only what carries data away can be inline. */
static bool may_be_inline(enum wr_opcode opcode)
{
    return opcode != WR_READ && opcode != WR_CMP_SWAP && opcode != WR_FETCH_ADD;
}

static void wr_set_inline_data_list(struct ibv_qp_ex *qp, size_t num_buf,
                                    const struct ibv_data_buf *buf_list)
{
    struct qp_handle *h = qp_of_ex(qp);
    struct wr_builder *b = h->builder;
    struct built_wr *built = last(h);
    size_t room = h->cap.inline_max;
    uint8_t *to;

    if (built == NULL)
        return;
    for (size_t i = 0; i < num_buf; i++) {
        if (buf_list[i].length > room || !may_be_inline(built->wr.opcode)) {
            fail(b, EINVAL);
            return;
        }
        room -= buf_list[i].length;
    }
    built->data_len = h->cap.inline_max - room;
    to = reserve_data(b, built->data_len);
    if (to == NULL) {
        fail(b, ENOMEM);
        return;
    }
    built->data_offset = (size_t)(to - b->data);
    for (size_t i = 0; i < num_buf; i++) {
        if (buf_list[i].length > 0)
            memcpy(to, buf_list[i].addr, buf_list[i].length);
        to += buf_list[i].length;
    }
    built->wr.sge_count = 1;
    built->wr.flags |= WR_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *qp, void *addr, size_t length)
{
    const struct ibv_data_buf buf = {.addr = addr, .length = length};

    wr_set_inline_data_list(qp, 1, &buf);
}

/* The eight bytes are read now, and no setter follows. */
static void wr_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t remote_addr,
                            const void *atomic_wr)
{
    const struct send_wr remote = {.rkey = rkey, .remote_addr = remote_addr};
    const struct ibv_data_buf buf = {.addr = (void *)(uintptr_t)atomic_wr,
                                     .length = sizeof(uint64_t)};

    if (begin_remote(qp, WR_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE, &remote) != NULL)
        wr_set_inline_data_list(qp, 1, &buf);
}

/* --- what is not built: the list is refused --- */

static void refuse(struct ibv_qp_ex *qp)
{
    fail(qp_of_ex(qp)->builder, EOPNOTSUPP);
}

static void wr_send_tso(struct ibv_qp_ex *qp, void *hdr, uint16_t hdr_sz, uint16_t mss)
{
    (void)hdr;
    (void)hdr_sz;
    (void)mss;
    refuse(qp);
}

/* --- start, complete, abort --- */

static void wr_start(struct ibv_qp_ex *qp)
{
    struct wr_builder *b = qp_of_ex(qp)->builder;

    pthread_mutex_lock(&b->mutex);
    b->building = true;
    b->error = 0;
    b->count = 0;
    b->data_len = 0;
}

static void end(struct wr_builder *b)
{
    b->building = false;
    pthread_mutex_unlock(&b->mutex);
}

/* What is sent without a connection, or to one of many queues behind it, says where to. */
static bool destinations_known(const struct qp_handle *h)
{
    enum ibv_qp_type type = h->ibv.qp_base.qp_type;

    if (type != IBV_QPT_UD && type != IBV_QPT_XRC_SEND)
        return true;
    for (uint32_t i = 0; i < h->builder->count; i++)
        if (!h->builder->wrs[i].addressed)
            return false;
    return true;
}

static int post_one(struct qp_handle *h, const struct built_wr *built)
{
    struct send_wr wr = built->wr;
    struct sge inlined = {.length = (uint32_t)built->data_len};
    uint8_t *data = NULL;

    if (wr.opcode == WR_BIND_MW)
        wr.bind = (const struct mw_bind *)(void *)(h->builder->data + built->data_offset);
    if (wr.sge_count > 0)
        data = h->builder->data + built->data_offset;
    inlined.addr = (uintptr_t)data;
    wr.sges = (wr.flags & WR_INLINE) != 0 ? &inlined : (const struct sge *)(void *)data;
    return qp_post_send(h->qp, &wr);
}

/* 0 or an errno; then nothing was posted. */
static int post_list(struct qp_handle *h)
{
    const struct wr_builder *b = h->builder;
    struct node *node = h->context->node;
    int error = 0;

    if (!destinations_known(h))
        return EINVAL;
    node_enter(node);
    if (b->count > qp_send_room(h->qp))
        error = -ENOMEM;
    for (uint32_t i = 0; i < b->count && error == 0; i++)
        error = post_one(h, &b->wrs[i]);
    qp_handle_leave_posted(h);
    return -error;
}

static int wr_complete(struct ibv_qp_ex *qp)
{
    struct qp_handle *h = qp_of_ex(qp);
    struct wr_builder *b = h->builder;
    int error = b->building ? b->error : EINVAL;

    if (!b->building)
        return error;
    if (error == 0)
        error = context_alive(h->context) ? post_list(h) : EIO;
    end(b);
    return error;
}

static void wr_abort(struct ibv_qp_ex *qp)
{
    struct wr_builder *b = qp_of_ex(qp)->builder;

    if (b->building)
        end(b);
}

/* --- the object --- */

uint64_t wr_operations_of(enum ibv_qp_type type)
{
    const uint64_t ud = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    const uint64_t uc = ud | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                        IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV;
    const uint64_t rc = uc | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                        IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV |
                        IBV_QP_EX_WITH_ATOMIC_WRITE;

    switch (type) {
    case IBV_QPT_RC:
    case IBV_QPT_XRC_SEND:
        return rc;
    case IBV_QPT_UC:
        return uc;
    case IBV_QPT_UD:
        return ud;
    case IBV_QPT_RAW_PACKET:
    case IBV_QPT_XRC_RECV:
    case IBV_QPT_DRIVER:
        break;
    }
    return 0;
}

/* The header calls these without a check, so none is left empty. */
static void fill(struct ibv_qp_ex *qp)
{
    qp->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    qp->wr_atomic_fetch_add = wr_atomic_fetch_add;
    qp->wr_bind_mw = wr_bind_mw;
    qp->wr_local_inv = wr_local_inv;
    qp->wr_rdma_read = wr_rdma_read;
    qp->wr_rdma_write = wr_rdma_write;
    qp->wr_rdma_write_imm = wr_rdma_write_imm;
    qp->wr_send = wr_send;
    qp->wr_send_imm = wr_send_imm;
    qp->wr_send_inv = wr_send_inv;
    qp->wr_send_tso = wr_send_tso;
    qp->wr_set_ud_addr = wr_set_ud_addr;
    qp->wr_set_xrc_srqn = wr_set_xrc_srqn;
    qp->wr_set_inline_data = wr_set_inline_data;
    qp->wr_set_inline_data_list = wr_set_inline_data_list;
    qp->wr_set_sge = wr_set_sge;
    qp->wr_set_sge_list = wr_set_sge_list;
    qp->wr_start = wr_start;
    qp->wr_complete = wr_complete;
    qp->wr_abort = wr_abort;
    qp->wr_atomic_write = wr_atomic_write;
}

int wr_builder_attach(struct qp_handle *h, uint64_t operations)
{
    struct wr_builder *b = calloc(1, sizeof(*b));

    if (b == NULL)
        return ENOMEM;
    b->operations = operations;
    pthread_mutex_init(&b->mutex, NULL);
    fill(&h->ibv);
    h->builder = b;
    return 0;
}

void wr_builder_free(struct wr_builder *b)
{
    if (b == NULL)
        return;
    pthread_mutex_destroy(&b->mutex);
    free(b->wrs);
    free(b->data);
    free(b);
}
