/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The calls of libc that take a path, as programs meet them. Each changes the path if it is one of
 * ours and hands over to the next definition; without UROCE_SYSFS_ROOT each does only that.
 */
#include "sysfs/redirect.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define WRAP __attribute__((visibility("default")))

/* The next definition of the same name, found at the first call: constructors of others may call.
 */
#define NEXT(type, name)                                                                           \
    static type next;                                                                              \
    if (next == NULL)                                                                              \
        *(void **)&next = dlsym(RTLD_NEXT, #name);                                                 \
    if (next == NULL) {                                                                            \
        errno = ENOSYS;                                                                            \
        return FAILURE;                                                                            \
    }

/* --- opening --- */

#define FAILURE (-1)

static mode_t mode_argument(int flags, va_list args)
{
    bool has_mode = (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE;

    return has_mode ? va_arg(args, mode_t) : 0;
}

#define OPEN(name)                                                                                 \
    WRAP int name(const char *path, int flags, ...)                                                \
    {                                                                                              \
        typedef int (*fn)(const char *, int, ...);                                                 \
        char buffer[PATH_MAX];                                                                     \
        va_list args;                                                                              \
        mode_t mode;                                                                               \
        int fd;                                                                                    \
                                                                                                   \
        NEXT(fn, name)                                                                             \
        va_start(args, flags);                                                                     \
        mode = mode_argument(flags, args);                                                         \
        va_end(args);                                                                              \
        path = redirect_path(path, buffer);                                                        \
        fd = path == buffer ? live_file_open(path, flags) : -1;                                    \
        return fd >= 0 ? fd : next(path, flags, mode);                                             \
    }

#define OPENAT(name)                                                                               \
    WRAP int name(int folder, const char *path, int flags, ...)                                    \
    {                                                                                              \
        typedef int (*fn)(int, const char *, int, ...);                                            \
        char buffer[PATH_MAX];                                                                     \
        va_list args;                                                                              \
        mode_t mode;                                                                               \
        int fd;                                                                                    \
                                                                                                   \
        NEXT(fn, name)                                                                             \
        va_start(args, flags);                                                                     \
        mode = mode_argument(flags, args);                                                         \
        va_end(args);                                                                              \
        path = redirect_path_at(folder, path, buffer);                                             \
        fd = path == buffer ? live_file_open(path, flags) : -1;                                    \
        return fd >= 0 ? fd : next(folder, path, flags, mode);                                     \
    }

/* What the fortified variants become: without a mode there is nothing to check. */
#define OPEN_2(name)                                                                               \
    WRAP int name(const char *path, int flags)                                                     \
    {                                                                                              \
        typedef int (*fn)(const char *, int);                                                      \
        char buffer[PATH_MAX];                                                                     \
        int fd;                                                                                    \
                                                                                                   \
        NEXT(fn, name)                                                                             \
        path = redirect_path(path, buffer);                                                        \
        fd = path == buffer ? live_file_open(path, flags) : -1;                                    \
        return fd >= 0 ? fd : next(path, flags);                                                   \
    }

#define OPENAT_2(name)                                                                             \
    WRAP int name(int folder, const char *path, int flags)                                         \
    {                                                                                              \
        typedef int (*fn)(int, const char *, int);                                                 \
        char buffer[PATH_MAX];                                                                     \
        int fd;                                                                                    \
                                                                                                   \
        NEXT(fn, name)                                                                             \
        path = redirect_path_at(folder, path, buffer);                                             \
        fd = path == buffer ? live_file_open(path, flags) : -1;                                    \
        return fd >= 0 ? fd : next(folder, path, flags);                                           \
    }

/* clang-format off */
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
OPEN_2(__open_2)
OPEN_2(__open64_2)
OPENAT_2(__openat_2)
OPENAT_2(__openat64_2)
/* clang-format on */

/* --- looking --- */

#define WITH_PATH(result, name, parameters, types, arguments)                                      \
    WRAP result name parameters                                                                    \
    {                                                                                              \
        typedef result(*fn) types;                                                                 \
        char buffer[PATH_MAX];                                                                     \
                                                                                                   \
        NEXT(fn, name)                                                                             \
        path = redirect_path(path, buffer);                                                        \
        return next arguments;                                                                     \
    }

#define WITH_PATH_AT(result, name, parameters, types, arguments)                                   \
    WRAP result name parameters                                                                    \
    {                                                                                              \
        typedef result(*fn) types;                                                                 \
        char buffer[PATH_MAX];                                                                     \
                                                                                                   \
        NEXT(fn, name)                                                                             \
        path = redirect_path_at(folder, path, buffer);                                             \
        return next arguments;                                                                     \
    }

/* clang-format off */
WITH_PATH(int, stat, (const char *path, struct stat *st), (const char *, struct stat *), (path, st))
WITH_PATH(int, stat64, (const char *path, struct stat64 *st), (const char *, struct stat64 *), (path, st))
WITH_PATH(int, lstat, (const char *path, struct stat *st), (const char *, struct stat *), (path, st))
WITH_PATH(int, lstat64, (const char *path, struct stat64 *st), (const char *, struct stat64 *), (path, st))
WITH_PATH(int, access, (const char *path, int mode), (const char *, int), (path, mode))
WITH_PATH(int, chdir, (const char *path), (const char *), (path))
WITH_PATH(ssize_t, readlink, (const char *path, char *to, size_t size), (const char *, char *, size_t), (path, to, size))
WITH_PATH(int, scandir,
          (const char *path, struct dirent ***list, int (*select)(const struct dirent *),
           int (*compare)(const struct dirent **, const struct dirent **)),
          (const char *, struct dirent ***, int (*)(const struct dirent *),
           int (*)(const struct dirent **, const struct dirent **)),
          (path, list, select, compare))
WITH_PATH(int, scandir64,
          (const char *path, struct dirent64 ***list, int (*select)(const struct dirent64 *),
           int (*compare)(const struct dirent64 **, const struct dirent64 **)),
          (const char *, struct dirent64 ***, int (*)(const struct dirent64 *),
           int (*)(const struct dirent64 **, const struct dirent64 **)),
          (path, list, select, compare))
WITH_PATH_AT(int, fstatat, (int folder, const char *path, struct stat *st, int flags), (int, const char *, struct stat *, int), (folder, path, st, flags))
WITH_PATH_AT(int, fstatat64, (int folder, const char *path, struct stat64 *st, int flags), (int, const char *, struct stat64 *, int), (folder, path, st, flags))
WITH_PATH_AT(int, statx, (int folder, const char *path, int flags, unsigned mask, struct statx *st),
             (int, const char *, int, unsigned, struct statx *), (folder, path, flags, mask, st))
WITH_PATH_AT(int, faccessat, (int folder, const char *path, int mode, int flags), (int, const char *, int, int), (folder, path, mode, flags))
WITH_PATH_AT(ssize_t, readlinkat, (int folder, const char *path, char *to, size_t size), (int, const char *, char *, size_t), (folder, path, to, size))
/* clang-format on */

/* --- what returns a pointer --- */

#undef FAILURE
#define FAILURE NULL

/* clang-format off */
WITH_PATH(DIR *, opendir, (const char *path), (const char *), (path))
WITH_PATH(char *, realpath, (const char *path, char *to), (const char *, char *), (path, to))
WITH_PATH(char *, __realpath_chk, (const char *path, char *to, size_t size), (const char *, char *, size_t), (path, to, size))
WITH_PATH(char *, canonicalize_file_name, (const char *path), (const char *), (path))
/* clang-format on */

/* A live file is a stream over its descriptor. */
static FILE *live_stream(const char *path, const char *mode)
{
    int fd = mode[0] == 'r' && strchr(mode, '+') == NULL
                 ? live_file_open(path, O_RDONLY | O_CLOEXEC)
                 : -1;
    FILE *stream = fd >= 0 ? fdopen(fd, "r") : NULL;

    if (fd >= 0 && stream == NULL)
        close(fd);
    return stream;
}

#define FOPEN(name)                                                                                \
    WRAP FILE *name(const char *path, const char *mode)                                            \
    {                                                                                              \
        typedef FILE *(*fn)(const char *, const char *);                                           \
        char buffer[PATH_MAX];                                                                     \
        FILE *stream;                                                                              \
                                                                                                   \
        NEXT(fn, name)                                                                             \
        path = redirect_path(path, buffer);                                                        \
        stream = path == buffer ? live_stream(path, mode) : NULL;                                  \
        return stream != NULL ? stream : next(path, mode);                                         \
    }

/* clang-format off */
FOPEN(fopen)
FOPEN(fopen64)
/* clang-format on */
