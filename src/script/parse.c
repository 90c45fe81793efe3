/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads a script line by line. What a line may hold is a row of the table
 * below; what a field is, a row of grammar.c. Everything is judged here that
 * can be judged without a peer, so that a run only meets what the peer does.
 */
#include "script/script.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "script/parse_private.h"
#include "wire/opcode.h"

int parse_refuse(struct parse *p, const char *at, const char *format, ...)
{
    va_list ap;
    int len =
        snprintf(p->error, SCRIPT_ERROR_SIZE, "%.100s:%u:%u: ", p->path, p->line, column_of(p, at));

    va_start(ap, format);
    vsnprintf(p->error + len, SCRIPT_ERROR_SIZE - (size_t)len, format, ap);
    va_end(ap);
    for (char *c = p->error; *c != '\0'; c++) {
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = '?';
    }
    return -EINVAL;
}

/* The next word of the line, without the blanks around it; at is NULL at the end. */
static struct span next_word(struct parse *p)
{
    struct span *r = &p->rest;
    struct span word;

    while (r->len > 0 && (r->at[0] == ' ' || r->at[0] == '\t'))
        *r = (struct span){r->at + 1, r->len - 1};
    word = (struct span){r->at, 0};
    while (r->len > 0 && r->at[0] != ' ' && r->at[0] != '\t') {
        *r = (struct span){r->at + 1, r->len - 1};
        word.len++;
    }
    return word.len > 0 ? word : (struct span){NULL, 0};
}

static int expect_end(struct parse *p)
{
    struct span word = next_word(p);

    if (word.at == NULL)
        return 0;
    return parse_refuse(p, word.at, "'%.*s' is too much on this line", QUOTED(word));
}

/* --- fields --- */

/* Which names the lines of a kind may have, for a message. */
static const char *names_text(unsigned lines, unsigned headers, char *out, size_t size)
{
    size_t len = 0;

    out[0] = '\0';
    for (unsigned i = 0; i < FIELD_COUNT && len < size; i++) {
        const struct field_info *info = &field_infos[i];

        if ((info->lines & lines) != 0 && (info->header == 0 || (info->header & headers) != 0))
            len += (size_t)snprintf(out + len, size - len, "%s%s", len > 0 ? ", " : "", info->name);
    }
    return out;
}

/* The row of a name on such a line, whose packet has these headers. */
static int find_row(struct parse *p, struct span name, unsigned lines, unsigned headers,
                    uint8_t *out)
{
    bool elsewhere = false;
    bool in_packet = (lines & ON_PACKET) != 0;
    char text[200];

    for (unsigned i = 0; i < FIELD_COUNT; i++) {
        const struct field_info *info = &field_infos[i];

        if ((info->lines & lines) == 0 || !span_is(name, info->name))
            continue;
        if (!in_packet || info->header == 0 || (info->header & headers) != 0) {
            *out = (uint8_t)i;
            return 0;
        }
        elsewhere = true;
    }
    if (elsewhere)
        return parse_refuse(p, name.at, "a packet of this opcode has no %.*s", QUOTED(name));
    return parse_refuse(p, name.at, "'%.*s' is not known here; there are %s", QUOTED(name),
                        names_text(lines, in_packet ? headers : ~0u, text, sizeof(text)));
}

static int parse_field(struct parse *p, struct statement *st, struct span word, unsigned lines,
                       unsigned headers)
{
    const char *equals = memchr(word.at, '=', word.len);
    struct span name = {word.at, equals != NULL ? (size_t)(equals - word.at) : word.len};
    struct span value = {NULL, 0};
    struct field *f = &st->fields[st->field_count];
    int error;

    if (equals != NULL)
        value = (struct span){equals + 1, word.len - name.len - 1};
    if (st->field_count == SCRIPT_FIELDS_MAX)
        return parse_refuse(p, word.at, "too many words, at most %u", SCRIPT_FIELDS_MAX);
    *f = (struct field){.capture = SCRIPT_NONE, .column = column_of(p, word.at)};
    error = find_row(p, name, lines, headers, &f->row);
    if (error != 0)
        return error;
    if (field_find(st, f->row) != NULL)
        return parse_refuse(p, word.at, "%.*s was given already", QUOTED(name));
    error = parse_value(p, name, value, f);
    if (error != 0)
        return error;
    if (f->capture != SCRIPT_NONE && (lines & (ON_OUT | ON_COMPLETION)) == 0)
        return parse_refuse(p, value.at, "only what the peer says can be taken into a name");
    st->field_count++;
    return 0;
}

/* "within 5ms", "after 1ms". 1: that was one; 0: it is none. */
static int parse_time(struct parse *p, struct statement *st, struct span word)
{
    bool within = span_is(word, "within");
    uint64_t duration;
    int error;

    if (!within && !span_is(word, "after"))
        return 0;
    error = parse_duration(p, next_word(p), &duration);
    if (error != 0)
        return error;
    if (within) {
        st->timed = true;
        st->within_ns = duration;
    } else {
        st->after_ns = duration;
    }
    return 1;
}

/* All fields of the line to its end. */
static int parse_fields(struct parse *p, struct statement *st, unsigned lines, unsigned headers)
{
    const bool waits = (lines & (ON_OUT | ON_COMPLETION)) != 0;

    for (struct span word = next_word(p); word.at != NULL; word = next_word(p)) {
        int result = waits ? parse_time(p, st, word) : 0;

        if (result == 0)
            result = parse_field(p, st, word, lines, headers);
        if (result < 0)
            return result;
    }
    if (st->timed && st->within_ns < st->after_ns)
        return parse_refuse(p, p->line_start, "within should not be earlier than after");
    return 0;
}

static int require(struct parse *p, const struct statement *st, enum field_row row)
{
    if (field_find(st, row) != NULL)
        return 0;
    return parse_refuse(p, p->rest.at, "%s= is missing", field_infos[row].name);
}

/* --- lines --- */

static int parse_qp(struct parse *p, struct statement *st)
{
    struct span service = next_word(p);
    const struct field *mtu;
    int error;

    if (p->has_qp)
        return parse_refuse(p, p->line_start,
                            "there is one queue pair, a second qp line is too many");
    if (service.at == NULL)
        return parse_refuse(p, p->rest.at, "the service is missing: rc, uc or ud");
    error = parse_word(p, service, service_words, "service", &st->what);
    if (error == 0)
        error = parse_fields(p, st, ON_QP, 0);
    if (error != 0)
        return error;
    mtu = field_find(st, FIELD_MTU);
    if (mtu != NULL) {
        const struct term *t = &mtu->value.number.terms[0];

        if (mtu->value.number.count != 1 || t->variable != SCRIPT_NONE || t->factor < 256 ||
            t->factor > 4096 || (t->factor & (t->factor - 1)) != 0)
            return parse_refuse(p, p->line_start + mtu->column - 1,
                                "an MTU is 256, 512, 1024, 2048 or 4096");
    }
    p->service = (uint8_t)st->what;
    p->has_qp = true;
    return 0;
}

/* A name that nothing has yet, with its parts. */
static int parse_new_name(struct parse *p, const char *suffix, uint32_t *out)
{
    struct span name = next_word(p);
    uint32_t count = p->script->variable_count;
    uint32_t key;
    int error;

    if (name.at == NULL)
        return parse_refuse(p, p->rest.at, "a name is missing");
    error = parse_name(p, name, out);
    if (error == 0 && p->script->variable_count == count)
        return parse_refuse(p, name.at, "something is called '%.*s' already", QUOTED(name));
    if (error == 0)
        error = variable_add(p, name, suffix, &key);
    return error;
}

static int parse_memory(struct parse *p, struct statement *st)
{
    uint32_t first;
    const struct field *size;
    int error;

    if (p->script->region_count == SCRIPT_REGIONS_MAX)
        return parse_refuse(p, p->line_start, "at most %u memory lines can be given",
                            SCRIPT_REGIONS_MAX);
    error = parse_new_name(p, ".rkey", &first);
    if (error == 0)
        error = parse_fields(p, st, ON_MEMORY, 0);
    if (error == 0)
        error = require(p, st, FIELD_SIZE);
    if (error != 0)
        return error;
    size = field_find(st, FIELD_SIZE);
    if (size->value.number.count != 1 || size->value.number.terms[0].variable != SCRIPT_NONE ||
        size->value.number.terms[0].factor == 0 ||
        size->value.number.terms[0].factor > SCRIPT_REGION_LEN_MAX)
        return parse_refuse(p, p->line_start + size->column - 1, "a size is a number from 1 to %u",
                            SCRIPT_REGION_LEN_MAX);
    st->what = first;
    st->index = p->script->region_count++;
    return 0;
}

static int parse_window(struct parse *p, struct statement *st)
{
    int error;

    if (p->script->window_count == SCRIPT_WINDOWS_MAX)
        return parse_refuse(p, p->line_start, "at most %u window lines can be given",
                            SCRIPT_WINDOWS_MAX);
    error = parse_new_name(p, ".rkey", &st->what);
    if (error == 0)
        error = expect_end(p);
    if (error == 0)
        st->index = p->script->window_count++;
    return error;
}

static int parse_opcode(struct parse *p, struct span word, uint32_t *out)
{
    if (word.at == NULL)
        return parse_refuse(p, p->rest.at, "an opcode is missing, such as SEND_ONLY or ACK");
    for (uint32_t opcode = 0; opcode < 256; opcode++) {
        const char *name = opcode_name((uint8_t)opcode);
        const char *short_name = strchr(name, '_');
        bool of_service = opcode_service((uint8_t)opcode) == p->service;

        if (opcode_operation((uint8_t)opcode) == NULL)
            continue;
        if (span_is(word, name) ||
            (of_service && short_name != NULL && span_is(word, short_name + 1))) {
            *out = opcode;
            return 0;
        }
    }
    return parse_refuse(
        p, word.at,
        "'%.*s' is no opcode of this queue pair; they are named as `uroce pcap` does, "
        "without the service or, for another service, with it: SEND_ONLY, UD_SEND_ONLY",
        QUOTED(word));
}

static int check_payload(struct parse *p, const struct statement *st)
{
    const struct field *bytes = field_find(st, FIELD_BYTES);
    const struct field *len = field_find(st, FIELD_LEN);
    static const enum field_row sources[] = {FIELD_DATA, FIELD_BYTES, FIELD_ZERO, FIELD_U64};
    unsigned count = 0;

    for (unsigned i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
        count += field_find(st, sources[i]) != NULL;
    if (count > 1)
        return parse_refuse(p, p->line_start,
                            "the bytes are said twice: choose one of data, bytes, "
                            "zero and u64");
    if (bytes != NULL && len != NULL)
        return parse_refuse(p, p->line_start + len->column - 1,
                            "bytes= says how many they are itself");
    if (field_find(st, FIELD_DATA) != NULL && len == NULL)
        return parse_refuse(p, p->rest.at, "len= is missing");
    if (field_find(st, FIELD_FROM) != NULL && field_find(st, FIELD_DATA) == NULL)
        return parse_refuse(p, p->rest.at, "from= is for data=, which is missing");
    return 0;
}

/* ack, nak, rnr and syndrome are one byte. */
static int check_syndrome(struct parse *p, const struct statement *st)
{
    static const enum field_row rows[] = {FIELD_ACK, FIELD_NAK, FIELD_RNR, FIELD_SYNDROME};
    const struct field *nak = field_find(st, FIELD_NAK);
    unsigned count = 0;

    for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        count += field_find(st, rows[i]) != NULL;
    if (count > 1)
        return parse_refuse(p, p->line_start, "choose one of ack, nak, rnr and syndrome");
    if (st->kind == STATEMENT_INJECT && nak != NULL && !nak->given)
        return parse_refuse(p, p->line_start + nak->column - 1, "nak wants a value: nak=...");
    return 0;
}

static int parse_packet(struct parse *p, struct statement *st)
{
    int error = parse_opcode(p, next_word(p), &st->what);

    if (error == 0)
        error = parse_fields(p, st, st->kind == STATEMENT_INJECT ? ON_IN : ON_OUT,
                             opcode_headers((uint8_t)st->what));
    if (error == 0)
        error = check_syndrome(p, st);
    return error != 0 ? error : check_payload(p, st);
}

static int parse_wait(struct parse *p, struct statement *st)
{
    int error = parse_duration(p, next_word(p), &st->within_ns);

    return error != 0 ? error : expect_end(p);
}

static int parse_post(struct parse *p, struct statement *st)
{
    struct span what = next_word(p);
    int error;

    if (what.at == NULL)
        return parse_refuse(p, p->rest.at,
                            "what is posted is missing, such as recv, send or write");
    error = parse_word(p, what, work_words, "work request", &st->what);
    if (error == 0)
        error = parse_fields(p, st, ON_POST, 0);
    if (error == 0)
        error = require(p, st, FIELD_ID);
    if (error == 0 && field_find(st, FIELD_LEN) != NULL)
        error = require(p, st, FIELD_LOCAL);
    return error;
}

static int parse_completion(struct parse *p, struct statement *st)
{
    int error = parse_fields(p, st, ON_COMPLETION, 0);

    if (error == 0)
        error = require(p, st, FIELD_ID);
    return error != 0 ? error : require(p, st, FIELD_STATUS);
}

/* A line of one word out of a list, and perhaps a time. */
static int parse_listed(struct parse *p, struct statement *st, const struct word *list,
                        const char *what)
{
    struct span word = next_word(p);
    char text[160];
    int error;

    if (word.at == NULL)
        return parse_refuse(p, p->rest.at, "the %s is missing: %s", what,
                            words_text(list, text, sizeof(text)));
    error = parse_word(p, word, list, what, &st->what);
    if (error != 0)
        return error;
    word = next_word(p);
    if (st->kind == STATEMENT_EVENT && span_is(word, "maybe")) {
        st->optional = true;
        word = next_word(p);
    }
    if (word.at == NULL)
        return 0;
    if (!span_is(word, "within"))
        return parse_refuse(p, word.at, "'%.*s' is too much on this line", QUOTED(word));
    error = parse_time(p, st, word);
    return error < 0 ? error : expect_end(p);
}

static int parse_event(struct parse *p, struct statement *st)
{
    return parse_listed(p, st, event_words, "event");
}

static int parse_state(struct parse *p, struct statement *st)
{
    return parse_listed(p, st, state_words, "state");
}

static int parse_no(struct parse *p, struct statement *st)
{
    return parse_listed(p, st, nothing_words, "thing that there may be none of");
}

static int parse_bytes_line(struct parse *p, struct statement *st)
{
    static const enum field_row sources[] = {FIELD_DATA, FIELD_BYTES, FIELD_ZERO, FIELD_U64};
    struct span where = next_word(p);
    bool said = false;
    int error;

    if (where.at == NULL)
        return parse_refuse(p, p->rest.at, "an address is missing, such as buf+16");
    error = parse_expression(p, where, &st->where);
    if (error == 0)
        error = parse_fields(p, st, st->kind == STATEMENT_FILL ? ON_FILL : ON_HOLDS, 0);
    if (error != 0)
        return error;
    for (unsigned i = 0; i < sizeof(sources) / sizeof(sources[0]); i++)
        said = said || field_find(st, sources[i]) != NULL;
    if (!said)
        return parse_refuse(p, p->rest.at, "the bytes are missing: data=, bytes=, u64= or zero");
    if (field_find(st, FIELD_ZERO) != NULL) {
        error = require(p, st, FIELD_LEN);
        if (error != 0)
            return error;
    }
    return check_payload(p, st);
}

static int parse_let(struct parse *p, struct statement *st)
{
    struct span word = next_word(p);
    const char *equals = word.at != NULL ? memchr(word.at, '=', word.len) : NULL;
    int error;

    if (equals == NULL)
        return parse_refuse(p, p->rest.at, "a name and its value are meant: let last=rpsn+3");
    error = parse_expression(
        p, (struct span){equals + 1, word.len - (size_t)(equals - word.at) - 1}, &st->where);
    if (error == 0)
        error = parse_name(p, (struct span){word.at, (size_t)(equals - word.at)}, &st->index);
    return error != 0 ? error : expect_end(p);
}

static const struct line_row {
    const char *keyword;
    enum statement_kind kind;
    bool sets_up; /* stands before all that acts */
    int (*parse)(struct parse *p, struct statement *st);
} line_rows[] = {
    {"qp", STATEMENT_QP, true, parse_qp},
    {"memory", STATEMENT_MEMORY, true, parse_memory},
    {"window", STATEMENT_WINDOW, true, parse_window},
    {"<", STATEMENT_INJECT, false, parse_packet},
    {">", STATEMENT_EXPECT, false, parse_packet},
    {"silence", STATEMENT_SILENCE, false, parse_wait},
    {"after", STATEMENT_AFTER, false, parse_wait},
    {"post", STATEMENT_POST, false, parse_post},
    {"completion", STATEMENT_COMPLETION, false, parse_completion},
    {"no", STATEMENT_NO, false, parse_no},
    {"event", STATEMENT_EVENT, false, parse_event},
    {"state", STATEMENT_STATE, false, parse_state},
    {"modify", STATEMENT_MODIFY, false, parse_state},
    {"fill", STATEMENT_FILL, false, parse_bytes_line},
    {"holds", STATEMENT_HOLDS, false, parse_bytes_line},
    {"let", STATEMENT_LET, false, parse_let},
};

#define LINE_ROW_COUNT (sizeof(line_rows) / sizeof(line_rows[0]))

static int parse_statement(struct parse *p, struct span keyword, const struct line_row *row)
{
    struct script *s = p->script;
    struct statement *st = &s->statements[s->statement_count];

    if (row->sets_up && p->acts)
        return parse_refuse(p, keyword.at, "%s stands before all lines that do something",
                            row->keyword);
    if (!row->sets_up && !p->has_qp)
        return parse_refuse(p, keyword.at, "a qp line is to stand before this one, such as: qp rc");
    p->acts = p->acts || !row->sets_up;
    *st = (struct statement){.kind = row->kind, .line = p->line};
    s->statement_count++;
    return row->parse(p, st);
}

/* The rest of the line as it is. */
static int parse_text(struct parse *p, char *out, size_t size)
{
    struct span r = p->rest;

    while (r.len > 0 && (r.at[0] == ' ' || r.at[0] == '\t'))
        r = (struct span){r.at + 1, r.len - 1};
    while (r.len > 0 && (r.at[r.len - 1] == ' ' || r.at[r.len - 1] == '\t'))
        r.len--;
    if (r.len == 0 || r.len >= size)
        return parse_refuse(p, r.at, "a sentence of 1 to %zu characters is meant", size - 1);
    memcpy(out, r.at, r.len);
    out[r.len] = '\0';
    return 0;
}

static int parse_line(struct parse *p)
{
    struct script *s = p->script;
    struct span keyword = next_word(p);

    if (keyword.at == NULL || keyword.at[0] == '#')
        return 0;
    if (span_is(keyword, "title")) {
        if (s->title[0] != '\0')
            return parse_refuse(p, keyword.at, "there is a title already");
        return parse_text(p, s->title, sizeof(s->title));
    }
    if (span_is(keyword, "rule")) {
        if (s->rule_count == SCRIPT_SECTIONS_MAX)
            return parse_refuse(p, keyword.at, "at most %u rules can be cited",
                                SCRIPT_SECTIONS_MAX);
        return parse_text(p, s->rules[s->rule_count++], sizeof(s->rules[0]));
    }
    for (const char *c = p->rest.at; c < p->rest.at + p->rest.len; c++) {
        if (*c == '#') /* a comment behind the line's words */
            p->rest.len = (size_t)(c - p->rest.at);
    }
    for (unsigned i = 0; i < LINE_ROW_COUNT; i++) {
        if (span_is(keyword, line_rows[i].keyword))
            return parse_statement(p, keyword, &line_rows[i]);
    }
    return parse_refuse(
        p, keyword.at,
        "no line begins with '%.*s'; they begin with title, rule, qp, memory, window, "
        "<, >, silence, after, post, completion, no, event, state, modify, fill, holds, "
        "let or #",
        QUOTED(keyword));
}

static int check_characters(struct parse *p)
{
    for (size_t i = 0; i < p->rest.len; i++) {
        unsigned char c = (unsigned char)p->rest.at[i];

        if ((c < ' ' && c != '\t') || c == 0x7f)
            return parse_refuse(p, p->rest.at + i, "a control character (0x%02x)", c);
    }
    return 0;
}

static int parse_lines(struct parse *p, const char *text, size_t len)
{
    for (p->line = 0; len > 0;) {
        const char *newline = memchr(text, '\n', len);
        size_t line_len = newline != NULL ? (size_t)(newline - text) : len;
        int error;

        p->line++;
        p->line_start = text;
        p->rest = (struct span){text, line_len};
        if (p->line > SCRIPT_LINES_MAX)
            return parse_refuse(p, text, "a script has at most %u lines", SCRIPT_LINES_MAX);
        error = check_characters(p);
        if (error == 0)
            error = parse_line(p);
        if (error != 0)
            return error;
        line_len += newline != NULL;
        text += line_len;
        len -= line_len;
    }
    return 0;
}

/* What every script has. */
static int check_whole(struct parse *p)
{
    const struct script *s = p->script;

    if (p->line == 0)
        p->line = 1;
    if (s->title[0] == '\0')
        return parse_refuse(p, p->line_start, "a title line is missing: what the script shows");
    if (s->rule_count == 0)
        return parse_refuse(p, p->line_start, "a rule line is missing: where that is written");
    if (!p->acts)
        return parse_refuse(p, p->line_start, "the script does nothing");
    return 0;
}

static uint32_t count_lines(const char *text, size_t len)
{
    uint32_t count = 1;

    for (size_t i = 0; i < len; i++)
        count += text[i] == '\n';
    return count < SCRIPT_LINES_MAX ? count : SCRIPT_LINES_MAX;
}

int script_parse(const char *path, const char *text, size_t len, struct script *out,
                 char error[SCRIPT_ERROR_SIZE])
{
    static const char *const known[] = {"qpn", "peer_qpn", "rpsn", "spsn", "mtu"};
    struct parse p = {.script = out, .path = path, .line = 1, .line_start = text, .error = error};
    uint32_t index;
    int result = 0;

    error[0] = '\0';
    *out = (struct script){.path = path};
    if (len > SCRIPT_TEXT_MAX)
        return parse_refuse(&p, text, "a script has at most %u bytes", SCRIPT_TEXT_MAX);
    out->statements = calloc(count_lines(text, len), sizeof(*out->statements));
    if (out->statements == NULL) {
        parse_refuse(&p, text, "no memory");
        return -ENOMEM;
    }
    for (unsigned i = 0; i < sizeof(known) / sizeof(known[0]) && result == 0; i++)
        result = variable_add(&p, (struct span){known[i], strlen(known[i])}, "", &index);
    if (result == 0)
        result = parse_lines(&p, text, len);
    if (result == 0)
        result = check_whole(&p);
    if (result != 0)
        script_free(out);
    return result;
}

void script_free(struct script *s)
{
    free(s->statements);
    s->statements = NULL;
    s->statement_count = 0;
}
