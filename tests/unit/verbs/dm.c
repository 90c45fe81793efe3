/* SPDX-License-Identifier: BSD-2-Clause */
/* Device memory: allocate, copy, register, import. */
#include "fixture.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN 4096u
#define RIGHTS (IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct ibv_dm *allocate(struct ibv_context *context, size_t len)
{
    struct ibv_alloc_dm_attr attr = {.length = len};
    struct ibv_dm *dm = ibv_alloc_dm(context, &attr);

    assert_non_null(dm);
    return dm;
}

static void what_is_written_is_read_and_the_rest_is_zero(void **state)
{
    const uint8_t pattern[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct ibv_context *context = open_loopback();
    struct ibv_dm *dm = allocate(context, LEN);
    uint8_t back[16];
    uint8_t expected[16] = {[8] = 1, 2, 3, 4, 5, 6, 7, 8};

    (void)state;
    assert_int_equal(ibv_memcpy_to_dm(dm, LEN - 8, pattern, 8), 0);
    assert_int_equal(ibv_memcpy_from_dm(back, dm, LEN - 16, 16), 0);
    assert_memory_equal(back, expected, 16);
    assert_int_equal(ibv_free_dm(dm), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void copies_beyond_it_or_unaligned_are_refused(void **state)
{
    static const struct {
        uint64_t offset;
        size_t len;
    } rows[] = {{2, 4},      {0, 6}, {LEN, 4}, {LEN - 4, 8}, {0, LEN + 4}, {UINT64_MAX - 3, 8},
                {LEN + 4, 0}};
    struct ibv_context *context = open_loopback();
    struct ibv_dm *dm = allocate(context, LEN);
    static uint8_t bytes[2 * LEN];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(ibv_memcpy_to_dm(dm, rows[i].offset, bytes, rows[i].len), EFAULT);
        assert_int_equal(ibv_memcpy_from_dm(bytes, dm, rows[i].offset, rows[i].len), EFAULT);
    }
    assert_int_equal(ibv_free_dm(dm), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void no_more_is_given_out_than_is_advertised(void **state)
{
    struct ibv_context *context = open_loopback();
    struct ibv_device_attr_ex device;
    struct ibv_alloc_dm_attr attr = {0};
    struct ibv_dm *half;
    struct ibv_dm *all;

    (void)state;
    assert_int_equal(ibv_query_device_ex(context, NULL, &device), 0);
    attr.length = device.max_dm_size + 1;
    assert_null(ibv_alloc_dm(context, &attr));
    assert_int_equal(errno, ENOMEM);
    all = allocate(context, device.max_dm_size);
    attr.length = 4;
    assert_null(ibv_alloc_dm(context, &attr));
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(ibv_free_dm(all), 0);
    half = allocate(context, device.max_dm_size / 2);
    attr.length = device.max_dm_size / 2 + 4;
    assert_null(ibv_alloc_dm(context, &attr));
    assert_int_equal(ibv_free_dm(half), 0);
    attr = (struct ibv_alloc_dm_attr){.length = 4, .comp_mask = 1};
    assert_null(ibv_alloc_dm(context, &attr));
    assert_int_equal(errno, EINVAL);
    attr = (struct ibv_alloc_dm_attr){.length = 4, .log_align_req = 60};
    assert_null(ibv_alloc_dm(context, &attr));
    assert_int_equal(ibv_close_device(context), 0);
}

static enum ibv_wc_status write_to(struct pair *p, uint64_t remote_addr, uint32_t rkey)
{
    struct ibv_sge sge = sge_of(p, 0, 0, 8);
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};

    wr.wr.rdma.remote_addr = remote_addr;
    wr.wr.rdma.rkey = rkey;
    post_request(p, &wr);
    return poll_one(p->send_cq).status;
}

static void peers_reach_the_registered_part_by_offset(void **state)
{
    struct ibv_mr *mr;
    struct ibv_dm *dm;
    uint8_t back[8];
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    memset(buf_of(&p, 0), 0x77, 8);
    dm = allocate(p.context, LEN);
    mr = ibv_reg_dm_mr(p.pd, dm, 64, 128, RIGHTS);
    assert_non_null(mr);
    assert_null(mr->addr);
    assert_int_equal(mr->length, 128);
    assert_int_equal(write_to(&p, 120, mr->rkey), IBV_WC_SUCCESS);
    assert_int_equal(ibv_memcpy_from_dm(back, dm, 64 + 120, 8), 0);
    assert_memory_equal(back, buf_of(&p, 0), 8);
    assert_int_equal(write_to(&p, 124, mr->rkey), IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_free_dm(dm), EBUSY);
    assert_int_equal(
        ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_ZERO_BASED),
        IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    errno = 0;
    assert_null(ibv_reg_dm_mr(p.pd, dm, LEN - 64, 65, RIGHTS));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_reg_dm_mr(p.pd, dm, 0, 64, IBV_ACCESS_LOCAL_WRITE));
    assert_int_equal(ibv_free_dm(dm), 0);
    pair_close(&p);
}

static void an_import_is_the_same_memory_and_keeps_it(void **state)
{
    struct ibv_context *context = open_loopback();
    struct ibv_context *stranger = open_loopback();
    struct ibv_context *imported = ibv_import_device(dup(context->cmd_fd));
    struct ibv_dm *dm = allocate(context, LEN);
    struct ibv_dm *again;
    uint32_t word = 0x11223344;
    uint32_t back = 0;

    (void)state;
    assert_non_null(imported);
    assert_null(ibv_import_dm(stranger, dm->handle));
    assert_int_equal(errno, ENOENT);
    assert_null(ibv_import_dm(imported, dm->handle + 1));
    again = ibv_import_dm(imported, dm->handle);
    assert_non_null(again);
    assert_int_equal(ibv_memcpy_to_dm(dm, 8, &word, 4), 0);
    assert_int_equal(ibv_free_dm(dm), 0);
    assert_int_equal(ibv_memcpy_from_dm(&back, again, 8, 4), 0);
    assert_int_equal(back, word);
    ibv_unimport_dm(again);
    assert_int_equal(ibv_close_device(imported), 0);
    assert_int_equal(ibv_close_device(stranger), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void a_child_of_fork_takes_some_of_its_own(void **state)
{
    struct ibv_context *context = open_loopback();
    pid_t child = fork();
    int status = 0;

    (void)state;
    if (child == 0) {
        struct ibv_alloc_dm_attr attr = {.length = LEN};
        struct ibv_dm *dm = ibv_alloc_dm(context, &attr);

        _exit(dm != NULL && ibv_free_dm(dm) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(ibv_close_device(context), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_and_the_rest_is_zero),
        cmocka_unit_test(copies_beyond_it_or_unaligned_are_refused),
        cmocka_unit_test(no_more_is_given_out_than_is_advertised),
        cmocka_unit_test(peers_reach_the_registered_part_by_offset),
        cmocka_unit_test(an_import_is_the_same_memory_and_keeps_it),
        cmocka_unit_test(a_child_of_fork_takes_some_of_its_own),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
