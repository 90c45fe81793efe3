/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of cm/ share. An ID is in the table of communication IDs for
 * as long as it exists, in that of peers once the peer's ID is known, and on the
 * list of those that wait while a timer runs.
 */
#ifndef UROCE_CM_CM_PRIVATE_H
#define UROCE_CM_CM_PRIVATE_H

#define HASH_NONFATAL_OOM 1 /* an element that found no memory has no table */
#include <uthash.h>

#include "base/list.h"
#include "base/random.h"
#include "cm/cm.h"

#define CM_RESPONSE_TIMEOUT 20u /* 4.3 s, as Linux says; for the peer to know */
#define CM_RETRIES 15u
#define CM_RESPONSE_TIMEOUT_LEAST 14u /* 67 ms: what a peer's REQ may ask of us */
#define CM_RESPONSE_TIMEOUT_MOST 22u  /* 17 s */
#define CM_SERVICE_TIMEOUT 21u        /* 8.6 s: how long we let a peer wait at a time */
#define CM_ACKNOWLEDGEMENTS 15u       /* how often a peer may ask us to wait */
#define CM_REPEAT_FIRST_NS 200000000u
#define CM_ASK_AGAIN_NS 10000000u /* when nobody listened */
#define CM_REMIND_NS UINT64_C(5000000000)
#define CM_REMIND_GRID_NS UINT64_C(1000000000) /* of all connections at once */
#define CM_TIMEWAIT_NS 1000000000u
#define CM_ANSWERED_NS UINT64_C(5000000000) /* some of our repeats; Linux's first, after 4.6 s */
#define CM_REPLIES 256u                     /* answers that wait for cm_transmit; a power of two */

/* A peer's communication ID is its own only with its address. */
struct cm_peer_key {
    struct gid gid;
    uint32_t comm_id;
    uint32_t sidr; /* request IDs of SIDR are numbers of their own */
};

/* A peer's queue pair is in one connection at a time. */
struct cm_qp_key {
    struct gid gid;
    uint32_t qpn;
};

struct cm_id {
    struct cm *cm;
    void *user;
    enum cm_state state;
    bool orphan; /* freed by the caller; there until its timer ends */

    uint32_t comm_id;
    struct cm_peer_key peer;
    struct cm_qp_key remote; /* in cm->qps while has_qp */
    uint32_t qpn;
    struct path path;
    uint64_t transaction_id;
    UT_hash_handle by_comm_id;
    UT_hash_handle by_peer;
    UT_hash_handle by_qp;
    bool has_peer;
    bool has_qp;

    uint64_t answer_ns;       /* what the REQ gives for an answer */
    uint8_t retries;          /* and how often it is asked for again */
    uint8_t acknowledgements; /* MRAs of the peer that were heeded */
    bool peer_waits;          /* for as long as our MRA says */

    uint64_t patience_ns;
    uint64_t patient_until_ns; /* with a service on which nobody listens */

    /* listener */
    uint64_t service_id;
    struct gid local; /* zeroes: any */
    uint32_t backlog;
    uint32_t waiting; /* children that the caller has yet to answer */
    UT_hash_handle by_service;
    struct cm_id *next_service; /* of the same service ID at another address */
    struct cm_id *listener;     /* of a child that is not answered yet */
    bool taken;                 /* the caller has the event that told of this child */

    /* the message that is repeated */
    bool said_drep; /* it is a DREP, said again when it is asked for again */
    uint8_t mad[MAD_LEN];
    uint64_t due_ns; /* repeat, or the end of timewait */
    uint64_t repeat_ns;
    uint64_t give_up_ns;
    struct list timer; /* in cm->timers */
    struct list ready; /* in cm->ready */
};

struct cm_reply {
    struct path path;
    uint8_t mad[MAD_LEN];
};

struct cm_event_node {
    struct list link;
    struct cm_event event;
};

struct cm {
    struct cm_config config;
    struct random random;
    struct cm_id *ids;      /* by_comm_id */
    struct cm_id *peers;    /* by_peer */
    struct cm_id *qps;      /* by_qp: of those who have a connection, or are about to */
    struct cm_id *services; /* by_service */
    uint32_t id_count;
    uint32_t psn;
    struct list timers;
    uint64_t
        deadline_ns; /* no later than the earliest of them; those that stop leave it as it is */
    struct list ready;
    struct list events;
    struct cm_reply replies[CM_REPLIES];
    uint32_t replies_head; /* next to leave; counts on */
    uint32_t replies_tail;
    struct cm_counters counters;
};

/* 4.096 us times 2 to the code (IBA 12.7.34). */
static inline uint64_t cm_code_ns(uint8_t code)
{
    return UINT64_C(4096) << (code & 31u);
}

/* id.c */
struct cm_id *cm_find(struct cm *cm, uint32_t comm_id);
struct cm_id *cm_find_peer(struct cm *cm, const struct cm_peer_key *key);
struct cm_id *cm_find_listener(struct cm *cm, uint64_t service_id, const struct gid *local);
/* Sets has_peer; not without memory, nor when another ID has that peer. */
void cm_set_peer(struct cm_id *id, const struct gid *gid, uint32_t comm_id, bool sidr);
/* As above, for the peer's queue pair: until the connection ends. */
struct cm_id *cm_find_qp(struct cm *cm, const struct cm_qp_key *key);
void cm_set_qp(struct cm_id *id, const struct gid *gid, uint32_t qpn);
void cm_forget_qp(struct cm_id *id);
void cm_id_answered(struct cm_id *id); /* makes room in the listener's backlog */
void cm_id_release(struct cm_id *id);  /* out of all tables, memory freed */

/* Queues an event; without memory it is lost, as if the datagram were. */
bool cm_raise(struct cm_id *id, enum cm_event_type type, const struct cm_message *message,
              struct cm_id *listener);

/* send.c */
/* Sends and repeats until cm_stop or the patience that the REQ's fields give ends. */
void cm_send(struct cm_id *id, const struct cm_message *message, uint64_t now);
void cm_send_again(struct cm_id *id);
void cm_stop(struct cm_id *id);
/* Sends once; the bytes of a MAD too, of another class than ours. */
void cm_reply(struct cm *cm, const struct path *path, const struct cm_message *message);
void cm_reply_mad(struct cm *cm, const struct path *path, const uint8_t mad[MAD_LEN]);
/* Nobody listens on the service: asks again soon, unless patience is over. */
bool cm_ask_again(struct cm_id *id, uint64_t now);
/* Arms the timer of an ID without a message. */
void cm_wait(struct cm_id *id, uint64_t until_ns);
/*
 * From now on the last word of the handshake is said again now and then. Its peer takes that for a
 * repeat; when the peer's process was killed, another of its host refuses it.
 */
void cm_enter_established(struct cm_id *id, uint64_t now);
void cm_enter_timewait(struct cm_id *id, uint64_t now);
/* Sends a last word, which is said again for a while if it is asked for again. */
void cm_answer(struct cm_id *id, const struct cm_message *message, uint64_t now);
/* Nothing more comes; an orphan is freed. */
void cm_enter_over(struct cm_id *id);

/* connect.c */
/* A REJ in answer to the REQ or REP that the ID has. */
void cm_refuse(struct cm_id *id, enum cm_reason reason, struct cm_bytes info,
               struct cm_bytes private_data, uint64_t now);
/* A REJ that ends what awaits an answer itself. */
void cm_send_reject(struct cm_id *id, enum cm_reason reason);
/* Lets the peer wait, whose message has come again before the caller answered it. */
void cm_send_mra(struct cm_id *id);
/* Answers a DREQ: of a connection, which is in timewait then; or of what does not exist. */
void cm_end_with_drep(struct cm_id *id, const struct cm_message *dreq, uint64_t now);
void cm_send_drep(struct cm *cm, const struct path *path, const struct cm_message *dreq);

#endif
