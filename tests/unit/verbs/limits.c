/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * As many objects of each kind as ibv_query_device advertises, and not one more; when they are
 * gone there is room for others again.
 */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

/* What objects are made of. */
struct ground {
    struct ibv_device_attr device;
    struct pair pair;
    struct ibv_ah_attr address;
};

struct kind {
    const char *name;
    size_t advertised; /* offset of an int in struct ibv_device_attr */
    uint32_t had;      /* by the fixture */
    void *(*create)(struct ground *g);
    int (*destroy)(void *object);
};

static void *create_pd(struct ground *g)
{
    return ibv_alloc_pd(g->pair.context);
}

static int destroy_pd(void *object)
{
    return ibv_dealloc_pd(object);
}

static void *create_cq(struct ground *g)
{
    return ibv_create_cq(g->pair.context, 1, NULL, NULL, 0);
}

static int destroy_cq(void *object)
{
    return ibv_destroy_cq(object);
}

static void *create_srq(struct ground *g)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = 1, .max_sge = 1}};

    return ibv_create_srq(g->pair.pd, &attr);
}

static int destroy_srq(void *object)
{
    return ibv_destroy_srq(object);
}

static void *create_qp(struct ground *g)
{
    struct ibv_qp_init_attr attr = {.send_cq = g->pair.send_cq,
                                    .recv_cq = g->pair.recv_cq,
                                    .cap = {.max_send_wr = 1, .max_recv_wr = 1},
                                    .qp_type = IBV_QPT_RC};

    return ibv_create_qp(g->pair.pd, &attr);
}

static int destroy_qp(void *object)
{
    return ibv_destroy_qp(object);
}

static void *create_ah(struct ground *g)
{
    return ibv_create_ah(g->pair.pd, &g->address);
}

static int destroy_ah(void *object)
{
    return ibv_destroy_ah(object);
}

static void *create_mr(struct ground *g)
{
    return ibv_reg_mr(g->pair.pd, g->pair.buf, 64, IBV_ACCESS_LOCAL_WRITE);
}

static int destroy_mr(void *object)
{
    return ibv_dereg_mr(object);
}

static void *create_mw(struct ground *g)
{
    return ibv_alloc_mw(g->pair.pd, IBV_MW_TYPE_2);
}

static int destroy_mw(void *object)
{
    return ibv_dealloc_mw(object);
}

#define ADVERTISED(field) offsetof(struct ibv_device_attr, field)

static const struct kind kinds[] = {
    {"as many protection domains as are advertised", ADVERTISED(max_pd), 1, create_pd, destroy_pd},
    {"as many completion queues as are advertised", ADVERTISED(max_cq), 2, create_cq, destroy_cq},
    {"as many shared receive queues as are advertised", ADVERTISED(max_srq), 0, create_srq,
     destroy_srq},
    {"as many queue pairs as are advertised", ADVERTISED(max_qp), 0, create_qp, destroy_qp},
    {"as many address handles as are advertised", ADVERTISED(max_ah), 0, create_ah, destroy_ah},
    {"as many memory regions as are advertised", ADVERTISED(max_mr), 1, create_mr, destroy_mr},
    {"as many memory windows as are advertised", ADVERTISED(max_mw), 0, create_mw, destroy_mw},
};

static void ground_open(struct ground *g)
{
    int index;

    pair_open(&g->pair);
    assert_int_equal(ibv_query_device(g->pair.context, &g->device), 0);
    index = gid_index(g->pair.context, true);
    g->address = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
    g->address.grh.sgid_index = (uint8_t)index;
    assert_int_equal(ibv_query_gid(g->pair.context, 1, index, &g->address.grh.dgid), 0);
}

static void as_many_as_are_advertised(void **state)
{
    const struct kind *kind = *state;
    struct ground g = {0};
    uint32_t advertised;
    uint32_t count = 0;
    void **objects;

    ground_open(&g);
    advertised =
        (uint32_t) * (const int *)(const void *)((const char *)&g.device + kind->advertised);
    objects = calloc(advertised + 1, sizeof(*objects));
    assert_non_null(objects);
    while (count <= advertised && (objects[count] = kind->create(&g)) != NULL)
        count++;
    assert_int_equal(errno, ENOMEM);
    assert_int_equal(count, advertised - kind->had);
    assert_int_equal(kind->destroy(objects[--count]), 0);
    objects[count] = kind->create(&g);
    assert_non_null(objects[count]);
    for (uint32_t i = 0; i <= count; i++)
        assert_int_equal(kind->destroy(objects[i]), 0);
    free(objects);
    pair_close(&g.pair);
}

int main(void)
{
    struct CMUnitTest tests[COUNT_OF(kinds)];

    enter_namespace();
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        tests[i] = (struct CMUnitTest){.name = kinds[i].name,
                                       .test_func = as_many_as_are_advertised,
                                       .initial_state = (void *)(uintptr_t)&kinds[i]};
    return _cmocka_run_group_tests("limits", tests, COUNT_OF(kinds), NULL, NULL);
}
