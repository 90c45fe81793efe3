/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets of a script: made of an inject line, and compared with an expect line. */
#include <inttypes.h>
#include <string.h>

#include "base/bytes.h"
#include "script/run_private.h"
#include "wire/aeth.h"

#define PKEY_DEFAULT 0xffffu
#define RESERVED_4 0x3fu /* bits of BTH byte 4 (IBA 9.2: reserved) */
#define RESERVED_8 0x7fu /* bits of BTH byte 8 */

/* A member of struct headers by its row. struct psn holds its number first. */
static uint64_t member_load(const struct headers *h, const struct field_info *info)
{
    const uint8_t *at = (const uint8_t *)h + info->offset;
    uint64_t wide;
    uint32_t word;
    uint16_t half;

    switch (info->size) {
    case sizeof(wide):
        memcpy(&wide, at, sizeof(wide));
        return wide;
    case sizeof(word):
        memcpy(&word, at, sizeof(word));
        return word;
    case sizeof(half):
        memcpy(&half, at, sizeof(half));
        return half;
    default:
        return *at;
    }
}

static void member_store(struct headers *h, const struct field_info *info, uint64_t value)
{
    uint8_t *at = (uint8_t *)h + info->offset;
    const uint32_t word = (uint32_t)value;
    const uint16_t half = (uint16_t)value;

    switch (info->size) {
    case sizeof(value):
        memcpy(at, &value, sizeof(value));
        break;
    case sizeof(word):
        memcpy(at, &word, sizeof(word));
        break;
    case sizeof(half):
        memcpy(at, &half, sizeof(half));
        break;
    default:
        *at = (uint8_t)value;
        break;
    }
}

/* Which of ack, nak and rnr a line has, or NULL; *kind: that of an ACK then. */
static const struct field *syndrome_field(const struct statement *st, enum aeth_kind *kind)
{
    static const struct {
        enum field_row row;
        enum aeth_kind kind;
    } kinds[] = {{FIELD_ACK, AETH_ACK}, {FIELD_NAK, AETH_NAK}, {FIELD_RNR, AETH_RNR_NAK}};

    *kind = AETH_ACK;
    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        const struct field *f = field_find(st, kinds[i].row);

        if (f == NULL)
            continue;
        *kind = kinds[i].kind;
        return f;
    }
    return NULL;
}

/* The syndrome that a line says; that of an ACK without credits when it says none. */
static bool syndrome_make(struct run *run, const struct statement *st, uint8_t *out)
{
    enum aeth_kind kind;
    const struct field *f = syndrome_field(st, &kind);
    uint64_t value = AETH_CREDITS_INVALID;

    if (f != NULL && f->given && !run_field(run, st, f, &value))
        return false;
    *out = aeth_make(kind, (unsigned)value);
    return true;
}

/* --- made --- */

static bool headers_make(struct run *run, const struct statement *st, uint32_t payload_len,
                         struct headers *h)
{
    *h = (struct headers){
        .bth = {.opcode = (uint8_t)st->what,
                .pkey = PKEY_DEFAULT,
                .mig_req = true,
                .pad_count = packet_pad(payload_len),
                .dest_qpn = run->offer.qpn},
        .deth = {.src_qpn = run->subject->peer_qpn, .qkey = run->setup.attr.qkey},
    };
    if (!syndrome_make(run, st, &h->aeth.syndrome))
        return false;
    for (uint32_t i = 0; i < st->field_count; i++) {
        const struct field_info *info = &field_infos[st->fields[i].row];
        uint64_t value;

        if (info->size == 0)
            continue;
        if (!run_field(run, st, &st->fields[i], &value))
            return false;
        member_store(h, info, value);
    }
    return true;
}

/* What spoils a packet that is otherwise whole. */
static bool packet_spoil(struct run *run, const struct statement *st, struct wire_packet *out)
{
    uint64_t cut;
    uint64_t opcode;
    uint64_t ecn;

    if (!run_row(run, st, FIELD_CUT, 0, &cut) ||
        !run_row(run, st, FIELD_RAW_OPCODE, st->what, &opcode) ||
        !run_row(run, st, FIELD_ECN, 0, &ecn))
        return false;
    if (cut >= out->len) {
        run_broken(run, st, "cut is %" PRIu64 ", and the packet has %zu bytes only", cut, out->len);
        return false;
    }
    out->bytes[0] = (uint8_t)opcode;
    if (field_find(st, FIELD_RESERVED) != NULL) {
        out->bytes[4] |= RESERVED_4;
        out->bytes[8] |= RESERVED_8;
    }
    out->len -= cut;
    out->ecn = (uint8_t)ecn;
    out->bad_icrc = field_find(st, FIELD_BAD_ICRC) != NULL;
    out->other_source = field_find(st, FIELD_OTHER_SOURCE) != NULL;
    return true;
}

bool packet_make(struct run *run, const struct statement *st, struct wire_packet *out)
{
    const uint32_t room = SUBJECT_DATAGRAM_MAX - PACKET_HEADERS_MAX - 3 - ICRC_LEN;
    struct headers h;
    uint32_t len = 0;
    bool said;
    size_t at;

    *out = (struct wire_packet){0};
    if (!statement_bytes(run, st, run->scratch, room, &len, &said) ||
        !headers_make(run, st, len, &h))
        return false;
    at = headers_write(&h, out->bytes);
    memcpy(out->bytes + at, run->scratch, len);
    out->len = at + len + packet_pad(len) + ICRC_LEN; /* pad and ICRC are zero */
    return packet_spoil(run, st, out);
}

/* --- compared --- */

/* What is right in every packet unless a line says otherwise. */
static void match_standing(const struct run *run, const struct statement *st,
                           const struct wire_packet *w, const struct packet *p,
                           struct differences *d)
{
    const struct bth *bth = &p->h.bth;
    struct difference *r;

    if (field_find(st, FIELD_DQPN) == NULL && bth->dest_qpn != run->subject->peer_qpn)
        difference_number(d, FIELD_DQPN, run->subject->peer_qpn, bth->dest_qpn);
    if (field_find(st, FIELD_PKEY) == NULL && bth->pkey != PKEY_DEFAULT)
        difference_number(d, FIELD_PKEY, PKEY_DEFAULT, bth->pkey);
    if (field_find(st, FIELD_PAD) == NULL && bth->pad_count != packet_pad(p->payload_len))
        difference_number(d, FIELD_PAD, packet_pad(p->payload_len), bth->pad_count);
    if ((w->bytes[4] & RESERVED_4) != 0 || (w->bytes[8] & RESERVED_8) != 0) {
        r = difference_add(d, "reserved", true);
        snprintf(r->expected, sizeof(r->expected), "zero");
        snprintf(r->came, sizeof(r->came), "byte 4: 0x%02x, byte 8: 0x%02x",
                 w->bytes[4] & RESERVED_4, w->bytes[8] & RESERVED_8);
    }
    if (w->bad_icrc) {
        r = difference_add(d, "icrc", true);
        snprintf(r->expected, sizeof(r->expected), "right");
        snprintf(r->came, sizeof(r->came), "wrong");
    }
    for (uint32_t i = 0; i < packet_pad(p->payload_len) && p->payload != NULL; i++) {
        if (p->payload[p->payload_len + i] != 0)
            difference_number(d, FIELD_PAD, 0, p->payload[p->payload_len + i]);
    }
}

static void syndrome_text(uint8_t syndrome, char out[VALUE_TEXT_SIZE])
{
    const unsigned value = aeth_value(syndrome);

    switch (aeth_kind(syndrome)) {
    case AETH_ACK:
        snprintf(out, VALUE_TEXT_SIZE, "ack=%u", value);
        break;
    case AETH_RNR_NAK:
        snprintf(out, VALUE_TEXT_SIZE, "rnr=%u", value);
        break;
    case AETH_NAK:
        snprintf(out, VALUE_TEXT_SIZE, "nak=%s", word_name(nak_words, value));
        break;
    case AETH_RESERVED:
        snprintf(out, VALUE_TEXT_SIZE, "syndrome=0x%02x", syndrome);
        break;
    }
}

/* A bare ack may offer any credits, a bare nak name any reason. */
static bool match_syndrome(struct run *run, const struct statement *st, const struct packet *p,
                           struct differences *d)
{
    static const char *const names[] = {
        [AETH_ACK] = "ack", [AETH_RNR_NAK] = "rnr", [AETH_NAK] = "nak"};
    const uint8_t came = p->h.aeth.syndrome;
    enum aeth_kind kind;
    const struct field *f = syndrome_field(st, &kind);
    const bool any_value = f == NULL || !f->given || f->capture != SCRIPT_NONE;
    uint64_t value = 0;
    struct difference *r;

    if ((p->operation->headers & HEADER_AETH) == 0 || field_find(st, FIELD_SYNDROME) != NULL)
        return true;
    if (!any_value && !run_field(run, st, f, &value))
        return false;
    if (any_value && f != NULL && f->changed)
        kind = AETH_RNR_NAK;
    r = difference_add(d, "syndrome",
                       aeth_kind(came) != kind || (!any_value && aeth_value(came) != value));
    if (any_value)
        snprintf(r->expected, sizeof(r->expected), "%s", names[kind]);
    else
        syndrome_text(aeth_make(kind, (unsigned)value), r->expected);
    syndrome_text(came, r->came);
    return true;
}

static bool match_payload(struct run *run, const struct statement *st, const struct packet *p,
                          struct differences *d)
{
    const struct field *asked = field_find(st, FIELD_LEN);
    uint32_t len;
    bool said;

    if (asked == NULL ? field_find(st, FIELD_BYTES) == NULL : asked->capture != SCRIPT_NONE)
        return true;
    if (!statement_bytes(run, st, run->scratch, SUBJECT_DATAGRAM_MAX, &len, &said))
        return false;
    difference_number(d, FIELD_LEN, len, p->payload_len);
    if (said && len == p->payload_len && len > 0)
        difference_bytes(d, "payload", run->scratch, p->payload, len);
    return true;
}

static bool match_fields(struct run *run, const struct statement *st, const struct packet *p,
                         struct differences *d)
{
    for (uint32_t i = 0; i < st->field_count; i++) {
        const struct field *f = &st->fields[i];
        const struct field_info *info = &field_infos[f->row];
        uint64_t expected;

        if (info->size == 0 || f->capture != SCRIPT_NONE)
            continue;
        if (!run_field(run, st, f, &expected))
            return false;
        difference_number(d, (enum field_row)f->row, expected, member_load(&p->h, info));
    }
    return match_syndrome(run, st, p, d) && match_payload(run, st, p, d);
}

static void take_captures(struct run *run, const struct statement *st, const struct packet *p)
{
    for (uint32_t i = 0; i < st->field_count; i++) {
        const struct field *f = &st->fields[i];
        const struct field_info *info = &field_infos[f->row];

        if (f->capture == SCRIPT_NONE)
            continue;
        if (info->size != 0)
            run->values[f->capture] = member_load(&p->h, info);
        else if (f->row == FIELD_LEN)
            run->values[f->capture] = p->payload_len;
        else
            run->values[f->capture] = aeth_value(p->h.aeth.syndrome);
    }
}

/* The opcode that the line expects. */
static uint8_t expected_opcode(const struct statement *st)
{
    return (uint8_t)(st->changed ? st->what ^ 1u : st->what);
}

enum script_verdict packet_match(struct run *run, const struct statement *st,
                                 const struct wire_packet *w)
{
    const uint8_t opcode = expected_opcode(st);
    struct differences d = {0};
    struct difference *r;
    struct packet p;
    enum drop drop = packet_parse(w->bytes, w->len, &p);

    if (drop != DROP_NONE)
        return run_failed(run, st, "a packet of %zu bytes came that is malformed: %s", w->len,
                          drop_text(drop));
    r = difference_add(&d, "opcode", p.h.bth.opcode != opcode);
    snprintf(r->expected, sizeof(r->expected), "%s", opcode_name(opcode));
    snprintf(r->came, sizeof(r->came), "%s", opcode_name(p.h.bth.opcode));
    if (p.h.bth.opcode == opcode) {
        if (!match_fields(run, st, &p, &d))
            return SCRIPT_BROKEN;
        match_standing(run, st, w, &p, &d);
    } else if (field_find(st, FIELD_PSN) != NULL) {
        uint64_t psn;

        if (!run_field(run, st, field_find(st, FIELD_PSN), &psn))
            return SCRIPT_BROKEN;
        difference_number(&d, FIELD_PSN, psn, p.h.bth.psn.value);
    }
    if (!d.bad) {
        take_captures(run, st, &p);
        return SCRIPT_PASSED;
    }
    run_failed(run, st, "another packet came than expected");
    differences_print(&d, run->out);
    return SCRIPT_FAILED;
}

bool packet_is_earlier_ack(struct run *run, const struct statement *st, const struct wire_packet *w)
{
    struct packet p;
    uint64_t psn;

    if (field_find(st, FIELD_COALESCED) == NULL || field_find(st, FIELD_PSN) == NULL ||
        packet_parse(w->bytes, w->len, &p) != DROP_NONE || p.operation->kind != KIND_ACK ||
        aeth_kind(p.h.aeth.syndrome) != AETH_ACK)
        return false;
    return run_field(run, st, field_find(st, FIELD_PSN), &psn) &&
           psn_before(p.h.bth.psn, psn_make((uint32_t)psn));
}
