/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The devices that this library has opened: one context for each device and process, open until
 * the process ends, because applications compare and keep them (rdma_get_devices).
 */
#ifndef UROCE_RDMACM_DEVICE_H
#define UROCE_RDMACM_DEVICE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/datagram.h"

#define PORT_NUMBER 1u

struct open_device {
    struct ibv_context *context;
    struct ibv_pd *pd;     /* what an ID has when its application brings none */
    struct ibv_xrcd *xrcd; /* the same for XRC; NULL: not asked for yet, under device.c's lock */
    uint64_t guid;
    uint8_t responder_resources; /* at most */
    uint8_t initiator_depth;
};

/* One of this host's addresses. */
struct place {
    struct open_device *device;
    uint32_t gid_index;
    struct gid gid;
    uint32_t ifindex;
};

/*
 * Finds the device that has an address; scope_id: the interface of a link-local one, or 0. Returns
 * 0, -ENODEV when none has, or another negative errno.
 */
int device_find(const struct gid *gid, uint32_t scope_id, struct place *out);

/* Is there no other device? */
bool device_is_alone(const struct open_device *d);

/* The XRC domain of a device, which all IDs share. NULL with errno. */
struct ibv_xrcd *device_xrcd(struct open_device *d);

/* The path MTU of a device now. */
enum ibv_mtu device_mtu(const struct open_device *d);

/* After fork: those of the parent are the parent's. */
void devices_forget(void);

#endif
