/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Processes with a link for tests to command. A member opens a link, tells
 * of each datagram that it receives, and does what it is asked; all in a network
 * namespace that the test made. Waiting is bounded and ends the test with a
 * word about what did not come.
 */
#ifndef UROCE_TESTS_LINK_MEMBER_H
#define UROCE_TESTS_LINK_MEMBER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "link/udp.h"

#define MEMBER_DATAGRAMS_MAX 4096u

/* A datagram as a member saw it. */
struct seen {
    struct gid src;
    struct gid dst;
    uint32_t len;
    uint16_t src_port;
    uint8_t traffic_class;
    uint8_t hop_limit;
    uint8_t slot;
    uint8_t mark; /* byte 12, which batch_of fills */
};

struct member {
    pid_t pid;
    int control;
    /* told when it opened */
    int err;
    uint8_t slot;
    uint32_t receive_buffer;
    uint64_t inbox;
    char sentence[UDP_ERROR_LEN];
    /* told since */
    uint32_t seen_count;
    struct seen seen[MEMBER_DATAGRAMS_MAX];
};

/* A batch to send: count datagrams, all of len but the last; mark in each. */
struct shipment {
    struct path path;
    uint8_t slot;
    uint8_t mark;
    uint16_t src_port;
    uint32_t count;
    uint32_t len;
    uint32_t last_len; /* 0: len */
};

/* Makes a network namespace with lo up for this process; ends the test program as skipped where
 * that is forbidden. */
void namespace_make(void);

/* The MTU of its lo. */
void namespace_set_mtu(int mtu);

/* Starts a process, as user uid (0: whoever we are); wait for it with member_opened. */
void member_begin(struct member *m, const struct udp_config *config, unsigned uid);
void member_opened(struct member *m);
/* Both, and it must succeed. */
void member_start(struct member *m, const struct udp_config *config);

/* Returns what link_send returned. */
int member_send(struct member *m, const struct shipment *s);
struct link_counters member_counters(struct member *m);
bool member_delivers_whole(struct member *m, const struct path *path, uint8_t slot);
uint32_t member_room(struct member *m, const struct gid *dst, uint8_t slot);
/* The first half of a send: it takes so much kernel memory of the slot's room, as one does that is
 * stopped before the kernel has its datagrams. */
void member_charge(struct member *m, uint8_t slot, uint32_t len);
/* The other half, as of one that goes on; what it sent is lost. */
void member_sent(struct member *m, uint8_t slot, uint32_t len);
/* As link_listen, link_unlisten, link_listener. */
int member_listen(struct member *m, uint64_t service_id, const struct gid *local);
void member_unlisten(struct member *m, uint64_t service_id, const struct gid *local);
uint8_t member_listener(struct member *m, uint64_t service_id, const struct gid *local);
/* As link_join, link_leave. */
int member_join(struct member *m, const struct multicast *group);
void member_leave(struct member *m, const struct multicast *group);
uint32_t member_buffer(struct member *m, const struct gid *dst, uint8_t slot);
/* The member does not touch its link till member_wake. */
void member_sleep(struct member *m);
void member_wake(struct member *m);
/* It forks; the child abandons the link, opens one of its own, closes it and ends. Returns the
 * child's slot or a negative errno. */
int member_fork(struct member *m);
/* It forks a child that does nothing but live. Returns its pid. */
pid_t member_fork_idle(struct member *m);
/* Waits till it has seen so many datagrams in all. */
void member_await(struct member *m, uint32_t count);

/* It opens descriptors until it may open no more; 1024 at most, which it sets as its limit. */
void member_use_up_descriptors(struct member *m);

/* Ends it by link_close and exit, which must be clean; or by SIGKILL. */
void member_close(struct member *m);
void member_kill(struct member *m);

struct gid gid_ipv4(uint32_t address);
struct gid gid_ipv6_loopback(void);
struct path path_loopback4(void);
struct path path_loopback6(void);

/* Writes the bytes of one datagram: a BTH to a QPN with this slot, mark, no ICRC. */
void fill_datagram(uint8_t *bytes, uint32_t len, uint8_t slot, uint8_t mark);

/* A plain socket on lo and its port, to send from what no link would. */
int plain_socket(int domain, uint16_t *port);

#endif
