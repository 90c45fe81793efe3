/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a device says it can do. Limits come from engine/limits.h, so that what
 * is advertised is what is enforced.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "engine/limits.h"
#include "node/settings.h"
#include "verbs/context.h"
#include "verbs/dm.h"
#include "verbs/export.h"
#include "verbs/port.h"

/* No vendor, as Linux rxe says it. Programs single out 0x02c9, 0x15b3 and 0x1d0f. */
#define VENDOR_ID 0xffffffu
#define CLOCK_KHZ 1000000u /* completion timestamps are nanoseconds */
#define PAGE_SIZES 0xfffff000u
#define ACK_DELAY_CODE 15u /* 4.096 us * 2^15: a busy process answers within 134 ms */

/* Pages are the process's own: whatever reaches memory brings them in. */
#define ODP_DATAGRAM (IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV)
#define ODP_UC (ODP_DATAGRAM | IBV_ODP_SUPPORT_WRITE)
#define ODP_RC (ODP_UC | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC)

static const struct ibv_odp_caps odp_caps = {
    .general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT,
    .per_transport_caps = {.rc_odp_caps = ODP_RC,
                           .uc_odp_caps = ODP_UC,
                           .ud_odp_caps = ODP_DATAGRAM},
};

static struct ibv_device_attr describe(const struct device *d)
{
    const struct settings *s = settings_get();
    struct ibv_device_attr attr = {
        .max_mr_size = MR_LEN_MAX,
        .page_size_cap = PAGE_SIZES,
        .vendor_id = VENDOR_ID,
        .vendor_part_id = (uint32_t)s->vendor_part_id,
        .max_qp = QP_COUNT_MAX,
        .max_qp_wr = QP_WR_MAX,
        .device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID |
                            IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_XRC |
                            IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B,
        .max_sge = QP_SGE_MAX,
        .max_sge_rd = QP_SGE_MAX,
        .max_cq = CQ_COUNT_MAX,
        .max_cqe = CQ_CAPACITY_MAX,
        .max_mr = MR_COUNT_MAX,
        .max_mw = MW_COUNT_MAX,
        .max_pd = PD_COUNT_MAX,
        .max_qp_rd_atom = (int)s->rd_atomic,
        .max_qp_init_rd_atom = (int)s->rd_atomic,
        .max_res_rd_atom = (int)(QP_COUNT_MAX * s->rd_atomic),
        .atomic_cap = IBV_ATOMIC_HCA,
        .max_mcast_grp = MULTICAST_GROUPS_MAX,
        .max_mcast_qp_attach = MULTICAST_QPS_MAX,
        .max_total_mcast_qp_attach = MULTICAST_TOTAL_MAX,
        .max_ah = AH_COUNT_MAX,
        .max_srq = SRQ_COUNT_MAX,
        .max_srq_wr = SRQ_WR_MAX,
        .max_srq_sge = QP_SGE_MAX,
        .max_pkeys = 1,
        .local_ca_ack_delay = ACK_DELAY_CODE,
        .phys_port_cnt = 1,
    };

    snprintf(attr.fw_ver, sizeof(attr.fw_ver), "%s", UROCE_VERSION);
    memcpy(&attr.node_guid, d->guid, sizeof(attr.node_guid));
    attr.sys_image_guid = attr.node_guid;
    return attr;
}

EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *out)
{
    struct device state;

    device_snapshot(context_of(context)->device, &state);
    *out = describe(&state);
    return 0;
}

int context_query_device(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                         struct ibv_device_attr_ex *out, size_t size)
{
    struct ibv_device_attr_ex attr = {
        .completion_timestamp_mask = UINT64_MAX,
        .hca_core_clock = CLOCK_KHZ,
        .packet_pacing_caps = {.qp_rate_limit_min = 1,
                               .qp_rate_limit_max = RATE_KBPS_MAX,
                               .supported_qpts =
                                   1u << IBV_QPT_RC | 1u << IBV_QPT_UC | 1u << IBV_QPT_UD},
        .cq_mod_caps = {.max_cq_count = UINT16_MAX, .max_cq_period = UINT16_MAX},
        .phys_port_cnt_ex = 1,
        .max_dm_size = DM_LEN_MAX,
        .odp_caps = odp_caps,
        .xrc_odp_caps = ODP_RC,
    };

    if (input != NULL && input->comp_mask != 0)
        return EINVAL;
    ibv_query_device(context, &attr.orig_attr);
    attr.device_cap_flags_ex = attr.orig_attr.device_cap_flags;
    memset(out, 0, size);
    memcpy(out, &attr, size < sizeof(attr) ? size : sizeof(attr));
    return 0;
}

/* The clock of completion timestamps. Users take all of it from tv_nsec, as adapters give it. */
int context_query_clock(struct ibv_context *context, struct ibv_values_ex *values)
{
    (void)context;
    if ((values->comp_mask & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK) != 0)
        return EINVAL;
    if ((values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) != 0)
        values->raw_clock = (struct timespec){.tv_nsec = (long)node_now()};
    return 0;
}
