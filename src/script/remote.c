/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A subject on the network: any RoCEv2 peer with a small program above it that
 * does what the application of a script does (examples/script_responder.c).
 * The program is told over TCP; packets are made here and travel over a UDP
 * socket on port 4791, from the address that the TCP connection has.
 *
 * A call is one line there and one back: a word and numbers in hexadecimal, answered by
 * "ok" with numbers, or by "error ERRNO text".
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "script/subject.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define LINE_SIZE 8192u
#define HOST_SIZE 256u
#define PORT_SIZE 16u
#define CHUNK_LEN 1024u /* bytes of memory in one line */
#define ANSWER_MAX_S 30 /* a program that says nothing for so long is gone */
/* What is right is not late on a busy machine; what is wrong comes soon on any. */
#define PATIENCE_NS UINT64_C(10000000000)
#define SETTLE_NS UINT64_C(100000000)
#define NS_PER_S UINT64_C(1000000000)
#define UDP_NO_CHECK6_RX_ 102 /* the kernel's soft-RoCE sends no checksum */
#define QPN_COUNT 0x1000u

struct remote {
    struct subject base;
    char host[HOST_SIZE];
    char port[PORT_SIZE];
    int tcp; /* -1: it broke, the next script connects anew */
    int udp;
    bool ipv6;
    struct sockaddr_storage peer; /* port 4791 there */
    struct icrc_flow flow_out;
    struct icrc_flow flow_in;
    uint16_t hint; /* identification that was right last */
    uint8_t ecn;
    uint64_t wall_ahead_ns; /* what the clock of the kernel's stamps is ahead of ours */
    uint32_t lens[SCRIPT_REGIONS_MAX];
    char line[LINE_SIZE];
    size_t line_len; /* bytes that were read and not used */
    char answer[LINE_SIZE];
};

static struct remote *of(struct subject *s)
{
    return (struct remote *)(void *)s;
}

static int fail(struct remote *r, int error, const char *what)
{
    snprintf(r->base.error, sizeof(r->base.error), "%s: %s", what, strerror(-error));
    return error;
}

/* --- lines --- */

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

static void hang_up(struct remote *r)
{
    if (r->tcp >= 0)
        close(r->tcp);
    r->tcp = -1;
    r->line_len = 0;
}

static int write_all(int fd, const char *bytes, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, bytes, len, MSG_NOSIGNAL);

        if (sent < 0)
            return -errno;
        bytes += sent;
        len -= (size_t)sent;
    }
    return 0;
}

/* The next line without its end, into answer. */
static int read_line(struct remote *r)
{
    for (;;) {
        char *end = memchr(r->line, '\n', r->line_len);
        ssize_t got;

        if (end != NULL) {
            size_t len = (size_t)(end - r->line);

            memcpy(r->answer, r->line, len);
            r->answer[len] = '\0';
            r->line_len -= len + 1;
            memmove(r->line, end + 1, r->line_len);
            return 0;
        }
        if (r->line_len == sizeof(r->line))
            return -EPROTO;
        got = recv(r->tcp, r->line + r->line_len, sizeof(r->line) - r->line_len, 0);
        if (got < 0)
            return -errno;
        if (got == 0)
            return -ECONNRESET;
        r->line_len += (size_t)got;
    }
}

/* Says a line; *out then points behind the "ok " of the answer. */
static int call(struct remote *r, const char **out, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int call(struct remote *r, const char **out, const char *format, ...)
{
    char line[LINE_SIZE];
    va_list ap;
    int len;
    int error;

    r->base.error[0] = '\0';
    va_start(ap, format);
    len = vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    if (len < 0 || (size_t)len >= sizeof(line))
        return fail(r, -EMSGSIZE, "a line to the responder");
    error = r->tcp >= 0 ? write_all(r->tcp, line, (size_t)len) : -ENOTCONN;
    if (error == 0)
        error = read_line(r);
    if (error != 0) { /* an answer that comes too late must not be taken for the next one's */
        hang_up(r);
        return fail(r, error, "the responder");
    }
    if (strncmp(r->answer, "ok", 2) == 0) {
        *out = r->answer + 2;
        return 0;
    }
    if (strncmp(r->answer, "error ", 6) == 0) {
        char *text;
        long number = strtol(r->answer + 6, &text, 16);

        snprintf(r->base.error, sizeof(r->base.error), "%.200s", text);
        return number > 0 && number < 4096 ? -(int)number : -EPROTO;
    }
    return fail(r, -EPROTO, "the responder's answer");
}

/* The next number of an answer. */
static uint64_t take_number(const char **at)
{
    char *end;
    uint64_t value = strtoull(*at, &end, 16);

    *at = end;
    return value;
}

/* --- the application --- */

static int connect_tcp(const char *host, const char *port, char error[SCRIPT_ERROR_SIZE])
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    const struct timeval patience = {.tv_sec = ANSWER_MAX_S};
    const int one = 1;
    struct addrinfo *to;
    int result = getaddrinfo(host, port, &hints, &to);
    int fd = -1;

    if (result != 0) {
        snprintf(error, SCRIPT_ERROR_SIZE, "%.100s: %s", host, gai_strerror(result));
        return -1;
    }
    for (const struct addrinfo *a = to; a != NULL && fd < 0; a = a->ai_next) {
        fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) != 0) {
            result = errno;
            close(fd);
            fd = -1;
        }
    }
    freeaddrinfo(to);
    if (fd < 0) {
        snprintf(error, SCRIPT_ERROR_SIZE, "%.100s port %.10s: %.60s (is script_responder there?)",
                 host, port, strerror(result));
        return -1;
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    return fd;
}

static size_t append(char *out, size_t at, uint64_t number)
{
    int len = snprintf(out + at, LINE_SIZE - at, " %" PRIx64, number);

    return at + (size_t)len;
}

static void drain(const struct remote *r)
{
    uint8_t bytes[SUBJECT_DATAGRAM_MAX];

    while (recv(r->udp, bytes, sizeof(bytes), MSG_DONTWAIT) >= 0)
        ;
}

/* Another one each time: what still comes of an earlier script is for nobody. */
static uint32_t next_qpn(struct subject *s)
{
    s->peer_qpn = SUBJECT_PEER_QPN + (s->peer_qpn + 1 - SUBJECT_PEER_QPN) % QPN_COUNT;
    return s->peer_qpn;
}

static int remote_open(struct subject *s, const struct setup *setup, struct offer *out)
{
    struct remote *r = of(s);
    const struct qp_attr *a = &setup->attr;
    const uint64_t numbers[] = {setup->service,     a->pmtu,
                                a->rq_psn.value,    a->sq_psn.value,
                                next_qpn(s),        a->qkey,
                                a->access,          a->timeout,
                                a->retry_count,     a->rnr_retry,
                                a->min_rnr_timer,   a->rd_atomic,
                                a->dest_rd_atomic,  setup->send_wr_max,
                                setup->recv_wr_max, setup->with_srq,
                                setup->region_count};
    char words[LINE_SIZE] = "";
    const char *at;
    size_t len = 0;
    int error;

    drain(r);
    r->wall_ahead_ns = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
    if (r->tcp < 0)
        r->tcp = connect_tcp(r->host, r->port, s->error);
    if (r->tcp < 0)
        return -ENOTCONN;
    for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        len = append(words, len, numbers[i]);
    for (uint32_t i = 0; i < setup->region_count; i++) {
        r->lens[i] = setup->regions[i].len;
        len = append(words, len, setup->regions[i].len);
        len = append(words, len, setup->regions[i].access);
        len = append(words, len, setup->regions[i].foreign);
    }
    append(words, len, setup->window_count);
    error = call(r, &at, "open%s\n", words);
    if (error != 0)
        return error;
    *out = (struct offer){.qpn = (uint32_t)take_number(&at)};
    for (uint32_t i = 0; i < setup->region_count; i++) {
        out->regions[i].va = take_number(&at);
        out->regions[i].lkey = (uint32_t)take_number(&at);
        out->regions[i].rkey = (uint32_t)take_number(&at);
    }
    for (uint32_t i = 0; i < setup->window_count; i++)
        out->window_rkeys[i] = (uint32_t)take_number(&at);
    return 0;
}

static void remote_close(struct subject *s)
{
    const char *at;

    (void)call(of(s), &at, "close\n");
}

static int remote_post(struct subject *s, const struct post *p)
{
    const char *at;

    return call(of(s), &at,
                "post %x %x %x %" PRIx64 " %" PRIx64 " %x %x %" PRIx64 " %x %x %" PRIx64 " %" PRIx64
                " %x %x %x %x %x %x\n",
                p->recv, p->opcode, p->flags, p->id, p->va, p->len, p->lkey, p->remote_va, p->rkey,
                p->opcode == WR_LOCAL_INV ? p->rkey : p->imm, p->compare, p->swap, p->window,
                p->window_key, p->region_key, p->window_access, p->remote_qpn, p->remote_qkey);
}

static int remote_poll(struct subject *s, struct completion *out)
{
    const char *at;
    int error = call(of(s), &at, "poll\n");

    if (error != 0)
        return error;
    if (take_number(&at) == 0)
        return 0;
    *out = (struct completion){.wr_id = take_number(&at)};
    out->status = (enum completion_status)take_number(&at);
    out->opcode = (enum completion_opcode)take_number(&at);
    out->byte_len = (uint32_t)take_number(&at);
    out->imm = (uint32_t)take_number(&at);
    out->flags = (uint32_t)take_number(&at);
    out->src_qpn = (uint32_t)take_number(&at);
    return 1;
}

static int remote_event(struct subject *s, uint32_t *type)
{
    const char *at;
    int error = call(of(s), &at, "event\n");

    if (error != 0)
        return error;
    if (take_number(&at) == 0)
        return 0;
    *type = (uint32_t)take_number(&at);
    return 1;
}

static int remote_state(struct subject *s, uint32_t *state)
{
    const char *at;
    int error = call(of(s), &at, "state\n");

    if (error == 0)
        *state = (uint32_t)take_number(&at);
    return error;
}

static int remote_modify(struct subject *s, uint32_t state)
{
    const char *at;

    return call(of(s), &at, "modify %x\n", state);
}

static int remote_write(struct subject *s, uint32_t region, uint32_t offset, const uint8_t *bytes,
                        uint32_t len)
{
    int error = 0;

    for (uint32_t done = 0; done < len && error == 0; done += CHUNK_LEN) {
        uint32_t count = len - done < CHUNK_LEN ? len - done : CHUNK_LEN;
        char hex[2 * CHUNK_LEN + 1];
        const char *at;

        for (uint32_t i = 0; i < count; i++)
            snprintf(hex + (size_t)2 * i, 3, "%02x", bytes[done + i]);
        error = call(of(s), &at, "write %x %x %s\n", region, offset + done, hex);
    }
    return error;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int remote_read(struct subject *s, uint32_t region, uint32_t offset, uint8_t *bytes,
                       uint32_t len)
{
    struct remote *r = of(s);

    for (uint32_t done = 0; done < len; done += CHUNK_LEN) {
        uint32_t count = len - done < CHUNK_LEN ? len - done : CHUNK_LEN;
        const char *at;
        int error = call(r, &at, "read %x %x %x\n", region, offset + done, count);

        if (error != 0)
            return error;
        if (strlen(at) != 1 + (size_t)2 * count)
            return fail(r, -EPROTO, "the responder's answer");
        for (uint32_t i = 0; i < count; i++) {
            int high = hex_value(at[1 + 2 * i]);
            int low = hex_value(at[2 + 2 * i]);

            if (high < 0 || low < 0)
                return fail(r, -EPROTO, "the responder's answer");
            bytes[done + i] = (uint8_t)(high << 4 | low);
        }
    }
    return 0;
}

/* --- the wire --- */

static uint64_t remote_now(struct subject *s)
{
    (void)s;
    return clock_ns(CLOCK_MONOTONIC);
}

/* When a datagram came: the kernel's stamp, for we may be late to read it. */
static uint64_t arrival_ns(const struct remote *r, struct msghdr *m)
{
    const uint64_t now = clock_ns(CLOCK_MONOTONIC);

    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c != NULL; c = CMSG_NXTHDR(m, c)) {
        struct timespec t;
        uint64_t stamp;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SO_TIMESTAMPNS)
            continue;
        memcpy(&t, CMSG_DATA(c), sizeof(t));
        stamp = (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec - r->wall_ahead_ns;
        if (stamp <= now && now - stamp < NS_PER_S * ANSWER_MAX_S) /* else the clock was set */
            return stamp;
    }
    return now;
}

static void set_ecn(struct remote *r, uint8_t ecn)
{
    const int tos = ecn;

    if (r->ecn == ecn)
        return;
    (void)setsockopt(r->udp, r->ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, r->ipv6 ? IPV6_TCLASS : IP_TOS,
                     &tos, sizeof(tos));
    r->ecn = ecn;
}

static int remote_send(struct subject *s, struct wire_packet *p)
{
    struct remote *r = of(s);
    const socklen_t len = r->ipv6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

    r->base.error[0] = '\0';
    if (p->other_source) {
        snprintf(r->base.error, sizeof(r->base.error), "there is one address to send from");
        return -EOPNOTSUPP;
    }
    /* Unconnected and with DF set, IPv4 packets leave with identification 0. */
    if (p->len >= BTH_LEN + ICRC_LEN)
        store_le32(p->bytes + p->len - ICRC_LEN,
                   icrc_compute(&r->flow_out, ROCE_UDP_PORT, 0, p->bytes, p->len - ICRC_LEN) ^
                       (p->bad_icrc ? 1u : 0u));
    set_ecn(r, p->ecn);
    p->at_ns = remote_now(s);
    if (sendto(r->udp, p->bytes, p->len, 0, (const struct sockaddr *)&r->peer, len) < 0)
        return fail(r, -errno, "sending");
    return 0;
}

static bool is_peer(const struct remote *r, const struct sockaddr_storage *from)
{
    const struct sockaddr_in6 *a6 = (const void *)from;
    const struct sockaddr_in6 *b6 = (const void *)&r->peer;
    const struct sockaddr_in *a4 = (const void *)from;
    const struct sockaddr_in *b4 = (const void *)&r->peer;

    if (from->ss_family != r->peer.ss_family)
        return false;
    return r->ipv6 ? memcmp(&a6->sin6_addr, &b6->sin6_addr, sizeof(a6->sin6_addr)) == 0
                   : a4->sin_addr.s_addr == b4->sin_addr.s_addr;
}

/* Takes one datagram off the socket. True: it is of this script. */
static bool take_datagram(struct remote *r, struct wire_packet *out)
{
    struct sockaddr_storage from = {0};
    char control[128] = "";
    struct iovec iov = {.iov_base = out->bytes, .iov_len = sizeof(out->bytes)};
    struct msghdr m = {.msg_name = &from,
                       .msg_namelen = sizeof(from),
                       .msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof(control)};
    ssize_t len = recvmsg(r->udp, &m, MSG_DONTWAIT);
    uint16_t port;
    struct bth bth;

    if (len < (ssize_t)(BTH_LEN + ICRC_LEN) || !is_peer(r, &from))
        return false;
    port = ntohs(r->ipv6 ? ((const struct sockaddr_in6 *)(const void *)&from)->sin6_port
                         : ((const struct sockaddr_in *)(const void *)&from)->sin_port);
    bth_read(out->bytes, &bth);
    if (bth.dest_qpn != r->base.peer_qpn && bth.dest_qpn >> 16 == SUBJECT_PEER_QPN >> 16)
        return false; /* of an earlier script */
    out->len = (size_t)len;
    out->at_ns = arrival_ns(r, &m);
    out->bad_icrc =
        icrc_verify(&r->flow_in, port, r->hint, out->bytes, out->len, &r->hint) != ICRC_GOOD;
    return true;
}

static int remote_receive(struct subject *s, uint64_t until_ns, struct wire_packet *out)
{
    struct remote *r = of(s);
    struct pollfd p = {.fd = r->udp, .events = POLLIN};

    *out = (struct wire_packet){0};
    for (;;) {
        uint64_t now = remote_now(s);
        uint64_t left = now < until_ns ? until_ns - now : 0;
        struct timespec timeout = {.tv_sec = (time_t)(left / NS_PER_S),
                                   .tv_nsec = (long)(left % NS_PER_S)};
        int ready = ppoll(&p, 1, &timeout, NULL);

        if (ready < 0 && errno != EINTR)
            return fail(r, -errno, "waiting");
        if (ready > 0 && take_datagram(r, out))
            return 1;
        if (ready == 0)
            return 0;
    }
}

static int remote_wait(struct subject *s, uint64_t until_ns)
{
    uint64_t now = remote_now(s);
    struct timespec t;

    if (now >= until_ns)
        return 0;
    t = (struct timespec){.tv_sec = (time_t)((until_ns - now) / NS_PER_S),
                          .tv_nsec = (long)((until_ns - now) % NS_PER_S)};
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
    return 0;
}

static const struct subject_ops ops = {
    .open = remote_open,
    .close = remote_close,
    .now = remote_now,
    .send = remote_send,
    .receive = remote_receive,
    .wait = remote_wait,
    .post = remote_post,
    .poll = remote_poll,
    .event = remote_event,
    .state = remote_state,
    .modify = remote_modify,
    .write = remote_write,
    .read = remote_read,
};

/* --- connect --- */

static struct gid gid_of(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET)
        return gid_from_ipv4(&((const struct sockaddr_in *)(const void *)a)->sin_addr);
    return gid_from_ipv6(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr);
}

/* Writes IPv4 addresses that came as IPv6 ones as what they are. */
static void unmap(struct sockaddr_storage *a)
{
    const struct sockaddr_in6 *six = (const void *)a;
    struct sockaddr_in four = {.sin_family = AF_INET};

    if (a->ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
        return;
    memcpy(&four.sin_addr, six->sin6_addr.s6_addr + 12, 4);
    memcpy(a, &four, sizeof(four));
}

static void set_port(struct sockaddr_storage *a, uint16_t port)
{
    if (a->ss_family == AF_INET)
        ((struct sockaddr_in *)(void *)a)->sin_port = htons(port);
    else
        ((struct sockaddr_in6 *)(void *)a)->sin6_port = htons(port);
}

/* The UDP socket at the address that the connection has. */
static int open_udp(struct remote *r, char error[SCRIPT_ERROR_SIZE])
{
    const int df = r->ipv6 ? IPV6_PMTUDISC_DO : IP_PMTUDISC_DO;
    const int one = 1;
    struct sockaddr_storage own = {0};
    socklen_t len = sizeof(own);
    struct gid own_gid;
    struct gid peer_gid;

    if (getsockname(r->tcp, (struct sockaddr *)&own, &len) != 0)
        return -errno;
    len = sizeof(r->peer);
    if (getpeername(r->tcp, (struct sockaddr *)&r->peer, &len) != 0)
        return -errno;
    unmap(&own);
    unmap(&r->peer);
    r->ipv6 = own.ss_family == AF_INET6;
    set_port(&own, ROCE_UDP_PORT);
    set_port(&r->peer, ROCE_UDP_PORT);
    own_gid = gid_of(&own);
    peer_gid = gid_of(&r->peer);
    icrc_flow_init(&r->flow_out, &own_gid, &peer_gid);
    icrc_flow_init(&r->flow_in, &peer_gid, &own_gid);
    r->udp = socket(own.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (r->udp < 0)
        return -errno;
    (void)setsockopt(r->udp, SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof(one));
    if (r->ipv6)
        (void)setsockopt(r->udp, IPPROTO_UDP, UDP_NO_CHECK6_RX_, &one, sizeof(one));
    (void)setsockopt(r->udp, r->ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
                     r->ipv6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, &df, sizeof(df));
    len = r->ipv6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (bind(r->udp, (const struct sockaddr *)&own, len) != 0) {
        snprintf(error, SCRIPT_ERROR_SIZE, "UDP port 4791 of this host: %s", strerror(errno));
        return -EADDRINUSE;
    }
    return 0;
}

struct subject *remote_subject_new(const char *host, const char *port,
                                   char error[SCRIPT_ERROR_SIZE])
{
    struct remote *r = calloc(1, sizeof(*r));
    int result;

    error[0] = '\0';
    if (r == NULL) {
        snprintf(error, SCRIPT_ERROR_SIZE, "no memory");
        return NULL;
    }
    r->base = (struct subject){.ops = &ops,
                               .name = "peer",
                               .patience_ns = PATIENCE_NS,
                               .settle_ns = SETTLE_NS,
                               .peer_qpn = SUBJECT_PEER_QPN};
    snprintf(r->host, sizeof(r->host), "%s", host);
    snprintf(r->port, sizeof(r->port), "%s", port);
    r->udp = -1;
    r->tcp = connect_tcp(host, port, error);
    result = r->tcp < 0 ? -1 : open_udp(r, error);
    if (result != 0) {
        if (error[0] == '\0')
            snprintf(error, SCRIPT_ERROR_SIZE, "%.100s: %s", host, strerror(-result));
        remote_subject_free(&r->base);
        return NULL;
    }
    return &r->base;
}

void remote_subject_free(struct subject *s)
{
    struct remote *r = of(s);

    if (s == NULL)
        return;
    if (r->udp >= 0)
        close(r->udp);
    hang_up(r);
    free(r);
}
