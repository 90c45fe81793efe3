/* SPDX-License-Identifier: BSD-2-Clause */
/* Multicast groups of IDs: expectations from rdma_join_multicast(3) and its neighbours. */
#include "sides.h"

#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <string.h>

#define GROUP "239.1.2.3"
#define GRH_LEN 40u

static char context; /* what the application says with a group comes back with its event */

struct members {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *hearer;
    struct rdma_cm_id *speaker;
};

static struct rdma_cm_id *bound(struct rdma_event_channel *channel, enum rdma_port_space ps)
{
    struct sockaddr_in here = loopback(0);
    struct rdma_cm_id *id;

    assert_int_equal(rdma_create_id(channel, &id, NULL, ps), 0);
    assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&here), 0);
    return id;
}

static int setup(void **state)
{
    static struct members m;

    m.channel = rdma_create_event_channel();
    assert_non_null(m.channel);
    m.hearer = bound(m.channel, RDMA_PS_UDP);
    m.speaker = bound(m.channel, RDMA_PS_UDP);
    make_qp(m.hearer);
    make_qp(m.speaker);
    *state = &m;
    return 0;
}

static int teardown(void **state)
{
    struct members *m = *state;

    rdma_destroy_qp(m->hearer);
    rdma_destroy_qp(m->speaker);
    assert_int_equal(rdma_destroy_id(m->hearer), 0);
    assert_int_equal(rdma_destroy_id(m->speaker), 0);
    rdma_destroy_event_channel(m->channel);
    return 0;
}

static struct sockaddr *group(const char *address)
{
    static struct sockaddr_in in;

    in = (struct sockaddr_in){.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, address, &in.sin_addr), 1);
    return (struct sockaddr *)&in;
}

static int join(struct rdma_cm_id *id, const char *address, uint32_t flag)
{
    struct rdma_cm_join_mc_attr_ex attr = {
        .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
        .join_flags = flag,
        .addr = group(address),
    };

    return rdma_join_multicast_ex(id, &attr, &context);
}

static bool is_attached(struct rdma_cm_id *id, const char *address)
{
    union ibv_gid gid = {.raw = {[10] = 0xff, [11] = 0xff}};

    assert_int_equal(inet_pton(AF_INET, address, gid.raw + 12), 1);
    if (ibv_detach_mcast(id->qp, &gid, 0) != 0)
        return false;
    assert_int_equal(ibv_attach_mcast(id->qp, &gid, 0), 0);
    return true;
}

/* Joins, and makes of the event what a sender needs. */
static struct ibv_ah *join_to_send(struct members *m, struct rdma_ud_param *param)
{
    struct rdma_cm_event *event;
    struct ibv_ah *ah;

    assert_int_equal(join(m->speaker, GROUP, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER), 0);
    event = expect_event(m->channel, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    *param = event->param.ud;
    ah = ibv_create_ah(m->speaker->pd, &param->ah_attr);
    assert_non_null(ah);
    rdma_ack_cm_event(event);
    return ah;
}

static void a_datagram_to_the_group_reaches_who_joined_it(void **state)
{
    struct members *m = *state;
    static char text[8] = "to all", got[GRH_LEN + sizeof(text)];
    struct ibv_mr *out = rdma_reg_msgs(m->speaker, text, sizeof(text));
    struct ibv_mr *in = rdma_reg_msgs(m->hearer, got, sizeof(got));
    struct rdma_ud_param param;
    struct ibv_ah *ah;
    struct ibv_wc wc;

    assert_int_equal(rdma_join_multicast(m->hearer, group(GROUP), &context), 0);
    expect_and_ack(m->channel, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    ah = join_to_send(m, &param);
    assert_int_equal(rdma_post_recv(m->hearer, NULL, got, sizeof(got), in), 0);
    assert_int_equal(
        rdma_post_ud_send(m->speaker, NULL, text, sizeof(text), out, 0, ah, param.qp_num), 0);
    assert_int_equal(rdma_get_recv_comp(m->hearer, &wc), 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_memory_equal(got + GRH_LEN, text, sizeof(text));
    ibv_destroy_ah(ah);
    rdma_dereg_mr(in);
    rdma_dereg_mr(out);
    assert_int_equal(rdma_leave_multicast(m->hearer, group(GROUP)), 0);
    assert_int_equal(rdma_leave_multicast(m->speaker, group(GROUP)), 0);
}

static void the_event_says_what_a_sender_needs(void **state)
{
    struct members *m = *state;
    struct rdma_ud_param param;
    struct ibv_ah *ah = join_to_send(m, &param);

    assert_int_equal(param.qp_num, 0xffffff);
    assert_int_equal(param.qkey, RDMA_UDP_QKEY);
    assert_ptr_equal(param.private_data, &context);
    assert_int_equal(param.ah_attr.is_global, 1);
    assert_int_equal(param.ah_attr.port_num, 1);
    assert_int_equal(param.ah_attr.grh.dgid.raw[11], 0xff);
    assert_int_equal(param.ah_attr.grh.dgid.raw[12], 239);
    assert_int_equal(param.ah_attr.grh.sgid_index, (uint8_t)gid_index(m->speaker->verbs, true));
    ibv_destroy_ah(ah);
}

static void a_member_that_only_sends_is_not_attached_and_one_that_leaves_no_more(void **state)
{
    struct members *m = *state;

    assert_int_equal(join(m->speaker, GROUP, RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER), 0);
    assert_int_equal(join(m->hearer, GROUP, RDMA_MC_JOIN_FLAG_FULLMEMBER), 0);
    expect_and_ack(m->channel, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    expect_and_ack(m->channel, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    assert_false(is_attached(m->speaker, GROUP));
    assert_true(is_attached(m->hearer, GROUP));
    assert_int_equal(rdma_leave_multicast(m->hearer, group(GROUP)), 0);
    assert_false(is_attached(m->hearer, GROUP));
    assert_int_equal(rdma_leave_multicast(m->hearer, group(GROUP)), -1);
    assert_int_equal(errno, EADDRNOTAVAIL);
}

static void who_leaves_before_the_event_was_fetched_sees_none(void **state)
{
    struct members *m = *state;

    assert_int_equal(join(m->hearer, "239.1.2.4", RDMA_MC_JOIN_FLAG_FULLMEMBER), 0);
    assert_int_equal(join(m->hearer, GROUP, RDMA_MC_JOIN_FLAG_FULLMEMBER), 0);
    assert_int_equal(rdma_leave_multicast(m->hearer, group("239.1.2.4")), 0);
    expect_and_ack(m->channel, RDMA_CM_EVENT_MULTICAST_JOIN, 0);
    assert_false(readable(m->channel->fd, 0));
    assert_true(is_attached(m->hearer, GROUP));
    assert_int_equal(rdma_leave_multicast(m->hearer, group(GROUP)), 0);
}

static void an_address_of_no_group_is_an_error_of_the_event(void **state)
{
    struct members *m = *state;

    assert_int_equal(join(m->hearer, "10.1.2.3", RDMA_MC_JOIN_FLAG_FULLMEMBER), 0);
    expect_and_ack(m->channel, RDMA_CM_EVENT_MULTICAST_ERROR, -EINVAL);
    assert_int_equal(rdma_leave_multicast(m->hearer, group("10.1.2.3")), 0);
}

static void expect_refused(struct rdma_cm_id *id, const char *address, uint32_t flag)
{
    assert_int_equal(join(id, address, flag), -1);
    assert_int_equal(errno, EINVAL);
}

static void what_no_group_can_be_joined_with_is_refused_at_once(void **state)
{
    struct members *m = *state;
    struct rdma_cm_join_mc_attr_ex attr = {.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS,
                                           .addr = group(GROUP)};
    struct rdma_cm_id *connected = bound(m->channel, RDMA_PS_TCP);
    struct rdma_cm_id *nowhere;

    assert_int_equal(rdma_create_id(m->channel, &nowhere, NULL, RDMA_PS_UDP), 0);
    expect_refused(connected, GROUP, RDMA_MC_JOIN_FLAG_FULLMEMBER);
    expect_refused(nowhere, GROUP, RDMA_MC_JOIN_FLAG_FULLMEMBER);
    expect_refused(m->hearer, "0.0.0.0", RDMA_MC_JOIN_FLAG_FULLMEMBER);
    expect_refused(m->hearer, GROUP, RDMA_MC_JOIN_FLAG_RESERVED);
    assert_int_equal(rdma_join_multicast_ex(m->hearer, &attr, NULL), -1);
    assert_int_equal(errno, EINVAL);
    attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_RESERVED;
    assert_int_equal(rdma_join_multicast_ex(m->hearer, &attr, NULL), -1);
    assert_int_equal(errno, ENOTSUP);
    assert_false(readable(m->channel->fd, 0));
    rdma_destroy_id(connected);
    rdma_destroy_id(nowhere);
}

static void a_synchronous_id_has_joined_when_the_call_returns(void **state)
{
    struct rdma_cm_id *id = bound(NULL, RDMA_PS_UDP);

    (void)state;
    make_qp(id);
    assert_int_equal(join(id, GROUP, RDMA_MC_JOIN_FLAG_FULLMEMBER), 0);
    assert_true(is_attached(id, GROUP));
    expect_refused(id, "10.1.2.3", RDMA_MC_JOIN_FLAG_FULLMEMBER);
    rdma_destroy_qp(id);
    rdma_destroy_id(id);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_datagram_to_the_group_reaches_who_joined_it),
        CASE(the_event_says_what_a_sender_needs),
        CASE(a_member_that_only_sends_is_not_attached_and_one_that_leaves_no_more),
        CASE(who_leaves_before_the_event_was_fetched_sees_none),
        CASE(an_address_of_no_group_is_an_error_of_the_event),
        CASE(what_no_group_can_be_joined_with_is_refused_at_once),
        cmocka_unit_test(a_synchronous_id_has_joined_when_the_call_returns),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
