/* SPDX-License-Identifier: BSD-2-Clause */
/* What a connection needs of memory and verbs, and what both sides tell each other of it. */
#include <errno.h>
#include <rdma/rdma_verbs.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/stream.h"

#define PAGE 4096u
#define QUEUE_MIN 16u
#define QUEUE_MAX 0xfffeu /* credits are counted in 16 bits */
#define CONTROL_SLOTS 4u
#define INLINE_MIN STREAM_MAP_LEN /* what we say of ranges and maps goes inline */
#define RECEIVES_AT_ONCE 64u

static uint32_t bounded(uint32_t value, uint32_t least, uint32_t most)
{
    if (value < least)
        return least;
    return value < most ? value : most;
}

/* What the device can do bounds what was asked for. */
static void settle_queues(struct stream *t)
{
    struct ibv_device_attr attr;
    uint32_t most = QUEUE_MAX;

    if (ibv_query_device(t->id->verbs, &attr) == 0)
        most = bounded((uint32_t)attr.max_qp_wr, QUEUE_MIN, QUEUE_MAX);
    t->sizes.send_queue = bounded(t->sizes.send_queue, QUEUE_MIN, most);
    t->sizes.receive_queue = bounded(t->sizes.receive_queue, QUEUE_MIN, most);
}

/* One completion queue for both directions. 0 or a negative errno. */
static int create_cq(struct stream *t)
{
    struct rdma_cm_id *id = t->id;
    const int size = (int)(t->sizes.send_queue + t->sizes.receive_queue);

    id->recv_cq_channel = ibv_create_comp_channel(id->verbs);
    if (id->recv_cq_channel == NULL)
        return -errno;
    id->recv_cq = ibv_create_cq(id->verbs, size, t, id->recv_cq_channel, 0);
    if (id->recv_cq == NULL)
        return -errno;
    return socket_hide(&id->recv_cq_channel->fd);
}

static int create_qp(struct stream *t)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = t->id->recv_cq,
        .recv_cq = t->id->recv_cq,
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
        .cap =
            {
                .max_send_wr = t->sizes.send_queue,
                .max_recv_wr = t->sizes.receive_queue,
                .max_send_sge = 2,
                .max_recv_sge = 1,
                .max_inline_data = bounded(t->sizes.inline_len, INLINE_MIN, QUEUE_MAX),
            },
    };

    return rdma_create_qp(t->id, NULL, &attr) == 0 ? 0 : -errno;
}

/* Registered memory of its own pages. 0 or a negative errno. */
static int allocate(struct stream *t, size_t len, unsigned access, uint8_t **out,
                    struct ibv_mr **region)
{
    const size_t rounded = (len + PAGE - 1) / PAGE * PAGE;

    *out = aligned_alloc(PAGE, rounded);
    if (*out == NULL)
        return -ENOMEM;
    memset(*out, 0, rounded);
    *region = ibv_reg_mr(t->id->pd, *out, len, access);
    return *region != NULL ? 0 : -errno;
}

static int allocate_buffers(struct stream *t)
{
    const unsigned written = (unsigned)IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    int result;

    t->window_len =
        (size_t)STREAM_WINDOW_RANGES * STREAM_RANGE_LEN + (size_t)t->sizes.maps * STREAM_MAP_LEN;
    result = allocate(t, t->sizes.send, 0, &t->send_buffer, &t->send_region);
    if (result == 0)
        result = allocate(t, t->sizes.receive, written, &t->receive_buffer, &t->receive_region);
    if (result == 0)
        result = allocate(t, t->window_len, written, &t->window, &t->window_region);
    return result == 0 ? stream_allocate_maps(t) : result;
}

int stream_post_receives(struct stream *t, uint32_t count)
{
    while (count > 0) {
        struct ibv_recv_wr wr[RECEIVES_AT_ONCE];
        struct ibv_recv_wr *bad;
        const uint32_t now = count < RECEIVES_AT_ONCE ? count : RECEIVES_AT_ONCE;
        int error;

        for (uint32_t i = 0; i < now; i++)
            wr[i] = (struct ibv_recv_wr){.next = i + 1 < now ? &wr[i + 1] : NULL};
        error = ibv_post_recv(t->id->qp, wr, &bad);
        if (error != 0)
            return -error;
        count -= now;
    }
    return 0;
}

int stream_allocate(struct stream *t)
{
    int result;

    settle_queues(t);
    result = create_cq(t);
    if (result == 0)
        result = create_qp(t);
    if (result == 0)
        result = allocate_buffers(t);
    if (result == 0)
        result = stream_post_receives(t, t->sizes.receive_queue);
    if (result == 0)
        result = socket_watch(&t->socket, t->id->recv_cq_channel->fd);
    if (result != 0)
        return result;
    t->send_free = t->sizes.send;
    t->data_slots = t->sizes.send_queue - CONTROL_SLOTS;
    t->control_slots = CONTROL_SLOTS;
    t->granted = t->sizes.receive / 2;
    t->grant_at = t->sizes.receive / 2;
    t->credit_due = (uint16_t)(t->sizes.receive_queue / 2);
    return 0;
}

static void release(struct ibv_mr *region, uint8_t *memory)
{
    if (region != NULL)
        ibv_dereg_mr(region);
    free(memory);
}

/* The ID's queues are the ID's: rdma_destroy_qp takes them along. */
void stream_release(struct stream *t)
{
    if (t->id != NULL)
        rdma_destroy_qp(t->id);
    stream_free_maps(t);
    release(t->send_region, t->send_buffer);
    release(t->receive_region, t->receive_buffer);
    release(t->window_region, t->window);
}

struct stream_hello stream_say_hello(const struct stream *t)
{
    return (struct stream_hello){
        .big_endian = stream_host_is_big_endian(),
        .has_maps = true,
        .credits = (uint16_t)t->sizes.receive_queue,
        .maps = t->sizes.maps,
        .window = {(uintptr_t)t->window, t->window_region->rkey, STREAM_WINDOW_RANGES},
        .buffer = {(uintptr_t)t->receive_buffer, t->receive_region->rkey, t->sizes.receive / 2},
    };
}

/* The first range came with the hello: the window's first is taken, the second is next. */
void stream_hear_hello(struct stream *t, const struct stream_hello *hello)
{
    t->peer_big_endian = hello->big_endian;
    t->peer_window = hello->window;
    t->peer_next = 1 % hello->window.len;
    t->peer_maps = hello->maps;
    t->targets[0] = hello->buffer;
    t->target_now = 0;
    t->target_next = 1;
    t->sent = 0;
    t->sent_limit = hello->credits;
}
