/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The RDMA devices of this host as applications see them: one for each network
 * interface that is up and has an address; that of the default route first,
 * loopback last. Needs no node: listing devices opens no socket on the port.
 */
#ifndef UROCE_NODE_DEVICE_H
#define UROCE_NODE_DEVICE_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/datagram.h"

#define DEVICE_NAME_PREFIX "uroce_"
#define DEVICE_NAME_MAX 64
#define DEVICE_GIDS_MAX 64
#define DEVICE_COUNT_MAX 64

struct device_gid {
    struct gid gid;
    uint32_t scope_id; /* of link-local addresses */
};

struct device {
    char name[DEVICE_NAME_MAX]; /* "uroce_eth0" */
    char netdev[IF_NAMESIZE];
    uint32_t ifindex;
    uint32_t netdev_mtu;
    uint32_t active_mtu; /* path MTU in bytes that fits the interface: 256 to 4096 */
    uint8_t guid[8];     /* network order; EUI-64 of the MAC, or derived from the name */
    bool loopback;
    bool up; /* has a carrier */
    uint32_t gid_count;
    /* Link-local, then global IPv6 and IPv4-mapped. No holes before device_update made some. */
    struct device_gid gids[DEVICE_GIDS_MAX];
};

/* Whether there is a GID at this index: not a hole, nor beyond the last. */
bool device_has_gid(const struct device *d, uint32_t index);

enum device_change {
    DEVICE_CHANGE_GIDS = 1,
    DEVICE_CHANGE_PORT = 2, /* went up or down */
};

/*
 * Brings a device that is in use up to date with what was found (NULL: it is gone). GIDs that stay
 * keep their indices; one that went leaves a hole, a zero GID; a new one takes the first
 * hole or the end. Returns a set of enum device_change.
 */
uint32_t device_update(struct device *known, const struct device *found);

/*
 * Lists the devices into devices (room for count). Environment: UROCE_DEVICES
 * ("eth0,lo": which interfaces, in which order). Returns how many, or a negative errno.
 */
int device_list(struct device *devices, uint32_t count);

/* The same of all interfaces, also those that are down or have no address, in no order. */
int device_list_any(struct device *devices, uint32_t count);

/*
 * The same with the choice handed in ("" or NULL: all); names may be those of interfaces or
 * of devices. What is not there is said on the log.
 */
int device_list_chosen(struct device *devices, uint32_t count, const char *chosen);

/* Largest path MTU whose packets fit the interface: 256 to 4096. */
uint32_t device_active_mtu(uint32_t netdev_mtu);

/*
 * Modified EUI-64 of a 6-byte MAC (RFC 4291 appendix A), as Linux RDMA devices have it. A MAC
 * that is all zeros or not of 6 bytes gives a stable number of host and interface name instead.
 */
struct device_hardware {
    const uint8_t *mac;
    uint32_t mac_len;
    const char *netdev;
    const char *host;
};
void device_guid(const struct device_hardware *hardware, uint8_t guid[8]);

#endif
