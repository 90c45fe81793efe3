/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages for people, on standard error. Nothing is printed unless asked for:
 * UROCE_LOG is error, warn, info or debug (anything else, or unset: silent),
 * and a program of our own may set the level itself. Each message is one write,
 * so that those of several threads and processes do not mix.
 * Only layers that do I/O may use this; wire/, engine/ and cm/ may not.
 */
#ifndef UROCE_BASE_LOG_H
#define UROCE_BASE_LOG_H

#include <stdbool.h>

enum log_level {
    LOG_LEVEL_SILENT,
    LOG_LEVEL_ERROR,
    LOG_LEVEL_WARN,
    LOG_LEVEL_INFO,
    LOG_LEVEL_DEBUG,
};

/* Replaces the level of UROCE_LOG; any thread. */
void log_level_set(enum log_level level);

/* True when messages of this level are printed: for work that only they need. */
bool log_enabled(enum log_level level);

/* One line "uroce: ..." without the format's line end; keeps errno; any thread. */
void log_print(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#define log_error(...) log_print(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warn(...) log_print(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...) log_print(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_print(LOG_LEVEL_DEBUG, __VA_ARGS__)

#endif
