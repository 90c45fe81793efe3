/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Receiving: the kernel may bring several datagrams as one super-packet
 * (UDP_GRO), merged by addresses, port and length alone, so each is looked at
 * on its own: the slot byte says whose it is, then the ICRC whether it is good.
 */
#include "link/udp_private.h"

#include <errno.h>
#include <linux/if_packet.h>
#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "base/bytes.h"
#include "base/log.h"
#include "link/raw_frame.h"
#include "wire/packet.h"

#define LOOPBACK_IFINDEX 1 /* of every network namespace */
#define BTH_SLOT_OFFSET 5u
#define LOOK_EVENTS 16

/* One call of udp_receive. */
struct reading {
    struct udp *u;
    link_receive_fn fn;
    void *context;
    uint32_t budget;
    uint32_t datagrams;
    bool unread; /* the sockets of our slot may have more */
    bool crowded;
    const struct raw_frame *frame; /* that is being taken; NULL: no such */

    uint64_t consumed; /* kernel memory given back by what came from this host */
};

/* What senders of this host have added up for us, shared.h. */
struct sums {
    uint64_t sent;
    uint64_t charged;
};

/* What the control messages of one message say. */
struct facts {
    bool has_dst;
    bool broadcast;
    bool has_drops;
    uint32_t drops;
    unsigned uid; /* of who wrote to our inbox */
};

int udp_receive_prepare(struct udp *u)
{
    void *at = mmap(NULL, (size_t)RECEIVE_AT_ONCE * RECEIVE_STRIDE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (at == MAP_FAILED)
        return -errno;
    u->buffers = at;
    for (uint32_t i = 0; i < RECEIVE_AT_ONCE; i++) {
        struct receive_message *m = &u->message[i];

        m->iov = (struct iovec){u->buffers + (size_t)i * RECEIVE_STRIDE, RECEIVE_STRIDE};
        u->header[i].msg_hdr = (struct msghdr){
            .msg_name = &m->name,
            .msg_iov = &m->iov,
            .msg_iovlen = 1,
            .msg_control = m->control,
        };
    }
    return udp_parcels_prepare(u);
}

/* Control messages. */

static int read_int(const struct cmsghdr *c)
{
    int value = 0;
    size_t len = c->cmsg_len - CMSG_LEN(0);

    memcpy(&value, CMSG_DATA(c), len < sizeof(value) ? len : sizeof(value));
    return value;
}

static void read_ipv4(const struct cmsghdr *c, struct arrival *a, struct facts *f)
{
    struct in_pktinfo info;

    switch (c->cmsg_type) {
    case IP_PKTINFO:
        memcpy(&info, CMSG_DATA(c), sizeof(info));
        a->dst = gid_from_ipv4(&info.ipi_addr);
        a->scope_id = (uint32_t)info.ipi_ifindex;
        a->on_loopback = info.ipi_ifindex == LOOPBACK_IFINDEX;
        f->has_dst = true;
        /* What we would answer from: of broadcasts another address than the one they came to. */
        f->broadcast = info.ipi_spec_dst.s_addr != 0 && !gid_is_multicast(&a->dst) &&
                       info.ipi_spec_dst.s_addr != info.ipi_addr.s_addr;
        break;
    case IP_TOS: /* One byte, unlike the others. */
        a->traffic_class = *CMSG_DATA(c);
        break;
    case IP_TTL:
        a->hop_limit = (uint8_t)read_int(c);
        break;
    default:
        break;
    }
}

static void read_ipv6(const struct cmsghdr *c, struct arrival *a, struct facts *f)
{
    struct in6_pktinfo info;

    switch (c->cmsg_type) {
    case IPV6_PKTINFO:
        memcpy(&info, CMSG_DATA(c), sizeof(info));
        memcpy(a->dst.bytes, &info.ipi6_addr, sizeof(a->dst.bytes));
        a->scope_id = info.ipi6_ifindex;
        a->on_loopback = info.ipi6_ifindex == LOOPBACK_IFINDEX;
        f->has_dst = true;
        break;
    case IPV6_TCLASS:
        a->traffic_class = (uint8_t)read_int(c);
        break;
    case IPV6_HOPLIMIT:
        a->hop_limit = (uint8_t)read_int(c);
        break;
    default:
        break;
    }
}

static void read_socket(const struct cmsghdr *c, struct facts *f)
{
    struct ucred sender;

    switch (c->cmsg_type) {
    case SO_RXQ_OVFL:
        f->drops = (uint32_t)read_int(c);
        f->has_drops = true;
        break;
    case SCM_CREDENTIALS:
        memcpy(&sender, CMSG_DATA(c), sizeof(sender));
        f->uid = sender.uid;
        break;
    default:
        break;
    }
}

static void read_control(struct msghdr *m, struct arrival *a, struct facts *f)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        switch (c->cmsg_level) {
        case IPPROTO_IP:
            read_ipv4(c, a, f);
            break;
        case IPPROTO_IPV6:
            read_ipv6(c, a, f);
            break;
        case IPPROTO_UDP:
            if (c->cmsg_type == UDP_GRO)
                a->segment_len = (uint16_t)read_int(c);
            break;
        case SOL_SOCKET:
            read_socket(c, f);
            break;
        default:
            break;
        }
    }
}

static void read_name(const struct sockaddr_storage *name, struct arrival *a)
{
    if (name->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)name;

        a->src = gid_from_ipv4(&in->sin_addr);
        a->src_port = ntohs(in->sin_port);
    } else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)name;

        memcpy(a->src.bytes, &in6->sin6_addr, sizeof(a->src.bytes));
        a->src_port = ntohs(in6->sin6_port);
    }
}

/* Datagrams. */

/* What came to a group is for all who are in it, whatever QPN it names. */
static bool is_ours(const struct udp *u, const struct arrival *a, uint8_t slot)
{
    return slot == u->slot || slot == SLOT_QP1 || slot == SLOT_MULTICAST ||
           gid_is_multicast(&a->dst);
}

/*
 * Whether a packet socket has shown it, too. What this host sends to an address of an Ethernet
 * interface the kernel says to have come by that.
 */
static bool came_raw(struct udp *u, const struct arrival *a, uint8_t slot)
{
    return u->config.raw && slot == u->slot && !a->on_loopback && !gid_is_multicast(&a->dst) &&
           !routes_is_local(&u->routes, &a->src, udp_now_ns());
}

/* One at the least: an empty one is one, too. */
static uint32_t datagrams_of(const struct arrival *a)
{
    return a->segment_len && a->len > 0 ? (a->len + a->segment_len - 1) / a->segment_len : 1;
}

/* Shows what came to whoever listens. */
static void show(struct udp *u, const struct datagram *d, uint16_t identification)
{
    const struct link_frame frame = {.datagram = *d, .identification = identification};

    u->link.tap->see(u->link.tap, &frame);
}

/*
 * A bad ICRC. Where a network rewrites addresses, which RoCE cannot cross, two different datagrams
 * are explained by the same address; chance makes that so in one of four billion cases.
 */
static void note_bad(struct udp *u, struct peer *p, const struct datagram *d)
{
    struct gid src, dst;
    char seen[INET6_ADDRSTRLEN];
    char signed_for[INET6_ADDRSTRLEN];
    uint32_t icrc;
    bool from;

    u->link.counters.icrc_error++;
    if (!icrc_rewritten(&p->in, d->src_port, d->bytes, d->len, &src, &dst))
        return;
    icrc = load_le32(d->bytes + d->len - ICRC_LEN);
    from = gid_equal(&src, &p->bad_src);
    if (icrc != p->bad_icrc && (from || gid_equal(&dst, &p->bad_dst))) {
        u->link.counters.address_rewritten++;
        if (peer_hint_due(p, PEER_HINT_NAT))
            log_warn("datagrams %s %s were sent %s %s: a NAT on the way, which RoCE cannot cross",
                     from ? "from" : "to", udp_address_text(from ? &d->src : &d->dst, seen),
                     from ? "from" : "to", udp_address_text(from ? &src : &dst, signed_for));
    }
    p->bad_icrc = icrc;
    p->bad_src = src;
    p->bad_dst = dst;
}

/* Gives a datagram of ours to the engine if it is good. *id: the identification expected, then
 * found. */
static void take(struct reading *r, struct peer *p, const struct arrival *a, const uint8_t *bytes,
                 uint32_t len, uint16_t *id)
{
    struct link_counters *counters = &r->u->link.counters;
    struct datagram d = {
        .src = a->src,
        .dst = a->dst,
        .scope_id = a->scope_id,
        .traffic_class = a->traffic_class,
        .hop_limit = a->hop_limit,
        .crowded = r->crowded && !a->on_loopback, /* who is on this host knows our room */
        .src_port = a->src_port,
        .bytes = bytes,
        .len = len,
    };

    uint16_t known = *id;
    bool good = icrc_verify(&p->in, a->src_port, *id, bytes, len, id) == ICRC_GOOD;

    if (r->frame) {
        good = good && (*id == known || !p->in.ipv4);
        *id = known;
        d.flow_label = r->frame->flow_label;
    }
    if (r->u->link.tap)
        show(r->u, &d, good ? *id : 0);
    if (!good) {
        note_bad(r->u, p, &d);
        return;
    }
    if (!r->frame && !peer_id_note(p, *id)) {
        counters->icrc_id_jump++;
        if (r->u->config.icrc_strict)
            return;
    }
    r->fn(r->context, &d);
}

/* Packs for its owner, another process of ours or a guest, what begins at bytes: the datagrams of
 * one foreign slot in a row. Returns their bytes. */
static uint32_t pass_on(struct reading *r, const struct arrival *a, const uint8_t *bytes,
                        uint32_t left)
{
    struct arrival part = *a;
    uint8_t slot = bytes[BTH_SLOT_OFFSET];
    uint32_t step = a->segment_len ? a->segment_len : left;
    uint32_t len = 0;
    uint32_t count;

    while (len < left && left - len >= BTH_LEN + ICRC_LEN && bytes[len + BTH_SLOT_OFFSET] == slot)
        len += step < left - len ? step : left - len;
    part.len = len;
    count = datagrams_of(&part);
    if (count == 1)
        part.segment_len = 0;
    udp_parcel_add(r->u, slot, &part, bytes, count);
    return len;
}

/* Whether there is a process that has the slot. */
static bool is_owned(struct udp *u, uint8_t slot)
{
    return udp_host_serves(u, slot) || (atomic_load(&u->group.shared->slots[slot].inbox) != 0 &&
                                        group_slot_held(&u->group, slot));
}

bool udp_pass(struct link *link, uint8_t slot, const struct datagram *d)
{
    struct udp *u = udp_of(link);
    const struct arrival a = {
        .src = d->src,
        .dst = d->dst,
        .scope_id = d->scope_id,
        .len = (uint32_t)d->len,
        .src_port = d->src_port,
        .traffic_class = d->traffic_class,
        .hop_limit = d->hop_limit,
    };

    if (!is_owned(u, slot))
        return false;
    udp_parcel_add(u, slot, &a, d->bytes, 1);
    udp_parcels_send(u);
    return true;
}

/* Everything that one message brought. handed: by another process, which we trust not to be wrong
 * twice. */
static void take_all(struct reading *r, const struct arrival *a, const uint8_t *bytes, bool handed)
{
    struct link_counters *counters = &r->u->link.counters;
    struct peer *p = peers_get(&r->u->peers, &a->dst, &a->src);
    uint32_t step = a->segment_len ? a->segment_len : a->len;
    uint16_t id = r->frame ? r->frame->identification : peer_id_expected(p);
    uint32_t at = 0;

    do {
        uint32_t left = a->len - at;
        uint32_t len = step < left ? step : left;

        if (len < BTH_LEN + ICRC_LEN) {
            counters->too_short++;
        } else if (handed && came_raw(r->u, a, bytes[at + BTH_SLOT_OFFSET])) {
            counters->raw_twice++;
        } else if (is_ours(r->u, a, bytes[at + BTH_SLOT_OFFSET])) {
            take(r, p, a, bytes + at, len, &id);
            id++;
        } else if (handed && !udp_host_serves(r->u, bytes[at + BTH_SLOT_OFFSET])) {
            counters->stray_dropped++;
        } else {
            len = pass_on(r, a, bytes + at, left);
        }
        at += len;
    } while (at < a->len);
}

static void count_arrival(struct reading *r, const struct arrival *a, const uint8_t *bytes)
{
    struct link_counters *counters = &r->u->link.counters;
    uint32_t count = datagrams_of(a);

    r->datagrams += count;
    counters->rcv_datagrams += count;
    counters->rcv_bytes += a->len;
    if (a->on_loopback && !gid_is_multicast(&a->dst) && a->len > BTH_SLOT_OFFSET &&
        bytes[BTH_SLOT_OFFSET] == r->u->slot)
        r->consumed += datagram_truesize(count, a->len);
}

/* One message of a group's socket, to all who are in it. */
static void take_multicast(struct reading *r, const struct multicast_socket *s,
                           const struct arrival *a, const uint8_t *bytes)
{
    struct link_counters *counters = &r->u->link.counters;

    if (a->scope_id != s->group.scope_id) { /* IPv6: memberships do not look at the interface */
        counters->mcast_other_interface += datagrams_of(a);
        return;
    }
    if (s->own)
        take_all(r, a, bytes, false);
    for (uint32_t word = 0; word < GUESTS_MAX / 64; word++) {
        for (uint64_t left = s->visitors[word]; left; left &= left - 1) {
            uint32_t visitor = word * 64 + (uint32_t)__builtin_ctzll(left);
            bool passed = udp_host_pass_to(r->u, visitor, a, bytes) == HANDED_OVER;

            *(passed ? &counters->guest_datagrams : &counters->guest_full) += datagrams_of(a);
        }
    }
}

static bool is_raw(uint32_t source)
{
    return source == SOURCE_RAW_IPV4 || source == SOURCE_RAW_IPV6;
}

/* The sockets that bring what other hosts send to our queue pairs. */
static bool is_of_slot(uint32_t source)
{
    return source <= SOURCE_SLOT_IPV6 || is_raw(source);
}

/* What a filter drops (udp_raw.c) the kernel counts like what did not fit. */
static void note_drops(struct udp *u, uint32_t source, const struct facts *f)
{
    struct source *s = &u->source[source];

    if (!f->has_drops)
        return;
    if (!u->config.raw || source > SOURCE_SLOT_IPV6)
        u->link.counters.socket_overflow += f->drops - s->drops;
    s->drops = f->drops;
}

/* One message of a packet socket. */
static void take_frame(struct reading *r, uint32_t source, struct mmsghdr *m)
{
    const struct sockaddr_ll *from = m->msg_hdr.msg_name;
    struct link_counters *counters = &r->u->link.counters;
    struct raw_frame frame;
    struct arrival ignored = {0};
    struct facts f = {0};

    read_control(&m->msg_hdr, &ignored, &f);
    note_drops(r->u, source, &f);
    if (!raw_frame_read(m->msg_hdr.msg_iov->iov_base, m->msg_len, counters, &frame)) {
        r->datagrams++;
        counters->rcv_datagrams++;
        return;
    }
    frame.arrival.scope_id = (uint32_t)from->sll_ifindex;
    count_arrival(r, &frame.arrival, frame.bytes);
    if (from->sll_pkttype != PACKET_HOST || !udp_raw_addresses_fit(r->u, &frame.arrival)) {
        counters->raw_address += datagrams_of(&frame.arrival);
        return;
    }
    r->frame = &frame;
    take_all(r, &frame.arrival, frame.bytes, false);
    r->frame = NULL;
}

/* One message of a UDP socket. */
static void take_message(struct reading *r, uint32_t source, struct mmsghdr *m)
{
    struct source *s = &r->u->source[source];
    struct link_counters *counters = &r->u->link.counters;
    struct arrival a = {.len = m->msg_len, .hop_limit = 64};
    struct facts f = {0};
    const uint8_t *bytes = m->msg_hdr.msg_iov->iov_base;

    read_control(&m->msg_hdr, &a, &f);
    read_name(m->msg_hdr.msg_name, &a);
    note_drops(r->u, source, &f);
    s->remote |= !a.on_loopback;
    count_arrival(r, &a, bytes);
    if (m->msg_hdr.msg_flags & MSG_TRUNC)
        counters->truncated++;
    else if (!f.has_dst)
        counters->no_address++;
    else if (f.broadcast)
        counters->broadcast += datagrams_of(&a);
    else if (source >= SOURCE_MULTICASTS)
        take_multicast(r, &r->u->multicasts[source - SOURCE_MULTICASTS], &a, bytes);
    else
        take_all(r, &a, bytes, false);
}

/* One message of another process of ours, or of a guest's host; believed: from nobody else. */
static void take_handed(struct reading *r, const struct mmsghdr *m, bool believed)
{
    const uint8_t *bytes = m->msg_hdr.msg_iov->iov_base;
    size_t left = m->msg_len;
    struct arrival a;

    if (m->msg_hdr.msg_flags & MSG_TRUNC)
        believed = false;
    do {
        size_t len = believed ? arrival_read(bytes, left, &a) : 0;

        if (!len) {
            r->u->link.counters.inbox_refused++;
            r->datagrams++;
            return;
        }
        count_arrival(r, &a, bytes + sizeof(a));
        r->u->link.counters.handed_over += datagrams_of(&a);
        take_all(r, &a, bytes + sizeof(a), true);
        bytes += len;
        left -= len;
    } while (left > 0);
}

static bool is_believed(const struct reading *r, struct mmsghdr *m)
{
    struct arrival ignored = {0};
    struct facts f = {.uid = (unsigned)-1};

    read_control(&m->msg_hdr, &ignored, &f);
    return inbox_believes(&r->u->group, f.uid);
}

/* Sources. */

/*
 * Room for control messages. In an inbox there is just enough for the sender's
 * credentials, so that nobody can plant descriptors in this process.
 */
static size_t control_room(uint32_t source)
{
    if (source == SOURCE_HOST)
        return 0;
    return source == SOURCE_INBOX ? CMSG_SPACE(sizeof(struct ucred))
                                  : sizeof(((struct receive_message *)NULL)->control);
}

/* Returns the messages read, fewer than asked for when there are no more, or a negative errno. */
static int call_kernel(struct udp *u, uint32_t source, uint32_t count)
{
    int got;

    for (uint32_t i = 0; i < count; i++) {
        u->header[i].msg_hdr.msg_namelen = sizeof(struct sockaddr_storage);
        u->header[i].msg_hdr.msg_controllen = control_room(source);
    }
    got = recvmmsg(u->source[source].fd, u->header, count, MSG_DONTWAIT, NULL);
    return got < 0 ? -errno : got;
}

/*
 * Whether what one call read was, with what is left, more than half of what the socket holds. Only
 * a full call, or one that brought much, is reason to ask.
 */
static bool is_crowded(const struct udp *u, uint32_t source, int got)
{
    uint32_t info[SK_MEMINFO_VARS] = {0};
    socklen_t info_len = sizeof(info);
    uint64_t len = 0;

    for (int i = 0; i < got; i++)
        len += u->header[i].msg_len;
    if (!is_of_slot(source) || !u->source[source].remote ||
        (got < (int)RECEIVE_AT_ONCE && len < u->receive_buffer / 8))
        return false;
    if (getsockopt(u->source[source].fd, SOL_SOCKET, SO_MEMINFO, info, &info_len))
        return false;
    return info[SK_MEMINFO_RMEM_ALLOC] + len > u->receive_buffer / 2;
}

/* Reads a source till it is empty or the budget is used up, but once in any case. */
static void read_source(struct reading *r, uint32_t source)
{
    struct udp *u = r->u;
    int asked, got;

    do {
        /* Where one comes at a time, asking for more would cost a look in vain. */
        asked = u->source[source].singly ? 1 : RECEIVE_AT_ONCE;
        got = call_kernel(u, source, (uint32_t)asked);
        u->source[source].singly = got <= 0 || (got == 1 && asked > 1);
        r->crowded = is_crowded(u, source, got);
        if (got == -EINVAL && is_raw(source)) { /* Linux before 6.2 cannot describe such a frame. */
            u->link.counters.raw_giant++;
            r->datagrams++;
        }
        for (int i = 0; i < got; i++) {
            if (source == SOURCE_INBOX)
                take_handed(r, &u->header[i], is_believed(r, &u->header[i]));
            else if (is_raw(source))
                take_frame(r, source, &u->header[i]);
            else
                take_message(r, source, &u->header[i]);
        }
        u->link.counters.rcv_calls += got > 0;
        if (u->parcels.added)
            udp_parcels_send(u);
    } while (got == RECEIVE_AT_ONCE && r->datagrams < r->budget);
    if (got == asked && is_of_slot(source))
        r->unread = true;
}

/* Reads what our host passes on; an empty message is the end of the connection. */
static void read_host(struct reading *r)
{
    struct udp *u = r->u;
    int got;

    do {
        got = call_kernel(u, SOURCE_HOST, RECEIVE_AT_ONCE);
        for (int i = 0; i < got && u->header[i].msg_len > 0; i++)
            take_handed(r, &u->header[i], true);
        if ((got > 0 && u->header[got - 1].msg_len == 0) || (got < 0 && got != -EAGAIN)) {
            udp_guest_lost(u);
            return;
        }
        u->link.counters.rcv_calls += got > 0;
    } while (got == RECEIVE_AT_ONCE && r->datagrams < r->budget);
}

/* Whoever shares the port with us is not to suffer from what this program does with its limit. */
static void serve_newcomers(struct udp *u)
{
    uint32_t pinched = group_serve(&u->group, udp_host_greet, u);

    if (pinched > 0 && u->link.counters.newcomers_pinched == 0)
        log_warn("too many open files (ulimit -n): newcomers are answered with the last "
                 "descriptor, and no guest is taken");
    u->link.counters.newcomers_pinched += pinched;
}

static void serve_source(struct reading *r, uint32_t source)
{
    struct udp *u = r->u;

    if (source >= SOURCE_VISITORS)
        udp_host_listen(u, source - SOURCE_VISITORS);
    else if (source == SOURCE_LISTENER)
        serve_newcomers(u);
    else if (source == SOURCE_TIMER)
        udp_guest_retry(u);
    else if (source == SOURCE_HOST && u->guest.asked_ms)
        udp_guest_answered(u);
    else if (source == SOURCE_HOST)
        read_host(r);
    else
        read_source(r, source);
}

/* In this order: what is in sent is in charged. */
static struct sums read_sums(const struct shared_slot *s)
{
    uint64_t sent = atomic_load_explicit(&s->sent, memory_order_acquire);

    return (struct sums){
        .sent = sent,
        .charged = atomic_load_explicit(&s->charged, memory_order_acquire),
    };
}

/*
 * A sender that was killed on the way from one sum to the other leaves a difference for good: what
 * it was at the least for LOCAL_STALL_NS. One that was only stopped makes it negative in the end.
 */
static void forgive_unsent(struct udp *u, struct shared_slot *mine, struct sums before)
{
    uint64_t unsent = before.charged - before.sent;
    uint64_t now_ns;

    if ((int64_t)unsent <= 0) {
        u->unsent_since_ns = 0;
        if (unsent)
            atomic_fetch_add_explicit(&mine->sent, unsent, memory_order_relaxed);
        return;
    }
    now_ns = udp_now_ns();
    if (!u->unsent_since_ns) {
        u->unsent_since_ns = now_ns;
        u->unsent_least = unsent;
    }
    if (unsent < u->unsent_least)
        u->unsent_least = unsent;
    if (now_ns - u->unsent_since_ns < LOCAL_STALL_NS)
        return;
    u->unsent_since_ns = 0;
    atomic_fetch_add_explicit(&mine->sent, u->unsent_least, memory_order_relaxed);
}

/*
 * Gives memory back to senders of this host. When our sockets are empty, all that was sent before
 * we looked is gone, read or lost, whatever the sums say; not what was only charged, for its sender
 * may be anywhere before the call that sends it.
 */
static void give_back(struct reading *r, struct sums before, bool all_read)
{
    struct shared_slot *mine = &r->u->group.shared->slots[r->u->slot];
    uint64_t old = atomic_load_explicit(&mine->consumed, memory_order_relaxed);
    uint64_t charged = atomic_load_explicit(&mine->charged, memory_order_relaxed);
    uint64_t consumed = old + r->consumed;

    if (all_read) {
        if ((int64_t)(before.sent - consumed) > 0)
            consumed = before.sent;
        forgive_unsent(r->u, mine, before);
    }
    if ((int64_t)(charged - consumed) < 0)
        consumed = charged;
    if (consumed != old)
        atomic_store_explicit(&mine->consumed, consumed, memory_order_release);
}

/* Whether trying a source that has nothing costs no more than the call. */
static bool is_read_ahead(uint32_t source)
{
    return source <= SOURCE_RAW_IPV6 || (source >= SOURCE_GUESTS && source < SOURCE_VISITORS);
}

/* Asks the kernel which sources have something, and reads those. True if that told something. */
static bool look(struct reading *r)
{
    struct epoll_event ready[LOOK_EVENTS];
    int count = epoll_wait(r->u->epoll, ready, LOOK_EVENTS, 0);

    for (int i = 0; i < count; i++) {
        uint32_t source = ready[i].data.u32;

        serve_source(r, source);
        if (is_read_ahead(source))
            r->u->favourite = source;
    }
    return count >= 0 && count < LOOK_EVENTS;
}

/*
 * What brought something last is tried first, which saves the looking while it
 * goes on to; the others then wait for LOOK_CALLS calls at most.
 */
uint32_t udp_receive(struct link *link, uint32_t budget, link_receive_fn fn, void *context)
{
    struct udp *u = udp_of(link);
    struct reading r = {.u = u, .fn = fn, .context = context, .budget = budget};
    struct sums before = read_sums(&u->group.shared->slots[u->slot]);
    bool looked = false;

    udp_parcels_retry(u);
    if (u->source[u->favourite].fd >= 0)
        serve_source(&r, u->favourite);
    if (r.datagrams == 0 || ++u->busy_calls % LOOK_CALLS == 0)
        looked = look(&r);
    atomic_store_explicit(&link->direct_descriptor, u->source[u->favourite].fd,
                          memory_order_relaxed);
    give_back(&r, before, looked && !r.unread);
    return r.datagrams;
}

static void drop(void *context, const struct datagram *d)
{
    (void)context;
    (void)d;
}

void udp_finish(struct link *link)
{
    struct udp *u = udp_of(link);

    if (udp_is_guest(u))
        return;
    for (uint32_t source = 0; source < SOURCE_VISITORS; source++) {
        struct reading r = {.u = u, .fn = drop, .budget = FINISH_DATAGRAMS};

        u->source[source].singly = false;
        if (u->source[source].fd >= 0 && (source <= SOURCE_INBOX || source >= SOURCE_GUESTS))
            read_source(&r, source);
    }
}
