/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Everything that can be wrong with a request, with each kind of request that it can be wrong
 * with, and what must come of it: how the request ends, how the receive request at the peer ends,
 * which asynchronous event the peer's program gets, and where both queue pairs stand afterwards
 * (IBA 9.7.4.1, 9.7.5.2, 9.8, 9.9.2, 9.9.3, 10.3.1, 10.8, 11.6.2).
 *
 * Two contexts of the loopback device, one for each side. Each cell of the matrix has a fresh
 * connection. Called with --table it prints the matrix as docs/errors.md has it.
 */
#include "error_matrix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BEHIND_ID 100u /* work requests posted behind the faulty one */
#define MARK_ID 200u   /* a good message that shows that what came before it is over */
#define FAULTY_ID 7u
#define RECV_ID 50u

/* --- one side of a connection --- */

static void side_open(struct side *s)
{
    const int rights = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                       IBV_ACCESS_REMOTE_ATOMIC;

    *s = (struct side){.context = open_loopback()};
    assert_int_equal(
        fcntl(s->context->async_fd, F_SETFL, fcntl(s->context->async_fd, F_GETFL) | O_NONBLOCK), 0);
    s->pd = ibv_alloc_pd(s->context);
    s->other_pd = ibv_alloc_pd(s->context);
    s->cq[SENDS] = ibv_create_cq(s->context, 64, NULL, NULL, 0);
    s->cq[RECEIVES] = ibv_create_cq(s->context, 64, NULL, NULL, 0);
    /* One page that may go away; then one that stays. */
    s->memory = mmap(NULL, MEMORY_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(s->memory, MAP_FAILED);
    s->mr[REGION_GOOD] = ibv_reg_mr(s->pd, s->memory, MEMORY_LEN, rights);
    s->mr[REGION_OTHER_PD] = ibv_reg_mr(s->other_pd, s->memory, MEMORY_LEN, rights);
    s->mr[REGION_NO_RIGHTS] = ibv_reg_mr(s->pd, s->memory, MEMORY_LEN, 0);
    s->mr[REGION_GONE] = ibv_reg_mr(s->pd, s->memory, MEMORY_LEN, rights);
    for (int i = 0; i < REGION_COUNT; i++) {
        assert_non_null(s->mr[i]);
        s->key[i] = s->mr[i]->lkey;
    }
    assert_int_equal(ibv_dereg_mr(s->mr[REGION_GONE]), 0);
    s->mr[REGION_GONE] = NULL;
}

static void side_close(struct side *s)
{
    if (s->qp != NULL)
        assert_int_equal(ibv_destroy_qp(s->qp), 0);
    for (int i = 0; i < REGION_COUNT; i++)
        if (s->mr[i] != NULL)
            assert_int_equal(ibv_dereg_mr(s->mr[i]), 0);
    if (s->ah != NULL)
        assert_int_equal(ibv_destroy_ah(s->ah), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ibv_destroy_cq(s->cq[i]), 0);
    assert_int_equal(ibv_dealloc_pd(s->other_pd), 0);
    assert_int_equal(ibv_dealloc_pd(s->pd), 0);
    assert_int_equal(ibv_close_device(s->context), 0);
    munmap(s->memory, MEMORY_LEN);
}

static void side_create_qp(struct side *s, enum ibv_qp_type type)
{
    struct ibv_qp_init_attr init = {
        .send_cq = s->cq[SENDS],
        .recv_cq = s->cq[RECEIVES],
        .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 1},
        .qp_type = type,
    };

    s->qp = ibv_create_qp(s->pd, &init);
    assert_non_null(s->qp);
}

static struct ibv_ah_attr loopback_address(const struct side *s)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
    int index = gid_index(s->context, true);

    attr.grh.sgid_index = (uint8_t)index;
    attr.grh.hop_limit = 64;
    assert_int_equal(ibv_query_gid(s->context, 1, index, &attr.grh.dgid), 0);
    return attr;
}

static void side_init(struct side *s, unsigned access)
{
    bool ud = s->qp->qp_type == IBV_QPT_UD;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY, .qp_access_flags = access};

    assert_int_equal(ibv_modify_qp(s->qp, &attr,
                                   IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
                                       (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
                     0);
}

static void side_rtr(struct side *s, uint32_t peer_qpn, uint8_t dest_reads)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_256,
                               .dest_qp_num = peer_qpn,
                               .rq_psn = 0xfffffe,
                               .max_dest_rd_atomic = dest_reads,
                               .min_rnr_timer = 1,
                               .ah_attr = loopback_address(s)};
    int mask = IBV_QP_STATE;

    if (s->qp->qp_type != IBV_QPT_UD)
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (s->qp->qp_type == IBV_QPT_RC)
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    assert_int_equal(ibv_modify_qp(s->qp, &attr, mask), 0);
}

static void side_rts(struct side *s, uint8_t reads)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .sq_psn = 0xfffffe,
                               .timeout = 1,
                               .retry_cnt = 1,
                               .rnr_retry = 1,
                               .max_rd_atomic = reads};
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

    if (s->qp->qp_type == IBV_QPT_RC)
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    assert_int_equal(ibv_modify_qp(s->qp, &attr, mask), 0);
}

static enum ibv_qp_state state_of(const struct side *s)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    if (s->qp == NULL)
        return GONE;
    assert_int_equal(ibv_query_qp(s->qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
}

/* --- a cell --- */

/* Some faults are in the attributes of the connection. */
static void connect(struct cell *c)
{
    const unsigned all =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    uint8_t reads = c->row->fault == FAULT_NO_READS_HERE ? 0 : 4;
    uint8_t dest_reads = c->row->fault == FAULT_NO_READS_THERE ? 0 : 4;

    side_create_qp(&c->a, c->row->type);
    side_create_qp(&c->b, c->row->type);
    side_init(&c->a, all);
    side_rtr(&c->a, c->b.qp->qp_num, 4);
    side_rts(&c->a, reads);
    if (c->row->type == IBV_QPT_UD) {
        struct ibv_ah_attr attr = loopback_address(&c->a);

        c->a.ah = ibv_create_ah(c->a.pd, &attr);
        assert_non_null(c->a.ah);
    }
    if (c->row->fault == FAULT_PEER_RESET)
        return;
    side_init(&c->b, c->row->fault == FAULT_QP_FORBIDS ? 0 : all);
    if (c->row->fault == FAULT_PEER_INIT)
        return;
    side_rtr(&c->b, c->a.qp->qp_num, dest_reads);
    if (c->row->fault != FAULT_PEER_RTR)
        side_rts(&c->b, 4);
}

static bool posts_a_receive(enum fault fault)
{
    return fault != FAULT_NO_RECEIVE && fault != FAULT_PEER_RESET && fault != FAULT_PEER_GONE;
}

static void post_receive_at(struct side *s, uint64_t id, const struct ibv_sge *sge)
{
    struct ibv_sge copy = *sge;
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &copy, .num_sge = 1};
    struct ibv_recv_wr *bad;

    assert_int_equal(ibv_post_recv(s->qp, &wr, &bad), 0);
}

/* --- keys and addresses that are not good --- */

enum place {
    LOCAL,   /* the request's SGE */
    REMOTE,  /* where it goes at the peer */
    RECEIVE, /* the peer's receive request */
};

struct spoilt_key {
    enum fault fault;
    enum place place;
    enum region region;
    uint32_t change;
};

static const struct spoilt_key spoilt_keys[] = {
    {FAULT_LOCAL_KEY, LOCAL, REGION_GOOD, 0x100},
    {FAULT_LOCAL_DEREGISTERED, LOCAL, REGION_GONE, 0},
    {FAULT_LOCAL_OTHER_PD, LOCAL, REGION_OTHER_PD, 0},
    {FAULT_LOCAL_READ_ONLY, LOCAL, REGION_NO_RIGHTS, 0},
    {FAULT_REMOTE_KEY, REMOTE, REGION_GOOD, 0x100},
    {FAULT_REMOTE_DEREGISTERED, REMOTE, REGION_GONE, 0},
    {FAULT_REMOTE_OTHER_PD, REMOTE, REGION_OTHER_PD, 0},
    {FAULT_REMOTE_NO_RIGHT, REMOTE, REGION_NO_RIGHTS, 0},
    {FAULT_RECEIVE_KEY, RECEIVE, REGION_GOOD, 0x100},
    {FAULT_RECEIVE_OTHER_PD, RECEIVE, REGION_OTHER_PD, 0},
    {FAULT_RECEIVE_READ_ONLY, RECEIVE, REGION_NO_RIGHTS, 0},
};

static uint32_t key_for(const struct cell *c, enum place place)
{
    const struct side *s = place == LOCAL ? &c->a : &c->b;

    for (size_t i = 0; i < COUNT_OF(spoilt_keys); i++)
        if (spoilt_keys[i].fault == c->row->fault && spoilt_keys[i].place == place)
            return s->key[spoilt_keys[i].region] ^ spoilt_keys[i].change;
    return s->key[REGION_GOOD];
}

struct target {
    uint64_t addr;
    uint32_t rkey;
};

static struct target target_for(const struct cell *c, uint32_t len)
{
    struct target t = {.addr = (uintptr_t)c->b.memory, .rkey = key_for(c, REMOTE)};

    if (c->row->fault == FAULT_REMOTE_END)
        t.addr += MEMORY_LEN - len + 8;
    else if (c->row->fault == FAULT_REMOTE_START)
        t.addr -= 8;
    else if (c->row->fault == FAULT_REMOTE_WRAPS)
        t.addr = -(uint64_t)len;
    else if (c->row->fault == FAULT_UNALIGNED)
        t.addr += 4;
    else if (c->row->fault == FAULT_NO_REMOTE_KEY_NEEDED)
        t = (struct target){0};
    return t;
}

static uint32_t length_of(const struct cell *c, enum ibv_wr_opcode opcode)
{
    if (c->row->fault == FAULT_NO_REMOTE_KEY_NEEDED)
        return 0;
    if (c->row->fault == FAULT_ATOMIC_LENGTH)
        return 4;
    if (c->row->fault == FAULT_TOO_LONG)
        return c->row->type == IBV_QPT_UD ? 65536 : 0x60000000;
    return operation_is_atomic(opcode) || opcode == IBV_WR_ATOMIC_WRITE ? 8 : MESSAGE_LEN;
}

static struct ibv_sge local_for(const struct cell *c, uint32_t len)
{
    struct ibv_sge sge = {.addr = (uintptr_t)c->a.memory, .length = len, .lkey = key_for(c, LOCAL)};

    if (c->row->fault == FAULT_LOCAL_BOUNDS)
        sge.addr += MEMORY_LEN - len + 1;
    return sge;
}

static void take_memory_away(const struct cell *c)
{
    uint8_t *page = NULL;

    if (c->row->fault == FAULT_LOCAL_MEMORY_GONE)
        page = c->a.memory;
    else if (c->row->fault == FAULT_REMOTE_MEMORY_GONE)
        page = c->b.memory;
    else if (c->row->fault == FAULT_RECEIVE_MEMORY_GONE)
        page = c->b.memory + RECEIVE_OFFSET;
    if (page != NULL)
        assert_int_equal(munmap(page, PAGE_LEN), 0);
}

/* Room for a message, away from what is taken away. */
static struct ibv_sge good_room(const struct cell *c)
{
    return (struct ibv_sge){.addr = (uintptr_t)c->b.memory + RECEIVE_OFFSET + PAGE_LEN,
                            .length = 1024,
                            .lkey = c->b.key[REGION_GOOD]};
}

static void post_faulty_receive(struct cell *c)
{
    struct ibv_sge sge = {.addr = (uintptr_t)c->b.memory + RECEIVE_OFFSET,
                          .length = 1024,
                          .lkey = key_for(c, RECEIVE)};
    struct ibv_sge room = good_room(c);

    if (!posts_a_receive(c->row->fault))
        return;
    if (c->row->fault == FAULT_RECEIVE_TOO_SHORT)
        sge.length = MESSAGE_LEN - 1 + (c->row->type == IBV_QPT_UD ? 40 : 0);
    post_receive_at(&c->b, RECV_ID, &sge);
    post_receive_at(&c->b, RECV_ID + 1, &room);
}

/* --- requests --- */

static struct ibv_send_wr request(const struct cell *c, enum ibv_wr_opcode opcode,
                                  struct ibv_sge *sge, const struct target *t)
{
    struct ibv_send_wr wr = {.wr_id = FAULTY_ID,
                             .opcode = opcode,
                             .sg_list = sge,
                             .num_sge = sge->length > 0 ? 1 : 0,
                             .send_flags = IBV_SEND_SIGNALED};

    if (opcode == IBV_WR_SEND_WITH_INV)
        wr.invalidate_rkey = t->rkey;
    if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = t->addr;
        wr.wr.atomic.rkey = t->rkey;
    } else if (c->row->type == IBV_QPT_UD) {
        wr.wr.ud.ah = c->a.ah;
        wr.wr.ud.remote_qpn = c->b.qp != NULL ? c->b.qp->qp_num : c->b_qpn;
        wr.wr.ud.remote_qkey = c->row->fault == FAULT_WRONG_QKEY ? QKEY + 1 : QKEY;
    } else {
        wr.wr.rdma.remote_addr = t->addr;
        wr.wr.rdma.rkey = t->rkey;
    }
    return wr;
}

static void post_at(struct side *s, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;

    assert_int_equal(ibv_post_send(s->qp, wr, &bad), 0);
}

static void change_states_before(struct cell *c)
{
    if (c->row->fault == FAULT_PEER_ERR)
        assert_int_equal(to_state(c->b.qp, IBV_QPS_ERR), 0);
    else if (c->row->fault == FAULT_PEER_SQD)
        assert_int_equal(to_state(c->b.qp, IBV_QPS_SQD), 0);
    else if (c->row->fault == FAULT_OWN_ERR)
        assert_int_equal(to_state(c->a.qp, IBV_QPS_ERR), 0);
    else if (c->row->fault == FAULT_PEER_GONE) {
        c->b_qpn = c->b.qp->qp_num;
        assert_int_equal(ibv_destroy_qp(c->b.qp), 0);
        c->b.qp = NULL;
    }
}

/* The request with its fault, and, where it stops the queue, a good one behind it. */
static void post_requests(struct cell *c, enum ibv_wr_opcode opcode)
{
    uint32_t len = length_of(c, opcode);
    struct ibv_sge sges[2] = {local_for(c, len), local_for(c, len)};
    struct ibv_sge good = {
        .addr = (uintptr_t)c->a.memory + PAGE_LEN, .length = 8, .lkey = c->a.key[REGION_GOOD]};
    struct target t = target_for(c, len);
    struct ibv_send_wr wr = request(c, opcode, sges, &t);

    if (c->row->fault == FAULT_TOO_LONG)
        wr.num_sge = 2; /* more than 2^31 bytes together */
    post_at(&c->a, &wr);
    if (c->row->own_state == IBV_QPS_RTS)
        return;
    wr = request(c, IBV_WR_SEND, &good, &t);
    wr.wr_id = BEHIND_ID;
    post_at(&c->a, &wr);
}

/* --- what came of it --- */

static void expect_peers_receive(struct cell *c)
{
    struct ibv_wc wc;

    if (c->row->receive == RECEIVE_STAYS || !posts_a_receive(c->row->fault))
        return;
    wc = poll_one(c->b.cq[RECEIVES]);
    assert_int_equal(wc.wr_id, RECV_ID);
    assert_int_equal(wc.status, c->row->receive);
    if (c->row->peer_state != IBV_QPS_ERR)
        return;
    wc = poll_one(c->b.cq[RECEIVES]); /* the other receive request goes, too */
    assert_int_equal(wc.wr_id, RECV_ID + 1);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
}

static void expect_event_of(struct side *s, int type)
{
    struct ibv_async_event event;

    if (type != EVENT_NONE) {
        assert_true(readable(s->context->async_fd, WAIT_MS));
        assert_int_equal(ibv_get_async_event(s->context, &event), 0);
        assert_int_equal(event.event_type, type);
        assert_ptr_equal(event.element.qp, s->qp);
        ibv_ack_async_event(&event);
    }
    assert_int_equal(ibv_get_async_event(s->context, &event), -1); /* no other one */
    assert_int_equal(errno, EAGAIN);
}

/* What is posted to a send queue that stopped ends as flushed, in order. */
static void expect_flush_behind(struct cell *c)
{
    struct ibv_wc wc = poll_one(c->a.cq[SENDS]);

    assert_int_equal(wc.wr_id, BEHIND_ID);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(wc.qp_num, c->a.qp->qp_num);
}

/*
 * Both queue pairs go on: a good message arrives behind the faulty one, which came to nothing or
 * is received before it.
 */
static void expect_working(struct cell *c)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)c->a.memory + PAGE_LEN, .length = 8, .lkey = c->a.key[REGION_GOOD]};
    const struct target t = {0};
    struct ibv_send_wr wr = request(c, IBV_WR_SEND, &sge, &t);
    struct ibv_sge room = good_room(c);
    struct ibv_wc wc;

    /* What has left is in the peer's socket: looking for completions takes it out. */
    for (int i = 0; i < 10 && c->row->receive == RECEIVE_STAYS; i++)
        assert_int_equal(ibv_poll_cq(c->b.cq[RECEIVES], 1, &wc), 0);
    if (c->row->fault == FAULT_NO_RECEIVE)
        post_receive_at(&c->b, RECV_ID + 2, &room);
    wr.wr_id = MARK_ID;
    if (c->row->type == IBV_QPT_UD)
        wr.wr.ud.remote_qkey = QKEY;
    if (c->row->fault == FAULT_RECEIVE_TOO_SHORT)
        sge.length = 4;
    post_at(&c->a, &wr);
    assert_int_equal(expect_success(c->a.cq[SENDS]).wr_id, MARK_ID);
    wc = expect_success(c->b.cq[RECEIVES]);
    assert_int_equal(wc.byte_len, sge.length + (c->row->type == IBV_QPT_UD ? 40 : 0));
}

static bool peer_takes_messages(const struct cell *c)
{
    return c->row->own_state == IBV_QPS_RTS &&
           (c->row->peer_state == IBV_QPS_RTS || c->row->peer_state == IBV_QPS_RTR ||
            c->row->peer_state == IBV_QPS_SQD);
}

static void judge(struct cell *c, enum ibv_wr_opcode opcode)
{
    struct ibv_wc wc = poll_one(c->a.cq[SENDS]);

    if (wc.status != c->row->status || wc.wr_id != FAULTY_ID)
        fail_msg("%s, %s: %s", c->row->name, operation_name(opcode), ibv_wc_status_str(wc.status));
    if (c->row->own_state != IBV_QPS_RTS)
        expect_flush_behind(c);
    expect_peers_receive(c);
    if (peer_takes_messages(c))
        expect_working(c);
    expect_event_of(&c->a, EVENT_NONE);
    expect_event_of(&c->b, c->row->event);
    assert_int_equal(state_of(&c->a), c->row->own_state);
    assert_int_equal(state_of(&c->b), c->row->peer_state);
}

static void run_cell(const struct row *row, enum ibv_wr_opcode opcode)
{
    struct cell c = {.row = row};

    side_open(&c.a);
    side_open(&c.b);
    connect(&c);
    post_faulty_receive(&c);
    take_memory_away(&c);
    change_states_before(&c);
    post_requests(&c, opcode);
    judge(&c, opcode);
    side_close(&c.a);
    side_close(&c.b);
}

/* --- the tests --- */

static void every_request_with_this_fault_ends_as_the_table_says(void **state)
{
    const struct row *row = *state;

    for (unsigned i = 0; i < operation_count; i++)
        if ((row->operations & 1u << operations[i].opcode) != 0)
            run_cell(row, operations[i].opcode);
}

static void run_refused_post(enum ibv_qp_state state, bool receive)
{
    struct cell c = {.row = &rows[0]};
    struct ibv_sge sge;
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr recv = {.sg_list = &sge, .num_sge = 1};
    struct ibv_send_wr *bad_send = NULL;
    struct ibv_recv_wr *bad_recv = NULL;

    side_open(&c.a);
    side_create_qp(&c.a, IBV_QPT_RC);
    if (state != IBV_QPS_RESET)
        side_init(&c.a, 0);
    if (state == IBV_QPS_RTR)
        side_rtr(&c.a, c.a.qp->qp_num, 1);
    sge =
        (struct ibv_sge){.addr = (uintptr_t)c.a.memory, .length = 8, .lkey = c.a.key[REGION_GOOD]};
    if (receive) {
        assert_int_equal(ibv_post_recv(c.a.qp, &recv, &bad_recv), EINVAL);
        assert_ptr_equal(bad_recv, &recv);
    } else {
        assert_int_equal(ibv_post_send(c.a.qp, &send, &bad_send), EINVAL);
        assert_ptr_equal(bad_send, &send);
    }
    assert_int_equal(state_of(&c.a), state);
    side_close(&c.a);
}

/* IBA 10.8.2, F74: posting is refused at once, with the request named. */
static void posting_is_refused_in_states_that_do_not_take_it(void **state)
{
    (void)state;
    run_refused_post(IBV_QPS_RESET, false);
    run_refused_post(IBV_QPS_INIT, false);
    run_refused_post(IBV_QPS_RTR, false);
    run_refused_post(IBV_QPS_RESET, true);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[ROWS_MAX + 1];

    if (argc == 2 && strcmp(argv[1], "--table") == 0) {
        print_table();
        return 0;
    }
    enter_namespace();
    assert_true(row_count <= ROWS_MAX);
    for (unsigned i = 0; i < row_count; i++)
        tests[i] = (struct CMUnitTest){
            .name = rows[i].name,
            .test_func = every_request_with_this_fault_ends_as_the_table_says,
            .initial_state = (void *)(uintptr_t)&rows[i],
        };
    tests[row_count] =
        (struct CMUnitTest)cmocka_unit_test(posting_is_refused_in_states_that_do_not_take_it);
    return _cmocka_run_group_tests("error matrix", tests, row_count + 1, NULL, NULL);
}
