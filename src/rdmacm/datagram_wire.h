/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The two headers of datagram sockets, as the distribution's librdmacm has them (its document
 * "rsocket").
 *
 * Between UD queue pairs each datagram begins with its source:
 *
 *     0        1        2            4             8 (IPv4)               24 (IPv6)
 *     +--------+--------+------------+-------------+----------------------+
 *     | version| length | port       | IPv4 address, or flow and IPv6 address
 *     +--------+--------+------------+-------------+----------------------+
 *
 * Who does not know the peer's queue pair sends over UDP instead, and tells its own:
 *
 *     0                 4        5        6        7        8             12
 *     +-----------------+--------+--------+--------+--------+-------------+-----------------+
 *     | 0x55555555      | version| op     | length | 0      | QPN         | IPv4 or IPv6    |
 *     +-----------------+--------+--------+--------+--------+-------------+-----------------+
 *
 * in network order; version is that of IP, length that of the header.
 */
#ifndef UROCE_RDMACM_DATAGRAM_WIRE_H
#define UROCE_RDMACM_DATAGRAM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "rdmacm/address.h"

#define DATAGRAM_HEADER_MAX 24u
#define DATAGRAM_UDP_HEADER_MAX 28u
#define DATAGRAM_LEN_MAX                                                                           \
    2048u /* with its header, either way: the distribution's has no more room */

enum datagram_op {
    DATAGRAM_DATA = 0, /* data follows, and the sender wants to know our queue pair */
    DATAGRAM_TELLS = 7,
};

struct datagram_udp_header {
    enum datagram_op op;
    uint32_t qpn;
    struct endpoint local; /* of the sender; the port is not said */
};

/* Returns the header's length. */
size_t datagram_header_write(const struct endpoint *source, uint8_t out[DATAGRAM_HEADER_MAX]);
size_t datagram_udp_header_write(const struct datagram_udp_header *h,
                                 uint8_t out[DATAGRAM_UDP_HEADER_MAX]);

/* Returns the header's length, or 0: it is none. */
size_t datagram_header_read(const uint8_t *bytes, size_t len, struct endpoint *source);
size_t datagram_udp_header_read(const uint8_t *bytes, size_t len, struct datagram_udp_header *out);

#endif
