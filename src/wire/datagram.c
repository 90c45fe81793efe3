/* SPDX-License-Identifier: BSD-2-Clause */
/* UDP source ports, 0xc000 to 0xffff, by the formulas of Linux, and what datagrams cost there. */
#include "wire/datagram.h"

#define PORT_BASE 0xc000u
#define PORT_BITS 14
#define PORT_MASK 0x3fffu
#define FLOW_LABEL_MASK 0xfffffu
#define HASH_MULTIPLIER 0x61c88647u /* 2^32 by the golden ratio, as Linux hash_32() */

/*
 * Measured on Linux 6.18: alone, the power of two above a datagram and its headers; in a batch, 300
 * bytes besides itself.
 */
#define TRUESIZE_LEAST 512u
#define TRUESIZE_ALONE 320u
#define TRUESIZE_HEADERS 480u
#define TRUESIZE_BATCH 1024u

uint32_t datagram_truesize(uint32_t count, uint32_t bytes)
{
    uint32_t bucket = TRUESIZE_LEAST;

    if (count > 1)
        return bytes + count * TRUESIZE_SEGMENT + TRUESIZE_BATCH;
    while (bucket < bytes + TRUESIZE_HEADERS)
        bucket *= 2;
    return bucket + TRUESIZE_ALONE;
}

uint16_t roce_src_port(uint32_t flow_label, uint32_t local_qpn, uint32_t remote_qpn)
{
    uint32_t label = flow_label & FLOW_LABEL_MASK;

    if (label == 0) {
        uint64_t mix = (uint64_t)local_qpn * remote_qpn;

        mix ^= mix >> 20;
        mix ^= mix >> 40;
        label = (uint32_t)mix & FLOW_LABEL_MASK;
    }
    return (uint16_t)(PORT_BASE | ((label & PORT_MASK) ^ label >> PORT_BITS));
}

uint16_t roce_src_port_ud(uint32_t local_qpn)
{
    return (uint16_t)(PORT_BASE + (local_qpn * HASH_MULTIPLIER >> (32 - PORT_BITS)));
}
