/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading what processes publish. Files are read, not mapped: who truncates one while it is looked
 * at must not end the reader. All that is in them is judged before it is used.
 */
#include "node/stat_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define READ_ATTEMPTS 16
#define READ_PAUSE_US 1000
/* A file that is being made has a name with a dot in front. */
#define UNFINISHED_S 60

uint32_t stat_layout(void)
{
#define NAME(name, text) #name " "
    static const char names[] = ENGINE_COUNTERS(NAME) LINK_COUNTERS(NAME) NODE_COUNTERS(NAME);
#undef NAME
    uint32_t hash = 2166136261u; /* FNV-1a */

    for (const char *c = names; *c != '\0'; c++)
        hash = (hash ^ (uint8_t)*c) * 16777619u;
    hash = (hash ^ (uint32_t)sizeof(struct stat_head)) * 16777619u;
    return (hash ^ (uint32_t)sizeof(struct stat_qp)) * 16777619u;
}

uint64_t stat_network(void)
{
    struct stat st;

    return stat("/proc/self/ns/net", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

int stat_folder_open(uid_t user)
{
    char path[64];
    struct stat st;
    int fd;

    snprintf(path, sizeof(path), "%s/%s%u", STAT_FOLDER, STAT_FOLDER_PREFIX, (unsigned)user);
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    if (fstat(fd, &st) == 0 && st.st_uid == user && (st.st_mode & 022) == 0)
        return fd;
    close(fd);
    return -EPERM;
}

/* The file's inside is trusted no further than this. Returns what is wrong, or NULL. */
static const char *judge(const struct stat_head *h, off_t size)
{
    if (memcmp(h->magic, STAT_MAGIC, sizeof(STAT_MAGIC)) != 0)
        return "not a file of uroce";
    if (h->version != STAT_VERSION || h->layout != stat_layout())
        return "written by another version of uroce";
    if (h->qp_capacity > STAT_QPS_MAX || h->port_count > STAT_PORTS_MAX)
        return "damaged";
    if ((uint64_t)size < sizeof(*h) + (uint64_t)h->qp_capacity * sizeof(struct stat_qp))
        return "cut off";
    return NULL;
}

/* Names are shown on terminals: nothing in them may be an instruction to one. */
static void sanitise_text(char *text, size_t size)
{
    text[size - 1] = '\0';
    for (; *text != '\0'; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

static void sanitise(struct stat_snapshot *s)
{
    struct stat_head *h = &s->head;

    sanitise_text(h->command, sizeof(h->command));
    for (uint32_t i = 0; i < STAT_PORTS_MAX; i++) {
        sanitise_text(h->ports[i].device, sizeof(h->ports[i].device));
        sanitise_text(h->ports[i].netdev, sizeof(h->ports[i].netdev));
    }
    for (uint32_t i = 0; i < h->qp_capacity; i++)
        if (s->qps[i].port >= h->port_count)
            s->qps[i].used = 0;
}

/* Room for the records: a new table when there are more than before. */
static int make_room(struct stat_snapshot *s, uint32_t *room)
{
    if (s->qps != NULL && s->head.qp_capacity <= *room)
        return 0;
    free(s->qps);
    *room = s->head.qp_capacity;
    s->qps = calloc(*room > 0 ? *room : 1, sizeof(*s->qps));
    return s->qps != NULL ? 0 : -ENOMEM;
}

/* One attempt: 0, -EAGAIN when the owner wrote meanwhile, or another negative errno with *why. */
static int read_once(int fd, struct stat_snapshot *s, uint32_t *room, const char **why)
{
    struct stat st;
    size_t len;
    uint32_t after;

    *why = "cut off";
    if (fstat(fd, &st) != 0 || pread(fd, &s->head, sizeof(s->head), 0) != (ssize_t)sizeof(s->head))
        return -EBADMSG;
    *why = judge(&s->head, st.st_size);
    if (*why != NULL)
        return -EBADMSG;
    *why = "no memory";
    if (make_room(s, room) != 0)
        return -ENOMEM;
    *why = "cut off";
    len = s->head.qp_capacity * sizeof(*s->qps);
    if (len > 0 && pread(fd, s->qps, len, sizeof(s->head)) != (ssize_t)len)
        return -EBADMSG;
    if (pread(fd, &after, sizeof(after), offsetof(struct stat_head, sequence)) !=
        (ssize_t)sizeof(after))
        return -EBADMSG;
    *why = "its process does not finish writing it";
    return after == s->head.sequence && after % 2 == 0 ? 0 : -EAGAIN;
}

static int read_whole(int fd, struct stat_snapshot *out, const char **why)
{
    uint32_t room = 0;
    int result = -EAGAIN;

    out->qps = NULL;
    for (int i = 0; i < READ_ATTEMPTS && result == -EAGAIN; i++) {
        if (i > 0)
            usleep(READ_PAUSE_US);
        result = read_once(fd, out, &room, why);
    }
    if (result != 0)
        stat_snapshot_fini(out);
    else
        sanitise(out);
    return result;
}

/* The descriptor of a file whose owner lives, or a negative errno as stat_read. */
static int open_live(int folder, const char *name, uid_t owner, const char **why)
{
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    int result;

    if (fd < 0) {
        result = -errno;
        *why = errno == ELOOP ? "a symbolic link" : "cannot be opened";
        return result;
    }
    result = -EPERM;
    *why = "not a plain file";
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        goto close_fd;
    *why = "of another user";
    if (st.st_uid != owner)
        goto close_fd;
    *why = "its process is gone";
    result = -ESTALE;
    if (flock(fd, LOCK_SH | LOCK_NB) == 0)
        goto close_fd;
    return fd;

close_fd:
    close(fd);
    return result;
}

int stat_read(int folder, const char *name, uid_t owner, struct stat_snapshot *out,
              const char **why)
{
    int fd = open_live(folder, name, owner, why);
    int result;

    if (fd < 0)
        return fd;
    result = read_whole(fd, out, why);
    close(fd);
    return result;
}

void stat_snapshot_fini(struct stat_snapshot *s)
{
    free(s->qps);
    s->qps = NULL;
}

/* Of a process that died before it was ready. */
static void sweep_unfinished(int folder, const char *name)
{
    struct timespec now;
    struct stat st;

    clock_gettime(CLOCK_REALTIME, &now);
    if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
        now.tv_sec - st.st_mtim.tv_sec > UNFINISHED_S)
        unlinkat(folder, name, 0);
}

static void look_at(int folder, const char *name, uid_t owner, stat_fn fn, void *context)
{
    char path[512];
    struct stat_snapshot s;
    const char *why = NULL;
    int result = stat_read(folder, name, owner, &s, &why);

    if (result == -ENOENT)
        return;
    if (result == -ESTALE) {
        unlinkat(folder, name, 0);
        return;
    }
    snprintf(path, sizeof(path), "%s/%s%u/%s", STAT_FOLDER, STAT_FOLDER_PREFIX, (unsigned)owner,
             name);
    fn(context, result == 0 ? &s : NULL, path, why);
    if (result == 0)
        stat_snapshot_fini(&s);
}

static void sweep(int folder, const char *name, uid_t owner)
{
    const char *why;
    int fd = open_live(folder, name, owner, &why);

    if (fd == -ESTALE)
        unlinkat(folder, name, 0);
    if (fd >= 0)
        close(fd);
}

static void each_of(uid_t user, stat_fn fn, void *context)
{
    int folder = stat_folder_open(user);
    const struct dirent *entry;
    uint32_t seen = 0;
    DIR *dir;

    if (folder < 0)
        return;
    dir = fdopendir(folder);
    if (dir == NULL) {
        close(folder);
        return;
    }
    while (seen++ < STAT_FILES_MAX && (entry = readdir(dir)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (entry->d_name[0] == '.')
            sweep_unfinished(folder, entry->d_name);
        else if (fn == NULL)
            sweep(folder, entry->d_name, user);
        else
            look_at(folder, entry->d_name, user, fn, context);
    }
    closedir(dir);
}

/* The number of the user whose folder it is; false for any other name. */
static bool folder_user(const char *name, uid_t *user)
{
    char *end;
    unsigned long number;

    if (strncmp(name, STAT_FOLDER_PREFIX, strlen(STAT_FOLDER_PREFIX)) != 0)
        return false;
    name += strlen(STAT_FOLDER_PREFIX);
    if (*name < '0' || *name > '9')
        return false;
    number = strtoul(name, &end, 10);
    *user = (uid_t)number;
    return *end == '\0' && number < UINT32_MAX;
}

void stat_each(uid_t user, bool everybody, stat_fn fn, void *context)
{
    const struct dirent *entry;
    uint32_t seen = 0;
    DIR *dir;

    if (!everybody) {
        each_of(user, fn, context);
        return;
    }
    dir = opendir(STAT_FOLDER);
    if (dir == NULL)
        return;
    while (seen++ < STAT_FILES_MAX && (entry = readdir(dir)) != NULL)
        if (folder_user(entry->d_name, &user))
            each_of(user, fn, context);
    closedir(dir);
}

void stat_sweep(uid_t user)
{
    each_of(user, NULL, NULL);
}
