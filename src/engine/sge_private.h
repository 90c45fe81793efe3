/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copies between packets and the memory that a list of SGEs names. Every piece
 * is resolved anew, since a region may go away between two packets.
 */
#ifndef UROCE_ENGINE_SGE_PRIVATE_H
#define UROCE_ENGINE_SGE_PRIVATE_H

#include <stddef.h>
#include <stdint.h>

#include "engine/cq.h"
#include "engine/srq.h"

struct engine;
struct pd;

struct sge_list {
    const struct sge *sges;
    uint32_t count;
    const struct pd *pd;
};

/* Whether all of it may be used with these rights (enum access_set): success or
 * STATUS_LOC_PROT_ERR. */
enum completion_status sge_check(struct engine *e, const struct sge_list *l, uint32_t access);

/*
 * len bytes from byte offset of the list on. The list is at least that long
 * (assert). Success, or STATUS_LOC_PROT_ERR for a key that is not good (any
 * more) and for memory that is gone.
 */
enum completion_status sge_read(struct engine *e, const struct sge_list *l, uint64_t offset,
                                uint8_t *out, uint32_t len);
enum completion_status sge_write(struct engine *e, const struct sge_list *l, uint64_t offset,
                                 const uint8_t *in, uint32_t len);

/* Copies by the engine's guarded copy: 0 or -EFAULT. */
int engine_copy(const struct engine *e, void *dst, const void *src, size_t len);

#endif
