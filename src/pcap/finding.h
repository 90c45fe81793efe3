/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the analyser can find, by name: what broke a connection, rules of the
 * protocol that a peer did not keep, loss and waiting, congestion, and what is the
 * capture's doing and nobody's fault on the wire. Each row has the sentence
 * that a person reads and what it means for them.
 */
#ifndef UROCE_PCAP_FINDING_H
#define UROCE_PCAP_FINDING_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/psn.h"

/* From the worst to the harmless. */
/* clang-format off */
/*    name         alarm  word for people                                       */
#define FINDING_CLASSES(C)                                                      \
    C(BROKEN,      true,  "broken")     /* a connection failed or never was */  \
    C(VIOLATION,   true,  "violation")  /* a peer did not keep a rule */        \
    C(LOSS,        true,  "loss")       /* packets lost, damaged, sent again */ \
    C(WAIT,        true,  "waiting")    /* a side was not ready */              \
    C(CONGESTION,  true,  "congestion")                                         \
    C(CAPTURE,     false, "capture")    /* what the capture does not show */    \
    C(NOTE,        false, "note")
/* clang-format on */

enum finding_class {
#define FINDING_CLASS_ENUM(name, alarm, word) FINDING_CLASS_##name,
    FINDING_CLASSES(FINDING_CLASS_ENUM)
#undef FINDING_CLASS_ENUM
        FINDING_CLASS_COUNT,
};

/* clang-format off */
/*    name                     class       sentence, and what it means                                                  */
#define FINDINGS(F)                                                                                                      \
    F(NAK_REMOTE_ACCESS,       BROKEN,     "the responder refused access to its memory (NAK remote access error)",       \
      "the R_Key is not valid there, or address, length or rights do not fit it; the queue pair is in error from then on") \
    F(NAK_INVALID_REQUEST,     BROKEN,     "the responder called a request invalid (NAK invalid request)",               \
      "often path MTUs that differ, a message longer than its receive buffer, or an operation that is not enabled")      \
    F(NAK_REMOTE_OPERATIONAL,  BROKEN,     "the responder failed by itself (NAK remote operational error)",              \
      "look at the responder's log; soft-RoCE says this also of a message longer than its receive buffer")               \
    F(RETRIES_EXHAUSTED,       BROKEN,     "requests were sent again after time-outs to the end, and nothing came of it", \
      "the peer is gone or its queue pair in error, or nothing passes one of the ways; the requester gives up")          \
    F(RNR_UNRESOLVED,          BROKEN,     "the receiver had no receive posted to the end (RNR NAK)",                    \
      "the requester gave up, or the capture ended first; post receives before the peer sends")                          \
    F(CM_REJECTED,             BROKEN,     "a connection was refused (CM REJ)",                                          \
      "the reason is in the REJ: see --packets")                                                                         \
    F(CM_UNANSWERED,           BROKEN,     "a connection request was repeated (CM REQ)",                                 \
      "its answer did not come in time: nobody listens, a firewall, or loss")                                            \
                                                                                                                         \
    F(OPCODE_SEQUENCE,         VIOLATION,  "a request's opcode does not follow the one before (opcode sequence)",        \
      "FIRST, MIDDLE, LAST of one message must follow each other; IBA 9.7.4.1.3")                                        \
    F(MESSAGE_LENGTH,          VIOLATION,  "a message is not as long as its RETH says (DMA length)",                     \
      "IBA 9.7.4.1.6")                                                                                                   \
    F(PAYLOAD_NOT_MTU,         VIOLATION,  "a FIRST or MIDDLE packet does not carry one path MTU",                       \
      "IBA 9.7.4.1.6; path MTU must be the same in a whole connection")                                                  \
    F(PAYLOAD_OVER_MTU,        VIOLATION,  "a payload is longer than the path MTU",                                      \
      "IBA 9.7.4.1.6")                                                                                                   \
    F(PAYLOAD_EMPTY,           VIOLATION,  "a LAST packet carries no payload",                                           \
      "IBA 9.7.4.1.6: it has at least one byte")                                                                         \
    F(PSN_OUT_OF_WINDOW,       VIOLATION,  "a request's PSN is far from all that could be expected",                     \
      "PSNs count up by one; IBA 9.7.2")                                                                                 \
    F(FIRST_PSN,               VIOLATION,  "the first PSN is not the one agreed on by the connection manager",           \
      "the sender's sq_psn and the Starting PSN of its peer's REQ or REP must be equal; IBA 12.6")                    \
    F(ACK_OF_UNSENT,           VIOLATION,  "a PSN was acknowledged before it was sent",                                  \
      "IBA 9.7.5: a requester ignores it, or fails")                                                                   \
    F(NAK_OF_UNSENT,           VIOLATION,  "a NAK names a PSN that was not sent",                                        \
      "its PSN is the one expected; IBA 9.7.5")                                                                      \
    F(MSN_WENT_BACK,           VIOLATION,  "the responder's MSN went back",                                              \
      "it counts completed messages; IBA 9.7.7")                                                                       \
    F(MSN_AHEAD,               VIOLATION,  "the responder's MSN counts more messages than were sent",                    \
      "IBA 9.7.7")                                                                                                     \
    F(RESERVED_SYNDROME,       VIOLATION,  "an AETH has a reserved syndrome",                                            \
      "IBA 9.7.5.1.2")                                                                                                   \
    F(RESERVED_BITS,           VIOLATION,  "reserved bits are set",                                                      \
      "BTH and AETH: senders set them to zero; IBA 9.2 and 9.3")                                                          \
    F(SOLICITED_MISPLACED,     VIOLATION,  "the solicited event bit is set where it means nothing",                      \
      "it belongs to LAST and ONLY of SENDs and of WRITEs with immediate; IBA 9.2")                                    \
    F(RESPONSE_UNASKED,        VIOLATION,  "a response came that no request asked for",                                  \
      "READ and atomic responses carry the PSN of such a request; IBA 9.7.5")                                        \
    F(RESPONSE_SEQUENCE,       VIOLATION,  "READ responses do not follow each other (opcode sequence)",                  \
      "FIRST, MIDDLE, LAST or ONLY; IBA 9.7.5")                                                                      \
    F(RESPONSE_LENGTH,         VIOLATION,  "READ responses are not as long as what was asked for",                       \
      "all of it is answered; IBA 9.7.5")                                                                                                   \
    F(RNR_WAIT_CUT_SHORT,      VIOLATION,  "a request was sent again before the RNR NAK's time was over",                \
      "IBA 9.7.5.2.8: the requester waits at least so long")                                                             \
    F(READS_OVER_DEPTH,        VIOLATION,  "more READs and atomics were outstanding than agreed on",                     \
      "responder resources of the CM's REQ or REP; IBA 9.7.4.1.5")                                                       \
    F(ATOMIC_UNALIGNED,        VIOLATION,  "an atomic's address is not a multiple of 8",                                 \
      "the responder refuses it; IBA 9.4")                                                                                                     \
    F(DMA_LENGTH_OVER,         VIOLATION,  "a DMA length is larger than 2^31",                                           \
      "no message is longer; IBA 9.7.8")                                                                                 \
    F(PKEY_CHANGED,            VIOLATION,  "the P_Key changed within a connection",                                      \
      "a queue pair has one partition; IBA 10.9.1.2")                                                                   \
    F(SERVICE_CHANGED,         VIOLATION,  "packets of different services go to one queue pair",                         \
      "a queue pair is of one type; IBA 9.2")                                                                      \
    F(GSI_QKEY,                VIOLATION,  "a datagram to QP1 has another Q_Key than 0x80010000",                        \
      "it is dropped")                                                                                        \
    F(CNP_PAYLOAD,             VIOLATION,  "the reserved 16 bytes of a CNP are not zero",                                \
      "RoCEv2 annex A17.9")                                                                                            \
                                                                                                                         \
    F(RETRANSMIT_TIMEOUT,      LOSS,       "requests were sent again after a time-out",                                  \
      "the last packet before a silence, its answer, or a NAK was lost; the whole time-out is lost time")                \
    F(ANSWER_LOST,             LOSS,       "requests were sent again that had been answered",                            \
      "the ACK or the response was lost behind the place of the capture")                                                \
    F(RETRANSMIT_NAK,          LOSS,       "requests were sent again after a NAK (PSN sequence error)",                  \
      "a packet was lost on its way to the responder, or overtaken")                                                     \
    F(RETRANSMIT_IMPLIED,      LOSS,       "requests were sent again since a response was missing (implied NAK)",        \
      "a READ or atomic response was lost on its way to the requester")                                                  \
    F(RETRANSMIT_UNEXPLAINED,  LOSS,       "requests were sent again, and the capture does not show why",                \
      "a NAK that the capture has not, or a very short time-out")                                                        \
    F(UC_LOST,                 LOSS,       "packets of an unreliable connection are missing",                            \
      "nobody repeats them; the message that they belong to is lost whole")                                              \
    F(ICRC_BAD,                LOSS,       "packets have a wrong ICRC",                                                  \
      "damaged on the way, or rewritten by something that does not know RoCE; the receiver drops them silently")         \
    F(MALFORMED,               LOSS,       "packets are malformed",                                                      \
      "headers that cannot be: see --packets and grep DAMAGED")                                                          \
    F(FRAGMENTED,              LOSS,       "packets are IP fragments",                                                   \
      "RoCEv2 forbids it: path MTU and headers must fit the network's MTU")                                              \
    F(REORDERED,               LOSS,       "packets overtook each other",                                                \
      "several paths, or a capture of several queues; RoCE takes it for loss")                                           \
    F(DUPLICATE,               LOSS,       "packets came twice",                                                         \
      "the network repeated them, or the capture shows two interfaces")                                                  \
                                                                                                                         \
    F(RNR,                     WAIT,       "the receiver had no receive posted (RNR NAK)",                               \
      "post more receives, or earlier; each RNR NAK costs the time it names")                                            \
                                                                                                                         \
    F(MARKS_UNANSWERED,        CONGESTION, "packets are marked (ECN CE) and no CNP answers",                             \
      "the network is congested, and the receiver does not tell the sender")                                             \
    F(MARKED,                  CONGESTION, "packets are marked: congestion experienced (ECN CE)",                        \
      "a queue on the way is filling")                                                                                   \
    F(CNP,                     CONGESTION, "congestion notifications (CNP)",                                             \
      "the sender is asked to slow down")                                                                                \
                                                                                                                         \
    F(PACKETS_MISSED,          CAPTURE,    "packets are missing here that reached their receiver",                       \
      "the capture dropped them: a larger buffer, or a shorter snap length, helps (tcpdump -B, -s)")                     \
    F(RESPONSES_MISSED,        CAPTURE,    "responses are missing here that reached the requester",                      \
      "the capture dropped them")                                                                                        \
    F(ONE_DIRECTION,           CAPTURE,    "one direction only was captured",                                            \
      "latency, loss and their causes cannot be told")                                                                   \
    F(UNPAIRED,                CAPTURE,    "it cannot be told which answers belong to which requests",                   \
      "several connections between the same hosts use the same PSNs; capture from their beginning on, with the CM")      \
    F(SNAPPED,                 CAPTURE,    "packets are cut by the capture's snap length",                               \
      "their ICRC cannot be verified, and of the shortest nothing is known; capture with -s 0")                          \
    F(ICRC_UNSET,              CAPTURE,    "ICRCs are zero",                                                             \
      "taken before an adapter filled them in; nothing can be said about damage")                                        \
    F(GIANT_FRAME,             CAPTURE,    "frames hold more than one packet, without their ICRCs",                      \
      "packets that an adapter merged or will cut; their content is not counted")                                        \
    F(OFFLOADED,               CAPTURE,    "frames hold several packets that are cut on their way (UDP_SEGMENT)",        \
      "they are shown one by one, with the frame's time")                                                                \
    F(TIME_WENT_BACK,          CAPTURE,    "times go back",                                                              \
      "merged captures or a clock that was set; latencies around it are not right")                                      \
    F(CAPTURED_TWICE,          CAPTURE,    "each packet is there twice",                                                 \
      "taken on two interfaces that it passes, such as -i any; repeats are not the network's")                           \
    F(FILE_CUT,                CAPTURE,    "the file ends within a packet",                                              \
      "everything up to there was read")                                                                                 \
    F(NOT_FOLLOWED,            CAPTURE,    "packets belong to more connections than are followed",                       \
      "see --flows")                                                                                                     \
    F(UNTIMED,                 CAPTURE,    "messages were not timed: too many at once without an answer",                \
      "memory for them is bounded")                                                                                      \
                                                                                                                         \
    F(PSN_RESTARTED,           NOTE,       "a queue pair began again with other PSNs",                                   \
      "its number was used for a new connection")                                                                        \
    F(CREDITS_ZERO,            NOTE,       "the responder granted no credits",                                           \
      "it had no receive posted at that moment; the sender may go on by one message")                                    \
    F(UNANSWERED,              NOTE,       "requests have no answer at the end of the capture",                          \
      "the capture ended first")
/* clang-format on */

enum finding_kind {
#define FINDING_ENUM(name, class, text, meaning) FINDING_##name,
    FINDINGS(FINDING_ENUM)
#undef FINDING_ENUM
        FINDING_COUNT,
};

/* All of a kind in one place. */
struct finding {
    enum finding_kind kind;
    uint64_t count;
    uint64_t packets;     /* of retransmissions: that were sent again */
    uint64_t first_frame; /* 0: it belongs to no frame */
    uint64_t first_ns;    /* since the start of the capture */
    uint64_t last_frame;
    uint64_t lost_ns; /* time in which nothing moved, or moved again */
    struct psn psn;   /* of the first */
};

/* Start from zero. At most FINDING_COUNT items, of kinds that differ. */
struct finding_list {
    struct finding *items; /* owned */
    uint32_t count;
    uint32_t capacity;
};

/* The one of this kind, made when there is none; NULL when memory is short. */
struct finding *finding_of(struct finding_list *list, enum finding_kind kind);

/* The one of this kind, or NULL. */
const struct finding *finding_find(const struct finding_list *list, enum finding_kind kind);

void finding_list_fini(struct finding_list *list);

/* "RETRANSMIT_NAK", a sentence without a full stop, and what it means; static storage. */
const char *finding_name(enum finding_kind kind);
const char *finding_text(enum finding_kind kind);
const char *finding_meaning(enum finding_kind kind);

enum finding_class finding_class(enum finding_kind kind);
const char *finding_class_text(enum finding_class class);

/* Is something wrong on the wire, other than with the capture? */
bool finding_is_alarm(enum finding_kind kind);

#endif
