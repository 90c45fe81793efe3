/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory that all processes of a group map. Every field is written by
 * processes of one user only; what is read here is still never trusted further
 * than its range. A process that was killed leaves its record as it was until
 * the next owner of the slot writes it afresh.
 *
 * Byte n of the same file, as a POSIX lock, is the lease of slot n; byte
 * SLOT_COUNT is the right to add slots. The kernel frees them with the process.
 */
#ifndef UROCE_LINK_SHARED_H
#define UROCE_LINK_SHARED_H

#include <assert.h>
#include <stdatomic.h>
#include <stdint.h>

#include "link/limits.h"

#define SHARED_VERSION 7u /* of everything that processes of a group exchange */

/* Room in a receiver's socket, in bytes of kernel memory: budget - (charged - consumed). */
struct shared_slot {
    _Alignas(
        64) _Atomic uint64_t charged; /* added by whoever sends from this host, before it sends */
    _Atomic uint64_t sent; /* of that, what the kernel has: added by who sent; see give_back */
    _Alignas(64) _Atomic uint64_t consumed; /* written by the owner as it reads */
    _Atomic uint64_t inbox;                 /* name of the owner's inbox (inbox.h), 0: none */
    _Atomic uint32_t budget;                /* 0: unknown, no limit */
    _Atomic uint32_t whole;                 /* 1: a batch of this host reaches it as one message */
    /* Of a guest's slot, written by the member that serves it (udp_host.c). */
    _Atomic uint32_t guest_uid;
    _Atomic uint64_t guest;       /* the number that the guest knows its slot by; 0: no guest's */
    _Atomic uint64_t orphaned_ms; /* when the lease of a guest was first seen free; 0: it was not */
};

/* See services.h. */
struct shared_service {
    _Atomic uint64_t owner; /* slot, and name of the inbox of the process that has it; 0: free */
    _Atomic uint64_t service_id; /* 0: not published */
    _Atomic uint64_t local[2];   /* the bytes of a struct gid (cm_listen_address) */
};

struct shared {
    /* Bits per enum family, written by the creator only. */
    uint32_t families; /* those that this kernel has */
    uint32_t by_slot;  /* those whose sockets the kernel chooses by slot: they are parked */
    /* Written by any member. */
    _Atomic uint32_t no_guests; /* 1: some member wants no guests */
    _Atomic uint64_t
        settling_until_ms; /* till then those who ask for a slot of before come first */
    struct shared_slot slots[SLOT_COUNT];
    struct shared_service services[SERVICES_MAX];
};

static_assert(sizeof(struct shared_slot) == 128, "one cache line for senders, one for the owner");

#endif
