/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that sends whatever comes to its mind, from well-formed requests and
 * answers at likely PSNs to noise, while the program posts, waits and changes
 * states. Whatever it does: no assertion of the engine fails, no byte outside
 * the region that is open to it changes or is told, and each request that was
 * posted completes once and in order. HOSTILE_SEED=n replays one run.
 */
#include "support/packet_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/dice.h"

#define SEEDS 400u
#define STEPS 300u
#define OPEN 0x20000u /* the region that the peer may use */
#define OPEN_LEN 0x2000u
#define PRIVATE 0x40000u /* where the program's own requests land */
#define PRIVATE_LEN 0x8000u

struct run {
    struct peer peer;
    struct dice dice;
    struct mr *open;
    struct mw *window; /* over its second half, of type 2 */
    uint64_t seed;
    uint64_t posted[2]; /* requests so far: sends, receives */
    uint64_t completed[2];
    enum operation_code last_request; /* of the peer */
    uint32_t looked_at;               /* of the packets that the endpoint sent */
};

static struct run the_run;

static uint32_t below(struct run *r, uint32_t bound)
{
    return (uint32_t)dice_below(&r->dice, bound);
}

/* --- the program --- */

static void take_completions(struct run *r, unsigned side)
{
    struct cq *cq = side == 0 ? r->peer.ep.send_cq : r->peer.ep.recv_cq;
    struct completion c;

    while (cq_poll(cq, 1, &c) == 1) {
        if (c.wr_id != r->completed[side])
            fail_msg("seed %llu: request %llu completed, expected %llu",
                     (unsigned long long)r->seed, (unsigned long long)c.wr_id,
                     (unsigned long long)r->completed[side]);
        r->completed[side]++;
    }
    assert_true(r->completed[side] <= r->posted[side]);
}

static void program_sends(struct run *r)
{
    const struct mw_bind bind = {
        .window_key = r->window->view.key,
        .region_key = r->open->key,
        .key = r->window->view.key ^ (below(r, 40) == 0 ? 0x100 : below(r, 256)),
        .addr = at(OPEN + OPEN_LEN / 2),
        .len = below(r, 40) == 0 ? OPEN_LEN : OPEN_LEN / 2,
        .access = ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ,
    };
    const struct work w = {
        .wr_id = r->posted[0],
        .opcode = (enum wr_opcode)below(r, 10),
        .bind = &bind,
        .imm = below(r, 4) == 0 ? (uint32_t)dice_u64(&r->dice) : r->window->view.key,
        .flags = (below(r, 6) == 0 ? WR_FENCE : 0) | (below(r, 6) == 0 ? WR_SOLICITED : 0),
        .local = PRIVATE + below(r, 0x1000),
        .len = below(r, 3) == 0 ? below(r, 3000) : 8,
        .lkey = below(r, 40) == 0 ? (uint32_t)dice_u64(&r->dice) : 0,
        .remote = below(r, 1000),
        .rkey = 0x1234,
    };

    if (endpoint_try_post(&r->peer.ep, &w) == 0)
        r->posted[0]++;
}

static void program_receives(struct run *r)
{
    const struct sge sge = {.addr = at(PRIVATE + below(r, 0x4000)),
                            .length = below(r, 2000),
                            .lkey = below(r, 40) == 0 ? 1 : r->peer.ep.mr->key};

    if (qp_post_recv(r->peer.ep.qp, &(struct recv_wr){.wr_id = r->posted[1],
                                                      .sges = &sge,
                                                      .sge_count = sge.length > 0}) == 0)
        r->posted[1]++;
}

static void program_changes_state(struct run *r)
{
    struct endpoint *ep = &r->peer.ep;
    const struct qp_attr attr = {.sqd_notify = true,
                                 .rd_atomic = (uint8_t)(1 + below(r, 16)),
                                 .dest_rd_atomic = (uint8_t)(1 + below(r, 16)),
                                 .state = QP_SQD};
    struct engine_event event;

    while (engine_event_next(ep->engine, &event))
        ;
    switch (qp_state(ep->qp)) {
    case QP_RTS:
        if (below(r, 4) == 0)
            endpoint_modify_state(ep, QP_SQD, QP_ATTR_SQD_NOTIFY, &attr);
        break;
    case QP_SQD:
        qp_modify(ep->qp, &attr, QP_ATTR_RD_ATOMIC | QP_ATTR_DEST_RD_ATOMIC, NULL);
        endpoint_modify_state(ep, QP_RTS, 0, NULL);
        break;
    case QP_ERR: /* begins anew */
        take_completions(r, 0);
        take_completions(r, 1);
        assert_int_equal(r->completed[0], r->posted[0]);
        assert_int_equal(r->completed[1], r->posted[1]);
        endpoint_modify_state(ep, QP_RESET, 0, NULL);
        endpoint_connect(ep, PEER_QPN);
        r->last_request = OP_SEND_ONLY;
        break;
    case QP_RESET:
    case QP_INIT:
    case QP_RTR:
    case QP_SQE:
        break;
    }
}

/* --- the peer --- */

/* Requests at the PSN that is expected, mostly; answers to what may be outstanding. */
static uint32_t likely_psn(struct run *r, bool answer)
{
    struct qp_attr attr;
    struct qp_cap cap;
    struct psn psn;

    qp_query(r->peer.ep.qp, &attr, &cap);
    psn = answer ? psn_sub(attr.sq_psn, below(r, 10)) : attr.rq_psn;
    if (below(r, 5) == 0)
        psn = psn_add(psn, below(r, 16) - 8);
    if (below(r, 50) == 0)
        psn = psn_make((uint32_t)dice_u64(&r->dice));
    return (psn.value - r->peer.psn_start) & PSN_MASK;
}

static uint8_t likely_syndrome(struct run *r)
{
    switch (below(r, 12)) {
    case 0:
        return (uint8_t)below(r, 256);
    case 1:
        return aeth_make(AETH_NAK, NAK_PSN_SEQUENCE);
    case 2:
        return aeth_make(AETH_RNR_NAK, below(r, 32));
    case 3:
        return aeth_make(AETH_ACK, below(r, 32));
    default:
        return aeth_make(AETH_ACK, AETH_CREDITS_INVALID);
    }
}

/* Often one that may follow the packet before it. */
static enum operation_code likely_operation(struct run *r)
{
    static const enum operation_code any[] = {
        OP_SEND_FIRST,       OP_SEND_MIDDLE,
        OP_SEND_LAST,        OP_SEND_LAST_IMM,
        OP_SEND_LAST_INV,    OP_WRITE_FIRST,
        OP_WRITE_MIDDLE,     OP_WRITE_LAST,
        OP_WRITE_LAST_IMM,   OP_READ_RESP_FIRST,
        OP_READ_RESP_LAST,   OP_READ_RESP_ONLY,
        OP_READ_RESP_MIDDLE, OP_ACK,
        OP_ATOMIC_ACK,       OP_FLUSH,
        OP_ATOMIC_WRITE,
    };
    static const enum operation_code fresh[] = {
        OP_SEND_FIRST,
        OP_SEND_ONLY,
        OP_SEND_ONLY_IMM,
        OP_SEND_ONLY_INV,
        OP_WRITE_FIRST,
        OP_WRITE_ONLY,
        OP_WRITE_ONLY_IMM,
        OP_READ_REQUEST,
        OP_READ_REQUEST,
        OP_CMP_SWAP,
        OP_FETCH_ADD,
        OP_ACK,
        OP_ACK,
        OP_ACK,
        OP_READ_RESP_FIRST,
        OP_READ_RESP_LAST,
        OP_READ_RESP_ONLY,
        OP_ATOMIC_ACK,
    };
    static const enum operation_code after_send[] = {OP_SEND_MIDDLE, OP_SEND_LAST,
                                                     OP_SEND_LAST_IMM};
    static const enum operation_code after_write[] = {OP_WRITE_MIDDLE, OP_WRITE_LAST,
                                                      OP_WRITE_LAST_IMM};

    if (below(r, 25) == 0)
        return any[below(r, sizeof(any) / sizeof(any[0]))];
    if (r->last_request == OP_SEND_FIRST || r->last_request == OP_SEND_MIDDLE)
        return after_send[below(r, 3)];
    if (r->last_request == OP_WRITE_FIRST || r->last_request == OP_WRITE_MIDDLE)
        return after_write[below(r, 3)];
    return fresh[below(r, sizeof(fresh) / sizeof(fresh[0]))];
}

static uint32_t likely_len(struct run *r, const struct operation *o)
{
    if (o->payload != PAYLOAD_NONE && below(r, 50) == 0)
        return below(r, 600);
    switch (o->payload) {
    case PAYLOAD_FULL:
        return 256;
    case PAYLOAD_TAIL:
    case PAYLOAD_ANY:
        return below(r, 2) == 0 ? 8 : 1 + below(r, 256);
    case PAYLOAD_EIGHT:
        return 8;
    case PAYLOAD_NONE:
    case PAYLOAD_CNP:
        break;
    }
    return 0;
}

static uint32_t likely_rkey(struct run *r)
{
    if (below(r, 60) == 0)
        return (uint32_t)dice_u64(&r->dice);
    return below(r, 6) == 0 ? r->window->view.key : r->open->key;
}

static struct script any_script(struct run *r)
{
    const enum operation_code operation = likely_operation(r);
    const struct operation *o = opcode_operation(opcode_make(SERVICE_RC, operation));
    const bool answer =
        o->kind == KIND_ACK || o->kind == KIND_READ_RESPONSE || o->kind == KIND_ATOMIC_ACK;
    struct script s = {
        .operation = operation,
        .psn = likely_psn(r, answer),
        .ack_req = below(r, 2),
        .solicited = below(r, 8) == 0,
        .len = likely_len(r, o),
        .remote = OPEN + (below(r, 40) == 0 ? dice_u64(&r->dice) : 8ull * below(r, OPEN_LEN / 16)),
        .rkey = likely_rkey(r),
        .swap_add = 1,
        .syndrome = likely_syndrome(r),
        .msn = below(r, 64),
        .ieth = likely_rkey(r),
    };

    s.dma_len = o->position == POSITION_ONLY && o->kind == KIND_WRITE ? s.len : below(r, 2000);
    if (below(r, 60) == 0)
        s.dma_len = (uint32_t)dice_u64(&r->dice);
    if (!answer)
        r->last_request = operation;
    return s;
}

static void peer_sends_anything(struct run *r)
{
    uint8_t bytes[PACKET_HEADERS_MAX + 2 * PACKET_PAYLOAD_MAX];
    size_t len = peer_writes(&r->peer, any_script(r), bytes);

    if (below(r, 20) == 0)
        bytes[below(r, 32)] ^= (uint8_t)(1u << below(r, 8));
    if (below(r, 30) == 0)
        len = below(r, (uint32_t)len + 1);
    peer_sends_bytes(&r->peer, bytes, len);
}

/* --- a run --- */

/* What lies outside the region that is open, and where the program's own requests land. */
static const uint8_t secret[8] = {0xc3, 0x5a, 0x99, 0xe1, 0x0f, 0xb4, 0x72, 0x6d};

static bool is_closed(uint32_t offset)
{
    return offset - OPEN >= OPEN_LEN && offset - PRIVATE >= PRIVATE_LEN;
}

static void hide_secrets(struct run *r)
{
    for (uint32_t i = 0; i < ENDPOINT_MEMORY; i++)
        if (is_closed(i))
            r->peer.ep.memory[i] = secret[i % sizeof(secret)];
}

static void expect_closed_memory_untouched(struct run *r)
{
    for (uint32_t i = 0; i < ENDPOINT_MEMORY; i++)
        if (is_closed(i) && r->peer.ep.memory[i] != secret[i % sizeof(secret)])
            fail_msg("seed %llu: byte 0x%x was written", (unsigned long long)r->seed, i);
}

/* No answer carries what the peer may not read, at whatever offset it was cut. */
static void expect_no_secret_told(struct run *r)
{
    for (; r->looked_at < r->peer.sent_tail; r->looked_at++) {
        const struct sent_packet *s = &r->peer.sent[r->looked_at];

        for (size_t i = 0; i + 4 <= s->p.payload_len; i++)
            for (size_t j = 0; j + 4 <= sizeof(secret); j++)
                if (memcmp(s->p.payload + i, secret + j, 4) == 0)
                    fail_msg("seed %llu: an answer tells what is closed",
                             (unsigned long long)r->seed);
    }
}

static void step(struct run *r)
{
    static const uint32_t weights[] = {20, 30, 80, 20, 6, 3};

    if (qp_state(r->peer.ep.qp) == QP_ERR && below(r, 4) == 0)
        program_changes_state(r);
    switch (dice_weighted(&r->dice, weights, sizeof(weights) / sizeof(weights[0]))) {
    case 0:
        program_sends(r);
        break;
    case 1:
        program_receives(r);
        break;
    case 2:
        peer_sends_anything(r);
        break;
    case 3:
        peer_listens(&r->peer);
        break;
    case 4:
        time_passes(&r->peer, below(r, 100000000));
        break;
    case 5:
        program_changes_state(r);
        break;
    }
    take_completions(r, 0);
    take_completions(r, 1);
    expect_no_secret_told(r);
    if (r->peer.sent_tail > PEER_PACKETS_MAX / 2) {
        peer_forgets(&r->peer);
        r->looked_at = 0;
    }
}

static void run(struct run *r, uint64_t seed)
{
    struct endpoint_config config = endpoint_config_default(2);
    struct mr_attr attr = {
        .len = OPEN_LEN, .iova = at(OPEN), .access = ENDPOINT_RIGHTS | ACCESS_MW_BIND};

    memset(r->posted, 0, sizeof(r->posted));
    memset(r->completed, 0, sizeof(r->completed));
    r->seed = seed;
    r->last_request = OP_SEND_ONLY;
    r->dice = dice_make(seed, 0);
    config.rnr_retry = (uint8_t)below(r, 8);
    config.retry_count = (uint8_t)below(r, 8);
    peer_open(&r->peer, config, below(r, 2) == 0 ? 0xfffff0 : (uint32_t)below(r, 1u << 24));
    r->looked_at = 0;
    hide_secrets(r);
    attr.base = r->peer.ep.memory + OPEN;
    assert_int_equal(mr_new(r->peer.ep.pd, &attr, &r->open), 0);
    assert_int_equal(mw_new(r->peer.ep.pd, MW_TYPE_2, &r->window), 0);
    for (uint32_t i = 0; i < STEPS; i++)
        step(r);
    expect_closed_memory_untouched(r);
    if (qp_state(r->peer.ep.qp) != QP_ERR)
        endpoint_modify_state(&r->peer.ep, QP_ERR, 0, NULL);
    take_completions(r, 0);
    take_completions(r, 1);
    assert_int_equal(r->completed[0], r->posted[0]);
    assert_int_equal(r->completed[1], r->posted[1]);
    mw_free(r->window);
    assert_int_equal(mr_free(r->open), 0);
    peer_close(&r->peer);
}

static void nothing_that_a_peer_sends_does_harm(void **state)
{
    const char *only = getenv("HOSTILE_SEED");

    (void)state;
    if (only != NULL) {
        run(&the_run, strtoull(only, NULL, 0));
        return;
    }
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        run(&the_run, seed);
}

static int say_seed(void **state)
{
    (void)state;
    print_message("last seed: HOSTILE_SEED=%llu\n", (unsigned long long)the_run.seed);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_that_a_peer_sends_does_harm, NULL, say_seed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
