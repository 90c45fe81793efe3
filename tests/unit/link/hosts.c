/* SPDX-License-Identifier: BSD-2-Clause */
/* Two network namespaces, made with ip(8). */
#include "hosts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "member.h"

int near_namespace;
int far_namespace;

static void run(const char *command)
{
    if (system(command)) {
        fprintf(stderr, "%s: failed\n", command);
        exit(77);
    }
}

static int open_namespace(void)
{
    return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

/* Binds or sends to port 4792 at one of the far host's addresses. */
static struct sockaddr_in6 far_address(const char *text)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_port = htons(4792)};

    inet_pton(AF_INET6, text, &address.sin6_addr);
    if (IN6_IS_ADDR_LINKLOCAL(&address.sin6_addr))
        address.sin6_scope_id = if_nametoindex("near");
    return address;
}

/* Interfaces come up in their own time, and what is sent before is lost. */
static void await_way(const char *text)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(4792)};
    struct sockaddr_in6 to = far_address(text);
    int sender = socket(AF_INET6, SOCK_DGRAM, 0);
    int receiver;
    char byte = 0;

    setns(far_namespace, CLONE_NEWNET);
    receiver = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    setns(near_namespace, CLONE_NEWNET);
    if (bind(receiver, (struct sockaddr *)&any, sizeof(any)))
        exit(77);
    for (int i = 0; recv(receiver, &byte, 1, 0) < 0; i++) {
        if (i == 1000) {
            fprintf(stderr, "no way to %s\n", text);
            exit(1);
        }
        sendto(sender, &byte, 1, 0, (struct sockaddr *)&to, sizeof(to));
        usleep(10000);
    }
    close(sender);
    close(receiver);
}

/* The far one is made from the near one, so that ip can name it by a descriptor of ours. */
void hosts_make(void)
{
    char command[128];

    namespace_make();
    near_namespace = open_namespace();
    if (unshare(CLONE_NEWNET))
        exit(77);
    far_namespace = open_namespace();
    setns(near_namespace, CLONE_NEWNET);
    run("ip link add near address 02:00:00:00:00:01 type veth "
        "peer name far address 02:00:00:00:00:02");
    snprintf(command, sizeof(command), "ip link set far netns /proc/%d/fd/%d", getpid(),
             far_namespace);
    run(command);
    run("ip address add 192.0.2.1/24 dev near");
    run("ip address add 2001:db8::1/64 dev near nodad");
    run("ip link set near addrgenmode none up");
    run("ip address add fe80::1/64 dev near nodad");
    setns(far_namespace, CLONE_NEWNET);
    run("ip link set lo up");
    run("ip address add 192.0.2.2/24 dev far");
    run("ip address add 2001:db8::2/64 dev far nodad");
    run("ip link set far addrgenmode none up");
    run("ip address add fe80::2/64 dev far nodad");
    setns(near_namespace, CLONE_NEWNET);
    await_way("::ffff:192.0.2.2");
    await_way("2001:db8::2");
    await_way("fe80::2");
}

void hosts_set_mtu(int mtu)
{
    char command[64];

    snprintf(command, sizeof(command), "ip link set near mtu %d", mtu);
    run(command);
    setns(far_namespace, CLONE_NEWNET);
    snprintf(command, sizeof(command), "ip link set far mtu %d", mtu);
    run(command);
    setns(near_namespace, CLONE_NEWNET);
}

struct path path_ipv4(void)
{
    return (struct path){.src = gid_ipv4(0xc0000201), .dst = gid_ipv4(0xc0000202)};
}

struct path path_ipv6(void)
{
    return (struct path){
        .src = {.bytes = {0x20, 0x01, 0x0d, 0xb8, [15] = 1}},
        .dst = {.bytes = {0x20, 0x01, 0x0d, 0xb8, [15] = 2}},
    };
}
