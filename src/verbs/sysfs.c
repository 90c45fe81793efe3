/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that programs would read in /sys for a device, answered from memory;
 * for all other paths the real file is read.
 */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "node/device_files.h"
#include "verbs/device.h"
#include "verbs/export.h"

#define SYSFS_ROOT "/sys"
/* The device that path lies in, and what follows its directory; NULL when it is in none. */
static struct device_handle *split_path(char *path, const char **rest)
{
    /* "/sys/class/infiniband/NAME/rest": the directory is four names long */
    char *cut = path;

    for (int depth = 0; depth < 5 && cut != NULL; depth++)
        cut = depth == 0 ? strchr(path, '/') : strchr(cut + 1, '/');
    if (cut == NULL)
        return NULL;
    *cut = '\0';
    *rest = cut + 1;
    return device_find_path(path);
}

static int answer(const char *value, char *buf, size_t size)
{
    size_t len = strlen(value);

    if (size == 0)
        return 0;
    if (len > size - 1)
        len = size - 1;
    memcpy(buf, value, len);
    buf[len] = '\0';
    return (int)len;
}

/* Reads a file of the system, without the line end. Its length, or -1 with errno. */
static int read_file(const char *path, char *buf, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len;

    if (fd < 0)
        return -1;
    len = read(fd, buf, size);
    close(fd);
    if (len <= 0)
        return (int)len;
    if (buf[len - 1] == '\n')
        len--;
    if ((size_t)len < size)
        buf[len] = '\0';
    return (int)len;
}

EXPORT const char *ibv_get_sysfs_path(void);
EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);

EXPORT const char *ibv_get_sysfs_path(void)
{
    return SYSFS_ROOT;
}

EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size)
{
    struct device_handle *h;
    char value[DEVICE_FILE_SIZE];
    struct device state;
    const char *rest = NULL;
    char path[1024];
    char directory[1024];

    if (snprintf(path, sizeof(path), "%s/%s", dir, file) >= (int)sizeof(path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    snprintf(directory, sizeof(directory), "%s", path);
    h = split_path(directory, &rest);
    if (h == NULL)
        return read_file(path, buf, size);
    device_snapshot(h, &state);
    if (!device_file_read(&state, rest, value)) {
        errno = ENOENT;
        return -1;
    }
    return answer(value, buf, size);
}
