/* SPDX-License-Identifier: BSD-2-Clause */
/* Address handles, and the address of who sent a datagram. */
#include "fixture.h"

#include <errno.h>
#include <string.h>

/* Sends a datagram and leaves its completion, and its 40 bytes of headers, with the receiver. */
static struct ibv_wc receive_datagram(struct pair *p)
{
    struct ibv_sge sge = sge_of(p, 0, 0, 4);
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

    post_receive(p, 1, 100);
    post_request(p, &wr);
    expect_success(p->send_cq);
    return expect_success(p->recv_cq);
}

static void setup(struct pair *p, bool ipv4)
{
    pair_open(p);
    p->ipv4 = ipv4;
    pair_create_qps(p, IBV_QPT_UD, 0);
    pair_connect(p);
}

static void reply_goes_to_the_sender(bool ipv4)
{
    struct ibv_ah_attr attr;
    struct ibv_grh *grh;
    union ibv_gid gid;
    struct ibv_ah *ah;
    struct ibv_wc wc;
    struct pair p;
    int index;

    setup(&p, ipv4);
    index = gid_index(p.context, ipv4);
    wc = receive_datagram(&p);
    assert_int_equal(wc.sl, ipv4 ? 10 : 9); /* as adapters tell IPv4 from IPv6 */
    grh = (struct ibv_grh *)(void *)buf_of(&p, 1);
    memset(&attr, 0xaa, sizeof(attr));
    assert_int_equal(ibv_init_ah_from_wc(p.context, 1, &wc, grh, &attr), 0);
    assert_int_equal(ibv_query_gid(p.context, 1, index, &gid), 0);
    assert_int_equal(attr.is_global, 1);
    assert_int_equal(attr.port_num, 1);
    assert_int_equal(attr.dlid, 0);
    assert_int_equal(attr.grh.sgid_index, index);
    assert_memory_equal(&attr.grh.dgid, &gid, sizeof(gid)); /* over loopback both are one */
    ah = ibv_create_ah_from_wc(p.pd, &wc, grh, 1);
    assert_non_null(ah);
    assert_int_equal(ibv_destroy_ah(p.ah), 0);
    p.ah = ah;
    receive_datagram(&p);
    pair_close(&p);
}

static void a_reply_to_an_ipv4_datagram_goes_to_its_sender(void **state)
{
    (void)state;
    reply_goes_to_the_sender(true);
}

static void a_reply_to_an_ipv6_datagram_goes_to_its_sender(void **state)
{
    (void)state;
    reply_goes_to_the_sender(false);
}

/* Headers as other RoCEv2 devices put them, by the specification, not by our own code. */
static void headers_in_front_of_a_datagram_are_told_apart(void **state)
{
    static const uint8_t ipv4[40] = {
        /* clang-format off */
        [0] = 0x60, /* what stands in the first 20 bytes says nothing */
        [20] = 0x45, 0x2e, 0x00, 0x40, 0x00, 0x01, 0x40, 0x00, 0x40, 0x11,
        0x3c, 0x74, 127, 0, 0, 9, 127, 0, 0, 1,
        /* clang-format on */
    };
    static const uint8_t ipv6[40] = {
        /* clang-format off */
        0x62, 0xe5, 0x43, 0x21, 0x00, 0x30, 0x11, 0x40,
        0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
        /* clang-format on */
    };
    struct ibv_wc wc = {.wc_flags = IBV_WC_GRH, .sl = 3};
    struct ibv_ah_attr attr;
    struct ibv_grh grh;
    struct pair p;

    (void)state;
    pair_open(&p);
    memcpy(&grh, ipv4, sizeof(grh));
    assert_int_equal(ibv_init_ah_from_wc(p.context, 1, &wc, &grh, &attr), 0);
    assert_int_equal(attr.grh.dgid.raw[11], 0xff);
    assert_int_equal(attr.grh.dgid.raw[15], 9);
    assert_int_equal(attr.grh.traffic_class, 0x2e);
    assert_int_equal(attr.grh.sgid_index, gid_index(p.context, true));
    assert_int_equal(attr.sl, 3);

    memcpy(&grh, ipv6, sizeof(grh));
    assert_int_equal(ibv_init_ah_from_wc(p.context, 1, &wc, &grh, &attr), 0);
    assert_int_equal(attr.grh.dgid.raw[0], 0xfd);
    assert_int_equal(attr.grh.dgid.raw[15], 9);
    assert_int_equal(attr.grh.traffic_class, 0x2e);
    assert_int_equal(attr.grh.flow_label, 0x54321);
    assert_int_equal(attr.grh.sgid_index, gid_index(p.context, false));
    pair_close(&p);
}

static void headers_that_lead_nowhere_are_refused(void **state)
{
    struct ibv_wc wc = {.wc_flags = IBV_WC_GRH};
    struct ibv_ah_attr attr;
    struct ibv_grh grh = {0};
    struct pair p;

    (void)state;
    pair_open(&p);
    assert_int_equal(ibv_init_ah_from_wc(p.context, 1, &wc, &grh, &attr), -1); /* no IP at all */
    assert_int_equal(errno, EPROTONOSUPPORT);
    ((uint8_t *)&grh)[0] = 0x60; /* IPv6 to an address that is not ours */
    assert_int_equal(ibv_init_ah_from_wc(p.context, 1, &wc, &grh, &attr), -1);
    assert_int_equal(errno, EADDRNOTAVAIL);
    wc.wc_flags = 0;
    assert_int_equal(ibv_init_ah_from_wc(p.context, 1, &wc, &grh, &attr), -1);
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_create_ah_from_wc(p.pd, &wc, &grh, 1));
    pair_close(&p);
}

static void addresses_that_cannot_be_used_are_refused(void **state)
{
    struct ibv_ah_attr attr = {.port_num = 1};
    struct pair p;

    (void)state;
    pair_open(&p);
    assert_null(ibv_create_ah(p.pd, &attr)); /* an Ethernet fabric has no LIDs to go by */
    assert_int_equal(errno, EINVAL);
    attr.is_global = 1;
    attr.grh.sgid_index = 63;
    assert_null(ibv_create_ah(p.pd, &attr));
    assert_int_equal(errno, EINVAL);
    attr.grh.sgid_index = (uint8_t)gid_index(p.context, true);
    assert_null(ibv_create_ah(p.pd, &attr)); /* from IPv4 to an IPv6 address */
    assert_int_equal(errno, EINVAL);
    assert_int_equal(ibv_query_gid(p.context, 1, attr.grh.sgid_index, &attr.grh.dgid), 0);
    attr.port_num = 3;
    assert_null(ibv_create_ah(p.pd, &attr));
    assert_int_equal(errno, EINVAL);
    attr.port_num = 1;
    p.ah = ibv_create_ah(p.pd, &attr);
    assert_non_null(p.ah);
    assert_int_equal(ibv_dealloc_pd(p.pd), EBUSY);
    pair_close(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_to_an_ipv4_datagram_goes_to_its_sender),
        cmocka_unit_test(a_reply_to_an_ipv6_datagram_goes_to_its_sender),
        cmocka_unit_test(headers_in_front_of_a_datagram_are_told_apart),
        cmocka_unit_test(headers_that_lead_nowhere_are_refused),
        cmocka_unit_test(addresses_that_cannot_be_used_are_refused),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
