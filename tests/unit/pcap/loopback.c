/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Captures on the loopback device: Linux numbers what leaves a connected socket there, also where
 * the ICRC was made for 0. On a wire that is an ICRC which every receiver refuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/bytes.h"
#include "pcap/frame.h"
#include "wire/icrc.h"
#include "wire/ip.h"

#define MAC_LEN 14u
#define PAYLOAD_LEN 256u
#define OPCODE_RC_SEND_MIDDLE 0x01u
#define PACKET_LEN (BTH_LEN + PAYLOAD_LEN + ICRC_LEN)
#define PORT 0xc123u

static const struct gid near = {.bytes = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}};

/* A frame of so many packets, whose ICRCs are for identifications from covered on. */
static struct frame frame_of(uint8_t *bytes, uint8_t mac, uint32_t count, uint16_t identification,
                             uint16_t covered)
{
    const struct ip_header ip = {
        .ipv4 = true,
        .src = near,
        .dst = near,
        .hop_limit = 64,
        .protocol = IP_PROTOCOL_UDP,
        .identification = identification,
        .dont_fragment = true,
        .payload_len = (uint16_t)(UDP_LEN + count * PACKET_LEN),
    };
    const struct udp_header udp = {
        .src_port = PORT, .dst_port = ROCE_UDP_PORT, .len = ip.payload_len};
    uint8_t *at = bytes + MAC_LEN;
    struct icrc_flow flow;

    memset(bytes, mac, 12);
    store_be16(bytes + 12, 0x0800);
    at += ip_write(&ip, at);
    udp_write(&udp, at);
    at += UDP_LEN;
    icrc_flow_init(&flow, &near, &near);
    for (uint32_t i = 0; i < count; i++, at += PACKET_LEN) {
        const struct headers h = {.bth = {.opcode = OPCODE_RC_SEND_MIDDLE,
                                          .pkey = 0xffff,
                                          .dest_qpn = 0x11,
                                          .psn = psn_make(i)}};

        memset(at, 0x5a, PACKET_LEN);
        headers_write(&h, at);
        store_le32(at + PACKET_LEN - ICRC_LEN,
                   icrc_compute(&flow, PORT, (uint16_t)(covered + i), at, PACKET_LEN - ICRC_LEN));
    }
    return (struct frame){
        .link = LINK_TYPE_ETHERNET, .bytes = bytes, .captured_len = (uint32_t)(at - bytes)};
}

static void only_on_the_loopback_device_may_an_icrc_say_zero(void **state)
{
    static const struct {
        uint8_t mac;
        uint16_t identification, covered;
        enum frame_icrc icrc;
    } rows[] = {
        {0, 0, 0, FRAME_ICRC_GOOD},
        {0, 0x89de, 0, FRAME_ICRC_GOOD},
        {0, 0x89de, 0x89de, FRAME_ICRC_GOOD},
        {0, 0x89de, 1, FRAME_ICRC_BAD},
        {0x52, 0x89de, 0x89de, FRAME_ICRC_GOOD},
        {0x52, 0x89de, 0, FRAME_ICRC_BAD},
    };
    uint8_t bytes[2048];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct frame f = frame_of(bytes, rows[i].mac, 1, rows[i].identification, rows[i].covered);

        frame_decode(&f);
        assert_int_equal(f.verdict, FRAME_PACKET);
        assert_int_equal(f.icrc, rows[i].icrc);
    }
}

static void a_batch_on_the_loopback_device_is_taken_apart(void **state)
{
    uint8_t bytes[2048];
    struct frame f = frame_of(bytes, 0, 3, 0x89de, 0);

    (void)state;
    frame_decode(&f);
    assert_int_equal(f.segment_count, 3);
    do {
        assert_int_equal(f.icrc, FRAME_ICRC_GOOD);
        assert_int_equal(f.packet.h.bth.psn.value, f.segment_index);
    } while (frame_next_segment(&f));
}

static void a_datagram_longer_than_any_packet_has_no_icrc_to_look_at(void **state)
{
    static uint8_t bytes[65536];
    struct frame f = frame_of(bytes, 0, 64, 0x89de, 7);

    (void)state;
    frame_decode(&f);
    assert_int_equal(f.segment_count, 1);
    assert_int_equal(f.icrc, FRAME_ICRC_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_on_the_loopback_device_may_an_icrc_say_zero),
        cmocka_unit_test(a_batch_on_the_loopback_device_is_taken_apart),
        cmocka_unit_test(a_datagram_longer_than_any_packet_has_no_icrc_to_look_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
