/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The headers of a frame field by field: offset in the frame, bytes, name,
 * value. What the capture does not have is not shown.
 */
#include "pcap/print.h"
#include "pcap/fields.h"

#include <assert.h>
#include <inttypes.h>

#include "base/bytes.h"
#include "pcap/management.h"
#include "wire/aeth.h"

#define BYTES_A_LINE 8u
#define INDENT 9

struct cursor {
    FILE *out;
    const struct frame *frame;
    uint32_t offset;
};

static bool cursor_has(const struct cursor *c, uint32_t len)
{
    return c->offset + len <= c->frame->captured_len;
}

static void print_name(const struct cursor *c, const char *name)
{
    fprintf(c->out, "%*s%s\n", INDENT, "", name);
}

/* Offset and up to eight bytes, leaving room for the rest of the line. */
static void print_bytes(const struct cursor *c, uint32_t offset, uint32_t len)
{
    fprintf(c->out, "%*s%04x  ", INDENT + 2, "", offset);
    for (uint32_t i = 0; i < BYTES_A_LINE; i++) {
        if (i < len)
            fprintf(c->out, "%02x", c->frame->bytes[offset + i]);
        else
            fputs("  ", c->out);
    }
}

static void print_value(FILE *out, const struct field *field, const uint8_t *header)
{
    const uint8_t *bytes = header + field->bit / 8;
    char text[INET6_ADDRSTRLEN];
    uint8_t byte = *bytes;

    switch (field->format) {
    case FIELD_DEC:
        fprintf(out, "%" PRIu64, field_value(field, header));
        break;
    case FIELD_HEX:
        fprintf(out, "0x%0*" PRIx64, (field->bit_count + 3) / 4, field_value(field, header));
        break;
    case FIELD_MAC:
        fprintf(out, "%02x:%02x:%02x:%02x:%02x:%02x", bytes[0], bytes[1], bytes[2], bytes[3],
                bytes[4], bytes[5]);
        break;
    case FIELD_IPV4:
        fputs(inet_ntop(AF_INET, bytes, text, sizeof(text)), out);
        break;
    case FIELD_IPV6:
        fputs(inet_ntop(AF_INET6, bytes, text, sizeof(text)), out);
        break;
    case FIELD_ECN:
        fputs(ecn_text((uint8_t)field_value(field, header)), out);
        break;
    case FIELD_OPCODE:
        fprintf(out, "0x%02x %s", byte, opcode_name(byte));
        break;
    case FIELD_SYNDROME:
        fprintf(out, "0x%02x %s %u", byte, aeth_name(byte), aeth_value(byte));
        break;
    }
}

static void print_field(const struct cursor *c, const struct field *field)
{
    uint32_t first = field->bit / 8u;
    uint32_t last = (field->bit + field->bit_count - 1u) / 8u;
    uint32_t len = last - first + 1;

    print_bytes(c, c->offset + first, len);
    fprintf(c->out, "  %-18s", field->name);
    print_value(c->out, field, c->frame->bytes + c->offset);
    fputc('\n', c->out);
    for (uint32_t done = BYTES_A_LINE; done < len; done += BYTES_A_LINE) {
        print_bytes(c, c->offset + first + done, len - done);
        fputc('\n', c->out);
    }
}

/* False when the header was not captured whole. */
static bool print_header(struct cursor *c, enum layout_index index)
{
    const struct layout *layout = &layouts[index];

    if (!cursor_has(c, layout->len))
        return false;
    print_name(c, layout->name);
    for (size_t i = 0; i < layout->field_count; i++)
        print_field(c, &layout->fields[i]);
    c->offset += layout->len;
    return true;
}

/* Bytes without fields, such as options. */
static bool print_rest(struct cursor *c, const char *name, uint32_t end)
{
    if (end > c->frame->captured_len)
        return false;
    if (c->offset < end)
        print_name(c, name);
    while (c->offset < end) {
        uint32_t left = end - c->offset;
        uint32_t len = left < BYTES_A_LINE ? left : BYTES_A_LINE;

        print_bytes(c, c->offset, len);
        fputc('\n', c->out);
        c->offset += len;
    }
    return true;
}

static bool print_link(struct cursor *c)
{
    bool whole = true;

    switch (c->frame->link) {
    case LINK_TYPE_ETHERNET:
        whole = print_header(c, LAYOUT_ETHERNET);
        break;
    case LINK_TYPE_COOKED_V1:
        whole = print_header(c, LAYOUT_COOKED_V1);
        break;
    case LINK_TYPE_COOKED_V2:
        whole = print_header(c, LAYOUT_COOKED_V2);
        break;
    case LINK_TYPE_NULL:
        whole = print_header(c, LAYOUT_NULL);
        break;
    case LINK_TYPE_RAW:
    case LINK_TYPE_IPV4:
    case LINK_TYPE_IPV6:
    case LINK_TYPE_COUNT:
        break;
    }
    for (uint32_t i = 0; i < c->frame->vlan_count && whole; i++)
        whole = print_header(c, LAYOUT_VLAN);
    return whole;
}

static bool print_network(struct cursor *c)
{
    const struct frame *f = c->frame;
    uint32_t end = f->network_offset + frame_network_len(f);

    switch (f->network) {
    case FRAME_NETWORK_NONE:
        return false;
    case FRAME_NETWORK_IPV4:
        if (!print_header(c, LAYOUT_IPV4))
            return false;
        return f->udp_offset != 0 && print_rest(c, "IPv4 options", end);
    case FRAME_NETWORK_IPV6:
        if (!print_header(c, LAYOUT_IPV6))
            return false;
        return f->udp_offset != 0 && print_rest(c, "IPv6 extension headers", end);
    case FRAME_NETWORK_GRH:
        return print_header(c, LAYOUT_GRH);
    }
    return false;
}

static void print_payload(struct cursor *c)
{
    const struct frame *f = c->frame;
    const struct packet *p = &f->packet;
    uint32_t body_len = p->payload_len + p->h.bth.pad_count;
    uint32_t left = f->captured_len > c->offset ? f->captured_len - c->offset : 0;
    struct cm_message message;

    if (frame_cm(f, &message)) {
        print_cm_fields(c->out, &message, c->offset);
    } else if (body_len > 0) {
        print_name(c, "payload");
        print_bytes(c, c->offset, left < body_len ? left : body_len);
        fprintf(c->out, "  %u bytes and %u of padding\n", p->payload_len, p->h.bth.pad_count);
    }
    c->offset += body_len;
    if (f->icrc == FRAME_ICRC_NONE || f->icrc == FRAME_ICRC_ABSENT)
        return;
    print_name(c, "ICRC");
    print_bytes(c, c->offset, ICRC_LEN);
    fprintf(c->out, "  %s", frame_icrc_text(f->icrc));
    if (f->icrc == FRAME_ICRC_BAD)
        fprintf(c->out, ", should be %08x", f->icrc_expected);
    fputc('\n', c->out);
}

static void print_transport(struct cursor *c)
{
    const struct frame *f = c->frame;
    unsigned headers = f->has_bth ? opcode_headers(f->packet.h.bth.opcode) : 0;

    if (!f->has_bth || !print_header(c, LAYOUT_BTH))
        return;
    if (f->verdict != FRAME_PACKET)
        return;
    for (unsigned header = HEADER_RDETH; header <= HEADER_IETH; header <<= 1) {
        if ((headers & header) != 0 && !print_header(c, layout_of_header(header)))
            return;
    }
    print_payload(c);
}

void print_fields(FILE *out, const struct frame *f)
{
    struct cursor c = {.out = out, .frame = f};
    bool whole = true;

    if (f->segment_index == 0) {
        whole = print_link(&c) && print_network(&c);
        if (whole && f->network != FRAME_NETWORK_GRH)
            whole = print_header(&c, LAYOUT_UDP);
    }
    if (!whole || f->bth_offset == 0)
        return;
    c.offset = f->bth_offset;
    print_transport(&c);
}
