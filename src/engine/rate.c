/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * How fast a queue pair may send (IBA 9.11.1, static rate; ibv_modify_qp_rate_limit). An account
 * of time: what leaves is paid for with the time that it takes at the rate, from rate_free_ns on,
 * and nothing leaves while that lies in the future. It may lie as far in the past as a burst is
 * long, so that a turn that comes late is made good.
 *
 * The account is the queue pair's: a UD request to a fast destination waits behind one to a slow
 * one, as it would in the queue.
 */
#include <errno.h>

#include "engine/engine_private.h"
#include "engine/qp_private.h"

#define BITS_PER_BYTE 8u
#define NS_PER_MS 1000000u /* at 1 kb/s a bit takes a millisecond */
#define BURST_MS 1u
#define HEADERS_MAX 128u

static uint32_t slower(uint32_t a, uint32_t b)
{
    if (a == 0 || b == 0)
        return a | b;
    return a < b ? a : b;
}

static uint64_t time_of(uint64_t bytes, uint32_t kbps)
{
    return bytes * BITS_PER_BYTE * NS_PER_MS / kbps;
}

/* What rate_room gives must let a packet leave. */
static uint64_t packet_max(const struct qp *qp)
{
    return qp->attr.pmtu + HEADERS_MAX;
}

/* When the account begins at the earliest. */
static uint64_t account_start(const struct qp *qp, uint32_t kbps)
{
    uint64_t now = qp->engine->now;
    uint64_t least = (uint64_t)kbps * BURST_MS / BITS_PER_BYTE;
    uint64_t burst = qp->burst_len != 0 ? qp->burst_len : least;
    uint64_t burst_ns = time_of(burst > packet_max(qp) ? burst : packet_max(qp), kbps);
    uint64_t start = now > burst_ns ? now - burst_ns : 0;

    return qp->rate_free_ns > start ? qp->rate_free_ns : start;
}

bool rate_blocks(const struct qp *qp)
{
    return qp->rate_free_ns > qp->engine->now;
}

size_t rate_room(const struct qp *qp, const struct path *path)
{
    uint32_t kbps = slower(qp->rate_kbps, path->rate_kbps);
    uint64_t now = qp->engine->now;
    uint64_t room;

    if (kbps == 0)
        return SIZE_MAX;
    room = rate_blocks(qp)
               ? 0
               : (now - account_start(qp, kbps)) * kbps / (BITS_PER_BYTE * (uint64_t)NS_PER_MS);
    return room > packet_max(qp) ? room : packet_max(qp);
}

void rate_charge(struct qp *qp, const struct datagram_batch *b)
{
    uint32_t kbps = slower(qp->rate_kbps, b->path.rate_kbps);

    if (b->count == 0 || kbps == 0)
        return;
    qp->rate_free_ns = account_start(qp, kbps) +
                       time_of((b->count - 1) * (uint64_t)b->segment_len + b->last_len, kbps);
}

void rate_wait(struct qp *qp)
{
    qp->rate_wait_ns = qp->rate_free_ns;
    timer_update(qp);
}

int qp_set_rate(struct qp *qp, uint32_t rate_kbps, uint32_t burst_len)
{
    if (qp->state == QP_RESET || qp->state == QP_INIT)
        return -EINVAL;
    qp->rate_kbps = rate_kbps;
    qp->burst_len = burst_len;
    qp->rate_free_ns = 0; /* a limit that is lifted holds nothing up */
    qp_make_ready(qp);
    return 0;
}

uint32_t qp_rate_kbps(const struct qp *qp)
{
    return qp->rate_kbps;
}
