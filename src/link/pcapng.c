/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Blocks are in little-endian byte order, whatever the host's: the byte order magic says
 * so. Each is type, length, body, length; options are code, length, value, and
 * everything is filled up to four bytes.
 */
#include "link/pcapng.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/ip.h"
#include "wire/packet.h"

#define BLOCK_SECTION 0x0a0d0d0au
#define BLOCK_INTERFACE 1u
#define BLOCK_PACKET 6u
#define BYTE_ORDER_MAGIC 0x1a2b3c4du
#define LINKTYPE_RAW 101u

#define OPTION_END 0u
#define OPTION_COMMENT 1u
#define OPTION_APPLICATION 4u /* of a section */
#define OPTION_NAME 2u        /* of an interface */
#define OPTION_RESOLUTION 9u  /* of an interface: a negative power of ten */
#define OPTION_FLAGS 2u       /* of a packet */

#define FLAG_INBOUND 1u
#define FLAG_OUTBOUND 2u

#define NANOSECONDS 9u
#define TEXT_MAX 255u

static_assert(PCAPNG_PACKET_MAX >= 32 + IPV6_LEN + UDP_LEN + DATAGRAM_LEN_MAX + 3 + 12,
              "block, packet, fill and options");
static_assert(PCAPNG_HEAD_MAX >= 28 + 2 * (TEXT_MAX + 8) + 4 + 20 + 32, "two blocks and texts");

/* A place to write at, going forward. */
struct pen {
    uint8_t *block; /* where it began */
    uint8_t *at;
};

static void put16(struct pen *p, uint32_t value)
{
    p->at[0] = (uint8_t)value;
    p->at[1] = (uint8_t)(value >> 8);
    p->at += 2;
}

static void put32(struct pen *p, uint32_t value)
{
    store_le32(p->at, value);
    p->at += 4;
}

static void fill(struct pen *p)
{
    while ((p->at - p->block) % 4 != 0)
        *p->at++ = 0;
}

static void begin_block(struct pen *p, uint32_t type)
{
    p->block = p->at;
    put32(p, type);
    put32(p, 0); /* the length, when it is known */
}

static void end_block(struct pen *p)
{
    uint32_t len = (uint32_t)(p->at - p->block) + 4;

    put32(p, len);
    store_le32(p->block + 4, len);
}

static void put_option(struct pen *p, uint32_t code, const void *value, size_t len)
{
    put16(p, code);
    put16(p, (uint32_t)len);
    memcpy(p->at, value, len);
    p->at += len;
    fill(p);
}

static void put_text(struct pen *p, uint32_t code, const char *text)
{
    put_option(p, code, text, strnlen(text, TEXT_MAX));
}

static void end_options(struct pen *p)
{
    put32(p, OPTION_END);
}

size_t pcapng_write_head(const char *comment, uint8_t *out)
{
    const uint8_t resolution = NANOSECONDS;
    struct pen p = {.at = out};

    begin_block(&p, BLOCK_SECTION);
    put32(&p, BYTE_ORDER_MAGIC);
    put16(&p, 1); /* version 1.0 */
    put16(&p, 0);
    put32(&p, UINT32_MAX); /* the section's length is not told */
    put32(&p, UINT32_MAX);
    put_text(&p, OPTION_COMMENT, comment);
    put_text(&p, OPTION_APPLICATION, "uroce");
    end_options(&p);
    end_block(&p);

    begin_block(&p, BLOCK_INTERFACE);
    put16(&p, LINKTYPE_RAW);
    put16(&p, 0);
    put32(&p, 0); /* packets are not cut */
    put_text(&p, OPTION_NAME, "uroce");
    put_option(&p, OPTION_RESOLUTION, &resolution, sizeof(resolution));
    end_options(&p);
    end_block(&p);
    return (size_t)(p.at - out);
}

/* The IP packet around a datagram. Returns its length. */
static size_t write_ip(const struct link_frame *frame, uint8_t *out)
{
    const struct datagram *d = &frame->datagram;
    const struct ip_header ip = {
        .ipv4 = gid_is_ipv4(&d->src) && gid_is_ipv4(&d->dst),
        .src = d->src,
        .dst = d->dst,
        .traffic_class = d->traffic_class,
        .hop_limit = d->hop_limit,
        .protocol = IP_PROTOCOL_UDP,
        .flow_label = d->flow_label,
        .identification = frame->identification,
        .dont_fragment = true,
        .payload_len = (uint16_t)(UDP_LEN + d->len),
    };
    struct udp_header udp = {
        .src_port = d->src_port, .dst_port = ROCE_UDP_PORT, .len = (uint16_t)(UDP_LEN + d->len)};
    size_t l3_len = ip_write(&ip, out);
    uint8_t *l4 = out + l3_len;

    udp_write(&udp, l4);
    memcpy(l4 + UDP_LEN, d->bytes, d->len);
    udp.checksum = udp_checksum(&ip, l4, udp.len);
    udp_write(&udp, l4);
    return l3_len + udp.len;
}

size_t pcapng_write_packet(const struct link_frame *frame, uint64_t time_ns, uint8_t *out)
{
    uint8_t flags[4] = {frame->sent ? FLAG_OUTBOUND : FLAG_INBOUND};
    struct pen p = {.at = out};
    uint8_t *lengths;
    size_t len;

    assert(frame->datagram.len <= DATAGRAM_LEN_MAX);
    begin_block(&p, BLOCK_PACKET);
    put32(&p, 0); /* of the one interface */
    put32(&p, (uint32_t)(time_ns >> 32));
    put32(&p, (uint32_t)time_ns);
    lengths = p.at;
    p.at += 8;
    len = write_ip(frame, p.at);
    p.at += len;
    store_le32(lengths, (uint32_t)len);
    store_le32(lengths + 4, (uint32_t)len);
    fill(&p);
    put_option(&p, OPTION_FLAGS, flags, sizeof(flags));
    end_options(&p);
    end_block(&p);
    return (size_t)(p.at - out);
}
