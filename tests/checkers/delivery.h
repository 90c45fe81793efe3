/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What arrives in receive requests. RC: every message exactly once, in order,
 * intact. UC: intact or absent, in order. UD: intact or absent. Each receive
 * request completes once, those of a QP's own queue in order, and the bytes behind the
 * message stay as they were.
 */
#ifndef UROCE_TESTS_DELIVERY_H
#define UROCE_TESTS_DELIVERY_H

#include "checkers/ledger.h"

struct receive {
    uint64_t wr_id;
    uint32_t index; /* in its queue */
    uint32_t capacity;
    struct piece pieces[PIECES_MAX];
    uint32_t piece_count;
    struct claim *claims[PIECES_MAX];
    struct receive_queue *queue;
    uint32_t errors_allowed; /* STATUS_BIT of what else it may end with */
    bool completed;
};

/* Of a QP, or shared. */
struct receive_queue {
    char name[24];
    bool shared;
    struct receive **receives;
    uint32_t count;
    uint32_t capacity;
    uint32_t completed;      /* own queue: receives before this one are over */
    uint32_t open;           /* posted and not over */
    uint32_t lost;           /* shared: of the open ones so many may have gone with a queue pair */
    uint32_t errors_allowed; /* STATUS_BIT of what receives may end with now */
    bool failed;             /* own queue: an error came in this life */
    bool forged;             /* as in struct channel */
};

/* Takes r (from malloc) over. */
void delivery_posted(struct receive_queue *q, struct receive *r);

/* The QP that received, for datagrams: as in message.destination; and whether a datagram may come
 * twice. */
struct receiver {
    const void *destination;
    uint32_t member; /* as in message.members */
    bool duplicates;
};

/*
 * A completion of r with a message of the channel from. Returns the message, or
 * NULL when the completion is an error that may be, or may be forged.
 */
struct message *delivery_completed(struct channel *from, struct receive *r,
                                   const struct completion *wc, const struct receiver *to);

/* The QP was reset: receive requests of its own queue that are open never complete. */
void delivery_forget(struct receive_queue *q);

/* RC: every message that was sent with success, and so needs a receive, was received. */
void delivery_check_all(struct channel *from);

void receive_queue_fini(struct receive_queue *q);

#endif
