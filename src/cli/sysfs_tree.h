/* SPDX-License-Identifier: BSD-2-Clause */
/* The tree that stands for /sys/class/infiniband and /dev/infiniband under `uroce run`. */
#ifndef UROCE_CLI_SYSFS_TREE_H
#define UROCE_CLI_SYSFS_TREE_H

#include <stddef.h>

/*
 * Makes the tree of the devices that there are now, or finds the one that was made for the same
 * devices before; it is never changed afterwards, and removed by a later call when no program
 * has it any more (sysfs_clean.h). root receives its path. Returns 0 or a negative
 * errno.
 */
int sysfs_tree_make(char *root, size_t len);

#endif
