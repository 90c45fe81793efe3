/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of the connection manager (IBA 12.6): bytes to a struct in host
 * order and back. One table says where each field of each message is; reader,
 * writer and printers go by it. What a message means is cm/'s.
 */
#ifndef UROCE_WIRE_CM_H
#define UROCE_WIRE_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/mad.h"

#define CM_CLASS_VERSION 2u
#define CM_PRIVATE_MAX 224u
#define CM_INFO_MAX 72u
#define CM_GID_LEN 16u

/* name, attribute ID, offset of the private data in the message, which fills the rest of the MAD */
#define CM_MESSAGES(M)                                                                             \
    M(REQ, 0x0010, 140)                                                                            \
    M(MRA, 0x0011, 10)                                                                             \
    M(REJ, 0x0012, 84)                                                                             \
    M(REP, 0x0013, 36)                                                                             \
    M(RTU, 0x0014, 8)                                                                              \
    M(DREQ, 0x0015, 12)                                                                            \
    M(DREP, 0x0016, 8)                                                                             \
    M(SIDR_REQ, 0x0017, 16)                                                                        \
    M(SIDR_REP, 0x0018, 96)                                                                        \
    M(LAP, 0x0019, 64)                                                                             \
    M(APR, 0x001a, 84)

enum cm_kind {
#define CM_KIND_ENUM(name, attribute, private_at) CM_##name,
    CM_MESSAGES(CM_KIND_ENUM)
#undef CM_KIND_ENUM
        CM_KIND_COUNT,
};

/* Why a connection was refused (IBA 12.6.7.2): name, code, sentence. */
#define CM_REASONS(R)                                                                              \
    R(NO_QP, 1, "no queue pair available")                                                         \
    R(NO_EEC, 2, "no end-to-end context available")                                                \
    R(NO_RESOURCES, 3, "no resources available")                                                   \
    R(TIMEOUT, 4, "no answer in time")                                                             \
    R(UNSUPPORTED_REQUEST, 5, "request is not supported")                                          \
    R(INVALID_COMM_ID, 6, "communication ID is not known")                                         \
    R(INVALID_COMM_INSTANCE, 7, "communication instance is not valid")                             \
    R(INVALID_SERVICE_ID, 8, "nobody listens on the service ID")                                   \
    R(INVALID_TRANSPORT, 9, "transport service type is not valid")                                 \
    R(STALE_CONNECTION, 10, "queue pair is still part of an older connection")                     \
    R(RDC_NOT_FOUND, 11, "reliable datagram channel does not exist")                               \
    R(INVALID_GID, 12, "primary remote GID is not valid")                                          \
    R(INVALID_LID, 13, "primary remote LID is not valid")                                          \
    R(INVALID_SL, 14, "primary service level is not valid")                                        \
    R(INVALID_TRAFFIC_CLASS, 15, "primary traffic class is not valid")                             \
    R(INVALID_HOP_LIMIT, 16, "primary hop limit is not valid")                                     \
    R(INVALID_PACKET_RATE, 17, "primary packet rate is not valid")                                 \
    R(INVALID_ALTERNATE_GID, 18, "alternate remote GID is not valid")                              \
    R(INVALID_ALTERNATE_LID, 19, "alternate remote LID is not valid")                              \
    R(INVALID_ALTERNATE_SL, 20, "alternate service level is not valid")                            \
    R(INVALID_ALTERNATE_TRAFFIC_CLASS, 21, "alternate traffic class is not valid")                 \
    R(INVALID_ALTERNATE_HOP_LIMIT, 22, "alternate hop limit is not valid")                         \
    R(INVALID_ALTERNATE_PACKET_RATE, 23, "alternate packet rate is not valid")                     \
    R(PORT_CM_REDIRECT, 24, "ask the CM of another port")                                          \
    R(PORT_REDIRECT, 25, "ask another port")                                                       \
    R(INVALID_MTU, 26, "path MTU is not supported")                                                \
    R(INSUFFICIENT_RESPONDER_RESOURCES, 27, "more responder resources are needed")                 \
    R(CONSUMER, 28, "the application refused")                                                     \
    R(RNR_RETRY_COUNT, 29, "RNR retry count is not accepted")                                      \
    R(DUPLICATE_COMM_ID, 30, "local communication ID is in use")                                   \
    R(INVALID_CLASS_VERSION, 31, "class version is not supported")                                 \
    R(INVALID_FLOW_LABEL, 32, "primary flow label is not valid")                                   \
    R(INVALID_ALTERNATE_FLOW_LABEL, 33, "alternate flow label is not valid")                       \
    R(VENDOR_OPTION, 35, "vendor option is not supported")

enum cm_reason {
#define CM_REASON_ENUM(name, code, text) CM_REASON_##name = (code),
    CM_REASONS(CM_REASON_ENUM)
#undef CM_REASON_ENUM
};

/* Which message a REJ refuses or an MRA answers. */
enum cm_refused {
    CM_REFUSED_REQ = 0,
    CM_REFUSED_REP = 1,
    CM_REFUSED_OTHER = 2, /* in an MRA: a LAP */
    CM_REFUSED_NONE = 3,
};

enum cm_transport {
    CM_TRANSPORT_RC = 0,
    CM_TRANSPORT_UC = 1,
    CM_TRANSPORT_RD = 2,
    CM_TRANSPORT_EXTENDED = 3, /* extended_transport 1: XRC */
};

enum cm_sidr_status {
    CM_SIDR_OK = 0,
    CM_SIDR_NO_SERVICE = 1,
    CM_SIDR_REJECTED = 2,
    CM_SIDR_NO_QP = 3,
    CM_SIDR_REDIRECT = 4,
    CM_SIDR_VERSION = 5,
};

struct cm_path {
    uint16_t local_lid;
    uint16_t remote_lid;
    uint8_t local_gid[CM_GID_LEN];
    uint8_t remote_gid[CM_GID_LEN];
    uint32_t flow_label;
    uint8_t packet_rate;
    uint8_t traffic_class;
    uint8_t hop_limit;
    uint8_t sl;
    uint8_t subnet_local;
    uint8_t ack_timeout; /* 4.096 us times 2 to this */
};

/* A message. Only those members are valid that cm_fields names for its kind. */
struct cm_message {
    enum cm_kind kind;
    uint64_t transaction_id;
    uint32_t local_comm_id; /* sender's; in SIDR messages the request ID */
    uint32_t remote_comm_id;
    uint64_t service_id;
    uint64_t ca_guid;
    uint32_t qkey;
    uint32_t qpn; /* sender's in REQ, REP and SIDR_REP; the receiver's in DREQ and LAP */
    uint32_t eecn;
    uint32_t remote_eecn;
    uint32_t starting_psn;
    uint8_t responder_resources; /* READs and atomics that the sender can answer at a time */
    uint8_t initiator_depth;     /* those it will have outstanding */
    uint8_t remote_response_timeout;
    uint8_t local_response_timeout;
    uint8_t transport; /* enum cm_transport */
    uint8_t extended_transport;
    uint8_t flow_control;
    uint8_t retry_count;
    uint8_t rnr_retry_count;
    uint8_t max_cm_retries;
    uint8_t srq;
    uint8_t path_mtu; /* 1: 256 ... 5: 4096 */
    uint8_t rdc_exists;
    uint8_t target_ack_delay;
    uint8_t failover;
    uint16_t pkey;
    uint8_t refused; /* enum cm_refused: of REJ and MRA */
    uint16_t reason; /* enum cm_reason */
    uint8_t service_timeout;
    uint8_t status; /* enum cm_sidr_status; of an APR the AP status */
    uint8_t info_len;
    uint8_t info[CM_INFO_MAX];
    struct cm_path primary;
    struct cm_path alternate;
    uint8_t private_data[CM_PRIVATE_MAX]; /* cm_private_len bytes of it */
};

/* Where a field is: in the message's bytes, and in struct cm_message. */
struct cm_field {
    const char *name; /* "local_comm_id", "primary.ack_timeout" */
    uint8_t kind;
    uint8_t byte;  /* of the message, behind the MAD header */
    uint8_t bit;   /* from the most significant one */
    uint16_t bits; /* more than 64: plain bytes */
    uint16_t member;
    uint8_t member_len;
};

/* "REQ" ...; static storage. */
const char *cm_name(enum cm_kind kind);

/* A sentence for a reason of a REJ; NULL when there is no such code. Static storage. */
const char *cm_reason_text(uint16_t reason);

/* Bytes of private data that a message of this kind carries, always all of them. */
size_t cm_private_len(enum cm_kind kind);

/* The fields of a message in the order of their bytes. *count is how many. Static storage. */
const struct cm_field *cm_fields(enum cm_kind kind, size_t *count);

/* Value of a field of up to 64 bits. */
uint64_t cm_value(const struct cm_message *message, const struct cm_field *field);

/*
 * Reads a MAD. Returns 0; -EPROTONOSUPPORT when it is not of the CM's class, version and method;
 * -ENOMSG when there is no such message; -EINVAL when its length is not MAD_LEN or a length within
 * it is impossible. *out is only written when all is well.
 */
int cm_read(const uint8_t *bytes, size_t len, struct cm_message *out);

/* Writes MAD_LEN bytes, reserved ones zero. */
void cm_write(const struct cm_message *message, uint8_t *out);

/* Port spaces of RDMA CM (annex A11.6: service IDs 0x0000000001ssPPPP; IB: 0x013f as Linux has it).
 */
#define CM_PORT_SPACE_TCP 0x0106u
#define CM_PORT_SPACE_UDP 0x0111u
#define CM_PORT_SPACE_IB 0x013fu
#define CM_PORT_SPACE_IPOIB 0x0002u

static inline uint64_t cm_service_id(uint32_t port_space, uint16_t port)
{
    return (uint64_t)port_space << 16 | port;
}

#define CM_IP_HEADER_LEN 36u

/* What RDMA CM puts before the consumer's private data in a REQ and a SIDR_REQ (annex A11.5). */
struct cm_ip_header {
    uint8_t ip_version; /* 4 or 6 */
    uint16_t src_port;
    uint8_t src[CM_GID_LEN]; /* IPv4: in the last four, zeroes before */
    uint8_t dst[CM_GID_LEN];
};

/* Reads CM_IP_HEADER_LEN bytes. Returns false for another format version or IP version. */
bool cm_ip_header_read(const uint8_t *bytes, struct cm_ip_header *out);

/* Writes CM_IP_HEADER_LEN bytes. */
void cm_ip_header_write(const struct cm_ip_header *header, uint8_t *out);

#endif
