/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that prepare adapters for fork. Nothing is to be done: memory is
 * reached through the process's own addresses, so copy on write does no harm.
 */
#include <infiniband/verbs.h>

#include "verbs/export.h"

EXPORT int ibv_fork_init(void)
{
    return 0;
}

EXPORT enum ibv_fork_status ibv_is_fork_initialized(void)
{
    return IBV_FORK_UNNEEDED;
}

EXPORT int ibv_dontfork_range(void *base, size_t size);
EXPORT int ibv_dofork_range(void *base, size_t size);

/* Not in the header, but libmlx5 imports them. */
EXPORT int ibv_dontfork_range(void *base, size_t size)
{
    (void)base;
    (void)size;
    return 0;
}

EXPORT int ibv_dofork_range(void *base, size_t size)
{
    (void)base;
    (void)size;
    return 0;
}
