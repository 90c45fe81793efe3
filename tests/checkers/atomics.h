/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each atomic is applied exactly once, whole. A cell is eight bytes that many
 * queue pairs work on: the originals that they got back must link into one
 * chain from the first value to the last one, in which those of one queue pair
 * stand in the order of posting.
 */
#ifndef UROCE_TESTS_ATOMICS_H
#define UROCE_TESTS_ATOMICS_H

#include "checkers/ledger.h"

struct cell {
    struct piece where;
    uint64_t initial;
    struct message **operations; /* those that are over, in any order across QPs */
    uint32_t count;
    uint32_t capacity;
    struct message **open; /* posted, not over or of unknown result; in order */
    uint32_t open_count;
    uint32_t open_capacity;
    uint64_t guess; /* the last value that was seen */
};

void cell_init(struct cell *c, struct piece where);
void cell_fini(struct cell *c);

void atomics_posted(struct cell *c, struct message *m);
void atomics_answered(struct cell *c, const struct message *m);

/* The value that an operation leaves when it finds original. */
uint64_t atomic_result(const struct message *m, uint64_t original);

/*
 * Nothing is under way: the chain must end with what the memory holds. Those
 * whose answer was lost with their queue pair (at most one QP uses the
 * cell then) may have been applied up to any one, in order; the chain goes on from there.
 */
void cell_check(struct cell *c, const char *name);

#endif
