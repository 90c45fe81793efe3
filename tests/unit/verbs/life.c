/* SPDX-License-Identifier: BSD-2-Clause */
/* What processes and threads do in the middle of things: fork, exec, exit, cancel. */
#include "fixture.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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
        TEST(threads_cancelled_while_they_wait_or_poll_harm_nobody),
        TEST(memory_unmapped_under_a_region_is_an_error_and_the_process_lives),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
