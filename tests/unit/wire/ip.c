/* SPDX-License-Identifier: BSD-2-Clause */
/* IP and UDP headers: fields, checksums of foreign frames, and faults. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "wire/ip.h"

/* V1 and V6 of tests/golden/captures/vectors.md from the IP header on. */
static const uint8_t ipv4_frame[] =
    "\x45\x01\x00\x40\x04\x78\x40\x00\x40\x11\xb4\xd5\xc0\xa8\x00\x07\xc0\xa8\x00\x07"
    "\xc0\x00\x12\xb7\x00\x2c\xac\xa2\x24\x60\xff\xff\x00\x00\x00\xd3\x00\xcf\x17\x10"
    "\x46\x30\x81\x8b\xe2\x89\x35\xd9\x0e\x9a\x95\x50\x54\x01\xbe\x88\x5e\x50\x00\x00"
    "\x78\xf3\x53\xf3";
static const uint8_t ipv6_frame[] =
    "\x6e\x21\xfa\xce\x00\x2c\x11\xff\x20\x22\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x10\x23\x20\x23\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x10\x24"
    "\xc0\x00\x12\xb7\x00\x2c\xe7\xc5\x24\x60\xff\xff\x00\x00\x00\xd3\x00\xcf\x17\x10"
    "\x46\x30\x81\x8b\xe2\x89\x35\xd9\x0e\x9a\x95\x50\x54\x01\xbe\x88\x5e\x50\x00\x00"
    "\x3e\x5b\x74\x3b";
#define IPV4_FRAME_LEN (sizeof(ipv4_frame) - 1)
#define IPV6_FRAME_LEN (sizeof(ipv6_frame) - 1)

static void an_ipv4_header_is_read_and_written_back(void **state)
{
    const struct gid address = {{[10] = 0xff, 0xff, 192, 168, 0, 7}};
    uint8_t out[IPV4_LEN];
    struct ip_header ip;

    (void)state;
    assert_int_equal(ip_read(ipv4_frame, IPV4_FRAME_LEN, &ip), IP_FAULT_NONE);
    assert_true(ip.ipv4);
    assert_true(gid_equal(&ip.src, &address));
    assert_true(gid_equal(&ip.dst, &address));
    assert_int_equal(ip.traffic_class, 1);
    assert_int_equal(ip.hop_limit, 64);
    assert_int_equal(ip.protocol, IP_PROTOCOL_UDP);
    assert_int_equal(ip.identification, 0x478);
    assert_true(ip.dont_fragment);
    assert_false(ip.more_fragments);
    assert_int_equal(ip.fragment_offset, 0);
    assert_int_equal(ip.header_len, 20);
    assert_int_equal(ip.payload_len, 44);
    assert_true(ip.checksum_good);
    assert_int_equal(ip_write(&ip, out), IPV4_LEN);
    assert_memory_equal(out, ipv4_frame, IPV4_LEN);
}

static void an_ipv6_header_is_read_and_written_back(void **state)
{
    uint8_t out[IPV6_LEN];
    struct ip_header ip;

    (void)state;
    assert_int_equal(ip_read(ipv6_frame, IPV6_FRAME_LEN, &ip), IP_FAULT_NONE);
    assert_false(ip.ipv4);
    assert_int_equal(ip.traffic_class, 0xe2);
    assert_int_equal(ip.flow_label, 0x1face);
    assert_int_equal(ip.hop_limit, 255);
    assert_int_equal(ip.protocol, IP_PROTOCOL_UDP);
    assert_int_equal(ip.src.bytes[15], 0x23);
    assert_int_equal(ip.dst.bytes[15], 0x24);
    assert_int_equal(ip.header_len, 40);
    assert_int_equal(ip.payload_len, 44);
    assert_int_equal(ip_write(&ip, out), IPV6_LEN);
    assert_memory_equal(out, ipv6_frame, IPV6_LEN);
}

static void a_udp_checksum_is_that_of_other_tools(void **state)
{
    struct ip_header ip;
    struct udp_header udp;
    uint8_t out[UDP_LEN];

    (void)state;
    assert_int_equal(ip_read(ipv4_frame, IPV4_FRAME_LEN, &ip), IP_FAULT_NONE);
    assert_int_equal(udp_checksum(&ip, ipv4_frame + IPV4_LEN, ip.payload_len), 0xaca2);
    assert_int_equal(udp_read(ipv4_frame + IPV4_LEN, ip.payload_len, &udp), IP_FAULT_NONE);
    assert_int_equal(udp.src_port, 0xc000);
    assert_int_equal(udp.dst_port, 4791);
    assert_int_equal(udp.len, 44);
    assert_int_equal(udp.checksum, 0xaca2);
    udp_write(&udp, out);
    assert_memory_equal(out, ipv4_frame + IPV4_LEN, UDP_LEN);
    assert_int_equal(ip_read(ipv6_frame, IPV6_FRAME_LEN, &ip), IP_FAULT_NONE);
    assert_int_equal(udp_checksum(&ip, ipv6_frame + IPV6_LEN, ip.payload_len), 0xe7c5);
}

static void a_damaged_header_checksum_is_noticed(void **state)
{
    uint8_t frame[IPV4_FRAME_LEN];
    struct ip_header ip;

    (void)state;
    memcpy(frame, ipv4_frame, sizeof(frame));
    frame[8]--; /* TTL */
    assert_int_equal(ip_read(frame, sizeof(frame), &ip), IP_FAULT_NONE);
    assert_false(ip.checksum_good);
}

static void options_are_skipped(void **state)
{
    uint8_t frame[64] = {0x46, 0, 0, 64, [12] = 10, [16] = 10};
    struct ip_header ip;

    (void)state;
    assert_int_equal(ip_read(frame, sizeof(frame), &ip), IP_FAULT_NONE);
    assert_int_equal(ip.header_len, 24);
    assert_int_equal(ip.payload_len, 40);
}

/* clang-format off */
static const struct {
    const char *what;
    uint8_t bytes[8]; /* of the header, zeroes follow */
    size_t len;
    enum ip_fault fault;
} faults[] = {
    {"nothing at all",        {0},                         0, IP_FAULT_TRUNCATED},
    {"19 bytes of IPv4",      {0x45, 0, 0, 20},           19, IP_FAULT_TRUNCATED},
    {"39 bytes of IPv6",      {0x60},                     39, IP_FAULT_TRUNCATED},
    {"IPv6 header alone",     {0x60},                     40, IP_FAULT_NONE},
    {"version 5",             {0x55, 0, 0, 20},           40, IP_FAULT_VERSION},
    {"4 words of header",     {0x44, 0, 0, 40},           40, IP_FAULT_HEADER_LEN},
    {"15 words, 40 bytes",    {0x4f, 0, 0, 60},           40, IP_FAULT_TRUNCATED},
    {"total length of 19",    {0x45, 0, 0, 19},           40, IP_FAULT_LEN},
    {"total length of 20",    {0x45, 0, 0, 20},           40, IP_FAULT_NONE},
    {"less than it promises", {0x45, 0, 0, 41},           40, IP_FAULT_CUT},
    {"Ethernet padding",      {0x45, 0, 0, 30},           46, IP_FAULT_NONE},
    {"IPv6 payload cut",      {0x60, 0, 0, 0, 0, 9},      48, IP_FAULT_CUT},
};
/* clang-format on */

static void each_bad_ip_header_is_refused_for_its_reason(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        uint8_t frame[64] = {0};
        struct ip_header ip;
        enum ip_fault fault;

        memcpy(frame, faults[i].bytes, sizeof(faults[i].bytes));
        fault = ip_read(frame, faults[i].len, &ip);
        if (fault != faults[i].fault)
            fail_msg("%s: %s", faults[i].what, ip_fault_name(fault));
        assert_non_null(ip_fault_text(fault));
    }
}

static void each_bad_udp_header_is_refused_for_its_reason(void **state)
{
    const uint8_t short_len[UDP_LEN] = {[5] = 7};
    const uint8_t long_len[UDP_LEN] = {[5] = 9};
    struct udp_header udp;

    (void)state;
    assert_int_equal(udp_read(long_len, 7, &udp), IP_FAULT_TRUNCATED);
    assert_int_equal(udp_read(short_len, 8, &udp), IP_FAULT_LEN);
    assert_int_equal(udp_read(long_len, 8, &udp), IP_FAULT_CUT);
}

static void the_grh_area_of_ipv4_is_20_zeroes_and_the_header(void **state)
{
    const struct datagram d = {
        .src = {{[10] = 0xff, 0xff, 192, 168, 0, 7}},
        .dst = {{[10] = 0xff, 0xff, 192, 168, 0, 7}},
        .traffic_class = 1,
        .hop_limit = 64,
        .len = 36,
    };
    const uint8_t zeroes[20] = {0};
    uint8_t expected[IPV4_LEN];
    uint8_t out[GRH_LEN];

    (void)state;
    /* The identification is not known and 0; the checksum is larger by it. */
    memcpy(expected, ipv4_frame, IPV4_LEN);
    expected[4] = 0;
    expected[5] = 0;
    expected[10] = 0xb9;
    expected[11] = 0x4d;
    memset(out, 0xee, sizeof(out));
    grh_write(&d, out);
    assert_memory_equal(out, zeroes, 20);
    assert_memory_equal(out + 20, expected, 20);
}

static void the_grh_area_of_ipv6_is_the_header(void **state)
{
    struct datagram d = {
        .traffic_class = 0xe2,
        .flow_label = 0x1face,
        .hop_limit = 255,
        .len = 36,
    };
    uint8_t out[GRH_LEN];

    (void)state;
    memcpy(d.src.bytes, ipv6_frame + 8, 16);
    memcpy(d.dst.bytes, ipv6_frame + 24, 16);
    grh_write(&d, out);
    assert_memory_equal(out, ipv6_frame, GRH_LEN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ipv4_header_is_read_and_written_back),
        cmocka_unit_test(an_ipv6_header_is_read_and_written_back),
        cmocka_unit_test(a_udp_checksum_is_that_of_other_tools),
        cmocka_unit_test(a_damaged_header_checksum_is_noticed),
        cmocka_unit_test(options_are_skipped),
        cmocka_unit_test(each_bad_ip_header_is_refused_for_its_reason),
        cmocka_unit_test(each_bad_udp_header_is_refused_for_its_reason),
        cmocka_unit_test(the_grh_area_of_ipv4_is_20_zeroes_and_the_header),
        cmocka_unit_test(the_grh_area_of_ipv6_is_the_header),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
