/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random numbers for tests: splitmix64 (Steele, Lea and Flood, 2014). One seed
 * gives many independent streams, so that a roll more in one part of a test
 * leaves the other parts as they were. It is not the engine's generator on
 * purpose.
 */
#ifndef UROCE_TESTS_DICE_H
#define UROCE_TESTS_DICE_H

#include <stdbool.h>
#include <stdint.h>

struct dice {
    uint64_t state;
};

static inline uint64_t dice_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

static inline uint64_t dice_u64(struct dice *d)
{
    d->state += 0x9e3779b97f4a7c15ull;
    return dice_mix(d->state);
}

static inline struct dice dice_make(uint64_t seed, uint64_t stream)
{
    return (struct dice){.state = dice_mix(seed + 0x632be59bd9b4e019ull) ^ dice_mix(~stream)};
}

/* Below bound, which is not 0. */
static inline uint64_t dice_below(struct dice *d, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)dice_u64(d) * bound) >> 64);
}

/* From low to high, both included. */
static inline uint64_t dice_between(struct dice *d, uint64_t low, uint64_t high)
{
    return low + dice_below(d, high - low + 1);
}

/* True so many times in a million. */
static inline bool dice_chance(struct dice *d, uint32_t per_million)
{
    return per_million > 0 && dice_below(d, 1000000) < per_million;
}

static inline bool dice_percent(struct dice *d, uint32_t percent)
{
    return dice_below(d, 100) < percent;
}

/* An index below count, each as likely as its weight says. The weights are not all 0. */
static inline uint32_t dice_weighted(struct dice *d, const uint32_t *weights, uint32_t count)
{
    uint64_t sum = 0;
    uint64_t roll;
    uint32_t i;

    for (i = 0; i < count; i++)
        sum += weights[i];
    roll = dice_below(d, sum);
    for (i = 0; roll >= weights[i]; i++)
        roll -= weights[i];
    return i;
}

#endif
