/* SPDX-License-Identifier: BSD-2-Clause */
/* A plain main around a libFuzzer entry: runs each file of the folders given, once. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define INPUT_LEN_MAX (1u << 20)

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* The input lies in a block of just its size, so that ASan sees a read beyond it. */
static int replay_file(const char *path)
{
    static uint8_t whole[INPUT_LEN_MAX];
    FILE *file = fopen(path, "rb");
    uint8_t *exact;
    size_t len;

    if (file == NULL) {
        perror(path);
        return 1;
    }
    len = fread(whole, 1, sizeof(whole), file);
    fclose(file);
    exact = malloc(len);
    if (exact == NULL && len > 0)
        return 1;
    for (size_t i = 0; i < len; i++)
        exact[i] = whole[i];
    LLVMFuzzerTestOneInput(exact, len);
    free(exact);
    return 0;
}

static int replay_folder(const char *folder, unsigned *count)
{
    DIR *dir = opendir(folder);
    struct dirent *entry;
    char path[4096];
    int failed = 0;

    if (dir == NULL) {
        perror(folder);
        return 1;
    }
    while ((entry = readdir(dir)) != NULL) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        failed |= replay_file(path);
        (*count)++;
    }
    closedir(dir);
    return failed;
}

int main(int argc, char **argv)
{
    unsigned count = 0;
    int failed = 0;

    for (int i = 1; i < argc; i++)
        failed |= replay_folder(argv[i], &count);
    printf("%u inputs\n", count);
    return failed != 0 || count == 0;
}
