/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of streams. Those that TCP has and RDMA has no use for are taken and shown again. */
#include <endian.h>
#include <errno.h>
#include <infiniband/sa.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rdma_cma.h>
#include <rdma/rsocket.h>
#include <stdlib.h>
#include <string.h>

#include "rdmacm/keepalive.h"
#include "rdmacm/stream.h"

#define QUEUE_MAX 0xfffeu
#define SELECTOR_EXACTLY (2u << 6)
#define ROUTE_LEN_MAX 4096u

/* --- set --- */

static int set_id_flag(struct stream *t, int name, int value)
{
    return rdma_set_option(t->id, RDMA_OPTION_ID, name, &value, sizeof(value)) == 0 ? 0 : -errno;
}

static bool has_buffers(const struct stream *t)
{
    return t->receive_buffer != NULL;
}

/* Twice what is said, as the kernel's sockets; afterwards it stays. */
static void set_buffer(struct stream *t, uint32_t *size, int value)
{
    if (!has_buffers(t))
        *size = socket_buffer_size(value > 0 ? (uint64_t)value * 2 : 0);
}

static int set_socket(struct stream *t, int name, const void *value, socklen_t len, int number)
{
    struct linger linger;

    switch (name) {
    case SO_REUSEADDR:
        t->options.reuse_address = number != 0;
        if (t->state == STREAM_IDLE)
            set_id_flag(t, RDMA_OPTION_ID_REUSEADDR, number);
        return 0;
    case SO_RCVBUF:
        set_buffer(t, &t->sizes.receive, number);
        return 0;
    case SO_SNDBUF:
        set_buffer(t, &t->sizes.send, number);
        return 0;
    case SO_LINGER:
        if (len < sizeof(linger))
            return -EINVAL;
        memcpy(&linger, value, sizeof(linger));
        t->options.linger = linger;
        return 0;
    case SO_KEEPALIVE:
        t->options.keepalive = number != 0;
        keepalive_update(t);
        return 0;
    case SO_OOBINLINE:
        t->options.out_of_band_inline = number != 0;
        return 0;
    default:
        return -ENOPROTOOPT;
    }
}

static int set_tcp(struct stream *t, int name, int number)
{
    switch (name) {
    case TCP_NODELAY:
        t->options.no_delay = number != 0;
        return 0;
    case TCP_KEEPIDLE:
        if (number <= 0)
            return -EINVAL;
        t->options.keepalive_s = number;
        keepalive_update(t);
        return 0;
    case TCP_KEEPCNT: /* the transport repeats by its own count and time */
    case TCP_KEEPINTVL:
    case TCP_MAXSEG:
    case TCP_CONGESTION:
        return 0;
    default:
        return -ENOPROTOOPT;
    }
}

static int set_route(struct stream *t, const void *value, socklen_t len)
{
    void *copy;

    if (len == 0 || len > ROUTE_LEN_MAX)
        return -EINVAL;
    copy = malloc(len);
    if (copy == NULL)
        return -ENOMEM;
    memcpy(copy, value, len);
    free(t->route);
    t->route = copy;
    t->route_len = len;
    return 0;
}

static uint32_t at_most(int value, uint32_t most)
{
    return value < 0 ? 0 : (uint32_t)value < most ? (uint32_t)value : most;
}

static int set_rdma(struct stream *t, int name, const void *value, socklen_t len, int number)
{
    if (has_buffers(t))
        return -EINVAL;
    switch (name) {
    case RDMA_SQSIZE:
        t->sizes.send_queue = at_most(number, QUEUE_MAX);
        return 0;
    case RDMA_RQSIZE:
        t->sizes.receive_queue = at_most(number, QUEUE_MAX);
        return 0;
    case RDMA_INLINE:
        t->sizes.inline_len = at_most(number, QUEUE_MAX);
        return 0;
    case RDMA_IOMAPSIZE:
        t->sizes.maps = stream_maps_round(at_most(number, UINT16_MAX));
        return 0;
    case RDMA_ROUTE:
        return set_route(t, value, len);
    default:
        return -ENOPROTOOPT;
    }
}

static int set_tos(struct stream *t, int number)
{
    uint8_t tos = (uint8_t)number;

    t->options.tos = number;
    return rdma_set_option(t->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)) == 0
               ? 0
               : -errno;
}

static int set_option(struct stream *t, int level, int name, const void *value, socklen_t len)
{
    int number = 0;

    memcpy(&number, value, len < sizeof(number) ? len : sizeof(number));
    switch (level) {
    case SOL_SOCKET:
        return set_socket(t, name, value, len, number);
    case IPPROTO_TCP:
        return set_tcp(t, name, number);
    case IPPROTO_IP:
        return name == IP_TOS ? set_tos(t, number) : -ENOPROTOOPT;
    case IPPROTO_IPV6:
        if (name == IPV6_TCLASS)
            return set_tos(t, number);
        if (name != IPV6_V6ONLY)
            return -ENOPROTOOPT;
        t->options.one_family = number != 0;
        return set_id_flag(t, RDMA_OPTION_ID_AFONLY, number);
    case SOL_RDMA:
        return set_rdma(t, name, value, len, number);
    default:
        return -ENOPROTOOPT;
    }
}

int stream_set_option(struct rsock *s, int level, int name, const void *value, socklen_t len)
{
    struct stream *t = stream_of(s);
    int result;

    pthread_mutex_lock(&s->lock);
    result = set_option(t, level, name, value, len);
    pthread_mutex_unlock(&s->lock);
    return result;
}

/* --- get --- */

/* As much of it as fits. */
static int show(void *value, socklen_t *len, const void *shown, size_t shown_len)
{
    if (*len > shown_len)
        *len = (socklen_t)shown_len;
    memcpy(value, shown, *len);
    return 0;
}

static int show_number(void *value, socklen_t *len, int number)
{
    return show(value, len, &number, sizeof(number));
}

static int take_error(struct stream *t, void *value, socklen_t *len)
{
    const int error = t->socket.error;

    t->socket.error = 0;
    return show_number(value, len, error);
}

static int get_socket(struct stream *t, int name, void *value, socklen_t *len)
{
    switch (name) {
    case SO_ERROR:
        return take_error(t, value, len);
    case SO_REUSEADDR:
        return show_number(value, len, t->options.reuse_address);
    case SO_KEEPALIVE:
        return show_number(value, len, t->options.keepalive);
    case SO_OOBINLINE:
        return show_number(value, len, t->options.out_of_band_inline);
    case SO_RCVBUF:
        return show_number(value, len, (int)t->sizes.receive);
    case SO_SNDBUF:
        return show_number(value, len, (int)t->sizes.send);
    case SO_LINGER:
        return show(value, len, &t->options.linger, sizeof(t->options.linger));
    case SO_BROADCAST:
        return show_number(value, len, 0);
    case SO_ACCEPTCONN:
        return show_number(value, len, t->state == STREAM_LISTENING);
    default:
        return -ENOPROTOOPT;
    }
}

static int segment_of(const struct stream *t)
{
    const struct rdma_route *route = &t->id->route;

    return route->num_paths > 0 ? 128 << route->path_rec->mtu : 2048;
}

static int show_info(const struct stream *t, void *value, socklen_t *len)
{
    struct tcp_info info = {
        .tcpi_state = TCP_CLOSE,
        .tcpi_snd_cwnd = t->sizes.send_queue,
        .tcpi_snd_mss = (uint32_t)segment_of(t),
    };

    if (t->state == STREAM_CONNECTED)
        info.tcpi_state = TCP_ESTABLISHED;
    if (t->state == STREAM_LISTENING)
        info.tcpi_state = TCP_LISTEN;
    return show(value, len, &info, sizeof(info));
}

static int get_tcp(const struct stream *t, int name, void *value, socklen_t *len)
{
    switch (name) {
    case TCP_NODELAY:
        return show_number(value, len, t->options.no_delay);
    case TCP_KEEPIDLE:
        return show_number(value, len, t->options.keepalive_s);
    case TCP_KEEPCNT:
    case TCP_KEEPINTVL:
        return show_number(value, len, 1);
    case TCP_MAXSEG:
        return show_number(value, len, segment_of(t));
    case TCP_CONGESTION:
        return show(value, len, "rdma", sizeof("rdma"));
    case TCP_INFO:
        return show_info(t, value, len);
    default:
        return -ENOPROTOOPT;
    }
}

/* The path, as a record of the subnet administrator. */
static struct ibv_path_data path_data(const struct ibv_sa_path_rec *r)
{
    return (struct ibv_path_data){
        .path =
            {
                .dgid = r->dgid,
                .sgid = r->sgid,
                .flowlabel_hoplimit = htobe32(be32toh(r->flow_label) << 8 | r->hop_limit),
                .tclass = r->traffic_class,
                .reversible_numpath = (uint8_t)(r->reversible << 7 | 1),
                .pkey = r->pkey,
                .mtu = (uint8_t)(r->mtu | SELECTOR_EXACTLY),
                .rate = (uint8_t)(r->rate | SELECTOR_EXACTLY),
                .packetlifetime = (uint8_t)(r->packet_life_time | SELECTOR_EXACTLY),
            },
    };
}

static int show_route(const struct stream *t, void *value, socklen_t *len)
{
    struct ibv_path_data data;

    if (t->route != NULL)
        return *len < t->route_len ? -EINVAL : show(value, len, t->route, t->route_len);
    if (*len < sizeof(data))
        return -EINVAL;
    if (t->id->route.num_paths == 0) {
        *len = 0;
        return 0;
    }
    data = path_data(t->id->route.path_rec);
    return show(value, len, &data, sizeof(data));
}

static int get_rdma(const struct stream *t, int name, void *value, socklen_t *len)
{
    switch (name) {
    case RDMA_SQSIZE:
        return show_number(value, len, (int)t->sizes.send_queue);
    case RDMA_RQSIZE:
        return show_number(value, len, (int)t->sizes.receive_queue);
    case RDMA_INLINE:
        return show_number(value, len, (int)t->sizes.inline_len);
    case RDMA_IOMAPSIZE:
        return show_number(value, len, (int)t->sizes.maps);
    case RDMA_ROUTE:
        return show_route(t, value, len);
    default:
        return -ENOPROTOOPT;
    }
}

static int get_option(struct stream *t, int level, int name, void *value, socklen_t *len)
{
    switch (level) {
    case SOL_SOCKET:
        return get_socket(t, name, value, len);
    case IPPROTO_TCP:
        return get_tcp(t, name, value, len);
    case IPPROTO_IP:
        return name == IP_TOS ? show_number(value, len, t->options.tos) : -ENOPROTOOPT;
    case IPPROTO_IPV6:
        if (name == IPV6_TCLASS)
            return show_number(value, len, t->options.tos);
        return name == IPV6_V6ONLY ? show_number(value, len, t->options.one_family) : -ENOPROTOOPT;
    case SOL_RDMA:
        return get_rdma(t, name, value, len);
    default:
        return -ENOPROTOOPT;
    }
}

int stream_get_option(struct rsock *s, int level, int name, void *value, socklen_t *len)
{
    struct stream *t = stream_of(s);
    int result;

    pthread_mutex_lock(&s->lock);
    if (level == SOL_SOCKET && name == SO_ERROR)
        stream_progress(t);
    result = get_option(t, level, name, value, len);
    pthread_mutex_unlock(&s->lock);
    return result;
}
