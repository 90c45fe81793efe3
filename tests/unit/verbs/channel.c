/* SPDX-License-Identifier: BSD-2-Clause */
/* Completion channels: readable means an event is queued, and no event is lost. */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static void nonblocking(int fd)
{
    assert_int_equal(fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
}

static void send_byte(struct pair *p, unsigned flags)
{
    struct ibv_sge sge = sge_of(p, 0, 0, 1);
    struct ibv_send_wr wr = {
        .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = flags};

    post_receive(p, 1, 1);
    post_request(p, &wr);
    expect_success(p->send_cq);
}

/* The one event that is queued, acknowledged at once. */
static void expect_event(struct pair *p)
{
    struct ibv_cq *cq = NULL;
    void *cq_context = NULL;

    assert_true(readable(p->channel->fd, WAIT_MS));
    assert_int_equal(ibv_get_cq_event(p->channel, &cq, &cq_context), 0);
    assert_ptr_equal(cq, p->recv_cq);
    assert_ptr_equal(cq_context, p);
    ibv_ack_cq_events(cq, 1);
}

static void expect_no_event(struct pair *p)
{
    assert_false(readable(p->channel->fd, 0));
}

static void a_queue_that_is_not_armed_says_nothing(void **state)
{
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    send_byte(&p, 0);
    expect_no_event(&p);
    pair_close(&p);
}

static void an_armed_queue_tells_of_the_next_entry_once(void **state)
{
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_req_notify_cq(p.recv_cq, 0), 0);
    expect_no_event(&p);
    send_byte(&p, 0);
    send_byte(&p, 0);
    expect_event(&p);
    expect_no_event(&p);
    pair_close(&p);
}

static void entries_before_arming_raise_no_event(void **state)
{
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    send_byte(&p, 0);
    assert_int_equal(ibv_req_notify_cq(p.recv_cq, 0), 0);
    expect_no_event(&p);
    send_byte(&p, 0);
    expect_event(&p);
    pair_close(&p);
}

static void solicited_arming_waits_for_a_solicited_message(void **state)
{
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_req_notify_cq(p.recv_cq, 1), 0);
    send_byte(&p, 0);
    expect_no_event(&p);
    send_byte(&p, IBV_SEND_SOLICITED);
    expect_event(&p);
    pair_close(&p);
}

static void solicited_arming_does_not_weaken_a_full_one(void **state)
{
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_req_notify_cq(p.recv_cq, 0), 0);
    assert_int_equal(ibv_req_notify_cq(p.recv_cq, 1), 0);
    send_byte(&p, 0);
    expect_event(&p);
    pair_close(&p);
}

static void each_event_not_fetched_keeps_its_token(void **state)
{
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ibv_req_notify_cq(p.recv_cq, 0), 0);
        send_byte(&p, 0);
    }
    for (int i = 0; i < 3; i++)
        expect_event(&p);
    expect_no_event(&p);
    pair_close(&p);
}

static void a_nonblocking_channel_without_events_says_eagain(void **state)
{
    struct ibv_cq *cq;
    void *cq_context;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    nonblocking(p.channel->fd);
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &cq_context), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(ibv_req_notify_cq(p.recv_cq, 0), 0);
    send_byte(&p, 0);
    expect_event(&p);
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &cq_context), -1);
    pair_close(&p);
}

static void edge_triggered_epoll_sees_each_event(void **state)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    nonblocking(p.channel->fd);
    assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, p.channel->fd, &event), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(epoll_wait(epoll, &event, 1, 0), 0);
        assert_int_equal(ibv_req_notify_cq(p.recv_cq, 0), 0);
        send_byte(&p, 0);
        assert_int_equal(epoll_wait(epoll, &event, 1, WAIT_MS), 1);
        expect_event(&p);
    }
    close(epoll);
    pair_close(&p);
}

static int moderate(struct pair *p, uint16_t count, uint16_t period_us)
{
    struct ibv_modify_cq_attr attr = {.attr_mask = IBV_CQ_ATTR_MODERATE,
                                      .moderate = {.cq_count = count, .cq_period = period_us}};

    return ibv_modify_cq(p->recv_cq, &attr);
}

static void a_moderated_queue_waits_for_so_many_entries(void **state)
{
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    assert_int_equal(moderate(&p, 3, 0), 0);
    assert_int_equal(ibv_req_notify_cq(p.recv_cq, 0), 0);
    send_byte(&p, 0);
    send_byte(&p, 0);
    expect_no_event(&p);
    send_byte(&p, 0);
    expect_event(&p);
    pair_close(&p);
}

/* Nobody polls: the progress thread keeps the time. */
static void a_moderated_queue_waits_for_its_period_and_no_longer(void **state)
{
    struct timespec start, end;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    assert_int_equal(moderate(&p, 100, 20000), 0);
    assert_int_equal(ibv_req_notify_cq(p.recv_cq, 0), 0);
    clock_gettime(CLOCK_MONOTONIC, &start);
    send_byte(&p, 0);
    expect_event(&p);
    clock_gettime(CLOCK_MONOTONIC, &end);
    /* A busy machine can only make it longer. */
    assert_true((end.tv_sec - start.tv_sec) * 1000000000 + end.tv_nsec - start.tv_nsec >= 20000000);
    pair_close(&p);
}

static void what_cannot_be_modified_is_refused(void **state)
{
    struct ibv_modify_cq_attr attr = {.attr_mask = 1u << 7};
    struct ibv_device_attr_ex device;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_modify_cq(p.recv_cq, &attr), EINVAL);
    attr.attr_mask = 0;
    assert_int_equal(ibv_modify_cq(p.recv_cq, &attr), EINVAL);
    assert_int_equal(ibv_query_device_ex(p.context, NULL, &device), 0);
    assert_int_equal(device.cq_mod_caps.max_cq_count, UINT16_MAX);
    assert_int_equal(device.cq_mod_caps.max_cq_period, UINT16_MAX);
    pair_close(&p);
}

static void *send_later(void *arg)
{
    const struct timespec pause = {.tv_nsec = 30000000};

    nanosleep(&pause, NULL);
    send_byte(arg, 0);
    return NULL;
}

static void a_sleeper_is_woken(void **state)
{
    struct ibv_cq *cq;
    void *cq_context;
    pthread_t thread;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_req_notify_cq(p.recv_cq, 0), 0);
    assert_int_equal(pthread_create(&thread, NULL, send_later, &p), 0);
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &cq_context), 0);
    ibv_ack_cq_events(cq, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pair_close(&p);
}

/* A thread that waits for one event. */
struct sleeper {
    struct pair *pair;
    pthread_t thread;
    int result;
    int error;
};

static void *sleep_once(void *arg)
{
    struct sleeper *s = arg;
    struct ibv_cq *cq;
    void *cq_context;

    s->result = ibv_get_cq_event(s->pair->channel, &cq, &cq_context);
    s->error = errno;
    if (s->result == 0)
        ibv_ack_cq_events(cq, 1);
    return NULL;
}

static void put_to_sleep(struct sleeper *s, struct pair *p)
{
    const struct timespec pause = {.tv_nsec = 20000000};

    *s = (struct sleeper){.pair = p, .result = 1};
    assert_int_equal(pthread_create(&s->thread, NULL, sleep_once, s), 0);
    nanosleep(&pause, NULL);
}

static void two_sleepers_get_an_event_each(void **state)
{
    struct sleeper sleepers[2];
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    for (int i = 0; i < 2; i++)
        put_to_sleep(&sleepers[i], &p);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ibv_req_notify_cq(p.recv_cq, 0), 0);
        send_byte(&p, 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(sleepers[i].thread, NULL), 0);
        assert_int_equal(sleepers[i].result, 0);
    }
    expect_no_event(&p);
    pair_close(&p);
}

static void what_comes_after_a_sleeper_was_cancelled_is_told(void **state)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    struct sleeper sleeper;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    put_to_sleep(&sleeper, &p);
    assert_int_equal(pthread_cancel(sleeper.thread), 0);
    assert_int_equal(pthread_join(sleeper.thread, NULL), 0);
    assert_int_equal(ibv_req_notify_cq(p.recv_cq, 0), 0);
    post_receive(&p, 1, 1);
    post_request(&p, &wr);
    expect_event(&p); /* nobody polls */
    pair_close(&p);
}

static void take_signal(int signal)
{
    (void)signal;
}

static void a_sleeper_is_interrupted_as_its_signal_handler_says(void **state)
{
    const struct timespec pause = {.tv_nsec = 20000000};
    const int flags[] = {SA_RESTART, 0};
    struct sleeper sleeper;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    put_to_sleep(&sleeper, &p);
    for (int i = 0; i < 2; i++) {
        const struct sigaction a = {.sa_handler = take_signal, .sa_flags = flags[i]};

        assert_int_equal(sigaction(SIGUSR1, &a, NULL), 0);
        assert_int_equal(pthread_kill(sleeper.thread, SIGUSR1), 0);
        nanosleep(&pause, NULL);
    }
    /* A signal that came while it did not sleep interrupted nothing. */
    while (pthread_tryjoin_np(sleeper.thread, NULL) == EBUSY) {
        assert_int_equal(pthread_kill(sleeper.thread, SIGUSR1), 0);
        nanosleep(&pause, NULL);
    }
    assert_int_equal(sleeper.result, -1);
    assert_int_equal(sleeper.error, EINTR);
    assert_int_equal(ibv_req_notify_cq(p.recv_cq, 0), 0);
    send_byte(&p, 0);
    expect_event(&p);
    pair_close(&p);
}

#define WAKE_COUNT 300

static void *send_many(void *arg)
{
    struct pair *p = arg;
    struct ibv_sge sge = sge_of(p, 0, 0, 1);
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

    for (int i = 0; i < WAKE_COUNT; i++) {
        post_request(p, &wr); /* waits for a receive request, if there is none yet */
        expect_success(p->send_cq);
    }
    return NULL;
}

/* The loop of the man page: arm, take all that is there, and only then sleep. */
static void take_many(bool sleeps)
{
    pthread_t thread;
    struct pair p;
    struct sleeper sleeper = {.pair = &p};
    int taken = 0;

    pair_setup(&p, IBV_QPT_RC, 0);
    for (int i = 0; i < 8; i++)
        post_receive(&p, 1, 1);
    assert_int_equal(pthread_create(&thread, NULL, send_many, &p), 0);
    while (taken < WAKE_COUNT) {
        struct ibv_wc wc;

        assert_int_equal(ibv_req_notify_cq(p.recv_cq, 0), 0);
        for (; ibv_poll_cq(p.recv_cq, 1, &wc) == 1; taken++)
            post_receive(&p, 1, 1);
        if (taken < WAKE_COUNT && !sleeps)
            expect_event(&p);
        else if (taken < WAKE_COUNT)
            sleep_once(&sleeper);
        assert_int_equal(sleeper.result, 0);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    pair_close(&p);
}

static void no_wake_up_is_lost_between_arming_and_polling_the_channel(void **state)
{
    (void)state;
    take_many(false);
}

static void no_wake_up_is_lost_between_arming_and_sleeping(void **state)
{
    (void)state;
    take_many(true);
}

static void queues_with_events_take_turns(void **state)
{
    struct ibv_cq *second;
    struct ibv_cq *cq;
    void *cq_context;
    struct pair p;

    (void)state;
    pair_open(&p);
    second = ibv_create_cq(p.context, 4, "second", p.channel, 0);
    assert_int_equal(ibv_destroy_cq(p.send_cq), 0);
    p.send_cq = second;
    pair_create_qps(&p, IBV_QPT_RC, 0);
    pair_connect(&p);
    assert_int_equal(ibv_req_notify_cq(p.recv_cq, 0), 0);
    assert_int_equal(ibv_req_notify_cq(second, 0), 0);
    send_byte(&p, 0);
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &cq_context), 0);
    assert_ptr_equal(cq, p.recv_cq);
    ibv_ack_cq_events(cq, 1);
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &cq_context), 0);
    assert_ptr_equal(cq, second);
    assert_string_equal(cq_context, "second");
    ibv_ack_cq_events(cq, 1);
    pair_close(&p);
}

static void a_channel_in_use_is_not_destroyed(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p);
    assert_int_equal(ibv_destroy_comp_channel(p.channel), EBUSY);
    pair_close(&p);
}

static void events_not_fetched_go_with_their_queue(void **state)
{
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_req_notify_cq(p.recv_cq, 0), 0);
    send_byte(&p, 0);
    assert_true(readable(p.channel->fd, WAIT_MS));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ibv_destroy_qp(p.qp[i]), 0);
        p.qp[i] = NULL;
    }
    assert_int_equal(ibv_destroy_cq(p.recv_cq), 0);
    expect_no_event(&p);
    p.recv_cq = ibv_create_cq(p.context, 1, NULL, p.channel, 0);
    pair_close(&p);
}

struct destruction {
    struct ibv_cq *cq;
    int result;
    volatile bool done;
};

static void *destroy(void *arg)
{
    struct destruction *d = arg;

    d->result = ibv_destroy_cq(d->cq);
    d->done = true;
    return NULL;
}

static void destroying_a_queue_waits_for_acknowledgements(void **state)
{
    const struct timespec pause = {.tv_nsec = 50000000};
    struct destruction d = {.result = -1};
    struct ibv_cq *cq;
    void *cq_context;
    pthread_t thread;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_req_notify_cq(p.recv_cq, 0), 0);
    send_byte(&p, 0);
    assert_int_equal(ibv_get_cq_event(p.channel, &cq, &cq_context), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ibv_destroy_qp(p.qp[i]), 0);
        p.qp[i] = NULL;
    }
    d.cq = cq;
    assert_int_equal(pthread_create(&thread, NULL, destroy, &d), 0);
    nanosleep(&pause, NULL);
    assert_false(d.done);
    ibv_ack_cq_events(cq, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(d.result, 0);
    p.recv_cq = ibv_create_cq(p.context, 1, NULL, p.channel, 0);
    pair_close(&p);
}

static void acknowledging_too_much_hurts_nobody(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p);
    ibv_ack_cq_events(p.recv_cq, 3);
    pair_close(&p);
}

static void arming_without_a_channel_is_no_error(void **state)
{
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    assert_int_equal(ibv_req_notify_cq(p.send_cq, 0), 0);
    send_byte(&p, 0);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_that_is_not_armed_says_nothing),
        cmocka_unit_test(an_armed_queue_tells_of_the_next_entry_once),
        cmocka_unit_test(entries_before_arming_raise_no_event),
        cmocka_unit_test(solicited_arming_waits_for_a_solicited_message),
        cmocka_unit_test(solicited_arming_does_not_weaken_a_full_one),
        cmocka_unit_test(each_event_not_fetched_keeps_its_token),
        cmocka_unit_test(a_nonblocking_channel_without_events_says_eagain),
        cmocka_unit_test(edge_triggered_epoll_sees_each_event),
        cmocka_unit_test(a_moderated_queue_waits_for_so_many_entries),
        cmocka_unit_test(a_moderated_queue_waits_for_its_period_and_no_longer),
        cmocka_unit_test(what_cannot_be_modified_is_refused),
        cmocka_unit_test(a_sleeper_is_woken),
        cmocka_unit_test(two_sleepers_get_an_event_each),
        cmocka_unit_test(what_comes_after_a_sleeper_was_cancelled_is_told),
        cmocka_unit_test(a_sleeper_is_interrupted_as_its_signal_handler_says),
        cmocka_unit_test(no_wake_up_is_lost_between_arming_and_polling_the_channel),
        cmocka_unit_test(no_wake_up_is_lost_between_arming_and_sleeping),
        cmocka_unit_test(queues_with_events_take_turns),
        cmocka_unit_test(a_channel_in_use_is_not_destroyed),
        cmocka_unit_test(events_not_fetched_go_with_their_queue),
        cmocka_unit_test(destroying_a_queue_waits_for_acknowledgements),
        cmocka_unit_test(acknowledging_too_much_hurts_nobody),
        cmocka_unit_test(arming_without_a_channel_is_no_error),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
