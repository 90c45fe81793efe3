/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers on the wire, sent and delivered: an answer speaks only of requests
 * that came, the MSN never goes back, READ responses follow each other, and an
 * atomic has one answer however often it is asked (IBA 9.7.5, 9.7.7).
 */
#include "checkers/flow.h"
#include "support/expect.h"
#include "wire/aeth.h"

static void check_msn(struct flow *f, const struct packet *p, uint64_t psn)
{
    uint64_t msn = unwrap24(p->h.aeth.msn.value, f->msn);
    bool repeated = p->operation->kind != KIND_ACK && psn < f->response_max;

    EXPECT(msn <= f->ended, "%s: %s with MSN %lu, only %lu requests came", f->name,
           opcode_name(p->h.bth.opcode), (unsigned long)msn, (unsigned long)f->ended);
    EXPECT(msn >= f->msn || repeated, "%s: %s with MSN %lu after %lu", f->name,
           opcode_name(p->h.bth.opcode), (unsigned long)msn, (unsigned long)f->msn);
    /* An ACK of the newest request counts all that came. */
    if (p->operation->kind == KIND_ACK && aeth_kind(p->h.aeth.syndrome) == AETH_ACK &&
        psn + 1 == f->expected)
        EXPECT(msn == f->ended, "%s: ACK with MSN %lu after %lu requests", f->name,
               (unsigned long)msn, (unsigned long)f->ended);
    if (msn > f->msn)
        f->msn = msn;
}

static void check_syndrome(const struct flow *f, const struct packet *p, uint64_t psn)
{
    uint8_t syndrome = p->h.aeth.syndrome;
    uint8_t value = aeth_value(syndrome);
    bool acknowledges = true;

    EXPECT(syndrome < 0x80, "%s: syndrome 0x%02x", f->name, syndrome);
    switch (aeth_kind(syndrome)) {
    case AETH_ACK:
        if (f->receives->shared)
            EXPECT(value == AETH_CREDITS_INVALID, "%s: credits with a shared receive queue",
                   f->name);
        else if (value != AETH_CREDITS_INVALID)
            EXPECT(credits_decode(value) <= f->receives->open, "%s: credits for %u of %u receives",
                   f->name, credits_decode(value), f->receives->open);
        break;
    case AETH_RNR_NAK:
        break;
    case AETH_NAK:
        EXPECT(value <= NAK_REMOTE_OPERATIONAL, "%s: NAK code %u", f->name, value);
        acknowledges = value != NAK_PSN_SEQUENCE;
        break;
    case AETH_RESERVED:
        EXPECT(false, "%s: syndrome 0x%02x", f->name, syndrome);
    }
    EXPECT(psn < f->expected + (acknowledges ? 0 : 1), "%s: %s for PSN %u that did not come",
           f->name, aeth_name(syndrome), p->h.bth.psn.value);
}

static bool was_asked(const struct flow *f, uint64_t psn)
{
    uint32_t i;

    for (i = 0; i < FLOW_STARTS && i < f->start_count; i++) {
        if (f->starts[i] == psn)
            return true;
    }
    return f->start_count > FLOW_STARTS; /* it may have been forgotten */
}

static void read_response_sent(struct flow *f, const struct packet *p, uint64_t psn,
                               const struct message *m)
{
    enum position position = p->operation->position;
    uint64_t left = m->opcode == WR_READ ? m->length - (psn - m->psn) * f->peer->pmtu : 0;
    uint64_t len = left < f->peer->pmtu ? left : f->peer->pmtu;

    EXPECT(opcode_is_answered(m->opcode) && !opcode_is_atomic(m->opcode),
           "%s: a READ response to %s", f->name, message_name(m));
    EXPECT(p->payload_len == len, "%s: %s with %u bytes for %s", f->name,
           opcode_name(p->h.bth.opcode), p->payload_len, message_name(m));
    if (!position_starts(position)) {
        EXPECT(f->in_response, "%s: %s begins a READ response", f->name,
               opcode_name(p->h.bth.opcode));
        EXPECT(psn == f->response_next, "%s: READ responses have a hole at PSN %u", f->name,
               (unsigned)(f->response_next & 0xffffff));
    }
    if (position_starts(position))
        EXPECT(was_asked(f, psn), "%s: READ responses begin at PSN %u, where nobody asked", f->name,
               p->h.bth.psn.value);
    f->in_response = !position_ends(position);
}

static void atomic_response_sent(struct flow *f, const struct packet *p, struct message *m)
{
    EXPECT(opcode_is_atomic(m->opcode), "%s: an atomic response to %s", f->name, message_name(m));
    EXPECT(!m->replied || m->reply == p->h.atomic_ack.original,
           "%s: a repeated answer to %s differs", f->name, message_name(m));
    m->replied = true;
    m->reply = p->h.atomic_ack.original;
}

void flow_response_sent(struct flow *f, const struct packet *p)
{
    const char *name = opcode_name(p->h.bth.opcode);
    uint64_t psn = unwrap24(p->h.bth.psn.value, f->expected);
    struct message *m = channel_find(f->peer, psn);

    EXPECT(channel_is_reliable(f->channel), "%s: sends %s", f->name, name);
    EXPECT(!p->h.bth.solicited, "%s: %s with a solicited event", f->name, name);
    EXPECT(!p->h.bth.ack_req, "%s: %s with AckReq", f->name, name);
    if (opcode_headers(p->h.bth.opcode) & HEADER_AETH) {
        check_syndrome(f, p, psn);
        check_msn(f, p, psn);
    }
    if (p->operation->kind == KIND_ACK)
        return;
    EXPECT(m, "%s: %s with PSN %u that no request has", f->name, name, p->h.bth.psn.value);
    EXPECT(psn < f->expected, "%s: %s for PSN %u that did not come", f->name, name,
           p->h.bth.psn.value);
    if (p->operation->kind == KIND_READ_RESPONSE)
        read_response_sent(f, p, psn, m);
    else
        atomic_response_sent(f, p, m);
    f->response_next = psn + 1;
    if (f->response_next > f->response_max)
        f->response_max = f->response_next;
}

/* The answer to what ends with PSN psn came. */
static void answered(struct flow *f, uint64_t psn)
{
    uint32_t kept = 0;
    uint32_t i;

    for (i = 0; i < f->asked_count; i++) {
        if (f->asked[i].end != psn + 1)
            f->asked[kept++] = f->asked[i];
    }
    f->asked_count = kept;
}

/* Everything before PSN psn is acknowledged, up to the first READ or atomic: those need their data.
 */
static void acknowledge(struct flow *f, uint64_t psn)
{
    while (f->una < psn) {
        const struct message *m = channel_find(f->channel, f->una);
        uint64_t end;

        if (!m || opcode_is_answered(m->opcode))
            return;
        end = m->psn + m->packet_count;
        f->una = end < psn ? end : psn;
    }
}

static void rnr_delivered(struct flow *f, const struct packet *p, uint64_t psn, uint64_t now)
{
    if (psn != f->una || now < f->quiet_until_ns)
        return;
    f->rnr_naks++;
    f->retries = 0; /* the peer is there */
    f->quiet_until_ns = now + rnr_timer_ns(aeth_value(p->h.aeth.syndrome));
    f->quiet_psn = psn;
}

static void take_credits(struct flow *f, const struct packet *p)
{
    uint8_t value = aeth_value(p->h.aeth.syndrome);
    uint64_t limit = unwrap24(p->h.aeth.msn.value, f->begun) + credits_decode(value);

    if (aeth_kind(p->h.aeth.syndrome) != AETH_ACK || value == AETH_CREDITS_INVALID)
        return;
    f->credits_known = true;
    if (limit > f->credit_limit)
        f->credit_limit = limit;
}

void flow_response_delivered(struct flow *f, const struct packet *p, uint64_t now)
{
    uint64_t before = f->una;
    bool might;
    uint64_t psn = unwrap24(p->h.bth.psn.value, f->una);
    bool data = p->operation->kind != KIND_ACK;
    bool has_aeth = opcode_headers(p->h.bth.opcode) & HEADER_AETH;
    enum aeth_kind kind = has_aeth ? aeth_kind(p->h.aeth.syndrome) : AETH_ACK;
    uint64_t done = kind == AETH_ACK && !data ? psn + 1 : psn;

    if (has_aeth && psn < f->sent && psn + 1 >= f->una) /* an older one is no news */
        take_credits(f, p);
    if (psn >= f->sent || psn < f->una)
        return;
    if (f->timeout_ns > 0 && now - f->activity_ns >= f->timeout_ns)
        f->may_go_back = true; /* a time-out came first */
    might = f->may_go_back;
    acknowledge(f, done);
    if (f->una < done || kind != AETH_ACK)
        f->may_go_back = true; /* an implied NAK, or one that says so */
    if (data && f->una == psn) {
        answered(f, psn);
        f->una++;
    }
    if (f->una > before) {
        f->went_before |= might;
        f->activity_ns = now;
        f->retries = 0;
        f->rnr_naks = 0;
    }
    if (f->una > f->quiet_psn)
        f->quiet_until_ns = 0; /* what was to wait was taken after all */
    if (kind == AETH_RNR_NAK)
        rnr_delivered(f, p, psn, now);
}
