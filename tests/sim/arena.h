/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Registered memory from which buffers are taken at random places, so that they
 * are unaligned and lie close to each other.
 */
#ifndef UROCE_TESTS_SIM_ARENA_H
#define UROCE_TESTS_SIM_ARENA_H

#include <stdbool.h>
#include <stdint.h>

#include "checkers/memory_book.h"
#include "engine/memory.h"
#include "engine/srq.h"
#include "support/dice.h"

#define ARENA_REGIONS 3
#define ARENA_SPANS 512

struct region {
    struct mr *mr;
    size_t offset; /* in the book */
    uint64_t len;
    uint64_t iova;
};

struct arena {
    struct book book;
    struct region regions[ARENA_REGIONS];
    uint32_t region_count;
    struct piece busy[ARENA_SPANS];
    uint32_t busy_count;
};

/* A region of len bytes of the book, registered with an address that is not where it is. */
void region_init(struct region *r, struct pd *pd, struct book *book, size_t offset, uint64_t len,
                 uint32_t access, struct dice *d);
void region_fini(struct region *r);
/* It is registered anew, with another address; the old key is dead. */
void region_move(struct region *r, struct dice *d);
uint64_t region_address(const struct region *r, size_t offset);

void arena_init(struct arena *a, struct pd *pd, const char *name, uint64_t len, struct dice *d);
void arena_fini(struct arena *a);

/* Moves one of its regions if nothing is taken. Returns whether it did. */
bool arena_move(struct arena *a, struct dice *d);

/* Takes len bytes within one region. Returns false when there is no room. */
bool arena_take(struct arena *a, uint32_t len, struct dice *d, struct piece *out);
void arena_give(struct arena *a, const struct piece *p);

/* The SGE of a piece. One without bytes may have any key and address. */
struct sge arena_sge(const struct arena *a, const struct piece *p, struct dice *d);

#endif
