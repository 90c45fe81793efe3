/* SPDX-License-Identifier: BSD-2-Clause */
/* Trees that nobody uses any more go, and nothing else does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/sysfs_clean.h"

static char folder[] = "/tmp/uroce-test-XXXXXX";
static int folder_fd;

static char *inside(const char *name)
{
    static char path[256];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void run(const char *command)
{
    char line[640];

    snprintf(line, sizeof(line), "cd %s && %s", folder, command);
    assert_int_equal(system(line), 0);
}

static int setup(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/uroce-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    run("mkdir outside && echo precious > outside/file");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    run("rm -rf ../$(basename $PWD)");
    close(folder_fd);
    return 0;
}

/* A tree as `uroce run` makes it, and with a link out of it. */
static void make_tree(const char *name, time_t age_s)
{
    const struct timespec then = {.tv_sec = time(NULL) - age_s};
    const struct timespec times[2] = {then, then};
    char command[512];

    snprintf(command, sizeof(command),
             "mkdir -p %s/sys/devices/uroce/d/ports/1/gids %s/dev && "
             "echo x > %s/sys/devices/uroce/d/ports/1/gids/0 && ln -s ../../outside %s/dev/out && "
             "chmod 400 %s/sys/devices/uroce/d/ports/1/gids/0",
             name, name, name, name, name);
    run(command);
    assert_int_equal(utimensat(folder_fd, name, times, 0), 0);
}

static bool is_there(const char *name)
{
    return access(inside(name), F_OK) == 0;
}

static void clean(void)
{
    sysfs_clean(folder_fd, folder, time(NULL));
}

static void old_tree_goes_and_a_new_one_stays(void **state)
{
    (void)state;
    make_tree(".sys-0000000000000001", SYSFS_TREE_IDLE_S + 60);
    make_tree(".sys-0000000000000002", SYSFS_TREE_IDLE_S - 60);
    make_tree(".sys-AbCdEf", SYSFS_TREE_IDLE_S + 60); /* never finished */
    clean();
    assert_false(is_there(".sys-0000000000000001"));
    assert_true(is_there(".sys-0000000000000002/sys/devices/uroce/d/ports/1/gids/0"));
    assert_false(is_there(".sys-AbCdEf"));
    assert_true(is_there("outside/file"));
}

static void what_is_no_tree_stays(void **state)
{
    (void)state;
    make_tree("1234.abcd", SYSFS_TREE_IDLE_S + 86400);
    make_tree(".other", SYSFS_TREE_IDLE_S + 86400);
    run("ln -s outside .sys-0000000000000003 && touch -h -d '1 day ago' .sys-0000000000000003");
    run("touch -d '1 day ago' .sys-file outside");
    clean();
    assert_true(is_there("1234.abcd/dev/out/file"));
    assert_true(is_there(".other"));
    assert_true(is_there(".sys-0000000000000003/file"));
    assert_true(is_there(".sys-file"));
}

/* A program with the tree in its environment, which sleeps. */
static pid_t start_program(const char *tree)
{
    char variable[512];
    char *const environment[] = {variable, NULL};
    char *const words[] = {"sleep", "30", NULL};
    pid_t pid;

    snprintf(variable, sizeof(variable), "UROCE_SYSFS_ROOT=%s", inside(tree));
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        execve("/bin/sleep", words, environment);
        _exit(1);
    }
    return pid;
}

static bool has_become(pid_t pid, const char *name)
{
    char path[64], text[32] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
    file = fopen(path, "re");
    if (file != NULL) {
        if (fgets(text, sizeof(text), file) == NULL)
            text[0] = '\0';
        fclose(file);
    }
    return strncmp(text, name, strlen(name)) == 0;
}

static void tree_of_a_program_that_runs_stays_until_it_ends(void **state)
{
    pid_t pid;

    (void)state;
    make_tree(".sys-0000000000000004", SYSFS_TREE_IDLE_S + 60);
    make_tree(".sys-0000000000000005", SYSFS_TREE_IDLE_S + 60);
    pid = start_program(".sys-0000000000000004");
    while (!has_become(pid, "sleep"))
        usleep(1000);
    clean();
    assert_true(is_there(".sys-0000000000000004/dev"));
    assert_false(is_there(".sys-0000000000000005"));
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    clean();
    assert_false(is_there(".sys-0000000000000004"));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(old_tree_goes_and_a_new_one_stays),
        CASE(what_is_no_tree_stays),
        CASE(tree_of_a_program_that_runs_stays_until_it_ends),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
