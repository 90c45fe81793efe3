/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `uroce script`: plays packet scripts against the engine, or against a peer
 * on the network. Exit status 0 when all hold; 1 when one does not; 2 when the
 * command line or a script was not understood.
 */
#include "cli/command.h"
#include "script/script.h"
#include "script/subject.h"

#include <argp.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define SUFFIX ".roce"
#define PATHS_MAX 4096u
#define FOLDER_DEPTH_MAX 8u
#define PSN_DEFAULT 1000u
#define PORT_DEFAULT "18600"
#define SETTLE_DEFAULT_MS 100u
#define EXIT_NOT_UNDERSTOOD 2

struct script_tool {
    char *paths[PATHS_MAX];
    uint32_t path_count;
    uint32_t psn;
    bool verbose;
    bool check; /* read the scripts only */
    bool mutate;
    const char *self;
    char host[256]; /* where a responder listens; "": the engine */
    const char *port;
    uint32_t settle_ms;
    uint32_t passed;
    uint32_t failed;
    uint32_t skipped;
    uint32_t not_understood;
    struct subject *subject;
};

/* --- which scripts --- */

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text);

    return len >= strlen(end) && strcmp(text + len - strlen(end), end) == 0;
}

static bool add_path(struct script_tool *t, const char *path)
{
    if (t->path_count == PATHS_MAX) {
        fprintf(stderr, "%s: more than %u scripts\n", t->self, PATHS_MAX);
        return false;
    }
    t->paths[t->path_count] = strdup(path);
    return t->paths[t->path_count++] != NULL;
}

/* All scripts below a folder, in order of their names, depth folders deep. What cannot be read has
 * its turn, too, and is told then. */
static bool add_folder(struct script_tool *t, const char *folder, unsigned depth)
{
    struct dirent **names;
    int count = scandir(folder, &names, NULL, alphasort);
    bool good = count >= 0;

    if (!good)
        fprintf(stderr, "%s: %s: %s\n", t->self, folder, strerror(errno));
    for (int i = 0; i < count; i++) {
        char path[4096];
        struct stat st = {0};

        snprintf(path, sizeof(path), "%s/%s", folder, names[i]->d_name);
        if (good && names[i]->d_name[0] != '.') {
            if (stat(path, &st) == 0 && S_ISDIR(st.st_mode) && depth > 0)
                good = add_folder(t, path, depth - 1);
            else if (ends_with(path, SUFFIX))
                good = add_path(t, path);
        }
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    return good;
}

static bool add_argument(struct script_tool *t, const char *path)
{
    const uint32_t count = t->path_count;
    struct stat st;

    if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode))
        return add_path(t, path);
    if (!add_folder(t, path, FOLDER_DEPTH_MAX))
        return false;
    if (t->path_count == count)
        fprintf(stderr, "%s: %s: no script (*" SUFFIX ") is in this folder\n", t->self, path);
    return t->path_count > count;
}

/* --- one script --- */

/* The text of a file, of standard input if it is called -; NULL with the reason said. */
static char *read_file(const struct script_tool *t, const char *path, size_t *len)
{
    FILE *file = strcmp(path, "-") == 0 ? stdin : fopen(path, "rb");
    char *text = malloc(SCRIPT_TEXT_MAX + 1);

    if (file != NULL && text != NULL)
        *len = fread(text, 1, SCRIPT_TEXT_MAX + 1, file);
    if (file == NULL || text == NULL || ferror(file)) {
        fprintf(stderr, "%s: %s: %s\n", t->self, path, strerror(errno));
        free(text);
        text = NULL;
    }
    if (file != NULL && file != stdin)
        fclose(file);
    return text;
}

static enum script_verdict run_once(struct script_tool *t, const struct script *s, FILE *out)
{
    const struct script_options options = {.psn = t->psn, .verbose = t->verbose, .out = out};

    return script_run(s, t->subject, &options);
}

/* Makes each expectation wrong in turn: the script must fail. Returns how many it passed with. */
static uint32_t try_mutations(struct script_tool *t, struct script *s)
{
    uint32_t count = script_mutation_count(s);
    uint32_t survived = 0;

    for (uint32_t n = 0; n < count; n++) {
        uint32_t line = 0;

        script_mutate(s, n, &line);
        if (run_once(t, s, NULL) != SCRIPT_FAILED) {
            printf("%s:%u: does not fail by change %u of what this line expects\n", s->path, line,
                   n);
            survived++;
        }
        script_mutate(s, n, &line);
    }
    if (count == 0)
        printf("%s: expects nothing that could be wrong\n", s->path);
    return count == 0 ? 1 : survived;
}

static enum script_verdict play(struct script_tool *t, struct script *s, FILE *out)
{
    if (t->check)
        return SCRIPT_PASSED;
    if (t->mutate)
        return try_mutations(t, s) == 0 ? SCRIPT_PASSED : SCRIPT_FAILED;
    return run_once(t, s, out);
}

static void count(struct script_tool *t, enum script_verdict v, const struct script *s,
                  const char *told)
{
    static const char *const words[] = {[SCRIPT_PASSED] = "ok",
                                        [SCRIPT_FAILED] = "FAILED",
                                        [SCRIPT_BROKEN] = "FAILED",
                                        [SCRIPT_SKIPPED] = "skipped"};

    t->passed += v == SCRIPT_PASSED;
    t->failed += v == SCRIPT_FAILED || v == SCRIPT_BROKEN;
    t->skipped += v == SCRIPT_SKIPPED;
    printf("%-8s %s: %s\n%s", words[v], s->path, s->title, told != NULL ? told : "");
}

static void take_file(struct script_tool *t, const char *path)
{
    char error[SCRIPT_ERROR_SIZE];
    struct script s;
    size_t len = 0;
    char *text = read_file(t, path, &len);
    char *told = NULL;
    size_t told_len = 0;
    FILE *out;
    enum script_verdict v;

    if (text == NULL || script_parse(path, text, len, &s, error) != 0) {
        if (text != NULL)
            fprintf(stderr, "%s\n", error);
        t->not_understood++;
        free(text);
        return;
    }
    out = open_memstream(&told, &told_len);
    v = play(t, &s, out != NULL ? out : stdout);
    if (out != NULL)
        fclose(out);
    count(t, v, &s, told);
    free(told);
    script_free(&s);
    free(text);
}

/* --- the command line --- */

enum option_key { KEY_CHECK = 256, KEY_MUTATE, KEY_PSN, KEY_SETTLE };

static const struct argp_option option_list[] = {
    {"verbose", 'v', NULL, 0, "show the packets also of what went well", 0},
    {"psn", KEY_PSN, "N", 0, "first PSN of both directions where a script names none (1000)", 0},
    {"peer", 'p', "HOST[,PORT]", 0,
     "play against the RDMA peer there, on which script_responder listens (18600)", 0},
    {"settle", KEY_SETTLE, "MS", 0,
     "how long a peer on the network is watched for what it is not to do (100)", 0},
    {"check", KEY_CHECK, NULL, 0, "only read the scripts", 0},
    {"mutate", KEY_MUTATE, NULL, 0,
     "make each expectation wrong in turn; the script must fail each time", 0},
    {0},
};

static const char doc[] =
    "Play packet scripts (*.roce): what a RoCEv2 peer is sent, and what it must answer."
    "\v"
    "A script reads like a ladder diagram; < is a packet to the peer under test, > one from it:\n\n"
    "  title  a gap is told by one NAK that names the PSN expected\n"
    "  rule   IBA 9.7.5.1.2: out of sequence, NAK code 0\n"
    "  qp rc mtu=256\n"
    "  memory buf size=4096\n"
    "  post recv id=1 at=buf len=100\n"
    "  < SEND_ONLY psn=rpsn+1 ackreq len=16\n"
    "  > ACK psn=rpsn nak=psn msn=0\n"
    "  < SEND_ONLY psn=rpsn ackreq len=16 data=7\n"
    "  > ACK psn=rpsn ack msn=1 within 5ms\n"
    "  completion id=1 status=success len=16\n"
    "  holds buf len=16 data=7\n\n"
    "Without more, the peer is uroce's engine in this process, in simulated time; with --peer any "
    "RDMA device of another host, on which script_responder runs. The language is "
    "described in uroce-script(1).\n\n"
    "Examples:\n"
    "  uroce script tests/scripts\n"
    "  uroce script -v gap.roce\n"
    "  uroce script --psn 0xfffffe tests/scripts\n"
    "  uroce script --peer 192.0.2.1 tests/scripts/responder\n\n"
    "Exit status: 0; 1 when a script does not hold; 2 when one was not understood.";

static unsigned long parse_number(struct argp_state *state, const char *text, unsigned long most,
                                  const char *what)
{
    unsigned long value;
    char *end;

    errno = 0;
    value = strtoul(text, &end, 0);
    if (errno != 0 || *end != '\0' || text[0] < '0' || text[0] > '9' || value > most)
        argp_error(state, "'%s' is not %s from 0 to %lu", text, what, most);
    return value;
}

/* Who is meant is asked for when all is read, but not whether anybody can be meant. */
static void take_peer(struct script_tool *t, const char *text, struct argp_state *state)
{
    const size_t host_len = strcspn(text, ",");
    const char *port = text[host_len] == ',' ? text + host_len + 1 : PORT_DEFAULT;
    unsigned long number = strtoul(port, NULL, 10);

    if (host_len == 0 || host_len >= sizeof(t->host))
        argp_error(state, "'%s' should begin with the name or address of a host", text);
    if (port[strspn(port, "0123456789")] != '\0' || number < 1 || number > UINT16_MAX)
        argp_error(state, "'%s' is not a port from 1 to 65535", port);
    snprintf(t->host, sizeof(t->host), "%.*s", (int)host_len, text);
    t->port = port;
}

static error_t parse_option(int key, char *text, struct argp_state *state)
{
    struct script_tool *t = state->input;

    switch (key) {
    case 'v':
        t->verbose = true;
        return 0;
    case 'p':
        take_peer(t, text, state);
        return 0;
    case KEY_SETTLE:
        t->settle_ms = (uint32_t)parse_number(state, text, 60000, "a time in milliseconds");
        return 0;
    case KEY_CHECK:
        t->check = true;
        return 0;
    case KEY_MUTATE:
        t->mutate = true;
        return 0;
    case KEY_PSN:
        t->psn = (uint32_t)parse_number(state, text, 0xffffff, "a PSN");
        return 0;
    case ARGP_KEY_ARG:
        if (!add_argument(t, text))
            t->not_understood++;
        return 0;
    case ARGP_KEY_END:
        if (state->arg_num == 0)
            argp_error(state, "a script or a folder of scripts is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* Who it is played against; NULL with the reason said. */
static struct subject *open_peer(const struct script_tool *t)
{
    char error[SCRIPT_ERROR_SIZE] = "no memory";
    struct subject *subject;

    if (t->host[0] == '\0') {
        subject = engine_subject_new();
    } else {
        subject = remote_subject_new(t->host, t->port, error);
        if (subject != NULL)
            subject->settle_ns = t->settle_ms * UINT64_C(1000000);
    }
    if (subject == NULL)
        fprintf(stderr, "%s: %s\n", t->self, error);
    return subject;
}

static void close_peer(const struct script_tool *t)
{
    if (t->host[0] == '\0')
        engine_subject_free(t->subject);
    else
        remote_subject_free(t->subject);
}

int command_script(int argc, char **argv)
{
    static const struct argp argp = {
        .options = option_list,
        .parser = parse_option,
        .args_doc = "FILE|FOLDER|-...",
        .doc = doc,
    };
    static struct script_tool tool;

    tool =
        (struct script_tool){.psn = PSN_DEFAULT, .self = argv[0], .settle_ms = SETTLE_DEFAULT_MS};
    argp_parse(&argp, argc, argv, 0, NULL, &tool);
    setvbuf(stdout, NULL, _IOLBF, 0); /* each script as it ends */
    tool.subject = open_peer(&tool);
    if (tool.subject == NULL)
        return EXIT_NOT_UNDERSTOOD;
    for (uint32_t i = 0; i < tool.path_count; i++) {
        take_file(&tool, tool.paths[i]);
        free(tool.paths[i]);
    }
    close_peer(&tool);
    printf("%u passed, %u failed", tool.passed, tool.failed);
    if (tool.skipped > 0)
        printf(", %u skipped", tool.skipped);
    if (tool.not_understood > 0)
        printf(", %u not understood", tool.not_understood);
    putchar('\n');
    if (tool.not_understood > 0 || tool.passed + tool.failed + tool.skipped == 0)
        return EXIT_NOT_UNDERSTOOD;
    return tool.failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
