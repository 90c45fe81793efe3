/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fields are shown by the table of wire/cm.h, so that a new one is seen here
 * at once. Numbers wider than 32 bits and identifiers are shown in hex, plain
 * bytes of 16 as the address that they are.
 */
#include "pcap/management.h"

#include <inttypes.h>
#include <string.h>

#include "pcap/print.h"

#define INDENT 11
#define NAME_WIDTH 26
#define NVME_PORT 4420u
#define IP_HEADER_DST 20u /* in it */
#define HEX_TEXT_MAX (2 * CM_PRIVATE_MAX + 1)

bool frame_cm(const struct frame *f, struct cm_message *out)
{
    const struct packet *p = &f->packet;

    if (f->verdict != FRAME_PACKET || p->operation->kind != KIND_SEND ||
        opcode_service(p->h.bth.opcode) != SERVICE_UD || p->h.bth.dest_qpn != GSI_QPN)
        return false;
    if (p->headers_len + p->payload_len > f->datagram_captured)
        return false;
    return cm_read(p->payload, p->payload_len, out) == 0;
}

static struct gid_text address_text(const uint8_t *bytes)
{
    struct gid gid;

    memcpy(gid.bytes, bytes, sizeof(gid.bytes));
    return gid_text(&gid);
}

/* IPv4 in the last four bytes, zeroes before: the mapped address that gid_text knows. */
static struct gid_text ip_header_text(const struct cm_ip_header *header, const uint8_t *bytes)
{
    uint8_t mapped[CM_GID_LEN];

    memcpy(mapped, bytes, sizeof(mapped));
    if (header->ip_version == 4)
        mapped[10] = mapped[11] = 0xff;
    return address_text(mapped);
}

static void hex_text(const uint8_t *bytes, size_t len, char *text)
{
    for (size_t i = 0; i < len; i++)
        snprintf(text + 2 * i, 3, "%02x", bytes[i]);
    text[2 * len] = '\0';
}

/* Private data is padded with zeroes to the length that the message has for it. */
static size_t private_len(const struct cm_message *m)
{
    size_t len = cm_private_len(m->kind);

    while (len > 0 && m->private_data[len - 1] == 0)
        len--;
    return len;
}

static bool message_ip_header(const struct cm_message *m, struct cm_ip_header *out)
{
    const uint64_t space = m->service_id >> 16;

    if (m->kind != CM_REQ && m->kind != CM_SIDR_REQ)
        return false;
    if (space != CM_PORT_SPACE_TCP && space != CM_PORT_SPACE_UDP && space != CM_PORT_SPACE_IB &&
        space != CM_PORT_SPACE_IPOIB)
        return false;
    return cm_ip_header_read(m->private_data, out);
}

/* What a host of NVMe over RDMA says of the queue that it asks for, little-endian (NVMe over
 * Fabrics, RDMA transport). */
struct nvme_request {
    uint16_t recfmt;
    uint16_t qid;
    uint16_t hrqsize; /* entries of its receive queue */
    uint16_t hsqsize; /* of its send queue, counted from 0 */
    uint16_t cntlid;
};

static uint16_t little_endian(const uint8_t *bytes)
{
    return (uint16_t)(bytes[1] << 8 | bytes[0]);
}

static bool message_nvme(const struct cm_message *m, struct nvme_request *out)
{
    const uint8_t *bytes = m->private_data + CM_IP_HEADER_LEN;
    struct cm_ip_header ip;

    if (m->kind != CM_REQ || m->service_id != cm_service_id(CM_PORT_SPACE_TCP, NVME_PORT) ||
        !message_ip_header(m, &ip))
        return false;
    *out = (struct nvme_request){
        .recfmt = little_endian(bytes),
        .qid = little_endian(bytes + 2),
        .hrqsize = little_endian(bytes + 4),
        .hsqsize = little_endian(bytes + 6),
        .cntlid = little_endian(bytes + 8),
    };
    return out->recfmt == 0;
}

static const char *port_space_name(uint64_t service_id)
{
    switch (service_id >> 16) {
    case CM_PORT_SPACE_TCP:
        return "tcp";
    case CM_PORT_SPACE_UDP:
        return "udp";
    case CM_PORT_SPACE_IB:
        return "ib";
    case CM_PORT_SPACE_IPOIB:
        return "ipoib";
    }
    return NULL;
}

static void print_service(FILE *out, const struct cm_message *m)
{
    const char *space = port_space_name(m->service_id);
    struct nvme_request nvme;
    struct cm_ip_header ip;

    if (space != NULL)
        fprintf(out, " to %s port %u", space, (unsigned)(m->service_id & 0xffff));
    else
        fprintf(out, " to service 0x%016" PRIx64, m->service_id);
    if (message_ip_header(m, &ip))
        fprintf(out, " from %s port %u", ip_header_text(&ip, ip.src).text, ip.src_port);
    if (message_nvme(m, &nvme))
        fprintf(out, " nvme queue %u", nvme.qid);
}

static void print_qp(FILE *out, const struct cm_message *m)
{
    fprintf(out, " qp 0x%06x psn %u depth %u/%u rnr retries %u", m->qpn, m->starting_psn,
            m->responder_resources, m->initiator_depth, m->rnr_retry_count);
}

void print_cm(FILE *out, const struct cm_message *m)
{
    const char *reason;

    fprintf(out, " CM %s id 0x%08x", cm_name(m->kind), m->local_comm_id);
    switch (m->kind) {
    case CM_REQ:
        print_service(out, m);
        print_qp(out, m);
        return;
    case CM_REP:
        fprintf(out, " peer 0x%08x", m->remote_comm_id);
        print_qp(out, m);
        return;
    case CM_REJ:
        reason = cm_reason_text(m->reason);
        fprintf(out, " peer 0x%08x reason %u%s%s", m->remote_comm_id, m->reason,
                reason != NULL ? ": " : "", reason != NULL ? reason : "");
        return;
    case CM_SIDR_REQ:
        print_service(out, m);
        return;
    case CM_SIDR_REP:
        fprintf(out, " status %u qp 0x%06x qkey 0x%08x", m->status, m->qpn, m->qkey);
        return;
    case CM_MRA:
    case CM_RTU:
    case CM_DREQ:
    case CM_DREP:
    case CM_LAP:
    case CM_APR:
    case CM_KIND_COUNT:
        fprintf(out, " peer 0x%08x", m->remote_comm_id);
        return;
    }
}

static bool wants_hex(const struct cm_field *field)
{
    return field->bits >= 16;
}

static void print_field(FILE *out, const struct cm_message *m, const struct cm_field *field,
                        uint32_t offset)
{
    const uint8_t *bytes = (const uint8_t *)m + field->member;
    char hex[HEX_TEXT_MAX];

    fprintf(out, "%*s%04x  %-*s", INDENT, "", offset + field->byte, NAME_WIDTH, field->name);
    if (field->bits == 8 * CM_GID_LEN) {
        fprintf(out, "%s\n", address_text(bytes).text);
    } else if (field->bits > 64) {
        hex_text(bytes, m->info_len, hex);
        fprintf(out, "%s\n", hex);
    } else if (wants_hex(field)) {
        fprintf(out, "0x%0*" PRIx64 "\n", field->bits / 4, cm_value(m, field));
    } else {
        fprintf(out, "%" PRIu64 "\n", cm_value(m, field));
    }
}

/* What the private data is made of, where that is known. at: of the private data in the frame. */
static void print_private_fields(FILE *out, const struct cm_message *m, uint32_t at)
{
    struct nvme_request nvme;
    struct cm_ip_header ip;

    if (!message_ip_header(m, &ip))
        return;
    fprintf(out, "%*s%04x  %-*s%s port %u\n", INDENT, "", at, NAME_WIDTH, "ip header source",
            ip_header_text(&ip, ip.src).text, ip.src_port);
    fprintf(out, "%*s%04x  %-*s%s\n", INDENT, "", at + IP_HEADER_DST, NAME_WIDTH,
            "ip header destination", ip_header_text(&ip, ip.dst).text);
    if (message_nvme(m, &nvme))
        fprintf(out, "%*s%04x  %-*squeue %u, controller %u, receives %u, sends %u counted from 0\n",
                INDENT, "", at + CM_IP_HEADER_LEN, NAME_WIDTH, "nvme", nvme.qid, nvme.cntlid,
                nvme.hrqsize, nvme.hsqsize);
}

void print_cm_fields(FILE *out, const struct cm_message *m, uint32_t offset)
{
    const uint32_t body = offset + MAD_HEADER_LEN;
    const uint32_t private_at = offset + MAD_LEN - (uint32_t)cm_private_len(m->kind);
    const struct cm_field *field;
    char hex[HEX_TEXT_MAX];
    size_t count;

    fprintf(out, "%*sCM %s, transaction 0x%016" PRIx64 "\n", INDENT - 2, "", cm_name(m->kind),
            m->transaction_id);
    field = cm_fields(m->kind, &count);
    for (size_t i = 0; i < count; i++)
        print_field(out, m, &field[i], body);
    print_private_fields(out, m, private_at);
    hex_text(m->private_data, private_len(m), hex);
    fprintf(out, "%*s%04x  %-*s%s and zeroes, %zu bytes in all\n", INDENT, "", private_at,
            NAME_WIDTH, "private data", hex, cm_private_len(m->kind));
}

static json_t *field_json(const struct cm_message *m, const struct cm_field *field)
{
    const uint8_t *bytes = (const uint8_t *)m + field->member;
    char text[HEX_TEXT_MAX];

    if (field->bits <= 32)
        return json_integer((json_int_t)cm_value(m, field));
    if (field->bits == 8 * CM_GID_LEN)
        return json_string(address_text(bytes).text);
    if (field->bits > 64)
        hex_text(bytes, m->info_len, text);
    else
        snprintf(text, sizeof(text), "0x%016" PRIx64, cm_value(m, field));
    return json_string(text);
}

static json_t *ip_header_json(const struct cm_ip_header *ip)
{
    return json_pack("{sI, sI, ss, ss}", "ip_version", (json_int_t)ip->ip_version, "src_port",
                     (json_int_t)ip->src_port, "src", ip_header_text(ip, ip->src).text, "dst",
                     ip_header_text(ip, ip->dst).text);
}

static json_t *nvme_json(const struct nvme_request *nvme)
{
    return json_pack("{sI, sI, sI, sI, sI}", "recfmt", (json_int_t)nvme->recfmt, "qid",
                     (json_int_t)nvme->qid, "hrqsize", (json_int_t)nvme->hrqsize, "hsqsize",
                     (json_int_t)nvme->hsqsize, "cntlid", (json_int_t)nvme->cntlid);
}

json_t *cm_to_json(const struct cm_message *m)
{
    const char *reason = m->kind == CM_REJ ? cm_reason_text(m->reason) : NULL;
    json_t *object = json_pack("{ss}", "message", cm_name(m->kind));
    const struct cm_field *field;
    struct nvme_request nvme;
    struct cm_ip_header ip;
    char hex[HEX_TEXT_MAX];
    size_t count;

    snprintf(hex, sizeof(hex), "0x%016" PRIx64, m->transaction_id);
    json_object_set_new(object, "transaction_id", json_string(hex));
    field = cm_fields(m->kind, &count);
    for (size_t i = 0; i < count; i++)
        json_object_set_new(object, field[i].name, field_json(m, &field[i]));
    if (reason != NULL)
        json_object_set_new(object, "reason_text", json_string(reason));
    if (message_ip_header(m, &ip))
        json_object_set_new(object, "ip_header", ip_header_json(&ip));
    if (message_nvme(m, &nvme))
        json_object_set_new(object, "nvme", nvme_json(&nvme));
    hex_text(m->private_data, private_len(m), hex);
    json_object_set_new(object, "private_data", json_string(hex));
    return object;
}
