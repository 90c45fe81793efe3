/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer made by hand for one endpoint: a test says packet by packet what the
 * peer sends and what must come back, so that it reads like a ladder diagram.
 * PSNs are relative to the start PSN that both directions share, so one script
 * runs anywhere in the number space. On failure the packets so far are printed.
 */
#ifndef UROCE_TESTS_PACKET_PEER_H
#define UROCE_TESTS_PACKET_PEER_H

#include "support/endpoint.h"
#include "wire/aeth.h"
#include "wire/packet.h"

#define PEER_QPN 0x030011u
#define PEER_PACKETS_MAX 4096u

/* A packet that the endpoint sent. */
struct sent_packet {
    struct packet p; /* payload points to bytes */
    uint32_t psn;    /* relative */
    uint8_t *bytes;
    size_t len;
};

struct peer {
    struct endpoint ep;
    uint32_t psn_start;
    struct sent_packet sent[PEER_PACKETS_MAX];
    uint32_t sent_head; /* next to be expected */
    uint32_t sent_tail;
    uint32_t batches; /* that the endpoint sent */
    char *ladder;     /* what travelled, a line each */
    size_t ladder_len;
};

/* config's PSNs are replaced by psn_start. The endpoint is brought to RTS. */
void peer_open(struct peer *p, struct endpoint_config config, uint32_t psn_start);
void peer_close(struct peer *p);

/*
 * What the peer sends. Fields that stay 0 mean: AckReq, SE off; no payload;
 * extended headers of the operation from the fields of their names.
 */
struct script {
    enum operation_code operation;
    uint32_t psn; /* relative */
    bool ack_req;
    bool solicited;
    uint32_t len; /* payload: bytes first.. of message */
    uint64_t message;
    uint32_t first;
    uint64_t remote; /* offset in the endpoint's memory, for RETH and AtomicETH */
    uint32_t rkey;   /* 0: the endpoint's */
    uint32_t dma_len;
    uint64_t compare;
    uint64_t swap_add;
    uint8_t syndrome;
    uint32_t msn;
    uint64_t original;
    uint32_t imm;
    uint32_t ieth;
    uint32_t qkey;
    uint32_t src_qpn;
    uint32_t srqn;     /* 0: the endpoint's, if it has one */
    uint8_t placement; /* of a FLUSH */
    uint8_t selectivity;
};

/* Sends it, and collects what the endpoint has to say. */
void peer_sends(struct peer *p, struct script s);
/* The same, but the endpoint may not answer yet. */
void peer_sends_quietly(struct peer *p, struct script s);
/* A datagram of any bytes, from the peer's address. */
void peer_sends_bytes(struct peer *p, const uint8_t *bytes, size_t len);
/* The datagram of a script, for a test that spoils it. Returns its length. */
size_t peer_writes(struct peer *p, struct script s, uint8_t *out);

/* Collects what the endpoint sends by itself. */
void peer_listens(struct peer *p);
/* Drops what was collected and the ladder. */
void peer_forgets(struct peer *p);
/* Lets time pass, timer by timer, and collects. */
void time_passes(struct peer *p, uint64_t ns);

/* Shorter words for the answers that a requester gets. */
void peer_acks(struct peer *p, uint32_t psn, uint32_t msn);
void peer_naks(struct peer *p, enum nak_code code, uint32_t psn);
void peer_rnr_naks(struct peer *p, uint8_t timer_code, uint32_t psn);

/* The next packet from the endpoint is this one; returned for a closer look. */
const struct sent_packet *expect_packet(struct peer *p, enum operation_code operation,
                                        uint32_t psn);
/* The same with payload of these bytes of message. */
const struct sent_packet *expect_data(struct peer *p, enum operation_code operation, uint32_t psn,
                                      uint64_t message, uint32_t first, uint32_t len);
/* A READ request for len bytes of the peer at remote. */
void expect_read_request(struct peer *p, uint32_t psn, uint64_t remote, uint32_t len);
void expect_ack(struct peer *p, uint32_t psn, uint32_t msn);
void expect_nak(struct peer *p, enum nak_code code, uint32_t psn, uint32_t msn);
void expect_rnr_nak(struct peer *p, uint8_t timer_code, uint32_t psn, uint32_t msn);
/* The endpoint has nothing (more) to say now. */
void expect_silence(struct peer *p);

#endif
