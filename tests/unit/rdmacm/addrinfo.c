/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_getaddrinfo in all its forms. What is expected was measured with librdmacm 44.0 of Debian
 * 12, in a namespace with the loopback interface up; the one form that differs says so.
 */
#include "sides.h"

#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>

#define HOST "127.0.0.1"
#define SERVICE "7174"
#define SRC "127.0.0.2"
#define DST "127.0.0.3"

enum brings { NOTHING, A_SOURCE, A_DESTINATION, BOTH };

struct form {
    const char *node, *service;
    struct {
        int flags, family, qp_type, port_space;
        enum brings brings;
    } hints;
    int error; /* of getaddrinfo; the rest if 0 */
    struct {
        int flags, family, qp_type, port_space;
        const char *src, *dst;
    } found;
};

#define RC IBV_QPT_RC
#define UC IBV_QPT_UC
#define UD IBV_QPT_UD
#define XRC IBV_QPT_XRC_SEND
#define TGT IBV_QPT_XRC_RECV
#define TCP RDMA_PS_TCP
#define UDP RDMA_PS_UDP
#define IB RDMA_PS_IB
#define IPOIB RDMA_PS_IPOIB
#define ALL_FLAGS (RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY)
#define TO_HOST(qp_type, port_space)                                                               \
    {                                                                                              \
        0, AF_INET, qp_type, port_space, NULL, HOST ":" SERVICE                                    \
    }
#define AT_HOST(port)                                                                              \
    {                                                                                              \
        RAI_PASSIVE, AF_INET, RC, TCP, HOST ":" port, NULL                                         \
    }

/* clang-format off */
static const struct form forms[] = {
    /* names, flags and families */
    {HOST, SERVICE, {0}, 0, TO_HOST(RC, TCP)},
    {HOST, NULL, {0}, 0, {0, AF_INET, RC, TCP, NULL, HOST ":0"}},
    {NULL, SERVICE, {0}, 0, {0, AF_INET6, RC, TCP, NULL, "::1:" SERVICE}},
    {"::1", SERVICE, {0}, 0, {0, AF_INET6, RC, TCP, NULL, "::1:" SERVICE}},
    {HOST, SERVICE, {RAI_PASSIVE, 0, 0, 0, NOTHING}, 0, AT_HOST(SERVICE)},
    {NULL, SERVICE, {RAI_PASSIVE, 0, 0, 0, NOTHING}, 0, {RAI_PASSIVE, AF_INET, RC, TCP, "0.0.0.0:" SERVICE, NULL}},
    {HOST, SERVICE, {RAI_NUMERICHOST, 0, 0, 0, NOTHING}, 0, TO_HOST(RC, TCP)},
    {"no.such.host", SERVICE, {RAI_NUMERICHOST, 0, 0, 0, NOTHING}, EAI_NONAME, {0}},
    {HOST, SERVICE, {RAI_NOROUTE, 0, 0, 0, NOTHING}, 0, TO_HOST(RC, TCP)},
    {HOST, SERVICE, {ALL_FLAGS, AF_INET, 0, 0, NOTHING}, 0, AT_HOST(SERVICE)},
    {HOST, SERVICE, {0x100, 0, 0, 0, NOTHING}, 0, TO_HOST(RC, TCP)},
    {HOST, SERVICE, {RAI_FAMILY, AF_INET, 0, 0, NOTHING}, 0, TO_HOST(RC, TCP)},
    {HOST, SERVICE, {RAI_FAMILY, 0, 0, 0, NOTHING}, 0, TO_HOST(RC, TCP)},
    {HOST, SERVICE, {RAI_FAMILY | RAI_NUMERICHOST, AF_INET6, 0, 0, NOTHING}, EAI_ADDRFAMILY, {0}},
    {HOST, SERVICE, {RAI_NUMERICHOST, AF_INET6, 0, 0, NOTHING}, EAI_ADDRFAMILY, {0}},
    {"::1", SERVICE, {RAI_NUMERICHOST, AF_INET, 0, 0, NOTHING}, EAI_ADDRFAMILY, {0}},
    {NULL, SERVICE, {RAI_PASSIVE | RAI_FAMILY, AF_INET6, 0, 0, NOTHING}, 0, {RAI_PASSIVE, AF_INET6, RC, TCP, ":::" SERVICE, NULL}},
    {NULL, SERVICE, {RAI_PASSIVE, AF_INET6, 0, 0, NOTHING}, 0, {RAI_PASSIVE, AF_INET6, RC, TCP, ":::" SERVICE, NULL}},
    {HOST, SERVICE, {RAI_FAMILY, AF_UNIX, 0, 0, NOTHING}, EAI_FAMILY, {0}},
    {HOST, "no-such-service", {0}, EAI_SERVICE, {0}},
    {HOST, "no-such-service", {0, 0, UD, 0, NOTHING}, EAI_SERVICE, {0}},
    /* AF_IB is of a host's name only */
    {NULL, SERVICE, {RAI_PASSIVE | RAI_FAMILY, AF_IB, 0, 0, NOTHING}, 0, {RAI_PASSIVE, AF_INET, RC, TCP, "0.0.0.0:" SERVICE, NULL}},
    {HOST, SERVICE, {0, AF_IB, 0, 0, NOTHING}, 0, TO_HOST(RC, TCP)},
    {"fe80::1", SERVICE, {RAI_FAMILY | RAI_NUMERICHOST, AF_IB, 0, 0, NOTHING}, EAI_FAMILY, {0}}, /* theirs: a sockaddr_ib */
    /* queue pairs and port spaces */
    {HOST, SERVICE, {0, 0, 0, TCP, NOTHING}, 0, TO_HOST(RC, TCP)},
    {HOST, SERVICE, {0, 0, 0, UDP, NOTHING}, 0, TO_HOST(UD, UDP)},
    {HOST, SERVICE, {0, 0, 0, IB, NOTHING}, 0, TO_HOST(RC, IB)},
    {HOST, SERVICE, {0, 0, 0, IPOIB, NOTHING}, 0, TO_HOST(UD, IPOIB)},
    {HOST, SERVICE, {0, 0, 0, 0x7777, NOTHING}, 0, TO_HOST(RC, 0x7777)},
    {HOST, SERVICE, {0, 0, RC, 0, NOTHING}, 0, TO_HOST(RC, TCP)},
    {HOST, SERVICE, {0, 0, UD, 0, NOTHING}, 0, TO_HOST(UD, UDP)},
    {HOST, SERVICE, {0, 0, UC, 0, NOTHING}, 0, TO_HOST(UC, TCP)},
    {HOST, SERVICE, {0, 0, XRC, 0, NOTHING}, 0, TO_HOST(XRC, TCP)},
    {HOST, SERVICE, {0, 0, TGT, 0, NOTHING}, 0, TO_HOST(TGT, TCP)},
    {HOST, SERVICE, {0, 0, 99, 0, NOTHING}, 0, TO_HOST(99, TCP)},
    {HOST, SERVICE, {0, 0, 99, UDP, NOTHING}, 0, TO_HOST(99, UDP)},
    {HOST, SERVICE, {0, 0, RC, TCP, NOTHING}, 0, TO_HOST(RC, TCP)},
    {HOST, SERVICE, {0, 0, UC, TCP, NOTHING}, 0, TO_HOST(UC, TCP)},
    {HOST, SERVICE, {0, 0, XRC, TCP, NOTHING}, 0, TO_HOST(XRC, TCP)},
    {HOST, SERVICE, {0, 0, UD, UDP, NOTHING}, 0, TO_HOST(UD, UDP)},
    {HOST, SERVICE, {0, 0, UD, IPOIB, NOTHING}, 0, TO_HOST(UD, IPOIB)},
    {HOST, SERVICE, {0, 0, RC, IB, NOTHING}, 0, TO_HOST(RC, IB)},
    {HOST, SERVICE, {0, 0, UD, IB, NOTHING}, 0, TO_HOST(UD, IB)},
    {HOST, SERVICE, {0, 0, UD, 0x7777, NOTHING}, 0, TO_HOST(UD, 0x7777)},
    {HOST, SERVICE, {0, 0, RC, UDP, NOTHING}, EAI_SOCKTYPE, {0}},
    {HOST, SERVICE, {0, 0, UC, UDP, NOTHING}, EAI_SOCKTYPE, {0}},
    {HOST, SERVICE, {0, 0, XRC, UDP, NOTHING}, EAI_SOCKTYPE, {0}},
    {HOST, SERVICE, {0, 0, RC, IPOIB, NOTHING}, EAI_SOCKTYPE, {0}},
    {HOST, SERVICE, {0, 0, UD, TCP, NOTHING}, EAI_SOCKTYPE, {0}},
    /* addresses in the hints */
    {HOST, SERVICE, {0, 0, 0, 0, A_SOURCE}, 0, {0, AF_INET, RC, TCP, SRC ":5", HOST ":" SERVICE}},
    {HOST, SERVICE, {0, 0, 0, 0, A_DESTINATION}, 0, TO_HOST(RC, TCP)},
    {HOST, SERVICE, {RAI_PASSIVE, 0, 0, 0, A_SOURCE}, 0, AT_HOST(SERVICE)},
    {HOST, SERVICE, {RAI_PASSIVE, 0, 0, 0, A_DESTINATION}, 0, AT_HOST(SERVICE)},
    {NULL, SERVICE, {0, 0, 0, 0, A_SOURCE}, 0, {0, AF_INET6, RC, TCP, SRC ":5", "::1:" SERVICE}},
    /* hints and no name: nothing is looked up, and what was said is the answer */
    {NULL, NULL, {0}, 0, {0}},
    {NULL, NULL, {RAI_NUMERICHOST | RAI_PASSIVE, AF_INET6, 0, 0, NOTHING}, 0, {RAI_NUMERICHOST | RAI_PASSIVE, AF_INET6, 0, 0, NULL, NULL}},
    {NULL, NULL, {0, AF_IB, 0, 0, NOTHING}, 0, {0, AF_IB, 0, 0, NULL, NULL}},
    {NULL, NULL, {0, 0, 0, 0, A_SOURCE}, 0, {0, 0, 0, 0, SRC ":5", NULL}},
    {NULL, NULL, {0, 0, 0, 0, A_DESTINATION}, 0, {0, 0, 0, 0, NULL, DST ":6"}},
    {NULL, NULL, {RAI_PASSIVE, 0, 0, 0, BOTH}, 0, {RAI_PASSIVE, 0, 0, 0, SRC ":5", DST ":6"}},
    {NULL, NULL, {0, 0, UD, 0, BOTH}, 0, {0, 0, UD, 0, SRC ":5", DST ":6"}},
    {NULL, NULL, {0, 0, UD, TCP, BOTH}, 0, {0, 0, UD, TCP, SRC ":5", DST ":6"}},
};
/* clang-format on */

static struct sockaddr_in address_of(const char *text, uint16_t port)
{
    struct sockaddr_in address = loopback(port);

    assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
    return address;
}

static void expect_address(const struct sockaddr *address, socklen_t len, const char *expected)
{
    char text[INET6_ADDRSTRLEN], with_port[INET6_ADDRSTRLEN + 8];
    const struct sockaddr_in *in = (const struct sockaddr_in *)(const void *)address;
    const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)(const void *)address;

    if (expected == NULL) {
        assert_null(address);
        assert_int_equal(len, 0);
        return;
    }
    assert_non_null(address);
    assert_int_equal(len, address->sa_family == AF_INET ? sizeof(*in) : sizeof(*in6));
    if (address->sa_family == AF_INET)
        inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
    else
        inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
    snprintf(with_port, sizeof(with_port), "%s:%u", text, ntohs(in->sin_port));
    assert_string_equal(with_port, expected);
}

static void expect_form(const struct form *f)
{
    struct sockaddr_in src = address_of(SRC, 5);
    struct sockaddr_in dst = address_of(DST, 6);
    const bool has_src = f->hints.brings == A_SOURCE || f->hints.brings == BOTH;
    const bool has_dst = f->hints.brings == A_DESTINATION || f->hints.brings == BOTH;
    const struct rdma_addrinfo hints = {
        .ai_flags = f->hints.flags,
        .ai_family = f->hints.family,
        .ai_qp_type = f->hints.qp_type,
        .ai_port_space = f->hints.port_space,
        .ai_src_addr = has_src ? (struct sockaddr *)&src : NULL,
        .ai_src_len = has_src ? sizeof(src) : 0,
        .ai_dst_addr = has_dst ? (struct sockaddr *)&dst : NULL,
        .ai_dst_len = has_dst ? sizeof(dst) : 0,
    };
    struct rdma_addrinfo *found;

    assert_int_equal(rdma_getaddrinfo(f->node, f->service, &hints, &found), f->error);
    if (f->error != 0)
        return;
    assert_int_equal(found->ai_flags, f->found.flags);
    assert_int_equal(found->ai_family, f->found.family);
    assert_int_equal(found->ai_qp_type, f->found.qp_type);
    assert_int_equal(found->ai_port_space, f->found.port_space);
    expect_address(found->ai_src_addr, found->ai_src_len, f->found.src);
    expect_address(found->ai_dst_addr, found->ai_dst_len, f->found.dst);
    assert_null(found->ai_next);
    rdma_freeaddrinfo(found);
}

static void each_form_is_answered_as_by_the_distributions_library(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        print_message("form %zu\n", i);
        expect_form(&forms[i]);
    }
}

static void hints_may_be_left_out_beside_a_name_only(void **state)
{
    struct rdma_addrinfo *found;

    (void)state;
    assert_int_equal(rdma_getaddrinfo(NULL, NULL, NULL, &found), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(rdma_getaddrinfo(HOST, SERVICE, NULL, &found), 0);
    assert_int_equal(found->ai_qp_type, RC);
    assert_int_equal(found->ai_port_space, TCP);
    expect_address(found->ai_dst_addr, found->ai_dst_len, HOST ":" SERVICE);
    rdma_freeaddrinfo(found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_form_is_answered_as_by_the_distributions_library),
        cmocka_unit_test(hints_may_be_left_out_beside_a_name_only),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
