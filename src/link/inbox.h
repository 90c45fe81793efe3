/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Datagrams that reached the wrong process of a group, on their way to the
 * right one: over a Unix datagram socket of each process, with the addressing
 * in front of the bytes. Only processes of the same user are believed. The kernel
 * names the socket (a short abstract name); the group's memory says which is whose.
 */
#ifndef UROCE_LINK_INBOX_H
#define UROCE_LINK_INBOX_H

#include <stddef.h>
#include <stdint.h>

#include "link/group.h"
#include "wire/datagram.h"

/*
 * What a socket said of the bytes; in front of them on the way between processes. A message holds
 * one or more of these pairs, back to back.
 */
struct arrival {
    struct gid src;
    struct gid dst;
    uint32_t scope_id;    /* the interface */
    uint32_t len;         /* of the bytes that follow */
    uint16_t segment_len; /* of all but the last datagram in them; 0: they are one */
    uint16_t src_port;
    uint8_t traffic_class;
    uint8_t hop_limit;
    uint8_t on_loopback; /* 1: came from this host */
    uint8_t spare;
};

static_assert(sizeof(struct arrival) == 48, "no padding leaves the process");

/* Checks the first pair in len bytes of a message: *a and what follows it. Returns its length, or 0
 * if it is not well formed. */
size_t arrival_read(const uint8_t *message, size_t len, struct arrival *a);

/* Makes the socket; *name is for struct shared_slot. Returns it or a negative errno. */
int inbox_open(uint64_t *name);

/* Whether the user who wrote to an inbox is one whose processes the group believes. */
bool inbox_believes(const struct group *g, unsigned uid);

enum handed {
    HANDED_OVER,
    HANDED_TO_NOBODY, /* the slot has no owner */
    HANDED_FULL,      /* its owner's inbox is full */
};

/* Hands a message to the owner of a slot, from one's own inbox. */
enum handed inbox_hand_over(int inbox, const struct group *g, uint8_t slot, const uint8_t *message,
                            size_t len);

#endif
