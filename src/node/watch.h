/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Hears from the kernel that interfaces or addresses change (rtnetlink(7)). What
 * they are then is asked anew (device.h); here is only that something did.
 */
#ifndef UROCE_NODE_WATCH_H
#define UROCE_NODE_WATCH_H

#include <stdbool.h>

/* A descriptor that is readable after a change, or a negative errno. */
int watch_open(void);

/* Takes what is there to read. True if something has changed since the last call. */
bool watch_take(int fd);

#endif
