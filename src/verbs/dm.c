/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Device memory. It needs nothing of the device, so a child of fork may take
 * some as its parent did; what is given out in one process is bounded.
 */
#include "verbs/dm.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/checked.h"
#include "verbs/context.h"
#include "verbs/export.h"

#define ACCESS_ALIGN 4u   /* of offsets and lengths of copies, as adapters ask for */
#define ALIGN_LOG_MAX 26u /* no larger than all of it */

struct dm_memory {
    uint8_t *bytes;
    uint64_t len;
    void *mapping;
    size_t mapping_len;
    struct context_file file;
    uint32_t number;
    struct list link;      /* on memories */
    uint32_t holder_count; /* handles */
    uint32_t region_count;
};

struct dm_handle {
    struct ibv_dm ibv;
    struct dm_memory *memory;
};

/* All below, and the counts of every memory. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list memories = {&memories, &memories};
static uint64_t len_in_use;
static uint32_t last_number;

static void lock_memories(void)
{
    pthread_mutex_lock(&lock);
}

static void unlock_memories(void)
{
    pthread_mutex_unlock(&lock);
}

__attribute__((constructor)) static void keep_lock_over_fork(void)
{
    pthread_atfork(lock_memories, unlock_memories, unlock_memories);
}

static struct dm_handle *dm_of(struct ibv_dm *ibv)
{
    return (struct dm_handle *)((char *)ibv - offsetof(struct dm_handle, ibv));
}

/* --- copies --- */

static uint8_t *place(const struct dm_handle *h, uint64_t offset, size_t len)
{
    const struct range all = {.start = 0, .len = h->memory->len};

    if (offset % ACCESS_ALIGN != 0 || len % ACCESS_ALIGN != 0)
        return NULL;
    return range_within((struct range){.start = offset, .len = len}, all)
               ? h->memory->bytes + offset
               : NULL;
}

static int copy_to(struct ibv_dm *dm, uint64_t offset, const void *from, size_t len)
{
    uint8_t *to = place(dm_of(dm), offset, len);

    if (to == NULL)
        return EFAULT;
    memcpy(to, from, len);
    return 0;
}

static int copy_from(void *to, struct ibv_dm *dm, uint64_t offset, size_t len)
{
    const uint8_t *from = place(dm_of(dm), offset, len);

    if (from == NULL)
        return EFAULT;
    memcpy(to, from, len);
    return 0;
}

/* --- allocate and free --- */

static struct ibv_dm *new_handle(struct ibv_context *context, struct dm_memory *m)
{
    struct dm_handle *h = calloc(1, sizeof(*h));

    if (h == NULL)
        return NULL;
    h->memory = m;
    h->ibv = (struct ibv_dm){
        .context = context,
        .memcpy_to_dm = copy_to,
        .memcpy_from_dm = copy_from,
        .comp_mask = IBV_DM_MASK_HANDLE,
        .handle = m->number,
    };
    return &h->ibv;
}

/* Zeroed, and nothing of it is there before it is touched. */
static struct dm_memory *map_memory(const struct ibv_alloc_dm_attr *attr)
{
    const size_t align = (size_t)1 << attr->log_align_req;
    struct dm_memory *m = calloc(1, sizeof(*m));

    if (m == NULL)
        return NULL;
    m->len = attr->length;
    m->mapping_len = attr->length + align;
    m->mapping =
        mmap(NULL, m->mapping_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m->mapping == MAP_FAILED) {
        free(m);
        return NULL;
    }
    m->bytes = (uint8_t *)(((uintptr_t)m->mapping + align - 1) & ~(uintptr_t)(align - 1));
    return m;
}

static void unmap_memory(struct dm_memory *m)
{
    munmap(m->mapping, m->mapping_len);
    free(m);
}

/* Takes the memory's share of what there is. */
static bool enlist(struct dm_memory *m)
{
    bool room;

    lock_memories();
    room = m->len <= DM_LEN_MAX - len_in_use;
    if (room) {
        len_in_use += m->len;
        m->number = ++last_number;
        m->holder_count = 1;
        list_push_tail(&memories, &m->link);
    }
    unlock_memories();
    return room;
}

static void delist(struct dm_memory *m)
{
    list_remove(&m->link);
    len_in_use -= m->len;
}

struct ibv_dm *dm_handle_new(struct ibv_context *context, struct ibv_alloc_dm_attr *attr)
{
    struct ibv_dm *dm;
    struct dm_memory *m;

    errno = EINVAL;
    if (attr->comp_mask != 0 || attr->length == 0 || attr->log_align_req > ALIGN_LOG_MAX)
        return NULL;
    errno = ENOMEM;
    if (attr->length > DM_LEN_MAX)
        return NULL;
    m = map_memory(attr);
    if (m == NULL)
        return NULL;
    m->file = context_of(context)->file;
    if (!enlist(m)) {
        errno = ENOMEM;
        goto unmap;
    }
    dm = new_handle(context, m);
    if (dm != NULL)
        return dm;
    lock_memories();
    delist(m);
    unlock_memories();

unmap:
    unmap_memory(m);
    return NULL;
}

int dm_handle_free(struct ibv_dm *dm)
{
    struct dm_handle *h = dm_of(dm);
    struct dm_memory *m = h->memory;
    bool last;

    lock_memories();
    last = m->holder_count == 1;
    if (last && m->region_count > 0) {
        unlock_memories();
        return EBUSY;
    }
    m->holder_count--;
    if (last)
        delist(m);
    unlock_memories();
    if (last)
        unmap_memory(m);
    free(h);
    return 0;
}

/* --- regions --- */

uint8_t *dm_use(struct ibv_dm *dm, uint64_t offset, uint64_t len, struct dm_memory **out)
{
    struct dm_memory *m = dm_of(dm)->memory;
    const struct range all = {.start = 0, .len = m->len};

    if (!range_within((struct range){.start = offset, .len = len}, all))
        return NULL;
    lock_memories();
    m->region_count++;
    unlock_memories();
    *out = m;
    return m->bytes + offset;
}

void dm_unuse(struct dm_memory *m)
{
    lock_memories();
    m->region_count--;
    unlock_memories();
}

/* --- import --- */

static struct dm_memory *find_memory(const struct context_file *file, uint32_t number)
{
    for (struct list *l = memories.next; l != &memories; l = l->next) {
        struct dm_memory *m = LIST_ENTRY(l, struct dm_memory, link);

        if (m->number == number && file_same(&m->file, file))
            return m;
    }
    return NULL;
}

EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t dm_handle)
{
    struct ibv_dm *dm = NULL;
    struct dm_memory *m;

    errno = ENOENT;
    lock_memories();
    m = find_memory(&context_of(context)->file, dm_handle);
    if (m != NULL)
        dm = new_handle(context, m);
    if (dm != NULL)
        m->holder_count++;
    unlock_memories();
    return dm;
}

EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
    dm_handle_free(dm);
}
