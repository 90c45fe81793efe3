/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Header layouts. Ethernet IEEE 802.3 and 802.1Q, cooked Linux: the libpcap
 * link type list, IPv4 RFC 791, IPv6 RFC 8200, UDP RFC 768, GRH IBA 8.3, BTH and
 * extended headers IBA 9.2 and 9.3, FETH IBA 1.5.
 */
#include "pcap/fields.h"

#include <assert.h>
#include <stdbool.h>

/* clang-format off */
/*                                        name                    bit  bits  format         */
static const struct field ethernet[] = { {"destination",            0,  48, FIELD_MAC},
                                         {"source",                48,  48, FIELD_MAC},
                                         {"ethertype",             96,  16, FIELD_HEX} };

static const struct field cooked_v1[] = {{"packet type",            0,  16, FIELD_DEC},
                                         {"hardware type",         16,  16, FIELD_DEC},
                                         {"address length",        32,  16, FIELD_DEC},
                                         {"address",               48,  64, FIELD_HEX},
                                         {"ethertype",            112,  16, FIELD_HEX} };

static const struct field cooked_v2[] = {{"ethertype",              0,  16, FIELD_HEX},
                                         {"reserved",              16,  16, FIELD_HEX},
                                         {"interface index",       32,  32, FIELD_DEC},
                                         {"hardware type",         64,  16, FIELD_DEC},
                                         {"packet type",           80,   8, FIELD_DEC},
                                         {"address length",        88,   8, FIELD_DEC},
                                         {"address",               96,  64, FIELD_HEX} };

static const struct field null[] = {     {"address family",         0,  32, FIELD_HEX} };

/* The tag's own ethertype stands before it, as the one of the header that it follows. */
static const struct field vlan[] = {     {"priority",               0,   3, FIELD_DEC},
                                         {"drop eligible",          3,   1, FIELD_DEC},
                                         {"vlan",                   4,  12, FIELD_DEC},
                                         {"ethertype",             16,  16, FIELD_HEX} };

static const struct field ipv4[] = {     {"version",                0,   4, FIELD_DEC},
                                         {"header words",           4,   4, FIELD_DEC},
                                         {"dscp",                   8,   6, FIELD_DEC},
                                         {"ecn",                   14,   2, FIELD_ECN},
                                         {"total length",          16,  16, FIELD_DEC},
                                         {"identification",        32,  16, FIELD_DEC},
                                         {"reserved",              48,   1, FIELD_DEC},
                                         {"do not fragment",       49,   1, FIELD_DEC},
                                         {"more fragments",        50,   1, FIELD_DEC},
                                         {"fragment offset",       51,  13, FIELD_DEC},
                                         {"ttl",                   64,   8, FIELD_DEC},
                                         {"protocol",              72,   8, FIELD_DEC},
                                         {"header checksum",       80,  16, FIELD_HEX},
                                         {"source",                96,  32, FIELD_IPV4},
                                         {"destination",          128,  32, FIELD_IPV4} };

static const struct field ipv6[] = {     {"version",                0,   4, FIELD_DEC},
                                         {"dscp",                   4,   6, FIELD_DEC},
                                         {"ecn",                   10,   2, FIELD_ECN},
                                         {"flow label",            12,  20, FIELD_HEX},
                                         {"payload length",        32,  16, FIELD_DEC},
                                         {"next header",           48,   8, FIELD_DEC},
                                         {"hop limit",             56,   8, FIELD_DEC},
                                         {"source",                64, 128, FIELD_IPV6},
                                         {"destination",          192, 128, FIELD_IPV6} };

static const struct field udp[] = {      {"source port",            0,  16, FIELD_DEC},
                                         {"destination port",      16,  16, FIELD_DEC},
                                         {"length",                32,  16, FIELD_DEC},
                                         {"checksum",              48,  16, FIELD_HEX} };

static const struct field bth[] = {      {"opcode",                 0,   8, FIELD_OPCODE},
                                         {"solicited event",        8,   1, FIELD_DEC},
                                         {"MigReq",                 9,   1, FIELD_DEC},
                                         {"pad count",             10,   2, FIELD_DEC},
                                         {"transport version",     12,   4, FIELD_DEC},
                                         {"P_Key",                 16,  16, FIELD_HEX},
                                         {"FECN",                  32,   1, FIELD_DEC},
                                         {"BECN",                  33,   1, FIELD_DEC},
                                         {"reserved",              34,   6, FIELD_HEX},
                                         {"destination QP",        40,  24, FIELD_HEX},
                                         {"AckReq",                64,   1, FIELD_DEC},
                                         {"reserved",              65,   7, FIELD_HEX},
                                         {"PSN",                   72,  24, FIELD_DEC} };

static const struct field rdeth[] = {    {"reserved",               0,   8, FIELD_HEX},
                                         {"EE context",             8,  24, FIELD_HEX} };

static const struct field deth[] = {     {"Q_Key",                  0,  32, FIELD_HEX},
                                         {"reserved",              32,   8, FIELD_HEX},
                                         {"source QP",             40,  24, FIELD_HEX} };

static const struct field xrceth[] = {   {"reserved",               0,   8, FIELD_HEX},
                                         {"SRQ",                    8,  24, FIELD_HEX} };

static const struct field feth[] = {     {"reserved",               0,  26, FIELD_HEX},
                                         {"selectivity",           26,   2, FIELD_DEC},
                                         {"placement type",        28,   4, FIELD_HEX} };

static const struct field reth[] = {     {"virtual address",        0,  64, FIELD_HEX},
                                         {"R_Key",                 64,  32, FIELD_HEX},
                                         {"DMA length",            96,  32, FIELD_DEC} };

static const struct field atomic[] = {   {"virtual address",        0,  64, FIELD_HEX},
                                         {"R_Key",                 64,  32, FIELD_HEX},
                                         {"swap or add",           96,  64, FIELD_HEX},
                                         {"compare",              160,  64, FIELD_HEX} };

static const struct field aeth[] = {     {"syndrome",               0,   8, FIELD_SYNDROME},
                                         {"MSN",                    8,  24, FIELD_DEC} };

static const struct field atomic_ack[]={ {"original value",         0,  64, FIELD_HEX} };
static const struct field imm[] = {      {"immediate data",         0,  32, FIELD_HEX} };
static const struct field ieth[] = {     {"R_Key",                  0,  32, FIELD_HEX} };

#define LAYOUT(name_, len_, fields_) \
    {.name = (name_), .len = (len_), .fields = (fields_), \
     .field_count = sizeof(fields_) / sizeof((fields_)[0])}

const struct layout layouts[LAYOUT_COUNT] = {
    [LAYOUT_ETHERNET]   = LAYOUT("Ethernet",      14, ethernet),
    [LAYOUT_COOKED_V1]  = LAYOUT("Linux cooked",  16, cooked_v1),
    [LAYOUT_COOKED_V2]  = LAYOUT("Linux cooked 2", 20, cooked_v2),
    [LAYOUT_NULL]       = LAYOUT("loopback",       4, null),
    [LAYOUT_VLAN]       = LAYOUT("VLAN tag",       4, vlan),
    [LAYOUT_IPV4]       = LAYOUT("IPv4",          20, ipv4),
    [LAYOUT_IPV6]       = LAYOUT("IPv6",          40, ipv6),
    [LAYOUT_GRH]        = LAYOUT("GRH",           40, ipv6),
    [LAYOUT_UDP]        = LAYOUT("UDP",            8, udp),
    [LAYOUT_BTH]        = LAYOUT("BTH",           12, bth),
    [LAYOUT_RDETH]      = LAYOUT("RDETH",          4, rdeth),
    [LAYOUT_DETH]       = LAYOUT("DETH",           8, deth),
    [LAYOUT_XRCETH]     = LAYOUT("XRCETH",         4, xrceth),
    [LAYOUT_FETH]       = LAYOUT("FETH",           4, feth),
    [LAYOUT_RETH]       = LAYOUT("RETH",          16, reth),
    [LAYOUT_ATOMIC]     = LAYOUT("AtomicETH",     28, atomic),
    [LAYOUT_AETH]       = LAYOUT("AETH",           4, aeth),
    [LAYOUT_ATOMIC_ACK] = LAYOUT("AtomicAckETH",   8, atomic_ack),
    [LAYOUT_IMM]        = LAYOUT("ImmDt",          4, imm),
    [LAYOUT_IETH]       = LAYOUT("IETH",           4, ieth),
};
/* clang-format on */

enum layout_index layout_of_header(enum header_set header)
{
    switch (header) {
    case HEADER_RDETH:
        return LAYOUT_RDETH;
    case HEADER_DETH:
        return LAYOUT_DETH;
    case HEADER_XRCETH:
        return LAYOUT_XRCETH;
    case HEADER_FETH:
        return LAYOUT_FETH;
    case HEADER_RETH:
        return LAYOUT_RETH;
    case HEADER_ATOMIC:
        return LAYOUT_ATOMIC;
    case HEADER_AETH:
        return LAYOUT_AETH;
    case HEADER_ATOMIC_ACK:
        return LAYOUT_ATOMIC_ACK;
    case HEADER_IMM:
        return LAYOUT_IMM;
    case HEADER_IETH:
        return LAYOUT_IETH;
    }
    assert(false);
    return LAYOUT_COUNT;
}

uint64_t field_value(const struct field *field, const uint8_t *bytes)
{
    uint64_t value = 0;

    assert(field->bit_count <= 64);
    for (unsigned i = field->bit; i < (unsigned)field->bit + field->bit_count; i++) {
        unsigned byte = bytes[i / 8];

        value = value << 1 | ((byte >> (7 - i % 8)) & 1u);
    }
    return value;
}
