/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel is asked for the next hop (RTM_GETROUTE) and for its neighbour entry (RTM_GETNEIGH).
 * To have it look for one that it does not know, a datagram without a byte is sent there. Not to
 * RoCEv2's port: Linux 6.1's rxe, when it drops what is shorter than a BTH, gives back a queue pair
 * that it never had (rxe_rcv in rxe_recv.c), and that is the end of the machine. While somebody
 * waits, a thread looks again; the usual case, that the entry is there, needs none.
 */
#include "rdmacm/neighbour.h"

#include <errno.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "link/kernel_socket.h"

#define LOOK_AGAIN_NS 10000000
#define DISCARD_PORT 9u /* RFC 863 */
#define VALID (NUD_PERMANENT | NUD_NOARP | NUD_REACHABLE | NUD_PROBE | NUD_STALE | NUD_DELAY)

/* --- the kernel's word --- */

struct question {
    struct nlmsghdr header;
    union {
        struct rtmsg route;
        struct ndmsg neighbour;
    };
    uint8_t attributes[64];
};

struct answer {
    union {
        struct nlmsghdr header;
        uint8_t bytes[2048];
    };
    ssize_t len;
};

/* Where to, on the way to an address. */
struct hop {
    bool needs_neighbour;
    uint32_t ifindex;
    int family;
    uint8_t address[16]; /* the first four of them for IPv4 */
};

static size_t address_size(int family)
{
    return family == AF_INET ? 4 : 16;
}

static void add(struct question *q, uint16_t type, const void *data, size_t len)
{
    struct rtattr *a = (struct rtattr *)(void *)((char *)q + NLMSG_ALIGN(q->header.nlmsg_len));

    a->rta_type = type;
    a->rta_len = (unsigned short)RTA_LENGTH(len);
    memcpy(RTA_DATA(a), data, len);
    q->header.nlmsg_len = (uint32_t)(NLMSG_ALIGN(q->header.nlmsg_len) + RTA_LENGTH(len));
}

/* 0 with an answer, or the kernel's negative errno. */
static int ask(const struct question *q, struct answer *a)
{
    const int fd = kernel_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    const struct nlmsgerr *error = NLMSG_DATA(&a->header);

    if (fd < 0)
        return -errno;
    a->len = send(fd, q, q->header.nlmsg_len, 0);
    if (a->len >= 0)
        a->len = recv(fd, a->bytes, sizeof(a->bytes), MSG_DONTWAIT); /* it is there already */
    close(fd);
    if (a->len < (ssize_t)NLMSG_LENGTH(sizeof(*error)))
        return -EPROTO;
    return a->header.nlmsg_type == NLMSG_ERROR ? error->error : 0;
}

static void take_hop(const struct answer *a, struct hop *out)
{
    const struct rtmsg *route = NLMSG_DATA(&a->header);
    const uint8_t *at = (const uint8_t *)RTM_RTA(route);
    const uint8_t *end = a->bytes + a->len;

    out->needs_neighbour = route->rtm_type == RTN_UNICAST;
    while (end - at >= (ptrdiff_t)sizeof(struct rtattr)) {
        const struct rtattr *r = (const struct rtattr *)(const void *)at;

        if (r->rta_len < sizeof(*r) || r->rta_len > end - at)
            return;
        at += RTA_ALIGN(r->rta_len);
        if (r->rta_type == RTA_OIF && RTA_PAYLOAD(r) == sizeof(out->ifindex))
            memcpy(&out->ifindex, RTA_DATA(r), sizeof(out->ifindex));
        if (r->rta_type == RTA_GATEWAY && RTA_PAYLOAD(r) == address_size(out->family))
            memcpy(out->address, RTA_DATA(r), RTA_PAYLOAD(r));
        if (r->rta_type == RTA_VIA)
            out->needs_neighbour = false; /* of the other family: taken for there */
    }
}

static struct hop next_hop(const struct endpoint *dst, uint32_t ifindex)
{
    struct hop hop = {.family = dst->family, .ifindex = ifindex};
    const size_t size = address_size(dst->family);
    struct question q = {
        .header = {.nlmsg_type = RTM_GETROUTE,
                   .nlmsg_flags = NLM_F_REQUEST,
                   .nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg))},
        .route = {.rtm_family = (unsigned char)dst->family,
                  .rtm_dst_len = (unsigned char)(8 * size)},
    };
    struct answer a;

    memcpy(hop.address, dst->gid.bytes + sizeof(dst->gid.bytes) - size, size);
    add(&q, RTA_DST, hop.address, size);
    if (gid_is_link_local(&dst->gid))
        add(&q, RTA_OIF, &ifindex, sizeof(ifindex));
    if (ask(&q, &a) == 0 && a.header.nlmsg_type == RTM_NEWROUTE)
        take_hop(&a, &hop);
    return hop;
}

/* Its state (NUD_...), or a negative errno: -ENOENT when there is no entry. */
static int neighbour_state(const struct hop *hop)
{
    struct question q = {
        .header = {.nlmsg_type = RTM_GETNEIGH,
                   .nlmsg_flags = NLM_F_REQUEST,
                   .nlmsg_len = NLMSG_LENGTH(sizeof(struct ndmsg))},
        .neighbour = {.ndm_family = (uint8_t)hop->family, .ndm_ifindex = (int)hop->ifindex},
    };
    struct answer a;
    int result;

    add(&q, NDA_DST, hop->address, address_size(hop->family));
    result = ask(&q, &a);
    if (result != 0)
        return result;
    return ((const struct ndmsg *)NLMSG_DATA(&a.header))->ndm_state;
}

static void look_for(const struct endpoint *dst, uint32_t ifindex)
{
    struct endpoint to = *dst;
    struct sockaddr_storage address;
    const int fd = kernel_socket(dst->family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return;
    to.port = DISCARD_PORT;
    to.scope_id = gid_is_link_local(&dst->gid) ? ifindex : 0;
    endpoint_write(&to, &address);
    sendto(fd, "", 0, 0, (const struct sockaddr *)&address, address_len(dst->family));
    close(fd);
}

/*
 * False only when the kernel looks for the next hop and has not found it. An interface without
 * neighbours has no entry also after something was sent.
 */
static bool is_known(const struct endpoint *dst, uint32_t ifindex)
{
    const struct hop hop = next_hop(dst, ifindex);
    int state = hop.needs_neighbour ? neighbour_state(&hop) : NUD_PERMANENT;

    if (state == -ENOENT || (state >= 0 && (state & (VALID | NUD_INCOMPLETE)) == 0)) {
        look_for(dst, ifindex);
        state = neighbour_state(&hop);
    }
    return state < 0 || (state & VALID) != 0;
}

/* --- who waits --- */

struct waiting {
    struct list link;
    struct id_handle *id;
    struct endpoint dst;
    uint32_t ifindex;
    uint64_t until_ns;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list all = {&all, &all};
static bool looking; /* there is a thread */

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Ends what has an answer, or none in time. The lock is held. */
static void look(void)
{
    for (struct list *l = all.next, *next; l != &all; l = next) {
        struct waiting *w = LIST_ENTRY(l, struct waiting, link);
        const bool known = is_known(&w->dst, w->ifindex);

        next = l->next;
        if (!known && now() < w->until_ns)
            continue;
        id_resolved(w->id, known ? 0 : -ETIMEDOUT);
        list_remove(l);
        free(w);
    }
}

static void *look_again(void *unused)
{
    const struct timespec pause = {.tv_nsec = LOOK_AGAIN_NS};

    (void)unused;
    for (;;) {
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&lock);
        look();
        looking = !list_empty(&all);
        if (!looking)
            break;
        pthread_mutex_unlock(&lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* The lock is held. 0 or a negative errno. */
static int start_looking(void)
{
    sigset_t blocked, before;
    pthread_t thread;
    int error;

    if (looking)
        return 0;
    sigfillset(&blocked);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    error = pthread_create(&thread, NULL, look_again, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pthread_detach(thread);
    looking = error == 0;
    return -error;
}

int neighbour_await(struct id_handle *h, const struct endpoint *dst, int timeout_ms)
{
    const uint64_t patience_ns = timeout_ms > 0 ? (uint64_t)timeout_ms * 1000000u : 0;
    struct waiting *w;
    int result;

    if (is_known(dst, h->found.place.ifindex))
        return id_resolved(h, 0);
    w = malloc(sizeof(*w));
    if (w == NULL)
        return -ENOMEM;
    *w = (struct waiting){
        .id = h,
        .dst = *dst,
        .ifindex = h->found.place.ifindex,
        .until_ns = now() + patience_ns,
    };
    pthread_mutex_lock(&lock);
    result = start_looking();
    if (result == 0)
        list_push_tail(&all, &w->link);
    else
        free(w);
    pthread_mutex_unlock(&lock);
    return result;
}

void neighbour_forget(const struct id_handle *h)
{
    pthread_mutex_lock(&lock);
    for (struct list *l = all.next, *next; l != &all; l = next) {
        struct waiting *w = LIST_ENTRY(l, struct waiting, link);

        next = l->next;
        if (w->id != h)
            continue;
        list_remove(l);
        free(w);
    }
    pthread_mutex_unlock(&lock);
}

void neighbours_forget(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    lock = fresh;
    looking = false;
    list_init(&all);
}
