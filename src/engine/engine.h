/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The transport without I/O: packets, time and work requests in; packets, a
 * deadline and completions out. No thread, clock, socket or global inside;
 * with the same seed and the same calls it produces the same bytes. One owner
 * at a time: the caller serialises all calls on one engine and its objects.
 *
 * Times are nanoseconds of the caller's clock and never go backwards.
 */
#ifndef UROCE_ENGINE_ENGINE_H
#define UROCE_ENGINE_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/counters.h"
#include "wire/datagram.h"

struct cq;
struct engine;
struct qp;
struct srq;

#define ENGINE_NEVER UINT64_MAX

struct engine_config {
    uint8_t seed[16];
    uint32_t qpn_base;      /* slot << 16: QPNs are qpn_base + 2 .. qpn_base + 65535 */
    uint16_t pkey;          /* 0xffff */
    uint32_t rd_atomic_max; /* most that a QP may ask for, each way */
    /*
     * Copies between packets and registered memory. Returns 0 or -EFAULT when
     * the memory is not there any more. NULL: memcpy.
     */
    int (*copy)(void *dst, const void *src, size_t len);
    uint32_t window_start; /* bytes in flight to one destination process at first; 0: by PMTU, see
                              window.c */
    uint32_t window_max;   /* 0: see window.c */
    uint32_t read_window;  /* bytes of READ responses that this engine lets be on their way to it */
    uint64_t timeout_floor_ns; /* shortest retransmission time-out that is honoured; 0: as
                                  attributes say */
    /*
     * In a dialogue of requests, how long an acknowledgement waits for the next request of this
     * side to go along with; well below the time-outs of peers. 0: it does not wait.
     */
    uint64_t ack_hold_ns;
    /*
     * How many bytes may leave now to a process, as far as is known outside; 0: ask again a little
     * later. RC shares a receiver with senders of whom it knows nothing; UC and UD (paced) have
     * no acknowledgements either that would show how much it can take. NULL: no limit.
     */
    uint32_t (*room)(void *context, const struct gid *dst, uint8_t slot, bool paced, uint64_t now);
    /*
     * How many bytes may be in flight to a process whose receive buffer is known and kept from
     * running over by room; 0: not known, then the window is one for the kernel's default buffer.
     * Asked once, when the first queue pair goes there. NULL: never known.
     */
    uint32_t (*window)(void *context, const struct gid *dst, uint8_t slot);
    /*
     * Whether all packets of a batch to a process come to its engine before its application can
     * act on the first. NULL: that is never known.
     */
    bool (*arrives_whole)(void *context, const struct path *path, uint8_t slot);
    void *context;
};

/* Values that suit an unprivileged UDP socket with the kernel's default receive buffer. */
struct engine_config engine_config_default(void);

/* Returns 0 with *out owned by the caller, or -ENOMEM, -EINVAL. config is copied. */
int engine_new(const struct engine_config *config, struct engine **out);

/* All objects must be freed before (assert). */
void engine_free(struct engine *e);

/*
 * One datagram in, whose ICRC was verified. Whatever it holds, it does no harm:
 * what is refused is counted. d->bytes is borrowed till return.
 */
void engine_receive(struct engine *e, const struct datagram *d, uint64_t now);

/*
 * Fills b with datagrams that may leave now, all of one QP. Returns their
 * number; 0: nothing may leave before more arrives, is posted or the deadline
 * passes. Whoever calls must send what it got (or treat it as lost on the wire).
 */
uint32_t engine_transmit(struct engine *e, uint64_t now, struct datagram_batch *b);

/* True when engine_transmit may have something to give. */
bool engine_wants_transmit(const struct engine *e);

/*
 * The process ends: queue pairs that were not destroyed say their last ACKs as if they were.
 * Returns true when there are more to be fetched by engine_transmit; then to be called again.
 */
bool engine_leave(struct engine *e);

/* When engine_advance must be called next, or ENGINE_NEVER. */
uint64_t engine_deadline(const struct engine *e);
void engine_advance(struct engine *e, uint64_t now);

/* The numbers of the asynchronous events are those of the verbs interface; verbs/ asserts it. */
enum engine_event_type {
    ENGINE_EVENT_CQ_ERR = 0,
    ENGINE_EVENT_QP_FATAL = 1,
    ENGINE_EVENT_QP_REQ_ERR = 2,
    ENGINE_EVENT_QP_ACCESS_ERR = 3,
    ENGINE_EVENT_COMM_EST = 4,
    ENGINE_EVENT_SQ_DRAINED = 5,
    ENGINE_EVENT_SRQ_ERR = 14,
    ENGINE_EVENT_SRQ_LIMIT = 15,
    ENGINE_EVENT_LAST_WQE = 16,
    ENGINE_EVENT_COMPLETION = 31, /* an armed CQ got an entry */
};

struct engine_event {
    enum engine_event_type type;
    struct cq *cq; /* the one that the type speaks of; the others NULL */
    struct qp *qp;
    struct srq *srq;
};

/* Takes the oldest event. Returns false when there is none. */
bool engine_event_next(struct engine *e, struct engine_event *out);

const struct engine_counters *engine_counters(const struct engine *e);

#endif
