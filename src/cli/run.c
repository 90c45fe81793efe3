/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `uroce run`: puts the drop-in libraries in front of the distribution's and
 * becomes the program. Before that it looks for all that would make the
 * program quietly run on something else, or fail in a way that is hard to
 * read, and says it: first what is wrong, then what to do.
 */
#include "cli/command.h"
#include "cli/port.h"
#include "cli/program.h"
#include "cli/sysfs_tree.h"
#include "link/fault_rule.h"
#include "node/device.h"
#include "node/settings.h"

#include <argp.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROCE_PORT 4791
#define DROPIN_NAME "libibverbs.so.1"
#define SYSFS_NAME "liburoce-sysfs.so"

/* As env(1) and nohup(1) have them. */
enum run_status {
    STATUS_NOT_UNDERSTOOD = 2, /* the command line, or a setting in the environment */
    STATUS_CANNOT_WORK = 125,  /* something that uroce needs is not there */
    STATUS_CANNOT_RUN = 126,   /* the program is there, and cannot be run this way */
    STATUS_NOT_FOUND = 127,
};

/* Options without a letter. */
enum {
    KEY_RECORD_LIMIT = 0x100,
    KEY_RECORD_FILES,
};

/* Options that are settings: what they give goes into the variable of that name. */
static const struct setting_option {
    int key;
    const char *name;
    const char *variable;
} setting_options[] = {
    {'d', "--devices", "UROCE_DEVICES"},
    {'f', "--fault", "UROCE_FAULT"},
    {'r', "--record", "UROCE_RECORD"},
    {KEY_RECORD_LIMIT, "--record-limit", "UROCE_RECORD_LIMIT"},
    {KEY_RECORD_FILES, "--record-files", "UROCE_RECORD_FILES"},
};

#define SETTING_OPTION_COUNT (sizeof(setting_options) / sizeof(setting_options[0]))

struct run_options {
    const char *given[SETTING_OPTION_COUNT]; /* the values of setting_options; NULL: none */
    unsigned verbose;                        /* how often -v was given */
    bool dry_run;
    char **program; /* words of the command line from the program on */
};

/* Launchers that start processes without our environment, unless told to pass it on. */
struct launcher {
    const char *name;
    const char *advice;
};

#define ADVICE_MPI                                                                                 \
    "ranks on other hosts get an environment of their own: add `-x LD_LIBRARY_PATH` (Open MPI) "   \
    "or `-genvlist LD_LIBRARY_PATH` (MPICH), or start each rank as `uroce run -- RANK`"
#define ADVICE_ROOT "it starts programs with a clean environment: put it in front of uroce instead"

static const struct launcher launchers[] = {
    {"mpirun", ADVICE_MPI},
    {"mpiexec", ADVICE_MPI},
    {"orterun", ADVICE_MPI},
    {"mpirun.openmpi", ADVICE_MPI},
    {"mpiexec.openmpi", ADVICE_MPI},
    {"mpirun.mpich", ADVICE_MPI},
    {"mpiexec.mpich", ADVICE_MPI},
    {"mpiexec.hydra", ADVICE_MPI},
    {"srun", "leave its --export at ALL, or name LD_LIBRARY_PATH there"},
    {"ssh", "the environment stays here: call `uroce run` on the other host"},
    {"sudo", ADVICE_ROOT},
    {"su", ADVICE_ROOT},
    {"runuser", ADVICE_ROOT},
    {"doas", ADVICE_ROOT},
    {"pkexec", ADVICE_ROOT},
};

/* What to do about each verdict on a program. */
static const char *const remedies[] = {
    [PROGRAM_NOT_FOUND] = "check the name; Debian has RDMA programs in ibverbs-utils and perftest",
    [PROGRAM_NOT_EXECUTABLE] = "check it with ls -l",
    [PROGRAM_STATIC] = "link it with libibverbs dynamically",
    [PROGRAM_SET_ID] = "run a copy of your own (`cp` leaves the bit behind)",
    [PROGRAM_CAPABILITIES] = "run a copy of your own (`cp` leaves the capabilities behind)",
    [PROGRAM_FOREIGN] = "build uroce for the same processor and word size",
};

__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
    va_list args;

    fputs("uroce run: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
}

/*
 * Finds the folder with the drop-in libraries: lib/ beside this executable (a
 * build tree), else where `make install` puts them. Says so when there are none.
 */
static int dropin_find(char *out, size_t len)
{
    char self[PATH_MAX] = "";
    char near[PATH_MAX];
    char file[PATH_MAX + sizeof(DROPIN_NAME)];
    const char *const places[] = {near, UROCE_DROPIN_DIR};

    if (readlink("/proc/self/exe", self, sizeof(self) - 1) < 0)
        complain("cannot read /proc/self/exe: %s", strerror(errno));
    snprintf(near, sizeof(near), "%.*s/lib", (int)sizeof(near) - 5, dirname(self));
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(file, sizeof(file), "%s/%s", places[i], DROPIN_NAME);
        if (access(file, R_OK) == 0) {
            snprintf(out, len, "%s", places[i]);
            return 0;
        }
    }
    complain("the drop-in %s is neither in %s nor in %s", DROPIN_NAME, places[0], places[1]);
    complain("build it with `make build`, or install with `make install`");
    return -ENOENT;
}

/* Tells of launchers whose children would not be ours. */
static void advise(const char *program)
{
    const char *slash = strrchr(program, '/');
    const char *name = slash ? slash + 1 : program;

    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        if (strcmp(launchers[i].name, name) == 0)
            complain("note on %s: %s", name, launchers[i].advice);
    }
}

/* Returns 0 with the program's file in path, or the exit status after saying why not. */
static int program_check(const char *name, const char *dropin, char *path, size_t len)
{
    struct user user = {.uid = geteuid(), .gid = getegid()};
    const char *path_list = getenv("PATH");
    char library[PATH_MAX + sizeof(DROPIN_NAME)];
    struct elf_kind kind = {0};
    enum program_verdict verdict;
    int error;

    snprintf(library, sizeof(library), "%s/%s", dropin, DROPIN_NAME);
    error = elf_kind_read(library, &kind);
    if (error) {
        complain("%s is not a library: %s", library, strerror(-error));
        return STATUS_CANNOT_WORK;
    }
    verdict = program_find(name, path_list ? path_list : "/usr/bin:/bin", path, len);
    if (verdict == PROGRAM_GOOD)
        verdict = program_judge(path, kind, user);
    if (verdict == PROGRAM_GOOD)
        return 0;
    complain("%s %s", verdict == PROGRAM_NOT_FOUND ? name : path, program_verdict_text(verdict));
    complain("%s", remedies[verdict]);
    return verdict == PROGRAM_NOT_FOUND ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN;
}

/* Returns 0 when this host offers what the libraries need, or the exit status after saying why not.
 */
static int host_check(void)
{
    struct device *devices = calloc(DEVICE_COUNT_MAX, sizeof(*devices));
    int count = devices ? device_list(devices, DEVICE_COUNT_MAX) : -ENOMEM;
    const char *wanted = settings_get()->devices;
    uid_t holder;

    free(devices);
    if (count < 0) {
        complain("cannot list the network interfaces: %s", strerror(-count));
        return STATUS_CANNOT_WORK;
    }
    if (count == 0 && *wanted) {
        complain("none of the interfaces '%s' (UROCE_DEVICES) is up and has an address", wanted);
        complain("see `ip -brief address`; `uroce devices` lists what there is without it");
        return STATUS_CANNOT_WORK;
    }
    if (count == 0) {
        complain("no network interface is up and has an address, not even loopback");
        complain("see `ip -brief address`; as root: `ip link set lo up`");
        return STATUS_CANNOT_WORK;
    }
    if (port_other_holder(ROCE_PORT, geteuid(), &holder) && !port_shares(holder)) {
        struct passwd *entry = getpwuid(holder);

        complain("UDP port %d is held by user %s (uid %u), but not by uroce", ROCE_PORT,
                 entry ? entry->pw_name : "unknown", holder);
        complain("as root: `ss -lunp 'sport = :%d'` shows the process; if none, it is the kernel's "
                 "own RoCE (`rdma link`)",
                 ROCE_PORT);
        return STATUS_CANNOT_WORK;
    }
    return 0;
}

/* Prepends folder to LD_LIBRARY_PATH, unless it is in front already. */
static int library_path_prepend(const char *folder)
{
    const char *old = getenv("LD_LIBRARY_PATH");
    size_t len = strlen(folder);
    char *path;
    int error = 0;

    if (strpbrk(folder, ":;$")) {
        complain("%s: the loader cannot have ':', ';' or '$' in a folder's name", folder);
        return -EINVAL;
    }
    if (!old || !*old)
        return setenv("LD_LIBRARY_PATH", folder, 1) ? -errno : 0;
    if (strncmp(old, folder, len) == 0 && (old[len] == ':' || old[len] == '\0'))
        return 0;
    if (asprintf(&path, "%s:%s", folder, old) < 0)
        return -ENOMEM;
    if (setenv("LD_LIBRARY_PATH", path, 1) != 0)
        error = -errno;
    free(path);
    return error;
}

/* What is given to an option wins over its variable. NULL: nothing is given to either. */
static const char *value_of(const struct run_options *options, const char *variable,
                            const char **called)
{
    const char *value = getenv(variable);

    *called = variable;
    for (size_t i = 0; i < SETTING_OPTION_COUNT; i++) {
        if (options->given[i] != NULL && strcmp(setting_options[i].variable, variable) == 0) {
            *called = setting_options[i].name;
            return options->given[i];
        }
    }
    return value != NULL && *value != '\0' ? value : NULL;
}

/* Rules with a mistake would stop each device from opening: better here, and once. */
static uint32_t count_wrong_rules(const char *rules, const char *called)
{
    struct fault_plan plan;
    char error[FAULT_ERROR_SIZE];

    if (fault_plan_parse(rules, &plan, error) == 0)
        return 0;
    complain("%s: %s", called, error);
    return 1;
}

/* A name without a device would be passed over in silence when others have one. */
static uint32_t count_absent_devices(const char *list, const char *called)
{
    char names[SETTING_TEXT_SIZE];
    struct device device;
    uint32_t absent = 0;
    char *rest = names;

    snprintf(names, sizeof(names), "%s", list);
    for (char *name = strsep(&rest, ", "); name != NULL; name = strsep(&rest, ", ")) {
        if (*name == '\0' || device_list_chosen(&device, 1, name) != 0)
            continue;
        complain("%s: no interface '%s' is up and has an address; see `ip -brief address`", called,
                 name);
        absent++;
    }
    return absent;
}

/* Who asks for a recording is not to learn at the end that there is none. */
static uint32_t count_bad_folders(const char *path, const char *called)
{
    char folder[SETTING_PATH_SIZE];
    char *slash;

    snprintf(folder, sizeof(folder), "%s", path);
    slash = strrchr(folder, '/');
    if (slash == NULL)
        strcpy(folder, ".");
    else
        slash[slash == folder] = '\0';
    /* Where the process number stands, it is not known yet. */
    if (strstr(folder, "%p") != NULL || access(folder, W_OK | X_OK) == 0)
        return 0;
    complain("%s: no file can be made in %s: %s", called, folder, strerror(errno));
    return 1;
}

static uint32_t count_wrong_values(const struct run_options *options)
{
    struct setting_description d;
    char sentence[SETTING_SENTENCE_SIZE];
    const char *called;
    uint32_t wrong = 0;

    for (uint32_t i = 0; settings_describe(i, &d); i++) {
        const char *value = value_of(options, d.name, &called);

        if (value == NULL)
            continue;
        if (setting_check(d.name, value, called, sentence) != 0) {
            complain("%s", sentence);
            wrong++;
        } else if (strcmp(d.name, "UROCE_FAULT") == 0) {
            wrong += count_wrong_rules(value, called);
        } else if (strcmp(d.name, "UROCE_DEVICES") == 0) {
            wrong += count_absent_devices(value, called);
        } else if (strcmp(d.name, "UROCE_RECORD") == 0) {
            wrong += count_bad_folders(value, called);
        }
    }
    return wrong;
}

/* A variable of ours that is no setting has a letter wrong, as a rule. */
static void note_unknown_variables(void)
{
    static const char *const others[] = {"UROCE_CONFIG", "UROCE_SYSFS_ROOT"};
    extern char **environ;

    for (char **variable = environ; *variable != NULL; variable++) {
        const size_t len = strcspn(*variable, "=");
        char name[64];
        char sentence[SETTING_SENTENCE_SIZE];
        bool known = strncmp(*variable, "UROCE_", 6) != 0 || len >= sizeof(name);

        for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
            known |= strlen(others[i]) == len && strncmp(*variable, others[i], len) == 0;
        if (known)
            continue;
        snprintf(name, sizeof(name), "%.*s", (int)len, *variable);
        if (setting_check(name, "", name, sentence) == -ENOENT)
            complain("note: %s is not a setting; they are described in uroce-environment(7)", name);
    }
}

/*
 * The program would go on with the default, tell of it among its own lines or, when it opens no
 * device, never. Returns 0 or the exit status, after saying all that is wrong.
 */
static int values_check(const struct run_options *options)
{
    const char *file = getenv("UROCE_CONFIG");
    uint32_t wrong = count_wrong_values(options);

    if (file != NULL && *file != '\0' && access(file, R_OK) != 0) {
        complain("UROCE_CONFIG is '%s': %s", file, strerror(errno));
        wrong++;
    }
    note_unknown_variables();
    return wrong > 0 ? STATUS_NOT_UNDERSTOOD : 0;
}

/* The program may go to another folder before it opens a device. */
static int record_path_set(const char *path)
{
    char *folder = path[0] == '/' ? NULL : getcwd(NULL, 0);
    char *absolute;
    int error = 0;

    if (asprintf(&absolute, "%s%s%s", folder ? folder : "", folder ? "/" : "", path) < 0) {
        free(folder);
        return -ENOMEM;
    }
    if (setenv("UROCE_RECORD", absolute, 1) != 0)
        error = -errno;
    free(absolute);
    free(folder);
    return error;
}

/* Appends a word to a variable that is a list. */
static int list_append(const char *name, const char *word)
{
    const char *old = getenv(name);
    char *list;
    int error = 0;

    if (!old || !*old)
        return setenv(name, word, 1) ? -errno : 0;
    if (strstr(old, word))
        return 0;
    if (asprintf(&list, "%s:%s", old, word) < 0)
        return -ENOMEM;
    if (setenv(name, list, 1) != 0)
        error = -errno;
    free(list);
    return error;
}

/*
 * For programs that look into /sys/class/infiniband themselves. Most do not, so a system where this
 * cannot be had is worth a note and no more.
 */
static void sysfs_set(const char *dropin)
{
    char library[PATH_MAX + sizeof(SYSFS_NAME)];
    char root[PATH_MAX];
    int error;

    snprintf(library, sizeof(library), "%s/%s", dropin, SYSFS_NAME);
    if (!settings_get()->sysfs || access(library, R_OK) != 0 || strpbrk(library, " :"))
        return;
    error = sysfs_tree_make(root, sizeof(root));
    if (!error)
        error = setenv("UROCE_SYSFS_ROOT", root, 1) ? -errno : 0;
    if (!error)
        error = list_append("LD_PRELOAD", library);
    /* A program with AddressSanitizer would not start behind a library that is preloaded. */
    if (!error)
        error = list_append("ASAN_OPTIONS", "verify_asan_link_order=0");
    if (error)
        complain("note: /sys/class/infiniband is not shown to the program: %s", strerror(-error));
}

/* Returns 0 or the exit status. Before the settings are read the first time. */
static int environment_set(const struct run_options *options, const char *dropin)
{
    int error = library_path_prepend(dropin);

    for (size_t i = 0; i < SETTING_OPTION_COUNT && !error; i++) {
        if (options->given[i] == NULL)
            continue;
        if (setting_options[i].key == 'r')
            error = record_path_set(options->given[i]);
        else
            error = setenv(setting_options[i].variable, options->given[i], 1) ? -errno : 0;
    }
    if (!error && options->verbose > 0)
        error = setenv("UROCE_LOG", options->verbose > 1 ? "debug" : "info", 1) ? -errno : 0;
    if (!error)
        return 0;
    complain("cannot set the environment: %s", strerror(-error));
    return STATUS_CANNOT_WORK;
}

/* Prints a word as a shell would read it back. */
static void print_quoted(const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "-_./:,=+@%";

    if (*word && word[strspn(word, plain)] == '\0') {
        fputs(word, stdout);
        return;
    }
    putchar('\'');
    for (; *word; word++) {
        if (*word == '\'')
            fputs("'\\'", stdout);
        putchar(*word);
    }
    putchar('\'');
}

/* The command line that does the same without uroce, one variable a line. */
static void print_command(const char *path, char **program)
{
    extern char **environ;

    puts("env \\");
    for (char **variable = environ; *variable; variable++) {
        if (strncmp(*variable, "LD_LIBRARY_PATH=", 16) == 0 ||
            strncmp(*variable, "LD_PRELOAD=", 11) == 0 ||
            strncmp(*variable, "ASAN_OPTIONS=", 13) == 0 || strncmp(*variable, "UROCE_", 6) == 0) {
            fputs("  ", stdout);
            print_quoted(*variable);
            puts(" \\");
        }
    }
    fputs("  ", stdout);
    print_quoted(path);
    for (char **word = program + 1; *word; word++) {
        putchar(' ');
        print_quoted(*word);
    }
    putchar('\n');
}

static int run(const struct run_options *options)
{
    char dropin[PATH_MAX];
    char path[PATH_MAX];
    int status = values_check(options);

    if (status != 0)
        return status;
    if (dropin_find(dropin, sizeof(dropin)) != 0)
        return STATUS_CANNOT_WORK;
    advise(options->program[0]);
    status = program_check(options->program[0], dropin, path, sizeof(path));
    if (status == 0)
        status = environment_set(options, dropin);
    if (status == 0)
        status = host_check();
    if (status != 0)
        return status;
    sysfs_set(dropin);
    if (options->dry_run) {
        print_command(path, options->program);
        return 0;
    }
    execvp(options->program[0], options->program);
    complain("%s: %s", path, strerror(errno));
    return errno == ENOENT ? STATUS_NOT_FOUND : STATUS_CANNOT_RUN;
}

static const struct argp_option option_list[] = {
    {"devices", 'd', "LIST", 0, "Only these network interfaces, in this order (eth0,lo)", 0},
    {"device", 0, NULL, OPTION_ALIAS, NULL, 0},
    {"fault", 'f', "RULES", 0, "Lose, repeat, reorder, damage, delay or mark packets (drop=1%)", 0},
    {"record", 'r', "FILE", 0, "Record what is sent and received as pcapng (FILE.PID)", 0},
    {"record-limit", KEY_RECORD_LIMIT, "SIZE", 0, "Most that a process records (1G)", 0},
    {"record-files", KEY_RECORD_FILES, "N", 0, "Keep the latest, in N files", 0},
    {"verbose", 'v', NULL, 0, "Let the libraries say what they do; twice: in detail", 0},
    {"dry-run", 'n', NULL, 0, "Check everything, then print the command line instead", 0},
    {0},
};

static error_t option_parse(int key, char *value, struct argp_state *state)
{
    struct run_options *options = state->input;

    for (size_t i = 0; i < SETTING_OPTION_COUNT; i++) {
        if (setting_options[i].key == key) {
            options->given[i] = value;
            return 0;
        }
    }
    switch (key) {
    case 'v':
        options->verbose++;
        return 0;
    case 'n':
        options->dry_run = true;
        return 0;
    case ARGP_KEY_ARG:
        if (*value == '\0')
            argp_error(state, "which program? '' is none");
        /* The first word that is no option is the program: the rest is its own. */
        options->program = &state->argv[state->next - 1];
        state->next = state->argc;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "which program? For example: uroce run -- ibv_devinfo");
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int command_run(int argc, char **argv)
{
    static const struct argp argp = {
        .options = option_list,
        .parser = option_parse,
        .args_doc = "[--] PROGRAM [ARGUMENTS]",
        .doc = "Runs PROGRAM over uroce's RDMA devices."
               "\v"
               "The program runs in place of uroce, with the same process number and exit status. "
               "2: the command line or a setting was not understood; 125: uroce cannot work here; "
               "126: PROGRAM "
               "cannot be run this way; "
               "127: there is no such program.\n\n"
               "  uroce run -- ibv_devinfo -v\n"
               "  uroce run --devices lo -- ibv_rc_pingpong -g 0\n"
               "  uroce run -v -- ib_write_bw 192.0.2.1\n"
               "  uroce run --fault drop=1%,reorder=1%,seed=7 -- ibv_rc_pingpong -g 0\n",
    };
    struct run_options options = {0};

    if (argp_parse(&argp, argc, argv, ARGP_IN_ORDER, NULL, &options) != 0)
        return STATUS_CANNOT_WORK;
    return run(&options);
}
