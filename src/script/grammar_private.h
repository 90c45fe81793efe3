/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The words of the language, each once: fields with the lines that may have
 * them and where in a packet they are, and the lists of words that values are taken from.
 * The parser, the runner and the printer read these tables.
 */
#ifndef UROCE_SCRIPT_GRAMMAR_PRIVATE_H
#define UROCE_SCRIPT_GRAMMAR_PRIVATE_H

#include "script/script.h"
#include "wire/packet.h"

/* Which lines may have a field. */
enum line_set {
    ON_QP = 1 << 0,
    ON_MEMORY = 1 << 1,
    ON_IN = 1 << 2,
    ON_OUT = 1 << 3,
    ON_POST = 1 << 4,
    ON_COMPLETION = 1 << 5,
    ON_FILL = 1 << 6,
    ON_HOLDS = 1 << 7,
    ON_PACKET = ON_IN | ON_OUT,
};

enum value_kind {
    VALUE_NUMBER,
    VALUE_PSN,  /* a number of which 24 bits count, so that one may go below 0 */
    VALUE_FLAG, /* bare for 1, or =0, =1 */
    VALUE_CODE, /* bare, or a number */
    VALUE_NAK,
    VALUE_STATUS,
    VALUE_OPCODE, /* of a completion */
    VALUE_RIGHTS,
    VALUE_BYTES,
    VALUE_BARE, /* has no value */
};

/* Where a field of a packet is: offset and size in struct headers. */
#define AT(member) offsetof(struct headers, member), sizeof(((struct headers *)0)->member)
#define NOWHERE 0, 0

/* clang-format off */
/*    row            name          lines                 value   bits  headers         where             */
#define FIELD_ROWS(ROW)                                                                                    \
  ROW(PSN,           "psn",        ON_PACKET,            PSN,    24, 0,                AT(bth.psn))         \
  ROW(DQPN,          "dqpn",       ON_PACKET,            NUMBER, 24, 0,                AT(bth.dest_qpn))    \
  ROW(PKEY,          "pkey",       ON_PACKET,            NUMBER, 16, 0,                AT(bth.pkey))        \
  ROW(SE,            "se",         ON_PACKET | ON_POST,  FLAG,    1, 0,                AT(bth.solicited))   \
  ROW(MIGREQ,        "migreq",     ON_PACKET,            FLAG,    1, 0,                AT(bth.mig_req))     \
  ROW(PAD,           "pad",        ON_PACKET,            NUMBER,  2, 0,                AT(bth.pad_count))   \
  ROW(VERSION,       "version",    ON_IN,                NUMBER,  4, 0,                AT(bth.version))     \
  ROW(FECN,          "fecn",       ON_PACKET,            FLAG,    1, 0,                AT(bth.fecn))        \
  ROW(BECN,          "becn",       ON_PACKET,            FLAG,    1, 0,                AT(bth.becn))        \
  ROW(ACKREQ,        "ackreq",     ON_PACKET,            FLAG,    1, 0,                AT(bth.ack_req))     \
  ROW(QKEY,          "qkey",       ON_PACKET,            NUMBER, 32, HEADER_DETH,      AT(deth.qkey))       \
  ROW(SQPN,          "sqpn",       ON_PACKET,            NUMBER, 24, HEADER_DETH,      AT(deth.src_qpn))    \
  ROW(PLACEMENT,     "placement",  ON_PACKET,            NUMBER,  4, HEADER_FETH,      AT(feth.placement_type)) \
  ROW(SELECTIVITY,   "selectivity", ON_PACKET,           NUMBER,  2, HEADER_FETH,      AT(feth.selectivity))\
  ROW(VA,            "va",         ON_PACKET,            NUMBER, 64, HEADER_RETH,      AT(reth.va))         \
  ROW(RKEY,          "rkey",       ON_PACKET,            NUMBER, 32, HEADER_RETH,      AT(reth.rkey))       \
  ROW(DMALEN,        "dmalen",     ON_PACKET,            NUMBER, 32, HEADER_RETH,      AT(reth.dma_len))    \
  ROW(ATOMIC_VA,     "va",         ON_PACKET,            NUMBER, 64, HEADER_ATOMIC,    AT(atomic.va))       \
  ROW(ATOMIC_RKEY,   "rkey",       ON_PACKET,            NUMBER, 32, HEADER_ATOMIC,    AT(atomic.rkey))     \
  ROW(SWAP,          "swap",       ON_PACKET,            NUMBER, 64, HEADER_ATOMIC,    AT(atomic.swap_add)) \
  ROW(ADD,           "add",        ON_PACKET,            NUMBER, 64, HEADER_ATOMIC,    AT(atomic.swap_add)) \
  ROW(COMPARE,       "compare",    ON_PACKET,            NUMBER, 64, HEADER_ATOMIC,    AT(atomic.compare))  \
  ROW(ACK,           "ack",        ON_PACKET,            CODE,    5, HEADER_AETH,      NOWHERE)             \
  ROW(RNR,           "rnr",        ON_PACKET,            NUMBER,  5, HEADER_AETH,      NOWHERE)             \
  ROW(NAK,           "nak",        ON_PACKET,            NAK,     5, HEADER_AETH,      NOWHERE)             \
  ROW(SYNDROME,      "syndrome",   ON_PACKET,            NUMBER,  8, HEADER_AETH,      AT(aeth.syndrome))   \
  ROW(MSN,           "msn",        ON_PACKET,            PSN,    24, HEADER_AETH,      AT(aeth.msn))        \
  ROW(ORIG,          "orig",       ON_PACKET,            NUMBER, 64, HEADER_ATOMIC_ACK, AT(atomic_ack.original)) \
  ROW(IMM,           "imm",        ON_PACKET | ON_POST | ON_COMPLETION, NUMBER, 32, HEADER_IMM, AT(imm))    \
  ROW(INV,           "inv",        ON_PACKET | ON_POST | ON_COMPLETION, NUMBER, 32, HEADER_IETH, AT(ieth))  \
  /* payload and memory */                                                                                  \
  ROW(LEN,           "len",        ON_PACKET | ON_POST | ON_COMPLETION | ON_FILL | ON_HOLDS, NUMBER, 32, 0, NOWHERE) \
  ROW(DATA,          "data",       ON_PACKET | ON_FILL | ON_HOLDS, NUMBER, 32, 0,      NOWHERE)             \
  ROW(FROM,          "from",       ON_PACKET | ON_FILL | ON_HOLDS, NUMBER, 32, 0,      NOWHERE)             \
  ROW(ZERO,          "zero",       ON_FILL | ON_HOLDS,   BARE,    0, 0,                NOWHERE)             \
  ROW(BYTES,         "bytes",      ON_PACKET | ON_FILL | ON_HOLDS, BYTES,   0, 0,      NOWHERE)             \
  ROW(U64,           "u64",        ON_FILL | ON_HOLDS,   NUMBER, 64, 0,                NOWHERE)             \
  /* how a packet comes, and what is wrong with it on purpose */                                            \
  ROW(RAW_OPCODE,    "opcode",     ON_IN,                NUMBER,  8, 0,                NOWHERE)             \
  ROW(RESERVED,      "reserved",   ON_IN,                BARE,    0, 0,                NOWHERE)             \
  ROW(BAD_ICRC,      "bad_icrc",   ON_IN,                BARE,    0, 0,                NOWHERE)             \
  ROW(CUT,           "cut",        ON_IN,                NUMBER, 16, 0,                NOWHERE)             \
  ROW(OTHER_SOURCE,  "other_source", ON_IN,              BARE,    0, 0,                NOWHERE)             \
  ROW(ECN,           "ecn",        ON_IN,                NUMBER,  2, 0,                NOWHERE)             \
  ROW(MAYBE,         "maybe",      ON_OUT,               BARE,    0, 0,                NOWHERE)             \
  ROW(COALESCED,     "coalesced",  ON_OUT,               BARE,    0, 0,                NOWHERE)             \
  /* work requests and completions */                                                                       \
  ROW(ID,            "id",         ON_POST | ON_COMPLETION, NUMBER, 64, 0,             NOWHERE)             \
  ROW(LOCAL,         "at",         ON_POST,              NUMBER, 64, 0,                NOWHERE)             \
  ROW(LKEY,          "lkey",       ON_POST,              NUMBER, 32, 0,                NOWHERE)             \
  ROW(REMOTE,        "to",         ON_POST,              NUMBER, 64, 0,                NOWHERE)             \
  ROW(REMOTE_KEY,    "key",        ON_POST,              NUMBER, 32, 0,                NOWHERE)             \
  ROW(POST_SWAP,     "swap",       ON_POST,              NUMBER, 64, 0,                NOWHERE)             \
  ROW(POST_ADD,      "add",        ON_POST,              NUMBER, 64, 0,                NOWHERE)             \
  ROW(POST_COMPARE,  "compare",    ON_POST,              NUMBER, 64, 0,                NOWHERE)             \
  ROW(WINDOW,        "window",     ON_POST,              NUMBER, 32, 0,                NOWHERE)             \
  ROW(UNSIGNALED,    "unsignaled", ON_POST,              BARE,    0, 0,                NOWHERE)             \
  ROW(FENCE,         "fence",      ON_POST,              BARE,    0, 0,                NOWHERE)             \
  ROW(INLINE,        "inline",     ON_POST,              BARE,    0, 0,                NOWHERE)             \
  ROW(REFUSED,       "refused",    ON_POST,              BARE,    0, 0,                NOWHERE)             \
  ROW(STATUS,        "status",     ON_COMPLETION,        STATUS,  8, 0,                NOWHERE)             \
  ROW(OP,            "op",         ON_COMPLETION,        OPCODE,  8, 0,                NOWHERE)             \
  ROW(FROM_QPN,      "sqpn",       ON_COMPLETION,        NUMBER, 24, 0,                NOWHERE)             \
  /* what is set up */                                                                                      \
  ROW(SIZE,          "size",       ON_MEMORY,            NUMBER, 24, 0,                NOWHERE)             \
  ROW(ACCESS,        "access",     ON_QP | ON_MEMORY | ON_POST, RIGHTS, 0, 0,          NOWHERE)             \
  ROW(FOREIGN,       "foreign",    ON_MEMORY,            BARE,    0, 0,                NOWHERE)             \
  ROW(MTU,           "mtu",        ON_QP,                NUMBER, 13, 0,                NOWHERE)             \
  ROW(RQ_PSN,        "rpsn",       ON_QP,                PSN,    24, 0,                NOWHERE)             \
  ROW(SQ_PSN,        "spsn",       ON_QP,                PSN,    24, 0,                NOWHERE)             \
  ROW(QP_QKEY,       "qkey",       ON_QP,                NUMBER, 32, 0,                NOWHERE)             \
  ROW(TIMEOUT,       "timeout",    ON_QP,                NUMBER,  5, 0,                NOWHERE)             \
  ROW(RETRY,         "retry",      ON_QP,                NUMBER,  3, 0,                NOWHERE)             \
  ROW(RNR_RETRY,     "rnr_retry",  ON_QP,                NUMBER,  3, 0,                NOWHERE)             \
  ROW(MIN_RNR,       "min_rnr",    ON_QP,                NUMBER,  5, 0,                NOWHERE)             \
  ROW(RD_ATOMIC,     "rd_atomic",  ON_QP,                NUMBER,  4, 0,                NOWHERE)             \
  ROW(DEST_RD_ATOMIC, "dest_rd_atomic", ON_QP,           NUMBER,  4, 0,                NOWHERE)             \
  ROW(SQ_SIZE,       "sq_size",    ON_QP,                NUMBER,  8, 0,                NOWHERE)             \
  ROW(RQ_SIZE,       "rq_size",    ON_QP,                NUMBER,  8, 0,                NOWHERE)             \
  ROW(SRQ,           "srq",        ON_QP,                BARE,    0, 0,                NOWHERE)
/* clang-format on */

enum field_row {
#define FIELD_ENUM(row, ...) FIELD_##row,
    FIELD_ROWS(FIELD_ENUM)
#undef FIELD_ENUM
        FIELD_COUNT,
};

struct field_info {
    const char *name;
    unsigned lines; /* enum line_set */
    enum value_kind value;
    unsigned bits;
    unsigned header; /* enum header_set; 0: the BTH, or nowhere */
    size_t offset;   /* in struct headers */
    size_t size;     /* 0: not in a packet's headers */
};

extern const struct field_info field_infos[FIELD_COUNT];

/* A word and the number that it stands for. */
struct word {
    const char *name; /* NULL: end of the list */
    uint32_t value;
};

extern const struct word nak_words[];
extern const struct word status_words[];
extern const struct word completion_words[];
extern const struct word right_words[];
extern const struct word state_words[];
extern const struct word event_words[];
extern const struct word work_words[]; /* enum wr_opcode, and WORK_RECV */
extern const struct word service_words[];
extern const struct word nothing_words[]; /* enum nothing */

#define WORK_RECV 256u
#define EVENT_ANY 256u

/* What "no" speaks of. */
enum nothing { NO_COMPLETION, NO_EVENT };

/* The list that a value is taken from; NULL: none. */
const struct word *value_words(enum value_kind kind);

/* The word of a number; "?" for none. */
const char *word_name(const struct word *list, uint32_t value);

/* The field of a statement, or NULL. */
static inline const struct field *field_find(const struct statement *st, enum field_row row)
{
    for (uint32_t i = 0; i < st->field_count; i++) {
        if (st->fields[i].row == row)
            return &st->fields[i];
    }
    return NULL;
}

#endif
