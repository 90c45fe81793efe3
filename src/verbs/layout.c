/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where programs that were compiled against the distribution's header look:
 * offsets of the 64-bit layout of rdma-core 44, which later releases only
 * extend. A header that differs must not build. No code.
 */
#include <assert.h>
#include <infiniband/verbs.h>
#include <stddef.h>

#include "verbs/context.h"
#include "verbs/cq.h"
#include "verbs/qp.h"

#define AT(type, member, offset)                                                                   \
    static_assert(offsetof(type, member) == (offset), #type "." #member)
#define SIZE(type, size) static_assert(sizeof(type) == (size), #type)
/* Distance in front of the pointer that applications hold. */
#define BEFORE(member, distance)                                                                   \
    static_assert(offsetof(struct verbs_context, context) -                                        \
                          offsetof(struct verbs_context, member) ==                                \
                      (distance),                                                                  \
                  "verbs_context." #member)

#if UINTPTR_MAX == UINT64_MAX

SIZE(struct verbs_context, 648);
BEFORE(sz, 8);
BEFORE(_ABI_placeholder3, 16);
BEFORE(close_xrcd, 24);
BEFORE(open_xrcd, 32);
BEFORE(create_srq_ex, 40);
BEFORE(get_srq_num, 48);
BEFORE(create_qp_ex, 56);
BEFORE(open_qp, 64);
BEFORE(ibv_create_flow, 80);
BEFORE(ibv_destroy_flow, 96);
BEFORE(query_device_ex, 104);
BEFORE(priv, 112);
BEFORE(create_cq_ex, 120);
BEFORE(query_rt_values, 128);
BEFORE(create_wq, 136);
BEFORE(post_srq_ops, 176);
BEFORE(modify_cq, 184);
BEFORE(alloc_td, 192);
BEFORE(alloc_parent_domain, 208);
BEFORE(modify_qp_rate_limit, 216);
BEFORE(create_flow_action_esp, 224);
BEFORE(free_dm, 248);
BEFORE(reg_dm_mr, 264);
BEFORE(destroy_counters, 272);
BEFORE(read_counters, 296);
BEFORE(alloc_null_mr, 304);
BEFORE(advise_mr, 312);
BEFORE(query_port, 320);

AT(struct ibv_context, device, 0);
AT(struct ibv_context, ops, 8);
AT(struct ibv_context, ops.alloc_mw, 64);
AT(struct ibv_context, ops.bind_mw, 72);
AT(struct ibv_context, ops.dealloc_mw, 80);
AT(struct ibv_context, ops.poll_cq, 96);
AT(struct ibv_context, ops.req_notify_cq, 104);
AT(struct ibv_context, ops.post_srq_recv, 168);
AT(struct ibv_context, ops.post_send, 208);
AT(struct ibv_context, ops.post_recv, 216);
AT(struct ibv_context, cmd_fd, 264);
AT(struct ibv_context, async_fd, 268);
AT(struct ibv_context, num_comp_vectors, 272);
AT(struct ibv_context, mutex, 280);
AT(struct ibv_context, abi_compat, 320);

SIZE(struct ibv_device, 664);
AT(struct ibv_device, node_type, 16);
AT(struct ibv_device, transport_type, 20);
AT(struct ibv_device, name, 24);
AT(struct ibv_device, dev_name, 88);
AT(struct ibv_device, dev_path, 152);
AT(struct ibv_device, ibdev_path, 408);
AT(struct device_handle, provider_ops, 664);

SIZE(struct ibv_qp, 160);
SIZE(struct ibv_qp_ex, 352);
AT(struct ibv_qp_ex, comp_mask, 160);
AT(struct ibv_qp_ex, wr_id, 168);
AT(struct ibv_qp_ex, wr_flags, 176);
AT(struct ibv_qp_ex, wr_atomic_cmp_swp, 184);
AT(struct ibv_qp_ex, wr_atomic_write, 344);
AT(struct qp_handle, ibv, 0);

SIZE(struct ibv_cq, 128);
SIZE(struct ibv_cq_ex, 288);
AT(struct ibv_cq_ex, comp_mask, 128);
AT(struct ibv_cq_ex, status, 132);
AT(struct ibv_cq_ex, wr_id, 136);
AT(struct ibv_cq_ex, start_poll, 144);
AT(struct ibv_cq_ex, read_completion_wallclock_ns, 280);
AT(struct cq_handle, ibv, 0);

SIZE(struct ibv_srq, 128);
SIZE(struct ibv_mr, 48);
SIZE(struct ibv_mw, 32);
SIZE(struct ibv_pd, 16);
SIZE(struct ibv_ah, 24);
SIZE(struct ibv_comp_channel, 16);
SIZE(struct ibv_port_attr, 52);
SIZE(struct ibv_gid_entry, 32);
SIZE(struct ibv_device_attr_ex, 400);

#endif
