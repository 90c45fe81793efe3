/* SPDX-License-Identifier: BSD-2-Clause */
#include "cli/stat_show.h"

#include "wire/opcode.h"

/* JSON has no unsigned numbers; a counter that large has wrapped for every reader. */
static json_t *number(uint64_t value)
{
    return json_integer((json_int_t)(value & INT64_MAX));
}

static json_t *counters(struct stat_counters c)
{
    json_t *object = json_object();

    for (uint32_t i = 0; i < c.count; i++)
        json_object_set_new(object, c.names[i].name, number(stat_counter_at(&c, i)));
    return object;
}

static json_t *names(const struct stat_totals *t, enum stat_group group)
{
    json_t *object = json_object();
    struct stat_name name;

    for (uint32_t i = 0; stat_name_at(i, &name); i++)
        if (name.group == group)
            json_object_set_new(object, name.name, number(stat_value(i, t)));
    return object;
}

static json_t *rates(const struct stat_rates *r)
{
    return json_pack("{s:f, s:f, s:f, s:f}", "sent_packets_per_s", r->sent_packets,
                     "rcv_packets_per_s", r->rcv_packets, "sent_bits_per_s", r->sent_bits,
                     "rcv_bits_per_s", r->rcv_bits);
}

static json_t *port(const struct stat_snapshot *s, uint32_t index, const struct stat_rates *r)
{
    struct stat_totals totals;
    json_t *object;

    stat_totals(s, index, &totals);
    object = json_pack("{s:s, s:s, s:o, s:o}", "device", s->head.ports[index].device, "netdev",
                       s->head.ports[index].netdev, "counters", names(&totals, STAT_GROUP_PORT),
                       "hw_counters", names(&totals, STAT_GROUP_HW));
    if (r->known)
        json_object_set_new(object, "rates", rates(r));
    return object;
}

static json_t *queue_pair(const struct stat_snapshot *s, const struct stat_qp *qp)
{
    char src[STAT_ADDRESS_SIZE], dst[STAT_ADDRESS_SIZE];

    stat_address(&qp->src, src);
    stat_address(&qp->dst, dst);
    return json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:o}", "qpn",
                     (int)qp->qpn, "device", s->head.ports[qp->port].device, "service",
                     service_name((enum service)qp->service), "state", stat_state_name(qp->state),
                     "address", src, "peer_address", dst, "peer_qpn", (int)qp->dest_qpn, "psn",
                     (int)qp->sq_psn, "acknowledged_psn", (int)qp->una_psn, "expected_psn",
                     (int)qp->epsn, "send_queued", (int)qp->send_queued, "counters",
                     counters(stat_counters_of_qp(&qp->counters)));
}

json_t *stat_json(const struct stat_snapshot *s, const struct stat_look *look)
{
    json_t *ports = json_array();
    json_t *qps = json_array();

    for (uint32_t i = 0; i < s->head.port_count; i++)
        json_array_append_new(ports, port(s, i, &look->of_ports[i]));
    for (uint32_t i = 0; i < s->head.qp_capacity; i++)
        if (s->qps[i].used != 0)
            json_array_append_new(qps, queue_pair(s, &s->qps[i]));
    return json_pack("{s:i, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:o}", "pid", (int)s->head.pid,
                     "command", s->head.command, "uid", (int)s->head.uid, "published_ns",
                     number(s->head.published_ns), "ports", ports, "queue_pairs", qps, "engine",
                     counters(stat_counters_of_engine(&s->head.engine)), "link",
                     counters(stat_counters_of_link(&s->head.link)), "node",
                     counters(stat_counters_of_node(&s->head.node)));
}
