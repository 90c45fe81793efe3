/* SPDX-License-Identifier: BSD-2-Clause */
/* The node's life: fork, exit, threads that are cancelled, many threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pair.h"

static void wait_for_good_end(pid_t pid)
{
    int status;

    must(waitpid(pid, &status, 0) == pid);
    must(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void be_written_to(struct side *s)
{
    side_connect(s);
    side_meet(s);
    must(s->memory[0] == 0x77);
    must(s->memory[9999] == 0x77);
}

static void write_77(struct side *s)
{
    memset(s->memory, 0x77, 10000);
    side_post(s, WR_WRITE, 0, 10000);
    must(side_wait_polling(s).status == STATUS_SUCCESS);
    side_meet(s);
}

static void talk_with_own_child(struct side *s)
{
    int ends[2];
    pid_t pid;

    side_open(s);
    must(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
    s->channel = ends[0];
    pid = fork();
    must(pid >= 0);
    if (pid == 0) {
        struct side child = {.channel = ends[1]};

        alarm(30);
        side_open(&child);
        must(child.mine.qpn >> 16 != s->mine.qpn >> 16);
        side_connect(&child);
        write_77(&child);
        _exit(0);
    }
    be_written_to(s);
    wait_for_good_end(pid);
}

static void a_child_after_fork_has_a_node_of_its_own(void **state)
{
    (void)state;
    side_run_alone(talk_with_own_child);
}

static atomic_bool stop;

static void *poll_for_nothing(void *context)
{
    struct side *s = context;
    struct completion c;

    while (!stop) {
        node_enter(s->node);
        must(cq_poll(s->cq, 1, &c) == 0);
        node_progress(s->node);
        node_leave(s->node);
    }
    return NULL;
}

static void fork_beside_a_poller(struct side *s)
{
    pthread_t poller;

    side_open(s);
    must(pthread_create(&poller, NULL, poll_for_nothing, s) == 0);
    for (int i = 0; i < 50; i++) {
        pid_t pid = fork();

        must(pid >= 0);
        if (pid == 0) {
            alarm(10);
            node_lock(s->node);
            node_progress(s->node);
            node_unlock(s->node);
            node_before_sleep(s->node);
            _exit(0);
        }
        wait_for_good_end(pid);
        side_goes_on();
    }
    stop = true;
    pthread_join(poller, NULL);
}

static void fork_finds_the_lock_free(void **state)
{
    (void)state;
    side_run_alone(fork_beside_a_poller);
}

static void *write_without_end(void *context)
{
    struct side *s = context;

    for (;;) {
        side_post(s, WR_WRITE, 0, 50000);
        must(side_wait_polling(s).status == STATUS_SUCCESS);
    }
    return NULL;
}

static void exit_during_traffic(struct side *s)
{
    pthread_t writer;

    must(pthread_create(&writer, NULL, write_without_end, s) == 0);
    usleep(50000);
    exit(0);
}

static void sleep_a_while(struct side *s)
{
    (void)s;
    usleep(200000);
}

static void a_process_may_exit_while_data_moves(void **state)
{
    (void)state;
    pair_run(exit_during_traffic, sleep_a_while);
}

static void exit_at_rest(struct side *s)
{
    side_open(s);
    exit(0);
}

static void a_process_may_exit_at_rest(void **state)
{
    (void)state;
    side_run_alone(exit_at_rest);
}

static void *wait_for_nothing(void *context)
{
    side_wait_sleeping(context);
    return NULL;
}

static void *poll_and_be_cancelled(void *context)
{
    struct side *s = context;

    for (;;) {
        node_enter(s->node);
        node_progress(s->node);
        node_leave(s->node);
        pthread_testcancel();
    }
    return NULL;
}

static void cancel(struct side *s, void *(*body)(void *))
{
    pthread_t thread;
    void *result;

    must(pthread_create(&thread, NULL, body, s) == 0);
    usleep(2000);
    must(pthread_cancel(thread) == 0);
    must(pthread_join(thread, &result) == 0);
    must(result == PTHREAD_CANCELED);
    node_lock(s->node);
    node_unlock(s->node);
}

static void cancel_threads(struct side *s)
{
    for (int i = 0; i < 20; i++) {
        cancel(s, wait_for_nothing);
        cancel(s, poll_and_be_cancelled);
    }
    side_post(s, WR_WRITE, 0, 50000);
    must(side_wait_sleeping(s).status == STATUS_SUCCESS);
    side_meet(s);
}

static void a_cancelled_thread_leaves_the_lock_free(void **state)
{
    (void)state;
    pair_run(cancel_threads, side_meet);
}

#define POSTS 500u
#define POSTS_OUTSTANDING 48u /* the queue holds 64 */

static atomic_uint completed;

static void *post_many(void *context)
{
    for (uint32_t i = 0; i < POSTS; i++) {
        while (i - completed >= POSTS_OUTSTANDING)
            sched_yield();
        side_post(context, WR_WRITE, 0, 3000);
    }
    return NULL;
}

static void post_and_poll(struct side *s)
{
    pthread_t poster;

    must(pthread_create(&poster, NULL, post_many, s) == 0);
    while (completed < POSTS) {
        must(side_wait_polling(s).status == STATUS_SUCCESS);
        completed++;
    }
    pthread_join(poster, NULL);
    side_meet(s);
}

static void one_thread_posts_while_another_polls(void **state)
{
    (void)state;
    pair_run(post_and_poll, side_meet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_after_fork_has_a_node_of_its_own),
        cmocka_unit_test(fork_finds_the_lock_free),
        cmocka_unit_test(a_process_may_exit_while_data_moves),
        cmocka_unit_test(a_process_may_exit_at_rest),
        cmocka_unit_test(a_cancelled_thread_leaves_the_lock_free),
        cmocka_unit_test(one_thread_posts_while_another_polls),
    };

    return cmocka_run_group_tests(tests, pair_namespace, NULL);
}
