/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who a script is played against: a peer on the wire, and the application
 * above it. Two kinds: an engine of ours in simulated time (engine.c), and any
 * peer on the network with a small program on it that obeys (remote.c).
 *
 * The numbers of states, statuses, events and rights are those of the verbs
 * interface, as the engine's are.
 */
#ifndef UROCE_SCRIPT_SUBJECT_H
#define UROCE_SCRIPT_SUBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/cq.h"
#include "engine/qp.h"
#include "script/script.h"
#include "wire/opcode.h"

#define SUBJECT_DATAGRAM_MAX 8192u
/* The first queue pair that scripts play. */
#define SUBJECT_PEER_QPN 0x030011u

struct setup_region {
    uint32_t len;
    uint32_t access;
    bool foreign; /* of another protection domain than the queue pair's */
};

/* What the application is to set up. */
struct setup {
    enum service service;
    struct qp_attr attr; /* but for the path */
    uint32_t send_wr_max;
    uint32_t recv_wr_max;
    bool with_srq;
    struct setup_region regions[SCRIPT_REGIONS_MAX];
    uint32_t region_count;
    uint8_t windows[SCRIPT_WINDOWS_MAX]; /* enum mw_type */
    uint32_t window_count;
};

/* What it offers then. */
struct offer {
    uint32_t qpn;
    struct {
        uint64_t va;
        uint32_t lkey;
        uint32_t rkey;
    } regions[SCRIPT_REGIONS_MAX];
    uint32_t window_rkeys[SCRIPT_WINDOWS_MAX];
};

/* A work request. */
struct post {
    bool recv;
    enum wr_opcode opcode;
    uint32_t flags; /* enum wr_flag_set */
    uint64_t id;
    uint64_t va; /* of this side, 0 bytes: none */
    uint32_t len;
    uint32_t lkey;
    uint64_t remote_va;
    uint32_t rkey;
    uint32_t imm; /* or the key to invalidate */
    uint64_t compare;
    uint64_t swap; /* or what to add */
    uint32_t flush_len;
    uint32_t flush_placement;
    uint32_t flush_selectivity;
    uint32_t window; /* bind: its index */
    uint32_t window_key;
    uint32_t region_key;
    uint32_t window_access;
    uint32_t remote_qpn; /* UD */
    uint32_t remote_qkey;
};

/* A UDP payload on its way, and what is around it. */
struct wire_packet {
    uint8_t bytes[SUBJECT_DATAGRAM_MAX];
    size_t len;        /* BTH to ICRC */
    uint64_t at_ns;    /* when it was sent or came */
    bool bad_icrc;     /* to leave with a wrong one, or came with it */
    bool other_source; /* to leave from another address than the peer's */
    uint8_t ecn;
};

/* All return 0 or a negative errno unless they say otherwise. */
struct subject_ops {
    int (*open)(struct subject *s, const struct setup *setup, struct offer *out);
    void (*close)(struct subject *s);
    /* the wire */
    uint64_t (*now)(struct subject *s);
    int (*send)(struct subject *s, struct wire_packet *p);
    /* The next packet that it sends until a time: 1 with *out, or 0 at that time. */
    int (*receive)(struct subject *s, uint64_t until_ns, struct wire_packet *out);
    /* Lets time pass until then; what it sends meanwhile waits. */
    int (*wait)(struct subject *s, uint64_t until_ns);
    /* the application */
    int (*post)(struct subject *s, const struct post *post);
    int (*poll)(struct subject *s, struct completion *out); /* 1, or 0: there is none */
    int (*event)(struct subject *s, uint32_t *type);        /* 1, or 0: there is none */
    int (*state)(struct subject *s, uint32_t *state);
    int (*modify)(struct subject *s, uint32_t state);
    int (*write)(struct subject *s, uint32_t region, uint32_t offset, const uint8_t *bytes,
                 uint32_t len);
    int (*read)(struct subject *s, uint32_t region, uint32_t offset, uint8_t *bytes, uint32_t len);
};

struct subject {
    const struct subject_ops *ops;
    const char *name;
    /* Where time is real, not simulated (then both are 0): how much longer than a script says
     * things may take, and how long is looked for what is not to happen. */
    uint64_t patience_ns;
    uint64_t settle_ns;
    uint32_t peer_qpn; /* that the script plays now; attr.dest_qpn of the setup is not looked at */
    char error[SCRIPT_ERROR_SIZE]; /* why the last call failed, if it could say */
};

/* An engine in simulated time. Owned by the caller; NULL without memory. */
struct subject *engine_subject_new(void);
void engine_subject_free(struct subject *s);

/*
 * A peer on the network, by the responder on it; port: its TCP port. Packets are sent and received
 * on UDP port 4791 of this host, which must be free. NULL with one line in error.
 */
struct subject *remote_subject_new(const char *host, const char *port,
                                   char error[SCRIPT_ERROR_SIZE]);
void remote_subject_free(struct subject *s);

#endif
