/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every BTH opcode is (IBA 9.2, table 38, with the additions of IBA 1.5).
 * The upper three bits of the byte name the transport service, the lower five
 * the operation. One list of operations holds all that is known of them; the
 * enumerations, the names, the parser, the builder, the printer and the
 * protocol engine read it, and nobody else writes a switch over opcodes.
 */
#ifndef UROCE_WIRE_OPCODE_H
#define UROCE_WIRE_OPCODE_H

#include <stdbool.h>
#include <stdint.h>

/* Transport service: bits 7..5 of the opcode. */
enum service {
    SERVICE_RC = 0,
    SERVICE_UC = 1,
    SERVICE_RD = 2, /* recognised, named and refused */
    SERVICE_UD = 3,
    SERVICE_CNP = 4, /* RoCEv2 congestion notification, RoCEv2 annex A17.9 */
    SERVICE_XRC = 5,
};

/* A set of services, for the table. */
enum service_set {
    SERVICES_RC = 1 << SERVICE_RC,
    SERVICES_UC = 1 << SERVICE_UC,
    SERVICES_UD = 1 << SERVICE_UD,
    SERVICES_XRC = 1 << SERVICE_XRC,
};

/* What the packet asks for or answers. */
enum operation_kind {
    KIND_SEND,
    KIND_WRITE,
    KIND_READ,          /* the request */
    KIND_READ_RESPONSE,
    KIND_ACK,
    KIND_ATOMIC_ACK,
    KIND_CMP_SWAP,
    KIND_FETCH_ADD,
    KIND_FLUSH,
    KIND_ATOMIC_WRITE,
    KIND_RESYNC, /* RD only */
    KIND_CNP,
};

/* Where in its message the packet stands. */
enum position {
    POSITION_FIRST,
    POSITION_MIDDLE,
    POSITION_LAST,
    POSITION_ONLY,
};

/* Extended headers that follow the BTH (and the service's own DETH or XRCETH), in wire order. */
enum header_set {
    HEADER_RDETH = 1 << 0,
    HEADER_DETH = 1 << 1,
    HEADER_XRCETH = 1 << 2,
    HEADER_FETH = 1 << 3,
    HEADER_RETH = 1 << 4,
    HEADER_ATOMIC = 1 << 5,
    HEADER_AETH = 1 << 6,
    HEADER_ATOMIC_ACK = 1 << 7,
    HEADER_IMM = 1 << 8,
    HEADER_IETH = 1 << 9,
};

/* How much payload the packet may carry. */
enum payload_rule {
    PAYLOAD_NONE,
    PAYLOAD_FULL,  /* exactly one path MTU */
    PAYLOAD_TAIL,  /* 1 to path MTU */
    PAYLOAD_ANY,   /* 0 to path MTU */
    PAYLOAD_EIGHT, /* exactly 8 bytes: ATOMIC WRITE */
    PAYLOAD_CNP,   /* 16 reserved bytes */
};

/* What the packet does with a receive request at the responder. */
enum receive_rule {
    RECEIVE_NONE,
    RECEIVE_TAKES, /* takes the next one */
    RECEIVE_HOLDS, /* goes on with the one that its message took */
};

/* One operation, as the list in opcode.c gives it. */
struct operation {
    const char *name; /* without the service: "SEND_FIRST"; NULL: no such operation */
    enum operation_kind kind;
    enum position position;
    unsigned headers; /* enum header_set, without the service's own */
    enum payload_rule payload;
    enum receive_rule receive;
    unsigned services; /* enum service_set: services that have this operation */
};

/* Operations: bits 4..0 of the opcode. */
enum operation_code {
    OP_SEND_FIRST = 0x00,
    OP_SEND_MIDDLE = 0x01,
    OP_SEND_LAST = 0x02,
    OP_SEND_LAST_IMM = 0x03,
    OP_SEND_ONLY = 0x04,
    OP_SEND_ONLY_IMM = 0x05,
    OP_WRITE_FIRST = 0x06,
    OP_WRITE_MIDDLE = 0x07,
    OP_WRITE_LAST = 0x08,
    OP_WRITE_LAST_IMM = 0x09,
    OP_WRITE_ONLY = 0x0a,
    OP_WRITE_ONLY_IMM = 0x0b,
    OP_READ_REQUEST = 0x0c,
    OP_READ_RESP_FIRST = 0x0d,
    OP_READ_RESP_MIDDLE = 0x0e,
    OP_READ_RESP_LAST = 0x0f,
    OP_READ_RESP_ONLY = 0x10,
    OP_ACK = 0x11,
    OP_ATOMIC_ACK = 0x12,
    OP_CMP_SWAP = 0x13,
    OP_FETCH_ADD = 0x14,
    OP_SEND_LAST_INV = 0x16,
    OP_SEND_ONLY_INV = 0x17,
    OP_FLUSH = 0x1c,
    OP_ATOMIC_WRITE = 0x1d,
};

#define OPCODE_CNP 0x81u

static inline enum service opcode_service(uint8_t opcode)
{
    return (enum service)(opcode >> 5);
}

static inline uint8_t opcode_make(enum service service, enum operation_code operation)
{
    return (uint8_t)(((unsigned)service << 5) | (unsigned)operation);
}

/*
 * The operation of an opcode, or NULL when the service has no such operation.
 * The CNP has a row of its own. RD opcodes are NULL here: they have a name only.
 */
const struct operation *opcode_operation(uint8_t opcode);

/*
 * "RC_SEND_FIRST" and the like; RD opcodes are named too. For one that does not
 * exist, "UNKNOWN". Static storage.
 */
const char *opcode_name(uint8_t opcode);

/* All headers after the BTH, the service's own included (enum header_set); 0 if unknown. */
unsigned opcode_headers(uint8_t opcode);

/* Bytes of the BTH and all that follows it before the payload; 0 if unknown. */
unsigned opcode_headers_len(uint8_t opcode);

/* True when a packet at this position begins (ends) its message. */
static inline bool position_starts(enum position position)
{
    return position == POSITION_FIRST || position == POSITION_ONLY;
}

static inline bool position_ends(enum position position)
{
    return position == POSITION_LAST || position == POSITION_ONLY;
}

#endif
