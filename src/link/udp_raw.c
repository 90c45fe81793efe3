/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The raw face of the UDP link (UROCE_RAW): packet sockets see the frames that come for our slot by
 * Ethernet, with every header field, and raw IP sockets send packets whose headers are ours; the
 * kernel finds the next hop. Traffic of this host, multicast and QP1 stay with the UDP sockets.
 *
 * The UDP socket of our slot stays bound, so that the kernel sends no ICMP error; a filter has it
 * drop what the packet sockets show.
 */
#include "link/udp_private.h"

#include <errno.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/if_arp.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <string.h>
#include <unistd.h>

#include "link/kernel_socket.h"
#include "link/refusal.h"
#include "wire/ip.h"
#include "wire/packet.h"

#define SLOT_OFFSET (UDP_LEN + 5u) /* high byte of the destination QPN, from the UDP header */
#define ANCILLARY(word) ((uint32_t)SKF_AD_OFF + (word))
#define ACCEPT UINT32_MAX
#define IPV4_MULTICAST 224u /* first byte of an address, and up; 255.255.255.255 among them */
#define IPV6_MULTICAST 0xffu

static int attach(int fd, struct sock_filter *code, size_t count)
{
    struct sock_fprog program;

    memset(&program, 0, sizeof(program)); /* with the padding, which the kernel is shown */
    program.len = (uint16_t)count;
    program.filter = code;
    return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ? -errno : 0;
}

/*
 * What the packet sockets show and what the UDP sockets drop must be the same, or something comes
 * twice, or goes without a word. So more is shown than can be good: IPv6 extension headers, and
 * the first of fragments, out of which the kernel makes datagrams. Those are shown whatever the
 * slot, for they need not say it yet. So is what came to all of an Ethernet or to some, if IP
 * says that it is for one.
 */

/* clang-format off */
static int attach_ipv4(int fd, uint8_t slot)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ANCILLARY(SKF_AD_HATYPE)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARPHRD_ETHER, 0, 17),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ANCILLARY(SKF_AD_PKTTYPE)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_HOST, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, PACKET_MULTICAST, 14, 0),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ETH_HLEN + 16),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, IPV4_MULTICAST, 12, 0),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ETH_HLEN + 9),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IP_PROTOCOL_UDP, 0, 10),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, ETH_HLEN + 6),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x1fff, 8, 0), /* a later fragment */
        BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, ETH_HLEN),
        BPF_STMT(BPF_LD | BPF_H | BPF_IND, ETH_HLEN + 2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_UDP_PORT, 0, 5),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, ETH_HLEN + 6),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x2000, 2, 0), /* the first of some */
        BPF_STMT(BPF_LD | BPF_B | BPF_IND, ETH_HLEN + SLOT_OFFSET),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, slot, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, ACCEPT),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };

    return attach(fd, code, sizeof(code) / sizeof(code[0]));
}

/* The kernel itself looks for UDP behind extension headers. */
static int attach_ipv6(int fd, uint8_t slot)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ANCILLARY(SKF_AD_HATYPE)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARPHRD_ETHER, 0, 24),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ANCILLARY(SKF_AD_PKTTYPE)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_HOST, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, PACKET_MULTICAST, 21, 0),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ETH_HLEN + 24),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPV6_MULTICAST, 19, 0),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ETH_HLEN + 6),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IP_PROTOCOL_UDP, 12, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_FRAGMENT, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_DSTOPTS, 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_ROUTING, 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, IPPROTO_HOPOPTS, 2, 13),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, ETH_HLEN + IPV6_LEN + 2),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0xfff8, 11, 0), /* a later fragment */
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ANCILLARY(SKF_AD_PAY_OFFSET)),
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, UDP_LEN, 0, 9),
        BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, UDP_LEN),
        BPF_STMT(BPF_MISC | BPF_TAX, 0),
        BPF_STMT(BPF_LD | BPF_H | BPF_IND, 2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_UDP_PORT, 4, 5),
        BPF_STMT(BPF_LD | BPF_H | BPF_ABS, ETH_HLEN + IPV6_LEN + 2),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ROCE_UDP_PORT, 0, 3),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, ETH_HLEN + IPV6_LEN + SLOT_OFFSET),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, slot, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, ACCEPT),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };

    return attach(fd, code, sizeof(code) / sizeof(code[0]));
}

/* The bytes that a UDP socket's filter sees begin at the UDP header. */
static int mute(int fd, uint8_t slot)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ANCILLARY(SKF_AD_HATYPE)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARPHRD_ETHER, 0, 4),
        BPF_STMT(BPF_LD | BPF_W | BPF_LEN, 0),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, SLOT_OFFSET, 0, 2),
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, SLOT_OFFSET),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, slot, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, ACCEPT),
        BPF_STMT(BPF_RET | BPF_K, 0),
    };

    return attach(fd, code, sizeof(code) / sizeof(code[0]));
}
/* clang-format on */

int udp_raw_mute(struct udp *u)
{
    for (enum family f = 0; f < FAMILY_COUNT; f++) {
        int fd = u->source[SOURCE_SLOT_IPV4 + f].fd;
        int err = fd >= 0 ? mute(fd, u->slot) : 0;

        if (err)
            return err;
    }
    return 0;
}

static int set_number(int fd, int level, int name, int value)
{
    return setsockopt(fd, level, name, &value, sizeof(value)) ? -errno : 0;
}

/* Receives nothing before udp_raw_start binds it. */
static int open_receiver(struct udp *u, enum family f)
{
    /* The kernel doubles what it is asked for, so half of INT_MAX is the most. */
    uint32_t size = u->config.receive_buffer ? u->config.receive_buffer : INT_MAX / 2;
    int fd = kernel_socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0)
        return -errno;
    u->source[SOURCE_RAW_IPV4 + f].fd = fd;
    u->source[SOURCE_RAW_IPV4 + f].remote = true;
    set_number(fd, SOL_SOCKET, SO_RCVBUF, (int)size);
    set_number(fd, SOL_SOCKET, SO_RXQ_OVFL, 1);
    return set_number(fd, SOL_PACKET, PACKET_VNET_HDR, 1);
}

/* Sends what begins with an IP header; receives nothing, since no packet has this protocol. */
static int open_sender(struct udp *u, enum family f)
{
    int fd = kernel_socket(family_domain(f), SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_RAW);

    if (fd < 0)
        return f == FAMILY_IPV6 && errno == EAFNOSUPPORT ? 0 : -errno;
    u->raw_sender[f].fd = fd;
    return 0;
}

int udp_raw_open(struct udp *u, char *error)
{
    int err = 0;

    for (enum family f = 0; f < FAMILY_COUNT && !err; f++) {
        err = open_receiver(u, f);
        if (!err)
            err = open_sender(u, f);
    }
    if (err == -EPERM || err == -EACCES)
        return refuse(error, err,
                      "UROCE_RAW: sockets for whole packets need CAP_NET_RAW, which "
                      "this process does not have");
    return err ? refuse(error, err, "UROCE_RAW: %s", strerror(-err)) : 0;
}

int udp_raw_start(struct udp *u, char *error)
{
    int err = 0;

    for (enum family f = 0; f < FAMILY_COUNT && !err; f++) {
        int fd = u->source[SOURCE_RAW_IPV4 + f].fd;
        const struct sockaddr_ll all = {
            .sll_family = AF_PACKET,
            .sll_protocol = htons(f == FAMILY_IPV4 ? ETH_P_IP : ETH_P_IPV6),
        };

        err = f == FAMILY_IPV4 ? attach_ipv4(fd, u->slot) : attach_ipv6(fd, u->slot);
        if (!err && bind(fd, (const struct sockaddr *)&all, sizeof(all)))
            err = -errno;
        if (!err)
            err = udp_watch(u, SOURCE_RAW_IPV4 + f, fd);
    }
    return err ? refuse(error, err, "UROCE_RAW: %s", strerror(-err)) : 0;
}

void udp_raw_close(struct udp *u)
{
    for (enum family f = 0; f < FAMILY_COUNT; f++) {
        if (u->raw_sender[f].fd >= 0)
            close(u->raw_sender[f].fd);
        u->raw_sender[f].fd = -1;
    }
}

bool udp_raw_sends(struct udp *u, const struct path *path)
{
    enum family f = gid_is_ipv4(&path->dst) ? FAMILY_IPV4 : FAMILY_IPV6;

    return u->raw_sender[f].fd >= 0 && !gid_is_multicast(&path->dst) &&
           !routes_is_local(&u->routes, &path->dst, udp_now_ns());
}

bool udp_raw_addresses_fit(struct udp *u, const struct arrival *a)
{
    uint64_t now_ns = udp_now_ns();

    return u->routes.socket < 0 || (routes_is_local(&u->routes, &a->dst, now_ns) &&
                                    !routes_is_local(&u->routes, &a->src, now_ns));
}

size_t udp_raw_headers(const struct datagram_batch *b, uint16_t identification, size_t len,
                       uint8_t out[RAW_HEADERS_MAX])
{
    const struct path *path = &b->path;
    const struct ip_header ip = {
        .ipv4 = gid_is_ipv4(&path->dst),
        .src = path->src,
        .dst = path->dst,
        .traffic_class = path->traffic_class,
        .hop_limit = path->hop_limit ? path->hop_limit : (uint8_t)HOP_LIMIT_DEFAULT,
        .protocol = IP_PROTOCOL_UDP,
        .flow_label = path->flow_label,
        .identification = identification,
        .dont_fragment = true,
        .payload_len = (uint16_t)(UDP_LEN + len),
    };
    /* No checksum, as adapters and Linux rxe: there is the ICRC. */
    const struct udp_header udp = {
        .src_port = b->src_port,
        .dst_port = ROCE_UDP_PORT,
        .len = (uint16_t)(UDP_LEN + len),
    };
    size_t ip_len = ip_write(&ip, out);

    udp_write(&udp, out + ip_len);
    return ip_len + UDP_LEN;
}
