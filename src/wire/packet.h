/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transport part of a packet, from the BTH to the ICRC (IBA 9.2 to 9.3):
 * bytes to structs in host order and back. Neither direction allocates, and
 * the parser reads no byte beyond the length it was given. The ICRC itself is
 * icrc.h's; the addresses are datagram.h's.
 */
#ifndef UROCE_WIRE_PACKET_H
#define UROCE_WIRE_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/opcode.h"
#include "wire/psn.h"

#define ROCE_UDP_PORT 4791u
#define QPN_MULTICAST 0xffffffu /* IBA 9.2: the destination of all that goes to a group */
#define BTH_LEN 12u
#define RDETH_LEN 4u
#define DETH_LEN 8u
#define XRCETH_LEN 4u
#define FETH_LEN 4u
#define RETH_LEN 16u
#define ATOMICETH_LEN 28u
#define AETH_LEN 4u
#define ATOMICACKETH_LEN 8u
#define IMM_LEN 4u
#define IETH_LEN 4u
#define ICRC_LEN 4u
#define PACKET_HEADERS_MAX 64u /* BTH and extended headers of any opcode */
#define PACKET_PAYLOAD_MAX 4096u
#define BTH_ACK_REQ_OFFSET 8u /* byte that holds AckReq in its top bit */
#define BTH_ACK_REQ 0x80u

struct bth {
    uint8_t opcode;
    bool solicited;
    bool mig_req;
    uint8_t pad_count;
    uint8_t version;
    uint16_t pkey;
    bool fecn;
    bool becn;
    uint32_t dest_qpn;
    bool ack_req;
    struct psn psn;
};

/* Headers in host order. Only those that the opcode carries are valid. */
struct headers {
    struct bth bth;
    struct {
        uint32_t qkey;
        uint32_t src_qpn;
    } deth;
    struct {
        uint32_t srqn;
    } xrceth;
    struct {
        uint8_t placement_type; /* PLT, 4 bits (IBA 1.5 FETH) */
        uint8_t selectivity;    /* SEL, 2 bits */
    } feth;
    struct {
        uint64_t va;
        uint32_t rkey;
        uint32_t dma_len;
    } reth;
    struct {
        uint64_t va;
        uint32_t rkey;
        uint64_t swap_add;
        uint64_t compare;
    } atomic;
    struct {
        uint8_t syndrome;
        struct psn msn;
    } aeth;
    struct {
        uint64_t original;
    } atomic_ack;
    uint32_t imm;  /* immediate data, the number whose big-endian bytes are on the wire */
    uint32_t ieth; /* R_Key to invalidate */
};

/* A parsed packet. payload points into the caller's bytes and lives as long as they do. */
struct packet {
    struct headers h;
    const struct operation *operation; /* never NULL after a successful parse */
    const uint8_t *payload;            /* NULL when payload_len is 0 or bytes are absent */
    uint32_t payload_len;              /* without pad */
    uint32_t headers_len;              /* BTH and extended headers */
};

/* Why a packet is not looked at further: name, and a sentence for people. */
#define DROPS(D)                                                                                   \
    D(NONE, "packet is well formed")                                                               \
    D(TRUNCATED_BTH, "datagram is shorter than a BTH and an ICRC")                                 \
    D(UNKNOWN_OPCODE, "opcode does not exist")                                                     \
    D(RD_UNSUPPORTED, "reliable datagram is not supported")                                        \
    D(BAD_VERSION, "transport version is not 0")                                                   \
    D(TRUNCATED_HEADERS, "datagram ends within the extended headers")                              \
    D(BAD_PAD, "pad count is larger than the payload")                                             \
    D(UNALIGNED_LEN, "payload and pad are not a multiple of 4 bytes")                              \
    D(UNEXPECTED_PAYLOAD, "opcode carries no payload but the datagram does")                       \
    D(OVERSIZED, "payload is larger than the largest path MTU")

enum drop {
#define DROP_ENUM(name, text) DROP_##name,
    DROPS(DROP_ENUM)
#undef DROP_ENUM
        DROP_COUNT,
};

/* "TRUNCATED_BTH" and the sentence; static storage. */
const char *drop_name(enum drop drop);
const char *drop_text(enum drop drop);

/*
 * Reads bytes, which begin at the BTH and end with the ICRC (len counts both).
 * Checks only what the bytes alone can tell: opcode, version, lengths and pad;
 * PMTU, state and keys are the engine's. Reserved bits are ignored.
 * Reads headers only, so the payload's bytes need not be there (a snapped capture).
 * Returns DROP_NONE with *out written whole, or the first thing wrong; then
 * *out is untouched but for h.bth, which is valid if len allowed to read it.
 */
enum drop packet_parse(const uint8_t *bytes, size_t len, struct packet *out);

/* Reads the 12 bytes of a BTH. */
void bth_read(const uint8_t *bytes, struct bth *out);

/*
 * Writes the BTH and the extended headers of h->bth.opcode at out, which has
 * room for PACKET_HEADERS_MAX. Reserved bits are zero. The opcode must exist
 * (assert). Returns the bytes written.
 */
size_t headers_write(const struct headers *h, uint8_t *out);

/* Pad bytes that bring a payload to a multiple of 4 (IBA 9.2.3). */
static inline uint8_t packet_pad(uint32_t payload_len)
{
    return (uint8_t)(-payload_len & 3u);
}

#endif
