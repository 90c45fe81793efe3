/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tables show what is there: a count of nothing is a dash, and lines that
 * would say only "none" are left out.
 */
#include "pcap/summary.h"

#include <inttypes.h>
#include <string.h>

#include "pcap/print.h"

void summary_init(struct summary *s, uint32_t flows_max, const uint64_t hash_key[2])
{
    memset(s, 0, sizeof(*s));
    flow_table_init(&s->flows, flows_max, hash_key);
}

void summary_fini(struct summary *s)
{
    flow_table_fini(&s->flows);
}

int summary_add(struct summary *s, const struct frame *f, struct flow **out)
{
    uint8_t opcode = f->packet.h.bth.opcode;

    *out = NULL;
    if (f->segment_index == 0)
        s->frames++;
    if (f->elapsed_ns > s->last_ns)
        s->last_ns = f->elapsed_ns;
    s->verdicts[f->verdict]++;
    s->icrcs[f->icrc]++;
    if (f->verdict == FRAME_MALFORMED)
        s->drops[f->drop]++;
    if (f->verdict != FRAME_PACKET)
        return 0;
    s->opcodes[opcode].packets++;
    s->opcodes[opcode].payload_bytes += f->packet.payload_len;
    return flow_table_add(&s->flows, f, out);
}

static uint64_t kind_count(const struct summary *s, enum frame_kind kind)
{
    uint64_t count = 0;

    for (unsigned v = 0; v < FRAME_VERDICT_COUNT; v++) {
        if (frame_kind((enum frame_verdict)v) == kind)
            count += s->verdicts[v];
    }
    return count;
}

uint64_t summary_bad_count(const struct summary *s)
{
    return kind_count(s, FRAME_KIND_DAMAGED) + s->icrcs[FRAME_ICRC_BAD];
}

static void print_count(FILE *out, int width, uint64_t count)
{
    if (count == 0)
        fprintf(out, " %*s", width, "-");
    else
        fprintf(out, " %*" PRIu64, width, count);
}

/* One line for each reason that frames were not decoded whole. */
static void print_reasons(const struct summary *s, FILE *out)
{
    for (unsigned v = FRAME_PACKET + 1; v < FRAME_VERDICT_COUNT; v++) {
        struct frame example = {.verdict = (enum frame_verdict)v};

        if (v != FRAME_MALFORMED && s->verdicts[v] != 0)
            fprintf(out, "%9" PRIu64 "  %s\n", s->verdicts[v], frame_text(&example));
    }
    for (unsigned d = 0; d < DROP_COUNT; d++) {
        if (s->drops[d] != 0)
            fprintf(out, "%9" PRIu64 "  %s\n", s->drops[d], drop_text((enum drop)d));
    }
}

static void print_opcodes(const struct summary *s, FILE *out)
{
    if (s->verdicts[FRAME_PACKET] == 0)
        return;
    fprintf(out, "\n%-20s %9s %13s\n", "opcode", "packets", "bytes");
    for (unsigned opcode = 0; opcode < 256; opcode++) {
        if (s->opcodes[opcode].packets == 0)
            continue;
        fprintf(out, "%-20s", opcode_name((uint8_t)opcode));
        print_count(out, 9, s->opcodes[opcode].packets);
        print_count(out, 13, s->opcodes[opcode].payload_bytes);
        fputc('\n', out);
    }
}

static const struct {
    const char *name;
    int width;
    size_t offset; /* in struct flow_counts */
} columns[] = {
    {"packets", 9, offsetof(struct flow_counts, packets)},
    {"bytes", 12, offsetof(struct flow_counts, payload_bytes)},
    {"NAK", 6, offsetof(struct flow_counts, naks)},
    {"RNR", 6, offsetof(struct flow_counts, rnr_naks)},
    {"repeats", 7, offsetof(struct flow_counts, repeats)},
    {"CE", 6, offsetof(struct flow_counts, ce_marks)},
    {"CNP", 6, offsetof(struct flow_counts, cnps)},
    {"bad ICRC", 8, offsetof(struct flow_counts, icrc_bad)},
};
#define COLUMN_COUNT (sizeof(columns) / sizeof(columns[0]))

static uint64_t column_value(const struct flow_counts *counts, size_t column)
{
    uint64_t value;

    memcpy(&value, (const uint8_t *)counts + columns[column].offset, sizeof(value));
    return value;
}

static void print_counts(FILE *out, const struct flow_counts *counts)
{
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        print_count(out, columns[i].width, column_value(counts, i));
    fputc('\n', out);
}

static void print_flow(FILE *out, struct flow *flow, const char *label, int width)
{
    fprintf(out, "%-4s %-*s", label, width, flow_text(flow).text);
    print_counts(out, &flow->counts);
    flow->printed = true;
}

static int flow_table_width(const struct flow_table *t)
{
    int width = 0;

    for (const struct flow *flow = t->flows; flow != NULL; flow = flow->hh.next) {
        int len = (int)strlen(flow_text(flow).text);

        if (len > width)
            width = len;
    }
    return width;
}

/* Both directions of a connection stand together, the one that was seen first above. */
static void print_flows(struct flow_table *t, FILE *out)
{
    int width = flow_table_width(t);

    if (t->count == 0)
        return;
    fprintf(out, "\n%-4s %-*s", "", width, "connection");
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        fprintf(out, " %*s", columns[i].width, columns[i].name);
    fputc('\n', out);
    for (struct flow *flow = t->flows; flow != NULL; flow = flow->hh.next)
        flow->printed = false;
    for (struct flow *flow = t->flows; flow != NULL; flow = flow->hh.next) {
        if (flow->printed)
            continue;
        print_flow(out, flow, service_name(flow->service), width);
        if (flow->peer != NULL && flow->peer != flow)
            print_flow(out, flow->peer, "", width);
    }
    if (t->overflow.packets != 0) {
        fprintf(out, "%-4s %-*s", "", width, "all others");
        print_counts(out, &t->overflow);
        fprintf(out, "only the first %u flows are listed; see --flows\n", t->count_max);
    }
}

void summary_print(struct summary *s, FILE *out)
{
    uint64_t packets = kind_count(s, FRAME_KIND_ROCE);

    fprintf(out,
            "%" PRIu64 " frames in %.6f s: %" PRIu64 " RoCE packets, %" PRIu64 " damaged, %" PRIu64
            " snapped, %" PRIu64 " foreign\n",
            s->frames, (double)s->last_ns / 1e9, packets, kind_count(s, FRAME_KIND_DAMAGED),
            kind_count(s, FRAME_KIND_SNAPPED), kind_count(s, FRAME_KIND_FOREIGN));
    print_reasons(s, out);
    fprintf(out, "ICRC: %" PRIu64 " ok, %" PRIu64 " bad", s->icrcs[FRAME_ICRC_GOOD],
            s->icrcs[FRAME_ICRC_BAD]);
    if (s->icrcs[FRAME_ICRC_UNSET] != 0)
        fprintf(out, ", %" PRIu64 " unset", s->icrcs[FRAME_ICRC_UNSET]);
    if (s->icrcs[FRAME_ICRC_ABSENT] != 0)
        fprintf(out, ", %" PRIu64 " not captured", s->icrcs[FRAME_ICRC_ABSENT]);
    fputc('\n', out);
    print_opcodes(s, out);
    print_flows(&s->flows, out);
}

static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *counts_json(const struct flow_counts *c)
{
    return json_pack("{so, so, so, so, so, so, so, so}", "packets", number(c->packets),
                     "payload_bytes", number(c->payload_bytes), "naks", number(c->naks), "rnr_naks",
                     number(c->rnr_naks), "repeats", number(c->repeats), "ce_marks",
                     number(c->ce_marks), "cnps", number(c->cnps), "icrc_bad", number(c->icrc_bad));
}

static json_t *flow_json(const struct flow *flow)
{
    struct gid_text src = gid_text(&flow->key.src);
    struct gid_text dst = gid_text(&flow->key.dst);
    json_t *object = json_pack("{ss, ss, ss, so}", "service", service_name(flow->service), "src",
                               src.text, "dst", dst.text, "dest_qpn", number(flow->key.dest_qpn));
    uint32_t qpn;

    if (flow_source(flow, &qpn))
        json_object_set_new(object, "src_qpn", number(qpn));
    json_object_update_new(object, counts_json(&flow->counts));
    return object;
}

static json_t *opcodes_json(const struct summary *s)
{
    json_t *object = json_object();

    for (unsigned opcode = 0; opcode < 256; opcode++) {
        if (s->opcodes[opcode].packets == 0)
            continue;
        json_object_set_new(object, opcode_name((uint8_t)opcode),
                            json_pack("{so, so}", "packets", number(s->opcodes[opcode].packets),
                                      "payload_bytes", number(s->opcodes[opcode].payload_bytes)));
    }
    return object;
}

json_t *summary_to_json(struct summary *s)
{
    json_t *verdicts = json_object();
    json_t *drops = json_object();
    json_t *icrcs = json_object();
    json_t *flows = json_array();

    for (unsigned v = 0; v < FRAME_VERDICT_COUNT; v++) {
        if (s->verdicts[v] != 0)
            json_object_set_new(verdicts, frame_verdict_name((enum frame_verdict)v),
                                number(s->verdicts[v]));
    }
    for (unsigned d = 0; d < DROP_COUNT; d++) {
        if (s->drops[d] != 0)
            json_object_set_new(drops, drop_name((enum drop)d), number(s->drops[d]));
    }
    for (unsigned i = 0; i < FRAME_ICRC_COUNT; i++) {
        if (s->icrcs[i] != 0)
            json_object_set_new(icrcs, frame_icrc_name((enum frame_icrc)i), number(s->icrcs[i]));
    }
    for (const struct flow *flow = s->flows.flows; flow != NULL; flow = flow->hh.next)
        json_array_append_new(flows, flow_json(flow));
    return json_pack("{s{so, so, so, so, so, so, so, so}}", "summary", "frames", number(s->frames),
                     "duration_ns", json_integer(s->last_ns), "verdicts", verdicts, "drops", drops,
                     "icrc", icrcs, "opcodes", opcodes_json(s), "flows", flows, "flows_overflow",
                     counts_json(&s->flows.overflow));
}
