/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Protection domains, memory regions and the table of their keys (IBA 10.6,
 * 11.2.8). A region has a slot in the table; its key says which, but only to
 * the engine:
 *
 *      31                              8 7            0
 *     +---------------------------------+--------------+
 *     | permuted (generation 4, index 20) | random      |
 *     +---------------------------------+--------------+
 *
 * The permutation is a Feistel network of four rounds over two halves of 12
 * bits (Luby and Rackoff, 1988), whose round functions are drawn from the
 * engine's random numbers. The generation advances each time a slot is used
 * again, and slots are used again oldest first, so an old key names nothing
 * for a long time.
 */
#include "engine/memory_private.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/checked.h"
#include "engine/engine_private.h"
#include "engine/limits.h"
#include "engine/memory.h"

#define INDEX_BITS 20u
#define INDEX_MASK ((1u << INDEX_BITS) - 1u)
#define GENERATION_BITS 4u
#define GENERATION_MASK ((1u << GENERATION_BITS) - 1u)
#define HALF_BITS 12u
#define HALF_COUNT (1u << HALF_BITS)
#define HALF_MASK (HALF_COUNT - 1u)
#define ROUND_COUNT 4
#define VARIANT_BITS 8u
#define VARIANT_COUNT (1u << VARIANT_BITS)
#define SLOT_COUNT_START 256u
#define NO_SLOT UINT32_MAX

static_assert(INDEX_BITS + GENERATION_BITS == 2 * HALF_BITS, "the halves hold what is permuted");
static_assert(MR_COUNT_MAX == 1u << INDEX_BITS, "every region has an index");
static_assert(ROUND_COUNT * 16 == 64, "one hash holds the results of all rounds");

#define ACCESS_ALL                                                                                 \
    (ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC |        \
     ACCESS_MW_BIND | ACCESS_ZERO_BASED | ACCESS_FLUSH_GLOBAL)

struct mr_slot {
    struct mr *mr;       /* NULL: free */
    uint32_t next_free;  /* the next to be used after this one, or NO_SLOT */
    uint32_t generation; /* of its present or last key */
};

struct mr_table {
    uint64_t rounds[HALF_COUNT]; /* 16 bits for each round, of which 12 are used */
    struct mr_slot *slots;
    uint32_t slot_count; /* a power of two */
    uint32_t mr_count;
    uint32_t free_head; /* the slot that was free for longest */
    uint32_t free_tail;
};

/* --- keys --- */

static uint32_t round_value(const struct mr_table *t, int round, uint32_t half)
{
    return (uint32_t)(t->rounds[half] >> (16 * round)) & HALF_MASK;
}

static uint32_t permute(const struct mr_table *t, uint32_t plain)
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

static uint32_t unpermute(const struct mr_table *t, uint32_t permuted)
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
    uint32_t generation = e->mrs->slots[index].generation;
    uint32_t permuted = permute(e->mrs, generation << INDEX_BITS | index);
    uint32_t key;

    do
        key = permuted << VARIANT_BITS | (uint32_t)random_below(&e->random, VARIANT_COUNT);
    while (key == 0);
    return key;
}

static uint32_t key_index(const struct mr_table *t, uint32_t key)
{
    return unpermute(t, key >> VARIANT_BITS) & INDEX_MASK;
}

static struct mr *find_mr(const struct mr_table *t, uint32_t key)
{
    uint32_t index = key_index(t, key);
    struct mr *mr = index < t->slot_count ? t->slots[index].mr : NULL;

    return mr != NULL && mr->key == key ? mr : NULL;
}

/* --- slots --- */

static void give_slot(struct mr_table *t, uint32_t index)
{
    t->slots[index].mr = NULL;
    t->slots[index].next_free = NO_SLOT;
    if (t->free_head == NO_SLOT)
        t->free_head = index;
    else
        t->slots[t->free_tail].next_free = index;
    t->free_tail = index;
}

static uint32_t take_slot(struct mr_table *t)
{
    uint32_t index = t->free_head;
    struct mr_slot *slot;

    assert(index != NO_SLOT);
    slot = &t->slots[index];
    assert(slot->mr == NULL);
    t->free_head = slot->next_free;
    slot->generation = (slot->generation + 1) & GENERATION_MASK;
    return index;
}

static int set_slot_count(struct mr_table *t, uint32_t count)
{
    struct mr_slot *slots = realloc(t->slots, (size_t)count * sizeof(*slots));

    if (slots == NULL)
        return -ENOMEM;
    t->slots = slots;
    for (uint32_t index = t->slot_count; index < count; index++) {
        slots[index] = (struct mr_slot){0};
        give_slot(t, index);
    }
    t->slot_count = count;
    return 0;
}

/*
 * Leaves at least one slot free, or returns -ENOMEM. The table grows when it is
 * half full, so that many slots take turns even beside regions that stay for long.
 */
static int reserve_slot(struct mr_table *t)
{
    int error = -ENOMEM;

    if (t->mr_count >= t->slot_count / 2 && t->slot_count < MR_COUNT_MAX)
        error = set_slot_count(t, t->slot_count * 2);
    return t->free_head != NO_SLOT ? 0 : error;
}

int mr_table_new(struct engine *e)
{
    const uint64_t key[2] = {random_u64(&e->random), random_u64(&e->random)};
    struct mr_table *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return -ENOMEM;
    for (uint32_t half = 0; half < HALF_COUNT; half++)
        t->rounds[half] = random_hash(key, half);
    t->free_head = NO_SLOT;
    if (set_slot_count(t, SLOT_COUNT_START) != 0)
        goto free_table;
    e->mrs = t;
    return 0;

free_table:
    free(t);
    return -ENOMEM;
}

void mr_table_free(struct engine *e)
{
    if (e->mrs == NULL)
        return;
    assert(e->mrs->mr_count == 0);
    free(e->mrs->slots);
    free(e->mrs);
    e->mrs = NULL;
}

void mr_table_check(const struct engine *e)
{
    const struct mr_table *t = e->mrs;
    uint32_t free_count = 0;

    for (uint32_t index = t->free_head; index != NO_SLOT; index = t->slots[index].next_free) {
        assert(t->slots[index].mr == NULL);
        free_count++;
    }
    assert(free_count + t->mr_count == t->slot_count);
    for (uint32_t index = 0; index < t->slot_count; index++) {
        const struct mr *mr = t->slots[index].mr;

        assert(mr == NULL || key_index(t, mr->key) == index);
    }
}

/* --- protection domains --- */

int pd_new(struct engine *e, struct pd **out)
{
    struct pd *pd;

    if (e->pd_count >= PD_COUNT_MAX)
        return -ENOMEM;
    pd = calloc(1, sizeof(*pd));
    if (pd == NULL)
        return -ENOMEM;
    pd->engine = e;
    e->pd_count++;
    *out = pd;
    return 0;
}

int pd_free(struct pd *pd)
{
    if (pd->use_count > 0)
        return -EBUSY;
    assert(pd->engine->pd_count > 0);
    pd->engine->pd_count--;
    free(pd);
    return 0;
}

/* --- regions --- */

/* IBA 11.2.8.2: a peer may not write where this process itself may not. */
static bool rights_valid(uint32_t access)
{
    const uint32_t remote_change = ACCESS_REMOTE_WRITE | ACCESS_REMOTE_ATOMIC;

    if ((access & ~(uint32_t)ACCESS_ALL) != 0)
        return false;
    return (access & remote_change) == 0 || (access & ACCESS_LOCAL_WRITE) != 0;
}

static uint64_t first_iova(const struct mr_attr *attr)
{
    return (attr->access & ACCESS_ZERO_BASED) != 0 ? 0 : attr->iova;
}

static bool attr_valid(const struct mr_attr *attr)
{
    const struct range memory = {.start = (uintptr_t)attr->base, .len = attr->len};
    const struct range named = {.start = first_iova(attr), .len = attr->len};

    return rights_valid(attr->access) && attr->len <= MR_LEN_MAX && range_valid(memory) &&
           range_valid(named);
}

static void set_attr(struct mr *mr, const struct mr_attr *attr)
{
    mr->base = attr->base;
    mr->iova = first_iova(attr);
    mr->len = attr->len;
    mr->access = attr->access;
}

/* Gives mr a key; a slot is known to be free. */
static void enter(struct mr *mr)
{
    struct engine *e = mr->pd->engine;
    uint32_t index = take_slot(e->mrs);

    e->mrs->slots[index].mr = mr;
    e->mrs->mr_count++;
    mr->key = make_key(e, index);
}

/* Takes its key away, if it still has one. */
static void leave(struct mr *mr)
{
    struct mr_table *t = mr->pd->engine->mrs;

    if (mr->key == 0)
        return;
    assert(find_mr(t, mr->key) == mr);
    give_slot(t, key_index(t, mr->key));
    t->mr_count--;
    mr->key = 0;
}

int mr_new(struct pd *pd, const struct mr_attr *attr, struct mr **out)
{
    struct mr *mr;
    int error;

    if (!attr_valid(attr))
        return -EINVAL;
    error = reserve_slot(pd->engine->mrs);
    if (error != 0)
        return error;
    mr = calloc(1, sizeof(*mr));
    if (mr == NULL)
        return -ENOMEM;
    mr->pd = pd;
    pd->use_count++;
    set_attr(mr, attr);
    enter(mr);
    *out = mr;
    return 0;
}

int mr_free(struct mr *mr)
{
    leave(mr);
    assert(mr->pd->use_count > 0);
    mr->pd->use_count--;
    free(mr);
    return 0;
}

static void move_to_pd(struct mr *mr, struct pd *pd)
{
    assert(pd->engine == mr->pd->engine);
    mr->pd->use_count--;
    mr->pd = pd;
    mr->pd->use_count++;
}

int mr_change(struct mr *mr, struct pd *pd, const struct mr_attr *attr)
{
    int error;

    if (attr != NULL && !attr_valid(attr))
        return -EINVAL;
    error = reserve_slot(mr->pd->engine->mrs);
    if (error != 0 && mr->key == 0)
        return error;
    leave(mr);
    if (pd != NULL)
        move_to_pd(mr, pd);
    if (attr != NULL)
        set_attr(mr, attr);
    enter(mr);
    return 0;
}

int mr_set_access(struct mr *mr, struct pd *pd, uint32_t access)
{
    /* A zero-based region cannot become another without a new range. */
    if (!rights_valid(access) || ((access ^ mr->access) & ACCESS_ZERO_BASED) != 0)
        return -EINVAL;
    if (pd != NULL)
        move_to_pd(mr, pd);
    mr->access = access;
    return 0;
}

enum mr_verdict mr_resolve(struct engine *e, const struct mr_query *q, uint8_t **out)
{
    const struct mr *mr = find_mr(e->mrs, q->key);

    if (mr == NULL)
        return MR_NO_KEY;
    if (mr->pd != q->pd)
        return MR_WRONG_PD;
    if ((q->access & ~mr->access) != 0)
        return MR_NO_ACCESS;
    if (!range_within((struct range){.start = q->va, .len = q->len},
                      (struct range){.start = mr->iova, .len = mr->len}))
        return MR_OUT_OF_BOUNDS;
    *out = mr->base + (q->va - mr->iova);
    return MR_OK;
}

enum mr_verdict mr_has_right(struct engine *e, const struct mr_query *q)
{
    const struct mr *mr = find_mr(e->mrs, q->key);

    if (mr == NULL)
        return MR_NO_KEY;
    if (mr->pd != q->pd)
        return MR_WRONG_PD;
    return (q->access & ~mr->access) == 0 ? MR_OK : MR_NO_ACCESS;
}

enum mr_verdict mr_invalidate(struct engine *e, const struct pd *pd, uint32_t key)
{
    const uint32_t remote = ACCESS_REMOTE_READ | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_ATOMIC;
    struct mr *mr = find_mr(e->mrs, key);

    if (mr == NULL)
        return MR_NO_KEY;
    if (mr->pd != pd)
        return MR_WRONG_PD;
    if ((mr->access & remote) == 0)
        return MR_NO_ACCESS;
    leave(mr);
    return MR_OK;
}
