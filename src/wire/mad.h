/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The header that all management datagrams begin with (IBA 13.4.2), as they
 * travel to and from QP1, the general services interface: 256 bytes, the
 * first 24 of them this header.
 *
 *     +--------------+--------------+--------------+------------+
 *     | base version | class        | class version| R| method  |
 *     +--------------+--------------+--------------+------------+
 *     | status                      | class specific            |
 *     +-----------------------------+---------------------------+
 *     | transaction ID, 8 bytes                                 |
 *     +-----------------------------+---------------------------+
 *     | attribute ID                | reserved                  |
 *     +-----------------------------+---------------------------+
 *     | attribute modifier                                      |
 *     +---------------------------------------------------------+
 */
#ifndef UROCE_WIRE_MAD_H
#define UROCE_WIRE_MAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAD_LEN 256u
#define MAD_HEADER_LEN 24u
#define MAD_BASE_VERSION 1u
#define GSI_QPN 1u
#define GSI_QKEY 0x80010000u

enum mad_method {
    MAD_METHOD_GET = 1,
    MAD_METHOD_SET = 2,
    MAD_METHOD_SEND = 3,
    MAD_METHOD_GET_RESPONSE = 0x81,
};

/* Classes that a RoCE host may meet; the rest is told by number. */
enum mad_class {
    MAD_CLASS_SUBNET_ADMINISTRATION = 0x03,
    MAD_CLASS_PERFORMANCE = 0x04,
    MAD_CLASS_CM = 0x07,
};

#define MAD_STATUS_UNSUPPORTED_CLASS 0x0004u
#define MAD_STATUS_UNSUPPORTED_METHOD 0x0008u
#define MAD_STATUS_UNSUPPORTED_ATTRIBUTE 0x000cu

struct mad_header {
    uint8_t base_version;
    uint8_t mgmt_class;
    uint8_t class_version;
    uint8_t method; /* with the R bit, 0x80 */
    uint16_t status;
    uint16_t class_specific;
    uint64_t transaction_id;
    uint16_t attribute_id;
    uint32_t attribute_modifier;
};

/* Reads the header of bytes. Returns false, *out untouched, when len is not MAD_LEN. */
bool mad_read(const uint8_t *bytes, size_t len, struct mad_header *out);

/* Writes MAD_HEADER_LEN bytes. */
void mad_write(const struct mad_header *header, uint8_t *out);

#endif
