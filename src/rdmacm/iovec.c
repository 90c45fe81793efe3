/* SPDX-License-Identifier: BSD-2-Clause */
/* Bytes that lie in pieces. */
#include <string.h>

#include "rdmacm/socket.h"

struct iovec_cursor iovec_begin(const struct transfer *t)
{
    return (struct iovec_cursor){.iov = t->iov, .count = t->iov_count};
}

size_t iovec_left(const struct iovec_cursor *c)
{
    size_t left = 0;

    for (size_t i = 0; i < c->count; i++)
        left += c->iov[i].iov_len;
    return left - c->at;
}

/* The next bytes that lie together, at most len; what is there moves on. */
static uint8_t *step(struct iovec_cursor *c, size_t *len)
{
    uint8_t *bytes;
    size_t here;

    while (c->at == c->iov->iov_len) {
        c->iov++;
        c->count--;
        c->at = 0;
    }
    here = c->iov->iov_len - c->at;
    bytes = (uint8_t *)c->iov->iov_base + c->at;
    *len = here < *len ? here : *len;
    c->at += *len;
    return bytes;
}

void iovec_gather(struct iovec_cursor *c, uint8_t *out, size_t len)
{
    while (len > 0) {
        size_t part = len;
        const uint8_t *bytes = step(c, &part);

        memcpy(out, bytes, part);
        out += part;
        len -= part;
    }
}

void iovec_scatter(struct iovec_cursor *c, const uint8_t *bytes, size_t len)
{
    while (len > 0) {
        size_t part = len;
        uint8_t *out = step(c, &part);

        memcpy(out, bytes, part);
        bytes += part;
        len -= part;
    }
}
