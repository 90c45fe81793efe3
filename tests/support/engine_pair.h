/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two endpoints joined by a wire that misbehaves by rule: this packet of that
 * direction is lost, doubled, held back or passes. Everything is in order and
 * at once but for what the rules say, so that one fault can be tried at every
 * place in turn. Time passes only when nobody has anything to say.
 */
#ifndef UROCE_TESTS_ENGINE_PAIR_H
#define UROCE_TESTS_ENGINE_PAIR_H

#include "support/endpoint.h"

enum direction {
    A_TO_B,
    B_TO_A,
};

enum fate {
    FATE_PASSES,
    FATE_LOST,
    FATE_DOUBLED,
    FATE_HELD, /* overtaken by the next three packets of its direction, or by silence */
    FATE_COUNT,
};

struct fault {
    enum direction direction;
    uint32_t nth; /* packet of its direction, from 0 */
    enum fate fate;
};

#define PAIR_FAULTS_MAX 4u

struct wire_packet; /* a packet on its way */

struct engine_pair {
    struct endpoint ends[2]; /* A, B */
    struct fault faults[PAIR_FAULTS_MAX];
    uint32_t fault_count;
    uint32_t carried[2]; /* packets of each direction so far */
    struct wire_packet *flying;
    struct wire_packet *held;
    uint64_t digest; /* of all bytes that travelled, with their order */
    uint64_t now;
};

/* Both ends are connected; config's address and PSNs are those of A, B mirrors them. */
void pair_open(struct engine_pair *p, const struct endpoint_config *config);
void pair_close(struct engine_pair *p);
void pair_fault(struct engine_pair *p, struct fault fault);

/*
 * Carries packets and lets time pass until nobody has anything to say and no
 * timer runs. Fails the test when that takes more than a minute of their time.
 */
void pair_run(struct engine_pair *p);

#endif
