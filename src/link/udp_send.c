/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending: a batch leaves in one UDP_SEGMENT call where kernel and path take
 * it, else one by one. The ICRC covers the source port of the socket that is really
 * used, and on IPv4 the identification that the kernel will write: with DF
 * set and an unconnected socket it is 0, and i in segment i of a batch.
 */
#include "link/udp_private.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <linux/errqueue.h>
#include <netinet/udp.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "link/socket_address.h"
#include "wire/ip.h"
#include "wire/packet.h"

/* A batch on its way. */
struct sending {
    struct udp *u;
    struct datagram_batch *batch;
    struct peer *peer;
    struct send_socket *socket;
    bool raw; /* with headers of our own */
    struct sockaddr_storage name;
    socklen_t name_len; /* 0: the socket leads there by itself */
    size_t control_len;
    _Alignas(struct cmsghdr) char control[128];
};

static uint32_t segment_len(const struct datagram_batch *b, uint32_t i)
{
    return (uint32_t)(i + 1 < b->count ? b->segment_len : b->last_len);
}

static uint32_t batch_len(const struct datagram_batch *b)
{
    return (uint32_t)((b->count - 1) * b->segment_len + b->last_len);
}

/* What the datagrams from first on add to the receiver's memory; 0 when that is not counted. */
static uint64_t cost(const struct sending *x, uint32_t first, bool at_once)
{
    const struct datagram_batch *b = x->batch;
    uint64_t sum = 0;

    if (!udp_counts_room(x->u, &b->path.dst, b->dest_slot))
        return 0;
    if (at_once)
        return datagram_truesize(b->count, batch_len(b));
    for (uint32_t i = first; i < b->count; i++)
        sum += datagram_truesize(1, segment_len(b, i));
    return sum;
}

/* What goes wrong. */

const char *udp_address_text(const struct gid *g, char text[INET6_ADDRSTRLEN])
{
    if (gid_is_ipv4(g))
        return inet_ntop(AF_INET, g->bytes + 12, text, INET6_ADDRSTRLEN);
    return inet_ntop(AF_INET6, g->bytes, text, INET6_ADDRSTRLEN);
}

/* Counts an error in sending to p and says so once for each peer. */
static void note_error(struct udp *u, struct peer *p, int err, size_t len)
{
    char text[INET6_ADDRSTRLEN];
    const char *to = udp_address_text(&p->other, text);

    switch (err) {
    case ECONNREFUSED:
        u->link.counters.send_refused++;
        if (peer_hint_due(p, PEER_HINT_REFUSED))
            log_warn("%s: nobody listens on UDP port 4791 there", to);
        break;
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN:
    case ENODEV:
    case EADDRNOTAVAIL:
    case EINVAL: /* The source address is not, or no longer, one of ours. */
        u->link.counters.send_unreachable++;
        if (peer_hint_due(p, PEER_HINT_UNREACHABLE))
            log_warn("%s: no way there from our address: %s", to, strerror(err));
        break;
    case EMSGSIZE:
        u->link.counters.send_too_big++;
        if (peer_hint_due(p, PEER_HINT_TOO_BIG))
            log_warn("%s: datagrams of %zu bytes do not fit the MTU of the way there", to, len);
        break;
    default:
        u->link.counters.send_failed++;
        if (peer_hint_due(p, PEER_HINT_FAILED))
            log_warn("%s: send: %s", to, strerror(err));
        break;
    }
}

static const struct sock_extended_err *find_error(struct msghdr *m)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if ((c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_RECVERR) ||
            (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_RECVERR))
            return (const struct sock_extended_err *)(const void *)CMSG_DATA(c);
    }
    return NULL;
}

/*
 * Reads the ICMP errors that earlier datagrams from this socket brought, to
 * whomever they went. Returns how many there were.
 */
static uint32_t settle_errors(struct sending *x)
{
    uint32_t count = 0;
    int pending;
    socklen_t len = sizeof(pending);

    for (uint32_t i = 0; i < SEND_ERRORS_MAX; i++) {
        _Alignas(struct cmsghdr) char control[256];
        struct sockaddr_storage name = {.ss_family = AF_UNSPEC};
        struct msghdr m = {
            .msg_name = &name,
            .msg_namelen = sizeof(name),
            .msg_control = control,
            .msg_controllen = sizeof(control),
        };
        const struct sock_extended_err *e;
        struct gid to;

        if (recvmsg(x->socket->fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
            break;
        e = find_error(&m);
        if (!e || e->ee_origin == SO_EE_ORIGIN_LOCAL ||
            !gid_from_socket_address((const struct sockaddr *)&name, &to))
            continue;
        note_error(x->u, peers_get(&x->u->peers, &x->batch->path.src, &to), (int)e->ee_errno, 0);
        count++;
    }
    getsockopt(x->socket->fd, SOL_SOCKET, SO_ERROR, &pending, &len);
    x->peer = peers_get(&x->u->peers, &x->batch->path.src, &x->batch->path.dst);
    return count;
}

/* Messages for the kernel. */

static void add_control(struct sending *x, int level, int type, const void *data, size_t len)
{
    struct cmsghdr *c = (struct cmsghdr *)(void *)(x->control + x->control_len);

    assert(x->control_len + CMSG_SPACE(len) <= sizeof(x->control));
    c->cmsg_level = level;
    c->cmsg_type = type;
    c->cmsg_len = CMSG_LEN(len);
    memcpy(CMSG_DATA(c), data, len);
    memset(CMSG_DATA(c) + len, 0, CMSG_SPACE(len) - CMSG_LEN(len));
    x->control_len += CMSG_SPACE(len);
}

/* All that a socket may have been told of another path is said anew. */
static void address_ipv4(struct sending *x)
{
    const struct path *path = &x->batch->path;
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT)};
    struct in_pktinfo info = {.ipi_ifindex = (int)path->scope_id};
    int traffic_class = path->traffic_class;
    int hop_limit = path->hop_limit ? path->hop_limit : (int)HOP_LIMIT_DEFAULT;

    memcpy(&name.sin_addr, path->dst.bytes + 12, 4);
    memcpy(&info.ipi_spec_dst, path->src.bytes + 12, 4);
    memcpy(&x->name, &name, sizeof(name));
    x->name_len = sizeof(name);
    add_control(x, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
    add_control(x, IPPROTO_IP, IP_TOS, &traffic_class, sizeof(traffic_class));
    add_control(x, IPPROTO_IP, IP_TTL, &hop_limit, sizeof(hop_limit));
}

static void address_ipv6(struct sending *x)
{
    const struct path *path = &x->batch->path;
    struct sockaddr_in6 name = {
        .sin6_family = AF_INET6,
        .sin6_port = htons(ROCE_UDP_PORT),
        .sin6_scope_id = path->scope_id,
    };
    struct in6_pktinfo info = {.ipi6_ifindex = path->scope_id};
    int traffic_class = path->traffic_class;
    int hop_limit = path->hop_limit ? path->hop_limit : (int)HOP_LIMIT_DEFAULT;

    memcpy(&name.sin6_addr, path->dst.bytes, 16);
    memcpy(&info.ipi6_addr, path->src.bytes, 16);
    memcpy(&x->name, &name, sizeof(name));
    x->name_len = sizeof(name);
    add_control(x, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
    add_control(x, IPPROTO_IPV6, IPV6_TCLASS, &traffic_class, sizeof(traffic_class));
    add_control(x, IPPROTO_IPV6, IPV6_HOPLIMIT, &hop_limit, sizeof(hop_limit));
}

/* The kernel reads the rest out of the packet. A raw socket takes the port for a protocol. */
static void address_raw(struct sending *x)
{
    struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)&x->name;

    if (in6->sin6_family == AF_INET6)
        in6->sin6_port = 0;
}

static struct msghdr message_of(struct sending *x, struct iovec *iov)
{
    return (struct msghdr){
        .msg_name = x->name_len ? &x->name : NULL,
        .msg_namelen = x->name_len,
        .msg_iov = iov,
        .msg_iovlen = 1,
        .msg_control = x->control_len ? x->control : NULL,
        .msg_controllen = x->control_len,
    };
}

/* The identification of datagram i; numbered: in a batch that the kernel cuts. Never 0 in a raw
 * packet, where the kernel would put one of its own. */
static uint16_t identification_of(const struct sending *x, uint32_t i, bool numbered)
{
    if (x->raw)
        return (uint16_t)(1 + (x->peer->id_next + i) % UINT16_MAX);
    return numbered ? (uint16_t)i : 0;
}

static void write_icrcs(struct sending *x, uint32_t first, bool numbered)
{
    const struct datagram_batch *b = x->batch;

    for (uint32_t i = first; i < b->count; i++) {
        uint8_t *bytes = b->buffer + i * b->segment_len;
        size_t len = segment_len(b, i) - ICRC_LEN;

        store_le32(bytes + len, icrc_compute(&x->peer->out, x->socket->port,
                                             identification_of(x, i, numbered), bytes, len) ^
                                    (b->damaged ? FAULT_ICRC_DAMAGE : 0));
    }
}

/*
 * Sends messages. An error that may be an earlier datagram's is settled and the call
 * repeated once. Returns how many left, or a negative errno.
 */
static int call_kernel(struct sending *x, struct mmsghdr *messages, uint32_t count)
{
    for (uint32_t attempt = 0;; attempt++) {
        int sent = sendmmsg(x->socket->fd, messages, count, MSG_DONTWAIT | MSG_NOSIGNAL);
        int err = errno;

        if (sent > 0) {
            x->u->link.counters.sent_calls++;
            return sent;
        }
        if (err == EAGAIN || attempt > 0)
            return -err;
        if (settle_errors(x) == 0 && err != ECONNREFUSED && err != EHOSTUNREACH)
            return -err;
    }
}

static void count_sent(struct sending *x, uint32_t datagrams, uint32_t bytes)
{
    x->u->link.counters.sent_datagrams += datagrams;
    x->u->link.counters.sent_bytes += bytes;
}

/* Shows what left to whoever listens; numbered as in write_icrcs. */
static void show_sent(struct sending *x, uint32_t first, uint32_t count, bool numbered)
{
    const struct datagram_batch *b = x->batch;
    struct link_frame frame = {
        .datagram = {.src = b->path.src,
                     .dst = b->path.dst,
                     .traffic_class = b->path.traffic_class,
                     .hop_limit = b->path.hop_limit ? b->path.hop_limit : HOP_LIMIT_DEFAULT,
                     .flow_label = x->raw ? b->path.flow_label : 0,
                     .src_port = x->socket->port},
        .sent = true,
    };

    for (uint32_t i = first; i < first + count; i++) {
        frame.datagram.bytes = b->buffer + i * b->segment_len;
        frame.datagram.len = segment_len(b, i);
        frame.identification = identification_of(x, i, numbered);
        x->u->link.tap->see(x->u->link.tap, &frame);
    }
}

/* Returns how many left: all; or a negative errno. */
static int send_at_once(struct sending *x)
{
    struct datagram_batch *b = x->batch;
    struct iovec iov = {.iov_base = b->buffer, .iov_len = batch_len(b)};
    size_t control_len = x->control_len;
    uint16_t size = (uint16_t)b->segment_len;
    struct mmsghdr message = {0};
    int sent;

    write_icrcs(x, 0, true);
    add_control(x, IPPROTO_UDP, UDP_SEGMENT, &size, sizeof(size));
    message.msg_hdr = message_of(x, &iov);
    sent = call_kernel(x, &message, 1);
    x->control_len = control_len;
    if (sent < 0)
        return sent;
    count_sent(x, b->count, batch_len(b));
    if (x->u->link.tap)
        show_sent(x, 0, b->count, true);
    return (int)b->count;
}

/* Sends the datagrams from first on. Returns how many have left, or a negative errno if none. */
static int send_singly(struct sending *x, uint32_t first)
{
    struct datagram_batch *b = x->batch;
    struct iovec iov[SEND_SEGMENTS_MAX][2];
    struct mmsghdr messages[SEND_SEGMENTS_MAX];
    uint8_t headers[SEND_SEGMENTS_MAX][RAW_HEADERS_MAX];
    uint32_t bytes = 0;
    int sent;

    write_icrcs(x, first, false);
    for (uint32_t i = first; i < b->count; i++) {
        iov[i][1] = (struct iovec){b->buffer + i * b->segment_len, segment_len(b, i)};
        messages[i] = (struct mmsghdr){.msg_hdr = message_of(x, &iov[i][1])};
        if (x->raw) {
            uint16_t id = identification_of(x, i, false);

            iov[i][0].iov_base = headers[i];
            iov[i][0].iov_len = udp_raw_headers(b, id, segment_len(b, i), headers[i]);
            messages[i].msg_hdr.msg_iov = iov[i];
            messages[i].msg_hdr.msg_iovlen = 2;
        }
    }
    sent = call_kernel(x, messages + first, b->count - first);
    for (uint32_t i = first; (int)(i - first) < sent; i++)
        bytes += segment_len(b, i);
    if (sent > 0)
        count_sent(x, (uint32_t)sent, bytes);
    if (sent > 0 && x->u->link.tap)
        show_sent(x, first, (uint32_t)sent, false);
    return sent;
}

static bool means_no_gso(int err)
{
    return err == -EINVAL || err == -EIO || err == -EOPNOTSUPP;
}

/* A batch has begun to leave one by one; refused: because UDP_SEGMENT failed so, or 0. */
static void note_single(struct sending *x, int refused)
{
    x->u->link.counters.gso_refused++;
    if (!refused)
        return;
    x->peer->gso_refused = true;
    if (peer_hint_due(x->peer, PEER_HINT_GSO))
        log_info("UDP_SEGMENT refused (%s), datagrams leave one by one", strerror(-refused));
}

/*
 * Sends on from datagram number *first. Returns 0 when all have left, or the
 * negative errno of the one at *first. What leaves alone, but not in a batch,
 * shows that batches are the matter and not the way there.
 */
static int send_from(struct sending *x, uint32_t *first)
{
    bool is_batch = x->batch->count > 1 && *first == 0 && !x->raw;
    int refused = 0;

    if (is_batch && !x->u->config.no_gso && !x->peer->gso_refused) {
        int sent = send_at_once(x);

        if (sent >= 0 || !means_no_gso(sent))
            return sent < 0 ? sent : 0;
        refused = sent;
    }
    while (*first < x->batch->count) {
        int sent = send_singly(x, *first);

        if (sent < 0)
            return sent;
        if (is_batch && *first == 0)
            note_single(x, refused);
        *first += (uint32_t)sent;
    }
    return 0;
}

static int block(struct sending *x, uint32_t first)
{
    x->u->resume = first;
    x->u->link.write_descriptor = x->socket->fd;
    x->u->link.counters.send_would_block++;
    return -EAGAIN;
}

static int send_and_charge(struct sending *x)
{
    struct udp *u = x->u;
    uint32_t first = u->resume;
    bool at_once = x->batch->count > 1 && !u->config.no_gso && !x->peer->gso_refused;
    struct shared_slot *to = &u->group.shared->slots[x->batch->dest_slot];
    uint64_t charge = cost(x, first, at_once);
    uint32_t next = first;
    int err;

    if (charge)
        atomic_fetch_add_explicit(&to->charged, charge, memory_order_acq_rel);
    err = send_from(x, &next);
    if (charge && err && next == first)
        atomic_fetch_sub_explicit(&to->charged, charge, memory_order_acq_rel);
    else if (charge)
        atomic_fetch_add_explicit(&to->sent, charge, memory_order_release);
    if (err == -EAGAIN)
        return block(x, next);
    if (err)
        note_error(u, x->peer, -err, segment_len(x->batch, next));
    if (x->raw)
        x->peer->id_next = (uint16_t)((x->peer->id_next + x->batch->count) % UINT16_MAX);
    u->resume = 0;
    u->link.write_descriptor = -1;
    return 0;
}

int udp_send(struct link *link, struct datagram_batch *b)
{
    struct udp *u = udp_of(link);
    enum family f = gid_is_ipv4(&b->path.dst) ? FAMILY_IPV4 : FAMILY_IPV6;
    struct sending x;
    int err;

    assert(b->count > 0);
    assert(b->count <= SEND_SEGMENTS_MAX);
    assert(b->last_len >= BTH_LEN + ICRC_LEN);
    assert(b->count == 1 || b->last_len <= b->segment_len);
    x.u = u;
    x.batch = b;
    x.peer = peers_get(&u->peers, &b->path.src, &b->path.dst);
    x.name_len = 0;
    x.control_len = 0;
    x.raw = u->config.raw && udp_raw_sends(u, &b->path);
    x.socket = &u->raw_sender[f];
    x.socket->port = b->src_port;
    err = x.raw ? 0 : udp_pool_get(u, f, b, &x.socket);
    if (err) {
        note_error(u, x.peer, -err, 0);
        return 0;
    }
    if (!x.raw && send_socket_leads(u, x.socket, f, &b->path))
        return send_and_charge(&x);
    if (f == FAMILY_IPV4)
        address_ipv4(&x);
    else
        address_ipv6(&x);
    if (x.raw)
        address_raw(&x);
    return send_and_charge(&x);
}
