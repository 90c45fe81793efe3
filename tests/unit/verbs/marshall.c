/* SPDX-License-Identifier: BSD-2-Clause */
/* Attributes in the kernel's form: every member arrives, and a record survives both ways. */
#include "fixture.h"

#include <infiniband/sa.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <string.h>

void ibv_copy_ah_attr_from_kern(struct ibv_ah_attr *dst, const struct ib_uverbs_ah_attr *src);
void ibv_copy_qp_attr_from_kern(struct ibv_qp_attr *dst, const struct ib_uverbs_qp_attr *src);
void ibv_copy_path_rec_from_kern(struct ibv_sa_path_rec *dst, const struct ib_user_path_rec *src);
void ibv_copy_path_rec_to_kern(struct ib_user_path_rec *dst, const struct ibv_sa_path_rec *src);

/* Bytes that are all different, so that a member in the wrong place shows. */
static void number_bytes(void *to, size_t len)
{
    for (size_t i = 0; i < len; i++)
        ((uint8_t *)to)[i] = (uint8_t)(i + 1);
}

static void addresses_are_copied(void **state)
{
    struct ib_uverbs_ah_attr kern;
    struct ibv_ah_attr attr;

    (void)state;
    number_bytes(&kern, sizeof(kern));
    ibv_copy_ah_attr_from_kern(&attr, &kern);
    assert_memory_equal(&attr.grh.dgid, kern.grh.dgid, 16);
    assert_int_equal(attr.grh.flow_label, kern.grh.flow_label);
    assert_int_equal(attr.grh.sgid_index, kern.grh.sgid_index);
    assert_int_equal(attr.grh.hop_limit, kern.grh.hop_limit);
    assert_int_equal(attr.grh.traffic_class, kern.grh.traffic_class);
    assert_int_equal(attr.dlid, kern.dlid);
    assert_int_equal(attr.sl, kern.sl);
    assert_int_equal(attr.src_path_bits, kern.src_path_bits);
    assert_int_equal(attr.static_rate, kern.static_rate);
    assert_int_equal(attr.is_global, kern.is_global);
    assert_int_equal(attr.port_num, kern.port_num);
}

static void queue_pair_attributes_are_copied(void **state)
{
    struct ib_uverbs_qp_attr kern;
    struct ibv_qp_attr attr;

    (void)state;
    number_bytes(&kern, sizeof(kern));
    ibv_copy_qp_attr_from_kern(&attr, &kern);
    assert_int_equal(attr.qp_state, kern.qp_state);
    assert_int_equal(attr.path_mtu, kern.path_mtu);
    assert_int_equal(attr.qkey, kern.qkey);
    assert_int_equal(attr.rq_psn, kern.rq_psn);
    assert_int_equal(attr.sq_psn, kern.sq_psn);
    assert_int_equal(attr.dest_qp_num, kern.dest_qp_num);
    assert_int_equal(attr.qp_access_flags, kern.qp_access_flags);
    assert_int_equal(attr.cap.max_inline_data, kern.max_inline_data);
    assert_int_equal(attr.cap.max_send_wr, kern.max_send_wr);
    assert_int_equal(attr.pkey_index, kern.pkey_index);
    assert_int_equal(attr.max_rd_atomic, kern.max_rd_atomic);
    assert_int_equal(attr.max_dest_rd_atomic, kern.max_dest_rd_atomic);
    assert_int_equal(attr.min_rnr_timer, kern.min_rnr_timer);
    assert_int_equal(attr.timeout, kern.timeout);
    assert_int_equal(attr.retry_cnt, kern.retry_cnt);
    assert_int_equal(attr.rnr_retry, kern.rnr_retry);
    assert_int_equal(attr.ah_attr.dlid, kern.ah_attr.dlid);
    assert_int_equal(attr.alt_ah_attr.dlid, kern.alt_ah_attr.dlid);
}

static void a_path_record_survives_both_ways(void **state)
{
    struct ib_user_path_rec kern;
    struct ib_user_path_rec back;
    struct ibv_sa_path_rec path;

    (void)state;
    number_bytes(&kern, sizeof(kern));
    kern.mtu = 4; /* one byte in the other form */
    ibv_copy_path_rec_from_kern(&path, &kern);
    assert_memory_equal(&path.dgid, kern.dgid, 16);
    assert_memory_equal(&path.sgid, kern.sgid, 16);
    assert_int_equal(path.pkey, kern.pkey);
    memset(&back, 0, sizeof(back));
    ibv_copy_path_rec_to_kern(&back, &path);
    assert_memory_equal(&back, &kern, offsetof(struct ib_user_path_rec, preference) + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_copied),
        cmocka_unit_test(queue_pair_attributes_are_copied),
        cmocka_unit_test(a_path_record_survives_both_ways),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
