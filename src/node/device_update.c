/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices that change while programs use them. A program remembers the index of a GID and not its
 * address, so indices stay, as the kernel's do.
 */
#include "node/device.h"

static const struct gid none;

bool device_has_gid(const struct device *d, uint32_t index)
{
    return index < d->gid_count && !gid_equal(&d->gids[index].gid, &none);
}

/* The index of a GID, of a hole (none), or gid_count. */
static uint32_t find(const struct device *d, const struct gid *gid)
{
    uint32_t i = 0;

    while (i < d->gid_count && !gid_equal(&d->gids[i].gid, gid))
        i++;
    return i;
}

static bool remove_gone(struct device *known, const struct device *found)
{
    bool changed = false;

    for (uint32_t i = 0; i < known->gid_count; i++) {
        if (!device_has_gid(known, i) ||
            (found != NULL && find(found, &known->gids[i].gid) < found->gid_count))
            continue;
        known->gids[i] = (struct device_gid){.gid = none};
        changed = true;
    }
    while (known->gid_count > 0 && !device_has_gid(known, known->gid_count - 1))
        known->gid_count--;
    return changed;
}

static bool add_new(struct device *known, const struct device *found)
{
    bool changed = false;

    for (uint32_t i = 0; i < found->gid_count; i++) {
        uint32_t place;

        if (find(known, &found->gids[i].gid) < known->gid_count)
            continue;
        place = find(known, &none);
        if (place == DEVICE_GIDS_MAX)
            break;
        if (place == known->gid_count)
            known->gid_count++;
        known->gids[place] = found->gids[i];
        changed = true;
    }
    return changed;
}

uint32_t device_update(struct device *known, const struct device *found)
{
    const bool up = found != NULL && found->up;
    uint32_t changes = known->up != up ? DEVICE_CHANGE_PORT : 0;

    if (remove_gone(known, found))
        changes |= DEVICE_CHANGE_GIDS;
    known->up = up;
    if (found == NULL)
        return changes;
    if (add_new(known, found))
        changes |= DEVICE_CHANGE_GIDS;
    known->ifindex = found->ifindex;
    known->netdev_mtu = found->netdev_mtu;
    known->active_mtu = found->active_mtu;
    return changes;
}
