/* SPDX-License-Identifier: BSD-2-Clause */
/* What stands in a word of a script: names, numbers, sums, durations, lists, bytes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "script/parse_private.h"

#define LIST_SIZE 160u

bool span_is(struct span s, const char *text)
{
    return s.at != NULL && strlen(text) == s.len && memcmp(s.at, text, s.len) == 0;
}

const char *words_text(const struct word *list, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (; list->name != NULL && len < size; list++)
        len += (size_t)snprintf(out + len, size - len, "%s%s", len > 0 ? ", " : "", list->name);
    return out;
}

int parse_word(struct parse *p, struct span s, const struct word *list, const char *what,
               uint32_t *out)
{
    char text[LIST_SIZE];

    for (const struct word *w = list; w->name != NULL; w++) {
        if (span_is(s, w->name)) {
            *out = w->value;
            return 0;
        }
    }
    return parse_refuse(p, s.at, "'%.*s' is no %s; there are %s", QUOTED(s), what,
                        words_text(list, text, sizeof(text)));
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* The value of a digit below base, or -1. */
static int digit_value(char c, unsigned base)
{
    int value = -1;

    if (is_digit(c))
        value = c - '0';
    else if (c >= 'a' && c <= 'f')
        value = c - 'a' + 10;
    else if (c >= 'A' && c <= 'F')
        value = c - 'A' + 10;
    return value < (int)base ? value : -1;
}

/* Digits from s on; takes them off s. False: none, or more than 64 bits. */
static bool take_number(struct span *s, uint64_t *out)
{
    unsigned base = 10;
    uint64_t value = 0;
    size_t n = 0;

    if (s->len > 2 && s->at[0] == '0' && s->at[1] == 'x') {
        base = 16;
        n = 2;
    }
    for (; n < s->len && digit_value(s->at[n], base) >= 0; n++) {
        if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
            __builtin_add_overflow(value, (uint64_t)digit_value(s->at[n], base), &value))
            return false;
    }
    if (n == 0 || (base == 16 && n == 2))
        return false;
    *s = (struct span){s->at + n, s->len - n};
    *out = value;
    return true;
}

static struct span take_name(struct span *s)
{
    size_t n = 0;
    struct span name;

    while (n < s->len && (is_name_start(s->at[n]) || is_digit(s->at[n]) || s->at[n] == '.'))
        n++;
    name = (struct span){s->at, n};
    *s = (struct span){s->at + n, s->len - n};
    return name;
}

static uint32_t variable_find(const struct script *s, struct span name)
{
    for (uint32_t i = 0; i < s->variable_count; i++) {
        if (span_is(name, s->variables[i].name))
            return i;
    }
    return SCRIPT_NONE;
}

int variable_add(struct parse *p, struct span name, const char *suffix, uint32_t *out)
{
    struct script *s = p->script;
    struct variable *v = &s->variables[s->variable_count];

    if (s->variable_count == SCRIPT_VARIABLES_MAX)
        return parse_refuse(p, name.at, "at most %u names can be given", SCRIPT_VARIABLES_MAX);
    if (name.len + strlen(suffix) >= sizeof(v->name))
        return parse_refuse(p, name.at, "the name is too long, at most %zu characters",
                            sizeof(v->name) - 1 - strlen(suffix));
    snprintf(v->name, sizeof(v->name), "%.*s%s", (int)name.len, name.at, suffix);
    *out = s->variable_count++;
    return 0;
}

int parse_name(struct parse *p, struct span s, uint32_t *out)
{
    bool good = s.len > 0 && is_name_start(s.at[0]);

    for (size_t i = 0; i < s.len && good; i++)
        good = is_name_start(s.at[i]) || is_digit(s.at[i]);
    if (!good)
        return parse_refuse(p, s.at, "'%.*s' is no name: letters, digits and _ are meant",
                            QUOTED(s));
    *out = variable_find(p->script, s);
    return *out != SCRIPT_NONE ? 0 : variable_add(p, s, "", out);
}

/* A number or a name. */
static int parse_factor(struct parse *p, struct span *s, struct term *t)
{
    struct span name;
    uint64_t number;

    if (s->len > 0 && is_digit(s->at[0])) {
        if (!take_number(s, &number) || __builtin_mul_overflow(t->factor, number, &t->factor))
            return parse_refuse(p, s->at, "the number does not fit in 64 bits");
        return 0;
    }
    name = take_name(s);
    if (name.len == 0)
        return parse_refuse(p, s->at,
                            "a number or a name is meant, such as 12, 0x1f, rpsn+1, 2*mtu");
    if (t->variable != SCRIPT_NONE)
        return parse_refuse(p, name.at, "a name can be multiplied by numbers only");
    t->variable = variable_find(p->script, name);
    if (t->variable == SCRIPT_NONE)
        return parse_refuse(p, name.at, "nothing is called '%.*s' here", QUOTED(name));
    return 0;
}

int parse_expression(struct parse *p, struct span s, struct expression *out)
{
    bool negative = false;
    int error;

    *out = (struct expression){0};
    if (s.len > 0 && s.at[0] == '-') {
        negative = true;
        s = (struct span){s.at + 1, s.len - 1};
    }
    for (;;) {
        struct term *t = &out->terms[out->count];
        char sign;

        if (out->count++ == SCRIPT_TERMS_MAX)
            return parse_refuse(p, s.at, "the sum is too long, at most %u terms", SCRIPT_TERMS_MAX);
        *t = (struct term){.factor = 1, .variable = SCRIPT_NONE, .negative = negative};
        error = parse_factor(p, &s, t);
        while (error == 0 && s.len > 0 && s.at[0] == '*') {
            s = (struct span){s.at + 1, s.len - 1};
            error = parse_factor(p, &s, t);
        }
        if (error != 0 || s.len == 0)
            return error;
        sign = s.at[0];
        if (sign != '+' && sign != '-')
            return parse_refuse(p, s.at, "'%c' is not understood in a sum: +, - and * are", sign);
        negative = sign == '-';
        s = (struct span){s.at + 1, s.len - 1};
    }
}

#define DURATION_TEXT "a time of at most 60s with its unit is meant, such as 10us, 1.5ms or 2s"

int parse_duration(struct parse *p, struct span s, uint64_t *out)
{
    static const struct word units[] = {
        {"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}, {NULL, 0}};
    const char *at = s.at;
    uint64_t value = 0;
    uint64_t divisor = 1;
    bool good = take_number(&s, &value) && value <= SCRIPT_DURATION_MAX_NS;

    if (good && s.len > 0 && s.at[0] == '.') {
        for (s = (struct span){s.at + 1, s.len - 1}; s.len > 0 && is_digit(s.at[0]);
             s = (struct span){s.at + 1, s.len - 1}) {
            if (divisor < 1000000) {
                divisor *= 10;
                value = value * 10 + (uint64_t)(s.at[0] - '0');
            }
        }
    }
    for (const struct word *u = units; u->name != NULL && good; u++) {
        if (!span_is(s, u->name))
            continue;
        good = !__builtin_mul_overflow(value, (uint64_t)u->value, &value) &&
               value / divisor <= SCRIPT_DURATION_MAX_NS;
        *out = value / divisor;
        return good ? 0 : parse_refuse(p, at, DURATION_TEXT);
    }
    return parse_refuse(p, at != NULL ? at : p->rest.at, DURATION_TEXT);
}

/* local_write+remote_read */
static int parse_rights(struct parse *p, struct span s, uint32_t *out)
{
    uint32_t rights = 0;

    while (s.at != NULL) {
        const char *plus = memchr(s.at, '+', s.len);
        struct span one = {s.at, plus != NULL ? (size_t)(plus - s.at) : s.len};
        uint32_t right;
        int error = parse_word(p, one, right_words, "right", &right);

        if (error != 0)
            return error;
        rights |= right;
        s = plus != NULL ? (struct span){plus + 1, s.len - one.len - 1} : (struct span){NULL, 0};
    }
    *out = rights;
    return 0;
}

static int parse_bytes(struct parse *p, struct span s, struct field *f)
{
    if (s.len % 2 != 0 || s.len == 0 || s.len / 2 > SCRIPT_BYTES_MAX)
        return parse_refuse(p, s.at, "1 to %u bytes of two hexadecimal digits each are meant",
                            SCRIPT_BYTES_MAX);
    for (size_t i = 0; i < s.len; i += 2) {
        int high = digit_value(s.at[i], 16);
        int low = digit_value(s.at[i + 1], 16);

        if (high < 0 || low < 0)
            return parse_refuse(p, s.at + i, "'%.2s' is not a byte in hexadecimal", s.at + i);
        f->value.bytes.bytes[i / 2] = (uint8_t)(high << 4 | low);
    }
    f->value.bytes.len = (uint32_t)(s.len / 2);
    return 0;
}

static int parse_number(struct parse *p, struct span value, struct field *f)
{
    if (value.len > 0 && value.at[0] == '?') {
        struct span name = {value.at + 1, value.len - 1};

        return parse_name(p, name, &f->capture);
    }
    return parse_expression(p, value, &f->value.number);
}

static int parse_flag(struct parse *p, struct span value, struct field *f)
{
    bool is_zero = span_is(value, "0");

    if (!is_zero && value.at != NULL && !span_is(value, "1"))
        return parse_refuse(p, value.at, "0 or 1 is meant");
    f->value.number = (struct expression){
        .count = 1, .terms = {{.factor = is_zero ? 0 : 1, .variable = SCRIPT_NONE}}};
    return 0;
}

int parse_value(struct parse *p, struct span name, struct span value, struct field *f)
{
    const enum value_kind kind = field_infos[f->row].value;
    const bool may_be_bare =
        kind == VALUE_FLAG || kind == VALUE_CODE || kind == VALUE_BARE || kind == VALUE_NAK;

    f->given = value.at != NULL;
    if (value.at == NULL && !may_be_bare)
        return parse_refuse(p, name.at, "%.*s wants a value: %.*s=...", QUOTED(name), QUOTED(name));
    switch (kind) {
    case VALUE_NUMBER:
    case VALUE_PSN:
        return parse_number(p, value, f);
    case VALUE_CODE:
        return value.at != NULL ? parse_number(p, value, f) : 0;
    case VALUE_FLAG:
        return parse_flag(p, value, f);
    case VALUE_NAK:
        return value.at != NULL ? parse_word(p, value, nak_words, "NAK", &f->value.word) : 0;
    case VALUE_STATUS:
        return parse_word(p, value, status_words, "status", &f->value.word);
    case VALUE_OPCODE:
        return parse_word(p, value, completion_words, "completion's operation", &f->value.word);
    case VALUE_RIGHTS:
        return parse_rights(p, value, &f->value.word);
    case VALUE_BYTES:
        return parse_bytes(p, value, f);
    case VALUE_BARE:
        if (value.at != NULL)
            return parse_refuse(p, value.at, "%.*s has no value", QUOTED(name));
        return 0;
    }
    return 0;
}
