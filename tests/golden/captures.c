/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every frame of every capture in captures/: real traffic between two kernels.
 * What the wire layer makes of it is compared with the bytes themselves and
 * with the table of captures/README.md, which tshark counted.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/packet.h"

#define ETHERNET_LEN 14u
#define ROW_LEN_MAX 4096
#define CAPTURES_MIN 104 /* so that an empty folder does not pass */
#define FRAMES_MIN 3971

static const char *captures_dir;

/* A captured frame, taken apart as far as the UDP payload. */
struct frame {
    const char *file;
    unsigned number;
    const uint8_t *l3;
    struct ip_header ip;
    struct udp_header udp;
    const uint8_t *payload; /* BTH to ICRC */
    size_t payload_len;
    uint32_t trailer;
};

#define expect(frame, condition)                                                                   \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("%s, frame %u: not true: %s", (frame)->file, (frame)->number, #condition);    \
    } while (0)

static void dissect(const uint8_t *bytes, size_t len, struct frame *f)
{
    const uint8_t *udp;

    expect(f, len > ETHERNET_LEN);
    f->l3 = bytes + ETHERNET_LEN;
    expect(f, ip_read(f->l3, len - ETHERNET_LEN, &f->ip) == IP_FAULT_NONE);
    expect(f, f->ip.protocol == IP_PROTOCOL_UDP);
    expect(f, f->ip.checksum_good);
    udp = f->l3 + f->ip.header_len;
    expect(f, udp_read(udp, f->ip.payload_len, &f->udp) == IP_FAULT_NONE);
    expect(f, f->udp.dst_port == ROCE_UDP_PORT);
    expect(f, f->udp.len == f->ip.payload_len);
    f->payload = udp + UDP_LEN;
    f->payload_len = f->udp.len - UDP_LEN;
    expect(f, f->payload_len >= BTH_LEN + ICRC_LEN);
    f->trailer = load_le32(f->payload + f->payload_len - ICRC_LEN);
}

static unsigned for_each_frame(const char *file, void (*visit)(const struct frame *, void *),
                               void *context)
{
    char path[1024];
    char error[PCAP_ERRBUF_SIZE];
    struct pcap_pkthdr *header;
    const uint8_t *bytes;
    struct frame f = {.file = file};
    pcap_t *pcap;

    snprintf(path, sizeof(path), "%s/%s", captures_dir, file);
    pcap = pcap_open_offline(path, error);
    if (pcap == NULL)
        fail_msg("%s", error);
    assert_int_equal(pcap_datalink(pcap), DLT_EN10MB);
    while (pcap_next_ex(pcap, &header, &bytes) == 1) {
        f.number++;
        expect(&f, header->caplen == header->len);
        dissect(bytes, header->caplen, &f);
        visit(&f, context);
    }
    pcap_close(pcap);
    return f.number;
}

static void for_each_capture(void (*visit)(const struct frame *, void *), void *context)
{
    unsigned captures = 0;
    unsigned frames = 0;
    DIR *dir = opendir(captures_dir);
    struct dirent *entry;

    assert_non_null(dir);
    while ((entry = readdir(dir)) != NULL) {
        const char *dot = strrchr(entry->d_name, '.');

        if (dot != NULL && strcmp(dot, ".pcap") == 0) {
            frames += for_each_frame(entry->d_name, visit, context);
            captures++;
        }
    }
    closedir(dir);
    assert_true(captures >= CAPTURES_MIN);
    assert_true(frames >= FRAMES_MIN);
}

static void check_icrc_of_frame(const struct frame *f, void *context)
{
    size_t covered = f->ip.header_len + f->udp.len - ICRC_LEN;

    (void)context;
    expect(f, icrc_of_frame(f->l3, covered, f->ip.header_len, true) == f->trailer);
}

static void icrc_of_every_whole_frame_is_right(void **state)
{
    (void)state;
    for_each_capture(check_icrc_of_frame, NULL);
}

static void check_icrc_of_payload(const struct frame *f, void *context)
{
    const uint16_t own = f->ip.identification; /* 0 for IPv6 */
    const uint16_t foreign = own ^ 0xa5c3;
    uint16_t identification = 1;
    struct icrc_flow flow;

    (void)context;
    icrc_flow_init(&flow, &f->ip.src, &f->ip.dst);
    expect(f, icrc_compute(&flow, f->udp.src_port, own, f->payload, f->payload_len - ICRC_LEN) ==
                  f->trailer);
    expect(f, icrc_verify(&flow, f->udp.src_port, own, f->payload, f->payload_len,
                          &identification) == ICRC_GOOD);
    expect(f, identification == own);
    identification = 1;
    expect(f, icrc_verify(&flow, f->udp.src_port, foreign, f->payload, f->payload_len,
                          &identification) == ICRC_GOOD);
    expect(f, identification == own);
}

static void icrc_of_every_payload_is_right_and_tells_the_identification(void **state)
{
    (void)state;
    for_each_capture(check_icrc_of_payload, NULL);
}

/* One damaged bit a frame, a different one each time, all parts of the payload in turn. */
static void check_damage(const struct frame *f, void *context)
{
    size_t *turn = context;
    size_t bit = (*turn += 7919) % (f->payload_len * 8);
    uint8_t *damaged = malloc(f->payload_len);
    struct icrc_flow flow;
    uint16_t identification;
    bool masked = bit / 8 == 4; /* FECN, BECN and reserved bits are not covered */

    assert_non_null(damaged);
    memcpy(damaged, f->payload, f->payload_len);
    damaged[bit / 8] ^= (uint8_t)(1u << bit % 8);
    icrc_flow_init(&flow, &f->ip.src, &f->ip.dst);
    expect(f, icrc_verify(&flow, f->udp.src_port, f->ip.identification, damaged, f->payload_len,
                          &identification) == (masked ? ICRC_GOOD : ICRC_BAD));
    free(damaged);
}

static void icrc_of_every_damaged_payload_is_bad(void **state)
{
    size_t turn = 0;

    (void)state;
    for_each_capture(check_damage, &turn);
}

static void check_round_trip(const struct frame *f, void *context)
{
    struct packet packet = {0};
    uint8_t headers[PACKET_HEADERS_MAX];
    uint8_t l3[IPV6_LEN];
    size_t len;

    (void)context;
    expect(f, packet_parse(f->payload, f->payload_len, &packet) == DROP_NONE);
    len = headers_write(&packet.h, headers);
    expect(f, len == packet.headers_len);
    expect(f, memcmp(headers, f->payload, len) == 0);
    expect(f, len + packet.payload_len + packet.h.bth.pad_count + ICRC_LEN == f->payload_len);
    len = ip_write(&f->ip, l3);
    expect(f, len == f->ip.header_len);
    expect(f, memcmp(l3, f->l3, len) == 0);
}

static void every_header_is_written_as_it_was_read(void **state)
{
    (void)state;
    for_each_capture(check_round_trip, NULL);
}

/* RC and UC: the port comes from both QPNs or the flow label; only UD and QP1 show it by the QPN
 * alone. */
static void check_ud_port(const struct frame *f, void *context)
{
    struct packet packet = {0};

    (void)context;
    expect(f, packet_parse(f->payload, f->payload_len, &packet) == DROP_NONE);
    if (opcode_service(packet.h.bth.opcode) == SERVICE_UD)
        expect(f, roce_src_port_ud(packet.h.deth.src_qpn) == f->udp.src_port);
}

static void source_ports_of_datagrams_follow_from_the_qpn(void **state)
{
    (void)state;
    for_each_capture(check_ud_port, NULL);
}

static void count_opcode(const struct frame *f, void *context)
{
    unsigned *counts = context;

    counts[f->payload[0]]++;
}

/* "25: UD_SEND_ONLY 20, RC_ACK 5; CM: ..." as in the last column of the table. */
static void check_counts(const char *file, char *column, unsigned *counts)
{
    char *list = strchr(column, ':');
    char *end;

    assert_non_null(list);
    list++;
    end = strchr(list, ';');
    if (end != NULL)
        *end = '\0';
    for (char *save = NULL, *item = strtok_r(list, ",|", &save); item != NULL;
         item = strtok_r(NULL, ",|", &save)) {
        char name[64];
        unsigned count;
        unsigned opcode = 0;

        if (sscanf(item, " %63s %u", name, &count) != 2)
            continue;
        while (opcode < 256 && strcmp(opcode_name((uint8_t)opcode), name) != 0)
            opcode++;
        if (opcode == 256)
            fail_msg("%s: tshark saw %s, which has no such name here", file, name);
        if (counts[opcode] != count)
            fail_msg("%s: %s %u, tshark counts %u", file, name, counts[opcode], count);
        counts[opcode] = 0;
    }
    for (unsigned opcode = 0; opcode < 256; opcode++)
        if (counts[opcode] != 0)
            fail_msg("%s: %s, not seen by tshark", file, opcode_name((uint8_t)opcode));
}

static void opcodes_are_those_that_tshark_counted(void **state)
{
    char path[1024];
    char row[ROW_LEN_MAX];
    char file[128];
    unsigned rows = 0;
    FILE *readme;

    (void)state;
    snprintf(path, sizeof(path), "%s/README.md", captures_dir);
    readme = fopen(path, "r");
    assert_non_null(readme);
    while (fgets(row, sizeof(row), readme) != NULL) {
        unsigned counts[256] = {0};
        char *end = strrchr(row, '|');
        char *column;

        if (sscanf(row, "| %127s |", file) != 1 || strstr(file, ".pcap") == NULL || end == NULL)
            continue;
        *end = '\0';
        column = strrchr(row, '|');
        assert_non_null(column);
        for_each_frame(file, count_opcode, counts);
        check_counts(file, column + 1, counts);
        rows++;
    }
    fclose(readme);
    assert_true(rows >= CAPTURES_MIN);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(icrc_of_every_whole_frame_is_right),
        cmocka_unit_test(icrc_of_every_payload_is_right_and_tells_the_identification),
        cmocka_unit_test(icrc_of_every_damaged_payload_is_bad),
        cmocka_unit_test(every_header_is_written_as_it_was_read),
        cmocka_unit_test(source_ports_of_datagrams_follow_from_the_qpn),
        cmocka_unit_test(opcodes_are_those_that_tshark_counted),
    };

    if (argc != 2) {
        fprintf(stderr, "usage: %s CAPTURES\n", argv[0]);
        return 2;
    }
    captures_dir = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
