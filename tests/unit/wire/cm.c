/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CM messages: that the table of fields is a layout (no overlap, nothing out
 * of bounds), that each field survives writing and reading at each of its bits,
 * and what is refused. That the offsets are the specification's is for tests/golden
 * (real messages) and tests/pcap (another decoder) to say.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "wire/cm.h"

#define BODY_LEN (MAD_LEN - MAD_HEADER_LEN)

static void fields_neither_overlap_nor_leave_the_message(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < CM_KIND_COUNT; kind++) {
        uint8_t taken[BODY_LEN * 8] = {0};
        size_t count;
        const struct cm_field *field = cm_fields((enum cm_kind)kind, &count);

        assert_true(count >= 2);
        for (size_t i = 0; i < count; i++) {
            const unsigned first = field[i].byte * 8u + field[i].bit;

            assert_true(first + field[i].bits <= (BODY_LEN - cm_private_len(kind)) * 8);
            assert_true(field[i].bits > 64 || field[i].bits <= field[i].member_len * 8);
            for (unsigned bit = first; bit < first + field[i].bits; bit++)
                assert_int_equal(taken[bit]++, 0);
        }
    }
}

static void set_bit(struct cm_message *m, const struct cm_field *field, unsigned bit)
{
    uint8_t *member = (uint8_t *)m + field->member;

    member[bit / 8] = (uint8_t)(1u << bit % 8); /* tests run on little-endian machines */
}

static void each_bit_of_each_field_survives_alone(void **state)
{
    (void)state;
    for (unsigned kind = 0; kind < CM_KIND_COUNT; kind++) {
        size_t count;
        const struct cm_field *field = cm_fields((enum cm_kind)kind, &count);

        for (size_t i = 0; i < count; i++) {
            for (unsigned bit = 0; bit < field[i].bits; bit++) {
                struct cm_message in, out;
                uint8_t mad[MAD_LEN];

                memset(&in, 0, sizeof(in)); /* the padding as well, which is compared */
                in.kind = (enum cm_kind)kind;
                set_bit(&in, &field[i], bit);
                if (in.info_len > CM_INFO_MAX)
                    continue;
                cm_write(&in, mad);
                assert_int_equal(cm_read(mad, sizeof(mad), &out), 0);
                assert_memory_equal(&in, &out, sizeof(in));
            }
        }
    }
}

static void a_value_too_wide_does_not_touch_its_neighbours(void **state)
{
    struct cm_message in = {.kind = CM_REQ, .retry_count = 0xff, .starting_psn = 0xffffffff};
    struct cm_message out;
    uint8_t mad[MAD_LEN];

    (void)state;
    cm_write(&in, mad);
    assert_int_equal(cm_read(mad, sizeof(mad), &out), 0);
    assert_int_equal(out.retry_count, 7);
    assert_int_equal(out.local_response_timeout, 0);
    assert_int_equal(out.starting_psn, 0xffffff);
}

static void private_data_fills_the_rest_of_the_message(void **state)
{
    /* IBA 12.6: 92, 222, 148, 196, 224, 220, 224, 216, 136, 168, 148 */
    static const size_t lens[] = {92, 222, 148, 196, 224, 220, 224, 216, 136, 168, 148};

    (void)state;
    for (unsigned kind = 0; kind < CM_KIND_COUNT; kind++) {
        struct cm_message in, out;
        uint8_t mad[MAD_LEN];

        memset(&in, 0, sizeof(in));
        in.kind = (enum cm_kind)kind;
        assert_int_equal(cm_private_len(kind), lens[kind]);
        memset(in.private_data, 0x5a, lens[kind]);
        cm_write(&in, mad);
        assert_int_equal(mad[MAD_LEN - 1], 0x5a);
        assert_int_equal(mad[MAD_LEN - lens[kind]], 0x5a);
        assert_int_equal(cm_read(mad, sizeof(mad), &out), 0);
        assert_memory_equal(&in, &out, sizeof(in));
    }
}

static void other_classes_versions_methods_and_messages_are_refused(void **state)
{
    const struct cm_message message = {.kind = CM_RTU, .local_comm_id = 1};
    static const struct {
        unsigned at;
        uint8_t value;
        int error;
    } changes[] = {
        {0, 2, -EPROTONOSUPPORT}, {1, 3, -EPROTONOSUPPORT}, {2, 1, -EPROTONOSUPPORT},
        {3, 1, -EPROTONOSUPPORT}, {17, 0x0f, -ENOMSG},      {17, 0x1b, -ENOMSG},
        {16, 1, -ENOMSG},
    };
    struct cm_message out;
    uint8_t mad[MAD_LEN];

    (void)state;
    for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
        cm_write(&message, mad);
        assert_int_equal(cm_read(mad, sizeof(mad), &out), 0);
        mad[changes[i].at] = changes[i].value;
        assert_int_equal(cm_read(mad, sizeof(mad), &out), changes[i].error);
    }
}

static void lengths_that_cannot_be_are_refused(void **state)
{
    struct cm_message message = {.kind = CM_REJ, .info_len = CM_INFO_MAX + 1};
    uint8_t mad[MAD_LEN + 1] = {0};
    struct cm_message out;

    (void)state;
    cm_write(&message, mad);
    assert_int_equal(cm_read(mad, MAD_LEN, &out), -EINVAL);
    message.info_len = CM_INFO_MAX;
    cm_write(&message, mad);
    assert_int_equal(cm_read(mad, MAD_LEN, &out), 0);
    for (size_t len = 0; len < MAD_LEN; len++)
        assert_int_equal(cm_read(mad, len, &out), -EINVAL);
    assert_int_equal(cm_read(mad, MAD_LEN + 1, &out), -EINVAL);
}

static void ip_header_has_source_before_destination(void **state)
{
    /* rping's REQ of 10.77.0.2:45725 to 10.77.0.3, as the kernel sent it. */
    static const uint8_t bytes[CM_IP_HEADER_LEN] = {0, 0x40, 0xb2,      0x9d, [16] = 10, 77,
                                                    0, 2,    [32] = 10, 77,   0,         3};
    uint8_t written[CM_IP_HEADER_LEN];
    struct cm_ip_header header;

    (void)state;
    assert_true(cm_ip_header_read(bytes, &header));
    assert_int_equal(header.ip_version, 4);
    assert_int_equal(header.src_port, 45725);
    assert_memory_equal(header.src + 12, "\x0a\x4d\x00\x02", 4);
    assert_memory_equal(header.dst + 12, "\x0a\x4d\x00\x03", 4);
    cm_ip_header_write(&header, written);
    assert_memory_equal(written, bytes, sizeof(bytes));
}

static void ip_header_of_another_version_is_not_read(void **state)
{
    uint8_t bytes[CM_IP_HEADER_LEN] = {0};
    struct cm_ip_header header;

    (void)state;
    for (unsigned version = 0; version < 256; version++) {
        bytes[0] = (uint8_t)version;
        bytes[1] = 0x60;
        assert_int_equal(cm_ip_header_read(bytes, &header), version == 0);
        bytes[0] = 0;
        bytes[1] = (uint8_t)version;
        assert_int_equal(cm_ip_header_read(bytes, &header), version >> 4 == 4 || version >> 4 == 6);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_neither_overlap_nor_leave_the_message),
        cmocka_unit_test(each_bit_of_each_field_survives_alone),
        cmocka_unit_test(a_value_too_wide_does_not_touch_its_neighbours),
        cmocka_unit_test(private_data_fills_the_rest_of_the_message),
        cmocka_unit_test(other_classes_versions_methods_and_messages_are_refused),
        cmocka_unit_test(lengths_that_cannot_be_are_refused),
        cmocka_unit_test(ip_header_has_source_before_destination),
        cmocka_unit_test(ip_header_of_another_version_is_not_read),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
