/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scripts: any text is a script or is refused by one line. What is one is played against the
 * engine, whatever comes of it: neither the runner nor the engine may break.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "script/script.h"
#include "script/subject.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void check_error(const char *error)
{
    assert(strncmp(error, "fuzz:", 5) == 0);
    for (; *error != '\0'; error++)
        assert((unsigned char)*error >= ' ' && *error != 0x7f);
}

/* Timers may expire very often in a long time; what is looked for is found in a short one. */
static bool lasts_long(const struct script *s)
{
    uint64_t total_ns = 0;

    for (uint32_t i = 0; i < s->statement_count; i++)
        total_ns += s->statements[i].within_ns + s->statements[i].after_ns;
    return total_ns > 1000000000;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static struct subject *subject;
    const struct script_options options = {.psn = 1000};
    char error[SCRIPT_ERROR_SIZE] = "";
    struct script s;
    uint32_t line;

    if (subject == NULL)
        subject = engine_subject_new();
    assert(subject != NULL);
    if (script_parse("fuzz", (const char *)bytes, len, &s, error) != 0) {
        check_error(error);
        return 0;
    }
    if (!lasts_long(&s)) {
        script_run(&s, subject, &options);
        for (uint32_t n = 0; n < script_mutation_count(&s) && n < 8; n++) {
            script_mutate(&s, n, &line);
            script_run(&s, subject, &options);
            script_mutate(&s, n, &line);
        }
    }
    script_free(&s);
    return 0;
}
