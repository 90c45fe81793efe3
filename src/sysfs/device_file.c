/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files of a device as the verbs library of this process has them: addresses come and go while
 * it runs, and a GID must have the index here that ibv_query_gid gives it. In a process without
 * that library they are what the tree says, as they were when the program was started.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sysfs/redirect.h"

#define VERBS_LIBRARY "libibverbs.so.1"
#define DEVICES "/sys/class/infiniband/"
#define VALUE_SIZE 256

typedef int (*read_fn)(const char *dir, const char *file, char *buf, size_t size);

/* A library that reads the file itself comes back here. */
static _Thread_local bool asking;

/* The length of the value, or -1 when no library knows the file. */
static int ask(const char *folder, const char *file, char value[VALUE_SIZE])
{
    void *library = dlopen(VERBS_LIBRARY, RTLD_LAZY | RTLD_NOLOAD);
    read_fn fn = NULL;
    int len = -1;

    if (library == NULL)
        return -1;
    *(void **)&fn = dlsym(library, "ibv_read_sysfs_file");
    asking = true;
    if (fn != NULL)
        len = fn(folder, file, value, VALUE_SIZE);
    asking = false;
    dlclose(library);
    return len < VALUE_SIZE ? len : -1;
}

int device_file_open(const char *path, int flags)
{
    const char *root = redirect_root();
    char folder[PATH_MAX], value[VALUE_SIZE + 1];
    int before = errno;
    const char *file;
    int len;

    if (asking || root == NULL || (flags & O_ACCMODE) != O_RDONLY ||
        strncmp(path, root, strlen(root)) != 0)
        return -1;
    path += strlen(root);
    if (strncmp(path, DEVICES, strlen(DEVICES)) != 0)
        return -1;
    file = strchr(path + strlen(DEVICES), '/');
    if (file == NULL)
        return -1;
    snprintf(folder, sizeof(folder), "%.*s", (int)(file - path), path);
    len = ask(folder, file + 1, value);
    errno = before;
    if (len < 0)
        return -1;
    /* The type of a GID that is not there: the kernel's file cannot be read, and UCX counts on
     * that. */
    if (len == 0)
        return text_file_open(value, 0, flags);
    value[len] = '\n';
    return text_file_open(value, (size_t)len + 1, flags);
}
