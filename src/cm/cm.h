/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager without I/O (IBA 12): management datagrams, time and
 * calls in; management datagrams, a deadline and events out. No thread, clock,
 * socket or global inside; with the same seed and calls it produces the same bytes.
 * It knows QPNs as numbers and no queue pair: who calls changes their states.
 *
 * Every message that wants an answer is repeated: soon at first, since datagrams
 * get lost, then ever more slowly, for as long as the fields of the REQ promise
 * (maximal retries times the response timeout). Repeats of the peer are answered
 * as the first copy was.
 *
 * Calls on one manager are serialised by the caller. Times are nanoseconds of its
 * clock and never go backwards. Calls return 0 or a negative errno; -EINVAL from one
 * that begins a message: the connection is not in a state for it.
 */
#ifndef UROCE_CM_CM_H
#define UROCE_CM_CM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "wire/cm.h"
#include "wire/datagram.h"

struct cm;
struct cm_id;

#define CM_NEVER UINT64_MAX

struct cm_config {
    uint8_t seed[16];
    uint8_t slot;     /* high byte of all communication IDs: whose answers are ours */
    uint32_t ids_max; /* connections, listeners and requests together; 0: 65536 */
};

/* Returns 0 with *out owned by the caller, or -ENOMEM. */
int cm_new(const struct cm_config *config, struct cm **out);

/* Frees all IDs too, without a word to their peers. */
void cm_free(struct cm *cm);

enum cm_state {
    CM_STATE_IDLE,
    CM_STATE_LISTENING,
    CM_STATE_REQ_SENT,     /* active: waits for the REP */
    CM_STATE_REP_RECEIVED, /* active: the caller has yet to establish */
    CM_STATE_REQ_RECEIVED, /* passive: the caller has yet to accept or reject */
    CM_STATE_REP_SENT,     /* passive: waits for the RTU */
    CM_STATE_ESTABLISHED,
    CM_STATE_DREQ_SENT,
    CM_STATE_TIMEWAIT, /* disconnected; late messages are still answered */
    CM_STATE_SIDR_SENT,
    CM_STATE_SIDR_RECEIVED,
    CM_STATE_ANSWERED, /* refused, or a SIDR request answered: said again if it comes again */
    CM_STATE_OVER,     /* rejected by the peer, or failed: nothing more comes */
};

/* An ID in state IDLE. user is given back with its events. -ENOSPC: there are ids_max. */
int cm_id_new(struct cm *cm, void *user, struct cm_id **out);

/*
 * Ends whatever the ID is in: refuses what awaits an answer, disconnects what is
 * established. The ID may not be used any more; no event of it comes.
 */
void cm_id_free(struct cm_id *id, uint64_t now);

/*
 * Before the process ends: says farewell for all that the caller has not freed, as cm_id_free. The
 * IDs stay: a thread that does not know of the end yet may go on using and freeing them.
 */
void cm_leave(struct cm *cm, uint64_t now);

/*
 * How long after it was first asked a request goes on being asked when nobody listens on its
 * service: a server may be about to. 0, as at first: not at all.
 */
void cm_id_set_patience(struct cm_id *id, uint64_t patience_ns);

void cm_id_set_user(struct cm_id *id, void *user);
void *cm_id_user(const struct cm_id *id);
enum cm_state cm_id_state(const struct cm_id *id);
const struct path *cm_id_path(const struct cm_id *id); /* once one is known */
uint32_t cm_id_comm_id(const struct cm_id *id);
uint32_t cm_id_remote_qpn(const struct cm_id *id);

/*
 * An address as who listens there names it. A link-local one is another on each interface, whose
 * index (scope_id) stands in four of the bytes that are 0 in such addresses (RFC 4291 2.5.6).
 */
static inline struct gid cm_listen_address(const struct gid *address, uint32_t scope_id)
{
    struct gid g = *address;

    if (gid_is_link_local(address))
        store_be32(g.bytes + 4, scope_id);
    return g;
}

/*
 * Answers for a service ID, at one local address (cm_listen_address) or (NULL) at all. backlog: how
 * many requests may wait for cm_accept or cm_reject; more are ignored until
 * then, and repeat. A request goes to who listens most closely (gid_listen_rank).
 * -EADDRINUSE: somebody does already.
 */
int cm_listen(struct cm_id *id, uint64_t service_id, const struct gid *local, uint32_t backlog);

/* The caller's private data; what is missing to the message's length is zero. */
struct cm_bytes {
    const void *data;
    size_t len;
};

struct cm_connect {
    struct path path; /* flow_label goes into the REQ too, and so into both source ports */
    uint64_t service_id;
    uint64_t ca_guid; /* of the device */
    uint32_t qpn;
    uint32_t starting_psn;
    enum cm_transport transport;
    uint8_t extended_transport;
    uint8_t responder_resources;
    uint8_t initiator_depth;
    uint8_t flow_control;
    uint8_t retry_count;
    uint8_t rnr_retry_count;
    uint8_t srq;
    uint8_t path_mtu; /* 1: 256 ... 5: 4096 */
    uint8_t ack_timeout;
    struct cm_bytes private_data; /* with the IP header, if any; at most 92 bytes */
};

/* Sends a REQ. REPLY, REJECTED or UNREACHABLE follows. -EMSGSIZE: too much private data. */
int cm_connect(struct cm_id *id, const struct cm_connect *connect, uint64_t now);

struct cm_accept {
    uint64_t ca_guid;
    uint32_t qpn;
    uint32_t starting_psn;
    uint32_t qkey;
    uint8_t responder_resources;
    uint8_t initiator_depth;
    uint8_t target_ack_delay;
    uint8_t flow_control;
    uint8_t rnr_retry_count;
    uint8_t srq;
    struct cm_bytes private_data; /* at most 196 bytes */
};

/* Sends a REP. ESTABLISHED, REJECTED or UNREACHABLE follows. */
int cm_accept(struct cm_id *id, const struct cm_accept *accept, uint64_t now);

/* Sends a REJ, as long as the connection is not established. info: at most 72 bytes, private data
 * at most 148. */
int cm_reject(struct cm_id *id, enum cm_reason reason, struct cm_bytes info,
              struct cm_bytes private_data, uint64_t now);

/* Sends the RTU, after REPLY. The connection is established at once. */
int cm_establish(struct cm_id *id, struct cm_bytes private_data, uint64_t now);

/*
 * The peer's first packet overtook its RTU: the connection is established (IBA 12.9.6). -EISCONN:
 * it is already; -EINVAL: no answer of ours waits for an RTU.
 */
int cm_note_traffic(struct cm_id *id, uint64_t now);

/* Sends a DREQ. DISCONNECTED follows, whatever the peer does. Data at most 220 bytes. */
int cm_disconnect(struct cm_id *id, struct cm_bytes private_data, uint64_t now);

/* Asks for the QPN of a datagram service. DATAGRAM_REPLY or UNREACHABLE follows. */
int cm_resolve(struct cm_id *id, const struct path *path, uint64_t service_id,
               struct cm_bytes private_data, uint64_t now);

/* Answers DATAGRAM_REQUEST. The ID is over then. Data at most 136 bytes. */
int cm_resolve_reply(struct cm_id *id, enum cm_sidr_status status, uint32_t qpn, uint32_t qkey,
                     struct cm_bytes private_data, uint64_t now);

enum cm_event_type {
    CM_EVENT_REQUEST, /* to a listener: id is new and the caller's; its user is the listener's */
    CM_EVENT_REPLY,
    CM_EVENT_ESTABLISHED,
    CM_EVENT_REJECTED,    /* message is the REJ */
    CM_EVENT_UNREACHABLE, /* no answer in time; no message */
    CM_EVENT_DISCONNECTED,
    CM_EVENT_TIMEWAIT_OVER, /* QPN and PSN may be used anew */
    CM_EVENT_DATAGRAM_REQUEST,
    CM_EVENT_DATAGRAM_REPLY,
};

struct cm_event {
    enum cm_event_type type;
    struct cm_id *id;
    struct cm_id *listener; /* of REQUEST and DATAGRAM_REQUEST */
    bool has_message;
    struct cm_message message; /* that the event came of, if has_message */
};

/* Takes the oldest event. Returns false when there is none. */
bool cm_event_next(struct cm *cm, struct cm_event *out);

/* A datagram to QP1 in, ICRC verified. Whatever it holds, it does no harm; refusals are counted. */
void cm_receive(struct cm *cm, const struct datagram *d, uint64_t now);

/*
 * Who a datagram to QP1 is for, of the processes that share the port: true with
 * *slot set if the answer is in it, that is a communication ID of ours or of another's. False with
 * *service_id set for a request: who listens there. False with *service_id 0: nobody's.
 */
bool cm_slot_of(const struct datagram *d, uint8_t *slot, uint64_t *service_id);

/* Fills b with one datagram, if one is to leave. Returns their number. */
uint32_t cm_transmit(struct cm *cm, struct datagram_batch *b);
bool cm_wants_transmit(const struct cm *cm);

/* When cm_advance must be called next, or CM_NEVER. */
uint64_t cm_deadline(const struct cm *cm);
void cm_advance(struct cm *cm, uint64_t now);

/* name, sentence */
#define CM_COUNTERS(C)                                                                             \
    C(received, "management datagrams handed in")                                                  \
    C(sent, "management datagrams handed out")                                                     \
    C(malformed, "datagrams to QP1 that are no management datagrams")                              \
    C(wrong_key, "datagrams to QP1 with a wrong P_Key or Q_Key")                                   \
    C(unknown_class, "management datagrams of another class, version or method than the CM's")     \
    C(unknown_message, "CM messages of an unknown attribute")                                      \
    C(unknown_id, "CM messages for a communication ID that does not exist")                        \
    C(wrong_source, "CM messages for a connection from another address than its peer's")           \
    C(wrong_state, "CM messages that do not fit the state of their connection")                    \
    C(duplicates, "CM messages that had come before")                                              \
    C(unsupported, "requests for a transport service or a path MTU that does not exist")           \
    C(no_listener, "requests for a service ID on which nobody listens")                            \
    C(backlog_full, "requests that found the listener's backlog full")                             \
    C(ids_exhausted, "requests that found no room for one more connection")                        \
    C(replies_dropped, "answers that were not sent because too many waited")                       \
    C(repeats, "messages sent again because no answer had come")                                   \
    C(reminders, "messages sent again to hear whether the peer still knows the connection")        \
    C(gave_up, "messages that were never answered")                                                \
    C(stale, "requests and replies of a queue pair that is in another connection, which ended")

struct cm_counters {
#define CM_COUNTER_FIELD(name, text) uint64_t name;
    CM_COUNTERS(CM_COUNTER_FIELD)
#undef CM_COUNTER_FIELD
};

const struct cm_counters *cm_counters(const struct cm *cm);

/* IDs that exist, timewait included: what a leak would show in. */
uint32_t cm_id_count(const struct cm *cm);

#endif
