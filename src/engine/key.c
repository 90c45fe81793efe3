/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of keys (IBA 10.6). What a key opens has a slot in the table; its
 * key says which, but only to the engine:
 *
 *      31                              8 7            0
 *     +---------------------------------+--------------+
 *     | permuted (generation 3, index 21) | variant     |
 *     +---------------------------------+--------------+
 *
 * The permutation is a Feistel network of four rounds over two halves of 12
 * bits (Luby and Rackoff, 1988), whose round functions are drawn from the
 * engine's random numbers. The generation advances each time a slot is used
 * again, and slots are used again oldest first, so an old key names nothing
 * for a long time. The variant is random at first; a bind gives a window a new one.
 */
#include "engine/key_private.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "engine/engine_private.h"
#include "engine/limits.h"
#include "engine/memory.h"

#define INDEX_BITS 21u
#define INDEX_MASK ((1u << INDEX_BITS) - 1u)
#define SLOT_COUNT_MAX (1u << INDEX_BITS)
#define GENERATION_BITS 3u
#define GENERATION_MASK ((1u << GENERATION_BITS) - 1u)
#define HALF_BITS 12u
#define HALF_COUNT (1u << HALF_BITS)
#define HALF_MASK (HALF_COUNT - 1u)
#define ROUND_COUNT 4
#define SLOT_COUNT_START 512u
#define NO_SLOT UINT32_MAX

static_assert(INDEX_BITS + GENERATION_BITS == 2 * HALF_BITS, "the halves hold what is permuted");
static_assert(INDEX_BITS + GENERATION_BITS + KEY_VARIANT_BITS == 32, "a key is 32 bits");
static_assert(MR_COUNT_MAX + MW_COUNT_MAX <= SLOT_COUNT_MAX, "all that has a key has a slot");
static_assert(ROUND_COUNT * 16 == 64, "one hash holds the results of all rounds");

struct key_slot {
    struct mr *mr;       /* NULL: free */
    uint32_t next_free;  /* the next to be used after this one, or NO_SLOT */
    uint32_t generation; /* of its present or last key */
};

struct key_table {
    uint64_t rounds[HALF_COUNT]; /* 16 bits for each round, of which 12 are used */
    struct key_slot *slots;
    uint32_t slot_count; /* a power of two */
    uint32_t used_count;
    uint32_t free_head; /* the slot that was free for longest */
    uint32_t free_tail;
};

/* --- keys --- */

static uint32_t round_value(const struct key_table *t, int round, uint32_t half)
{
    return (uint32_t)(t->rounds[half] >> (16 * round)) & HALF_MASK;
}

static uint32_t permute(const struct key_table *t, uint32_t plain)
{
    uint32_t left = plain >> HALF_BITS;
    uint32_t right = plain & HALF_MASK;

    for (int round = 0; round < ROUND_COUNT; round++) {
        uint32_t mixed = left ^ round_value(t, round, right);

        left = right;
        right = mixed;
    }
    return left << HALF_BITS | right;
}

static uint32_t unpermute(const struct key_table *t, uint32_t permuted)
{
    uint32_t left = permuted >> HALF_BITS;
    uint32_t right = permuted & HALF_MASK;

    for (int round = ROUND_COUNT - 1; round >= 0; round--) {
        uint32_t mixed = right ^ round_value(t, round, left);

        right = left;
        left = mixed;
    }
    return left << HALF_BITS | right;
}

/* A key for the slot's present generation. 0 is never a key: programs take it for "none". */
static uint32_t make_key(struct engine *e, uint32_t index)
{
    uint32_t generation = e->keys->slots[index].generation;
    uint32_t permuted = permute(e->keys, generation << INDEX_BITS | index);
    uint32_t key;

    do
        key = permuted << KEY_VARIANT_BITS | (uint32_t)random_below(&e->random, KEY_VARIANT_COUNT);
    while (key == 0);
    return key;
}

static uint32_t key_index(const struct key_table *t, uint32_t key)
{
    return unpermute(t, key >> KEY_VARIANT_BITS) & INDEX_MASK;
}

struct mr *key_find(const struct engine *e, uint32_t key)
{
    struct mr *mr = key_find_slot(e, key);

    return mr != NULL && mr->key == key ? mr : NULL;
}

struct mr *key_find_slot(const struct engine *e, uint32_t key)
{
    const struct key_table *t = e->keys;
    uint32_t index = key_index(t, key);
    struct mr *mr = index < t->slot_count ? t->slots[index].mr : NULL;

    return mr != NULL && key_same_slot(mr->key, key) ? mr : NULL;
}

/* --- slots --- */

static void give_slot(struct key_table *t, uint32_t index)
{
    t->slots[index].mr = NULL;
    t->slots[index].next_free = NO_SLOT;
    if (t->free_head == NO_SLOT)
        t->free_head = index;
    else
        t->slots[t->free_tail].next_free = index;
    t->free_tail = index;
}

static uint32_t take_slot(struct key_table *t)
{
    uint32_t index = t->free_head;
    struct key_slot *slot;

    assert(index != NO_SLOT);
    slot = &t->slots[index];
    assert(slot->mr == NULL);
    t->free_head = slot->next_free;
    slot->generation = (slot->generation + 1) & GENERATION_MASK;
    return index;
}

static int set_slot_count(struct key_table *t, uint32_t count)
{
    struct key_slot *slots = realloc(t->slots, (size_t)count * sizeof(*slots));

    if (slots == NULL)
        return -ENOMEM;
    t->slots = slots;
    for (uint32_t index = t->slot_count; index < count; index++) {
        slots[index] = (struct key_slot){0};
        give_slot(t, index);
    }
    t->slot_count = count;
    return 0;
}

/* The table grows when it is half full, so that many slots take turns even beside what stays for
 * long. */
int key_reserve(struct engine *e)
{
    struct key_table *t = e->keys;
    int error = -ENOMEM;

    if (t->used_count >= t->slot_count / 2 && t->slot_count < SLOT_COUNT_MAX)
        error = set_slot_count(t, t->slot_count * 2);
    return t->free_head != NO_SLOT ? 0 : error;
}

void key_enter(struct engine *e, struct mr *mr)
{
    uint32_t index = take_slot(e->keys);

    e->keys->slots[index].mr = mr;
    e->keys->used_count++;
    mr->key = make_key(e, index);
}

void key_leave(struct engine *e, struct mr *mr)
{
    struct key_table *t = e->keys;

    assert(key_find(e, mr->key) == mr);
    give_slot(t, key_index(t, mr->key));
    t->used_count--;
    mr->key = 0;
}

int key_table_new(struct engine *e)
{
    const uint64_t key[2] = {random_u64(&e->random), random_u64(&e->random)};
    struct key_table *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return -ENOMEM;
    for (uint32_t half = 0; half < HALF_COUNT; half++)
        t->rounds[half] = random_hash(key, half);
    t->free_head = NO_SLOT;
    if (set_slot_count(t, SLOT_COUNT_START) != 0)
        goto free_table;
    e->keys = t;
    return 0;

free_table:
    free(t);
    return -ENOMEM;
}

void key_table_free(struct engine *e)
{
    if (e->keys == NULL)
        return;
    assert(e->keys->used_count == 0);
    free(e->keys->slots);
    free(e->keys);
    e->keys = NULL;
}

void key_table_check(const struct engine *e)
{
    const struct key_table *t = e->keys;
    uint32_t free_count = 0;

    for (uint32_t index = t->free_head; index != NO_SLOT; index = t->slots[index].next_free) {
        assert(t->slots[index].mr == NULL);
        free_count++;
    }
    assert(free_count + t->used_count == t->slot_count);
    for (uint32_t index = 0; index < t->slot_count; index++) {
        const struct mr *mr = t->slots[index].mr;

        assert(mr == NULL || key_index(t, mr->key) == index);
    }
}
