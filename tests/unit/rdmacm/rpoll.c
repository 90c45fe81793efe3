/* SPDX-License-Identifier: BSD-2-Clause */
/* rpoll and rselect, with ordinary descriptors among them: poll(2), select(2). */
#include "streams.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

struct both {
    struct streams s;
    int pipe[2];
};

static int setup(void **state)
{
    static struct both b;

    streams_open(&b.s);
    assert_int_equal(pipe(b.pipe), 0);
    *state = &b;
    return 0;
}

static int teardown(void **state)
{
    struct both *b = *state;

    streams_close(&b->s);
    close(b->pipe[0]);
    close(b->pipe[1]);
    return 0;
}

static void *write_soon(void *fd)
{
    usleep(20000);
    assert_int_equal(write(*(int *)fd, "x", 1), 1);
    return NULL;
}

static void *send_soon(void *socket)
{
    usleep(20000);
    assert_int_equal(rsend(*(int *)socket, "x", 1, 0), 1);
    return NULL;
}

static void a_pipe_and_a_socket_are_waited_for_together(void **state)
{
    struct both *b = *state;
    struct pollfd p[] = {{b->pipe[0], POLLIN, 0}, {-1, POLLIN, 7}, {b->s.server, POLLIN, 0}};
    pthread_t thread;
    char c;

    assert_int_equal(rpoll(p, 3, 0), 0);
    assert_int_equal(p[1].revents, 0);
    assert_int_equal(pthread_create(&thread, NULL, write_soon, &b->pipe[1]), 0);
    assert_int_equal(rpoll(p, 3, -1), 1);
    assert_int_equal(p[0].revents, POLLIN);
    assert_int_equal(p[2].revents, 0);
    pthread_join(thread, NULL);
    assert_int_equal(read(b->pipe[0], &c, 1), 1);
    assert_int_equal(pthread_create(&thread, NULL, send_soon, &b->s.client), 0);
    assert_int_equal(rpoll(p, 3, -1), 1);
    assert_int_equal(p[0].revents, 0);
    assert_int_equal(p[2].revents, POLLIN);
    pthread_join(thread, NULL);
}

static void a_wait_ends_with_its_time(void **state)
{
    struct both *b = *state;
    struct pollfd p[] = {{b->s.server, POLLIN, 0}, {b->pipe[0], POLLIN, 0}};

    assert_int_equal(rpoll(p, 1, 10), 0);
    assert_int_equal(rpoll(p, 2, 10), 0);
    assert_int_equal(rpoll(NULL, 0, 1), 0);
}

static void a_socket_tells_how_it_is_without_being_asked(void **state)
{
    struct both *b = *state;
    struct pollfd p = {b->s.server, 0, 0};

    assert_int_equal(rpoll(&p, 1, 0), 0);
    assert_int_equal(rclose(b->s.client), 0);
    b->s.client = -1;
    assert_int_equal(rpoll(&p, 1, WAIT_MS), 1);
    assert_int_equal(p.revents, POLLHUP);
}

static void sets_are_as_selects_are(void **state)
{
    struct both *b = *state;
    struct timeval none = {0};
    const int most = (b->s.server > b->pipe[0] ? b->s.server : b->pipe[0]) + 1;
    fd_set in, out;

    FD_ZERO(&in);
    FD_ZERO(&out);
    FD_SET(b->s.server, &in);
    FD_SET(b->pipe[0], &in);
    FD_SET(b->s.server, &out);
    assert_int_equal(rselect(most, &in, &out, NULL, &none), 1);
    assert_false(FD_ISSET(b->s.server, &in));
    assert_false(FD_ISSET(b->pipe[0], &in));
    assert_true(FD_ISSET(b->s.server, &out));
    assert_int_equal(rsend(b->s.client, "x", 1, 0), 1);
    FD_SET(b->s.server, &in);
    assert_int_equal(rselect(most, &in, NULL, NULL, NULL), 1);
    assert_true(FD_ISSET(b->s.server, &in));
    expect_errno(rselect(-1, NULL, NULL, NULL, &none), EINVAL);
    close(b->pipe[0]);
    FD_SET(b->pipe[0], &in);
    expect_errno(rselect(most, &in, NULL, NULL, &none), EBADF);
    b->pipe[0] = -1;
}

/* A thread reads all that comes, while another waits to be able to write: each completion that one
 * takes may be what the other waits for. */
static void *read_all(void *socket)
{
    static uint8_t bytes[1000];
    size_t got = 0;

    while (got < 400000) {
        const ssize_t now = rrecv(*(int *)socket, bytes, sizeof(bytes), 0);

        assert_true(now > 0);
        got += (size_t)now;
    }
    return NULL;
}

static void who_polls_is_told_of_what_another_thread_finds(void **state)
{
    static uint8_t bytes[8192];
    struct both *b = *state;
    pthread_t readers[2];

    set_waiting(b->s.client, true);
    assert_int_equal(pthread_create(&readers[0], NULL, read_all, &b->s.client), 0);
    for (int i = 0; i < 50; i++) {
        send_fully(b->s.server, bytes, 8000);
        expect_poll(b->s.server, POLLOUT);
    }
    pthread_join(readers[0], NULL);
}

static void on_signal(int signal)
{
    (void)signal;
}

/* Signals until it is stopped: one that comes before the other thread waits interrupts nothing. */
struct signaller {
    pthread_t thread;
    pthread_t target;
    atomic_bool stop;
};

static void *signal_often(void *context)
{
    struct signaller *s = context;

    while (!atomic_load(&s->stop)) {
        usleep(20000);
        pthread_kill(s->target, SIGUSR1);
    }
    return NULL;
}

static void expect_interrupted(struct pollfd *fds, nfds_t count)
{
    struct signaller s = {.target = pthread_self()};

    assert_int_equal(pthread_create(&s.thread, NULL, signal_often, &s), 0);
    expect_errno(rpoll(fds, count, -1), EINTR);
    atomic_store(&s.stop, true);
    pthread_join(s.thread, NULL);
}

static void a_signal_ends_a_wait(void **state)
{
    struct both *b = *state;
    struct sigaction action = {.sa_handler = on_signal};
    struct pollfd p[] = {{b->s.server, POLLIN, 0}, {b->pipe[0], POLLIN, 0}};

    sigaction(SIGUSR1, &action, NULL);
    expect_interrupted(p, 2);
    expect_interrupted(p, 1);
    action.sa_handler = SIG_DFL;
    sigaction(SIGUSR1, &action, NULL);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_pipe_and_a_socket_are_waited_for_together),    CASE(a_wait_ends_with_its_time),
        CASE(a_socket_tells_how_it_is_without_being_asked),   CASE(sets_are_as_selects_are),
        CASE(who_polls_is_told_of_what_another_thread_finds), CASE(a_signal_ends_a_wait),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
