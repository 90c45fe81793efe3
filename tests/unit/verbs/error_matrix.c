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
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BEHIND_ID 100u /* work requests posted behind the faulty one */
#define MARK_ID 200u   /* a good message that shows that what came before it is over */
#define FAULTY_ID 7u
#define RECV_ID 50u

/* --- a cell --- */

/* A number that no process of this host has: each has a high byte of its own. */
static uint32_t number_of_nobody(uint32_t qpn)
{
    return (qpn & 0xffff) | (qpn >> 16 == 0x77 ? 0x78u : 0x77u) << 16;
}

static uint32_t peer_number(const struct cell *c)
{
    return c->row->fault == FAULT_PEER_DEAD ? number_of_nobody(c->b.qp->qp_num) : c->b.qp->qp_num;
}

/* Some faults are in the attributes of the connection. */
static void connect(struct cell *c)
{
    const unsigned all =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    uint8_t reads = c->row->fault == FAULT_NO_READS_HERE ? 0 : 4;
    uint8_t dest_reads = c->row->fault == FAULT_NO_READS_THERE ? 0 : 4;
    bool xrc = c->row->type == IBV_QPT_XRC_SEND;

    c->a.qp = side_create_qp(&c->a, c->row->type);
    c->b.qp = side_create_qp(&c->b, xrc ? IBV_QPT_XRC_RECV : c->row->type);
    qp_init(c->a.qp, all);
    qp_rtr(&c->a, c->a.qp, peer_number(c), 4);
    qp_rts(c->a.qp, reads);
    if (c->row->type == IBV_QPT_UD) {
        struct ibv_ah_attr attr = loopback_address(&c->a);

        c->a.ah = ibv_create_ah(c->a.pd, &attr);
        assert_non_null(c->a.ah);
    }
    if (c->row->fault == FAULT_PEER_RESET)
        return;
    qp_init(c->b.qp, c->row->fault == FAULT_QP_FORBIDS ? 0 : all);
    if (c->row->fault == FAULT_PEER_INIT)
        return;
    qp_rtr(&c->b, c->b.qp, c->a.qp->qp_num, dest_reads);
    if (c->row->fault != FAULT_PEER_RTR)
        qp_rts(c->b.qp, 4);
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

    if (s->srq != NULL)
        assert_int_equal(ibv_post_srq_recv(s->srq, &wr, &bad), 0);
    else
        assert_int_equal(ibv_post_recv(s->qp, &wr, &bad), 0);
}

/* --- memory windows at the peer --- */

static bool is_of_windows(enum fault fault)
{
    return fault >= FAULT_WINDOW_UNBOUND && fault <= FAULT_WINDOW_NO_RIGHT;
}

/* Binds the peer's window to its first page, or closes it, by a request on qp. */
static void post_for_window(struct cell *c, struct ibv_qp *qp, enum ibv_wr_opcode opcode)
{
    const unsigned rights =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    struct ibv_send_wr wr = {.opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr *bad;

    if (opcode == IBV_WR_BIND_MW) {
        wr.bind_mw.mw = c->b.window;
        wr.bind_mw.rkey = c->window_key;
        wr.bind_mw.bind_info = (struct ibv_mw_bind_info){
            .mr = c->b.mr[REGION_FOR_WINDOWS],
            .addr = (uintptr_t)c->b.memory,
            .length = PAGE_LEN,
            .mw_access_flags = c->row->fault == FAULT_WINDOW_NO_RIGHT ? 0 : rights};
    } else {
        wr.invalidate_rkey = c->window_key;
    }
    assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
    assert_int_equal(expect_success(c->b.cq[SENDS]).qp_num, qp->qp_num);
}

static void prepare_window(struct cell *c)
{
    struct ibv_qp *qp = c->b.qp;

    c->window_key = ibv_inc_rkey(c->b.window->rkey);
    if (!is_of_windows(c->row->fault) || c->row->fault == FAULT_WINDOW_UNBOUND)
        return;
    if (c->row->fault == FAULT_WINDOW_OTHER_QP) {
        qp = c->b.other_qp = side_create_qp(&c->b, IBV_QPT_RC);
        qp_init(qp, 0);
        qp_rtr(&c->b, qp, qp->qp_num, 4);
        qp_rts(qp, 4);
    }
    post_for_window(c, qp, IBV_WR_BIND_MW);
    if (c->row->fault == FAULT_WINDOW_INVALIDATED)
        post_for_window(c, qp, IBV_WR_LOCAL_INV);
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

    if (place == REMOTE && is_of_windows(c->row->fault))
        return c->window_key;
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
    else if (c->row->fault == FAULT_WINDOW_END)
        t.addr += PAGE_LEN - len + 8;
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
    if (c->row->type == IBV_QPT_XRC_SEND)
        wr.qp_type.xrc.remote_srqn = c->row->fault == FAULT_WRONG_SRQ ? c->b.srqn + 1 : c->b.srqn;
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

/* A request of its own that is bad stops a side's send queue, and that alone. */
static void stop_sending(struct cell *c, struct side *s, uint32_t peer_qpn)
{
    struct ibv_sge nowhere = {.addr = (uintptr_t)s->memory, .length = 8, .lkey = 0xbad};
    const struct target t = {0};
    struct ibv_send_wr wr = request(c, IBV_WR_SEND, &nowhere, &t);

    if (c->row->type == IBV_QPT_UD) {
        struct ibv_ah_attr attr = loopback_address(s);

        if (s->ah == NULL)
            s->ah = ibv_create_ah(s->pd, &attr);
        wr.wr.ud.ah = s->ah;
        wr.wr.ud.remote_qpn = peer_qpn;
    }
    post_at(s, &wr);
    assert_int_equal(poll_one(s->cq[SENDS]).status, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(state_of(s), IBV_QPS_SQE);
}

static void change_states_before(struct cell *c)
{
    if (c->row->fault == FAULT_PEER_ERR)
        assert_int_equal(to_state(c->b.qp, IBV_QPS_ERR), 0);
    else if (c->row->fault == FAULT_PEER_SQD)
        assert_int_equal(to_state(c->b.qp, IBV_QPS_SQD), 0);
    else if (c->row->fault == FAULT_PEER_SQE)
        stop_sending(c, &c->b, c->a.qp->qp_num);
    else if (c->row->fault == FAULT_OWN_ERR)
        assert_int_equal(to_state(c->a.qp, IBV_QPS_ERR), 0);
    else if (c->row->fault == FAULT_OWN_SQD)
        assert_int_equal(to_state(c->a.qp, IBV_QPS_SQD), 0);
    else if (c->row->fault == FAULT_OWN_SQE)
        stop_sending(c, &c->a, c->b.qp->qp_num);
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
    if (c->row->own_state == IBV_QPS_RTS || c->row->status == REQUEST_STAYS)
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
    if (c->row->peer_state != IBV_QPS_ERR || c->b.srq != NULL)
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
            c->row->peer_state == IBV_QPS_SQD || c->row->peer_state == IBV_QPS_SQE);
}

/* It is accepted and waits; when the queue runs again, it goes its way. */
static void expect_request_stays(struct cell *c)
{
    struct ibv_wc wc;

    for (int i = 0; i < 10; i++) {
        assert_int_equal(ibv_poll_cq(c->a.cq[SENDS], 1, &wc), 0);
        assert_int_equal(ibv_poll_cq(c->b.cq[RECEIVES], 1, &wc), 0);
    }
    assert_int_equal(state_of(&c->a), c->row->own_state);
    assert_int_equal(to_state(c->a.qp, IBV_QPS_RTS), 0);
    assert_int_equal(expect_success(c->a.cq[SENDS]).wr_id, FAULTY_ID);
    assert_int_equal(to_state(c->a.qp, IBV_QPS_SQD), 0);
}

static void judge(struct cell *c, enum ibv_wr_opcode opcode)
{
    if (c->row->status == REQUEST_STAYS) {
        expect_request_stays(c);
    } else {
        struct ibv_wc wc = poll_one(c->a.cq[SENDS]);

        if ((int)wc.status != c->row->status || wc.wr_id != FAULTY_ID)
            fail_msg("%s, %s: %s", c->row->name, operation_name(opcode),
                     ibv_wc_status_str(wc.status));
        if (c->row->own_state != IBV_QPS_RTS)
            expect_flush_behind(c);
    }
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
    prepare_window(&c);
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
    c.a.qp = side_create_qp(&c.a, IBV_QPT_RC);
    if (state != IBV_QPS_RESET)
        qp_init(c.a.qp, 0);
    if (state == IBV_QPS_RTR)
        qp_rtr(&c.a, c.a.qp, c.a.qp->qp_num, 1);
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
