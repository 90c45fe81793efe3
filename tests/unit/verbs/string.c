/* SPDX-License-Identifier: BSD-2-Clause */
/* Names and rates: the words and numbers that scripts know, and values that do not exist. */
#include "fixture.h"

static void known_values_have_their_usual_names(void **state)
{
    (void)state;
    assert_string_equal(ibv_wc_status_str(IBV_WC_SUCCESS), "success");
    assert_string_equal(ibv_wc_status_str(IBV_WC_WR_FLUSH_ERR), "Work Request Flushed Error");
    assert_string_equal(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR),
                        "transport retry counter exceeded");
    assert_string_equal(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
    assert_string_equal(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
    assert_string_equal(ibv_event_type_str(IBV_EVENT_QP_LAST_WQE_REACHED), "last WQE reached");
}

static void every_value_of_an_enumeration_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i <= IBV_WC_TM_RNDV_INCOMPLETE; i++)
        assert_string_not_equal(ibv_wc_status_str((enum ibv_wc_status)i), "unknown");
    for (int i = 0; i <= IBV_EVENT_WQ_FATAL; i++)
        assert_string_not_equal(ibv_event_type_str((enum ibv_event_type)i), "unknown");
    for (int i = 0; i <= IBV_PORT_ACTIVE_DEFER; i++)
        assert_string_not_equal(ibv_port_state_str((enum ibv_port_state)i), "unknown");
    for (int i = IBV_NODE_CA; i <= IBV_NODE_UNSPECIFIED; i++)
        assert_string_not_equal(ibv_node_type_str((enum ibv_node_type)i), "unknown");
}

static void values_that_do_not_exist_are_unknown(void **state)
{
    (void)state;
    assert_string_equal(ibv_wc_status_str((enum ibv_wc_status)24), "unknown");
    assert_string_equal(ibv_wc_status_str((enum ibv_wc_status) - 1), "unknown");
    assert_string_equal(ibv_event_type_str((enum ibv_event_type)20), "unknown");
    assert_string_equal(ibv_port_state_str((enum ibv_port_state)6), "unknown");
    assert_string_equal(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
    assert_string_equal(ibv_node_type_str((enum ibv_node_type)0), "unknown");
}

static void rates_go_both_ways(void **state)
{
    (void)state;
    for (int i = IBV_RATE_2_5_GBPS; i <= IBV_RATE_1200_GBPS; i++) {
        enum ibv_rate rate = (enum ibv_rate)i;
        int multiple = ibv_rate_to_mult(rate);

        assert_int_equal(mbps_to_ibv_rate(ibv_rate_to_mbps(rate)), rate);
        if (multiple != -1)
            assert_int_equal(mult_to_ibv_rate(multiple), rate);
    }
    assert_int_equal(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125); /* 25.78125 a lane */
    assert_int_equal(ibv_rate_to_mult(IBV_RATE_10_GBPS), 4);
    assert_int_equal(ibv_rate_to_mult(IBV_RATE_MAX), -1);
    assert_int_equal(mult_to_ibv_rate(-1), IBV_RATE_MAX);
    assert_int_equal(mbps_to_ibv_rate(1), IBV_RATE_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_values_have_their_usual_names),
        cmocka_unit_test(every_value_of_an_enumeration_has_a_name_of_its_own),
        cmocka_unit_test(values_that_do_not_exist_are_unknown),
        cmocka_unit_test(rates_go_both_ways),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
