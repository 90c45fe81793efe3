/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The uroce program: finds the subcommand in a table and hands over to it.
 * Exit status 2 says that the command line was not understood.
 */
#include "cli/command.h"

#include <argp.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXIT_USAGE 2

static const struct command commands[] = {
    {.name = "run", .summary = "run a program over uroce's RDMA devices", .main = command_run},
    {.name = "devices",
     .summary = "list the devices that programs will see",
     .main = command_devices},
    {.name = "ping", .summary = "ask whether RoCEv2 is spoken at an address", .main = command_ping},
    {.name = "stat",
     .summary = "show what programs over uroce are doing: queue pairs, counters, rates",
     .main = command_stat},
    {.name = "pcap",
     .summary = "say what happened in a capture of RoCEv2 traffic",
     .main = command_pcap},
    {.name = "script",
     .summary = "play packet scripts: what a peer is sent, and what it must answer",
     .main = command_script},
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static const char examples[] =
    "Two programs on one host, each in its own terminal:\n"
    "  uroce run -- ibv_rc_pingpong -g 0\n"
    "  uroce run -- ibv_rc_pingpong -g 0 127.0.0.1\n"
    "\n"
    "How fast between two hosts (the second one gives the address of the first):\n"
    "  uroce run -- ib_write_bw\n"
    "  uroce run -- ib_write_bw 192.0.2.1\n"
    "\n"
    "Which devices there are, and only one of them for a program:\n"
    "  uroce devices\n"
    "  uroce run --devices eth0 -- ibv_devinfo -v\n"
    "\n"
    "What the programs that run now have sent and received, and how fast they do:\n"
    "  uroce stat\n"
    "  uroce stat --watch\n"
    "\n"
    "What went over the wire:\n"
    "  tcpdump -i any -w roce.pcap udp port 4791\n"
    "  uroce pcap roce.pcap\n"
    "\n"
    "Whether a peer keeps the rules, packet by packet:\n"
    "  uroce script tests/scripts\n";

static void print_help(FILE *out)
{
    fputs("uroce: RDMA over UDP in userspace, with no adapter, kernel module or root\n"
          "\n"
          "usage: uroce COMMAND [ARGUMENTS]\n\n",
          out);
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "\n%s\n", examples);
    fputs("`uroce COMMAND --help` says more of one; so do the manual pages uroce(1) and\n"
          "uroce-environment(7).\n",
          out);
}

static const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

static int output_error; /* 0: not known */

void command_output_failed(int error)
{
    output_error = error;
}

/* What was printed and did not all get out (a full disk) is a failure, also of argp's --help. */
static void check_output(int status, void *unused)
{
    (void)unused;
    errno = output_error;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    if (errno != EPIPE) /* else nobody reads on, and nobody minds */
        fprintf(stderr, "uroce: cannot write to standard output%s%s\n", errno != 0 ? ": " : "",
                errno != 0 ? strerror(errno) : "");
    _exit(status != 0 ? status : EXIT_FAILURE);
}

/*
 * A standard descriptor that is closed would be the next file or socket that opens, and what is
 * printed would go there. In its place comes one that fails as it does, and not for a program that
 * is run.
 */
static void guard_descriptors(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        const int useless = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;

        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", useless | O_CLOEXEC) != fd)
            _exit(EXIT_FAILURE);
    }
}

/* argv[0] is to become the name of the command. */
static int command_start(const struct command *command, int argc, char **argv)
{
    char name[64];

    snprintf(name, sizeof(name), "uroce %s", command->name);
    argv[0] = name;
    argp_err_exit_status = EXIT_USAGE;
    argp_program_version = "uroce " UROCE_VERSION;
    /* When nobody reads on (`| head`), end quietly, also if our parent ignores the signal; what a
     * program that is run does then is its own affair. */
    if (command->main != command_run)
        signal(SIGPIPE, SIG_DFL);
    return command->main(argc, argv);
}

static bool is_word(const char *word, const char *name, const char *letter)
{
    return strcmp(word, name) == 0 || strcmp(word, letter) == 0;
}

int main(int argc, char **argv)
{
    static char help_option[] = "--help";
    char *help_words[] = {NULL, help_option, NULL};
    const char *word = argc > 1 ? argv[1] : "";
    const bool asks_help = is_word(word, "--help", "-h") || strcmp(word, "help") == 0;
    const struct command *command;

    guard_descriptors();
    if (on_exit(check_output, NULL) != 0)
        return EXIT_FAILURE;
    if (argc <= 1) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    if (is_word(word, "--version", "-V")) {
        puts("uroce " UROCE_VERSION);
        return EXIT_SUCCESS;
    }
    if (asks_help && argc == 2) {
        print_help(stdout);
        return EXIT_SUCCESS;
    }
    if (asks_help)
        word = argv[2];
    command = command_find(word);
    if (!command) {
        fprintf(stderr, "uroce: there is no command '%s'; `uroce --help` lists what there is\n",
                word);
        return EXIT_USAGE;
    }
    return asks_help ? command_start(command, 2, help_words)
                     : command_start(command, argc - 1, argv + 1);
}
