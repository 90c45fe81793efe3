/* SPDX-License-Identifier: BSD-2-Clause */
#include "pcap/selection.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "wire/aeth.h"

static int parse_qpns(struct selection *s, const char *value)
{
    const char *at = value;

    for (s->qpn_count = 0; s->qpn_count < SELECTION_VALUES_MAX;) {
        char *end;
        unsigned long qpn = strtoul(at, &end, 0);

        if (end == at || qpn > 0xffffffu || at[0] == '-')
            return -EINVAL;
        s->qpns[s->qpn_count++] = (uint32_t)qpn;
        if (*end == '\0')
            return 0;
        if (*end != '+')
            return -EINVAL;
        at = end + 1;
    }
    return -EINVAL;
}

/* As it is named, or without the service in front. */
static bool names(const char *pattern, const char *name)
{
    const char *behind = strchr(name, '_');

    return fnmatch(pattern, name, FNM_CASEFOLD) == 0 ||
           (behind != NULL && fnmatch(pattern, behind + 1, FNM_CASEFOLD) == 0);
}

/* A pattern of no opcode would show nothing, as if nothing were there. */
static bool is_of_some_opcode(const char *pattern)
{
    for (unsigned opcode = 0; opcode <= UINT8_MAX; opcode++)
        if (names(pattern, opcode_name((uint8_t)opcode)))
            return true;
    return false;
}

static int parse_opcodes(struct selection *s, const char *value)
{
    const char *at = value;

    for (s->opcode_count = 0; s->opcode_count < SELECTION_VALUES_MAX;) {
        size_t len = strcspn(at, "+");

        if (len == 0 || len >= SELECTION_PATTERN_SIZE)
            return -EINVAL;
        memcpy(s->opcodes[s->opcode_count], at, len);
        s->opcodes[s->opcode_count][len] = '\0';
        if (!is_of_some_opcode(s->opcodes[s->opcode_count]))
            return -EINVAL;
        s->opcode_count++;
        if (at[len] == '\0')
            return 0;
        at += len + 1;
    }
    return -EINVAL;
}

/* "5", "5-9". */
static int parse_range(const char *value, double *first, double *last)
{
    char *end;

    *first = *last = strtod(value, &end);
    if (end != value && *end == '-') {
        value = end + 1;
        *last = strtod(value, &end);
    }
    return end == value || *end != '\0' || !(*first >= 0) || !(*last >= *first) || *last > 1e15
               ? -EINVAL
               : 0;
}

static int parse_psn(struct selection *s, const char *value)
{
    double first;
    double last;

    if (parse_range(value, &first, &last) != 0 || last > PSN_MASK)
        return -EINVAL;
    s->has_psn = true;
    s->psn_first = (uint32_t)first;
    s->psn_last = (uint32_t)last;
    return 0;
}

static int parse_frame(struct selection *s, const char *value)
{
    double first;
    double last;

    if (parse_range(value, &first, &last) != 0)
        return -EINVAL;
    s->has_frame = true;
    s->frame_first = (uint64_t)first;
    s->frame_last = (uint64_t)last;
    return 0;
}

static int parse_time(struct selection *s, const char *value)
{
    s->has_time = true;
    return parse_range(value, &s->time_first, &s->time_last);
}

static const struct {
    const char *name;
    int (*parse)(struct selection *s, const char *value);
    const char *example;
} valued[] = {
    {"qp=", parse_qpns, "qp=0x11 or qp=17+18"},
    {"qpn=", parse_qpns, "qpn=0x11 or qpn=17+18"},
    {"opcode=", parse_opcodes, "opcode=RC_WRITE_*+ACK, as --packets names them"},
    {"psn=", parse_psn, "psn=100 or psn=100-200"},
    {"frame=", parse_frame, "frame=100 or frame=100-200"},
    {"time=", parse_time, "time=0.5-0.7 (seconds)"},
};

static const struct {
    const char *name;
    size_t offset;
} flags[] = {
    {"nak", offsetof(struct selection, nak)}, {"rnr", offsetof(struct selection, rnr)},
    {"ce", offsetof(struct selection, ce)},   {"cnp", offsetof(struct selection, cnp)},
    {"bad", offsetof(struct selection, bad)}, {"repeat", offsetof(struct selection, repeat)},
};

/* 1: it is a term of ours, and was taken; 0: it is none; -EINVAL: it is one, and wrong. */
static int take_term(struct selection *s, const char *term, char *error, size_t error_size)
{
    for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        if (strcmp(term, flags[i].name) == 0) {
            memcpy((char *)s + flags[i].offset, &(bool){true}, sizeof(bool));
            return 1;
        }
    }
    for (size_t i = 0; i < sizeof(valued) / sizeof(valued[0]); i++) {
        size_t len = strlen(valued[i].name);

        if (strncmp(term, valued[i].name, len) != 0)
            continue;
        if (valued[i].parse(s, term + len) == 0)
            return 1;
        snprintf(error, error_size, "'%s' should be like %s", term, valued[i].example);
        return -EINVAL;
    }
    return 0;
}

/* Length of what stands before the next "and" or "&&" outside brackets; *skip: that word's. */
static size_t part_len(const char *text, size_t *skip)
{
    int depth = 0;

    for (size_t i = 0; text[i] != '\0'; i++) {
        depth += (text[i] == '(') - (text[i] == ')');
        if (depth != 0 || i == 0 || (text[i - 1] != ' ' && text[i - 1] != ')'))
            continue;
        *skip = strncmp(text + i, "and ", 4) == 0 ? 4 : strncmp(text + i, "&&", 2) == 0 ? 2 : 0;
        if (*skip != 0)
            return i;
    }
    *skip = 0;
    return strlen(text);
}

int selection_parse(struct selection *s, const char *text, char *rest, size_t size, char *error,
                    size_t error_size)
{
    size_t used = 0;

    rest[0] = '\0';
    while (*text != '\0') {
        char term[256];
        size_t skip;
        size_t len = part_len(text, &skip);
        size_t begin = strspn(text, " ");
        size_t end = len;
        int taken = 0;

        while (end > begin && text[end - 1] == ' ')
            end--;
        if (end > begin && end - begin < sizeof(term)) {
            memcpy(term, text + begin, end - begin);
            term[end - begin] = '\0';
            taken = take_term(s, term, error, error_size);
            if (taken < 0)
                return taken;
        }
        if (taken == 0 && end > begin)
            used += (size_t)snprintf(rest + used, size - used, "%s%.*s", used != 0 ? " and " : "",
                                     (int)(end - begin), text + begin);
        if (used >= size)
            return -EINVAL;
        text += len + skip;
    }
    return 0;
}

static bool has_qpn(const struct selection *s, uint32_t qpn)
{
    for (uint32_t i = 0; i < s->qpn_count; i++) {
        if (s->qpns[i] == qpn)
            return true;
    }
    return s->qpn_count == 0;
}

bool selection_has_flow(const struct selection *s, const struct flow *flow)
{
    uint32_t source;

    return has_qpn(s, flow->key.dest_qpn) || (flow_source(flow, &source) && has_qpn(s, source));
}

static bool has_opcode(const struct selection *s, const struct frame *f)
{
    const char *name = opcode_name(f->packet.h.bth.opcode);

    if (s->opcode_count == 0)
        return true;
    for (uint32_t i = 0; f->has_bth && i < s->opcode_count; i++) {
        if (names(s->opcodes[i], name))
            return true;
    }
    return false;
}

static bool has_range(const struct selection *s, const struct frame *f)
{
    double seconds = (double)f->elapsed_ns / 1e9;
    uint32_t psn = f->packet.h.bth.psn.value;

    if (s->has_frame && (f->number < s->frame_first || f->number > s->frame_last))
        return false;
    if (s->has_time && (seconds < s->time_first || seconds > s->time_last))
        return false;
    return !s->has_psn || (f->has_bth && psn >= s->psn_first && psn <= s->psn_last);
}

static bool has_kind(const struct selection *s, const struct frame *f, bool repeat)
{
    bool whole = f->verdict == FRAME_PACKET;
    bool has_aeth = whole && (f->packet.operation->headers & HEADER_AETH) != 0;
    enum aeth_kind kind = has_aeth ? aeth_kind(f->packet.h.aeth.syndrome) : AETH_ACK;

    if (s->nak && kind != AETH_NAK && kind != AETH_RNR_NAK)
        return false;
    if (s->rnr && kind != AETH_RNR_NAK)
        return false;
    if (s->ce && (f->datagram.traffic_class & 3u) != 3u)
        return false;
    if (s->cnp && !(whole && f->packet.operation->kind == KIND_CNP))
        return false;
    if (s->bad && whole && f->icrc != FRAME_ICRC_BAD)
        return false;
    return repeat || !s->repeat;
}

bool selection_has_frame(const struct selection *s, const struct frame *f, const struct flow *flow,
                         bool repeat)
{
    bool connection =
        flow != NULL ? selection_has_flow(s, flow)
                     : s->qpn_count == 0 || (f->has_bth && has_qpn(s, f->packet.h.bth.dest_qpn));

    return connection && has_range(s, f) && has_opcode(s, f) && has_kind(s, f, repeat);
}
