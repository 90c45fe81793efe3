/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Plots are drawn here, as SVG: a script could do more, but some mail readers
 * and archives do not run any. Colours are the same in every plot.
 */
#include "pcap/html.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "pcap/connections.h"
#include "pcap/diagnosis.h"
#include "pcap/print.h"
#include "pcap/quantity.h"

#define PLOT_WIDTH 900
#define PLOT_HEIGHT 130
#define PLOT_LEFT 90 /* for the numbers */
#define PLOT_TOP 26
#define PLOT_BOTTOM 22
#define CONNECTIONS_MAX 20u

static const char style[] =
    "body{font:15px/1.5 system-ui,sans-serif;max-width:1060px;margin:2em auto;padding:0 1em;"
    "color:#222;background:#fff}"
    "h1{font-size:1.4em;margin-bottom:0}h2{font-size:1.1em;margin:1.8em 0 .4em}"
    ".sub{color:#666;margin-top:.2em}"
    ".row{border-left:5px solid #999;padding:.3em .9em;margin:.7em 0;background:#f7f7f7}"
    ".broken{border-color:#b00020}.violation{border-color:#d3541b}.loss{border-color:#e0a000}"
    ".waiting{border-color:#8a6fc9}.congestion{border-color:#2a7ab0}"
    ".row b{font-weight:600}.row small{color:#555;display:block}"
    ".good{border-color:#2c8a4b}"
    "table{border-collapse:collapse;font-size:.84em;font-variant-numeric:tabular-nums}"
    "th,td{text-align:right;padding:.2em .5em;border-bottom:1px solid #ddd}"
    "td{white-space:nowrap}"
    "th:first-child,td:first-child{text-align:left;font-family:ui-monospace,monospace}"
    ".scroll{overflow-x:auto}"
    "svg{display:block;width:100%;height:auto;margin:.3em 0}"
    "svg text{font:12px system-ui,sans-serif;fill:#555}svg .t{fill:#222;font-weight:600}"
    "@media(prefers-color-scheme:dark){body{background:#16181b;color:#ddd}.row{background:#22252a}"
    ".sub,.row small{color:#aaa}th,td{border-color:#3a3d42}svg text{fill:#aaa}svg .t{fill:#ddd}}";

/* Text in an element or an attribute; bytes that are no ASCII are left as they are. */
static void print_escaped(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
            break;
        }
    }
}

/* What a plot shows of a bin. */
struct plot {
    const char *title;
    const char *colour;
    uint64_t (*value)(const struct timeline_bin *bin);
    struct quantity (*text)(uint64_t value, uint64_t width_ns);
};

static uint64_t bytes_of(const struct timeline_bin *bin)
{
    return bin->bytes;
}

static uint64_t latency_of(const struct timeline_bin *bin)
{
    return bin->latency_max_ns;
}

static uint64_t repeats_of(const struct timeline_bin *bin)
{
    return bin->repeats;
}

static uint64_t marks_of(const struct timeline_bin *bin)
{
    return bin->marks;
}

static uint64_t cnps_of(const struct timeline_bin *bin)
{
    return bin->cnps;
}

static struct quantity time_text(uint64_t value, uint64_t width_ns)
{
    (void)width_ns;
    return quantity_time(value);
}

static struct quantity count_text(uint64_t value, uint64_t width_ns)
{
    struct quantity q;

    (void)width_ns;
    snprintf(q.text, sizeof(q.text), "%" PRIu64, value);
    return q;
}

static const struct plot plots[] = {
    {"Goodput: payload that was new", "#2a7ab0", bytes_of, quantity_rate},
    {"Longest latency of messages", "#7a5cc0", latency_of, time_text},
    {"Packets sent again", "#d08a00", repeats_of, count_text},
    {"ECN marks (congestion experienced)", "#c0392b", marks_of, count_text},
    {"Congestion notifications (CNP)", "#b0447a", cnps_of, count_text},
};

static uint64_t plot_most(const struct plot *p, const struct timeline *t, uint32_t len)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < len; i++)
        most = p->value(&t->bins[i]) > most ? p->value(&t->bins[i]) : most;
    return most;
}

static void print_axes(const struct timeline *t, uint32_t len, FILE *out)
{
    int base = PLOT_TOP + PLOT_HEIGHT;

    fprintf(out, "<path d='M%d %dH%dM%d %dV%d' stroke='#999' fill='none'/>", PLOT_LEFT, base,
            PLOT_LEFT + PLOT_WIDTH, PLOT_LEFT, PLOT_TOP, base);
    for (uint32_t tick = 0; tick <= 4; tick++)
        fprintf(out, "<text x='%d' y='%d' text-anchor='middle'>%s</text>",
                PLOT_LEFT + (int)(PLOT_WIDTH * tick / 4), base + 16,
                tick == 0 ? "0" : quantity_time(t->width_ns * len * tick / 4).text);
}

/* Bars, each with its time and value to be read when the pointer rests on it. */
static void print_plot(const struct plot *p, const struct timeline *t, FILE *out)
{
    uint32_t len = timeline_len(t);
    uint64_t most = plot_most(p, t, len);
    double step = len > 0 ? (double)PLOT_WIDTH / len : 0;

    if (most == 0)
        return;
    fprintf(out, "<svg viewBox='0 0 %d %d' role='img'><text class='t' x='%d' y='16'>%s</text>",
            PLOT_LEFT + PLOT_WIDTH + 40, PLOT_TOP + PLOT_HEIGHT + PLOT_BOTTOM, PLOT_LEFT, p->title);
    fprintf(out, "<text x='%d' y='%d' text-anchor='end'>%s</text>", PLOT_LEFT - 6, PLOT_TOP + 8,
            p->text(most, t->width_ns).text);
    fprintf(out, "<g fill='%s'>", p->colour);
    for (uint32_t i = 0; i < len; i++) {
        uint64_t value = p->value(&t->bins[i]);
        double height = (double)value / (double)most * PLOT_HEIGHT;

        if (value == 0)
            continue;
        height = height < 1 ? 1 : height;
        fprintf(out,
                "<rect x='%.1f' y='%.1f' width='%.1f' height='%.1f'><title>%s: %s</title></rect>",
                PLOT_LEFT + step * i, PLOT_TOP + PLOT_HEIGHT - height, step > 2 ? step - 0.6 : step,
                height, quantity_time(t->width_ns * i).text, p->text(value, t->width_ns).text);
    }
    fputs("</g>", out);
    print_axes(t, len, out);
    fputs("</svg>\n", out);
}

static void print_plots(const struct timeline *t, FILE *out)
{
    for (size_t i = 0; i < sizeof(plots) / sizeof(plots[0]); i++)
        print_plot(&plots[i], t, out);
}

static void print_row(const struct diagnosis_row *row, FILE *out)
{
    const char *class = finding_class_text(finding_class(row->kind));

    fprintf(out, "<div class='row %s'><b>%s:</b> ", class, class);
    print_escaped(out, finding_text(row->kind));
    fprintf(out, "<br>%" PRIu64 " time%s", row->count, row->count == 1 ? "" : "s");
    if (row->packets != 0)
        fprintf(out, ", %" PRIu64 " packets sent again", row->packets);
    if (row->lost_ns != 0)
        fprintf(out, ", %s lost", quantity_time(row->lost_ns).text);
    if (row->first->first_frame != 0)
        fprintf(out, ", first in frame %" PRIu64 " at %.6f s", row->first->first_frame,
                (double)row->first->first_ns / 1e9);
    if (row->worst != NULL) {
        fputs("<br>", out);
        print_escaped(out, flow_text(row->worst).text);
    }
    fputs("<small>", out);
    print_escaped(out, finding_meaning(row->kind));
    fputs("</small></div>\n", out);
}

static void print_cells(const struct flow *flow, FILE *out)
{
    const struct histogram *h = flow->stream.latency;
    const struct stream_counts *c = &flow->stream.counts;
    uint64_t bytes = flow_message_bytes(flow);
    uint64_t messages = 0;
    uint64_t repeats = 0;

    for (uint32_t group = 0; group < GROUP_COUNT; group++)
        messages += c->messages[group];
    for (uint32_t cause = REPEAT_TIMEOUT; cause < REPEAT_COUNT; cause++)
        repeats += c->repeats[cause];
    fputs("<tr><td>", out);
    print_escaped(out, flow_text(flow).text);
    fprintf(out,
            "</td><td>%" PRIu64 "</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td><td>%s</td>"
            "<td>%" PRIu64 "</td><td>%" PRIu64 "</td><td>%" PRIu64 "</td></tr>\n",
            messages, quantity_bytes(bytes).text,
            quantity_rate(bytes, flow->last_ns - flow->first_ns).text,
            quantity_time(h != NULL ? histogram_quantile(h, 500) : 0).text,
            quantity_time(h != NULL ? histogram_quantile(h, 990) : 0).text,
            quantity_time(h != NULL ? h->max : 0).text, repeats, flow->counts.ce_marks,
            flow->counts.cnps);
}

static void print_connections(const struct tracker *t, const struct selection *s, FILE *out)
{
    uint32_t count;
    const struct flow **flows = connections_sorted(t, s, &count);

    if (count == 0) {
        free(flows);
        return;
    }
    fputs("<h2>Connections</h2>\n<div class='scroll'><table><tr><th>requests of</th>"
          "<th>messages</th><th>bytes</th><th>goodput</th><th>median</th><th>99 %</th>"
          "<th>longest</th><th>sent again</th><th>marks</th><th>CNPs</th></tr>\n",
          out);
    for (uint32_t i = 0; i < count && i < CONNECTIONS_MAX; i++)
        print_cells(flows[i], out);
    fputs("</table></div>\n", out);
    if (count > CONNECTIONS_MAX)
        fprintf(out, "<p>and %u more</p>\n", count - CONNECTIONS_MAX);
    for (uint32_t i = 0; i < count && i < CONNECTIONS_MAX && count > 1; i++) {
        fputs("<details><summary>", out);
        print_escaped(out, flow_text(flows[i]).text);
        fputs("</summary>\n", out);
        print_plots(flows[i]->timeline, out);
        fputs("</details>\n", out);
    }
    free(flows);
}

void html_print(const struct tracker *t, const struct selection *s, const char *name, FILE *out)
{
    const char *slash = strrchr(name, '/');
    struct diagnosis d;

    if (slash != NULL) /* the page is for others, whom the folder does not concern */
        name = slash + 1;
    diagnosis_make(&d, t, s);
    fputs("<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>"
          "<meta name='viewport' content='width=device-width'><title>",
          out);
    print_escaped(out, name);
    fprintf(out, " - uroce pcap</title><style>%s</style></head>\n<body><h1>", style);
    print_escaped(out, name);
    fprintf(out,
            "</h1>\n<p class='sub'>%" PRIu64 " frames in %s; %" PRIu64 " connection%s, %" PRIu64
            " message%s, %s, %s on average</p>\n",
            t->summary.frames, quantity_time((uint64_t)t->summary.last_ns).text, d.connections,
            d.connections == 1 ? "" : "s", d.messages, d.messages == 1 ? "" : "s",
            quantity_bytes(d.bytes).text,
            quantity_rate(d.bytes, (uint64_t)t->summary.last_ns).text);
    if (!diagnosis_has_alarm(&d))
        fputs("<div class='row good'>Nothing is wrong.</div>\n", out);
    for (uint32_t i = 0; i < d.row_count; i++)
        print_row(&d.rows[i], out);
    fputs("<h2>Over time</h2>\n", out);
    print_plots(&t->timeline, out);
    print_connections(t, s, out);
    fputs("<p class='sub'>made by uroce pcap</p>\n</body></html>\n", out);
}
