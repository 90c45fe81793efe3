/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What every byte of registered memory must hold. A book is a block with three
 * images: the bytes that the engine works on, what they must be when nothing is
 * under way (settled), and what they will be after all that was asked for
 * (future). A claim says that a range is being written, and with what; a byte
 * outside every claim must not change, guard bytes around the block included.
 */
#ifndef UROCE_TESTS_MEMORY_BOOK_H
#define UROCE_TESTS_MEMORY_BOOK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

#define BOOK_GUARD 128u

struct book {
    char name[40];
    uint8_t *bytes; /* guards included */
    uint8_t *settled;
    uint8_t *future;
    size_t len;
    struct list claims; /* struct claim, oldest first */
};

struct claim {
    struct list link;
    struct book *book;
    size_t offset;
    size_t len;
    uint8_t *bytes; /* NULL: anything */
};

/* A range of a book. */
struct piece {
    struct book *book;
    size_t offset;
    uint32_t len;
};

/* len bytes between two guards, filled from id. Bytes to use: BOOK_GUARD .. BOOK_GUARD + len - 1.
 */
void book_init(struct book *b, const char *name, size_t len, uint64_t id);
void book_fini(struct book *b);

/* The application writes where nothing is claimed. */
void book_write(struct piece where, const uint8_t *bytes);

/* bytes (copied; NULL: anything) are going to be put there. */
struct claim *claim_open(struct piece where, const uint8_t *bytes);

/* All bytes of the claim are there, but where a younger claim covers them. Keeps the claim. */
void claim_verify(const struct claim *c, const char *what);

/* As claim_verify; the bytes are settled and the claim ends. */
void claim_done(struct claim *c, const char *what);

/* Whatever of the claim was put there stays. Every byte is what it was or what the claims say. */
void claim_settle(struct claim *c, const char *what);

/* True when an open claim that says what comes covers part of the range. */
bool book_claimed(struct piece where);

/* True when claims cover all of the len bytes from offset on. */
bool book_may_write(const struct book *b, size_t offset, size_t len);

/* Every byte is settled or as an open claim says. */
void book_check(const struct book *b, const char *when);

#endif
