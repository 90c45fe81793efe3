/* SPDX-License-Identifier: BSD-2-Clause */
/* An engine with nothing in it but what memory, queues and events need, for tests of one file. */
#ifndef UROCE_TESTS_UNIT_ENGINE_BARE_ENGINE_H
#define UROCE_TESTS_UNIT_ENGINE_BARE_ENGINE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "engine/engine_private.h"
#include "engine/memory.h"
#include "engine/key_private.h"

struct bare_engine {
    struct engine engine;
    struct pd *pd;
};

static inline void bare_engine_init(struct bare_engine *b, uint8_t seed)
{
    const uint8_t seed_bytes[16] = {seed};

    *b = (struct bare_engine){0};
    b->engine.config.rd_atomic_max = 16;
    b->engine.config.qpn_base = 1u << 16;
    random_init(&b->engine.random, seed_bytes);
    list_init(&b->engine.events);
    list_init(&b->engine.moderated);
    assert_int_equal(key_table_new(&b->engine), 0);
    assert_int_equal(pd_new(&b->engine, &b->pd), 0);
}

static inline void bare_engine_fini(struct bare_engine *b)
{
    assert_int_equal(pd_free(b->pd), 0);
    key_table_free(&b->engine);
    assert_int_equal(b->engine.pd_count, 0);
}

#endif
