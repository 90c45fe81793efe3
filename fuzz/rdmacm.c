/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The way of a peer's bytes into an application of RDMA CM: a real connection manager, whose events
 * this library turns into its own, and an application with listeners of both kinds that reads
 * every byte that an event offers. Peers send messages with likely IDs and
 * private data of any kind. The node, its devices and queue pairs are not there.
 *
 * Input: steps of a byte each with their arguments.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "mad.h"
#include "rdmacm/address.h"
#include "rdmacm/channel.h"
#include "rdmacm/id.h"
#include "rdmacm/keepalive.h"
#include "rdmacm/multicast.h"
#include "rdmacm/process.h"
#include "rdmacm/socket.h"
#include "verbs/event_fd.h"
#include "verbs/inside.h"

#define PORT 0x1234u
#define IDS_MAX 16u
#define CM_IDS_MAX 24u
#define STEPS_MAX 200u

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct {
    struct cm *cm;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *ids[IDS_MAX];
    uint64_t now;
    uint64_t sum; /* of the bytes that events offered */
    uint8_t last[FUZZ_DATAGRAM_LEN];
} f;

static const struct gid us = {{0xfd, [15] = 1}};
static const struct gid peer = {{0xfd, [15] = 2}};
static struct open_device device = {.responder_resources = 16, .initiator_depth = 16};
static struct ibv_context context;
static struct ibv_pd pd;

/* --- what is not there --- */

int device_find(const struct gid *gid, uint32_t scope_id, struct place *out)
{
    device.context = &context;
    device.pd = &pd;
    *out = (struct place){.device = &device, .gid = *gid, .ifindex = scope_id};
    return gid_equal(gid, &us) ? 0 : -ENODEV;
}

bool device_is_alone(const struct open_device *d)
{
    (void)d;
    return true;
}

enum ibv_mtu device_mtu(const struct open_device *d)
{
    (void)d;
    return IBV_MTU_1024;
}

void devices_forget(void)
{
}

void sockets_in_child(void)
{
}

void keepalive_in_child(void)
{
}

void keepalive_look(struct node *n)
{
    (void)n;
}

int id_qp_ready(struct id_handle *h)
{
    assert(h->agreed.known);
    return 0;
}

void id_qp_fail(struct id_handle *h)
{
    (void)h;
}

struct ibv_ah_attr id_address(const struct id_handle *h, const struct path *path)
{
    (void)h;
    (void)path;
    return (struct ibv_ah_attr){0};
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *domain, struct ibv_qp_init_attr *attr)
{
    (void)id;
    (void)domain;
    (void)attr;
    return -1;
}

void membership_prepare(struct membership *m, struct rdma_cm_event *event)
{
    (void)m;
    (void)event;
}

void memberships_free(struct id_handle *h)
{
    (void)h;
}

static struct node *fuzz_node(void)
{
    return (struct node *)&f;
}

static void nothing(struct node *n)
{
    (void)n;
}

static uint64_t now(void)
{
    return f.now;
}

static struct cm *manager(struct node *n)
{
    (void)n;
    return f.cm;
}

static void set_handler(node_cm_event_fn fn)
{
    (void)fn;
}

static void set_alarm_handler(node_alarm_fn fn)
{
    (void)fn;
}

static int take_service(struct node *n, uint64_t service_id, const struct gid *local)
{
    (void)n;
    (void)service_id;
    (void)local;
    return 0;
}

static void give_service(struct node *n, uint64_t service_id, const struct gid *local)
{
    take_service(n, service_id, local);
}

const struct inside *uroce_inside_4(void)
{
    static const struct inside table = {
        .node_get = fuzz_node,
        .node_lock = nothing,
        .node_unlock = nothing,
        .node_now = now,
        .node_before_sleep = nothing,
        .node_cm = manager,
        .node_set_cm_handler = set_handler,
        .node_set_alarm_handler = set_alarm_handler,
        .node_take_service = take_service,
        .node_give_service = give_service,
        .cm_id_new = cm_id_new,
        .cm_id_free = cm_id_free,
        .cm_id_set_patience = cm_id_set_patience,
        .cm_id_set_user = cm_id_set_user,
        .cm_id_user = cm_id_user,
        .cm_id_path = cm_id_path,
        .cm_listen = cm_listen,
        .cm_connect = cm_connect,
        .cm_accept = cm_accept,
        .cm_reject = cm_reject,
        .cm_establish = cm_establish,
        .cm_note_traffic = cm_note_traffic,
        .cm_disconnect = cm_disconnect,
        .cm_resolve = cm_resolve,
        .cm_resolve_reply = cm_resolve_reply,
    };

    return &table;
}

/* --- the application --- */

static bool hold(struct rdma_cm_id *id)
{
    for (unsigned i = 0; i < IDS_MAX; i++) {
        if (f.ids[i] == NULL) {
            f.ids[i] = id;
            return true;
        }
    }
    return false;
}

static struct rdma_cm_id *new_id(enum rdma_port_space ps)
{
    struct rdma_cm_id *id;

    if (rdma_create_id(f.channel, &id, &f, ps) != 0)
        return NULL;
    if (hold(id))
        return id;
    rdma_destroy_id(id);
    return NULL;
}

static void listen_on(enum rdma_port_space ps)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
    struct rdma_cm_id *id = new_id(ps);

    if (id == NULL || rdma_bind_addr(id, (struct sockaddr *)&any) != 0 || rdma_listen(id, 4) != 0)
        abort();
}

/* As rdma_resolve_addr and rdma_resolve_route would, without asking the kernel. */
static void begin(struct input *in)
{
    struct rdma_cm_id *id = new_id(take(in) & 1u ? RDMA_PS_TCP : RDMA_PS_UDP);
    const struct endpoint src = {.family = AF_INET6, .gid = us, .port = 5};
    const struct endpoint dst = {.family = AF_INET6, .gid = peer, .port = PORT};
    struct id_handle *h;
    struct place place;

    if (id == NULL)
        return;
    h = id_of(id);
    device_find(&us, 0, &place);
    h->state = ID_ROUTE_RESOLVED;
    endpoint_write(&src, &id->route.addr.src_storage);
    endpoint_write(&dst, &id->route.addr.dst_storage);
    id_set_place(h, &place);
    h->path = (struct path){.src = us, .dst = peer, .hop_limit = 64};
    id_describe_path(h);
    rdma_connect(id, NULL);
}

static void act(struct input *in)
{
    struct rdma_cm_id **id = &f.ids[take(in) % IDS_MAX];

    if (*id == NULL)
        return;
    switch (take(in) % 6u) {
    case 0:
        rdma_accept(*id, NULL);
        return;
    case 1:
        rdma_reject(*id, "no", 2);
        return;
    case 2:
        rdma_establish(*id);
        return;
    case 3:
        rdma_disconnect(*id);
        return;
    case 4:
        rdma_notify(*id, IBV_EVENT_COMM_EST);
        return;
    default:
        rdma_destroy_id(*id);
        *id = NULL;
        return;
    }
}

static void read_private_data(const void *data, uint8_t len)
{
    const uint8_t *bytes = data;

    assert(len <= CM_PRIVATE_MAX);
    for (unsigned i = 0; i < len; i++)
        f.sum += bytes[i];
}

static void fetch(void)
{
    struct rdma_cm_event *event;

    while (!event_fd_blocks(f.channel->fd)) {
        /* There may be none: a request that its listener must not see is no event. */
        fcntl(f.channel->fd, F_SETFL, O_NONBLOCK);
        if (rdma_get_cm_event(f.channel, &event) != 0)
            return;
        assert(event->event <= RDMA_CM_EVENT_TIMEWAIT_EXIT);
        if (event->id->qp_type == IBV_QPT_UD)
            read_private_data(event->param.ud.private_data, event->param.ud.private_data_len);
        else
            read_private_data(event->param.conn.private_data, event->param.conn.private_data_len);
        if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
            struct rdma_cm_id *id = event->id;

            assert(id->qp_type == event->listen_id->qp_type);
            rdma_ack_cm_event(event);
            if (!hold(id))
                rdma_destroy_id(id);
        } else {
            rdma_ack_cm_event(event);
        }
    }
}

/* --- the peer --- */

static void receive(const uint8_t *bytes)
{
    const struct datagram d = {.src = peer, .dst = us, .bytes = bytes, .len = FUZZ_DATAGRAM_LEN};
    struct cm_event event;

    cm_receive(f.cm, &d, f.now);
    while (cm_event_next(f.cm, &event))
        channel_take_event(&event);
    assert(cm_id_count(f.cm) <= CM_IDS_MAX);
}

static void receive_message(struct input *in)
{
    const uint32_t ps = take(in) & 1u ? CM_PORT_SPACE_TCP : CM_PORT_SPACE_UDP;
    struct cm_message m = take_message(in, cm_service_id(ps, PORT));
    const struct cm_ip_header ip = {.ip_version = take(in) & 1u ? 6 : 4, .src_port = take(in)};
    const struct rdma_cm_id *id = f.ids[take(in) % IDS_MAX];
    uint8_t bytes[FUZZ_DATAGRAM_LEN] = {0};

    if (id != NULL && id_of((struct rdma_cm_id *)(uintptr_t)id)->cm != NULL) {
        m.remote_comm_id = cm_id_comm_id(id_of((struct rdma_cm_id *)(uintptr_t)id)->cm);
        if (m.kind == CM_SIDR_REP)
            m.local_comm_id = m.remote_comm_id;
    }
    if (m.kind == CM_REQ || m.kind == CM_SIDR_REQ)
        cm_ip_header_write(&ip, m.private_data);
    write_headers(bytes);
    cm_write(&m, bytes + FUZZ_MAD_AT);
    damage(in, bytes);
    receive(bytes);
}

static void receive_last(struct input *in)
{
    uint8_t bytes[FUZZ_DATAGRAM_LEN];

    memcpy(bytes, f.last, sizeof(bytes));
    damage(in, bytes);
    receive(bytes);
}

/* --- both --- */

static void pass(uint64_t ns)
{
    struct datagram_batch b = {.buffer = f.last, .capacity = sizeof(f.last), .count_max = 1};
    struct cm_event event;

    while (cm_transmit(f.cm, &b) > 0)
        continue;
    f.now += ns;
    cm_advance(f.cm, f.now);
    while (cm_event_next(f.cm, &event))
        channel_take_event(&event);
}

static void step(struct input *in)
{
    switch (take(in) % 8u) {
    case 0:
    case 1:
        receive_message(in);
        return;
    case 2:
        receive_last(in);
        return;
    case 3:
    case 4:
        fetch();
        return;
    case 5:
        begin(in);
        return;
    case 6:
        pass(UINT64_C(1) << take(in) % 38u);
        return;
    default:
        act(in);
        return;
    }
}

static void end(void)
{
    for (unsigned i = 0; i < IDS_MAX; i++)
        if (f.ids[i] != NULL)
            rdma_destroy_id(f.ids[i]);
    assert(event_fd_blocks(f.channel->fd));
    for (unsigned n = 0; cm_deadline(f.cm) != CM_NEVER; n++) {
        assert(n < 100000);
        pass(cm_deadline(f.cm) - f.now);
    }
    assert(cm_id_count(f.cm) == 0);
    cm_free(f.cm);
    rdma_destroy_event_channel(f.channel);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const struct cm_config config = {.slot = 1, .ids_max = CM_IDS_MAX};
    struct input in = {bytes, len};

    memset(&f, 0, sizeof(f));
    f.now = 1;
    write_headers(f.last);
    f.channel = rdma_create_event_channel();
    if (f.channel == NULL || cm_new(&config, &f.cm) != 0)
        abort();
    listen_on(RDMA_PS_TCP);
    listen_on(RDMA_PS_UDP);
    for (unsigned i = 0; i < STEPS_MAX && in.left > 0; i++)
        step(&in);
    end();
    return 0;
}
