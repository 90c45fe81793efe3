/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices as applications hold them. A handle lives as long as the process, so
 * that a program which keeps a pointer after ibv_free_device_list reads a
 * device that may be gone, and not freed memory. What is behind it is read
 * from the system at ibv_get_device_list, ibv_open_device and ibv_query_port, and
 * when the kernel tells of a change while a device is open.
 */
#ifndef UROCE_VERBS_DEVICE_H
#define UROCE_VERBS_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node/device.h"

/* How often something of a device has changed while it was open. */
struct device_changes {
    uint32_t gids;
    uint32_t port;
    uint32_t downs; /* of those of the port, where it went down */
    bool up;        /* the port, now */
};

struct device_handle {
    struct ibv_device ibv;
    /* libmlx5 and libefa compare the word after struct ibv_device with their own; NULL: not theirs.
     */
    void *provider_ops;
    uint32_t index; /* place in the registry, and the N of "uverbsN" */
    /* under the registry's lock */
    bool present;        /* in the latest list of the system */
    uint32_t open_count; /* contexts; indices of GIDs stay while there are any */
    struct device_changes changes;
    struct device state;
};

static inline struct device_handle *device_of(struct ibv_device *ibv)
{
    return (struct device_handle *)((char *)ibv - offsetof(struct device_handle, ibv));
}

/* Reads the devices of the system anew. Returns 0 or a negative errno; then what was known stays.
 */
int devices_refresh(void);

/* What was last known of the device; false when it is not there any more. */
bool device_snapshot(struct device_handle *h, struct device *out);

/* A context opens or closes the device. */
void device_open(struct device_handle *h);
void device_close(struct device_handle *h);

struct device_changes device_changes(struct device_handle *h);

/* The entry of the GID table; false for a hole and beyond the last. */
bool device_gid_at(struct device_handle *h, uint32_t index, struct device_gid *out);

/* The index of its interface. */
uint32_t device_ifindex(struct device_handle *h);

/* The device whose directory in /sys/class/infiniband, or in infiniband_verbs, path is; or NULL. */
struct device_handle *device_find_path(const char *path);

#endif
