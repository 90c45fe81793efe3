/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How often each kind of trouble came about in all seeds of a run. A fault that
 * is planned and never happens proves nothing, so a long run in which a kind
 * is missing fails.
 */
#ifndef UROCE_TESTS_SIM_CENSUS_H
#define UROCE_TESTS_SIM_CENSUS_H

#include <stdint.h>

/* So many seeds must have seen every kind. */
#define CENSUS_SEEDS 1000u

#define TROUBLES(T)                                                                                \
    T(LOST, "packets lost")                                                                        \
    T(DUPLICATED, "packets that came twice")                                                       \
    T(REORDERED, "packets that others overtook")                                                   \
    T(OVERTAKEN, "packets that more than a window overtook")                                       \
    T(CORRUPTED, "packets damaged")                                                                \
    T(DELAYED, "packets held up, and all behind them")                                             \
    T(REFUSED, "batches that the link refused whole")                                              \
    T(SHORTENED, "batches of which the link took only the first part")                             \
    T(MARKED, "packets that a congested switch marked")                                            \
    T(CNP, "congestion notifications that were heeded")                                            \
    T(BUSY, "times that the link took nothing for a while")                                        \
    T(CUT, "packets that met a cut wire")                                                          \
    T(PARTITION, "partitions of the hosts into two groups")                                        \
    T(MENDED, "cuts after which packets went the same way again")                                  \
    T(OVERFLOWED, "packets that found a receive buffer full")                                      \
    T(STOPPED, "processes that stopped and went on")                                               \
    T(OUTLASTED, "requests that gave up on a process that had stopped")                            \
    T(RNR_STORM, "stretches without receive requests, with twenty or more refusals")               \
    T(SMALL_RINGS, "queue pairs whose queues have room for 1 to 4 entries")                        \
    T(RINGS_FULL, "turns in which the completion queue of such a queue pair was full")             \
    T(CROWD, "processes that serve 32 queue pairs or more")                                        \
    T(MEMORY_GONE, "copies that met memory that is not there")                                     \
    T(FORGED, "packets forged")                                                                    \
    T(STRAY, "packets that are nobody's")                                                          \
    T(BOUND_1, "windows of type 1 bound")                                                          \
    T(BOUND_2, "windows of type 2 bound")                                                          \
    T(UNBOUND, "windows of type 1 bound to nothing")                                               \
    T(INVALIDATED, "windows of type 2 invalidated by their owner")                                 \
    T(SEND_INVALIDATED, "windows of type 2 invalidated by a SEND of the peer")                     \
    T(SRQ_LIMIT, "limits of shared receive queues that were reached")                              \
    T(SRQ_RESIZED, "shared receive queues that changed their size")                                \
    T(TO_XRC, "messages that came to a shared receive queue of XRC")                               \
    T(FLUSHED, "FLUSHes done")                                                                     \
    T(ATOMICALLY_WRITTEN, "ATOMIC WRITEs done")                                                    \
    T(DRAINED, "send queues that were drained and went on")                                        \
    T(LATE, "queue pairs that were ready to send after packets had come")                          \
    T(CLOSED, "connections put to the error state with requests under way")                        \
    T(RESET, "connections reset with requests under way")                                          \
    T(DESTROYED, "connections of which one queue pair was destroyed with requests under way")      \
    T(REPLACED, "UD queue pairs destroyed with requests under way")                                \
    T(TO_MEMBER, "datagrams for a multicast group that came to a member")                          \
    T(GROUP_CHANGED, "queue pairs attached or detached while datagrams were on their way")         \
    T(MOVED, "regions that got another address and key between two requests of the peer")          \
    T(MOVED_OWN, "regions of send requests that got another address and key")                      \
    T(THROUGH_WINDOW, "requests that went through a window")                                       \
    T(RETRIES_EXCEEDED, "requests without an answer")                                              \
    T(RNR_EXCEEDED, "requests that found no receive request in all their tries")

enum trouble {
#define TROUBLE_ENUM(name, text) TROUBLE_##name,
    TROUBLES(TROUBLE_ENUM)
#undef TROUBLE_ENUM
        TROUBLE_COUNT,
};

void census_add(enum trouble trouble, uint64_t count);
uint64_t census_count(enum trouble trouble);
void census_print(void);
/* Names the kinds that never occurred. Returns how many. */
uint32_t census_missing(void);

#endif
