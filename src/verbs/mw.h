/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows as applications hold them. */
#ifndef UROCE_VERBS_MW_H
#define UROCE_VERBS_MW_H

#include <infiniband/verbs.h>

#include "engine/memory.h"

/* ibv_context_ops. */
struct ibv_mw *mw_handle_new(struct ibv_pd *pd, enum ibv_mw_type type);
int mw_handle_free(struct ibv_mw *mw);
/* Type 1: mw->rkey is the new key at once; who posts it waits for the completion before giving it
 * away. */
int mw_handle_bind(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

/* What a bind of type 2 asks for (IBV_WR_BIND_MW, ibv_wr_bind_mw). 0 or -EINVAL. */
int mw_bind_type_2(const struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info,
                   struct mw_bind *out);

#endif
