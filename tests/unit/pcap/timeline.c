/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "pcap/timeline.h"

static void bins_widen_as_time_runs_and_nothing_is_lost(void **state)
{
    struct timeline *t = calloc(1, sizeof(*t));
    uint64_t bytes = 0;

    (void)state;
    for (uint64_t ns = 0; ns < 10000000; ns += 777) {
        timeline_at(t, ns)->bytes += 3;
        bytes += 3;
    }
    for (uint32_t i = 0; i < TIMELINE_BINS; i++)
        bytes -= t->bins[i].bytes;
    assert_int_equal(bytes, 0);
    assert_true(t->width_ns * TIMELINE_BINS >= 10000000);
    assert_true(t->width_ns * TIMELINE_BINS < 2 * 10000000 + TIMELINE_BINS * TIMELINE_WIDTH_MIN_NS);
    assert_true(timeline_len(t) > TIMELINE_BINS / 2);
    free(t);
}

static void merged_bins_keep_the_longest_latency(void **state)
{
    struct timeline *t = calloc(1, sizeof(*t));

    (void)state;
    timeline_at(t, 0)->latency_max_ns = 5;
    timeline_at(t, TIMELINE_WIDTH_MIN_NS)->latency_max_ns = 9;
    timeline_at(t, UINT64_MAX);
    assert_int_equal(t->bins[0].latency_max_ns, 9);
    assert_int_equal(timeline_len(t), 1);
    assert_int_equal(timeline_len(NULL), 0);
    free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bins_widen_as_time_runs_and_nothing_is_lost),
        cmocka_unit_test(merged_bins_keep_the_longest_latency),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
