/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the packet scripts of RC share. Each script runs twice, the second time
 * across the wrap of the PSN.
 */
#ifndef UROCE_TESTS_UNIT_ENGINE_RC_SCRIPT_H
#define UROCE_TESTS_UNIT_ENGINE_RC_SCRIPT_H

#include <errno.h>
#include <string.h>

#include "support/packet_peer.h"

#define PMTU 256u
#define TARGET 0x10000u /* offset of what the peer writes and reads */
#define FAR 0x8000u     /* offset of what is written and read at the peer */
#define RKEY 0xabcd12u
#define TIMEOUT_NS (4096ull << 14) /* IBA 9.7.6.1: 4.096 us * 2^14 */

static const uint32_t psn_starts[] = {0x1000, 0xfffffe};
static struct peer the_peer;

static inline int setup_rc(void **state)
{
    const uint32_t *psn_start = *state;

    peer_open(&the_peer, endpoint_config_default(2), *psn_start);
    *state = &the_peer;
    return 0;
}

static int teardown_rc(void **state)
{
    peer_close(*state);
    return 0;
}

#define RC_TEST(name)                                                                              \
    {#name, name, setup_rc, teardown_rc, (void *)(uintptr_t)&psn_starts[0]},                       \
    {                                                                                              \
#name " (PSN wraps)", name, setup_rc, teardown_rc, (void *)(uintptr_t)&psn_starts[1]       \
    }

static inline void reopen(struct peer *p, const struct endpoint_config *config)
{
    uint32_t psn_start = p->psn_start;

    peer_close(p);
    peer_open(p, *config, psn_start);
}

/* The opcodes of a message by position. */
struct cut {
    enum operation_code first;
    enum operation_code middle;
    enum operation_code last;
    enum operation_code only;
};

static inline enum operation_code cut_at(const struct cut *c, uint32_t packet, uint32_t count)
{
    if (count == 1)
        return c->only;
    if (packet == 0)
        return c->first;
    return packet == count - 1 ? c->last : c->middle;
}

/* A whole message leaves, cut at the PMTU, and nothing else. Returns its packets. */
static inline uint32_t expect_message(struct peer *p, const struct cut *c, uint32_t psn,
                                      uint64_t message, uint32_t len)
{
    const uint32_t pmtu = p->ep.config.pmtu;
    const uint32_t count = len == 0 ? 1 : (len + pmtu - 1) / pmtu;

    for (uint32_t n = 0; n < count; n++)
        expect_data(p, cut_at(c, n, count), psn + n, message, n * pmtu,
                    n == count - 1 ? len - n * pmtu : pmtu);
    expect_silence(p);
    return count;
}

/* What an operating system does to a program's memory under a region. */
static bool memory_is_gone;

static inline int guarded_copy(void *dst, const void *src, size_t len)
{
    if (memory_is_gone)
        return -EFAULT;
    memcpy(dst, src, len);
    return 0;
}

static inline void expect_receive(struct peer *p, uint64_t wr_id, uint32_t byte_len)
{
    struct completion c = expect_completion(p->ep.recv_cq, wr_id, STATUS_SUCCESS);

    assert_int_equal(c.opcode, COMPLETION_RECV);
    assert_int_equal(c.byte_len, byte_len);
    assert_int_equal(c.qpn, qp_qpn(p->ep.qp));
    assert_ptr_equal(c.owner, p->ep.qp);
}

/* The QP is in error, does not answer, and takes nothing any more. */
static inline void expect_dead(struct peer *p)
{
    expect_silence(p);
    assert_int_equal(qp_state(p->ep.qp), QP_ERR);
    for (uint32_t psn = 0; psn < 8; psn++)
        peer_sends(p, (struct script){.operation = OP_WRITE_ONLY,
                                      .psn = psn,
                                      .ack_req = true,
                                      .len = 8,
                                      .dma_len = 8,
                                      .remote = TARGET + 0x8000});
    expect_silence(p);
    expect_untouched(&p->ep, TARGET + 0x8000, 8);
}

/* Posts it, with the bytes of a message of the same number, and lets it leave. */
static inline void post(struct peer *p, struct work w)
{
    if (w.rkey == 0)
        w.rkey = RKEY;
    if (w.opcode != WR_READ && w.len > 0)
        endpoint_fill(&p->ep, w.local, w.wr_id, 0, w.len);
    endpoint_post(&p->ep, &w);
}

static inline void post_write(struct peer *p, uint64_t wr_id, uint32_t len)
{
    post(p, (struct work){.wr_id = wr_id, .opcode = WR_WRITE, .len = len, .remote = FAR});
    peer_listens(p);
}

static inline void post_send(struct peer *p, uint64_t wr_id, uint32_t len)
{
    post(p, (struct work){.wr_id = wr_id, .opcode = WR_SEND, .len = len});
    peer_listens(p);
}

static inline void post_read(struct peer *p, uint64_t wr_id, uint32_t local, uint32_t len)
{
    post(p, (struct work){
                .wr_id = wr_id, .opcode = WR_READ, .local = local, .len = len, .remote = FAR});
    peer_listens(p);
}

static inline void peer_answers_read(struct peer *p, enum operation_code operation, uint32_t psn,
                                     uint64_t message, uint32_t first, uint32_t len)
{
    peer_sends(p, (struct script){.operation = operation,
                                  .psn = psn,
                                  .message = message,
                                  .first = first,
                                  .len = len,
                                  .syndrome = aeth_make(AETH_ACK, AETH_CREDITS_INVALID)});
}

/* Nothing was said twice. */
static inline void expect_no_repeats(struct peer *p)
{
    expect_silence(p);
    expect_counter(&p->ep, retransmitted_packets, 0);
    expect_counter(&p->ep, local_ack_timeout_err, 0);
}

static inline void expect_done(struct peer *p, uint64_t wr_id)
{
    expect_completion(p->ep.send_cq, wr_id, STATUS_SUCCESS);
}

#endif
