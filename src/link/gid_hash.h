/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A hash of an address for small caches: every bit of it changes every bit of the
 * result, since addresses of one host or rack differ in the last byte only.
 */
#ifndef UROCE_LINK_GID_HASH_H
#define UROCE_LINK_GID_HASH_H

#include <stdint.h>

#include "wire/datagram.h"

/* Multiply, fold the high half into the low one, and again. */
static inline uint64_t gid_hash(const struct gid *g, uint64_t seed)
{
    uint64_t word[2];
    uint64_t h = seed;

    memcpy(word, g->bytes, sizeof(word));
    for (int i = 0; i < 2; i++) {
        h = (h ^ word[i]) * 0x9e3779b97f4a7c15u;
        h ^= h >> 32;
    }
    h *= 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

#endif
