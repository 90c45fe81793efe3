/* SPDX-License-Identifier: BSD-2-Clause */
#include "cli/stat_show.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/qp.h"
#include "wire/opcode.h"

#define QPS_SHOWN_MAX 16u

const char *stat_state_name(uint32_t state)
{
    switch ((enum qp_state)state) {
    case QP_RESET:
        return "RESET";
    case QP_INIT:
        return "INIT";
    case QP_RTR:
        return "RTR";
    case QP_RTS:
        return "RTS";
    case QP_SQD:
        return "SQD";
    case QP_SQE:
        return "SQE";
    case QP_ERR:
        return "ERR";
    }
    return "?";
}

void stat_address(const struct gid *gid, char out[STAT_ADDRESS_SIZE])
{
    if (gid_is_ipv4(gid))
        inet_ntop(AF_INET, &gid->bytes[12], out, STAT_ADDRESS_SIZE);
    else
        inet_ntop(AF_INET6, gid->bytes, out, STAT_ADDRESS_SIZE);
}

#define ROW(counter, sentence) {.name = #counter, .text = sentence},
#define COUNT_OF(rows) (uint32_t)(sizeof(rows) / sizeof((rows)[0]))

struct stat_counters stat_counters_of_qp(const struct qp_counters *c)
{
    static const struct stat_counter names[] = {QP_COUNTERS(ROW)};

    return (struct stat_counters){"queue pair", names, c, COUNT_OF(names)};
}

struct stat_counters stat_counters_of_engine(const struct engine_counters *c)
{
    static const struct stat_counter names[] = {ENGINE_COUNTERS(ROW)};
    const uint32_t of_qps = sizeof(struct qp_counters) / sizeof(uint64_t);

    return (struct stat_counters){"engine", names + of_qps,
                                  (const uint64_t *)(const void *)c + of_qps,
                                  COUNT_OF(names) - of_qps};
}

struct stat_counters stat_counters_of_link(const struct link_counters *c)
{
    static const struct stat_counter names[] = {LINK_COUNTERS(ROW)};

    return (struct stat_counters){"link", names, c, COUNT_OF(names)};
}

struct stat_counters stat_counters_of_node(const struct node_counters *c)
{
    static const struct stat_counter names[] = {NODE_COUNTERS(ROW)};

    return (struct stat_counters){"node", names, c, COUNT_OF(names)};
}

uint64_t stat_counter_at(const struct stat_counters *c, uint32_t index)
{
    uint64_t value;

    memcpy(&value, (const char *)c->values + index * sizeof(value), sizeof(value));
    return value;
}

static void print_counters(struct stat_counters c, const char *title, const struct stat_look *look)
{
    bool titled = false;

    for (uint32_t i = 0; i < c.count; i++) {
        uint64_t value = stat_counter_at(&c, i);

        if (value == 0 && !look->all)
            continue;
        if (!titled)
            printf("  %s\n", title);
        titled = true;
        printf("    %-28s %12" PRIu64 "  %s\n", c.names[i].name, value, c.names[i].text);
    }
}

/* A number with three digits or so and a prefix of thousands. */
static void print_rate(double value, const char *unit)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    size_t i = 0;

    for (; value >= 1000 && i + 1 < sizeof(prefixes) / sizeof(prefixes[0]); i++)
        value /= 1000;
    printf("%8.*f %s%s",
           value < 10 && i > 0    ? 2
           : value < 100 && i > 0 ? 1
                                  : 0,
           value, prefixes[i], unit);
}

static void print_direction(const char *title, uint64_t packets, uint64_t bytes)
{
    printf("    %-9s %14" PRIu64 " packets %18" PRIu64 " bytes", title, packets, bytes);
}

static void print_traffic(const struct stat_totals *t, const struct stat_rates *r)
{
    print_direction("sent", t->engine.sent_packets, t->engine.sent_bytes);
    if (r->known) {
        print_rate(r->sent_packets, "packets/s");
        print_rate(r->sent_bits, "bit/s");
    }
    putchar('\n');
    print_direction("received", t->engine.rcv_packets, t->engine.rcv_bytes);
    if (r->known) {
        print_rate(r->rcv_packets, "packets/s");
        print_rate(r->rcv_bits, "bit/s");
    }
    putchar('\n');
}

static void print_names(const struct stat_totals *t)
{
    struct stat_name name;

    for (uint32_t i = 0; stat_name_at(i, &name); i++)
        printf("    %s %-32s %14" PRIu64 "\n",
               name.group == STAT_GROUP_PORT ? "counters   " : "hw_counters", name.name,
               stat_value(i, t));
}

static uint32_t count_qps(const struct stat_snapshot *s, uint32_t port)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->head.qp_capacity; i++)
        count += s->qps[i].used != 0 && s->qps[i].port == port;
    return count;
}

static void print_port(const struct stat_snapshot *s, uint32_t port, const struct stat_look *look)
{
    struct stat_totals totals;
    uint32_t count = count_qps(s, port);

    stat_totals(s, port, &totals);
    printf("  %s on %s, %u queue pair%s\n", s->head.ports[port].device, s->head.ports[port].netdev,
           count, count == 1 ? "" : "s");
    print_traffic(&totals, &look->of_ports[port]);
    if (look->counters)
        print_names(&totals);
}

static void print_qp(const struct stat_qp *qp)
{
    char peer[STAT_ADDRESS_SIZE];

    stat_address(&qp->dst, peer);
    printf("    0x%06x  %-3s %-5s  ", qp->qpn, service_name((enum service)qp->service),
           stat_state_name(qp->state));
    if (qp->dest_qpn != 0)
        printf("to 0x%06x at %s, psn %u, acknowledged to %u, expects %u, ", qp->dest_qpn, peer,
               qp->sq_psn, qp->una_psn, qp->epsn);
    printf("sent %" PRIu64 ", received %" PRIu64 "\n", qp->counters.sent_packets,
           qp->counters.rcv_packets);
}

static void print_qps(const struct stat_snapshot *s, const struct stat_look *look)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < s->head.qp_capacity; i++) {
        if (s->qps[i].used == 0)
            continue;
        if (count == 0)
            puts("  queue pairs");
        if (count++ < QPS_SHOWN_MAX || look->all)
            print_qp(&s->qps[i]);
    }
    if (count > QPS_SHOWN_MAX && !look->all)
        printf("    and %u more (--all)\n", count - QPS_SHOWN_MAX);
}

void stat_print_text(const struct stat_snapshot *s, const struct stat_look *look)
{
    struct stat_totals sum = {0};
    struct qp_counters of_qps;

    printf("%s, process %u, user %u\n", s->head.command, s->head.pid, s->head.uid);
    for (uint32_t port = 0; port < s->head.port_count; port++) {
        struct stat_totals one;

        print_port(s, port, look);
        stat_totals(s, port, &one);
        stat_totals_add(&sum, &one);
    }
    print_qps(s, look);
    memcpy(&of_qps, &sum.engine, sizeof(of_qps));
    print_counters(stat_counters_of_qp(&of_qps), "of all queue pairs", look);
    print_counters(stat_counters_of_engine(&s->head.engine), "of the engine", look);
    print_counters(stat_counters_of_link(&s->head.link), "of the link", look);
    print_counters(stat_counters_of_node(&s->head.node), "of the process", look);
}
