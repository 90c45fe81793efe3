/* SPDX-License-Identifier: BSD-2-Clause */
/* Counts troubles over all seeds of a run: see census.h. */
#include "sim/census.h"

#include <stdio.h>

static uint64_t counts[TROUBLE_COUNT];

static const char *const texts[] = {
#define TROUBLE_TEXT(name, text) text,
    TROUBLES(TROUBLE_TEXT)
#undef TROUBLE_TEXT
};

void census_add(enum trouble trouble, uint64_t count)
{
    counts[trouble] += count;
}

uint64_t census_count(enum trouble trouble)
{
    return counts[trouble];
}

void census_print(void)
{
    for (uint32_t i = 0; i < TROUBLE_COUNT; i++)
        printf("%12lu %s\n", (unsigned long)counts[i], texts[i]);
}

uint32_t census_missing(void)
{
    uint32_t missing = 0;

    for (uint32_t i = 0; i < TROUBLE_COUNT; i++) {
        if (counts[i] > 0)
            continue;
        printf("never happened: %s\n", texts[i]);
        missing++;
    }
    return missing;
}
