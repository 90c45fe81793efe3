/* SPDX-License-Identifier: BSD-2-Clause */
/* What processes and threads do in the middle of things: fork, exec, exit, cancel. */
#include "fixture.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 20

static int setup(void **state)
{
    static struct pair p;

    pair_setup(&p, IBV_QPT_RC, 0);
    *state = &p;
    return 0;
}

static int teardown(void **state)
{
    pair_close(*state);
    return 0;
}

static void write_arrives(struct pair *p)
{
    struct ibv_sge sge = sge_of(p, 0, 0, 5000);
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_RDMA_WRITE,
        .sg_list = &sge,
        .num_sge = 1,
        .wr.rdma = {.remote_addr = (uintptr_t)buf_of(p, 1), .rkey = p->mr->rkey}};

    buf_of(p, 0)[4999]++;
    post_request(p, &wr);
    expect_success(p->send_cq);
    assert_memory_equal(buf_of(p, 0), buf_of(p, 1), 5000);
}

static void expect_good_end(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_child_that_only_exits_leaves_the_parent_at_work(void **state)
{
    for (int i = 0; i < ROUNDS; i++) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0)
            exit(0); /* with all that the library does then */
        write_arrives(*state);
        expect_good_end(pid);
    }
}

static void a_child_that_executes_leaves_the_parent_at_work(void **state)
{
    for (int i = 0; i < ROUNDS; i++) {
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
        write_arrives(*state);
        expect_good_end(pid);
    }
}

static void parent_and_child_each_use_a_context_of_their_own(void **state)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        struct pair own;

        alarm(30);
        pair_setup(&own, IBV_QPT_RC, 0);
        for (int i = 0; i < ROUNDS; i++)
            write_arrives(&own);
        pair_close(&own);
        _exit(0);
    }
    for (int i = 0; i < ROUNDS; i++)
        write_arrives(*state);
    expect_good_end(pid);
}

/* --- a server that forks: the parent and each child have devices open, and are peers --- */

#define CHILDREN 3
#define PART 8192u /* of the parent's memory, for each child */

struct hello {
    uint64_t addr;
    uint32_t rkey;
    uint32_t qpn;
};

/* Says a byte and waits for the other's. */
static void meet(int fd)
{
    char byte = 0;

    assert_int_equal(write(fd, &byte, 1), 1);
    assert_int_equal(read(fd, &byte, 1), 1);
}

/* Connects qp[0] of a pair with that of another process; its hello is returned. */
static struct hello connect_to_other(struct pair *p, int fd)
{
    struct hello hello = {(uintptr_t)buf_of(p, 1), p->mr->rkey, p->qp[0]->qp_num};

    assert_int_equal(write(fd, &hello, sizeof(hello)), sizeof(hello));
    assert_int_equal(read(fd, &hello, sizeof(hello)), sizeof(hello));
    to_init(p->qp[0]);
    to_rtr(p, p->qp[0], hello.qpn);
    to_rts(p->qp[0]);
    meet(fd);
    return hello;
}

static void write_to_other(struct pair *p, const struct hello *to, uint32_t offset, uint8_t value)
{
    struct ibv_sge sge = sge_of(p, 0, 0, PART);
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .wr.rdma = {.remote_addr = to->addr + offset, .rkey = to->rkey}};

    memset(buf_of(p, 0), value, PART);
    post_request(p, &wr);
    expect_success(p->send_cq);
}

static void expect_written(const uint8_t *bytes, uint8_t value)
{
    for (uint32_t i = 0; i < PART; i++)
        assert_int_equal(bytes[i], value);
}

/* Ends the child. What it inherited is of no use to it, and it need not clean up. */
static void be_child(const struct pair *inherited, uint32_t number, int fd)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    struct ibv_send_wr *bad;
    struct hello parent;
    struct pair own;
    struct ibv_wc wc;

    alarm(30);
    assert_int_equal(ibv_post_send(inherited->qp[0], &wr, &bad), EIO);
    assert_true(ibv_poll_cq(inherited->send_cq, 1, &wc) < 0);
    assert_int_equal(ibv_destroy_qp(inherited->qp[0]), EIO);
    assert_int_equal(ibv_close_device(inherited->context), EIO);
    pair_open(&own);
    pair_create_qps(&own, IBV_QPT_RC, 0);
    parent = connect_to_other(&own, fd);
    for (uint8_t round = 1; round <= ROUNDS; round++) {
        write_to_other(&own, &parent, number * PART, (uint8_t)(round + number));
        meet(fd);
        meet(fd);
        expect_written(buf_of(&own, 1), round);
    }
    pair_close(&own);
    _exit(0);
}

static void parent_and_children_with_contexts_of_their_own_are_each_others_peers(void **state)
{
    static struct pair links[CHILDREN];
    struct hello children[CHILDREN];
    pid_t pids[CHILDREN];
    int fds[CHILDREN][2];

    assert_int_equal(ibv_fork_init(), 0);
    for (uint32_t i = 0; i < CHILDREN; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds[i]), 0);
        pair_open(&links[i]);
        pair_create_qps(&links[i], IBV_QPT_RC, 0);
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0)
            be_child(&links[i], i, fds[i][1]);
        write_arrives(*state);
    }
    for (uint32_t i = 0; i < CHILDREN; i++)
        children[i] = connect_to_other(&links[i], fds[i][0]);
    for (uint8_t round = 1; round <= ROUNDS; round++) {
        for (uint32_t i = 0; i < CHILDREN; i++) {
            meet(fds[i][0]);
            expect_written(buf_of(&links[i], 1) + (size_t)i * PART, (uint8_t)(round + i));
            write_to_other(&links[i], &children[i], 0, round);
            meet(fds[i][0]);
        }
        write_arrives(*state);
    }
    for (uint32_t i = 0; i < CHILDREN; i++) {
        expect_good_end(pids[i]);
        pair_close(&links[i]);
        close(fds[i][0]);
        close(fds[i][1]);
    }
}

/* The child of a child, and a process that forks after it closed all. */
static void generation(uint32_t left)
{
    struct pair own;
    pid_t pid;

    pair_setup(&own, IBV_QPT_RC, 0);
    write_arrives(&own);
    if (left % 2 == 0)
        pair_close(&own);
    if (left == 0)
        return;
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(30);
        generation(left - 1);
        _exit(0);
    }
    expect_good_end(pid);
    if (left % 2 != 0) {
        write_arrives(&own);
        pair_close(&own);
    }
}

static void each_generation_opens_devices_anew(void **state)
{
    generation(4);
    write_arrives(*state);
}

static void *wait_for_an_event(void *context)
{
    struct pair *p = context;
    struct ibv_cq *cq;
    void *cq_context;

    ibv_get_cq_event(p->channel, &cq, &cq_context);
    return NULL;
}

static void *poll_without_end(void *context)
{
    struct pair *p = context;
    struct ibv_wc wc;

    for (;;) {
        ibv_poll_cq(p->recv_cq, 1, &wc);
        pthread_testcancel();
    }
    return NULL;
}

static void threads_cancelled_while_they_wait_or_poll_harm_nobody(void **state)
{
    void *(*const bodies[])(void *) = {wait_for_an_event, poll_without_end};

    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        void *result;

        assert_int_equal(pthread_create(&thread, NULL, bodies[i % 2], *state), 0);
        usleep(2000);
        assert_int_equal(pthread_cancel(thread), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, PTHREAD_CANCELED);
        write_arrives(*state);
    }
}

static void memory_unmapped_under_a_region_is_an_error_and_the_process_lives(void **state)
{
    struct pair *p = *state;
    void *memory = mmap(NULL, BUF_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *mr =
        ibv_reg_mr(p->pd, memory, BUF_SIZE, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    struct ibv_sge sge = sge_of(p, 0, 0, 5000);
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .wr.rdma = {.remote_addr = (uintptr_t)memory, .rkey = mr->rkey}};
    enum ibv_wc_status status;

    assert_int_equal(munmap(memory, BUF_SIZE), 0);
    post_request(p, &wr);
    status = poll_one(p->send_cq).status;
    assert_true(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_OP_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_child_that_only_exits_leaves_the_parent_at_work),
        TEST(a_child_that_executes_leaves_the_parent_at_work),
        TEST(parent_and_child_each_use_a_context_of_their_own),
        TEST(parent_and_children_with_contexts_of_their_own_are_each_others_peers),
        TEST(each_generation_opens_devices_anew),
        TEST(threads_cancelled_while_they_wait_or_poll_harm_nobody),
        TEST(memory_unmapped_under_a_region_is_an_error_and_the_process_lives),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
