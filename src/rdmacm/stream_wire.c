/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/stream_wire.h"

#include <endian.h>
#include <string.h>

#include "base/bytes.h"

#define FLAG_BIG_ENDIAN 1u
#define FLAG_MAPS 2u
#define MAPS_EXACT_MAX 128u
#define MAPS_STEP_BITS 8u
#define MAPS_STEPS_MAX 127u

bool stream_host_is_big_endian(void)
{
    return __BYTE_ORDER == __BIG_ENDIAN;
}

/* --- numbers of maps --- */

static uint8_t maps_byte(uint32_t maps)
{
    const uint32_t steps = maps >> MAPS_STEP_BITS;

    if (maps <= MAPS_EXACT_MAX)
        return (uint8_t)maps;
    return (uint8_t)(MAPS_EXACT_MAX | (steps < MAPS_STEPS_MAX ? steps : MAPS_STEPS_MAX));
}

static uint32_t maps_number(uint8_t byte)
{
    return byte <= MAPS_EXACT_MAX ? byte : (byte & ~MAPS_EXACT_MAX) << MAPS_STEP_BITS;
}

uint32_t stream_maps_round(uint32_t maps)
{
    return maps_number(maps_byte(maps));
}

/* --- ranges --- */

static void range_write_be(const struct stream_range *r, uint8_t *out)
{
    store_be64(out, r->address);
    store_be32(out + 8, r->key);
    store_be32(out + 12, r->len);
}

static struct stream_range range_read_be(const uint8_t *bytes)
{
    return (struct stream_range){load_be64(bytes), load_be32(bytes + 8), load_be32(bytes + 12)};
}

static void store_le64(uint8_t *p, uint64_t value)
{
    store_le32(p, (uint32_t)value);
    store_le32(p + 4, (uint32_t)(value >> 32));
}

void stream_range_write(const struct stream_range *r, bool big_endian, uint8_t *out)
{
    if (big_endian) {
        range_write_be(r, out);
        return;
    }
    store_le64(out, r->address);
    store_le32(out + 8, r->key);
    store_le32(out + 12, r->len);
}

struct stream_range stream_range_read(const uint8_t *bytes)
{
    if (stream_host_is_big_endian())
        return range_read_be(bytes);
    return (struct stream_range){load_le64(bytes), load_le32(bytes + 8), load_le32(bytes + 12)};
}

void stream_map_write(const struct stream_map *m, bool big_endian, uint8_t *out)
{
    if (big_endian)
        store_be64(out, m->offset);
    else
        store_le64(out, m->offset);
    stream_range_write(&m->range, big_endian, out + 8);
}

struct stream_map stream_map_read(const uint8_t *bytes)
{
    return (struct stream_map){
        .offset = stream_host_is_big_endian() ? load_be64(bytes) : load_le64(bytes),
        .range = stream_range_read(bytes + 8),
    };
}

/* --- private data --- */

void stream_hello_write(const struct stream_hello *h, uint8_t *out)
{
    memset(out, 0, STREAM_HELLO_LEN);
    out[0] = STREAM_VERSION;
    out[1] = (uint8_t)((h->big_endian ? FLAG_BIG_ENDIAN : 0) | (h->has_maps ? FLAG_MAPS : 0));
    store_be16(out + 2, h->credits);
    out[7] = maps_byte(h->maps);
    range_write_be(&h->window, out + 8);
    range_write_be(&h->buffer, out + 24);
}

bool stream_hello_read(const uint8_t *bytes, size_t len, struct stream_hello *out)
{
    struct stream_hello h;

    if (bytes == NULL || len < STREAM_HELLO_LEN || bytes[0] != STREAM_VERSION)
        return false;
    h = (struct stream_hello){
        .big_endian = (bytes[1] & FLAG_BIG_ENDIAN) != 0,
        .has_maps = (bytes[1] & FLAG_MAPS) != 0,
        .credits = load_be16(bytes + 2),
        .window = range_read_be(bytes + 8),
        .buffer = range_read_be(bytes + 24),
    };
    if (h.has_maps)
        h.maps = maps_number(bytes[7]);
    if (h.window.len == 0)
        return false;
    *out = h;
    return true;
}
