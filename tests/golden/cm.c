/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every management datagram that two kernels exchanged: read, and written
 * again, it is the same 256 bytes. Facts of captures/README.md hold in what
 * was read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <glob.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <string.h>

#include "wire/cm.h"
#include "wire/ip.h"
#include "wire/packet.h"

#define ETHERNET_LEN 14u

static const char *captures_dir;

struct seen {
    unsigned counts[CM_KIND_COUNT];
    unsigned messages;
};

/* The MAD of a frame, or NULL. */
static const uint8_t *frame_mad(const uint8_t *frame, size_t len)
{
    struct packet packet;
    struct ip_header ip;
    const uint8_t *bth;

    assert_int_equal(ip_read(frame + ETHERNET_LEN, len - ETHERNET_LEN, &ip), IP_FAULT_NONE);
    bth = frame + ETHERNET_LEN + ip.header_len + UDP_LEN;
    assert_int_equal(packet_parse(bth, ip.payload_len - UDP_LEN, &packet), DROP_NONE);
    return packet.h.bth.dest_qpn == GSI_QPN ? packet.payload : NULL;
}

static void check_request(const struct cm_message *m)
{
    struct cm_ip_header ip;

    assert_int_equal(m->remote_response_timeout, 20);
    assert_int_equal(m->local_response_timeout, 20);
    assert_int_equal(m->max_cm_retries, 15);
    assert_int_equal(m->path_mtu, 5);
    assert_int_equal(m->pkey, 0xffff);
    assert_int_equal(m->primary.local_lid, 0xffff);
    assert_int_equal(m->primary.hop_limit, 64);
    assert_int_equal(m->primary.ack_timeout, 19);
    assert_int_not_equal(m->primary.flow_label, 0);
    assert_int_equal(m->primary.packet_rate, 0);
    assert_int_equal(m->service_id >> 16, CM_PORT_SPACE_TCP);
    assert_true(cm_ip_header_read(m->private_data, &ip));
    assert_memory_equal(ip.dst + 12, m->primary.remote_gid + 12, 4);
    assert_memory_equal(ip.src + 12, m->primary.local_gid + 12, 4);
    assert_int_equal(ip.ip_version, m->primary.local_gid[0] == 0xfd ? 6 : 4);
}

static void check_message(const char *file, const uint8_t *mad, struct seen *seen)
{
    struct cm_message message;
    uint8_t written[MAD_LEN];

    assert_int_equal(cm_read(mad, MAD_LEN, &message), 0);
    cm_write(&message, written);
    assert_memory_equal(written, mad, MAD_LEN);
    seen->counts[message.kind]++;
    seen->messages++;
    if (message.kind == CM_REQ)
        check_request(&message);
    if (message.kind == CM_REP)
        assert_int_equal(message.target_ack_delay, 15);
    if (message.kind == CM_REJ && strstr(file, "no_listener") != NULL)
        assert_int_equal(message.reason, CM_REASON_INVALID_SERVICE_ID);
    if (message.kind == CM_REJ && strstr(file, "cm_timeout") != NULL)
        assert_true(message.reason == CM_REASON_TIMEOUT ||
                    message.reason == CM_REASON_INVALID_SERVICE_ID);
    if (message.kind == CM_SIDR_REP && message.status == CM_SIDR_OK)
        assert_int_equal(message.qkey, 0x01234567);
    if (message.kind == CM_SIDR_REQ)
        assert_int_equal(message.service_id >> 16, CM_PORT_SPACE_UDP);
}

static void check_file(const char *path, struct seen *seen)
{
    char error[PCAP_ERRBUF_SIZE];
    struct pcap_pkthdr *header;
    const uint8_t *bytes;
    pcap_t *pcap = pcap_open_offline(path, error);

    if (pcap == NULL)
        fail_msg("%s", error);
    while (pcap_next_ex(pcap, &header, &bytes) == 1) {
        const uint8_t *mad = frame_mad(bytes, header->caplen);

        if (mad != NULL)
            check_message(path, mad, seen);
    }
    pcap_close(pcap);
}

static void every_message_is_written_as_it_was_read(void **state)
{
    struct seen seen = {0};
    char pattern[1024];
    glob_t files;

    (void)state;
    snprintf(pattern, sizeof(pattern), "%s/*.pcap", captures_dir);
    assert_int_equal(glob(pattern, 0, NULL, &files), 0);
    for (size_t i = 0; i < files.gl_pathc; i++)
        check_file(files.gl_pathv[i], &seen);
    globfree(&files);
    assert_true(seen.messages >= 100);
    assert_true(seen.counts[CM_REQ] >= 20);
    assert_true(seen.counts[CM_REP] >= 15);
    assert_true(seen.counts[CM_REJ] >= 3);
    assert_true(seen.counts[CM_RTU] >= 15);
    assert_true(seen.counts[CM_DREQ] >= 15);
    assert_true(seen.counts[CM_DREP] >= 15);
    assert_true(seen.counts[CM_SIDR_REQ] >= 2);
    assert_true(seen.counts[CM_SIDR_REP] >= 2);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_is_written_as_it_was_read),
    };

    if (argc != 2) {
        fprintf(stderr, "usage: %s CAPTURES\n", argv[0]);
        return 2;
    }
    captures_dir = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
