/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Frames as a packet socket shows them, whatever stands in them, read alone and by a link whose
 * packet socket is one end of a pair. A frame is either taken, and then its headers are the ones
 * that RoCEv2 would write for what was read, or one counter says why not. Each datagram that came
 * has one fate: the engine gets it, with an ICRC that is right for the frame, or a counter goes up.
 *
 * Input: for each frame a byte of what is put right in it (so that it gets further), two bytes of
 * length, and the frame: struct virtio_net_hdr, Ethernet, IP, UDP.
 */
#include <assert.h>
#include <linux/if_ether.h>
#include <linux/virtio_net.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "link/raw_frame.h"
#include "link/udp_private.h"
#include "base/bytes.h"
#include "wire/icrc.h"
#include "wire/ip.h"
#include "wire/packet.h"

#define SLOT 7u
#define FRAMES_MAX 16u
#define L3_AT (sizeof(struct virtio_net_hdr) + ETH_HLEN)

/* What is put right. */
enum repair {
    REPAIR_IPV4_CHECKSUM = 1,
    REPAIR_UDP_CHECKSUM = 2,
    REPAIR_ICRCS = 4,
};

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct {
    struct udp *udp;
    int wire; /* what is written there arrives */
    struct raw_frame frame;
    uint32_t offset;    /* in the frame's payload, of what the engine got last */
    uint32_t delivered; /* of this frame */
} f;

/* --- what is put right --- */

static void repair_icrcs(uint8_t *l3, size_t l3_len, const struct raw_frame *r)
{
    const uint32_t step = r->arrival.segment_len ? r->arrival.segment_len : r->arrival.len;
    struct icrc_flow flow;
    uint16_t id = r->identification;

    icrc_flow_init(&flow, &r->arrival.src, &r->arrival.dst);
    for (uint32_t at = 0; at < r->arrival.len; at += step, id++) {
        const uint32_t left = r->arrival.len - at;
        const uint32_t len = step < left ? step : left;
        uint8_t *payload = l3 + l3_len + UDP_LEN + at;

        if (len >= BTH_LEN + ICRC_LEN && len <= PACKET_HEADERS_MAX + PACKET_PAYLOAD_MAX)
            store_le32(payload + len - ICRC_LEN,
                       icrc_compute(&flow, r->arrival.src_port, id, payload, len - ICRC_LEN));
    }
}

static void repair(uint8_t *frame, size_t len, unsigned what)
{
    uint8_t *l3 = frame + L3_AT;
    struct link_counters ignored = {0};
    struct raw_frame r;
    struct ip_header ip;
    size_t l3_len;

    if (len < L3_AT || ip_read(l3, len - L3_AT, &ip) != IP_FAULT_NONE)
        return;
    l3_len = ip.header_len;
    if (ip.ipv4 && (what & REPAIR_IPV4_CHECKSUM) != 0) {
        uint32_t sum = 0;

        store_be16(l3 + 10, 0);
        for (size_t i = 0; i < l3_len; i += 2)
            sum += load_be16(l3 + i);
        sum = (sum & 0xffff) + (sum >> 16);
        store_be16(l3 + 10, (uint16_t) ~(sum + (sum >> 16)));
    }
    if (ip.payload_len < UDP_LEN)
        return;
    if ((what & REPAIR_UDP_CHECKSUM) != 0)
        store_be16(l3 + l3_len + 6, 0);
    if ((what & REPAIR_ICRCS) != 0 && raw_frame_read(frame, len, &ignored, &r))
        repair_icrcs(l3, l3_len, &r);
    if ((what & REPAIR_UDP_CHECKSUM) != 0 && (what & REPAIR_IPV4_CHECKSUM) != 0)
        store_be16(l3 + l3_len + 6, udp_checksum(&ip, l3 + l3_len, ip.payload_len));
}

/* --- a frame by itself --- */

static uint64_t sum_counters(const struct link_counters *c)
{
    uint64_t sum = 0;

#define ADD(name, text) sum += c->name;
    LINK_COUNTERS(ADD)
#undef ADD
    return sum;
}

/* The headers that a sender of what was read would have written. */
static void check_headers(const uint8_t *l3, const struct raw_frame *r)
{
    const struct arrival *a = &r->arrival;
    const struct ip_header ip = {
        .ipv4 = gid_is_ipv4(&a->dst),
        .src = a->src,
        .dst = a->dst,
        .traffic_class = a->traffic_class,
        .hop_limit = a->hop_limit,
        .protocol = IP_PROTOCOL_UDP,
        .flow_label = r->flow_label,
        .identification = r->identification,
        .dont_fragment = true,
        .payload_len = (uint16_t)(UDP_LEN + a->len),
    };
    uint8_t written[RAW_HEADERS_MAX];
    const size_t l3_len = ip_write(&ip, written);
    const struct udp_header udp = {
        .src_port = a->src_port,
        .dst_port = ROCE_UDP_PORT,
        .len = (uint16_t)(UDP_LEN + a->len),
        .checksum = load_be16(l3 + l3_len + 6),
    };

    if (ip.ipv4) /* 0 and 0xffff mean the same */
        memcpy(written + 10, l3 + 10, 2);
    udp_write(&udp, written + l3_len);
    assert(memcmp(written, l3, l3_len + UDP_LEN) == 0);
    assert(r->bytes == l3 + l3_len + UDP_LEN);
}

static bool check_frame(const uint8_t *bytes, size_t len, struct raw_frame *r)
{
    static const uint8_t untouched;
    struct link_counters c = {0};

    *r = (struct raw_frame){.bytes = &untouched};
    if (!raw_frame_read(bytes, len, &c, r)) {
        assert(sum_counters(&c) == 1);
        assert(r->bytes == &untouched && r->arrival.len == 0);
        return false;
    }
    assert(sum_counters(&c) == 0);
    assert(gid_is_ipv4(&r->arrival.src) == gid_is_ipv4(&r->arrival.dst));
    assert(gid_is_ipv4(&r->arrival.dst) == (load_be16(bytes + L3_AT - 2) == ETH_P_IP));
    assert(!gid_is_multicast(&r->arrival.src));
    assert(r->bytes > bytes && r->arrival.len <= (size_t)(bytes + len - r->bytes));
    check_headers(bytes + L3_AT, r);
    return true;
}

/* --- a frame in a link --- */

static void engine_gets(void *context, const struct datagram *d)
{
    const struct raw_frame *r = &f.frame;
    const uint32_t step = r->arrival.segment_len ? r->arrival.segment_len : r->arrival.len;
    struct icrc_flow flow;
    uint16_t id = r->identification;

    (void)context;
    for (; f.offset < r->arrival.len; f.offset += step) {
        const uint32_t left = r->arrival.len - f.offset;

        if (d->len == (step < left ? step : left) &&
            memcmp(d->bytes, r->bytes + f.offset, d->len) == 0)
            break;
    }
    assert(f.offset < r->arrival.len); /* in order, each once */
    id = (uint16_t)(id + f.offset / step);
    f.offset += step;
    f.delivered++;
    assert(d->len >= BTH_LEN + ICRC_LEN);
    assert(gid_equal(&d->src, &r->arrival.src) && gid_equal(&d->dst, &r->arrival.dst));
    assert(d->flow_label == r->flow_label && d->src_port == r->arrival.src_port);
    assert(d->bytes[5] == SLOT || d->bytes[5] == SLOT_QP1 || d->bytes[5] == SLOT_MULTICAST ||
           gid_is_multicast(&d->dst));
    icrc_flow_init(&flow, &d->src, &d->dst);
    assert(load_le32(d->bytes + d->len - ICRC_LEN) ==
           icrc_compute(&flow, d->src_port, id, d->bytes, d->len - ICRC_LEN));
}

static void pass_frame(const uint8_t *bytes, size_t len)
{
    struct link_counters *c = &f.udp->link.counters;
    const ssize_t written = write(f.wire, bytes, len);
    uint32_t count;

    assert(written == (ssize_t)len);
    memset(c, 0, sizeof(*c));
    f.offset = f.delivered = 0;
    f.udp->favourite = SOURCE_RAW_IPV4;
    count = link_receive(&f.udp->link, 1, engine_gets, NULL);
    assert(count > 0 && count == c->rcv_datagrams);
    assert(c->rcv_datagrams == f.delivered + c->icrc_error + c->too_short + c->stray_dropped +
                                   c->raw_header + c->raw_length + c->raw_checksum +
                                   c->raw_fragment + c->raw_hop_limit + c->raw_address +
                                   c->raw_giant);
    assert(c->rcv_calls == 1);
}

/* A link as it is with UROCE_RAW, but for the kernel's sockets: nothing of this host, no routes. */
static void open_link(void)
{
    static const struct link_ops ops = {.receive = udp_receive};
    int pair[2];
    int room = 4 << 20;
    struct udp *u = calloc(1, sizeof(*u));
    int failed;

    assert(u != NULL);
    for (uint32_t i = 0; i < SOURCE_VISITORS; i++)
        u->source[i].fd = -1;
    u->config.raw = true;
    u->slot = SLOT;
    u->inbox = -1;
    u->routes.socket = -1;
    udp_host_init(u);
    failed = group_alone(&u->group);
    assert(failed == 0);
    failed = udp_receive_prepare(u);
    assert(failed == 0);
    u->epoll = epoll_create1(EPOLL_CLOEXEC);
    failed = socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair);
    assert(failed == 0);
    setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    u->source[SOURCE_RAW_IPV4].fd = pair[0];
    failed = udp_watch(u, SOURCE_RAW_IPV4, pair[0]);
    assert(failed == 0);
    u->link.ops = &ops;
    f.wire = pair[1];
    f.udp = u;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (f.udp == NULL)
        open_link();
    memset(&f.udp->peers, 0, sizeof(f.udp->peers));
    for (unsigned i = 0; i < FRAMES_MAX && len > 3; i++) {
        const size_t wanted = load_be16(bytes + 1);
        const size_t frame_len = wanted < len - 3 ? wanted : len - 3;
        uint8_t *frame = malloc(frame_len); /* its own, so that ASan sees a read beyond it */

        assert(frame != NULL);
        memcpy(frame, bytes + 3, frame_len);
        repair(frame, frame_len, bytes[0]);
        if (!check_frame(frame, frame_len, &f.frame))
            f.frame = (struct raw_frame){.bytes = NULL};
        pass_frame(frame, frame_len);
        free(frame);
        bytes += 3 + frame_len;
        len -= 3 + frame_len;
    }
    return 0;
}
