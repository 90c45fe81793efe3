/* SPDX-License-Identifier: BSD-2-Clause */
/* Device memory: here, memory of the process that only its own calls and registered regions reach.
 */
#ifndef UROCE_VERBS_DM_H
#define UROCE_VERBS_DM_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DM_LEN_MAX (64u << 20) /* of one process together; adapters have 128 KiB to some MiB */

struct dm_memory; /* the memory, shared by those who imported it */

/* Extended slots of the context. */
struct ibv_dm *dm_handle_new(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int dm_handle_free(struct ibv_dm *dm);

/* Counts a region over [offset, offset + len) and returns its first byte; NULL if that is not in
 * it. */
uint8_t *dm_use(struct ibv_dm *dm, uint64_t offset, uint64_t len, struct dm_memory **out);
void dm_unuse(struct dm_memory *m);

#endif
