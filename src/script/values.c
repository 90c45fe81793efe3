/* SPDX-License-Identifier: BSD-2-Clause */
/* What the words of a script stand for while it runs: numbers, bytes; and how they are printed. */
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "script/run_private.h"

uint64_t expression_value(const struct run *run, const struct expression *e)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < e->count; i++) {
        const struct term *t = &e->terms[i];
        uint64_t value =
            t->factor * (t->variable != SCRIPT_NONE ? run->values[t->variable] : UINT64_C(1));

        sum = t->negative ? sum - value : sum + value;
    }
    return sum;
}

/* The word after one in its list, the first after the last. */
static uint32_t next_word_value(const struct word *list, uint32_t value)
{
    for (const struct word *w = list; w->name != NULL; w++) {
        if (w->value == value)
            return w[1].name != NULL ? w[1].value : list->value;
    }
    return value;
}

bool run_field(struct run *run, const struct statement *st, const struct field *f, uint64_t *out)
{
    const struct field_info *info = &field_infos[f->row];
    const struct word *words = value_words(info->value);

    if (words != NULL) {
        *out = f->changed ? next_word_value(words, f->value.word) : f->value.word;
        return true;
    }
    *out = expression_value(run, &f->value.number) ^ (f->changed ? 1u : 0u);
    if (info->value == VALUE_PSN)
        *out &= PSN_MASK;
    if (info->bits < 64 && *out >> info->bits != 0) {
        run_broken(run, st, "%s is 0x%" PRIx64 ", which does not fit in %u bits", info->name, *out,
                   info->bits);
        return false;
    }
    return true;
}

bool run_row(struct run *run, const struct statement *st, enum field_row row, uint64_t absent,
             uint64_t *out)
{
    const struct field *f = field_find(st, row);

    *out = absent;
    return f == NULL || run_field(run, st, f, out);
}

uint8_t message_byte(uint32_t id, uint32_t i)
{
    uint32_t x = (id * UINT32_C(0x9e3779b1) + i) * UINT32_C(0x85ebca6b);

    return (uint8_t)((x ^ x >> 15) >> 16);
}

static bool data_bytes(struct run *run, const struct statement *st, uint8_t *out, uint64_t len)
{
    uint64_t id;
    uint64_t from;

    if (!run_row(run, st, FIELD_DATA, 1, &id) || !run_row(run, st, FIELD_FROM, 0, &from))
        return false;
    for (uint64_t i = 0; i < len; i++)
        out[i] = message_byte((uint32_t)id, (uint32_t)(from + i));
    return true;
}

bool statement_bytes(struct run *run, const struct statement *st, uint8_t *out, uint32_t max,
                     uint32_t *len, bool *said)
{
    const struct field *bytes = field_find(st, FIELD_BYTES);
    const struct field *zero = field_find(st, FIELD_ZERO);
    const struct field *u64 = field_find(st, FIELD_U64);
    uint64_t count;
    uint64_t number;

    *said = true;
    if (bytes != NULL) {
        *len = bytes->value.bytes.len;
        memcpy(out, bytes->value.bytes.bytes, *len);
        out[0] ^= bytes->changed ? 1u : 0u;
        return true;
    }
    if (u64 != NULL) { /* as the host has it: what atomics change */
        if (!run_field(run, st, u64, &number))
            return false;
        *len = sizeof(number);
        memcpy(out, &number, sizeof(number));
        return true;
    }
    if (!run_row(run, st, FIELD_LEN, 0, &count))
        return false;
    if (count > max) {
        run_broken(run, st, "len is %" PRIu64 ", at most %u", count, max);
        return false;
    }
    *len = (uint32_t)count;
    *said = field_find(st, FIELD_DATA) != NULL || zero != NULL || st->kind == STATEMENT_INJECT;
    if (zero != NULL && !zero->changed) {
        memset(out, 0, count);
        return true;
    }
    return data_bytes(run, st, out, count);
}

/* --- for people --- */

static bool is_decimal(enum field_row row)
{
    const struct field_info *info = &field_infos[row];

    return info->value != VALUE_NUMBER || info->bits <= 13 || row == FIELD_DMALEN ||
           row == FIELD_LEN || row == FIELD_ID;
}

void value_text(enum field_row row, uint64_t value, char out[VALUE_TEXT_SIZE])
{
    const struct word *words = value_words(field_infos[row].value);

    if (words != NULL)
        snprintf(out, VALUE_TEXT_SIZE, "%s", word_name(words, (uint32_t)value));
    else
        snprintf(out, VALUE_TEXT_SIZE, is_decimal(row) ? "%" PRIu64 : "0x%" PRIx64, value);
}

struct difference *difference_add(struct differences *d, const char *name, bool bad)
{
    struct difference *row = &d->rows[d->count < DIFFERENCE_ROWS_MAX ? d->count++ : d->count - 1];

    *row = (struct difference){.name = name, .bad = bad};
    d->bad = d->bad || bad;
    return row;
}

void difference_number(struct differences *d, enum field_row row, uint64_t expected, uint64_t came)
{
    struct difference *r = difference_add(d, field_infos[row].name, expected != came);

    value_text(row, expected, r->expected);
    value_text(row, came, r->came);
}

/* Up to eight bytes from a place on. */
static void bytes_text(const uint8_t *bytes, uint32_t from, uint32_t len, char *out)
{
    size_t at = (size_t)snprintf(out, VALUE_TEXT_SIZE, "byte %u:", from);

    for (uint32_t i = from; i < len && i < from + 8; i++)
        at += (size_t)snprintf(out + at, VALUE_TEXT_SIZE - at, " %02x", bytes[i]);
}

void difference_bytes(struct differences *d, const char *name, const uint8_t *expected,
                      const uint8_t *came, uint32_t len)
{
    uint32_t first = 0;
    struct difference *r;

    while (first < len && expected[first] == came[first])
        first++;
    r = difference_add(d, name, first < len);
    if (first == len)
        first = 0;
    bytes_text(expected, first, len, r->expected);
    bytes_text(came, first, len, r->came);
}

void differences_print(const struct differences *d, FILE *out)
{
    fprintf(out, "      %-12s %-38s %s\n", "", "expected", "came");
    for (uint32_t i = 0; i < d->count; i++)
        fprintf(out, "    %c %-12s %-38s %s\n", d->rows[i].bad ? '*' : ' ', d->rows[i].name,
                d->rows[i].expected, d->rows[i].came);
}

static void field_print(struct run *run, const struct statement *st, const struct field *f,
                        FILE *out)
{
    const struct field_info *info = &field_infos[f->row];
    char text[VALUE_TEXT_SIZE];
    uint64_t value;

    fprintf(out, " %s", info->name);
    if (f->capture != SCRIPT_NONE) {
        fprintf(out, "=?%s", run->script->variables[f->capture].name);
    } else if (info->value == VALUE_BYTES) {
        fprintf(out, "=(%u bytes)", f->value.bytes.len);
    } else if (f->given && run_field(run, st, f, &value)) {
        value_text((enum field_row)f->row, value, text);
        fprintf(out, "=%s", text);
    }
}

void statement_print(struct run *run, const struct statement *st, FILE *out)
{
    if (st->kind == STATEMENT_EXPECT || st->kind == STATEMENT_INJECT)
        fputs(opcode_name((uint8_t)st->what), out);
    if (st->kind == STATEMENT_COMPLETION)
        fputs("completion", out);
    for (uint32_t i = 0; i < st->field_count; i++)
        field_print(run, st, &st->fields[i], out);
    if (st->after_ns != 0)
        fprintf(out, " after %g ms", (double)st->after_ns / 1e6);
    if (st->timed)
        fprintf(out, " within %g ms", (double)st->within_ns / 1e6);
}
