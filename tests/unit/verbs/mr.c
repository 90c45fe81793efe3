/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory regions: what may be registered, how it is named, and changing it. */
#include "fixture.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE 4096u
#define REMOTE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static void expect_refused(struct ibv_pd *pd, void *addr, size_t len, unsigned access, int error)
{
    errno = 0;
    assert_null(ibv_reg_mr_iova2(pd, addr, len, (uintptr_t)addr, access));
    assert_int_equal(errno, error);
}

static void *map(int protection)
{
    void *memory = mmap(NULL, PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_true(memory != MAP_FAILED);
    return memory;
}

static void rights_that_contradict_each_other_are_refused(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p);
    expect_refused(p.pd, p.buf, 64, IBV_ACCESS_REMOTE_WRITE, EINVAL);
    expect_refused(p.pd, p.buf, 64, IBV_ACCESS_REMOTE_ATOMIC, EINVAL);
    expect_refused(p.pd, p.buf, 64, 1u << 15, EINVAL);
    expect_refused(p.pd, p.buf, 64, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP);
    pair_close(&p);
}

static void hints_are_accepted_and_ignored(void **state)
{
    struct ibv_mr *mr;
    struct pair p;

    (void)state;
    pair_open(&p);
    mr = ibv_reg_mr(p.pd, p.buf, 64, REMOTE | IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_HUGETLB);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    mr = ibv_reg_mr_iova2(p.pd, p.buf, 64, 0, IBV_ACCESS_LOCAL_WRITE | 0x3ff00000u);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&p);
}

static void memory_that_is_not_there_is_refused(void **state)
{
    uint8_t *read_only = map(PROT_READ);
    uint8_t *gone = map(PROT_READ | PROT_WRITE);
    struct ibv_mr *mr;
    struct pair p;

    (void)state;
    pair_open(&p);
    munmap(gone, PAGE);
    expect_refused(p.pd, gone, PAGE, 0, EFAULT);
    expect_refused(p.pd, read_only, PAGE, IBV_ACCESS_LOCAL_WRITE, EFAULT);
    expect_refused(p.pd, (void *)(UINTPTR_MAX - 10), 100, 0, EINVAL);
    mr = ibv_reg_mr_iova2(p.pd, read_only, PAGE, 0, IBV_ACCESS_REMOTE_READ);
    assert_non_null(mr);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(read_only, PAGE);
    pair_close(&p);
}

static void a_region_says_what_was_registered(void **state)
{
    struct pair p;

    (void)state;
    pair_open(&p);
    assert_ptr_equal(p.mr->addr, p.buf);
    assert_int_equal(p.mr->length, 2 * BUF_SIZE);
    assert_ptr_equal(p.mr->pd, p.pd);
    assert_ptr_equal(p.mr->context, p.context);
    assert_int_not_equal(p.mr->lkey, 0);
    pair_close(&p);
}

/* Writes 8 bytes to that address of the peer with this key and returns how it ended. */
static enum ibv_wc_status write_to(struct pair *p, uint64_t remote_addr, uint32_t rkey)
{
    struct ibv_sge sge = sge_of(p, 0, 0, 8);
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};

    wr.wr.rdma.remote_addr = remote_addr;
    wr.wr.rdma.rkey = rkey;
    post_request(p, &wr);
    return poll_one(p->send_cq).status;
}

static void peers_use_the_address_that_was_given(void **state)
{
    struct ibv_mr *mr;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    memset(buf_of(&p, 0), 0x77, 8);
    mr = ibv_reg_mr_iova(p.pd, buf_of(&p, 1), 64, 0x123450000, REMOTE);
    assert_non_null(mr);
    assert_int_equal(write_to(&p, 0x123450008, mr->rkey), IBV_WC_SUCCESS);
    assert_memory_equal(buf_of(&p, 1) + 8, buf_of(&p, 0), 8);
    assert_int_equal(write_to(&p, (uintptr_t)buf_of(&p, 1), mr->rkey), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&p);
}

static void a_zero_based_region_is_addressed_by_offset(void **state)
{
    struct ibv_mr *mr;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    memset(buf_of(&p, 0), 0x77, 8);
    mr = ibv_reg_mr(p.pd, buf_of(&p, 1), 64, REMOTE | IBV_ACCESS_ZERO_BASED);
    assert_non_null(mr);
    assert_int_equal(write_to(&p, 56, mr->rkey), IBV_WC_SUCCESS);
    assert_memory_equal(buf_of(&p, 1) + 56, buf_of(&p, 0), 8);
    assert_int_equal(write_to(&p, 57, mr->rkey), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&p);
}

static void a_key_is_dead_after_deregistration(void **state)
{
    struct ibv_mr *mr;
    struct pair p;
    uint32_t rkey;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    mr = ibv_reg_mr(p.pd, buf_of(&p, 1), 64, REMOTE);
    rkey = mr->rkey;
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(write_to(&p, (uintptr_t)buf_of(&p, 1), rkey), IBV_WC_REM_ACCESS_ERR);
    pair_close(&p);
}

static void memory_unmapped_under_a_region_is_a_failed_request(void **state)
{
    void *memory = map(PROT_READ | PROT_WRITE);
    struct ibv_mr *mr;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    mr = ibv_reg_mr(p.pd, memory, PAGE, REMOTE);
    assert_non_null(mr);
    munmap(memory, PAGE);
    assert_int_not_equal(write_to(&p, (uintptr_t)memory, mr->rkey), IBV_WC_SUCCESS);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&p);
}

static void reregistering_moves_the_region(void **state)
{
    struct ibv_mr *mr;
    struct pair p;
    uint32_t old;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    mr = ibv_reg_mr(p.pd, buf_of(&p, 1), 64, REMOTE);
    old = mr->rkey;
    assert_int_equal(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buf_of(&p, 1) + 1000, 64, 0), 0);
    assert_ptr_equal(mr->addr, buf_of(&p, 1) + 1000);
    assert_int_equal(write_to(&p, (uintptr_t)buf_of(&p, 1) + 1000, mr->rkey), IBV_WC_SUCCESS);
    assert_int_not_equal(mr->rkey, old);
    assert_int_equal(write_to(&p, (uintptr_t)buf_of(&p, 1), old), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&p);
}

static void changing_rights_keeps_the_key_that_peers_know(void **state)
{
    struct ibv_mr *mr;
    struct pair p;
    uint32_t rkey;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    mr = ibv_reg_mr(p.pd, buf_of(&p, 1), 64, IBV_ACCESS_LOCAL_WRITE);
    rkey = mr->rkey;
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, REMOTE), 0);
    assert_int_equal(mr->rkey, rkey);
    assert_int_equal(write_to(&p, (uintptr_t)buf_of(&p, 1), rkey), IBV_WC_SUCCESS);
    assert_int_equal(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE), 0);
    assert_int_equal(write_to(&p, (uintptr_t)buf_of(&p, 1), rkey), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&p);
}

static void a_refused_change_leaves_the_region_as_it_was(void **state)
{
    struct ibv_mr *mr;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    mr = ibv_reg_mr(p.pd, buf_of(&p, 1), 64, REMOTE);
    assert_int_equal(ibv_rereg_mr(mr, 0, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(ibv_rereg_mr(mr, 1 << 10, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 0, 0),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE),
        IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(write_to(&p, (uintptr_t)buf_of(&p, 1), mr->rkey), IBV_WC_SUCCESS);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&p);
}

static void a_region_may_move_to_another_pd(void **state)
{
    struct ibv_pd *other;
    struct pair p;

    (void)state;
    pair_open(&p);
    other = ibv_alloc_pd(p.context);
    assert_int_equal(ibv_rereg_mr(p.mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
    assert_ptr_equal(p.mr->pd, other);
    assert_int_equal(ibv_dealloc_pd(other), EBUSY);
    assert_int_equal(ibv_rereg_mr(p.mr, IBV_REREG_MR_CHANGE_PD, p.pd, NULL, 0, 0), 0);
    assert_int_equal(ibv_dealloc_pd(other), 0);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rights_that_contradict_each_other_are_refused),
        cmocka_unit_test(hints_are_accepted_and_ignored),
        cmocka_unit_test(memory_that_is_not_there_is_refused),
        cmocka_unit_test(a_region_says_what_was_registered),
        cmocka_unit_test(peers_use_the_address_that_was_given),
        cmocka_unit_test(a_zero_based_region_is_addressed_by_offset),
        cmocka_unit_test(a_key_is_dead_after_deregistration),
        cmocka_unit_test(memory_unmapped_under_a_region_is_a_failed_request),
        cmocka_unit_test(reregistering_moves_the_region),
        cmocka_unit_test(changing_rights_keeps_the_key_that_peers_know),
        cmocka_unit_test(a_refused_change_leaves_the_region_as_it_was),
        cmocka_unit_test(a_region_may_move_to_another_pd),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
