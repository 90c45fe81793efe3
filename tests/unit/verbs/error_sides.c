/* SPDX-License-Identifier: BSD-2-Clause */
/* The two sides of a cell of the error matrix: what each has, and how its queue pairs get going. */
#include "error_matrix.h"

#include <fcntl.h>
#include <sys/mman.h>

#define PSN 0xfffffeu /* the PSNs of a cell wrap */

static void open_memory(struct side *s)
{
    const int remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    const int rights = IBV_ACCESS_LOCAL_WRITE | remote;

    /* One page that may go away; then one that stays. */
    s->memory = mmap(NULL, MEMORY_LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(s->memory, MAP_FAILED);
    s->mr[REGION_GOOD] = ibv_reg_mr(s->pd, s->memory, MEMORY_LEN, rights);
    s->mr[REGION_OTHER_PD] = ibv_reg_mr(s->other_pd, s->memory, MEMORY_LEN, rights);
    s->mr[REGION_NO_RIGHTS] = ibv_reg_mr(s->pd, s->memory, MEMORY_LEN, 0);
    s->mr[REGION_FOR_WINDOWS] =
        ibv_reg_mr(s->pd, s->memory, MEMORY_LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    s->mr[REGION_GONE] = ibv_reg_mr(s->pd, s->memory, MEMORY_LEN, rights);
    for (int i = 0; i < REGION_COUNT; i++) {
        assert_non_null(s->mr[i]);
        s->key[i] = s->mr[i]->lkey;
    }
    assert_int_equal(ibv_dereg_mr(s->mr[REGION_GONE]), 0);
    s->mr[REGION_GONE] = NULL;
    s->window = ibv_alloc_mw(s->pd, IBV_MW_TYPE_2);
    assert_non_null(s->window);
}

void side_open(struct side *s)
{
    *s = (struct side){.context = open_loopback()};
    assert_int_equal(
        fcntl(s->context->async_fd, F_SETFL, fcntl(s->context->async_fd, F_GETFL) | O_NONBLOCK), 0);
    s->pd = ibv_alloc_pd(s->context);
    s->other_pd = ibv_alloc_pd(s->context);
    s->cq[SENDS] = ibv_create_cq(s->context, 64, NULL, NULL, 0);
    s->cq[RECEIVES] = ibv_create_cq(s->context, 64, NULL, NULL, 0);
    open_memory(s);
}

void side_close(struct side *s)
{
    if (s->qp != NULL)
        assert_int_equal(ibv_destroy_qp(s->qp), 0);
    if (s->other_qp != NULL)
        assert_int_equal(ibv_destroy_qp(s->other_qp), 0);
    if (s->srq != NULL)
        assert_int_equal(ibv_destroy_srq(s->srq), 0);
    if (s->xrcd != NULL)
        assert_int_equal(ibv_close_xrcd(s->xrcd), 0);
    assert_int_equal(ibv_dealloc_mw(s->window), 0);
    for (int i = 0; i < REGION_COUNT; i++)
        if (s->mr[i] != NULL)
            assert_int_equal(ibv_dereg_mr(s->mr[i]), 0);
    if (s->ah != NULL)
        assert_int_equal(ibv_destroy_ah(s->ah), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(ibv_destroy_cq(s->cq[i]), 0);
    assert_int_equal(ibv_dealloc_pd(s->other_pd), 0);
    assert_int_equal(ibv_dealloc_pd(s->pd), 0);
    assert_int_equal(ibv_close_device(s->context), 0);
    munmap(s->memory, MEMORY_LEN);
}

/* What an XRC target is for: a domain, and an SRQ in it that requests name. */
static void open_domain(struct side *s)
{
    struct ibv_xrcd_init_attr domain = {.comp_mask =
                                            IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
                                        .fd = -1,
                                        .oflags = O_CREAT};
    struct ibv_srq_init_attr_ex queue = {
        .attr = {.max_wr = 16, .max_sge = 1},
        .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD |
                     IBV_SRQ_INIT_ATTR_CQ,
        .srq_type = IBV_SRQT_XRC,
        .pd = s->pd,
        .cq = s->cq[RECEIVES],
    };

    s->xrcd = ibv_open_xrcd(s->context, &domain);
    assert_non_null(s->xrcd);
    queue.xrcd = s->xrcd;
    s->srq = ibv_create_srq_ex(s->context, &queue);
    assert_non_null(s->srq);
    assert_int_equal(ibv_get_srq_num(s->srq, &s->srqn), 0);
}

struct ibv_qp *side_create_qp(struct side *s, enum ibv_qp_type type)
{
    struct ibv_qp_init_attr_ex init = {
        .send_cq = s->cq[SENDS],
        .recv_cq = s->cq[RECEIVES],
        .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 2, .max_recv_sge = 1},
        .qp_type = type,
        .comp_mask = IBV_QP_INIT_ATTR_PD,
        .pd = s->pd,
    };
    struct ibv_qp *qp;

    if (type == IBV_QPT_XRC_SEND) {
        init.recv_cq = NULL;
        init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
    } else if (type == IBV_QPT_XRC_RECV) {
        open_domain(s);
        init = (struct ibv_qp_init_attr_ex){
            .qp_type = type, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = s->xrcd};
    }
    qp = ibv_create_qp_ex(s->context, &init);
    assert_non_null(qp);
    return qp;
}

struct ibv_ah_attr loopback_address(const struct side *s)
{
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
    int index = gid_index(s->context, true);

    attr.grh.sgid_index = (uint8_t)index;
    attr.grh.hop_limit = 64;
    assert_int_equal(ibv_query_gid(s->context, 1, index, &attr.grh.dgid), 0);
    return attr;
}

static bool is_reliable(const struct ibv_qp *qp)
{
    return qp->qp_type != IBV_QPT_UC && qp->qp_type != IBV_QPT_UD;
}

void qp_init(struct ibv_qp *qp, unsigned access)
{
    bool ud = qp->qp_type == IBV_QPT_UD;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY, .qp_access_flags = access};

    assert_int_equal(ibv_modify_qp(qp, &attr,
                                   IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
                                       (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
                     0);
}

void qp_rtr(const struct side *s, struct ibv_qp *qp, uint32_t peer_qpn, uint8_t dest_reads)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
                               .path_mtu = IBV_MTU_256,
                               .dest_qp_num = peer_qpn,
                               .rq_psn = PSN,
                               .max_dest_rd_atomic = dest_reads,
                               .min_rnr_timer = 1,
                               .ah_attr = loopback_address(s)};
    int mask = IBV_QP_STATE;

    if (qp->qp_type != IBV_QPT_UD)
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (is_reliable(qp))
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
}

void qp_rts(struct ibv_qp *qp, uint8_t reads)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS,
                               .sq_psn = PSN,
                               .timeout = 1,
                               .retry_cnt = 1,
                               .rnr_retry = 1,
                               .max_rd_atomic = reads};
    int mask = IBV_QP_STATE | IBV_QP_SQ_PSN;

    if (is_reliable(qp))
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    assert_int_equal(ibv_modify_qp(qp, &attr, mask), 0);
}

enum ibv_qp_state state_of(const struct side *s)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;

    if (s->qp == NULL)
        return GONE;
    assert_int_equal(ibv_query_qp(s->qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
}
