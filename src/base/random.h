/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random numbers that are unpredictable without the seed and the same for the
 * same seed: SipHash-2-4 of a running counter (Aumasson and Bernstein, 2012).
 */
#ifndef UROCE_BASE_RANDOM_H
#define UROCE_BASE_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t key[2];
    uint64_t counter;
};

/* seed is 16 bytes. */
void random_init(struct random *r, const uint8_t *seed);
uint64_t random_u64(struct random *r);
/* Evenly below bound, which is not 0. */
uint64_t random_below(struct random *r, uint64_t bound);
/* SipHash-2-4 of one 64-bit word under key: the keyed function behind it. */
uint64_t random_hash(const uint64_t key[2], uint64_t word);

#endif
