/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Devices out of what the kernel says over route netlink: a dump of the
 * interfaces, a dump of the addresses, and the way to an address far away for
 * the default route. Each listing asks anew, in the caller's network namespace.
 */
#include "node/device.h"

#include <assert.h>
#include <errno.h>
#include <libmnl/libmnl.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/rtnetlink.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "engine/limits.h"
#include "node/settings.h"

/* IP, UDP, the longest extended headers and ICRC beside a payload of one path MTU; as Linux rxe. */
#define HEADERS_LEN_MAX 80u

/* Answers come in several messages of up to 32 KiB. */
#define ANSWER_SIZE 32768u
#define ANSWERS_MAX 100000u

#define ATTEMPTS_MAX 8u

/* An address without a place in the GID table. */
#define RANK_NONE 255u

struct interface {
    struct device device;
    uint32_t route_rank; /* 0: default route of IPv4; 1: of IPv6; 2: of neither */
};

struct address {
    uint32_t ifindex;
    uint32_t rank;  /* order of the GID table */
    uint32_t index; /* as the kernel lists them */
    struct gid gid;
};

struct listing {
    struct interface *interfaces;
    uint32_t interface_count;
    struct address *addresses;
    uint32_t address_count;
    char host[256];
    uint32_t route_ifindex; /* of the lookup that is being read */
    bool any;               /* also what is down or has no address */
    int error;
};

/* Makes room for one more element, twice as many at a time. NULL with *error set when there is
 * none. */
static void *grown(void *array, uint32_t count, size_t size, int *error)
{
    void *larger = array;

    if ((count & (count - 1)) == 0)
        larger = realloc(array, (count == 0 ? 1 : 2 * (size_t)count) * size);
    if (larger == NULL)
        *error = -ENOMEM;
    return larger;
}

uint32_t device_active_mtu(uint32_t netdev_mtu)
{
    uint32_t mtu = PMTU_MAX;

    while (mtu > PMTU_MIN && mtu + HEADERS_LEN_MAX > netdev_mtu)
        mtu /= 2;
    return mtu;
}

/* FNV-1a: a stable number of a name, not a secret. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
    do
        hash = (hash ^ (uint8_t)*text) * 0x100000001b3u;
    while (*text++ != '\0');
    return hash;
}

void device_guid(const struct device_hardware *hardware, uint8_t guid[8])
{
    static const uint8_t zeros[6];
    const uint8_t *mac = hardware->mac;
    uint64_t hash;

    if (hardware->mac_len == sizeof(zeros) && memcmp(mac, zeros, sizeof(zeros)) != 0) {
        const uint8_t eui[8] = {mac[0] ^ 0x02, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};

        memcpy(guid, eui, sizeof(eui));
        return;
    }
    hash = hash_text(hash_text(0xcbf29ce484222325u, hardware->host), hardware->netdev);
    for (uint32_t i = 0; i < 8; i++)
        guid[i] = (uint8_t)(hash >> (8 * i));
    guid[0] &= 0xfc; /* not a number that somebody was assigned */
}

static int note_attribute(const struct nlattr *attribute, void *context)
{
    const struct nlattr **attributes = context;
    uint16_t type = mnl_attr_get_type(attribute);

    if (type <= IFLA_MAX)
        attributes[type] = attribute;
    return MNL_CB_OK;
}

/* Interfaces, addresses and routes number their attributes up to these. */
static_assert((int)IFA_MAX <= (int)IFLA_MAX && (int)RTA_MAX <= (int)IFLA_MAX,
              "one table of attributes holds all");

static int take_interface(const struct nlmsghdr *message, void *context)
{
    const struct ifinfomsg *info = mnl_nlmsg_get_payload(message);
    const struct nlattr *attributes[IFLA_MAX + 1] = {NULL};
    struct listing *l = context;
    struct interface *i;
    const char *name;

    mnl_attr_parse(message, sizeof(*info), note_attribute, attributes);
    if (((info->ifi_flags & IFF_UP) == 0 && !l->any) || attributes[IFLA_IFNAME] == NULL)
        return MNL_CB_OK;
    i = grown(l->interfaces, l->interface_count, sizeof(*i), &l->error);
    if (i == NULL)
        return MNL_CB_ERROR;
    l->interfaces = i;
    i += l->interface_count++;
    *i = (struct interface){
        .route_rank = 2,
        .device.ifindex = (uint32_t)info->ifi_index,
        .device.loopback = (info->ifi_flags & IFF_LOOPBACK) != 0,
        .device.up = (info->ifi_flags & IFF_RUNNING) != 0,
    };
    name = mnl_attr_get_str(attributes[IFLA_IFNAME]);
    snprintf(i->device.netdev, sizeof(i->device.netdev), "%s", name);
    snprintf(i->device.name, sizeof(i->device.name), DEVICE_NAME_PREFIX "%s", i->device.netdev);
    if (attributes[IFLA_MTU] != NULL)
        i->device.netdev_mtu = mnl_attr_get_u32(attributes[IFLA_MTU]);
    i->device.active_mtu = device_active_mtu(i->device.netdev_mtu);
    device_guid(
        &(struct device_hardware){
            .mac = attributes[IFLA_ADDRESS] != NULL ? mnl_attr_get_payload(attributes[IFLA_ADDRESS])
                                                    : NULL,
            .mac_len = attributes[IFLA_ADDRESS] != NULL
                           ? mnl_attr_get_payload_len(attributes[IFLA_ADDRESS])
                           : 0,
            .netdev = i->device.netdev,
            .host = l->host,
        },
        i->device.guid);
    return MNL_CB_OK;
}

/*
 * Link-local, global IPv6, IPv4; of the global ones those last that come and
 * go by themselves. What is not proved to be ours alone, or is on its way out, has no place.
 */
static uint32_t address_rank(const struct gid *gid, uint32_t flags)
{
    const uint32_t unusable = IFA_F_TENTATIVE | IFA_F_DADFAILED | IFA_F_DEPRECATED;

    if (gid_is_ipv4(gid))
        return 3;
    if ((flags & unusable) != 0)
        return RANK_NONE;
    if (gid_is_link_local(gid))
        return 0;
    return (flags & IFA_F_TEMPORARY) != 0 ? 2 : 1;
}

static int take_address(const struct nlmsghdr *message, void *context)
{
    const struct ifaddrmsg *info = mnl_nlmsg_get_payload(message);
    const struct nlattr *attributes[IFLA_MAX + 1] = {NULL};
    const struct nlattr *own;
    struct listing *l = context;
    struct address *a;
    uint32_t flags = info->ifa_flags;
    uint32_t len = info->ifa_family == AF_INET ? 4 : 16;
    struct gid gid;

    mnl_attr_parse(message, sizeof(*info), note_attribute, attributes);
    /* On a point-to-point interface IFA_ADDRESS is the peer's. */
    own = attributes[IFA_LOCAL] != NULL ? attributes[IFA_LOCAL] : attributes[IFA_ADDRESS];
    if (info->ifa_family != AF_INET && info->ifa_family != AF_INET6)
        return MNL_CB_OK;
    if (own == NULL || mnl_attr_get_payload_len(own) != len)
        return MNL_CB_OK;
    if (attributes[IFA_FLAGS] != NULL)
        flags = mnl_attr_get_u32(attributes[IFA_FLAGS]);
    gid = len == 4 ? gid_from_ipv4(mnl_attr_get_payload(own))
                   : gid_from_ipv6(mnl_attr_get_payload(own));
    if (address_rank(&gid, flags) == RANK_NONE)
        return MNL_CB_OK;
    a = grown(l->addresses, l->address_count, sizeof(*a), &l->error);
    if (a == NULL)
        return MNL_CB_ERROR;
    l->addresses = a;
    a[l->address_count] = (struct address){
        .ifindex = info->ifa_index,
        .rank = address_rank(&gid, flags),
        .index = l->address_count,
        .gid = gid,
    };
    l->address_count++;
    return MNL_CB_OK;
}

static int take_route(const struct nlmsghdr *message, void *context)
{
    const struct nlattr *attributes[IFLA_MAX + 1] = {NULL};
    struct listing *l = context;

    mnl_attr_parse(message, sizeof(struct rtmsg), note_attribute, attributes);
    if (attributes[RTA_OIF] != NULL)
        l->route_ifindex = mnl_attr_get_u32(attributes[RTA_OIF]);
    return MNL_CB_OK;
}

/* Sends a request and hands each message of the answer to take. Returns 0 or a negative errno. */
static int ask(struct mnl_socket *socket, struct nlmsghdr *request, mnl_cb_t take,
               struct listing *l)
{
    static const uint32_t sequence = 1;
    char *answer = malloc(ANSWER_SIZE);
    int more = MNL_CB_OK;

    if (answer == NULL)
        return -ENOMEM;
    request->nlmsg_seq = sequence;
    if (mnl_socket_sendto(socket, request, request->nlmsg_len) < 0)
        more = MNL_CB_ERROR;
    for (uint32_t i = 0; more == MNL_CB_OK && i < ANSWERS_MAX; i++) {
        ssize_t len = mnl_socket_recvfrom(socket, answer, ANSWER_SIZE);

        more = len < 0 ? MNL_CB_ERROR
                       : mnl_cb_run(answer, (size_t)len, sequence, mnl_socket_get_portid(socket),
                                    take, l);
    }
    free(answer);
    if (l->error != 0)
        return l->error;
    return more == MNL_CB_ERROR ? -errno : 0;
}

#define REQUEST_SIZE 256

static struct nlmsghdr *request_begin(char buffer[REQUEST_SIZE], uint16_t type, uint16_t flags)
{
    struct nlmsghdr *request = mnl_nlmsg_put_header(buffer);

    request->nlmsg_type = type;
    request->nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags);
    return request;
}

static int ask_interfaces(struct mnl_socket *socket, struct listing *l)
{
    char buffer[REQUEST_SIZE];
    struct nlmsghdr *request = request_begin(buffer, RTM_GETLINK, NLM_F_DUMP);

    mnl_nlmsg_put_extra_header(request, sizeof(struct ifinfomsg));
    return ask(socket, request, take_interface, l);
}

static int ask_addresses(struct mnl_socket *socket, struct listing *l)
{
    char buffer[REQUEST_SIZE];
    struct nlmsghdr *request = request_begin(buffer, RTM_GETADDR, NLM_F_DUMP);

    mnl_nlmsg_put_extra_header(request, sizeof(struct ifaddrmsg));
    return ask(socket, request, take_address, l);
}

/*
 * The interface by which the world outside is reached, or 0: the way to an
 * address that is set aside for documentation, so is nobody's neighbour
 * (RFC 5737, RFC 3849). One lookup, however long the routing table is.
 */
static uint32_t ask_default_route(struct mnl_socket *socket, struct listing *l, int family)
{
    static const uint8_t far_ipv4[4] = {203, 0, 113, 1};
    static const uint8_t far_ipv6[16] = {0x20, 0x01, 0x0d, 0xb8, [15] = 1};
    char buffer[REQUEST_SIZE];
    struct nlmsghdr *request = request_begin(buffer, RTM_GETROUTE, NLM_F_ACK);
    struct rtmsg *route = mnl_nlmsg_put_extra_header(request, sizeof(*route));
    bool ipv4 = family == AF_INET;

    route->rtm_family = (unsigned char)family;
    route->rtm_dst_len = ipv4 ? 32 : 128;
    mnl_attr_put(request, RTA_DST, ipv4 ? sizeof(far_ipv4) : sizeof(far_ipv6),
                 ipv4 ? far_ipv4 : far_ipv6);
    l->route_ifindex = 0;
    /* ENETUNREACH and its like: there is no default route. */
    if (ask(socket, request, take_route, l) != 0)
        return 0;
    return l->route_ifindex;
}

static void note_default_route(struct listing *l, uint32_t ifindex, uint32_t rank)
{
    for (uint32_t i = 0; i < l->interface_count; i++) {
        struct interface *in = &l->interfaces[i];

        if (in->device.ifindex == ifindex && rank < in->route_rank)
            in->route_rank = rank;
    }
}

static int ask_all(struct listing *l)
{
    struct mnl_socket *socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
    int error;

    if (socket == NULL)
        return -errno;
    error = mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) < 0 ? -errno : 0;
    if (error == 0)
        error = ask_interfaces(socket, l);
    if (error == 0)
        error = ask_addresses(socket, l);
    if (error == 0) {
        note_default_route(l, ask_default_route(socket, l, AF_INET), 0);
        note_default_route(l, ask_default_route(socket, l, AF_INET6), 1);
    }
    mnl_socket_close(socket);
    return error;
}

static int compare_addresses(const void *left, const void *right)
{
    const struct address *a = left;
    const struct address *b = right;

    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static int compare_interfaces(const void *left, const void *right)
{
    const struct interface *a = left;
    const struct interface *b = right;

    if (a->device.loopback != b->device.loopback)
        return a->device.loopback ? 1 : -1;
    if (a->route_rank != b->route_rank)
        return a->route_rank < b->route_rank ? -1 : 1;
    return a->device.ifindex < b->device.ifindex ? -1 : a->device.ifindex > b->device.ifindex;
}

static void add_gid(struct device *d, const struct gid *gid)
{
    if (d->gid_count == DEVICE_GIDS_MAX)
        return;
    for (uint32_t i = 0; i < d->gid_count; i++)
        if (gid_equal(&d->gids[i].gid, gid))
            return;
    d->gids[d->gid_count++] = (struct device_gid){
        .gid = *gid,
        .scope_id = gid_is_link_local(gid) ? d->ifindex : 0,
    };
}

static void place_addresses(struct listing *l)
{
    if (l->address_count > 0)
        qsort(l->addresses, l->address_count, sizeof(l->addresses[0]), compare_addresses);
    for (uint32_t i = 0; i < l->interface_count; i++)
        for (uint32_t j = 0; j < l->address_count; j++)
            if (l->addresses[j].ifindex == l->interfaces[i].device.ifindex)
                add_gid(&l->interfaces[i].device, &l->addresses[j].gid);
}

static const struct device *find_named(const struct listing *l, const char *name, size_t len)
{
    const size_t prefix_len = strlen(DEVICE_NAME_PREFIX);

    for (uint32_t i = 0; i < l->interface_count; i++) {
        const struct device *d = &l->interfaces[i].device;

        if (d->gid_count == 0)
            continue;
        if (strlen(d->name) == len && strncmp(d->name, name, len) == 0)
            return d;
        if (strlen(d->name) == prefix_len + len && strncmp(d->name + prefix_len, name, len) == 0)
            return d;
    }
    return NULL;
}

static bool listed(const struct device *devices, uint32_t count, const struct device *d)
{
    for (uint32_t i = 0; i < count; i++)
        if (devices[i].ifindex == d->ifindex)
            return true;
    return false;
}

/* Once: programs list devices again and again. */
static void tell_absent(const char *name, size_t len)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;

    if (!atomic_flag_test_and_set(&told))
        log_warn("UROCE_DEVICES names %.*s, but no such interface is up with an address", (int)len,
                 name);
}

/* The interfaces named in chosen, in that order. */
static uint32_t choose(const struct listing *l, const char *chosen, struct device *devices,
                       uint32_t count)
{
    uint32_t used = 0;

    for (const char *name = chosen; *name != '\0';) {
        size_t len = strcspn(name, ", ");
        const struct device *d = len > 0 ? find_named(l, name, len) : NULL;

        if (d != NULL && used < count && !listed(devices, used, d))
            devices[used++] = *d;
        if (len > 0 && d == NULL)
            tell_absent(name, len);
        name += len + (name[len] != '\0');
    }
    return used;
}

static uint32_t all(const struct listing *l, struct device *devices, uint32_t count)
{
    uint32_t used = 0;

    for (uint32_t i = 0; i < l->interface_count && used < count; i++)
        if (l->interfaces[i].device.gid_count > 0 || l->any)
            devices[used++] = l->interfaces[i].device;
    return used;
}

static int list_once(struct device *devices, uint32_t count, const char *chosen, bool any)
{
    struct listing l = {.host = "", .any = any};
    int result;

    if (gethostname(l.host, sizeof(l.host) - 1) != 0)
        l.host[0] = '\0';
    result = ask_all(&l);
    if (result == 0 && l.interface_count > 0) {
        qsort(l.interfaces, l.interface_count, sizeof(l.interfaces[0]), compare_interfaces);
        place_addresses(&l);
        if (chosen != NULL && chosen[0] != '\0')
            result = (int)choose(&l, chosen, devices, count);
        else
            result = (int)all(&l, devices, count);
    }
    free(l.interfaces);
    free(l.addresses);
    return result;
}

static int list(struct device *devices, uint32_t count, const char *chosen, bool any)
{
    int result = -EINTR;

    /* EINTR: something changed between two messages of an answer (NLM_F_DUMP_INTR). */
    for (uint32_t i = 0; i < ATTEMPTS_MAX && result == -EINTR; i++)
        result = list_once(devices, count, chosen, any);
    return result;
}

int device_list_chosen(struct device *devices, uint32_t count, const char *chosen)
{
    return list(devices, count, chosen, false);
}

int device_list_any(struct device *devices, uint32_t count)
{
    return list(devices, count, NULL, true);
}

int device_list(struct device *devices, uint32_t count)
{
    return device_list_chosen(devices, count, settings_get()->devices);
}
