/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `uroce run` becomes the program, so nobody is left to remove its tree when that ends, and a tree
 * serves all programs that find the same devices. So each call removes what is old and not used:
 * the environment of each process tells which tree it has. A program that has written over its
 * environment, and has the library that leads into some tree, keeps them all.
 */
#include "cli/sysfs_clean.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEPTH_MAX 12u /* folders in each other: a tree has eight */
#define TREES_MAX 64u /* looked at in one call */
#define TEXT_MAX (4u << 20)
#define VARIABLE "UROCE_SYSFS_ROOT="
#define LIBRARY "liburoce-sysfs.so"

struct candidates {
    char names[TREES_MAX][32]; /* "": is used */
    uint32_t count;
};

static bool is_old(int folder, const char *name, time_t now)
{
    struct stat st;

    return strncmp(name, SYSFS_TREE_PREFIX, strlen(SYSFS_TREE_PREFIX)) == 0 &&
           fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode) &&
           st.st_uid == geteuid() && now - st.st_mtime > SYSFS_TREE_IDLE_S;
}

/* A stream over a folder, which it does not own; NULL when it is none. */
static DIR *open_folder(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;

    if (fd >= 0 && dir == NULL)
        close(fd);
    return dir;
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static void find_old(int folder, time_t now, struct candidates *c)
{
    DIR *dir = open_folder(folder, ".");
    const struct dirent *entry;

    while (dir != NULL && c->count < TREES_MAX && (entry = readdir(dir)) != NULL)
        if (strlen(entry->d_name) < sizeof(c->names[0]) && is_old(folder, entry->d_name, now))
            strcpy(c->names[c->count++], entry->d_name);
    if (dir != NULL)
        closedir(dir);
}

/* All of a file of /proc, ended with a zero; *len without it. NULL when it cannot be read. */
static char *read_all(int folder, const char *name, size_t *len)
{
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    size_t capacity = 65536;
    char *text = fd >= 0 ? malloc(capacity) : NULL;
    ssize_t got = -1;

    *len = 0;
    while (text != NULL && (got = read(fd, text + *len, capacity - *len - 1)) > 0) {
        char *larger;

        *len += (size_t)got;
        if (capacity - *len > 1)
            continue;
        capacity *= 2;
        larger = capacity <= TEXT_MAX ? realloc(text, capacity) : NULL;
        if (larger == NULL)
            break;
        text = larger;
    }
    if (fd >= 0)
        close(fd);
    if (text != NULL && got == 0) {
        text[*len] = '\0';
        return text;
    }
    free(text);
    return NULL;
}

static void mark_used(struct candidates *c, const char *path, const char *root)
{
    size_t len = strlen(path);

    if (strncmp(root, path, len) != 0 || root[len] != '/')
        return;
    for (uint32_t i = 0; i < c->count; i++)
        if (strcmp(c->names[i], root + len + 1) == 0)
            c->names[i][0] = '\0';
}

/* Marks the tree that a process has in its environment. False when it has none there. */
static bool mark_of_environment(int process, const char *path, struct candidates *c)
{
    size_t len;
    char *text = read_all(process, "environ", &len);
    bool found = false;

    for (const char *at = text; text != NULL && at < text + len; at += strlen(at) + 1) {
        if (strncmp(at, VARIABLE, strlen(VARIABLE)) != 0)
            continue;
        mark_used(c, path, at + strlen(VARIABLE));
        found = true;
    }
    free(text);
    return found;
}

static bool has_library(int process)
{
    size_t len;
    char *text = read_all(process, "maps", &len);
    bool found = text != NULL && strstr(text, LIBRARY) != NULL;

    free(text);
    return found;
}

/* Marks what processes of this user have. False when that cannot be known. */
static bool mark_all_used(const char *path, struct candidates *c)
{
    DIR *proc = open_folder(AT_FDCWD, "/proc");
    const struct dirent *entry;
    bool known = proc != NULL;

    while (known && (entry = readdir(proc)) != NULL) {
        int process;

        if (entry->d_name[0] < '0' || entry->d_name[0] > '9')
            continue;
        process = openat(dirfd(proc), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (process < 0)
            continue;
        if (!mark_of_environment(process, path, c) && has_library(process))
            known = false;
        close(process);
    }
    if (proc != NULL)
        closedir(proc);
    return known;
}

/* Removes a folder and all in it; links are removed and not followed. */
static void remove_tree(int parent, const char *name, uint32_t depth)
{
    DIR *dir = depth > 0 ? open_folder(parent, name) : NULL;
    const struct dirent *entry;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (is_dots(entry->d_name) || unlinkat(dirfd(dir), entry->d_name, 0) == 0)
            continue;
        if (errno == EISDIR || errno == EPERM)
            remove_tree(dirfd(dir), entry->d_name, depth - 1);
    }
    if (dir != NULL)
        closedir(dir);
    unlinkat(parent, name, AT_REMOVEDIR);
}

void sysfs_clean(int folder, const char *path, time_t now)
{
    struct candidates c = {.count = 0};

    find_old(folder, now, &c);
    if (c.count == 0 || !mark_all_used(path, &c))
        return;
    for (uint32_t i = 0; i < c.count; i++)
        if (c.names[i][0] != '\0')
            remove_tree(folder, c.names[i], DEPTH_MAX);
}
