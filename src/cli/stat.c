/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `uroce stat`: what the processes that run over uroce are doing, from what they publish
 * (node/stat_file.h). Reads only; no process notices.
 */
#include "cli/command.h"
#include "cli/stat_show.h"
#include "node/stat_file.h"

#include <argp.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PIDS_MAX 256u
#define SAMPLES_MAX 4096u /* ports whose rates are followed */
#define INTERVAL_MIN_S 0.1
#define INTERVAL_MAX_S 86400.0
#define NS_PER_S 1e9
/* Published longer ago than this, nothing has moved since. */
#define IDLE_NS 300000000u

enum {
    KEY_JSON = 0x100,
};

/* A port when it was looked at before. */
struct sample {
    uint32_t pid;
    uint32_t port;
    uint64_t started_ns;
    uint64_t looked_ns;
    uint64_t published_ns;
    struct engine_counters counters;
};

struct stat_command {
    const char *name; /* argv[0] */
    bool json;
    double interval_s; /* 0: look once */
    struct stat_look look;
    uint32_t pids[PIDS_MAX]; /* asked for; none: all */
    bool found[PIDS_MAX];
    uint32_t pid_count;
    uint32_t shown;
    uint64_t now;
    json_t *processes;
    json_t *unreadable;
    struct sample *samples;
    uint32_t sample_count;
};

static bool asked_for(struct stat_command *c, uint32_t pid)
{
    bool asked = c->pid_count == 0;

    for (uint32_t i = 0; i < c->pid_count; i++) {
        c->found[i] |= c->pids[i] == pid;
        asked |= c->pids[i] == pid;
    }
    return asked;
}

static struct sample *sample_of(struct stat_command *c, const struct stat_snapshot *s,
                                uint32_t port)
{
    struct sample *sample;

    for (uint32_t i = 0; i < c->sample_count; i++) {
        sample = &c->samples[i];
        if (sample->pid == s->head.pid && sample->started_ns == s->head.started_ns &&
            sample->port == port)
            return sample;
    }
    if (c->sample_count == SAMPLES_MAX)
        return NULL;
    sample = &c->samples[c->sample_count++];
    *sample = (struct sample){.pid = s->head.pid, .port = port, .started_ns = s->head.started_ns};
    return sample;
}

/* While something moves, between what was published; else between the looks. */
static double seconds_between(const struct sample *before, const struct stat_snapshot *s,
                              uint64_t now)
{
    bool idle = now > s->head.published_ns + IDLE_NS;
    uint64_t ns = idle || s->head.published_ns <= before->published_ns
                      ? now - before->looked_ns
                      : s->head.published_ns - before->published_ns;

    return (double)ns / NS_PER_S;
}

static double rate(uint64_t now, uint64_t before, double seconds)
{
    return now > before && seconds > 0 ? (double)(now - before) / seconds : 0;
}

static void follow(struct stat_command *c, const struct stat_snapshot *s, uint32_t port)
{
    struct stat_rates *r = &c->look.of_ports[port];
    struct sample *before = sample_of(c, s, port);
    struct stat_totals t;
    double seconds;

    *r = (struct stat_rates){0};
    if (before == NULL)
        return;
    stat_totals(s, port, &t);
    if (before->looked_ns != 0) {
        seconds = seconds_between(before, s, c->now);
        r->known = true;
        r->sent_packets = rate(t.engine.sent_packets, before->counters.sent_packets, seconds);
        r->rcv_packets = rate(t.engine.rcv_packets, before->counters.rcv_packets, seconds);
        r->sent_bits = 8 * rate(t.engine.sent_bytes, before->counters.sent_bytes, seconds);
        r->rcv_bits = 8 * rate(t.engine.rcv_bytes, before->counters.rcv_bytes, seconds);
    }
    before->looked_ns = c->now;
    before->published_ns = s->head.published_ns;
    before->counters = t.engine;
}

static void show(void *context, const struct stat_snapshot *s, const char *path, const char *why)
{
    struct stat_command *c = context;

    if (s == NULL && c->json)
        json_array_append_new(c->unreadable, json_pack("{s:s, s:s}", "file", path, "why", why));
    if (s == NULL && !c->json)
        fprintf(stderr, "%s: %s: %s\n", c->name, path, why);
    if (s == NULL || !asked_for(c, s->head.pid))
        return;
    if (c->interval_s > 0)
        for (uint32_t port = 0; port < s->head.port_count; port++)
            follow(c, s, port);
    if (c->json)
        json_array_append_new(c->processes, stat_json(s, &c->look));
    else
        stat_print_text(s, &c->look);
    c->shown++;
}

/* One look at everything. Returns how many processes were shown. */
static uint32_t look(struct stat_command *c)
{
    struct timespec t;
    json_t *root;

    clock_gettime(CLOCK_MONOTONIC, &t);
    c->now = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    c->shown = 0;
    c->processes = json_array();
    c->unreadable = json_array();
    stat_each(geteuid(), geteuid() == 0, show, c);
    root = json_pack("{s:o, s:o}", "processes", c->processes, "unreadable", c->unreadable);
    if (c->json) {
        json_dumpf(root, stdout, JSON_COMPACT);
        putchar('\n');
    }
    json_decref(root);
    return c->shown;
}

static int look_again(struct stat_command *c)
{
    const struct timespec pause = {
        .tv_sec = (time_t)c->interval_s,
        .tv_nsec = (long)((c->interval_s - (double)(time_t)c->interval_s) * NS_PER_S),
    };
    bool clear = !c->json && isatty(STDOUT_FILENO);

    c->samples = calloc(SAMPLES_MAX, sizeof(*c->samples));
    if (c->samples == NULL)
        return EXIT_FAILURE;
    do {
        if (clear)
            fputs("\033[H\033[2J", stdout);
        if (look(c) == 0 && !c->json)
            puts("no process to show");
        if (!clear && !c->json)
            putchar('\n');
    } while (fflush(stdout) == 0 && nanosleep(&pause, NULL) == 0);
    free(c->samples);
    return EXIT_SUCCESS;
}

static int look_once(struct stat_command *c)
{
    int status = EXIT_SUCCESS;

    if (look(c) == 0 && c->pid_count == 0 && !c->json)
        fprintf(stderr, "%s: no process%s runs over uroce now\n", c->name,
                geteuid() == 0 ? "" : " of yours");
    for (uint32_t i = 0; i < c->pid_count; i++) {
        if (c->found[i])
            continue;
        fprintf(stderr,
                "%s: process %u does not show itself: it is not over uroce, is another user's, or "
                "has UROCE_STAT=off\n",
                c->name, c->pids[i]);
        status = EXIT_FAILURE;
    }
    return status;
}

static double parse_interval(const char *word, const struct argp_state *state)
{
    char *end;
    double value;

    if (word == NULL)
        return 1;
    value = strtod(word, &end);
    if (end == word || *end != '\0' || !(value >= INTERVAL_MIN_S && value <= INTERVAL_MAX_S))
        argp_error(state, "'%s' is not a number of seconds from 0.1 to 86400", word);
    return value;
}

static void add_pid(struct stat_command *c, const char *word, const struct argp_state *state)
{
    char *end;
    unsigned long pid = strtoul(word, &end, 10);

    if (*word < '0' || *word > '9' || *end != '\0' || pid == 0 || pid > INT32_MAX)
        argp_error(state,
                   "'%s' is not the number of a process; seconds stand with their option: -w2",
                   word);
    if (c->pid_count == PIDS_MAX)
        argp_error(state, "more than %u processes", PIDS_MAX);
    c->pids[c->pid_count++] = (uint32_t)pid;
}

static error_t parse_option(int key, char *word, struct argp_state *state)
{
    struct stat_command *c = state->input;

    switch (key) {
    case 'a':
        c->look.all = true;
        return 0;
    case 'c':
        c->look.counters = true;
        return 0;
    case 'w':
        c->interval_s = parse_interval(word, state);
        return 0;
    case KEY_JSON:
        c->json = true;
        return 0;
    case ARGP_KEY_ARG:
        add_pid(c, word, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int command_stat(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {"watch", 'w', "SECONDS", OPTION_ARG_OPTIONAL,
         "Look again and again, each second or as often as said, and tell rates", 0},
        {"counters", 'c', NULL, 0, "All counters of each port, under the names of adapters", 0},
        {"all", 'a', NULL, 0, "All queue pairs, and counters that are 0", 0},
        {"json", KEY_JSON, NULL, 0, "A line of JSON for each look, with all there is", 0},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse_option,
        .args_doc = "[PROCESS...]",
        .doc =
            "Shows what programs over uroce are doing: devices, queue pairs with their peers "
            "and PSNs, counters. Those of this user; of root: of all users."
            "\v"
            "Examples:\n"
            "  uroce stat                     all processes, once\n"
            "  uroce stat -w 4711             one process, each second, with rates\n"
            "  uroce stat -c                  port_xmit_data, out_of_sequence and so on\n"
            "  uroce stat --json | jq .       for scripts\n"
            "\n"
            "Figures are at most a tenth of a second old. A process that runs with UROCE_STAT=off "
            "does not show itself. See uroce-stat(1).",
    };
    struct stat_command *c = calloc(1, sizeof(*c));
    int status;

    if (c == NULL)
        return EXIT_FAILURE;
    c->name = argv[0];
    status = argp_parse(&argp, argc, argv, 0, NULL, c);
    if (status == 0)
        status = c->interval_s > 0 ? look_again(c) : look_once(c);
    else
        status = EXIT_FAILURE;
    free(c);
    return status;
}
