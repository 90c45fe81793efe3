/* SPDX-License-Identifier: BSD-2-Clause */
/* UDP source ports, 0xc000 to 0xffff, by the formulas of Linux. */
#include "wire/datagram.h"

#define PORT_BASE 0xc000u
#define PORT_BITS 14
#define PORT_MASK 0x3fffu
#define FLOW_LABEL_MASK 0xfffffu
#define HASH_MULTIPLIER 0x61c88647u /* 2^32 by the golden ratio, as Linux hash_32() */

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
