/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address vectors and address handles. A reply's address is read out of the
 * 40 bytes in front of a received datagram: a GRH, which for RoCEv2 is an IPv6
 * header, or 20 unused bytes and an IPv4 header (RoCEv2 annex A17.4.5.2).
 *
 *      0                   20                   40
 *     +--------------------+--------------------+
 *     | not used           | IPv4 header        |
 *     +--------------------+--------------------+
 *     | IPv6 header                             |
 *     +-----------------------------------------+
 */
#include "verbs/ah.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "engine/limits.h"
#include "verbs/context.h"
#include "verbs/export.h"
#include "verbs/pd.h"
#include "verbs/port.h"

#define FLOW_LABEL_MASK 0xfffffu
#define IPV4_OFFSET 20u
#define IPV4_LEN 20u
#define HOP_LIMIT_DEFAULT 64u

/*
 * Programs give 0 or 1 out of InfiniBand habit, meaning "as usual"; Linux puts
 * the route's limit in place of whatever they gave. Of a group it says how far its datagrams go.
 */
static uint8_t hop_limit_of(const struct ibv_ah_attr *attr, const struct gid *dst)
{
    uint8_t least = gid_is_multicast(dst) ? 1 : 2;

    return attr->grh.hop_limit >= least ? attr->grh.hop_limit : HOP_LIMIT_DEFAULT;
}

int path_from_ah_attr(struct context_handle *c, const struct ibv_ah_attr *attr, struct path *out)
{
    struct device_gid src;
    struct gid dst;
    int rate_mbps;

    if (attr->is_global == 0 || attr->port_num != PORT_NUMBER)
        return EINVAL;
    if (!device_gid_at(c->device, attr->grh.sgid_index, &src))
        return EINVAL;
    memcpy(dst.bytes, attr->grh.dgid.raw, sizeof(dst.bytes));
    if (gid_is_ipv4(&src.gid) != gid_is_ipv4(&dst))
        return EINVAL;
    rate_mbps =
        attr->static_rate == IBV_RATE_MAX ? 0 : ibv_rate_to_mbps((enum ibv_rate)attr->static_rate);
    if (rate_mbps < 0)
        return EINVAL;
    *out = (struct path){
        .src = src.gid,
        .dst = dst,
        .scope_id = gid_is_link_local(&dst) ? src.scope_id : 0,
        .flow_label = attr->grh.flow_label & FLOW_LABEL_MASK,
        .traffic_class = attr->grh.traffic_class,
        .hop_limit = hop_limit_of(attr, &dst),
        .rate_kbps = (uint32_t)rate_mbps * 1000u,
    };
    if (gid_is_multicast(&dst))
        out->scope_id = device_ifindex(c->device);
    return 0;
}

EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct pd_handle *p = pd_of(pd);
    struct ah_handle *h;
    struct path path;
    int error = EIO;

    if (!context_alive(p->context))
        goto fail;
    error = path_from_ah_attr(p->context, attr, &path);
    if (error != 0)
        goto fail;
    error = ENOMEM;
    h = calloc(1, sizeof(*h));
    if (h == NULL)
        goto fail;
    h->ibv.context = pd->context;
    h->ibv.pd = pd;
    h->ah = (struct ah){.pd = p->pd, .path = path};
    node_lock(p->context->node);
    error = p->context->ah_count < AH_COUNT_MAX ? 0 : ENOMEM;
    if (error == 0) {
        p->context->ah_count++;
        p->pd->use_count++;
    }
    node_unlock(p->context->node);
    if (error == 0)
        return &h->ibv;
    free(h);

fail:
    errno = error;
    return NULL;
}

EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
    struct ah_handle *h = ah_of(ah);
    struct context_handle *c = context_of(ah->context);

    if (!context_alive(c))
        return EIO;
    node_lock(c->node);
    h->ah.pd->use_count--;
    c->ah_count--;
    node_unlock(c->node);
    free(h);
    return 0;
}

/* --- who sent a datagram --- */

static bool ipv4_checksum_good(const uint8_t *header)
{
    uint32_t sum = 0;

    for (unsigned i = 0; i < IPV4_LEN; i += 2)
        sum += load_be16(header + i);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    return sum == 0xffff;
}

static bool is_ipv4_area(const uint8_t *area)
{
    const uint8_t *ipv4 = area + IPV4_OFFSET;

    return ipv4[0] == 0x45 && ipv4_checksum_good(ipv4);
}

/* The headers' fields that a reply needs, in the engine's form. False for neither IPv4 nor IPv6. */
static bool read_area(const uint8_t *area, struct path *out)
{
    const uint8_t *ipv4 = area + IPV4_OFFSET;

    *out = (struct path){0};
    if (is_ipv4_area(area)) {
        out->src = gid_from_ipv4(ipv4 + 12);
        out->dst = gid_from_ipv4(ipv4 + 16);
        out->traffic_class = ipv4[1];
        out->hop_limit = ipv4[8];
        return true;
    }
    if (area[0] >> 4 != 6)
        return false;
    memcpy(out->src.bytes, area + 8, sizeof(out->src.bytes));
    memcpy(out->dst.bytes, area + 24, sizeof(out->dst.bytes));
    out->flow_label = load_be32(area) & FLOW_LABEL_MASK;
    out->traffic_class = (uint8_t)(load_be16(area) >> 4);
    out->hop_limit = area[7];
    return true;
}

/* The index of the GID that the datagram came to; -1 when it is not (any more) one of the device.
 */
static int find_gid(struct context_handle *c, const struct gid *gid)
{
    struct device_gid entry;

    for (uint32_t i = 0; i < DEVICE_GIDS_MAX; i++)
        if (device_gid_at(c->device, i, &entry) && gid_equal(&entry.gid, gid))
            return (int)i;
    return -1;
}

EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port_num, struct ibv_wc *wc,
                               struct ibv_grh *grh, struct ibv_ah_attr *out)
{
    struct context_handle *c = context_of(context);
    struct path came;
    int index;

    if ((wc->wc_flags & IBV_WC_GRH) == 0 || port_num != PORT_NUMBER) {
        errno = EINVAL;
        return -1;
    }
    if (!read_area((const uint8_t *)grh, &came)) {
        errno = EPROTONOSUPPORT;
        return -1;
    }
    index = find_gid(c, &came.dst);
    if (index < 0) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    *out = (struct ibv_ah_attr){
        .is_global = 1,
        .port_num = port_num,
        .sl = wc->sl,
        .grh.sgid_index = (uint8_t)index,
        .grh.flow_label = came.flow_label,
        .grh.traffic_class = came.traffic_class,
        .grh.hop_limit = 0xff,
    };
    memcpy(out->grh.dgid.raw, came.src.bytes, sizeof(came.src.bytes));
    return 0;
}

EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc,
                                            struct ibv_grh *grh, uint8_t port_num)
{
    struct ibv_ah_attr attr;

    if (ibv_init_ah_from_wc(pd->context, port_num, wc, grh, &attr) != 0)
        return NULL;
    return ibv_create_ah(pd, &attr);
}

/* Providers ask this to fill Ethernet headers; here the kernel's IP stack does. */
EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
                                       uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
    (void)context;
    (void)attr;
    (void)eth_mac;
    (void)vid;
    return EOPNOTSUPP;
}
