/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening devices, and which one has an address. */
#include "rdmacm/device.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>

#include "node/device.h"
#include "rdmacm/process.h"
#include "verbs/export.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Under the lock. Devices stay where they are; there may be more later. */
static struct open_device devices[DEVICE_COUNT_MAX];
static uint32_t device_count;

void devices_forget(void)
{
    static const pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;

    lock = fresh;
    device_count = 0;
}

static uint8_t at_most_255(int value)
{
    return value > UINT8_MAX ? UINT8_MAX : (uint8_t)value;
}

/* 0 or a negative errno. */
static int open_one(struct ibv_device *ibv, struct open_device *out)
{
    struct ibv_device_attr attr;

    out->context = ibv_open_device(ibv);
    if (out->context == NULL)
        return -errno;
    if (ibv_query_device(out->context, &attr) == 0)
        out->pd = ibv_alloc_pd(out->context);
    if (out->pd == NULL) {
        ibv_close_device(out->context);
        return -ENOMEM;
    }
    out->guid = be64toh(ibv_get_device_guid(ibv));
    out->responder_resources = at_most_255(attr.max_qp_rd_atom);
    out->initiator_depth = at_most_255(attr.max_qp_init_rd_atom);
    return 0;
}

static bool is_open(const struct ibv_device *ibv)
{
    for (uint32_t i = 0; i < device_count; i++)
        if (devices[i].context->device == ibv)
            return true;
    return false;
}

/* Opens those that are new. 0 or a negative errno. */
static int open_all(void)
{
    int count;
    struct ibv_device **list = ibv_get_device_list(&count);
    int result = 0;

    if (list == NULL)
        return -errno;
    for (int i = 0; i < count && result == 0; i++) {
        if (is_open(list[i]) || device_count == DEVICE_COUNT_MAX)
            continue;
        devices[device_count] = (struct open_device){0};
        result = open_one(list[i], &devices[device_count]);
        if (result == 0)
            device_count++;
    }
    ibv_free_device_list(list);
    return result;
}

static bool has_gid(struct open_device *d, const struct gid *gid, uint32_t scope_id,
                    struct place *out)
{
    struct ibv_gid_entry entries[DEVICE_GIDS_MAX];
    const ssize_t count = ibv_query_gid_table(d->context, entries, DEVICE_GIDS_MAX, 0);

    for (ssize_t i = 0; i < count; i++) {
        const struct ibv_gid_entry *e = &entries[i];

        if (memcmp(e->gid.raw, gid->bytes, sizeof(gid->bytes)) != 0)
            continue;
        if (gid_is_link_local(gid) && scope_id != 0 && e->ndev_ifindex != scope_id)
            continue;
        *out = (struct place){d, e->gid_index, *gid, e->ndev_ifindex};
        return true;
    }
    return false;
}

static bool find_open(const struct gid *gid, uint32_t scope_id, struct place *out)
{
    for (uint32_t i = 0; i < device_count; i++)
        if (has_gid(&devices[i], gid, scope_id, out))
            return true;
    return false;
}

int device_find(const struct gid *gid, uint32_t scope_id, struct place *out)
{
    int result = 0;

    pthread_mutex_lock(&lock);
    if (!find_open(gid, scope_id, out)) {
        result = open_all();
        if (result == 0 && !find_open(gid, scope_id, out))
            result = -ENODEV;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

bool device_is_alone(const struct open_device *d)
{
    bool alone;

    pthread_mutex_lock(&lock);
    alone = open_all() == 0 && device_count == 1 && d == devices;
    pthread_mutex_unlock(&lock);
    return alone;
}

struct ibv_xrcd *device_xrcd(struct open_device *d)
{
    struct ibv_xrcd_init_attr attr = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
        .fd = -1,
        .oflags = O_CREAT,
    };

    pthread_mutex_lock(&lock);
    if (d->xrcd == NULL)
        d->xrcd = ibv_open_xrcd(d->context, &attr);
    pthread_mutex_unlock(&lock);
    return d->xrcd;
}

enum ibv_mtu device_mtu(const struct open_device *d)
{
    struct ibv_port_attr attr;

    return ibv_query_port(d->context, PORT_NUMBER, &attr) == 0 ? attr.active_mtu : IBV_MTU_1024;
}

EXPORT struct ibv_context **rdma_get_devices(int *num_devices)
{
    struct ibv_context **list = NULL;
    int result;

    pthread_mutex_lock(&lock);
    result = open_all();
    if (result == 0 && device_count == 0)
        result = -ENODEV;
    if (result == 0) {
        list = calloc(device_count + 1u, sizeof(struct ibv_context *));
        result = list == NULL ? -ENOMEM : 0;
    }
    for (uint32_t i = 0; result == 0 && i < device_count; i++)
        list[i] = devices[i].context;
    if (num_devices != NULL)
        *num_devices = result == 0 ? (int)device_count : 0;
    pthread_mutex_unlock(&lock);
    if (result != 0)
        errno = -result;
    return list;
}

EXPORT void rdma_free_devices(struct ibv_context **list)
{
    free(list);
}
