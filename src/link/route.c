/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One RTM_GETROUTE message and its answer; the kernel answers within send.
 */
#include "link/route.h"

#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "link/gid_hash.h"
#include "link/kernel_socket.h"

struct question {
    struct nlmsghdr header;
    struct rtmsg route;
    struct rtattr attribute;
    uint8_t address[16];
};

struct answer {
    struct nlmsghdr header;
    struct rtmsg route;
    uint8_t attributes[1024];
};

void routes_open(struct routes *r)
{
    r->socket = kernel_socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
}

void routes_close(struct routes *r)
{
    if (r->socket >= 0)
        close(r->socket);
    r->socket = -1;
}

static bool ask_kernel(int socket, const struct gid *address)
{
    bool ipv4 = gid_is_ipv4(address);
    uint8_t address_len = ipv4 ? 4 : 16;
    struct question q = {
        .header.nlmsg_type = RTM_GETROUTE,
        .header.nlmsg_flags = NLM_F_REQUEST,
        .header.nlmsg_len = (uint32_t)offsetof(struct question, address) + address_len,
        .route.rtm_family = ipv4 ? AF_INET : AF_INET6,
        .route.rtm_dst_len = (unsigned char)(address_len * 8),
        .attribute.rta_type = RTA_DST,
        .attribute.rta_len = (unsigned short)RTA_LENGTH(address_len),
    };
    struct answer a;
    ssize_t len;

    memcpy(q.address, address->bytes + 16 - address_len, address_len);
    if (send(socket, &q, q.header.nlmsg_len, 0) < 0)
        return false;
    len = recv(socket, &a, sizeof(a), MSG_DONTWAIT);
    return len >= (ssize_t)offsetof(struct answer, attributes) &&
           a.header.nlmsg_type == RTM_NEWROUTE && a.route.rtm_type == RTN_LOCAL;
}

bool routes_is_local(struct routes *r, const struct gid *address, uint64_t now_ns)
{
    struct route_answer *a = &r->answer[gid_hash(address, 0) % ROUTE_ANSWERS];

    if (r->socket < 0)
        return false;
    if (now_ns >= a->until_ns || !gid_equal(&a->address, address))
        *a = (struct route_answer){
            .address = *address,
            .until_ns = now_ns + ROUTE_ANSWER_NS,
            .local = ask_kernel(r->socket, address),
        };
    return a->local;
}
