/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A link moves RoCEv2 datagrams: sends a batch, receives a batch, gives
 * descriptors to wait on. It writes and verifies ICRCs; it knows nothing of
 * queue pairs beyond the slot byte of the QPN. One owner at a time (the node's
 * lock), but for link_descriptors, which any thread may wait on.
 */
#ifndef UROCE_LINK_LINK_H
#define UROCE_LINK_LINK_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/datagram.h"

struct link;

#define LINK_DESCRIPTORS_MAX 8

/* name, sentence */
#define LINK_COUNTERS(C)                                                                           \
    C(rcv_datagrams, "datagrams read from the sockets")                                            \
    C(rcv_bytes, "their bytes")                                                                    \
    C(rcv_calls, "receive calls that brought something")                                           \
    C(sent_datagrams, "datagrams handed to the kernel")                                            \
    C(sent_bytes, "their bytes")                                                                   \
    C(sent_calls, "send calls")                                                                    \
    C(icrc_error, "datagrams dropped for a wrong ICRC")                                            \
    C(address_rewritten, "of them, those whose ICRC is right for another address: there is a NAT") \
    C(icrc_id_jump, "datagrams whose identification fits no history of their source")              \
    C(too_short, "datagrams shorter than a BTH and an ICRC")                                       \
    C(truncated, "datagrams longer than the receive buffer")                                       \
    C(no_address, "datagrams without a destination address from the kernel")                       \
    C(broadcast, "datagrams to a broadcast address, of which each socket on the port gets a copy") \
    C(wrong_slot_segments, "datagrams for another process, handed to it")                          \
    C(stray_dropped, "datagrams for a slot that nobody holds")                                     \
    C(hand_over_full, "datagrams for another process that did not read them for too long")         \
    C(handed_over, "datagrams of ours that another process handed to us")                          \
    C(guests, "processes of other users that this one has served as guests")                       \
    C(guests_refused, "others that were turned away")                                              \
    C(guest_datagrams, "datagrams passed on to guests")                                            \
    C(guest_full, "datagrams for a guest that did not read them fast enough")                      \
    C(newcomers_pinched, "newcomers answered though this process may open no more descriptors")    \
    C(host_lost, "times that the process of another user that passed us our datagrams went away")  \
    C(host_found, "times that another took its place, or this one the port")                       \
    C(slot_lost, "attempts to go on after that which found our slot taken")                        \
    C(inbox_refused, "messages in our inbox that no process of ours can have sent")                \
    C(mcast_other_interface, "multicast datagrams of an interface whose group nobody here joined") \
    C(mcast_lost, "multicast groups that could not be joined again after the host went away")      \
    C(socket_overflow, "datagrams that the kernel dropped because the receive buffer was full")    \
    C(send_would_block, "sends that waited because the kernel's buffer was full")                  \
    C(send_refused, "sends answered by an ICMP error (nobody listens there)")                      \
    C(send_unreachable, "sends refused by routing or a missing source address")                    \
    C(send_too_big, "sends larger than the path's MTU")                                            \
    C(send_failed, "sends that failed otherwise")                                                  \
    C(gso_refused, "batches that had to leave one by one")                                         \
    C(raw_header, "raw frames with an IP version, flag, option, protocol or port RoCE has not")    \
    C(raw_length, "raw frames whose lengths disagree with each other or with what came")           \
    C(raw_checksum, "raw frames with a wrong IPv4 or UDP checksum")                                \
    C(raw_fragment, "raw frames that are fragments, or that may be fragmented")                    \
    C(raw_hop_limit, "raw frames with a hop limit of 0")                                           \
    C(raw_address, "raw frames not to an address of ours, or from one that nobody else has")       \
    C(raw_giant, "raw frames of several datagrams that the kernel does not say how to cut")        \
    C(raw_twice, "datagrams that another process handed over though they came as raw frames")

struct link_counters {
#define LINK_COUNTER_FIELD(name, text) uint64_t name;
    LINK_COUNTERS(LINK_COUNTER_FIELD)
#undef LINK_COUNTER_FIELD
};

/*
 * Called for each good datagram; d and its bytes are borrowed till it returns. It
 * must not call the link, link_listener and link_pass excepted.
 */
typedef void (*link_receive_fn)(void *context, const struct datagram *d);

/* A datagram as it is on the wire: what a socket does not show included. */
struct link_frame {
    struct datagram datagram;
    uint16_t identification; /* IPv4; 0 when damage hides it */
    bool sent;               /* else received */
};

/*
 * Sees what a link has sent, and what came for this process, whether its ICRC is good or not.
 * The frame is borrowed till it returns; it must not call the link.
 */
struct link_tap {
    void (*see)(struct link_tap *tap, const struct link_frame *frame);
};

struct link_ops {
    /*
     * Sends what the batch holds, ICRC written into its buffer. 0: all left or was given
     * up and counted (as lost on the wire); -EAGAIN: something is left. Then
     * the next call must bring the same batch again, unchanged, when the descriptor of
     * link_wants_write is writable; the link remembers what of it has left already.
     */
    int (*send)(struct link *link, struct datagram_batch *b);
    /*
     * Reads what is there, at most about budget datagrams, and calls fn for each that is
     * good and ours. Returns how many datagrams were read (good or not): 0 when empty.
     */
    uint32_t (*receive)(struct link *link, uint32_t budget, link_receive_fn fn, void *context);
    /* See link_local_room. NULL: the link knows of no local receivers. */
    uint32_t (*local_room)(struct link *link, const struct gid *dst, uint8_t slot);
    /* See the functions of these names. NULL: this process is alone. */
    int (*listen)(struct link *link, uint64_t service_id, const struct gid *local);
    void (*unlisten)(struct link *link, uint64_t service_id, const struct gid *local);
    uint8_t (*listener)(struct link *link, uint64_t service_id, const struct gid *local);
    bool (*pass)(struct link *link, uint8_t slot, const struct datagram *d);
    /* See link_local_buffer. NULL: the same. */
    uint32_t (*local_buffer)(struct link *link, const struct gid *dst, uint8_t slot);
    /* See link_delivers_whole. NULL: no. */
    bool (*delivers_whole)(struct link *link, const struct path *path, uint8_t slot);
    /* See the functions of these names. NULL: nothing of the kind. */
    int (*join)(struct link *link, const struct multicast *group);
    void (*leave)(struct link *link, const struct multicast *group);
    uint64_t (*deadline)(const struct link *link);
    void (*flush)(struct link *link);
    void (*finish)(struct link *link);
    void (*abandon)(struct link *link);
    void (*close)(struct link *link);
};

struct link {
    const struct link_ops *ops;
    int descriptors[LINK_DESCRIPTORS_MAX]; /* readable when there is something to receive */
    uint32_t descriptor_count;
    int write_descriptor; /* see link_wants_write */
    /*
     * One that what comes next will most likely make readable, or -1. It is readable only when
     * descriptors are, but who sleeps on both wakes sooner: the kernel knows then that the sender
     * is about to sleep, and need not start another core. Read by any thread.
     */
    atomic_int direct_descriptor;
    struct link_counters counters;
    struct link_tap *tap; /* or NULL; set by the owner, borrowed */
};

static inline int link_send(struct link *link, struct datagram_batch *b)
{
    return link->ops->send(link, b);
}

static inline uint32_t link_receive(struct link *link, uint32_t budget, link_receive_fn fn,
                                    void *context)
{
    return link->ops->receive(link, budget, fn, context);
}

/* After a send that returned -EAGAIN: the descriptor that tells by POLLOUT when to go on; else -1.
 */
static inline int link_wants_write(const struct link *link)
{
    return link->write_descriptor;
}

/*
 * How much the next batch to this address and slot may carry (bytes of
 * datagrams) without overrunning the socket of a receiver on this host: a sleeping
 * receiver holds only so much, and UC and UD have no acknowledgement to slow a sender
 * down. UINT32_MAX: no known limit (another host, or nobody there). 0: full; ask again
 * after some 50 us. A receiver that reads nothing for a second counts as gone.
 */
static inline uint32_t link_local_room(struct link *link, const struct gid *dst, uint8_t slot)
{
    return link->ops->local_room ? link->ops->local_room(link, dst, slot) : UINT32_MAX;
}

/*
 * Requests for connections come to QP1, which all processes that share the port read. Notes
 * that this one answers for a service ID at a local address (zeroes: at all). Returns 0,
 * -EADDRINUSE or (with a wildcard) -EADDRNOTAVAIL when another does already, or -ENOSPC.
 */
static inline int link_listen(struct link *link, uint64_t service_id, const struct gid *local)
{
    return link->ops->listen ? link->ops->listen(link, service_id, local) : 0;
}

static inline void link_unlisten(struct link *link, uint64_t service_id, const struct gid *local)
{
    if (link->ops->unlisten)
        link->ops->unlisten(link, service_id, local);
}

/* The slot of the process that does; 0: none. */
static inline uint8_t link_listener(struct link *link, uint64_t service_id, const struct gid *local)
{
    return link->ops->listener ? link->ops->listener(link, service_id, local) : 0;
}

/*
 * Hands a datagram that came to QP1 to the process that it is for. May be called in
 * link_receive_fn. False: there is no such process.
 */
static inline bool link_pass(struct link *link, uint8_t slot, const struct datagram *d)
{
    return link->ops->pass && link->ops->pass(link, slot, d);
}

/*
 * From now on datagrams for this group are received, those that processes of this host send, this
 * one included, as those of others. A group that is joined already stays so. Returns 0 or a
 * negative errno: -ENOMEM when there is no room for more, -ENODEV when the interface is gone.
 */
static inline int link_join(struct link *link, const struct multicast *group)
{
    return link->ops->join ? link->ops->join(link, group) : -EOPNOTSUPP;
}

/* Not any more. */
static inline void link_leave(struct link *link, const struct multicast *group)
{
    if (link->ops->leave)
        link->ops->leave(link, group);
}

/*
 * What a receiver on this host can hold of what is sent to it, in bytes of kernel memory, when all
 * of it is free; link_local_room says what of it is. 0: not known.
 */
static inline uint32_t link_local_buffer(struct link *link, const struct gid *dst, uint8_t slot)
{
    return link->ops->local_buffer ? link->ops->local_buffer(link, dst, slot) : 0;
}

/*
 * Whether a batch to this process will come out of one call of its link_receive, which no other
 * datagram of the batch can then follow.
 */
static inline bool link_delivers_whole(struct link *link, const struct path *path, uint8_t slot)
{
    return link->ops->delivers_whole && link->ops->delivers_whole(link, path, slot);
}

/* When link_receive must be called even if no descriptor is readable (CLOCK_MONOTONIC); UINT64_MAX:
 * never. */
static inline uint64_t link_deadline(const struct link *link)
{
    return link->ops->deadline ? link->ops->deadline(link) : UINT64_MAX;
}

/* Sends at once, in its order, what is held back on purpose. */
static inline void link_flush(struct link *link)
{
    if (link->ops->flush)
        link->ops->flush(link);
}

/*
 * Before the process ends, by exit or link_close: sends what is held back, and hands on what has
 * arrived here for other processes, a bounded amount. What is for this one is dropped.
 */
static inline void link_finish(struct link *link)
{
    if (link->ops->finish)
        link->ops->finish(link);
}

/*
 * For a child after fork, before it opens a link of its own: closes what was inherited
 * without touching what is the parent's. The link must not be used afterwards.
 */
static inline void link_abandon(struct link *link)
{
    if (link->ops->abandon)
        link->ops->abandon(link);
}

static inline void link_close(struct link *link)
{
    link->ops->close(link);
}

#endif
