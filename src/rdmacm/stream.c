/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What moves in a stream: completions are read, writes are posted, the peer is told what it may
 * send. What the peer says is taken for what it is, a claim: it can spoil its own stream, and
 * nothing else.
 */
#include "rdmacm/stream.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <infiniband/verbs.h>

#include "base/log.h"
#include "rdmacm/address.h"

/* What a work request was: in its ID above the bytes of the send buffer that it gives back. */
#define WR_DATA (UINT64_C(1) << 32)
#define WR_CONTROL (UINT64_C(2) << 32)
#define WR_RECEIVE 0u
#define COMPLETIONS_AT_ONCE 16
#define INLINE_MAX 256u /* gathered on the stack */
/*
 * With TCP the kernel says good-bye for a process that is killed. Over RDMA nobody does: who waits
 * for a peer of another host asks it now and then. For one at our own address the connection
 * manager of whoever lives there refuses reminders, ourselves if nobody else; to ask it would only
 * end connections with a process that is stopped for a while.
 *
 * This is nobody's option, and happens while a thread waits. What the application asks for with
 * SO_KEEPALIVE (keepalive.c) is the same question to any peer, whether a thread waits or not. Both
 * count from when the peer was last heard, so the answer to one puts off the other.
 */
#define PROBE_NS UINT64_C(2000000000)
#define SEND_LOW 2048u /* room in the send buffer below which it is not worth while */

/* --- the end --- */

void stream_fail(struct stream *t, int error)
{
    if (t->state == STREAM_CLOSED || t->state == STREAM_FAILED)
        return;
    t->state = STREAM_FAILED;
    t->socket.error = -error;
}

/* The peer did what no peer does. */
static void refuse(struct stream *t, const char *what, uint32_t immediate)
{
    log_warn("rsocket %d: the peer's message 0x%08x %s: the connection ends", t->socket.fd,
             immediate, what);
    stream_fail(t, -EPROTO);
}

static int error_of(enum ibv_wc_status status)
{
    return status == IBV_WC_RETRY_EXC_ERR ? -ETIMEDOUT : -ECONNRESET;
}

/* --- completions of what we sent --- */

static void complete_send(struct stream *t, const struct ibv_wc *wc)
{
    if ((wc->wr_id & WR_CONTROL) != 0)
        t->control_slots++;
    else
        t->data_slots++;
    t->send_free += (uint32_t)wc->wr_id;
    if (wc->status != IBV_WC_SUCCESS)
        stream_fail(t, error_of(wc->status));
}

/* --- what the peer says --- */

static void hear_data(struct stream *t, uint32_t immediate, uint32_t written)
{
    const uint32_t len = stream_immediate_value(immediate);

    t->received++;
    if (len > t->granted || len != written) {
        refuse(t, "claims more than was written, or was granted", immediate);
        return;
    }
    if (t->read_ended) {
        refuse(t, "follows the end of what it sends", immediate);
        return;
    }
    t->granted -= len;
    t->readable += len;
}

static void hear_credit(struct stream *t, uint32_t immediate, uint32_t written)
{
    t->sent_limit = (uint16_t)stream_immediate_value(immediate);
    if (written == 0)
        return;
    if (written != STREAM_RANGE_LEN) {
        refuse(t, "brings a range of another length", immediate);
        return;
    }
    t->targets[t->target_next] =
        stream_range_read(t->window + (size_t)t->target_next * STREAM_RANGE_LEN);
    t->target_next = (t->target_next + 1) % STREAM_WINDOW_RANGES;
}

static void hear_control(struct stream *t, uint32_t immediate)
{
    switch (stream_immediate_value(immediate)) {
    case STREAM_DISCONNECT:
        t->read_ended = true;
        t->peer_gone = true;
        t->state = STREAM_CLOSED;
        break;
    case STREAM_SHUTDOWN:
        t->read_ended = true;
        if (t->write_shut)
            t->state = STREAM_CLOSED;
        break;
    case STREAM_KEEPALIVE:
        break;
    default:
        refuse(t, "is of no known control", immediate);
    }
}

static void hear(struct stream *t, const struct ibv_wc *wc)
{
    const uint32_t immediate = ntohl(wc->imm_data);

    if ((wc->wc_flags & IBV_WC_WITH_IMM) == 0 || wc->opcode != IBV_WC_RECV_RDMA_WITH_IMM) {
        refuse(t, "is no RDMA WRITE with immediate", 0);
        return;
    }
    switch (stream_immediate_message(immediate)) {
    case STREAM_DATA:
        hear_data(t, immediate, wc->byte_len);
        break;
    case STREAM_CREDIT:
        hear_credit(t, immediate, wc->byte_len);
        break;
    case STREAM_MAP:
        t->received++;
        if (!stream_hear_map(t, stream_immediate_value(immediate)))
            refuse(t, "is of a map that there is not", immediate);
        break;
    case STREAM_CONTROL:
        hear_control(t, immediate);
        break;
    default:
        refuse(t, "is of no known kind", immediate);
    }
}

static void complete_receive(struct stream *t, const struct ibv_wc *wc)
{
    if (wc->status != IBV_WC_SUCCESS) {
        stream_fail(t, -ECONNRESET);
        return;
    }
    /* What overtook the RTU says as much. */
    if (t->state == STREAM_ACCEPTING)
        t->state = STREAM_CONNECTED;
    if (t->state == STREAM_CONNECTED)
        hear(t, wc);
}

/* --- progress --- */

static bool can_talk(const struct stream *t)
{
    return t->state == STREAM_CONNECTED || t->state == STREAM_ACCEPTING;
}

/* Nobody will read what is there, so there is always room. */
static void drop_readable(struct stream *t)
{
    t->read_at = (t->read_at + t->readable) % t->sizes.receive;
    t->readable = 0;
}

static unsigned take_completions(struct stream *t)
{
    struct ibv_wc wc[COMPLETIONS_AT_ONCE];
    unsigned found = 0;
    uint32_t receives = 0;
    int count;

    do {
        count = ibv_poll_cq(t->id->recv_cq, COMPLETIONS_AT_ONCE, wc);
        for (int i = 0; i < count; i++) {
            if (wc[i].wr_id != WR_RECEIVE) {
                complete_send(t, &wc[i]);
                continue;
            }
            complete_receive(t, &wc[i]);
            receives++;
        }
        found += count > 0 ? (unsigned)count : 0;
    } while (count == COMPLETIONS_AT_ONCE);
    if (can_talk(t) && stream_post_receives(t, receives) != 0)
        stream_fail(t, -ECONNRESET);
    return found;
}

unsigned stream_progress(struct stream *t)
{
    unsigned found = 0;

    if (t->id->qp != NULL)
        found = take_completions(t);
    if (found == 0 || !can_talk(t))
        found += stream_take_events(t);
    if (found == 0)
        return 0;
    t->heard_ns = socket_now();
    if (t->peer_gone && t->state == STREAM_CONNECTED) {
        /* What it sent before is here; perhaps it came after the look at completions. */
        take_completions(t);
        if (t->state == STREAM_CONNECTED)
            stream_fail(t, -ECONNRESET);
    }
    if (t->read_shut)
        drop_readable(t);
    stream_grant(t);
    socket_news(&t->socket);
    return found;
}

/* --- posting --- */

/* 0 or a negative errno; with an error the connection is no more. */
static int post(struct stream *t, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    const int error = ibv_post_send(t->id->qp, wr, &bad);

    if (error != 0)
        stream_fail(t, -ECONNRESET);
    return -error;
}

/* Takes len bytes of the ring: one piece or two. Returns how many. */
static int take_room(struct stream *t, uint32_t len, struct ibv_sge sge[2])
{
    const uint32_t to_end = t->sizes.send - t->send_at;
    const uint32_t first = len < to_end ? len : to_end;

    assert(len <= t->send_free);
    sge[0] =
        (struct ibv_sge){(uintptr_t)(t->send_buffer + t->send_at), first, t->send_region->lkey};
    sge[1] = (struct ibv_sge){(uintptr_t)t->send_buffer, len - first, t->send_region->lkey};
    t->send_free -= len;
    t->send_at = (t->send_at + len) % t->sizes.send;
    return len > first ? 2 : 1;
}

static bool goes_inline(const struct stream *t, uint32_t len)
{
    return len <= INLINE_MAX && len <= t->sizes.inline_len;
}

int stream_post(struct stream *t, const struct stream_post *p)
{
    uint8_t bytes[INLINE_MAX];
    struct ibv_sge sge[2] = {{.addr = (uintptr_t)bytes, .length = p->len}};
    struct ibv_send_wr wr = {
        .wr_id = WR_DATA,
        .sg_list = sge,
        .num_sge = 1,
        .opcode = p->with_immediate ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
        .imm_data = htonl(p->immediate),
        .wr.rdma = {.remote_addr = p->to.address, .rkey = p->to.key},
    };

    assert(t->data_slots > 0);
    t->data_slots--;
    if (goes_inline(t, p->len)) {
        iovec_gather(p->from, bytes, p->len);
        wr.send_flags = IBV_SEND_INLINE;
    } else {
        wr.num_sge = take_room(t, p->len, sge);
        wr.wr_id |= p->len;
        for (int i = 0; i < wr.num_sge; i++)
            iovec_gather(p->from, (uint8_t *)(uintptr_t)sge[i].addr, sge[i].length);
    }
    return post(t, &wr);
}

static int post_message(struct stream *t, uint32_t immediate, const struct stream_range *range)
{
    uint8_t bytes[STREAM_RANGE_LEN];
    struct ibv_sge sge = {.addr = (uintptr_t)bytes, .length = sizeof(bytes)};
    struct ibv_send_wr wr = {
        .wr_id = WR_CONTROL,
        .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
        .imm_data = htonl(immediate),
    };

    assert(t->control_slots > 0);
    t->control_slots--;
    if (range != NULL) {
        stream_range_write(range, t->peer_big_endian, bytes);
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.send_flags = IBV_SEND_INLINE;
        wr.wr.rdma.remote_addr = t->peer_window.address + (uint64_t)t->peer_next * STREAM_RANGE_LEN;
        wr.wr.rdma.rkey = t->peer_window.key;
    }
    return post(t, &wr);
}

int stream_post_control(struct stream *t, enum stream_control control)
{
    return post_message(t, stream_immediate(STREAM_CONTROL, control), NULL);
}

static bool is_probed(const struct stream *t)
{
    struct endpoint own, peer;

    return t->state == STREAM_CONNECTED && endpoint_read(rdma_get_local_addr(t->id), &own) &&
           endpoint_read(rdma_get_peer_addr(t->id), &peer) && !gid_equal(&own.gid, &peer.gid);
}

/*
 * A write of nothing, as the distribution's library sends it: it takes no receive request, so the
 * peer sees none of it, but its adapter answers, or nobody does.
 */
void stream_ask(struct stream *t)
{
    struct ibv_send_wr wr = {.wr_id = WR_CONTROL, .opcode = IBV_WR_RDMA_WRITE};

    if (!stream_all_answered(t))
        return;
    t->control_slots--;
    post(t, &wr);
}

void stream_probe(struct stream *t)
{
    if (is_probed(t) && socket_now() >= t->heard_ns + PROBE_NS)
        stream_ask(t);
}

/* While something is unanswered, its completion ends the sleep. */
int stream_wait(struct stream *t)
{
    const bool probes = is_probed(t) && stream_all_answered(t);

    return socket_wait(&t->socket, probes ? t->heard_ns + PROBE_NS : SOCKET_NEVER);
}

/* --- what the peer may send --- */

void stream_grant(struct stream *t)
{
    const uint32_t half = t->sizes.receive / 2;
    struct stream_range range;
    uint32_t immediate;
    bool room;

    if (t->state != STREAM_CONNECTED || t->control_slots == 0 || t->read_ended)
        return;
    room = t->sizes.receive - t->granted - t->readable >= half;
    if (!room && (int16_t)(uint16_t)(t->received - t->credit_due) < 0)
        return;
    immediate = stream_immediate(STREAM_CREDIT, (uint16_t)(t->received + t->sizes.receive_queue));
    t->credit_due = (uint16_t)(t->received + t->sizes.receive_queue / 2);
    if (!room) {
        post_message(t, immediate, NULL);
        return;
    }
    range = (struct stream_range){(uintptr_t)(t->receive_buffer + t->grant_at),
                                  t->receive_region->rkey, half};
    post_message(t, immediate, &range);
    t->granted += half;
    t->grant_at = (t->grant_at + half) % t->sizes.receive;
    t->peer_next = (t->peer_next + 1) % t->peer_window.len;
}

/* --- may we send --- */

bool stream_can_send(const struct stream *t)
{
    return t->state == STREAM_CONNECTED && t->data_slots > 0 && t->send_free >= SEND_LOW &&
           t->sent != t->sent_limit && t->targets[t->target_now].len > 0;
}

int stream_send_error(const struct stream *t)
{
    switch (t->state) {
    case STREAM_IDLE:
    case STREAM_LISTENING:
        return -ENOTCONN;
    case STREAM_CONNECTING:
    case STREAM_ACCEPTING:
    case STREAM_CONNECTED:
        break;
    case STREAM_CLOSED:
        return t->write_shut ? -EPIPE : -ECONNRESET;
    case STREAM_FAILED:
        return t->socket.error != 0 ? -t->socket.error : -EPIPE;
    }
    return t->write_shut ? -EPIPE : 0;
}

int stream_wait_to_send(struct stream *t, int flags)
{
    for (;;) {
        int error = stream_send_error(t);

        if (error != 0 || stream_can_send(t))
            return error;
        if (stream_progress(t) > 0)
            continue;
        if (socket_nonblocking(&t->socket, flags))
            return -EAGAIN;
        error = stream_wait(t);
        if (error != 0)
            return error;
    }
}
