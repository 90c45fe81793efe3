/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the UDP link costs beside plain UDP sockets with the same datagrams, in
 * the same run. One process sends to itself over lo, in a network namespace of its
 * own, and its processor time is measured, so that other load does not matter. Batches
 * of 15 datagrams for PMTU 4096, single small ones, and calls that find nothing.
 */
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "link/udp.h"
#include "wire/packet.h"

#define SEGMENTS 15u
#define SEGMENT_LEN (BTH_LEN + RETH_LEN + 4096u + ICRC_LEN)
#define BATCH_LEN (SEGMENTS * SEGMENT_LEN)
#define SMALL_LEN 64u
#define SECONDS 0.2
#define REPEATS 5

static uint8_t buffer[65536];

/* Either way of moving datagrams. */
struct mover {
    void (*send)(struct mover *m, uint32_t count, uint32_t len);
    uint64_t (*receive)(struct mover *m); /* bytes */
    int fd;
    struct sockaddr_in name;
    struct link *link;
    uint8_t slot;
    uint64_t bytes;
};

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    exit(1);
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void plain_open(struct mover *m)
{
    socklen_t len = sizeof(m->name);
    int size = 1 << 22;
    int one = 1;

    m->name = (struct sockaddr_in){
        .sin_family = AF_INET,
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    m->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0);
    check(bind(m->fd, (struct sockaddr *)&m->name, len) == 0, "bind");
    check(getsockname(m->fd, (struct sockaddr *)&m->name, &len) == 0, "getsockname");
    setsockopt(m->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    setsockopt(m->fd, IPPROTO_UDP, UDP_GRO, &one, sizeof(one));
}

static void plain_send(struct mover *m, uint32_t count, uint32_t len)
{
    int segment = count > 1 ? (int)len : 0;

    setsockopt(m->fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment));
    check(sendto(m->fd, buffer, (size_t)count * len, 0, (struct sockaddr *)&m->name,
                 sizeof(m->name)) >= 0,
          "sendto");
}

static uint64_t plain_receive(struct mover *m)
{
    ssize_t len = recv(m->fd, buffer, sizeof(buffer), 0);

    return len > 0 ? (uint64_t)len : 0;
}

static void link_open(struct mover *m)
{
    struct udp_config config = {.no_gso = false};
    char error[UDP_ERROR_LEN];

    if (udp_link_open(&config, &m->link, &m->slot, error)) {
        fprintf(stderr, "%s\n", error);
        exit(1);
    }
}

static const struct gid loopback = {.bytes = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};

static void link_send_batch(struct mover *m, uint32_t count, uint32_t len)
{
    struct datagram_batch b = {
        .buffer = buffer,
        .capacity = sizeof(buffer),
        .path = {.src = loopback, .dst = loopback, .hop_limit = 64},
        .src_port = 0xc000,
        .dest_slot = m->slot,
        .count = count,
        .segment_len = len,
        .last_len = len,
    };

    for (uint32_t i = 0; i < count; i++)
        buffer[i * len + 5] = m->slot;
    check(link_send(m->link, &b) == 0, "link_send");
}

static void count_datagram(void *context, const struct datagram *d)
{
    struct mover *m = context;

    m->bytes += d->len;
}

static uint64_t link_receive_some(struct mover *m)
{
    m->bytes = 0;
    link_receive(m->link, 64, count_datagram, m);
    return m->bytes;
}

/* Processor time of one send and the receive that takes it, in seconds. */
static double time_exchange(struct mover *m, uint32_t count, uint32_t len)
{
    uint32_t rounds = 0;
    double begin = now();
    double end;

    do {
        for (int i = 0; i < 16; i++) {
            uint64_t got = 0;

            m->send(m, count, len);
            while (got < (uint64_t)count * len)
                got += m->receive(m);
        }
        rounds += 16;
        end = now();
    } while (end - begin < SECONDS);
    return (end - begin) / rounds;
}

static double time_empty_call(struct mover *m)
{
    uint32_t rounds = 0;
    double begin = now();
    double end;

    do {
        for (int i = 0; i < 256; i++)
            m->receive(m);
        rounds += 256;
        end = now();
    } while (end - begin < SECONDS);
    return (end - begin) / rounds;
}

static double median(double *v)
{
    for (int i = 0; i < REPEATS; i++) {
        for (int k = i + 1; k < REPEATS; k++) {
            double t = v[i];

            if (v[k] < t) {
                v[i] = v[k];
                v[k] = t;
            }
        }
    }
    return v[REPEATS / 2];
}

static void own_namespace(void)
{
    struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP};
    int fd;

    check(unshare(CLONE_NEWNET) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0, "unshare");
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    check(ioctl(fd, SIOCSIFFLAGS, &lo) == 0, "lo");
    close(fd);
}

static void print(const char *what, double plain, double link)
{
    printf("%-28s plain %7.2f us  link %7.2f us  ratio %.2f\n", what, plain * 1e6, link * 1e6,
           plain / link);
}

int main(void)
{
    struct mover plain = {.send = plain_send, .receive = plain_receive};
    struct mover udp = {.send = link_send_batch, .receive = link_receive_some};
    double batch[2][REPEATS];
    double small[2][REPEATS];
    double empty[2][REPEATS];

    own_namespace();
    plain_open(&plain);
    link_open(&udp);
    for (int i = 0; i < REPEATS; i++) {
        batch[0][i] = time_exchange(&plain, SEGMENTS, SEGMENT_LEN);
        batch[1][i] = time_exchange(&udp, SEGMENTS, SEGMENT_LEN);
        small[0][i] = time_exchange(&plain, 1, SMALL_LEN);
        small[1][i] = time_exchange(&udp, 1, SMALL_LEN);
        empty[0][i] = time_empty_call(&plain);
        empty[1][i] = time_empty_call(&udp);
    }
    print("15 x 4128 bytes, both ways:", median(batch[0]), median(batch[1]));
    print("64 bytes, both ways:", median(small[0]), median(small[1]));
    print("a call that finds nothing:", median(empty[0]), median(empty[1]));
    return 0;
}
