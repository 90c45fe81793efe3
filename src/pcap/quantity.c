/* SPDX-License-Identifier: BSD-2-Clause */
#include "pcap/quantity.h"

#include <inttypes.h>
#include <stdio.h>

/* The value in the largest of the units, a thousand apart, in which it is at least 1. */
static struct quantity scaled(double value, const char *const *units, unsigned count)
{
    struct quantity q;
    unsigned unit = 0;

    while (unit + 1 < count && value >= 999.5) {
        value /= 1000;
        unit++;
    }
    snprintf(q.text, sizeof(q.text), "%.*f %s",
             value < 9.995   ? 2
             : value < 99.95 ? 1
                             : 0,
             value, units[unit]);
    return q;
}

struct quantity quantity_time(uint64_t ns)
{
    static const char *const units[] = {"ns", "us", "ms", "s"};

    if (ns == 0)
        return (struct quantity){"-"};
    return scaled((double)ns, units, 4);
}

struct quantity quantity_bytes(uint64_t bytes)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB", "EB"};
    struct quantity q;

    if (bytes >= 1000)
        return scaled((double)bytes, units, 7);
    snprintf(q.text, sizeof(q.text), "%" PRIu64 " B", bytes);
    return q;
}

struct quantity quantity_rate(uint64_t bytes, uint64_t ns)
{
    static const char *const units[] = {"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"};

    if (ns == 0)
        return (struct quantity){"-"};
    return scaled((double)bytes * 8e9 / (double)ns, units, 5);
}
