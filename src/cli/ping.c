/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `uroce ping`: asks an address for a connection on a service that nobody has,
 * and tells how it was refused and how long that took. Whoever speaks RoCEv2 with
 * RDMA CM there (uroce, the kernel's stack, an adapter) answers.
 */
#include "cli/command.h"
#include "link/socket_address.h"
#include "node/device.h"
#include "node/node.h"

#include <argp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT_DEFAULT 4791u /* of the TCP port space; a service is hardly ever there */
#define COUNT_MAX 1000000u
#define MS 1000000u
#define HOP_LIMIT 64u
#define READ_DEPTH 16u /* asked for, so that the answer says how much of it there is */

struct ping {
    const char *address;
    uint32_t count;
    uint32_t interval_ms;
    uint32_t wait_ms;
    uint16_t port;

    struct node *node;
    struct path path;
    char text[INET6_ADDRSTRLEN]; /* of the peer */
    int wake;                    /* eventfd */
    uint64_t asked_ns;

    /* of the answer that is waited for; under the node's lock */
    struct cm_id *id;
    struct cm_event event;
    uint64_t answered_ns; /* 0: not yet */

    uint32_t sent;
    uint32_t answered;
    uint64_t least_ns, most_ns, sum_ns;
};

static struct ping ping;

/* The node's lock is held. */
static void on_event(const struct cm_event *event)
{
    const uint64_t one = 1;

    if (event->id != ping.id || ping.answered_ns != 0)
        return;
    ping.answered_ns = node_now();
    ping.event = *event;
    if (write(ping.wake, &one, sizeof(one)) < 0)
        return; /* it is full, so readable */
}

/* The address that packets to there would leave from: the kernel's own choice. */
static int find_path(const struct addrinfo *to, struct path *out)
{
    struct sockaddr_storage from = {0};
    socklen_t len = sizeof(from);
    int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int result = 0;

    if (fd < 0)
        return -errno;
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0 ||
        getsockname(fd, (struct sockaddr *)&from, &len) != 0)
        result = -errno;
    close(fd);
    if (result != 0)
        return result;
    gid_from_socket_address((const struct sockaddr *)&from, &out->src);
    gid_from_socket_address(to->ai_addr, &out->dst);
    if (to->ai_family == AF_INET6)
        out->scope_id = ((const struct sockaddr_in6 *)(const void *)to->ai_addr)->sin6_scope_id;
    out->hop_limit = HOP_LIMIT;
    return 0;
}

/* Returns false with the reason said. */
static bool resolve(struct ping *p, const char *self)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
    struct addrinfo *to;
    int result = getaddrinfo(p->address, "4791", &hints, &to);

    if (result != 0) {
        fprintf(stderr, "%s: %s: %s\n", self, p->address, gai_strerror(result));
        return false;
    }
    result = find_path(to, &p->path);
    getnameinfo(to->ai_addr, to->ai_addrlen, p->text, sizeof(p->text), NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(to);
    if (result != 0)
        fprintf(stderr, "%s: no way to %s: %s\n", self, p->address, strerror(-result));
    return result == 0;
}

/* RDMA CM's listeners want to know the addresses; no port of ours is behind them. */
static void write_header(const struct path *path, uint8_t *out)
{
    struct cm_ip_header header = {.ip_version = gid_is_ipv4(&path->dst) ? 4 : 6};
    const size_t at = header.ip_version == 4 ? sizeof(header.src) - 4 : 0;

    memcpy(header.src + at, path->src.bytes + at, sizeof(header.src) - at);
    memcpy(header.dst + at, path->dst.bytes + at, sizeof(header.dst) - at);
    cm_ip_header_write(&header, out);
}

/* Returns 0 or a negative errno. */
static int ask(struct ping *p)
{
    uint8_t header[CM_IP_HEADER_LEN];
    const struct cm_connect connect = {
        .path = p->path,
        .service_id = cm_service_id(CM_PORT_SPACE_TCP, p->port),
        .qpn = 2,
        .initiator_depth = READ_DEPTH,
        .path_mtu = 3,
        .ack_timeout = 19,
        .private_data = {header, sizeof(header)},
    };
    int result;

    write_header(&p->path, header);
    node_lock(p->node);
    p->answered_ns = 0;
    result = cm_id_new(node_cm(p->node), NULL, &p->id);
    p->asked_ns = node_now();
    if (result == 0)
        result = cm_connect(p->id, &connect, p->asked_ns);
    node_unlock(p->node);
    return result;
}

/* Waits for the answer, and ends the question either way. */
static bool await(struct ping *p)
{
    struct pollfd wake = {.fd = p->wake, .events = POLLIN};
    uint64_t value;
    bool answered;

    node_before_sleep(p->node);
    if (poll(&wake, 1, (int)p->wait_ms) > 0 && read(p->wake, &value, sizeof(value)) < 0)
        perror("uroce ping");
    node_lock(p->node);
    answered = p->answered_ns != 0;
    cm_id_free(p->id, node_now());
    p->id = NULL;
    node_unlock(p->node);
    return answered;
}

static void note(struct ping *p, uint64_t took_ns)
{
    p->answered++;
    p->sum_ns += took_ns;
    if (p->answered == 1 || took_ns < p->least_ns)
        p->least_ns = took_ns;
    if (took_ns > p->most_ns)
        p->most_ns = took_ns;
}

static void print_answer(struct ping *p)
{
    const struct cm_message *m = &p->event.message;
    const uint64_t took_ns = p->answered_ns - p->asked_ns;
    const char *reason;

    if (p->event.type == CM_EVENT_UNREACHABLE)
        return;
    note(p, took_ns);
    printf("%s: %.3f ms, ", p->text, (double)took_ns / MS);
    if (p->event.type == CM_EVENT_REPLY) {
        printf("accepted: queue pair 0x%06x, first PSN %u, %u READs at a time\n", m->qpn,
               m->starting_psn, m->responder_resources);
        return;
    }
    reason = cm_reason_text(m->reason);
    if (m->reason == CM_REASON_INVALID_SERVICE_ID)
        printf("speaks RDMA CM; nobody listens on port %u\n", p->port);
    else
        printf("speaks RDMA CM; refused for reason %u (%s)\n", m->reason,
               reason != NULL ? reason : "not known");
}

static void print_silence(const struct ping *p, uint64_t refused_before)
{
    const struct link_counters counters = node_link_counters(p->node);

    if (counters.send_refused > refused_before)
        printf("%s: nobody has UDP port 4791 open there\n", p->text);
    else
        printf("%s: no answer in %u ms\n", p->text, p->wait_ms);
}

static bool ask_once(struct ping *p, const char *self)
{
    const uint64_t refused = node_link_counters(p->node).send_refused;
    int result = ask(p);

    if (result != 0) {
        fprintf(stderr, "%s: %s\n", self, strerror(-result));
        return false;
    }
    p->sent++;
    if (await(p))
        print_answer(p);
    else
        print_silence(p, refused);
    fflush(stdout);
    return true;
}

static int run(struct ping *p, const char *self)
{
    p->node = node_get();
    if (p->node == NULL)
        return EXIT_FAILURE;
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (p->wake < 0) {
        fprintf(stderr, "%s: %s\n", self, strerror(errno));
        return EXIT_FAILURE;
    }
    node_set_cm_handler(on_event);
    for (uint32_t i = 0; i < p->count; i++) {
        if (i > 0)
            usleep(p->interval_ms * 1000);
        if (!ask_once(p, self))
            return EXIT_FAILURE;
    }
    printf("%u asked, %u answered", p->sent, p->answered);
    if (p->answered > 0)
        printf(", least/mean/most %.3f/%.3f/%.3f ms", (double)p->least_ns / MS,
               (double)p->sum_ns / p->answered / MS, (double)p->most_ns / MS);
    putchar('\n');
    return p->answered > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static uint32_t number(struct argp_state *state, const char *what, const char *text, uint32_t least,
                       uint32_t most)
{
    char *end;
    unsigned long value;

    errno = 0;
    value = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || value < least || value > most)
        argp_error(state, "%s '%s': a whole number from %u to %u is meant", what, text, least,
                   most);
    return (uint32_t)value;
}

static error_t parse_option(int key, char *argument, struct argp_state *state)
{
    struct ping *p = state->input;

    switch (key) {
    case 'c':
        p->count = number(state, "count", argument, 1, COUNT_MAX);
        return 0;
    case 'i':
        p->interval_ms = number(state, "interval", argument, 0, 3600000);
        return 0;
    case 'w':
        p->wait_ms = number(state, "wait", argument, 1, 3600000);
        return 0;
    case 'p':
        p->port = (uint16_t)number(state, "port", argument, 1, 65535);
        return 0;
    case ARGP_KEY_ARG:
        if (*argument == '\0')
            argp_error(state, "an address is meant, not ''");
        if (p->address != NULL)
            argp_error(state, "one address is meant, '%s' is a second one", argument);
        p->address = argument;
        return 0;
    case ARGP_KEY_END:
        if (p->address == NULL)
            argp_error(state, "an address is missing");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

int command_ping(int argc, char **argv)
{
    static const struct argp_option options[] = {
        {.name = "count", .key = 'c', .arg = "N", .doc = "ask so many times (4)"},
        {.name = "interval", .key = 'i', .arg = "MS", .doc = "milliseconds between them (1000)"},
        {.name = "wait", .key = 'w', .arg = "MS", .doc = "milliseconds to wait for each (2000)"},
        {.name = "port", .key = 'p', .arg = "PORT", .doc = "ask on this port of RDMA CM (4791)"},
        {0},
    };
    static const struct argp argp = {
        .options = options,
        .parser = parse_option,
        .args_doc = "ADDRESS",
        .doc = "Asks whether RoCEv2 with RDMA CM is spoken at an address, and how long the answer "
               "takes. Nothing is set up: the question is for a connection that the other side "
               "refuses, or that is given up when it is offered."
               "\v"
               "Examples:\n"
               "  uroce ping 192.0.2.1            is anybody there?\n"
               "  uroce ping -p 7174 192.0.2.1    does rping's server listen?\n"
               "Exit status 0: there was an answer. 1: there was none.",
    };

    ping = (struct ping){.count = 4, .interval_ms = 1000, .wait_ms = 2000, .port = PORT_DEFAULT};
    if (argp_parse(&argp, argc, argv, 0, NULL, &ping) != 0 || !resolve(&ping, argv[0]))
        return EXIT_FAILURE;
    return run(&ping, argv[0]);
}
