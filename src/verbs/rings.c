/* SPDX-License-Identifier: BSD-2-Clause */
/* The calls of an application's allocators. */
#include "verbs/rings.h"

#include <errno.h>
#include <stdalign.h>
#include <string.h>
#include <unistd.h>

#include "verbs/context.h"
#include "verbs/pd.h"

static void hold(struct pd_handle *parent, int count)
{
    node_lock(parent->context->node);
    parent->use_count += (uint32_t)count;
    node_unlock(parent->context->node);
}

int rings_alloc(struct rings *r, struct pd_handle *pd, size_t len, enum rings_use use)
{
    void *bytes;

    *r = (struct rings){.parent = pd, .use = use};
    if (pd == NULL || pd->alloc == NULL || len == 0)
        return 0;
    hold(pd, 1);
    bytes = pd->alloc(&pd->ibv, pd->pd_context, len, (size_t)sysconf(_SC_PAGESIZE), use);
    if (bytes == NULL || bytes == IBV_ALLOCATOR_USE_DEFAULT) {
        hold(pd, -1);
        return bytes == NULL ? ENOMEM : 0;
    }
    r->bytes = bytes;
    if ((uintptr_t)bytes % alignof(max_align_t) != 0) {
        rings_free(r);
        return EINVAL;
    }
    memset(bytes, 0, len);
    return 0;
}

void rings_free(struct rings *r)
{
    if (r->bytes == NULL)
        return;
    r->parent->free(&r->parent->ibv, r->parent->pd_context, r->bytes, r->use);
    hold(r->parent, -1);
    r->bytes = NULL;
}
