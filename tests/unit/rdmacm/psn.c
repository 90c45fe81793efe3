/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Starting PSNs to who would guess them: chi-squared tests over what both sides of some hundred
 * connections begin with. They come from the kernel, so each run draws others; the bound is one
 * that an even source crosses once in 10^10 times.
 */
#include "sides.h"

#define CONNECTIONS 256u
#define PSNS (2u * CONNECTIONS)
#define BINS 16u
#define CHI_HIGH 80.0 /* 15 degrees of freedom */

static uint32_t starting_psn(struct ibv_qp *qp)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_SQ_PSN, &init), 0);
    return attr.sq_psn;
}

static void draw(uint32_t *psns)
{
    for (uint32_t i = 0; i < CONNECTIONS; i++) {
        struct sides s;

        sides_open(&s, RDMA_PS_TCP);
        establish(&s);
        *psns++ = starting_psn(s.client->qp);
        *psns++ = starting_psn(s.server->qp);
        sides_close(&s);
    }
}

/* Each of the six hexadecimal digits takes each value as often as the others. */
static void expect_even(const char *what, const uint32_t *numbers, uint32_t total)
{
    const double expected = (double)total / BINS;

    for (uint32_t shift = 0; shift < 24; shift += 4) {
        uint32_t counts[BINS] = {0};
        double chi = 0;

        for (uint32_t i = 0; i < total; i++)
            counts[numbers[i] >> shift & 0xf]++;
        for (uint32_t i = 0; i < BINS; i++)
            chi += ((double)counts[i] - expected) * ((double)counts[i] - expected) / expected;
        if (chi > CHI_HIGH)
            fail_msg("%s: chi-squared of bits %u to %u is %.1f", what, shift, shift + 3, chi);
    }
}

static void starting_psns_are_even_and_so_are_their_distances(void **state)
{
    uint32_t psns[PSNS];
    uint32_t distances[PSNS - 1];

    (void)state;
    draw(psns);
    for (uint32_t i = 0; i + 1 < PSNS; i++)
        distances[i] = psns[i + 1] - psns[i];
    expect_even("PSNs", psns, PSNS);
    expect_even("distances", distances, PSNS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starting_psns_are_even_and_so_are_their_distances),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
