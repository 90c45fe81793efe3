/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records what a link sends and receives in pcapng files: a tap. Whole blocks are gathered
 * in memory and written when there are enough, or when the oldest has waited a while,
 * so a file is good at any moment, however its process ends. When something is
 * wrong with a file it is said once, recording ends, and nothing else happens.
 */
#ifndef UROCE_LINK_RECORD_H
#define UROCE_LINK_RECORD_H

#include <sys/types.h>

#include "link/link.h"

#define RECORD_PATH_SIZE 4096u
#define RECORD_LIMIT_MIN 65536u /* bytes of a file */
#define RECORD_ERROR_SIZE 512u

struct record;

struct record_config {
    /*
     * Where to: %p becomes the process number; without %p it goes before the last suffix
     * ("a.pcapng" to "a.17.pcapng"), and so does the number of the file when there are several.
     */
    const char *path;
    uint64_t limit;                     /* bytes of all files together */
    uint32_t files;                     /* 1: recording ends at the limit; more: the oldest goes */
    pid_t pid;                          /* of this process */
    const char *program;                /* its name, for the files' comment */
    uint64_t (*now)(void);              /* nanoseconds that never go backwards, for deadlines */
    void (*complain)(const char *line); /* a sentence without a line end */
};

/*
 * Opens the first file. Strings are copied. Returns 0, or a negative errno with a sentence in
 * error (RECORD_ERROR_SIZE bytes).
 */
int record_open(const struct record_config *config, struct record **out, char *error);

/* To be set as a link's tap. */
struct link_tap *record_tap(struct record *r);

/* When record_write must be called, or UINT64_MAX. */
uint64_t record_deadline(const struct record *r);

/* Writes what was gathered. */
void record_write(struct record *r);

/* Writes, closes, frees. */
void record_close(struct record *r);

/* For a child after fork: closes and frees; what was gathered is the parent's to write. */
void record_abandon(struct record *r);

/* The name of a file, as described at struct record_config; number 0: it has none. Returns 0 or
 * -ENAMETOOLONG. */
int record_path(const char *pattern, pid_t pid, uint32_t number, char out[RECORD_PATH_SIZE]);

#endif
