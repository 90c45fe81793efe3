/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program file, looked at before it is run: can a library be put in front of
 * those that it would load. LD_LIBRARY_PATH does nothing for a program that
 * has no loader (static), or for which the loader must not listen to the
 * environment (set-user-ID and the like), see ld.so(8).
 */
#ifndef UROCE_CLI_PROGRAM_H
#define UROCE_CLI_PROGRAM_H

#include <stdint.h>
#include <sys/types.h>

/* name, sentence after the program's name */
#define PROGRAM_VERDICTS(V)                                                                        \
    V(GOOD, "can be run")                                                                          \
    V(NOT_FOUND, "was not found")                                                                  \
    V(NOT_EXECUTABLE, "is not an executable file for this user")                                   \
    V(STATIC, "is statically linked: it loads no libraries, so none can be put in front")          \
    V(SET_ID, "is set-user-ID or set-group-ID: its loader ignores LD_LIBRARY_PATH")                \
    V(CAPABILITIES, "has file capabilities: its loader ignores LD_LIBRARY_PATH")                   \
    V(FOREIGN, "is for another processor or word size than the drop-in libraries")

enum program_verdict {
#define PROGRAM_VERDICT_NAME(name, text) PROGRAM_##name,
    PROGRAM_VERDICTS(PROGRAM_VERDICT_NAME)
#undef PROGRAM_VERDICT_NAME
};

const char *program_verdict_text(enum program_verdict verdict);

/* What an ELF file is for. Zero: not an ELF file. */
struct elf_kind {
    uint8_t class;    /* ELFCLASS32, ELFCLASS64 */
    uint16_t machine; /* EM_... */
};

/* The kind of the ELF file at path. Returns 0, or a negative errno with *out unchanged. */
int elf_kind_read(const char *path, struct elf_kind *out);

/* Who wants to run it. */
struct user {
    uid_t uid;
    gid_t gid;
};

/*
 * Finds name as execvp(3) would: along path_list (a PATH) unless it has a
 * slash. Returns PROGRAM_GOOD with the file in out (len bytes), else
 * PROGRAM_NOT_FOUND or PROGRAM_NOT_EXECUTABLE.
 */
enum program_verdict program_find(const char *name, const char *path_list, char *out, size_t len);

/*
 * Says whether libraries of this kind can be put in front of the program at
 * path when user runs it. For a script it is the interpreter that counts; a
 * file that cannot be read gets the benefit of the doubt.
 */
enum program_verdict program_judge(const char *path, struct elf_kind libraries, struct user user);

#endif
