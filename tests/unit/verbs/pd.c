/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains: limits, imports, parent domains and thread domains. */
#include "fixture.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static struct ibv_pd *extend(struct ibv_pd *pd, struct ibv_td *td)
{
    struct ibv_parent_domain_init_attr attr = {.pd = pd, .td = td};
    struct ibv_pd *parent = ibv_alloc_parent_domain(pd->context, &attr);

    assert_non_null(parent);
    return parent;
}

/* --- import --- */

static void an_imported_domain_is_the_domain(void **state)
{
    struct ibv_context *imported;
    struct ibv_context *stranger;
    struct ibv_mr *region;
    struct ibv_pd *pd;
    struct pair p;

    (void)state;
    pair_open(&p);
    imported = ibv_import_device(dup(p.context->cmd_fd));
    stranger = open_loopback();
    assert_non_null(imported);
    assert_null(ibv_import_pd(stranger, p.pd->handle));
    assert_int_equal(errno, ENOENT);
    assert_null(ibv_import_pd(imported, p.pd->handle + 100));
    pd = ibv_import_pd(imported, p.pd->handle);
    assert_non_null(pd);
    assert_ptr_equal(pd->context, imported);
    assert_int_equal(pd->handle, p.pd->handle);
    region = ibv_import_mr(pd, p.mr->handle);
    assert_non_null(region);
    assert_null(region->addr);
    assert_int_equal(region->length, p.mr->length);
    assert_int_equal(region->rkey, p.mr->rkey);
    assert_null(ibv_import_mr(pd, p.mr->handle ^ 1));
    ibv_unimport_mr(region);
    ibv_unimport_pd(pd);
    assert_int_equal(ibv_close_device(stranger), 0);
    assert_int_equal(ibv_close_device(imported), 0);
    pair_close(&p);
}

static void a_region_that_one_holder_ends_is_ended_for_all(void **state)
{
    struct ibv_mr *region;
    struct ibv_mr *again;
    struct ibv_pd *pd;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    pd = ibv_import_pd(p.context, p.pd->handle);
    region = ibv_reg_mr(p.pd, buf_of(&p, 1), 64, IBV_ACCESS_LOCAL_WRITE);
    again = ibv_import_mr(pd, region->handle);
    assert_non_null(again);
    assert_int_equal(ibv_dereg_mr(region), 0);
    assert_null(ibv_import_mr(pd, again->handle));
    assert_int_equal(ibv_rereg_mr(again, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
                     IBV_REREG_MR_ERR_INPUT);
    ibv_unimport_mr(again);
    ibv_unimport_pd(pd);
    pair_close(&p);
}

static void a_descriptor_of_no_open_device_imports_nothing(void **state)
{
    int pipe_fds[2];

    (void)state;
    assert_int_equal(pipe(pipe_fds), 0);
    errno = 0;
    assert_null(ibv_import_device(pipe_fds[0]));
    assert_int_equal(errno, EPROTONOSUPPORT);
    assert_null(ibv_import_device(-1));
    close(pipe_fds[0]);
    close(pipe_fds[1]);
}

/* --- parent domains --- */

static void a_parent_domain_stands_for_its_domain(void **state)
{
    struct ibv_pd *parent;
    struct ibv_pd *domain;
    struct ibv_mr *region;
    struct ibv_sge sge;
    struct ibv_send_wr wr = {.num_sge = 1, .opcode = IBV_WR_SEND};
    struct pair p;

    (void)state;
    pair_open(&p);
    parent = extend(p.pd, NULL);
    region = ibv_reg_mr(parent, buf_of(&p, 0), 64, IBV_ACCESS_LOCAL_WRITE);
    assert_non_null(region);
    domain = p.pd;
    p.pd = parent; /* of the queue pairs; the region for receives is of the domain */
    pair_create_qps(&p, IBV_QPT_RC, 0);
    pair_connect(&p);
    sge = (struct ibv_sge){(uintptr_t)buf_of(&p, 0), 8, region->lkey};
    wr.sg_list = &sge;
    post_receive(&p, 1, 8);
    post_request(&p, &wr);
    expect_success(p.send_cq);
    expect_success(p.recv_cq);
    p.pd = domain;
    assert_int_equal(ibv_dealloc_pd(domain), EBUSY);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ibv_destroy_qp(p.qp[i]), 0);
        p.qp[i] = NULL;
    }
    assert_int_equal(ibv_dereg_mr(region), 0);
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    pair_close(&p);
}

static void a_thread_domain_lives_as_long_as_it_is_used(void **state)
{
    struct ibv_context *context = open_loopback();
    struct ibv_td_init_attr attr = {0};
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_td *td = ibv_alloc_td(context, &attr);
    struct ibv_pd *parent;

    (void)state;
    assert_non_null(td);
    parent = extend(pd, td);
    assert_int_equal(ibv_dealloc_td(td), EBUSY);
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    assert_int_equal(ibv_dealloc_td(td), 0);
    attr.comp_mask = 1;
    assert_null(ibv_alloc_td(context, &attr));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void parent_domains_that_make_no_sense_are_refused(void **state)
{
    struct ibv_context *context = open_loopback();
    struct ibv_context *stranger = open_loopback();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_pd *foreign = ibv_alloc_pd(stranger);
    struct ibv_pd *parent = extend(pd, NULL);
    struct ibv_parent_domain_init_attr rows[] = {
        {.pd = NULL},
        {.pd = foreign},
        {.pd = parent},
        {.pd = pd, .comp_mask = 1u << 5},
        {.pd = pd, .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS},
    };

    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        errno = 0;
        assert_null(ibv_alloc_parent_domain(context, &rows[i]));
        assert_int_equal(errno, EINVAL);
    }
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_dealloc_pd(foreign), 0);
    assert_int_equal(ibv_close_device(stranger), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void a_cq_may_be_made_with_a_parent_domain_and_no_other(void **state)
{
    struct ibv_context *context = open_loopback();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_pd *parent = extend(pd, NULL);
    struct ibv_cq_init_attr_ex attr = {
        .cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD, .parent_domain = parent};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(context, &attr);

    (void)state;
    assert_non_null(cq);
    assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
    attr.parent_domain = pd;
    assert_null(ibv_create_cq_ex(context, &attr));
    assert_int_equal(errno, EINVAL);
    attr.parent_domain = NULL;
    assert_null(ibv_create_cq_ex(context, &attr));
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

static void as_many_domains_as_are_advertised(void **state)
{
    static struct ibv_pd *pds[70000];
    struct ibv_context *context = open_loopback();
    struct ibv_device_attr attr;
    int count = 0;

    (void)state;
    assert_int_equal(ibv_query_device(context, &attr), 0);
    while (count < (int)COUNT_OF(pds) && (pds[count] = ibv_alloc_pd(context)) != NULL)
        count++;
    assert_int_equal(count, attr.max_pd);
    assert_int_equal(errno, ENOMEM);
    while (count > 0)
        assert_int_equal(ibv_dealloc_pd(pds[--count]), 0);
    assert_int_equal(ibv_close_device(context), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_imported_domain_is_the_domain),
        cmocka_unit_test(a_region_that_one_holder_ends_is_ended_for_all),
        cmocka_unit_test(a_descriptor_of_no_open_device_imports_nothing),
        cmocka_unit_test(a_parent_domain_stands_for_its_domain),
        cmocka_unit_test(a_thread_domain_lives_as_long_as_it_is_used),
        cmocka_unit_test(parent_domains_that_make_no_sense_are_refused),
        cmocka_unit_test(a_cq_may_be_made_with_a_parent_domain_and_no_other),
        cmocka_unit_test(as_many_domains_as_are_advertised),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
