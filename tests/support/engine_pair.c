/* SPDX-License-Identifier: BSD-2-Clause */
/* Two engines and a wire between them. */
#include "support/engine_pair.h"

#include "wire/packet.h"

#include <stdlib.h>
#include <string.h>

#define BATCH_LEN 65507u
#define BATCH_COUNT 64u
#define HELD_FOR 3u
#define TIME_MAX_NS 60000000000ull

struct wire_packet {
    struct wire_packet *next;
    enum direction direction;
    uint32_t due; /* held: leaves when so many of its direction were carried */
    size_t len;
    uint8_t bytes[];
};

void pair_open(struct engine_pair *p, const struct endpoint_config *config)
{
    struct endpoint_config b = *config;

    memset(&p->faults, 0, sizeof(p->faults));
    memset(&p->carried, 0, sizeof(p->carried));
    p->fault_count = 0;
    p->flying = NULL;
    p->held = NULL;
    p->digest = 0;
    p->now = 1000000;
    b.address = (uint8_t)(5 - config->address);
    b.engine.qpn_base = (uint32_t)b.address << 16;
    b.engine.seed[0] ^= 0xb;
    b.rq_psn = config->sq_psn;
    b.sq_psn = config->rq_psn;
    endpoint_open(&p->ends[0], config);
    endpoint_open(&p->ends[1], &b);
    endpoint_connect(&p->ends[0], qp_qpn(p->ends[1].qp));
    endpoint_connect(&p->ends[1], qp_qpn(p->ends[0].qp));
}

void pair_close(struct engine_pair *p)
{
    assert_null(p->flying);
    assert_null(p->held);
    endpoint_close(&p->ends[0]);
    endpoint_close(&p->ends[1]);
}

void pair_fault(struct engine_pair *p, struct fault fault)
{
    assert_true(p->fault_count < PAIR_FAULTS_MAX);
    p->faults[p->fault_count++] = fault;
}

static enum fate fate_of(const struct engine_pair *p, enum direction direction, uint32_t nth)
{
    for (uint32_t i = 0; i < p->fault_count; i++) {
        if (p->faults[i].direction == direction && p->faults[i].nth == nth)
            return p->faults[i].fate;
    }
    return FATE_PASSES;
}

static void append(struct wire_packet **list, enum direction direction, const uint8_t *bytes,
                   size_t len, uint32_t due)
{
    struct wire_packet *w = malloc(sizeof(*w) + len);

    assert_non_null(w);
    w->next = NULL;
    w->direction = direction;
    w->due = due;
    w->len = len;
    memcpy(w->bytes, bytes, len);
    while (*list != NULL)
        list = &(*list)->next;
    *list = w;
}

/* Held packets whose time has come fly; in silence all do. */
static void let_go(struct engine_pair *p, bool silence)
{
    struct wire_packet **link = &p->held;

    while (*link != NULL) {
        struct wire_packet *w = *link;

        if (!silence && p->carried[w->direction] < w->due) {
            link = &w->next;
            continue;
        }
        *link = w->next;
        append(&p->flying, w->direction, w->bytes, w->len, 0);
        free(w);
    }
}

/* FNV-1a by words. */
static void digest_add(struct engine_pair *p, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        size_t step = len < sizeof(uint64_t) ? len : sizeof(uint64_t);
        uint64_t word = 0;

        memcpy(&word, bytes, step);
        p->digest = (p->digest ^ word) * 0x100000001b3ull;
        bytes += step;
        len -= step;
    }
}

static void put_on_wire(struct engine_pair *p, enum direction direction, const uint8_t *bytes,
                        size_t len)
{
    uint32_t nth = p->carried[direction]++;

    digest_add(p, bytes, len - ICRC_LEN); /* which nobody wrote */
    switch (fate_of(p, direction, nth)) {
    case FATE_LOST:
        break;
    case FATE_DOUBLED:
        append(&p->flying, direction, bytes, len, 0);
        append(&p->flying, direction, bytes, len, 0);
        break;
    case FATE_HELD:
        append(&p->held, direction, bytes, len, nth + HELD_FOR);
        break;
    case FATE_PASSES:
    case FATE_COUNT:
        append(&p->flying, direction, bytes, len, 0);
        break;
    }
    let_go(p, false);
}

static void listen_to(struct engine_pair *p, enum direction direction)
{
    static uint8_t buffer[BATCH_LEN];
    struct datagram_batch b = {
        .buffer = buffer, .capacity = sizeof(buffer), .count_max = BATCH_COUNT};

    while (engine_transmit(p->ends[direction].engine, p->now, &b) > 0) {
        const uint8_t *bytes = b.buffer;

        for (uint32_t i = 0; i < b.count; i++) {
            size_t len = i == b.count - 1 ? b.last_len : b.segment_len;

            put_on_wire(p, direction, bytes, len);
            bytes += len;
        }
    }
}

static void deliver_all(struct engine_pair *p)
{
    while (p->flying != NULL) {
        struct wire_packet *w = p->flying;
        const struct endpoint *from = &p->ends[w->direction];
        const struct endpoint *to = &p->ends[1 - w->direction];
        const struct datagram d = {
            .src = endpoint_gid(from->config.address),
            .dst = endpoint_gid(to->config.address),
            .hop_limit = 64,
            .src_port = 0xc123,
            .bytes = w->bytes,
            .len = w->len,
        };

        p->flying = w->next;
        engine_receive(to->engine, &d, p->now);
        free(w);
    }
}

static uint64_t next_deadline(const struct engine_pair *p)
{
    uint64_t a = engine_deadline(p->ends[0].engine);
    uint64_t b = engine_deadline(p->ends[1].engine);

    return a < b ? a : b;
}

void pair_run(struct engine_pair *p)
{
    const uint64_t end = p->now + TIME_MAX_NS;

    for (;;) {
        listen_to(p, A_TO_B);
        listen_to(p, B_TO_A);
        if (p->flying == NULL)
            let_go(p, true);
        if (p->flying != NULL) {
            deliver_all(p);
            continue;
        }
        if (next_deadline(p) == ENGINE_NEVER)
            return;
        if (next_deadline(p) > p->now)
            p->now = next_deadline(p);
        if (p->now > end)
            fail_msg("no end after a minute");
        engine_advance(p->ends[0].engine, p->now);
        engine_advance(p->ends[1].engine, p->now);
    }
}
