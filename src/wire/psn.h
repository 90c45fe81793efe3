/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packet sequence numbers: serial numbers of 24 bits (IBA 9.7.2). The struct
 * keeps a stray "<" from compiling; only this file looks inside. Two numbers
 * can be ordered while they are less than 2^23 apart. MSN and SSN are counted
 * in the same arithmetic.
 */
#ifndef UROCE_WIRE_PSN_H
#define UROCE_WIRE_PSN_H

#include <stdbool.h>
#include <stdint.h>

#define PSN_BITS 24u
#define PSN_MASK 0xffffffu
#define PSN_WINDOW_MAX 0x7fffffu /* outstanding PSNs stay below 2^23 (IBA 9.7.2) */

struct psn {
    uint32_t value;
};

/* The number whose low 24 bits are those of value. */
static inline struct psn psn_make(uint32_t value)
{
    return (struct psn){.value = value & PSN_MASK};
}

static inline struct psn psn_add(struct psn a, uint32_t count)
{
    return psn_make(a.value + count);
}

static inline struct psn psn_sub(struct psn a, uint32_t count)
{
    return psn_make(a.value - count);
}

/* Signed distance a - b, from -2^23 to 2^23 - 1. */
static inline int32_t psn_diff(struct psn a, struct psn b)
{
    uint32_t distance = (a.value - b.value) & PSN_MASK;

    return distance > PSN_WINDOW_MAX ? (int32_t)distance - (int32_t)(PSN_MASK + 1u)
                                     : (int32_t)distance;
}

static inline bool psn_equal(struct psn a, struct psn b)
{
    return a.value == b.value;
}

static inline bool psn_before(struct psn a, struct psn b)
{
    return psn_diff(a, b) < 0;
}

static inline bool psn_after(struct psn a, struct psn b)
{
    return psn_diff(a, b) > 0;
}

#endif
