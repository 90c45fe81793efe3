/* SPDX-License-Identifier: BSD-2-Clause */
/* Extended slots of the context that make or advise on memory regions. */
#ifndef UROCE_VERBS_MR_H
#define UROCE_VERBS_MR_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_mr *mr_handle_new_null(struct ibv_pd *pd);
struct ibv_mr *mr_handle_new_dm(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t dm_offset,
                                size_t length, unsigned int access);
int mr_handle_advise(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
                     struct ibv_sge *sg_list, uint32_t num_sge);

#endif
