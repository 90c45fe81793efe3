/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Bad packets by rule, where hostile.c has them by chance: each opcode cut at
 * each byte, each opcode with each length, each field wrong, each state, each
 * syndrome. Whatever comes ends in exactly one counter. One that is dropped
 * changes nothing else; one that a reliable connection must refuse is answered
 * by one NAK and ends the connection (IBA 9.7.4, 9.7.5.2, 9.9.3).
 */
#include "support/packet_peer.h"

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "engine/counters.h"

#define LEN_MAX 64u
#define PSN_START 0xfffff0u
#define QKEY 0x1234u
#define TARGET 0x1000u
#define RECEIVE 0x8000u /* of the receive request */
#define RECEIVE_LEN 0x400u

/* --- where packets may end --- */

enum consequence {
    DROPPED,  /* nothing happens */
    ANSWERED, /* an answer may leave, nothing else happens */
    REFUSED,  /* RC: the connection ends; UC and UD: dropped */
    TAKEN,
};

/* Each packet that an engine is given ends in one of these. */
/* clang-format off */
#define ENDINGS(E)                                                                                 \
    E(malformed, DROPPED) E(no_qp, DROPPED) E(wrong_service, DROPPED) E(wrong_state, DROPPED)      \
    E(wrong_pkey, DROPPED) E(wrong_qkey, DROPPED) E(wrong_source, DROPPED) E(cnp_rcv, DROPPED)     \
    E(stale_response, DROPPED)                                                                     \
    E(out_of_sequence, ANSWERED) E(duplicate_request, ANSWERED) E(no_receive, ANSWERED)            \
    E(bad_sequence_opcode, REFUSED) E(bad_length, REFUSED) E(remote_access_refused, REFUSED)       \
    E(receive_too_small, REFUSED) E(responder_memory_fault, REFUSED) E(too_many_reads, REFUSED)    \
    E(wrong_xrc_srq, REFUSED) E(bad_response, REFUSED) E(remote_err_nak_rcv, REFUSED)              \
    E(requests, TAKEN) E(responses, TAKEN) E(packet_seq_err, TAKEN) E(implied_nak_seq_err, TAKEN)  \
    E(rnr_nak_rcv, TAKEN)
/* clang-format on */

enum ending {
#define ENDING_ENUM(name, consequence) END_##name,
    ENDINGS(ENDING_ENUM)
#undef ENDING_ENUM
        ENDING_COUNT,
    END_ANY,
};

static const struct {
    const char *name;
    enum consequence consequence;
} endings[] = {
#define ENDING_ROW(name, consequence) {#name, consequence},
    ENDINGS(ENDING_ROW)
#undef ENDING_ROW
};

static void count_endings(const struct engine *e, uint64_t out[ENDING_COUNT])
{
    const struct engine_counters *c = engine_counters(e);
    const uint64_t counts[] = {
#define ENDING_COUNTER(name, consequence) c->name,
        ENDINGS(ENDING_COUNTER)
#undef ENDING_COUNTER
    };

    memcpy(out, counts, sizeof(counts));
}

/* --- one packet --- */

static struct peer the_peer;
/* Of the engine to memory of the program, and of them those to where a message is received. */
static uint64_t writes;
static uint64_t received;

static int watched_copy(void *dst, const void *src, size_t len)
{
    const uint8_t *to = dst;
    const uint8_t *receive = the_peer.ep.memory + RECEIVE;

    received += to >= receive && to < receive + RECEIVE_LEN;
    writes += to >= the_peer.ep.memory && to < the_peer.ep.memory + ENDPOINT_MEMORY;
    memcpy(dst, src, len);
    return 0;
}

/* What must not change without a reason. */
struct view {
    uint64_t counts[ENDING_COUNT];
    enum qp_state state;
    uint32_t completions;
    uint32_t sent;
    uint64_t writes;
    uint64_t received;
};

static struct view look(void)
{
    const struct endpoint *ep = &the_peer.ep;
    struct view v = {
        .state = qp_state(ep->qp),
        .completions = cq_queued(ep->send_cq) + cq_queued(ep->recv_cq),
        .sent = the_peer.sent_tail,
        .writes = writes,
        .received = received,
    };

    count_endings(ep->engine, v.counts);
    return v;
}

static void expect_unchanged(const char *what, const struct view *before, const struct view *after)
{
    if (after->state != before->state || after->completions != before->completions ||
        after->writes != before->writes)
        fail_msg("%s: state %d to %d, %u to %u completions, %lu writes", what, (int)before->state,
                 (int)after->state, before->completions, after->completions,
                 (unsigned long)(after->writes - before->writes));
}

/* A response is not answered, nor a key that the peer asks to be ended in vain (class J). */
static bool refused_in_silence(enum ending ending, uint8_t opcode)
{
    if (ending == END_remote_access_refused)
        return (opcode_operation(opcode)->headers & HEADER_IETH) != 0;
    return ending == END_bad_response || ending == END_remote_err_nak_rcv;
}

static void expect_consequence(const char *what, enum ending ending, uint8_t opcode,
                               const struct view *before, const struct view *after)
{
    const bool reliable = the_peer.ep.config.service == SERVICE_RC;
    enum consequence c = endings[ending].consequence;
    uint64_t written;

    if (c == REFUSED && !reliable)
        c = DROPPED;
    if (c == DROPPED && after->sent != before->sent)
        fail_msg("%s: dropped and answered", what);
    if (c == DROPPED || c == ANSWERED)
        expect_unchanged(what, before, after);
    if (c != REFUSED)
        return;
    /* A SEND that fails after its payload may leave it in the receive request, which ends in error.
     */
    written = after->writes - before->writes - (after->received - before->received);
    if (after->state != QP_ERR || written > 0)
        fail_msg("%s: refused, and state is %d after %lu writes", what, (int)after->state,
                 (unsigned long)written);
    assert_int_equal(after->sent, before->sent + (refused_in_silence(ending, opcode) ? 0 : 1));
}

/* Hands bytes in and checks that they have one ending, which is expected or any. */
static enum ending send(const char *what, const uint8_t *bytes, size_t len, enum ending expected)
{
    struct view before;
    struct view after;
    enum ending found = ENDING_COUNT;
    uint64_t sum = 0;

    peer_listens(&the_peer);
    before = look();
    peer_sends_bytes(&the_peer, bytes, len);
    peer_listens(&the_peer);
    after = look();
    for (uint32_t i = 0; i < ENDING_COUNT; i++) {
        sum += after.counts[i] - before.counts[i];
        if (after.counts[i] != before.counts[i])
            found = (enum ending)i;
    }
    if (sum != 1)
        fail_msg("%s: %lu endings", what, (unsigned long)sum);
    if (expected != END_ANY && found != expected)
        fail_msg("%s: ends as %s, not as %s", what, endings[found].name, endings[expected].name);
    expect_consequence(what, found, len > 0 ? bytes[0] : 0, &before, &after);
    return found;
}

/* --- the endpoint --- */

static void open_peer(enum service service)
{
    struct endpoint_config config = endpoint_config_default(2);

    config.service = service;
    config.engine.copy = watched_copy;
    config.qkey = QKEY;
    peer_open(&the_peer, config, PSN_START);
}

static void take_completions(void)
{
    struct completion c;

    while (cq_poll(the_peer.ep.send_cq, 1, &c) == 1 || cq_poll(the_peer.ep.recv_cq, 1, &c) == 1)
        ;
}

/* A fresh life with one receive request. */
static void begin_anew(void)
{
    struct endpoint *ep = &the_peer.ep;
    struct engine_event event;

    while (engine_event_next(ep->engine, &event))
        ;
    take_completions();
    endpoint_modify_state(ep, QP_RESET, 0, NULL);
    endpoint_connect(ep, PEER_QPN);
    endpoint_post_recv(ep, 1, RECEIVE, RECEIVE_LEN);
    peer_forgets(&the_peer);
}

static bool exists(enum service service, uint8_t opcode)
{
    return opcode_operation(opcode) != NULL && opcode_service(opcode) == service;
}

/* A packet of len payload bytes with everything else as it should be. */
static size_t write_packet(uint8_t opcode, uint32_t len, uint8_t *out)
{
    const struct script s = {
        .operation = (enum operation_code)(opcode & 0x1f),
        .len = len,
        .remote = TARGET,
        .dma_len = len,
        .qkey = QKEY,
        .src_qpn = 5,
    };
    size_t total = peer_writes(&the_peer, s, out);

    out[0] = opcode;
    return total;
}

/* --- cuts --- */

static void cut_everywhere(uint8_t opcode)
{
    const struct operation *o = opcode_operation(opcode);
    const bool has_payload = o->payload != PAYLOAD_NONE;
    uint8_t bytes[PACKET_HEADERS_MAX + 32];
    size_t len = write_packet(opcode, has_payload ? 12 : 0, bytes);
    size_t least = len - (has_payload ? 12 : 0);
    char what[64];

    for (size_t cut = 0; cut < len; cut++) {
        snprintf(what, sizeof(what), "%s cut to %zu bytes", opcode_name(opcode), cut);
        send(what, bytes, cut, cut < least || cut % 4 != 0 ? END_malformed : END_ANY);
        if (cut >= least)
            begin_anew();
    }
}

static void packet_cut_at_any_byte_of_its_headers_is_malformed(void **state)
{
    static const enum service services[] = {SERVICE_RC, SERVICE_UC, SERVICE_UD};

    (void)state;
    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
        open_peer(services[i]);
        begin_anew();
        for (uint32_t opcode = 0; opcode <= UINT8_MAX; opcode++) {
            if (exists(services[i], (uint8_t)opcode))
                cut_everywhere((uint8_t)opcode);
        }
        peer_close(&the_peer);
    }
}

/* --- lengths --- */

/* What the specification wants of a first packet with this opcode, where nothing was sent yet. */
static enum ending expected_of(enum service service, uint8_t opcode, uint32_t len)
{
    const struct operation *o = opcode_operation(opcode);

    if (o == NULL || (o->payload == PAYLOAD_NONE && len > 0))
        return END_malformed;
    if (o->kind == KIND_CNP)
        return END_ANY; /* by its own length */
    if (opcode_service(opcode) != service)
        return END_wrong_service;
    switch (o->kind) {
    case KIND_READ_RESPONSE:
    case KIND_ACK:
    case KIND_ATOMIC_ACK:
        return END_stale_response; /* nothing was asked for */
    case KIND_FLUSH:
    case KIND_ATOMIC_WRITE:
    case KIND_RESYNC:
    case KIND_CNP:
        return END_ANY;
    case KIND_SEND:
    case KIND_WRITE:
    case KIND_READ:
    case KIND_CMP_SWAP:
    case KIND_FETCH_ADD:
        break;
    }
    if (!position_starts(o->position))
        return END_bad_sequence_opcode;
    if (o->position == POSITION_FIRST)
        return END_bad_length; /* it must be a PMTU */
    if ((o->headers & HEADER_IETH) != 0)
        return END_remote_access_refused; /* key 0 */
    return END_requests;
}

static void every_opcode_with_every_length_has_one_ending(void **state)
{
    static const enum service services[] = {SERVICE_RC, SERVICE_UC, SERVICE_UD};
    uint8_t bytes[PACKET_HEADERS_MAX + LEN_MAX + 8];
    char what[64];

    (void)state;
    for (size_t i = 0; i < sizeof(services) / sizeof(services[0]); i++) {
        open_peer(services[i]);
        begin_anew();
        for (uint32_t n = 0; n < 256 * (LEN_MAX + 1); n++) {
            const uint8_t opcode = (uint8_t)(n / (LEN_MAX + 1));
            const uint32_t len = n % (LEN_MAX + 1);
            size_t total = BTH_LEN + len + packet_pad(len) + ICRC_LEN;
            enum ending ending;

            memset(bytes, 0, sizeof(bytes));
            if (opcode_operation(opcode) == NULL || opcode_service(opcode) != services[i])
                write_packet(opcode_make(services[i], OP_SEND_ONLY), 0, bytes);
            else
                total = write_packet(opcode, len, bytes);
            if (opcode_operation(opcode) != NULL && opcode_service(opcode) != services[i])
                total += opcode_headers_len(opcode) - BTH_LEN;
            bytes[0] = opcode;
            bytes[1] = (uint8_t)(packet_pad(len) << 4);
            snprintf(what, sizeof(what), "opcode 0x%02x on service %d with %u bytes", opcode,
                     (int)services[i], len);
            ending = send(what, bytes, total, expected_of(services[i], opcode, len));
            if (endings[ending].consequence != DROPPED)
                begin_anew();
        }
        peer_close(&the_peer);
    }
}

/* --- fields --- */

struct spoiled {
    const char *what;
    enum operation_code operation;
    uint32_t len;
    size_t at; /* byte of the packet */
    uint8_t flip;
    enum ending on_rc;
    enum ending on_uc;
};

/* clang-format off */
static const struct spoiled spoils[] = {
    /* what                          in                bytes at  flip   on RC                      on UC */
    {"version 1",                    OP_SEND_ONLY,     8,    1,  0x01,  END_malformed,             END_malformed},
    {"version 15",                   OP_WRITE_ONLY,    8,    1,  0x0f,  END_malformed,             END_malformed},
    {"pad count beyond the payload", OP_SEND_ONLY,     0,    1,  0x30,  END_malformed,             END_malformed},
    {"payload in a READ request",    OP_READ_REQUEST,  4,    0,  0x00,  END_malformed,             ENDING_COUNT},
    {"another partition",            OP_SEND_ONLY,     8,    3,  0x01,  END_wrong_pkey,            END_wrong_pkey},
    {"partition 0",                  OP_SEND_ONLY,     8,    2,  0x7f,  END_wrong_pkey,            END_wrong_pkey},
    {"another slot",                 OP_SEND_ONLY,     8,    5,  0x01,  END_no_qp,                 END_no_qp},
    {"a QPN that nobody has",        OP_SEND_ONLY,     8,    7,  0x01,  END_no_qp,                 END_no_qp},
    {"a PSN ahead",                  OP_SEND_ONLY,     8,    11, 0x08,  END_out_of_sequence,       END_requests},
    {"a PSN behind",                 OP_SEND_ONLY,     8,    9,  0x7f,  END_duplicate_request,     END_requests},
    {"another R_Key",                OP_WRITE_ONLY,    8,    20, 0x40,  END_remote_access_refused, END_remote_access_refused},
    {"an R_Key that was",            OP_WRITE_ONLY,    8,    23, 0x01,  END_remote_access_refused, END_remote_access_refused},
    {"an address far beyond",        OP_WRITE_ONLY,    8,    12, 0x80,  END_remote_access_refused, END_remote_access_refused},
    {"an address before",            OP_WRITE_ONLY,    8,    15, 0x01,  END_remote_access_refused, END_remote_access_refused},
    {"a longer DMA length",          OP_WRITE_ONLY,    8,    27, 0x10,  END_bad_length,            END_bad_length},
    {"a huge DMA length",            OP_WRITE_ONLY,    8,    24, 0xff,  END_bad_length,            END_bad_length},
    {"a READ of too much",           OP_READ_REQUEST,  0,    24, 0xff,  END_bad_length,            ENDING_COUNT},
    {"a READ past the end",          OP_READ_REQUEST,  0,    25, 0x10,  END_remote_access_refused, ENDING_COUNT},
    {"an unaligned atomic",          OP_FETCH_ADD,     0,    19, 0x04,  END_bad_length,            ENDING_COUNT},
    {"an atomic with another key",   OP_CMP_SWAP,      0,    22, 0x10,  END_remote_access_refused, ENDING_COUNT},
};
/* clang-format on */

static void spoil_and_send(const struct spoiled *s, enum service service, enum ending expected)
{
    uint8_t bytes[PACKET_HEADERS_MAX + 64];
    size_t len;

    begin_anew();
    len = write_packet(opcode_make(service, s->operation), s->len, bytes);
    bytes[s->at] ^= s->flip;
    send(s->what, bytes, len, expected);
}

static void packet_with_a_wrong_field_has_the_ending_of_that_field(void **state)
{
    (void)state;
    for (int unreliable = 0; unreliable < 2; unreliable++) {
        const enum service service = unreliable ? SERVICE_UC : SERVICE_RC;

        open_peer(service);
        for (size_t i = 0; i < sizeof(spoils) / sizeof(spoils[0]); i++) {
            const enum ending expected = unreliable ? spoils[i].on_uc : spoils[i].on_rc;

            if (expected != ENDING_COUNT)
                spoil_and_send(&spoils[i], service, expected);
        }
        peer_close(&the_peer);
    }
}

static void datagram_with_a_wrong_qkey_is_dropped(void **state)
{
    uint8_t bytes[PACKET_HEADERS_MAX + 64];
    size_t len;

    (void)state;
    open_peer(SERVICE_UD);
    begin_anew();
    for (size_t at = BTH_LEN; at < BTH_LEN + 4; at++) {
        len = write_packet(opcode_make(SERVICE_UD, OP_SEND_ONLY), 8, bytes);
        bytes[at] ^= 0x10;
        send("wrong Q_Key", bytes, len, END_wrong_qkey);
    }
    peer_close(&the_peer);
}

static void packet_for_a_connection_from_or_to_another_address_is_dropped(void **state)
{
    uint8_t bytes[PACKET_HEADERS_MAX + 64];
    struct datagram d = {.hop_limit = 64, .src_port = 0xc123, .bytes = bytes};
    struct view before;
    struct view after;

    (void)state;
    open_peer(SERVICE_RC);
    begin_anew();
    d.len = write_packet(opcode_make(SERVICE_RC, OP_SEND_ONLY), 8, bytes);
    before = look();
    for (uint32_t i = 0; i < 2; i++) {
        d.src = endpoint_gid(i == 0 ? 9 : 3);
        d.dst = endpoint_gid(i == 0 ? 2 : 9);
        engine_receive(the_peer.ep.engine, &d, the_peer.ep.now);
        peer_listens(&the_peer);
        after = look();
        assert_int_equal(after.counts[END_wrong_source], i + 1);
        assert_int_equal(after.sent, before.sent);
        expect_unchanged("wrong address", &before, &after);
    }
    peer_close(&the_peer);
}

/* --- states --- */

static void bring_to(enum qp_state state)
{
    struct endpoint *ep = &the_peer.ep;
    const struct endpoint_config *c = &ep->config;
    const struct qp_attr attr = {
        .port = 1,
        .access = c->access,
        .pmtu = c->pmtu,
        .path = {.src = endpoint_gid(2), .dst = endpoint_gid(3), .hop_limit = 64},
        .dest_qpn = PEER_QPN,
        .rq_psn = psn_make(PSN_START),
        .dest_rd_atomic = 4,
        .min_rnr_timer = 12,
    };

    begin_anew();
    if (state == QP_RTS)
        return;
    if (state == QP_SQD || state == QP_ERR) {
        endpoint_modify_state(ep, state, 0, NULL);
        return;
    }
    endpoint_modify_state(ep, QP_RESET, 0, NULL);
    if (state == QP_RESET)
        return;
    endpoint_modify_state(ep, QP_INIT, QP_ATTR_PKEY_INDEX | QP_ATTR_PORT | QP_ATTR_ACCESS, &attr);
    endpoint_post_recv(ep, 1, RECEIVE, RECEIVE_LEN);
    if (state == QP_RTR)
        endpoint_modify_state(ep, QP_RTR,
                              QP_ATTR_AV | QP_ATTR_PMTU | QP_ATTR_DEST_QPN | QP_ATTR_RQ_PSN |
                                  QP_ATTR_DEST_RD_ATOMIC | QP_ATTR_MIN_RNR_TIMER,
                              &attr);
}

/* IBA 10.3.1: requests from RTR on, responses from RTS on. */
static void packet_in_each_state_is_taken_or_dropped(void **state)
{
    static const struct {
        enum qp_state state;
        enum ending request;
        enum ending response;
    } rows[] = {
        {QP_RESET, END_wrong_state, END_wrong_state}, {QP_INIT, END_wrong_state, END_wrong_state},
        {QP_RTR, END_requests, END_wrong_state},      {QP_RTS, END_requests, END_stale_response},
        {QP_SQD, END_requests, END_stale_response},   {QP_ERR, END_wrong_state, END_wrong_state},
    };
    uint8_t bytes[PACKET_HEADERS_MAX + 64];
    char what[32];
    size_t len;

    (void)state;
    open_peer(SERVICE_RC);
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        snprintf(what, sizeof(what), "state %d", (int)rows[i].state);
        bring_to(rows[i].state);
        len = write_packet(opcode_make(SERVICE_RC, OP_ACK), 0, bytes);
        send(what, bytes, len, rows[i].response);
        len = write_packet(opcode_make(SERVICE_RC, OP_SEND_ONLY), 8, bytes);
        send(what, bytes, len, rows[i].request);
    }
    peer_close(&the_peer);
}

/* --- syndromes --- */

/* IBA tables 44 to 46. */
static enum ending ending_of_syndrome(uint8_t syndrome)
{
    const uint8_t code = syndrome & 0x1f;

    switch (syndrome >> 5 & 3) {
    case 0:
        return END_responses;
    case 1:
        return END_rnr_nak_rcv;
    case 3:
        if (code == 0)
            return END_packet_seq_err;
        return code <= 3 ? END_remote_err_nak_rcv : END_bad_response;
    default:
        return END_bad_response;
    }
}

static void acknowledgement_with_each_syndrome_is_taken_or_refused(void **state)
{
    uint8_t bytes[PACKET_HEADERS_MAX];
    char what[32];
    size_t len;

    (void)state;
    open_peer(SERVICE_RC);
    for (uint32_t syndrome = 0; syndrome < 0x80; syndrome++) { /* the top bit is reserved */
        snprintf(what, sizeof(what), "syndrome 0x%02x", syndrome);
        begin_anew();
        len = write_packet(opcode_make(SERVICE_RC, OP_ACK), 0, bytes);
        bytes[BTH_LEN] = (uint8_t)syndrome;
        send(what, bytes, len, END_stale_response);
        endpoint_post(&the_peer.ep, &(struct work){.wr_id = 1, .opcode = WR_SEND});
        send(what, bytes, len, ending_of_syndrome((uint8_t)syndrome));
        if (ending_of_syndrome((uint8_t)syndrome) == END_bad_response)
            expect_completion(the_peer.ep.send_cq, 1, STATUS_BAD_RESP_ERR);
    }
    peer_close(&the_peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packet_cut_at_any_byte_of_its_headers_is_malformed),
        cmocka_unit_test(every_opcode_with_every_length_has_one_ending),
        cmocka_unit_test(packet_with_a_wrong_field_has_the_ending_of_that_field),
        cmocka_unit_test(datagram_with_a_wrong_qkey_is_dropped),
        cmocka_unit_test(packet_for_a_connection_from_or_to_another_address_is_dropped),
        cmocka_unit_test(packet_in_each_state_is_taken_or_dropped),
        cmocka_unit_test(acknowledgement_with_each_syndrome_is_taken_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
