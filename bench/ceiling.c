/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What this machine allows with ordinary sockets, so that figures of uroce are read as parts
 * of it. Two processes over loopback, without any protocol: the receiver tells the sender through
 * shared memory how much it has read, which no packet could do as cheaply.
 *
 * usage: bench-ceiling [ADDRESS [SECONDS [QUESTION...]]]
 * Prints "QUESTION VALUE UNIT", a line each.
 */
#include <arpa/inet.h>
#include <isa-l/crc.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A PMTU of 4096 with the headers and trailer of a middle packet; as many as one send takes. */
#define HEADERS_LEN 12u
#define PAYLOAD_LEN 4096u
#define TRAILER_LEN 4u
#define SEGMENT_LEN (HEADERS_LEN + PAYLOAD_LEN + TRAILER_LEN)
#define SEGMENTS 15u
#define SUPER_LEN ((size_t)SEGMENT_LEN * SEGMENTS)

#define MESSAGE_LEN (1u << 20)
#define SMALL_LEN (HEADERS_LEN + 64u + TRAILER_LEN)
#define TINY_LEN 20u /* what carries a WRITE of 2 bytes is not much more */
#define AT_ONCE 32u
#define IN_FLIGHT_MAX                                                                              \
    131072u /* bytes: the best of 64 KiB to 2 MiB, and within every receive buffer */
#define BUFFER_LEN 65536u

struct shared {
    _Alignas(64) _Atomic uint64_t sent;
    _Alignas(64) _Atomic uint64_t received;
    _Alignas(64) atomic_bool stop;
};

struct end {
    int fd;
    struct sockaddr_in peer;
};

static struct shared *shared;
static struct end ends[2];
static uint8_t *message; /* what is sent, or where it is copied to */
static uint8_t buffers[AT_ONCE][BUFFER_LEN];
static volatile uint32_t sink;

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

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void open_ends(const char *address)
{
    for (int i = 0; i < 2; i++) {
        struct sockaddr_in name = {.sin_family = AF_INET};
        socklen_t len = sizeof(name);
        int size = 1 << 22;

        check(inet_pton(AF_INET, address, &name.sin_addr) == 1, address);
        ends[i].fd = socket(AF_INET, SOCK_DGRAM, 0);
        check(ends[i].fd >= 0, "socket");
        check(bind(ends[i].fd, (struct sockaddr *)&name, sizeof(name)) == 0, "bind");
        setsockopt(ends[i].fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
        getsockname(ends[i].fd, (struct sockaddr *)&ends[!i].peer, &len);
    }
}

static void close_ends(void)
{
    close(ends[0].fd);
    close(ends[1].fd);
}

/* Until there is room at the receiver for so many bytes more; without a system call. */
static void await_room(uint64_t len)
{
    uint64_t sent = atomic_load_explicit(&shared->sent, memory_order_relaxed) + len;

    atomic_store_explicit(&shared->sent, sent, memory_order_relaxed);
    while (sent - atomic_load_explicit(&shared->received, memory_order_acquire) > IN_FLIGHT_MAX &&
           !atomic_load_explicit(&shared->stop, memory_order_relaxed))
        ;
}

static void note_received(uint64_t len)
{
    uint64_t sum = atomic_load_explicit(&shared->received, memory_order_relaxed) + len;

    atomic_store_explicit(&shared->received, sum, memory_order_release);
}

static bool stopped(void)
{
    return atomic_load_explicit(&shared->stop, memory_order_relaxed);
}

/* --- streams: the child receives what the parent sends --- */

static void send_supers(void)
{
    uint8_t *bytes = buffers[0];

    while (!stopped()) {
        await_room(SUPER_LEN);
        check(sendto(ends[0].fd, bytes, SUPER_LEN, 0, (struct sockaddr *)&ends[0].peer,
                     sizeof(ends[0].peer)) == (ssize_t)SUPER_LEN,
              "sendto with UDP_SEGMENT");
    }
}

/* A CRC over each packet, and its payload copied to where it belongs in a message of 1 MiB. */
static void take_supers(int flags)
{
    uint32_t at = 0;

    while (!stopped()) {
        ssize_t len = recv(ends[1].fd, buffers[0], BUFFER_LEN, flags);

        for (ssize_t i = 0; (i + 1) * (ssize_t)SEGMENT_LEN <= len; i++) {
            const uint8_t *packet = buffers[0] + i * (ssize_t)SEGMENT_LEN;

            sink = crc32_gzip_refl(0, packet, SEGMENT_LEN - TRAILER_LEN);
            memcpy(message + at, packet + HEADERS_LEN, PAYLOAD_LEN);
            at = (at + PAYLOAD_LEN) % MESSAGE_LEN;
        }
        if (len > 0)
            note_received((uint64_t)len);
    }
}

static void take_supers_spinning(void)
{
    take_supers(MSG_DONTWAIT);
}

static void take_supers_sleeping(void)
{
    take_supers(0);
}

static void fill_messages(struct mmsghdr *m, struct iovec *iov, size_t len)
{
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        iov[i] = (struct iovec){buffers[i], len};
        m[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &iov[i], .msg_iovlen = 1}};
    }
}

static void send_many(void)
{
    struct mmsghdr m[AT_ONCE];
    struct iovec iov[AT_ONCE];

    fill_messages(m, iov, SMALL_LEN);
    for (uint32_t i = 0; i < AT_ONCE; i++) {
        m[i].msg_hdr.msg_name = &ends[0].peer;
        m[i].msg_hdr.msg_namelen = sizeof(ends[0].peer);
    }
    while (!stopped()) {
        await_room((uint64_t)SMALL_LEN * AT_ONCE);
        check(sendmmsg(ends[0].fd, m, AT_ONCE, 0) == (int)AT_ONCE, "sendmmsg");
    }
}

static void take_many(void)
{
    struct mmsghdr m[AT_ONCE];
    struct iovec iov[AT_ONCE];

    fill_messages(m, iov, BUFFER_LEN);
    while (!stopped()) {
        int got = recvmmsg(ends[1].fd, m, AT_ONCE, MSG_DONTWAIT, NULL);

        if (got > 0)
            note_received((uint64_t)got * SMALL_LEN);
    }
}

static void send_single(void)
{
    while (!stopped()) {
        await_room(SMALL_LEN);
        check(sendto(ends[0].fd, buffers[0], SMALL_LEN, 0, (struct sockaddr *)&ends[0].peer,
                     sizeof(ends[0].peer)) >= 0,
              "sendto");
    }
}

static void take_single(void)
{
    while (!stopped())
        if (recv(ends[1].fd, buffers[0], BUFFER_LEN, MSG_DONTWAIT) > 0)
            note_received(SMALL_LEN);
}

/* --- ping-pong: the child gives back what the parent sends --- */

static void give_back(int flags)
{
    while (!stopped())
        if (recv(ends[1].fd, buffers[0], BUFFER_LEN, flags) > 0)
            check(sendto(ends[1].fd, buffers[0], TINY_LEN, 0, (struct sockaddr *)&ends[1].peer,
                         sizeof(ends[1].peer)) >= 0,
                  "sendto");
}

static void play(int flags)
{
    while (!stopped()) {
        check(sendto(ends[0].fd, buffers[0], TINY_LEN, 0, (struct sockaddr *)&ends[0].peer,
                     sizeof(ends[0].peer)) >= 0,
              "sendto");
        while (recv(ends[0].fd, buffers[0], BUFFER_LEN, flags) < 0 && !stopped())
            ;
        note_received(1);
    }
}

static void give_back_spinning(void)
{
    give_back(MSG_DONTWAIT);
}

static void play_spinning(void)
{
    play(MSG_DONTWAIT);
}

static void give_back_sleeping(void)
{
    give_back(0);
}

static void play_sleeping(void)
{
    play(0);
}

/* --- memory: the parent alone --- */

static void copy_memory(void)
{
    while (!stopped()) {
        memcpy(message, message + MESSAGE_LEN, MESSAGE_LEN);
        note_received(MESSAGE_LEN);
    }
}

static void compute_crc(void)
{
    while (!stopped()) {
        for (uint32_t at = 0; at < MESSAGE_LEN; at += PAYLOAD_LEN)
            sink = crc32_gzip_refl(0, message + at, PAYLOAD_LEN);
        note_received(MESSAGE_LEN);
    }
}

/* --- questions --- */

struct question {
    const char *name;
    const char *unit;
    void (*parent)(void);
    void (*child)(void); /* or NULL */
    bool segments;
    bool sleeps;
    double per;   /* what the counter is divided by */
    bool is_time; /* seconds for one are wanted, not how many a second */
};

static const struct question questions[] = {
    {.name = "udp_bandwidth",
     .unit = "MB/s",
     .parent = send_supers,
     .child = take_supers_spinning,
     .segments = true,
     .per = 1e6 * SEGMENT_LEN / PAYLOAD_LEN},
    {.name = "udp_bandwidth_sleeping",
     .unit = "MB/s",
     .parent = send_supers,
     .child = take_supers_sleeping,
     .segments = true,
     .sleeps = true,
     .per = 1e6 * SEGMENT_LEN / PAYLOAD_LEN},
    {.name = "udp_single",
     .unit = "packets/s",
     .parent = send_single,
     .child = take_single,
     .per = SMALL_LEN},
    {.name = "udp_mmsg",
     .unit = "packets/s",
     .parent = send_many,
     .child = take_many,
     .per = SMALL_LEN},
    {.name = "udp_latency",
     .unit = "us",
     .parent = play_spinning,
     .child = give_back_spinning,
     .per = 0.5e-6,
     .is_time = true},
    {.name = "udp_latency_sleeping",
     .unit = "us",
     .parent = play_sleeping,
     .child = give_back_sleeping,
     .sleeps = true,
     .per = 0.5e-6,
     .is_time = true},
    {.name = "memcpy", .unit = "MB/s", .parent = copy_memory, .per = 1e6},
    {.name = "crc32", .unit = "MB/s", .parent = compute_crc, .per = 1e6},
};

/* Two that spin take a core each; who sleeps goes where the scheduler likes. */
static void choose_core(uint32_t side)
{
    cpu_set_t cores, one;
    size_t core = SIZE_MAX;

    check(sched_getaffinity(0, sizeof(cores), &cores) == 0, "sched_getaffinity");
    for (uint32_t i = 0; i <= side; i++)
        do
            core++;
        while (core < CPU_SETSIZE && !CPU_ISSET(core, &cores));
    if (core >= CPU_SETSIZE)
        return;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    check(sched_setaffinity(0, sizeof(one), &one) == 0, "sched_setaffinity");
}

static void set_segments(bool on)
{
    int segment = on ? (int)SEGMENT_LEN : 0;
    int gro = on;

    check(setsockopt(ends[0].fd, IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)) == 0,
          "UDP_SEGMENT");
    check(setsockopt(ends[1].fd, IPPROTO_UDP, UDP_GRO, &gro, sizeof(gro)) == 0, "UDP_GRO");
}

/* After a tenth of the time, so that what is slow only at first does not count. */
static double begin_measuring(double seconds, uint64_t *received)
{
    struct timespec warm = {.tv_nsec = (long)(seconds * 1e8)};

    nanosleep(&warm, NULL);
    *received = atomic_load(&shared->received);
    return now();
}

/* The parent of both watches the clock, so that neither of them reads it. */
static void ask(const struct question *q, const char *address, double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};
    pid_t children[2] = {0, 0};
    uint64_t before, after;
    double begin, took;

    *shared = (struct shared){.stop = false};
    open_ends(address);
    set_segments(q->segments);
    for (int i = 0; i < 2; i++) {
        void (*part)(void) = i == 0 ? q->child : q->parent;

        if (part == NULL)
            continue;
        children[i] = fork();
        check(children[i] >= 0, "fork");
        if (children[i] == 0) {
            if (!q->sleeps)
                choose_core((uint32_t)i);
            part();
            _exit(0);
        }
    }
    begin = begin_measuring(seconds, &before);
    nanosleep(&time, NULL);
    after = atomic_load(&shared->received);
    took = now() - begin;
    atomic_store(&shared->stop, true);
    for (int i = 0; i < 2; i++) {
        if (children[i] == 0)
            continue;
        if (q->sleeps)
            kill(children[i], SIGKILL);
        waitpid(children[i], NULL, 0);
    }
    close_ends();
    printf("%s %.6g %s\n", q->name,
           q->is_time ? took * 1e6 * 0.5 / (double)(after - before)
                      : (double)(after - before) / took / q->per,
           q->unit);
    fflush(stdout);
}

static bool is_wanted(const char *name, char **names)
{
    if (*names == NULL)
        return true;
    for (; *names != NULL; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    const char *address = argc > 1 ? argv[1] : "127.0.0.1";
    double seconds = argc > 2 ? atof(argv[2]) : 1;
    char *all[] = {NULL};

    message = calloc(2, MESSAGE_LEN);
    memset(message, 1, (size_t)2 * MESSAGE_LEN);
    memset(buffers, 1, sizeof(buffers));
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    check(shared != MAP_FAILED, "mmap");
    for (size_t i = 0; i < sizeof(questions) / sizeof(questions[0]); i++)
        if (is_wanted(questions[i].name, argc > 3 ? argv + 3 : all))
            ask(&questions[i], address, seconds);
    return 0;
}
