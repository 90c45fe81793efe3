/* SPDX-License-Identifier: BSD-2-Clause */
/* Buffers at random places: see arena.h. */
#include "sim/arena.h"

#include "support/expect.h"

#define TRIES 12

/* Anywhere, at times close to the end of the 64-bit space. */
static uint64_t roll_iova(uint64_t len, struct dice *d)
{
    uint64_t iova = dice_u64(d) >> dice_below(d, 30);

    if (dice_percent(d, 15) || iova > UINT64_MAX - len - 4096)
        iova = UINT64_MAX - len - dice_below(d, 64) * 8;
    return len % 8 == 0 ? iova & ~7ull : iova; /* cells of atomics stay aligned */
}

void region_init(struct region *r, struct pd *pd, struct book *book, size_t offset, uint64_t len,
                 uint32_t access, struct dice *d)
{
    struct mr_attr attr = {.base = book->bytes + offset, .len = len, .access = access};
    int error;

    attr.iova = roll_iova(len, d);
    *r = (struct region){.offset = offset, .len = len, .iova = attr.iova};
    error = mr_new(pd, &attr, &r->mr);
    EXPECT(error == 0, "mr_new returns %d for 0x%lx, %lu bytes", error, (unsigned long)attr.iova,
           (unsigned long)len);
}

void region_fini(struct region *r)
{
    if (r->mr)
        EXPECT(mr_free(r->mr) == 0, "a region cannot be freed");
    r->mr = NULL;
}

void region_move(struct region *r, struct dice *d)
{
    struct mr_attr attr = {.base = r->mr->base, .len = r->len, .access = r->mr->access};
    struct engine *e = r->mr->pd->engine;
    uint32_t key = r->mr->key;

    attr.iova = roll_iova(r->len, d);
    EXPECT(mr_change(r->mr, NULL, &attr) == 0, "a region cannot be changed");
    EXPECT(mr_find(e, key) == NULL, "key 0x%08x lives after its region was changed", key);
    r->iova = attr.iova;
}

uint64_t region_address(const struct region *r, size_t offset)
{
    return r->iova + (offset - r->offset);
}

void arena_init(struct arena *a, struct pd *pd, const char *name, uint64_t len, struct dice *d)
{
    uint64_t share;
    uint32_t i;

    *a = (struct arena){.region_count = (uint32_t)dice_between(d, 1, ARENA_REGIONS)};
    share = len + BOOK_GUARD;
    book_init(&a->book, name, share * a->region_count, dice_u64(d));
    for (i = 0; i < a->region_count; i++)
        region_init(&a->regions[i], pd, &a->book, BOOK_GUARD + share * i, len, ACCESS_LOCAL_WRITE,
                    d);
}

void arena_fini(struct arena *a)
{
    uint32_t i;

    for (i = 0; i < a->region_count; i++)
        region_fini(&a->regions[i]);
    book_fini(&a->book);
}

bool arena_move(struct arena *a, struct dice *d)
{
    if (a->busy_count > 0)
        return false;
    region_move(&a->regions[dice_below(d, a->region_count)], d);
    return true;
}

static const struct piece *overlapping(const struct arena *a, size_t offset, uint32_t len)
{
    uint32_t i;

    for (i = 0; i < a->busy_count; i++) {
        if (a->busy[i].offset < offset + len && offset < a->busy[i].offset + a->busy[i].len)
            return &a->busy[i];
    }
    return NULL;
}

static bool find_room(const struct arena *a, uint32_t len, struct dice *d, size_t *out)
{
    const struct region *r;
    const struct piece *other;
    uint32_t i;

    for (i = 0; i < TRIES; i++) {
        r = &a->regions[dice_below(d, a->region_count)];
        if (len > r->len)
            return false;
        *out = r->offset + dice_below(d, r->len - len + 1);
        if (!overlapping(a, *out, len))
            return true;
    }
    for (i = 0; i < a->region_count; i++) {
        r = &a->regions[i];
        *out = r->offset;
        while (*out + len <= r->offset + r->len) {
            other = overlapping(a, *out, len);
            if (!other)
                return true;
            *out = other->offset + other->len;
        }
    }
    return false;
}

bool arena_take(struct arena *a, uint32_t len, struct dice *d, struct piece *out)
{
    *out = (struct piece){.book = &a->book, .offset = BOOK_GUARD, .len = len};
    if (len == 0)
        return true;
    if (a->busy_count == ARENA_SPANS || !find_room(a, len, d, &out->offset))
        return false;
    a->busy[a->busy_count++] = *out;
    return true;
}

void arena_give(struct arena *a, const struct piece *p)
{
    uint32_t i;

    if (p->len == 0)
        return;
    for (i = 0; i < a->busy_count && a->busy[i].offset != p->offset; i++)
        ;
    EXPECT(i < a->busy_count, "test: a buffer is given back twice");
    a->busy[i] = a->busy[--a->busy_count];
}

struct sge arena_sge(const struct arena *a, const struct piece *p, struct dice *d)
{
    uint32_t i;

    if (p->len == 0)
        return (struct sge){.addr = dice_u64(d), .lkey = (uint32_t)dice_u64(d)};
    for (i = 0; i + 1 < a->region_count && p->offset >= a->regions[i + 1].offset; i++)
        ;
    return (struct sge){.addr = region_address(&a->regions[i], p->offset),
                        .length = p->len,
                        .lkey = a->regions[i].mr->key};
}
