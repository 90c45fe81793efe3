/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counters under the names by which people know them: the port counters of InfiniBand (IBA 16.1.3),
 * and those of adapters' and rxe's hw_counters. Each is a sum of what we count, by the meaning that
 * the name has there.
 */
#include "node/stat_file.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define TERMS_MAX 4

struct row {
    struct stat_name name;
    uint16_t terms[TERMS_MAX]; /* offset in struct stat_totals, in uint64_t, and 1, perhaps with
                                  MINUS; 0: no more */
    uint16_t unit;             /* what it is counted in; 0: 1 */
};

#define AT(field) (uint16_t)(offsetof(struct stat_totals, field) / sizeof(uint64_t) + 1)
#define E(field) AT(engine.field)
#define MINUS 0x8000u /* beside a term: it is part of another, and taken off */
#define L(field) AT(link.field)
#define PORT(text)                                                                                 \
    {                                                                                              \
        .name = text, .group = STAT_GROUP_PORT                                                     \
    }
#define HW(text)                                                                                   \
    {                                                                                              \
        .name = text, .group = STAT_GROUP_HW                                                       \
    }
#define WORD 4 /* port_xmit_data and port_rcv_data count words of four bytes */

/* clang-format off */
static const struct row rows[] = {
    /* InfiniBand */
    {PORT("port_xmit_data"),                   {E(sent_bytes)}, WORD},
    {PORT("port_rcv_data"),                    {E(rcv_bytes)}, WORD},
    {PORT("port_xmit_packets"),                {E(sent_packets)}, 0},
    {PORT("port_rcv_packets"),                 {E(rcv_packets)}, 0},
    {PORT("unicast_xmit_packets"),             {E(sent_packets), MINUS | E(mcast_sent_packets)}, 0},
    {PORT("unicast_rcv_packets"),              {E(rcv_packets), MINUS | E(mcast_rcv_packets)}, 0},
    {PORT("multicast_xmit_packets"),           {E(mcast_sent_packets)}, 0},
    {PORT("multicast_rcv_packets"),            {E(mcast_rcv_packets)}, 0},
    {PORT("port_xmit_discards"),               {L(send_refused), L(send_unreachable), L(send_too_big), L(send_failed)}, 0},
    {PORT("port_xmit_wait"),                   {L(send_would_block)}, 0},
    {PORT("port_xmit_constraint_errors"),      {0}, 0},
    {PORT("port_rcv_errors"),                  {E(malformed), L(icrc_error), L(too_short), L(truncated)}, 0},
    {PORT("port_rcv_constraint_errors"),       {E(wrong_pkey)}, 0},
    {PORT("port_rcv_remote_physical_errors"),  {0}, 0},
    {PORT("port_rcv_switch_relay_errors"),     {0}, 0},
    {PORT("excessive_buffer_overrun_errors"),  {L(socket_overflow)}, 0},
    {PORT("local_link_integrity_errors"),      {0}, 0},
    {PORT("link_downed"),                      {AT(downed)}, 0},
    {PORT("link_error_recovery"),              {0}, 0},
    {PORT("symbol_error"),                     {0}, 0},
    {PORT("VL15_dropped"),                     {0}, 0},
    /* adapters */
    {HW("out_of_sequence"),                    {E(out_of_sequence)}, 0},
    {HW("out_of_buffer"),                      {E(no_receive)}, 0},
    {HW("duplicate_request"),                  {E(duplicate_request)}, 0},
    {HW("packet_seq_err"),                     {E(packet_seq_err)}, 0},
    {HW("implied_nak_seq_err"),                {E(implied_nak_seq_err)}, 0},
    {HW("rnr_nak_retry_err"),                  {E(rnr_nak_rcv)}, 0},
    {HW("local_ack_timeout_err"),              {E(local_ack_timeout_err)}, 0},
    {HW("rx_write_requests"),                  {E(rx_write_requests)}, 0},
    {HW("rx_read_requests"),                   {E(rx_read_requests)}, 0},
    {HW("rx_atomic_requests"),                 {E(rx_atomic_requests)}, 0},
    {HW("rx_icrc_encapsulated"),               {L(icrc_error)}, 0},
    {HW("icrc_error"),                         {L(icrc_error)}, 0},
    {HW("req_cqe_error"),                      {E(req_cqe_error)}, 0},
    {HW("req_cqe_flush_error"),                {E(req_cqe_flush_error)}, 0},
    {HW("req_remote_access_errors"),           {E(req_remote_access_errors)}, 0},
    {HW("req_remote_invalid_request"),         {E(req_remote_invalid_request)}, 0},
    {HW("resp_cqe_error"),                     {E(resp_cqe_error)}, 0},
    {HW("resp_cqe_flush_error"),               {E(resp_cqe_flush_error)}, 0},
    {HW("resp_local_length_error"),            {E(resp_local_length_error)}, 0},
    {HW("resp_remote_access_errors"),          {E(remote_access_refused)}, 0},
    {HW("np_ecn_marked_roce_packets"),         {E(ecn_marked)}, 0},
    {HW("np_cnp_sent"),                        {E(cnp_sent)}, 0},
    {HW("rp_cnp_handled"),                     {E(cnp_handled)}, 0},
    {HW("rp_cnp_ignored"),                     {E(cnp_rcv), MINUS | E(cnp_handled)}, 0},
    /* rxe */
    {HW("sent_pkts"),                          {E(sent_packets)}, 0},
    {HW("rcvd_pkts"),                          {E(rcv_packets)}, 0},
    {HW("out_of_seq_request"),                 {E(out_of_sequence)}, 0},
    {HW("rcvd_rnr_err"),                       {E(rnr_nak_rcv)}, 0},
    {HW("rcvd_seq_err"),                       {E(packet_seq_err)}, 0},
    {HW("send_rnr_err"),                       {E(no_receive)}, 0},
    {HW("retry_exceeded_err"),                 {E(retry_exceeded)}, 0},
    {HW("retry_rnr_exceeded_err"),             {E(rnr_retry_exceeded)}, 0},
    {HW("completer_retry_err"),                {E(retransmitted_packets)}, 0},
    {HW("send_err"),                           {L(send_refused), L(send_unreachable), L(send_too_big), L(send_failed)}, 0},
    {HW("rdma_recvs"),                         {E(rx_send_requests)}, 0},
};
/* clang-format on */

static_assert(sizeof(struct stat_totals) / sizeof(uint64_t) < MINUS, "a term fits");

bool stat_name_at(uint32_t index, struct stat_name *out)
{
    if (index >= sizeof(rows) / sizeof(rows[0]))
        return false;
    *out = rows[index].name;
    return true;
}

uint64_t stat_value(uint32_t index, const struct stat_totals *totals)
{
    const struct row *row = &rows[index];
    uint64_t sum = 0;

    for (uint32_t i = 0; i < TERMS_MAX && row->terms[i] != 0; i++) {
        uint64_t term;

        memcpy(&term, (const char *)totals + ((row->terms[i] & ~MINUS) - 1u) * sizeof(term),
               sizeof(term));
        sum += (row->terms[i] & MINUS) != 0 ? -term : term;
    }
    return row->unit != 0 ? sum / row->unit : sum;
}

/* Both are structs of counters and nothing else. */
static void add(void *to, const void *more, size_t len)
{
    for (size_t at = 0; at < len; at += sizeof(uint64_t)) {
        uint64_t a, b;

        memcpy(&a, (char *)to + at, sizeof(a));
        memcpy(&b, (const char *)more + at, sizeof(b));
        a += b;
        memcpy((char *)to + at, &a, sizeof(a));
    }
}

void stat_totals_add(struct stat_totals *to, const struct stat_totals *more)
{
    const uint64_t downed = more->downed > to->downed ? more->downed : to->downed;

    add(to, more, sizeof(*to));
    to->downed = downed;
}

void stat_totals(const struct stat_snapshot *s, uint32_t port, struct stat_totals *out)
{
    const size_t of_qps = sizeof(struct qp_counters);

    *out = (struct stat_totals){0};
    if (port == 0) {
        out->link = s->head.link;
        memcpy((char *)&out->engine + of_qps, (const char *)&s->head.engine + of_qps,
               sizeof(out->engine) - of_qps);
    }
    out->downed = s->head.ports[port].downed;
    add(&out->engine, &s->head.ports[port].gone, of_qps);
    for (uint32_t i = 0; i < s->head.qp_capacity; i++)
        if (s->qps[i].used != 0 && s->qps[i].port == port)
            add(&out->engine, &s->qps[i].counters, of_qps);
}
