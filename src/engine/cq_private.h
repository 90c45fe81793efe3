/* SPDX-License-Identifier: BSD-2-Clause */
/* What the rest of the engine may do with a completion queue. */
#ifndef UROCE_ENGINE_CQ_PRIVATE_H
#define UROCE_ENGINE_CQ_PRIVATE_H

#include "engine/cq.h"
#include "engine/event_private.h"

/* What an entry must be to raise the completion event, weakest request first. */
enum cq_arm {
    CQ_ARM_NONE,
    CQ_ARM_SOLICITED,
    CQ_ARM_ANY,
};

/* The inside is cq.c's; event.c finds the CQ by its event source. */
struct cq {
    /* set at creation */
    struct engine *engine;
    void *context;
    struct event_source events;
    bool overrun_ignored;
    /* set by moderate */
    uint32_t moderation_count;
    uint64_t moderation_ns;
    /* set by resize */
    struct completion *ring;
    bool borrowed; /* the ring: the caller's memory */
    uint32_t capacity;
    /* moves with completions */
    uint32_t head; /* slot of the oldest entry */
    uint32_t queued;
    uint32_t use_count; /* QPs and SRQs */
    enum cq_arm arm;
    uint32_t held;              /* entries that the armed event waits with */
    uint64_t held_until_ns;     /* or ENGINE_NEVER */
    struct list moderated_link; /* on engine.moderated while held is not 0 */
    bool overrun;               /* entries were lost: none is put in any more */
};

/*
 * Puts an entry in, stamps it, and raises the completion event if the CQ is
 * armed for it (solicited: a receive of a packet with SE; any status but
 * success counts as solicited too). When full: the entry is lost, the CQ is in
 * error from then on, ENGINE_EVENT_CQ_ERR is raised once, and the QP of the
 * entry fails when its turn is over (qp_fail_lost).
 */
void cq_push(struct cq *cq, const struct completion *c, bool solicited);

/* Drops the entries of a QP that goes away or is reset, or of an XRC SRQ that goes away. */
void cq_forget(struct cq *cq, const void *owner);

/* When the next event that is held back is due, or ENGINE_NEVER; raises those that are. */
uint64_t cq_deadline(const struct engine *e);
void cq_advance(struct engine *e);

/* Counts the QPs and SRQs that use it. */
void cq_get(struct cq *cq);
void cq_put(struct cq *cq);

/* Asserts what always holds. */
void cq_check(const struct cq *cq);

#endif
