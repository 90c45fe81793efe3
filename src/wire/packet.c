/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Headers between bytes and structs, each read and written at the offset that
 * the headers before it leave (IBA 9.2 and 9.3; FETH: IBA 1.5).
 *
 *      0        7 8 9 10 12  16                              31
 *     +----------+-+-+--+----+--------------------------------+
 *     | opcode   |S|M|P |ver | P_Key                          |
 *     +-+-+------+-+-+--+----+--------------------------------+
 *     |F|B| res  | destination QPN                            |   S solicited, M migrated,
 *     +-+-+------+--------------------------------------------+   P pad count, F FECN,
 *     |A| res    | PSN                                        |   B BECN, A ack request
 *     +-+--------+--------------------------------------------+
 */
#include "wire/packet.h"

#include <assert.h>

#include "base/bytes.h"

static const struct {
    const char *name;
    const char *text;
} drops[DROP_COUNT] = {
#define DROP_ROW(name_, text_) [DROP_##name_] = {.name = #name_, .text = (text_)},
    DROPS(DROP_ROW)
#undef DROP_ROW
};

const char *drop_name(enum drop drop)
{
    return drops[drop].name;
}

const char *drop_text(enum drop drop)
{
    return drops[drop].text;
}

void bth_read(const uint8_t *bytes, struct bth *out)
{
    *out = (struct bth){
        .opcode = bytes[0],
        .solicited = (bytes[1] & 0x80) != 0,
        .mig_req = (bytes[1] & 0x40) != 0,
        .pad_count = (bytes[1] >> 4) & 3,
        .version = bytes[1] & 0xf,
        .pkey = load_be16(bytes + 2),
        .fecn = (bytes[4] & 0x80) != 0,
        .becn = (bytes[4] & 0x40) != 0,
        .dest_qpn = load_be24(bytes + 5),
        .ack_req = (bytes[BTH_ACK_REQ_OFFSET] & BTH_ACK_REQ) != 0,
        .psn = psn_make(load_be24(bytes + 9)),
    };
}

static void bth_write(const struct bth *bth, uint8_t *out)
{
    out[0] = bth->opcode;
    out[1] = (uint8_t)((bth->solicited ? 0x80u : 0) | (bth->mig_req ? 0x40u : 0) |
                       (bth->pad_count & 3u) << 4 | (bth->version & 0xfu));
    store_be16(out + 2, bth->pkey);
    out[4] = (uint8_t)((bth->fecn ? 0x80u : 0) | (bth->becn ? 0x40u : 0));
    store_be24(out + 5, bth->dest_qpn);
    out[BTH_ACK_REQ_OFFSET] = bth->ack_req ? BTH_ACK_REQ : 0;
    store_be24(out + 9, bth->psn.value);
}

/* Reads what follows the BTH; p has the bytes that opcode_headers_len promises. */
static void extended_read(unsigned headers, const uint8_t *p, struct headers *h)
{
    if ((headers & HEADER_DETH) != 0) {
        h->deth.qkey = load_be32(p);
        h->deth.src_qpn = load_be24(p + 5);
        p += DETH_LEN;
    }
    if ((headers & HEADER_XRCETH) != 0) {
        h->xrceth.srqn = load_be24(p + 1);
        p += XRCETH_LEN;
    }
    if ((headers & HEADER_FETH) != 0) {
        h->feth.placement_type = p[3] & 0xf;
        h->feth.selectivity = (p[3] >> 4) & 3;
        p += FETH_LEN;
    }
    if ((headers & HEADER_RETH) != 0) {
        h->reth.va = load_be64(p);
        h->reth.rkey = load_be32(p + 8);
        h->reth.dma_len = load_be32(p + 12);
        p += RETH_LEN;
    }
    if ((headers & HEADER_ATOMIC) != 0) {
        h->atomic.va = load_be64(p);
        h->atomic.rkey = load_be32(p + 8);
        h->atomic.swap_add = load_be64(p + 12);
        h->atomic.compare = load_be64(p + 20);
        p += ATOMICETH_LEN;
    }
    if ((headers & HEADER_AETH) != 0) {
        h->aeth.syndrome = p[0];
        h->aeth.msn = psn_make(load_be24(p + 1));
        p += AETH_LEN;
    }
    if ((headers & HEADER_ATOMIC_ACK) != 0)
        h->atomic_ack.original = load_be64(p);
    if ((headers & HEADER_IMM) != 0)
        h->imm = load_be32(p);
    if ((headers & HEADER_IETH) != 0)
        h->ieth = load_be32(p);
}

/* The reserved bytes that the writers below skip were zeroed by the caller. */
static void extended_write(unsigned headers, const struct headers *h, uint8_t *p)
{
    if ((headers & HEADER_DETH) != 0) {
        store_be32(p, h->deth.qkey);
        store_be32(p + 4, h->deth.src_qpn & 0xffffffu);
        p += DETH_LEN;
    }
    if ((headers & HEADER_XRCETH) != 0) {
        store_be32(p, h->xrceth.srqn & 0xffffffu);
        p += XRCETH_LEN;
    }
    if ((headers & HEADER_FETH) != 0) {
        store_be32(p, (h->feth.selectivity & 3u) << 4 | (h->feth.placement_type & 0xfu));
        p += FETH_LEN;
    }
    if ((headers & HEADER_RETH) != 0) {
        store_be64(p, h->reth.va);
        store_be32(p + 8, h->reth.rkey);
        store_be32(p + 12, h->reth.dma_len);
        p += RETH_LEN;
    }
    if ((headers & HEADER_ATOMIC) != 0) {
        store_be64(p, h->atomic.va);
        store_be32(p + 8, h->atomic.rkey);
        store_be64(p + 12, h->atomic.swap_add);
        store_be64(p + 20, h->atomic.compare);
        p += ATOMICETH_LEN;
    }
    if ((headers & HEADER_AETH) != 0) {
        p[0] = h->aeth.syndrome;
        store_be24(p + 1, h->aeth.msn.value);
        p += AETH_LEN;
    }
    if ((headers & HEADER_ATOMIC_ACK) != 0)
        store_be64(p, h->atomic_ack.original);
    if ((headers & HEADER_IMM) != 0)
        store_be32(p, h->imm);
    if ((headers & HEADER_IETH) != 0)
        store_be32(p, h->ieth);
}

size_t headers_write(const struct headers *h, uint8_t *out)
{
    const uint8_t opcode = h->bth.opcode;

    assert(opcode_operation(opcode) != NULL);
    bth_write(&h->bth, out);
    extended_write(opcode_headers(opcode), h, out + BTH_LEN);
    return opcode_headers_len(opcode);
}

/* What is between the headers and the ICRC: payload and pad. */
static enum drop check_body(const struct operation *operation, size_t body_len, uint8_t pad_count)
{
    if (pad_count > body_len)
        return DROP_BAD_PAD;
    if (body_len % 4 != 0)
        return DROP_UNALIGNED_LEN;
    if (operation->payload == PAYLOAD_NONE && body_len != 0)
        return DROP_UNEXPECTED_PAYLOAD;
    if (body_len - pad_count > PACKET_PAYLOAD_MAX)
        return DROP_OVERSIZED;
    return DROP_NONE;
}

enum drop packet_parse(const uint8_t *bytes, size_t len, struct packet *out)
{
    const struct operation *operation;
    struct bth *bth = &out->h.bth;
    size_t headers_len;
    size_t body_len;
    enum drop drop;

    if (len >= BTH_LEN)
        bth_read(bytes, bth);
    if (len < BTH_LEN + ICRC_LEN)
        return DROP_TRUNCATED_BTH;
    operation = opcode_operation(bth->opcode);
    if (operation == NULL)
        return opcode_service(bth->opcode) == SERVICE_RD ? DROP_RD_UNSUPPORTED
                                                         : DROP_UNKNOWN_OPCODE;
    if (bth->version != 0)
        return DROP_BAD_VERSION;
    headers_len = opcode_headers_len(bth->opcode);
    if (len < headers_len + ICRC_LEN)
        return DROP_TRUNCATED_HEADERS;
    body_len = len - headers_len - ICRC_LEN;
    drop = check_body(operation, body_len, bth->pad_count);
    if (drop != DROP_NONE)
        return drop;
    extended_read(opcode_headers(bth->opcode), bytes + BTH_LEN, &out->h);
    out->operation = operation;
    out->headers_len = (uint32_t)headers_len;
    out->payload_len = (uint32_t)body_len - bth->pad_count;
    out->payload = out->payload_len > 0 ? bytes + headers_len : NULL;
    return DROP_NONE;
}
