/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ROOT = /dev/shm/uroce-UID/.sys-HASH, where HASH is of all that is in it:
 *
 *   ROOT/sys/devices/uroce/NAME/...               the device's files; counters say 0 here
 *   ROOT/sys/class/infiniband/NAME             -> the same
 *   ROOT/sys/class/infiniband_verbs/uverbsN/...
 *   ROOT/dev/infiniband/uverbsN, rdma_cm       -> /dev/null, for who wants a character device
 */
#include "cli/sysfs_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/sysfs_clean.h"
#include "node/device.h"
#include "node/device_files.h"
#include "node/stat_file.h"

#define PATH_SIZE 512
#define ABI_VERSION "6" /* of uverbs, as kernels of today have it */

/* Writes, or only hashes when root is NULL. */
struct tree {
    const char *root;
    const char *device; /* whose files come */
    uint64_t hash;
};

static void hash_text(struct tree *t, const char *text)
{
    for (; *text != '\0'; text++)
        t->hash = (t->hash ^ (uint8_t)*text) * 1099511628211u; /* FNV-1a */
    t->hash = (t->hash ^ '\n') * 1099511628211u;
}

/* All folders that path goes through. */
static int make_parents(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return -errno;
        *slash = '/';
    }
    return 0;
}

/* The full path, with its folders made. 0 or a negative errno. */
static int prepare(const struct tree *t, const char *path, char full[PATH_SIZE])
{
    if (snprintf(full, PATH_SIZE, "%s/%s", t->root, path) >= PATH_SIZE)
        return -ENAMETOOLONG;
    return make_parents(full);
}

static int add_file(struct tree *t, const char *path, const char *value)
{
    char full[PATH_SIZE];
    int error, fd;

    hash_text(t, path);
    hash_text(t, value);
    if (t->root == NULL)
        return 0;
    error = prepare(t, path, full);
    if (error != 0)
        return error;
    fd = open(full, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    if (fd < 0)
        return -errno;
    if (dprintf(fd, "%s\n", value) < 0)
        error = -EIO;
    close(fd);
    return error;
}

static int add_link(struct tree *t, const char *path, const char *target)
{
    char full[PATH_SIZE];
    int error;

    hash_text(t, path);
    if (t->root == NULL)
        return 0;
    error = prepare(t, path, full);
    if (error == 0 && symlink(target, full) != 0)
        error = -errno;
    return error;
}

static int add_device_file(void *context, const char *name, const char *value)
{
    struct tree *t = context;
    char path[PATH_SIZE];

    if (snprintf(path, sizeof(path), "sys/devices/uroce/%s/%s", t->device, name) >= PATH_SIZE)
        return -ENAMETOOLONG;
    return add_file(t, path, value);
}

static int add_counters(struct tree *t)
{
    struct stat_name row;
    char name[96];
    int error = 0;

    for (uint32_t i = 0; error == 0 && stat_name_at(i, &row); i++) {
        snprintf(name, sizeof(name), "ports/1/%s/%s",
                 row.group == STAT_GROUP_PORT ? "counters" : "hw_counters", row.name);
        error = add_device_file(t, name, "0");
    }
    return error;
}

static int add_verbs(struct tree *t, uint32_t index)
{
    char path[PATH_SIZE], value[32];
    int error;

    snprintf(path, sizeof(path), "sys/class/infiniband_verbs/uverbs%u/ibdev", index);
    error = add_file(t, path, t->device);
    snprintf(path, sizeof(path), "sys/class/infiniband_verbs/uverbs%u/abi_version", index);
    if (error == 0)
        error = add_file(t, path, "1");
    snprintf(path, sizeof(path), "sys/class/infiniband_verbs/uverbs%u/dev", index);
    snprintf(value, sizeof(value), "231:%u", 192 + index);
    if (error == 0)
        error = add_file(t, path, value);
    snprintf(path, sizeof(path), "dev/infiniband/uverbs%u", index);
    return error == 0 ? add_link(t, path, "/dev/null") : error;
}

static int add_device(struct tree *t, const struct device *d, uint32_t index)
{
    char path[PATH_SIZE], target[PATH_SIZE];
    int error;

    t->device = d->name;
    error = device_files_each(d, add_device_file, t);
    if (error == 0)
        error = add_counters(t);
    snprintf(path, sizeof(path), "device/net/%s/ifindex", d->netdev);
    snprintf(target, sizeof(target), "%u", d->ifindex);
    if (error == 0)
        error = add_device_file(t, path, target);
    snprintf(path, sizeof(path), "sys/class/infiniband/%s", d->name);
    snprintf(target, sizeof(target), "../../devices/uroce/%s", d->name);
    if (error == 0)
        error = add_link(t, path, target);
    return error == 0 ? add_verbs(t, index) : error;
}

static int add_all(struct tree *t, const struct device *devices, int count)
{
    int error = add_file(t, "sys/class/infiniband_verbs/abi_version", ABI_VERSION);

    t->hash = t->hash != 0 ? t->hash : 1;
    if (error == 0)
        error = add_link(t, "dev/infiniband/rdma_cm", "/dev/null");
    for (int i = 0; i < count && error == 0; i++)
        error = add_device(t, &devices[i], (uint32_t)i);
    return error;
}

/* Under a name of its own first, so that who finds the tree finds it whole. What is left of a
 * failure is removed with the old ones. */
static int build(const char *folder, const char *root, const struct device *devices, int count)
{
    char unfinished[PATH_SIZE];
    struct tree t = {.root = unfinished};
    int error;

    if (snprintf(unfinished, sizeof(unfinished), "%s/" SYSFS_TREE_PREFIX "XXXXXX", folder) >=
        PATH_SIZE)
        return -ENAMETOOLONG;
    if (mkdtemp(unfinished) == NULL)
        return -errno;
    error = add_all(&t, devices, count);
    return error == 0 && rename(unfinished, root) != 0 ? -errno : error;
}

/* Finds or makes the tree, under the folder's lock: what is found is marked as asked for before
 * anyone may remove it as old. */
static int provide(int fd, const char *folder, const char *root, const struct device *devices,
                   int count)
{
    int error = 0;

    if (flock(fd, LOCK_EX) != 0)
        return -errno;
    if (utimensat(AT_FDCWD, root, NULL, 0) != 0)
        error = errno == ENOENT ? build(folder, root, devices, count) : -errno;
    sysfs_clean(fd, folder, time(NULL));
    return error;
}

int sysfs_tree_make(char *root, size_t len)
{
    struct device *devices = calloc(DEVICE_COUNT_MAX, sizeof(*devices));
    int count = devices != NULL ? device_list(devices, DEVICE_COUNT_MAX) : -ENOMEM;
    char folder[64];
    struct tree names = {.root = NULL};
    int error = count < 0 ? count : 0;
    int fd;

    if (error != 0)
        goto free_devices;
    snprintf(folder, sizeof(folder), "%s/%s%u", STAT_FOLDER, STAT_FOLDER_PREFIX,
             (unsigned)geteuid());
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        error = -errno;
    fd = error == 0 ? stat_folder_open(geteuid()) : error;
    error = fd < 0 ? fd : 0;
    if (error != 0)
        goto free_devices;
    add_all(&names, devices, count);
    if ((size_t)snprintf(root, len, "%s/" SYSFS_TREE_PREFIX "%016llx", folder,
                         (unsigned long long)names.hash) >= len)
        error = -ENAMETOOLONG;
    else
        error = provide(fd, folder, root, devices, count);
    close(fd);

free_devices:
    free(devices);
    return error;
}
