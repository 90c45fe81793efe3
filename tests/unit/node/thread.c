/* SPDX-License-Identifier: BSD-2-Clause */
/* The progress thread: it does nothing for nobody, leaves pollers alone, and keeps deadlines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <time.h>
#include <unistd.h>

#include "node/node_private.h"
#include "pair.h"

#define TURNS 100u
#define MESSAGES ((uint64_t)100)
#define TIMEOUT_NS UINT64_C(67000000) /* 4.096 us * 2^14 */

static void wait_for_the_end(struct side *s)
{
    side_meet(s);
}

static void write_something(struct side *s)
{
    side_post(s, WR_WRITE, 0, 100000);
    must(side_wait_sleeping(s).status == STATUS_SUCCESS);
}

static void count_wakeups_at_rest(struct side *s)
{
    struct node_counters before, after;

    write_something(s);
    usleep(200000);
    before = node_counters(s->node);
    usleep(300000);
    after = node_counters(s->node);
    must(after.wakeups == before.wakeups);
    must(after.wakeups > 0);
    side_meet(s);
}

static void a_node_with_connections_and_no_traffic_never_wakes(void **state)
{
    (void)state;
    pair_run(count_wakeups_at_rest, wait_for_the_end);
}

/*
 * A machine that is busy with other things stops a poller now and then for so long that the
 * thread rightly steps in; so the best of many turns counts.
 */
static void receive_polling(struct side *s)
{
    uint64_t fewest = UINT64_MAX;

    for (uint32_t i = 0; i < 32; i++)
        side_post_recv(s, 0, 64);
    side_meet(s);
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        uint64_t before = node_counters(s->node).wakeups;

        for (uint32_t i = 0; i < MESSAGES; i++) {
            must(side_wait_polling(s).status == STATUS_SUCCESS);
            side_post_recv(s, 0, 64);
        }
        before = node_counters(s->node).wakeups - before;
        fewest = before < fewest ? before : fewest;
    }
    must(fewest < MESSAGES / 10);
    side_meet(s);
}

static void send_one_by_one(struct side *s)
{
    side_meet(s);
    for (uint64_t i = 0; i < TURNS * MESSAGES; i++) {
        side_post(s, WR_SEND, 0, 64);
        must(side_wait_polling(s).status == STATUS_SUCCESS);
    }
    side_meet(s);
}

static void a_polling_program_is_left_alone(void **state)
{
    (void)state;
    pair_run(receive_polling, send_one_by_one);
}

static void send_to_nobody(struct side *s)
{
    struct completion c;
    uint64_t begin, end;

    side_meet(s);
    /* Long enough for the thread to sleep without a limit. */
    usleep(100000);
    begin = node_now();
    side_post(s, WR_SEND, 0, 64);
    c = side_wait_sleeping(s);
    end = node_now();
    must(c.status == STATUS_RETRY_EXC_ERR);
    /* Eight times 67 ms of time-out (14) at least; twice that is on time (IBA 9.7.6.1: up to
     * four). */
    must(end - begin > 8 * TIMEOUT_NS);
    must(end - begin < 32 * TIMEOUT_NS);
    side_meet(s);
}

static void destroy(struct side *s)
{
    node_lock(s->node);
    must(qp_free(s->qp) == 0);
    node_unlock(s->node);
    side_meet(s);
    side_meet(s);
}

static void a_time_out_expires_while_everybody_sleeps(void **state)
{
    (void)state;
    pair_run(send_to_nobody, destroy);
}

static uint64_t cpu_time(void)
{
    struct timespec t;

    must(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Another file gets no number of ours: what is written to such a number is the program's loss. */
static void close_all_descriptors(struct side *s)
{
    struct completion c;
    uint64_t before;

    write_something(s);
    side_meet(s);
    closefrom(3);
    before = cpu_time();
    usleep(300000);
    must(cpu_time() - before < 100000000);
    for (uint32_t i = 0; i < 1000; i++) {
        node_enter(s->node);
        must(cq_poll(s->cq, 1, &c) == 0);
        node_progress(s->node);
        node_leave(s->node);
    }
    side_post(s, WR_WRITE, 0, 100);
    node_before_sleep(s->node);
    thread_stop(s->node);
}

static void a_program_that_closes_all_its_descriptors_goes_on(void **state)
{
    (void)state;
    pair_run(close_all_descriptors, wait_for_the_end);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_with_connections_and_no_traffic_never_wakes),
        cmocka_unit_test(a_polling_program_is_left_alone),
        cmocka_unit_test(a_time_out_expires_while_everybody_sleeps),
        cmocka_unit_test(a_program_that_closes_all_its_descriptors_goes_on),
    };

    return cmocka_run_group_tests(tests, pair_namespace, NULL);
}
