/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The uroce program: finds the subcommand in a table and hands over to it.
 * Exit status 2 says that the command line was not understood.
 */
#include "cli/command.h"

#include <argp.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static void print_help(void)
{
    puts("uroce: RDMA over UDP in userspace, with no adapter, kernel module or root\n"
         "\n"
         "usage: uroce COMMAND [ARGUMENTS]\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  %-9s %s\n", commands[i].name, commands[i].summary);
    printf("\n%s\n", examples);
    puts("`uroce COMMAND --help` says more of one; so do the manual pages uroce(1) and\n"
         "uroce-environment(7).");
}

static const struct command *command_find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    }
    return NULL;
}

/* The status, or failure when what was printed did not all get out (a full disk). */
static int written(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fprintf(stderr, "uroce: cannot write to standard output: %s\n", strerror(errno));
    return status != 0 ? status : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    char name[64];
    const struct command *command;
    const char *word = argc > 1 ? argv[1] : "--help";

    if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) {
        puts("uroce " UROCE_VERSION);
        return written(0);
    }
    if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0) {
        print_help();
        return written(argc > 1 ? 0 : EXIT_USAGE);
    }
    command = command_find(word);
    if (!command) {
        fprintf(stderr, "uroce: there is no command '%s'; `uroce --help` lists what there is\n",
                word);
        return EXIT_USAGE;
    }
    snprintf(name, sizeof(name), "uroce %s", command->name);
    argv[1] = name;
    argp_err_exit_status = EXIT_USAGE;
    return written(command->main(argc - 1, argv + 1));
}
