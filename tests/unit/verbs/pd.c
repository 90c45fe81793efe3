/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domains: imports, parent domains and thread domains. */
#include "fixture.h"

#include <errno.h>
#include <stdlib.h>
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

/* --- allocators --- */

#define BLOCKS_MAX 32

/* What the allocators of one parent domain have given out. */
struct blocks {
    void *at[BLOCKS_MAX]; /* NULL: was given back */
    size_t len[BLOCKS_MAX];
    uint32_t count;
    uint32_t live;
    uint64_t uses; /* a bit for each resource_type */
    void *(*answer)(size_t size, size_t alignment);
};

static void *from_the_heap(size_t size, size_t alignment)
{
    void *bytes = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);

    assert_non_null(bytes);
    memset(bytes, 0xa5, size); /* it should be zeroes; who forgets that must do no harm */
    return bytes;
}

static void *by_the_library(size_t size, size_t alignment)
{
    (void)size;
    (void)alignment;
    return IBV_ALLOCATOR_USE_DEFAULT;
}

static void *nothing(size_t size, size_t alignment)
{
    (void)size;
    (void)alignment;
    return NULL;
}

/* An application's allocator may call verbs: no lock is held. */
static void *give(struct ibv_pd *pd, void *context, size_t size, size_t alignment, uint64_t type)
{
    struct blocks *b = context;
    struct ibv_port_attr port;
    void *bytes = b->answer(size, alignment);

    assert_true(size > 0);
    assert_true(alignment > 0);
    assert_int_equal(alignment & (alignment - 1), 0);
    assert_int_equal(ibv_query_port(pd->context, 1, &port), 0);
    b->uses |= 1ull << type;
    if (b->answer == from_the_heap) {
        assert_true(b->count < BLOCKS_MAX);
        b->at[b->count] = bytes;
        b->len[b->count++] = size;
        b->live++;
    }
    return bytes;
}

static void take_back(struct ibv_pd *pd, void *context, void *bytes, uint64_t type)
{
    struct blocks *b = context;
    uint32_t i = 0;

    (void)pd;
    assert_true((b->uses & 1ull << type) != 0);
    while (i < b->count && b->at[i] != bytes)
        i++;
    assert_true(i < b->count); /* given by us, and not given back yet */
    b->at[i] = NULL;
    b->live--;
    free(bytes);
}

static struct ibv_pd *with_allocators(struct ibv_pd *pd, struct blocks *b)
{
    struct ibv_parent_domain_init_attr attr = {
        .pd = pd,
        .comp_mask =
            IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
        .alloc = give,
        .free = take_back,
        .pd_context = b,
    };
    struct ibv_pd *parent = ibv_alloc_parent_domain(pd->context, &attr);

    assert_non_null(parent);
    return parent;
}

/* A pair whose queues, CQs and SRQ are all made with the parent domain. */
static void pair_open_in(struct pair *p, struct ibv_pd *parent)
{
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = 16, .max_sge = 1}};
    struct ibv_cq_init_attr_ex cq = {
        .cqe = 16,
        .wc_flags = IBV_WC_STANDARD_FLAGS,
        .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
        .parent_domain = parent,
    };

    assert_int_equal(ibv_destroy_cq(p->send_cq), 0);
    p->send_cq = ibv_cq_ex_to_cq(ibv_create_cq_ex(p->context, &cq));
    p->srq = ibv_create_srq(parent, &srq);
    assert_non_null(p->send_cq);
    assert_non_null(p->srq);
    p->pd = parent;
    pair_create_qps(p, IBV_QPT_RC, 0);
    pair_connect(p);
}

static void messages_pass(struct pair *p, uint32_t count)
{
    struct ibv_sge sge = sge_of(p, 0, 0, 8);
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

    for (uint32_t i = 0; i < count; i++) {
        post_receive(p, i, 8);
        post_request(p, &wr);
        expect_success(p->send_cq);
        assert_int_equal(expect_success(p->recv_cq).wr_id, i);
    }
}

static void destroy_queues(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ibv_destroy_qp(p->qp[i]), 0);
        p->qp[i] = NULL;
    }
    assert_int_equal(ibv_destroy_srq(p->srq), 0);
    p->srq = NULL;
}

static void queues_lie_where_the_allocators_of_their_parent_domain_say(void **state)
{
    struct blocks blocks = {.answer = from_the_heap};
    struct ibv_srq_attr larger = {.max_wr = 200};
    struct ibv_pd *parent, *domain;
    struct pair p;

    (void)state;
    pair_open(&p);
    domain = p.pd;
    parent = with_allocators(p.pd, &blocks);
    pair_open_in(&p, parent);
    assert_int_equal(blocks.live, 4); /* two QPs, a CQ and an SRQ */
    messages_pass(&p, 100);
    assert_int_equal(ibv_resize_cq(p.send_cq, 100), 0);
    assert_int_equal(blocks.live, 4);
    assert_int_equal(ibv_resize_cq(p.send_cq, -1), EINVAL);
    assert_int_equal(blocks.live, 4);
    assert_int_equal(ibv_modify_srq(p.srq, &larger, IBV_SRQ_MAX_WR), 0);
    messages_pass(&p, 300);
    assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
    destroy_queues(&p);
    assert_int_equal(blocks.live, 1);
    assert_int_equal(ibv_destroy_cq(p.send_cq), 0);
    assert_int_equal(blocks.live, 0);
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    p.send_cq = ibv_create_cq(p.context, 1, NULL, NULL, 0);
    p.pd = domain;
    pair_close(&p);
}

static void allocators_may_leave_it_to_the_library(void **state)
{
    struct blocks blocks = {.answer = by_the_library};
    struct ibv_pd *parent, *domain;
    struct pair p;

    (void)state;
    pair_open(&p);
    domain = p.pd;
    parent = with_allocators(p.pd, &blocks);
    pair_open_in(&p, parent);
    assert_true(blocks.uses != 0);
    messages_pass(&p, 20);
    destroy_queues(&p);
    assert_int_equal(ibv_dealloc_pd(parent), 0);
    p.pd = domain;
    pair_close(&p);
}

static void allocator_without_memory_makes_creation_fail(void **state)
{
    struct blocks blocks = {.answer = nothing};
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = 16, .max_sge = 1}};
    struct ibv_cq_init_attr_ex cq = {.cqe = 16, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD};
    struct ibv_qp_init_attr qp = {
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct ibv_pd *parent;
    struct pair p;

    (void)state;
    pair_setup(&p, IBV_QPT_RC, 0);
    parent = with_allocators(p.pd, &blocks);
    cq.parent_domain = parent;
    qp.send_cq = p.send_cq;
    qp.recv_cq = p.send_cq;
    errno = 0;
    assert_null(ibv_create_qp(parent, &qp));
    assert_int_equal(errno, ENOMEM);
    assert_null(ibv_create_srq(parent, &srq));
    assert_null(ibv_create_cq_ex(p.context, &cq));
    /* Nothing is left of them. */
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_imported_domain_is_the_domain),
        cmocka_unit_test(a_region_that_one_holder_ends_is_ended_for_all),
        cmocka_unit_test(a_descriptor_of_no_open_device_imports_nothing),
        cmocka_unit_test(a_parent_domain_stands_for_its_domain),
        cmocka_unit_test(queues_lie_where_the_allocators_of_their_parent_domain_say),
        cmocka_unit_test(allocators_may_leave_it_to_the_library),
        cmocka_unit_test(allocator_without_memory_makes_creation_fail),
        cmocka_unit_test(a_thread_domain_lives_as_long_as_it_is_used),
        cmocka_unit_test(parent_domains_that_make_no_sense_are_refused),
        cmocka_unit_test(a_cq_may_be_made_with_a_parent_domain_and_no_other),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
