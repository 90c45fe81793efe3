/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two halves of the parser share: parse.c reads lines, value.c what stands in words. */
#ifndef UROCE_SCRIPT_PARSE_PRIVATE_H
#define UROCE_SCRIPT_PARSE_PRIVATE_H

#include "script/grammar_private.h"

/* A piece of a line. at is NULL when there is none. */
struct span {
    const char *at;
    size_t len;
};

struct parse {
    struct script *script;
    const char *path;
    uint32_t line;
    const char *line_start;
    struct span rest; /* of the line */
    bool acts;        /* a line that does something was there: nothing is set up any more */
    uint8_t service;  /* of the qp line */
    bool has_qp;
    char *error;
};

#define QUOTED(span) (int)((span).len < 40 ? (span).len : 40), (span).at

/* Says what is wrong with the line at a place in it. Returns -EINVAL. */
int parse_refuse(struct parse *p, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline uint16_t column_of(const struct parse *p, const char *at)
{
    return (uint16_t)(at - p->line_start + 1);
}

bool span_is(struct span s, const char *text);

/* The words of a list with commas between them, for a message. */
const char *words_text(const struct word *list, char *out, size_t size);

/* The number of a word. */
int parse_word(struct parse *p, struct span s, const struct word *list, const char *what,
               uint32_t *out);

/* 10ms, 640us, 1.5s. */
int parse_duration(struct parse *p, struct span s, uint64_t *out);

int parse_expression(struct parse *p, struct span s, struct expression *out);

/* A variable; one that is new gets the next index. The name is checked. */
int parse_name(struct parse *p, struct span s, uint32_t *out);
/* The same of a thing with parts (buf.rkey): each is a variable. suffix "" is the thing. */
int variable_add(struct parse *p, struct span name, const char *suffix, uint32_t *out);

/* The value of a field whose row is known; value.at is NULL when there is none. */
int parse_value(struct parse *p, struct span name, struct span value, struct field *out);

#endif
