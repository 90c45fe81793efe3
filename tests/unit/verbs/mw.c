/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory windows as programs use them: both types, both ways to post, and what is refused. */
#include "fixture.h"

#include <errno.h>
#include <string.h>

#define LEN 64u

/* A pair whose answering side has a region that only windows open. */
struct scene {
    struct pair pair;
    struct ibv_mr *region; /* over its buffer */
    struct ibv_mw *window;
    struct ibv_mw_bind_info info; /* LEN bytes from its buffer's byte 100 on */
};

static void scene_open(struct scene *s, enum ibv_mw_type type, uint64_t operations)
{
    pair_setup(&s->pair, IBV_QPT_RC, operations);
    s->region = ibv_reg_mr(s->pair.pd, buf_of(&s->pair, 1), BUF_SIZE,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    s->window = ibv_alloc_mw(s->pair.pd, type);
    assert_non_null(s->region);
    assert_non_null(s->window);
    s->info = (struct ibv_mw_bind_info){.mr = s->region,
                                        .addr = (uintptr_t)buf_of(&s->pair, 1) + 100,
                                        .length = LEN,
                                        .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
}

static void scene_close(struct scene *s)
{
    assert_int_equal(ibv_dealloc_mw(s->window), 0);
    assert_int_equal(ibv_dereg_mr(s->region), 0);
    pair_close(&s->pair);
}

/* Posts on the answering side. */
static int post(struct scene *s, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;

    wr->send_flags = IBV_SEND_SIGNALED;
    return ibv_post_send(s->pair.qp[1], wr, &bad);
}

static int post_bind(struct scene *s, uint32_t rkey)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW};

    wr.bind_mw.mw = s->window;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info = s->info;
    return post(s, &wr);
}

static int bind_type_1(struct scene *s)
{
    struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED, .bind_info = s->info};

    return ibv_bind_mw(s->pair.qp[1], s->window, &bind);
}

static void expect(struct scene *s, enum ibv_wc_opcode opcode)
{
    assert_int_equal(expect_success(s->pair.send_cq).opcode, opcode);
}

static enum ibv_wc_status write_to(struct scene *s, uint64_t remote_addr, uint32_t rkey)
{
    struct ibv_sge sge = sge_of(&s->pair, 0, 0, 8);
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};

    wr.wr.rdma.remote_addr = remote_addr;
    wr.wr.rdma.rkey = rkey;
    post_request(&s->pair, &wr);
    return poll_one(s->pair.send_cq).status;
}

static void type_1_is_bound_bound_again_and_closed(void **state)
{
    struct scene s;
    uint32_t first;

    (void)state;
    scene_open(&s, IBV_MW_TYPE_1, 0);
    memset(buf_of(&s.pair, 0), 0x77, 8);
    first = s.window->rkey;
    assert_int_equal(bind_type_1(&s), 0);
    assert_int_equal(s.window->rkey, ibv_inc_rkey(first));
    expect(&s, IBV_WC_BIND_MW);
    assert_int_equal(write_to(&s, s.info.addr, s.window->rkey), IBV_WC_SUCCESS);
    assert_memory_equal(buf_of(&s.pair, 1) + 100, buf_of(&s.pair, 0), 8);
    s.info.addr += 16;
    assert_int_equal(bind_type_1(&s), 0);
    expect(&s, IBV_WC_BIND_MW);
    assert_int_equal(write_to(&s, s.info.addr + LEN - 8, s.window->rkey), IBV_WC_SUCCESS);
    s.info = (struct ibv_mw_bind_info){0};
    assert_int_equal(bind_type_1(&s), 0);
    expect(&s, IBV_WC_BIND_MW);
    assert_int_equal(write_to(&s, (uintptr_t)buf_of(&s.pair, 1) + 116, s.window->rkey),
                     IBV_WC_REM_ACCESS_ERR);
    scene_close(&s);
}

static void type_2_is_bound_and_invalidated_by_requests(void **state)
{
    struct ibv_send_wr invalidate = {.opcode = IBV_WR_LOCAL_INV};
    struct scene s;
    uint32_t key;

    (void)state;
    scene_open(&s, IBV_MW_TYPE_2, 0);
    key = ibv_inc_rkey(s.window->rkey);
    s.info.mw_access_flags |= IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE;
    assert_int_equal(post_bind(&s, key), 0);
    expect(&s, IBV_WC_BIND_MW);
    assert_int_equal(write_to(&s, LEN - 8, key), IBV_WC_SUCCESS);
    invalidate.invalidate_rkey = key;
    assert_int_equal(post(&s, &invalidate), 0);
    expect(&s, IBV_WC_LOCAL_INV);
    assert_int_equal(write_to(&s, 0, key), IBV_WC_REM_ACCESS_ERR);
    scene_close(&s);
}

static void the_peer_invalidates_with_a_send(void **state)
{
    struct ibv_send_wr send = {.opcode = IBV_WR_SEND_WITH_INV};
    struct scene s;
    struct ibv_wc wc;
    uint32_t key;

    (void)state;
    scene_open(&s, IBV_MW_TYPE_2, 0);
    key = s.window->rkey; /* unchanged: F55 */
    assert_int_equal(post_bind(&s, key), 0);
    expect(&s, IBV_WC_BIND_MW);
    post_receive(&s.pair, 1, 0);
    send.invalidate_rkey = key;
    post_request(&s.pair, &send);
    expect(&s, IBV_WC_SEND);
    wc = expect_success(s.pair.recv_cq);
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
    assert_int_equal(wc.invalidated_rkey, key);
    assert_int_equal(write_to(&s, s.info.addr, key), IBV_WC_REM_ACCESS_ERR);
    scene_close(&s);
}

static void the_builder_binds_and_invalidates(void **state)
{
    struct ibv_qp_ex *qp;
    struct scene s;
    uint32_t key;

    (void)state;
    scene_open(&s, IBV_MW_TYPE_2,
               IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV);
    qp = ibv_qp_to_qp_ex(s.pair.qp[1]);
    key = ibv_inc_rkey(s.window->rkey);
    qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_start(qp);
    ibv_wr_bind_mw(qp, s.window, key, &s.info);
    assert_int_equal(ibv_wr_complete(qp), 0);
    expect(&s, IBV_WC_BIND_MW);
    assert_int_equal(write_to(&s, s.info.addr, key), IBV_WC_SUCCESS);
    ibv_wr_start(qp);
    ibv_wr_local_inv(qp, key);
    assert_int_equal(ibv_wr_complete(qp), 0);
    expect(&s, IBV_WC_LOCAL_INV);
    ibv_wr_start(qp);
    ibv_wr_bind_mw(qp, s.window, key, &s.info);
    ibv_wr_set_sge(qp, s.region->lkey, s.info.addr, 8); /* a bind has none */
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    ibv_wr_start(qp);
    ibv_wr_bind_mw(qp, NULL, key, &s.info);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    scene_close(&s);
}

static void a_window_that_is_freed_closes(void **state)
{
    struct scene s;
    uint32_t key;

    (void)state;
    scene_open(&s, IBV_MW_TYPE_2, 0);
    key = ibv_inc_rkey(s.window->rkey);
    assert_int_equal(post_bind(&s, key), 0);
    expect(&s, IBV_WC_BIND_MW);
    assert_int_equal(ibv_dereg_mr(s.region), EBUSY);
    assert_int_equal(ibv_dealloc_mw(s.window), 0);
    assert_int_equal(write_to(&s, s.info.addr, key), IBV_WC_REM_ACCESS_ERR);
    s.window = ibv_alloc_mw(s.pair.pd, IBV_MW_TYPE_2);
    scene_close(&s);
}

static void a_region_with_a_window_is_not_changed(void **state)
{
    const int flags[] = {IBV_REREG_MR_CHANGE_TRANSLATION, IBV_REREG_MR_CHANGE_PD,
                         IBV_REREG_MR_CHANGE_ACCESS};
    struct scene s;

    (void)state;
    scene_open(&s, IBV_MW_TYPE_1, 0);
    assert_int_equal(bind_type_1(&s), 0);
    expect(&s, IBV_WC_BIND_MW);
    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        assert_int_equal(
            ibv_rereg_mr(s.region, flags[i], s.pair.pd, s.pair.buf, 64, IBV_ACCESS_LOCAL_WRITE),
            IBV_REREG_MR_ERR_INPUT);
        assert_int_equal(errno, EBUSY);
    }
    assert_int_equal(write_to(&s, s.info.addr, s.window->rkey), IBV_WC_SUCCESS);
    scene_close(&s);
}

static void binds_that_cannot_be_meant_are_refused_at_once(void **state)
{
    struct ibv_mw_bind inlined = {.send_flags = IBV_SEND_INLINE};
    struct ibv_mw *window;
    struct scene s;

    (void)state;
    scene_open(&s, IBV_MW_TYPE_1, 0);
    assert_int_equal(post_bind(&s, s.window->rkey), EINVAL); /* of type 1 */
    s.info.mw_access_flags = IBV_ACCESS_MW_BIND;
    assert_int_equal(bind_type_1(&s), EINVAL);
    inlined.bind_info = (struct ibv_mw_bind_info){0};
    assert_int_equal(ibv_bind_mw(s.pair.qp[1], s.window, &inlined), EINVAL);
    window = s.window;
    s.window = ibv_alloc_mw(s.pair.pd, IBV_MW_TYPE_2);
    assert_int_equal(bind_type_1(&s), EINVAL); /* of type 2 */
    s.info.mr = NULL;
    assert_int_equal(post_bind(&s, s.window->rkey), EINVAL);
    assert_int_equal(ibv_dealloc_mw(window), 0);
    errno = 0;
    assert_null(ibv_alloc_mw(s.pair.pd, (enum ibv_mw_type)3));
    assert_int_equal(errno, EINVAL);
    scene_close(&s);
}

static void a_window_says_what_it_is_and_the_device_that_it_is_2b(void **state)
{
    struct ibv_device_attr attr;
    struct scene s;

    (void)state;
    scene_open(&s, IBV_MW_TYPE_2, 0);
    assert_ptr_equal(s.window->pd, s.pair.pd);
    assert_ptr_equal(s.window->context, s.pair.context);
    assert_int_equal(s.window->type, IBV_MW_TYPE_2);
    assert_int_equal(ibv_query_device(s.pair.context, &attr), 0);
    assert_true((attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW) != 0);
    assert_true((attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) != 0);
    assert_true((attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A) == 0);
    assert_true(attr.max_mw >= 1000000);
    scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(type_1_is_bound_bound_again_and_closed),
        cmocka_unit_test(type_2_is_bound_and_invalidated_by_requests),
        cmocka_unit_test(the_peer_invalidates_with_a_send),
        cmocka_unit_test(the_builder_binds_and_invalidates),
        cmocka_unit_test(a_window_that_is_freed_closes),
        cmocka_unit_test(a_region_with_a_window_is_not_changed),
        cmocka_unit_test(binds_that_cannot_be_meant_are_refused_at_once),
        cmocka_unit_test(a_window_says_what_it_is_and_the_device_that_it_is_2b),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
