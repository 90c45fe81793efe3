/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a person may set, by environment or in a configuration file: one table
 * says the name, the kind, the range, the default and the meaning of each
 * (settings.c). A wrong value is said on standard error and the default used.
 *
 * The file is that of UROCE_CONFIG, else ~/.config/uroce/uroce.conf, else
 * /etc/uroce.conf. Its lines are "name = value" with the names of the
 * environment, or the same without UROCE_ and in lower case. The environment wins.
 */
#ifndef UROCE_NODE_SETTINGS_H
#define UROCE_NODE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/log.h"

#define SETTING_TEXT_SIZE 256
#define SETTING_RULES_SIZE 1024
#define SETTING_PATH_SIZE 4096
#define SETTING_SENTENCE_SIZE 768

/* The value of a number that was not set and has no fixed default. */
#define SETTING_AUTO UINT64_MAX

struct settings {
    char devices[SETTING_TEXT_SIZE]; /* "": all */
    uint32_t log_level;              /* enum log_level */
    bool gso;
    bool gro;
    bool bpf;
    bool guests;
    bool raw;
    bool stat;
    bool sysfs;
    uint64_t send_sockets;
    uint64_t receive_buffer; /* bytes, or SETTING_AUTO: what the kernel allows */
    uint64_t window;         /* bytes, or SETTING_AUTO */
    uint64_t timeout_floor_ms;
    uint64_t datagram_rate_bps; /* or SETTING_AUTO */
    uint64_t rd_atomic;
    uint64_t spin; /* empty polls in a row before the core is offered; 0: never */
    uint64_t vendor_part_id;
    char fault[SETTING_RULES_SIZE]; /* link/fault_rule.h; "": none */
    char record[SETTING_PATH_SIZE]; /* link/record.h; "": nothing is recorded */
    uint64_t record_limit;          /* bytes */
    uint64_t record_files;
};

/* The settings of this process, read at the first call. Any thread. */
const struct settings *settings_get(void);

/* Where settings are read from, for tests. */
struct settings_source {
    const char *(*environment)(const char *name); /* NULL when unset */
    const char *file;                             /* or NULL: none */
    bool file_wanted;                             /* its absence is worth a complaint */
    void (*complain)(const char *sentence);
};

/* Fills out from the defaults, then the file, then the environment. Never fails. */
void settings_read(const struct settings_source *source, struct settings *out);

/*
 * Whether text is a value of the setting of this name, whoever brings it. Returns 0, -ENOENT when
 * there is no such setting, or -EINVAL with a sentence that says what would be right: called is
 * what the reader gave the value to ("--record-limit"). An empty text is no value.
 */
int setting_check(const char *name, const char *text, const char *called,
                  char sentence[SETTING_SENTENCE_SIZE]);

/* One row of the table, for help texts: returns false past the last. Strings are static. */
struct setting_description {
    const char *name;     /* "UROCE_WINDOW" */
    const char *values;   /* "a number of bytes from 4096 to 64M, or auto" */
    const char *fallback; /* as it would be written */
    const char *meaning;
};
bool settings_describe(uint32_t index, struct setting_description *out);

#endif
