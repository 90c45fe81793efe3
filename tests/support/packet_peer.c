/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer made by hand: packets in, packets out, and a ladder of them for who reads a failure. */
#include "support/packet_peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/pattern.h"

#define BATCH_LEN 65507u
#define BATCH_COUNT 64u
#define LADDER_LEN 65536u

static uint32_t relative(const struct peer *p, struct psn psn)
{
    return (psn.value - p->psn_start) & PSN_MASK;
}

/* --- the ladder --- */

static void ladder_add(struct peer *p, const char *arrow, const struct packet *packet)
{
    int32_t psn = (int32_t)(relative(p, packet->h.bth.psn) << 8) / 256;

    if (p->ladder_len > LADDER_LEN - 256)
        return;
    p->ladder_len += (size_t)snprintf(
        p->ladder + p->ladder_len, LADDER_LEN - p->ladder_len, "  %10.3f us  %s  %-22s psn %d %s%s",
        (double)p->ep.now / 1000.0, arrow, opcode_name(packet->h.bth.opcode), psn,
        packet->h.bth.ack_req ? "AckReq " : "", packet->h.bth.solicited ? "SE " : "");
    if ((packet->operation->headers & HEADER_AETH) != 0)
        p->ladder_len +=
            (size_t)snprintf(p->ladder + p->ladder_len, LADDER_LEN - p->ladder_len, "%s %u msn %u ",
                             aeth_name(packet->h.aeth.syndrome),
                             aeth_value(packet->h.aeth.syndrome), packet->h.aeth.msn.value);
    p->ladder_len += (size_t)snprintf(p->ladder + p->ladder_len, LADDER_LEN - p->ladder_len,
                                      "len %u\n", packet->payload_len);
}

#define refuse(p, ...)                                                                             \
    do {                                                                                           \
        print_error("%.*s", (int)(p)->ladder_len, (p)->ladder);                                    \
        fail_msg(__VA_ARGS__);                                                                     \
    } while (0)

/* --- open and close --- */

void peer_open(struct peer *p, struct endpoint_config config, uint32_t psn_start)
{
    config.rq_psn = psn_start;
    config.sq_psn = psn_start;
    p->psn_start = psn_start;
    p->sent_head = 0;
    p->sent_tail = 0;
    p->ladder_len = 0;
    p->ladder = malloc(LADDER_LEN);
    assert_non_null(p->ladder);
    endpoint_open(&p->ep, &config);
    endpoint_connect(&p->ep, PEER_QPN);
}

void peer_forgets(struct peer *p)
{
    for (uint32_t i = 0; i < p->sent_tail; i++)
        free(p->sent[i].bytes);
    p->sent_head = 0;
    p->sent_tail = 0;
    p->ladder_len = 0;
}

void peer_close(struct peer *p)
{
    peer_forgets(p);
    free(p->ladder);
    endpoint_close(&p->ep);
}

/* --- what the endpoint sends --- */

static void collect(struct peer *p, const uint8_t *bytes, size_t len)
{
    struct sent_packet *s = &p->sent[p->sent_tail++];
    enum drop drop;

    assert_true(p->sent_tail < PEER_PACKETS_MAX);
    s->bytes = malloc(len);
    assert_non_null(s->bytes);
    memcpy(s->bytes, bytes, len);
    s->len = len;
    drop = packet_parse(s->bytes, len, &s->p);
    if (drop != DROP_NONE)
        refuse(p, "the endpoint sent a packet of %zu bytes that is refused: %s", len,
               drop_text(drop));
    s->psn = relative(p, s->p.h.bth.psn);
    ladder_add(p, "-->", &s->p);
}

static void collect_batch(struct peer *p, const struct datagram_batch *b)
{
    const struct gid dst = endpoint_gid((uint8_t)(5 - p->ep.config.address));
    const uint8_t *bytes = b->buffer;

    assert_true(gid_equal(&b->path.dst, &dst));
    assert_int_equal(b->dest_slot, PEER_QPN >> 16);
    assert_true(b->src_port >= 0xc000);
    for (uint32_t i = 0; i < b->count; i++) {
        size_t len = i == b->count - 1 ? b->last_len : b->segment_len;

        assert_true(len <= b->segment_len);
        collect(p, bytes, len);
        bytes += len;
    }
    assert_true((size_t)(bytes - b->buffer) <= b->capacity);
    p->batches++;
}

void peer_listens(struct peer *p)
{
    static uint8_t buffer[BATCH_LEN];
    struct datagram_batch b = {
        .buffer = buffer, .capacity = sizeof(buffer), .count_max = BATCH_COUNT};

    while (engine_transmit(p->ep.engine, p->ep.now, &b) > 0)
        collect_batch(p, &b);
}

void time_passes(struct peer *p, uint64_t ns)
{
    uint64_t until = p->ep.now + ns;

    peer_listens(p);
    while (engine_deadline(p->ep.engine) <= until) {
        if (p->ep.now < engine_deadline(p->ep.engine))
            p->ep.now = engine_deadline(p->ep.engine);
        engine_advance(p->ep.engine, p->ep.now);
        peer_listens(p);
    }
    p->ep.now = until;
    engine_advance(p->ep.engine, until);
    peer_listens(p);
}

/* --- what the peer sends --- */

size_t peer_writes(struct peer *p, struct script s, uint8_t *out)
{
    const struct headers h = {
        .bth =
            {
                .opcode = opcode_make(p->ep.config.service, s.operation),
                .solicited = s.solicited,
                .pad_count = packet_pad(s.len),
                .pkey = 0xffff,
                .dest_qpn = qp_qpn(p->ep.qp),
                .ack_req = s.ack_req,
                .psn = psn_add(psn_make(p->psn_start), s.psn),
            },
        .deth = {.qkey = s.qkey, .src_qpn = s.src_qpn},
        .xrceth = {.srqn = s.srqn != 0 || p->ep.srq == NULL ? s.srqn : srq_number(p->ep.srq)},
        .feth = {.placement_type = s.placement, .selectivity = s.selectivity},
        .reth = {.va = at(s.remote),
                 .rkey = s.rkey != 0 ? s.rkey : p->ep.mr->key,
                 .dma_len = s.dma_len},
        .atomic = {.va = at(s.remote),
                   .rkey = s.rkey != 0 ? s.rkey : p->ep.mr->key,
                   .swap_add = s.swap_add,
                   .compare = s.compare},
        .aeth = {.syndrome = s.syndrome, .msn = psn_make(s.msn)},
        .atomic_ack = {.original = s.original},
        .imm = s.imm,
        .ieth = s.ieth,
    };
    size_t len = headers_write(&h, out);

    pattern_fill(s.message, s.first, out + len, s.len);
    len += s.len;
    memset(out + len, 0, packet_pad(s.len) + ICRC_LEN);
    return len + packet_pad(s.len) + ICRC_LEN;
}

void peer_sends_bytes(struct peer *p, const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len > 0 ? len : 1); /* so that a read beyond the end is seen */
    const struct datagram d = {
        .src = endpoint_gid((uint8_t)(5 - p->ep.config.address)),
        .dst = endpoint_gid(p->ep.config.address),
        .hop_limit = 64,
        .src_port = 0xc123,
        .bytes = copy,
        .len = len,
    };
    struct packet packet;

    assert_non_null(copy);
    memcpy(copy, bytes, len);
    if (packet_parse(copy, len, &packet) == DROP_NONE)
        ladder_add(p, "<--", &packet);
    engine_receive(p->ep.engine, &d, p->ep.now);
    free(copy);
}

void peer_sends_quietly(struct peer *p, struct script s)
{
    uint8_t bytes[PACKET_HEADERS_MAX + 2 * PACKET_PAYLOAD_MAX];

    peer_sends_bytes(p, bytes, peer_writes(p, s, bytes));
}

void peer_sends(struct peer *p, struct script s)
{
    peer_sends_quietly(p, s);
    peer_listens(p);
}

void peer_acks(struct peer *p, uint32_t psn, uint32_t msn)
{
    peer_sends(p, (struct script){.operation = OP_ACK,
                                  .psn = psn,
                                  .msn = msn,
                                  .syndrome = aeth_make(AETH_ACK, AETH_CREDITS_INVALID)});
}

void peer_naks(struct peer *p, enum nak_code code, uint32_t psn)
{
    peer_sends(
        p, (struct script){.operation = OP_ACK, .psn = psn, .syndrome = aeth_make(AETH_NAK, code)});
}

void peer_rnr_naks(struct peer *p, uint8_t timer_code, uint32_t psn)
{
    peer_sends(p, (struct script){.operation = OP_ACK,
                                  .psn = psn,
                                  .syndrome = aeth_make(AETH_RNR_NAK, timer_code)});
}

/* --- what is expected --- */

const struct sent_packet *expect_packet(struct peer *p, enum operation_code operation, uint32_t psn)
{
    uint8_t opcode = opcode_make(p->ep.config.service, operation);
    const struct sent_packet *s;

    if (p->sent_head == p->sent_tail)
        refuse(p, "silence, expected %s with PSN %u", opcode_name(opcode), psn);
    s = &p->sent[p->sent_head++];
    if (s->p.h.bth.opcode != opcode || s->psn != psn)
        refuse(p, "%s with PSN %u, expected %s with PSN %u", opcode_name(s->p.h.bth.opcode), s->psn,
               opcode_name(opcode), psn);
    return s;
}

const struct sent_packet *expect_data(struct peer *p, enum operation_code operation, uint32_t psn,
                                      uint64_t message, uint32_t first, uint32_t len)
{
    const struct sent_packet *s = expect_packet(p, operation, psn);

    if (s->p.payload_len != len)
        refuse(p, "payload of %u bytes, expected %u", s->p.payload_len, len);
    if (len > 0 && pattern_matches(message, first, s->p.payload, len) != len)
        refuse(p, "payload is not that of message %llu from byte %u on",
               (unsigned long long)message, first);
    return s;
}

void expect_read_request(struct peer *p, uint32_t psn, uint64_t remote, uint32_t len)
{
    const struct sent_packet *s = expect_packet(p, OP_READ_REQUEST, psn);

    if (s->p.h.reth.va != at(remote) || s->p.h.reth.dma_len != len)
        refuse(p, "READ of %u bytes at offset %lld, expected %u bytes at %llu", s->p.h.reth.dma_len,
               (long long)(s->p.h.reth.va - at(0)), len, (unsigned long long)remote);
    assert_true(s->p.h.bth.ack_req);
}

static void expect_aeth(struct peer *p, enum aeth_kind kind, unsigned value, uint32_t psn,
                        uint32_t msn)
{
    const struct sent_packet *s = expect_packet(p, OP_ACK, psn);
    uint8_t got = s->p.h.aeth.syndrome;

    if (aeth_kind(got) != kind || (kind != AETH_ACK && aeth_value(got) != value))
        refuse(p, "%s (%u), expected %s (%u)", aeth_name(got), aeth_value(got),
               aeth_name(aeth_make(kind, value)), value);
    if (s->p.h.aeth.msn.value != msn)
        refuse(p, "MSN %u, expected %u", s->p.h.aeth.msn.value, msn);
}

void expect_ack(struct peer *p, uint32_t psn, uint32_t msn)
{
    expect_aeth(p, AETH_ACK, 0, psn, msn);
}

void expect_nak(struct peer *p, enum nak_code code, uint32_t psn, uint32_t msn)
{
    expect_aeth(p, AETH_NAK, code, psn, msn);
}

void expect_rnr_nak(struct peer *p, uint8_t timer_code, uint32_t psn, uint32_t msn)
{
    expect_aeth(p, AETH_RNR_NAK, timer_code, psn, msn);
}

void expect_silence(struct peer *p)
{
    const struct sent_packet *s;

    peer_listens(p);
    if (p->sent_head == p->sent_tail)
        return;
    s = &p->sent[p->sent_head];
    refuse(p, "%s with PSN %u, expected silence", opcode_name(s->p.h.bth.opcode), s->psn);
}
