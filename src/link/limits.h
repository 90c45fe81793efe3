/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every bound of the link layer, with where its value comes from.
 */
#ifndef UROCE_LINK_LIMITS_H
#define UROCE_LINK_LIMITS_H

/* Slots: the high byte of a QPN. 0 is QP1 and belongs to all, 255 is in the multicast QPN. */
#define SLOT_QP1 0u
#define SLOT_FIRST 1u
#define SLOT_LAST 254u
#define SLOT_MULTICAST 255u
#define SLOT_COUNT 256u
#define SERVICES_MAX 1024u          /* listeners of all processes of a group */
#define SERVICES_OF_GUEST_MAX 64u   /* of them */
#define SERVICES_OF_GUESTS_MAX 512u /* of all guests */

/*
 * Sockets are made this many slots at a time: enough for most hosts at once,
 * and a third of what a user with the usual 1024 descriptors may have in flight.
 */
#define SLOTS_AT_ONCE 64u

/* Names that a group tries, in case another user sits on the first ones. */
#define GROUP_NAMES 4u

/*
 * Guests: processes of other users. A member serves so many with three descriptors each; a
 * user, and all together, leave slots for the others.
 */
#define GUESTS_MAX 128u
#define GUESTS_PER_USER 64u
#define GUESTS_IN_GROUP 160u
#define VISITORS_WAITING 16u       /* connected, and have not said yet what they want */
#define ORPHAN_MS 3000u            /* a guest finds another member within milliseconds */
#define SETTLE_MS 3000u            /* and all guests of a group that ended do, too */
#define GUEST_BUFFER (4 << 20)     /* bytes asked for, on the way to a guest */
#define GUEST_BUFFER_LEAST 212992u /* the usual default, where nobody says */
#define GUEST_PAUSE_MIN_MS 1u      /* between two attempts to find a host, doubled each time */
#define GUEST_PAUSE_MAX_MS 128u
#define GUEST_PAUSE_LOST_MS 1000u /* when another process has the slot */

/*
 * Multicast: each group is a socket, for as long as somebody is in it. A process has as many of its
 * own as the engine has groups, and as many for its guests.
 */
#define MULTICAST_SOCKETS_MAX 512u
#define MULTICAST_OF_GUEST_MAX 32u
#define MULTICAST_OF_GUESTS_MAX 256u /* their groups in all; the rest is its own */

#define JOIN_TIMEOUT_MS 10000u  /* 64 processes start at once on two busy cores in about 0.3 s */
#define ANSWER_TIMEOUT_MS 1000u /* a member that stopped in the middle of its answer */
#define PORT_TIMEOUT_MS 2000u   /* the end of an earlier group, whose processes just died */
#define JOIN_PAUSE_US 2000u
#define LISTEN_BACKLOG 512
#define SERVE_AT_ONCE 16u
#define TAKE_ATTEMPTS 100000u /* each lost to another process that took its sockets meanwhile */

#define DRAIN_DATAGRAMS_MAX                                                                        \
    16384u /* on adoption: as many as an unread buffer can hold, and more                          \
            */

#define SEND_SOCKETS_DEFAULT 16u
#define SEND_SOCKETS_MAX 64u
#define SEND_PORT_FIRST 0xc000u /* RoCEv2 annex: the dynamic range */
#define SEND_PORT_COUNT 0x4000u
#define SEND_PORT_ATTEMPTS 1024u
#define SEND_BUFFER (1 << 20) /* bytes asked for: some batches of 64 KiB */
#define SEND_SLOT_CLASSES 8u  /* destination slots that a pool keeps on separate sockets */
#define SEND_SEGMENTS_MAX 64u /* Linux before 6.9 takes no more in one UDP_SEGMENT send */
#define SEND_ASTRAY_MAX 16u   /* sends in a row elsewhere that have a socket follow */
#define SEND_ERRORS_MAX 64u   /* ICMP errors read in one go */

#define RECEIVE_AT_ONCE 8u     /* messages of up to 64 KiB a call */
#define RECEIVE_LEN_MAX 65536u /* a UDP_GRO super-packet */

#define DATAGRAM_LEN_MAX 4224u /* PMTU 4096 and all headers */

#define FINISH_DATAGRAMS 1024u /* handed on from each socket before the process ends */

/*
 * Parcels for other processes, of 64 KiB each: together what four senders of this host let be on
 * its way to a process. One that finds no room is offered again so much later.
 */
#define PARCELS_MAX 32u
#define PARCEL_RETRY_MIN_NS 100000u
#define PARCEL_RETRY_MAX_NS 5000000u

#define LOOK_CALLS 16u /* that bring something between two looks at the other sockets */

#define PEERS_SETS 128u
#define PEERS_WAYS 4u

/*
 * Identifications that pass at once: a random one, which damage would make
 * plausible, does so in 193 of 65536 cases.
 */
#define ID_OWN_MAX 128u  /* Linux numbers the segments of a send from 0 */
#define ID_AHEAD_MAX 64u /* packets that a peer sends elsewhere between two to us */

#define ROUTE_ANSWERS 64u
#define ROUTE_ANSWER_NS 1000000000ull /* how old the answer to "is this address ours" may be */
#define LOCAL_STALL_NS 1000000000ull  /* a receiver that reads nothing for so long is gone */

/* Faults: packets that can be held back in each direction: 10 ms of 10 Gbit/s. */
#define FAULT_HELD_MAX 4096u
/* How long a reordered packet waits for others: well below any retransmission time-out. */
#define FAULT_REORDER_WAIT_NS 1000000u
/*
 * What is wrong with the ICRC of a datagram sent damaged: for no length does it look like another
 * identification.
 */
#define FAULT_ICRC_DAMAGE 0xa5a5a5a5u
#define FAULT_RETRY_NS 50000u /* a held packet that the kernel did not take */

#endif
