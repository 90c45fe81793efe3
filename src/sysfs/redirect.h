/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which paths lead where: /sys/class/infiniband* and /dev/infiniband into the tree that `uroce run`
 * made (UROCE_SYSFS_ROOT). Nothing is redirected when that is unset.
 */
#ifndef UROCE_SYSFS_REDIRECT_H
#define UROCE_SYSFS_REDIRECT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/* The path to use: path itself, or one in buffer. path may be NULL. */
const char *redirect_path(const char *path, char buffer[PATH_MAX]);

/*
 * The same for a path relative to a folder that is open (or AT_FDCWD). In the tree the system finds
 * the way by itself, but for counters, which must be known as such: of these the path is made
 * absolute.
 */
const char *redirect_path_at(int folder, const char *path, char buffer[PATH_MAX]);

/*
 * When path (redirected already) is that of a counter: a descriptor with its value now, as text.
 * Else -1. Counters of all processes of the user, and of the network namespace, are added up.
 */
int counter_file_open(const char *path, int flags);

/* The same for a file of a device, in a process that has the verbs library. */
int device_file_open(const char *path, int flags);

/* The first of both that knows the path. */
int live_file_open(const char *path, int flags);

/* A descriptor of a file in memory with this text, or -1. flags: as open's. */
int text_file_open(const char *text, size_t len, int flags);

/* Whether the last name of path is that of a counter. */
bool counter_file_name(const char *path);

/* What stands in front of all redirected paths, or NULL. */
const char *redirect_root(void);

#endif
