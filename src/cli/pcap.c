/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `uroce pcap`: reads a capture and says what is in it. Exit status 0 also for
 * a capture with damage in it, unless --strict asks to be told (1); 2 when the
 * command line was not understood or nothing could be read or written.
 */
#include "cli/command.h"
#include "pcap/capture.h"
#include "pcap/json.h"
#include "pcap/print.h"
#include "pcap/summary.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum pcap_status {
    STATUS_GOOD = 0,
    STATUS_BAD_CAPTURE = 1, /* only with --strict */
    STATUS_FAILED = 2,
};

struct pcap_options {
    const char *path;
    bool verbose;
    bool json;
    bool foreign;
    bool packets;
    bool summary;
    bool strict;
    bool icrc_unset_ok;
    uint64_t frames_max;
    uint32_t flows_max;
};

struct pcap_run {
    const struct pcap_options *options;
    struct capture capture;
    struct printer printer;
    struct summary summary;
    bool cut; /* the file ended within a record, or made no sense from there */
};

enum option_key {
    KEY_STRICT = 256,
    KEY_ICRC_UNSET_OK,
    KEY_FLOWS,
};

static const struct argp_option option_list[] = {
    {"verbose", 'v', NULL, 0, "show every header field with its offset and bytes", 0},
    {"json", 'j', NULL, 0, "one JSON object a packet; the summary is the last", 0},
    {"foreign", 'f', NULL, 0, "show also what is not RoCE", 0},
    {"count", 'c', "N", 0, "stop after N frames", 0},
    {"summary", 's', NULL, 0, "the summary only", 0},
    {"no-summary", 'n', NULL, 0, "the packets only", 0},
    {"strict", KEY_STRICT, NULL, 0, "exit with 1 when a frame is damaged or an ICRC bad", 0},
    {"icrc-unset-ok", KEY_ICRC_UNSET_OK, NULL, 0,
     "an ICRC of zero is not bad: the capture was taken before an adapter filled it in", 0},
    {"flows", KEY_FLOWS, "N", 0, "list at most N flows in the summary (65536)", 0},
    {0},
};

static const char doc[] =
    "Say what is in a capture of RoCE traffic (pcap or pcapng; - is standard input)."
    "\v"
    "A line is: frame number, time, source > destination, opcode, destination QP, PSN, flags "
    "(A AckReq, S solicited, M MigReq, F FECN, B BECN), ECN, payload length, ICRC, extended "
    "headers.\n\n"
    "Examples:\n"
    "  uroce pcap -s roce.pcap\n"
    "  tcpdump -i any -U -w - udp port 4791 | uroce pcap -\n"
    "  uroce pcap roce.pcap | grep NAK\n"
    "  uroce pcap -j roce.pcap | jq 'select(.icrc.verdict == \"BAD\").frame'\n\n"
    "Exit status: 0; 1 with --strict when the capture has damage in it; 2 when it cannot be read.";

/* A count from 1 to max, or the command line is wrong. */
static uint64_t parse_count(struct argp_state *state, const char *text, uint64_t max)
{
    char *end;
    uint64_t value;

    errno = 0;
    value = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || text[0] < '0' || text[0] > '9' || value < 1 || value > max)
        argp_error(state, "'%s' is not a count from 1 to %" PRIu64, text, max);
    return value;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct pcap_options *o = state->input;

    switch (key) {
    case 'v':
        o->verbose = true;
        break;
    case 'j':
        o->json = true;
        break;
    case 'f':
        o->foreign = true;
        break;
    case 'c':
        o->frames_max = parse_count(state, text, UINT64_MAX);
        break;
    case 's':
        o->packets = false;
        break;
    case 'n':
        o->summary = false;
        break;
    case KEY_STRICT:
        o->strict = true;
        break;
    case KEY_ICRC_UNSET_OK:
        o->icrc_unset_ok = true;
        break;
    case KEY_FLOWS:
        o->flows_max = (uint32_t)parse_count(state, text, 1u << 24);
        break;
    case ARGP_KEY_ARG:
        if (o->path != NULL)
            argp_error(state, "one capture at a time, '%s' is too many", text);
        o->path = text;
        break;
    case ARGP_KEY_END:
        if (o->path == NULL)
            argp_error(state, "the capture is missing (- is standard input)");
        if (o->json && o->verbose)
            argp_error(state, "choose one of --json and --verbose");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

/* Why writing failed, when it did; errno was 0 before it. */
static int output_error(void)
{
    if (!ferror(stdout))
        return 0;
    return errno != 0 ? -errno : -EIO;
}

/* Shows and counts a packet; 0 or a negative errno. */
static int take_packet(struct pcap_run *run, const struct frame *f)
{
    const struct pcap_options *o = run->options;
    bool shown = o->packets && (o->foreign || frame_kind(f->verdict) != FRAME_KIND_FOREIGN);
    int error = 0;

    errno = 0;
    if (shown && o->json) {
        error = json_print_line(stdout, frame_to_json(f));
    } else if (shown) {
        print_frame(&run->printer, f);
        if (o->verbose)
            print_fields(stdout, f);
    }
    if (error == 0)
        error = output_error();
    return error != 0 ? error : summary_add(&run->summary, f);
}

static int take_frame(struct pcap_run *run, struct frame *f)
{
    int error;

    f->icrc_unset_ok = run->options->icrc_unset_ok;
    frame_decode(f);
    do {
        error = take_packet(run, f);
    } while (error == 0 && frame_next_segment(f));
    return error;
}

/* Reads on to the end, or till output fails; a capture that breaks off is no failure. */
static int take_capture(struct pcap_run *run)
{
    struct frame f;
    int result = 0;

    while (run->capture.frame_count < run->options->frames_max) {
        int got = capture_next(&run->capture, &f);

        if (got == 0)
            break;
        if (got < 0) {
            fflush(stdout);
            fprintf(stderr, "uroce pcap: %s: after frame %" PRIu64 ": %s\n", run->options->path,
                    run->capture.frame_count, run->capture.error);
            run->cut = true;
            break;
        }
        result = take_frame(run, &f);
        if (result != 0)
            break;
    }
    return result;
}

static int print_summary(struct pcap_run *run)
{
    if (!run->options->summary)
        return 0;
    if (run->options->json)
        return json_print_line(stdout, summary_to_json(&run->summary));
    if (run->options->packets && run->summary.frames > 0)
        putchar('\n');
    summary_print(&run->summary, stdout);
    return 0;
}

/* Says what failed, if anything, and turns it all into the exit status. */
static int finish(const struct pcap_run *run, int error)
{
    errno = 0;
    if (error == 0 && (fflush(stdout) != 0 || ferror(stdout)))
        error = output_error();
    if (error != 0) {
        fprintf(stderr, "uroce pcap: stopped after frame %" PRIu64 ": %s\n",
                run->capture.frame_count, strerror(-error));
        return STATUS_FAILED;
    }
    if (run->options->strict && (run->cut || summary_bad_count(&run->summary) > 0))
        return STATUS_BAD_CAPTURE;
    return STATUS_GOOD;
}

static int run_pcap(struct pcap_run *run)
{
    uint64_t hash_key[2];
    int error;

    if (getrandom(hash_key, sizeof(hash_key), 0) != sizeof(hash_key))
        return finish(run, -errno);
    if (capture_open(&run->capture, run->options->path) != 0) {
        fprintf(stderr, "uroce pcap: %s: %s\n", run->options->path, run->capture.error);
        capture_close(&run->capture);
        return STATUS_FAILED;
    }
    summary_init(&run->summary, run->options->flows_max, hash_key);
    error = take_capture(run);
    if (error == 0)
        error = print_summary(run);
    error = finish(run, error);
    summary_fini(&run->summary);
    capture_close(&run->capture);
    return error;
}

int command_pcap(int argc, char **argv)
{
    static const struct argp argp = {
        .options = option_list,
        .parser = parse_option,
        .args_doc = "FILE",
        .doc = doc,
    };
    struct pcap_options options = {
        .packets = true,
        .summary = true,
        .frames_max = UINT64_MAX,
        .flows_max = FLOWS_MAX_DEFAULT,
    };
    struct pcap_run *run;
    int status;

    argp_parse(&argp, argc, argv, 0, NULL, &options);
    /* When nobody reads on (`| head`), end quietly, also if our parent ignores the signal. */
    signal(SIGPIPE, SIG_DFL);
    /* What comes in by a pipe may be live. */
    if (strcmp(options.path, "-") == 0)
        setvbuf(stdout, NULL, _IOLBF, 0);
    run = calloc(1, sizeof(*run));
    if (run == NULL)
        return STATUS_FAILED;
    run->options = &options;
    run->printer.out = stdout;
    status = run_pcap(run);
    free(run);
    return status;
}
