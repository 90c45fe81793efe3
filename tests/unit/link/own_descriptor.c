/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers out of the program's way, under each limit of open files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "link/own_descriptor.h"

static struct rlimit usual;

static int remember_limit(void **state)
{
    (void)state;
    return getrlimit(RLIMIT_NOFILE, &usual);
}

static int restore_limit(void **state)
{
    (void)state;
    return setrlimit(RLIMIT_NOFILE, &usual);
}

static void set_limit(rlim_t most)
{
    const struct rlimit limit = {
        .rlim_cur = most < usual.rlim_max ? most : usual.rlim_max,
        .rlim_max = usual.rlim_max,
    };

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static int open_something(void)
{
    int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

    assert_true(fd >= 0);
    return fd;
}

static void a_descriptor_moves_up_and_leaves_its_number_free(void **state)
{
    int low = open_something();
    int fd = own_descriptor(low);

    (void)state;
    assert_true(fd >= own_descriptor_first());
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(open_something(), low);
    assert_int_equal(close(low), 0);
    assert_int_equal(close(fd), 0);
}

static void a_copy_leaves_the_descriptor_where_it_is(void **state)
{
    int fd = open_something();
    int copy = own_descriptor_copy(fd);

    (void)state;
    assert_true(copy >= own_descriptor_first());
    assert_true(fcntl(copy, F_GETFD) & FD_CLOEXEC);
    assert_int_equal(close(fd), 0);
    assert_int_equal(close(copy), 0);
}

/* The table of the kernel's has 8 bytes for each number up to the highest in use. */
static void ours_begin_beyond_the_reach_of_select_or_half_way_to_the_limit(void **state)
{
    static const struct {
        rlim_t limit;
        int first;
    } rows[] = {{16, 8}, {64, 32}, {1024, 512}, {2048, 1024}, {RLIM_INFINITY, FD_SETSIZE}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        set_limit(rows[i].limit);
        if (rows[i].limit <= usual.rlim_max)
            assert_int_equal(own_descriptor_first(), rows[i].first);
        assert_in_range(own_descriptor_first(), 0, FD_SETSIZE);
    }
}

static void where_there_is_no_room_a_descriptor_stays_where_it_is(void **state)
{
    enum { LIMIT = 64 };
    int fds[LIMIT];
    int last = -1;
    int count = 0;

    (void)state;
    set_limit(LIMIT);
    while ((last = dup(STDERR_FILENO)) >= 0)
        fds[count++] = last;
    assert_int_equal(close(fds[0]), 0);
    last = open_something();
    assert_int_equal(last, fds[0]);
    assert_int_equal(own_descriptor(last), last);
    assert_true(fcntl(last, F_GETFD) & FD_CLOEXEC);
    for (int i = 0; i < count; i++)
        assert_int_equal(close(fds[i]), 0);
}

static void what_could_not_be_opened_is_passed_through_with_its_error(void **state)
{
    (void)state;
    errno = EPROTO;
    assert_int_equal(own_descriptor(-1), -1);
    assert_int_equal(errno, EPROTO);
    assert_int_equal(own_descriptor_copy(-1), -1);
    assert_int_equal(errno, EBADF);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_descriptor_moves_up_and_leaves_its_number_free),
        cmocka_unit_test(a_copy_leaves_the_descriptor_where_it_is),
        cmocka_unit_test_teardown(ours_begin_beyond_the_reach_of_select_or_half_way_to_the_limit,
                                  restore_limit),
        cmocka_unit_test_teardown(where_there_is_no_room_a_descriptor_stays_where_it_is,
                                  restore_limit),
        cmocka_unit_test(what_could_not_be_opened_is_passed_through_with_its_error),
    };

    return cmocka_run_group_tests(tests, remember_limit, NULL);
}
