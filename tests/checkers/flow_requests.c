/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Requests on the wire: which packet a PSN must be follows from the message
 * that the PSN belongs to, so that each one, first or repeated, is compared
 * with what was posted (IBA 9.4, 9.7.2 to 9.7.4).
 */
#include <string.h>

#include "checkers/flow.h"
#include "support/expect.h"
#include "support/pattern.h"

/* A packet within its message. */
struct place {
    const struct message *m;
    uint32_t index; /* of the packet */
    uint64_t psn;
};

static enum operation_code sends(enum wr_opcode opcode, enum position position)
{
    static const uint8_t only[] = {[WR_SEND] = OP_SEND_ONLY,
                                   [WR_SEND_IMM] = OP_SEND_ONLY_IMM,
                                   [WR_SEND_INV] = OP_SEND_ONLY_INV,
                                   [WR_WRITE] = OP_WRITE_ONLY,
                                   [WR_WRITE_IMM] = OP_WRITE_ONLY_IMM};
    static const uint8_t last[] = {[WR_SEND] = OP_SEND_LAST,
                                   [WR_SEND_IMM] = OP_SEND_LAST_IMM,
                                   [WR_SEND_INV] = OP_SEND_LAST_INV,
                                   [WR_WRITE] = OP_WRITE_LAST,
                                   [WR_WRITE_IMM] = OP_WRITE_LAST_IMM};
    bool write = opcode_is_write(opcode);

    switch (position) {
    case POSITION_FIRST:
        return write ? OP_WRITE_FIRST : OP_SEND_FIRST;
    case POSITION_MIDDLE:
        return write ? OP_WRITE_MIDDLE : OP_SEND_MIDDLE;
    case POSITION_LAST:
        return (enum operation_code)last[opcode];
    case POSITION_ONLY:
        return (enum operation_code)only[opcode];
    }
    return OP_ACK;
}

static enum position position_of(const struct place *at)
{
    bool first = at->index == 0;
    bool last = at->index + 1 == at->m->packet_count;

    if (first)
        return last ? POSITION_ONLY : POSITION_FIRST;
    return last ? POSITION_LAST : POSITION_MIDDLE;
}

static enum operation_code operation_of(const struct place *at)
{
    switch (at->m->opcode) {
    case WR_READ:
        return OP_READ_REQUEST;
    case WR_CMP_SWAP:
        return OP_CMP_SWAP;
    case WR_FETCH_ADD:
        return OP_FETCH_ADD;
    case WR_FLUSH:
        return OP_FLUSH;
    case WR_ATOMIC_WRITE:
        return OP_ATOMIC_WRITE;
    case WR_SEND:
    case WR_SEND_IMM:
    case WR_SEND_INV:
    case WR_WRITE:
    case WR_WRITE_IMM:
    case WR_LOCAL_INV:
    case WR_BIND_MW:
        break;
    }
    return sends(at->m->opcode, position_of(at));
}

static void check_payload(const struct flow *f, const struct packet *p, const struct place *at)
{
    uint64_t offset = (uint64_t)at->index * f->channel->pmtu;
    uint64_t left = at->m->length - offset;
    uint32_t len = (uint32_t)(left < f->channel->pmtu ? left : f->channel->pmtu);
    size_t good;

    if (!opcode_carries_data(at->m->opcode))
        len = 0;
    EXPECT(p->payload_len == len, "%s: packet %u of %s has %u bytes", f->name, at->index,
           message_name(at->m), p->payload_len);
    good = len == 0 ? 0 : pattern_matches(at->m->id, offset, p->payload, len);
    EXPECT(good == len, "%s: packet %u of %s has a wrong byte %zu", f->name, at->index,
           message_name(at->m), good);
}

static void check_reth(const struct flow *f, const struct packet *p, const struct place *at)
{
    const struct message *m = at->m;
    uint64_t offset = (uint64_t)at->index * f->channel->pmtu;
    uint64_t left = m->length - offset;

    EXPECT(p->h.reth.rkey == m->rkey, "%s: %s with R_Key 0x%08x", f->name, message_name(m),
           p->h.reth.rkey);
    EXPECT(p->h.reth.va == m->remote_addr + offset, "%s: packet %u of %s with address 0x%lx",
           f->name, at->index, message_name(m), (unsigned long)p->h.reth.va);
    if (p->operation->kind != KIND_READ) {
        EXPECT(p->h.reth.dma_len == (m->opcode == WR_FLUSH ? m->flush_len : m->length),
               "%s: %s with DMA length %u", f->name, message_name(m), p->h.reth.dma_len);
        return;
    }
    EXPECT(p->h.reth.dma_len == left || (p->h.reth.dma_len < left && p->h.reth.dma_len > 0 &&
                                         p->h.reth.dma_len % f->channel->pmtu == 0),
           "%s: packet %u of %s asks for %u bytes", f->name, at->index, message_name(m),
           p->h.reth.dma_len);
}

static void check_headers(const struct flow *f, const struct packet *p, const struct place *at)
{
    const struct message *m = at->m;
    unsigned headers = opcode_headers(p->h.bth.opcode);

    if (headers & HEADER_RETH)
        check_reth(f, p, at);
    if (headers & HEADER_FETH) {
        EXPECT(p->h.feth.placement_type == m->flush_placement, "%s: %s with placement type %u",
               f->name, message_name(m), p->h.feth.placement_type);
        EXPECT(p->h.feth.selectivity == m->flush_selectivity, "%s: %s with selectivity %u", f->name,
               message_name(m), p->h.feth.selectivity);
    }
    if (headers & HEADER_IMM)
        EXPECT(p->h.imm == m->imm, "%s: %s with immediate 0x%08x", f->name, message_name(m),
               p->h.imm);
    if (headers & HEADER_IETH)
        EXPECT(p->h.ieth == m->imm, "%s: %s invalidates 0x%08x", f->name, message_name(m),
               p->h.ieth);
    if (headers & HEADER_ATOMIC) {
        bool add = m->opcode == WR_FETCH_ADD;

        EXPECT(p->h.atomic.va == m->remote_addr, "%s: %s with address 0x%lx", f->name,
               message_name(m), (unsigned long)p->h.atomic.va);
        EXPECT(p->h.atomic.rkey == m->rkey, "%s: %s with R_Key 0x%08x", f->name, message_name(m),
               p->h.atomic.rkey);
        EXPECT(p->h.atomic.swap_add == (add ? m->compare : m->swap), "%s: %s with swap or add",
               f->name, message_name(m));
        EXPECT(add || p->h.atomic.compare == m->compare, "%s: %s with compare", f->name,
               message_name(m));
    }
    if (headers & HEADER_XRCETH)
        EXPECT(p->h.xrceth.srqn == m->srqn, "%s: %s for SRQ 0x%06x", f->name, message_name(m),
               p->h.xrceth.srqn);
    if (headers & HEADER_DETH) {
        EXPECT(p->h.deth.src_qpn == f->qpn, "%s: source QPN 0x%06x", f->name, p->h.deth.src_qpn);
        EXPECT(p->h.deth.qkey == m->remote_qkey, "%s: Q_Key 0x%08x", f->name, p->h.deth.qkey);
        EXPECT(p->h.bth.dest_qpn == m->remote_qpn, "%s: datagram to QPN 0x%06x", f->name,
               p->h.bth.dest_qpn);
    }
}

static void check_flags(const struct flow *f, const struct packet *p, const struct place *at)
{
    bool solicited = (at->m->flags & WR_SOLICITED) && opcode_takes_receive(at->m->opcode) &&
                     position_ends(p->operation->position);

    EXPECT(p->h.bth.solicited == solicited, "%s: packet %u of %s: solicited event is %d", f->name,
           at->index, message_name(at->m), p->h.bth.solicited);
    EXPECT(!p->h.bth.ack_req || channel_is_reliable(f->channel), "%s: AckReq on %s", f->name,
           opcode_name(p->h.bth.opcode));
}

/* Forgets what was asked from PSN psn on: it will be asked for again. */
static void unask(struct flow *f, uint64_t psn)
{
    uint32_t kept = 0;
    uint32_t i;

    for (i = 0; i < f->asked_count; i++) {
        if (f->asked[i].end <= psn)
            f->asked[kept++] = f->asked[i];
    }
    f->asked_count = kept;
}

static void ask(struct flow *f, const struct packet *p, uint64_t psn, uint32_t packets)
{
    bool read = p->operation->kind == KIND_READ;

    EXPECT(f->asked_count < f->rd_atomic, "%s: more than %u READs and atomics outstanding", f->name,
           f->rd_atomic);
    f->asked[f->asked_count++] =
        (struct asked){.first = psn, .end = psn + packets, .bytes = read ? p->h.reth.dma_len : 0};
}

/* Going back needs a reason: a NAK, a hole in the answers, or time. */
static void check_going_back(struct flow *f, const struct place *at, uint64_t now)
{
    EXPECT(channel_is_reliable(f->channel), "%s: repeats PSN %u", f->name,
           (unsigned)(at->psn & 0xffffff));
    EXPECT(f->may_go_back || (f->timeout_ns > 0 && now - f->activity_ns >= f->timeout_ns),
           "%s: repeats %s from packet %u on without a reason", f->name, message_name(at->m),
           at->index);
    f->may_go_back = false;
    if (f->quiet_until_ns == 0 && !f->went_before)
        f->retries++;
    f->went_before = false;
    f->activity_ns = now; /* the timer begins anew */
    EXPECT(f->retries <= f->retry_count, "%s: repeats %s for the %u. time, %u are allowed", f->name,
           message_name(at->m), f->retries, f->retry_count);
    EXPECT(f->rnr_retry == 7 || f->rnr_naks <= f->rnr_retry,
           "%s: repeats %s after %u RNR NAKs, %u are allowed", f->name, message_name(at->m),
           f->rnr_naks, f->rnr_retry);
    unask(f, at->psn);
}

static void check_fence(const struct flow *f, const struct place *at, const struct message *m)
{
    EXPECT(!(m->flags & WR_FENCE) || f->asked_count == 0,
           "%s: %s leaves while %u READs or atomics are open, and %s has a fence", f->name,
           message_name(at->m), f->asked_count, message_name(m));
    EXPECT(m->opcode != WR_LOCAL_INV || f->una >= at->psn || !channel_is_reliable(f->channel),
           "%s: %s leaves after %s, and not all before that is acknowledged", f->name,
           message_name(at->m), message_name(m));
}

/* A new message leaves: what its own fence asks for is given, and what is asked for by the local
 * requests before it, which were carried out in between. */
static void check_fences(const struct flow *f, const struct place *at)
{
    const struct channel *c = f->channel;

    check_fence(f, at, at->m);
    for (uint32_t i = at->m->index; i > c->life_first; i--) {
        if (!opcode_is_local(c->messages[i - 1]->opcode))
            break;
        check_fence(f, at, c->messages[i - 1]);
    }
}

static void check_order(struct flow *f, const struct place *at, uint64_t now)
{
    EXPECT(at->psn <= f->sent, "%s: PSN %u leaves a hole after %u", f->name,
           (unsigned)(at->psn & 0xffffff), (unsigned)((f->sent - 1) & 0xffffff));
    EXPECT(at->psn <= f->cursor || at->psn <= f->una, "%s: %s leaves a hole in what it repeats",
           f->name, message_name(at->m));
    EXPECT(now >= f->quiet_until_ns, "%s: %s leaves %lu ns too early after an RNR NAK", f->name,
           message_name(at->m), (unsigned long)(f->quiet_until_ns - now));
    if (at->psn < f->cursor)
        check_going_back(f, at, now);
    if (at->psn < f->sent)
        f->retransmitted++;
    else if (at->index == 0)
        EXPECT(!f->draining || f->begun_draining++ == 0, "%s: %s begins in SQD", f->name,
               message_name(at->m));
    if (at->psn == f->sent && at->index == 0)
        check_fences(f, at);
}

/* Beyond the credits a message may be tried when nothing else is outstanding (IBA 9.7.7.2). */
static void check_credits(struct flow *f, const struct packet *p, const struct place *at)
{
    if (at->psn != f->sent || !position_starts(p->operation->position))
        return;
    f->begun++;
    EXPECT(!opcode_takes_receive(at->m->opcode) || !f->credits_known ||
               f->begun <= f->credit_limit || f->una == at->psn,
           "%s: %s leaves as message %lu, the peer has room for %lu", f->name, message_name(at->m),
           (unsigned long)f->begun, (unsigned long)f->credit_limit);
}

void flow_request_sent(struct flow *f, const struct packet *p, uint64_t now)
{
    struct place at = {.psn = unwrap24(p->h.bth.psn.value, f->cursor)};
    uint32_t packets = 1;

    at.m = channel_find(f->channel, at.psn);
    EXPECT(at.m, "%s: %s with PSN %u that no request has", f->name, opcode_name(p->h.bth.opcode),
           p->h.bth.psn.value);
    at.index = (uint32_t)(at.psn - at.m->psn);
    EXPECT((p->h.bth.opcode & 0x1f) == (unsigned)operation_of(&at), "%s: packet %u of %s is %s",
           f->name, at.index, message_name(at.m), opcode_name(p->h.bth.opcode));
    check_order(f, &at, now);
    check_credits(f, p, &at);
    check_payload(f, p, &at);
    check_headers(f, p, &at);
    check_flags(f, p, &at);
    if (p->operation->kind == KIND_READ && p->h.reth.dma_len > f->channel->pmtu)
        packets = (p->h.reth.dma_len + f->channel->pmtu - 1) / f->channel->pmtu;
    if (opcode_is_answered(at.m->opcode))
        ask(f, p, at.psn, packets);
    f->sent_ns = now;
    f->quiet_until_ns = 0;
    f->cursor = at.psn + packets;
    if (f->cursor > f->sent)
        f->sent = f->cursor;
}
