/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/histogram.h"

#include <assert.h>

#define STEPS (1u << HISTOGRAM_STEP_BITS)

/* Values below STEPS have bins of their own; above, the octave and the bits behind the first one.
 */
static uint32_t bin_of(uint64_t value)
{
    uint32_t octave;

    if (value >> HISTOGRAM_BITS != 0)
        return HISTOGRAM_BINS - 1;
    if (value < STEPS)
        return (uint32_t)value;
    octave = 63u - (uint32_t)__builtin_clzll(value) - HISTOGRAM_STEP_BITS;
    return ((octave + 1) << HISTOGRAM_STEP_BITS) + ((uint32_t)(value >> octave) & (STEPS - 1));
}

/* The largest value of a bin. */
static uint64_t bin_last(uint32_t bin)
{
    uint32_t octave = bin >> HISTOGRAM_STEP_BITS;

    if (octave == 0)
        return bin;
    return ((uint64_t)(STEPS + (bin & (STEPS - 1)) + 1) << (octave - 1)) - 1;
}

void histogram_add(struct histogram *h, uint64_t value)
{
    h->count++;
    h->sum += value;
    if (value > h->max)
        h->max = value;
    h->bins[bin_of(value)]++;
}

uint64_t histogram_quantile(const struct histogram *h, uint32_t permille)
{
    uint64_t wanted = (h->count * permille + 999) / 1000;
    uint64_t seen = 0;

    assert(permille <= 1000);
    for (uint32_t bin = 0; bin < HISTOGRAM_BINS - 1; bin++) {
        seen += h->bins[bin];
        if (seen >= wanted && seen > 0)
            return bin_last(bin) < h->max ? bin_last(bin) : h->max;
    }
    return h->max;
}

uint64_t histogram_mean(const struct histogram *h)
{
    return h->count == 0 ? 0 : h->sum / h->count;
}
