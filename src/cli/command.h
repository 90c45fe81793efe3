/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The subcommands of the uroce program: one file each, thin, listed in the
 * table of main.c. A subcommand gets its own words only: argv[0] is what it
 * is called in messages and in its usage line ("uroce run"), argv[1] the
 * first word after it. Command lines are read with argp.
 */
#ifndef UROCE_CLI_COMMAND_H
#define UROCE_CLI_COMMAND_H

struct command {
    const char *name;
    const char *summary;                /* what it does, for the list in `uroce --help` */
    int (*main)(int argc, char **argv); /* returns the exit status */
};

/* Notes why standard output failed (an errno), for who looks when it happens: main says it. */
void command_output_failed(int error);

int command_devices(int argc, char **argv);
int command_pcap(int argc, char **argv);
int command_ping(int argc, char **argv);
int command_run(int argc, char **argv);
int command_script(int argc, char **argv);
int command_stat(int argc, char **argv);

#endif
