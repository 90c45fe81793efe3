/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One direction of a connection: the requests that one queue pair sends to the
 * other, and the responses that answer them. PSNs become positions, 64-bit numbers
 * that count on over the wrap, so what is before what is plain arithmetic.
 *
 *      start            acked              next
 *        |................|.................|------>  position
 *         answered          outstanding       not sent yet
 *
 * A stream keeps the messages that await their end (a ring), holes in what was
 * seen (gaps), and the going back that is under way. All of it is bounded.
 */
#ifndef UROCE_PCAP_STREAM_H
#define UROCE_PCAP_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/histogram.h"
#include "pcap/finding.h"
#include "pcap/frame.h"
#include "pcap/timeline.h"

#define STREAM_GAPS_MAX 8u
#define STREAM_REQUESTS_MAX 8192u /* unanswered at a time; perftest and NVMe stay far below */
#define STREAM_JUMP_MAX 4096      /* packets; a PSN farther off is a stray one or a new beginning */
#define STREAM_RECENT 16          /* packets whose time is known each */
#define STREAM_SIZES 33u          /* bins of message sizes: 0, then powers of two up to 2^31 */
#define TIMEOUT_MIN_NS 1000000u   /* a requester that waited less did not wait for its timer */
#define IMPLIED_MAX_NS 20000000u  /* one that waited longer did not act on a missing response */
#define MOMENT_RAISED_MAX 8u

enum message_group {
    GROUP_SEND,
    GROUP_WRITE,
    GROUP_READ,
    GROUP_ATOMIC,
    GROUP_OTHER, /* FLUSH, ATOMIC WRITE */
    GROUP_COUNT,
};

/* Why requests were sent again. */
enum repeat_cause {
    REPEAT_NONE,
    REPEAT_TIMEOUT,
    REPEAT_NAK,
    REPEAT_RNR,
    REPEAT_IMPLIED,
    REPEAT_UNEXPLAINED,
    REPEAT_COUNT,
};

/* A message that was sent and awaits its answer. */
struct request {
    int64_t first; /* position */
    int64_t end;   /* of its last packet, and 1 */
    enum operation_kind kind;
    bool asks;      /* for a response: AckReq, or READ or atomic */
    bool span_open; /* a READ whose end is not known, for the path MTU is not */
    bool holed;     /* of its responses some were not seen */
    bool again;     /* a READ that was asked for again: soft-RoCE then goes on without FIRST */
    bool untimed;   /* when it was answered is not known */
    uint64_t bytes;
    uint64_t first_ns;
    uint64_t first_frame;
    int64_t begins;   /* position of the first response, of the newest asking */
    int64_t answered; /* position of the response expected next, of a READ or an atomic */
};

struct gap {
    int64_t first;
    int64_t end; /* first == end: none */
    uint64_t seen_ns;
    uint64_t frame;
};

/* The message whose packets are coming. */
struct assembly {
    bool known; /* false: began before the capture, or after a wrong opcode */
    bool open;  /* FIRST was there and LAST was not */
    bool holed;
    enum operation_kind kind;
    int64_t first;
    uint64_t bytes;
    uint64_t announced; /* RETH's DMA length of a WRITE */
    bool is_announced;
    uint64_t first_ns;
    uint64_t first_frame;
};

/* Going back and coming up again. */
struct recovery {
    enum repeat_cause trigger; /* what was seen that lets a requester go back, not acted on yet */
    int64_t trigger_at;
    uint64_t trigger_ns;
    uint64_t rnr_wait_ns;
    uint32_t rnr_cut_short;    /* in a row */
    enum repeat_cause cause;   /* of the going back under way; REPEAT_NONE: none */
    enum finding_kind finding; /* that it is counted with */
    int64_t cursor;            /* expected next of it */
    int64_t target;
    uint64_t start_ns;
    uint64_t end_ns;      /* of the one before */
    int64_t repeated_end; /* of the repeat before, when nothing came since; else 0 */
    uint64_t repeated_ns;
    uint32_t timeouts;  /* in a row, without progress */
    int64_t timeout_at; /* where the last one went back to */
};

/* What was seen once and is judged by what follows. */
struct pending {
    int64_t at; /* 0: nothing */
    int64_t end;
    uint64_t ns;
    uint64_t frame;
    enum finding_kind kind;
};

struct stream_counts {
    uint64_t messages[GROUP_COUNT];
    uint64_t message_bytes[GROUP_COUNT];
    uint64_t packets; /* requests, all */
    uint64_t gaps;    /* jumps of the PSN, and how many packets they leave out */
    uint64_t gap_packets;
    uint64_t repeats[REPEAT_COUNT];
    uint64_t lost_ns[REPEAT_COUNT];
    uint64_t rnr_wait_ns; /* as the RNR NAKs ask */
    uint64_t acks;
    uint64_t acks_repeated;
    uint64_t naks[32]; /* by NAK code */
    uint64_t rnr_naks;
    uint64_t response_bytes;
    uint64_t untimed;
    uint64_t credits_zero;
    uint32_t credits_min; /* of those that were told */
    bool credits_told;
    uint64_t sizes[STREAM_SIZES];
};

struct stream {
    bool started;
    bool psn_agreed; /* by the connection manager */
    bool ended;      /* by DREQ, or a NAK after which nothing is answered */
    struct psn psn_first;
    uint16_t pmtu; /* 0: not known */
    int32_t depth; /* READs and atomics outstanding as agreed; -1: not known */
    int64_t start;
    int64_t next;
    int64_t acked;
    uint64_t acked_ns;                      /* when acked moved */
    uint64_t sent_ns;                       /* the newest new packet */
    uint64_t sent_recent_ns[STREAM_RECENT]; /* the newest ones, by position modulo the size */
    bool unsure; /* packets are missing: what depends on all of them is not judged */
    struct assembly assembly;
    struct gap gaps[STREAM_GAPS_MAX];
    bool has_gaps; /* perhaps: it is looked for when it is asked */
    struct recovery recovery;
    struct pending ahead;   /* a response to what was not sent */
    struct pending stray;   /* a request far off */
    struct pending missing; /* responses that were passed over */
    struct request *ring;   /* owned; oldest at head */
    uint32_t ring_size;     /* a power of two, or 0 */
    uint32_t ring_head;
    uint32_t ring_count;
    uint32_t reads_outstanding;
    bool msn_known;
    struct psn msn;
    int64_t msn_at;
    struct psn msn_base;
    uint64_t msn_started_base;
    uint64_t started_count; /* messages that began */
    uint64_t ended_count;   /* messages that were answered */
    struct stream_counts counts;
    struct histogram *latency; /* owned; made by the first message that was answered */
    struct finding_list findings;
};

struct flow;

/* A message that is complete: sent, and answered where it asks for it. */
struct message {
    const struct flow *flow;
    enum operation_kind kind;
    struct psn psn;
    uint32_t packets; /* PSNs that it takes */
    uint64_t bytes;
    uint64_t first_frame;
    uint64_t last_frame;
    uint64_t first_ns;
    uint64_t latency_ns; /* to its answer; of an unreliable one to its last packet */
    bool timed;
};

/* What the frame at hand is, and what it led to. */
struct moment {
    const struct frame *frame;
    uint64_t now_ns;           /* since the start of the capture; never goes back */
    struct flow *flow;         /* whose stream is looked at */
    struct flow *packet_flow;  /* that the packet belongs to; NULL: none */
    bool repeated;             /* it was sent again */
    struct timeline *timeline; /* of the flow that the packet belongs to, and of all; may be NULL */
    struct timeline *timeline_all;
    bool out_of_memory;
    uint64_t requests_left; /* that may still be kept in rings, of all streams */
    enum finding_kind raised[MOMENT_RAISED_MAX];
    uint32_t raised_count;
    void (*on_message)(void *context, const struct message *message);
    void *context;
};

/* depth is not known, nothing was seen. */
void stream_init(struct stream *s);
void stream_fini(struct stream *s, struct moment *m);

/* A request or a response (of the frame at hand, well-formed and intact). */
void stream_request(struct stream *s, struct moment *m);
void stream_response(struct stream *s, struct moment *m);

/* A datagram: complete at once, and answered by nobody. */
void stream_complete_datagram(struct stream *s, struct moment *m, const struct request *r);

/*
 * A response is the first that is known to be for this stream, and others came before it: what
 * they answered is complete, and how long it took is not known.
 */
void stream_begin_responses(struct stream *s, struct moment *m);

/* The queue pair is used anew: PSNs are forgotten, what was counted stays. */
void stream_restart(struct stream *s, struct moment *m);

/* The capture is over: what was pending is judged. */
void stream_finish(struct stream *s, struct moment *m);

/* Notes a finding of the frame at hand, and of its PSN. NULL when memory is short. */
struct finding *moment_raise(struct moment *m, struct finding_list *list, enum finding_kind kind);

/* What goes into the timelines. */
void moment_add_bytes(struct moment *m, uint64_t bytes);
void moment_add_repeat(struct moment *m);
void moment_add_latency(struct moment *m, uint64_t latency_ns);

enum message_group message_group(enum operation_kind kind);
const char *message_group_text(enum message_group group);
const char *repeat_cause_name(enum repeat_cause cause);

#endif
