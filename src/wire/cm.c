/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The layout of IBA 12.6.5 to 12.6.15, 12.11 as a table, and the one loop that reads
 * or writes by it. A field of up to 64 bits lies within eight bytes, and eight
 * bytes from its first one are always within the message, since private data
 * ends each.
 */
#include "wire/cm.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"

#define BYTES(n) ((n)*8)
#define FIELD(kind_, member_, byte_, bit_, bits_)                                                  \
    {                                                                                              \
        .name = #member_, .kind = CM_##kind_, .byte = (byte_), .bit = (bit_), .bits = (bits_),     \
        .member = offsetof(struct cm_message, member_),                                            \
        .member_len = sizeof(((struct cm_message *)0)->member_),                                   \
    }

/* A path of a REQ, 44 bytes. */
#define PATH(path, at)                                                                             \
    FIELD(REQ, path.local_lid, (at), 0, 16), FIELD(REQ, path.remote_lid, (at) + 2, 0, 16),         \
        FIELD(REQ, path.local_gid, (at) + 4, 0, BYTES(16)),                                        \
        FIELD(REQ, path.remote_gid, (at) + 20, 0, BYTES(16)),                                      \
        FIELD(REQ, path.flow_label, (at) + 36, 0, 20),                                             \
        FIELD(REQ, path.packet_rate, (at) + 36, 26, 6),                                            \
        FIELD(REQ, path.traffic_class, (at) + 40, 0, 8),                                           \
        FIELD(REQ, path.hop_limit, (at) + 41, 0, 8), FIELD(REQ, path.sl, (at) + 42, 0, 4),         \
        FIELD(REQ, path.subnet_local, (at) + 42, 4, 1),                                            \
        FIELD(REQ, path.ack_timeout, (at) + 43, 0, 5)

/* Grouped by message, in the order of CM_MESSAGES. */
static const struct cm_field fields[] = {
    FIELD(REQ, local_comm_id, 0, 0, 32),
    FIELD(REQ, service_id, 8, 0, 64),
    FIELD(REQ, ca_guid, 16, 0, 64),
    FIELD(REQ, qkey, 28, 0, 32),
    FIELD(REQ, qpn, 32, 0, 24),
    FIELD(REQ, responder_resources, 35, 0, 8),
    FIELD(REQ, eecn, 36, 0, 24),
    FIELD(REQ, initiator_depth, 39, 0, 8),
    FIELD(REQ, remote_eecn, 40, 0, 24),
    FIELD(REQ, remote_response_timeout, 43, 0, 5),
    FIELD(REQ, transport, 43, 5, 2),
    FIELD(REQ, flow_control, 43, 7, 1),
    FIELD(REQ, starting_psn, 44, 0, 24),
    FIELD(REQ, local_response_timeout, 47, 0, 5),
    FIELD(REQ, retry_count, 47, 5, 3),
    FIELD(REQ, pkey, 48, 0, 16),
    FIELD(REQ, path_mtu, 50, 0, 4),
    FIELD(REQ, rdc_exists, 50, 4, 1),
    FIELD(REQ, rnr_retry_count, 50, 5, 3),
    FIELD(REQ, max_cm_retries, 51, 0, 4),
    FIELD(REQ, srq, 51, 4, 1),
    FIELD(REQ, extended_transport, 51, 5, 3),
    PATH(primary, 52),
    PATH(alternate, 96),

    FIELD(MRA, local_comm_id, 0, 0, 32),
    FIELD(MRA, remote_comm_id, 4, 0, 32),
    FIELD(MRA, refused, 8, 0, 2),
    FIELD(MRA, service_timeout, 9, 0, 5),

    FIELD(REJ, local_comm_id, 0, 0, 32),
    FIELD(REJ, remote_comm_id, 4, 0, 32),
    FIELD(REJ, refused, 8, 0, 2),
    FIELD(REJ, info_len, 9, 0, 7),
    FIELD(REJ, reason, 10, 0, 16),
    FIELD(REJ, info, 12, 0, BYTES(CM_INFO_MAX)),

    FIELD(REP, local_comm_id, 0, 0, 32),
    FIELD(REP, remote_comm_id, 4, 0, 32),
    FIELD(REP, qkey, 8, 0, 32),
    FIELD(REP, qpn, 12, 0, 24),
    FIELD(REP, eecn, 16, 0, 24),
    FIELD(REP, starting_psn, 20, 0, 24),
    FIELD(REP, responder_resources, 24, 0, 8),
    FIELD(REP, initiator_depth, 25, 0, 8),
    FIELD(REP, target_ack_delay, 26, 0, 5),
    FIELD(REP, failover, 26, 5, 2),
    FIELD(REP, flow_control, 26, 7, 1),
    FIELD(REP, rnr_retry_count, 27, 0, 3),
    FIELD(REP, srq, 27, 3, 1),
    FIELD(REP, ca_guid, 28, 0, 64),

    FIELD(RTU, local_comm_id, 0, 0, 32),
    FIELD(RTU, remote_comm_id, 4, 0, 32),

    FIELD(DREQ, local_comm_id, 0, 0, 32),
    FIELD(DREQ, remote_comm_id, 4, 0, 32),
    FIELD(DREQ, qpn, 8, 0, 24),

    FIELD(DREP, local_comm_id, 0, 0, 32),
    FIELD(DREP, remote_comm_id, 4, 0, 32),

    FIELD(SIDR_REQ, local_comm_id, 0, 0, 32),
    FIELD(SIDR_REQ, pkey, 4, 0, 16),
    FIELD(SIDR_REQ, service_id, 8, 0, 64),

    FIELD(SIDR_REP, local_comm_id, 0, 0, 32),
    FIELD(SIDR_REP, status, 4, 0, 8),
    FIELD(SIDR_REP, info_len, 5, 0, 8),
    FIELD(SIDR_REP, qpn, 8, 0, 24),
    FIELD(SIDR_REP, service_id, 12, 0, 64),
    FIELD(SIDR_REP, qkey, 20, 0, 32),
    FIELD(SIDR_REP, info, 24, 0, BYTES(CM_INFO_MAX)),

    FIELD(LAP, local_comm_id, 0, 0, 32),
    FIELD(LAP, remote_comm_id, 4, 0, 32),
    FIELD(LAP, qpn, 12, 0, 24),
    FIELD(LAP, remote_response_timeout, 15, 0, 5),
    FIELD(LAP, alternate.local_lid, 20, 0, 16),
    FIELD(LAP, alternate.remote_lid, 22, 0, 16),
    FIELD(LAP, alternate.local_gid, 24, 0, BYTES(16)),
    FIELD(LAP, alternate.remote_gid, 40, 0, BYTES(16)),
    FIELD(LAP, alternate.flow_label, 56, 0, 20),
    FIELD(LAP, alternate.traffic_class, 56, 24, 8),
    FIELD(LAP, alternate.hop_limit, 60, 0, 8),
    FIELD(LAP, alternate.packet_rate, 60, 10, 6),
    FIELD(LAP, alternate.sl, 62, 0, 4),
    FIELD(LAP, alternate.subnet_local, 62, 4, 1),
    FIELD(LAP, alternate.ack_timeout, 63, 0, 5),

    FIELD(APR, local_comm_id, 0, 0, 32),
    FIELD(APR, remote_comm_id, 4, 0, 32),
    FIELD(APR, info_len, 8, 0, 8),
    FIELD(APR, status, 9, 0, 8),
    FIELD(APR, info, 12, 0, BYTES(CM_INFO_MAX)),
};

#define FIELDS_COUNT (sizeof(fields) / sizeof(fields[0]))

static const struct {
    const char *name;
    uint16_t attribute;
    uint8_t private_at;
} messages[CM_KIND_COUNT] = {
#define CM_MESSAGE_ROW(name_, attribute_, private_at_)                                             \
    [CM_##name_] = {.name = #name_, .attribute = (attribute_), .private_at = (private_at_)},
    CM_MESSAGES(CM_MESSAGE_ROW)
#undef CM_MESSAGE_ROW
};

const char *cm_name(enum cm_kind kind)
{
    return messages[kind].name;
}

const char *cm_reason_text(uint16_t reason)
{
    switch (reason) {
#define CM_REASON_CASE(name, code, text)                                                           \
    case CM_REASON_##name:                                                                         \
        return text;
        CM_REASONS(CM_REASON_CASE)
#undef CM_REASON_CASE
    }
    return NULL;
}

size_t cm_private_len(enum cm_kind kind)
{
    return MAD_LEN - MAD_HEADER_LEN - messages[kind].private_at;
}

const struct cm_field *cm_fields(enum cm_kind kind, size_t *count)
{
    size_t first = 0;
    size_t end;

    while (fields[first].kind != kind)
        first++;
    for (end = first; end < FIELDS_COUNT && fields[end].kind == kind; end++)
        ;
    *count = end - first;
    return &fields[first];
}

uint64_t cm_value(const struct cm_message *message, const struct cm_field *field)
{
    const uint8_t *member = (const uint8_t *)message + field->member;
    uint16_t value16;
    uint32_t value32;
    uint64_t value64;

    switch (field->member_len) {
    case 1:
        return *member;
    case 2:
        memcpy(&value16, member, sizeof(value16));
        return value16;
    case 4:
        memcpy(&value32, member, sizeof(value32));
        return value32;
    default:
        memcpy(&value64, member, sizeof(value64));
        return value64;
    }
}

static void value_set(struct cm_message *message, const struct cm_field *field, uint64_t value)
{
    uint8_t *member = (uint8_t *)message + field->member;
    const uint16_t value16 = (uint16_t)value;
    const uint32_t value32 = (uint32_t)value;

    switch (field->member_len) {
    case 1:
        *member = (uint8_t)value;
        break;
    case 2:
        memcpy(member, &value16, sizeof(value16));
        break;
    case 4:
        memcpy(member, &value32, sizeof(value32));
        break;
    default:
        memcpy(member, &value, sizeof(value));
        break;
    }
}

static void field_read(const uint8_t *body, const struct cm_field *field, struct cm_message *out)
{
    const uint8_t *at = body + field->byte;

    if (field->bits > 64)
        memcpy((uint8_t *)out + field->member, at, field->bits / 8);
    else
        value_set(out, field, load_be64(at) << field->bit >> (64 - field->bits));
}

static void field_write(const struct cm_message *message, const struct cm_field *field,
                        uint8_t *body)
{
    uint8_t *at = body + field->byte;
    unsigned shift;
    uint64_t mask;

    if (field->bits > 64) {
        memcpy(at, (const uint8_t *)message + field->member, field->bits / 8);
        return;
    }
    shift = 64u - field->bit - field->bits;
    mask = UINT64_MAX >> (64 - field->bits);
    store_be64(at, load_be64(at) | (cm_value(message, field) & mask) << shift);
}

static bool find_kind(uint16_t attribute, enum cm_kind *kind)
{
    for (unsigned i = 0; i < CM_KIND_COUNT; i++) {
        if (messages[i].attribute == attribute) {
            *kind = (enum cm_kind)i;
            return true;
        }
    }
    return false;
}

int cm_read(const uint8_t *bytes, size_t len, struct cm_message *out)
{
    const uint8_t *body = bytes + MAD_HEADER_LEN;
    struct cm_message message = {0};
    struct mad_header header;
    const struct cm_field *field;
    size_t count;

    if (!mad_read(bytes, len, &header))
        return -EINVAL;
    if (header.base_version != MAD_BASE_VERSION || header.mgmt_class != MAD_CLASS_CM ||
        header.class_version != CM_CLASS_VERSION || header.method != MAD_METHOD_SEND)
        return -EPROTONOSUPPORT;
    if (!find_kind(header.attribute_id, &message.kind))
        return -ENOMSG;
    field = cm_fields(message.kind, &count);
    for (size_t i = 0; i < count; i++)
        field_read(body, &field[i], &message);
    if (message.info_len > CM_INFO_MAX)
        return -EINVAL;
    message.transaction_id = header.transaction_id;
    memcpy(message.private_data, body + messages[message.kind].private_at,
           cm_private_len(message.kind));
    *out = message;
    return 0;
}

void cm_write(const struct cm_message *message, uint8_t *out)
{
    const struct mad_header header = {
        .base_version = MAD_BASE_VERSION,
        .mgmt_class = MAD_CLASS_CM,
        .class_version = CM_CLASS_VERSION,
        .method = MAD_METHOD_SEND,
        .transaction_id = message->transaction_id,
        .attribute_id = messages[message->kind].attribute,
    };
    uint8_t *body = out + MAD_HEADER_LEN;
    const struct cm_field *field;
    size_t count;

    mad_write(&header, out);
    memset(body, 0, MAD_LEN - MAD_HEADER_LEN);
    field = cm_fields(message->kind, &count);
    for (size_t i = 0; i < count; i++)
        field_write(message, &field[i], body);
    memcpy(body + messages[message->kind].private_at, message->private_data,
           cm_private_len(message->kind));
}

bool cm_ip_header_read(const uint8_t *bytes, struct cm_ip_header *out)
{
    const uint8_t ip_version = bytes[1] >> 4;

    if (bytes[0] != 0 || (ip_version != 4 && ip_version != 6))
        return false;
    out->ip_version = ip_version;
    out->src_port = load_be16(bytes + 2);
    memcpy(out->src, bytes + 4, CM_GID_LEN);
    memcpy(out->dst, bytes + 20, CM_GID_LEN);
    return true;
}

void cm_ip_header_write(const struct cm_ip_header *header, uint8_t *out)
{
    out[0] = 0;
    out[1] = (uint8_t)(header->ip_version << 4);
    store_be16(out + 2, header->src_port);
    memcpy(out + 4, header->src, CM_GID_LEN);
    memcpy(out + 20, header->dst, CM_GID_LEN);
}
