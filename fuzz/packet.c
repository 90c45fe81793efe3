/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames from the IP header on. What is parsed must write back to the same
 * bytes but for reserved bits; a verdict on the ICRC must not depend on the hint.
 */
#include <assert.h>
#include <string.h>

#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* Clears the bits of written headers that are reserved, in headers that were read. */
static void clear_reserved(const struct packet *p, uint8_t *headers)
{
    const unsigned carried = opcode_headers(p->h.bth.opcode);
    uint8_t *next = headers + BTH_LEN;

    headers[4] &= 0xc0;
    headers[BTH_ACK_REQ_OFFSET] &= BTH_ACK_REQ;
    if ((carried & HEADER_DETH) != 0) {
        next[4] = 0;
        next += DETH_LEN;
    }
    if ((carried & HEADER_XRCETH) != 0) {
        next[0] = 0;
        next += XRCETH_LEN;
    }
    if ((carried & HEADER_FETH) != 0) {
        memset(next, 0, 3);
        next[3] &= 0x3f;
    }
}

static void check_transport(const uint8_t *bytes, size_t len)
{
    uint8_t written[PACKET_HEADERS_MAX];
    uint8_t expected[PACKET_HEADERS_MAX];
    struct packet p = {0};

    if (packet_parse(bytes, len, &p) != DROP_NONE)
        return;
    assert(p.operation != NULL);
    assert(p.headers_len + p.payload_len + p.h.bth.pad_count + ICRC_LEN == len);
    assert(headers_write(&p.h, written) == p.headers_len);
    memcpy(expected, bytes, p.headers_len);
    clear_reserved(&p, expected);
    assert(memcmp(written, expected, p.headers_len) == 0);
}

static void check_icrc(const struct ip_header *ip, uint16_t src_port, const uint8_t *bytes,
                       size_t len)
{
    struct icrc_flow flow;
    uint16_t first = 0;
    uint16_t second = 0;
    enum icrc_verdict verdict;

    icrc_flow_init(&flow, &ip->src, &ip->dst);
    verdict = icrc_verify(&flow, src_port, 0, bytes, len, &first);
    assert(icrc_verify(&flow, src_port, 0xa5c3, bytes, len, &second) == verdict);
    assert(first == second);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct ip_header ip;
    struct udp_header udp;
    const uint8_t *payload;

    check_transport(bytes, len);
    if (ip_read(bytes, len, &ip) != IP_FAULT_NONE)
        return 0;
    if (udp_read(bytes + ip.header_len, ip.payload_len, &udp) != IP_FAULT_NONE)
        return 0;
    payload = bytes + ip.header_len + UDP_LEN;
    check_transport(payload, udp.len - UDP_LEN);
    check_icrc(&ip, udp.src_port, payload, udp.len - UDP_LEN);
    if (udp.len >= UDP_LEN + BTH_LEN + ICRC_LEN)
        icrc_of_frame(bytes, ip.header_len + udp.len - ICRC_LEN, ip.header_len, true);
    return 0;
}
