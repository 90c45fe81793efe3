/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verified_transfer: processes that move patterns between each other with SEND, WRITE, READ and
 * atomics, both ways, and look at every byte. Plain libibverbs: it runs over whatever
 * libibverbs.so.1 the loader finds. The server meets as many clients as it is told, and transfers
 * with all at once.
 *
 * SIGTERM ends it in order, if the other process is told too.
 *
 * Exit status: 0 all verified; 1 something is wrong; 3 the other process died.
 */
#include <argp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ending.h"
#include "meeting.h"
#include "transfer.h"

#define CLIENTS_MAX 64u
#define CQ_ENTRIES 65536
#define AT_ONCE 32
#define STUCK_S 150.0 /* without any completion */

#define SECONDS_MAX 86400u
#define SIZE_MAX_BYTES (64u << 20)
#define DEPTH_MAX 1024u

struct options {
    struct plan plan;
    const char *port;
    const char *gid;
    const char *host; /* NULL: be the server */
    uint32_t clients;
    uint32_t seconds; /* 0: count operations */
    bool spin;
    uint32_t rest_us;    /* each time before it looks at what has completed */
    uint32_t patience_s; /* for the other process to come */
};

static const struct argp_option option_table[] = {
    {"port", 'p', "PORT", 0, "TCP port to meet at", 0},
    {"gid", 'g', "ADDRESS", 0, "the GID to use, as an address", 0},
    {"qps", 'q', "N", 0, "queue pairs to each other process (1)", 0},
    {"ops", 'n', "N", 0, "operations on each, in each direction (100)", 0},
    {"seconds", 't', "S", 0, "go on for so long instead", 0},
    {"size", 's', "BYTES", 0, "largest message (65536)", 0},
    {"exact", 'x', NULL, 0, "all messages of that size", 0},
    {"depth", 'd', "N", 0, "operations of a QP at once (4)", 0},
    {"kinds", 'k', "LETTERS", 0, "s(end), w(rite), r(ead), a(tomic), in this order (swra)", 0},
    {"mtu", 'm', "BYTES", 0, "path MTU (1024)", 0},
    {"clients", 'c', "N", 0, "how many clients the server waits for (1)", 0},
    {"orphan", 'o', NULL, 0, "go on when the other process dies, till the transport gives up", 0},
    {"patience", 'P', "S", 0, "how long to wait for the other process to come (120)", 0},
    {"rest", 'r', "US", 0, "leave the core to others for so long, again and again", 0},
    {"spin", 'S', NULL, 0, "poll without a rest, else sleep till there is an event", 0},
    {0},
};

static void parse_kinds(struct plan *p, const char *letters, struct argp_state *state)
{
    static const char known[] = "swra";

    p->kind_count = 0;
    for (; *letters != '\0' && p->kind_count < KIND_COUNT; letters++) {
        const char *found = strchr(known, *letters);

        if (found == NULL)
            argp_error(state, "'%c' is no kind of operation", *letters);
        p->kinds[p->kind_count++] = (enum kind)(found - known);
    }
}

static enum ibv_mtu parse_mtu(uint32_t bytes)
{
    enum ibv_mtu mtu = IBV_MTU_256;

    while (mtu < IBV_MTU_4096 && 128u << (mtu + 1) <= bytes)
        mtu++;
    return mtu;
}

/* Digits and nothing else, of a number in the range. */
static uint32_t parse_number(const char *text, uint32_t least, uint32_t most,
                             struct argp_state *state)
{
    char *end = NULL;
    unsigned long number;

    errno = 0;
    number = strtoul(text, &end, 10);
    if (errno != 0 || text[0] < '0' || text[0] > '9' || *end != '\0' || number < least ||
        number > most)
        argp_error(state, "'%s' is no number from %" PRIu32 " to %" PRIu32, text, least, most);
    return (uint32_t)number;
}

/* Where a number goes, and what it may be. */
struct number {
    int key;
    uint32_t least;
    uint32_t most;
    uint32_t *to;
};

static bool parse_as_number(int key, const char *argument, struct argp_state *state)
{
    struct options *o = state->input;
    uint32_t mtu = 0;
    const struct number numbers[] = {
        {'q', 1, TRANSFER_QPS_MAX, &o->plan.qps}, {'n', 1, UINT32_MAX - 1, &o->plan.ops},
        {'t', 1, SECONDS_MAX, &o->seconds},       {'s', 1, SIZE_MAX_BYTES, &o->plan.size},
        {'d', 1, DEPTH_MAX, &o->plan.depth},      {'m', 256, 4096, &mtu},
        {'c', 1, CLIENTS_MAX, &o->clients},       {'P', 0, SECONDS_MAX, &o->patience_s},
        {'r', 0, 1000000, &o->rest_us},
    };

    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (numbers[i].key != key)
            continue;
        *numbers[i].to = parse_number(argument, numbers[i].least, numbers[i].most, state);
        if (key == 'm')
            o->plan.mtu = parse_mtu(mtu);
        if (key == 't')
            o->plan.ops = UINT32_MAX;
        return true;
    }
    return false;
}

static error_t parse(int key, char *argument, struct argp_state *state)
{
    struct options *o = state->input;

    if (parse_as_number(key, argument, state))
        return 0;
    switch (key) {
    case 'p':
        parse_number(argument, 1, 65535, state);
        o->port = argument;
        return 0;
    case 'g':
        o->gid = argument;
        return 0;
    case 'x':
        o->plan.exact = true;
        return 0;
    case 'k':
        parse_kinds(&o->plan, argument, state);
        return 0;
    case 'o':
        o->plan.orphan = true;
        return 0;
    case 'S':
        o->spin = true;
        return 0;
    case ARGP_KEY_ARG:
        o->host = argument;
        return 0;
    case ARGP_KEY_END:
        if (o->port == NULL || o->gid == NULL || o->plan.kind_count == 0)
            argp_error(state, "a port, a GID and a kind of operation are needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static union ibv_gid gid_of_text(const char *text)
{
    union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

    if (inet_pton(AF_INET, text, gid.raw + 12) != 1 && inet_pton(AF_INET6, text, gid.raw) != 1)
        end_badly("%s is no address", text);
    return gid;
}

/* Index of the GID on the device, or -1. */
static int find_gid(struct ibv_context *context, const union ibv_gid *gid)
{
    struct ibv_port_attr port;
    struct ibv_gid_entry entry;

    if (ibv_query_port(context, 1, &port) != 0)
        return -1;
    for (uint32_t i = 0; i < (uint32_t)port.gid_tbl_len; i++)
        if (ibv_query_gid_ex(context, 1, i, &entry, 0) == 0 &&
            entry.gid_type == IBV_GID_TYPE_ROCE_V2 && memcmp(&entry.gid, gid, sizeof(*gid)) == 0)
            return (int)i;
    return -1;
}

static void open_device(struct endpoint *e, const char *address)
{
    struct ibv_device **list = ibv_get_device_list(NULL);

    e->gid = gid_of_text(address);
    for (int i = 0; list != NULL && list[i] != NULL && e->context == NULL; i++) {
        struct ibv_context *context = ibv_open_device(list[i]);

        if (context == NULL)
            continue;
        e->gid_index = find_gid(context, &e->gid);
        if (e->gid_index >= 0)
            e->context = context;
        else
            ibv_close_device(context);
    }
    if (list != NULL)
        ibv_free_device_list(list);
    if (e->context == NULL)
        end_badly("no device has the GID %s", address);
}

static void endpoint_open(struct endpoint *e, const char *address)
{
    struct ibv_device_attr attr;

    open_device(e, address);
    if (ibv_query_device(e->context, &attr) != 0)
        end_badly("ibv_query_device");
    e->depth_max = (uint32_t)attr.max_qp_rd_atom;
    e->pd = ibv_alloc_pd(e->context);
    e->channel = ibv_create_comp_channel(e->context);
    if (e->pd == NULL || e->channel == NULL)
        end_badly("no protection domain or completion channel");
    e->cq = ibv_create_cq(e->context, attr.max_cqe < CQ_ENTRIES ? attr.max_cqe : CQ_ENTRIES, NULL,
                          e->channel, 0);
    if (e->cq == NULL || ibv_req_notify_cq(e->cq, 0) != 0)
        end_badly("no completion queue");
    fcntl(e->channel->fd, F_SETFL, fcntl(e->channel->fd, F_GETFL) | O_NONBLOCK);
}

static void endpoint_close(const struct endpoint *e)
{
    if (ibv_destroy_cq(e->cq) != 0 || ibv_destroy_comp_channel(e->channel) != 0 ||
        ibv_dealloc_pd(e->pd) != 0 || ibv_close_device(e->context) != 0)
        end_badly("something is still in use at the end");
}

static volatile sig_atomic_t told_to_stop;

static void stop(int number)
{
    (void)number;
    told_to_stop = 1;
}

static double now_s(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void meet_all(const struct options *o, const struct endpoint *e, struct transfer **all)
{
    int listener;

    if (o->host != NULL) {
        all[0] = transfer_new(e, &o->plan, meeting_connect(o->host, o->port, o->patience_s));
        return;
    }
    listener = meeting_listen(o->port);
    for (uint32_t i = 0; i < o->clients; i++)
        all[i] = transfer_new(e, &o->plan, meeting_accept(listener, o->patience_s));
    close(listener);
}

/* Takes what has completed. Returns how much. */
static int drain(const struct endpoint *e, struct transfer **all, uint32_t count)
{
    struct ibv_wc wcs[AT_ONCE];
    int n = ibv_poll_cq(e->cq, AT_ONCE, wcs);

    if (n < 0)
        end_badly("ibv_poll_cq");
    for (int i = 0; i < n; i++) {
        uint32_t k = 0;

        while (k < count && !transfer_take(all[k], &wcs[i]))
            k++;
        if (k == count)
            end_badly("a completion of no queue pair: 0x%06x", wcs[i].qp_num);
    }
    return n;
}

static void sleep_till_event(const struct endpoint *e, struct transfer **all, uint32_t count)
{
    struct pollfd fds[CLIENTS_MAX + 1];
    struct ibv_cq *cq;
    void *context;

    for (uint32_t i = 0; i < count; i++)
        fds[i] = (struct pollfd){.fd = transfer_descriptor(all[i]), .events = POLLIN};
    fds[count] = (struct pollfd){.fd = e->channel->fd, .events = POLLIN};
    poll(fds, count + 1, 100);
    while (ibv_get_cq_event(e->channel, &cq, &context) == 0)
        ibv_ack_cq_events(cq, 1);
    if (ibv_req_notify_cq(e->cq, 0) != 0)
        end_badly("ibv_req_notify_cq");
}

static void run(const struct options *o, const struct endpoint *e, struct transfer **all)
{
    uint32_t count = o->host != NULL ? 1 : o->clients;
    double end = o->seconds > 0 ? now_s() + (double)o->seconds : 0;
    double moved = now_s();
    uint32_t over = 0;

    while (over < count) {
        bool idle;
        double now;

        if (o->rest_us > 0)
            usleep(o->rest_us);
        idle = drain(e, all, count) == 0;
        now = now_s();

        over = 0;
        for (uint32_t i = 0; i < count; i++) {
            transfer_advance(all[i], told_to_stop != 0 || (end > 0 && now >= end));
            over += transfer_is_over(all[i]) ? 1 : 0;
        }
        if (!idle)
            moved = now;
        else if (now - moved > STUCK_S)
            end_badly("stuck: nothing completes");
        else if (!o->spin && over < count)
            sleep_till_event(e, all, count);
    }
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        .options = option_table, .parser = parse, .args_doc = "[HOST]"};
    struct options o = {
        .plan = {.qps = 1,
                 .ops = 100,
                 .size = 65536,
                 .depth = 4,
                 .kinds = {KIND_SEND, KIND_WRITE, KIND_READ, KIND_ATOMIC},
                 .kind_count = KIND_COUNT,
                 .mtu = IBV_MTU_1024},
        .clients = 1,
        .patience_s = 120,
    };
    struct transfer *all[CLIENTS_MAX];
    struct endpoint e = {0};
    uint64_t bytes = 0;
    uint64_t ops = 0;
    uint32_t slot;

    signal(SIGTERM, stop);
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    endpoint_open(&e, o.gid);
    meet_all(&o, &e, all);
    printf("transferring\n");
    fflush(stdout);
    run(&o, &e, all);
    slot = transfer_slot(all[0]);
    for (uint32_t i = 0; i < (o.host != NULL ? 1 : o.clients); i++) {
        bytes += transfer_bytes(all[i]);
        ops += transfer_ops(all[i]);
        transfer_free(all[i]);
    }
    endpoint_close(&e);
    printf("verified %" PRIu64 " operations, %" PRIu64 " bytes, slot %u\n", ops, bytes, slot);
    return EXIT_SUCCESS;
}
