/* SPDX-License-Identifier: BSD-2-Clause */
/* The shadow of registered memory: see memory_book.h. */
#include "checkers/memory_book.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/expect.h"
#include "support/pattern.h"

static uint8_t *image(size_t len)
{
    uint8_t *bytes = malloc(len);

    EXPECT(bytes, "no memory for the test itself");
    return bytes;
}

void book_init(struct book *b, const char *name, size_t len, uint64_t id)
{
    *b = (struct book){.len = len + (size_t)2 * BOOK_GUARD};
    snprintf(b->name, sizeof(b->name), "%s", name);
    list_init(&b->claims);
    b->bytes = image(b->len);
    b->settled = image(b->len);
    b->future = image(b->len);
    pattern_fill(id, 0, b->bytes, b->len);
    memcpy(b->settled, b->bytes, b->len);
    memcpy(b->future, b->bytes, b->len);
}

static void claim_free(struct claim *c)
{
    list_remove(&c->link);
    free(c->bytes);
    free(c);
}

void book_fini(struct book *b)
{
    while (!list_empty(&b->claims))
        claim_free(LIST_ENTRY(b->claims.next, struct claim, link));
    free(b->bytes);
    free(b->settled);
    free(b->future);
}

void book_write(struct piece where, const uint8_t *bytes)
{
    if (where.len == 0)
        return;
    memcpy(where.book->bytes + where.offset, bytes, where.len);
    memcpy(where.book->settled + where.offset, bytes, where.len);
    memcpy(where.book->future + where.offset, bytes, where.len);
}

struct claim *claim_open(struct piece where, const uint8_t *bytes)
{
    struct claim *c = calloc(1, sizeof(*c));

    EXPECT(c, "no memory for the test itself");
    EXPECT(where.offset >= BOOK_GUARD, "test: claim begins in the guard");
    EXPECT(where.offset + where.len + BOOK_GUARD <= where.book->len,
           "test: claim ends in the guard");
    *c = (struct claim){.book = where.book, .offset = where.offset, .len = where.len};
    list_push_tail(&where.book->claims, &c->link);
    if (bytes && where.len > 0) {
        c->bytes = image(where.len);
        memcpy(c->bytes, bytes, where.len);
        memcpy(where.book->future + where.offset, bytes, where.len);
    }
    return c;
}

/*
 * Bytes from offset on, at most len, that c covers and explains: those that it
 * says, or any if it says nothing.
 */
static size_t explained(const struct claim *c, size_t offset, size_t len)
{
    const uint8_t *bytes = c->book->bytes;
    size_t end = offset + len < c->offset + c->len ? offset + len : c->offset + c->len;
    size_t i;

    if (offset < c->offset || offset >= c->offset + c->len)
        return 0;
    for (i = offset; i < end && (!c->bytes || bytes[i] == c->bytes[i - c->offset]); i++)
        ;
    return i - offset;
}

/* Goes on from the claim at link to the youngest; the most that any one explains. */
static size_t explained_by_any(const struct book *b, const struct list *link, size_t offset,
                               size_t len)
{
    size_t best = 0;

    for (; link != &b->claims && best < len; link = link->next) {
        size_t n = explained(LIST_ENTRY(link, const struct claim, link), offset, len);

        best = n > best ? n : best;
    }
    return best;
}

static size_t bytes_equal(const uint8_t *a, const uint8_t *b, size_t len)
{
    size_t done = 0;

    while (len - done >= 256 && memcmp(a + done, b + done, 256) == 0)
        done += 256;
    while (done < len && a[done] == b[done])
        done++;
    return done;
}

void claim_verify(const struct claim *c, const char *what)
{
    const struct book *b = c->book;
    size_t done = 0;

    while (c->bytes && done < c->len) {
        size_t n = bytes_equal(b->bytes + c->offset + done, c->bytes + done, c->len - done);

        done += n;
        if (done == c->len)
            break;
        n = explained_by_any(b, c->link.next, c->offset + done, c->len - done);
        EXPECT(n > 0, "%s: byte %zu of %zu in %s is 0x%02x and should be 0x%02x", what, done,
               c->len, b->name, b->bytes[c->offset + done], c->bytes[done]);
        done += n;
    }
}

void claim_done(struct claim *c, const char *what)
{
    struct book *b = c->book;

    claim_verify(c, what);
    if (c->len > 0)
        memcpy(b->settled + c->offset, c->bytes ? c->bytes : b->bytes + c->offset, c->len);
    if (c->len > 0 && !c->bytes)
        memcpy(b->future + c->offset, b->bytes + c->offset, c->len);
    claim_free(c);
}

static void check_range(const struct book *b, size_t offset, size_t len, const char *when)
{
    size_t done = 0;

    while (done < len) {
        size_t at = offset + done;
        size_t n = bytes_equal(b->bytes + at, b->settled + at, len - done);

        done += n;
        at += n;
        if (done == len)
            break;
        n = explained_by_any(b, b->claims.next, at, len - done);
        EXPECT(n > 0, "%s: byte %zu of %s changed from 0x%02x to 0x%02x and nobody asked for it",
               when, at - BOOK_GUARD, b->name, b->settled[at], b->bytes[at]);
        done += n;
    }
}

void claim_settle(struct claim *c, const char *what)
{
    struct book *b = c->book;

    check_range(b, c->offset, c->len, what);
    if (c->len > 0) {
        memcpy(b->settled + c->offset, b->bytes + c->offset, c->len);
        memcpy(b->future + c->offset, b->bytes + c->offset, c->len);
    }
    claim_free(c);
}

bool book_claimed(struct piece where)
{
    struct list *l;

    for (l = where.book->claims.next; l != &where.book->claims; l = l->next) {
        const struct claim *c = LIST_ENTRY(l, const struct claim, link);

        if (c->bytes && c->offset < where.offset + where.len && where.offset < c->offset + c->len)
            return true;
    }
    return false;
}

bool book_may_write(const struct book *b, size_t offset, size_t len)
{
    struct list *l = b->claims.next;

    while (len > 0 && l != &b->claims) {
        const struct claim *c = LIST_ENTRY(l, const struct claim, link);
        size_t end = c->offset + c->len;

        l = l->next;
        if (c->offset > offset || end <= offset)
            continue;
        if (end - offset >= len)
            return true;
        len -= end - offset;
        offset = end;
        l = b->claims.next;
    }
    return len == 0;
}

void book_check(const struct book *b, const char *when)
{
    check_range(b, 0, b->len, when);
}
