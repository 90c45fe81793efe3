/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Input of the fuzzers whose peer sends management datagrams: bytes one by one, and messages made
 * of them. A message has its kind and IDs of the caller's choice, so that it gets beyond the first
 * checks; what else is in it, and what is wrong about it, the input says.
 */
#ifndef UROCE_FUZZ_MAD_H
#define UROCE_FUZZ_MAD_H

#include <string.h>

#include "cm/cm.h"
#include "wire/packet.h"

#define FUZZ_DATAGRAM_LEN (BTH_LEN + DETH_LEN + MAD_LEN + ICRC_LEN)
#define FUZZ_MAD_AT (BTH_LEN + DETH_LEN)

struct input {
    const uint8_t *next;
    size_t left;
};

static inline uint8_t take(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->next++;
}

/* Some bytes of a datagram become others. */
static inline void damage(struct input *in, uint8_t *datagram)
{
    for (unsigned n = take(in) % 4u; n > 0; n--) {
        const unsigned high = take(in);
        const unsigned low = take(in);

        datagram[(high << 8 | low) % FUZZ_DATAGRAM_LEN] = take(in);
    }
}

/* The headers around a MAD from QP1 to QP1. */
static inline void write_headers(uint8_t *datagram)
{
    const struct headers h = {
        .bth = {.opcode = 0x64, .pkey = 0xffff, .dest_qpn = GSI_QPN},
        .deth = {.qkey = GSI_QKEY, .src_qpn = GSI_QPN},
    };

    headers_write(&h, datagram);
}

/* A message that could be one, but for the numbers in it. */
static inline struct cm_message take_message(struct input *in, uint64_t service_id)
{
    return (struct cm_message){
        .kind = (enum cm_kind)(take(in) % CM_KIND_COUNT),
        .service_id = service_id,
        .local_comm_id = take(in) % 8u,
        .qpn = take(in) % 8u,
        .path_mtu = 5,
        .max_cm_retries = 15,
        .local_response_timeout = take(in) & 31u,
        .service_timeout = take(in) & 31u,
        .refused = take(in) & 3u,
        .reason = take(in),
        .status = take(in) % 8u,
        .transport = CM_TRANSPORT_RC,
        .responder_resources = 255,
        .initiator_depth = 255,
    };
}

#endif
