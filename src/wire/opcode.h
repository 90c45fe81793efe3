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
    SERVICES_RD = 1 << SERVICE_RD,
    SERVICES_UD = 1 << SERVICE_UD,
    SERVICES_XRC = 1 << SERVICE_XRC,
};

/* What the packet asks for or answers. */
enum operation_kind {
    KIND_SEND,
    KIND_WRITE,
    KIND_READ, /* the request */
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

/* One operation, as the list below gives it. */
struct operation {
    const char *name; /* without the service: "SEND_FIRST"; NULL: no such operation */
    enum operation_kind kind;
    enum position position;
    unsigned headers; /* enum header_set, without the service's own */
    enum payload_rule payload;
    enum receive_rule receive;
    unsigned services; /* enum service_set: services that have this operation */
};

/*
 * All operations: one row for each value of the opcode's low five bits. The headers are those
 * that follow the service's own. What else a row says is explained at the enumerations above,
 * whose prefixes are left out here.
 */
/* clang-format off */
/*     code  name              kind           position headers      payload receive services              */
#define OPERATIONS(OP)                                                                                     \
    OP(0x00, SEND_FIRST,       SEND,          FIRST,   0,           FULL,   TAKES,  RC | UC | RD | XRC)    \
    OP(0x01, SEND_MIDDLE,      SEND,          MIDDLE,  0,           FULL,   HOLDS,  RC | UC | RD | XRC)    \
    OP(0x02, SEND_LAST,        SEND,          LAST,    0,           TAIL,   HOLDS,  RC | UC | RD | XRC)    \
    OP(0x03, SEND_LAST_IMM,    SEND,          LAST,    IMM,         TAIL,   HOLDS,  RC | UC | RD | XRC)    \
    OP(0x04, SEND_ONLY,        SEND,          ONLY,    0,           ANY,    TAKES,  RC | UC | RD | UD | XRC)\
    OP(0x05, SEND_ONLY_IMM,    SEND,          ONLY,    IMM,         ANY,    TAKES,  RC | UC | RD | UD | XRC)\
    OP(0x06, WRITE_FIRST,      WRITE,         FIRST,   RETH,        FULL,   NONE,   RC | UC | RD | XRC)    \
    OP(0x07, WRITE_MIDDLE,     WRITE,         MIDDLE,  0,           FULL,   NONE,   RC | UC | RD | XRC)    \
    OP(0x08, WRITE_LAST,       WRITE,         LAST,    0,           TAIL,   NONE,   RC | UC | RD | XRC)    \
    OP(0x09, WRITE_LAST_IMM,   WRITE,         LAST,    IMM,         TAIL,   TAKES,  RC | UC | RD | XRC)    \
    OP(0x0a, WRITE_ONLY,       WRITE,         ONLY,    RETH,        ANY,    NONE,   RC | UC | RD | XRC)    \
    OP(0x0b, WRITE_ONLY_IMM,   WRITE,         ONLY,    RETH | IMM,  ANY,    TAKES,  RC | UC | RD | XRC)    \
    OP(0x0c, READ_REQUEST,     READ,          ONLY,    RETH,        NONE,   NONE,   RC | RD | XRC)         \
    OP(0x0d, READ_RESP_FIRST,  READ_RESPONSE, FIRST,   AETH,        FULL,   NONE,   RC | RD | XRC)         \
    OP(0x0e, READ_RESP_MIDDLE, READ_RESPONSE, MIDDLE,  0,           FULL,   NONE,   RC | RD | XRC)         \
    OP(0x0f, READ_RESP_LAST,   READ_RESPONSE, LAST,    AETH,        TAIL,   NONE,   RC | RD | XRC)         \
    OP(0x10, READ_RESP_ONLY,   READ_RESPONSE, ONLY,    AETH,        ANY,    NONE,   RC | RD | XRC)         \
    OP(0x11, ACK,              ACK,           ONLY,    AETH,        NONE,   NONE,   RC | RD | XRC)         \
    OP(0x12, ATOMIC_ACK,       ATOMIC_ACK,    ONLY,    AETH | ORIG, NONE,   NONE,   RC | RD | XRC)         \
    OP(0x13, CMP_SWAP,         CMP_SWAP,      ONLY,    ATOMIC,      NONE,   NONE,   RC | RD | XRC)         \
    OP(0x14, FETCH_ADD,        FETCH_ADD,     ONLY,    ATOMIC,      NONE,   NONE,   RC | RD | XRC)         \
    OP(0x15, RESYNC,           RESYNC,        ONLY,    0,           NONE,   NONE,   RD)                    \
    OP(0x16, SEND_LAST_INV,    SEND,          LAST,    IETH,        TAIL,   HOLDS,  RC | XRC)              \
    OP(0x17, SEND_ONLY_INV,    SEND,          ONLY,    IETH,        ANY,    TAKES,  RC | XRC)              \
    OP(0x1c, FLUSH,            FLUSH,         ONLY,    FETH | RETH, NONE,   NONE,   RC | RD | XRC)         \
    OP(0x1d, ATOMIC_WRITE,     ATOMIC_WRITE,  ONLY,    RETH,        EIGHT,  NONE,   RC | RD | XRC)
/* clang-format on */

/* Operations: bits 4..0 of the opcode. */
enum operation_code {
#define OPERATION_ENUM(code, name, ...) OP_##name = (code),
    OPERATIONS(OPERATION_ENUM)
#undef OPERATION_ENUM
};

#define OPERATION_COUNT 32u

#define OPCODE_CNP 0x81u

/* "RC", "XRC" ...; "?" for what carries no queue pair's traffic. Any number is allowed. Static
 * storage. */
const char *service_name(enum service service);

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
 * The CNP has a row of its own. RD opcodes are NULL here: they have a name and
 * headers, and are refused.
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
