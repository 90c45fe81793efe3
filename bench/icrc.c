/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What does the ICRC of a packet cost, and is verifying without the IP header
 * dearer? Nanoseconds a packet, beside a copy of the same bytes. Each figure is the best of
 * several runs: the question is the cost of the code, not of its neighbours.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define RUNS 20
#define PACKETS 20000
#define SRC_PORT 0xc123
#define IDENTIFICATION 7
#define LEN_MAX 4136u

static uint8_t packet[LEN_MAX];
static uint8_t copy[LEN_MAX];
static struct icrc_flow flow;
static volatile uint32_t sink; /* so that no work is left out */

static uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void compute(size_t len)
{
    sink = icrc_compute(&flow, SRC_PORT, IDENTIFICATION, packet, len - ICRC_LEN);
}

static void verify_with_hint(size_t len)
{
    uint16_t identification;

    sink = icrc_verify(&flow, SRC_PORT, IDENTIFICATION, packet, len, &identification);
}

static void verify_without_hint(size_t len)
{
    uint16_t identification;

    sink = icrc_verify(&flow, SRC_PORT, IDENTIFICATION + 1, packet, len, &identification);
}

static void copy_packet(size_t len)
{
    memcpy(copy, packet, len);
    __asm__ volatile("" : : "r"(copy) : "memory");
}

static double best_ns(void (*work)(size_t), size_t len)
{
    double best = 1e9;

    for (int run = 0; run < RUNS; run++) {
        uint64_t start = now_ns();
        double each;

        for (int i = 0; i < PACKETS; i++)
            work(len);
        each = (double)(now_ns() - start) / PACKETS;
        best = each < best ? each : best;
    }
    return best;
}

static void measure(const char *family, size_t len)
{
    double computed;
    double copied;

    store_le32(packet + len - ICRC_LEN,
               icrc_compute(&flow, SRC_PORT, IDENTIFICATION, packet, len - ICRC_LEN));
    computed = best_ns(compute, len);
    copied = best_ns(copy_packet, len);
    printf("%-5s %5zu  %8.1f  %8.1f  %8.1f  %8.1f  %6.1f\n", family, len, computed,
           best_ns(verify_with_hint, len), best_ns(verify_without_hint, len), copied,
           computed / copied);
}

int main(void)
{
    static const size_t lens[] = {20, 40, 1064, LEN_MAX};
    static const struct gid ipv4[2] = {{{[10] = 0xff, 0xff, 10, 0, 0, 1}},
                                       {{[10] = 0xff, 0xff, 10, 0, 0, 2}}};
    static const struct gid ipv6[2] = {{{0xfd, [15] = 1}}, {{0xfd, [15] = 2}}};

    for (size_t i = 0; i < sizeof(packet); i++)
        packet[i] = (uint8_t)(i * 131u);
    printf("ns a packet: bytes from the BTH to the ICRC\n"
           "      bytes   compute  verify,   verify,    memcpy  compute\n"
           "                       ID known  ID solved          / memcpy\n");
    icrc_flow_init(&flow, &ipv4[0], &ipv4[1]);
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
        measure("IPv4", lens[i]);
    icrc_flow_init(&flow, &ipv6[0], &ipv6[1]);
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++)
        measure("IPv6", lens[i]);
    return 0;
}
