/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that `uroce run` can and cannot help, made by hand in a folder of
 * the test: ELF files of a header and one segment (elf(5)), and scripts.
 */
#include "cli/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <elf.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct elf_file {
    Elf64_Ehdr header;
    Elf64_Phdr segment;
};

static const struct elf_kind ours = {.class = ELFCLASS64, .machine = EM_X86_64};
static const struct user nobody = {.uid = 65534, .gid = 65534};
static char folder[] = "/tmp/uroce-program-XXXXXX";
static char path[PATH_MAX];

static struct elf_file elf(uint16_t machine, uint32_t segment_type)
{
    struct elf_file file = {
        .header = {.e_machine = machine,
                   .e_type = ET_DYN,
                   .e_phoff = offsetof(struct elf_file, segment),
                   .e_phnum = 1,
                   .e_phentsize = sizeof(Elf64_Phdr)},
        .segment = {.p_type = segment_type},
    };

    memcpy(file.header.e_ident, ELFMAG, SELFMAG);
    file.header.e_ident[EI_CLASS] = ELFCLASS64;
    return file;
}

/* Makes the file anew and leaves its name in path. */
static const char *write_file(const char *name, const void *bytes, size_t len, mode_t mode)
{
    FILE *out;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    unlink(path);
    out = fopen(path, "w");
    assert_non_null(out);
    assert_int_equal(fwrite(bytes, 1, len, out), len);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static enum program_verdict judge_elf(struct elf_file file, mode_t mode)
{
    return program_judge(write_file("program", &file, sizeof(file), mode), ours, nobody);
}

static enum program_verdict judge_script(const char *text)
{
    return program_judge(write_file("script", text, strlen(text), 0755), ours, nobody);
}

static void a_dynamic_program_is_good(void **state)
{
    (void)state;
    assert_int_equal(judge_elf(elf(EM_X86_64, PT_INTERP), 0755), PROGRAM_GOOD);
}

static void a_program_without_loader_is_static(void **state)
{
    (void)state;
    assert_int_equal(judge_elf(elf(EM_X86_64, PT_LOAD), 0755), PROGRAM_STATIC);
}

static void a_program_for_another_machine_or_word_size_is_foreign(void **state)
{
    struct elf_file narrow = elf(EM_X86_64, PT_INTERP);

    (void)state;
    narrow.header.e_ident[EI_CLASS] = ELFCLASS32;
    assert_int_equal(judge_elf(narrow, 0755), PROGRAM_FOREIGN);
    assert_int_equal(judge_elf(elf(EM_AARCH64, PT_INTERP), 0755), PROGRAM_FOREIGN);
}

static void set_id_programs_are_told_unless_they_change_nothing(void **state)
{
    struct elf_file file = elf(EM_X86_64, PT_INTERP);
    struct user owner = {.uid = getuid(), .gid = getgid()};
    struct user other = {.uid = owner.uid + 1, .gid = owner.gid + 1};

    (void)state;
    write_file("program", &file, sizeof(file), 04755);
    assert_int_equal(program_judge(path, ours, other), PROGRAM_SET_ID);
    assert_int_equal(program_judge(path, ours, owner), PROGRAM_GOOD);
    write_file("program", &file, sizeof(file), 02755);
    assert_int_equal(program_judge(path, ours, other), PROGRAM_SET_ID);
    assert_int_equal(program_judge(path, ours, owner), PROGRAM_GOOD);
}

static void damaged_files_do_no_harm(void **state)
{
    struct elf_file file = elf(EM_X86_64, PT_INTERP);

    (void)state;
    for (size_t len = 0; len < sizeof(file); len++) {
        write_file("program", &file, len, 0755);
        assert_int_not_equal(program_judge(path, ours, nobody), PROGRAM_NOT_FOUND);
    }
    file.header.e_phnum = UINT16_MAX;
    file.header.e_phoff = UINT64_MAX;
    assert_int_equal(judge_elf(file, 0755), PROGRAM_STATIC);
}

static void of_a_script_the_interpreter_counts(void **state)
{
    struct elf_file file = elf(EM_X86_64, PT_LOAD);
    char text[PATH_MAX + 16];

    (void)state;
    write_file("static-shell", &file, sizeof(file), 0755);
    snprintf(text, sizeof(text), "#! %s -e\necho\n", path);
    assert_int_equal(judge_script(text), PROGRAM_STATIC);
    assert_int_equal(judge_script("echo, without a first line\n"), PROGRAM_GOOD);
    assert_int_equal(judge_script("#!\n"), PROGRAM_GOOD);
    assert_int_equal(judge_script(""), PROGRAM_GOOD);
}

static void a_script_that_interprets_itself_ends(void **state)
{
    char text[PATH_MAX + 16];

    (void)state;
    snprintf(text, sizeof(text), "#!%s/script\n", folder);
    assert_int_equal(judge_script(text), PROGRAM_GOOD);
}

static void programs_are_found_as_a_shell_finds_them(void **state)
{
    char found[PATH_MAX] = "";
    char list[2 * PATH_MAX];

    (void)state;
    write_file("tool", "", 0, 0755);
    snprintf(list, sizeof(list), "/nonexistent:%s", folder);
    assert_int_equal(program_find("tool", list, found, sizeof(found)), PROGRAM_GOOD);
    assert_string_equal(found, path);
    assert_int_equal(program_find("tool", "/nonexistent", found, sizeof(found)), PROGRAM_NOT_FOUND);
    assert_int_equal(program_find("", list, found, sizeof(found)), PROGRAM_NOT_FOUND);
    assert_int_equal(program_find(path, "", found, sizeof(found)), PROGRAM_GOOD);
    assert_int_equal(program_find(folder, "", found, sizeof(found)), PROGRAM_NOT_EXECUTABLE);
}

static void a_file_that_cannot_be_executed_is_told(void **state)
{
    char found[PATH_MAX] = "";

    (void)state;
    write_file("tool", "", 0, 0644);
    assert_int_equal(program_find("tool", folder, found, sizeof(found)), PROGRAM_NOT_EXECUTABLE);
}

static void the_kind_of_a_file_that_is_no_elf_is_an_error(void **state)
{
    struct elf_kind kind = {0};
    struct elf_file file = elf(EM_AARCH64, PT_INTERP);

    (void)state;
    assert_true(elf_kind_read(write_file("text", "text", 4, 0644), &kind) < 0);
    assert_true(elf_kind_read("/nonexistent", &kind) < 0);
    assert_int_equal(elf_kind_read(write_file("elf", &file, sizeof(file), 0644), &kind), 0);
    assert_int_equal(kind.machine, EM_AARCH64);
    assert_int_equal(kind.class, ELFCLASS64);
}

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    static const char *const names[] = {"program", "script", "static-shell", "tool", "text", "elf"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_dynamic_program_is_good),
        cmocka_unit_test(a_program_without_loader_is_static),
        cmocka_unit_test(a_program_for_another_machine_or_word_size_is_foreign),
        cmocka_unit_test(set_id_programs_are_told_unless_they_change_nothing),
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(of_a_script_the_interpreter_counts),
        cmocka_unit_test(a_script_that_interprets_itself_ends),
        cmocka_unit_test(programs_are_found_as_a_shell_finds_them),
        cmocka_unit_test(a_file_that_cannot_be_executed_is_told),
        cmocka_unit_test(the_kind_of_a_file_that_is_no_elf_is_an_error),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
