/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The list of devices: a registry of handles, brought up to date from the
 * system's network interfaces. Needs no node, so ibv_devices costs no socket.
 */
#include "verbs/device.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verbs/export.h"

#define REGISTRY_MAX                                                                               \
    1024u /* distinct names a process ever sees; interfaces of containers come and go */

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct device_handle *registry[REGISTRY_MAX];
static uint32_t registry_count;

static void lock_registry(void)
{
    pthread_mutex_lock(&registry_lock);
}

static void unlock_registry(void)
{
    pthread_mutex_unlock(&registry_lock);
}

/* A child of fork gets the lock free, whatever other threads of the parent do. */
__attribute__((constructor)) static void keep_registry_over_fork(void)
{
    pthread_atfork(lock_registry, unlock_registry, unlock_registry);
}

/* Where the kernel would show the device. Nothing is there; programs build names of these. */
static void set_paths(struct ibv_device *ibv, const char *name, uint32_t index)
{
    snprintf(ibv->name, sizeof(ibv->name), "%s", name);
    snprintf(ibv->dev_name, sizeof(ibv->dev_name), "uverbs%u", index);
    snprintf(ibv->dev_path, sizeof(ibv->dev_path), "/sys/class/infiniband_verbs/uverbs%u", index);
    snprintf(ibv->ibdev_path, sizeof(ibv->ibdev_path), "/sys/class/infiniband/%s", name);
}

/* The handle of that name, a new one if there is none; NULL without memory. */
static struct device_handle *find_or_add(const char *name)
{
    struct device_handle *h;

    for (uint32_t i = 0; i < registry_count; i++)
        if (strcmp(registry[i]->ibv.name, name) == 0)
            return registry[i];
    if (registry_count == REGISTRY_MAX)
        return NULL;
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        return NULL;
    h->ibv.node_type = IBV_NODE_CA;
    h->ibv.transport_type = IBV_TRANSPORT_IB;
    h->index = registry_count;
    set_paths(&h->ibv, name, h->index);
    registry[registry_count++] = h;
    return h;
}

static const struct device *find_name(const struct device *found, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(found[i].name, name) == 0)
            return &found[i];
    return NULL;
}

/* While it is open; found is NULL when it is gone. */
static void update_open(struct device_handle *h, const struct device *found)
{
    uint32_t changes = device_update(&h->state, found);

    h->changes.gids += (changes & DEVICE_CHANGE_GIDS) != 0;
    h->changes.port += (changes & DEVICE_CHANGE_PORT) != 0;
    h->changes.downs += (changes & DEVICE_CHANGE_PORT) != 0 && !h->state.up;
}

/*
 * A device that is open and not in the list has gone down, lost its last address or is gone: which
 * of these is asked of all interfaces. found is overwritten.
 */
static void update_absent(struct device *found)
{
    int count = -1;

    for (uint32_t i = 0; i < registry_count; i++) {
        struct device_handle *h = registry[i];

        if (h->present || h->open_count == 0)
            continue;
        if (count < 0)
            count = device_list_any(found, DEVICE_COUNT_MAX);
        if (count >= 0)
            update_open(h, find_name(found, count, h->ibv.name));
    }
}

/*
 * Lists the system's devices into the registry, and into order (room for
 * DEVICE_COUNT_MAX) the present ones. Returns how many, or a negative errno.
 */
static int update(struct device_handle **order)
{
    struct device *found = calloc(DEVICE_COUNT_MAX, sizeof(*found));
    int count = found != NULL ? device_list(found, DEVICE_COUNT_MAX) : -ENOMEM;
    int kept = 0;

    if (count < 0)
        goto free_found;
    lock_registry();
    for (uint32_t i = 0; i < registry_count; i++)
        registry[i]->present = false;
    for (int i = 0; i < count; i++) {
        struct device_handle *h = find_or_add(found[i].name);

        if (h == NULL)
            continue;
        if (h->open_count > 0)
            update_open(h, &found[i]);
        else
            h->state = found[i];
        h->present = true;
        order[kept++] = h;
    }
    update_absent(found);
    for (uint32_t i = 0; i < registry_count; i++)
        if (registry[i]->open_count == 0)
            registry[i]->state.up = registry[i]->state.up && registry[i]->present;
    unlock_registry();
    count = kept;

free_found:
    free(found);
    return count;
}

int devices_refresh(void)
{
    struct device_handle *order[DEVICE_COUNT_MAX];
    int count = update(order);

    return count < 0 ? count : 0;
}

bool device_snapshot(struct device_handle *h, struct device *out)
{
    bool present;

    lock_registry();
    *out = h->state;
    present = h->present;
    unlock_registry();
    return present;
}

void device_open(struct device_handle *h)
{
    lock_registry();
    h->open_count++;
    unlock_registry();
}

void device_close(struct device_handle *h)
{
    lock_registry();
    assert(h->open_count > 0);
    h->open_count--;
    unlock_registry();
}

struct device_changes device_changes(struct device_handle *h)
{
    struct device_changes changes;

    lock_registry();
    changes = h->changes;
    changes.up = h->state.up;
    unlock_registry();
    return changes;
}

bool device_gid_at(struct device_handle *h, uint32_t index, struct device_gid *out)
{
    bool there;

    lock_registry();
    there = device_has_gid(&h->state, index);
    if (there)
        *out = h->state.gids[index];
    unlock_registry();
    return there;
}

uint32_t device_ifindex(struct device_handle *h)
{
    uint32_t ifindex;

    lock_registry();
    ifindex = h->state.ifindex;
    unlock_registry();
    return ifindex;
}

struct device_handle *device_find_path(const char *path)
{
    struct device_handle *found = NULL;

    lock_registry();
    for (uint32_t i = 0; i < registry_count && found == NULL; i++)
        if (strcmp(registry[i]->ibv.ibdev_path, path) == 0 ||
            strcmp(registry[i]->ibv.dev_path, path) == 0)
            found = registry[i];
    unlock_registry();
    return found;
}

EXPORT struct ibv_device **ibv_get_device_list(int *num_devices)
{
    struct device_handle *order[DEVICE_COUNT_MAX];
    struct ibv_device **list;
    int count;

    if (num_devices != NULL)
        *num_devices = 0;
    count = update(order);
    if (count < 0) {
        errno = -count;
        return NULL;
    }
    list = calloc((size_t)count + 1, sizeof(struct ibv_device *));
    if (list == NULL)
        return NULL;
    for (int i = 0; i < count; i++)
        list[i] = &order[i]->ibv;
    if (num_devices != NULL)
        *num_devices = count;
    return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
    free(list);
}

EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
    return device->name;
}

EXPORT int ibv_get_device_index(struct ibv_device *device)
{
    return (int)device_of(device)->index;
}

EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
    struct device state;
    __be64 guid;

    device_snapshot(device_of(device), &state);
    static_assert(sizeof(guid) == sizeof(state.guid), "a GUID is eight bytes");
    memcpy(&guid, state.guid, sizeof(guid));
    return guid;
}
