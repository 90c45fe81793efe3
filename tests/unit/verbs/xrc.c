/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC as programs use it: domains by inode, both sides, SRQs by number, and
 * target queue pairs with several holders. Errors are the kernel's
 * (ib_uverbs_open_xrcd, ib_open_qp) where the manual pages name none.
 */
#include "fixture.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ALL_OPERATIONS                                                                             \
    (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |              \
     IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

static char path[64];

static int open_file(void)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    return fd;
}

static int setup(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "/tmp/uroce-xrc-test-%d", (int)getpid());
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static struct ibv_xrcd *open_domain(struct ibv_context *context, int fd, int oflags)
{
    struct ibv_xrcd_init_attr attr = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = fd, .oflags = oflags};

    errno = 0;
    return ibv_open_xrcd(context, &attr);
}

static struct ibv_srq_init_attr_ex srq_attr(const struct pair *p, struct ibv_xrcd *xrcd)
{
    return (struct ibv_srq_init_attr_ex){
        .attr = {.max_wr = 16, .max_sge = 1},
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ,
        .srq_type = IBV_SRQT_XRC,
        .pd = p->pd,
        .xrcd = xrcd,
        .cq = p->recv_cq,
    };
}

static struct ibv_qp *create_initiator(struct pair *p)
{
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = p->send_cq,
        .cap = {.max_send_wr = 16, .max_send_sge = 4, .max_inline_data = 256},
        .qp_type = IBV_QPT_XRC_SEND,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = p->pd,
        .send_ops_flags = ALL_OPERATIONS,
    };

    return ibv_create_qp_ex(p->context, &attr);
}

static struct ibv_qp *create_target(struct ibv_context *context, struct ibv_xrcd *xrcd)
{
    struct ibv_qp_init_attr_ex attr = {
        .qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};

    errno = 0;
    return ibv_create_qp_ex(context, &attr);
}

static struct ibv_qp *open_target(struct ibv_context *context, struct ibv_xrcd *xrcd, uint32_t qpn)
{
    struct ibv_qp_open_attr attr = {
        .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
        .qp_num = qpn,
        .xrcd = xrcd,
        .qp_type = IBV_QPT_XRC_RECV,
    };

    errno = 0;
    return ibv_open_qp(context, &attr);
}

/* Both sides, connected, and an SRQ in the domain. Returns the domain; *srqn is the SRQ's number.
 */
static struct ibv_xrcd *connect_sides(struct pair *p, uint32_t *srqn)
{
    struct ibv_srq_init_attr_ex attr;
    struct ibv_xrcd *xrcd;

    pair_open(p);
    xrcd = open_domain(p->context, -1, O_CREAT);
    assert_non_null(xrcd);
    attr = srq_attr(p, xrcd);
    p->srq = ibv_create_srq_ex(p->context, &attr);
    assert_non_null(p->srq);
    assert_int_equal(ibv_get_srq_num(p->srq, srqn), 0);
    p->qp[0] = create_initiator(p);
    p->qp[1] = create_target(p->context, xrcd);
    assert_non_null(p->qp[0]);
    assert_non_null(p->qp[1]);
    pair_connect(p);
    return xrcd;
}

static void disconnect_sides(struct pair *p, struct ibv_xrcd *xrcd)
{
    for (int i = 0; i < 2; i++)
        assert_int_equal(ibv_destroy_qp(p->qp[i]), 0);
    assert_int_equal(ibv_destroy_srq(p->srq), 0);
    assert_int_equal(ibv_close_xrcd(xrcd), 0);
    p->qp[0] = NULL;
    p->qp[1] = NULL;
    p->srq = NULL;
    pair_close(p);
}

/* --- domains --- */

static void contexts_of_a_process_share_the_domain_of_an_inode(void **state)
{
    struct ibv_context *other = open_loopback();
    int fds[] = {open_file(), open_file()};
    struct ibv_xrcd *mine;
    struct ibv_xrcd *theirs;
    struct ibv_xrcd *private;
    struct ibv_qp *target;
    struct ibv_qp *opened;
    struct pair p;

    (void)state;
    pair_open(&p);
    mine = open_domain(p.context, fds[0], O_CREAT);
    theirs = open_domain(other, fds[1], 0);
    private = open_domain(other, -1, O_CREAT);
    assert_non_null(mine);
    assert_non_null(theirs);
    assert_non_null(private);
    assert_ptr_equal(theirs->context, other);
    target = create_target(p.context, mine);
    assert_null(open_target(other, private, target->qp_num));
    assert_int_equal(errno, EINVAL);
    opened = open_target(other, theirs, target->qp_num);
    assert_non_null(opened);
    assert_int_equal(opened->qp_num, target->qp_num);
    assert_ptr_equal(opened->context, other);
    assert_int_equal(ibv_destroy_qp(opened), 0);
    assert_int_equal(ibv_destroy_qp(target), 0);
    assert_int_equal(ibv_close_xrcd(private), 0);
    assert_int_equal(ibv_close_xrcd(mine), 0);
    assert_int_equal(ibv_close_xrcd(theirs), 0);
    assert_int_equal(ibv_close_device(other), 0);
    close(fds[0]);
    close(fds[1]);
    pair_close(&p);
}

static void flags_decide_between_finding_and_making(void **state)
{
    struct ibv_context *context = open_loopback();
    struct ibv_xrcd_init_attr attr = {.comp_mask = IBV_XRCD_INIT_ATTR_FD, .fd = -1};
    int fd = open_file();
    struct ibv_xrcd *xrcd;
    struct ibv_xrcd *again;

    (void)state;
    assert_null(open_domain(context, fd, 0));
    assert_int_equal(errno, EAGAIN);
    xrcd = open_domain(context, fd, O_CREAT | O_EXCL);
    assert_non_null(xrcd);
    assert_null(open_domain(context, fd, O_CREAT | O_EXCL));
    assert_int_equal(errno, EINVAL);
    again = open_domain(context, fd, O_CREAT);
    assert_non_null(again);
    assert_null(open_domain(context, 9999, O_CREAT));
    assert_int_equal(errno, EBADF);
    assert_null(ibv_open_xrcd(context, &attr));
    assert_int_equal(errno, EINVAL);
    attr.comp_mask = IBV_XRCD_INIT_ATTR_RESERVED;
    assert_null(ibv_open_xrcd(context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(ibv_close_xrcd(xrcd), 0);
    assert_null(open_domain(context, fd, O_EXCL)); /* there is one until the last holder closes */
    assert_int_equal(ibv_close_xrcd(again), 0);
    assert_null(open_domain(context, fd, 0));
    assert_int_equal(errno, EAGAIN);
    close(fd);
    assert_int_equal(ibv_close_device(context), 0);
}

/* The kernel holds the inode, too: its number cannot come back while the domain lives. */
static void domain_is_of_the_inode_and_not_of_its_number_or_name(void **state)
{
    struct ibv_context *context = open_loopback();
    int fd = open_file();
    struct ibv_xrcd *xrcd = open_domain(context, fd, O_CREAT);

    (void)state;
    assert_non_null(xrcd);
    close(fd);
    for (int i = 0; i < 20; i++) {
        unlink(path);
        fd = open_file();
        assert_null(open_domain(context, fd, 0));
        assert_int_equal(errno, EAGAIN);
        close(fd);
    }
    assert_int_equal(ibv_close_xrcd(xrcd), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void domain_in_use_is_not_closed(void **state)
{
    struct pair p;
    uint32_t srqn;
    struct ibv_xrcd *xrcd = connect_sides(&p, &srqn);

    (void)state;
    assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
    assert_int_equal(ibv_destroy_qp(p.qp[1]), 0);
    assert_int_equal(ibv_close_xrcd(xrcd), EBUSY);
    p.qp[1] = create_target(p.context, xrcd);
    disconnect_sides(&p, xrcd);
}

/* Objects live in the process that made them, so a child's domain of the same inode is its own. */
static int child_has_domains_of_its_own(int fd, uint32_t parents_qpn)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_context *context = NULL;
    struct ibv_xrcd *xrcd;

    for (int i = 0; list[i] != NULL && context == NULL; i++)
        if (strcmp(ibv_get_device_name(list[i]), "uroce_lo") == 0)
            context = ibv_open_device(list[i]);
    ibv_free_device_list(list);
    if (context == NULL)
        return 1;
    xrcd = open_domain(context, fd, O_CREAT | O_EXCL);
    if (xrcd == NULL)
        return 2;
    if (open_target(context, xrcd, parents_qpn) != NULL || errno != EINVAL)
        return 3;
    if (ibv_close_xrcd(xrcd) != 0)
        return 4;
    return ibv_close_device(context) == 0 ? 0 : 5;
}

static void another_process_has_domains_of_its_own(void **state)
{
    struct ibv_context *context = open_loopback();
    int fd = open_file();
    struct ibv_xrcd *xrcd = open_domain(context, fd, O_CREAT);
    struct ibv_qp *target = create_target(context, xrcd);
    int status = -1;
    pid_t child;

    (void)state;
    assert_non_null(target);
    child = fork();
    if (child == 0) {
        if (ibv_close_xrcd(xrcd) != EIO) /* the parent's */
            _exit(9);
        _exit(child_has_domains_of_its_own(fd, target->qp_num));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(ibv_destroy_qp(target), 0);
    assert_int_equal(ibv_close_xrcd(xrcd), 0);
    close(fd);
    assert_int_equal(ibv_close_device(context), 0);
}

/* --- work --- */

static void message_goes_to_the_named_srq_and_its_cq(void **state)
{
    struct pair p;
    uint32_t srqn;
    struct ibv_xrcd *xrcd = connect_sides(&p, &srqn);
    struct ibv_sge sge = sge_of(&p, 0, 0, 3000);
    struct ibv_send_wr wr = {.wr_id = 7,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = IBV_WR_SEND_WITH_IMM,
                             .imm_data = htonl(0x01020304)};
    struct ibv_wc wc;

    (void)state;
    memset(buf_of(&p, 0), 0x5a, 3000);
    post_receive(&p, 8, 4096);
    wr.qp_type.xrc.remote_srqn = srqn;
    post_request(&p, &wr);
    assert_int_equal(expect_success(p.send_cq).wr_id, 7);
    wc = expect_success(p.recv_cq);
    assert_int_equal(wc.wr_id, 8);
    assert_int_equal(wc.byte_len, 3000);
    assert_int_equal(wc.qp_num, p.qp[1]->qp_num); /* what ibv_xsrq_pingpong finds its peer by */
    assert_int_equal(wc.src_qp, p.qp[0]->qp_num);
    assert_int_equal(ntohl(wc.imm_data), 0x01020304);
    assert_memory_equal(buf_of(&p, 1), buf_of(&p, 0), 3000);
    disconnect_sides(&p, xrcd);
}

static void reads_writes_and_atomics_go_through_the_domain_of_the_srq(void **state)
{
    struct pair p;
    uint32_t srqn;
    struct ibv_xrcd *xrcd = connect_sides(&p, &srqn);
    struct ibv_sge sge = sge_of(&p, 0, 0, 8);
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
    uint64_t value = 40;

    (void)state;
    memcpy(buf_of(&p, 0), &value, sizeof(value));
    wr.qp_type.xrc.remote_srqn = srqn;
    wr.wr.rdma.remote_addr = (uintptr_t)buf_of(&p, 1);
    wr.wr.rdma.rkey = p.mr->rkey;
    post_request(&p, &wr);
    assert_int_equal(expect_success(p.send_cq).opcode, IBV_WC_RDMA_WRITE);
    wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    wr.wr.atomic.remote_addr = (uintptr_t)buf_of(&p, 1);
    wr.wr.atomic.compare_add = 2;
    wr.wr.atomic.rkey = p.mr->rkey;
    post_request(&p, &wr);
    assert_int_equal(expect_success(p.send_cq).opcode, IBV_WC_FETCH_ADD);
    memcpy(&value, buf_of(&p, 0), sizeof(value));
    assert_int_equal(value, 40);
    wr.opcode = IBV_WR_RDMA_READ;
    wr.wr.rdma.remote_addr = (uintptr_t)buf_of(&p, 1);
    wr.wr.rdma.rkey = p.mr->rkey;
    post_request(&p, &wr);
    assert_int_equal(expect_success(p.send_cq).opcode, IBV_WC_RDMA_READ);
    memcpy(&value, buf_of(&p, 0), sizeof(value));
    assert_int_equal(value, 42);
    disconnect_sides(&p, xrcd);
}

/* The manual page of ibv_wr_post: for XRC_SEND the SRQ must be set. */
static void builder_must_name_the_srq(void **state)
{
    struct pair p;
    uint32_t srqn;
    struct ibv_xrcd *xrcd = connect_sides(&p, &srqn);
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(p.qp[0]);

    (void)state;
    assert_non_null(qp);
    post_receive(&p, 1, 100);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, "hello", 5);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    ibv_wr_start(qp);
    ibv_wr_send(qp);
    ibv_wr_set_xrc_srqn(qp, srqn);
    ibv_wr_set_inline_data(qp, "hello", 5);
    assert_int_equal(ibv_wr_complete(qp), 0);
    expect_success(p.send_cq);
    assert_int_equal(expect_success(p.recv_cq).byte_len, 5);
    assert_memory_equal(buf_of(&p, 1), "hello", 5);
    disconnect_sides(&p, xrcd);
}

static void wait_for_event(struct ibv_context *context, enum ibv_event_type type,
                           const struct ibv_qp *qp)
{
    struct ibv_async_event event;

    assert_true(readable(context->async_fd, WAIT_MS));
    assert_int_equal(ibv_get_async_event(context, &event), 0);
    assert_int_equal(event.event_type, type);
    assert_ptr_equal(event.element.qp, qp);
    ibv_ack_async_event(&event);
}

/* A14: an SRQ that does not exist; ib_open_qp: all who hold the target hear of it. */
static void wrong_number_fails_both_sides_and_tells_every_holder(void **state)
{
    struct pair p;
    uint32_t srqn;
    struct ibv_xrcd *xrcd = connect_sides(&p, &srqn);
    struct ibv_qp *second = open_target(p.context, xrcd, p.qp[1]->qp_num);
    struct ibv_send_wr wr = {.wr_id = 7, .opcode = IBV_WR_SEND};
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    (void)state;
    assert_non_null(second);
    post_receive(&p, 8, 0);
    wr.qp_type.xrc.remote_srqn = srqn + 1;
    post_request(&p, &wr);
    assert_int_equal(poll_one(p.send_cq).status, IBV_WC_REM_INV_REQ_ERR);
    wait_for_event(p.context, IBV_EVENT_QP_ACCESS_ERR, p.qp[1]);
    wait_for_event(p.context, IBV_EVENT_QP_ACCESS_ERR, second);
    assert_int_equal(ibv_query_qp(second, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_ERR);
    assert_int_equal(init.qp_type, IBV_QPT_XRC_RECV);
    assert_int_equal(ibv_destroy_qp(second), 0);
    disconnect_sides(&p, xrcd);
}

/* --- holders --- */

static void target_lives_until_its_last_holder_lets_go(void **state)
{
    struct pair p;
    uint32_t srqn;
    struct ibv_xrcd *xrcd = connect_sides(&p, &srqn);
    struct ibv_qp *first = p.qp[1];
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    uint32_t qpn = first->qp_num;

    (void)state;
    p.qp[1] = open_target(p.context, xrcd, qpn);
    assert_non_null(p.qp[1]);
    assert_int_equal(p.qp[1]->state, IBV_QPS_RTS);
    assert_int_equal(ibv_query_qp(p.qp[1], &attr, IBV_QP_AV, &init), 0);
    assert_int_equal(attr.dest_qp_num, p.qp[0]->qp_num);
    assert_int_equal(attr.ah_attr.grh.hop_limit, 64);
    assert_int_equal(ibv_destroy_qp(first), 0);
    post_receive(&p, 1, 0);
    wr.qp_type.xrc.remote_srqn = srqn;
    post_request(&p, &wr);
    expect_success(p.send_cq);
    expect_success(p.recv_cq);
    assert_int_equal(to_state(p.qp[1], IBV_QPS_ERR), 0);
    assert_int_equal(ibv_destroy_qp(p.qp[1]), 0);
    assert_null(open_target(p.context, xrcd, qpn));
    assert_int_equal(errno, EINVAL);
    p.qp[1] = create_target(p.context, xrcd);
    disconnect_sides(&p, xrcd);
}

static void only_targets_are_opened_and_only_by_all_that_names_them(void **state)
{
    struct pair p;
    uint32_t srqn;
    struct ibv_xrcd *xrcd = connect_sides(&p, &srqn);
    struct ibv_qp_open_attr attr = {
        .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE |
                     IBV_QP_OPEN_ATTR_CONTEXT,
        .qp_num = p.qp[1]->qp_num,
        .xrcd = xrcd,
        .qp_context = &p,
        .qp_type = IBV_QPT_XRC_SEND,
    };
    struct ibv_qp *qp;

    (void)state;
    assert_null(ibv_open_qp(p.context, &attr));
    assert_int_equal(errno, EINVAL);
    assert_null(open_target(p.context, xrcd, p.qp[0]->qp_num));
    assert_int_equal(errno, EINVAL);
    attr.qp_type = IBV_QPT_XRC_RECV;
    qp = ibv_open_qp(p.context, &attr);
    assert_non_null(qp);
    assert_ptr_equal(qp->qp_context, &p);
    assert_int_equal(ibv_destroy_qp(qp), 0);
    attr.comp_mask &= ~(uint32_t)IBV_QP_OPEN_ATTR_TYPE;
    assert_null(ibv_open_qp(p.context, &attr));
    assert_int_equal(errno, EINVAL);
    attr.comp_mask |= IBV_QP_OPEN_ATTR_RESERVED;
    assert_null(ibv_open_qp(p.context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    disconnect_sides(&p, xrcd);
}

/* --- parts --- */

static void srq_of_a_domain_needs_all_its_parts(void **state)
{
    static const uint32_t parts[] = {IBV_SRQ_INIT_ATTR_PD, IBV_SRQ_INIT_ATTR_XRCD,
                                     IBV_SRQ_INIT_ATTR_CQ};
    struct ibv_context *other = open_loopback();
    struct ibv_srq_init_attr_ex attr;
    struct ibv_srq_attr queried;
    struct ibv_xrcd *xrcd;
    struct pair p;

    (void)state;
    pair_open(&p);
    xrcd = open_domain(p.context, -1, O_CREAT);
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        attr = srq_attr(&p, xrcd);
        attr.comp_mask &= ~parts[i];
        assert_null(ibv_create_srq_ex(p.context, &attr));
        assert_int_equal(errno, EINVAL);
    }
    attr = srq_attr(&p, xrcd);
    attr.srq_type = IBV_SRQT_BASIC;
    assert_null(ibv_create_srq_ex(p.context, &attr));
    assert_int_equal(errno, EINVAL);
    attr.srq_type = IBV_SRQT_XRC;
    assert_null(ibv_create_srq_ex(other, &attr));
    assert_int_equal(errno, EINVAL);
    p.srq = ibv_create_srq_ex(p.context, &attr);
    assert_non_null(p.srq);
    assert_int_equal(ibv_destroy_cq(p.recv_cq), EBUSY);
    assert_int_equal(ibv_query_srq(p.srq, &queried), 0);
    assert_int_equal(queried.max_wr, attr.attr.max_wr);
    queried = (struct ibv_srq_attr){.max_wr = 32};
    assert_int_equal(ibv_modify_srq(p.srq, &queried, IBV_SRQ_MAX_WR), 0);
    assert_int_equal(ibv_destroy_srq(p.srq), 0);
    p.srq = NULL;
    assert_int_equal(ibv_close_xrcd(xrcd), 0);
    assert_int_equal(ibv_close_device(other), 0);
    pair_close(&p);
}

static void sides_are_refused_what_is_not_theirs(void **state)
{
    struct pair p;
    uint32_t srqn;
    struct ibv_xrcd *xrcd = connect_sides(&p, &srqn);
    struct ibv_qp_init_attr initiator = {
        .send_cq = p.send_cq, .srq = p.srq, .qp_type = IBV_QPT_XRC_SEND};
    struct ibv_qp_init_attr target = {
        .send_cq = p.send_cq, .recv_cq = p.recv_cq, .qp_type = IBV_QPT_XRC_RECV};
    struct ibv_qp_init_attr plain = target;
    struct ibv_recv_wr receive = {.wr_id = 1};
    struct ibv_send_wr request = {.opcode = IBV_WR_SEND};
    struct ibv_recv_wr *bad_receive;
    struct ibv_send_wr *bad_request;

    (void)state;
    assert_null(ibv_create_qp(p.pd, &initiator));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_create_qp(p.pd, &target)); /* a target is of a domain */
    assert_int_equal(errno, EINVAL);
    plain.qp_type = IBV_QPT_RC;
    plain.srq = p.srq; /* which serves no queue pair of RC */
    assert_null(ibv_create_qp(p.pd, &plain));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_post_recv(p.qp[0], &receive, &bad_receive), EINVAL);
    assert_int_equal(ibv_post_recv(p.qp[1], &receive, &bad_receive), EINVAL);
    assert_int_equal(ibv_post_send(p.qp[1], &request, &bad_request), EINVAL);
    disconnect_sides(&p, xrcd);
}

#define XRC_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        XRC_TEST(contexts_of_a_process_share_the_domain_of_an_inode),
        XRC_TEST(flags_decide_between_finding_and_making),
        XRC_TEST(domain_is_of_the_inode_and_not_of_its_number_or_name),
        XRC_TEST(domain_in_use_is_not_closed),
        XRC_TEST(another_process_has_domains_of_its_own),
        XRC_TEST(message_goes_to_the_named_srq_and_its_cq),
        XRC_TEST(reads_writes_and_atomics_go_through_the_domain_of_the_srq),
        XRC_TEST(builder_must_name_the_srq),
        XRC_TEST(wrong_number_fails_both_sides_and_tells_every_holder),
        XRC_TEST(target_lives_until_its_last_holder_lets_go),
        XRC_TEST(only_targets_are_opened_and_only_by_all_that_names_them),
        XRC_TEST(srq_of_a_domain_needs_all_its_parts),
        XRC_TEST(sides_are_refused_what_is_not_theirs),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
