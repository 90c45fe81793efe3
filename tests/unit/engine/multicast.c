/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Multicast groups (IBA 10.5, F35): who gets a copy, who does not, and what is said of the
 * rest. A network of one host is the test itself: it carries what is sent to a group back.
 */
#include "support/packet_peer.h"

#include <errno.h>
#include <string.h>

#include "engine/limits.h"
#include "engine/multicast.h"
#include "wire/ip.h"

#define QKEY 0x11111111u
#define MEMBERS 3u
#define LEN 100u
#define INTERFACE 7u

static struct peer the_peer;
static struct qp *members[MEMBERS]; /* the first is the endpoint's */

static const struct multicast ipv4 = {
    .gid = {.bytes = {[10] = 0xff, 0xff, 239, 7, 7, 7}},
    .scope_id = INTERFACE,
};
static const struct multicast ipv6 = {
    .gid = {.bytes = {0xff, 0x05, [15] = 7}},
    .scope_id = INTERFACE,
};

/* One more queue pair like the endpoint's, with its CQs. */
static struct qp *another_qp(struct endpoint *ep)
{
    struct qp_init init = {
        .service = SERVICE_UD,
        .pd = ep->pd,
        .send_cq = ep->send_cq,
        .recv_cq = ep->recv_cq,
        .cap = {.send_wr_max = 4, .recv_wr_max = 4, .send_sge_max = 1, .recv_sge_max = 1}};
    struct qp *first = ep->qp;
    struct qp *made;

    assert_int_equal(qp_new(ep->engine, &init, &ep->qp), 0);
    endpoint_connect(ep, PEER_QPN);
    made = ep->qp;
    ep->qp = first;
    return made;
}

static int setup(void **state)
{
    struct endpoint_config config = endpoint_config_default(2);

    config.service = SERVICE_UD;
    config.qkey = QKEY;
    peer_open(&the_peer, config, 0);
    members[0] = the_peer.ep.qp;
    for (uint32_t i = 1; i < MEMBERS; i++)
        members[i] = another_qp(&the_peer.ep);
    *state = &the_peer;
    return 0;
}

static int teardown(void **state)
{
    struct peer *p = *state;

    for (uint32_t i = 0; i < MEMBERS; i++) {
        multicast_detach(members[i], &ipv4);
        multicast_detach(members[i], &ipv6);
    }
    for (uint32_t i = 1; i < MEMBERS; i++)
        assert_int_equal(qp_free(members[i]), 0);
    peer_close(p);
    return 0;
}

static void attach_all(void)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(multicast_attach(members[i], &ipv4), 0);
}

static void member_posts(struct peer *p, uint32_t member)
{
    struct qp *first = p->ep.qp;

    p->ep.qp = members[member];
    endpoint_post_recv(&p->ep, member, member * 1000, LEN + GRH_LEN);
    p->ep.qp = first;
}

static void all_post(struct peer *p)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        member_posts(p, i);
}

struct multicast_script {
    const struct multicast *group; /* NULL: ipv4 */
    struct gid src;
    uint32_t qpn; /* 0: the multicast QPN */
    uint32_t qkey;
    uint32_t src_qpn;
    bool unicast; /* the address is the endpoint's */
};

static void network_brings(struct peer *p, struct multicast_script m)
{
    const struct script s = {.operation = OP_SEND_ONLY,
                             .len = LEN,
                             .message = 5,
                             .qkey = m.qkey != 0 ? m.qkey : QKEY,
                             .src_qpn = m.src_qpn};
    const struct multicast *group = m.group != NULL ? m.group : &ipv4;
    uint32_t qpn = m.qpn != 0 ? m.qpn : QPN_MULTICAST;
    uint8_t bytes[PACKET_HEADERS_MAX + LEN + 8];
    struct datagram d = {.src = m.src.bytes[10] != 0 ? m.src : endpoint_gid(9),
                         .dst = m.unicast ? endpoint_gid(2) : group->gid,
                         .scope_id = group->scope_id,
                         .bytes = bytes};

    d.len = peer_writes(p, s, bytes);
    for (uint32_t i = 0; i < 3; i++)
        bytes[5 + i] = (uint8_t)(qpn >> (16 - 8 * i));
    engine_receive(p->ep.engine, &d, p->ep.now);
    peer_listens(p);
}

static void expect_copy(struct peer *p, uint32_t member)
{
    struct completion c = expect_completion(p->ep.recv_cq, member, STATUS_SUCCESS);

    assert_int_equal(c.byte_len, GRH_LEN + LEN);
    assert_int_equal(c.flags, COMPLETION_GRH);
    assert_int_equal(c.qpn, qp_qpn(members[member]));
    expect_placed(&p->ep, member * 1000 + GRH_LEN, 5, 0, LEN);
    /* The IPv4 header of RoCEv2 annex A17.4.5.2 names the group as destination. */
    assert_memory_equal(p->ep.memory + (size_t)member * 1000 + 36, ipv4.gid.bytes + 12, 4);
}

static void each_member_gets_a_copy_of_its_own(void **state)
{
    struct peer *p = *state;

    attach_all();
    all_post(p);
    network_brings(p, (struct multicast_script){.src_qpn = 0x77});
    for (uint32_t i = 0; i < MEMBERS; i++)
        expect_copy(p, i);
    expect_no_completion(p->ep.recv_cq);
    expect_counter(&p->ep, mcast_rcv_packets, MEMBERS);
    expect_silence(p);
}

static void member_without_a_receive_or_with_another_q_key_keeps_nobody_from_a_copy(void **state)
{
    const struct qp_attr other_key = {.qkey = QKEY + 1};
    struct peer *p = *state;

    attach_all();
    assert_int_equal(qp_modify(members[1], &other_key, QP_ATTR_QKEY, NULL), 0);
    member_posts(p, 1);
    member_posts(p, 2);
    network_brings(p, (struct multicast_script){0});
    expect_copy(p, 2);
    expect_no_completion(p->ep.recv_cq);
    expect_counter(&p->ep, no_receive, 1);
    expect_counter(&p->ep, wrong_qkey, 1);
}

static void attaching_twice_is_attaching_once(void **state)
{
    struct peer *p = *state;

    assert_int_equal(multicast_attach(members[0], &ipv4), 0);
    assert_int_equal(multicast_attach(members[0], &ipv4), 0);
    assert_int_equal(multicast_count(p->ep.engine, &ipv4), 1);
    member_posts(p, 0);
    member_posts(p, 0);
    network_brings(p, (struct multicast_script){0});
    expect_copy(p, 0);
    expect_no_completion(p->ep.recv_cq);
    assert_int_equal(multicast_detach(members[0], &ipv4), 0);
    assert_int_equal(multicast_count(p->ep.engine, &ipv4), 0);
}

static void member_that_left_gets_nothing(void **state)
{
    struct peer *p = *state;

    attach_all();
    all_post(p);
    assert_int_equal(multicast_detach(members[1], &ipv4), 0);
    network_brings(p, (struct multicast_script){0});
    expect_copy(p, 0);
    expect_copy(p, 2);
    expect_no_completion(p->ep.recv_cq);
    assert_int_equal(multicast_detach(members[1], &ipv4), -EINVAL);
}

static void sender_gets_no_copy_of_its_own_datagram(void **state)
{
    const struct ah ah = {
        .pd = the_peer.ep.pd,
        .path = {.src = endpoint_gid(2), .dst = ipv4.gid, .scope_id = INTERFACE, .hop_limit = 64}};
    const struct sge sge = {.addr = at(0), .length = LEN, .lkey = the_peer.ep.mr->key};
    const struct send_wr wr = {.opcode = WR_SEND,
                               .sges = &sge,
                               .sge_count = 1,
                               .ah = &ah,
                               .remote_qpn = QPN_MULTICAST,
                               .remote_qkey = QKEY};
    struct peer *p = *state;
    uint8_t buffer[4096];
    struct datagram_batch b = {.buffer = buffer, .capacity = sizeof(buffer), .count_max = 1};

    attach_all();
    all_post(p);
    endpoint_fill(&p->ep, 0, 5, 0, LEN);
    assert_int_equal(qp_post_send(members[0], &wr), 0);
    assert_int_equal(engine_transmit(p->ep.engine, p->ep.now, &b), 1);
    assert_true(gid_equal(&b.path.dst, &ipv4.gid));
    assert_int_equal(b.dest_slot, 0xff);
    expect_counter(&p->ep, mcast_sent_packets, 1);
    network_brings(
        p, (struct multicast_script){.src = endpoint_gid(2), .src_qpn = qp_qpn(members[0])});
    expect_copy(p, 1);
    expect_copy(p, 2);
    expect_no_completion(p->ep.recv_cq);
    expect_counter(&p->ep, mcast_own, 1);
    /* Another host has a queue pair of the same number. */
    network_brings(
        p, (struct multicast_script){.src = endpoint_gid(3), .src_qpn = qp_qpn(members[0])});
    expect_copy(p, 0);
}

static void datagram_for_another_group_or_interface_is_dropped_and_counted(void **state)
{
    const struct multicast elsewhere = {.gid = ipv4.gid, .scope_id = INTERFACE + 1};
    struct peer *p = *state;

    attach_all();
    all_post(p);
    network_brings(p, (struct multicast_script){.group = &ipv6});
    network_brings(p, (struct multicast_script){.group = &elsewhere});
    expect_no_completion(p->ep.recv_cq);
    expect_counter(&p->ep, mcast_no_member, 2);
}

/* IBA 9.6.1, 9.6.1.4 */
static void group_address_and_multicast_qpn_go_together(void **state)
{
    struct peer *p = *state;

    attach_all();
    all_post(p);
    network_brings(p, (struct multicast_script){.qpn = qp_qpn(members[0])});
    network_brings(p, (struct multicast_script){.unicast = true});
    expect_no_completion(p->ep.recv_cq);
    expect_counter(&p->ep, mcast_bad_address, 2);
}

static void only_ud_and_only_groups(void **state)
{
    const struct multicast unicast = {.gid = endpoint_gid(2)};
    struct endpoint_config config = endpoint_config_default(3);
    struct endpoint *connected = test_malloc(sizeof(*connected));

    (void)state;
    endpoint_open(connected, &config);
    assert_int_equal(multicast_attach(connected->qp, &ipv4), -EINVAL);
    assert_int_equal(multicast_attach(members[0], &unicast), -EINVAL);
    assert_int_equal(multicast_detach(members[0], &ipv4), -EINVAL);
    endpoint_close(connected);
    test_free(connected);
}

static void attached_queue_pair_is_not_freed(void **state)
{
    (void)state;
    assert_int_equal(multicast_attach(members[0], &ipv4), 0);
    assert_int_equal(multicast_attach(members[0], &ipv6), 0);
    assert_int_equal(qp_free(members[0]), -EBUSY);
    assert_int_equal(multicast_detach(members[0], &ipv4), 0);
    assert_int_equal(qp_free(members[0]), -EBUSY);
}

static struct multicast numbered(uint32_t n)
{
    struct multicast group = ipv4;

    group.gid.bytes[14] = (uint8_t)(n >> 8);
    group.gid.bytes[15] = (uint8_t)n;
    return group;
}

static void groups_and_members_are_as_many_as_the_limits_say(void **state)
{
    struct peer *p = *state;
    struct qp *many[MULTICAST_QPS_MAX + 1];
    struct multicast group;

    for (uint32_t i = 0; i < MULTICAST_GROUPS_MAX; i++) {
        group = numbered(i);
        assert_int_equal(multicast_attach(members[0], &group), 0);
    }
    group = numbered(MULTICAST_GROUPS_MAX);
    assert_int_equal(multicast_attach(members[1], &group), -ENOMEM);
    assert_int_equal(multicast_count(p->ep.engine, &group), 0);
    for (uint32_t i = 0; i < MULTICAST_GROUPS_MAX; i++) {
        group = numbered(i);
        assert_int_equal(multicast_detach(members[0], &group), 0);
    }
    for (uint32_t i = 0; i <= MULTICAST_QPS_MAX; i++)
        many[i] = another_qp(&p->ep);
    for (uint32_t i = 0; i <= MULTICAST_QPS_MAX; i++)
        assert_int_equal(multicast_attach(many[i], &ipv4), i < MULTICAST_QPS_MAX ? 0 : -ENOMEM);
    for (uint32_t i = 0; i <= MULTICAST_QPS_MAX; i++) {
        multicast_detach(many[i], &ipv4);
        assert_int_equal(qp_free(many[i]), 0);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(each_member_gets_a_copy_of_its_own),
        CASE(member_without_a_receive_or_with_another_q_key_keeps_nobody_from_a_copy),
        CASE(attaching_twice_is_attaching_once),
        CASE(member_that_left_gets_nothing),
        CASE(sender_gets_no_copy_of_its_own_datagram),
        CASE(datagram_for_another_group_or_interface_is_dropped_and_counted),
        CASE(group_address_and_multicast_qpn_go_together),
        CASE(only_ud_and_only_groups),
        CASE(attached_queue_pair_is_not_freed),
        CASE(groups_and_members_are_as_many_as_the_limits_say),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
