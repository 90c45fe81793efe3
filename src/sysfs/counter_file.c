/* SPDX-License-Identifier: BSD-2-Clause */
/* Counters as files: what they hold is found when they are opened. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "node/stat_file.h"
#include "sysfs/redirect.h"

struct sum {
    char device[DEVICE_NAME_MAX];
    uint64_t network;
    struct stat_totals totals;
};

static void add_process(void *context, const struct stat_snapshot *s, const char *path,
                        const char *why)
{
    struct sum *sum = context;
    struct stat_totals of_port;

    (void)path;
    (void)why;
    if (s == NULL || s->head.network != sum->network)
        return;
    for (uint32_t port = 0; port < s->head.port_count; port++) {
        if (strcmp(s->head.ports[port].device, sum->device) != 0)
            continue;
        stat_totals(s, port, &of_port);
        stat_totals_add(&sum->totals, &of_port);
    }
}

/*
 * Splits ".../DEVICE/ports/1/GROUP/NAME", where one may have come to GROUP by way of another
 * folder. False for any other path.
 */
static bool split(const char *path, char device[DEVICE_NAME_MAX], enum stat_group *group,
                  const char **name)
{
    const char *ports = strstr(path, "/ports/1/");
    const char *last = strrchr(path, '/');
    const char *begin = ports;

    if (ports == NULL)
        return false;
    while (begin > path && begin[-1] != '/')
        begin--;
    if (ports - begin >= DEVICE_NAME_MAX)
        return false;
    snprintf(device, DEVICE_NAME_MAX, "%.*s", (int)(ports - begin), begin);
    *name = last + 1;
    if (last - path > 12 && strncmp(last - 12, "/hw_counters", 12) == 0)
        *group = STAT_GROUP_HW;
    else if (last - path > 9 && strncmp(last - 9, "/counters", 9) == 0)
        *group = STAT_GROUP_PORT;
    else
        return false;
    return true;
}

bool counter_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct stat_name row;

    path = slash != NULL ? slash + 1 : path;
    for (uint32_t i = 0; stat_name_at(i, &row); i++)
        if (strcmp(row.name, path) == 0)
            return true;
    return false;
}

int text_file_open(const char *text, size_t len, int flags)
{
    int fd = memfd_create("uroce sysfs", (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0);

    if (fd < 0)
        return -1;
    if (write(fd, text, len) == (ssize_t)len && lseek(fd, 0, SEEK_SET) == 0)
        return fd;
    close(fd);
    return -1;
}

static int number_file(uint64_t value, int flags)
{
    char text[24];
    int len = snprintf(text, sizeof(text), "%" PRIu64 "\n", value);

    return text_file_open(text, (size_t)len, flags);
}

int counter_file_open(const char *path, int flags)
{
    struct sum sum = {0};
    struct stat_name row;
    enum stat_group group;
    const char *name;
    int before = errno;

    if (path == NULL || (flags & O_ACCMODE) != O_RDONLY || redirect_root() == NULL ||
        !split(path, sum.device, &group, &name))
        return -1;
    for (uint32_t i = 0; stat_name_at(i, &row); i++) {
        if (row.group != group || strcmp(row.name, name) != 0)
            continue;
        sum.network = stat_network();
        stat_each(geteuid(), false, add_process, &sum);
        errno = before;
        return number_file(stat_value(i, &sum.totals), flags);
    }
    return -1;
}

int live_file_open(const char *path, int flags)
{
    int fd = counter_file_open(path, flags);

    return fd >= 0 || path == NULL ? fd : device_file_open(path, flags);
}
