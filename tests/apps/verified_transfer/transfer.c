/* SPDX-License-Identifier: BSD-2-Clause */
#include "transfer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ending.h"
#include "meeting.h"

#define ANSWER 0x80000000u /* in immediate data: the other has seen this operation of ours */
#define DONE 'D'

/* What a work request was for: the high half of wr_id. */
enum work { WORK_RECEIVE, WORK_OPERATION, WORK_ANSWER, WORK_PROBE };

struct operation {
    uint32_t number;
    bool busy;
};

struct lane { /* one queue pair */
    struct ibv_qp *qp;
    uint32_t peer_qpn;
    uint32_t started;
    uint32_t running;
    uint32_t atomics; /* that came back */
    uint64_t base;    /* offset of its memory, the same in both processes */
    struct operation *operations;
};

struct transfer {
    const struct endpoint *endpoint;
    struct plan plan;
    int fd;
    bool told; /* we said that we are done */
    bool other_done;
    bool probed; /* the other has died, and we have sent it something since */
    uint64_t verified_bytes;
    uint64_t verified_ops;
    uint8_t *memory;
    struct ibv_mr *mr;
    uint64_t peer_memory;
    uint32_t peer_rkey;
    struct lane lanes[TRANSFER_QPS_MAX];
};

/* What each tells the other. */
struct introduction {
    uint64_t memory;
    uint32_t rkey;
    uint32_t size, depth, qps, kind_count;
    union ibv_gid gid;
    uint32_t qpns[TRANSFER_QPS_MAX];
};

/*
 * Memory of a lane, in places of the size of a message:
 *   2 * depth receives | depth written by the peer | depth to send from | depth to read to | 1 that
 *   the peer reads | 1 with the counter of the peer's atomics
 */
static uint64_t place_len(const struct plan *p)
{
    return ((uint64_t)p->size + 127) / 64 * 64;
}

static uint64_t lane_len(const struct plan *p)
{
    return (5ull * p->depth + 2) * place_len(p);
}

static uint64_t place(const struct transfer *t, const struct lane *l, uint32_t index)
{
    return l->base + index * place_len(&t->plan);
}

static uint32_t index_written(const struct plan *p, uint32_t number)
{
    return 2 * p->depth + number % p->depth;
}

static uint32_t index_out(const struct plan *p, uint32_t number)
{
    return 3 * p->depth + number % p->depth;
}

static uint32_t index_read(const struct plan *p, uint32_t number)
{
    return 4 * p->depth + number % p->depth;
}

static uint32_t index_served(const struct plan *p)
{
    return 5 * p->depth;
}

static uint32_t index_counter(const struct plan *p)
{
    return 5 * p->depth + 1;
}

/* Bytes that tell their sender, their operation and their place. */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint64_t word_at(uint64_t key, uint64_t i)
{
    return mix(key + i * 0x9e3779b97f4a7c15u);
}

static void fill(uint8_t *to, uint32_t len, uint64_t key)
{
    for (uint32_t i = 0; i < len; i += 8) {
        uint64_t word = word_at(key, i / 8);

        memcpy(to + i, &word, len - i < 8 ? len - i : 8);
    }
}

static void check(const uint8_t *from, uint32_t len, uint64_t key, const char *what)
{
    for (uint32_t i = 0; i < len; i += 8) {
        uint64_t word = word_at(key, i / 8);

        if (memcmp(from + i, &word, len - i < 8 ? len - i : 8) != 0)
            end_badly("%s: wrong data near byte %u of %u", what, i, len);
    }
}

static uint64_t key_of(uint32_t sender_qpn, uint32_t number)
{
    return mix((uint64_t)sender_qpn << 32 | number);
}

/* What is read is the same at all times. */
static uint64_t key_served(uint32_t owner_qpn)
{
    return key_of(owner_qpn, UINT32_MAX);
}

static enum kind kind_of(const struct plan *p, uint32_t number)
{
    return p->kinds[number % p->kind_count];
}

static uint32_t size_of(const struct plan *p, uint32_t number)
{
    if (kind_of(p, number) == KIND_ATOMIC)
        return sizeof(uint64_t);
    return p->exact ? p->size : (uint32_t)(mix(number) % ((uint64_t)p->size + 1));
}

/* Posting. */

static uint64_t work_id(enum work work, uint32_t value)
{
    return (uint64_t)work << 32 | value;
}

static struct ibv_sge sge_at(const struct transfer *t, uint64_t offset, uint32_t len)
{
    return (struct ibv_sge){
        .addr = (uintptr_t)t->memory + offset, .length = len, .lkey = t->mr->lkey};
}

static void post(struct lane *l, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    int error = ibv_post_send(l->qp, wr, &bad);

    if (error != 0)
        end_badly("ibv_post_send: %s", strerror(error));
}

static void post_receive(const struct transfer *t, struct lane *l, uint32_t index)
{
    struct ibv_sge sge = sge_at(t, place(t, l, index), t->plan.size);
    struct ibv_recv_wr wr = {.wr_id = work_id(WORK_RECEIVE, index), .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;

    if (ibv_post_recv(l->qp, &wr, &bad) != 0)
        end_badly("ibv_post_recv failed");
}

static void answer(struct lane *l, uint32_t number)
{
    post(l, &(struct ibv_send_wr){.wr_id = work_id(WORK_ANSWER, number),
                                  .opcode = IBV_WR_SEND_WITH_IMM,
                                  .send_flags = IBV_SEND_SIGNALED,
                                  .imm_data = htonl(ANSWER | number)});
}

/*
 * The other may have died between its acknowledgement of all that we sent and its answer. Then
 * nothing of ours is on its way, and a requester learns only from the time-outs of what is that its
 * peer is gone (IBA 9.7.6.1).
 */
static void probe(struct transfer *t)
{
    if (t->probed)
        return;
    t->probed = true;
    post(&t->lanes[0], &(struct ibv_send_wr){.wr_id = work_id(WORK_PROBE, 0),
                                             .opcode = IBV_WR_SEND_WITH_IMM,
                                             .send_flags = IBV_SEND_SIGNALED});
}

static void start(const struct transfer *t, struct lane *l, uint32_t number)
{
    static const enum ibv_wr_opcode opcodes[] = {
        [KIND_SEND] = IBV_WR_SEND_WITH_IMM,
        [KIND_WRITE] = IBV_WR_RDMA_WRITE_WITH_IMM,
        [KIND_READ] = IBV_WR_RDMA_READ,
        [KIND_ATOMIC] = IBV_WR_ATOMIC_FETCH_AND_ADD,
    };
    const struct plan *p = &t->plan;
    enum kind kind = kind_of(p, number);
    uint32_t size = size_of(p, number);
    bool out = kind == KIND_SEND || kind == KIND_WRITE;
    uint64_t offset = place(t, l, out ? index_out(p, number) : index_read(p, number));
    struct ibv_sge sge = sge_at(t, offset, size);
    struct ibv_send_wr wr = {.wr_id = work_id(WORK_OPERATION, number),
                             .sg_list = &sge,
                             .num_sge = size > 0 ? 1 : 0,
                             .opcode = opcodes[kind],
                             .send_flags = IBV_SEND_SIGNALED,
                             .imm_data = htonl(number)};

    if (out)
        fill(t->memory + offset, size, key_of(l->qp->qp_num, number));
    else
        memset(t->memory + offset, 0xee, size);
    if (kind == KIND_WRITE || kind == KIND_READ) {
        uint32_t index = kind == KIND_WRITE ? index_written(p, number) : index_served(p);

        wr.wr.rdma.remote_addr = t->peer_memory + place(t, l, index);
        wr.wr.rdma.rkey = t->peer_rkey;
    } else if (kind == KIND_ATOMIC) {
        wr.wr.atomic.remote_addr = t->peer_memory + place(t, l, index_counter(p));
        wr.wr.atomic.rkey = t->peer_rkey;
        wr.wr.atomic.compare_add = 1;
    }
    l->operations[number % p->depth] = (struct operation){.number = number, .busy = true};
    l->running++;
    post(l, &wr);
}

static bool may_start(const struct transfer *t, const struct lane *l)
{
    return l->started < t->plan.ops && !l->operations[l->started % t->plan.depth].busy;
}

void transfer_advance(struct transfer *t, bool stopping)
{
    bool done = true;

    for (uint32_t i = 0; i < t->plan.qps; i++) {
        struct lane *l = &t->lanes[i];

        while (!stopping && may_start(t, l))
            start(t, l, l->started++);
        done &= l->running == 0 && (stopping || l->started == t->plan.ops);
    }
    if (done && !t->told) {
        t->told = true;
        if (send(t->fd, &(char){DONE}, 1, MSG_NOSIGNAL) != 1)
            end_peer_gone();
    }
}

/* Completions. */

static void finish(struct transfer *t, struct lane *l, uint32_t number)
{
    struct operation *o = &l->operations[number % t->plan.depth];

    if (!o->busy || o->number != number)
        end_badly("operation %u is answered and was not open", number);
    o->busy = false;
    l->running--;
    t->verified_ops++;
    t->verified_bytes += size_of(&t->plan, number);
}

static void take_operation(struct transfer *t, struct lane *l, uint32_t number)
{
    const struct plan *p = &t->plan;
    const uint8_t *data = t->memory + place(t, l, index_read(p, number));
    uint64_t old;

    switch (kind_of(p, number)) {
    case KIND_READ:
        check(data, size_of(p, number), key_served(l->peer_qpn), "READ");
        finish(t, l, number);
        break;
    case KIND_ATOMIC:
        memcpy(&old, data, sizeof(old));
        if (old != l->atomics)
            end_badly("atomic %u found %" PRIu64, l->atomics, old);
        l->atomics++;
        finish(t, l, number);
        break;
    case KIND_SEND:
    case KIND_WRITE:
    case KIND_COUNT:
        break; /* done when the other answers */
    }
}

static void take_message(struct transfer *t, struct lane *l, const struct ibv_wc *wc)
{
    const struct plan *p = &t->plan;
    uint32_t index = (uint32_t)wc->wr_id;
    uint32_t number = ntohl(wc->imm_data);
    bool written = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM;

    if ((number & ANSWER) != 0) {
        post_receive(t, l, index);
        finish(t, l, number & ~ANSWER);
        return;
    }
    if (wc->byte_len != size_of(p, number) ||
        kind_of(p, number) != (written ? KIND_WRITE : KIND_SEND))
        end_badly("message %u has %u bytes or is of the wrong kind", number, wc->byte_len);
    check(t->memory + place(t, l, written ? index_written(p, number) : index), wc->byte_len,
          key_of(l->peer_qpn, number), written ? "WRITE" : "SEND");
    post_receive(t, l, index);
    answer(l, number);
}

static struct lane *lane_of(struct transfer *t, uint32_t qpn)
{
    for (uint32_t i = 0; i < t->plan.qps; i++)
        if (t->lanes[i].qp->qp_num == qpn)
            return &t->lanes[i];
    return NULL;
}

/* An error is the other's end when its connection has ended too, or a moment later. */
static void take_error(struct transfer *t, const struct ibv_wc *wc)
{
    char byte;

    if (t->told && transfer_is_over(t))
        return;
    usleep(100000);
    if (!t->plan.orphan &&
        (recv(t->fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0 || errno == ECONNRESET))
        end_peer_gone();
    end_badly("%s (work %" PRIu64 ", operation %u)", ibv_wc_status_str(wc->status), wc->wr_id >> 32,
              (uint32_t)wc->wr_id);
}

bool transfer_take(struct transfer *t, const struct ibv_wc *wc)
{
    struct lane *l = lane_of(t, wc->qp_num);

    if (l == NULL)
        return false;
    if (wc->status != IBV_WC_SUCCESS)
        take_error(t, wc);
    else if (wc->wr_id >> 32 == WORK_RECEIVE)
        take_message(t, l, wc);
    else if (wc->wr_id >> 32 == WORK_OPERATION)
        take_operation(t, l, (uint32_t)wc->wr_id);
    else if (wc->wr_id >> 32 == WORK_PROBE)
        end_badly("a process that has died acknowledges");
    return true;
}

bool transfer_is_over(struct transfer *t)
{
    char byte;
    ssize_t n = t->other_done ? -1 : recv(t->fd, &byte, 1, MSG_DONTWAIT);

    if (n == 0 || (n < 0 && !t->other_done && errno != EAGAIN)) {
        if (!t->plan.orphan)
            end_peer_gone();
        probe(t);
    }
    t->other_done |= n == 1 && byte == DONE;
    return t->told && t->other_done;
}

/* Beginning and end. */

static void create_lane(struct transfer *t, struct lane *l, uint32_t i)
{
    const struct endpoint *e = t->endpoint;
    const struct plan *p = &t->plan;
    struct ibv_qp_init_attr init = {
        .send_cq = e->cq,
        .recv_cq = e->cq,
        .cap = {.max_send_wr = 8 * p->depth + 16,
                .max_recv_wr = 2 * p->depth,
                .max_send_sge = 1,
                .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
                               .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                                  IBV_ACCESS_REMOTE_ATOMIC};

    l->base = i * lane_len(p);
    l->operations = calloc(p->depth, sizeof(*l->operations));
    l->qp = ibv_create_qp(e->pd, &init);
    if (l->operations == NULL || l->qp == NULL)
        end_badly("no queue pair: %s", strerror(errno));
    if (ibv_modify_qp(l->qp, &attr,
                      IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS) != 0)
        end_badly("ibv_modify_qp to INIT");
    for (uint32_t k = 0; k < 2 * p->depth; k++)
        post_receive(t, l, k);
    fill(t->memory + place(t, l, index_served(p)), p->size, key_served(l->qp->qp_num));
}

static void connect_lane(const struct transfer *t, struct lane *l, const union ibv_gid *gid)
{
    uint32_t depth =
        t->plan.depth < t->endpoint->depth_max ? t->plan.depth : t->endpoint->depth_max;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = t->plan.mtu,
        .dest_qp_num = l->peer_qpn,
        .rq_psn = l->peer_qpn,
        .max_dest_rd_atomic = (uint8_t)depth,
        .min_rnr_timer = 1,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.dgid = *gid,
                            .sgid_index = (uint8_t)t->endpoint->gid_index,
                            .hop_limit = 64}},
    };

    if (ibv_modify_qp(l->qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
        end_badly("ibv_modify_qp to RTR: %s", strerror(errno));
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                                .sq_psn = l->qp->qp_num,
                                .timeout = 14,
                                .retry_cnt = 7,
                                .rnr_retry = 7,
                                .max_rd_atomic = (uint8_t)depth};
    if (ibv_modify_qp(l->qp, &attr,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                          IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) != 0)
        end_badly("ibv_modify_qp to RTS");
}

static void meet(struct transfer *t)
{
    const struct plan *p = &t->plan;
    struct introduction ours = {.memory = (uintptr_t)t->memory,
                                .rkey = t->mr->rkey,
                                .size = p->size,
                                .depth = p->depth,
                                .qps = p->qps,
                                .kind_count = p->kind_count,
                                .gid = t->endpoint->gid};
    struct introduction theirs;

    for (uint32_t i = 0; i < p->qps; i++)
        ours.qpns[i] = t->lanes[i].qp->qp_num;
    meeting_swap(t->fd, &ours, &theirs, sizeof(ours));
    if (theirs.size != p->size || theirs.depth != p->depth || theirs.qps != p->qps ||
        theirs.kind_count != p->kind_count)
        end_badly("the other process has another plan");
    t->peer_memory = theirs.memory;
    t->peer_rkey = theirs.rkey;
    for (uint32_t i = 0; i < p->qps; i++) {
        t->lanes[i].peer_qpn = theirs.qpns[i];
        connect_lane(t, &t->lanes[i], &theirs.gid);
    }
    /* Nobody sends before both can receive. */
    meeting_swap(t->fd, &ours, &theirs, 1);
}

struct transfer *transfer_new(const struct endpoint *e, const struct plan *plan, int fd)
{
    struct transfer *t = calloc(1, sizeof(*t));
    uint64_t len = plan->qps * lane_len(plan);

    if (t == NULL)
        end_badly("out of memory");
    t->endpoint = e;
    t->plan = *plan;
    t->fd = fd;
    t->memory = aligned_alloc(4096, (len + 4095) / 4096 * 4096);
    if (t->memory == NULL)
        end_badly("out of memory");
    memset(t->memory, 0, len);
    t->mr = ibv_reg_mr(e->pd, t->memory, len,
                       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                           IBV_ACCESS_REMOTE_ATOMIC);
    if (t->mr == NULL)
        end_badly("ibv_reg_mr: %s", strerror(errno));
    for (uint32_t i = 0; i < plan->qps; i++)
        create_lane(t, &t->lanes[i], i);
    meet(t);
    return t;
}

void transfer_free(struct transfer *t)
{
    for (uint32_t i = 0; i < t->plan.qps; i++) {
        ibv_destroy_qp(t->lanes[i].qp);
        free(t->lanes[i].operations);
    }
    ibv_dereg_mr(t->mr);
    free(t->memory);
    close(t->fd);
    free(t);
}

int transfer_descriptor(const struct transfer *t)
{
    return t->fd;
}

uint64_t transfer_bytes(const struct transfer *t)
{
    return t->verified_bytes;
}

uint64_t transfer_ops(const struct transfer *t)
{
    return t->verified_ops;
}

uint32_t transfer_slot(const struct transfer *t)
{
    return t->lanes[0].qp->qp_num >> 16;
}
