/* SPDX-License-Identifier: BSD-2-Clause */
#include "pcap/ladder.h"

#include <inttypes.h>
#include <string.h>

#include "pcap/print.h"
#include "pcap/quantity.h"
#include "wire/aeth.h"

#define RUNG_WIDTH 58
#define SILENCE_NS 1000000

enum heading { HEADING_NONE, HEADING_RIGHT, HEADING_LEFT };

/* Towards the queue pair asked for, or from it. */
static enum heading heading_of(const struct ladder *l, const struct flow *flow)
{
    uint32_t source;

    if (flow->key.dest_qpn == l->qpn)
        return HEADING_RIGHT;
    return flow_source(flow, &source) && source == l->qpn ? HEADING_LEFT : HEADING_NONE;
}

static void print_rails(struct ladder *l, const struct flow *flow, enum heading heading)
{
    struct gid_text src = gid_text(&flow->key.src);
    struct gid_text dst = gid_text(&flow->key.dst);
    const char *left = heading == HEADING_RIGHT ? src.text : dst.text;
    const char *right = heading == HEADING_RIGHT ? dst.text : src.text;

    fprintf(l->out, "%22s%-*s%s qp 0x%06x\n", "", RUNG_WIDTH - 8, left, right, l->qpn);
}

/* "WRITE_LAST 105 [640]", "NAK PSN sequence 100 msn 3". */
static void rung_label(const struct frame *f, char *out, size_t size)
{
    const struct packet *p = &f->packet;
    const char *name = opcode_name(p->h.bth.opcode);
    const char *operation = strchr(name, '_');
    int used;

    if (p->operation->kind == KIND_ACK) {
        used = snprintf(out, size, "%s %u msn %u", aeth_name(p->h.aeth.syndrome),
                        p->h.bth.psn.value, p->h.aeth.msn.value);
        if (aeth_kind(p->h.aeth.syndrome) == AETH_RNR_NAK)
            snprintf(out + used, size - (size_t)used, " wait %s",
                     quantity_time(rnr_timer_ns(aeth_value(p->h.aeth.syndrome))).text);
        return;
    }
    used =
        snprintf(out, size, "%s %u", operation != NULL ? operation + 1 : name, p->h.bth.psn.value);
    if (p->payload_len != 0)
        used += snprintf(out + used, size - (size_t)used, " [%u]", p->payload_len);
    if ((p->operation->headers & HEADER_RETH) != 0)
        used += snprintf(out + used, size - (size_t)used, " of %u", p->h.reth.dma_len);
    if (p->h.bth.ack_req)
        snprintf(out + used, size - (size_t)used, " A");
}

static void print_arrow(FILE *out, enum heading heading, const char *label)
{
    int dashes = RUNG_WIDTH - 6 - (int)strlen(label);
    int left = heading == HEADING_RIGHT ? 2 : (dashes > 4 ? dashes - 4 : 1);
    int right = dashes > left ? dashes - left : 1;

    fprintf(out, "|%s", heading == HEADING_RIGHT ? "-" : "<");
    for (int i = 0; i < left; i++)
        fputc('-', out);
    fprintf(out, " %s ", label);
    for (int i = 0; i < right; i++)
        fputc('-', out);
    fprintf(out, "%s|", heading == HEADING_RIGHT ? ">" : "-");
}

void ladder_frame(struct ladder *l, const struct tracker *t, const struct frame *f,
                  const struct flow *flow)
{
    char label[96];
    enum heading heading;

    if (f->verdict != FRAME_PACKET || flow == NULL)
        return;
    heading = heading_of(l, flow);
    if (heading == HEADING_NONE)
        return;
    if (!l->begun)
        print_rails(l, flow, heading);
    else if (f->elapsed_ns - l->last_ns >= SILENCE_NS)
        fprintf(l->out, "%22s:%*s:  %s of silence\n", "", RUNG_WIDTH, "",
                quantity_time((uint64_t)(f->elapsed_ns - l->last_ns)).text);
    l->begun = true;
    l->last_ns = f->elapsed_ns;
    l->rungs++;
    rung_label(f, label, sizeof(label));
    fprintf(l->out, "%7" PRIu64 " %12.6f  ", f->number, (double)f->elapsed_ns / 1e9);
    print_arrow(l->out, heading, label);
    for (uint32_t i = 0; i < t->moment.raised_count; i++)
        fprintf(l->out, "%s%s", i == 0 ? "  " : ", ", finding_name(t->moment.raised[i]));
    if (f->icrc == FRAME_ICRC_BAD)
        fputs("  icrc BAD", l->out);
    fputc('\n', l->out);
}
