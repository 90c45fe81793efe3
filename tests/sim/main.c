/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * sim: random work between engines over a wire that loses, repeats, reorders,
 * damages and delays packets, all from a seed. A seed that fails is shown with
 * the command that replays it and the last steps of its ladder diagram.
 */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sim/app.h"
#include "support/expect.h"

struct options {
    uint64_t first;
    uint64_t last;
    enum sim_mode mode; /* MODE_COUNT: as the seed says */
    bool ladder;
    bool verbose;
    bool keep_going;
    bool twice;
    uint32_t lines;
    const char *program;
};

static struct options options = {.first = 1, .last = 500, .mode = MODE_COUNT, .lines = 40};
static struct ladder ladder;
static struct app app;
static uint64_t running;

/* NOLINTBEGIN(bugprone-signal-handler): the signal is raised by what fails, not from outside */
static void say_replay(void)
{
    printf("replay: %s --seed %lu", options.program, (unsigned long)running);
    if (options.mode != MODE_COUNT)
        printf(" --mode %s", mode_name(options.mode));
    printf(" --ladder\n");
    fflush(stdout);
}

/* An assertion of the engine failed, or worse. */
static void on_signal(int number)
{
    if (!options.ladder)
        ladder_print(&ladder, options.lines);
    printf("seed %lu (%s) dies of signal %d at %.3f us\n", (unsigned long)running,
           mode_name(app.world.plan.mode), number, (double)app.world.now / 1000);
    say_replay();
    signal(number, SIG_DFL);
    raise(number);
}
/* NOLINTEND(bugprone-signal-handler) */

static void print_plan(const struct plan *p)
{
    printf("seed %lu: %s, %u hosts, IPv%d%s, %u connections, %u UD, %u messages of at most %u B\n",
           (unsigned long)p->seed, mode_name(p->mode), p->host_count, p->ipv6 ? 6 : 4,
           p->shared_address ? " shared" : "", p->connection_count, p->datagram_count,
           p->message_count, p->size_max);
    printf("  in a million: lose %u duplicate %u reorder %u corrupt %u delay %u refuse %u\n",
           p->faults.lose, p->faults.duplicate, p->faults.reorder, p->faults.corrupt,
           p->faults.delay, p->faults.refuse);
    printf("  delay %lu ns, service %lu ns, %lu ps/B, round trip at most %lu us, heals at %lu us\n",
           (unsigned long)p->delay_ns, (unsigned long)p->service_ns, (unsigned long)p->ps_per_byte,
           (unsigned long)p->rtt_ns / 1000, (unsigned long)p->heal_ns / 1000);
    printf("  window %u to %u, read window %u, batch %u of %u B, receive buffer %u\n",
           p->config.window_start, p->config.window_max, p->config.read_window, p->batch_count_max,
           p->batch_capacity, p->receive_buffer);
}

static void print_result(const struct world *w)
{
    printf("seed %lu: %s, %.3f ms, %lu packets, %lu lost, %lu dup, %lu reordered, %lu corrupt, "
           "%lu overflowed, hash %016lx\n",
           (unsigned long)running, mode_name(w->plan.mode), (double)w->now / 1e6,
           (unsigned long)w->counters.sent, (unsigned long)w->counters.fates[FATE_LOST],
           (unsigned long)w->counters.fates[FATE_DUPLICATED],
           (unsigned long)w->counters.fates[FATE_REORDERED],
           (unsigned long)w->counters.icrc_dropped, (unsigned long)w->counters.overflowed,
           (unsigned long)w->hash);
}

/* Runs a seed once. Returns 0 and its hash, or -1 when an expectation did not hold. */
static int run_once(uint64_t seed, uint64_t *hash)
{
    struct plan plan;

    running = seed;
    ladder.count = 0;
    ladder.live = options.ladder;
    plan_make(&plan, seed, options.mode);
    if (options.verbose || options.ladder)
        print_plan(&plan);
    if (setjmp(expect_escape) != 0)
        return -1;
    app_init(&app, &plan, &ladder);
    app_run(&app);
    if (options.verbose)
        print_result(&app.world);
    *hash = app.world.hash;
    app_fini(&app);
    return 0;
}

static int run_seed(uint64_t seed)
{
    bool twice = options.twice || seed % 10 == 0;
    uint64_t first;
    uint64_t second;

    if (run_once(seed, &first) != 0)
        return -1;
    if (!twice)
        return 0;
    if (run_once(seed, &second) != 0)
        return -1;
    if (first == second)
        return 0;
    snprintf(expect_message, sizeof(expect_message), "two runs sent different packets");
    return -1;
}

static void report_failure(uint64_t seed)
{
    if (!options.ladder)
        ladder_print(&ladder, options.lines);
    printf("seed %lu (%s) fails at %.3f us: %s\n", (unsigned long)seed,
           mode_name(app.world.plan.mode), (double)app.world.now / 1000, expect_message);
    say_replay();
}

static void usage(void)
{
    printf("usage: sim [--seed N | --seeds A..B] [--mode NAME] [--ladder] [--lines N] [--verbose]\n"
           "           [--keep-going] [--twice]\n"
           "modes (the seed chooses one if none is given):\n");
#define SIM_MODE_HELP(name, weight, text) printf("  %-12s %s\n", #name, text);
    SIM_MODES(SIM_MODE_HELP)
#undef SIM_MODE_HELP
}

static bool read_mode(const char *name)
{
    for (unsigned i = 0; i < MODE_COUNT; i++) {
        if (strcmp(name, mode_name((enum sim_mode)i)) == 0) {
            options.mode = (enum sim_mode)i;
            return true;
        }
    }
    return false;
}

static bool read_seeds(const char *text)
{
    char *end;

    options.first = strtoull(text, &end, 10);
    if (strncmp(end, "..", 2) != 0)
        return false;
    options.last = strtoull(end + 2, &end, 10);
    return *end == '\0' && options.first <= options.last;
}

static bool read_option(int option)
{
    switch (option) {
    case 's':
        options.first = strtoull(optarg, NULL, 10);
        options.last = options.first;
        return true;
    case 'S':
        return read_seeds(optarg);
    case 'm':
        return read_mode(optarg);
    case 'l':
        options.ladder = true;
        return true;
    case 'n':
        options.lines = (uint32_t)strtoul(optarg, NULL, 10);
        return true;
    case 'v':
        options.verbose = true;
        return true;
    case 'k':
        options.keep_going = true;
        return true;
    case 't':
        options.twice = true;
        return true;
    }
    return false;
}

static bool read_options(int argc, char **argv)
{
    static const struct option names[] = {
        {"seed", required_argument, NULL, 's'},
        {"seeds", required_argument, NULL, 'S'},
        {"mode", required_argument, NULL, 'm'},
        {"ladder", no_argument, NULL, 'l'},
        {"lines", required_argument, NULL, 'n'},
        {"verbose", no_argument, NULL, 'v'},
        {"keep-going", no_argument, NULL, 'k'},
        {"twice", no_argument, NULL, 't'},
        {NULL, 0, NULL, 0},
    };
    int option;

    options.program = argv[0];
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (!read_option(option))
            return false;
    }
    return optind == argc;
}

int main(int argc, char **argv)
{
    uint64_t failed = 0;
    uint64_t seed;

    if (!read_options(argc, argv)) {
        usage();
        return 2;
    }
    signal(SIGABRT, on_signal);
    for (seed = options.first; seed <= options.last; seed++) {
        if (run_seed(seed) == 0)
            continue;
        report_failure(seed);
        failed++;
        if (!options.keep_going)
            return 1;
    }
    printf("%lu of %lu seeds pass\n", (unsigned long)(options.last - options.first + 1 - failed),
           (unsigned long)(options.last - options.first + 1));
    return failed > 0;
}
