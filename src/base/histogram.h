/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A log-linear histogram: how often values of any size came, in little memory
 * of a fixed size. Eight bins an octave, so a quantile is at most an eighth too high.
 */
#ifndef UROCE_BASE_HISTOGRAM_H
#define UROCE_BASE_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_STEP_BITS 3u /* bins of an octave, as a power of two */
#define HISTOGRAM_BITS 46u /* values from 2^46 on, 20 hours in nanoseconds, share the last bin */
#define HISTOGRAM_BINS ((HISTOGRAM_BITS - HISTOGRAM_STEP_BITS + 1u) << HISTOGRAM_STEP_BITS)

/* Start from zero. */
struct histogram {
    uint64_t count;
    uint64_t sum;
    uint64_t max;
    uint32_t bins[HISTOGRAM_BINS];
};

void histogram_add(struct histogram *h, uint64_t value);

/*
 * The smallest value that so many thousandths of all values do not exceed, rounded up to the end
 * of its bin but never above max; 0 when nothing was added.
 */
uint64_t histogram_quantile(const struct histogram *h, uint32_t permille);

/* 0 when nothing was added. */
uint64_t histogram_mean(const struct histogram *h);

#endif
