/* SPDX-License-Identifier: BSD-2-Clause */
/* The files that a device has in /sys/class/infiniband/NAME, but for its counters. */
#ifndef UROCE_NODE_DEVICE_FILES_H
#define UROCE_NODE_DEVICE_FILES_H

#include <stdbool.h>

#include "node/device.h"

#define DEVICE_FILE_SIZE 128

/* The text of the file at path ("ports/1/state"), without a line end; false when there is none. */
bool device_file_read(const struct device *d, const char *path, char value[DEVICE_FILE_SIZE]);

/* Calls fn for each file until it returns something else than 0, which is returned. */
typedef int (*device_file_fn)(void *context, const char *path, const char *value);
int device_files_each(const struct device *d, device_file_fn fn, void *context);

#endif
