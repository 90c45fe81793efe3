/* SPDX-License-Identifier: BSD-2-Clause */
/* Draws the ladder diagram: see ladder.h. */
#include "sim/ladder.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "wire/aeth.h"

#define LANE_WIDTH 84

static struct rung *next_rung(struct ladder *l, uint64_t at_ns)
{
    struct rung *r = &l->rungs[l->count++ % LADDER_RUNGS];

    r->at_ns = at_ns;
    return r;
}

struct rung *ladder_packet(struct ladder *l, uint64_t at_ns, const struct packet *p)
{
    struct rung *r = next_rung(l, at_ns);

    r->h = p->h;
    r->payload_len = p->payload_len;
    r->note[0] = '\0';
    return r;
}

void ladder_note(struct ladder *l, uint64_t at_ns, uint32_t host, const char *format, ...)
{
    struct rung *r = next_rung(l, at_ns);
    va_list ap;

    r->from = (uint8_t)host;
    r->to = (uint8_t)host;
    va_start(ap, format);
    vsnprintf(r->note, sizeof(r->note), format, ap);
    va_end(ap);
    ladder_show_live(l);
}

struct text {
    char *out;
    size_t size;
    size_t len;
};

__attribute__((format(printf, 2, 3))) static void add(struct text *t, const char *format, ...)
{
    va_list ap;
    int n;

    va_start(ap, format);
    n = vsnprintf(t->out + t->len, t->size - t->len, format, ap);
    va_end(ap);
    if (n > 0)
        t->len += (size_t)n < t->size - t->len ? (size_t)n : t->size - t->len - 1;
}

static void describe(const struct rung *r, struct text *t)
{
    unsigned headers = opcode_headers(r->h.bth.opcode);

    add(t, "%06x %s psn %u", r->h.bth.dest_qpn, opcode_name(r->h.bth.opcode), r->h.bth.psn.value);
    if (r->payload_len > 0)
        add(t, " %u B", r->payload_len);
    if (headers & HEADER_RETH)
        add(t, " [len %u]", r->h.reth.dma_len);
    if (headers & HEADER_IMM)
        add(t, " imm");
    if (headers & HEADER_AETH)
        add(t, " msn %u %s %u", r->h.aeth.msn.value, aeth_name(r->h.aeth.syndrome),
            aeth_value(r->h.aeth.syndrome));
    if (r->h.bth.solicited)
        add(t, " SE");
    if (r->h.bth.ack_req)
        add(t, " A");
}

static const char *fate_name(enum fate fate)
{
    static const char *const names[] = {
#define FATE_NAME(name, text) text,
        FATES(FATE_NAME)
#undef FATE_NAME
    };

    return names[fate];
}

static bool arrives(enum fate fate)
{
    return fate != FATE_LOST && fate != FATE_REFUSED && fate != FATE_CUT;
}

static void print_packet(const struct rung *r)
{
    static const char dashes[] =
        "--------------------------------------------------------------------"
        "--------------------------------";
    bool rightward = r->from < r->to || r->from == r->to;
    char line[LANE_WIDTH + 64];
    struct text t = {.out = line, .size = sizeof(line)};
    int fill;

    describe(r, &t);
    fill = (int)t.len < LANE_WIDTH - 6 ? LANE_WIDTH - 6 - (int)t.len : 1;
    printf("%12.3f  %u |", (double)r->at_ns / 1000, rightward ? r->from : r->to);
    if (rightward && arrives(r->fate))
        printf("- %s %.*s>| %u", line, fill, dashes, r->to);
    else if (rightward)
        printf("- %s %.*sx  | %u", line, fill > 3 ? fill - 2 : 1, dashes, r->to);
    else if (arrives(r->fate))
        printf("<%.*s %s -| %u", fill, dashes, line, r->from);
    else
        printf("  x%.*s %s -| %u", fill > 3 ? fill - 2 : 1, dashes, line, r->from);
    if (arrives(r->fate))
        printf("  +%.3f us", (double)r->travel_ns / 1000);
    printf("%s%s\n", r->fate == FATE_DELIVERED ? "" : "  ", fate_name(r->fate));
}

static void print_rung(const struct rung *r)
{
    if (r->note[0] == '\0')
        print_packet(r);
    else
        printf("%12.3f  %u * %s\n", (double)r->at_ns / 1000, r->from, r->note);
}

void ladder_show_live(const struct ladder *l)
{
    if (l->live)
        print_rung(&l->rungs[(l->count - 1) % LADDER_RUNGS]);
}

void ladder_print(const struct ladder *l, uint32_t count)
{
    uint32_t kept = l->count < LADDER_RUNGS ? l->count : LADDER_RUNGS;
    uint32_t i;

    count = count < kept ? count : kept;
    printf("%12s  the last %u steps; from | packet ... | to, time of travel, fate\n", "us", count);
    for (i = l->count - count; i != l->count; i++)
        print_rung(&l->rungs[i % LADDER_RUNGS]);
}
