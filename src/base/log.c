/* SPDX-License-Identifier: BSD-2-Clause */
/* The level is read from the environment when it is first needed, and kept. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LINE_SIZE 1024
#define LEVEL_UNKNOWN (-1)

static const char *const level_names[] = {
    [LOG_LEVEL_SILENT] = "silent", [LOG_LEVEL_ERROR] = "error", [LOG_LEVEL_WARN] = "warn",
    [LOG_LEVEL_INFO] = "info",     [LOG_LEVEL_DEBUG] = "debug",
};

static atomic_int current_level = LEVEL_UNKNOWN;

static int level_from_environment(void)
{
    const char *wanted = getenv("UROCE_LOG");

    for (int level = LOG_LEVEL_ERROR; wanted != NULL && level <= LOG_LEVEL_DEBUG; level++)
        if (strcmp(wanted, level_names[level]) == 0)
            return level;
    return LOG_LEVEL_SILENT;
}

void log_level_set(enum log_level level)
{
    atomic_store_explicit(&current_level, (int)level, memory_order_relaxed);
}

bool log_enabled(enum log_level level)
{
    int current = atomic_load_explicit(&current_level, memory_order_relaxed);

    if (current == LEVEL_UNKNOWN) {
        int found = level_from_environment();

        /* A level that was set in the meantime stands. */
        if (atomic_compare_exchange_strong(&current_level, &current, found))
            current = found;
    }
    return (int)level <= current;
}

void log_print(enum log_level level, const char *format, ...)
{
    const int saved_errno = errno;
    char line[LINE_SIZE] = "uroce: ";
    const size_t prefix_len = strlen(line);
    const size_t room = sizeof(line) - prefix_len;
    va_list args;
    int wanted;
    size_t text_len;

    if (!log_enabled(level))
        return;
    va_start(args, format);
    wanted = vsnprintf(line + prefix_len, room, format, args);
    va_end(args);
    text_len = wanted < 0 ? 0 : (size_t)wanted < room ? (size_t)wanted : room - 1;
    line[prefix_len + text_len] = '\n';
    /* A standard error that is closed or full leaves nobody to tell. */
    if (write(STDERR_FILENO, line, prefix_len + text_len + 1) < 0)
        (void)0;
    errno = saved_errno;
}
