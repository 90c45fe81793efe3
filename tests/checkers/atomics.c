/* SPDX-License-Identifier: BSD-2-Clause */
/* The chain of originals: see atomics.h. */
#include "checkers/atomics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"

static uint64_t value_of(const struct cell *c)
{
    uint64_t value;

    memcpy(&value, c->where.book->bytes + c->where.offset, 8);
    return value;
}

void cell_init(struct cell *c, struct piece where)
{
    *c = (struct cell){.where = where};
    c->initial = value_of(c);
    c->guess = c->initial;
}

void cell_fini(struct cell *c)
{
    free(c->operations);
    free(c->open);
}

static void append(struct message ***list, uint32_t *count, uint32_t *capacity, struct message *m)
{
    if (*count == *capacity) {
        *capacity = *capacity ? 2 * *capacity : 32;
        *list = realloc(*list, *capacity * sizeof(struct message *));
        EXPECT(*list, "no memory for the test itself");
    }
    (*list)[(*count)++] = m;
}

uint64_t atomic_result(const struct message *m, uint64_t original)
{
    if (m->opcode == WR_FETCH_ADD)
        return original + m->compare;
    return original == m->compare ? m->swap : original;
}

void atomics_posted(struct cell *c, struct message *m)
{
    append(&c->open, &c->open_count, &c->open_capacity, m);
}

void atomics_answered(struct cell *c, const struct message *m)
{
    uint32_t i;

    for (i = 0; i < c->open_count && c->open[i] != m; i++)
        ;
    EXPECT(i < c->open_count, "test: %s is not open", message_name(m));
    append(&c->operations, &c->count, &c->capacity, c->open[i]);
    memmove(&c->open[i], &c->open[i + 1], (c->open_count - i - 1) * sizeof(struct message *));
    c->open_count--;
    c->guess = atomic_result(m, m->original);
}

/*
 * Takes the operation that found value out of the list and returns it, or NULL.
 * One that leaves the value comes before one that changes it.
 */
static struct message *take_next(struct cell *c, uint64_t value)
{
    uint32_t best = c->count;
    struct message *m;
    uint32_t i;

    for (i = 0; i < c->count; i++) {
        m = c->operations[i];
        if (m->original != value)
            continue;
        best = i;
        if (atomic_result(m, value) == value)
            break;
    }
    if (best == c->count)
        return NULL;
    m = c->operations[best];
    memmove(&c->operations[best], &c->operations[best + 1],
            (c->count - best - 1) * sizeof(struct message *));
    c->count--;
    return m;
}

void cell_check(struct cell *c, const char *name)
{
    uint64_t last = value_of(c);
    uint64_t value = c->initial;
    const struct message *m;
    uint32_t i;

    while ((m = take_next(c, value)))
        value = atomic_result(m, value);
    EXPECT(c->count == 0,
           "%s: %u atomics found what the cell never held, the first is %s with 0x%016" PRIx64,
           name, c->count, message_name(c->operations[0]), c->operations[0]->original);
    for (i = 0; i < c->open_count && value != last; i++)
        value = atomic_result(c->open[i], value);
    EXPECT(value == last, "%s: the cell holds 0x%016" PRIx64 " and should hold 0x%016" PRIx64, name,
           last, value);
    c->open_count = 0;
    c->initial = last;
    c->guess = last;
}
