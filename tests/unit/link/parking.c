/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sockets put aside, and taken by many processes at once.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "link/parking.h"

#define SLOTS 60u

static struct parking parking;
static uint64_t inode[SLOTS][FAMILY_COUNT]; /* 0: parked without that family */

static uint64_t inode_of(int fd)
{
    struct stat status;

    return fd < 0 || fstat(fd, &status) ? 0 : status.st_ino;
}

static int park_all(void **state)
{
    (void)state;
    if (parking_open(&parking))
        return -1;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        struct slot_sockets s = {.fd = {-1, -1}};

        /* All have one family, some the other, some both. */
        if (slot % 3 != 1)
            s.fd[FAMILY_IPV4] = socket(AF_INET, SOCK_DGRAM, 0);
        if (slot % 3 != 2)
            s.fd[FAMILY_IPV6] = socket(AF_INET6, SOCK_DGRAM, 0);
        inode[slot][FAMILY_IPV4] = inode_of(s.fd[FAMILY_IPV4]);
        inode[slot][FAMILY_IPV6] = inode_of(s.fd[FAMILY_IPV6]);
        if (parking_count(&parking) != slot || parking_put(&parking, slot, &s))
            return -1;
        slot_sockets_close(&s);
    }
    return 0;
}

static int end_parking(void **state)
{
    (void)state;
    parking_close(&parking);
    return 0;
}

static bool take_is_right(uint32_t slot)
{
    struct slot_sockets s;
    bool right = parking_take(&parking, slot, &s) == 0;

    for (enum family f = 0; f < FAMILY_COUNT && right; f++)
        right = inode_of(s.fd[f]) == inode[slot][f] && (s.fd[f] >= 0) == (inode[slot][f] != 0);
    if (right)
        slot_sockets_close(&s);
    return right;
}

static void each_slot_gives_its_own_sockets_any_number_of_times(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3 * SLOTS; i++)
        assert_true(take_is_right(i * 7 % SLOTS));
    assert_int_equal(parking_count(&parking), SLOTS);
}

static void a_slot_that_is_not_parked_is_not_there(void **state)
{
    struct slot_sockets s;

    (void)state;
    assert_int_equal(parking_take(&parking, SLOTS, &s), -ENOENT);
    assert_int_equal(parking_take(&parking, 255, &s), -ENOENT);
}

static void processes_that_take_at_once_do_not_mix_up(void **state)
{
    enum { PROCESSES = 8, TAKES = 2000 };
    pid_t pids[PROCESSES];

    (void)state;
    for (uint32_t p = 0; p < PROCESSES; p++) {
        pids[p] = fork();
        if (pids[p] == 0) {
            bool right = true;

            for (uint32_t i = 0; i < TAKES && right; i++)
                right = take_is_right((i * 11 + p * 17) % SLOTS);
            _exit(!right);
        }
    }
    for (uint32_t p = 0; p < PROCESSES; p++) {
        int status;

        assert_int_equal(waitpid(pids[p], &status, 0), pids[p]);
        assert_int_equal(status, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_slot_gives_its_own_sockets_any_number_of_times),
        cmocka_unit_test(a_slot_that_is_not_parked_is_not_there),
        cmocka_unit_test(processes_that_take_at_once_do_not_mix_up),
    };

    return cmocka_run_group_tests(tests, park_all, end_parking);
}
