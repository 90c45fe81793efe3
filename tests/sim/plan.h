/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a seed decides before a simulation begins: how many hosts, what the wire does
 * to packets, how hosts behave, how much work there is.
 */
#ifndef UROCE_TESTS_SIM_PLAN_H
#define UROCE_TESTS_SIM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

#define HOSTS_MAX 4
#define ENDPOINTS_MAX 96
#define REFUSED_LIVES_MAX 8ull /* of a connection that end with a bad request */

/* name, chance in a hundred, sentence */
#define SIM_MODES(M)                                                                               \
    M(ordinary, 55, "faults, then a healed wire; everything finishes")                             \
    M(lossless, 8, "no faults: nothing is repeated, nothing is lost")                              \
    M(exhaustion, 15, "long cuts, short patience: requests fail, queue pairs begin anew")          \
    M(refusal, 15, "bad requests: each fails as the specification says")                           \
    M(hostile, 7, "forged packets: nothing is harmed but the connections that they hit")

enum sim_mode {
#define SIM_MODE_ENUM(name, weight, text) MODE_##name,
    SIM_MODES(SIM_MODE_ENUM)
#undef SIM_MODE_ENUM
        MODE_COUNT,
};

const char *mode_name(enum sim_mode mode);

/* One fault at one place, in a run that has no others. */
enum single {
    SINGLE_NONE,
    SINGLE_REFUSE,  /* of the nth batch */
    SINGLE_SHORTEN, /* of the nth batch of several packets */
    SINGLE_FATE,    /* of the nth packet */
};

/* Chances in a million, for each packet or (refuse, shorten, busy) batch. */
struct faults {
    uint32_t lose;
    uint32_t duplicate;
    uint32_t reorder;
    uint32_t corrupt;
    uint32_t delay;
    uint32_t overtake; /* it comes so late that a window and more overtakes it */
    uint32_t mark;     /* a switch on the way is congested, and says so */
    uint32_t refuse;   /* the link takes the batch and drops it */
    uint32_t shorten;  /* the link takes the first part of the batch and drops the rest */
    uint32_t busy;     /* after the batch the link takes nothing for a while */
    uint32_t forge;    /* one like it but for a few fields comes along */
    uint32_t stray;    /* one like it but for a field that makes it none of the receiver's */
};

struct plan {
    uint64_t seed;
    enum sim_mode mode;
    uint32_t host_count;
    bool ipv6;
    bool shared_address; /* hosts 0 and 1 are two processes at one address */
    /* work */
    uint32_t connection_count; /* RC and UC pairs of QPs */
    bool crowd;                /* all of them with host 0 */
    bool small_rings;          /* queues of 1 to 4 entries */
    uint32_t datagram_count;   /* UD QPs, at least 2 or none */
    uint32_t message_count;    /* of each QP */
    uint32_t size_max;
    uint64_t bytes_max; /* of each QP, before its messages get small */
    /* wire */
    struct faults faults;
    enum single single;
    uint32_t single_fate; /* enum fate */
    uint64_t single_at;   /* from 1 on */
    uint64_t delay_ns;
    uint64_t jitter_ns;   /* packets stay in order */
    uint64_t reorder_ns;  /* a reordered packet comes so much later at most */
    uint64_t overtake_ns; /* an overtaken one comes so much later at most */
    uint64_t hold_ns;     /* a delay holds everything behind it, so long at most */
    uint64_t ps_per_byte;
    uint64_t heal_ns; /* faults end */
    uint64_t cut_ns;  /* how long a cut of the wire is at most; 0: none */
    /* hosts */
    uint64_t service_ns; /* packets wait so long at most before the engine gets them */
    uint64_t stall_ns;  /* a host that takes no packets does so for so long at most; 0: none does */
    uint64_t stop_ns;   /* a process that stops does so for so long at most; 0: none does */
    uint64_t busy_ns;   /* a link that takes nothing does so for so long at most */
    uint64_t famine_ns; /* receive requests are missing for so long at most; 0: never all of them */
    uint64_t timer_slack_ns;
    uint64_t app_gap_ns;
    uint32_t receive_buffer; /* bytes; 0: unlimited */
    bool paced;              /* UC and UD ask how much may leave */
    uint32_t batch_count_max;
    uint32_t batch_capacity;
    struct engine_config config;
    /* what follows */
    uint64_t rtt_ns;      /* a round trip through full queues */
    uint64_t lifetime_ns; /* no packet is on its way for longer */
    uint64_t limit_ns;    /* everything is over by then */
};

/* mode: MODE_COUNT lets the seed choose. */
void plan_make(struct plan *p, uint64_t seed, enum sim_mode mode);

/* A short scenario without faults, for one to be put at each place. */
void plan_make_scenario(struct plan *p, uint64_t seed);

/* True when packets of one direction may arrive twice or in another order. */
static inline bool plan_disorders(const struct plan *p)
{
    return p->faults.duplicate > 0 || p->faults.reorder > 0 || p->faults.overtake > 0 ||
           p->single == SINGLE_FATE;
}

#endif
