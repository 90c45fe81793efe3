/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended polling (ibv_create_cq_ex): start_poll takes an entry into the
 * object, the read functions look at it there, next_poll takes the next one
 * in its place. Between start and end the queue belongs to one thread, and the
 * node stays free: posting from within the loop is normal use.
 */
#include <errno.h>
#include <time.h>

#include "verbs/context.h"
#include "verbs/cq.h"

/* Takes the next entry: 0, ENOENT when there is none, or another errno. */
static int advance(struct cq_handle *h)
{
    int taken = cq_handle_take(h, 1, &h->current);

    if (taken < 0)
        return -taken;
    if (taken == 0)
        return ENOENT;
    h->ibv.wr_id = h->current.wr_id;
    h->ibv.status = (enum ibv_wc_status)h->current.status;
    return 0;
}

static void lock_poll(struct cq_handle *h)
{
    if (!h->single_threaded)
        pthread_mutex_lock(&h->poll_lock);
}

static void unlock_poll(struct cq_handle *h)
{
    if (!h->single_threaded)
        pthread_mutex_unlock(&h->poll_lock);
}

static int start_poll(struct ibv_cq_ex *cq, struct ibv_poll_cq_attr *attr)
{
    struct cq_handle *h = cq_of_ex(cq);
    int error;

    if (attr != NULL && attr->comp_mask != 0)
        return EINVAL;
    if (!context_alive(h->context))
        return EIO;
    lock_poll(h);
    error = advance(h);
    h->polling = error == 0;
    if (error != 0)
        unlock_poll(h);
    return error;
}

static int next_poll(struct ibv_cq_ex *cq)
{
    struct cq_handle *h = cq_of_ex(cq);

    return h->polling ? advance(h) : EINVAL;
}

/* An end without a start (after start_poll found nothing) has nothing to give back. */
static void end_poll(struct ibv_cq_ex *cq)
{
    struct cq_handle *h = cq_of_ex(cq);

    if (!h->polling)
        return;
    h->polling = false;
    unlock_poll(h);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *cq)
{
    return (enum ibv_wc_opcode)cq_of_ex(cq)->current.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *cq)
{
    return cq_of_ex(cq)->current.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *cq)
{
    return cq_of_ex(cq)->current.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *cq)
{
    return completion_imm(&cq_of_ex(cq)->current);
}

static uint32_t read_qp_num(struct ibv_cq_ex *cq)
{
    return cq_of_ex(cq)->current.qpn;
}

static uint32_t read_src_qp(struct ibv_cq_ex *cq)
{
    return cq_of_ex(cq)->current.src_qpn;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *cq)
{
    return completion_wc_flags(&cq_of_ex(cq)->current);
}

static uint8_t read_sl(struct ibv_cq_ex *cq)
{
    return cq_of_ex(cq)->current.service_level;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *cq)
{
    return cq_of_ex(cq)->current.timestamp_ns;
}

/* The engine's clock is the monotonic one: the two clocks' distance now is taken for that of then.
 */
static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *cq)
{
    uint64_t age_ns = node_now() - cq_of_ex(cq)->current.timestamp_ns;
    struct timespec wall;

    clock_gettime(CLOCK_REALTIME, &wall);
    return (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec - age_ns;
}

/* What an Ethernet fabric without LIDs, or this device, does not have. */

static uint32_t read_no_slid(struct ibv_cq_ex *cq)
{
    (void)cq;
    return 0;
}

static uint8_t read_no_path_bits(struct ibv_cq_ex *cq)
{
    (void)cq;
    return 0;
}

static uint16_t read_no_cvlan(struct ibv_cq_ex *cq)
{
    (void)cq;
    return 0;
}

static uint32_t read_no_flow_tag(struct ibv_cq_ex *cq)
{
    (void)cq;
    return 0;
}

static void read_no_tm_info(struct ibv_cq_ex *cq, struct ibv_wc_tm_info *info)
{
    (void)cq;
    *info = (struct ibv_wc_tm_info){0};
}

/* The header calls these without a check, so none is left empty. */
void cq_ex_fill(struct cq_handle *h)
{
    h->ibv.start_poll = start_poll;
    h->ibv.next_poll = next_poll;
    h->ibv.end_poll = end_poll;
    h->ibv.read_opcode = read_opcode;
    h->ibv.read_vendor_err = read_vendor_err;
    h->ibv.read_byte_len = read_byte_len;
    h->ibv.read_imm_data = read_imm_data;
    h->ibv.read_qp_num = read_qp_num;
    h->ibv.read_src_qp = read_src_qp;
    h->ibv.read_wc_flags = read_wc_flags;
    h->ibv.read_slid = read_no_slid;
    h->ibv.read_sl = read_sl;
    h->ibv.read_dlid_path_bits = read_no_path_bits;
    h->ibv.read_completion_ts = read_completion_ts;
    h->ibv.read_cvlan = read_no_cvlan;
    h->ibv.read_flow_tag = read_no_flow_tag;
    h->ibv.read_tm_info = read_no_tm_info;
    h->ibv.read_completion_wallclock_ns = read_completion_wallclock_ns;
}
