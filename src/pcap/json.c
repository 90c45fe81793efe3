/* SPDX-License-Identifier: BSD-2-Clause */
/* One function a header, each giving an object that is set under the header's name. */
#include "pcap/json.h"

#include <errno.h>
#include <inttypes.h>

#include "pcap/management.h"
#include "pcap/print.h"
#include "wire/aeth.h"

static json_t *hex(uint64_t value, int digits)
{
    char text[24];

    snprintf(text, sizeof(text), "0x%0*" PRIx64, digits, value);
    return json_string(text);
}

/* Strings that are static, numbers and truth values have one letter in json_pack's formats. */
#define NUMBER(value) ((json_int_t)(value))

static json_t *network_json(const struct frame *f)
{
    struct gid_text src = gid_text(&f->datagram.src);
    struct gid_text dst = gid_text(&f->datagram.dst);
    json_t *ip = json_pack("{ss, ss, sI, sI, sI}", "src", src.text, "dst", dst.text,
                           "traffic_class", NUMBER(f->ip.traffic_class), "ecn",
                           NUMBER(f->ip.traffic_class & 3u), "hop_limit", NUMBER(f->ip.hop_limit));

    if (f->network == FRAME_NETWORK_IPV4) {
        json_object_set_new(ip, "identification", json_integer(f->identification));
        json_object_set_new(ip, "dont_fragment", json_boolean(f->ip.dont_fragment));
    } else {
        json_object_set_new(ip, "flow_label", json_integer(f->ip.flow_label));
    }
    return ip;
}

static json_t *bth_json(const struct bth *bth)
{
    return json_pack("{sI, ss, sb, sb, sI, sI, sI, sb, sb, sI, sb, sI}", "opcode",
                     NUMBER(bth->opcode), "name", opcode_name(bth->opcode), "solicited",
                     bth->solicited, "mig_req", bth->mig_req, "pad_count", NUMBER(bth->pad_count),
                     "version", NUMBER(bth->version), "pkey", NUMBER(bth->pkey), "fecn", bth->fecn,
                     "becn", bth->becn, "dest_qpn", NUMBER(bth->dest_qpn), "ack_req", bth->ack_req,
                     "psn", NUMBER(bth->psn.value));
}

static json_t *deth_json(const struct headers *h)
{
    return json_pack("{sI, sI}", "qkey", NUMBER(h->deth.qkey), "src_qpn", NUMBER(h->deth.src_qpn));
}

static json_t *xrceth_json(const struct headers *h)
{
    return json_pack("{sI}", "srqn", NUMBER(h->xrceth.srqn));
}

static json_t *feth_json(const struct headers *h)
{
    return json_pack("{sI, sI}", "placement_type", NUMBER(h->feth.placement_type), "selectivity",
                     NUMBER(h->feth.selectivity));
}

static json_t *reth_json(const struct headers *h)
{
    return json_pack("{so, sI, sI}", "va", hex(h->reth.va, 16), "rkey", NUMBER(h->reth.rkey),
                     "dma_len", NUMBER(h->reth.dma_len));
}

static json_t *atomic_json(const struct headers *h)
{
    return json_pack("{so, sI, so, so}", "va", hex(h->atomic.va, 16), "rkey",
                     NUMBER(h->atomic.rkey), "swap_add", hex(h->atomic.swap_add, 16), "compare",
                     hex(h->atomic.compare, 16));
}

static json_t *aeth_json(const struct headers *h)
{
    return json_pack("{sI, ss, sI}", "syndrome", NUMBER(h->aeth.syndrome), "name",
                     aeth_name(h->aeth.syndrome), "msn", NUMBER(h->aeth.msn.value));
}

static json_t *atomic_ack_json(const struct headers *h)
{
    return json_pack("{so}", "original", hex(h->atomic_ack.original, 16));
}

static json_t *imm_json(const struct headers *h)
{
    return json_integer(h->imm);
}

static json_t *ieth_json(const struct headers *h)
{
    return json_pack("{sI}", "rkey", NUMBER(h->ieth));
}

static const struct {
    enum header_set header;
    const char *key;
    json_t *(*make)(const struct headers *h);
} extended[] = {
    {HEADER_DETH, "deth", deth_json},       {HEADER_XRCETH, "xrceth", xrceth_json},
    {HEADER_FETH, "feth", feth_json},       {HEADER_RETH, "reth", reth_json},
    {HEADER_ATOMIC, "atomic", atomic_json}, {HEADER_AETH, "aeth", aeth_json},
    {HEADER_IMM, "imm", imm_json},          {HEADER_ATOMIC_ACK, "atomic_ack", atomic_ack_json},
    {HEADER_IETH, "ieth", ieth_json},
};

static json_t *icrc_json(const struct frame *f)
{
    json_t *icrc = json_pack("{ss}", "verdict", frame_icrc_name(f->icrc));

    if (f->icrc != FRAME_ICRC_ABSENT) {
        json_object_set_new(icrc, "found", hex(f->icrc_found, 8));
        json_object_set_new(icrc, "expected", hex(f->icrc_expected, 8));
    }
    return icrc;
}

static json_t *vlans_json(const struct frame *f)
{
    json_t *vlans = json_array();

    for (uint32_t i = 0; i < f->vlan_count && i < FRAME_VLANS_MAX; i++)
        json_array_append_new(vlans, json_integer(f->vlans[i]));
    return vlans;
}

static void add_layers(json_t *object, const struct frame *f)
{
    static const char *const networks[] = {
        [FRAME_NETWORK_IPV4] = "ipv4",
        [FRAME_NETWORK_IPV6] = "ipv6",
        [FRAME_NETWORK_GRH] = "grh",
    };

    if (f->vlan_count > 0)
        json_object_set_new(object, "vlans", vlans_json(f));
    if (f->network != FRAME_NETWORK_NONE)
        json_object_set_new(object, networks[f->network], network_json(f));
    if (f->udp_offset != 0)
        json_object_set_new(object, "udp",
                            json_pack("{sI}", "src_port", NUMBER(f->datagram.src_port)));
    if (f->has_bth)
        json_object_set_new(object, "bth", bth_json(&f->packet.h.bth));
}

static void add_packet(json_t *object, const struct frame *f)
{
    unsigned headers = opcode_headers(f->packet.h.bth.opcode);
    struct cm_message message;

    for (size_t i = 0; i < sizeof(extended) / sizeof(extended[0]); i++) {
        if ((headers & extended[i].header) != 0)
            json_object_set_new(object, extended[i].key, extended[i].make(&f->packet.h));
    }
    json_object_set_new(object, "payload_len", json_integer(f->packet.payload_len));
    if (frame_cm(f, &message))
        json_object_set_new(object, "cm", cm_to_json(&message));
}

json_t *frame_to_json(const struct frame *f)
{
    json_t *object = json_pack("{sI, sI, sI, sI, sI, ss}", "frame", NUMBER(f->number), "time_ns",
                               NUMBER(f->time_ns), "elapsed_ns", NUMBER(f->elapsed_ns),
                               "captured_len", NUMBER(f->captured_len), "wire_len",
                               NUMBER(f->wire_len), "verdict", frame_verdict_name(f->verdict));

    if (f->segment_count > 1)
        json_object_set_new(object, "segment", json_integer(f->segment_index + 1));
    if (f->verdict == FRAME_MALFORMED)
        json_object_set_new(object, "drop", json_string(drop_name(f->drop)));
    if (f->verdict != FRAME_PACKET)
        json_object_set_new(object, "why", json_string(frame_text(f)));
    add_layers(object, f);
    if (f->verdict == FRAME_PACKET)
        add_packet(object, f);
    if (f->icrc != FRAME_ICRC_NONE)
        json_object_set_new(object, "icrc", icrc_json(f));
    return object;
}

int json_print_line(FILE *out, json_t *value)
{
    if (value == NULL)
        return -ENOMEM;
    json_dumpf(value, out, JSON_COMPACT);
    fputc('\n', out);
    json_decref(value);
    return 0;
}
