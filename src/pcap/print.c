/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One line a packet:
 *
 *   number time source > destination opcode qp psn flags ecn len icrc headers
 *
 * QPNs and keys in hex, PSNs and lengths in decimal, as analysers print them.
 * A flag that is not set is a dash: A AckReq, S solicited, M MigReq, F FECN, B BECN.
 */
#include "pcap/print.h"

#include <inttypes.h>
#include <string.h>

#include "pcap/management.h"
#include "wire/aeth.h"

#define OPCODE_WIDTH 19

struct gid_text gid_text(const struct gid *gid)
{
    struct gid_text t;

    if (gid_is_ipv4(gid))
        inet_ntop(AF_INET, gid->bytes + 12, t.text, sizeof(t.text));
    else
        inet_ntop(AF_INET6, gid->bytes, t.text, sizeof(t.text));
    return t;
}

struct flow_text flow_text(const struct flow *flow)
{
    struct gid_text src = gid_text(&flow->key.src);
    struct gid_text dst = gid_text(&flow->key.dst);
    struct flow_text t;
    uint32_t qpn;

    if (flow_source(flow, &qpn))
        snprintf(t.text, sizeof(t.text), "%s qp 0x%06x > %s qp 0x%06x", src.text, qpn, dst.text,
                 flow->key.dest_qpn);
    else
        snprintf(t.text, sizeof(t.text), "%s > %s qp 0x%06x", src.text, dst.text,
                 flow->key.dest_qpn);
    return t;
}

const char *ecn_text(uint8_t traffic_class)
{
    static const char *const names[] = {"-", "ect1", "ect0", "CE"};

    return names[traffic_class & 3u];
}

static void print_deth(FILE *out, const struct headers *h)
{
    fprintf(out, " from qp 0x%06x qkey 0x%08x", h->deth.src_qpn, h->deth.qkey);
}

static void print_xrceth(FILE *out, const struct headers *h)
{
    fprintf(out, " srq 0x%06x", h->xrceth.srqn);
}

static void print_feth(FILE *out, const struct headers *h)
{
    fprintf(out, " placement %u selectivity %u", h->feth.placement_type, h->feth.selectivity);
}

static void print_reth(FILE *out, const struct headers *h)
{
    fprintf(out, " va 0x%016" PRIx64 " rkey 0x%08x dmalen %u", h->reth.va, h->reth.rkey,
            h->reth.dma_len);
}

static void print_atomic(FILE *out, const struct headers *h)
{
    bool adds = opcode_operation(h->bth.opcode)->kind == KIND_FETCH_ADD;

    fprintf(out, " va 0x%016" PRIx64 " rkey 0x%08x", h->atomic.va, h->atomic.rkey);
    if (adds)
        fprintf(out, " add 0x%" PRIx64, h->atomic.swap_add);
    else
        fprintf(out, " compare 0x%" PRIx64 " swap 0x%" PRIx64, h->atomic.compare,
                h->atomic.swap_add);
}

static void print_aeth(FILE *out, const struct headers *h)
{
    uint8_t syndrome = h->aeth.syndrome;
    uint8_t value = aeth_value(syndrome);

    fprintf(out, " %s", aeth_name(syndrome));
    switch (aeth_kind(syndrome)) {
    case AETH_ACK:
        if (value != AETH_CREDITS_INVALID)
            fprintf(out, " credits %u", credits_decode(value));
        break;
    case AETH_RNR_NAK:
        fprintf(out, " wait %g ms", (double)rnr_timer_ns(value) / 1e6);
        break;
    case AETH_NAK:
        break;
    case AETH_RESERVED:
        fprintf(out, " syndrome 0x%02x", syndrome);
        break;
    }
    fprintf(out, " msn %u", h->aeth.msn.value);
}

static void print_atomic_ack(FILE *out, const struct headers *h)
{
    fprintf(out, " original 0x%" PRIx64, h->atomic_ack.original);
}

static void print_imm(FILE *out, const struct headers *h)
{
    fprintf(out, " imm 0x%08x", h->imm);
}

static void print_ieth(FILE *out, const struct headers *h)
{
    fprintf(out, " invalidates rkey 0x%08x", h->ieth);
}

/* In the order of the wire. */
static const struct {
    enum header_set header;
    void (*print)(FILE *out, const struct headers *h);
} extended[] = {
    {HEADER_DETH, print_deth}, {HEADER_XRCETH, print_xrceth},         {HEADER_FETH, print_feth},
    {HEADER_RETH, print_reth}, {HEADER_ATOMIC, print_atomic},         {HEADER_AETH, print_aeth},
    {HEADER_IMM, print_imm},   {HEADER_ATOMIC_ACK, print_atomic_ack}, {HEADER_IETH, print_ieth},
};

static void print_extended(FILE *out, const struct packet *p)
{
    unsigned headers = opcode_headers(p->h.bth.opcode);

    if (headers != 0)
        fputc(' ', out);
    for (size_t i = 0; i < sizeof(extended) / sizeof(extended[0]); i++) {
        if ((headers & extended[i].header) != 0)
            extended[i].print(out, &p->h);
    }
}

static void print_addresses(struct printer *p, const struct frame *f)
{
    struct gid_text src = {"?"};
    struct gid_text dst = {"?"};

    if (f->network != FRAME_NETWORK_NONE) {
        src = gid_text(&f->datagram.src);
        dst = gid_text(&f->datagram.dst);
    }
    if ((int)strlen(src.text) > p->src_width)
        p->src_width = (int)strlen(src.text);
    if ((int)strlen(dst.text) > p->dst_width)
        p->dst_width = (int)strlen(dst.text);
    fprintf(p->out, "%*s > %-*s  ", p->src_width, src.text, p->dst_width, dst.text);
}

static void print_bth(FILE *out, const struct bth *bth)
{
    fprintf(out, "%-*s qp 0x%06x psn %8u  %c%c%c%c%c", OPCODE_WIDTH, opcode_name(bth->opcode),
            bth->dest_qpn, bth->psn.value, bth->ack_req ? 'A' : '-', bth->solicited ? 'S' : '-',
            bth->mig_req ? 'M' : '-', bth->fecn ? 'F' : '-', bth->becn ? 'B' : '-');
}

static void print_icrc(FILE *out, const struct frame *f)
{
    fprintf(out, "  icrc %-2s", frame_icrc_text(f->icrc));
    if (f->icrc == FRAME_ICRC_BAD)
        fprintf(out, " %08x, should be %08x ", f->icrc_found, f->icrc_expected);
}

static void print_vlans(FILE *out, const struct frame *f)
{
    for (uint32_t i = 0; i < f->vlan_count && i < FRAME_VLANS_MAX; i++)
        fprintf(out, " vlan %u", f->vlans[i]);
}

void print_frame(struct printer *p, const struct frame *f)
{
    static const char *const kinds[] = {
        [FRAME_KIND_ROCE] = "",
        [FRAME_KIND_SNAPPED] = "snapped",
        [FRAME_KIND_DAMAGED] = "DAMAGED",
        [FRAME_KIND_FOREIGN] = "foreign",
    };
    FILE *out = p->out;
    struct cm_message message;

    fprintf(out, "%6" PRIu64, f->number);
    if (f->segment_count > 1)
        fprintf(out, ".%-2u", f->segment_index + 1);
    fprintf(out, "%*s%12.6f  ", f->segment_count > 1 ? 0 : 3, "", (double)f->elapsed_ns / 1e9);
    print_addresses(p, f);
    if (f->has_bth)
        print_bth(out, &f->packet.h.bth);
    if (f->verdict == FRAME_PACKET) {
        fprintf(out, " %-4s len %4u", ecn_text(f->datagram.traffic_class), f->packet.payload_len);
        print_icrc(out, f);
        print_extended(out, &f->packet);
        if (frame_cm(f, &message))
            print_cm(out, &message);
    } else {
        fprintf(out, "%s%s: %s", f->has_bth ? "  " : "", kinds[frame_kind(f->verdict)],
                frame_text(f));
        if (f->icrc != FRAME_ICRC_NONE)
            print_icrc(out, f);
    }
    print_vlans(out, f);
    if (f->network == FRAME_NETWORK_GRH)
        fputs(" RoCEv1", out);
    fputc('\n', out);
}
