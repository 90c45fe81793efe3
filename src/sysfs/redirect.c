/* SPDX-License-Identifier: BSD-2-Clause */
#include "sysfs/redirect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *const prefixes[] = {
    "/sys/class/infiniband",
    "/sys/class/infiniband_verbs",
    "/dev/infiniband",
};

const char *redirect_root(void)
{
    const char *root = secure_getenv("UROCE_SYSFS_ROOT");

    return root != NULL && root[0] == '/' ? root : NULL;
}

/* The prefix itself, or something below it. */
static bool begins_with(const char *path, const char *prefix)
{
    size_t len = strlen(prefix);

    return strncmp(path, prefix, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* The path of a folder that is open, or of the current one. */
static bool folder_path(int folder, char buffer[PATH_MAX])
{
    char link[32] = "/proc/self/cwd";
    ssize_t len;

    if (folder != AT_FDCWD)
        snprintf(link, sizeof(link), "/proc/self/fd/%d", folder);
    len = syscall(SYS_readlinkat, AT_FDCWD, link, buffer, PATH_MAX - 1);
    if (len <= 0)
        return false;
    buffer[len] = '\0';
    return true;
}

static const char *relative(int folder, const char *path, char buffer[PATH_MAX])
{
    const char *root = redirect_root();
    int before = errno;
    size_t len;

    if (root == NULL || !counter_file_name(path))
        return path;
    if (folder_path(folder, buffer) && begins_with(buffer, root)) {
        len = strlen(buffer);
        if (len + 1 + strlen(path) < PATH_MAX) {
            buffer[len] = '/';
            strcpy(buffer + len + 1, path);
            path = buffer;
        }
    }
    errno = before;
    return path;
}

const char *redirect_path_at(int folder, const char *path, char buffer[PATH_MAX])
{
    const char *root;

    if (path == NULL)
        return path;
    if (path[0] != '/')
        return relative(folder, path, buffer);
    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        if (!begins_with(path, prefixes[i]))
            continue;
        root = redirect_root();
        if (root == NULL || snprintf(buffer, PATH_MAX, "%s%s", root, path) >= PATH_MAX)
            return path;
        return buffer;
    }
    return path;
}

const char *redirect_path(const char *path, char buffer[PATH_MAX])
{
    return redirect_path_at(AT_FDCWD, path, buffer);
}
