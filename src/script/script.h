/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet scripts: what a peer is sent and what it must answer, line by line,
 * in the manner of packetdrill. The arrows are seen from the peer under test:
 * "<" is a packet that comes in to it, ">" one that it sends. The language is
 * described in uroce-script(1); its words are tables in grammar.c.
 */
#ifndef UROCE_SCRIPT_SCRIPT_H
#define UROCE_SCRIPT_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct subject;

#define SCRIPT_TEXT_MAX 65536u /* bytes of a script */
#define SCRIPT_LINES_MAX 2048u
#define SCRIPT_FIELDS_MAX 20u /* of one line */
#define SCRIPT_VARIABLES_MAX 96u
#define SCRIPT_REGIONS_MAX 4u
#define SCRIPT_WINDOWS_MAX 4u
#define SCRIPT_REGION_LEN_MAX (1u << 20)
#define SCRIPT_TERMS_MAX 4u
#define SCRIPT_BYTES_MAX 64u /* of one bytes= */
#define SCRIPT_NAME_SIZE 24u
#define SCRIPT_SECTIONS_MAX 8u /* rule lines */
#define SCRIPT_DURATION_MAX_NS UINT64_C(60000000000)
#define SCRIPT_ERROR_SIZE 256u
#define SCRIPT_NONE UINT32_MAX

/* A sum of products: 2*mtu+buf.rkey-1. */
struct term {
    uint64_t factor;
    uint32_t variable; /* index, or SCRIPT_NONE for 1 */
    bool negative;
};

struct expression {
    struct term terms[SCRIPT_TERMS_MAX];
    uint32_t count;
};

/* One name=value of a line. What kind of value it is, its row in grammar.c says. */
struct field {
    uint8_t row;  /* enum field_row */
    bool given;   /* ack=5, not the bare ack */
    bool changed; /* by script_mutate: the value is another than the script says */
    uint16_t column;
    uint32_t capture; /* psn=?name: variable that takes the value, or SCRIPT_NONE */
    union {
        struct expression number;
        uint32_t word; /* index in the row's list, or a set of rights */
        struct {
            uint8_t bytes[SCRIPT_BYTES_MAX];
            uint32_t len;
        } bytes;
    } value;
};

enum statement_kind {
    STATEMENT_QP,
    STATEMENT_MEMORY,
    STATEMENT_WINDOW,
    STATEMENT_INJECT,
    STATEMENT_EXPECT,
    STATEMENT_SILENCE,
    STATEMENT_AFTER,
    STATEMENT_POST,
    STATEMENT_COMPLETION,
    STATEMENT_NO,
    STATEMENT_EVENT,
    STATEMENT_STATE,
    STATEMENT_MODIFY,
    STATEMENT_FILL,
    STATEMENT_HOLDS,
    STATEMENT_LET,
};

struct statement {
    enum statement_kind kind;
    uint32_t line;
    /* What its second word says: an opcode, a kind of work, a service, an event, a state ... */
    uint32_t what;
    uint32_t index;          /* of the region, window or variable that it is about */
    struct expression where; /* FILL, HOLDS: address; LET: value */
    uint64_t after_ns;       /* not before */
    uint64_t within_ns;      /* not later */
    bool timed;              /* within was given */
    bool optional;           /* EVENT: it may also not come */
    bool changed;            /* by script_mutate: what is another */
    uint32_t field_count;
    struct field fields[SCRIPT_FIELDS_MAX];
};

struct variable {
    char name[SCRIPT_NAME_SIZE];
};

struct script {
    const char *path; /* borrowed */
    char title[160];
    char rules[SCRIPT_SECTIONS_MAX][160];
    uint32_t rule_count;
    struct statement *statements;
    uint32_t statement_count;
    struct variable variables[SCRIPT_VARIABLES_MAX];
    uint32_t variable_count;
    uint32_t region_count;
    uint32_t window_count;
};

/*
 * Reads a script; path is what messages call it and is borrowed. Returns 0;
 * -EINVAL with one line in error that names file, line, column and what would
 * be right; -ENOMEM.
 */
int script_parse(const char *path, const char *text, size_t len, struct script *out,
                 char error[SCRIPT_ERROR_SIZE]);
void script_free(struct script *s);

struct script_options {
    uint32_t psn; /* first PSN of both directions where the script names none */
    bool verbose; /* the ladder also of what went well */
    FILE *out;    /* where is said what was expected and what came; NULL: nowhere */
};

enum script_verdict {
    SCRIPT_PASSED,
    SCRIPT_FAILED,  /* an expectation did not hold, out says which */
    SCRIPT_BROKEN,  /* it could not be carried out, out says why */
    SCRIPT_SKIPPED, /* the subject has not what the script needs, out says what */
};

/* Carries a script out against a subject, which is opened and closed by it. */
enum script_verdict script_run(const struct script *s, struct subject *subject,
                               const struct script_options *options);

/*
 * In how many ways one expected value of the script can be made wrong, and the
 * n-th of them: done, and undone by a second call. What a script expects matters only if it
 * then fails.
 */
uint32_t script_mutation_count(const struct script *s);
void script_mutate(struct script *s, uint32_t n, uint32_t *line);

#endif
