/* SPDX-License-Identifier: BSD-2-Clause */
/* The tables of the AETH: names, RNR timers (IBA table 45), credits (IBA table 46). */
#include "wire/aeth.h"

#include <assert.h>

#define CODE_COUNT 32
#define RNR_UNIT_NS UINT64_C(10000)
#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

static const char *const nak_names[] = {
    [NAK_PSN_SEQUENCE] = "NAK PSN sequence",
    [NAK_INVALID_REQUEST] = "NAK invalid request",
    [NAK_REMOTE_ACCESS] = "NAK remote access",
    [NAK_REMOTE_OPERATIONAL] = "NAK remote operational",
    [NAK_INVALID_RD_REQUEST] = "NAK invalid RD request",
};

/* In units of 10 us. */
static const uint16_t rnr_timer_units[] = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
};
#define RNR_TIMER_UNITS_OF_0 UINT64_C(65536)
static_assert(ARRAY_LEN(rnr_timer_units) == CODE_COUNT, "one for each code");

static const uint16_t credits[] = {
    0,   1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
};
static_assert(ARRAY_LEN(credits) == AETH_CREDITS_INVALID, "one for each code but the last");

const char *aeth_name(uint8_t syndrome)
{
    uint8_t value = aeth_value(syndrome);

    switch (aeth_kind(syndrome)) {
    case AETH_ACK:
        return "ACK";
    case AETH_RNR_NAK:
        return "RNR NAK";
    case AETH_NAK:
        return value < ARRAY_LEN(nak_names) ? nak_names[value] : "NAK reserved";
    case AETH_RESERVED:
        break;
    }
    return "reserved";
}

uint64_t rnr_timer_ns(uint8_t code)
{
    uint64_t units = rnr_timer_units[code % CODE_COUNT];

    return RNR_UNIT_NS * (units != 0 ? units : RNR_TIMER_UNITS_OF_0);
}

uint32_t credits_decode(uint8_t code)
{
    return code < ARRAY_LEN(credits) ? credits[code] : 0;
}

uint8_t credits_encode(uint32_t count)
{
    uint8_t code = ARRAY_LEN(credits) - 1;

    while (credits[code] > count)
        code--;
    return code;
}
