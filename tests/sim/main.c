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
#include "sim/census.h"
#include "support/expect.h"

struct options {
    uint64_t first;
    uint64_t last;
    enum sim_mode mode; /* MODE_COUNT: as the seed says */
    bool ladder;
    bool verbose;
    bool keep_going;
    bool twice;
    bool census;
    bool singly;
    const char *single; /* "lost:17": one fault of a scenario; NULL: all of them */
    uint32_t lines;
    const char *program;
};

static struct options options = {.first = 1, .last = 500, .mode = MODE_COUNT, .lines = 40};
static struct ladder ladder;
static struct app app;
static uint64_t running;
static struct {
    enum single single;
    enum fate fate;
    uint64_t at;
} fault; /* of a scenario */

/* --- one fault at each place --- */

static const struct {
    const char *name;
    enum single single;
    enum fate fate;
} singles[] = {
    {"refused", SINGLE_REFUSE, FATE_REFUSED},   {"shortened", SINGLE_SHORTEN, FATE_REFUSED},
    {"lost", SINGLE_FATE, FATE_LOST},           {"duplicated", SINGLE_FATE, FATE_DUPLICATED},
    {"reordered", SINGLE_FATE, FATE_REORDERED}, {"corrupt", SINGLE_FATE, FATE_CORRUPTED},
    {"delayed", SINGLE_FATE, FATE_DELAYED},     {"overtaken", SINGLE_FATE, FATE_OVERTAKEN},
    {"marked", SINGLE_FATE, FATE_MARKED},
};

#define SINGLE_COUNT (sizeof(singles) / sizeof(singles[0]))

static const char *single_name(void)
{
    for (size_t i = 0; i < SINGLE_COUNT; i++) {
        if (singles[i].single == fault.single && singles[i].fate == fault.fate)
            return singles[i].name;
    }
    return "?";
}

static bool read_single(const char *text)
{
    size_t len = strcspn(text, ":");

    for (size_t i = 0; i < SINGLE_COUNT && text[len] == ':'; i++) {
        if (strncmp(text, singles[i].name, len) != 0 || singles[i].name[len] != '\0')
            continue;
        fault.single = singles[i].single;
        fault.fate = singles[i].fate;
        fault.at = strtoull(text + len + 1, NULL, 10);
        return true;
    }
    return false;
}

/* NOLINTBEGIN(bugprone-signal-handler): the signal is raised by what fails, not from outside */
static void say_replay(void)
{
    printf("replay: %s --seed %lu", options.program, (unsigned long)running);
    if (options.mode != MODE_COUNT)
        printf(" --mode %s", mode_name(options.mode));
    if (options.singly)
        printf(" --single %s:%lu", single_name(), (unsigned long)fault.at);
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
    if (options.singly) {
        plan_make_scenario(&plan, seed);
        plan.single = fault.single;
        plan.single_fate = fault.fate;
        plan.single_at = fault.at;
    } else {
        plan_make(&plan, seed, options.mode);
    }
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

/* How many places a fault of this kind has in the run that just ended. */
static uint64_t places(enum single single)
{
    const struct wire_counters *c = &app.world.counters;

    switch (single) {
    case SINGLE_NONE:
        break;
    case SINGLE_REFUSE:
        return c->batches;
    case SINGLE_SHORTEN:
        return c->long_batches;
    case SINGLE_FATE:
        return c->sent;
    }
    return 0;
}

/* The scenario again and again, with the fault at the first place, the second, ... to the last. */
static int run_scenario(uint64_t seed)
{
    uint64_t runs = 0;
    uint64_t hash;

    if (options.single)
        return run_once(seed, &hash);
    for (size_t i = 0; i < SINGLE_COUNT; i++) {
        fault.single = singles[i].single;
        fault.fate = singles[i].fate;
        fault.at = 0;
        do {
            fault.at++;
            if (run_once(seed, &hash) != 0)
                return -1;
            runs++;
        } while (fault.at < places(fault.single));
    }
    printf("scenario %lu: %lu runs with a fault each\n", (unsigned long)seed, (unsigned long)runs);
    return 0;
}

static int run_seed(uint64_t seed)
{
    bool twice = options.twice || seed % 10 == 0;
    uint64_t first;
    uint64_t second;

    if (options.singly)
        return run_scenario(seed);
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
           "           [--keep-going] [--twice] [--census] [--singly | --single KIND:PLACE]\n"
           "--census: how often each kind of trouble came about\n"
           "--singly: short scenarios, each run with one fault of each kind at each place\n"
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
    case 'c':
        options.census = true;
        return true;
    case '1':
        options.singly = true;
        return true;
    case 'f':
        options.singly = true;
        options.single = optarg;
        return read_single(optarg);
    }
    return false;
}

static bool read_options(int argc, char **argv)
{
    static const struct option names[] = {
        {"seed", required_argument, NULL, 's'},   {"seeds", required_argument, NULL, 'S'},
        {"mode", required_argument, NULL, 'm'},   {"ladder", no_argument, NULL, 'l'},
        {"lines", required_argument, NULL, 'n'},  {"verbose", no_argument, NULL, 'v'},
        {"keep-going", no_argument, NULL, 'k'},   {"twice", no_argument, NULL, 't'},
        {"census", no_argument, NULL, 'c'},       {"singly", no_argument, NULL, '1'},
        {"single", required_argument, NULL, 'f'}, {NULL, 0, NULL, 0},
    };
    int option;

    options.program = argv[0];
    while ((option = getopt_long(argc, argv, "", names, NULL)) != -1) {
        if (!read_option(option))
            return false;
    }
    return optind == argc;
}

/* A kind of trouble that a long run of all modes never met is not tested. */
static bool check_census(void)
{
    if (options.census) {
        census_print();
        refusals_missing(true);
    }
    if (options.singly || options.mode != MODE_COUNT ||
        options.last - options.first + 1 < CENSUS_SEEDS)
        return true;
    return census_missing() + refusals_missing(false) == 0;
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
    return failed > 0 || !check_census();
}
