/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The frames of captures/vectors.md: traffic of real adapters and frames built
 * by other tools. The bytes are read from that file; what they must decode to
 * is written here, from the descriptions there and from tshark.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/packet.h"

#define ETHERNET_LEN 14u
#define LRH_LEN 8u
#define VCRC_LEN 2u
#define FRAME_LEN_MAX 1024
#define LINE_LEN_MAX (2 * FRAME_LEN_MAX)

enum framing {
    ROCE_V2,
    ROCE_V1,
    NATIVE_IB,
};

struct vector {
    const char *name;
    enum framing framing;
    const char *opcode;
    struct bth bth; /* without the opcode */
    uint32_t value; /* immediate, syndrome and MSN, R_Key or source QPN */
    uint32_t payload_len;
    uint32_t trailer; /* its bytes in the order of the wire */
};

/* clang-format off */
#define BTH(qpn, psn_, ...) {.pkey = 0xffff, .dest_qpn = (qpn), .psn = {(psn_)}, __VA_ARGS__}
#define M .mig_req = true
#define A .ack_req = true
#define PAD(n) .pad_count = (n)

static const struct vector vectors[] = {
    {"V1", ROCE_V2, "UC_SEND_ONLY", BTH(211, 0xcf1710, M, PAD(2)), 0, 18, 0x78f353f3},
    {"V2", ROCE_V2, "CNP", BTH(0xd2, 0, .becn = true), 0, 16, 0xdafc1bef},
    {"V3", ROCE_V2, "CNP", BTH(0x118, 0, .becn = true), 0, 16, 0x82fd002a},
    {"V4", ROCE_V1, "RC_WRITE_ONLY", BTH(0x10a, 0xa788bc, M, A, PAD(3)), 0x47b3, 5, 0xe3d856bb},
    {"V5", ROCE_V1, "RC_ACK", BTH(0x109, 0xa788c0, M), 0x00000005, 0, 0x25f0c038},
    {"V6", ROCE_V2, "UC_SEND_ONLY", BTH(211, 0xcf1710, M, PAD(2)), 0, 18, 0x3e5b743b},
    {"V7", ROCE_V2, "RC_SEND_ONLY_IMM", BTH(0x48, 0, M, A, PAD(3)), 1, 141, 0x72c340a7},
    {"V8", ROCE_V2, "RC_ACK", BTH(0x45, 0, M), 0x06000001, 0, 0x259cc216},
    {"V9", ROCE_V2, "RC_SEND_ONLY_IMM", BTH(0x45, 0x42, M, A), 0, 4, 0x3716801d},
    {"V10", ROCE_V2, "RC_SEND_LAST_IMM", BTH(0x45, 0x41, M, A, PAD(3)), 1, 473, 0x468ef300},
    {"V11", NATIVE_IB, "UD_SEND_ONLY", BTH(1, 0x2f19), 1, 256, 0x397ce862},
    {"V12", NATIVE_IB, "UD_SEND_ONLY", BTH(1, 0xef351), 1, 256, 0xd34885d7},
    {"V13", NATIVE_IB, "UD_SEND_ONLY", BTH(1, 0x2f1a), 1, 256, 0xf7bc8269},
    {"V14", NATIVE_IB, "RC_SEND_ONLY", BTH(0xfc0407, 0xd40a55, M, A), 0, 88, 0x0acca5df},
    {"V15", NATIVE_IB, "RC_ACK", BTH(0x870408, 0xd40a55, M), 0x1f000001, 0, 0xa8035550},
};
/* clang-format on */
#define VECTOR_COUNT (sizeof(vectors) / sizeof(vectors[0]))

/* A frame and where its parts begin. */
struct frame {
    uint8_t bytes[FRAME_LEN_MAX];
    size_t len;
    uint8_t *l3; /* none in native frames */
    size_t l3_len;
    uint8_t *transport;   /* the BTH */
    size_t transport_len; /* with the ICRC */
};

static struct frame frames[VECTOR_COUNT];
static const char *vectors_path;

static bool is_hex_line(const char *line)
{
    size_t digits = strspn(line, "0123456789abcdef");

    return digits >= 40 && (line[digits] == '\n' || line[digits] == '\0');
}

static void read_frame(const char *line, struct frame *f)
{
    unsigned byte;

    while (sscanf(line + 2 * f->len, "%2x", &byte) == 1)
        f->bytes[f->len++] = (uint8_t)byte;
}

static int read_vectors(void **state)
{
    FILE *file = fopen(vectors_path, "r");
    char line[LINE_LEN_MAX];
    size_t count = 0;

    (void)state;
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        if (is_hex_line(line)) {
            assert_true(count < VECTOR_COUNT);
            read_frame(line, &frames[count++]);
        }
    fclose(file);
    assert_int_equal(count, VECTOR_COUNT);
    return 0;
}

static void find_parts(const struct vector *v, struct frame *f)
{
    size_t before = LRH_LEN;
    size_t after = 0;

    switch (v->framing) {
    case ROCE_V2:
        f->l3 = f->bytes + ETHERNET_LEN;
        f->l3_len = f->l3[0] >> 4 == 4 ? IPV4_LEN : IPV6_LEN;
        before = ETHERNET_LEN + f->l3_len + UDP_LEN;
        break;
    case ROCE_V1:
        f->l3 = f->bytes + ETHERNET_LEN;
        f->l3_len = GRH_LEN;
        before = ETHERNET_LEN + GRH_LEN;
        break;
    case NATIVE_IB:
        after = VCRC_LEN;
        break;
    }
    f->transport = f->bytes + before;
    f->transport_len = f->len - before - after;
}

static uint32_t icrc_of(const struct vector *v, const struct frame *f)
{
    size_t covered = (size_t)(f->transport - f->bytes) + f->transport_len - ICRC_LEN;

    if (v->framing == NATIVE_IB)
        return icrc_of_ib(f->bytes, covered);
    return icrc_of_frame(f->l3, covered - ETHERNET_LEN, f->l3_len, v->framing == ROCE_V2);
}

/* The one header that the table of vectors has a column for. */
static uint32_t value_of(const struct headers *h)
{
    switch (opcode_headers(h->bth.opcode)) {
    case HEADER_IMM:
        return h->imm;
    case HEADER_AETH:
        return (uint32_t)h->aeth.syndrome << 24 | h->aeth.msn.value;
    case HEADER_RETH:
        return h->reth.rkey;
    case HEADER_DETH:
        return h->deth.src_qpn;
    default:
        return 0;
    }
}

static void each_vector_decodes_as_described(void **state)
{
    (void)state;
    for (size_t i = 0; i < VECTOR_COUNT; i++) {
        const struct vector *v = &vectors[i];
        struct packet p = {0};

        find_parts(v, &frames[i]);
        if (packet_parse(frames[i].transport, frames[i].transport_len, &p) != DROP_NONE)
            fail_msg("%s is refused", v->name);
        assert_string_equal(opcode_name(p.h.bth.opcode), v->opcode);
        assert_int_equal(p.h.bth.dest_qpn, v->bth.dest_qpn);
        assert_int_equal(p.h.bth.psn.value, v->bth.psn.value);
        assert_int_equal(p.h.bth.pkey, v->bth.pkey);
        assert_int_equal(p.h.bth.pad_count, v->bth.pad_count);
        assert_int_equal(p.h.bth.mig_req, v->bth.mig_req);
        assert_int_equal(p.h.bth.ack_req, v->bth.ack_req);
        assert_int_equal(p.h.bth.becn, v->bth.becn);
        assert_false(p.h.bth.fecn);
        assert_false(p.h.bth.solicited);
        assert_int_equal(value_of(&p.h), v->value);
        assert_int_equal(p.payload_len, v->payload_len);
    }
}

static void icrc_of_each_vector_is_right(void **state)
{
    (void)state;
    for (size_t i = 0; i < VECTOR_COUNT; i++) {
        const struct vector *v = &vectors[i];
        struct frame *f = &frames[i];
        uint8_t computed[ICRC_LEN];

        find_parts(v, f);
        store_le32(computed, icrc_of(v, f));
        if (load_be32(computed) != v->trailer)
            fail_msg("%s: 0x%08x", v->name, load_be32(computed));
        assert_memory_equal(computed, f->transport + f->transport_len - ICRC_LEN, ICRC_LEN);
    }
}

static enum icrc_verdict verify(const struct frame *f, uint16_t *identification)
{
    struct ip_header ip;
    struct udp_header udp;
    struct icrc_flow flow;

    assert_int_equal(ip_read(f->l3, f->len - ETHERNET_LEN, &ip), IP_FAULT_NONE);
    assert_int_equal(udp_read(f->l3 + f->l3_len, ip.payload_len, &udp), IP_FAULT_NONE);
    icrc_flow_init(&flow, &ip.src, &ip.dst);
    return icrc_verify(&flow, udp.src_port, 0, f->transport, f->transport_len, identification);
}

static void a_payload_verifies_without_its_ip_header(void **state)
{
    (void)state;
    for (size_t i = 0; i < VECTOR_COUNT; i++) {
        uint16_t identification = 1;
        struct ip_header ip;

        if (vectors[i].framing != ROCE_V2)
            continue;
        find_parts(&vectors[i], &frames[i]);
        assert_int_equal(ip_read(frames[i].l3, frames[i].len - ETHERNET_LEN, &ip), IP_FAULT_NONE);
        assert_int_equal(verify(&frames[i], &identification), ICRC_GOOD);
        assert_int_equal(identification, ip.identification);
    }
}

/* V2 was published with this trailer, and it does not match. */
static void the_published_trailer_of_a_cnp_is_found_wrong(void **state)
{
    const struct vector *v = &vectors[1];
    struct frame f = frames[1];

    (void)state;
    find_parts(v, &f);
    assert_int_not_equal(icrc_of(v, &f), 0x81ad2de4); /* e42dad81 on the wire */
}

static void reserved_bits_that_arrive_are_ignored_and_never_sent(void **state)
{
    struct frame *f = &frames[6]; /* V7 */
    uint8_t written[PACKET_HEADERS_MAX];
    struct packet p = {0};

    (void)state;
    find_parts(&vectors[6], f);
    assert_int_equal(f->transport[4], 0x10);
    assert_int_equal(packet_parse(f->transport, f->transport_len, &p), DROP_NONE);
    headers_write(&p.h, written);
    assert_int_equal(written[4], 0);
    written[4] = 0x10;
    assert_memory_equal(written, f->transport, p.headers_len);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_vector_decodes_as_described),
        cmocka_unit_test(icrc_of_each_vector_is_right),
        cmocka_unit_test(a_payload_verifies_without_its_ip_header),
        cmocka_unit_test(the_published_trailer_of_a_cnp_is_found_wrong),
        cmocka_unit_test(reserved_bits_that_arrive_are_ignored_and_never_sent),
    };

    if (argc != 2) {
        fprintf(stderr, "usage: %s VECTORS.md\n", argv[0]);
        return 2;
    }
    vectors_path = argv[1];
    return cmocka_run_group_tests(tests, read_vectors, NULL);
}
