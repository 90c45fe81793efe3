/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes one expectation of a script wrong. A script that still passes expects
 * nothing there, or another line says the same.
 */
#include "script/grammar_private.h"

/* What a line expects beside its fields: an opcode, a state, an event. */
static bool has_word(const struct statement *st)
{
    if (field_find(st, FIELD_MAYBE) != NULL)
        return false;
    return st->kind == STATEMENT_EXPECT || st->kind == STATEMENT_STATE ||
           st->kind == STATEMENT_EVENT;
}

static bool field_counts(const struct statement *st, const struct field *f)
{
    if (f->capture != SCRIPT_NONE || f->row == FIELD_COALESCED ||
        field_find(st, FIELD_MAYBE) != NULL)
        return false;
    if (st->kind == STATEMENT_HOLDS)
        return f->row != FIELD_LEN; /* one byte less is still right */
    return st->kind == STATEMENT_EXPECT || st->kind == STATEMENT_COMPLETION;
}

/* Walks over all that can be made wrong; changes the n-th. Returns how many there are. */
static uint32_t walk(const struct script *s, uint32_t n, uint32_t *line)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->statement_count; i++) {
        struct statement *st = &s->statements[i];

        if (has_word(st) && count++ == n) {
            st->changed = !st->changed;
            *line = st->line;
        }
        for (uint32_t k = 0; k < st->field_count; k++) {
            if (field_counts(st, &st->fields[k]) && count++ == n) {
                st->fields[k].changed = !st->fields[k].changed;
                *line = st->line;
            }
        }
    }
    return count;
}

uint32_t script_mutation_count(const struct script *s)
{
    uint32_t line;

    return walk(s, SCRIPT_NONE, &line);
}

void script_mutate(struct script *s, uint32_t n, uint32_t *line)
{
    walk(s, n, line);
}
