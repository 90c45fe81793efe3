/* SPDX-License-Identifier: BSD-2-Clause */
/* Last words of queue pairs that the application takes out of service: farewell.c. */
#ifndef UROCE_ENGINE_FAREWELL_PRIVATE_H
#define UROCE_ENGINE_FAREWELL_PRIVATE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/limits.h"
#include "wire/datagram.h"
#include "wire/packet.h"

struct engine;
struct qp;

#define ACK_LEN (BTH_LEN + AETH_LEN + ICRC_LEN)

/* An ACK that is to leave, without its queue pair. */
struct farewell {
    struct path path;
    uint64_t accepted_ns; /* of the newest request that it speaks of */
    uint16_t src_port;
    uint8_t dest_slot;
    uint8_t left; /* so many times more */
    uint8_t packet[ACK_LEN];
};

/* Counters run free. */
struct farewells {
    struct farewell said[FAREWELLS_MAX];
    uint32_t head;
    uint32_t tail;
    uint32_t leaving; /* engine_leave: the next entry of engine.qps */
};

/*
 * The application takes the QP out of service; its state is still the old one. What an RC
 * responder owes will leave, and its newest ACK again. Nothing where there is nothing to say.
 */
void farewell_say(struct qp *qp);

static inline bool farewell_waits(const struct farewells *f)
{
    return f->head != f->tail;
}

/* Fills b with copies of the oldest. Returns their number; 0: there is none any more. */
uint32_t farewell_transmit(struct engine *e, struct datagram_batch *b);

#endif
