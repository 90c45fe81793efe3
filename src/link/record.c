/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A buffer, a file, and when to go on to the next. A program may close
 * descriptors that it does not know, and open files of its own in their place; so before
 * each write it is made sure that the descriptor still is our file.
 */
#include "link/record.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "link/own_descriptor.h"
#include "link/pcapng.h"

#define BUFFER_SIZE (256u * 1024u)
#define WAIT_NS 200000000u
#define COMMENT_SIZE 128u

struct record {
    struct link_tap tap;

    /* set at creation */
    char pattern[RECORD_PATH_SIZE];
    uint64_t file_limit; /* bytes of one file */
    uint32_t files;
    pid_t pid;
    uint64_t (*now)(void);
    void (*complain)(const char *line);
    char comment[COMMENT_SIZE];

    /* moves with packets */
    int fd;          /* negative: recording is over */
    uint32_t number; /* of the file; 0 when there is only one */
    dev_t device;    /* of the file */
    ino_t inode;
    uint64_t file_len;    /* with what is gathered */
    uint64_t deadline_ns; /* for what is gathered */
    size_t len;           /* of what is gathered */
    uint8_t buffer[BUFFER_SIZE];
};

/* --- names --- */

int record_path(const char *pattern, pid_t pid, uint32_t number, char out[RECORD_PATH_SIZE])
{
    const char *slash = strrchr(pattern, '/');
    const char *name = slash != NULL ? slash + 1 : pattern;
    const char *suffix = strrchr(name, '.');
    const char *place = strstr(pattern, "%p");
    char digits[16] = "";
    int len;

    if (suffix == NULL || suffix == name)
        suffix = name + strlen(name);
    if (number > 0)
        snprintf(digits, sizeof(digits), ".%04" PRIu32, number);
    if (place == NULL)
        len = snprintf(out, RECORD_PATH_SIZE, "%.*s.%d%s%s", (int)(suffix - pattern), pattern,
                       (int)pid, digits, suffix);
    else if (place < suffix)
        len = snprintf(out, RECORD_PATH_SIZE, "%.*s%d%.*s%s%s", (int)(place - pattern), pattern,
                       (int)pid, (int)(suffix - place - 2), place + 2, digits, suffix);
    else
        len = snprintf(out, RECORD_PATH_SIZE, "%.*s%d%s%s", (int)(place - pattern), pattern,
                       (int)pid, place + 2, digits);
    return len < (int)RECORD_PATH_SIZE ? 0 : -ENAMETOOLONG;
}

/* --- files --- */

/* Recording is over; why, unless the file itself just ends. */
static void stop(struct record *r, const char *why)
{
    char path[RECORD_PATH_SIZE];
    char line[RECORD_PATH_SIZE + 128];

    record_path(r->pattern, r->pid, r->number, path);
    snprintf(line, sizeof(line), "recording to %s ends here: %s", path, why);
    r->complain(line);
    if (r->fd >= 0)
        close(r->fd);
    r->fd = -1;
    r->len = 0;
}

/* Returns a descriptor or a negative errno. */
static int open_regular(const char *path, struct stat *status)
{
    int fd =
        own_descriptor(open(path, O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666));
    int err = 0;

    if (fd < 0)
        return -errno;
    if (fstat(fd, status) != 0)
        err = -errno;
    else if (!S_ISREG(status->st_mode))
        err = -EINVAL; /* one that nobody reads would hold us up, or end the process */
    else if (ftruncate(fd, 0) != 0)
        err = -errno;
    if (err == 0)
        return fd;
    close(fd);
    return err;
}

static int open_file(struct record *r)
{
    char path[RECORD_PATH_SIZE];
    struct stat status;
    int err = record_path(r->pattern, r->pid, r->number, path);

    if (err != 0)
        return err;
    r->fd = open_regular(path, &status);
    if (r->fd < 0)
        return r->fd;
    r->device = status.st_dev;
    r->inode = status.st_ino;
    r->len = pcapng_write_head(r->comment, r->buffer);
    r->file_len = r->len;
    r->deadline_ns = r->now() + WAIT_NS;
    return 0;
}

static bool is_our_file(const struct record *r)
{
    struct stat status;

    return fstat(r->fd, &status) == 0 && status.st_dev == r->device && status.st_ino == r->inode;
}

/* After a write that got as far as at: leaves whole blocks in the file. */
static void cut_off(struct record *r, size_t at)
{
    size_t whole = 0;
    off_t end = lseek(r->fd, 0, SEEK_CUR);

    while (whole + 8 <= at && whole + load_le32(r->buffer + whole + 4) <= at)
        whole += load_le32(r->buffer + whole + 4);
    if (end >= 0 && ftruncate(r->fd, end - (off_t)(at - whole)) != 0)
        return; /* Readers cope with a file that ends within a block. */
}

void record_write(struct record *r)
{
    size_t at = 0;

    if (r->fd < 0 || r->len == 0)
        return;
    if (!is_our_file(r)) {
        r->fd = -1; /* whosever it is now */
        stop(r, "the program closed the file");
        return;
    }
    while (at < r->len) {
        ssize_t written = write(r->fd, r->buffer + at, r->len - at);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            int err = written < 0 ? errno : ENOSPC;

            cut_off(r, at);
            stop(r, strerror(err));
            return;
        }
        at += (size_t)written;
    }
    r->len = 0;
}

/* The next file; the oldest makes room for it. */
static void go_on(struct record *r)
{
    char path[RECORD_PATH_SIZE];
    int err;

    record_write(r);
    if (r->fd < 0)
        return;
    close(r->fd);
    r->fd = -1;
    r->number++;
    if (r->number > r->files && record_path(r->pattern, r->pid, r->number - r->files, path) == 0)
        unlink(path);
    err = open_file(r);
    if (err != 0)
        stop(r, strerror(-err));
}

/* --- packets --- */

static void make_room(struct record *r)
{
    if (r->file_len + PCAPNG_PACKET_MAX > r->file_limit && r->files > 1) {
        go_on(r);
    } else if (r->file_len + PCAPNG_PACKET_MAX > r->file_limit) {
        record_write(r);
        if (r->fd >= 0)
            stop(r, "it has reached its limit (UROCE_RECORD_LIMIT)");
    } else if (r->len + PCAPNG_PACKET_MAX > sizeof(r->buffer)) {
        record_write(r);
    }
}

static void see(struct link_tap *tap, const struct link_frame *frame)
{
    struct record *r = (struct record *)(void *)tap;
    struct timespec t;
    size_t len;

    if (r->fd < 0 || frame->datagram.len > DATAGRAM_LEN_MAX)
        return;
    make_room(r);
    if (r->fd < 0)
        return;
    if (r->len == 0)
        r->deadline_ns = r->now() + WAIT_NS;
    clock_gettime(CLOCK_REALTIME, &t);
    len = pcapng_write_packet(frame, (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec,
                              r->buffer + r->len);
    r->len += len;
    r->file_len += len;
}

struct link_tap *record_tap(struct record *r)
{
    return &r->tap;
}

uint64_t record_deadline(const struct record *r)
{
    return r->fd >= 0 && r->len > 0 ? r->deadline_ns : UINT64_MAX;
}

/* --- opening and closing --- */

/* Where the system's own limit is lower, a write beyond it would end the process. */
static uint64_t limit_of(const struct record_config *config)
{
    uint64_t limit = config->limit / config->files;
    struct rlimit system;

    if (getrlimit(RLIMIT_FSIZE, &system) == 0 && system.rlim_cur != RLIM_INFINITY &&
        system.rlim_cur < limit)
        return system.rlim_cur;
    return limit;
}

static int refuse(const struct record *r, int err, const char *why, char *error)
{
    char path[RECORD_PATH_SIZE] = "";

    record_path(r->pattern, r->pid, r->number, path);
    snprintf(error, RECORD_ERROR_SIZE, "cannot record to %.255s: %s", path, why);
    return err;
}

int record_open(const struct record_config *config, struct record **out, char *error)
{
    struct record *r = malloc(sizeof(*r));
    int err;

    assert(config->files >= 1);
    if (r == NULL)
        return -ENOMEM;
    r->tap.see = see;
    snprintf(r->pattern, sizeof(r->pattern), "%s", config->path);
    r->file_limit = limit_of(config);
    r->files = config->files;
    r->pid = config->pid;
    r->now = config->now;
    r->complain = config->complain;
    r->number = config->files > 1 ? 1 : 0;
    snprintf(r->comment, sizeof(r->comment), "process %d: %s", (int)config->pid, config->program);
    if (r->file_limit < RECORD_LIMIT_MIN)
        err = refuse(r, -EINVAL, "the limit leaves less than 64 KiB for each file", error);
    else if ((err = open_file(r)) != 0)
        refuse(r, err, err == -EINVAL ? "it is not a regular file" : strerror(-err), error);
    if (err != 0) {
        free(r);
        return err;
    }
    *out = r;
    return 0;
}

void record_close(struct record *r)
{
    record_write(r);
    record_abandon(r);
}

void record_abandon(struct record *r)
{
    if (r->fd >= 0 && is_our_file(r))
        close(r->fd);
    free(r);
}
