/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Arithmetic on addresses and lengths that came from outside. An address range
 * may touch the very end of the 64-bit space, but nothing here wraps around it.
 */
#ifndef UROCE_BASE_CHECKED_H
#define UROCE_BASE_CHECKED_H

#include <stdbool.h>
#include <stdint.h>

/* len bytes from start on. */
struct range {
    uint64_t start;
    uint64_t len;
};

/* True when the last byte of the range is still below 2^64; empty ranges are valid. */
static inline bool range_valid(struct range r)
{
    return r.len == 0 || r.start <= UINT64_MAX - (r.len - 1);
}

/*
 * True when every byte of inner is a byte of outer. Both may be anything,
 * ranges that would wrap included: those contain nothing and are in nothing.
 * An empty inner range is within outer when its start is in it or at its end.
 */
static inline bool range_within(struct range inner, struct range outer)
{
    uint64_t offset = inner.start - outer.start;

    if (!range_valid(inner) || !range_valid(outer))
        return false;
    if (inner.start < outer.start || offset > outer.len)
        return false;
    return inner.len <= outer.len - offset;
}

/* a + b in *sum, or false and *sum untouched when it does not fit. */
static inline bool checked_add(uint64_t a, uint64_t b, uint64_t *sum)
{
    if (a > UINT64_MAX - b)
        return false;
    *sum = a + b;
    return true;
}

#endif
