/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of a send queue: a ring of requests and, beside it, a ring of what
 * they refer to, SGEs or inline bytes. All of it is taken at creation.
 */
#include <errno.h>
#include <stdlib.h>

#include "engine/qp_private.h"

static uint32_t slot_count(uint32_t wr_max)
{
    uint32_t count = 1;

    while (count < wr_max)
        count *= 2;
    return count;
}

static uint32_t data_stride(const struct qp_cap *cap)
{
    uint32_t sges_len = cap->send_sge_max * (uint32_t)sizeof(struct sge);
    uint32_t len = sges_len > cap->inline_max ? sges_len : cap->inline_max;

    return len == 0 ? 8 : (len + 7u) & ~7u;
}

int send_queue_init(struct send_queue *sq, const struct qp_cap *cap)
{
    uint32_t slots = slot_count(cap->send_wr_max);

    *sq = (struct send_queue){
        .slot_mask = slots - 1,
        .wr_max = cap->send_wr_max,
        .sge_max = cap->send_sge_max,
        .inline_max = cap->inline_max,
        .data_stride = data_stride(cap),
    };
    if (sq->wr_max == 0)
        return 0; /* nothing can be posted, so no slot is looked at */
    sq->wqes = calloc(slots, sizeof(*sq->wqes));
    sq->data = calloc(slots, sq->data_stride);
    if (sq->wqes == NULL || sq->data == NULL) {
        send_queue_fini(sq);
        return -ENOMEM;
    }
    return 0;
}

static size_t slots_of(const struct send_queue *sq)
{
    return sq->wqes != NULL ? (size_t)sq->slot_mask + 1 : 0;
}

size_t send_queue_len(const struct send_queue *sq)
{
    return slots_of(sq) * (sizeof(*sq->wqes) + sq->data_stride);
}

void send_queue_move(struct send_queue *sq, uint8_t *to)
{
    size_t slots = slots_of(sq);

    if (slots == 0)
        return;
    send_queue_fini(sq);
    sq->wqes = (struct send_wqe *)(void *)to;
    sq->data = to + slots * sizeof(*sq->wqes);
    sq->borrowed = true;
}

void send_queue_fini(struct send_queue *sq)
{
    if (!sq->borrowed) {
        free(sq->wqes);
        free(sq->data);
    }
    sq->wqes = NULL;
    sq->data = NULL;
}
