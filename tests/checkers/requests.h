/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Send requests complete exactly once and in order: signalled ones with a
 * completion, unsignalled ones silently unless they fail; after the first
 * error all others are flushed (IBA 10.8, 11.6.2). What a request did to memory is
 * checked when it is known to be over.
 */
#ifndef UROCE_TESTS_REQUESTS_H
#define UROCE_TESTS_REQUESTS_H

#include "checkers/ledger.h"

/* Takes m (from malloc) over: gives it an index and PSNs. */
void requests_posted(struct channel *c, struct message *m);

/* A completion of the message m of c. */
void requests_completed(struct channel *c, struct message *m, const struct completion *wc);

/* Requests that may still complete. */
static inline uint32_t requests_open(const struct channel *c)
{
    return c->count - c->completed;
}

/*
 * Requests are open, all unsignalled, and no error was seen: when nothing more
 * comes they were done in silence before the QP came to its end.
 */
bool requests_only_silent(const struct channel *c);

/* The QP was reset: what did not complete never will. */
void requests_forget(struct channel *c);

/* The life is over and nothing of it is in the network any more: all completed, memory is settled.
 */
void requests_end_life(struct channel *c);

#endif
