/* SPDX-License-Identifier: BSD-2-Clause */
/* The inside of an engine, for the files of engine/ only. */
#ifndef UROCE_ENGINE_ENGINE_PRIVATE_H
#define UROCE_ENGINE_ENGINE_PRIVATE_H

#include <stdint.h>

#include "base/list.h"
#include "base/random.h"
#include "engine/engine.h"
#include "engine/farewell_private.h"
#include "engine/multicast_private.h"
#include "engine/window_private.h"

struct key_table; /* key.c */

struct engine {
    /* set at creation */
    struct engine_config config;
    struct random random;

    /* objects */
    struct qp **qps; /* by the low 16 bits of the QPN; NULL: free */
    uint32_t qp_count;
    uint32_t qpn_next; /* where the search for a free number goes on, so that numbers are not reused
                          soon */
    uint32_t pd_count;
    uint32_t mr_count;
    uint32_t mw_count;
    uint32_t cq_count;
    uint32_t srq_count;
    uint32_t xrcd_count;
    struct srq **xrc_srqs; /* by number; NULL before the first */
    uint32_t srqn_next;    /* as qpn_next */
    struct key_table *keys;
    struct multicast_table multicasts;
    struct window_table windows;
    struct window read_window; /* READ responses on their way to this engine */

    /* moves with packets */
    uint64_t now;          /* the latest time handed in */
    struct list ready;     /* QPs that may have something to send, oldest first */
    struct list events;    /* struct event_source */
    struct list touched;   /* QPs that changed since engine_touched_next, oldest change first */
    struct list moderated; /* CQs that hold an event back */
    struct qp **timers;    /* binary heap of QPs by deadline_ns */
    uint32_t timer_count;
    uint32_t timer_capacity;
    struct engine_counters counters;
    struct farewells farewells;
};

#endif
