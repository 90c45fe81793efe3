/* SPDX-License-Identifier: BSD-2-Clause */
/* What every packet must be, whatever it is: see flow.h. */
#include "checkers/flow.h"

#include <string.h>

#include "support/expect.h"

void flow_begin(struct flow *f)
{
    f->sent = f->channel->psn_first;
    f->cursor = f->sent;
    f->una = f->sent;
    f->asked_count = 0;
    f->retries = 0;
    f->rnr_naks = 0;
    f->quiet_until_ns = 0;
    f->draining = false;
    f->left = false;
    f->may_go_back = false;
    f->went_before = false;
    f->activity_ns = 0;
    f->sent_ns = 0;
    f->start_count = 0;
    f->begun = 0;
    f->credit_limit = 0;
    f->credits_known = false;
    f->src_port = 0;
    f->marked = false;
    f->expected = f->peer ? f->peer->psn_first : 0;
    f->ended = 0;
    f->msn = 0;
    f->response_max = f->expected;
    f->in_response = false;
}

bool packet_is_response(const struct packet *p)
{
    enum operation_kind kind = p->operation->kind;

    return kind == KIND_READ_RESPONSE || kind == KIND_ACK || kind == KIND_ATOMIC_ACK;
}

/* The bits that must be zero on the way out, by their place in the bytes (IBA 9.2, 9.3). */
#define BTH_BECN 0x40u

static void check_reserved(const struct flow *f, const struct packet *p, const uint8_t *bytes,
                           size_t len)
{
    const char *name = opcode_name(p->h.bth.opcode);
    size_t i;

    EXPECT((bytes[1] & 0x0f) == 0, "%s: %s with version %u", f->name, name, bytes[1] & 0x0fu);
    EXPECT(bytes[4] == (p->operation->kind == KIND_CNP ? BTH_BECN : 0),
           "%s: %s with 0x%02x in BTH byte 4", f->name, name, bytes[4]);
    EXPECT((bytes[8] & 0x7f) == 0, "%s: %s with 0x%02x in BTH byte 8", f->name, name, bytes[8]);
    if (opcode_headers(p->h.bth.opcode) & HEADER_DETH)
        EXPECT(bytes[BTH_LEN + 4] == 0, "%s: %s with a reserved byte in its DETH", f->name, name);
    if (opcode_headers(p->h.bth.opcode) & HEADER_XRCETH)
        EXPECT(bytes[BTH_LEN] == 0, "%s: %s with a reserved byte in its XRCETH", f->name, name);
    for (i = p->headers_len + p->payload_len; i < len - ICRC_LEN; i++)
        EXPECT(bytes[i] == 0, "%s: %s with pad byte 0x%02x", f->name, name, bytes[i]);
}

static void check_lengths(const struct flow *f, const struct packet *p, size_t len)
{
    const char *name = opcode_name(p->h.bth.opcode);
    uint32_t pmtu = f->channel->pmtu;
    bool good = true;

    switch (p->operation->payload) {
    case PAYLOAD_NONE:
        good = p->payload_len == 0;
        break;
    case PAYLOAD_FULL:
        good = p->payload_len == pmtu;
        break;
    case PAYLOAD_TAIL:
        good = p->payload_len >= 1 && p->payload_len <= pmtu;
        break;
    case PAYLOAD_ANY:
        good = p->payload_len <= pmtu;
        break;
    case PAYLOAD_EIGHT:
        good = p->payload_len == 8;
        break;
    case PAYLOAD_CNP:
        good = p->payload_len == 16;
        break;
    }
    EXPECT(good, "%s: %s with %u bytes at path MTU %u", f->name, name, p->payload_len, pmtu);
    EXPECT(len == p->headers_len + p->payload_len + packet_pad(p->payload_len) + ICRC_LEN,
           "%s: %s with %u bytes has %zu bytes", f->name, name, p->payload_len, len);
}

static void check_addressing(struct flow *f, const struct datagram_batch *b, const struct packet *p)
{
    EXPECT(b->src_port >= 0xc000, "%s: source port %u", f->name, b->src_port);
    EXPECT(f->src_port == 0 || f->src_port == b->src_port, "%s: source port changes from %u to %u",
           f->name, f->src_port, b->src_port);
    f->src_port = b->src_port;
    EXPECT(b->dest_slot == p->h.bth.dest_qpn >> 16, "%s: slot 0x%02x for QPN 0x%06x", f->name,
           b->dest_slot, p->h.bth.dest_qpn);
    if (f->channel->service == SERVICE_UD)
        return;
    EXPECT(p->h.bth.dest_qpn == f->dest_qpn, "%s: packet to QPN 0x%06x", f->name,
           p->h.bth.dest_qpn);
    EXPECT(gid_equal(&b->path.src, &f->path.src), "%s: wrong source address", f->name);
    EXPECT(gid_equal(&b->path.dst, &f->path.dst), "%s: wrong destination address", f->name);
    EXPECT(b->path.traffic_class == f->path.traffic_class, "%s: wrong traffic class", f->name);
    EXPECT(b->path.hop_limit == f->path.hop_limit, "%s: wrong hop limit", f->name);
    EXPECT(b->path.flow_label == f->path.flow_label, "%s: wrong flow label", f->name);
}

/* A CNP tells the peer of a mark, once. */
static void check_cnp(struct flow *f, const struct packet *p)
{
    EXPECT(f->channel->service != SERVICE_UD, "%s: a CNP for nobody", f->name);
    EXPECT(f->marked, "%s: a CNP without a marked packet", f->name);
    EXPECT(p->h.bth.psn.value == 0 && !p->h.bth.ack_req, "%s: a CNP with a PSN", f->name);
    f->marked = false;
}

void flow_sent(struct flow *f, const struct datagram_batch *b, const uint8_t *bytes, size_t len,
               uint64_t now)
{
    struct packet p;
    enum drop drop = packet_parse(bytes, len, &p);
    const char *name = opcode_name(bytes[0]);

    EXPECT(drop == DROP_NONE, "%s: sends a packet of %zu bytes: %s", f->name, len, drop_text(drop));
    EXPECT(opcode_service(p.h.bth.opcode) == f->channel->service || p.operation->kind == KIND_CNP,
           "%s: sends %s", f->name, name);
    EXPECT(p.h.bth.pkey == 0xffff, "%s: %s with P_Key 0x%04x", f->name, name, p.h.bth.pkey);
    EXPECT(p.h.bth.mig_req, "%s: %s without MigReq", f->name, name);
    check_reserved(f, &p, bytes, len);
    check_lengths(f, &p, len);
    check_addressing(f, b, &p);
    EXPECT(!f->left || p.operation->kind == KIND_ACK, "%s: %s from a queue pair that is gone",
           f->name, name);
    if (p.operation->kind == KIND_CNP) {
        check_cnp(f, &p);
        return;
    }
    if (packet_is_response(&p)) {
        flow_response_sent(f, &p);
        return;
    }
    if (f->channel->service == SERVICE_UD) {
        const struct message *m = channel_find(f->channel, unwrap24(p.h.bth.psn.value, f->cursor));

        EXPECT(m, "%s: %s with PSN %u that no request has", f->name, name, p.h.bth.psn.value);
        EXPECT(gid_equal(&b->path.dst, &m->path.dst), "%s: %s to a wrong address", f->name, name);
        EXPECT(gid_equal(&b->path.src, &m->path.src), "%s: %s from a wrong address", f->name, name);
    }
    flow_request_sent(f, &p, now);
}

/* Requests of the peer: how far can the engine have come? */
static void request_delivered(struct flow *f, const struct packet *p)
{
    uint64_t psn;
    const struct message *m;

    if (!f->peer)
        return;
    psn = unwrap24(p->h.bth.psn.value, f->expected);
    if (p->operation->kind == KIND_READ || p->operation->kind == KIND_FLUSH ||
        p->operation->kind == KIND_ATOMIC_WRITE)
        f->starts[f->start_count++ % FLOW_STARTS] = psn;
    if (psn != f->expected)
        return;
    f->expected += 1;
    if (p->operation->kind == KIND_READ && p->h.reth.dma_len > f->channel->pmtu)
        f->expected += (p->h.reth.dma_len - 1) / f->channel->pmtu;
    m = channel_find(f->peer, psn);
    EXPECT(m, "%s: test: a request with PSN %u that is no message's", f->name, p->h.bth.psn.value);
    if (position_ends(p->operation->position))
        f->ended++;
}

void flow_delivered(struct flow *f, const struct packet *p, uint64_t now)
{
    if (opcode_service(p->h.bth.opcode) != f->channel->service || f->channel->service == SERVICE_UD)
        return;
    if (packet_is_response(p))
        flow_response_delivered(f, p, now);
    else
        request_delivered(f, p);
}

/* From a sign of loss until the first repeated packet nobody sees whether the rest still counts. */
static bool may_have_gone_back(const struct flow *f, uint64_t now)
{
    return f->may_go_back || (f->timeout_ns > 0 && now - f->activity_ns >= f->timeout_ns);
}

uint64_t flow_deadline(const struct flow *f, uint64_t now)
{
    uint64_t since = f->sent_ns > f->activity_ns ? f->sent_ns : f->activity_ns;

    if (!channel_is_reliable(f->channel) || f->una >= f->cursor)
        return UINT64_MAX;
    if (f->quiet_until_ns > now)
        return f->quiet_until_ns;
    if (f->timeout_ns == 0 || may_have_gone_back(f, now))
        return UINT64_MAX;
    return since + f->timeout_ns;
}

static uint64_t bytes_in_flight(const struct flow *f)
{
    uint64_t from = f->una < f->cursor ? f->una : f->cursor;

    return channel_bytes_before(f->channel, f->cursor) - channel_bytes_before(f->channel, from);
}

static uint64_t bytes_asked(const struct flow *f)
{
    uint64_t sum = 0;
    uint32_t i;

    for (i = 0; i < f->asked_count; i++) {
        const struct asked *a = &f->asked[i];
        uint64_t answered = f->una > a->first ? (f->una - a->first) * f->channel->pmtu : 0;

        sum += a->bytes > answered ? a->bytes - answered : 0;
    }
    return sum;
}

void flow_check_windows(struct flow *const *flows, uint32_t count, const struct flow *f,
                        const struct flow_limits *limits, uint64_t now)
{
    uint64_t in_flight = 0;
    uint64_t asked = 0;
    uint32_t i;

    if (!channel_is_reliable(f->channel))
        return;
    for (i = 0; i < count; i++) {
        const struct flow *other = flows[i];

        if (!channel_is_reliable(other->channel) || may_have_gone_back(other, now))
            continue;
        asked += bytes_asked(other);
        if (gid_equal(&other->path.dst, &f->path.dst) && other->dest_qpn >> 16 == f->dest_qpn >> 16)
            in_flight += bytes_in_flight(other);
    }
    /* A window with room takes one more packet, the read window one more READ request. */
    EXPECT(in_flight <= limits->window_max + PMTU_MAX, "%s: %lu bytes in flight, the window is %lu",
           f->name, (unsigned long)in_flight, (unsigned long)limits->window_max);
    EXPECT(asked <= limits->read_window + limits->read_part,
           "%s: %lu bytes asked for, the read window is %lu", f->name, (unsigned long)asked,
           (unsigned long)limits->read_window);
}
