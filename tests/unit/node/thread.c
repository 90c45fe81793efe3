/* SPDX-License-Identifier: BSD-2-Clause */
/* The progress thread: it does nothing for nobody, leaves pollers alone, and keeps deadlines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
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

#define SOON_NS UINT64_C(20000000)
#define PATIENCE_MS 30000
#define HOUR_NS UINT64_C(3600000000000)

static int alarm_fd;
static atomic_uint alarms;

static void note_alarm(struct node *n)
{
    const uint64_t one = 1;

    must(n != NULL);
    atomic_fetch_add(&alarms, 1);
    must(write(alarm_fd, &one, sizeof(one)) == sizeof(one));
}

/* With a later one behind it, which puts nothing off. Returns when it is due. */
static uint64_t set_alarm(struct node *n)
{
    const uint64_t at_ns = node_now() + SOON_NS;

    node_set_alarm(n, at_ns);
    node_set_alarm(n, at_ns + HOUR_NS);
    return at_ns;
}

static void expect_alarm(unsigned number, uint64_t at_ns)
{
    uint64_t count;

    must(node_now() >= at_ns);
    must(atomic_load(&alarms) == number);
    must(read(alarm_fd, &count, sizeof(count)) == sizeof(count) && count == 1);
}

static void sleep_until_alarm(struct side *s)
{
    struct pollfd p = {.fd = alarm_fd, .events = POLLIN};
    const uint64_t at_ns = set_alarm(s->node);

    must(poll(&p, 1, PATIENCE_MS) == 1);
    expect_alarm(1, at_ns);
}

static void serve_until_alarm(struct side *s)
{
    const uint64_t limit = node_now() + PATIENCE_MS * UINT64_C(1000000);
    uint64_t at_ns;

    must(node_wait_begin(s->node));
    at_ns = set_alarm(s->node);
    while (node_wait(s->node, alarm_fd, limit) != 1) {
        must(node_now() < limit);
        node_lock(s->node);
        node_progress(s->node);
        node_unlock(s->node);
    }
    node_wait_end(s->node);
    expect_alarm(2, at_ns);
}

static void poll_until_alarm(struct side *s)
{
    const uint64_t limit = node_now() + PATIENCE_MS * UINT64_C(1000000);
    const uint64_t at_ns = set_alarm(s->node);
    struct completion c;

    while (atomic_load(&alarms) < 3) {
        must(node_now() < limit);
        node_enter(s->node);
        must(cq_poll(s->cq, 1, &c) == 0);
        node_progress(s->node);
        node_leave(s->node);
    }
    expect_alarm(3, at_ns);
}

static void set_alarms(struct side *s)
{
    alarm_fd = eventfd(0, EFD_CLOEXEC);
    must(alarm_fd >= 0);
    node_set_alarm_handler(note_alarm);
    write_something(s);
    usleep(100000); /* the thread sleeps without a limit */
    sleep_until_alarm(s);
    serve_until_alarm(s);
    poll_until_alarm(s);
    side_meet(s);
}

static void an_alarm_comes_once_to_who_sleeps_serves_or_polls(void **state)
{
    (void)state;
    pair_run(set_alarms, wait_for_the_end);
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
        cmocka_unit_test(an_alarm_comes_once_to_who_sleeps_serves_or_polls),
        cmocka_unit_test(a_program_that_closes_all_its_descriptors_goes_on),
    };

    return cmocka_run_group_tests(tests, pair_namespace, NULL);
}
