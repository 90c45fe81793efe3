/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of keys that each engine owns: from a key to what it opens, in constant time. */
#ifndef UROCE_ENGINE_KEY_PRIVATE_H
#define UROCE_ENGINE_KEY_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

struct engine;
struct mr;

/* The part of a key that a bind may choose (IBA 10.6.7.2). */
#define KEY_VARIANT_BITS 8u
#define KEY_VARIANT_COUNT (1u << KEY_VARIANT_BITS)

/* Makes e->keys, with secrets drawn from e->random. Returns 0 or -ENOMEM. */
int key_table_new(struct engine *e);

/* All keys must have been taken away before (assert). Does nothing when there is no table. */
void key_table_free(struct engine *e);

/* Asserts what always holds of the table. */
void key_table_check(const struct engine *e);

/* Leaves at least one slot free, or returns -ENOMEM. */
int key_reserve(struct engine *e);

/* Gives mr a key; a slot is known to be free. */
void key_enter(struct engine *e, struct mr *mr);

/* Takes its key away. */
void key_leave(struct engine *e, struct mr *mr);

/* What exactly this key names, bound or not; NULL: nothing. */
struct mr *key_find(const struct engine *e, uint32_t key);

/* The same, whatever the key's variant. */
struct mr *key_find_slot(const struct engine *e, uint32_t key);

static inline bool key_same_slot(uint32_t a, uint32_t b)
{
    return a >> KEY_VARIANT_BITS == b >> KEY_VARIANT_BITS;
}

#endif
