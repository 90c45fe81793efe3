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
    assert_null(ibv_reg_dmabuf_mr(p.pd, 0, 4096, 0, 0, 0));
    assert_int_equal(errno, EOPNOTSUPP);
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

/* --- all flags of a change --- */

/* Each combination of what may change does that and nothing else; the key follows the range. */
static void each_change_changes_what_its_flags_name(void **state)
{
    struct ibv_pd *other;
    struct pair p;

    (void)state;
    pair_open(&p);
    other = ibv_alloc_pd(p.context);
    for (int flags = 1; flags < 8; flags++) {
        struct ibv_mr *mr = ibv_reg_mr(p.pd, p.buf, 64, REMOTE);
        const uint32_t key = mr->rkey;
        bool moved = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;

        assert_int_equal(ibv_rereg_mr(mr, flags, other, p.buf + 4096, 128, IBV_ACCESS_LOCAL_WRITE),
                         0);
        assert_ptr_equal(mr->pd, (flags & IBV_REREG_MR_CHANGE_PD) != 0 ? other : p.pd);
        assert_ptr_equal(mr->addr, moved ? p.buf + 4096 : p.buf);
        assert_int_equal(mr->length, moved ? 128 : 64);
        assert_true((mr->rkey != key) == moved);
        assert_int_equal(mr->lkey, mr->rkey);
        assert_int_equal(ibv_dereg_mr(mr), 0);
    }
    assert_int_equal(ibv_dealloc_pd(other), 0);
    pair_close(&p);
}

/* Whatever part of a change is bad, no part of it is made. */
static void a_change_with_one_bad_part_is_not_made_at_all(void **state)
{
    uint8_t *gone = map(PROT_READ | PROT_WRITE);
    struct ibv_context *context = open_loopback();
    struct ibv_pd *foreign = ibv_alloc_pd(context);
    struct pair p;

    (void)state;
    munmap(gone, PAGE);
    pair_setup(&p, IBV_QPT_RC, 0);
    const struct {
        struct ibv_pd *pd;
        void *addr;
        size_t length;
        unsigned access;
    } rows[] = {
        {p.pd, gone, PAGE, REMOTE},  {p.pd, p.buf, 64, IBV_ACCESS_REMOTE_WRITE},
        {p.pd, p.buf, 64, 1u << 15}, {foreign, p.buf, 64, REMOTE},
        {NULL, p.buf, 64, REMOTE},   {p.pd, (void *)(UINTPTR_MAX - 10), 100, REMOTE},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ibv_mr *mr = ibv_reg_mr(p.pd, buf_of(&p, 1), 64, REMOTE);
        const struct ibv_mr before = *mr;

        assert_int_equal(
            ibv_rereg_mr(mr, 7, rows[i].pd, rows[i].addr, rows[i].length, (int)rows[i].access),
            IBV_REREG_MR_ERR_INPUT);
        assert_memory_equal(mr, &before, sizeof(before));
        assert_int_equal(write_to(&p, (uintptr_t)mr->addr, mr->rkey), IBV_WC_SUCCESS);
        assert_int_equal(ibv_dereg_mr(mr), 0);
    }
    assert_int_equal(ibv_dealloc_pd(foreign), 0);
    assert_int_equal(ibv_close_device(context), 0);
    pair_close(&p);
}

/* --- null regions --- */

static void a_null_region_reads_as_zeros_and_swallows_what_is_written(void **state)
{
    struct ibv_send_wr wr = {.num_sge = 1, .opcode = IBV_WR_SEND};
    struct ibv_recv_wr recv = {.num_sge = 2};
    struct ibv_recv_wr *bad;
    struct ibv_sge sges[2];
    struct ibv_sge sge;
    struct ibv_mr *mr;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    mr = ibv_alloc_null_mr(p.pd);
    assert_non_null(mr);
    assert_int_equal(mr->rkey, 0);
    memset(buf_of(&p, 1), 0x55, 16);
    sge = (struct ibv_sge){.addr = 0xdeadbeef, .length = 16, .lkey = mr->lkey};
    wr.sg_list = &sge;
    post_receive(&p, 1, 16);
    post_request(&p, &wr);
    expect_success(p.send_cq);
    expect_success(p.recv_cq);
    for (int i = 0; i < 16; i++)
        assert_int_equal(buf_of(&p, 1)[i], 0);
    /* The first 8 bytes of a message are not wanted. */
    memset(buf_of(&p, 0), 0x77, 16);
    sge = sge_of(&p, 0, 0, 16);
    sges[0] = (struct ibv_sge){.addr = 12345, .length = 8, .lkey = mr->lkey};
    sges[1] = sge_of(&p, 1, 100, 8);
    recv.sg_list = sges;
    assert_int_equal(ibv_post_recv(p.qp[1], &recv, &bad), 0);
    post_request(&p, &wr);
    expect_success(p.send_cq);
    assert_int_equal(expect_success(p.recv_cq).byte_len, 16);
    assert_memory_equal(buf_of(&p, 1) + 100, buf_of(&p, 0), 8);
    assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, REMOTE),
                     IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(write_to(&p, 0, mr->lkey), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&p);
}

/* --- on demand --- */

/* A region over pages that are not there yet: they come when they are written. */
static void pages_on_demand_may_come_after_the_registration(void **state)
{
    uint8_t *memory = map(PROT_NONE);
    struct ibv_mr *mr;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    memset(buf_of(&p, 0), 0x77, 8);
    mr = ibv_reg_mr(p.pd, memory, PAGE, REMOTE | IBV_ACCESS_ON_DEMAND);
    assert_non_null(mr);
    assert_int_equal(mprotect(memory, PAGE, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(write_to(&p, (uintptr_t)memory, mr->rkey), IBV_WC_SUCCESS);
    assert_memory_equal(memory, buf_of(&p, 0), 8);
    assert_int_equal(mprotect(memory, PAGE, PROT_READ), 0);
    assert_int_not_equal(write_to(&p, (uintptr_t)memory, mr->rkey), IBV_WC_SUCCESS);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    munmap(memory, PAGE);
    pair_close(&p);
}

static void an_implicit_region_is_all_memory_that_there_is(void **state)
{
    struct ibv_mr *mr;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    memset(buf_of(&p, 0), 0x77, 8);
    expect_refused(p.pd, NULL, SIZE_MAX, REMOTE, EINVAL);
    expect_refused(p.pd, NULL, SIZE_MAX, REMOTE | IBV_ACCESS_ON_DEMAND | IBV_ACCESS_ZERO_BASED,
                   EINVAL);
    mr = ibv_reg_mr(p.pd, NULL, SIZE_MAX, REMOTE | IBV_ACCESS_ON_DEMAND);
    assert_non_null(mr);
    assert_int_equal(write_to(&p, (uintptr_t)buf_of(&p, 1) + 5, mr->rkey), IBV_WC_SUCCESS);
    assert_memory_equal(buf_of(&p, 1) + 5, buf_of(&p, 0), 8);
    assert_int_not_equal(write_to(&p, 0, mr->rkey), IBV_WC_SUCCESS); /* nothing is there */
    assert_int_equal(ibv_dereg_mr(mr), 0);
    pair_close(&p);
}

static void advice_that_cannot_be_followed_says_why(void **state)
{
    uint8_t *gone = map(PROT_READ | PROT_WRITE);
    struct ibv_mr *reading;
    struct ibv_mr *writing;
    struct ibv_mr *missing;
    struct ibv_mw *window;
    struct ibv_pd *other;
    struct pair p;

    (void)state;
    pair_open(&p);
    other = ibv_alloc_pd(p.context);
    munmap(gone, PAGE);
    reading = ibv_reg_mr(p.pd, p.buf, 64, IBV_ACCESS_ON_DEMAND);
    writing = ibv_reg_mr(p.pd, p.buf, 64, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE);
    missing = ibv_reg_mr(p.pd, gone, PAGE, IBV_ACCESS_ON_DEMAND);
    window = ibv_alloc_mw(p.pd, IBV_MW_TYPE_2);
    const struct {
        enum ibv_advise_mr_advice advice;
        uint32_t flags;
        struct ibv_pd *pd;
        struct ibv_sge sge;
        int error;
    } rows[] = {
        {IBV_ADVISE_MR_ADVICE_PREFETCH, 0, p.pd, {(uintptr_t)p.buf, 64, reading->lkey}, 0},
        {IBV_ADVISE_MR_ADVICE_PREFETCH, 1, p.pd, {(uintptr_t)p.buf, 64, reading->lkey}, 0},
        {IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 1, p.pd, {(uintptr_t)p.buf, 64, writing->lkey}, 0},
        {IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, p.pd, {(uintptr_t)gone, 9, missing->lkey}, 0},
        {IBV_ADVISE_MR_ADVICE_PREFETCH, 0, p.pd, {(uintptr_t)gone, 9, missing->lkey}, EFAULT},
        {IBV_ADVISE_MR_ADVICE_PREFETCH, 0, p.pd, {(uintptr_t)p.buf, 65, reading->lkey}, EFAULT},
        {IBV_ADVISE_MR_ADVICE_PREFETCH, 0, p.pd, {(uintptr_t)p.buf, 64, 1}, EFAULT},
        {IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
         0,
         p.pd,
         {(uintptr_t)p.buf, 64, reading->lkey},
         EPERM},
        {IBV_ADVISE_MR_ADVICE_PREFETCH, 0, other, {(uintptr_t)p.buf, 64, reading->lkey}, EPERM},
        {IBV_ADVISE_MR_ADVICE_PREFETCH, 0, p.pd, {(uintptr_t)p.buf, 64, p.mr->lkey}, ENOENT},
        {IBV_ADVISE_MR_ADVICE_PREFETCH, 2, p.pd, {(uintptr_t)p.buf, 64, reading->lkey}, EINVAL},
        {(enum ibv_advise_mr_advice)9, 0, p.pd, {(uintptr_t)p.buf, 64, reading->lkey}, EOPNOTSUPP},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct ibv_sge sge = rows[i].sge;

        assert_int_equal(ibv_advise_mr(rows[i].pd, rows[i].advice, rows[i].flags, &sge, 1),
                         rows[i].error);
    }
    assert_int_equal(ibv_advise_mr(p.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0), EINVAL);
    assert_int_equal(ibv_dealloc_mw(window), 0);
    assert_int_equal(ibv_dereg_mr(missing), 0);
    assert_int_equal(ibv_dereg_mr(writing), 0);
    assert_int_equal(ibv_dereg_mr(reading), 0);
    assert_int_equal(ibv_dealloc_pd(other), 0);
    pair_close(&p);
}

/* --- overlaps --- */

static void regions_over_the_same_memory_have_their_own_rights(void **state)
{
    struct ibv_mr *open;
    struct ibv_mr *shut;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    open = ibv_reg_mr(p.pd, buf_of(&p, 1), 64, REMOTE);
    shut = ibv_reg_mr(p.pd, buf_of(&p, 1) + 32, 64, IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal(write_to(&p, (uintptr_t)buf_of(&p, 1) + 40, open->rkey), IBV_WC_SUCCESS);
    assert_int_equal(write_to(&p, (uintptr_t)buf_of(&p, 1) + 40, shut->rkey),
                     IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(open), 0);
    assert_int_equal(ibv_dereg_mr(shut), 0);
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
        cmocka_unit_test(each_change_changes_what_its_flags_name),
        cmocka_unit_test(a_change_with_one_bad_part_is_not_made_at_all),
        cmocka_unit_test(a_null_region_reads_as_zeros_and_swallows_what_is_written),
        cmocka_unit_test(pages_on_demand_may_come_after_the_registration),
        cmocka_unit_test(an_implicit_region_is_all_memory_that_there_is),
        cmocka_unit_test(advice_that_cannot_be_followed_says_why),
        cmocka_unit_test(regions_over_the_same_memory_have_their_own_rights),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
