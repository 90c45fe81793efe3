/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The words of the grammar are two tables, of actions and of conditions; a condition is
 * a field of struct fault_rule and the way to read it. Numbers are read here
 * and not by strtod, which would obey the program's locale.
 */
#include "link/fault_rule.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "wire/aeth.h"
#include "wire/opcode.h"

#define QPN_MAX 0xffffffu
#define REORDER_BY_DEFAULT 3u
#define DURATION_MAX_NS UINT64_C(3600000000000)
#define WORD_SIZE 64u
#define ALL_SYNDROMES 0xfu

/* A piece of the text. */
struct span {
    const char *at;
    size_t len;
};

struct parse {
    struct fault_plan *plan;
    struct fault_rule *rule; /* the one being read */
    struct span rule_text;
    uint32_t number; /* of the rule, from 1; seed=N counts too */
    char *error;
};

enum value_kind {
    VALUE_NONE,
    VALUE_CHANCE,
    VALUE_DURATION,
    VALUE_NUMBER,
    VALUE_SEED,
    VALUE_DIRECTION,
    VALUE_OPCODES,
    VALUE_QP,
    VALUE_SCOPE,
};

#define OPCODES_TEXT                                                                               \
    "opcodes as `uroce pcap` prints them, * for anything, + for more: ACK+NAK or RC_WRITE_*"

static const char *const value_texts[] = {
    [VALUE_NONE] = "nothing",
    [VALUE_CHANCE] = "a percentage such as 0.1%",
    [VALUE_DURATION] = "a time up to an hour with its unit, such as 100us, 1.5ms or 2s",
    [VALUE_NUMBER] = "a number from 1 to 4294967295",
    [VALUE_SEED] = "a number from 0 to 18446744073709551615",
    [VALUE_DIRECTION] = "in, out or both",
    [VALUE_OPCODES] = OPCODES_TEXT,
    [VALUE_QP] = "a QPN such as 0x010011, or #2 for the second queue pair to appear",
    [VALUE_SCOPE] = "rule, qp or message",
};

#define ANY_ACTION ((1u << FAULT_ACTION_COUNT) - 1u)
#define AT(field) offsetof(struct fault_rule, field)

/* A word, what stands behind its '=', and the field that this is read into. */
struct word {
    const char *name;
    enum value_kind value;
    bool needed; /* it makes no sense without a value */
    size_t offset;
    unsigned actions; /* that a condition goes with: bit per enum fault_action */
};

/* clang-format off */
static const struct word actions[FAULT_ACTION_COUNT] = {
    [FAULT_DROP]    = {"drop",    VALUE_CHANCE,   false, AT(chance),   0},
    [FAULT_CUT]     = {"cut",     VALUE_NONE,     false, 0,            0},
    [FAULT_DUP]     = {"dup",     VALUE_CHANCE,   false, AT(chance),   0},
    [FAULT_REORDER] = {"reorder", VALUE_CHANCE,   false, AT(chance),   0},
    [FAULT_CORRUPT] = {"corrupt", VALUE_CHANCE,   false, AT(chance),   0},
    [FAULT_DELAY]   = {"delay",   VALUE_DURATION, true,  AT(delay_ns), 0},
    [FAULT_MARK]    = {"mark",    VALUE_CHANCE,   false, AT(chance),   0},
};

static const struct word conditions[] = {
    {"dir",    VALUE_DIRECTION, true, AT(directions), ANY_ACTION},
    {"op",     VALUE_OPCODES,   true, AT(opcodes),    ANY_ACTION},
    {"qp",     VALUE_QP,        true, AT(qpn),        ANY_ACTION},
    {"from",   VALUE_DURATION,  true, AT(from_ns),    ANY_ACTION},
    {"to",     VALUE_DURATION,  true, AT(to_ns),      ANY_ACTION},
    {"per",    VALUE_SCOPE,     true, AT(per),        ANY_ACTION},
    {"nth",    VALUE_NUMBER,    true, AT(nth),        ANY_ACTION},
    {"every",  VALUE_NUMBER,    true, AT(every),      ANY_ACTION},
    {"count",  VALUE_NUMBER,    true, AT(count),      ANY_ACTION},
    {"chance", VALUE_CHANCE,    true, AT(chance),     ANY_ACTION},
    {"by",     VALUE_NUMBER,    true, AT(by),         1u << FAULT_REORDER},
    {"jitter", VALUE_DURATION,  true, AT(jitter_ns),  1u << FAULT_DELAY},
};
/* clang-format on */

#define CONDITION_COUNT (sizeof(conditions) / sizeof(conditions[0]))
#define LIST_SIZE 128u

/* "drop, cut, dup": the names of a table. */
static const char *list_names(const struct word *words, size_t count, char out[LIST_SIZE])
{
    size_t len = 0;

    for (size_t i = 0; i < count && len < LIST_SIZE; i++)
        len += (size_t)snprintf(out + len, LIST_SIZE - len, i == 0 ? "%s" : ", %s", words[i].name);
    return out;
}

/* --- errors --- */

/* For %.*s: at most so much of a word as a message has room for. */
#define QUOTED(span) (int)((span).len < WORD_SIZE ? (span).len : WORD_SIZE), (span).at

/* Says what is wrong at this place of the text, and returns -EINVAL. */
__attribute__((format(printf, 3, 4))) static int refuse(const struct parse *p, const char *at,
                                                        const char *format, ...)
{
    int len =
        snprintf(p->error, FAULT_ERROR_SIZE, "fault rule %u, '%.*s', at character %zu: ", p->number,
                 QUOTED(p->rule_text), (size_t)(at - p->plan->text) + 1);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(p->error + len, FAULT_ERROR_SIZE - (size_t)len, format, arguments);
    va_end(arguments);
    return -EINVAL;
}

/* --- words --- */

/* Cuts off and returns what stands before the first separator; *s is what stands behind it, and has
 * no address when there was none. */
static struct span cut(struct span *s, char separator)
{
    const char *found = memchr(s->at, separator, s->len);
    struct span head = *s;

    if (found == NULL) {
        *s = (struct span){0};
        return head;
    }
    head.len = (size_t)(found - s->at);
    s->at = found + 1;
    s->len -= head.len + 1;
    return head;
}

static struct span trim(struct span s)
{
    for (; s.len > 0 && (s.at[0] == ' ' || s.at[0] == '\t'); s.at++)
        s.len--;
    while (s.len > 0 && (s.at[s.len - 1] == ' ' || s.at[s.len - 1] == '\t'))
        s.len--;
    return s;
}

static bool is(struct span s, const char *word)
{
    return strlen(word) == s.len && strncasecmp(s.at, word, s.len) == 0;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/*
 * Reads a decimal number with or without a fraction, times scale (a power of ten), and
 * takes it off *s. False when there is none, it is not whole then, or it is too large.
 */
static bool take_decimal(struct span *s, uint64_t scale, uint64_t *out)
{
    uint64_t value = 0;
    bool fraction = false;

    if (s->len == 0 || !is_digit(s->at[0]))
        return false;
    for (; s->len > 0 && (is_digit(s->at[0]) || (s->at[0] == '.' && !fraction));
         s->at++, s->len--) {
        if (s->at[0] == '.') {
            fraction = true;
            continue;
        }
        if (fraction && scale % 10 != 0)
            return false;
        if (fraction)
            scale /= 10;
        if (value > (UINT64_MAX - 9) / 10)
            return false;
        value = value * 10 + (uint64_t)(s->at[0] - '0');
    }
    if (value != 0 && scale > UINT64_MAX / value)
        return false;
    *out = value * scale;
    return true;
}

static bool read_hex(struct span s, uint64_t *out)
{
    static const char digits[] = "0123456789abcdef";
    uint64_t value = 0;

    if (s.len < 3 || s.len > 18 || s.at[0] != '0' || (s.at[1] | 0x20) != 'x')
        return false;
    for (size_t i = 2; i < s.len; i++) {
        const char *digit = memchr(digits, s.at[i] | 0x20, sizeof(digits) - 1);

        if (digit == NULL)
            return false;
        value = value << 4 | (uint64_t)(digit - digits);
    }
    *out = value;
    return true;
}

/* --- values --- */

static bool read_number(struct span s, uint64_t min, uint64_t max, uint64_t *out)
{
    uint64_t value;

    if (!read_hex(s, &value)) {
        /* strtoull would do, but for signs and blanks. */
        if (!take_decimal(&s, 1, &value) || s.len != 0)
            return false;
    }
    if (value < min || value > max)
        return false;
    *out = value;
    return true;
}

static bool read_chance(struct span s, uint64_t *out)
{
    uint64_t value;

    if (!take_decimal(&s, FAULT_CHANCE_ONE / 100, &value) || !is(s, "%") ||
        value > FAULT_CHANCE_ONE)
        return false;
    *out = value;
    return true;
}

static bool read_duration(struct span s, uint64_t *out)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};

    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        struct span rest = s;
        uint64_t value;

        if (take_decimal(&rest, units[i].ns, &value) && is(rest, units[i].name)) {
            *out = value;
            return value <= DURATION_MAX_NS;
        }
    }
    return false;
}

static bool read_direction(struct span s, struct fault_rule *rule)
{
    static const struct {
        const char *name;
        uint8_t directions;
    } words[] = {{"in", 1u << FAULT_IN},
                 {"out", 1u << FAULT_OUT},
                 {"both", 1u << FAULT_IN | 1u << FAULT_OUT}};

    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (is(s, words[i].name)) {
            rule->directions = words[i].directions;
            return true;
        }
    }
    return false;
}

static bool read_scope(struct span s, struct fault_rule *rule)
{
    static const char *const words[] = {
        [FAULT_PER_RULE] = "rule", [FAULT_PER_QP] = "qp", [FAULT_PER_MESSAGE] = "message"};

    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        if (is(s, words[i])) {
            rule->per = (enum fault_scope)i;
            return true;
        }
    }
    return false;
}

static bool read_qp(struct span s, struct fault_rule *rule)
{
    uint64_t qpn;

    if (s.len > 1 && s.at[0] == '#') {
        s.at++;
        s.len--;
        return read_number(s, 1, UINT32_MAX, &rule->qp_ordinal);
    }
    if (!read_number(s, 0, QPN_MAX, &qpn))
        return false;
    rule->qpn = (uint32_t)qpn;
    return true;
}

/* The words for what the opcode alone does not tell: which kind of acknowledgement. */
static const struct {
    const char *name;
    uint8_t syndrome;
} acknowledgements[] = {
    {"ACK", 1u << AETH_ACK}, {"NAK", 1u << AETH_NAK}, {"RNR_NAK", 1u << AETH_RNR_NAK}};

static bool add_opcodes(struct fault_rule *rule, const char *pattern)
{
    bool any = false;

    for (unsigned opcode = 0; opcode <= UINT8_MAX; opcode++) {
        const struct operation *o = opcode_operation((uint8_t)opcode);

        if (o == NULL || (fnmatch(pattern, o->name, FNM_CASEFOLD) != 0 &&
                          fnmatch(pattern, opcode_name((uint8_t)opcode), FNM_CASEFOLD) != 0))
            continue;
        rule->opcodes[opcode / 8] |= (uint8_t)(1u << opcode % 8);
        if (o->kind == KIND_ACK)
            rule->syndromes = ALL_SYNDROMES;
        any = true;
    }
    return any;
}

static bool add_operation(struct fault_rule *rule, struct span s)
{
    char pattern[WORD_SIZE];
    char *spelled_out;

    if (s.len == 0 || s.len >= sizeof(pattern))
        return false;
    for (size_t i = 0; i < sizeof(acknowledgements) / sizeof(acknowledgements[0]); i++) {
        if (is(s, acknowledgements[i].name)) {
            uint8_t syndromes = rule->syndromes | acknowledgements[i].syndrome;

            add_opcodes(rule, "ACK");
            rule->syndromes = syndromes;
            return true;
        }
    }
    memcpy(pattern, s.at, s.len);
    pattern[s.len] = '\0';
    /* As other tools have it. */
    spelled_out = strcasestr(pattern, "_RESPONSE");
    if (spelled_out != NULL)
        memmove(spelled_out + strlen("_RESP"), spelled_out + strlen("_RESPONSE"),
                strlen(spelled_out + strlen("_RESPONSE")) + 1);
    return add_opcodes(rule, pattern);
}

static bool read_opcodes(struct span s, struct fault_rule *rule)
{
    memset(rule->opcodes, 0, sizeof(rule->opcodes));
    rule->syndromes = 0;
    while (s.at != NULL) {
        if (!add_operation(rule, cut(&s, '+')))
            return false;
    }
    return true;
}

static bool read_value(enum value_kind kind, struct span s, struct fault_rule *rule, size_t offset)
{
    uint64_t *number = (uint64_t *)(void *)((char *)rule + offset);

    switch (kind) {
    case VALUE_NONE:
        return false;
    case VALUE_CHANCE:
        return read_chance(s, number);
    case VALUE_DURATION:
        return read_duration(s, number);
    case VALUE_NUMBER:
        return read_number(s, 1, UINT32_MAX, number);
    case VALUE_SEED:
        return read_number(s, 0, UINT64_MAX, number);
    case VALUE_DIRECTION:
        return read_direction(s, rule);
    case VALUE_OPCODES:
        return read_opcodes(s, rule);
    case VALUE_QP:
        return read_qp(s, rule);
    case VALUE_SCOPE:
        return read_scope(s, rule);
    }
    return false;
}

/* --- rules --- */

static int refuse_value(const struct parse *p, struct span name, struct span value,
                        enum value_kind kind)
{
    if (kind == VALUE_NONE)
        return refuse(p, value.at,
                      "%.*s takes no value; it may have conditions, such as "
                      "cut:from=1s:to=2s",
                      QUOTED(name));
    if (value.at == NULL)
        return refuse(p, name.at + name.len, "%.*s needs a value: %s", QUOTED(name),
                      value_texts[kind]);
    return refuse(p, value.at, "'%.*s' should be %s", QUOTED(value), value_texts[kind]);
}

static int parse_condition(struct parse *p, struct span value, unsigned *given)
{
    struct span name = cut(&value, '=');
    char list[LIST_SIZE];

    for (size_t i = 0; i < CONDITION_COUNT; i++) {
        const struct word *c = &conditions[i];

        if (!is(name, c->name))
            continue;
        if ((c->actions & 1u << p->rule->action) == 0)
            return refuse(p, name.at, "%s goes with %s only", c->name,
                          actions[__builtin_ctz(c->actions)].name);
        if ((*given & 1u << i) != 0)
            return refuse(p, name.at, "%s stands twice; once is enough", c->name);
        *given |= 1u << i;
        if (value.at == NULL || !read_value(c->value, value, p->rule, c->offset))
            return refuse_value(p, name, value, c->value);
        return 0;
    }
    return refuse(p, name.at, "'%.*s' is not a condition; it should be one of %s", QUOTED(name),
                  list_names(conditions, CONDITION_COUNT, list));
}

static int parse_seed(struct parse *p, struct span name, struct span value)
{
    uint64_t seed;

    if (p->plan->has_seed)
        return refuse(p, name.at, "seed stands twice; once is enough");
    if (value.at == NULL || !read_number(value, 0, UINT64_MAX, &seed))
        return refuse_value(p, name, value, VALUE_SEED);
    p->plan->seed = seed;
    p->plan->has_seed = true;
    return 0;
}

static int begin_rule(struct parse *p, enum fault_action action)
{
    struct fault_plan *plan = p->plan;

    if (plan->rule_count == FAULT_RULES_MAX)
        return refuse(p, p->rule_text.at, "at most %u rules can be given", FAULT_RULES_MAX);
    p->rule = &plan->rule[plan->rule_count++];
    *p->rule = (struct fault_rule){
        .action = action,
        .directions = action == FAULT_MARK ? 1u << FAULT_IN : 1u << FAULT_IN | 1u << FAULT_OUT,
        .syndromes = ALL_SYNDROMES,
        .qpn = FAULT_QPN_ANY,
        .to_ns = FAULT_NEVER_NS,
        .chance = FAULT_CHANCE_ONE,
        .by = REORDER_BY_DEFAULT,
        .text_at = (uint32_t)(p->rule_text.at - plan->text),
        .text_len = (uint32_t)p->rule_text.len,
    };
    memset(p->rule->opcodes, 0xff, sizeof(p->rule->opcodes));
    return 0;
}

static int parse_conditions(struct parse *p, struct span rest)
{
    unsigned given = 0;
    int err = 0;

    while (rest.at != NULL && err == 0)
        err = parse_condition(p, trim(cut(&rest, ':')), &given);
    if (err == 0 && p->rule->to_ns <= p->rule->from_ns)
        return refuse(p, p->rule_text.at, "to should be later than from");
    return err;
}

static int parse_rule(struct parse *p)
{
    struct span rest = p->rule_text;
    struct span value = trim(cut(&rest, ':'));
    struct span name = cut(&value, '=');
    char list[LIST_SIZE];
    int err;

    if (is(name, "seed") && rest.at == NULL)
        return parse_seed(p, name, value);
    for (unsigned i = 0; i < FAULT_ACTION_COUNT; i++) {
        if (!is(name, actions[i].name))
            continue;
        err = begin_rule(p, (enum fault_action)i);
        if (err != 0)
            return err;
        if (value.at == NULL ? actions[i].needed
                             : !read_value(actions[i].value, value, p->rule, actions[i].offset))
            return refuse_value(p, name, value, actions[i].value);
        return parse_conditions(p, rest);
    }
    return refuse(p, name.at, "'%.*s' is not an action; it should be one of %s, seed", QUOTED(name),
                  list_names(actions, FAULT_ACTION_COUNT, list));
}

int fault_plan_parse(const char *text, struct fault_plan *out, char *error)
{
    struct parse p = {.plan = out, .error = error};
    struct span rest = {out->text, strlen(text)};

    *out = (struct fault_plan){0};
    if (rest.len >= sizeof(out->text)) {
        snprintf(error, FAULT_ERROR_SIZE, "fault rules: %zu characters are too many, at most %u",
                 rest.len, FAULT_TEXT_SIZE - 1);
        return -EINVAL;
    }
    memcpy(out->text, text, rest.len + 1);
    for (size_t i = 0; i < rest.len; i++) {
        if (((unsigned char)text[i] < ' ' && text[i] != '\t') || text[i] == 0x7f) {
            snprintf(error, FAULT_ERROR_SIZE, "fault rules: character %zu is a control character",
                     i + 1);
            return -EINVAL;
        }
    }
    while (rest.at != NULL) {
        int err;

        p.rule_text = trim(cut(&rest, ','));
        p.number++;
        err = parse_rule(&p);
        if (err != 0)
            return err;
    }
    if (out->rule_count == 0) {
        snprintf(error, FAULT_ERROR_SIZE,
                 "fault rules: nothing is asked for but a seed; add a rule "
                 "such as drop=1%%");
        return -EINVAL;
    }
    return 0;
}
