/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What adapters' libraries import from libibverbs (libmlx5, libefa). Most
 * RDMA programs load those, and they bind all names at once, so a single one
 * that is missing stops the program before main. None of these is ever called
 * with a device of ours; all say that they cannot. libibverbs.map names them.
 */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

#include "verbs/export.h"

#define COMMANDS(C)                                                                                \
    C(advise_mr)                                                                                   \
    C(alloc_dm)                                                                                    \
    C(alloc_mw)                                                                                    \
    C(alloc_pd)                                                                                    \
    C(attach_mcast)                                                                                \
    C(close_xrcd)                                                                                  \
    C(create_ah)                                                                                   \
    C(create_counters)                                                                             \
    C(create_cq)                                                                                   \
    C(create_cq_ex)                                                                                \
    C(create_flow)                                                                                 \
    C(create_flow_action_esp)                                                                      \
    C(create_qp)                                                                                   \
    C(create_qp_ex)                                                                                \
    C(create_qp_ex2)                                                                               \
    C(create_rwq_ind_table)                                                                        \
    C(create_srq)                                                                                  \
    C(create_srq_ex)                                                                               \
    C(create_wq)                                                                                   \
    C(dealloc_mw)                                                                                  \
    C(dealloc_pd)                                                                                  \
    C(dereg_mr)                                                                                    \
    C(destroy_ah)                                                                                  \
    C(destroy_counters)                                                                            \
    C(destroy_cq)                                                                                  \
    C(destroy_flow)                                                                                \
    C(destroy_flow_action)                                                                         \
    C(destroy_qp)                                                                                  \
    C(destroy_rwq_ind_table)                                                                       \
    C(destroy_srq)                                                                                 \
    C(destroy_wq)                                                                                  \
    C(detach_mcast)                                                                                \
    C(free_dm)                                                                                     \
    C(get_context)                                                                                 \
    C(modify_cq)                                                                                   \
    C(modify_flow_action_esp)                                                                      \
    C(modify_qp)                                                                                   \
    C(modify_qp_ex)                                                                                \
    C(modify_srq)                                                                                  \
    C(modify_wq)                                                                                   \
    C(open_qp)                                                                                     \
    C(open_xrcd)                                                                                   \
    C(poll_cq)                                                                                     \
    C(post_recv)                                                                                   \
    C(post_send)                                                                                   \
    C(post_srq_recv)                                                                               \
    C(query_context)                                                                               \
    C(query_device_any)                                                                            \
    C(query_mr)                                                                                    \
    C(query_port)                                                                                  \
    C(query_qp)                                                                                    \
    C(query_srq)                                                                                   \
    C(read_counters)                                                                               \
    C(reg_dm_mr)                                                                                   \
    C(reg_dmabuf_mr)                                                                               \
    C(reg_mr)                                                                                      \
    C(req_notify_cq)                                                                               \
    C(rereg_mr)                                                                                    \
    C(resize_cq)

/* All of them return an errno; what they take is not looked at. */
#define COMMAND_STUB(name)                                                                         \
    EXPORT int ibv_cmd_##name(void);                                                               \
    EXPORT int ibv_cmd_##name(void)                                                                \
    {                                                                                              \
        return EOPNOTSUPP;                                                                         \
    }
COMMANDS(COMMAND_STUB)
#undef COMMAND_STUB

/* The rest, each with the result that says "cannot" in its own way. */

/* NOLINTBEGIN(bugprone-reserved-identifier): the names are not ours to choose */
unsigned int __ioctl_final_num_attrs(void);
void __verbs_log(void *context, uint32_t level, const char *format, ...);
void *_verbs_init_and_alloc_context(void);
int execute_ioctl(void);
int ibv_read_ibdev_sysfs_file(void);
void verbs_init_cq(void);
void *verbs_open_device(void);
void verbs_register_driver_34(const void *ops);
void verbs_set_ops(void);
void verbs_uninit_context(void);
extern bool verbs_allow_disassociate_destroy;

EXPORT bool verbs_allow_disassociate_destroy;

EXPORT unsigned int __ioctl_final_num_attrs(void)
{
    return 0;
}

EXPORT void __verbs_log(void *context, uint32_t level, const char *format, ...)
{
    (void)context;
    (void)level;
    (void)format;
}

EXPORT void *_verbs_init_and_alloc_context(void)
{
    errno = EOPNOTSUPP;
    return NULL;
}

EXPORT int execute_ioctl(void)
{
    return EOPNOTSUPP;
}

EXPORT int ibv_read_ibdev_sysfs_file(void)
{
    errno = EOPNOTSUPP;
    return -1;
}

EXPORT void verbs_init_cq(void)
{
}

EXPORT void *verbs_open_device(void)
{
    errno = EOPNOTSUPP;
    return NULL;
}

/* Constructors of adapters' libraries come here: their devices are not ours to list. */
EXPORT void verbs_register_driver_34(const void *ops)
{
    (void)ops;
}

EXPORT void verbs_set_ops(void)
{
}

EXPORT void verbs_uninit_context(void)
{
}
/* NOLINTEND(bugprone-reserved-identifier) */
