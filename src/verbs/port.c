/* SPDX-License-Identifier: BSD-2-Clause */
/* Ports, their GID and P_Key tables. */
#include "verbs/port.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "engine/limits.h"
#include "verbs/context.h"
#include "verbs/export.h"

#undef ibv_query_port

#define PKEY_DEFAULT 0xffffu
#define PKEY_COUNT 1
#define PORT_OLD_SIZE offsetof(struct ibv_port_attr, port_cap_flags2)

/* Of ibv_port_attr, in the specification's encodings (IBA 14.2.5.6, PortInfo). */
enum {
    PHYS_STATE_DISABLED = 3,
    PHYS_STATE_LINK_UP = 5,
    WIDTH_1X = 1,
    SPEED_QDR = 4, /* with 1X: 10 Gb/s, near what a core moves */
    VL_COUNT_1 = 1,
};

/* Values of ibv_query_gid_type, which are not those of ibv_gid_entry.gid_type. */
enum gid_type_sysfs {
    GID_TYPE_SYSFS_IB_ROCE_V1,
    GID_TYPE_SYSFS_ROCE_V2,
};

/* --- port --- */

enum ibv_mtu mtu_to_ibv(uint32_t bytes)
{
    enum ibv_mtu mtu = IBV_MTU_256;

    while (mtu < IBV_MTU_4096 && mtu_from_ibv(mtu + 1) <= bytes)
        mtu++;
    return mtu;
}

uint32_t mtu_from_ibv(enum ibv_mtu mtu)
{
    return mtu >= IBV_MTU_256 && mtu <= IBV_MTU_4096 ? 128u << mtu : 0;
}

static struct ibv_port_attr describe(const struct device *d)
{
    return (struct ibv_port_attr){
        .state = d->up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN,
        .max_mtu = mtu_to_ibv(PMTU_MAX),
        .active_mtu = mtu_to_ibv(d->active_mtu),
        .gid_tbl_len = DEVICE_GIDS_MAX,
        .port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
        .max_msg_sz = MESSAGE_LEN_MAX,
        .pkey_tbl_len = PKEY_COUNT,
        .max_vl_num = VL_COUNT_1,
        .active_width = WIDTH_1X,
        .active_speed = SPEED_QDR,
        .phys_state = d->up ? PHYS_STATE_LINK_UP : PHYS_STATE_DISABLED,
        .link_layer = IBV_LINK_LAYER_ETHERNET,
        .flags = IBV_QPF_GRH_REQUIRED,
    };
}

int port_query(struct ibv_context *context, uint8_t port_num, struct ibv_port_attr *out,
               size_t size)
{
    struct context_handle *c = context_of(context);
    struct ibv_port_attr attr;
    struct device state;

    if (port_num != PORT_NUMBER)
        return EINVAL;
    devices_refresh();
    device_snapshot(c->device, &state);
    attr = describe(&state);
    memset(out, 0, size);
    memcpy(out, &attr, size < sizeof(attr) ? size : sizeof(attr));
    return 0;
}

/* For programs built before port_cap_flags2: their struct ends in front of it. */
EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port_num,
                          struct _compat_ibv_port_attr *out)
{
    return port_query(context, port_num, (struct ibv_port_attr *)(void *)out, PORT_OLD_SIZE);
}

/* --- GIDs: a hole, or an entry beyond the device's addresses, but within the table, is empty ---
 */

static bool in_table(uint32_t port_num, uint32_t index)
{
    return port_num == PORT_NUMBER && index < DEVICE_GIDS_MAX;
}

EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port_num, int index,
                         union ibv_gid *out)
{
    struct device_gid entry = {0};

    if (index < 0 || !in_table(port_num, (uint32_t)index)) {
        errno = EINVAL;
        return -1;
    }
    if (!device_gid_at(context_of(context)->device, (uint32_t)index, &entry))
        entry = (struct device_gid){0};
    memcpy(out->raw, entry.gid.bytes, sizeof(out->raw));
    return 0;
}

EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
                              enum gid_type_sysfs *type);

EXPORT int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
                              enum gid_type_sysfs *type)
{
    struct device_gid entry;

    if (!in_table(port_num, index)) {
        errno = EINVAL;
        return -1;
    }
    *type = device_gid_at(context_of(context)->device, index, &entry) ? GID_TYPE_SYSFS_ROCE_V2
                                                                      : GID_TYPE_SYSFS_IB_ROCE_V1;
    return 0;
}

static struct ibv_gid_entry describe_gid(const struct device *d, uint32_t index)
{
    struct ibv_gid_entry entry = {
        .gid_index = index,
        .port_num = PORT_NUMBER,
        .gid_type = IBV_GID_TYPE_ROCE_V2,
        .ndev_ifindex = d->ifindex,
    };

    memcpy(entry.gid.raw, d->gids[index].gid.bytes, sizeof(entry.gid.raw));
    return entry;
}

EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port_num, uint32_t gid_index,
                             struct ibv_gid_entry *out, uint32_t flags, size_t entry_size)
{
    struct ibv_gid_entry entry;
    struct device state;

    if (flags != 0)
        return EOPNOTSUPP;
    if (!in_table(port_num, gid_index))
        return EINVAL;
    device_snapshot(context_of(context)->device, &state);
    if (!device_has_gid(&state, gid_index))
        return ENODATA;
    entry = describe_gid(&state, gid_index);
    memset(out, 0, entry_size);
    memcpy(out, &entry, entry_size < sizeof(entry) ? entry_size : sizeof(entry));
    return 0;
}

EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                                    size_t max_entries, uint32_t flags, size_t entry_size)
{
    struct device state;
    size_t count = 0;

    if (flags != 0)
        return -EOPNOTSUPP;
    device_snapshot(context_of(context)->device, &state);
    for (uint32_t i = 0; i < state.gid_count; i++) {
        uint8_t *to = (uint8_t *)entries + count * entry_size;
        struct ibv_gid_entry entry;

        if (!device_has_gid(&state, i))
            continue;
        if (count++ == max_entries)
            return -EINVAL;
        entry = describe_gid(&state, i);
        memset(to, 0, entry_size);
        memcpy(to, &entry, entry_size < sizeof(entry) ? entry_size : sizeof(entry));
    }
    return (ssize_t)count;
}

/* --- P_Keys: one, for the default partition --- */

EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port_num, int index, __be16 *pkey)
{
    (void)context;
    if (port_num != PORT_NUMBER || index < 0 || index >= PKEY_COUNT) {
        errno = EINVAL;
        return -1;
    }
    *pkey = htons(PKEY_DEFAULT);
    return 0;
}

EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port_num, __be16 pkey)
{
    (void)context;
    if (port_num != PORT_NUMBER || pkey != htons(PKEY_DEFAULT)) {
        errno = EINVAL;
        return -1;
    }
    return 0;
}
