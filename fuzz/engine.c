/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A connected engine and a peer that sends whatever the input says, packet by
 * packet, while the program posts, time passes and answers are taken. A packet
 * is mostly given by a few bytes, with keys and PSNs that are likely, so that
 * the fuzzer gets beyond the first checks; or as raw bytes. No byte outside of
 * what is open to the peer may change, and each request completes once, in order.
 *
 * Input: a byte for the service, then steps of a byte each with their arguments.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "engine/cq.h"
#include "engine/engine.h"
#include "engine/memory.h"
#include "engine/multicast.h"
#include "engine/qp.h"
#include "wire/packet.h"

#define MEMORY_LEN 0x3000u
#define OPEN 0x1000u /* bytes that the peer may read and write; and where requests land */
#define OPEN_LEN 0x1000u
#define IOVA 0x10000u
#define PEER_QPN 0x020007u
#define PSN_START 0xfffffcu
#define QKEY 7u
#define WR_MAX 8u
#define STEPS_MAX 200u

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

struct input {
    const uint8_t *next;
    size_t left;
};

static struct {
    struct engine *engine;
    struct pd *pd;
    struct cq *cqs[2]; /* of sends and receives */
    struct qp *qp;
    struct mr *mr;
    struct gid us;
    struct gid peer;
    struct multicast group; /* that a UD queue pair is attached to */
    bool to_group;          /* the next datagram has its address */
    enum service service;
    uint64_t now;
    uint64_t posted[2];
    uint64_t completed[2];
    uint8_t memory[MEMORY_LEN];
} f;

static uint8_t take(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->next++;
}

static uint32_t take16(struct input *in)
{
    uint32_t high = take(in);

    return high << 8 | take(in);
}

/* --- set-up --- */

static void modify(enum qp_state state, uint32_t mask)
{
    const struct qp_attr attr = {
        .state = state,
        .port = 1,
        .access =
            ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE | ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC,
        .qkey = QKEY,
        .pmtu = 256,
        .path = {.src = f.us, .dst = f.peer, .hop_limit = 64},
        .dest_qpn = PEER_QPN,
        .rq_psn = psn_make(PSN_START),
        .sq_psn = psn_make(PSN_START),
        .dest_rd_atomic = 4,
        .rd_atomic = 4,
        .min_rnr_timer = 1,
        .timeout = 1,
        .retry_count = 3,
        .rnr_retry = 3,
    };

    assert(qp_modify(f.qp, &attr, mask | QP_ATTR_STATE, NULL) == 0);
}

static void connect(void)
{
    const uint32_t init = QP_ATTR_PORT | QP_ATTR_PKEY_INDEX;
    const uint32_t rtr = QP_ATTR_AV | QP_ATTR_PMTU | QP_ATTR_DEST_QPN | QP_ATTR_RQ_PSN;
    const uint32_t rts =
        QP_ATTR_TIMEOUT | QP_ATTR_RETRY_COUNT | QP_ATTR_RNR_RETRY | QP_ATTR_RD_ATOMIC;
    const bool rc = f.service == SERVICE_RC;

    modify(QP_INIT, init | (f.service == SERVICE_UD ? QP_ATTR_QKEY : QP_ATTR_ACCESS));
    if (f.service == SERVICE_UD)
        modify(QP_RTR, 0);
    else
        modify(QP_RTR, rtr | (rc ? QP_ATTR_DEST_RD_ATOMIC | QP_ATTR_MIN_RNR_TIMER : 0));
    modify(QP_RTS, QP_ATTR_SQ_PSN | (rc ? rts : 0));
}

static void open_engine(enum service service)
{
    struct engine_config config = engine_config_default();
    struct qp_init init = {
        .service = service,
        .cap = {.send_wr_max = WR_MAX, .recv_wr_max = WR_MAX, .send_sge_max = 1, .recv_sge_max = 1},
        .all_signaled = true,
    };
    const struct mr_attr attr = {.base = f.memory + OPEN,
                                 .len = OPEN_LEN,
                                 .iova = IOVA,
                                 .access = ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE |
                                           ACCESS_REMOTE_READ | ACCESS_REMOTE_ATOMIC};

    memset(&f, 0, sizeof(f));
    f.us.bytes[15] = 1;
    f.peer.bytes[15] = 2;
    f.group.gid = (struct gid){.bytes = {0xff, 0x05, [15] = 7}};
    f.service = service;
    assert(engine_new(&config, &f.engine) == 0);
    assert(pd_new(f.engine, &f.pd) == 0);
    assert(cq_new(f.engine, 64, NULL, &f.cqs[0]) == 0);
    assert(cq_new(f.engine, 64, NULL, &f.cqs[1]) == 0);
    assert(mr_new(f.pd, &attr, &f.mr) == 0);
    init.pd = f.pd;
    init.send_cq = f.cqs[0];
    init.recv_cq = f.cqs[1];
    assert(qp_new(f.engine, &init, &f.qp) == 0);
    assert((multicast_attach(f.qp, &f.group) == 0) == (service == SERVICE_UD));
    connect();
}

static void close_engine(void)
{
    assert((multicast_detach(f.qp, &f.group) == 0) == (f.service == SERVICE_UD));
    assert(qp_free(f.qp) == 0);
    assert(mr_free(f.mr) == 0);
    assert(cq_free(f.cqs[0]) == 0);
    assert(cq_free(f.cqs[1]) == 0);
    assert(pd_free(f.pd) == 0);
    engine_free(f.engine);
}

/* --- the program --- */

static void program_sends(struct input *in)
{
    const struct sge sge = {
        .addr = IOVA + take16(in) % 0x800, .length = take16(in) % 0x700, .lkey = f.mr->key};
    const struct ah ah = {.pd = f.pd, .path = {.src = f.us, .dst = f.peer, .hop_limit = 64}};
    const struct send_wr wr = {
        .wr_id = f.posted[0],
        .opcode = (enum wr_opcode)(take(in) % 10),
        .sges = &sge,
        .sge_count = 1,
        .remote_addr = 0x1000,
        .rkey = 0x77,
        .ah = f.service == SERVICE_UD ? &ah : NULL,
        .remote_qpn = PEER_QPN,
        .remote_qkey = QKEY,
    };

    if (qp_post_send(f.qp, &wr) == 0)
        f.posted[0]++;
}

static void program_receives(struct input *in)
{
    const struct sge sge = {
        .addr = IOVA + take16(in) % 0x800, .length = take16(in) % 0x800, .lkey = f.mr->key};
    const struct recv_wr wr = {.wr_id = f.posted[1], .sges = &sge, .sge_count = 1};

    if (qp_post_recv(f.qp, &wr) == 0)
        f.posted[1]++;
}

static void take_completions(void)
{
    struct completion c;

    for (unsigned side = 0; side < 2; side++) {
        while (cq_poll(f.cqs[side], 1, &c) == 1) {
            assert(c.wr_id == f.completed[side]);
            f.completed[side]++;
        }
        assert(f.completed[side] <= f.posted[side]);
    }
}

static void begin_anew(void)
{
    struct engine_event event;

    while (engine_event_next(f.engine, &event))
        ;
    modify(QP_ERR, 0);
    take_completions();
    assert(f.completed[0] == f.posted[0]);
    assert(f.completed[1] == f.posted[1]);
    modify(QP_RESET, 0);
    connect();
}

/* --- the peer --- */

static void deliver(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    const struct datagram d = {.src = f.peer,
                               .dst = f.to_group ? f.group.gid : f.us,
                               .hop_limit = 64,
                               .src_port = 0xc123,
                               .bytes = copy,
                               .len = len};

    assert(copy != NULL);
    memcpy(copy, bytes, len);
    engine_receive(f.engine, &d, f.now);
    free(copy);
}

static void peer_sends_raw(struct input *in)
{
    size_t len = take(in);

    len = len < in->left ? len : in->left;
    deliver(in->next, len);
    in->next += len;
    in->left -= len;
}

/* PSNs near those that are expected or outstanding. */
static struct psn likely_psn(uint8_t choice)
{
    struct qp_attr attr;
    struct qp_cap cap;

    qp_query(f.qp, &attr, &cap);
    return psn_add((choice & 0x80) != 0 ? attr.sq_psn : attr.rq_psn, (uint32_t)(choice & 15) - 8);
}

static void peer_sends(struct input *in)
{
    static uint8_t bytes[PACKET_HEADERS_MAX + 512];
    const uint8_t opcode = opcode_make(f.service, (enum operation_code)(take(in) & 0x1f));
    const uint8_t flags = take(in);
    uint32_t payload = (flags & 2) != 0 ? 256 : take(in);
    struct headers h = {
        .bth = {.opcode = opcode, .pkey = 0xffff, .dest_qpn = qp_qpn(f.qp), .ack_req = flags & 1},
        .deth = {.qkey = QKEY, .src_qpn = PEER_QPN},
    };
    size_t len;

    if (opcode_operation(opcode) == NULL)
        return;
    if ((flags & 4) != 0)
        payload = 0;
    if ((flags & 32) != 0)
        h.bth.dest_qpn = QPN_MULTICAST;
    f.to_group = ((flags >> 5 ^ flags >> 6) & 1) != 0; /* with the multicast QPN, as a rule */
    h.bth.psn = likely_psn(take(in));
    h.bth.pad_count = packet_pad(payload);
    h.reth.va = IOVA + take16(in);
    h.reth.rkey = (flags & 8) != 0 ? f.mr->key + take(in) : f.mr->key;
    h.reth.dma_len = (flags & 16) != 0 ? payload : take16(in);
    h.atomic.va = h.reth.va;
    h.atomic.rkey = h.reth.rkey;
    h.atomic.swap_add = 3;
    h.aeth.syndrome = take(in);
    h.aeth.msn = psn_make(take(in));
    h.ieth = h.reth.rkey;
    len = headers_write(&h, bytes);
    memset(bytes + len, 0x5a, payload + 8);
    deliver(bytes, len + payload + packet_pad(payload) + ICRC_LEN);
}

/* What leaves is a packet. */
static void peer_listens(void)
{
    static uint8_t buffer[65507];
    struct datagram_batch b = {.buffer = buffer, .capacity = sizeof(buffer), .count_max = 16};

    while (engine_transmit(f.engine, f.now, &b) > 0) {
        for (uint32_t i = 0; i < b.count; i++) {
            struct packet p;
            size_t len = i + 1 < b.count ? b.segment_len : b.last_len;

            assert(packet_parse(buffer + i * b.segment_len, len, &p) == DROP_NONE);
        }
    }
}

static void time_passes(struct input *in)
{
    f.now += 1ull << (take(in) % 28);
    engine_advance(f.engine, f.now);
}

static void step(struct input *in)
{
    switch (take(in) % 8) {
    case 0:
        program_sends(in);
        break;
    case 1:
        program_receives(in);
        break;
    case 2:
        peer_sends_raw(in);
        break;
    case 3:
        time_passes(in);
        break;
    case 4:
        if (qp_state(f.qp) == QP_ERR || qp_state(f.qp) == QP_SQE)
            begin_anew();
        break;
    default:
        peer_sends(in);
        break;
    }
    peer_listens();
    take_completions();
    if (f.mr->key == 0) /* a SEND with invalidate ended it */
        assert(mr_change(f.mr, NULL, NULL) == 0);
}

static void check_memory(void)
{
    for (size_t i = 0; i < OPEN; i++)
        assert(f.memory[i] == 0 && f.memory[OPEN + OPEN_LEN + i] == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const enum service services[] = {SERVICE_RC, SERVICE_RC, SERVICE_UC, SERVICE_UD};
    struct input in = {.next = bytes, .left = len};

    open_engine(services[take(&in) % 4]);
    for (uint32_t i = 0; i < STEPS_MAX && in.left > 0; i++)
        step(&in);
    check_memory();
    begin_anew();
    close_engine();
    return 0;
}
