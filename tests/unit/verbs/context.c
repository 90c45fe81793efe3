/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Open devices: closing with objects left, several at once, and what becomes of
 * them in a child after fork. Children report by their exit code.
 */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* The child's own checks: the number of the line that failed is not lost in an exit code. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "child: line %d: %s\n", __LINE__, #condition);                         \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void an_open_device_has_descriptors_and_vectors(void **state)
{
    struct ibv_context *context = open_loopback();

    (void)state;
    assert_true(fcntl(context->cmd_fd, F_GETFD) & FD_CLOEXEC);
    assert_true(fcntl(context->async_fd, F_GETFD) & FD_CLOEXEC);
    assert_true(context->num_comp_vectors >= 1);
    assert_string_equal(context->device->name, "uroce_lo");
    assert_int_equal(ibv_close_device(context), 0);
}

static void a_device_can_be_open_twice(void **state)
{
    struct ibv_context *first = open_loopback();
    struct ibv_context *second = open_loopback();
    struct ibv_pd *pd;

    (void)state;
    assert_ptr_not_equal(first, second);
    assert_ptr_equal(first->device, second->device);
    assert_int_equal(ibv_close_device(first), 0);
    pd = ibv_alloc_pd(second);
    assert_non_null(pd);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(second), 0);
}

static void parts_of_different_contexts_do_not_mix(void **state)
{
    struct ibv_context *other = open_loopback();
    struct ibv_cq *cq = ibv_create_cq(other, 4, NULL, NULL, 0);
    struct ibv_qp_init_attr attr;
    struct pair p;

    (void)state;
    pair_open(&p);
    attr = (struct ibv_qp_init_attr){
        .send_cq = cq, .recv_cq = cq, .cap = {.max_send_wr = 1}, .qp_type = IBV_QPT_RC};
    assert_null(ibv_create_qp(p.pd, &attr));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_create_cq(other, 4, NULL, p.channel, 0));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_destroy_cq(cq), 0);
    assert_int_equal(ibv_close_device(other), 0);
    pair_close(&p);
}

static void objects_left_at_close_can_still_be_destroyed(void **state)
{
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_close_device(p.context), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ibv_destroy_qp(p.qp[i]), 0);
    assert_int_equal(ibv_destroy_cq(p.send_cq), 0);
    assert_int_equal(ibv_destroy_cq(p.recv_cq), 0);
    assert_int_equal(ibv_destroy_comp_channel(p.channel), 0);
    assert_int_equal(ibv_dereg_mr(p.mr), 0);
    assert_int_equal(ibv_dealloc_pd(p.pd), 0);
    free(p.buf);
}

static void use_what_the_parent_opened(struct pair *p)
{
    struct ibv_recv_wr recv = {.wr_id = 1};
    struct ibv_recv_wr *bad_recv;
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND};
    struct ibv_send_wr *bad_send;
    struct ibv_qp_init_attr init = {
        .send_cq = p->send_cq, .recv_cq = p->recv_cq, .qp_type = IBV_QPT_RC};
    struct ibv_qp_attr attr;
    struct ibv_async_event event;
    struct ibv_cq *cq;
    struct ibv_wc wc;
    void *cq_context;

    CHECK(ibv_poll_cq(p->send_cq, 1, &wc) < 0);
    CHECK(ibv_req_notify_cq(p->recv_cq, 0) == EIO);
    CHECK(ibv_post_send(p->qp[0], &send, &bad_send) == EIO && bad_send == &send);
    CHECK(ibv_post_recv(p->qp[0], &recv, &bad_recv) == EIO && bad_recv == &recv);
    CHECK(ibv_get_cq_event(p->channel, &cq, &cq_context) == -1 && errno == EIO);
    CHECK(ibv_get_async_event(p->context, &event) == -1 && errno == EIO);
    CHECK(ibv_alloc_pd(p->context) == NULL && errno == EIO);
    CHECK(ibv_create_qp(p->pd, &init) == NULL && errno == EIO);
    CHECK(ibv_query_qp(p->qp[0], &attr, 0, &init) == EIO);
    CHECK(to_state(p->qp[0], IBV_QPS_ERR) == EIO);
    CHECK(ibv_reg_mr(p->pd, p->buf, 64, 0) == NULL && errno == EIO);
    CHECK(ibv_destroy_qp(p->qp[0]) == EIO);
    CHECK(ibv_destroy_cq(p->recv_cq) == EIO);
    CHECK(ibv_dereg_mr(p->mr) == EIO);
    CHECK(ibv_dealloc_pd(p->pd) == EIO);
    CHECK(ibv_close_device(p->context) == EIO);
}

/* As a whole program would: everything of its own, and data moved. */
static void use_a_device_of_its_own(void)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr;
    struct pair own;

    pair_setup(&own, IBV_QPT_RC, 0);
    sge = sge_of(&own, 0, 0, 4);
    wr = (struct ibv_send_wr){.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    post_receive(&own, 1, 4);
    post_request(&own, &wr);
    CHECK(poll_one(own.recv_cq).status == IBV_WC_SUCCESS);
    CHECK(poll_one(own.send_cq).status == IBV_WC_SUCCESS);
    pair_close(&own);
}

static void expect_child(pid_t child)
{
    int status;

    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_child_cannot_use_what_its_parent_opened(void **state)
{
    struct pair p;
    pid_t child;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    child = fork();
    if (child == 0) {
        use_what_the_parent_opened(&p);
        _exit(0);
    }
    expect_child(child);
    pair_close(&p);
}

static void a_child_can_open_the_device_itself(void **state)
{
    struct pair p;
    pid_t child;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    child = fork();
    if (child == 0) {
        use_a_device_of_its_own();
        _exit(0);
    }
    expect_child(child);
    pair_close(&p);
}

static void a_parent_goes_on_after_forking(void **state)
{
    struct ibv_sge sge;
    struct ibv_send_wr wr;
    struct pair p;
    pid_t child;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    child = fork();
    if (child == 0)
        _exit(0);
    expect_child(child);
    sge = sge_of(&p, 0, 0, 4);
    wr = (struct ibv_send_wr){.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    post_receive(&p, 1, 4);
    post_request(&p, &wr);
    expect_success(p.recv_cq);
    expect_success(p.send_cq);
    pair_close(&p);
}

static void limit_descriptors(rlim_t most)
{
    struct rlimit limit;

    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = most < limit.rlim_max ? most : limit.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static int next_number(void)
{
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    CHECK(fd >= 0 && close(fd) == 0);
    return fd;
}

/* Asynchronous events and completion channels are the program's; all else is out of its way. */
static void use_a_device_and_count(rlim_t limit)
{
    struct ibv_xrcd_init_attr attr = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .oflags = O_CREAT};
    struct ibv_xrcd *domain;
    struct ibv_sge sge;
    struct ibv_send_wr wr;
    struct pair p;
    int first;

    limit_descriptors(limit);
    first = next_number();
    pair_setup(&p, IBV_QPT_RC, 0);
    attr.fd = STDERR_FILENO;
    domain = ibv_open_xrcd(p.context, &attr);
    CHECK(domain != NULL);
    sge = sge_of(&p, 0, 0, 4);
    wr = (struct ibv_send_wr){.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    post_receive(&p, 1, 4);
    post_request(&p, &wr);
    CHECK(poll_one(p.recv_cq).status == IBV_WC_SUCCESS);
    CHECK(poll_one(p.send_cq).status == IBV_WC_SUCCESS);
    CHECK(p.context->async_fd == first);
    CHECK(p.channel->fd == first + 1);
    CHECK(next_number() == first + 2);
    CHECK(ibv_close_xrcd(domain) == 0);
    pair_close(&p);
    CHECK(next_number() == first);
}

static void a_program_gets_the_descriptors_that_it_would_get_without_the_library(void **state)
{
    static const rlim_t limits[] = {64, 1024, RLIM_INFINITY};

    (void)state;
    for (size_t i = 0; i < COUNT_OF(limits); i++) {
        pid_t child = fork();

        if (child == 0) {
            use_a_device_and_count(limits[i]);
            _exit(0);
        }
        expect_child(child);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_open_device_has_descriptors_and_vectors),
        cmocka_unit_test(a_program_gets_the_descriptors_that_it_would_get_without_the_library),
        cmocka_unit_test(a_device_can_be_open_twice),
        cmocka_unit_test(parts_of_different_contexts_do_not_mix),
        cmocka_unit_test(objects_left_at_close_can_still_be_destroyed),
        cmocka_unit_test(a_child_cannot_use_what_its_parent_opened),
        cmocka_unit_test(a_child_can_open_the_device_itself),
        cmocka_unit_test(a_parent_goes_on_after_forking),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
