/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes that come and go together, and what others may do to them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "member.h"
#include "link/limits.h"
#include "link/slot_socket.h"

#define CROWD 64
#define FOREIGN_UID 65534u

static struct member crowd[CROWD + 16];
static const struct udp_config plain;

/* Starts members from first on, all at the same time, and waits for all. */
static void start_crowd(uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        member_begin(&crowd[i], &plain, 0);
    for (uint32_t i = first; i < first + count; i++) {
        member_opened(&crowd[i]);
        if (crowd[i].err)
            fail_msg("member %u: %s", i, crowd[i].sentence);
    }
}

/* Each slot from 1 to count is held by exactly one of the crowd. */
static void expect_slots(uint32_t count)
{
    bool taken[SLOT_COUNT] = {false};

    for (uint32_t i = 0; i < count; i++) {
        assert_in_range(crowd[i].slot, SLOT_FIRST, count);
        assert_false(taken[crowd[i].slot]);
        taken[crowd[i].slot] = true;
    }
}

/* A datagram from one to each other arrives there and nowhere else. */
static void expect_delivery(struct member *from, uint32_t count, uint8_t mark)
{
    for (uint32_t i = 0; i < count; i++) {
        struct member *to = &crowd[i];
        struct shipment s = {
            .path = i % 2 ? path_loopback4() : path_loopback6(),
            .slot = to->slot,
            .mark = mark,
            .src_port = 0xc000,
            .count = 1,
            .len = 64,
        };
        uint32_t before = to->seen_count;

        assert_int_equal(member_send(from, &s), 0);
        member_await(to, before + 1);
        assert_int_equal(to->seen[before].slot, to->slot);
        assert_int_equal(to->seen[before].mark, mark);
    }
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(member_counters(&crowd[i]).handed_over, 0);
}

static void kill_crowd(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        kill(crowd[i].pid, SIGKILL);
    for (uint32_t i = 0; i < count; i++)
        member_kill(&crowd[i]);
}

static int end_crowd(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < sizeof(crowd) / sizeof(crowd[0]); i++) {
        if (crowd[i].pid > 0)
            member_kill(&crowd[i]);
    }
    return 0;
}

static void sixty_four_processes_at_once_all_get_a_slot(void **state)
{
    (void)state;
    start_crowd(0, CROWD);
    expect_slots(CROWD);
    expect_delivery(&crowd[0], CROWD, 7);
}

static void more_processes_than_the_first_slots_get_new_ones(void **state)
{
    (void)state;
    start_crowd(0, SLOTS_AT_ONCE);
    start_crowd(SLOTS_AT_ONCE, 8);
    expect_slots(SLOTS_AT_ONCE + 8);
    expect_delivery(&crowd[SLOTS_AT_ONCE + 7], SLOTS_AT_ONCE + 8, 8);
}

static void slots_of_killed_processes_go_to_the_next(void **state)
{
    uint8_t freed[2];

    (void)state;
    start_crowd(0, 6);
    freed[0] = crowd[1].slot;
    freed[1] = crowd[4].slot;
    member_kill(&crowd[1]);
    member_kill(&crowd[4]);
    start_crowd(1, 1);
    start_crowd(4, 1);
    assert_int_equal(crowd[1].slot + crowd[4].slot, freed[0] + freed[1]);
    expect_slots(6);
    expect_delivery(&crowd[0], 6, 9);
}

/* The creator is nothing special. */
static void the_group_outlives_its_creator(void **state)
{
    (void)state;
    start_crowd(0, 1);
    start_crowd(1, 2);
    member_kill(&crowd[0]);
    start_crowd(0, 1);
    expect_slots(3);
    expect_delivery(&crowd[0], 3, 10);
}

static void a_group_that_dies_never_mixes_with_the_next(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 20; round++) {
        start_crowd(0, 8);
        expect_slots(8);
        expect_delivery(&crowd[round % 8], 8, (uint8_t)round);
        for (uint32_t i = 0; i < 8; i++)
            kill(crowd[i].pid, SIGKILL);
        /* The next ones start while these are dying. */
        for (uint32_t i = 8; i < 16; i++)
            member_begin(&crowd[i], &plain, 0);
        for (uint32_t i = 0; i < 8; i++)
            member_kill(&crowd[i]);
        for (uint32_t i = 8; i < 16; i++) {
            member_opened(&crowd[i]);
            if (crowd[i].err)
                fail_msg("round %u: %s", round, crowd[i].sentence);
        }
        for (uint32_t i = 0; i < 8; i++) {
            crowd[i] = crowd[8 + i];
            crowd[8 + i].pid = 0;
        }
        expect_delivery(&crowd[round % 8], 8, (uint8_t)(100 + round));
        kill_crowd(8);
    }
}

/* Whoever lives hears what is sent to it, whatever happens around it. */
static void processes_come_and_go_while_others_talk(void **state)
{
    enum { COUNT = 16, STEPS = 300 };
    uint32_t dice = 12345;

    (void)state;
    start_crowd(0, COUNT);
    for (uint32_t step = 0; step < STEPS; step++) {
        struct member *to;
        struct member *from;
        struct shipment s = {.path = path_loopback4(), .count = 8, .len = 1040};

        dice = dice * 1664525 + 1013904223;
        if (dice >> 30 == 0) {
            uint32_t victim = (dice >> 20) % COUNT;

            member_kill(&crowd[victim]);
            start_crowd(victim, 1);
            continue;
        }
        to = &crowd[(dice >> 20) % COUNT];
        from = &crowd[(dice >> 10) % COUNT];
        s.slot = to->slot;
        s.mark = (uint8_t)step;
        to->seen_count = 0;
        assert_int_equal(member_send(from, &s), 0);
        member_await(to, s.count);
        for (uint32_t i = 0; i < s.count; i++)
            assert_int_equal(to->seen[i].mark, s.mark);
    }
    expect_slots(COUNT);
}

static void a_closed_link_leaves_its_slot_clean(void **state)
{
    struct shipment s = {.path = path_loopback4(), .slot = 2, .mark = 1, .count = 1, .len = 64};

    (void)state;
    start_crowd(0, 1);
    start_crowd(1, 1);
    member_close(&crowd[1]);
    assert_int_equal(member_send(&crowd[0], &s), 0);
    start_crowd(1, 1);
    assert_int_equal(crowd[1].slot, 2);
    s.mark = 2;
    assert_int_equal(member_send(&crowd[0], &s), 0);
    member_await(&crowd[1], 1);
    assert_int_equal(crowd[1].seen[0].mark, 2);
}

static void a_forked_child_gets_a_slot_of_its_own(void **state)
{
    (void)state;
    start_crowd(0, 2);
    assert_int_equal(member_fork(&crowd[1]), 3);
    expect_delivery(&crowd[0], 2, 3);
}

static void a_forked_child_does_not_keep_the_lease_of_a_killed_parent(void **state)
{
    pid_t child;

    (void)state;
    start_crowd(0, 1);
    start_crowd(1, 1);
    child = member_fork_idle(&crowd[1]);
    member_kill(&crowd[1]);
    start_crowd(1, 1);
    assert_int_equal(crowd[1].slot, 2);
    expect_delivery(&crowd[0], 2, 4);
    kill(child, SIGKILL);
}

static void a_stopped_member_holds_nobody_up(void **state)
{
    (void)state;
    start_crowd(0, 2);
    kill(crowd[0].pid, SIGSTOP);
    start_crowd(2, 8);
    kill(crowd[0].pid, SIGCONT);
    expect_slots(10);
}

static void stopped_members_alone_are_named_after_a_while(void **state)
{
    char pid[16];

    (void)state;
    start_crowd(0, 1);
    kill(crowd[0].pid, SIGSTOP);
    member_begin(&crowd[1], &plain, 0);
    member_opened(&crowd[1]);
    assert_int_equal(crowd[1].err, -ETIMEDOUT);
    snprintf(pid, sizeof(pid), "%d", crowd[0].pid);
    assert_non_null(strstr(crowd[1].sentence, pid));
}

/* What it does with its limit is its own affair: it has a descriptor aside for others. */
static void a_process_out_of_descriptors_lets_newcomers_in(void **state)
{
    (void)state;
    start_crowd(0, 1);
    member_use_up_descriptors(&crowd[0]);
    assert_int_equal(member_counters(&crowd[0]).newcomers_pinched, 0);
    start_crowd(1, 1);
    start_crowd(2, 6);
    expect_slots(8);
    expect_delivery(&crowd[1], 8, 6);
    assert_in_range(member_counters(&crowd[0]).newcomers_pinched, 1, 7);
}

static void another_program_on_the_port_is_told(void **state)
{
    int fds[2] = {slot_socket_make(FAMILY_IPV4), -1};

    (void)state;
    assert_true(fds[0] >= 0);
    member_begin(&crowd[0], &plain, 0);
    member_opened(&crowd[0]);
    assert_int_equal(crowd[0].err, -EADDRINUSE);
    assert_non_null(strstr(crowd[0].sentence, "another program"));
    member_kill(&crowd[0]);
    close(fds[0]);
}

static void another_user_on_the_port_is_told(void **state)
{
    static const struct udp_config alone = {.no_guests = true};

    (void)state;
    member_begin(&crowd[0], &plain, FOREIGN_UID);
    member_opened(&crowd[0]);
    if (crowd[0].err == -EPERM)
        skip(); /* No other user to become. */
    member_begin(&crowd[1], &alone, 0);
    member_opened(&crowd[1]);
    assert_int_equal(crowd[1].err, -EADDRINUSE);
    assert_non_null(strstr(crowd[1].sentence, "65534"));
}

/* Another user takes a name of ours. Returns its pid; -1 where there is no other user. */
static pid_t squat(uint32_t name, bool listening)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int len = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "uroce/%u/%u", geteuid(),
                       name);
    int ready[2];
    char byte = 0;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    if (pid == 0) {
        int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

        if (setresuid(FOREIGN_UID, FOREIGN_UID, FOREIGN_UID) == 0 &&
            bind(fd, (struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len)) == 0 &&
            (!listening || listen(fd, 0) == 0) && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0)
            byte = 1;
        if (write(ready[1], &byte, 1) == 1 && byte)
            pause();
        _exit(0);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    if (byte)
        return pid;
    waitpid(pid, NULL, 0);
    return -1;
}

static void end_squatter(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void squatters_on_the_names_are_passed_over(void **state)
{
    pid_t listening = squat(0, true);
    pid_t silent;

    (void)state;
    if (listening < 0)
        skip();
    silent = squat(1, false);
    start_crowd(0, 4);
    expect_slots(4);
    end_squatter(listening);
    end_squatter(silent);
    /* Names that are free again do not make a second group. */
    start_crowd(4, 4);
    expect_slots(8);
    expect_delivery(&crowd[5], 8, 5);
}

static void squatters_on_all_names_are_told(void **state)
{
    pid_t pids[GROUP_NAMES];

    (void)state;
    for (uint32_t i = 0; i < GROUP_NAMES; i++) {
        pids[i] = squat(i, true);
        if (pids[i] < 0)
            skip();
    }
    member_begin(&crowd[0], &plain, 0);
    member_opened(&crowd[0]);
    assert_int_equal(crowd[0].err, -EADDRINUSE);
    assert_non_null(strstr(crowd[0].sentence, "names"));
    member_kill(&crowd[0]);
    for (uint32_t i = 0; i < GROUP_NAMES; i++)
        end_squatter(pids[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(sixty_four_processes_at_once_all_get_a_slot, end_crowd),
        cmocka_unit_test_teardown(more_processes_than_the_first_slots_get_new_ones, end_crowd),
        cmocka_unit_test_teardown(slots_of_killed_processes_go_to_the_next, end_crowd),
        cmocka_unit_test_teardown(the_group_outlives_its_creator, end_crowd),
        cmocka_unit_test_teardown(a_group_that_dies_never_mixes_with_the_next, end_crowd),
        cmocka_unit_test_teardown(processes_come_and_go_while_others_talk, end_crowd),
        cmocka_unit_test_teardown(a_closed_link_leaves_its_slot_clean, end_crowd),
        cmocka_unit_test_teardown(a_forked_child_gets_a_slot_of_its_own, end_crowd),
        cmocka_unit_test_teardown(a_forked_child_does_not_keep_the_lease_of_a_killed_parent,
                                  end_crowd),
        cmocka_unit_test_teardown(a_stopped_member_holds_nobody_up, end_crowd),
        cmocka_unit_test_teardown(stopped_members_alone_are_named_after_a_while, end_crowd),
        cmocka_unit_test_teardown(a_process_out_of_descriptors_lets_newcomers_in, end_crowd),
        cmocka_unit_test_teardown(another_program_on_the_port_is_told, end_crowd),
        cmocka_unit_test_teardown(another_user_on_the_port_is_told, end_crowd),
        cmocka_unit_test_teardown(squatters_on_the_names_are_passed_over, end_crowd),
        cmocka_unit_test_teardown(squatters_on_all_names_are_told, end_crowd),
    };

    namespace_make();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
