/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What two stream sockets say to each other, in bytes. It is the protocol of the distribution's
 * librdmacm (its document "rsocket"), so that either end may be that one.
 *
 * When they connect, each tells the other where it may write (the private data of REQ and REP):
 *
 *     0        1      2            4               7            8                24
 *     +--------+------+------------+---------------+------------+----------------+-------------+
 *     | version| flags| credits    | reserved      | io maps    | window         | buffer      |
 *     +--------+------+------------+---------------+------------+----------------+-------------+
 *
 * in network order; window and buffer are a range each: address (8), key (4), length (4). The
 * buffer takes data. The window is memory in which the peer notes ranges: first as many as its
 * length says, where next buffers are, then the maps for riowrite. What is written there is in the
 * byte order of who owns the window.
 *
 * Afterwards all is RDMA WRITE with immediate: three bits of what it is, and a number of 29.
 */
#ifndef UROCE_RDMACM_STREAM_WIRE_H
#define UROCE_RDMACM_STREAM_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STREAM_VERSION 1u
#define STREAM_HELLO_LEN 40u
#define STREAM_RANGE_LEN 16u
#define STREAM_MAP_LEN 24u      /* an offset of 8 bytes, and a range */
#define STREAM_WINDOW_RANGES 2u /* that we have in ours, as the distribution's has */

enum stream_message {
    STREAM_DATA = 0,    /* so many bytes were written into the buffer */
    STREAM_CREDIT = 4,  /* the peer may send up to this message; perhaps with a range */
    STREAM_MAP = 6,     /* the map with this index was written */
    STREAM_CONTROL = 7, /* enum stream_control */
};

enum stream_control {
    STREAM_DISCONNECT = 0,
    STREAM_KEEPALIVE = 1, /* has a number, and goes without: a write of nothing, no immediate */
    STREAM_SHUTDOWN = 2,
};

struct stream_range {
    uint64_t address;
    uint32_t key;
    uint32_t len;
};

struct stream_map {
    uint64_t offset;
    struct stream_range range;
};

struct stream_hello {
    bool big_endian; /* the owner of the window */
    bool has_maps;
    uint16_t credits;
    uint32_t maps;
    struct stream_range window; /* its length counts ranges */
    struct stream_range buffer;
};

static inline uint32_t stream_immediate(enum stream_message message, uint32_t value)
{
    return ((uint32_t)message << 29) | (value & 0x1fffffffu);
}

static inline unsigned stream_immediate_message(uint32_t immediate)
{
    return immediate >> 29;
}

static inline uint32_t stream_immediate_value(uint32_t immediate)
{
    return immediate & 0x1fffffffu;
}

/* A number of maps as its byte can say it: exactly up to 128, in steps of 256 up to 32,512. */
uint32_t stream_maps_round(uint32_t maps);

void stream_hello_write(const struct stream_hello *h, uint8_t *out);

/* False: of another version, too short, or nonsense. */
bool stream_hello_read(const uint8_t *bytes, size_t len, struct stream_hello *out);

/* A range and a map in a window, in the byte order of its owner. */
void stream_range_write(const struct stream_range *r, bool big_endian, uint8_t *out);
void stream_map_write(const struct stream_map *m, bool big_endian, uint8_t *out);

/* The same of a window of ours. */
struct stream_range stream_range_read(const uint8_t *bytes);
struct stream_map stream_map_read(const uint8_t *bytes);

/* Ours. */
bool stream_host_is_big_endian(void);

#endif
