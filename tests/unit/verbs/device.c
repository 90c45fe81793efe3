/* SPDX-License-Identifier: BSD-2-Clause */
/* Devices, ports and their tables, as programs ask for them. */
#include "fixture.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

int ibv_query_gid_type(struct ibv_context *context, uint8_t port_num, unsigned int index,
                       int *type);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t size);
const char *ibv_get_sysfs_path(void);

static struct ibv_context *context;

static void the_list_ends_with_null_and_is_counted(void **state)
{
    int count = -1;
    struct ibv_device **list = ibv_get_device_list(&count);

    (void)state;
    assert_non_null(list);
    assert_int_equal(count, 1);
    assert_non_null(list[0]);
    assert_null(list[1]);
    ibv_free_device_list(list);
}

static void a_device_stays_the_same_in_every_list(void **state)
{
    struct ibv_device **first = ibv_get_device_list(NULL);
    struct ibv_device **second = ibv_get_device_list(NULL);

    (void)state;
    assert_ptr_equal(first[0], second[0]);
    ibv_free_device_list(first);
    ibv_free_device_list(second);
}

static void a_device_says_it_is_an_infiniband_adapter(void **state)
{
    struct ibv_device *d = context->device;
    uint64_t guid = be64toh(ibv_get_device_guid(d));
    const char *after = (const char *)d + sizeof(*d);
    void *provider;

    (void)state;
    assert_int_equal(d->node_type, IBV_NODE_CA);
    assert_int_equal(d->transport_type, IBV_TRANSPORT_IB);
    assert_string_equal(d->name, "uroce_lo");
    assert_memory_equal(d->dev_name, "uverbs", 6);
    assert_string_equal(d->ibdev_path, "/sys/class/infiniband/uroce_lo");
    assert_true(guid != 0);
    assert_true(ibv_get_device_index(d) >= 0);
    memcpy(&provider, after, sizeof(provider)); /* libmlx5 looks here */
    assert_null(provider);
}

static void what_is_advertised_has_the_shape_that_clients_check(void **state)
{
    struct ibv_device_attr_ex attr;

    (void)state;
    memset(&attr, 0xaa, sizeof(attr));
    assert_int_equal(ibv_query_device_ex(context, NULL, &attr), 0);
    assert_int_equal(attr.orig_attr.phys_port_cnt, 1);
    assert_int_equal(attr.phys_port_cnt_ex, 1);
    assert_int_equal(attr.device_cap_flags_ex, attr.orig_attr.device_cap_flags);
    assert_int_equal(attr.comp_mask, 0);
    assert_true(attr.orig_attr.max_srq_wr >= 4096);
    assert_true(attr.orig_attr.max_sge >= 16);
    assert_true(attr.orig_attr.vendor_id != 0x02c9 && attr.orig_attr.vendor_id != 0x15b3 &&
                attr.orig_attr.vendor_id != 0x1d0f);
    assert_int_equal(attr.orig_attr.node_guid, ibv_get_device_guid(context->device));
    assert_true(attr.max_dm_size >= 1 << 20);
    assert_int_equal(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
}

static void an_unknown_extension_of_the_query_is_refused(void **state)
{
    const struct ibv_query_device_ex_input input = {.comp_mask = 1};
    struct ibv_device_attr_ex attr;

    (void)state;
    assert_int_equal(ibv_query_device_ex(context, &input, &attr), EINVAL);
}

static void the_port_is_an_active_ethernet_port(void **state)
{
    struct ibv_port_attr attr;

    (void)state;
    assert_int_equal(ibv_query_port(context, 1, &attr), 0);
    assert_int_equal(attr.state, IBV_PORT_ACTIVE);
    assert_int_equal(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
    assert_int_equal(attr.active_mtu, IBV_MTU_4096); /* of an interface of 65536 bytes */
    assert_int_equal(attr.max_msg_sz, 1u << 31);
    assert_true(attr.gid_tbl_len > 0);
    assert_int_equal(attr.pkey_tbl_len, 1);
    assert_int_equal(ibv_query_port(context, 0, &attr), EINVAL);
    assert_int_equal(ibv_query_port(context, 2, &attr), EINVAL);
}

static void an_old_program_gets_no_more_of_the_port_than_it_has_room_for(void **state)
{
    uint8_t room[sizeof(struct ibv_port_attr) + 16];
    const size_t old_size = offsetof(struct ibv_port_attr, port_cap_flags2);

    (void)state;
    memset(room, 0xaa, sizeof(room));
    assert_int_equal((ibv_query_port)(context, 1, (struct _compat_ibv_port_attr *)(void *)room), 0);
    for (size_t i = old_size; i < sizeof(room); i++)
        assert_int_equal(room[i], 0xaa);
}

static void gids_are_found_by_every_call_and_agree(void **state)
{
    struct ibv_gid_entry table[64];
    ssize_t count = ibv_query_gid_table(context, table, 64, 0);

    (void)state;
    assert_int_equal(count, 2); /* 127.0.0.1 and ::1 */
    for (int i = 0; i < count; i++) {
        struct ibv_gid_entry entry;
        union ibv_gid gid;
        int type = -1;

        assert_int_equal(ibv_query_gid(context, 1, i, &gid), 0);
        assert_int_equal(ibv_query_gid_ex(context, 1, (uint32_t)i, &entry, 0), 0);
        assert_int_equal(ibv_query_gid_type(context, 1, (unsigned)i, &type), 0);
        assert_memory_equal(&gid, &entry.gid, sizeof(gid));
        assert_memory_equal(&gid, &table[i].gid, sizeof(gid));
        assert_int_equal(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
        assert_int_equal(type, 1);
        assert_true(entry.ndev_ifindex > 0);
    }
}

static void an_empty_gid_is_zero_and_one_beyond_the_table_fails(void **state)
{
    static const union ibv_gid zero;
    struct ibv_gid_entry entry;
    struct ibv_port_attr port;
    union ibv_gid gid;

    (void)state;
    assert_int_equal(ibv_query_port(context, 1, &port), 0);
    memset(&gid, 0xaa, sizeof(gid));
    assert_int_equal(ibv_query_gid(context, 1, port.gid_tbl_len - 1, &gid), 0);
    assert_memory_equal(&gid, &zero, sizeof(gid));
    assert_int_equal(ibv_query_gid(context, 1, port.gid_tbl_len, &gid), -1);
    assert_int_equal(ibv_query_gid(context, 1, -1, &gid), -1);
    assert_int_equal(ibv_query_gid(context, 2, 0, &gid), -1);
    assert_int_equal(ibv_query_gid_ex(context, 1, (uint32_t)port.gid_tbl_len - 1, &entry, 0),
                     ENODATA);
    assert_int_equal(ibv_query_gid_ex(context, 1, (uint32_t)port.gid_tbl_len, &entry, 0), EINVAL);
    assert_int_equal(ibv_query_gid_ex(context, 1, 0, &entry, 1), EOPNOTSUPP);
    assert_int_equal(ibv_query_gid_table(context, &entry, 1, 0), -EINVAL);
}

static void there_is_one_pkey(void **state)
{
    __be16 pkey = 0;

    (void)state;
    assert_int_equal(ibv_query_pkey(context, 1, 0, &pkey), 0);
    assert_int_equal(ntohs(pkey), 0xffff);
    assert_int_equal(ibv_query_pkey(context, 1, 1, &pkey), -1);
    assert_int_equal(ibv_get_pkey_index(context, 1, htons(0xffff)), 0);
    assert_int_equal(ibv_get_pkey_index(context, 1, htons(0x8001)), -1);
}

static void files_of_the_device_are_answered_from_memory(void **state)
{
    static const struct {
        const char *file;
        const char *text;
    } expected[] = {
        {"node_type", "1: CA"},
        {"ports/1/state", "4: ACTIVE"},
        {"ports/1/link_layer", "Ethernet"},
        {"ports/1/gid_attrs/types/0", "RoCE v2"},
        {"ports/1/gid_attrs/ndevs/0", "lo"},
        {"ports/1/pkeys/0", "0xffff"},
    };
    const char *dir = context->device->ibdev_path;
    char text[128];

    (void)state;
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        int len = ibv_read_sysfs_file(dir, expected[i].file, text, sizeof(text));

        assert_int_equal(len, strlen(expected[i].text));
        assert_string_equal(text, expected[i].text);
    }
    assert_int_equal(ibv_read_sysfs_file(dir, "ports/1/gids/0", text, sizeof(text)), 39);
    assert_int_equal(ibv_read_sysfs_file(dir, "ports/1/gids/64", text, sizeof(text)), -1);
    assert_int_equal(ibv_read_sysfs_file(dir, "no_such_file", text, sizeof(text)), -1);
    assert_int_equal(ibv_read_sysfs_file(dir, "board_id", text, 3), 2); /* cut short, with an end */
    assert_string_equal(text, "ur");
}

static void other_files_of_the_system_are_read(void **state)
{
    char text[128];

    (void)state;
    assert_string_equal(ibv_get_sysfs_path(), "/sys");
    assert_true(ibv_read_sysfs_file("/sys/class/net/lo", "mtu", text, sizeof(text)) > 0);
    assert_string_equal(text, "65536");
    assert_int_equal(ibv_read_sysfs_file("/sys/class/net/lo", "nothing", text, sizeof(text)), -1);
}

static void what_is_not_built_says_so(void **state)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);

    (void)state;
    assert_null(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, 0, 0));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void timestamps_come_from_a_clock_of_nanoseconds(void **state)
{
    struct ibv_values_ex first = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
    struct ibv_values_ex second = first;

    (void)state;
    assert_int_equal(ibv_query_rt_values_ex(context, &first), 0);
    assert_int_equal(ibv_query_rt_values_ex(context, &second), 0);
    assert_true(second.raw_clock.tv_nsec > first.raw_clock.tv_nsec);
}

static void forking_needs_no_preparation(void **state)
{
    (void)state;
    assert_int_equal(ibv_fork_init(), 0);
    assert_int_equal(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

static int open_context(void **state)
{
    (void)state;
    context = open_loopback();
    return 0;
}

static int close_context(void **state)
{
    (void)state;
    return ibv_close_device(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_list_ends_with_null_and_is_counted),
        cmocka_unit_test(a_device_stays_the_same_in_every_list),
        cmocka_unit_test(a_device_says_it_is_an_infiniband_adapter),
        cmocka_unit_test(what_is_advertised_has_the_shape_that_clients_check),
        cmocka_unit_test(an_unknown_extension_of_the_query_is_refused),
        cmocka_unit_test(the_port_is_an_active_ethernet_port),
        cmocka_unit_test(an_old_program_gets_no_more_of_the_port_than_it_has_room_for),
        cmocka_unit_test(gids_are_found_by_every_call_and_agree),
        cmocka_unit_test(an_empty_gid_is_zero_and_one_beyond_the_table_fails),
        cmocka_unit_test(there_is_one_pkey),
        cmocka_unit_test(files_of_the_device_are_answered_from_memory),
        cmocka_unit_test(other_files_of_the_system_are_read),
        cmocka_unit_test(what_is_not_built_says_so),
        cmocka_unit_test(timestamps_come_from_a_clock_of_nanoseconds),
        cmocka_unit_test(forking_needs_no_preparation),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, open_context, close_context);
}
