/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Congestion notification (RoCEv2 annex A17.9). Who receives a packet that a switch has marked, or
 * behind which its own socket is filling up, sends a CNP to where it came from; who receives a CNP
 * lets less be on its way there. Without it only loss would tell several senders of other hosts
 * that they have one receiver: each alone fits.
 *
 * One CNP for each sending process and interval, since all its queue pairs share one window.
 */
#include "engine/engine_private.h"
#include "engine/qp_private.h"
#include "engine/window_private.h"

#include <assert.h>
#include <string.h>

#define ECN_CE 3u
#define CNP_RESERVED_LEN 16u
/* A window that was halved needs about a round trip before it shows. */
#define CNP_INTERVAL_NS 500000u

bool congestion_is_marked(const struct datagram *d)
{
    return (d->traffic_class & ECN_CE) == ECN_CE;
}

void congestion_note(struct qp *qp, const struct datagram *d)
{
    const uint64_t now = qp->engine->now;
    struct window *w = qp->window;

    if ((!congestion_is_marked(d) && !d->crowded) || w == NULL)
        return;
    if (w->told_ns != 0 && now - w->told_ns < CNP_INTERVAL_NS)
        return;
    w->told_ns = now;
    qp->cnp_due = true;
    qp_make_ready(qp);
}

uint32_t congestion_transmit(struct qp *qp, struct datagram_batch *out)
{
    const struct headers h = {.bth = {.opcode = OPCODE_CNP,
                                      .becn = true,
                                      .mig_req = true,
                                      .pkey = qp->engine->config.pkey,
                                      .dest_qpn = qp->attr.dest_qpn}};
    const size_t len = BTH_LEN + CNP_RESERVED_LEN + ICRC_LEN;

    out->count = 0;
    if (!qp->cnp_due)
        return 0;
    qp->cnp_due = false;
    assert(qp->window != NULL);
    if (len > out->capacity)
        return 0;
    headers_write(&h, out->buffer);
    memset(out->buffer + BTH_LEN, 0, CNP_RESERVED_LEN);
    out->path = qp->attr.path;
    out->src_port = qp->src_port;
    out->dest_slot = (uint8_t)(qp->attr.dest_qpn >> 16);
    out->count = 1;
    out->segment_len = len;
    out->last_len = len;
    out->payload_absent = 0;
    qp->engine->counters.cnp_sent++;
    qp->engine->counters.sent_packets++;
    return 1;
}

void congestion_receive(struct engine *e, struct qp *qp, const struct datagram *d)
{
    e->counters.cnp_rcv++;
    if (qp == NULL || qp->window == NULL || !gid_equal(&d->src, &qp->attr.path.dst) ||
        !gid_equal(&d->dst, &qp->attr.path.src))
        return;
    e->counters.cnp_handled++;
    window_shrink(qp->window, e->now);
}
