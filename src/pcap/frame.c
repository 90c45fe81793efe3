/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From the first byte of a frame to its packet, one function a layer. Each
 * returns FRAME_PACKET to go on, or what the frame turned out to be.
 *
 * Whether a frame is RoCE at all is settled before anything in it is called
 * wrong, so that damage to other people's traffic stays theirs.
 */
#include "pcap/frame.h"
#include "pcap/frame_private.h"

#include "base/bytes.h"
#include "wire/icrc.h"

#include <assert.h>
#include <string.h>

#define ETHERTYPE_IPV4 0x0800u
#define ETHERTYPE_IPV6 0x86ddu
#define ETHERTYPE_ROCE_V1 0x8915u
#define ETHERTYPE_VLAN 0x8100u
#define ETHERTYPE_QINQ 0x88a8u
#define ETHERTYPE_QINQ_OLD 0x9100u
#define ETHERNET_LEN 14u
#define VLAN_LEN 4u

static const struct {
    const char *name;
    enum frame_kind kind;
    const char *text;
} verdicts[FRAME_VERDICT_COUNT] = {
#define FRAME_VERDICT_ROW(name, kind, text) {#name, FRAME_KIND_##kind, text},
    FRAME_VERDICTS(FRAME_VERDICT_ROW)
#undef FRAME_VERDICT_ROW
};

static const struct {
    const char *name;
    const char *text;
} icrcs[FRAME_ICRC_COUNT] = {
#define FRAME_ICRC_ROW(name, text) {#name, text},
    FRAME_ICRCS(FRAME_ICRC_ROW)
#undef FRAME_ICRC_ROW
};

enum frame_kind frame_kind(enum frame_verdict verdict)
{
    assert(verdict < FRAME_VERDICT_COUNT);
    return verdicts[verdict].kind;
}

const char *frame_verdict_name(enum frame_verdict verdict)
{
    assert(verdict < FRAME_VERDICT_COUNT);
    return verdicts[verdict].name;
}

const char *frame_text(const struct frame *f)
{
    return f->verdict == FRAME_MALFORMED ? drop_text(f->drop) : verdicts[f->verdict].text;
}

const char *frame_icrc_name(enum frame_icrc icrc)
{
    assert(icrc < FRAME_ICRC_COUNT);
    return icrcs[icrc].name;
}

const char *frame_icrc_text(enum frame_icrc icrc)
{
    assert(icrc < FRAME_ICRC_COUNT);
    return icrcs[icrc].text;
}

uint32_t frame_network_len(const struct frame *f)
{
    switch (f->network) {
    case FRAME_NETWORK_NONE:
        return 0;
    case FRAME_NETWORK_GRH:
        return GRH_LEN;
    case FRAME_NETWORK_IPV4:
    case FRAME_NETWORK_IPV6:
        break;
    }
    return f->udp_offset == 0 ? 0 : f->udp_offset - f->network_offset;
}

/* Are the bytes up to end there to be read, and if not, whose fault is it. */
static enum frame_verdict have(const struct frame *f, uint32_t end)
{
    if (end <= f->captured_len)
        return FRAME_PACKET;
    return end <= f->wire_len ? FRAME_SNAPPED : FRAME_CUT_SHORT;
}

/* The packet proper: f->datagram holds it, and datagram_captured bytes of it are there. */
static enum frame_verdict decode_packet(struct frame *f)
{
    const struct datagram *d = &f->datagram;
    uint32_t headers_len;

    f->has_bth = f->datagram_captured >= BTH_LEN;
    if (f->has_bth)
        bth_read(d->bytes, &f->packet.h.bth);
    if (f->datagram_captured < d->len) {
        /* The parser reads headers only, so a payload that was not captured does no harm. */
        headers_len = f->has_bth ? opcode_headers_len(f->packet.h.bth.opcode) : BTH_LEN;
        if (f->datagram_captured < BTH_LEN || f->datagram_captured < headers_len)
            return FRAME_SNAPPED;
    }
    f->drop = packet_parse(d->bytes, d->len, &f->packet);
    return f->drop == DROP_NONE ? FRAME_PACKET : FRAME_MALFORMED;
}

static void check_icrc(struct frame *f)
{
    const struct datagram *d = &f->datagram;
    uint32_t before = f->bth_offset - f->network_offset;
    uint32_t expected;

    if (d->len < BTH_LEN + ICRC_LEN)
        return;
    if (f->datagram_captured < d->len) {
        f->icrc = FRAME_ICRC_ABSENT;
        return;
    }
    expected = icrc_of_frame(f->bytes + f->network_offset, before + d->len - ICRC_LEN,
                             frame_network_len(f), f->network != FRAME_NETWORK_GRH);
    f->icrc_found = load_be32(d->bytes + d->len - ICRC_LEN);
    f->icrc_expected = __builtin_bswap32(expected);
    if (f->icrc_found == f->icrc_expected || segment_says_zero(f))
        f->icrc = FRAME_ICRC_GOOD;
    else
        f->icrc = f->icrc_found == 0 && f->icrc_unset_ok ? FRAME_ICRC_UNSET : FRAME_ICRC_BAD;
}

/* Points the frame at its segment, of a datagram that begins at start and ends at end. */
static enum frame_verdict decode_segment(struct frame *f, uint32_t start, uint32_t end)
{
    uint32_t left = end - start;

    f->bth_offset = start;
    f->datagram.bytes = f->bytes + start;
    f->datagram.len = left < f->segment_len ? left : f->segment_len;
    f->datagram_captured = f->captured_len <= start ? 0 : f->captured_len - start;
    if (f->datagram_captured > f->datagram.len)
        f->datagram_captured = (uint32_t)f->datagram.len;
    f->icrc = FRAME_ICRC_NONE;
    if (f->segment_count == 1)
        check_icrc(f);
    else if (f->datagram_captured < f->datagram.len)
        f->icrc = FRAME_ICRC_ABSENT;
    else
        segment_check_icrc(f, f->identification);
    return decode_packet(f);
}

/* BTH to ICRC, from bth_offset to end. */
static enum frame_verdict decode_datagram(struct frame *f, uint32_t end)
{
    uint32_t start = f->bth_offset;
    uint32_t len = end - start;
    enum frame_verdict v;

    f->segment_count = 1;
    f->segment_len = len;
    v = decode_segment(f, start, end);
    if (v != FRAME_SNAPPED && f->icrc != FRAME_ICRC_GOOD && f->udp_offset != 0) {
        uint32_t segment_len = segment_find(f);

        if (segment_len != 0) {
            f->segment_len = segment_len;
            f->segment_count = (len + segment_len - 1) / segment_len;
            v = decode_segment(f, start, end);
        }
    }
    return v;
}

static enum frame_verdict decode_udp(struct frame *f, uint32_t offset)
{
    enum frame_verdict v = have(f, offset + UDP_LEN);
    struct udp_header udp;
    enum ip_fault fault;

    if (v != FRAME_PACKET)
        return v;
    fault = udp_read(f->bytes + offset, f->captured_len - offset, &udp);
    if (load_be16(f->bytes + offset + 2) != ROCE_UDP_PORT)
        return FRAME_OTHER_PORT;
    f->udp_offset = offset;
    f->bth_offset = offset + UDP_LEN;
    f->has_bth = f->captured_len >= f->bth_offset + BTH_LEN;
    if (f->has_bth)
        bth_read(f->bytes + f->bth_offset, &f->packet.h.bth);
    if (f->more_fragments)
        return FRAME_FRAGMENT;
    if (f->network_end > f->wire_len)
        return FRAME_IP_CUT;
    if (fault == IP_FAULT_LEN || offset + udp.len > f->network_end)
        return FRAME_UDP_LEN;
    f->datagram.src_port = udp.src_port;
    return decode_datagram(f, offset + udp.len);
}

/* Bytes of an IPv6 extension header, 0 if next is none (RFC 8200, RFC 4302). */
static uint32_t extension_len(uint8_t next, uint8_t len_field)
{
    switch (next) {
    case 0:   /* hop by hop */
    case 43:  /* routing */
    case 60:  /* destination options */
    case 135: /* mobility */
    case 139: /* host identity */
    case 140: /* shim6 */
        return (len_field + 1u) * 8u;
    case 44: /* fragment */
        return 8;
    case 51: /* authentication */
        return (len_field + 2u) * 4u;
    default:
        return 0;
    }
}

/* From the fixed header on: *offset moves to what follows the extension headers. */
static enum frame_verdict skip_extensions(struct frame *f, uint8_t next, uint32_t *offset)
{
    while (next != IP_PROTOCOL_UDP) {
        const uint8_t *extension = f->bytes + *offset;
        enum frame_verdict v;

        if (extension_len(next, 0) == 0)
            return FRAME_NOT_UDP;
        v = have(f, *offset + 8);
        if (v != FRAME_PACKET)
            return v;
        if (next == 44) {
            if ((load_be16(extension + 2) & 0xfff8u) != 0)
                return FRAME_LATER_FRAGMENT;
            f->more_fragments = (extension[3] & 1u) != 0;
        }
        *offset += extension_len(next, extension[1]);
        if (*offset > f->captured_len)
            return have(f, *offset);
        next = extension[0];
    }
    return FRAME_PACKET;
}

/* A header that cannot be read: other traffic, when it says that it is not UDP. */
static enum frame_verdict unreadable(const struct frame *f, enum ip_fault fault, uint32_t offset)
{
    switch (fault) {
    case IP_FAULT_NONE:
    case IP_FAULT_CUT:
    case IP_FAULT_COUNT:
        break;
    case IP_FAULT_TRUNCATED:
        return f->captured_len < f->wire_len ? FRAME_SNAPPED : FRAME_CUT_SHORT;
    case IP_FAULT_VERSION:
        return FRAME_IP_VERSION;
    case IP_FAULT_HEADER_LEN:
    case IP_FAULT_LEN:
        return f->bytes[offset + 9] == IP_PROTOCOL_UDP ? FRAME_IP_HEADER : FRAME_NOT_UDP;
    }
    return FRAME_PACKET;
}

/* An IPv4 header, an IPv6 header or a GRH, which of them the link layer said. */
static enum frame_verdict decode_network(struct frame *f, enum frame_network network,
                                         uint32_t offset)
{
    const uint8_t *bytes = f->bytes + offset;
    enum ip_fault fault = ip_read(bytes, f->captured_len - offset, &f->ip);
    enum frame_verdict v = unreadable(f, fault, offset);

    if (f->captured_len > offset && bytes[0] >> 4 != (network == FRAME_NETWORK_IPV4 ? 4 : 6))
        return FRAME_IP_VERSION;
    if (v != FRAME_PACKET)
        return v;
    f->network = network;
    f->network_offset = offset;
    f->network_end = offset + f->ip.header_len + f->ip.payload_len;
    f->identification = f->ip.identification;
    f->datagram = (struct datagram){
        .src = f->ip.src,
        .dst = f->ip.dst,
        .flow_label = f->ip.flow_label,
        .traffic_class = f->ip.traffic_class,
        .hop_limit = f->ip.hop_limit,
    };
    return FRAME_PACKET;
}

static enum frame_verdict decode_ipv4(struct frame *f, uint32_t offset)
{
    enum frame_verdict v = decode_network(f, FRAME_NETWORK_IPV4, offset);

    if (v != FRAME_PACKET)
        return v;
    if (f->ip.protocol != IP_PROTOCOL_UDP)
        return FRAME_NOT_UDP;
    if (f->ip.fragment_offset != 0)
        return FRAME_LATER_FRAGMENT;
    f->more_fragments = f->ip.more_fragments;
    return decode_udp(f, offset + f->ip.header_len);
}

static enum frame_verdict decode_ipv6(struct frame *f, uint32_t offset)
{
    enum frame_verdict v = decode_network(f, FRAME_NETWORK_IPV6, offset);

    if (v != FRAME_PACKET)
        return v;
    offset += IPV6_LEN;
    v = skip_extensions(f, f->ip.protocol, &offset);
    return v == FRAME_PACKET ? decode_udp(f, offset) : v;
}

static enum frame_verdict decode_grh(struct frame *f, uint32_t offset)
{
    enum frame_verdict v = decode_network(f, FRAME_NETWORK_GRH, offset);

    if (v != FRAME_PACKET)
        return v;
    if (f->ip.protocol != IP_PROTOCOL_IBA)
        return FRAME_GRH_NEXT;
    f->bth_offset = offset + GRH_LEN;
    if (f->network_end > f->wire_len)
        return FRAME_IP_CUT;
    return decode_datagram(f, f->network_end);
}

static enum frame_verdict decode_ethertype(struct frame *f, uint16_t ethertype, uint32_t offset)
{
    while (ethertype == ETHERTYPE_VLAN || ethertype == ETHERTYPE_QINQ ||
           ethertype == ETHERTYPE_QINQ_OLD) {
        enum frame_verdict v = have(f, offset + VLAN_LEN);

        if (v != FRAME_PACKET)
            return v;
        if (f->vlan_count < FRAME_VLANS_MAX)
            f->vlans[f->vlan_count] = load_be16(f->bytes + offset) & 0xfffu;
        f->vlan_count++;
        ethertype = load_be16(f->bytes + offset + 2);
        offset += VLAN_LEN;
    }
    f->ethertype = ethertype;
    switch (ethertype) {
    case ETHERTYPE_IPV4:
        return decode_ipv4(f, offset);
    case ETHERTYPE_IPV6:
        return decode_ipv6(f, offset);
    case ETHERTYPE_ROCE_V1:
        return decode_grh(f, offset);
    default:
        return FRAME_NOT_IP;
    }
}

/* A link header of header_len bytes with the Ethertype at type_offset. */
static enum frame_verdict decode_typed(struct frame *f, uint32_t header_len, uint32_t type_offset)
{
    enum frame_verdict v = have(f, header_len);

    if (v != FRAME_PACKET)
        return v;
    return decode_ethertype(f, load_be16(f->bytes + type_offset), header_len);
}

static enum frame_verdict decode_raw(struct frame *f, uint32_t offset)
{
    enum frame_verdict v = have(f, offset + 1);

    if (v != FRAME_PACKET)
        return v;
    switch (f->bytes[offset] >> 4) {
    case 4:
        return decode_ipv4(f, offset);
    case 6:
        return decode_ipv6(f, offset);
    default:
        return FRAME_NOT_IP;
    }
}

/* The family is 2 for IPv4 everywhere and anything up to 30 for IPv6: the version nibble tells. */
static enum frame_verdict decode_null(struct frame *f)
{
    enum frame_verdict v = have(f, 4);
    uint32_t family;

    if (v != FRAME_PACKET)
        return v;
    family = load_be32(f->bytes);
    if (family > 0xffffu)
        family = load_le32(f->bytes);
    return family < 32 ? decode_raw(f, 4) : FRAME_NOT_IP;
}

static enum frame_verdict decode_link(struct frame *f)
{
    switch (f->link) {
    case LINK_TYPE_ETHERNET:
        return decode_typed(f, ETHERNET_LEN, 12);
    case LINK_TYPE_COOKED_V1:
        return decode_typed(f, 16, 14);
    case LINK_TYPE_COOKED_V2:
        return decode_typed(f, 20, 0);
    case LINK_TYPE_RAW:
        return decode_raw(f, 0);
    case LINK_TYPE_IPV4:
        return decode_ipv4(f, 0);
    case LINK_TYPE_IPV6:
        return decode_ipv6(f, 0);
    case LINK_TYPE_NULL:
        return decode_null(f);
    case LINK_TYPE_COUNT:
        break;
    }
    return FRAME_NOT_IP;
}

void frame_decode(struct frame *f)
{
    *f = (struct frame){
        .number = f->number,
        .time_ns = f->time_ns,
        .elapsed_ns = f->elapsed_ns,
        .link = f->link,
        .bytes = f->bytes,
        .captured_len = f->captured_len,
        .wire_len = f->wire_len > f->captured_len ? f->wire_len : f->captured_len,
        .icrc_unset_ok = f->icrc_unset_ok,
        .segment_count = 1,
    };
    f->verdict = decode_link(f);
}

bool frame_next_segment(struct frame *f)
{
    uint32_t end;

    if (f->segment_index + 1 >= f->segment_count)
        return false;
    end = f->udp_offset + load_be16(f->bytes + f->udp_offset + 4);
    f->segment_index++;
    f->identification++;
    f->drop = DROP_NONE;
    f->verdict = decode_segment(f, f->bth_offset + f->segment_len, end);
    return true;
}
