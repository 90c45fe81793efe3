/* SPDX-License-Identifier: BSD-2-Clause */
/* Scatter and gather between packets and registered memory. */
#include "engine/sge_private.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "engine/engine_private.h"
#include "engine/memory.h"

int engine_copy(const struct engine *e, void *dst, const void *src, size_t len)
{
    if (e->config.copy != NULL)
        return e->config.copy(dst, src, len);
    memcpy(dst, src, len);
    return 0;
}

/* A run of memory that one key opens. */
struct piece {
    uint8_t *memory;
    uint32_t len;
    bool is_null; /* no memory is behind it: reads as zeros, swallows what is written */
};

static enum completion_status resolve(struct engine *e, const struct sge_list *l,
                                      const struct mr_query *q, struct piece *out)
{
    struct mr_query query = *q;
    enum mr_verdict v;

    query.pd = l->pd;
    v = mr_resolve(e, &query, &out->memory);
    out->len = (uint32_t)q->len;
    out->is_null = v == MR_NOTHING;
    return v == MR_OK || v == MR_NOTHING ? STATUS_SUCCESS : STATUS_LOC_PROT_ERR;
}

enum completion_status sge_check(struct engine *e, const struct sge_list *l, uint32_t access)
{
    for (uint32_t i = 0; i < l->count; i++) {
        const struct sge *s = &l->sges[i];
        struct mr_query q = {.va = s->addr, .len = s->length, .key = s->lkey, .access = access};
        struct piece piece;

        if (s->length > 0 && resolve(e, l, &q, &piece) != STATUS_SUCCESS)
            return STATUS_LOC_PROT_ERR;
    }
    return STATUS_SUCCESS;
}

/* The longest run of memory at byte offset that lies in one SGE, at most len. */
static enum completion_status next_piece(struct engine *e, const struct sge_list *l,
                                         const struct mr_query *want, struct piece *out)
{
    uint64_t skip = want->va;

    for (uint32_t i = 0; i < l->count; i++) {
        const struct sge *s = &l->sges[i];

        if (skip >= s->length) {
            skip -= s->length;
            continue;
        }
        uint64_t run = s->length - skip < want->len ? s->length - skip : want->len;
        struct mr_query q = {
            .va = s->addr + skip, .len = run, .key = s->lkey, .access = want->access};

        return resolve(e, l, &q, out);
    }
    assert(want->len == 0); /* the list is as long as what is asked of it */
    return STATUS_LOC_PROT_ERR;
}

enum completion_status sge_read(struct engine *e, const struct sge_list *l, uint64_t offset,
                                uint8_t *out, uint32_t len)
{
    while (len > 0) {
        struct mr_query want = {.va = offset, .len = len, .access = 0};
        struct piece piece;
        enum completion_status status = next_piece(e, l, &want, &piece);

        if (status != STATUS_SUCCESS)
            return status;
        if (piece.is_null)
            memset(out, 0, piece.len);
        else if (engine_copy(e, out, piece.memory, piece.len) != 0)
            return STATUS_LOC_PROT_ERR;
        out += piece.len;
        offset += piece.len;
        len -= piece.len;
    }
    return STATUS_SUCCESS;
}

enum completion_status sge_write(struct engine *e, const struct sge_list *l, uint64_t offset,
                                 const uint8_t *in, uint32_t len)
{
    while (len > 0) {
        struct mr_query want = {.va = offset, .len = len, .access = ACCESS_LOCAL_WRITE};
        struct piece piece;
        enum completion_status status = next_piece(e, l, &want, &piece);

        if (status != STATUS_SUCCESS)
            return status;
        if (!piece.is_null && engine_copy(e, piece.memory, in, piece.len) != 0)
            return STATUS_LOC_PROT_ERR;
        in += piece.len;
        offset += piece.len;
        len -= piece.len;
    }
    return STATUS_SUCCESS;
}
