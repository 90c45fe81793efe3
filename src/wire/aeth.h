/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The AETH syndrome (IBA 9.7.5): acknowledge with credits,
 * RNR NAK with a timer code, NAK with a reason.
 */
#ifndef UROCE_WIRE_AETH_H
#define UROCE_WIRE_AETH_H

#include <stdbool.h>
#include <stdint.h>

enum aeth_kind {
    AETH_ACK = 0,
    AETH_RNR_NAK = 1,
    AETH_RESERVED = 2,
    AETH_NAK = 3,
};

enum nak_code {
    NAK_PSN_SEQUENCE = 0,
    NAK_INVALID_REQUEST = 1,
    NAK_REMOTE_ACCESS = 2,
    NAK_REMOTE_OPERATIONAL = 3,
    NAK_INVALID_RD_REQUEST = 4,
};

#define AETH_CREDITS_INVALID 31u

static inline enum aeth_kind aeth_kind(uint8_t syndrome)
{
    return (enum aeth_kind)((syndrome >> 5) & 3u);
}

/* Low five bits: credit code, RNR timer code or NAK code. */
static inline uint8_t aeth_value(uint8_t syndrome)
{
    return syndrome & 0x1fu;
}

static inline uint8_t aeth_make(enum aeth_kind kind, unsigned value)
{
    return (uint8_t)(((unsigned)kind << 5) | (value & 0x1fu));
}

/* "ACK", "RNR NAK", "NAK PSN sequence" ...; static storage. */
const char *aeth_name(uint8_t syndrome);

/* Nanoseconds of the 32 RNR timer codes (IBA table 45): 0 is 655.36 ms, 1 is 10 us ... 31 is 491.52
 * ms. */
uint64_t rnr_timer_ns(uint8_t code);

/* Receive requests that a credit code stands for (IBA table 46); code 31 is not a number: returns
 * 0. */
uint32_t credits_decode(uint8_t code);

/* The largest credit code that promises no more than count requests. */
uint8_t credits_encode(uint32_t count);

#endif
