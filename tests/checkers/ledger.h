/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What was asked for, as the checkers keep it: each message of each queue pair
 * in the order of posting, with the PSNs that it must take. Who posts writes
 * the messages; the checkers compare completions, memory and packets with them.
 *
 * PSNs and MSNs are kept here as 64-bit numbers that do not wrap; the 24-bit
 * arithmetic is this file's own.
 */
#ifndef UROCE_TESTS_LEDGER_H
#define UROCE_TESTS_LEDGER_H

#include <stdbool.h>
#include <stdint.h>

#include "checkers/memory_book.h"
#include "engine/cq.h"
#include "engine/qp.h"

#define PIECES_MAX 32
#define STATUS_BIT(status) (1u << (status))

struct cell;
struct channel;
struct receive_queue;

struct message {
    uint64_t id; /* key of its bytes */
    uint64_t wr_id;
    uint32_t index; /* in its channel */
    enum wr_opcode opcode;
    uint32_t flags; /* enum wr_flag_set; WR_SIGNALED also when the QP signals all */
    uint32_t length;
    uint32_t imm; /* or the key to invalidate */
    uint64_t remote_addr;
    uint32_t rkey;
    uint64_t compare;
    uint64_t swap;
    uint32_t flush_len;
    uint32_t flush_placement; /* enum flush_placement_set */
    enum flush_selectivity flush_selectivity;
    const void *through; /* of who posts: the window that it aims through; NULL: the region */
    /* what the packets must be */
    uint64_t psn;
    uint32_t packet_count;
    uint64_t bytes_before; /* payload that the requests before it put on the wire */
    bool replied;          /* atomics: an answer left already, with this value */
    uint64_t reply;
    /* what it does to memory */
    struct piece pieces[PIECES_MAX]; /* READ, atomics: where the answer goes */
    uint32_t piece_count;
    struct claim *answer[PIECES_MAX];
    struct piece where;   /* WRITE, READ: the peer's memory */
    struct claim *target; /* WRITE */
    struct cell *cell;    /* atomics */
    uint64_t original;    /* atomics: the answer */
    /* datagrams */
    const void *destination; /* whose receive queue it should reach */
    uint32_t members; /* multicast: a bit for each who may get it; 0: it is for destination */
    uint32_t reached; /* who got it */
    struct path path;
    uint32_t remote_qpn;
    uint32_t remote_qkey;
    /* XRC */
    const struct receive_queue *queue; /* it takes from this one; NULL: from the peer's only one */
    uint32_t srqn;
    /* what became of it */
    uint32_t errors_allowed; /* STATUS_BIT of what it may end with; 0: success only */
    bool refused;            /* must not succeed */
    bool completed;          /* known to be over */
    enum completion_status status;
    uint32_t deliveries;
};

/* The send side of a queue pair. */
struct channel {
    char name[24];
    enum service service;
    uint32_t pmtu;
    struct message **messages;
    uint32_t count;
    uint32_t capacity;
    /* the present life of the QP, which ends when it is reset */
    uint32_t life_first; /* index of its first message */
    uint64_t psn_first;
    uint64_t psn_next; /* of the next message */
    uint64_t bytes_next;
    uint32_t completed; /* messages before this one are over */
    uint32_t delivered; /* messages before this one were received, or need no receive request */
    uint32_t errors_allowed; /* STATUS_BIT of what may end a life */
    bool failed;             /* a completion with an error came */
    bool forged;             /* others send in the peer's name: only order and number are checked */
};

/* Requests are acknowledged: RC, and XRC where nothing is said of it. */
static inline bool channel_is_reliable(const struct channel *c)
{
    return c->service == SERVICE_RC || c->service == SERVICE_XRC;
}

#define WR_OPCODE_COUNT (WR_ATOMIC_WRITE + 1)

static inline bool opcode_takes_receive(enum wr_opcode opcode)
{
    return opcode == WR_SEND || opcode == WR_SEND_IMM || opcode == WR_SEND_INV ||
           opcode == WR_WRITE_IMM;
}

static inline bool opcode_is_atomic(enum wr_opcode opcode)
{
    return opcode == WR_CMP_SWAP || opcode == WR_FETCH_ADD;
}

/* The answer brings data. */
static inline bool opcode_fetches(enum wr_opcode opcode)
{
    return opcode == WR_READ || opcode_is_atomic(opcode);
}

/* Has an answer of its own, so that an ACK is not enough. */
static inline bool opcode_is_answered(enum wr_opcode opcode)
{
    return opcode_fetches(opcode) || opcode == WR_FLUSH || opcode == WR_ATOMIC_WRITE;
}

/* Nothing leaves for it. */
static inline bool opcode_is_local(enum wr_opcode opcode)
{
    return opcode == WR_BIND_MW || opcode == WR_LOCAL_INV;
}

/* Its bytes leave with it. */
static inline bool opcode_carries_data(enum wr_opcode opcode)
{
    return !opcode_fetches(opcode) && !opcode_is_local(opcode) && opcode != WR_FLUSH;
}

static inline bool opcode_is_write(enum wr_opcode opcode)
{
    return opcode == WR_WRITE || opcode == WR_WRITE_IMM;
}

/* The 64-bit number nearest to reference whose low 24 bits are those of value. */
static inline uint64_t unwrap24(uint32_t value, uint64_t reference)
{
    uint32_t distance = (value - (uint32_t)reference) & 0xffffffu;

    return distance < 0x800000u ? reference + distance : reference + distance - 0x1000000u;
}

/* Begins a life: the next message has PSN psn. */
void channel_begin(struct channel *c, uint32_t psn);
void channel_fini(struct channel *c);

/* The message (of the present life) that takes PSN psn, or NULL. */
struct message *channel_find(const struct channel *c, uint64_t psn);

/* Payload bytes of requests before PSN psn of the present life. */
uint64_t channel_bytes_before(const struct channel *c, uint64_t psn);

/* "3 WRITE_IMM": static storage, till the next call but three. */
const char *message_name(const struct message *m);
const char *wr_opcode_name(enum wr_opcode opcode);
const char *status_name(enum completion_status status);

#endif
