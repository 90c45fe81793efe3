/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `uroce pcap`: reads a capture and says what is in it. Exit status 0 also for
 * a capture with damage in it, unless --strict asks to be told (1); 2 when the
 * command line was not understood or nothing could be read or written.
 */
#include "cli/command.h"
#include "pcap/capture.h"
#include "pcap/connections.h"
#include "pcap/diagnosis.h"
#include "pcap/html.h"
#include "pcap/json.h"
#include "pcap/ladder.h"
#include "pcap/print.h"
#include "pcap/selection.h"
#include "pcap/tracker.h"

#include <argp.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PROGRESS_FRAMES 65536u /* between two looks whether to say how far it is */

enum pcap_status {
    STATUS_GOOD = 0,
    STATUS_BAD_CAPTURE = 1, /* only with --strict */
    STATUS_FAILED = 2,
};

enum view {
    VIEW_DIAGNOSIS,
    VIEW_CONNECTIONS,
    VIEW_MESSAGES,
    VIEW_PACKETS,
    VIEW_SUMMARY,
    VIEW_LADDER,
};

struct pcap_options {
    const char *path;
    const char *interface;
    const char *html;
    const char *filter;
    char *filter_rest; /* of the filter, for libpcap */
    struct selection selection;
    enum view view;
    uint32_t ladder_qpn;
    bool verbose;
    bool json;
    bool foreign;
    bool summary; /* behind the packets */
    bool strict;
    bool icrc_unset_ok;
    uint64_t frames_max;
    uint32_t flows_max;
};

struct pcap_run {
    const struct pcap_options *options;
    struct capture capture;
    struct printer printer;
    struct ladder ladder;
    struct tracker tracker;
    FILE *html; /* or NULL */
    int json_error;
    bool progress; /* is shown */
    bool cut;      /* the file ended within a record, or made no sense from there */
};

enum option_key {
    KEY_STRICT = 256,
    KEY_ICRC_UNSET_OK,
    KEY_FLOWS,
    KEY_HTML,
};

static const struct argp_option option_list[] = {
    {NULL, 0, NULL, 0, "What to show (the diagnosis if nothing else is said):", 1},
    {"connections", 'C', NULL, 0, "each connection with all that is known of it", 1},
    {"messages", 'm', NULL, 0, "each message with the time that it took", 1},
    {"packets", 'p', NULL, 0, "each packet, then the summary", 1},
    {"ladder", 'l', "QPN", 0, "the connection of a queue pair as a ladder", 1},
    {"summary", 's', NULL, 0, "packets by opcode and by flow", 1},
    {"html", KEY_HTML, "FILE", 0, "write a page with plots, too", 1},
    {NULL, 0, NULL, 0, "How:", 2},
    {"json", 'j', NULL, 0, "as JSON, one object a line", 2},
    {"filter", 'F', "TERMS", 0,
     "only this: terms of libpcap, and qp=, opcode=, psn=, frame=, time=, nak, rnr, ce, cnp, bad, "
     "repeat, with 'and' between them",
     2},
    {"count", 'c', "N", 0, "stop after N frames", 2},
    {"interface", 'i', "NAME", 0, "look at an interface until Ctrl-C, not at a file", 2},
    {"icrc-unset-ok", KEY_ICRC_UNSET_OK, NULL, 0,
     "an ICRC of zero is not bad: the capture was taken before an adapter filled it in", 2},
    {"flows", KEY_FLOWS, "N", 0, "follow at most N flows, two for a connection (65536)", 2},
    {"strict", KEY_STRICT, NULL, 0, "exit with 1 when a frame or an ICRC is bad", 2},
    {NULL, 0, NULL, 0, "With --packets:", 3},
    {"verbose", 'v', NULL, 0, "show every header field with its offset and bytes", 3},
    {"foreign", 'f', NULL, 0, "show also what is not RoCE", 3},
    {"no-summary", 'n', NULL, 0, "the packets only", 3},
    {0},
};

static const char doc[] =
    "Say what happened in a capture of RoCE traffic (pcap or pcapng; - is standard input): what "
    "went wrong, the worst first, and how fast everything was."
    "\v"
    "Examples:\n"
    "  uroce pcap roce.pcap                  what happened?\n"
    "  uroce pcap -C roce.pcap               ... on each connection\n"
    "  uroce pcap -l 0x11 roce.pcap | less   ... packet by packet, as a ladder\n"
    "  uroce pcap -p -F 'qp=0x11 and nak' roce.pcap\n"
    "  uroce pcap -F 'host 192.0.2.1' roce.pcap\n"
    "  uroce pcap --html report.html roce.pcap\n"
    "  sudo uroce pcap -i eth0               live, till Ctrl-C\n"
    "  tcpdump -i any -U -w - udp port 4791 | uroce pcap -p -\n"
    "  uroce pcap -j roce.pcap | jq '.diagnosis.findings[] | select(.alarm)'\n\n"
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

/* Views exclude each other. */
static void choose_view(struct pcap_options *o, enum view view, struct argp_state *state)
{
    if (o->view != VIEW_DIAGNOSIS && o->view != view)
        argp_error(state,
                   "choose one of --connections, --messages, --packets, --summary, --ladder");
    o->view = view;
}

static void parse_qpn(struct pcap_options *o, const char *text, struct argp_state *state)
{
    char *end;
    unsigned long qpn = strtoul(text, &end, 0);

    if (end == text || *end != '\0' || text[0] == '-' || qpn > 0xffffffu)
        argp_error(state, "'%s' is not a queue pair number, such as 0x11", text);
    o->ladder_qpn = (uint32_t)qpn;
    choose_view(o, VIEW_LADDER, state);
}

static void parse_filter(struct pcap_options *o, const char *text, struct argp_state *state)
{
    size_t size = strlen(text) + 1;
    char error[256] = "too long";

    if (o->filter != NULL)
        argp_error(state, "one --filter, with 'and' between its terms");
    o->filter = text;
    o->filter_rest = malloc(size);
    if (o->filter_rest == NULL)
        argp_failure(state, STATUS_FAILED, ENOMEM, "filter");
    if (selection_parse(&o->selection, text, o->filter_rest, size, error, sizeof(error)) != 0)
        argp_error(state, "filter: %s", error);
}

/* Options that only make sense for packets ask for them. */
static void parse_packet_option(struct pcap_options *o, int key, struct argp_state *state)
{
    choose_view(o, VIEW_PACKETS, state);
    o->verbose |= key == 'v';
    o->foreign |= key == 'f';
    if (key == 'n')
        o->summary = false;
}

static void check_options(const struct pcap_options *o, struct argp_state *state)
{
    if (o->path == NULL && o->interface == NULL)
        argp_error(state, "the capture is missing (- is standard input)");
    if (o->path != NULL && o->interface != NULL)
        argp_error(state, "choose one of a file and --interface");
    if (o->json && o->verbose)
        argp_error(state, "choose one of --json and --verbose");
    if (o->json && o->view == VIEW_LADDER)
        argp_error(state, "a ladder is for people: no --json");
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct pcap_options *o = state->input;

    switch (key) {
    case 'C':
        choose_view(o, VIEW_CONNECTIONS, state);
        break;
    case 'm':
        choose_view(o, VIEW_MESSAGES, state);
        break;
    case 'p':
    case 'v':
    case 'f':
    case 'n':
        parse_packet_option(o, key, state);
        break;
    case 's':
        choose_view(o, VIEW_SUMMARY, state);
        break;
    case 'l':
        parse_qpn(o, text, state);
        break;
    case 'j':
        o->json = true;
        break;
    case 'F':
        parse_filter(o, text, state);
        break;
    case 'c':
        o->frames_max = parse_count(state, text, UINT64_MAX);
        break;
    case 'i':
        o->interface = text;
        break;
    case KEY_HTML:
        o->html = text;
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
        check_options(o, state);
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

/* Did the tracker know this packet's PSN already. */
static bool was_repeat(const struct tracker *t)
{
    for (uint32_t i = 0; i < t->moment.raised_count; i++) {
        if (t->moment.raised[i] == FINDING_DUPLICATE || t->moment.raised[i] == FINDING_REORDERED)
            return true;
    }
    return t->moment.repeated;
}

static int show_packet(struct pcap_run *run, const struct frame *f, const struct flow *flow)
{
    const struct pcap_options *o = run->options;

    if (frame_kind(f->verdict) == FRAME_KIND_FOREIGN && !o->foreign)
        return 0;
    if (!selection_has_frame(&o->selection, f, flow, was_repeat(&run->tracker)))
        return 0;
    if (o->view == VIEW_LADDER) {
        ladder_frame(&run->ladder, &run->tracker, f, flow);
    } else if (o->json) {
        return json_print_line(stdout, frame_to_json(f));
    } else {
        print_frame(&run->printer, f);
        if (o->verbose)
            print_fields(stdout, f);
    }
    return 0;
}

static void show_message(void *context, const struct message *m)
{
    struct pcap_run *run = context;

    if (!selection_has_flow(&run->options->selection, m->flow))
        return;
    if (!run->options->json)
        message_print(m, stdout);
    else if (run->json_error == 0)
        run->json_error = json_print_line(stdout, message_to_json(m));
}

/* Counts and shows a packet; 0 or a negative errno. */
static int take_packet(struct pcap_run *run, const struct frame *f)
{
    enum view view = run->options->view;
    int error;

    errno = 0;
    error = tracker_add(&run->tracker, f);
    if (error == 0 && (view == VIEW_PACKETS || view == VIEW_LADDER))
        error = show_packet(run, f, run->tracker.moment.packet_flow);
    if (error == 0)
        error = run->json_error;
    return error != 0 ? error : output_error();
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

/* On a terminal only, and where it does not stand between lines that are shown. */
static void show_progress(const struct pcap_run *run)
{
    if (run->progress && run->capture.frame_count % PROGRESS_FRAMES == 0)
        fprintf(stderr, "\r%" PRIu64 " frames, %.0f %% ", run->capture.frame_count,
                100 * capture_progress(&run->capture));
}

/* Reads on to the end, or till output fails; a capture that breaks off is no failure. */
static int take_capture(struct pcap_run *run)
{
    struct frame f = {.number = 0};
    int result = 0;

    while (result == 0 && run->capture.frame_count < run->options->frames_max) {
        int got = capture_next(&run->capture, &f);

        if (got == 0)
            break;
        if (got < 0) {
            fflush(stdout);
            fprintf(stderr, "uroce pcap: %s: after frame %" PRIu64 ": %s\n", run->capture.name,
                    run->capture.frame_count, run->capture.error);
            tracker_note(&run->tracker, FINDING_FILE_CUT);
            run->cut = true;
            break;
        }
        result = take_frame(run, &f);
        show_progress(run);
    }
    if (run->progress && run->capture.frame_count >= PROGRESS_FRAMES)
        fputs("\r\033[K", stderr);
    return result;
}

static int print_summary(struct pcap_run *run)
{
    struct summary *summary = &run->tracker.summary;

    if (run->options->json)
        return json_print_line(stdout, summary_to_json(summary));
    if (run->options->view == VIEW_PACKETS && summary->frames > 0)
        putchar('\n');
    summary_print(summary, stdout);
    return 0;
}

static int print_diagnosis(struct pcap_run *run)
{
    const struct selection *selection = &run->options->selection;
    struct diagnosis d;

    diagnosis_make(&d, &run->tracker, selection);
    if (run->options->json)
        return json_print_line(stdout, diagnosis_to_json(&d, &run->tracker));
    diagnosis_print(&d, &run->tracker, selection, run->capture.name, stdout);
    return 0;
}

static int print_connections(struct pcap_run *run)
{
    const struct selection *selection = &run->options->selection;

    if (run->options->json)
        return connections_print_json(&run->tracker, selection, stdout);
    connections_print(&run->tracker, selection, stdout);
    return 0;
}

/* What is known only at the end. */
static int print_end(struct pcap_run *run)
{
    switch (run->options->view) {
    case VIEW_DIAGNOSIS:
        return print_diagnosis(run);
    case VIEW_CONNECTIONS:
        return print_connections(run);
    case VIEW_PACKETS:
        return run->options->summary ? print_summary(run) : 0;
    case VIEW_SUMMARY:
        return print_summary(run);
    case VIEW_LADDER:
        if (run->ladder.rungs == 0)
            fprintf(stderr, "uroce pcap: no packets of queue pair 0x%06x that are to be shown\n",
                    run->ladder.qpn);
        return 0;
    case VIEW_MESSAGES:
        break;
    }
    return 0;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat of_a, of_b;

    return stat(a, &of_a) == 0 && stat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev &&
           of_a.st_ino == of_b.st_ino;
}

/* Before anything is read, which may take hours. Returns false with the reason said. */
static bool open_html(struct pcap_run *run)
{
    const struct pcap_options *o = run->options;

    if (o->html == NULL)
        return true;
    if (o->path != NULL && is_same_file(o->path, o->html)) {
        fprintf(stderr, "uroce pcap: --html %s would overwrite the capture\n", o->html);
        return false;
    }
    run->html = fopen(o->html, "we");
    if (run->html == NULL)
        fprintf(stderr, "uroce pcap: %s: %s\n", o->html, strerror(errno));
    return run->html != NULL;
}

/* Returns false with the reason said. */
static bool write_html(struct pcap_run *run)
{
    bool bad;

    errno = 0;
    html_print(&run->tracker, &run->options->selection, run->capture.name, run->html);
    bad = ferror(run->html);
    bad |= fclose(run->html) != 0;
    run->html = NULL;
    if (bad)
        fprintf(stderr, "uroce pcap: %s: %s\n", run->options->html,
                strerror(errno != 0 ? errno : EIO));
    return !bad;
}

/* Says what failed, if anything, and turns it all into the exit status. */
static int finish(const struct pcap_run *run, int error)
{
    /* Of what is printed main tells, once for all commands. */
    errno = 0;
    if (fflush(stdout) != 0 || ferror(stdout)) {
        command_output_failed(error != 0 ? -error : errno);
        return STATUS_FAILED;
    }
    if (error != 0) {
        fprintf(stderr, "uroce pcap: stopped after frame %" PRIu64 ": %s\n",
                run->capture.frame_count, strerror(-error));
        return STATUS_FAILED;
    }
    if (run->options->strict && (run->cut || summary_bad_count(&run->tracker.summary) > 0))
        return STATUS_BAD_CAPTURE;
    return STATUS_GOOD;
}

/* Ctrl-C ends a look at an interface, and what was seen is told. */
static volatile sig_atomic_t live_stop;

static void end_live(int signal_number)
{
    (void)signal_number;
    live_stop = 1;
}

static int open_capture(struct pcap_run *run)
{
    const struct pcap_options *o = run->options;
    int error = o->interface != NULL ? capture_open_live(&run->capture, o->interface, &live_stop)
                                     : capture_open(&run->capture, o->path);

    if (error == 0 && o->filter_rest != NULL && o->filter_rest[0] != '\0')
        error = capture_filter(&run->capture, o->filter_rest);
    if (error != 0) {
        fprintf(stderr, "uroce pcap: %s: %s\n", o->interface != NULL ? o->interface : o->path,
                run->capture.error);
        capture_close(&run->capture);
        return error;
    }
    if (o->interface != NULL) {
        signal(SIGINT, end_live);
        signal(SIGTERM, end_live);
    }
    return 0;
}

/* From the first frame to the last word; returns the exit status. */
static int tell(struct pcap_run *run)
{
    bool html_bad = false;
    int status;
    int error;

    if (run->options->view == VIEW_MESSAGES)
        tracker_set_message(&run->tracker, show_message, run);
    error = take_capture(run);
    if (error == 0)
        error = tracker_finish(&run->tracker);
    errno = 0;
    if (error == 0)
        error = print_end(run);
    if (error == 0)
        error = output_error();
    if (error == 0 && run->html != NULL)
        html_bad = !write_html(run);
    status = finish(run, error);
    return html_bad ? STATUS_FAILED : status;
}

static int run_pcap(struct pcap_run *run)
{
    uint64_t hash_key[2];
    int status = STATUS_FAILED;

    if (getrandom(hash_key, sizeof(hash_key), 0) != sizeof(hash_key))
        return finish(run, -errno);
    if (open_capture(run) != 0)
        return STATUS_FAILED;
    if (open_html(run)) {
        tracker_init(&run->tracker, run->options->flows_max, hash_key);
        status = tell(run);
        tracker_fini(&run->tracker);
    }
    if (run->html != NULL)
        fclose(run->html);
    capture_close(&run->capture);
    return status;
}

int command_pcap(int argc, char **argv)
{
    static const struct argp argp = {
        .options = option_list,
        .parser = parse_option,
        .args_doc = "FILE\n-i INTERFACE",
        .doc = doc,
    };
    struct pcap_options options = {
        .summary = true,
        .frames_max = UINT64_MAX,
        .flows_max = FLOWS_MAX_DEFAULT,
    };
    struct pcap_run *run;
    int status;

    argp_parse(&argp, argc, argv, 0, NULL, &options);
    /* What comes in by a pipe may be live. */
    if (options.interface != NULL || strcmp(options.path, "-") == 0)
        setvbuf(stdout, NULL, _IOLBF, 0);
    run = calloc(1, sizeof(*run));
    if (run == NULL)
        return STATUS_FAILED;
    run->options = &options;
    run->printer.out = stdout;
    run->ladder = (struct ladder){.qpn = options.ladder_qpn, .out = stdout};
    run->progress =
        isatty(STDERR_FILENO) && options.interface == NULL &&
        (!isatty(STDOUT_FILENO) || (options.view != VIEW_PACKETS && options.view != VIEW_LADDER &&
                                    options.view != VIEW_MESSAGES));
    status = run_pcap(run);
    free(run);
    free(options.filter_rest);
    return status;
}
