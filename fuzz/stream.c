/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a peer says to a socket over RDMA: a stream from its hello on, with the immediates that come
 * and what the peer writes into the window, while an application sends, receives and maps; and the
 * headers of datagrams. Verbs are not there: what is posted must lie where it may and is completed
 * when a step says so.
 *
 * Input: 0, a hello and steps of a byte each with their arguments; or another byte and a datagram.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "rdmacm/datagram_wire.h"
#include "rdmacm/stream.h"

#define FD 3
#define STEPS_MAX 300u
#define NS_PER_S UINT64_C(1000000000)
#define DEVICE_QUEUE 24u
#define INLINE_LEN 64u
#define BUFFER 8192u
#define MAPS 4u
#define ACCOUNT_MAX 64u

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

struct input {
    const uint8_t *bytes;
    size_t len;
};

static struct {
    struct stream t;
    struct rdma_cm_id id;
    struct ibv_context context;
    struct ibv_comp_channel channel;
    struct ibv_cq cq;
    struct ibv_qp qp;
    struct ibv_mr region; /* all of them */
    uint64_t now;
    uint32_t receives; /* posted */
    uint64_t sent[ACCOUNT_MAX];
    uint32_t sent_first;
    uint32_t sent_count;
    struct ibv_wc completion;
    bool has_completion;
    bool peer_left;
    uint8_t application[3 * BUFFER];
} f;

/* --- input --- */

static uint32_t take(struct input *in, unsigned bytes)
{
    uint32_t value = 0;

    for (; bytes > 0 && in->len > 0; bytes--) {
        value = value << 8 | *in->bytes++;
        in->len--;
    }
    return value;
}

/* --- sockets that do not sleep --- */

uint64_t socket_now(void)
{
    return f.now;
}

int socket_wait(struct rsock *s, uint64_t deadline)
{
    (void)s;
    (void)deadline;
    f.now += NS_PER_S;
    return -EINTR;
}

void socket_news(struct rsock *s)
{
    (void)s;
}

bool socket_nonblocking(const struct rsock *s, int flags)
{
    (void)s;
    return (flags & MSG_DONTWAIT) != 0;
}

int socket_take_turn(struct rsock *s, pthread_mutex_t *turn, int flags)
{
    (void)s;
    (void)flags;
    return pthread_mutex_lock(turn);
}

struct rsock *socket_get(int fd)
{
    assert(fd == FD);
    return &f.t.socket;
}

void socket_put(struct rsock *s)
{
    (void)s;
}

int socket_watch(struct rsock *s, int fd)
{
    (void)s;
    (void)fd;
    return 0;
}

int socket_hide(int *fd)
{
    (void)fd;
    return 0;
}

uint32_t process_generation;

unsigned stream_take_events(struct stream *t)
{
    const bool news = f.peer_left && !t->peer_gone;

    t->peer_gone = t->peer_gone || f.peer_left;
    return news;
}

/* --- verbs --- */

static bool within(const void *memory, size_t memory_len, const struct ibv_sge *sge)
{
    const uintptr_t start = (uintptr_t)memory;

    return sge->addr >= start && sge->addr - start <= memory_len &&
           sge->length <= memory_len - (sge->addr - start);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    volatile uint8_t last;
    (void)qp;
    (void)bad;
    assert(wr->next == NULL && f.sent_count < f.t.sizes.send_queue);
    for (int i = 0; i < wr->num_sge; i++) {
        const struct ibv_sge *sge = &wr->sg_list[i];

        if ((wr->send_flags & IBV_SEND_INLINE) == 0)
            assert(within(f.t.send_buffer, f.t.sizes.send, sge));
        else
            assert(sge->length <= INLINE_LEN);
        for (uint32_t at = 0; at < sge->length; at++)
            last = ((const uint8_t *)(uintptr_t)sge->addr)[at];
    }
    (void)last;
    f.sent[(f.sent_first + f.sent_count++) % ACCOUNT_MAX] = wr->wr_id;
    return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    (void)qp;
    (void)bad;
    for (; wr != NULL; wr = wr->next)
        f.receives++;
    assert(f.receives <= f.t.sizes.receive_queue);
    return 0;
}

static int poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    (void)cq;
    if (!f.has_completion || count == 0)
        return 0;
    f.has_completion = false;
    *wc = f.completion;
    return 1;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    (void)context;
    memset(attr, 0, sizeof(*attr));
    attr->max_qp_wr = DEVICE_QUEUE;
    return 0;
}

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    (void)context;
    return &f.channel;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                             struct ibv_comp_channel *channel, int vector)
{
    (void)cqe;
    (void)cq_context;
    (void)vector;
    f.cq = (struct ibv_cq){.context = context, .channel = channel};
    return &f.cq;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    (void)pd;
    (void)attr;
    f.qp = (struct ibv_qp){.context = &f.context};
    id->qp = &f.qp;
    return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
    id->qp = NULL;
}

struct ibv_mr *(ibv_reg_mr)(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    (void)pd;
    (void)addr;
    (void)len;
    (void)access;
    return &f.region;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
                                unsigned access)
{
    (void)iova;
    return (ibv_reg_mr)(pd, addr, len, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *region)
{
    (void)region;
    return 0;
}

/* --- steps --- */

static void application_sends(struct input *in)
{
    const struct iovec piece = {f.application, take(in, 2) % sizeof(f.application)};
    struct transfer x = {.iov = &piece, .iov_count = 1, .flags = MSG_DONTWAIT};

    stream_send(&f.t.socket, &x);
}

static void application_receives(struct input *in)
{
    const uint32_t choice = take(in, 1);
    const struct iovec piece = {f.application, take(in, 2) % sizeof(f.application)};
    struct transfer x = {.iov = &piece, .iov_count = 1};

    x.flags = ((choice & 1) != 0 ? MSG_DONTWAIT : 0) | ((choice & 2) != 0 ? MSG_PEEK : 0) |
              ((choice & 4) != 0 ? MSG_WAITALL : 0);
    stream_receive(&f.t.socket, &x);
}

/* What arrives needs a receive that was posted: otherwise the peer hears RNR. */
static void peer_speaks(struct input *in)
{
    const uint32_t choice = take(in, 1);

    if (f.has_completion || f.receives == 0)
        return;
    f.receives--;
    f.has_completion = true;
    f.completion = (struct ibv_wc){
        .status = (choice & 15) != 15 ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR,
        .opcode = (choice & 0xf0) != 0xf0 ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV,
        .wc_flags = (choice & 0xf0) != 0xe0 ? IBV_WC_WITH_IMM : 0,
    };
    f.completion.imm_data = htonl(take(in, 4));
    f.completion.byte_len =
        (choice & 1) != 0 ? take(in, 2) : stream_immediate_value(ntohl(f.completion.imm_data));
    stream_poll(&f.t.socket, POLLIN);
}

static void send_completes(struct input *in)
{
    const bool failed = take(in, 1) == 255;

    if (f.has_completion || f.sent_count == 0)
        return;
    f.has_completion = true;
    f.completion = (struct ibv_wc){
        .wr_id = f.sent[f.sent_first],
        .status = failed ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS,
    };
    f.sent_first = (f.sent_first + 1) % ACCOUNT_MAX;
    f.sent_count--;
    stream_poll(&f.t.socket, POLLOUT);
}

static void peer_writes_window(struct input *in)
{
    const size_t at = take(in, 1) % f.t.window_len;
    const size_t room = f.t.window_len - at;
    size_t len = STREAM_MAP_LEN < room ? STREAM_MAP_LEN : room;

    len = len < in->len ? len : in->len;
    memcpy(f.t.window + at, in->bytes, len);
    in->bytes += len;
    in->len -= len;
}

static void application_maps(struct input *in)
{
    const uint32_t choice = take(in, 1);
    uint8_t *start = f.application + (size_t)(choice & 7) * 64;

    if ((choice & 8) != 0)
        riounmap(FD, start, 64);
    else
        riomap(FD, start, 64, PROT_WRITE, 0, (choice & 16) != 0 ? -1 : (off_t)take(in, 2));
}

static void step(struct input *in)
{
    const uint32_t what = take(in, 1);

    switch (what % 10) {
    case 0:
        peer_speaks(in);
        break;
    case 1:
        send_completes(in);
        break;
    case 2:
        application_sends(in);
        break;
    case 3:
        application_receives(in);
        break;
    case 4:
        peer_writes_window(in);
        break;
    case 5:
        riowrite(FD, f.application, take(in, 2) % sizeof(f.application), (off_t)take(in, 4),
                 MSG_DONTWAIT);
        break;
    case 6:
        application_maps(in);
        break;
    case 7:
        stream_shutdown(&f.t.socket, (int)take(in, 1) % 4);
        break;
    case 8:
        f.now += NS_PER_S * 3;
        stream_probe(&f.t);
        break;
    case 9:
        f.peer_left = take(in, 1) == 255;
        stream_poll(&f.t.socket, (short)(POLLIN | POLLOUT | POLLRDHUP));
        break;
    }
}

/* Nothing is granted twice, and nothing that was posted is lost. */
static void check(void)
{
    const struct stream *t = &f.t;

    assert(t->readable + t->granted <= t->sizes.receive);
    assert(t->read_at < t->sizes.receive && t->grant_at < t->sizes.receive);
    assert(t->send_at < t->sizes.send && t->send_free <= t->sizes.send);
    assert(t->data_slots + t->control_slots + f.sent_count + (f.has_completion ? 1 : 0) >=
               t->sizes.send_queue &&
           t->data_slots + t->control_slots + f.sent_count <= t->sizes.send_queue);
    assert(t->target_now < STREAM_WINDOW_RANGES && t->target_next < STREAM_WINDOW_RANGES);
    assert(t->peer_next < t->peer_window.len);
}

static bool hear_hello(struct input *in)
{
    uint8_t bytes[STREAM_HELLO_LEN];
    struct stream_hello hello, again;
    const size_t len = in->len < sizeof(bytes) ? in->len : sizeof(bytes);

    if (!stream_hello_read(in->bytes, len, &hello))
        return false;
    in->bytes += len;
    in->len -= len;
    stream_hello_write(&hello, bytes);
    assert(stream_hello_read(bytes, sizeof(bytes), &again));
    assert(memcmp(&hello.buffer, &again.buffer, sizeof(hello.buffer)) == 0);
    assert(hello.maps == again.maps && hello.credits == again.credits);
    stream_hear_hello(&f.t, &hello);
    return true;
}

static void begin(void)
{
    memset(&f, 0, sizeof(f));
    f.context.ops.post_send = post_send;
    f.context.ops.post_recv = post_recv;
    f.context.ops.poll_cq = poll_cq;
    f.id.verbs = &f.context;
    f.id.route.addr.src_sin.sin_family = AF_INET; /* another address than the peer's: it is asked */
    f.id.route.addr.dst_sin = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {1}};
    f.t.id = &f.id;
    f.t.socket.fd = FD;
    f.t.socket.type = SOCK_STREAM;
    f.t.sizes = (struct stream_sizes){.receive = BUFFER,
                                      .send = BUFFER,
                                      .send_queue = DEVICE_QUEUE,
                                      .receive_queue = DEVICE_QUEUE,
                                      .inline_len = INLINE_LEN,
                                      .maps = MAPS};
    pthread_mutex_init(&f.t.socket.lock, NULL);
    pthread_mutex_init(&f.t.sending, NULL);
    pthread_mutex_init(&f.t.receiving, NULL);
    list_init(&f.t.accepted);
    stream_init_maps(&f.t);
}

static void try_stream(struct input *in)
{
    begin();
    if (stream_allocate(&f.t) == 0 && hear_hello(in)) {
        f.t.state = (in->len & 1) != 0 ? STREAM_CONNECTED : STREAM_ACCEPTING;
        for (unsigned i = 0; i < STEPS_MAX && in->len > 0; i++) {
            step(in);
            check();
        }
        stream_close(&f.t.socket);
    }
    stream_release(&f.t);
}

/* What is read is what would be written for it. */
static void try_datagram(const struct input *in)
{
    struct datagram_udp_header header, header_again;
    struct endpoint source, again;
    uint8_t bytes[DATAGRAM_UDP_HEADER_MAX];
    size_t len = datagram_header_read(in->bytes, in->len, &source);

    assert(len <= in->len && len <= DATAGRAM_HEADER_MAX);
    if (len > 0) {
        assert(datagram_header_write(&source, bytes) == len);
        assert(datagram_header_read(bytes, len, &again) == len);
        assert(again.port == source.port && gid_equal(&again.gid, &source.gid));
    }
    len = datagram_udp_header_read(in->bytes, in->len, &header);
    assert(len <= in->len && len <= DATAGRAM_UDP_HEADER_MAX);
    if (len > 0) {
        assert(datagram_udp_header_write(&header, bytes) == len);
        assert(datagram_udp_header_read(bytes, len, &header_again) == len);
        assert(header.qpn == header_again.qpn && header.op == header_again.op);
        assert(gid_equal(&header.local.gid, &header_again.local.gid));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct input in = {bytes, len};

    if (len == 0)
        return 0;
    if (take(&in, 1) == 0)
        try_stream(&in);
    else
        try_datagram(&in);
    return 0;
}
