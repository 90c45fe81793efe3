/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that answers with what the Linux kernel's rdma_cm said, byte for byte but for the
 * communication IDs: a plain socket on an address of its own.
 */
#include "sides.h"

#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "wire/cm.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define PEER 0x7f000009u
#define OPCODE_UD_SEND_ONLY 0x64u
#define DATAGRAM_LEN (BTH_LEN + DETH_LEN + MAD_LEN + ICRC_LEN)

/*
 * To a REQ that offered 16 READs at a time, from perftest's ib_read_bw -R on soft-RoCE (Linux 6.1):
 * captures/cm_rep_depths.pcap, what follows the DETH. Zeros follow.
 */
static const uint8_t rep_of_perftest[MAD_LEN] = {
    0x01, 0x07, 0x02, 0x03, 0x00, 0x00, 0x00, 0x00, 0xd7, 0xf4, 0xfb, 0x12, 0x01, 0x87, 0xf3,
    0x54, 0x00, 0x13, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x0b, 0x52, 0x7b, 0x11, 0x01, 0x87,
    0xf3, 0x54, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xbe, 0x00, 0x00, 0x00, 0x00, 0x00, 0xb3,
    0xd3, 0x14, 0x00, 0x80, 0x80, 0x78, 0xe0, 0x50, 0x54, 0x00, 0xff, 0xfe, 0x77, 0x00, 0x02,
};

static int open_peer(void)
{
    const struct sockaddr_in name = {
        .sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT), .sin_addr.s_addr = htonl(PEER)};
    const struct timeval patience = {.tv_sec = WAIT_MS / 1000};
    const int on = 1;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    /* Beside the sockets of uroce, which are bound to no address. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    assert_int_equal(bind(fd, (const struct sockaddr *)&name, sizeof(name)), 0);
    return fd;
}

/* The next message that comes there. */
static struct cm_message expect_message(int peer, enum cm_kind kind)
{
    uint8_t bytes[2048];
    struct cm_message message;

    assert_int_equal(recv(peer, bytes, sizeof(bytes), 0), DATAGRAM_LEN);
    assert_int_equal(cm_read(bytes + BTH_LEN + DETH_LEN, MAD_LEN, &message), 0);
    assert_int_equal(message.kind, kind);
    return message;
}

static struct gid ipv4_gid(uint32_t address)
{
    struct gid gid = {.bytes = {[10] = 0xff, [11] = 0xff}};

    store_be32(gid.bytes + 12, address);
    return gid;
}

static void say(int peer, const struct cm_message *message)
{
    const struct gid src = ipv4_gid(PEER);
    const struct gid dst = ipv4_gid(INADDR_LOOPBACK);
    const struct sockaddr_in to = loopback(ROCE_UDP_PORT);
    const struct headers h = {
        .bth = {.opcode = OPCODE_UD_SEND_ONLY,
                .pkey = 0xffff,
                .dest_qpn = GSI_QPN,
                .ack_req = true},
        .deth = {.qkey = GSI_QKEY, .src_qpn = GSI_QPN},
    };
    const size_t len = DATAGRAM_LEN - ICRC_LEN;
    uint8_t bytes[DATAGRAM_LEN];
    struct icrc_flow flow;

    icrc_flow_init(&flow, &src, &dst);
    headers_write(&h, bytes);
    cm_write(message, bytes + BTH_LEN + DETH_LEN);
    store_le32(bytes + len, icrc_compute(&flow, ROCE_UDP_PORT, 0, bytes, len));
    assert_int_equal(
        sendto(peer, bytes, sizeof(bytes), 0, (const struct sockaddr *)&to, sizeof(to)),
        sizeof(bytes));
}

static void a_peer_that_offers_more_reads_than_we_can_is_connected_with_what_we_can(void **state)
{
    struct sockaddr_in there = {
        .sin_family = AF_INET, .sin_port = htons(PORT), .sin_addr.s_addr = htonl(PEER)};
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct ibv_qp_init_attr init;
    struct ibv_device_attr device;
    struct cm_message request, reply;
    struct ibv_qp_attr attr;
    struct rdma_cm_id *id;
    int peer;

    (void)state;
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&there, 1000), 0);
    expect_and_ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
    assert_int_equal(rdma_resolve_route(id, 1000), 0);
    expect_and_ack(channel, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
    peer = open_peer();
    make_qp(id);
    assert_int_equal(rdma_connect(id, NULL), 0);
    request = expect_message(peer, CM_REQ);
    assert_int_equal(cm_read(rep_of_perftest, MAD_LEN, &reply), 0);
    assert_int_equal(reply.initiator_depth, 128);
    reply.transaction_id = request.transaction_id;
    reply.remote_comm_id = request.local_comm_id;
    say(peer, &reply);
    expect_and_ack(channel, RDMA_CM_EVENT_ESTABLISHED, 0);
    expect_message(peer, CM_RTU);
    assert_int_equal(ibv_query_device(id->verbs, &device), 0);
    assert_int_equal(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_RTS);
    assert_int_equal(attr.max_dest_rd_atomic, device.max_qp_rd_atom);
    assert_int_equal(attr.max_rd_atomic, device.max_qp_init_rd_atom);
    assert_int_equal(attr.dest_qp_num, 0xbe);
    rdma_destroy_qp(id);
    assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(channel);
    close(peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_peer_that_offers_more_reads_than_we_can_is_connected_with_what_we_can),
    };

    enter_namespace();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
