/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The list of operations, unfolded at compile time into two tables: one row
 * for each operation, and one for each of the 256 opcodes with what its service
 * adds: UD requests carry a DETH, XRC requests an XRCETH, all RD packets an
 * RDETH and RD requests a DETH (IBA 9.2, table 38; XRC annex A14).
 */
#include "wire/opcode.h"

#include <assert.h>
#include <stddef.h>

#include "wire/packet.h"

/* The words of the list. */
enum {
    RC = SERVICES_RC,
    UC = SERVICES_UC,
    RD = SERVICES_RD,
    UD = SERVICES_UD,
    XRC = SERVICES_XRC,
    FETH = HEADER_FETH,
    RETH = HEADER_RETH,
    ATOMIC = HEADER_ATOMIC,
    AETH = HEADER_AETH,
    ORIG = HEADER_ATOMIC_ACK,
    IMM = HEADER_IMM,
    IETH = HEADER_IETH,
};

static const struct operation operations[OPERATION_COUNT] = {
#define OPERATION_ROW(code, name_, kind_, position_, headers_, payload_, receive_, services_)      \
    [code] = {                                                                                     \
        .name = #name_,                                                                            \
        .kind = KIND_##kind_,                                                                      \
        .position = POSITION_##position_,                                                          \
        .headers = (headers_),                                                                     \
        .payload = PAYLOAD_##payload_,                                                             \
        .receive = RECEIVE_##receive_,                                                             \
        .services = (services_) & ~(unsigned)RD,                                                   \
    },
    OPERATIONS(OPERATION_ROW)
#undef OPERATION_ROW
};

static const struct operation cnp = {
    .name = "CNP",
    .kind = KIND_CNP,
    .position = POSITION_ONLY,
    .payload = PAYLOAD_CNP,
    .receive = RECEIVE_NONE,
    .services = 1 << SERVICE_CNP,
};

struct opcode_row {
    const char *name; /* NULL: no such opcode */
    const struct operation *operation;
    uint16_t headers;
    uint8_t headers_len;
};

#define IS_RESPONSE(kind)                                                                          \
    (KIND_##kind == KIND_READ_RESPONSE || KIND_##kind == KIND_ACK || KIND_##kind == KIND_ATOMIC_ACK)

#define LEN_IF(headers, header, len) (((headers) & (header)) != 0 ? (len) : 0u)

#define HEADERS_LEN(h)                                                                             \
    (BTH_LEN + LEN_IF(h, HEADER_RDETH, RDETH_LEN) + LEN_IF(h, HEADER_DETH, DETH_LEN) +             \
     LEN_IF(h, HEADER_XRCETH, XRCETH_LEN) + LEN_IF(h, HEADER_FETH, FETH_LEN) +                     \
     LEN_IF(h, HEADER_RETH, RETH_LEN) + LEN_IF(h, HEADER_ATOMIC, ATOMICETH_LEN) +                  \
     LEN_IF(h, HEADER_AETH, AETH_LEN) + LEN_IF(h, HEADER_ATOMIC_ACK, ATOMICACKETH_LEN) +           \
     LEN_IF(h, HEADER_IMM, IMM_LEN) + LEN_IF(h, HEADER_IETH, IETH_LEN))

/* The row of an operation under one service: zeroes where the service has no such operation. */
#define OPCODE_ROW(service, services, code, name_, headers_)                                       \
    [SERVICE_##service << 5 | (code)] = {                                                          \
        .name = ((services) & (service)) != 0 ? #service "_" #name_ : NULL,                        \
        .operation = ((services) & (service) & ~RD) != 0 ? &operations[code] : NULL,               \
        .headers = ((services) & (service)) != 0 ? (headers_) : 0,                                 \
        .headers_len = ((services) & (service)) != 0 ? HEADERS_LEN(headers_) : 0,                  \
    },

static const struct opcode_row opcodes[256] = {
#define RC_ROW(code, name, kind, position, headers, payload, receive, services)                    \
    OPCODE_ROW(RC, services, code, name, headers)
#define UC_ROW(code, name, kind, position, headers, payload, receive, services)                    \
    OPCODE_ROW(UC, services, code, name, headers)
#define RD_ROW(code, name, kind, position, headers, payload, receive, services)                    \
    OPCODE_ROW(RD, services, code, name,                                                           \
               (headers) | HEADER_RDETH | (IS_RESPONSE(kind) ? 0 : HEADER_DETH))
#define UD_ROW(code, name, kind, position, headers, payload, receive, services)                    \
    OPCODE_ROW(UD, services, code, name, (headers) | HEADER_DETH)
#define XRC_ROW(code, name, kind, position, headers, payload, receive, services)                   \
    OPCODE_ROW(XRC, services, code, name, (headers) | (IS_RESPONSE(kind) ? 0 : HEADER_XRCETH))
    OPERATIONS(RC_ROW) OPERATIONS(UC_ROW) OPERATIONS(RD_ROW) OPERATIONS(UD_ROW) OPERATIONS(
        XRC_ROW)[OPCODE_CNP] = {.name = "CNP", .operation = &cnp, .headers_len = BTH_LEN},
};

const struct operation *opcode_operation(uint8_t opcode)
{
    return opcodes[opcode].operation;
}

const char *opcode_name(uint8_t opcode)
{
    const char *name = opcodes[opcode].name;

    return name != NULL ? name : "UNKNOWN";
}

unsigned opcode_headers(uint8_t opcode)
{
    return opcodes[opcode].headers;
}

unsigned opcode_headers_len(uint8_t opcode)
{
    return opcodes[opcode].headers_len;
}

const char *service_name(enum service service)
{
    switch (service) {
    case SERVICE_RC:
        return "RC";
    case SERVICE_UC:
        return "UC";
    case SERVICE_RD:
        return "RD";
    case SERVICE_UD:
        return "UD";
    case SERVICE_CNP:
        break;
    case SERVICE_XRC:
        return "XRC";
    }
    return "?";
}
