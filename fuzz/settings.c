/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Settings from the environment: the first byte chooses the variable, the rest
 * is its value. It is taken, or said to be wrong in one line that names the
 * variable, and then the defaults hold.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "node/settings.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static const char *variable;
static const char *value;
static unsigned complaints;

static const char *environment(const char *name)
{
    return variable != NULL && strcmp(name, variable) == 0 ? value : NULL;
}

static void complain(const char *sentence)
{
    complaints++;
    assert(strstr(sentence, variable) != NULL);
    for (; *sentence != '\0'; sentence++)
        assert((unsigned char)*sentence >= ' ' || *sentence == '\t');
}

static void read_settings(struct settings *out)
{
    const struct settings_source source = {.environment = environment, .complain = complain};

    complaints = 0;
    settings_read(&source, out);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static struct settings defaults;
    static struct settings s;
    struct setting_description d;
    uint32_t count = 0;
    char *text;

    if (len == 0)
        return 0;
    while (settings_describe(count, &d))
        count++;
    variable = NULL;
    read_settings(&defaults);
    assert(complaints == 0);
    assert(settings_describe(bytes[0] % count, &d));
    text = calloc(1, len);
    assert(text != NULL);
    memcpy(text, bytes + 1, len - 1);
    variable = d.name;
    value = text;
    read_settings(&s);
    assert(complaints <= 1);
    /* NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): read into zeroes, padding included */
    assert(complaints == 0 || memcmp(&s, &defaults, sizeof(s)) == 0);
    free(text);
    return 0;
}
