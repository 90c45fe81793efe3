/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of a send queue: a ring of requests and, beside it, a ring of what
 * they refer to, SGEs or inline bytes. All of it is taken at creation.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "engine/limits.h"
#include "engine/qp_private.h"

/* The counters run free, so the slots must divide 2^32. */
static uint32_t ring_size(uint32_t wanted)
{
    uint32_t size = 1;

    if (wanted == 0)
        return 0;
    while (size < wanted)
        size *= 2;
    return size;
}

static_assert((QP_WR_MAX & (QP_WR_MAX - 1)) == 0, "rounding up stays within the limit");

static uint32_t data_stride(const struct qp_cap *cap)
{
    uint32_t sges_len = cap->send_sge_max * (uint32_t)sizeof(struct sge);
    uint32_t len = sges_len > cap->inline_max ? sges_len : cap->inline_max;

    return (len + 7u) & ~7u;
}

int send_queue_init(struct send_queue *sq, const struct qp_cap *cap)
{
    *sq = (struct send_queue){
        .wr_max = ring_size(cap->send_wr_max),
        .sge_max = cap->send_sge_max,
        .inline_max = cap->inline_max,
        .data_stride = data_stride(cap),
    };
    if (sq->wr_max == 0)
        return 0;
    sq->wqes = calloc(sq->wr_max, sizeof(*sq->wqes));
    if (sq->wqes == NULL)
        return -ENOMEM;
    if (sq->data_stride == 0)
        return 0;
    sq->data = calloc(sq->wr_max, sq->data_stride);
    if (sq->data == NULL)
        goto free_wqes;
    return 0;

free_wqes:
    send_queue_fini(sq);
    return -ENOMEM;
}

void send_queue_fini(struct send_queue *sq)
{
    free(sq->wqes);
    free(sq->data);
    sq->wqes = NULL;
    sq->data = NULL;
}
