/* SPDX-License-Identifier: BSD-2-Clause */
#include "pcap/connections.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pcap/diagnosis.h"
#include "pcap/json.h"
#include "pcap/print.h"
#include "pcap/quantity.h"
#include "wire/aeth.h"

#define COLUMNS_MAX 64u /* of goodput over time: half of TIMELINE_BINS */

uint64_t flow_message_bytes(const struct flow *flow)
{
    uint64_t bytes = 0;

    for (uint32_t group = 0; group < GROUP_COUNT; group++)
        bytes += flow->stream.counts.message_bytes[group];
    return bytes;
}

static uint64_t message_count(const struct flow *flow)
{
    uint64_t count = 0;

    for (uint32_t group = 0; group < GROUP_COUNT; group++)
        count += flow->stream.counts.messages[group];
    return count;
}

static int compare_flows(const void *left, const void *right)
{
    const struct flow *a = *(const struct flow *const *)left;
    const struct flow *b = *(const struct flow *const *)right;
    uint64_t a_bytes = flow_message_bytes(a);
    uint64_t b_bytes = flow_message_bytes(b);

    if (a_bytes != b_bytes)
        return a_bytes > b_bytes ? -1 : 1;
    if (a->first_ns != b->first_ns)
        return a->first_ns < b->first_ns ? -1 : 1;
    return memcmp(&a->key, &b->key, sizeof(a->key));
}

const struct flow **connections_sorted(const struct tracker *t, const struct selection *s,
                                       uint32_t *count)
{
    const struct flow **flows = calloc((size_t)t->summary.flows.count + 1, sizeof(struct flow *));

    *count = 0;
    if (flows == NULL)
        return NULL;
    for (const struct flow *flow = t->summary.flows.flows; flow != NULL; flow = flow->hh.next) {
        if (message_count(flow) != 0 && selection_has_flow(s, flow))
            flows[(*count)++] = flow;
    }
    qsort(flows, *count, sizeof(struct flow *), compare_flows);
    return flows;
}

static uint64_t active_ns(const struct flow *flow)
{
    return flow->last_ns - flow->first_ns;
}

static struct quantity latency(const struct flow *flow, uint32_t permille)
{
    const struct histogram *h = flow->stream.latency;

    if (h == NULL)
        return (struct quantity){"-"};
    return quantity_time(permille == 1000 ? h->max : histogram_quantile(h, permille));
}

void connections_print_busiest(const struct tracker *t, const struct selection *s, uint32_t max,
                               FILE *out)
{
    uint32_t count;
    const struct flow **flows = connections_sorted(t, s, &count);
    int width = 10;

    for (uint32_t i = 0; i < count && i < max; i++) {
        int len = (int)strlen(flow_text(flows[i]).text);

        width = len > width ? len : width;
    }
    if (count > 0)
        fprintf(out, "\n%-*s %9s %9s %13s %9s %9s %9s\n", width, "requests of", "messages", "bytes",
                "goodput", "median", "99 %", "longest");
    for (uint32_t i = 0; i < count && i < max; i++) {
        const struct flow *flow = flows[i];
        uint64_t bytes = flow_message_bytes(flow);

        fprintf(out, "%-*s %9" PRIu64 " %9s %13s %9s %9s %9s\n", width, flow_text(flow).text,
                message_count(flow), quantity_bytes(bytes).text,
                quantity_rate(bytes, active_ns(flow)).text, latency(flow, 500).text,
                latency(flow, 990).text, latency(flow, 1000).text);
    }
    if (count > max)
        fprintf(out, "and %u more: --connections\n", count - max);
    free(flows);
}

static void print_messages(const struct flow *flow, FILE *out)
{
    const struct stream_counts *c = &flow->stream.counts;
    const char *before = "";

    fputs("  messages     ", out);
    for (uint32_t group = 0; group < GROUP_COUNT; group++) {
        if (c->messages[group] == 0)
            continue;
        fprintf(out, "%s%" PRIu64 " %s of %s", before, c->messages[group],
                message_group_text((enum message_group)group),
                quantity_bytes(c->message_bytes[group]).text);
        before = ", ";
    }
    fprintf(out, "; %s\n", quantity_rate(flow_message_bytes(flow), active_ns(flow)).text);
    fputs("  sizes        ", out);
    before = "";
    for (uint32_t bin = 0; bin < STREAM_SIZES; bin++) {
        if (c->sizes[bin] == 0)
            continue;
        if (bin <= 1)
            fprintf(out, "%s%u B: %" PRIu64, before, bin, c->sizes[bin]);
        else
            fprintf(out, "%s%" PRIu64 "-%" PRIu64 " B: %" PRIu64, before, UINT64_C(1) << (bin - 1),
                    (UINT64_C(1) << bin) - 1, c->sizes[bin]);
        before = ", ";
    }
    fputc('\n', out);
}

static void print_latency(const struct flow *flow, FILE *out)
{
    const struct histogram *h = flow->stream.latency;

    if (h != NULL)
        fprintf(out, "  %-12s median %s, 99 %% %s, longest %s, mean %s of %" PRIu64 "\n",
                flow->service == SERVICE_UC ? "duration" : "latency", latency(flow, 500).text,
                latency(flow, 990).text, quantity_time(h->max).text,
                quantity_time(histogram_mean(h)).text, h->count);
}

static void print_repeats(const struct stream_counts *c, FILE *out)
{
    const char *before = "  sent again   ";

    for (uint32_t cause = REPEAT_TIMEOUT; cause < REPEAT_COUNT; cause++) {
        if (c->repeats[cause] == 0)
            continue;
        fprintf(out, "%s%s: %" PRIu64 " packets, %s", before,
                repeat_cause_name((enum repeat_cause)cause), c->repeats[cause],
                quantity_time(c->lost_ns[cause]).text);
        before = "; ";
    }
    if (before[0] == ';')
        fputc('\n', out);
    if (c->gaps != 0)
        fprintf(out, "  PSN gaps     %" PRIu64 ", of %" PRIu64 " packets\n", c->gaps,
                c->gap_packets);
}

static void print_answers(const struct flow *flow, FILE *out)
{
    const struct stream_counts *c = &flow->stream.counts;

    if (c->acks + c->response_bytes == 0 && c->rnr_naks == 0)
        return;
    fprintf(out, "  answers      %" PRIu64 " ACKs", c->acks);
    if (c->acks_repeated != 0)
        fprintf(out, " (%" PRIu64 " repeated)", c->acks_repeated);
    for (uint32_t code = 0; code < 32; code++) {
        if (c->naks[code] != 0)
            fprintf(out, ", %" PRIu64 " %s", c->naks[code], aeth_name(aeth_make(AETH_NAK, code)));
    }
    if (c->rnr_naks != 0)
        fprintf(out, ", %" PRIu64 " RNR NAKs asking for %s", c->rnr_naks,
                quantity_time(c->rnr_wait_ns).text);
    if (c->response_bytes != 0)
        fprintf(out, ", %s of data", quantity_bytes(c->response_bytes).text);
    if (c->credits_told)
        fprintf(out, "; credits at least %u%s", c->credits_min, c->credits_zero != 0 ? "!" : "");
    fputc('\n', out);
}

static void print_congestion(const struct flow *flow, FILE *out)
{
    if (flow->counts.ce_marks != 0)
        fprintf(out, "  ECN marks    %" PRIu64 "\n", flow->counts.ce_marks);
    if (flow->counts.cnps == 0)
        return;
    fprintf(out, "  CNPs here    %" PRIu64, flow->counts.cnps);
    if (flow->counts.cnps > 1)
        fprintf(out, ", at least %s and on average %s apart",
                quantity_time(flow->cnp_gap_min_ns).text,
                quantity_time(flow->cnp_gap_sum_ns / (flow->counts.cnps - 1)).text);
    fputc('\n', out);
}

/* Goodput over time in a line of blocks, from nothing to the most. */
static void print_timeline(const struct flow *flow, FILE *out)
{
    static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    const struct timeline *t = flow->timeline;
    uint64_t columns[COLUMNS_MAX + 1] = {0};
    uint32_t len = timeline_len(t);
    uint32_t first = 0;
    uint32_t step;
    uint64_t most = 0;

    while (first < len && t->bins[first].packets == 0)
        first++;
    step = len - first > COLUMNS_MAX ? 2 : 1;
    for (uint32_t i = first; i < len; i++)
        columns[(i - first) / step] += t->bins[i].bytes;
    for (uint32_t i = 0; i < COLUMNS_MAX; i++)
        most = columns[i] > most ? columns[i] : most;
    if (most == 0 || len - first < 4)
        return;
    fputs("  goodput      ", out);
    for (uint32_t i = 0; i < (len - first + step - 1) / step; i++)
        fputs(blocks[columns[i] == 0 ? 0 : 1 + columns[i] * 7 / most], out);
    fprintf(out, " up to %s, a column is %s\n", quantity_rate(most, t->width_ns * step).text,
            quantity_time(t->width_ns * step).text);
}

static void print_direction(const struct flow *flow, FILE *out)
{
    const struct finding_list *findings = &flow->stream.findings;

    fprintf(out, "  %s, %" PRIu64 " packets, %.6f s to %.6f s\n", flow_text(flow).text,
            flow->counts.packets, (double)flow->first_ns / 1e9, (double)flow->last_ns / 1e9);
    if (message_count(flow) != 0)
        print_messages(flow, out);
    print_latency(flow, out);
    print_repeats(&flow->stream.counts, out);
    print_answers(flow, out);
    print_congestion(flow, out);
    print_timeline(flow, out);
    for (uint32_t i = 0; i < findings->count; i++) {
        if (findings->items[i].count != 0)
            fprintf(out, "  %-12s %" PRIu64 "x %s (frame %" PRIu64 ")\n",
                    finding_class_text(finding_class(findings->items[i].kind)),
                    findings->items[i].count, finding_text(findings->items[i].kind),
                    findings->items[i].first_frame);
    }
}

void connections_print(const struct tracker *t, const struct selection *s, FILE *out)
{
    uint64_t number = 0;

    for (const struct flow *flow = t->summary.flows.flows; flow != NULL; flow = flow->hh.next) {
        const struct flow *peer = flow->peer;

        if (!flow_leads(flow) || !selection_has_flow(s, flow))
            continue;
        fprintf(out, "%s%" PRIu64 ". %s", number == 0 ? "" : "\n", number + 1,
                service_name(flow->service));
        number++;
        if (flow->stream.pmtu != 0 || (peer != NULL && peer->stream.pmtu != 0))
            fprintf(out, ", path MTU %u",
                    flow->stream.pmtu != 0 ? flow->stream.pmtu : peer->stream.pmtu);
        if (peer != NULL)
            fputs(flow->peer_agreed ? ", by the connection manager" : ", both directions", out);
        fputc('\n', out);
        print_direction(flow, out);
        if (peer != NULL && peer != flow && peer->counts.packets > 0)
            print_direction(peer, out);
    }
}

static json_t *number_json(uint64_t value)
{
    return json_integer((json_int_t)value);
}

static json_t *groups_json(const struct stream_counts *c)
{
    json_t *object = json_object();

    for (uint32_t group = 0; group < GROUP_COUNT; group++) {
        if (c->messages[group] != 0)
            json_object_set_new(object, message_group_text((enum message_group)group),
                                json_pack("{so, so}", "messages", number_json(c->messages[group]),
                                          "bytes", number_json(c->message_bytes[group])));
    }
    return object;
}

static json_t *sizes_json(const struct stream_counts *c)
{
    json_t *array = json_array();

    for (uint32_t bin = 0; bin < STREAM_SIZES; bin++) {
        if (c->sizes[bin] != 0)
            json_array_append_new(array,
                                  json_pack("{so, so}", "below", number_json(UINT64_C(1) << bin),
                                            "messages", number_json(c->sizes[bin])));
    }
    return array;
}

static json_t *latency_json(const struct histogram *h)
{
    return json_pack("{so, so, so, so, so}", "count", number_json(h->count), "mean_ns",
                     number_json(histogram_mean(h)), "p50_ns",
                     number_json(histogram_quantile(h, 500)), "p99_ns",
                     number_json(histogram_quantile(h, 990)), "max_ns", number_json(h->max));
}

static json_t *repeats_json(const struct stream_counts *c)
{
    json_t *object = json_object();

    for (uint32_t cause = REPEAT_TIMEOUT; cause < REPEAT_COUNT; cause++) {
        if (c->repeats[cause] != 0)
            json_object_set_new(object, repeat_cause_name((enum repeat_cause)cause),
                                json_pack("{so, so}", "packets", number_json(c->repeats[cause]),
                                          "lost_ns", number_json(c->lost_ns[cause])));
    }
    return object;
}

static json_t *naks_json(const struct stream_counts *c)
{
    json_t *object = json_object();

    for (uint32_t code = 0; code < 32; code++) {
        if (c->naks[code] != 0)
            json_object_set_new(object, aeth_name(aeth_make(AETH_NAK, code)),
                                number_json(c->naks[code]));
    }
    return object;
}

static json_t *findings_json(const struct finding_list *list)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < list->count; i++) {
        const struct finding *f = &list->items[i];

        if (f->count == 0)
            continue;
        json_array_append_new(
            array,
            json_pack("{ss, so, so, so, so, so, so}", "finding", finding_name(f->kind), "count",
                      number_json(f->count), "packets", number_json(f->packets), "lost_ns",
                      number_json(f->lost_ns), "first_frame", number_json(f->first_frame),
                      "last_frame", number_json(f->last_frame), "psn", json_integer(f->psn.value)));
    }
    return array;
}

static json_t *timeline_json(const struct timeline *t)
{
    uint32_t len = timeline_len(t);
    json_t *bins = json_array();

    for (uint32_t i = 0; i < len; i++) {
        const struct timeline_bin *b = &t->bins[i];

        json_array_append_new(bins, json_pack("[o, o, o, o, o, o]", number_json(b->packets),
                                              number_json(b->bytes), number_json(b->repeats),
                                              number_json(b->marks), number_json(b->cnps),
                                              number_json(b->latency_max_ns)));
    }
    return json_pack("{so, s[ssssss], so}", "width_ns", number_json(t != NULL ? t->width_ns : 0),
                     "columns", "packets", "bytes", "repeats", "marks", "cnps", "latency_max_ns",
                     "bins", bins);
}

static json_t *flow_to_json(const struct flow *flow)
{
    const struct stream_counts *c = &flow->stream.counts;
    struct gid_text src = gid_text(&flow->key.src);
    struct gid_text dst = gid_text(&flow->key.dst);
    json_t *object = json_pack(
        "{ss, ss, ss, so, so, so, so, so, so, so, so, so, so, so, so, so, so, so}", "service",
        service_name(flow->service), "src", src.text, "dst", dst.text, "dest_qpn",
        number_json(flow->key.dest_qpn), "path_mtu", number_json(flow->stream.pmtu), "first_ns",
        number_json(flow->first_ns), "last_ns", number_json(flow->last_ns), "packets",
        number_json(flow->counts.packets), "operations", groups_json(c), "sizes", sizes_json(c),
        "repeats", repeats_json(c), "acks", number_json(c->acks), "naks", naks_json(c), "rnr_naks",
        number_json(c->rnr_naks), "ce_marks", number_json(flow->counts.ce_marks), "cnps",
        number_json(flow->counts.cnps), "findings", findings_json(&flow->stream.findings),
        "timeline", timeline_json(flow->timeline));
    uint32_t qpn;

    if (flow_source(flow, &qpn))
        json_object_set_new(object, "src_qpn", number_json(qpn));
    if (flow->stream.latency != NULL)
        json_object_set_new(object, "latency", latency_json(flow->stream.latency));
    if (flow->counts.cnps > 1)
        json_object_set_new(object, "cnp_gap_min_ns", number_json(flow->cnp_gap_min_ns));
    if (c->gaps != 0) {
        json_object_set_new(object, "psn_gaps", number_json(c->gaps));
        json_object_set_new(object, "psn_gap_packets", number_json(c->gap_packets));
    }
    if (c->credits_told)
        json_object_set_new(object, "credits_min", number_json(c->credits_min));
    return object;
}

int connections_print_json(const struct tracker *t, const struct selection *s, FILE *out)
{
    for (const struct flow *flow = t->summary.flows.flows; flow != NULL; flow = flow->hh.next) {
        int error;

        if (flow->counts.packets == 0 || !selection_has_flow(s, flow))
            continue;
        error = json_print_line(out, json_pack("{so}", "connection", flow_to_json(flow)));
        if (error != 0)
            return error;
    }
    return 0;
}

void message_print(const struct message *m, FILE *out)
{
    fprintf(out,
            "%12.6f  %s  %-6s psn %8u  %5u packets %10" PRIu64 " bytes  %9s  frames %" PRIu64
            "-%" PRIu64 "\n",
            (double)m->first_ns / 1e9, flow_text(m->flow).text,
            message_group_text(message_group(m->kind)), m->psn.value, m->packets, m->bytes,
            m->timed ? quantity_time(m->latency_ns).text : "-", m->first_frame, m->last_frame);
}

json_t *message_to_json(const struct message *m)
{
    struct gid_text src = gid_text(&m->flow->key.src);
    struct gid_text dst = gid_text(&m->flow->key.dst);
    json_t *object = json_pack(
        "{ss, ss, so, ss, so, so, so, so, so, so}", "src", src.text, "dst", dst.text, "dest_qpn",
        number_json(m->flow->key.dest_qpn), "operation", message_group_text(message_group(m->kind)),
        "psn", number_json(m->psn.value), "packets", number_json(m->packets), "bytes",
        number_json(m->bytes), "first_ns", number_json(m->first_ns), "first_frame",
        number_json(m->first_frame), "last_frame", number_json(m->last_frame));

    if (m->timed)
        json_object_set_new(object, "latency_ns", number_json(m->latency_ns));
    return object;
}
