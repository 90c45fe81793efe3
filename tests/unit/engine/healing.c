/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two engines do every RC operation in both directions while the wire spoils
 * one packet, then any two: each packet in turn is lost, doubled or held back.
 * Whatever happens, every request completes once and in order, every byte
 * arrives, each atomic is applied once, and nothing else changes.
 */
#include "support/engine_pair.h"

#include <string.h>

#define COUNTER 0x30000u /* what atomics work on */
#define TARGET 0x10000u  /* what WRITEs change */
#define SOURCE 0x20000u  /* what READs read */
#define LANDING 0x40000u /* where READs and atomics put what they got */
#define RECEIVES 0x50000u
#define SLICE 0x1000u /* each request has its own part of each area */

static struct engine_pair the_pair;

/* PMTU is 256: messages of one, two and three packets. */
static const struct {
    enum wr_opcode opcode;
    uint32_t flags;
    uint32_t len;
} workload[] = {
    {WR_SEND, 0, 700},         {WR_READ, 0, 700},      {WR_WRITE, 0, 700},     {WR_FETCH_ADD, 0, 8},
    {WR_SEND_IMM, 0, 300},     {WR_READ, 0, 100},      {WR_WRITE_IMM, 0, 513}, {WR_FETCH_ADD, 0, 8},
    {WR_WRITE, 0, 1},          {WR_SEND, WR_FENCE, 0}, {WR_READ, 0, 257},      {WR_FETCH_ADD, 0, 8},
    {WR_WRITE, WR_FENCE, 256},
};
#define WORK_COUNT ((uint32_t)(sizeof(workload) / sizeof(workload[0])))

static bool takes_receive(uint32_t i)
{
    return workload[i].opcode == WR_SEND || workload[i].opcode == WR_SEND_IMM ||
           workload[i].opcode == WR_WRITE_IMM;
}

/* Messages have numbers of their own for each end. */
static uint64_t message_of(uint32_t end, uint32_t i)
{
    return 1000 * (end + 1) + i;
}

static void prepare(struct engine_pair *p)
{
    for (uint32_t end = 0; end < 2; end++) {
        struct endpoint *ep = &p->ends[end];
        uint64_t wr_id = 0;

        for (uint32_t i = 0; i < WORK_COUNT; i++) {
            endpoint_fill(ep, SOURCE + i * SLICE, message_of(end, i), 0, SLICE);
            if (takes_receive(i))
                endpoint_post_recv(ep, wr_id++, RECEIVES + i * SLICE, 1000);
        }
    }
}

static void post_all(struct engine_pair *p)
{
    for (uint32_t end = 0; end < 2; end++) {
        for (uint32_t i = 0; i < WORK_COUNT; i++) {
            const bool reads = workload[i].opcode == WR_READ || workload[i].opcode == WR_FETCH_ADD;

            endpoint_post(&p->ends[end],
                          &(struct work){
                              .wr_id = i,
                              .opcode = workload[i].opcode,
                              .flags = workload[i].flags,
                              .local = (reads ? LANDING : SOURCE) + i * SLICE,
                              .len = workload[i].len,
                              .remote = workload[i].opcode == WR_READ        ? SOURCE + i * SLICE
                                        : workload[i].opcode == WR_FETCH_ADD ? COUNTER
                                                                             : TARGET + i * SLICE,
                              .rkey = p->ends[1 - end].mr->key,
                              .compare = 3,
                              .imm = i,
                          });
        }
    }
}

static void expect_sends_done(struct engine_pair *p, uint32_t end)
{
    for (uint32_t i = 0; i < WORK_COUNT; i++)
        expect_completion(p->ends[end].send_cq, i, STATUS_SUCCESS);
    expect_no_completion(p->ends[end].send_cq);
}

static void expect_received(struct engine_pair *p, uint32_t end)
{
    struct endpoint *ep = &p->ends[end];
    uint64_t wr_id = 0;

    for (uint32_t i = 0; i < WORK_COUNT; i++) {
        const uint32_t slot = RECEIVES + i * SLICE;
        struct completion c;

        if (!takes_receive(i))
            continue;
        c = expect_completion(ep->recv_cq, wr_id++, STATUS_SUCCESS);
        assert_int_equal(c.byte_len, workload[i].len);
        if ((c.flags & COMPLETION_IMM) != 0)
            assert_int_equal(c.imm, i);
        if (workload[i].opcode == WR_WRITE_IMM) {
            expect_untouched(ep, slot, SLICE);
            continue;
        }
        expect_placed(ep, slot, message_of(1 - end, i), 0, workload[i].len);
        expect_untouched(ep, slot + workload[i].len, SLICE - workload[i].len);
    }
    expect_no_completion(ep->recv_cq);
}

static void expect_bytes_in_place(struct engine_pair *p, uint32_t end)
{
    const struct endpoint *ep = &p->ends[end];
    uint64_t added = 0;
    uint64_t word;

    for (uint32_t i = 0; i < WORK_COUNT; i++) {
        const uint32_t target = TARGET + i * SLICE;
        const uint32_t landing = LANDING + i * SLICE;
        const uint32_t len = workload[i].len;
        const bool written = workload[i].opcode == WR_WRITE || workload[i].opcode == WR_WRITE_IMM;

        if (written)
            expect_placed(ep, target, message_of(1 - end, i), 0, len);
        expect_untouched(ep, target + (written ? len : 0), SLICE - (written ? len : 0));
        if (workload[i].opcode == WR_READ)
            expect_placed(ep, landing, message_of(1 - end, i), 0, len);
        if (workload[i].opcode == WR_FETCH_ADD) {
            memcpy(&word, ep->memory + landing, sizeof(word));
            assert_int_equal(word, added);
            added += 3;
        }
        expect_placed(ep, SOURCE + i * SLICE, message_of(end, i), 0, SLICE);
    }
    memcpy(&word, ep->memory + COUNTER, sizeof(word));
    assert_int_equal(word, added);
}

static struct endpoint_config config_of_runs(void)
{
    struct endpoint_config config = endpoint_config_default(2);

    config.sq_psn = 0xfffff0; /* the wrap is somewhere in the middle */
    config.rq_psn = 0xfffff8;
    return config;
}

/* One run with these faults; returns how many packets travelled each way. */
static void run(const struct endpoint_config *config, const struct fault *faults, uint32_t count,
                uint32_t carried[2])
{
    struct engine_pair *p = &the_pair;

    pair_open(p, config);
    for (uint32_t i = 0; i < count; i++)
        pair_fault(p, faults[i]);
    prepare(p);
    post_all(p);
    pair_run(p);
    for (uint32_t end = 0; end < 2; end++) {
        expect_sends_done(p, end);
        expect_received(p, end);
        expect_bytes_in_place(p, end);
        assert_int_equal(qp_state(p->ends[end].qp), QP_RTS);
    }
    carried[0] = p->carried[0];
    carried[1] = p->carried[1];
    pair_close(p);
}

/* --- which faults are tried --- */

static struct fault tried[PAIR_FAULTS_MAX];
static uint32_t tried_count; /* 0: no run is under way */

/* After a failure: what was tried. */
static int describe(void **state)
{
    static const char *const fates[] = {"passes", "is lost", "is doubled", "is held back"};

    (void)state;
    for (uint32_t i = 0; i < tried_count; i++)
        print_error("  with a fault: packet %u %s %s\n", tried[i].nth,
                    tried[i].direction == A_TO_B ? "from A to B" : "from B to A",
                    fates[tried[i].fate]);
    return 0;
}

static void try_faults(const struct fault *faults, uint32_t count)
{
    const struct endpoint_config config = config_of_runs();
    uint32_t carried[2];

    memcpy(tried, faults, count * sizeof(*faults));
    tried_count = count;
    run(&config, faults, count, carried);
    tried_count = 0;
}

/* Packets of each direction when nothing goes wrong. */
static void count_packets(uint32_t carried[2])
{
    const struct endpoint_config config = config_of_runs();

    run(&config, NULL, 0, carried);
}

static void try_each_packet(enum fate fate)
{
    uint32_t carried[2];

    count_packets(carried);
    for (enum direction d = A_TO_B; d <= B_TO_A; d++) {
        for (uint32_t nth = 0; nth < carried[d]; nth++)
            try_faults(&(struct fault){d, nth, fate}, 1);
    }
}

/* The second fault may also meet packets that only the first one made necessary. */
static void try_pairs(enum fate first, enum fate second, uint32_t stride)
{
    uint32_t carried[2];
    uint32_t n = 0;

    count_packets(carried);
    for (uint32_t i = 0; i < carried[0] + carried[1]; i++) {
        const bool i_is_b = i >= carried[0];

        for (uint32_t j = 0; j < carried[0] + carried[1] + 60; j++) {
            const bool j_is_b = j >= carried[0] + 30;
            const struct fault faults[2] = {
                {i_is_b ? B_TO_A : A_TO_B, i_is_b ? i - carried[0] : i, first},
                {j_is_b ? B_TO_A : A_TO_B, j_is_b ? j - carried[0] - 30 : j, second},
            };

            if (n++ % stride == 0)
                try_faults(faults, 2);
        }
    }
}

static void without_faults_nothing_is_repeated(void **state)
{
    struct engine_pair *p = &the_pair;
    const struct endpoint_config config = config_of_runs();

    (void)state;
    pair_open(p, &config);
    prepare(p);
    post_all(p);
    pair_run(p);
    for (uint32_t end = 0; end < 2; end++) {
        expect_sends_done(p, end);
        expect_received(p, end);
        expect_bytes_in_place(p, end);
        expect_counter(&p->ends[end], retransmitted_packets, 0);
        expect_counter(&p->ends[end], local_ack_timeout_err, 0);
        expect_counter(&p->ends[end], duplicate_request, 0);
        expect_counter(&p->ends[end], out_of_sequence, 0);
    }
    pair_close(p);
}

static void any_packet_may_be_lost(void **state)
{
    (void)state;
    try_each_packet(FATE_LOST);
}

static void any_packet_may_be_doubled(void **state)
{
    (void)state;
    try_each_packet(FATE_DOUBLED);
}

static void any_packet_may_be_held_back(void **state)
{
    (void)state;
    try_each_packet(FATE_HELD);
}

static void any_two_packets_may_be_lost(void **state)
{
    (void)state;
    try_pairs(FATE_LOST, FATE_LOST, 5);
}

static void any_two_faults_may_meet(void **state)
{
    (void)state;
    try_pairs(FATE_LOST, FATE_DOUBLED, 31);
    try_pairs(FATE_LOST, FATE_HELD, 31);
    try_pairs(FATE_HELD, FATE_DOUBLED, 31);
    try_pairs(FATE_HELD, FATE_HELD, 31);
}

/* Small windows and few READs at a time take other paths to the same end. */
static void narrow_limits_heal_as_well(void **state)
{
    struct endpoint_config config = config_of_runs();

    (void)state;
    config.rd_atomic = 1;
    config.dest_rd_atomic = 1;
    config.engine.window_start = 600;
    config.engine.window_max = 1200;
    config.engine.read_window = 600;
    for (uint32_t i = 0; i < 2 * 60; i++) {
        const struct fault faults[2] = {
            {(enum direction)(i % 2), i / 2, FATE_LOST},
            {(enum direction)(i % 2), i / 2 + 7, FATE_HELD},
        };
        uint32_t carried[2];

        memcpy(tried, faults, sizeof(faults));
        tried_count = 2;
        run(&config, faults, 2, carried);
        tried_count = 0;
    }
}

static uint64_t digest_of(uint8_t seed)
{
    struct engine_pair *p = &the_pair;
    struct endpoint_config config = config_of_runs();
    uint64_t digest;

    config.engine.seed[3] = seed;
    pair_open(p, &config);
    pair_fault(p, (struct fault){A_TO_B, 5, FATE_LOST});
    pair_fault(p, (struct fault){B_TO_A, 9, FATE_HELD});
    prepare(p);
    post_all(p);
    pair_run(p);
    digest = p->digest;
    pair_close(p);
    return digest;
}

static void same_seed_gives_the_same_bytes_and_another_seed_others(void **state)
{
    (void)state;
    assert_true(digest_of(1) == digest_of(1));
    assert_true(digest_of(1) != digest_of(2));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, NULL, describe)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_faults_nothing_is_repeated),
        TEST(any_packet_may_be_lost),
        TEST(any_packet_may_be_doubled),
        TEST(any_packet_may_be_held_back),
        TEST(any_two_packets_may_be_lost),
        TEST(any_two_faults_may_meet),
        TEST(narrow_limits_heal_as_well),
        TEST(same_seed_gives_the_same_bytes_and_another_seed_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
