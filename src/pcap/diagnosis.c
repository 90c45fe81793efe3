/* SPDX-License-Identifier: BSD-2-Clause */
#include "pcap/diagnosis.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pcap/connections.h"
#include "pcap/print.h"
#include "pcap/quantity.h"

#define BUSIEST_MAX 5u
#define ROWS_FULL                                                                                  \
    4u /* at length; what is less bad has a line each, so that a screen holds it all */

bool flow_leads(const struct flow *flow)
{
    if (flow->counts.packets == 0)
        return false;
    return flow->peer == NULL || flow->peer->counts.packets == 0 ||
           flow->first_ns < flow->peer->first_ns ||
           (flow->first_ns == flow->peer->first_ns && flow <= flow->peer);
}

static uint64_t weight(const struct finding *f)
{
    return f->lost_ns != 0 ? f->lost_ns + f->count : f->count;
}

static void add_finding(struct diagnosis_row *row, const struct finding *f, const struct flow *flow)
{
    row->count += f->count;
    row->packets += f->packets;
    row->lost_ns += f->lost_ns;
    row->connections += flow != NULL;
    if (row->first == NULL || weight(f) > weight(row->first)) {
        row->first = f;
        row->worst = flow;
    }
}

static void add_list(struct diagnosis_row *rows, const struct finding_list *list,
                     const struct flow *flow)
{
    for (uint32_t i = 0; i < list->count; i++) {
        if (list->items[i].count != 0)
            add_finding(&rows[list->items[i].kind], &list->items[i], flow);
    }
}

static int compare_rows(const void *left, const void *right)
{
    const struct diagnosis_row *a = left;
    const struct diagnosis_row *b = right;

    if (finding_class(a->kind) != finding_class(b->kind))
        return finding_class(a->kind) < finding_class(b->kind) ? -1 : 1;
    if (a->lost_ns != b->lost_ns)
        return a->lost_ns > b->lost_ns ? -1 : 1;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return (int)a->kind - (int)b->kind;
}

void diagnosis_make(struct diagnosis *d, const struct tracker *t, const struct selection *s)
{
    uint32_t kept = 0;

    memset(d, 0, sizeof(*d));
    for (uint32_t kind = 0; kind < FINDING_COUNT; kind++)
        d->rows[kind].kind = (enum finding_kind)kind;
    if (s->qpn_count == 0)
        add_list(d->rows, &t->findings, NULL);
    for (const struct flow *flow = t->summary.flows.flows; flow != NULL; flow = flow->hh.next) {
        if (!selection_has_flow(s, flow))
            continue;
        add_list(d->rows, &flow->stream.findings, flow);
        d->connections += flow_leads(flow);
        for (uint32_t group = 0; group < GROUP_COUNT; group++) {
            d->messages += flow->stream.counts.messages[group];
            d->bytes += flow->stream.counts.message_bytes[group];
        }
    }
    for (uint32_t kind = 0; kind < FINDING_COUNT; kind++) {
        if (d->rows[kind].count != 0)
            d->rows[kept++] = d->rows[kind];
    }
    d->row_count = kept;
    qsort(d->rows, kept, sizeof(d->rows[0]), compare_rows);
}

bool diagnosis_has_alarm(const struct diagnosis *d)
{
    return d->row_count > 0 && finding_is_alarm(d->rows[0].kind);
}

static void print_where(const struct diagnosis_row *row, FILE *out)
{
    const struct finding *f = row->first;

    if (f->first_frame != 0)
        fprintf(out, ", first in frame %" PRIu64 " at %.6f s", f->first_frame,
                (double)f->first_ns / 1e9);
    if (row->worst != NULL && f->first_frame != 0)
        fprintf(out, ", PSN %u", f->psn.value);
    fputc('\n', out);
    if (row->worst != NULL) {
        fprintf(out, "     %s", flow_text(row->worst).text);
        if (row->connections > 1)
            fprintf(out, " has most of them; %" PRIu64 " directions in all", row->connections);
        fputc('\n', out);
    }
}

static void print_row(const struct diagnosis_row *row, unsigned number, FILE *out)
{
    fprintf(out, "\n%2u. %s: %s\n     ", number, finding_class_text(finding_class(row->kind)),
            finding_text(row->kind));
    if (row->count == 1)
        fputs("once", out);
    else
        fprintf(out, "%" PRIu64 " times", row->count);
    if (row->packets != 0)
        fprintf(out, ", %" PRIu64 " packet%s sent again", row->packets,
                row->packets == 1 ? "" : "s");
    if (row->lost_ns != 0)
        fprintf(out, ", %s lost", quantity_time(row->lost_ns).text);
    print_where(row, out);
    fprintf(out, "     (%s)\n", finding_meaning(row->kind));
}

static void print_row_shortly(const struct diagnosis_row *row, unsigned number, FILE *out)
{
    fprintf(out, "%2u. %s: %s, %" PRIu64 " time%s", number,
            finding_class_text(finding_class(row->kind)), finding_text(row->kind), row->count,
            row->count == 1 ? "" : "s");
    if (row->lost_ns != 0)
        fprintf(out, ", %s lost", quantity_time(row->lost_ns).text);
    fputc('\n', out);
}

static void print_head(const struct diagnosis *d, const struct tracker *t, const char *name,
                       FILE *out)
{
    uint64_t span_ns = (uint64_t)t->summary.last_ns;

    fprintf(out,
            "%s: %" PRIu64 " frames in %.6f s, %" PRIu64 " of them RoCE\n"
            "%" PRIu64 " connection%s, %" PRIu64 " message%s, %s",
            name, t->summary.frames, (double)span_ns / 1e9, t->summary.verdicts[FRAME_PACKET],
            d->connections, d->connections == 1 ? "" : "s", d->messages,
            d->messages == 1 ? "" : "s", quantity_bytes(d->bytes).text);
    if (d->bytes != 0 && span_ns != 0)
        fprintf(out, ", %s on average", quantity_rate(d->bytes, span_ns).text);
    fputc('\n', out);
}

void diagnosis_print(const struct diagnosis *d, const struct tracker *t, const struct selection *s,
                     const char *name, FILE *out)
{
    print_head(d, t, name, out);
    if (!diagnosis_has_alarm(d))
        fputs(t->summary.verdicts[FRAME_PACKET] == 0 ? "No RoCE packets.\n" : "Nothing is wrong.\n",
              out);
    for (uint32_t i = 0; i < d->row_count; i++) {
        if (i < ROWS_FULL)
            print_row(&d->rows[i], i + 1, out);
        else
            print_row_shortly(&d->rows[i], i + 1, out);
    }
    connections_print_busiest(t, s, BUSIEST_MAX, out);
}

static json_t *number_json(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *row_json(const struct diagnosis_row *row)
{
    json_t *object = json_pack(
        "{ss, ss, ss, sb, so, so, so, so, so, so}", "finding", finding_name(row->kind), "class",
        finding_class_text(finding_class(row->kind)), "text", finding_text(row->kind), "alarm",
        finding_is_alarm(row->kind), "count", number_json(row->count), "packets",
        number_json(row->packets), "lost_ns", number_json(row->lost_ns), "directions",
        number_json(row->connections), "first_frame", number_json(row->first->first_frame),
        "first_ns", number_json(row->first->first_ns));

    if (row->worst != NULL) {
        json_object_set_new(object, "worst", json_string(flow_text(row->worst).text));
        json_object_set_new(object, "psn", json_integer(row->first->psn.value));
    }
    return object;
}

json_t *diagnosis_to_json(const struct diagnosis *d, const struct tracker *t)
{
    json_t *rows = json_array();

    for (uint32_t i = 0; i < d->row_count; i++)
        json_array_append_new(rows, row_json(&d->rows[i]));
    return json_pack("{s{so, so, so, so, so, so, sb, so}}", "diagnosis", "frames",
                     number_json(t->summary.frames), "packets",
                     number_json(t->summary.verdicts[FRAME_PACKET]), "duration_ns",
                     number_json((uint64_t)t->summary.last_ns), "connections",
                     number_json(d->connections), "messages", number_json(d->messages), "bytes",
                     number_json(d->bytes), "alarm", diagnosis_has_alarm(d), "findings", rows);
}
