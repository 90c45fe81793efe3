/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The layout of every header that a frame may have, field by field, as data:
 * for the printer, and for the test that each table covers its header without
 * a gap or an overlap.
 */
#ifndef UROCE_PCAP_FIELDS_H
#define UROCE_PCAP_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "wire/opcode.h"

enum field_format {
    FIELD_DEC,
    FIELD_HEX,
    FIELD_MAC,
    FIELD_IPV4,
    FIELD_IPV6,
    FIELD_ECN,
    FIELD_OPCODE,
    FIELD_SYNDROME,
};

/* Bits count from the first one on the wire, as the figures of the specifications do. */
struct field {
    const char *name;
    uint16_t bit;
    uint16_t bit_count;
    enum field_format format;
};

struct layout {
    const char *name;
    uint32_t len; /* bytes */
    const struct field *fields;
    size_t field_count;
};

enum layout_index {
    LAYOUT_ETHERNET,
    LAYOUT_COOKED_V1,
    LAYOUT_COOKED_V2,
    LAYOUT_NULL,
    LAYOUT_VLAN,
    LAYOUT_IPV4,
    LAYOUT_IPV6,
    LAYOUT_GRH,
    LAYOUT_UDP,
    LAYOUT_BTH,
    LAYOUT_RDETH,
    LAYOUT_DETH,
    LAYOUT_XRCETH,
    LAYOUT_FETH,
    LAYOUT_RETH,
    LAYOUT_ATOMIC,
    LAYOUT_AETH,
    LAYOUT_ATOMIC_ACK,
    LAYOUT_IMM,
    LAYOUT_IETH,
    LAYOUT_COUNT,
};

extern const struct layout layouts[LAYOUT_COUNT];

/* The layout of one extended header. */
enum layout_index layout_of_header(enum header_set header);

/* Bits of a field that is no wider than 64, from a header at bytes. */
uint64_t field_value(const struct field *field, const uint8_t *bytes);

#endif
