/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An entry is claimed by its owner word alone, then filled, then published by its
 * service ID. Two that claim entries for the same service at the same moment see
 * each other afterwards, and the later entry gives way.
 */
#include "link/services.h"

#include <errno.h>
#include <string.h>

#define OWNER_SLOT_SHIFT 56

static uint64_t owner_word(const struct group *g, uint8_t slot)
{
    uint64_t inbox = atomic_load(&g->shared->slots[slot].inbox);

    return (uint64_t)slot << OWNER_SLOT_SHIFT | inbox;
}

static uint8_t owner_slot(uint64_t owner)
{
    return (uint8_t)(owner >> OWNER_SLOT_SHIFT);
}

/* A process's inbox has a name of its own, so a later owner of the slot is another. */
static bool is_alive(const struct group *g, uint64_t owner)
{
    const uint8_t slot = owner_slot(owner);

    if (owner == 0 || owner != owner_word(g, slot))
        return false;
    return g->held[slot] || g->memory < 0 || group_slot_held(g, slot); /* alone: only we write */
}

static bool is_wildcard(const struct gid *g)
{
    const struct gid any = gid_any(gid_is_ipv4(g));

    return gid_equal(g, &any);
}

static struct gid entry_local(const struct shared_service *e)
{
    struct gid local;
    const uint64_t words[2] = {atomic_load(&e->local[0]), atomic_load(&e->local[1])};

    memcpy(local.bytes, words, sizeof(local.bytes));
    return local;
}

static bool is_for(const struct group *g, const struct shared_service *e, uint64_t service_id)
{
    return atomic_load(&e->service_id) == service_id && is_alive(g, atomic_load(&e->owner));
}

/*
 * Would one of them get requests that the other waits for? A wildcard is all addresses of its
 * family: else another user's process could listen at one address beside it and have its requests.
 * 0, or the errno that Linux has: -EADDRINUSE at one address, -EADDRNOTAVAIL with a wildcard.
 */
static int overlap(const struct gid *a, const struct gid *b)
{
    if (gid_is_ipv4(a) != gid_is_ipv4(b))
        return 0;
    if (is_wildcard(a) || is_wildcard(b))
        return -EADDRNOTAVAIL;
    return gid_equal(a, b) ? -EADDRINUSE : 0;
}

/*
 * Another entry for the same; of those after end only what is not being made at this moment. 0, or
 * how they overlap.
 */
static int find_other(const struct group *g, uint32_t mine, uint64_t service_id,
                      const struct gid *local)
{
    int result;

    for (uint32_t i = 0; i < SERVICES_MAX; i++) {
        const struct shared_service *e = &g->shared->services[i];
        struct gid other;

        if (i == mine || !is_for(g, e, service_id))
            continue;
        other = entry_local(e);
        result = overlap(&other, local);
        if (result != 0 && (i < mine || mine == SERVICES_MAX))
            return result;
    }
    return 0;
}

static bool claim(struct group *g, struct shared_service *e, uint64_t owner)
{
    uint64_t old = atomic_load(&e->owner);

    if (is_alive(g, old) || !atomic_compare_exchange_strong(&e->owner, &old, owner))
        return false;
    atomic_store(&e->service_id, 0);
    return true;
}

static void give_up(struct shared_service *e)
{
    atomic_store(&e->service_id, 0);
    atomic_store(&e->owner, 0);
}

static int fill(struct group *g, uint32_t index, uint64_t service_id, const struct gid *local)
{
    struct shared_service *e = &g->shared->services[index];
    uint64_t words[2];
    int result;

    memcpy(words, local->bytes, sizeof(words));
    atomic_store(&e->local[0], words[0]);
    atomic_store(&e->local[1], words[1]);
    atomic_store(&e->service_id, service_id);
    result = find_other(g, index, service_id, local);
    if (result != 0)
        give_up(e);
    return result;
}

int services_add(struct group *g, uint8_t slot, uint64_t service_id, const struct gid *local)
{
    const uint64_t owner = owner_word(g, slot);
    int result = find_other(g, SERVICES_MAX, service_id, local);

    if (result != 0)
        return result;
    for (uint32_t i = 0; i < SERVICES_MAX; i++)
        if (claim(g, &g->shared->services[i], owner))
            return fill(g, i, service_id, local);
    return -ENOSPC;
}

void services_remove(struct group *g, uint8_t slot, uint64_t service_id, const struct gid *local)
{
    const uint64_t owner = owner_word(g, slot);

    for (uint32_t i = 0; i < SERVICES_MAX; i++) {
        struct shared_service *e = &g->shared->services[i];
        const struct gid entry = entry_local(e);

        if (atomic_load(&e->owner) == owner && atomic_load(&e->service_id) == service_id &&
            gid_equal(&entry, local))
            give_up(e);
    }
}

uint8_t services_find(const struct group *g, uint64_t service_id, const struct gid *local)
{
    uint8_t best = 0;
    unsigned best_rank = 0;

    for (uint32_t i = 0; i < SERVICES_MAX; i++) {
        const struct shared_service *e = &g->shared->services[i];
        struct gid entry;
        unsigned rank;

        if (!is_for(g, e, service_id))
            continue;
        entry = entry_local(e);
        rank = gid_listen_rank(&entry, local);
        if (rank <= best_rank)
            continue;
        best = owner_slot(atomic_load(&e->owner));
        best_rank = rank;
    }
    return best;
}

bool services_next(const struct group *g, uint8_t slot, uint32_t *index, uint64_t *service_id,
                   struct gid *local)
{
    const uint64_t owner = owner_word(g, slot);

    while (*index < SERVICES_MAX) {
        const struct shared_service *e = &g->shared->services[(*index)++];

        *service_id = atomic_load(&e->service_id);
        *local = entry_local(e);
        if (*service_id != 0 && atomic_load(&e->owner) == owner)
            return true;
    }
    return false;
}

void services_forget(struct group *g, uint8_t slot)
{
    uint64_t service_id;
    struct gid local;
    uint32_t index = 0;

    while (services_next(g, slot, &index, &service_id, &local))
        give_up(&g->shared->services[index - 1]);
}

uint32_t services_of_slot(const struct group *g, uint8_t slot)
{
    uint64_t service_id;
    struct gid local;
    uint32_t index = 0;
    uint32_t count = 0;

    while (services_next(g, slot, &index, &service_id, &local))
        count++;
    return count;
}

uint32_t services_of_guests(const struct group *g)
{
    uint32_t count = 0;

    for (uint32_t slot = SLOT_FIRST; slot <= SLOT_LAST; slot++)
        if (atomic_load(&g->shared->slots[slot].guest) != 0)
            count += services_of_slot(g, (uint8_t)slot);
    return count;
}
