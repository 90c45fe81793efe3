/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory of the application that the peer writes into directly: riomap tells the peer of it under
 * an offset, riowrite of the peer names that offset. The peer is told before the next data, and
 * told again (of nothing) when the mapping ends.
 */
#include <errno.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rdmacm/stream.h"
#include "verbs/export.h"

#define CHUNK_MAX 65536u

struct mapping {
    struct list link;
    uint64_t offset;
    const void *start;
    size_t len;
    struct ibv_mr *region; /* NULL: unmapped, and the peer is to be told */
    bool remote;           /* index is the peer's */
    bool told;
    uint32_t index;
};

static struct mapping *mapping_of(struct list *link)
{
    return LIST_ENTRY(link, struct mapping, link);
}

void stream_init_maps(struct stream *t)
{
    list_init(&t->maps);
}

int stream_allocate_maps(struct stream *t)
{
    if (t->sizes.maps == 0)
        return 0;
    t->targets_mapped = calloc(t->sizes.maps, sizeof(struct stream_map));
    return t->targets_mapped != NULL ? 0 : -ENOMEM;
}

static void free_mapping(struct mapping *m)
{
    list_remove(&m->link);
    free(m);
}

void stream_free_maps(struct stream *t)
{
    while (!list_empty(&t->maps)) {
        struct mapping *m = mapping_of(t->maps.next);

        if (m->region != NULL)
            ibv_dereg_mr(m->region);
        free_mapping(m);
    }
    free(t->targets_mapped);
}

/* --- what the peer says, and what it is told --- */

bool stream_hear_map(struct stream *t, uint32_t index)
{
    const size_t maps_at = (size_t)STREAM_WINDOW_RANGES * STREAM_RANGE_LEN;

    if (index >= t->sizes.maps)
        return false;
    t->targets_mapped[index] =
        stream_map_read(t->window + maps_at + (size_t)index * STREAM_MAP_LEN);
    return true;
}

/* Of a mapping that has ended an empty one is told. 0 or a negative errno. */
static int tell(struct stream *t, struct mapping *m)
{
    uint8_t bytes[STREAM_MAP_LEN];
    const struct iovec piece = {bytes, sizeof(bytes)};
    struct iovec_cursor from = {.iov = &piece, .count = 1};
    struct stream_map map = {.offset = m->offset};
    const struct stream_post p = {
        .from = &from,
        .len = sizeof(bytes),
        .to = {.address = t->peer_window.address + (uint64_t)t->peer_window.len * STREAM_RANGE_LEN +
                          (uint64_t)m->index * STREAM_MAP_LEN,
               .key = t->peer_window.key},
        .with_immediate = true,
        .immediate = stream_immediate(STREAM_MAP, m->index),
    };

    if (m->region != NULL)
        map.range = (struct stream_range){(uintptr_t)m->start, m->region->rkey, (uint32_t)m->len};
    stream_map_write(&map, t->peer_big_endian, bytes);
    t->sent++;
    m->told = true;
    if (m->region == NULL)
        free_mapping(m);
    return stream_post(t, &p);
}

static struct mapping *find_untold(struct stream *t)
{
    for (struct list *l = t->maps.next; l != &t->maps; l = l->next)
        if (mapping_of(l)->remote && !mapping_of(l)->told)
            return mapping_of(l);
    return NULL;
}

int stream_tell_maps(struct stream *t, int flags)
{
    struct mapping *m;
    int result = 0;

    while (t->maps_waiting && result == 0) {
        result = stream_wait_to_send(t, flags);
        if (result != 0)
            break;
        /* While the lock was given up others may have told it. */
        m = find_untold(t);
        if (m != NULL)
            result = tell(t, m);
        else
            t->maps_waiting = false;
    }
    return result;
}

/* --- mapping --- */

static bool index_is_taken(const struct stream *t, uint32_t index)
{
    for (struct list *l = t->maps.next; l != &t->maps; l = l->next)
        if (mapping_of(l)->remote && mapping_of(l)->index == index)
            return true;
    return false;
}

/* 0 or -ENOMEM: the peer has no room for another. */
static int find_index(const struct stream *t, uint32_t *out)
{
    for (uint32_t i = 0; i < t->peer_maps; i++) {
        if (!index_is_taken(t, i)) {
            *out = i;
            return 0;
        }
    }
    return -ENOMEM;
}

/* 0 or a negative errno. */
static int map(struct stream *t, const struct mapping *asked)
{
    const unsigned remote = asked->remote ? IBV_ACCESS_REMOTE_WRITE : 0;
    const unsigned access = (unsigned)IBV_ACCESS_LOCAL_WRITE | remote;
    struct mapping *m;
    int result = 0;

    if (t->id->qp == NULL)
        return -EINVAL;
    m = malloc(sizeof(*m));
    if (m == NULL)
        return -ENOMEM;
    *m = *asked;
    if (m->remote)
        result = find_index(t, &m->index);
    if (result == 0) {
        m->region = ibv_reg_mr(t->id->pd, (void *)(uintptr_t)m->start, m->len, access);
        result = m->region == NULL ? -errno : 0;
    }
    if (result != 0) {
        free(m);
        return result;
    }
    list_push_tail(&t->maps, &m->link);
    t->maps_waiting = t->maps_waiting || m->remote;
    return 0;
}

/* The stream of a descriptor, locked; NULL with errno. */
static struct stream *begin(int socket)
{
    struct rsock *s = socket_get(socket);

    if (s == NULL)
        return NULL;
    if (s->type != SOCK_STREAM) {
        socket_put(s);
        errno = EOPNOTSUPP;
        return NULL;
    }
    pthread_mutex_lock(&s->lock);
    return stream_of(s);
}

static void end(struct stream *t)
{
    pthread_mutex_unlock(&t->socket.lock);
    socket_put(&t->socket);
}

EXPORT off_t riomap(int socket, void *buf, size_t len, int prot, int flags, off_t offset)
{
    const struct mapping asked = {
        .offset = offset == -1 ? (uintptr_t)buf : (uint64_t)offset,
        .start = buf,
        .len = len,
        .remote = (prot & PROT_WRITE) != 0,
    };
    struct stream *t;
    int result;

    (void)flags;
    if ((prot & ~PROT_WRITE) != 0 || len == 0 || len > UINT32_MAX) {
        errno = EINVAL;
        return -1;
    }
    t = begin(socket);
    if (t == NULL)
        return -1;
    result = map(t, &asked);
    end(t);
    if (result == 0)
        return (off_t)asked.offset;
    errno = -result;
    return -1;
}

static struct mapping *find_mapping(struct stream *t, const void *start, size_t len)
{
    for (struct list *l = t->maps.next; l != &t->maps; l = l->next) {
        struct mapping *m = mapping_of(l);

        if (m->region != NULL && m->start == start && m->len == len)
            return m;
    }
    return NULL;
}

EXPORT int riounmap(int socket, void *buf, size_t len)
{
    struct stream *t = begin(socket);
    struct mapping *m;

    if (t == NULL)
        return -1;
    m = find_mapping(t, buf, len);
    if (m != NULL) {
        ibv_dereg_mr(m->region);
        m->region = NULL;
        if (m->remote && m->told) {
            m->told = false;
            t->maps_waiting = true;
        } else {
            free_mapping(m);
        }
    }
    end(t);
    if (m != NULL)
        return 0;
    errno = EINVAL;
    return -1;
}

/* --- writing --- */

/* What the peer has at this offset. A len of 0: nothing. */
static struct stream_range find_target(const struct stream *t, uint64_t offset)
{
    for (uint32_t i = 0; t->targets_mapped != NULL && i < t->sizes.maps; i++) {
        const struct stream_map *m = &t->targets_mapped[i];
        const uint64_t into = offset - m->offset;

        if (offset >= m->offset && into < m->range.len)
            return (struct stream_range){m->range.address + into, m->range.key,
                                         m->range.len - (uint32_t)into};
    }
    return (struct stream_range){0};
}

static uint32_t least(size_t a, size_t b)
{
    return (uint32_t)(a < b ? a : b);
}

/* 0 or a negative errno; at the end of what the peer has mapped it ends without an error. */
static int write_all(struct stream *t, struct iovec_cursor *from, uint64_t offset, int flags)
{
    int result = stream_send_error(t);

    while (result == 0 && iovec_left(from) > 0) {
        struct stream_post p = {.from = from};

        result = stream_wait_to_send(t, flags);
        if (result == 0)
            result = stream_tell_maps(t, flags);
        if (result != 0)
            break;
        if (!stream_can_send(t))
            continue;
        p.to = find_target(t, offset);
        if (p.to.len == 0)
            break;
        p.len = least(iovec_left(from), least(least(t->send_free, CHUNK_MAX), p.to.len));
        offset += p.len;
        result = stream_post(t, &p);
    }
    return result;
}

EXPORT size_t riowrite(int socket, const void *buf, size_t count, off_t offset, int flags)
{
    const struct iovec piece = {(void *)(uintptr_t)buf, count};
    struct iovec_cursor from = {.iov = &piece, .count = 1};
    struct stream *t = begin(socket);
    size_t written;
    int result;

    if (t == NULL)
        return SIZE_MAX;
    pthread_mutex_unlock(&t->socket.lock);
    result = socket_take_turn(&t->socket, &t->sending, flags);
    pthread_mutex_lock(&t->socket.lock);
    if (result == 0) {
        result = write_all(t, &from, (uint64_t)offset, flags);
        pthread_mutex_unlock(&t->sending);
    }
    written = count - iovec_left(&from);
    end(t);
    if (written > 0 || result == 0)
        return written;
    errno = -result;
    return SIZE_MAX;
}
