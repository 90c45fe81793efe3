/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Guarded copies: memory that is gone, the handlers of the application before
 * and after ours, and faults that are not ours. What ends a process is
 * tried in a child.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "node/guarded_copy.h"

#define PAGE ((size_t)4096)

/* Never mapped: below what the kernel lets anybody map. */
#define NOWHERE ((uint8_t *)(uintptr_t)PAGE)
/* Within no address space: x86-64 reports the fault without an address. */
#define NOT_CANONICAL ((void *)0xaaaaaab340e2)

/* AddressSanitizer's, when it is there: it reads its note on an address, and such have none. */
__attribute__((weak)) void __asan_init(void); /* NOLINT(bugprone-reserved-identifier): theirs */

/* Pages of memory and behind them one that nothing may touch, nor take for other uses. */
static uint8_t *map_with_hole(size_t pages)
{
    uint8_t *p =
        mmap(NULL, (pages + 1) * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(p != MAP_FAILED);
    assert_int_equal(mprotect(p + pages * PAGE, PAGE, PROT_NONE), 0);
    return p;
}

/* Runs body in a child and returns its wait status. */
static int in_child(void (*body)(void))
{
    const struct rlimit no_core = {0, 0};
    int status;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        /* The test framework's handlers are not part of the case. */
        signal(SIGSEGV, SIG_DFL);
        signal(SIGBUS, SIG_DFL);
        setrlimit(RLIMIT_CORE, &no_core);
        body();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static void expect_success(void (*body)(void))
{
    int status = in_child(body);

    assert_false(WIFSIGNALED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void expect_killed_by(void (*body)(void), int signal)
{
    int status = in_child(body);

    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), signal);
}

/* In a child: the number tells which of them failed. */
#define must(number, condition)                                                                    \
    do {                                                                                           \
        if (!(condition))                                                                          \
            _exit(number);                                                                         \
    } while (0)

static void copy_all_ways(void)
{
    uint8_t from[96], to[96], expected[96];

    guarded_copy_install();
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = (uint8_t)(i + 1);
    for (size_t len = 0; len <= 64; len++)
        for (size_t source = 0; source < 8; source++)
            for (size_t destination = 0; destination < 16; destination++) {
                memset(to, 0, sizeof(to));
                memset(expected, 0, sizeof(expected));
                for (size_t i = 0; i < len; i++)
                    expected[destination + i] = from[source + i];
                must(1, guarded_copy(to + destination, from + source, len) == 0);
                must(2, memcmp(to, expected, sizeof(to)) == 0);
            }
}

static void copies_of_all_lengths_and_alignments_arrive(void **state)
{
    (void)state;
    expect_success(copy_all_ways);
}

static void copy_at_holes(void)
{
    uint8_t *memory = map_with_hole(2);
    uint8_t ours[2 * PAGE];

    must(1, guarded_probe(memory, 2 * PAGE, true) == 0);
    for (int i = 0; i < 1000; i++) {
        must(2, guarded_copy(memory + 2 * PAGE, ours, 1) == -EFAULT);
        must(3, guarded_copy(ours, memory + 2 * PAGE, 1) == -EFAULT);
        must(4, guarded_copy(memory + PAGE, ours, PAGE + 1) == -EFAULT);
        must(5, guarded_copy(ours, memory + PAGE, PAGE + 8) == -EFAULT);
        must(6, guarded_copy(memory, ours, 2 * PAGE) == 0);
        must(7, guarded_copy(NOWHERE, ours, 100) == -EFAULT);
        must(8, guarded_copy(ours, NOWHERE, 100) == -EFAULT);
        if (__asan_init != NULL)
            continue;
        must(9, guarded_copy(NOT_CANONICAL, ours, 100) == -EFAULT);
        must(10, guarded_copy(ours, NOT_CANONICAL, 100) == -EFAULT);
    }
}

static void memory_that_is_gone_is_an_error(void **state)
{
    (void)state;
    expect_success(copy_at_holes);
}

static void copy_to_read_only(void)
{
    uint8_t *memory = map_with_hole(1);
    uint8_t ours[8] = {1};

    guarded_copy_install();
    must(1, mprotect(memory, PAGE, PROT_READ) == 0);
    must(2, guarded_copy(memory, ours, 8) == -EFAULT);
    must(3, guarded_copy(ours, memory, 8) == 0);
    must(4, mprotect(memory, PAGE, PROT_NONE) == 0);
    must(5, guarded_copy(ours, memory, 8) == -EFAULT);
}

static void read_only_memory_is_read_and_not_written(void **state)
{
    (void)state;
    expect_success(copy_to_read_only);
}

static void copy_past_a_file(void)
{
    FILE *file = tmpfile();
    uint8_t ours[8];
    uint8_t *memory;

    must(1, file != NULL && ftruncate(fileno(file), PAGE) == 0);
    memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    must(2, memory != MAP_FAILED && guarded_probe(memory, PAGE, true) == 0);
    must(3, ftruncate(fileno(file), 0) == 0);
    must(4, guarded_copy(ours, memory, 8) == -EFAULT);
    must(5, guarded_copy(memory, ours, 8) == -EFAULT);
}

static void a_file_cut_short_is_an_error(void **state)
{
    (void)state;
    expect_success(copy_past_a_file);
}

static void fault(void)
{
    *(volatile int *)map_with_hole(0) = 1;
}

static void fault_after_a_copy(void)
{
    uint8_t ours[8];

    guarded_copy_install();
    must(1, guarded_copy(ours, map_with_hole(0), 8) == -EFAULT);
    fault();
}

static void *fault_in_thread(void *unused)
{
    (void)unused;
    fault();
    return NULL;
}

static volatile bool copying_ends;

static void *copy_in_thread(void *unused)
{
    uint8_t ours[8];
    uint8_t *memory = map_with_hole(0);

    (void)unused;
    while (!copying_ends)
        guarded_copy(ours, memory, 8);
    return NULL;
}

static void fault_beside_copies(void)
{
    pthread_t copier, faulter;

    guarded_copy_install();
    pthread_create(&copier, NULL, copy_in_thread, NULL);
    usleep(20000);
    pthread_create(&faulter, NULL, fault_in_thread, NULL);
    pthread_join(faulter, NULL);
}

static void faults_of_the_program_itself_end_it_as_ever(void **state)
{
    (void)state;
    expect_killed_by(fault_after_a_copy, SIGSEGV);
    expect_killed_by(fault_beside_copies, SIGSEGV);
}

static void send_to_self(void)
{
    guarded_copy_install();
    raise(SIGBUS);
}

static void ignore_and_fault(void)
{
    signal(SIGSEGV, SIG_IGN);
    guarded_copy_install();
    raise(SIGSEGV);
    fault();
}

static void signals_that_are_sent_have_their_default(void **state)
{
    (void)state;
    expect_killed_by(send_to_self, SIGBUS);
    /* One that is sent is ignored, a fault cannot be. */
    expect_killed_by(ignore_and_fault, SIGSEGV);
}

static volatile sig_atomic_t handled;
static void *volatile handled_address;
static sigjmp_buf handled_out;

static void handle_with_information(int signal, siginfo_t *info, void *context)
{
    (void)context;
    handled = signal;
    handled_address = info->si_addr;
    siglongjmp(handled_out, 1);
}

static void handle_simply(int signal)
{
    handled = signal;
    siglongjmp(handled_out, 1);
}

static bool is_blocked(int signal)
{
    sigset_t mask;

    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    return sigismember(&mask, signal) == 1;
}

static void chain_to_earlier_handlers(void)
{
    struct sigaction with_information = {.sa_sigaction = handle_with_information,
                                         .sa_flags = SA_SIGINFO};
    uint8_t *memory = map_with_hole(0);
    uint8_t ours[8];

    sigaction(SIGSEGV, &with_information, NULL);
    signal(SIGBUS, handle_simply);
    guarded_copy_install();
    for (int i = 0; i < 3; i++) {
        must(1, guarded_copy(ours, memory, 8) == -EFAULT);
        must(2, handled == 0);
        if (sigsetjmp(handled_out, 1) == 0)
            *(volatile uint8_t *)(memory + 5) = 1;
        must(3, handled == SIGSEGV);
        must(4, handled_address == memory + 5);
        must(5, !is_blocked(SIGSEGV));
        handled = 0;
        if (sigsetjmp(handled_out, 1) == 0)
            raise(SIGBUS);
        must(6, handled == SIGBUS);
        handled = 0;
    }
}

static void earlier_handlers_get_what_is_theirs(void **state)
{
    (void)state;
    expect_success(chain_to_earlier_handlers);
}

static void replace_and_copy(void)
{
    uint8_t *memory = map_with_hole(1);
    uint8_t ours[8] = {7};

    guarded_copy_install();
    signal(SIGSEGV, handle_simply);
    guarded_copy_check();
    if (sigsetjmp(handled_out, 1) == 0) {
        must(1, guarded_copy(memory, ours, 8) == 0);
        must(2, memory[0] == 7);
        must(3, guarded_copy(memory + PAGE, ours, 8) == -EFAULT);
        must(4, guarded_copy(ours, memory + PAGE, 8) == -EFAULT);
        must(5, guarded_copy(memory + PAGE - 4, ours, 8) == -EFAULT);
        must(6, mprotect(memory, PAGE, PROT_READ) == 0);
        must(7, guarded_copy(memory, ours, 8) == -EFAULT);
    }
    must(8, handled == 0);
}

static void where_the_program_took_the_signal_later_the_kernel_copies(void **state)
{
    (void)state;
    expect_success(replace_and_copy);
}

static void probes(void)
{
    uint8_t *memory = map_with_hole(2);

    must(1, guarded_probe(memory, 2 * PAGE, true) == 0);
    must(2, guarded_probe(memory + 1, 2 * PAGE - 1, true) == 0);
    must(3, guarded_probe(memory, 2 * PAGE + 1, false) == -EFAULT);
    must(4, guarded_probe(NULL, 1, false) == -EFAULT);
    must(5, guarded_probe(NULL, 0, true) == 0);
    must(6, guarded_probe((void *)UINTPTR_MAX, 1, false) == -EFAULT);
    must(7, guarded_probe(memory, SIZE_MAX, false) == -EINVAL);
    must(8, mprotect(memory + PAGE, PAGE, PROT_READ) == 0);
    must(9, guarded_probe(memory, 2 * PAGE, true) == -EFAULT);
    must(10, guarded_probe(memory, 2 * PAGE, false) == 0);
    must(11, mprotect(memory, PAGE, PROT_NONE) == 0);
    must(12, guarded_probe(memory, PAGE, false) == -EFAULT);
    must(13, guarded_probe(NOWHERE, 1, false) == -EFAULT);
    must(14, guarded_probe("text", 5, false) == 0);
    must(15, guarded_probe("text", 5, true) == -EFAULT);
}

static void a_probe_tells_what_can_be_registered(void **state)
{
    (void)state;
    expect_success(probes);
}

static void probe_much(void)
{
    const size_t len = (size_t)1 << 36;
    uint8_t *memory =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    must(1, memory != MAP_FAILED);
    must(2, guarded_probe(memory, len, true) == 0);
    must(3, munmap(memory + len / 2, PAGE) == 0);
    must(4, guarded_probe(memory, len, true) == -EFAULT);
}

static void large_regions_are_probed_without_filling_them(void **state)
{
    (void)state;
    expect_success(probe_much);
}

#define WORDS 32

static uint64_t watched[WORDS] __attribute__((aligned(64)));

/* Each round writes its number over all words. */
static void *write_rounds(void *unused)
{
    uint64_t round[WORDS];

    (void)unused;
    for (uint64_t i = 1; i <= 200000; i++) {
        for (uint32_t w = 0; w < WORDS; w++)
            round[w] = i;
        guarded_copy(watched, round, sizeof(round));
    }
    copying_ends = true;
    return NULL;
}

/* Words before the last one may be of a later round, never of an earlier one. */
__attribute__((no_sanitize("thread"))) static uint32_t count_stale(void)
{
    const volatile uint64_t *words = watched;
    uint32_t stale = 0;

    while (!copying_ends) {
        uint64_t last = words[WORDS - 1];

        for (uint32_t w = 0; w < WORDS - 1; w++)
            stale += words[w] < last;
    }
    return stale;
}

static void watch_rounds(void)
{
    pthread_t writer;

    guarded_copy_install();
    pthread_create(&writer, NULL, write_rounds, NULL);
    must(1, count_stale() == 0);
    pthread_join(writer, NULL);
}

static void a_program_that_watches_the_last_byte_finds_all_before_it(void **state)
{
    (void)state;
    expect_success(watch_rounds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_of_all_lengths_and_alignments_arrive),
        cmocka_unit_test(memory_that_is_gone_is_an_error),
        cmocka_unit_test(read_only_memory_is_read_and_not_written),
        cmocka_unit_test(a_file_cut_short_is_an_error),
        cmocka_unit_test(faults_of_the_program_itself_end_it_as_ever),
        cmocka_unit_test(signals_that_are_sent_have_their_default),
        cmocka_unit_test(earlier_handlers_get_what_is_theirs),
        cmocka_unit_test(where_the_program_took_the_signal_later_the_kernel_copies),
        cmocka_unit_test(a_probe_tells_what_can_be_registered),
        cmocka_unit_test(large_regions_are_probed_without_filling_them),
        cmocka_unit_test(a_program_that_watches_the_last_byte_finds_all_before_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
