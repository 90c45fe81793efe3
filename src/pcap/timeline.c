/* SPDX-License-Identifier: BSD-2-Clause */
#include "pcap/timeline.h"

#include <string.h>

static struct timeline_bin merged(const struct timeline_bin *a, const struct timeline_bin *b)
{
    return (struct timeline_bin){
        .bytes = a->bytes + b->bytes,
        .latency_max_ns =
            a->latency_max_ns > b->latency_max_ns ? a->latency_max_ns : b->latency_max_ns,
        .packets = a->packets + b->packets,
        .repeats = a->repeats + b->repeats,
        .marks = a->marks + b->marks,
        .cnps = a->cnps + b->cnps,
    };
}

static void halve(struct timeline *t)
{
    for (uint32_t i = 0; i < TIMELINE_BINS / 2; i++)
        t->bins[i] = merged(&t->bins[(size_t)2 * i], &t->bins[(size_t)2 * i + 1]);
    memset(&t->bins[TIMELINE_BINS / 2], 0, sizeof(t->bins) / 2);
    t->width_ns *= 2;
    t->width_shift++;
}

struct timeline_bin *timeline_at(struct timeline *t, uint64_t elapsed_ns)
{
    if (t->width_ns == 0) {
        t->width_ns = TIMELINE_WIDTH_MIN_NS;
        t->width_shift = (uint32_t)__builtin_ctz(TIMELINE_WIDTH_MIN_NS);
    }
    /* At most 64 times: a hostile capture may hold any time. */
    while (elapsed_ns >> t->width_shift >= TIMELINE_BINS)
        halve(t);
    return &t->bins[elapsed_ns >> t->width_shift];
}

uint32_t timeline_len(const struct timeline *t)
{
    static const struct timeline_bin empty;
    uint32_t len = t != NULL ? TIMELINE_BINS : 0;

    while (len > 0 && memcmp(&t->bins[len - 1], &empty, sizeof(empty)) == 0)
        len--;
    return len;
}
