/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The ladder diagram of a simulation: packets as arrows between two hosts with
 * what became of them, and what hosts did in between. Kept in a ring, so that
 * the last lines can be shown when something fails, or printed as they come.
 */
#ifndef UROCE_TESTS_SIM_LADDER_H
#define UROCE_TESTS_SIM_LADDER_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/packet.h"

/* What becomes of a packet. */
#define FATES(F)                                                                                   \
    F(DELIVERED, "")                                                                               \
    F(LOST, "lost")                                                                                \
    F(DUPLICATED, "dup")                                                                           \
    F(REORDERED, "reordered")                                                                      \
    F(CORRUPTED, "corrupt")                                                                        \
    F(DELAYED, "delayed")                                                                          \
    F(OVERTAKEN, "overtaken")                                                                      \
    F(MARKED, "marked")                                                                            \
    F(REFUSED, "refused by the link")                                                              \
    F(CUT, "cut")

enum fate {
#define FATE_ENUM(name, text) FATE_##name,
    FATES(FATE_ENUM)
#undef FATE_ENUM
        FATE_COUNT,
};

#define LADDER_NOTE_MAX 120

struct rung {
    uint64_t at_ns;
    uint8_t from;
    uint8_t to; /* as from: a note */
    enum fate fate;
    uint64_t travel_ns;
    struct headers h;
    uint32_t payload_len;
    char note[LADDER_NOTE_MAX];
};

#define LADDER_RUNGS 4096u

struct ladder {
    bool live; /* print each rung as it comes */
    uint32_t count;
    struct rung rungs[LADDER_RUNGS];
};

struct rung *ladder_packet(struct ladder *l, uint64_t at_ns, const struct packet *p);
void ladder_note(struct ladder *l, uint64_t at_ns, uint32_t host, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* The rung that was added last is complete. */
void ladder_show_live(const struct ladder *l);

/* Prints the last count rungs. */
void ladder_print(const struct ladder *l, uint32_t count);

#endif
