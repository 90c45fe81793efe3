/* SPDX-License-Identifier: BSD-2-Clause */
/* Times, sizes and rates as a person says them: three digits and a unit. */
#ifndef UROCE_PCAP_QUANTITY_H
#define UROCE_PCAP_QUANTITY_H

#include <stdint.h>

struct quantity {
    char text[24];
};

/* "-" for 0, "12.3 us", "4.56 s". */
struct quantity quantity_time(uint64_t ns);

/* "0 B", "1.50 kB": powers of ten. */
struct quantity quantity_bytes(uint64_t bytes);

/* "9.41 Gbit/s" of so many bytes in so long; "-" when no time passed. */
struct quantity quantity_rate(uint64_t bytes, uint64_t ns);

#endif
