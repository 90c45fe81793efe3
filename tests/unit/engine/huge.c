/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The largest message, 2^31 bytes (IBA 9.7), end to end between two engines.
 * The copy primitive is a stand-in that touches nothing, so the region need
 * not exist. HUGE_PMTU=n tries another path MTU than 4096, which takes longer.
 */
#include "support/engine_pair.h"

#include <stdlib.h>

#define HUGE_LEN 0x80000000u

static struct engine_pair the_pair;
static uint64_t copied; /* bytes that the stand-in was asked to copy */

static int copy_nothing(void *dst, const void *src, size_t len)
{
    (void)dst;
    (void)src;
    copied += len;
    return 0;
}

static void expect_whole(enum wr_opcode opcode)
{
    const char *pmtu = getenv("HUGE_PMTU");
    struct engine_pair *p = &the_pair;
    struct endpoint_config config = endpoint_config_default(2);
    struct work w = {.wr_id = 1, .opcode = opcode, .len = HUGE_LEN};
    struct mr *mrs[2];
    struct sge sge = {.addr = at(0), .length = HUGE_LEN};

    config.pmtu = pmtu != NULL ? (uint32_t)strtoul(pmtu, NULL, 0) : 4096;
    config.engine.copy = copy_nothing;
    config.sq_psn = 0xffff00;
    pair_open(p, &config);
    for (uint32_t end = 0; end < 2; end++) {
        const struct mr_attr attr = {.base = p->ends[end].memory,
                                     .len = HUGE_LEN,
                                     .iova = ENDPOINT_IOVA,
                                     .access = ENDPOINT_RIGHTS};

        assert_int_equal(mr_new(p->ends[end].pd, &attr, &mrs[end]), 0);
    }
    w.lkey = mrs[0]->key;
    w.rkey = mrs[1]->key;
    sge.lkey = mrs[1]->key;
    if (opcode == WR_SEND)
        assert_int_equal(qp_post_recv(p->ends[1].qp,
                                      &(struct recv_wr){.wr_id = 2, .sges = &sge, .sge_count = 1}),
                         0);
    copied = 0;
    endpoint_post(&p->ends[0], &w);
    w.wr_id = 3; /* what follows shows that the PSNs came out right */
    w.opcode = WR_WRITE;
    w.len = 8;
    endpoint_post(&p->ends[0], &w);
    pair_run(p);
    assert_int_equal(expect_completion(p->ends[0].send_cq, 1, STATUS_SUCCESS).byte_len, HUGE_LEN);
    expect_completion(p->ends[0].send_cq, 3, STATUS_SUCCESS);
    if (opcode == WR_SEND)
        assert_int_equal(expect_completion(p->ends[1].recv_cq, 2, STATUS_SUCCESS).byte_len,
                         HUGE_LEN);
    assert_true(copied == 2 * ((uint64_t)HUGE_LEN + 8)); /* out of one memory, into the other */
    expect_counter(&p->ends[0], retransmitted_packets, 0);
    mr_free(mrs[0]);
    mr_free(mrs[1]);
    pair_close(p);
}

static void largest_send_arrives(void **state)
{
    (void)state;
    expect_whole(WR_SEND);
}

static void largest_write_arrives(void **state)
{
    (void)state;
    expect_whole(WR_WRITE);
}

static void largest_read_arrives(void **state)
{
    (void)state;
    expect_whole(WR_READ);
}

static void message_of_one_byte_more_is_a_local_error(void **state)
{
    static const enum wr_opcode opcodes[] = {WR_SEND, WR_WRITE, WR_READ};
    const struct endpoint_config config = endpoint_config_default(2);
    struct engine_pair *p = &the_pair;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        pair_open(p, &config);
        endpoint_post(&p->ends[0],
                      &(struct work){.wr_id = 1, .opcode = opcodes[i], .len = HUGE_LEN + 1});
        pair_run(p);
        expect_completion(p->ends[0].send_cq, 1, STATUS_LOC_LEN_ERR);
        assert_int_equal(p->carried[A_TO_B], 0);
        pair_close(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(largest_send_arrives),
        cmocka_unit_test(largest_write_arrives),
        cmocka_unit_test(largest_read_arrives),
        cmocka_unit_test(message_of_one_byte_more_is_a_local_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
