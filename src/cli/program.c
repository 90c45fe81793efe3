/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program file is: found along the PATH, read as ELF or as a script
 * (elf(5), execve(2)). Reads the first bytes and the program headers only.
 */
#include "cli/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PROGRAM_HEADERS_MAX 128 /* more than any program has; bounds what is read */
#define SCRIPT_LINE_MAX 256     /* BINPRM_BUF_SIZE of Linux */
#define SCRIPT_DEPTH_MAX 4      /* scripts as interpreters of scripts, as in Linux */

const char *program_verdict_text(enum program_verdict verdict)
{
    static const char *const texts[] = {
#define PROGRAM_VERDICT_TEXT(name, text) [PROGRAM_##name] = (text),
        PROGRAM_VERDICTS(PROGRAM_VERDICT_TEXT)
#undef PROGRAM_VERDICT_TEXT
    };

    return texts[verdict];
}

/* Reads the first len bytes at most. Returns how many, or a negative errno. */
static ssize_t read_start(const char *path, void *out, size_t len, off_t offset)
{
    ssize_t got;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0)
        return -errno;
    got = pread(fd, out, len, offset);
    if (got < 0)
        got = -errno;
    close(fd);
    return got;
}

static bool is_elf(const void *start, ssize_t len)
{
    return len >= (ssize_t)sizeof(Elf32_Ehdr) && memcmp(start, ELFMAG, SELFMAG) == 0;
}

/* e_machine lies at the same place in both classes. */
static struct elf_kind kind_of(const ElfW(Ehdr) * header)
{
    return (struct elf_kind){.class = header->e_ident[EI_CLASS], .machine = header->e_machine};
}

int elf_kind_read(const char *path, struct elf_kind *out)
{
    ElfW(Ehdr) header = {0};
    ssize_t got = read_start(path, &header, sizeof(header), 0);

    if (got < 0)
        return (int)got;
    if (!is_elf(&header, got))
        return -ENOEXEC;
    *out = kind_of(&header);
    return 0;
}

/* True when the program asks for a loader. */
static bool has_interpreter(const char *path, const ElfW(Ehdr) * header)
{
    ElfW(Phdr) segments[PROGRAM_HEADERS_MAX];
    size_t count = header->e_phnum < PROGRAM_HEADERS_MAX ? header->e_phnum : PROGRAM_HEADERS_MAX;
    ssize_t got = read_start(path, segments, count * sizeof(segments[0]), (off_t)header->e_phoff);

    for (size_t i = 0; got > 0 && i < (size_t)got / sizeof(segments[0]); i++) {
        if (segments[i].p_type == PT_INTERP)
            return true;
    }
    return false;
}

/* Would the kernel tell the loader not to trust the environment (AT_SECURE, getauxval(3))? */
static enum program_verdict judge_privilege(const char *path, struct user user)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return PROGRAM_GOOD;
    if ((st.st_mode & S_ISUID) && st.st_uid != user.uid)
        return PROGRAM_SET_ID;
    if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != user.gid)
        return PROGRAM_SET_ID;
    if (user.uid != 0 && getxattr(path, "security.capability", NULL, 0) > 0)
        return PROGRAM_CAPABILITIES;
    return PROGRAM_GOOD;
}

static enum program_verdict judge_elf(const char *path, const ElfW(Ehdr) * header,
                                      struct elf_kind libraries, struct user user)
{
    struct elf_kind kind = kind_of(header);

    if (kind.class != libraries.class || kind.machine != libraries.machine)
        return PROGRAM_FOREIGN;
    if (!has_interpreter(path, header))
        return PROGRAM_STATIC;
    return judge_privilege(path, user);
}

/* Cuts the interpreter's path out of a script's first line; NULL when it names none. */
static char *script_interpreter(char *start)
{
    if (start[0] != '#' || start[1] != '!')
        return NULL;
    start += 2 + strspn(start + 2, " \t");
    start[strcspn(start, " \t\n")] = '\0';
    return *start ? start : NULL;
}

static enum program_verdict judge(const char *path, struct elf_kind libraries, struct user user,
                                  unsigned depth)
{
    union {
        ElfW(Ehdr) header;
        char text[SCRIPT_LINE_MAX + 1];
    } start = {0};
    ssize_t got = read_start(path, &start, SCRIPT_LINE_MAX, 0);
    const char *interpreter;

    if (is_elf(&start, got))
        return judge_elf(path, &start.header, libraries, user);
    interpreter = script_interpreter(start.text);
    if (interpreter && depth < SCRIPT_DEPTH_MAX)
        return judge(interpreter, libraries, user, depth + 1);
    return PROGRAM_GOOD; /* not for the kernel: execvp(3) gives it to the shell */
}

enum program_verdict program_judge(const char *path, struct elf_kind libraries, struct user user)
{
    return judge(path, libraries, user, 0);
}

static enum program_verdict judge_path(const char *path)
{
    struct stat st;

    if (stat(path, &st) != 0)
        return PROGRAM_NOT_FOUND;
    if (!S_ISREG(st.st_mode) || access(path, X_OK) != 0)
        return PROGRAM_NOT_EXECUTABLE;
    return PROGRAM_GOOD;
}

static void path_set(char *out, size_t len, const char *path)
{
    size_t path_len = strnlen(path, len - 1);

    memcpy(out, path, path_len);
    out[path_len] = '\0';
}

enum program_verdict program_find(const char *name, const char *path_list, char *out, size_t len)
{
    enum program_verdict verdict = PROGRAM_NOT_FOUND;

    if (strchr(name, '/')) {
        path_set(out, len, name);
        return judge_path(name);
    }
    while (verdict != PROGRAM_GOOD && *name && *path_list) {
        int folder_len = (int)strcspn(path_list, ":");
        char candidate[PATH_MAX];
        enum program_verdict found;

        /* An empty folder in a PATH is the current one. */
        snprintf(candidate, sizeof(candidate), "%.*s/%s", folder_len ? folder_len : 1,
                 folder_len ? path_list : ".", name);
        found = judge_path(candidate);
        if (found != PROGRAM_NOT_FOUND) {
            path_set(out, len, candidate);
            verdict = found;
        }
        path_list += folder_len;
        path_list += *path_list == ':';
    }
    return verdict;
}
