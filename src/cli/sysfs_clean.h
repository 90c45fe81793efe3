/* SPDX-License-Identifier: BSD-2-Clause */
/* What earlier calls of `uroce run` have left for programs that have ended since. */
#ifndef UROCE_CLI_SYSFS_CLEAN_H
#define UROCE_CLI_SYSFS_CLEAN_H

#include <time.h>

#define SYSFS_TREE_PREFIX ".sys-"
#define SYSFS_TREE_IDLE_S 3600 /* a tree that nobody asked for so long, and nobody uses, goes */

/*
 * Removes such trees of this user from a folder, which the caller holds locked and knows by path
 * as programs have it in their UROCE_SYSFS_ROOT. now: seconds, as files have them.
 */
void sysfs_clean(int folder, const char *path, time_t now);

#endif
